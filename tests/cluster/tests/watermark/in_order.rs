//! Consumers read each row exactly once, in the order of IDs, while transactions of all kinds insert rows.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use harness::*;

use super::consumers::{self, Consumed, WAYS, Way};
use super::writers::{self, KINDS, Kind, Writer, finish_prepared};

const WRITERS: usize = 8;

/// Runs `event` while writers insert rows and consumers read them, and goes on until transactions of each kind have ended
/// this many times, and each consumer has found rows this many times. Returns what the consumers have read, after all
/// transactions have ended.
pub fn while_consuming(
    server: &Cluster,
    kinds: &[Kind],
    ways: &[Way],
    expects_errors: bool,
    times: u64,
    event: impl FnOnce(&mut Random),
) -> Vec<Consumed> {
    let mut random = Random::seeded();
    let [ended, found] = [kinds.len(), ways.len()].map(counters);
    let consumers: Vec<_> = ways
        .iter()
        .zip(&found)
        .map(|(&way, found)| {
            let seed = random.below(u64::MAX);
            move |stop: &AtomicBool| way.consume(server, seed, found, stop)
        })
        .collect();
    let writers: Vec<_> = (0..WRITERS)
        .map(|number| {
            let seed = random.below(u64::MAX);
            let writer = Writer { server, number, seed, kinds, ended: &ended, expects_errors };
            move |stop: &AtomicBool| writer.run(stop)
        })
        .collect();
    let (consumed, ()) = beside(consumers, || {
        beside(writers, || {
            event(&mut random);
            wait_for_counts(&ended, times);
            wait_for_counts(&found, times);
        });
        finish_prepared(server);
    });
    consumed
}

pub fn counters(count: usize) -> Vec<AtomicU64> {
    std::iter::repeat_with(AtomicU64::default).take(count).collect()
}

/// Waits until all counters have reached a value.
pub fn wait_for_counts(counters: &[AtomicU64], value: u64) {
    eventually("progress of all", || counters.iter().all(|count| count.load(Ordering::Relaxed) >= value));
}

#[test]
fn rows_are_read_once_and_in_order_in_each_way() {
    let server = writers::server(Cluster::builder());
    consumers::prepare(&server);
    server.change("fsync", "on");
    let ways = [&WAYS[..], &[Way::Naive]].concat();
    let consumed = while_consuming(&server, &KINDS, &ways, false, rounds(8).into(), |_| ());
    let lost = consumers::check(&server, &consumed);
    assert!(lost > 0, "the consumer without the watermark has lost no rows, so the test shows nothing");
}

/// Parallel workers take part in the transactions of the writers, and so does the leader if it may.
#[test]
fn writers_are_parallel() {
    let server = writers::server(Cluster::builder());
    let mut client = server.connect();
    for participates in ["on", "off"] {
        client.run(&format!("SET parallel_leader_participation = {participates}"));
        let query = "EXPLAIN (ANALYZE, VERBOSE, COSTS OFF, TIMING OFF) CREATE TABLE made AS
                     SELECT n, snowflake_nextval() AS id, pg_sleep(0.001) IS NULL AS slept FROM numbers";
        let plan: Vec<String> = client.query(query, &[]).unwrap().iter().map(|row| row.get(0)).collect();
        let plan = plan.join("\n");
        let (_, below) = plan.split_once("->").expect("a plan of two nodes");
        assert!(below.contains("Output: n, snowflake_nextval()"), "{plan}");
        let rows_of = |process: &str| {
            let (_, rows) = below.split_once(process)?.1.split_once("rows=")?;
            rows.split(|character: char| !character.is_ascii_digit()).next()?.parse::<u32>().ok()
        };
        let (one, two) = (rows_of("Worker 0:").unwrap_or(0), rows_of("Worker 1:").unwrap_or(0));
        println!("leader {participates}: {one} and {two} rows by workers");
        assert!(one + two > 0, "{plan}");
        let leader = 60 - one - two;
        assert_eq!(leader > 0, participates == "on", "{plan}");
        client.run("DROP TABLE made");
    }
}
