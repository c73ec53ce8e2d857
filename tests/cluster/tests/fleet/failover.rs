//! The registry fails over, or comes back from a dump: what it may have forgotten is not granted again, and servers that
//! have a lease go on.

use std::thread;
use std::time::Duration;

use harness::*;

/// When commits may be lost, the registry forgets who holds what ends within two minutes: these do not.
const LEASES: &str = "lease => '10min', renew_every => '500ms'";

/// How servers connect to whichever of two is the primary.
fn either(fleet: &Fleet, standby: &Cluster) -> String {
    let hosts = format!("host={},{}", fleet.registry.host().display(), standby.host().display());
    format!("{hosts} user=fleet dbname=postgres target_session_attrs=read-write")
}

/// A server whose clock can be set, and is followed by up to an hour.
fn server(fleet: &Fleet, registry: &str) -> Cluster {
    let server = fleet.server_by(registry).set("snowflake_id.max_clock_jump", "1h");
    server.short_horizon().clock().start()
}

fn registry_state(registry: &Cluster) -> String {
    single(&mut registry.connect(), "SELECT state FROM snowflake_registry.status")
}

/// When a server's lease was renewed last.
fn renewed_at(server: &Cluster) -> Option<String> {
    shown(&mut server.connect(), "lease_renewed_at")
}

fn wait_for_renewal(server: &Cluster) {
    let last = renewed_at(server);
    eventually("a renewal", || renewed_at(server) > last);
}

/// Nothing was lost, and the registry was told that nothing can be: it goes on at once.
#[test]
fn a_synchronous_standby_is_promoted() {
    for is_configured in [true, false] {
        let fleet = Fleet::start(&format!("{LEASES}, synchronous => {is_configured}"));
        let standby = fleet.registry.start_standby(&[]);
        fleet.registry.replicate_synchronously();
        let connection = either(&fleet, &standby);
        let first = server(&fleet, &connection);
        let worker = leased_worker(&first);
        let mut all = some_ids(&first);
        fleet.lose_registry();
        standby.promote();
        wait_for_renewal(&first);
        let newcomer = server(&fleet, &connection);
        if is_configured {
            assert_eq!(registry_state(&standby), "ready");
            assert_ne!(leased_worker(&newcomer), worker);
            all.extend(some_ids(&newcomer));
        } else {
            assert_eq!(registry_state(&standby), "quarantine");
            expect_refusal(&newcomer);
        }
        assert_eq!(leased_worker(&first), worker);
        all.extend(some_ids(&first));
        assert_distinct(&all);
    }
}

/// The registry is in quarantine, and has nothing for this server.
fn expect_refusal(newcomer: &Cluster) {
    let mut client = newcomer.connect();
    eventually("the refusal", || {
        shown(&mut client, "last_error").filter(|text| text.contains("quarantine until"))
    });
    let (state, message) = failure(&mut client, "SELECT snowflake_nextval()");
    assert_eq!(state, "55000", "{message}");
}

/// The grant to one server never came to the standby. It goes on, and nobody else gets its worker ID meanwhile.
#[test]
fn an_asynchronous_standby_is_promoted() {
    let fleet = Fleet::start(LEASES);
    let standby = fleet.registry.start_standby(&[]);
    let connection = either(&fleet, &standby);
    let known = server(&fleet, &connection);
    let workers = [leased_worker(&known), 1];
    wait_for_renewal(&known);
    standby.stop_receiving();
    let unknown = server(&fleet, &connection);
    assert_eq!(leased_worker(&unknown), workers[1]);
    let mut all = some_ids(&known);
    all.extend(some_ids(&unknown));
    fleet.lose_registry();
    standby.promote();
    let newcomer = server(&fleet, &connection);
    expect_refusal(&newcomer);
    wait_for_renewal(&known);
    assert_eq!(registry_state(&standby), "quarantine");
    // It shows what the lost registry has signed, and goes on.
    wait_for_renewal(&unknown);
    let held = "SELECT state = 'held' FROM snowflake_registry.fleet WHERE worker_id = 1";
    eventually("the lost lease to be known", || {
        standby.connect().query_opt(held, &[]).unwrap().is_some_and(|row| row.get(0))
    });
    for server in [&known, &unknown] {
        all.extend(some_ids(server));
    }
    assert_eq!([&known, &unknown].map(leased_worker), workers);
    // After the quarantine, all have one.
    let servers = [&known, &unknown, &newcomer];
    for server in servers.iter().chain([&&standby]) {
        server.set_clock(15.0 * 60.0);
    }
    // It is counted, and not read off a clock.
    standby.connect().run("SELECT snowflake_registry.end_quarantine()");
    let mut found: Vec<i64> = servers.iter().map(|server| leased_worker(server).into()).collect();
    found.sort_unstable();
    found.dedup();
    assert_eq!(found.len(), 3, "{found:?}");
    for server in servers {
        all.extend(some_ids(server));
    }
    assert_distinct(&all);
}

/// A registry made of a dump: leases that it knows go on, nobody gets another one.
#[test]
fn a_registry_restored_from_a_dump() {
    let fleet = Fleet::start(LEASES);
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
    wait_for_renewal(&known);
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
    wait_for_renewal(&known);
    assert_eq!(leased_worker(&known), worker);
    assert_eq!(leased_worker(&unknown), lost);
    for _ in 0..10 {
        all.extend(ids(&mut known.connect(), "SELECT snowflake_batch(1000)"));
        all.extend(ids(&mut unknown.connect(), "SELECT snowflake_batch(1000)"));
        thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(failure(&mut newcomer.connect(), "SELECT snowflake_nextval()").0, "55000");
    assert_distinct(&all);
}
