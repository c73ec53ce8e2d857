//! Options that a program may choose, and connection strings that are refused.

use std::future::Future;
use std::net::TcpListener;
use std::time::Duration;

use snowflake_id_client::{Client, Error, Options};
use tokio::time::timeout;

async fn waits(future: impl Future) {
    assert!(timeout(Duration::from_millis(200), future).await.is_err(), "the call did not wait");
}

/// A call may wait for as long as a `Duration` can say.
#[tokio::test]
async fn waits_without_end() {
    // The host accepts connections, and never answers.
    let host = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = host.local_addr().unwrap().port();
    let string = format!("hostaddr=127.0.0.1 port={port} user=program connect_timeout={}", i64::MAX);
    let options = Options::new(&string).start_within(Duration::MAX).max_wait(Duration::MAX);
    waits(Client::start(options.clone())).await;
    let client = Client::start(options.numbers_only()).await.unwrap();
    waits(client.next_id_or_wait()).await;
    waits(client.segment("orders").next_number()).await;
}

/// Nothing in a connection string is ignored. The error names the parameter.
#[tokio::test]
async fn connection_strings_that_are_refused() {
    for (string, said) in [
        ("user=program", "host"),
        ("host='' user=program", "a host is empty"),
        ("host=a, user=program", "a host is empty"),
        ("host=a,b hostaddr=127.0.0.1", "could not match 2 host names to 1 hostaddr values"),
        ("host=a,b,c port=5432,5433", "could not match 2 port numbers to 3 hosts"),
        ("host=a target_session_attrs=read-only", "target_session_attrs=read-only"),
        ("host=a sslmode=require", "sslmode=require needs a TLS connector"),
        ("host=a sslnegotiation=direct", "sslnegotiation=direct needs sslmode=require"),
        ("host=a channel_binding=require", "channel_binding=require needs TLS"),
        ("host=a keepalives_idle=2000000", "keepalives"),
        ("host=a sslmode=verify-full", "sslmode"),
        ("host=a passfile=/passwords", "passfile"),
    ] {
        match Client::start(Options::new(string).numbers_only()).await.err() {
            Some(Error::Options(problem)) => assert!(problem.contains(said), "{string}: {problem}"),
            other => panic!("{string}: {other:?}"),
        }
    }
}
