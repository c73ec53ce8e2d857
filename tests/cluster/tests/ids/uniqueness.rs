//! Promises 1 and 2: no repeats, and order, over all backends, databases and parallel workers of a server.

use std::sync::atomic::{AtomicI64, Ordering};
use std::thread;

use harness::*;

const SESSIONS: usize = 8;

/// Eight sessions in two databases take 400,000 IDs, by single calls, loops in the server and batches.
#[test]
fn ids_of_eight_sessions_in_two_databases() {
    let cluster = Cluster::builder().worker(1).patient().start();
    let mut client = cluster.connect();
    client.run("CREATE DATABASE other");
    cluster.connect_to("other").run("CREATE EXTENSION snowflake_id");

    // The largest ID that any session was given so far. A call that starts now must return a larger one.
    let newest = AtomicI64::new(0);
    let take = |session: usize| {
        let mut client = cluster.connect_to(["postgres", "other"][session % 2]);
        let mut all = Vec::new();
        let mut call = |query: &str| {
            let before = newest.load(Ordering::SeqCst);
            let given = ids(&mut client, query);
            assert!(given[0] > before, "{query} gave {} after {before} had been returned", given[0]);
            newest.fetch_max(*given.last().unwrap(), Ordering::SeqCst);
            all.extend(given);
        };
        // 4 x (500 + 2,000 + 10,000) = 50,000 for each session.
        for _ in 0..4 {
            for _ in 0..500 {
                call("SELECT snowflake_nextval()");
            }
            call("SELECT snowflake_nextval() FROM generate_series(1, 2000)");
            call("SELECT snowflake_batch(10000)");
        }
        all
    };
    let sessions: Vec<Vec<i64>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..SESSIONS).map(|session| scope.spawn(move || take(session))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });

    sessions.iter().for_each(|session| assert_increasing(session));
    assert_eq!(sessions.iter().map(Vec::len).sum::<usize>(), 400_000);
    assert_distinct(sessions.iter().flatten());
}

/// IDs of transactions that were rolled back are lost, and never given again.
#[test]
fn rolled_back_transactions() {
    let cluster = Cluster::builder().worker(1).start();
    let take = |session: usize| {
        let mut client = cluster.connect();
        let mut all = Vec::new();
        for round in 0..200 {
            let mut transaction = client.transaction().unwrap();
            let rows = transaction
                .query("SELECT snowflake_nextval() UNION ALL SELECT snowflake_batch(20)", &[])
                .unwrap();
            all.extend(rows.iter().map(|row| row.get::<_, i64>(0)));
            match (round + session) % 2 {
                0 => transaction.rollback().unwrap(),
                _ => transaction.commit().unwrap(),
            }
        }
        all
    };
    let all: Vec<i64> = thread::scope(|scope| {
        let threads: Vec<_> = (0..SESSIONS).map(|session| scope.spawn(move || take(session))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(all.len(), SESSIONS * 200 * 21);
    assert_distinct(&all);
}

/// Parallel workers take IDs from the same slot as other processes.
#[test]
fn parallel_create_table_as() {
    let cluster = Cluster::builder()
        .worker(1)
        .set("max_parallel_workers_per_gather", "4")
        .set("max_parallel_workers", "8")
        .set("parallel_setup_cost", "0")
        .set("parallel_tuple_cost", "0")
        .set("min_parallel_table_scan_size", "0")
        .start();
    let mut client = cluster.connect();
    client.run(
        "CREATE TABLE numbers AS SELECT n FROM generate_series(1, 200000) AS n;
         ALTER TABLE numbers SET (parallel_workers = 4);
         ANALYZE numbers",
    );
    let before: i64 = single(&mut client, "SELECT snowflake_nextval()");
    let plan = lines(
        &mut client,
        "EXPLAIN (ANALYZE, VERBOSE, COSTS OFF, TIMING OFF)
         CREATE TABLE filled AS SELECT n, snowflake_nextval() AS id FROM numbers",
    );
    let after: i64 = single(&mut client, "SELECT snowflake_nextval()");
    // The scan below the Gather takes the IDs, and workers took part in it.
    let (above, below) = plan.split_once("->").expect("a plan of two nodes");
    assert!(above.contains("Gather") && below.contains("Output: n, snowflake_nextval()"), "{plan}");
    assert!(below.contains("Worker 0:"), "no worker took part:\n{plan}");

    let facts =
        client.query_one("SELECT count(*), count(DISTINCT id), min(id), max(id) FROM filled", &[]).unwrap();
    assert_eq!((facts.get::<_, i64>(0), facts.get::<_, i64>(1)), (200_000, 200_000));
    assert!(before < facts.get(2) && facts.get::<_, i64>(3) < after);
}

fn lines(client: &mut postgres::Client, query: &str) -> String {
    let rows = client.query(query, &[]).unwrap();
    rows.iter().map(|row| row.get::<_, String>(0)).collect::<Vec<_>>().join("\n")
}

/// With `sequence_spread`, IDs taken one at a time are not all even.
#[test]
fn spread_ids_are_even_and_odd() {
    let cluster = Cluster::builder().worker(1).set("snowflake_id.sequence_spread", "15").start();
    let mut client = cluster.connect();
    let mut all = Vec::new();
    for _ in 0..200 {
        all.extend(ids(&mut client, "SELECT snowflake_nextval() FROM pg_sleep(0.002)"));
    }
    assert_increasing(&all);
    let odd = all.iter().filter(|&id| id % 2 == 1).count();
    assert!((60..140).contains(&odd), "{odd} of 200 are odd");
}
