//! Parallel workers take IDs for the transaction of their leader.

use harness::*;

use super::events::{below_watermark, insert, wait_until_passed, watermark};
use super::writers;

/// A server with a session whose queries are parallel. The leader leaves all rows to the workers.
fn server_with_leader() -> (Cluster, Client) {
    let server = writers::server(Cluster::builder());
    let mut leader = server.connect();
    leader.run("SET parallel_leader_participation = off");
    let plan: Vec<String> = leader
        .query("EXPLAIN ANALYZE SELECT count(*) FROM numbers", &[])
        .unwrap()
        .iter()
        .map(|row| row.get(0))
        .collect();
    assert!(plan.iter().any(|line| line.contains("Workers Launched: 2")), "{plan:#?}");
    (server, leader)
}

/// Starting workers does not end the transaction of the leader.
#[test]
fn the_leader_has_taken_an_id() {
    let (server, mut leader) = server_with_leader();
    let mut client = server.connect();
    leader.run("BEGIN");
    let held = insert(&mut leader);
    let later = insert(&mut client);
    leader.run("SELECT count(*) FROM numbers");
    assert!(watermark(&mut client).unwrap() <= held);
    assert!(below_watermark(&mut client).is_empty());
    leader.run("COMMIT");
    wait_until_passed(&mut client, later);
    assert_eq!(below_watermark(&mut client), [held, later]);
}

/// The workers have exited, but the transaction goes on.
#[test]
fn the_workers_have_taken_ids() {
    let (server, mut leader) = server_with_leader();
    let mut client = server.connect();
    leader.run("BEGIN; CREATE TABLE made AS SELECT n, snowflake_nextval() AS id FROM numbers");
    let first: i64 = single(&mut leader, "SELECT min(id) FROM made");
    let later = insert(&mut client);
    assert!(watermark(&mut client).unwrap() <= first);
    let last = insert(&mut leader);
    assert!(watermark(&mut client).unwrap() <= first, "the leader has overwritten the mark of a worker");
    leader.run("INSERT INTO events (id) SELECT id FROM made; COMMIT");
    wait_until_passed(&mut client, last);
    let all = below_watermark(&mut client);
    assert_eq!(all.len(), 62);
    assert!(all[0] == first && all[60] == later && all[61] == last);
}

/// A function that calls `snowflake_watermark()` is declared PARALLEL SAFE by mistake. The processes of a query would not
/// get the same answer.
#[test]
fn a_worker_asks_for_the_watermark() {
    let (_server, mut leader) = server_with_leader();
    leader.run(
        "CREATE FUNCTION careless() RETURNS bigint STABLE PARALLEL SAFE LANGUAGE plpgsql
         AS 'BEGIN RETURN snowflake_watermark(); END'",
    );
    let query = "SELECT count(*) FROM numbers WHERE n < careless()";
    let (state, message) = failure(&mut leader, query);
    assert_eq!(state, "25000");
    assert!(message.contains("cannot compute a watermark in a parallel worker"), "{message}");
    leader.run("ALTER FUNCTION careless() PARALLEL RESTRICTED");
    eventually("the watermark", || single::<i64>(&mut leader, query) == 60);
}
