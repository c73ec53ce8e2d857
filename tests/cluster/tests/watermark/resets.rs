//! A reset of the horizon. IDs begin lower afterwards, so consumers must begin again. The watermark says nothing until
//! all transactions with IDs from before the reset have ended.

use harness::*;

use super::events::{below_watermark, insert, server, shown, wait_until_passed, watermark};

#[test]
fn a_transaction_from_before_the_reset() {
    let server = server(Cluster::builder());
    let (mut client, mut slow, mut older) = (server.connect(), server.connect(), server.connect());
    let first = insert(&mut client);
    wait_until_passed(&mut client, first);
    slow.run("BEGIN");
    insert(&mut slow);
    older.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM events");

    client.run("SELECT snowflake_reset_horizon(9)");
    // No IDs have been issued yet, and the watermarks from before the reset are forgotten.
    assert_eq!(watermark(&mut client), None);
    assert_eq!(watermark(&mut older), None);
    server.change("snowflake_id.worker_id", "9");
    wait_for_first_id(&mut client);
    let after = insert(&mut client);
    assert_eq!(watermark(&mut client), None);
    assert_eq!(shown::<String>(&mut client, "problem"), "reset");
    assert_eq!(shown::<i32>(&mut client, "pid"), single::<i32>(&mut slow, "SELECT pg_backend_pid()"));

    // The transaction goes on with IDs of the new horizon.
    let new = insert(&mut slow);
    assert!(after < new);
    assert_eq!(watermark(&mut client), None);
    slow.run("COMMIT");
    wait_until_passed(&mut client, new);
    assert_eq!(below_watermark(&mut client), ids(&mut client, "SELECT id FROM events ORDER BY id"));
    assert!(shown::<bool>(&mut client, "problem IS NULL"));
}
