//! Promise 6: every wait is bounded, fails at once when that is certain, is cancellable, visible, and holds
//! no lock.

use std::thread;
use std::time::{Duration, Instant};

use postgres::{Client, NoTls};
use snowflake_id_cluster_tests::{Cluster, WORKER_1, failure, ids, poll, single, text, wait_event};

/// One ID in ten seconds.
const SLOW: &str = "SET snowflake_id.layout = 'time:30 worker:10 unit=10s'";

/// A session that has just taken the ID of the current ten seconds: the next one is up to nine seconds away,
/// and at least `at_least`.
fn waiting_session(cluster: &Cluster, at_least: Duration) -> Client {
    let mut client = cluster.connect();
    client.batch_execute(SLOW).unwrap();
    poll("a wait that is long enough", || {
        client.batch_execute("SET snowflake_id.max_wait = '1min'; SELECT snowflake_nextval()").unwrap();
        let query = "SELECT extract(epoch FROM snowflake_timestamp(snowflake_currval()) + '9 s' - clock_timestamp())::float8";
        (single::<f64>(&mut client, query) > at_least.as_secs_f64()).then_some(())
    });
    client
}

#[test]
fn a_wait_ends_by_itself() {
    let cluster = Cluster::start(WORKER_1);
    let mut client = cluster.connect();
    client.batch_execute("SET snowflake_id.layout = 'time:40 worker:10 unit=100ms'").unwrap();
    let start = Instant::now();
    let taken = ids(&mut client, "SELECT snowflake_nextval() FROM generate_series(1, 30)");
    // Drift allows the current tick and ten more at once; 19 are left, one every 100 ms.
    let waited = start.elapsed();
    assert_eq!(taken.len(), 30);
    assert!(waited.as_millis() >= 1_700, "{waited:?}");
}

#[test]
fn a_batch_larger_than_the_drift_waits_for_the_rest() {
    let cluster = Cluster::start(WORKER_1);
    let mut client = cluster.connect();
    client.batch_execute("SET snowflake_id.layout = 'time:40 worker:10 sequence:4 unit=100ms'").unwrap();
    let start = Instant::now();
    let taken = ids(&mut client, "SELECT snowflake_batch(400)");
    let waited = start.elapsed();
    assert_eq!(taken.len(), 400);
    snowflake_id_cluster_tests::assert_increasing(&taken);
    // 16 a tick, 11 ticks at once: 14 more ticks to wait for.
    assert!(waited.as_millis() >= 1_200, "{waited:?}");
}

#[test]
fn a_hopeless_wait_fails_at_once() {
    let cluster = Cluster::start(WORKER_1);
    let mut client = waiting_session(&cluster, Duration::from_secs(3));
    for (max_wait, query) in [
        ("1s", "SELECT snowflake_nextval()"),
        ("0", "SELECT snowflake_nextval()"),
        ("10s", "SELECT snowflake_batch(3)"),
    ] {
        client.batch_execute(&format!("SET snowflake_id.max_wait = '{max_wait}'")).unwrap();
        let start = Instant::now();
        let (state, message) = failure(&mut client, query);
        // The wait that was refused is longer than 3 s.
        assert!(start.elapsed() < Duration::from_secs(3), "{max_wait}: {:?}", start.elapsed());
        assert_eq!(state, "55P03", "{message}");
        assert!(message.contains("snowflake_id.max_wait"), "{message}");
    }
    // Nothing was taken: the tick that was next is still next.
    client.batch_execute("SET snowflake_id.max_wait = '1min'").unwrap();
    let apart: f64 = single(
        &mut client,
        "WITH last AS MATERIALIZED (SELECT snowflake_timestamp(snowflake_currval()) AS at)
         SELECT extract(epoch FROM snowflake_timestamp(snowflake_nextval()) - last.at)::float8 FROM last",
    );
    assert_eq!(apart, 10.0);
}

#[test]
fn a_wait_is_visible_cancellable_and_holds_no_lock() {
    let cluster = Cluster::start(WORKER_1);
    let mut waiter = waiting_session(&cluster, Duration::from_secs(5));
    let cancel = waiter.cancel_token();
    let pid: i32 = single(&mut waiter, "SELECT pg_backend_pid()");
    let waiting = thread::spawn(move || {
        let start = Instant::now();
        let error = waiter.batch_execute("SELECT snowflake_nextval()").unwrap_err();
        (waiter, start.elapsed(), text(&error))
    });

    let mut observer = cluster.connect();
    poll("the wait to show", || {
        let row = observer.query_one(
            "SELECT wait_event FROM pg_stat_activity
             WHERE pid = $1 AND state = 'active' AND wait_event_type = 'Extension'",
            &[&pid],
        );
        (row.ok()?.get::<_, String>(0) == wait_event("SnowflakeClock")).then_some(())
    });
    // As any query: the lock on its own virtual transaction ID, none else.
    let locks: i64 = single(
        &mut observer,
        &format!("SELECT count(*) FROM pg_locks WHERE pid = {pid} AND locktype <> 'virtualxid'"),
    );
    assert_eq!(locks, 0);
    // The others go on, also with a layout that is new.
    assert!(single::<i64>(&mut observer, "SELECT snowflake_nextval()") > 0);
    observer.batch_execute("SET snowflake_id.layout = 'wide'; SELECT snowflake_nextval()").unwrap();

    let cancelled = Instant::now();
    cancel.cancel_query(NoTls).unwrap();
    let (mut waiter, waited, message) = waiting.join().unwrap();
    assert!(message.contains("canceling statement due to user request"), "{message}");
    assert!(cancelled.elapsed() < Duration::from_secs(4), "{waited:?}");
    // The session goes on.
    waiter.batch_execute("RESET snowflake_id.layout; SELECT snowflake_nextval()").unwrap();
}

#[test]
fn statement_timeout_and_termination_end_a_wait() {
    let cluster = Cluster::start(WORKER_1);
    let mut waiter = waiting_session(&cluster, Duration::from_secs(5));
    let start = Instant::now();
    let (state, message) =
        failure(&mut waiter, "SET statement_timeout = '300ms'; SELECT snowflake_nextval()");
    assert_eq!(state, "57014", "{message}");
    assert!((250..4_000).contains(&start.elapsed().as_millis()), "{:?}", start.elapsed());
    waiter.batch_execute("RESET statement_timeout").unwrap();

    let pid: i32 = single(&mut waiter, "SELECT pg_backend_pid()");
    let waiting =
        thread::spawn(move || waiter.batch_execute("SELECT snowflake_nextval()").unwrap_err().to_string());
    let mut observer = cluster.connect();
    poll("the wait to show", || {
        let query = format!("SELECT wait_event FROM pg_stat_activity WHERE pid = {pid} AND state = 'active'");
        observer.query_opt(&query, &[]).unwrap()?.get::<_, Option<String>>(0)
    });
    let terminated = Instant::now();
    observer.batch_execute(&format!("SELECT pg_terminate_backend({pid})")).unwrap();
    waiting.join().unwrap();
    assert!(terminated.elapsed() < Duration::from_secs(4));
}

/// At saturation waits are shorter than a millisecond: they are visible and cancellable as well.
#[test]
fn short_waits_are_visible_and_cancellable() {
    let cluster = Cluster::start(WORKER_1);
    let mut client = cluster.connect();
    client.batch_execute("SET snowflake_id.layout = 'time:41 worker:10 sequence:1'").unwrap();
    let pid: i32 = single(&mut client, "SELECT pg_backend_pid()");
    let cancel = client.cancel_token();
    let running = thread::spawn(move || {
        let query = "SELECT count(snowflake_nextval()) FROM generate_series(1, 100000000)";
        let error = client.batch_execute(query).unwrap_err();
        (client, text(&error))
    });
    let mut observer = cluster.connect();
    let query = format!("SELECT wait_event FROM pg_stat_activity WHERE pid = {pid}");
    poll("the wait to show", || {
        (single::<Option<String>>(&mut observer, &query)? == wait_event("SnowflakeClock")).then_some(())
    });
    cancel.cancel_query(NoTls).unwrap();
    let (mut client, message) = running.join().unwrap();
    assert!(message.contains("canceling statement due to user request"), "{message}");
    // It does not wait for the clock any more, but for its client.
    client.batch_execute("SELECT 1").unwrap();
    poll("the wait to be over", || {
        (single::<Option<String>>(&mut observer, &query)? == "ClientRead").then_some(())
    });
}

/// `max_drift` and `sequence_spread` change at a reload, also for sessions that have taken IDs before.
#[test]
fn a_reload_changes_drift_and_spread() {
    let cluster = Cluster::start(WORKER_1);
    let mut client = cluster.connect();
    client.batch_execute("SET snowflake_id.layout = 'time:38 worker:10 sequence:8 unit=1s'").unwrap();
    client.batch_execute("SELECT snowflake_nextval(); SET snowflake_id.max_wait = 0").unwrap();
    let reload = |client: &mut Client, name: &str, value: &str| {
        cluster.configure(&[(name, value)]);
        cluster.reload();
        poll("the reload", || (single::<String>(client, &format!("SHOW {name}")) == value).then_some(()));
    };
    // 256 IDs a second: with 10 s of drift 2,560 can be had at once, without drift the rest of a second.
    reload(&mut client, "snowflake_id.max_drift", "10s");
    assert_eq!(ids(&mut client, "SELECT snowflake_batch(2000)").len(), 2_000);
    reload(&mut client, "snowflake_id.max_drift", "0");
    let (state, message) = failure(&mut client, "SELECT snowflake_batch(1)");
    assert_eq!(state, "55P03", "{message}");

    client
        .batch_execute(
            "RESET snowflake_id.max_wait; SET snowflake_id.layout = 'wide'; SELECT snowflake_nextval()",
        )
        .unwrap();
    reload(&mut client, "snowflake_id.sequence_spread", "15");
    poll("a sequence that does not start at 0", || {
        std::thread::sleep(Duration::from_millis(2));
        let sequence: i64 = single(&mut client, "SELECT snowflake_sequence(snowflake_nextval())");
        (sequence > 0).then_some(())
    });
}
