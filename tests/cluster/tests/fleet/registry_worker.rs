//! The registry worker is terminated, there is no free process for it, or its setting is reloaded at the start.

use std::thread;
use std::time::{Duration, Instant};

use harness::*;

/// The registry worker is terminated in several ways, and its setting is changed.
#[test]
fn the_registry_worker_ends() {
    let fleet = Fleet::start(LASTING_LEASES);
    let server = fleet.server().short_horizon().start();
    create_orders(&server);
    let worker = leased_worker(&server);
    let mut client = server.connect();
    let (handed_out, ()) = under_load(&server, || {
        let pid = registry_worker(&server);
        client.execute("SELECT pg_terminate_backend($1)", &[&pid]).unwrap();
        eventually("another worker", || registry_worker(&server) != pid);
        assert_renewed(&server);
    });
    let mut all = handed_out.all();
    let pid = registry_worker(&server);
    kill("KILL", pid);
    server.wait_until_up();
    eventually("another worker", || {
        background_pid(&server, "snowflake_id registry").filter(|other| *other != pid)
    });
    let mut client = server.connect();
    assert_eq!(leased_worker(&server), worker);
    all.extend(ids(&mut client, "SELECT snowflake_batch(1000)"));
    assert_renewed(&server);

    // Invalid values are refused, and the state does not change.
    let mut so_far = 0;
    for wrong in ["host=registry nonsense=1", "host='", "postgresql://[", "host=registry password=secret"] {
        server.change("snowflake_id.registry", wrong);
        let refusals =
            || server.log().matches("invalid value for parameter \"snowflake_id.registry\"").count();
        eventually("the refusal", || refusals() > so_far);
        so_far = refusals();
        assert_renewed(&server);
        let shown: String = single(&mut server.connect(), "SHOW snowflake_id.registry");
        assert_eq!(shown, fleet.connection_string(), "{wrong}");
    }
    // The setting is emptied and set again.
    server.change("snowflake_id.registry", "");
    eventually("the worker to go", || background_pid(&server, "snowflake_id registry").is_none());
    wait_for_refusal(&mut client);
    let (state, message) = failure(&mut client, "SELECT snowflake_nextval()");
    assert_eq!(state, "55000", "{message}");
    assert!(!message.contains("registry has"), "{message}");
    assert_eq!(shown(&mut client, "registry_state"), None);
    assert_eq!(shown(&mut client, "state").as_deref(), Some("no worker id"));
    server.change("snowflake_id.registry", &fleet.connection_string());
    assert_eq!(leased_worker(&server), worker);
    all.extend(ids(&mut client, "SELECT snowflake_batch(1000)"));
    assert_renewed(&server);
    // After several quick changes the last value counts.
    for _ in 0..5 {
        for string in ["", &fleet.connection_string()] {
            server.change("snowflake_id.registry", string);
        }
    }
    assert_renewed(&server);
    assert_eq!(leased_worker(&server), worker);
    all.extend(ids(&mut client, "SELECT snowflake_batch(1000)"));
    assert_distinct(&all);
    assert_eq!(grants(&fleet), 1);
}

/// The settings are reloaded while the keeper starts, when it cannot receive the signal yet.
#[test]
fn a_reload_while_the_keeper_starts() {
    // Background workers sleep before they do anything, and so do sessions.
    let server = Cluster::builder().preload().set("post_auth_delay", "1s").start();
    server.change("snowflake_id.registry", "host=127.0.0.1 port=1 user=fleet dbname=postgres");
    wait_for_error(&server, "127.0.0.1");
}

/// There is no free process for the registry worker. The status reports that while it lasts.
#[test]
fn no_background_worker_is_left() {
    let fleet = Fleet::start(LASTING_LEASES);
    // Two processes: the keeper and the launcher of logical replication.
    let server = fleet.server().set("max_worker_processes", "2").start();
    let mut client = server.connect();
    let wanted = "increase max_worker_processes";
    let error =
        eventually("the error", || shown(&mut client, "last_error").filter(|error| error.contains(wanted)));
    println!("{error}");
    let until = Instant::now() + Duration::from_millis(2_500);
    while Instant::now() < until {
        let said = shown(&mut client, "last_error").unwrap_or_default();
        assert!(said.contains(wanted), "{said:?}");
        thread::sleep(Duration::from_millis(50));
    }
    let (state, message) = failure(&mut client, "SELECT snowflake_nextval()");
    assert_eq!(state, "55000", "{message}");
    assert!(message.contains(wanted), "{message}");
    let said = server.log().matches(wanted).count();
    assert!(said <= 2, "said {said} times:\n{}", server.log());
    // The launcher of logical replication is not started again before the next start of the server.
    server.configure(&[("max_logical_replication_workers", "0")]);
    server.restart("fast");
    leased_worker(&server);
    eventually("the error to go", || shown(&mut server.connect(), "last_error").is_none());
}

/// The process ID of the registry worker.
fn registry_worker(server: &Cluster) -> i32 {
    eventually("the registry worker", || background_pid(server, "snowflake_id registry"))
}
