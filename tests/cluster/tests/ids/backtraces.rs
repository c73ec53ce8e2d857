//! What clients receive if `RUST_BACKTRACE` is set in the environment of the server.

use harness::*;

/// An error of PostgreSQL that passes through our functions is the same as elsewhere, and errors of our own have no
/// backtrace either.
#[test]
fn a_backtrace_does_not_reach_clients() {
    let cluster = Cluster::builder().worker(1).set("snowflake_id.max_wait", "1min").clock().stopped();
    cluster.start_server_by(|mut pg_ctl| {
        pg_ctl.env("RUST_BACKTRACE", "1");
        pg_ctl
    });
    let mut client = cluster.connect();
    client.run("CREATE EXTENSION snowflake_id");
    wait_for_first_id(&mut client);
    cluster.set_clock(-30.0);
    client.run("SET statement_timeout = '200ms'");
    let mut detail = |statement: &str| {
        let error = client.batch_execute(statement).unwrap_err();
        let error = error.as_db_error().unwrap();
        (error.code().code().to_owned(), error.detail().unwrap_or_default().to_owned())
    };
    // This call waits for the clock until it is canceled.
    assert_eq!(detail("SELECT snowflake_nextval()"), ("57014".into(), String::new()));
    assert_eq!(
        detail("SELECT snowflake_batch(-1)"),
        ("22023".into(), "The count must be between 1 and 1000000.".into())
    );
}
