//! The worker ID changes while transactions are in progress.

use harness::*;

use super::events::{below_watermark, insert, server, shown, wait_until_passed, watermark};

/// A transaction with an ID of a low worker ID is in progress, and a row with a higher ID of the same tick is committed.
/// The worker ID then changes to a higher one. The watermark must not pass the ID of the transaction in progress, although
/// an ID of the same tick with the new worker ID would be higher.
#[test]
fn a_higher_worker_id_in_the_same_tick() {
    let server =
        server(Cluster::builder().set("snowflake_id.layout", "js53").set("snowflake_id.max_ahead", "3s"));
    let (mut client, mut slow) = (server.connect(), server.connect());
    slow.run("BEGIN");
    let mut committed = vec![];
    // Find two IDs of the same tick. A tick takes one second.
    let held = eventually("two IDs in a tick", || {
        slow.run("ROLLBACK; BEGIN");
        let held = insert(&mut slow);
        let id = insert(&mut client);
        committed.push(id);
        single::<bool>(
            &mut client,
            &format!("SELECT snowflake_timestamp({held}) = snowflake_timestamp({id})"),
        )
        .then_some(held)
    });
    for worker in [9, 2, 15] {
        server.change("snowflake_id.worker_id", &worker.to_string());
        eventually("the new worker ID", || {
            let worker_of = "SELECT snowflake_worker(snowflake_nextval())";
            client.query_one(worker_of, &[]).is_ok_and(|row| row.get::<_, i32>(0) == worker)
        });
        committed.push(insert(&mut client));
        let watermark = watermark(&mut client).expect("a watermark");
        assert!(watermark <= held, "{watermark} is above {held}, which is not committed");
    }
    slow.run("COMMIT");
    committed.push(held);
    committed.sort_unstable();
    wait_until_passed(&mut client, *committed.last().unwrap());
    assert_eq!(below_watermark(&mut client), committed);
}

/// Without a worker ID, there are no new IDs, and the watermark stands still.
#[test]
fn no_worker_id() {
    let server = server(Cluster::builder());
    let mut client = server.connect();
    let id = insert(&mut client);
    wait_until_passed(&mut client, id);
    let mut slow = server.connect();
    slow.run("BEGIN");
    let held = insert(&mut slow);
    server.change("snowflake_id.worker_id", "-1");
    wait_for_refusal(&mut client);
    assert!(watermark(&mut client).unwrap() <= held);
    assert!(shown::<bool>(&mut client, "watermark IS NOT NULL AND pid IS NOT NULL"));
    slow.run("COMMIT");
    server.change("snowflake_id.worker_id", "2");
    wait_until_passed(&mut client, held);
    assert_eq!(below_watermark(&mut client), [id, held]);
}
