//! The registry fails over, or comes back from a dump: what it may have forgotten is not granted again, and servers that
//! have a lease go on.

use std::thread;
use std::time::Duration;

use snowflake_id_cluster_tests::fleet::{Fleet, leased_worker, some_ids, status};
use snowflake_id_cluster_tests::{
    Cluster, Settings, assert_distinct, failure, ids, poll, single, successful,
};

/// When commits may be lost, the registry forgets who holds what ends within two minutes: these do not.
const LEASES: &str = "lease => '10min', renew_every => '500ms'";

fn start(server: &Cluster) {
    server.start_server().unwrap_or_else(|log| panic!("the server did not start:\n{log}"));
}

/// How servers connect to whichever of two is the primary.
fn either(fleet: &Fleet, standby: &Cluster) -> String {
    let hosts = format!("host={},{}", fleet.registry.host().display(), standby.host().display());
    format!("{hosts} user=fleet dbname=postgres target_session_attrs=read-write")
}

/// A server whose clock can be set, and is followed by up to an hour.
fn server(fleet: &Fleet, registry: &str) -> Cluster {
    let settings: Settings = &[
        ("snowflake_id.registry", registry),
        ("snowflake_id.max_clock_jump", "1h"),
        ("snowflake_id.lease", "500ms"),
    ];
    let mut server = fleet.stopped_server(settings);
    server.give_clock();
    start(&server);
    server.connect().batch_execute("CREATE EXTENSION snowflake_id").unwrap();
    server
}

fn registry_state(registry: &Cluster) -> String {
    single(&mut registry.connect(), "SELECT state FROM snowflake_registry.status")
}

/// When a server's lease was renewed last.
fn renewed_at(server: &Cluster) -> Option<String> {
    status(&mut server.connect(), "lease_renewed_at")
}

fn wait_for_renewal(server: &Cluster) {
    let last = renewed_at(server);
    poll("a renewal", || (renewed_at(server) > last).then_some(()));
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
    poll("the refusal", || {
        status(&mut client, "last_error").filter(|text| text.contains("quarantine until"))
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
    poll("the registry to say that it does not know the lease", || {
        unknown.log().contains("does not know the lease of worker ID 1 any more").then_some(())
    });
    for server in [&known, &unknown] {
        all.extend(some_ids(server));
    }
    assert_eq!([&known, &unknown].map(leased_worker), workers);
    // After the quarantine, all have one again. The lost one has ended by then.
    let servers = [&known, &unknown, &newcomer];
    for server in servers.iter().chain([&&standby]) {
        server.set_clock(15.0 * 60.0);
    }
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
    successful(
        fleet
            .registry
            .program("pg_dump")
            .arg("--host")
            .arg(fleet.registry.host())
            .args(["--username=test", "--dbname=postgres", "--file"])
            .arg(&dump),
    );
    let unknown = server(&fleet, &connection);
    let lost = leased_worker(&unknown);
    assert_ne!(lost, worker);
    all.extend(some_ids(&unknown));
    wait_for_renewal(&known);
    fleet.lose_registry();
    let restored = Cluster::stopped(&[]);
    start(&restored);
    restored.connect().batch_execute("CREATE ROLE fleet LOGIN").unwrap();
    successful(
        restored
            .program("psql")
            .arg("--host")
            .arg(restored.host())
            .args(["--username=test", "--dbname=postgres", "--quiet", "--no-psqlrc", "--file"])
            .arg(&dump),
    );
    let connection = format!("host={} user=fleet dbname=postgres", restored.host().display());
    for server in [&known, &unknown] {
        server.configure(&[("snowflake_id.registry", &connection)]);
        server.reload();
    }
    let newcomer = server(&fleet, &connection);
    expect_refusal(&newcomer);
    poll("a renewal", || (registry_state(&restored) == "quarantine").then_some(()));
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
