//! Promise 6: every wait is bounded, can be canceled, is visible and holds no lock. A wait that cannot succeed fails at
//! once.

use std::thread;
use std::time::Instant;

use harness::*;
use postgres::NoTls;

/// A server with one ID in ten seconds, and a session that has just taken one, at the start of its tick. Its call of
/// `SIX_MORE` waits for most of a minute.
fn waiting_session() -> (Cluster, Client) {
    let cluster = Cluster::builder().worker(1).clock().start();
    let mut client = cluster.connect();
    wait_for_first_id(&mut client);
    cluster.set_clock_to_next(10.0);
    client.run("SET snowflake_id.layout = 'time:30 worker:10 unit=10s'");
    client.run("SET snowflake_id.max_wait = '2min'; SELECT snowflake_nextval()");
    (cluster, client)
}

const SIX_MORE: &str = "SELECT snowflake_batch(6)";

#[test]
fn a_wait_ends_by_itself() {
    let cluster = Cluster::builder().worker(1).start();
    let mut client = cluster.connect();
    client.run("SET snowflake_id.layout = 'time:40 worker:10 unit=100ms'");
    let start = Instant::now();
    let taken = ids(&mut client, "SELECT snowflake_nextval() FROM generate_series(1, 30)");
    // max_ahead allows the current tick and ten more at once. 19 are left, one every 100 ms.
    let waited = start.elapsed();
    assert_eq!(taken.len(), 30);
    assert!(waited.as_millis() >= 1_700, "{waited:?}");
}

#[test]
fn a_batch_larger_than_max_ahead_waits_for_the_rest() {
    let cluster = Cluster::builder().worker(1).start();
    let mut client = cluster.connect();
    client.run("SET snowflake_id.layout = 'time:40 worker:10 sequence:4 unit=100ms'");
    let start = Instant::now();
    let taken = ids(&mut client, "SELECT snowflake_batch(400)");
    let waited = start.elapsed();
    assert_eq!(taken.len(), 400);
    assert_increasing(&taken);
    // 16 IDs in each tick and 11 ticks at once, so it waits for 14 more ticks.
    assert!(waited.as_millis() >= 1_200, "{waited:?}");
}

#[test]
fn a_wait_is_visible_cancellable_and_holds_no_lock() {
    let (cluster, mut waiter) = waiting_session();
    let cancel = waiter.cancel_token();
    let pid: i32 = single(&mut waiter, "SELECT pg_backend_pid()");
    let waiting = thread::spawn(move || {
        let error = waiter.batch_execute(SIX_MORE).unwrap_err();
        (waiter, text(&error))
    });

    let mut observer = cluster.connect();
    eventually("the wait to show", || {
        let row = observer.query_one(
            "SELECT wait_event FROM pg_stat_activity
             WHERE pid = $1 AND state = 'active' AND wait_event_type = 'Extension'",
            &[&pid],
        );
        row.is_ok_and(|row| row.get::<_, String>(0) == wait_event("SnowflakeClock"))
    });
    // Like any query, it holds only the lock on its own virtual transaction ID.
    let locks: i64 = single(
        &mut observer,
        &format!("SELECT count(*) FROM pg_locks WHERE pid = {pid} AND locktype <> 'virtualxid'"),
    );
    assert_eq!(locks, 0);
    // Other sessions continue, even with a new layout.
    assert!(single::<i64>(&mut observer, "SELECT snowflake_nextval()") > 0);
    observer.run("SET snowflake_id.layout = 'wide'; SELECT snowflake_nextval()");

    let cancelled = Instant::now();
    cancel.cancel_query(NoTls).unwrap();
    let (mut waiter, message) = waiting.join().unwrap();
    assert!(message.contains("canceling statement due to user request"), "{message}");
    assert_within(SLACK, cancelled.elapsed(), "the end of a canceled wait");
    // The session can be used again.
    waiter.run("RESET snowflake_id.layout; SELECT snowflake_nextval()");
}

#[test]
fn statement_timeout_and_termination_end_a_wait() {
    let (cluster, mut waiter) = waiting_session();
    let timeout = format!("SET statement_timeout = '300ms'; {SIX_MORE}");
    let (state, message) = failure_at_once(&mut waiter, &timeout);
    assert_eq!(state, "57014", "{message}");
    waiter.run("RESET statement_timeout");

    let pid: i32 = single(&mut waiter, "SELECT pg_backend_pid()");
    let waiting = thread::spawn(move || waiter.batch_execute(SIX_MORE).unwrap_err().to_string());
    let mut observer = cluster.connect();
    eventually("the wait to show", || {
        let query = format!("SELECT wait_event FROM pg_stat_activity WHERE pid = {pid} AND state = 'active'");
        observer.query_opt(&query, &[]).unwrap()?.get::<_, Option<String>>(0)
    });
    let terminated = Instant::now();
    observer.run(&format!("SELECT pg_terminate_backend({pid})"));
    waiting.join().unwrap();
    assert_within(SLACK, terminated.elapsed(), "the end of a session that waits");
}

/// At saturation waits are shorter than a millisecond. They are still visible and can be canceled.
#[test]
fn short_waits_are_visible_and_cancellable() {
    let cluster = Cluster::builder().worker(1).start();
    let mut client = cluster.connect();
    client.run("SET snowflake_id.layout = 'time:41 worker:10 sequence:1'");
    let pid: i32 = single(&mut client, "SELECT pg_backend_pid()");
    let cancel = client.cancel_token();
    let running = thread::spawn(move || {
        let query = "SELECT count(snowflake_nextval()) FROM (SELECT generate_series(1, 100000000)) AS n";
        let error = client.batch_execute(query).unwrap_err();
        (client, text(&error))
    });
    let mut observer = cluster.connect();
    let query = format!("SELECT wait_event FROM pg_stat_activity WHERE pid = {pid}");
    eventually("the wait to show", || {
        single::<Option<String>>(&mut observer, &query).as_deref() == Some(wait_event("SnowflakeClock"))
    });
    cancel.cancel_query(NoTls).unwrap();
    let (mut client, message) = running.join().unwrap();
    assert!(message.contains("canceling statement due to user request"), "{message}");
    // It no longer waits for the clock, but for its client.
    client.run("SELECT 1");
    eventually("the wait to be over", || {
        single::<Option<String>>(&mut observer, &query).as_deref() == Some("ClientRead")
    });
}

/// `max_ahead` and `sequence_spread` take effect at a reload, even in sessions that have taken IDs before.
#[test]
fn a_reload_changes_max_ahead_and_spread() {
    let cluster = Cluster::builder().worker(1).start();
    let mut client = cluster.connect();
    client.run("SET snowflake_id.layout = 'time:38 worker:10 sequence:8 unit=1s'");
    client.run("SELECT snowflake_nextval(); SET snowflake_id.max_wait = 0");
    // 256 IDs a second: with 10 s ahead, 2,560 at once; without, the rest of a second.
    cluster.change_for(&mut client, "snowflake_id.max_ahead", "10s");
    eventually("a horizon for 10 s ahead", || {
        single::<bool>(
            &mut client,
            "SELECT horizon > clock_timestamp() + interval '10 s' FROM snowflake_status",
        )
    });
    assert_eq!(ids(&mut client, "SELECT snowflake_batch(2000)").len(), 2_000);
    cluster.change_for(&mut client, "snowflake_id.max_ahead", "0");
    let (state, message) = failure(&mut client, "SELECT snowflake_batch(1)");
    assert_eq!(state, "55P03", "{message}");

    client.run("RESET snowflake_id.max_wait; SET snowflake_id.layout = 'wide'; SELECT snowflake_nextval()");
    cluster.change_for(&mut client, "snowflake_id.sequence_spread", "15");
    eventually("a sequence that does not start at 0", || {
        let sequence: i64 = single(&mut client, "SELECT snowflake_sequence(snowflake_nextval())");
        sequence > 0
    });
}
