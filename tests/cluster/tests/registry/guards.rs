//! Guards of a registry's history: triggers that fire in every session, and a view that blocks DROP EXTENSION.

use harness::*;

use super::taker::{administer, start_with_fleet};

/// A data restore that disables triggers, into a running registry. At its end all triggers are enabled again, but as
/// ordinary ones, which apply workers do not fire.
#[test]
fn guards_that_were_switched_off_are_switched_on() {
    let cluster = start_with_fleet(Cluster::builder());
    let mut client = cluster.connect();
    let mut member = super::member::granted(&mut client);
    let dump = cluster.dump();
    let mut restore = cluster.client_program("pg_restore");
    restore.args(["--data-only", "--disable-triggers", "--dbname=postgres"]).arg(&dump);
    let is_guarded =
        |client: &mut Client| single::<bool>(client, "SELECT is_guarded FROM snowflake_registry.status");
    assert!(is_guarded(&mut client));
    // The rows already exist.
    assert!(!restore.output().unwrap().status.success());
    assert!(!is_guarded(&mut client));
    assert_eq!(super::member::state(&mut client), "ready");

    assert_eq!(member.renew(&mut client).unwrap().outcome, "granted");
    assert!(is_guarded(&mut client));
    assert_eq!(super::member::state(&mut client), "quarantine");
    let reason = super::member::reason(&mut client);
    assert!(reason.contains("the guards of the registry were switched off"), "{reason}");
    assert!(
        super::taker::closed_reason(&mut client, "orders")
            .contains("the guards of the registry were switched off")
    );
    client.run(
        "SET session_replication_role = replica; UPDATE snowflake_registry.lease SET host = 'elsewhere'",
    );
    assert_eq!(
        single::<i64>(&mut client, "SELECT count(*) FROM snowflake_registry.lease WHERE host IS NULL"),
        1
    );
    client.run("RESET session_replication_role");
    // The gap is detected once. A call of an administrator's function detects it too.
    administer(&mut client, "end_quarantine()");
    super::member::granted(&mut client);
    assert!(!restore.output().unwrap().status.success());
    administer(&mut client, "configure(last_worker => 5)");
    assert!(is_guarded(&mut client));
    assert_eq!(super::member::state(&mut client), "quarantine");
}

/// As many servers as possible call at the same time while the guards are off, during a reading transaction and a
/// VACUUM.
#[test]
fn all_call_when_the_guards_were_switched_off() {
    let cluster = super::member::start(super::member::many());
    let mut client = cluster.connect();
    let members: Vec<_> = (0..20).map(|_| super::member::granted(&mut client)).collect();
    let mut reader = cluster.connect();
    reader.run("BEGIN; SELECT * FROM snowflake_registry.fleet");
    for _ in 0..3 {
        client.run("ALTER TABLE snowflake_registry.lease DISABLE TRIGGER ALL; ALTER TABLE snowflake_registry.lease ENABLE TRIGGER ALL");
        std::thread::scope(|scope| {
            for member in &members {
                let mut member = member.clone();
                let mut client = cluster.connect();
                scope.spawn(move || {
                    // Its copy has renewed in an earlier round, so its nonce is unknown after a quarantine.
                    member.nonce = super::member::uuid();
                    eventually("an answer", || super::member::unless_locked(member.renew(&mut client)));
                });
            }
            client.run("VACUUM snowflake_registry.lease");
        });
        assert!(single::<bool>(&mut client, "SELECT is_guarded FROM snowflake_registry.status"));
    }
}

/// A session holds a lock on a table for a long time. Renewals do not wait for it, and the guards are switched on
/// afterwards.
#[test]
fn guards_that_cannot_be_switched_on_now() {
    let cluster = super::member::start(Cluster::builder());
    let mut client = cluster.connect();
    let mut member = super::member::granted(&mut client);
    client.run(
        "ALTER TABLE snowflake_registry.lease DISABLE TRIGGER ALL;
         ALTER TABLE snowflake_registry.lease ENABLE TRIGGER ALL",
    );
    let mut other = cluster.connect();
    other.run("BEGIN; LOCK TABLE snowflake_registry.lease IN SHARE UPDATE EXCLUSIVE MODE");
    let is_guarded = "SELECT is_guarded FROM snowflake_registry.status";
    for _ in 0..2 {
        assert_eq!(member.renew(&mut client).unwrap().outcome, "granted");
        assert_eq!(super::member::state(&mut client), "quarantine");
        assert!(!single::<bool>(&mut client, is_guarded));
    }
    other.run("COMMIT");
    assert_eq!(member.renew(&mut client).unwrap().outcome, "granted");
    assert!(single::<bool>(&mut client, is_guarded));
}

/// What is said instead of PostgreSQL's advice to use CASCADE, which would forget all grants; and where no superuser has
/// made the registry.
#[test]
fn a_registry_in_use_is_not_dropped_by_accident() {
    let cluster = start_with_fleet(Cluster::builder());
    let mut client = cluster.connect();
    for command in [
        "DROP EXTENSION snowflake_id_registry",
        "drop  extension if exists\n snowflake_id_registry;\n",
        "DROP EXTENSION IF EXISTS hstore, \"snowflake_id_registry\" RESTRICT",
    ] {
        let (code, said) = failure(&mut client, command);
        assert_eq!(code, "2BP01", "{command}: {said}");
        assert!(said.contains("SELECT snowflake_registry.end_fleet();"), "{command}: {said}");
        assert!(!said.contains("CASCADE"), "{command}: {said}");
    }
    // Other statements are left alone, whatever their texts contain.
    for command in [
        "CREATE SCHEMA shop; DROP SCHEMA shop; DROP EXTENSION IF EXISTS hstore; -- snowflake_id_registry",
        "DROP EXTENSION IF EXISTS hstore -- unlike DROP EXTENSION snowflake_id_registry",
        "DROP SCHEMA IF EXISTS \"old-snowflake_registry\"",
    ] {
        client.run(command);
    }
    let (code, _) = failure(&mut client, "DROP EXTENSION hstore; SELECT 'snowflake_id_registry'");
    assert_eq!(code, "42704");
    administer(&mut client, "end_fleet()");
    administer(&mut client, "create_segment('orders2')");
    let (code, said) = failure(&mut client, "DROP EXTENSION snowflake_id_registry");
    assert_eq!(code, "2BP01");
    assert!(said.contains("drop_segment(name)") && !said.contains("CASCADE"), "{said}");
    client.run("SELECT snowflake_registry.drop_segment(name) FROM snowflake_registry.segments WHERE state <> 'dropped'");
    client.run("DROP EXTENSION snowflake_id_registry");

    // An event trigger takes a superuser. Without it PostgreSQL refuses, and names what to call.
    client.run("CREATE ROLE owner LOGIN; GRANT CREATE ON DATABASE postgres TO owner; SET ROLE owner");
    client.run("CREATE EXTENSION snowflake_id_registry; SELECT snowflake_registry.start_fleet(0, 1023, first_start => true)");
    let (code, said) = failure(&mut client, "DROP EXTENSION snowflake_id_registry");
    assert_eq!(code, "2BP01");
    assert!(said.contains("the_fleet_is_in_use_call_end_fleet_first"), "{said}");
    client.run("DROP EXTENSION snowflake_id_registry CASCADE");
}
