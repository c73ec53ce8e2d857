//! Parallel workers take IDs for the transaction of their leader.

use harness::*;

use super::events::{below_watermark, insert, wait_until_passed, watermark};
use super::writers;

/// The leader leaves all rows to the workers.
#[test]
fn workers_take_ids_for_their_leader() {
    let server = writers::server(Cluster::builder());
    let (mut leader, mut client) = (server.connect(), server.connect());
    leader.run("SET parallel_leader_participation = off");
    let plan: Vec<String> = leader
        .query("EXPLAIN ANALYZE SELECT count(*) FROM numbers", &[])
        .unwrap()
        .iter()
        .map(|row| row.get(0))
        .collect();
    assert!(plan.iter().any(|line| line.contains("Workers Launched: 2")), "{plan:#?}");
    the_leader_has_taken_an_id(&mut leader, &mut client);
    client.run("TRUNCATE events");
    the_workers_have_taken_ids(&mut leader, &mut client);
    a_worker_asks_for_the_watermark(&mut leader);
}

/// Starting workers does not end the transaction of the leader.
fn the_leader_has_taken_an_id(leader: &mut Client, client: &mut Client) {
    leader.run("BEGIN");
    let held = insert(leader);
    let later = insert(client);
    leader.run("SELECT count(*) FROM numbers");
    assert!(watermark(client).unwrap() <= held);
    assert!(below_watermark(client).is_empty());
    leader.run("COMMIT");
    wait_until_passed(client, later);
    assert_eq!(below_watermark(client), [held, later]);
}

/// The workers have exited, but the transaction goes on.
fn the_workers_have_taken_ids(leader: &mut Client, client: &mut Client) {
    leader.run("BEGIN; CREATE TABLE made AS SELECT n, snowflake_nextval() AS id FROM numbers");
    let first: i64 = single(leader, "SELECT min(id) FROM made");
    let later = insert(client);
    assert!(watermark(client).unwrap() <= first);
    let last = insert(leader);
    assert!(watermark(client).unwrap() <= first, "the leader has overwritten the mark of a worker");
    leader.run("INSERT INTO events (id) SELECT id FROM made; COMMIT");
    wait_until_passed(client, last);
    let all = below_watermark(client);
    assert_eq!(all.len(), 62);
    assert!(all[0] == first && all[60] == later && all[61] == last);
}

/// A function that calls `snowflake_watermark()` is declared PARALLEL SAFE by mistake. The processes of a query would not
/// get the same answer.
fn a_worker_asks_for_the_watermark(leader: &mut Client) {
    leader.run(
        "CREATE FUNCTION careless() RETURNS bigint STABLE PARALLEL SAFE LANGUAGE plpgsql
         AS 'BEGIN RETURN snowflake_watermark(); END'",
    );
    let query = "SELECT count(*) FROM numbers WHERE n < careless()";
    let (state, message) = failure(leader, query);
    assert_eq!(state, "25000");
    assert!(message.contains("cannot compute a watermark in a parallel worker"), "{message}");
    leader.run("ALTER FUNCTION careless() PARALLEL RESTRICTED");
    eventually("the watermark", || single::<i64>(leader, query) == 60);
}
