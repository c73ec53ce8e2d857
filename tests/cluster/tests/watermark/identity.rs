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

/// Changes the worker ID, and waits until it is in effect. No ID is taken.
fn change_worker_id(server: &Cluster, client: &mut Client, worker: i32) {
    server.change("snowflake_id.worker_id", &worker.to_string());
    let status = "SELECT worker_id = $1 AND state = 'ready' FROM snowflake_status";
    eventually("the new worker ID", || client.query_one(status, &[&worker]).unwrap().get::<_, bool>(0));
}

/// The next IDs are in a tick of the future. The worker ID then changes to a lower one, before an ID is taken. Readers may
/// have stored the watermark of the higher worker ID as their position.
#[test]
fn a_lower_worker_id_before_the_first_id_of_a_tick() {
    let server = server(Cluster::builder().set("snowflake_id.max_wait", "20s"));
    let mut client = server.connect();
    change_worker_id(&server, &mut client, 9);
    client.run("SELECT snowflake_advance(clock_timestamp() + interval '3 s')");
    let ahead = |watermark: i64| {
        format!("SELECT snowflake_timestamp({watermark}) > clock_timestamp() + interval '1 s'")
    };
    let passed = eventually("a watermark in the future", || {
        let watermark = watermark(&mut client)?;
        single::<bool>(&mut client, &ahead(watermark)).then_some(watermark)
    });
    change_worker_id(&server, &mut client, 2);
    let id = insert(&mut client);
    assert!(passed <= id, "{id} is below the earlier watermark {passed}");

    // A restart of the server, and the crash of one.
    for (mode, worker) in [("fast", 1), ("immediate", 0)] {
        client.run("SELECT snowflake_advance(clock_timestamp() + interval '5 s')");
        let passed = eventually("a watermark in the future", || {
            let watermark = watermark(&mut client)?;
            single::<bool>(&mut client, &ahead(watermark)).then_some(watermark)
        });
        server.configure(&[("snowflake_id.worker_id", &worker.to_string())]);
        server.restart(mode);
        client = server.connect();
        let id = wait_for_first_id(&mut client);
        assert!(passed <= id, "{mode}: {id} is below the earlier watermark {passed}");
    }
}

/// Each change of the worker ID skips the rest of a tick. After a restart, the skipped IDs can be issued.
#[test]
fn skipped_ids_after_a_restart() {
    let server =
        server(Cluster::builder().set("snowflake_id.layout", "js53").set("snowflake_id.max_ahead", "10s"));
    let mut client = server.connect();
    let last = insert(&mut client);
    for worker in [9, 2, 9, 2, 9, 2, 9, 2, 9] {
        change_worker_id(&server, &mut client, worker);
    }
    let passed = eventually("a watermark", || watermark(&mut client).filter(|&watermark| watermark > last));
    server.restart("fast");
    let id = insert(&mut server.connect());
    assert!(passed <= id, "{id} is below the earlier watermark {passed}");
}
