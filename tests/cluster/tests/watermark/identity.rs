//! The worker ID changes while transactions are in progress.

use harness::*;

use super::events::{below_watermark, insert, server, shown, wait_until_passed, watermark};

/// A server whose next IDs are five minutes ahead of its clock. All of them are in the same tick, until a change of the
/// worker ID skips the rest of it.
fn server_ahead(layout: &str) -> Cluster {
    let builder = Cluster::builder().short_horizon().set("snowflake_id.layout", layout);
    let server = server(builder.set("snowflake_id.max_ahead", "10min"));
    server.connect().run("SELECT snowflake_raise_floor(clock_timestamp() + interval '5 min')");
    server
}

/// A transaction with an ID of a low worker ID is in progress, and a row with a higher ID of the same tick is committed.
/// The worker ID then changes to a higher one. The watermark must not pass the ID of the transaction in progress, although
/// an ID of the same tick with the new worker ID would be higher.
#[test]
fn a_higher_worker_id_in_the_same_tick() {
    let server = server_ahead("js53");
    let (mut client, mut slow) = (server.connect(), server.connect());
    slow.run("BEGIN");
    let held = insert(&mut slow);
    let mut committed = vec![held, insert(&mut client)];
    let times = format!("SELECT snowflake_timestamp({held}) = snowflake_timestamp({})", committed[1]);
    assert!(single::<bool>(&mut client, &times));
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
    eventually("no worker ID", || server_state(&mut client) == "no worker id");
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
    let server = server_ahead("standard");
    let mut client = server.connect();
    change_worker_id(&server, &mut client, 9);
    // Then a restart of the server, and the crash of one.
    for (event, worker, minutes) in [("reload", 2, 6), ("fast", 1, 7), ("immediate", 0, 8)] {
        let floor = format!("clock_timestamp() + interval '{minutes} min'");
        let floor: i64 = single(&mut client, &format!("SELECT snowflake_min_id({floor})"));
        client.run(&format!("SELECT snowflake_raise_floor(snowflake_timestamp({floor}))"));
        let passed = eventually("a watermark in the future", || {
            watermark(&mut client).filter(|watermark| *watermark > floor)
        });
        if event == "reload" {
            change_worker_id(&server, &mut client, worker);
        } else {
            server.configure(&[("snowflake_id.worker_id", &worker.to_string())]);
            server.restart(event);
            client = server.connect();
        }
        let id = wait_for_first_id(&mut client);
        assert!(passed <= id, "{event}: {id} is below the earlier watermark {passed}");
    }
}

/// Each change of the worker ID skips the rest of a tick. After a restart, the skipped IDs can be issued.
#[test]
fn skipped_ids_after_a_restart() {
    let server = server_ahead("js53");
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
