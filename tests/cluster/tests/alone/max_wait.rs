//! No call waits longer than `max_wait`, even if the keeper is stopped or missing. A call that cannot succeed does not
//! wait at all.

use std::time::{Duration, Instant};

use harness::*;

/// Returns how long a statement takes to fail, its SQLSTATE and the full error text.
fn timed_failure(client: &mut Client, query: &str) -> (Duration, String, String) {
    let start = Instant::now();
    let (state, message) = failure(client, query);
    (start.elapsed(), state, message)
}

/// Extra time for a busy machine.
const SLACK: Duration = Duration::from_secs(2);

/// The keeper exists but is stopped. IDs are issued up to the horizon. After that calls fail, none later than
/// necessary.
#[test]
fn a_keeper_that_stands_still() {
    let cluster = Cluster::builder().worker(1).short_horizon().start();
    let mut client = cluster.connect();
    client.run("SET snowflake_id.max_wait = '300ms'");
    let mut all = ids(&mut client, "SELECT snowflake_nextval()");
    let paused = Paused::new(vec![keeper_pid(&mut client)]);
    eventually("the horizon to be reached", || match client.query("SELECT snowflake_nextval()", &[]) {
        Ok(rows) => {
            all.push(rows[0].get(0));
            None
        }
        Err(_) => Some(()),
    });
    let (waited, state, message) = timed_failure(&mut client, "SELECT snowflake_nextval()");
    assert_eq!(state, "55P03", "{message}");
    assert!(message.contains("waited for 300 ms"), "{message}");
    assert!(waited >= Duration::from_millis(300) && waited < SLACK, "{waited:?}");
    let (waited, state, message) =
        timed_failure(&mut client, "SET snowflake_id.max_wait = 0; SELECT snowflake_batch(10)");
    assert_eq!(state, "55P03", "{message}");
    assert!(waited < SLACK, "{waited:?}");
    assert_eq!(server_state(&mut client), "horizon stalled");
    // Requests wait no longer than calls do, and never longer than a second.
    client.run("SET snowflake_id.max_wait = '300ms'");
    for order in ["SELECT snowflake_advance(now())", "SELECT snowflake_accept_clock()"] {
        let (waited, state, message) = timed_failure(&mut client, order);
        assert_eq!(state, "55000", "{message}");
        assert!(waited < SLACK, "{order}: {waited:?}");
    }
    drop(paused);
    client.run("SET snowflake_id.max_wait = '30s'");
    all.extend(ids(&mut client, "SELECT snowflake_batch(1000)"));
    assert_increasing(&all);
    assert_eq!(server_state(&mut client), "ready");
}

/// PostgreSQL cannot start a keeper, but starts without it: every call reports that in time.
#[test]
fn a_server_with_no_room_for_the_keeper() {
    let cluster = Cluster::builder().worker(1).set("max_worker_processes", "0").start();
    let mut client = cluster.connect();
    for (max_wait, query) in [
        ("300ms", "SELECT snowflake_nextval()"),
        ("300ms", "SELECT snowflake_batch(10)"),
        ("300ms", "SELECT snowflake_advance(now())"),
        ("0", "SELECT snowflake_nextval()"),
    ] {
        client.run(&format!("SET snowflake_id.max_wait = '{max_wait}'"));
        let (waited, state, message) = timed_failure(&mut client, query);
        assert_eq!(state, "55000", "{message}");
        assert!(message.contains("max_worker_processes"), "{message}");
        assert!(waited < SLACK, "{query}: {waited:?}");
    }
    assert_eq!(server_state(&mut client), "no keeper");
    // The keeper starts the worker that takes numbers.
    let (waited, state, message) = timed_failure(
        &mut client,
        "SET snowflake_id.max_wait = '300ms'; SELECT snowflake_segment_nextval('orders')",
    );
    assert_eq!(state, "55P03", "{message}");
    assert!(message.contains("keeper") && message.contains("max_worker_processes"), "{message}");
    assert!(waited < SLACK, "{waited:?}");
    // Functions that do not need the keeper work.
    client.run("SELECT snowflake_decode(1)");
}

#[test]
fn a_hopeless_wait_fails_at_once() {
    let cluster = Cluster::builder().worker(1).clock().start();
    let mut client = cluster.connect();
    wait_for_first_id(&mut client);
    // Called twice, because a new server issues its first IDs a second after its start, which may be in the next tick.
    cluster.set_clock_to_next(10.0);
    cluster.set_clock_to_next(10.0);
    client.run("SET snowflake_id.layout = 'time:30 worker:10 unit=10s'; SELECT snowflake_nextval()");
    for (max_wait, query) in [
        ("1s", "SELECT snowflake_nextval()"),
        ("0", "SELECT snowflake_nextval()"),
        ("10s", "SELECT snowflake_batch(3)"),
    ] {
        client.run(&format!("SET snowflake_id.max_wait = '{max_wait}'"));
        // The required wait is longer than `max_wait`.
        let (waited, state, message) = timed_failure(&mut client, query);
        assert!(waited < SLACK, "{max_wait}: {waited:?}");
        assert_eq!(state, "55P03", "{message}");
        assert!(message.contains("snowflake_id.max_wait"), "{message}");
    }
    // The failed calls took no IDs: the next tick is still unused.
    cluster.set_clock_to_next(10.0);
    let apart: f64 = single(
        &mut client,
        "WITH last AS MATERIALIZED (SELECT snowflake_timestamp(snowflake_currval()) AS at)
         SELECT extract(epoch FROM snowflake_timestamp(snowflake_nextval()) - last.at)::float8 FROM last",
    );
    assert_eq!(apart, 10.0);
}

/// The keeper executes a request and waits for a standby. A caller that cancels returns, with a message that the
/// request is still in progress.
#[test]
fn a_request_under_way_is_left_at_once() {
    let cluster = Cluster::builder().worker(1).start();
    let mut client = cluster.connect();
    keeper_pid(&mut client);
    client.run("SET snowflake_id.max_wait = '30s'; SET statement_timeout = '1s'");
    cluster.lose_the_standby();
    for _ in 0..2 {
        let (waited, state, message) =
            timed_failure(&mut client, "SELECT snowflake_advance(now() + '10 min')");
        assert_eq!(state, "57014", "{message}");
        assert!(waited < Duration::from_secs(1) + SLACK, "{waited:?}");
    }
    let said = "the keeper continues to process the request";
    assert_eq!(cluster.log().matches(said).count(), 1, "{}", cluster.log());
    cluster.change("synchronous_standby_names", "");
    client.run("SET statement_timeout = 0; SELECT snowflake_advance(now() + '20 min')");
}
