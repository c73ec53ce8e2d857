//! No call waits longer than `max_wait`, even if the keeper is stopped or missing. A call that cannot succeed does not
//! wait at all.

use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use harness::*;

const NEXT: &str = "SELECT snowflake_nextval()";
const RAISE_FLOOR: &str = "SELECT snowflake_raise_floor(now() + '10 min')";

/// The keeper exists but is stopped. IDs are issued up to the horizon. After that calls fail, none later than
/// necessary.
#[test]
fn a_keeper_that_stands_still() {
    let cluster = Cluster::builder().worker(1).short_horizon().start();
    let mut client = cluster.connect();
    client.run("SET snowflake_id.max_wait = '300ms'");
    let mut all = vec![wait_for_first_id(&mut client)];
    let paused = Paused::at_most(TIMEOUT, vec![keeper_pid(&mut client)]);
    eventually("the horizon to be reached", || match client.query(NEXT, &[]) {
        Ok(rows) => {
            all.push(rows[0].get(0));
            None
        }
        Err(_) => Some(()),
    });
    let start = Instant::now();
    let (state, message) = failure_at_once(&mut client, NEXT);
    assert!(start.elapsed() >= Duration::from_millis(300), "{:?}", start.elapsed());
    assert_eq!(state, "55P03", "{message}");
    assert!(message.contains("waited for 300 ms"), "{message}");
    let (state, message) =
        failure_at_once(&mut client, "SET snowflake_id.max_wait = 0; SELECT snowflake_batch(10)");
    assert_eq!(state, "55P03", "{message}");
    assert_eq!(server_state(&mut client), "horizon stalled");
    // Requests wait no longer than calls do.
    client.run("SET snowflake_id.max_wait = '300ms'");
    for order in [RAISE_FLOOR, "SELECT snowflake_accept_clock()"] {
        let (state, message) = failure_at_once(&mut client, order);
        assert_eq!(state, "55000", "{message}");
    }
    drop(paused);
    client.run("SET snowflake_id.max_wait = '1min'");
    all.extend(ids(&mut client, "SELECT snowflake_batch(1000)"));
    assert_increasing(&all);
    assert_eq!(server_state(&mut client), "ready");
}

/// PostgreSQL cannot start a keeper, but starts without it: every call reports that in time.
#[test]
fn a_server_with_no_room_for_the_keeper() {
    let cluster = Cluster::builder().worker(1).set("max_worker_processes", "0").start();
    let mut client = cluster.connect();
    for (max_wait, query) in
        [("300ms", NEXT), ("300ms", "SELECT snowflake_batch(10)"), ("300ms", RAISE_FLOOR), ("0", NEXT)]
    {
        client.run(&format!("SET snowflake_id.max_wait = '{max_wait}'"));
        let (state, message) = failure_at_once(&mut client, query);
        assert_eq!(state, "55000", "{message}");
        assert!(message.contains("max_worker_processes"), "{message}");
    }
    assert_eq!(server_state(&mut client), "no keeper");
    // The keeper starts the worker that takes numbers.
    client.run("SET snowflake_id.max_wait = '300ms'");
    let (state, message) = failure_at_once(&mut client, "SELECT snowflake_segment_nextval('orders')");
    assert_eq!(state, "55P03", "{message}");
    assert!(message.contains("keeper") && message.contains("max_worker_processes"), "{message}");
    // Functions that do not need the keeper work.
    client.run("SELECT snowflake_decode(1)");
}

/// The required wait is longer than `max_wait`.
#[test]
fn a_hopeless_wait_fails_at_once() {
    let cluster = Cluster::builder().worker(1).clock().start();
    let mut client = cluster.connect();
    wait_for_first_id(&mut client);
    // The clock stands at the start of a tick, beyond the first IDs of a new server, which are ahead of the clock.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64;
    let tick = |number: i64| cluster.hold_clock((now / 10 + 2 + number) * 10_000_000, 1);
    tick(0);
    client.run("SET snowflake_id.layout = 'time:30 worker:10 unit=10s'");
    let first: i64 = single(&mut client, NEXT);
    for (max_wait, query) in [("5s", NEXT), ("0", NEXT), ("10min", "SELECT snowflake_batch(100)")] {
        client.run(&format!("SET snowflake_id.max_wait = '{max_wait}'"));
        let (state, message) = failure_at_once(&mut client, query);
        assert_eq!(state, "55P03", "{message}");
        assert!(message.contains("snowflake_id.max_wait"), "{message}");
    }
    // The failed calls took no IDs: the next tick is still unused.
    tick(1);
    let apart = format!(
        "SELECT extract(epoch FROM snowflake_timestamp(snowflake_nextval()) - snowflake_timestamp({first}))::float8"
    );
    assert_eq!(single::<f64>(&mut client, &apart), 10.0);
}

/// Runs a request, and cancels the call while the keeper's commit waits for a standby. Returns the SQLSTATE and the
/// full error text.
pub fn cancelled_during_commit(cluster: &Cluster, client: &mut Client, request: &str) -> (String, String) {
    let pid: i32 = single(client, "SELECT pg_backend_pid()");
    let mut observer = cluster.connect();
    thread::scope(|scope| {
        let call = scope.spawn(|| failure(client, request));
        let waits = "SELECT FROM pg_stat_activity
                     WHERE backend_type = 'snowflake_id keeper' AND wait_event = 'SyncRep'";
        eventually("the keeper's commit", || !observer.query(waits, &[]).unwrap().is_empty());
        let start = Instant::now();
        observer.execute("SELECT pg_cancel_backend($1)", &[&pid]).unwrap();
        let failed = call.join().unwrap();
        assert_within(SLACK, start.elapsed(), "the end of a canceled call");
        failed
    })
}

/// The keeper executes a request and waits for a standby. A caller that cancels returns, with a message that the
/// request is still in progress.
#[test]
fn a_request_under_way_is_left_at_once() {
    let cluster = Cluster::builder().worker(1).set("snowflake_id.max_wait", "10min").start();
    let mut client = cluster.connect();
    keeper_pid(&mut client);
    cluster.lose_the_standby();
    let (state, message) = cancelled_during_commit(&cluster, &mut client, RAISE_FLOOR);
    assert_eq!(state, "57014", "{message}");
    // The next request waits for the first.
    client.run("SET statement_timeout = '300ms'");
    assert_eq!(failure_at_once(&mut client, RAISE_FLOOR).0, "57014");
    let said = "the keeper continues to process the request";
    assert_eq!(cluster.log().matches(said).count(), 1, "{}", cluster.log());
    cluster.change("synchronous_standby_names", "");
    client.run("SET statement_timeout = '2min'; SELECT snowflake_raise_floor(now() + '20 min')");
}
