//! The registry fails over, or is restored from a dump. It does not grant again what it may have forgotten, and servers
//! with a lease continue.

use std::thread;
use std::time::Duration;

use harness::*;

/// The connection string for whichever of two registries is the primary.
fn either(fleet: &Fleet, standby: &Cluster) -> String {
    let hosts = format!("host={},{}", fleet.registry.host().display(), standby.host().display());
    format!("{hosts} user=fleet dbname=postgres target_session_attrs=read-write")
}

fn server(fleet: &Fleet, registry: &str) -> Cluster {
    fleet.server_by(registry).following_clock().start()
}

fn registry_state(registry: &Cluster) -> String {
    single(&mut registry.connect(), "SELECT state FROM snowflake_registry.status")
}

/// Nothing was lost, and the registry is configured accordingly: it continues at once.
#[test]
fn a_synchronous_standby_is_promoted() {
    for is_configured in [true, false] {
        // The registry trusts its data for three times renew_every after the last renewal.
        let settings = "lease => '10min', renew_every => '2min'";
        let fleet = Fleet::start(&format!("{settings}, synchronous => {is_configured}"));
        let standby = fleet.registry.start_standby(&[]);
        fleet.registry.replicate_synchronously();
        let connection = either(&fleet, &standby);
        let first = server(&fleet, &connection);
        let worker = leased_worker(&first);
        let mut all = some_ids(&first);
        fleet.lose_registry();
        standby.promote();
        let last = shown(&mut first.connect(), "lease_renewed_at");
        ask_now(&first, &connection);
        eventually("a renewal", || shown(&mut first.connect(), "lease_renewed_at") > last);
        let newcomer = server(&fleet, &connection);
        if is_configured {
            assert_ne!(leased_worker(&newcomer), worker);
            assert_eq!(registry_state(&standby), "ready");
            all.extend(some_ids(&newcomer));
        } else {
            expect_refusal(&newcomer);
            assert_eq!(registry_state(&standby), "quarantine");
        }
        assert_eq!(leased_worker(&first), worker);
        all.extend(some_ids(&first));
        assert_distinct(&all);
    }
}

/// Checks that the registry is in quarantine and grants this server nothing.
fn expect_refusal(newcomer: &Cluster) {
    let mut client = newcomer.connect();
    eventually("the refusal", || {
        shown(&mut client, "last_error").filter(|text| text.contains("quarantine until"))
    });
    let (state, message) = failure(&mut client, "SELECT snowflake_nextval()");
    assert_eq!(state, "55000", "{message}");
}

/// The grant to one server never reached the standby. The server continues, and no other server gets its worker ID
/// meanwhile.
#[test]
fn an_asynchronous_standby_is_promoted() {
    let fleet = Fleet::start(LASTING_LEASES);
    let standby = fleet.registry.start_standby(&[]);
    let connection = either(&fleet, &standby);
    let known = server(&fleet, &connection);
    let workers = [leased_worker(&known), 1];
    assert_renewed(&known);
    standby.stop_receiving();
    let unknown = server(&fleet, &connection);
    assert_eq!(leased_worker(&unknown), workers[1]);
    let mut all = some_ids(&known);
    all.extend(some_ids(&unknown));
    fleet.lose_registry();
    standby.promote();
    let newcomer = server(&fleet, &connection);
    expect_refusal(&newcomer);
    assert_renewed(&known);
    assert_eq!(registry_state(&standby), "quarantine");
    // It shows what the lost registry signed, and continues.
    assert_renewed(&unknown);
    let held = "SELECT state = 'held' FROM snowflake_registry.fleet WHERE worker_id = 1";
    eventually("the lost lease to be known", || {
        standby.connect().query_opt(held, &[]).unwrap().is_some_and(|row| row.get(0))
    });
    for server in [&known, &unknown] {
        all.extend(some_ids(server));
    }
    assert_eq!([&known, &unknown].map(leased_worker), workers);
    // After the quarantine, all servers have a worker ID.
    let servers = [&known, &unknown, &newcomer];
    for server in servers.iter().chain([&&standby]) {
        server.set_clock(15.0 * 60.0);
    }
    // The time is counted, and not taken from a clock.
    standby.connect().run("SELECT snowflake_registry.end_quarantine()");
    assert_distinct(&servers.map(|server| i64::from(leased_worker(server))));
    for server in servers {
        all.extend(some_ids(server));
    }
    assert_distinct(&all);
}

/// A registry restored from a dump: leases that it knows continue, no server gets another one.
#[test]
fn a_registry_restored_from_a_dump() {
    let fleet = Fleet::start(LASTING_LEASES);
    let connection = fleet.connection_string();
    let known = server(&fleet, &connection);
    let worker = leased_worker(&known);
    let mut all = some_ids(&known);
    let dump = fleet.registry.host().join("dump");
    successful(fleet.registry.client_program("pg_dump").args(["--dbname=postgres", "--file"]).arg(&dump));
    let unknown = server(&fleet, &connection);
    let lost = leased_worker(&unknown);
    assert_ne!(lost, worker);
    all.extend(some_ids(&unknown));
    assert_renewed(&known);
    fleet.lose_registry();
    let restored = Cluster::builder().extensions(&[]).start();
    restored.connect().run("CREATE ROLE fleet LOGIN");
    let psql = ["--dbname=postgres", "--quiet", "--no-psqlrc", "--file"];
    successful(restored.client_program("psql").args(psql).arg(&dump));
    let connection = restored.connection_string("fleet");
    for server in [&known, &unknown] {
        server.change("snowflake_id.registry", &connection);
    }
    let newcomer = server(&fleet, &connection);
    expect_refusal(&newcomer);
    eventually("a renewal", || registry_state(&restored) == "quarantine");
    assert_renewed(&known);
    assert_eq!(leased_worker(&known), worker);
    assert_eq!(leased_worker(&unknown), lost);
    for _ in 0..4 {
        all.extend(ids(&mut known.connect(), "SELECT snowflake_batch(1000)"));
        all.extend(ids(&mut unknown.connect(), "SELECT snowflake_batch(1000)"));
        thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(failure(&mut newcomer.connect(), "SELECT snowflake_nextval()").0, "55000");
    assert_distinct(&all);
}
