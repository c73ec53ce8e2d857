//! View `snowflake_watermark_status` names the transaction that holds the watermark back.

use harness::*;

use super::events::{insert, server, shown, wait_until_passed, watermark};

#[test]
fn a_session_that_is_idle_in_transaction() {
    let server = server(Cluster::builder());
    let (mut client, mut idle) = (server.connect(), server.connect());
    idle.run("SET application_name = 'slow importer'; BEGIN");
    let held = insert(&mut idle);
    insert(&mut client);
    assert!(watermark(&mut client).unwrap() <= held);
    assert_eq!(shown::<i32>(&mut client, "pid"), single::<i32>(&mut idle, "SELECT pg_backend_pid()"));
    assert_eq!(shown::<String>(&mut client, "application_name"), "slow importer");
    assert_eq!(shown::<String>(&mut client, "usename::text"), "test");
    assert!(shown::<bool>(&mut client, "gid IS NULL AND problem IS NULL"));
    assert!(shown::<bool>(
        &mut client,
        "watermark_time BETWEEN pg_postmaster_start_time() AND now() + interval '2 s'"
    ));
    let since: String = single(&mut idle, "SELECT now()::text");
    assert_eq!(shown::<String>(&mut client, "held_back_since::text"), since);

    // A transaction that has taken no IDs holds nothing back.
    idle.run("COMMIT; BEGIN; SELECT count(*) FROM events; CREATE TABLE other ()");
    let last = insert(&mut client);
    wait_until_passed(&mut client, last);
    assert!(shown::<bool>(
        &mut client,
        "pid IS NULL AND held_back_since IS NULL AND application_name IS NULL"
    ));
}

/// A transaction with IDs of more layouts than it can mark.
#[test]
fn many_layouts() {
    let server = server(Cluster::builder());
    let (mut client, mut idle) = (server.connect(), server.connect());
    idle.run("BEGIN");
    insert(&mut client);
    for layout in ["wide", "discord", "instagram"] {
        idle.run(&format!("SET LOCAL snowflake_id.layout = '{layout}'; SELECT snowflake_nextval()"));
        let last = insert(&mut client);
        wait_until_passed(&mut client, last);
    }
    idle.run("SET LOCAL snowflake_id.layout = 'twitter'; SELECT snowflake_nextval()");
    // Samples of the watermark from before remain valid.
    let last = insert(&mut client);
    assert!(watermark(&mut client) <= Some(last));
    assert_eq!(shown::<String>(&mut client, "problem"), "many layouts");
    assert_eq!(shown::<i32>(&mut client, "pid"), single::<i32>(&mut idle, "SELECT pg_backend_pid()"));
    let layouts = "SELECT count(*) FROM snowflake_watermark_status WHERE problem = 'many layouts'";
    assert_eq!(single::<i64>(&mut client, layouts), 5);

    idle.run("ROLLBACK");
    wait_until_passed(&mut client, last);
    assert_eq!(single::<i64>(&mut client, layouts), 0);
}
