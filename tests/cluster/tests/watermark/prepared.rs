//! Prepared transactions hold the watermark back: after their session has ended, after a restart of the server, and on a
//! promoted standby.

use harness::*;

use super::events::{below_watermark, insert, server, shown, wait_until_passed, watermark};

/// Inserts an event in a transaction that is prepared, and ends the session.
fn prepare(server: &Cluster) -> i64 {
    let mut session = server.connect();
    session.run("BEGIN");
    let id = insert(&mut session);
    session.run("PREPARE TRANSACTION 'forgotten'");
    id
}

#[test]
fn after_the_end_of_the_session() {
    let server = server(Cluster::builder());
    let mut client = server.connect();
    let start: String = single(&mut client, "SELECT now()::text");
    let prepared = prepare(&server);
    let later = insert(&mut client);
    assert!(prepared < later);
    assert!(watermark(&mut client).unwrap() <= prepared);
    assert!(below_watermark(&mut client).is_empty());
    // Other transactions are prepared and finished meanwhile, so that entries in the list are reused.
    for n in 0..40 {
        client.run(&format!("BEGIN; INSERT INTO events DEFAULT VALUES; PREPARE TRANSACTION 'other {n}'"));
        client.run(&format!("{} PREPARED 'other {n}'", ["COMMIT", "ROLLBACK"][n % 2]));
    }
    assert!(watermark(&mut client).unwrap() <= prepared);
    assert_eq!(shown::<String>(&mut client, "gid"), "forgotten");
    assert!(shown::<bool>(
        &mut client,
        "pid IS NULL AND problem IS NULL AND watermark <= (SELECT min(id) FROM events)"
    ));
    assert!(shown::<bool>(&mut client, &format!("held_back_since BETWEEN '{start}' AND now()")));

    client.run("COMMIT PREPARED 'forgotten'");
    let last: i64 = single(&mut client, "SELECT max(id) FROM events");
    wait_until_passed(&mut client, last);
    let all = ids(&mut client, "SELECT id FROM events ORDER BY id");
    assert!(all.starts_with(&[prepared, later]) && all.len() == 22);
    assert_eq!(below_watermark(&mut client), all);
    assert!(shown::<bool>(&mut client, "gid IS NULL AND pid IS NULL AND held_back_since IS NULL"));

    prepare(&server);
    let later = insert(&mut client);
    assert_eq!(below_watermark(&mut client), all);
    client.run("ROLLBACK PREPARED 'forgotten'");
    wait_until_passed(&mut client, later);
    assert_eq!(below_watermark(&mut client), [all, vec![later]].concat());
}

/// The marks of the transaction are lost, so there is no watermark until the transaction is finished.
fn is_unknown_until_finished(server: &Cluster, prepared: i64) {
    let mut client = server.connect();
    let before = ids(&mut client, &format!("SELECT id FROM events WHERE id < {prepared} ORDER BY id"));
    // There is no watermark while no IDs are issued, and none afterwards.
    assert_eq!(watermark(&mut client), None);
    wait_for_first_id(&mut client);
    let later = insert(&mut client);
    assert!(prepared < later);
    assert_eq!(watermark(&mut client), None);
    assert!(shown::<bool>(&mut client, "watermark IS NULL AND watermark_time IS NULL"));
    assert_eq!(shown::<String>(&mut client, "problem"), "older transaction");
    assert_eq!(shown::<String>(&mut client, "gid"), "forgotten");

    client.run("COMMIT PREPARED 'forgotten'");
    wait_until_passed(&mut client, later);
    assert_eq!(below_watermark(&mut client), [before, vec![prepared, later]].concat());
    assert!(shown::<bool>(&mut client, "problem IS NULL AND gid IS NULL"));
}

#[test]
fn after_a_fast_restart_and_the_crash_of_a_backend() {
    let server = server(Cluster::builder().short_horizon());
    let prepared = prepare(&server);
    server.restart("fast");
    is_unknown_until_finished(&server, prepared);
    let prepared = prepare(&server);
    server.crash_a_backend();
    is_unknown_until_finished(&server, prepared);
}

#[test]
fn on_a_promoted_standby() {
    let primary = server(Cluster::builder().short_horizon());
    let standby = primary.start_standby(&[]);
    primary.replicate_synchronously();
    let prepared = prepare(&primary);
    primary.stop_server("immediate");
    standby.promote();
    is_unknown_until_finished(&standby, prepared);
}
