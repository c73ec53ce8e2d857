//! The cost of the watermark: how often readers get NULL under load, and how long a call takes with 200 sessions.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use harness::*;

const TABLE: &str = "CREATE TABLE events (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), note text)";

/// Sixteen sessions ask for the watermark all the time, while eight others commit rows all the time. NULL only delays a
/// reader, but should be rare.
#[test]
fn null_is_rare_under_load() {
    let server = Cluster::builder().worker(1).start();
    server.connect().run(TABLE);
    wait_for_first_id(&mut server.connect());
    let writer = |stop: &AtomicBool| {
        let mut client = server.connect();
        let insert = client.prepare("INSERT INTO events (note) VALUES ('row')").unwrap();
        while !stop.load(Ordering::Relaxed) {
            client.execute(&insert, &[]).unwrap();
        }
    };
    let reader = |stop: &AtomicBool| {
        let mut client = server.connect();
        let query = client.prepare("SELECT snowflake_watermark()").unwrap();
        let (mut calls, mut nulls) = (0u64, 0u64);
        while !stop.load(Ordering::Relaxed) {
            let watermark: Option<i64> = client.query_one(&query, &[]).unwrap().get(0);
            calls += 1;
            nulls += u64::from(watermark.is_none());
        }
        (calls, nulls)
    };
    let (read, _) =
        beside(vec![reader; 16], || beside(vec![writer; 8], || thread::sleep(Duration::from_millis(1_500))));
    let (calls, nulls) = read.iter().fold((0, 0), |(calls, nulls), read| (calls + read.0, nulls + read.1));
    let rows: i64 = single(&mut server.connect(), "SELECT count(*) FROM events");
    println!(
        "{nulls} of {calls} calls returned NULL, {:.2} %; {rows} rows",
        nulls as f64 / calls as f64 * 100.0
    );
    assert!(rows > 1_000 && calls > 1_000);
    assert!(nulls * 50 < calls, "{nulls} of {calls}");
}

/// Each session has a transaction in progress that has taken an ID.
#[test]
fn a_call_with_200_sessions() {
    let server = Cluster::builder().worker(1).set("max_connections", "220").start();
    server.connect().run(TABLE);
    wait_for_first_id(&mut server.connect());
    let sessions: Vec<_> = (0..200)
        .map(|_| {
            let mut client = server.connect();
            client.run("BEGIN; INSERT INTO events (note) VALUES ('row')");
            client
        })
        .collect();
    // Each call is in a transaction of its own, because a transaction remembers the answers.
    const CALLS: u32 = 10_000;
    let mut client = server.connect();
    let mut time = |call: &str| {
        let run = format!("DO $$ BEGIN FOR n IN 1 .. {CALLS} LOOP PERFORM {call}; COMMIT; END LOOP; END $$");
        let times = (0..5).map(|_| {
            let began = Instant::now();
            client.run(&run);
            began.elapsed() / CALLS
        });
        times.min().unwrap()
    };
    let (other, call) = (time("pg_backend_pid()"), time("snowflake_watermark()"));
    let cost = call.saturating_sub(other);
    println!("{cost:?} ({call:?} with the transaction, {other:?} for the transaction alone)");
    drop(sessions);
    assert!(cost < Duration::from_micros(10), "{cost:?}");
}
