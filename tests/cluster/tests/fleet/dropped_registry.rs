//! The registry is dropped while a fleet uses it, and is restored from a dump.

use harness::*;

/// DROP OWNED drops all objects of an owner, including the guard. An object of another role blocks it.
#[test]
fn all_that_the_owner_has_is_dropped() {
    let registry = Cluster::builder().extensions(&[]).clock().start();
    let mut client = registry.connect();
    client.run(
        "CREATE ROLE keeper_of_ids LOGIN; CREATE ROLE fleet LOGIN;
         GRANT CREATE ON DATABASE postgres TO keeper_of_ids;
         SET ROLE keeper_of_ids",
    );
    Registry::of_leases(LASTING_LEASES).make(&mut client);
    client.run("RESET ROLE; CREATE VIEW registry_in_use AS SELECT FROM snowflake_registry.lease");
    let fleet = Fleet { registry };
    let server = || fleet.server_with_clock().set("snowflake_id.max_wait", "100ms").start();
    let early = [server(), server()];
    let mut all = take_from(&early);
    let dump = fleet.registry.dump();
    // The dump does not contain this lease.
    let late = [server()];
    all.extend(take_from(&late));

    let (code, said) = failure(&mut client, "DROP OWNED BY keeper_of_ids");
    assert_eq!(code, "2BP01", "{said}");
    assert!(said.contains("view registry_in_use depends on table snowflake_registry.lease"), "{said}");
    client.run("DROP VIEW registry_in_use; DROP OWNED BY keeper_of_ids");
    let schemas = "SELECT count(*) FROM pg_namespace WHERE nspname = 'snowflake_registry'";
    assert_eq!(single::<i64>(&mut client, schemas), 0);
    for server in early.iter().chain(&late) {
        wait_for_error(server, "schema \"snowflake_registry\" does not exist");
        // The server continues under its lease.
        all.extend(ids(&mut server.connect(), "SELECT snowflake_batch(1000)"));
    }
    set_clocks(early.iter().chain(&late).chain([&fleet.registry]), AFTER_THE_LEASE);
    for server in early.iter().chain(&late) {
        let mut client = server.connect();
        wait_for_end_of_lease(&mut client);
        let (code, said) = wait_for_refusal(&mut client);
        assert_eq!(code, "55000", "{said}");
    }

    client.run("CREATE DATABASE restored");
    fleet.registry.restore(&dump, "restored");
    let string = fleet.connection_string().replace("dbname=postgres", "dbname=restored");
    for server in early.iter().chain(&late) {
        ask_now(server, &string);
        // No lease that has ended is renewed, and no server gets another one.
        let mut client = server.connect();
        eventually("the quarantine", || {
            let state = shown(&mut client, "registry_state").unwrap_or_default();
            ["quarantine", "all taken"].contains(&state.as_str())
        });
    }
    let mut client = fleet.registry.connect_to("restored");
    assert_eq!(single::<String>(&mut client, "SELECT state FROM snowflake_registry.status"), "quarantine");
    // All leases have ended.
    client.run("SELECT snowflake_registry.end_quarantine()");
    for server in early.iter().chain(&late) {
        ask_now(server, &string);
    }
    let workers =
        early.iter().chain(&late).map(|server| i64::from(leased_worker(server))).collect::<Vec<_>>();
    assert_distinct(&workers);
    all.extend(take_from(&early));
    all.extend(take_from(&late));
    assert_distinct(&all);
}
