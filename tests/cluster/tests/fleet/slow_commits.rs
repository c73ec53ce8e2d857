//! The registry waits for its synchronous standby: it grants nothing that may be lost.

use std::thread;
use std::time::Duration;

use harness::*;

/// The synchronous standby of the registry is gone: nothing is granted, and connections do not pile up.
#[test]
fn the_standby_of_the_registry_is_gone() {
    let fleet = Fleet::start(LASTING_LEASES);
    let standby = WalReceiver::start(&fleet.registry, "standby");
    fleet.registry.replicate_synchronously();
    let servers: Vec<Cluster> = (0..3).map(|_| fleet.server_with_clock().start()).collect();
    servers.iter().for_each(assert_renewed);
    let mut all = take_from(&servers);
    let newcomer = fleet.server_with_clock().clock_at(AFTER_THE_LEASE).stopped();
    drop(standby);
    let mut registry = fleet.registry.connect();
    eventually("a commit that waits", || !waiting_commits(&mut registry).is_empty());
    set_clocks(servers.iter().chain([&fleet.registry]), AFTER_THE_LEASE);
    newcomer.start_server();
    newcomer.connect().run("CREATE EXTENSION snowflake_id");
    let mut clients: Vec<Client> = servers.iter().map(Cluster::connect).collect();
    eventually("the ends of the leases", || {
        clients.iter_mut().all(|client| shown(client, "state").as_deref() == Some("lease ended"))
    });
    // Wait longer than a reply may take.
    thread::sleep(Duration::from_secs(16));
    // Each server has one connection that waits for the standby, and one that waits for the first. Others are ending.
    let looks = (0..20).map(|_| {
        thread::sleep(Duration::from_millis(50));
        fleet_connections(&mut registry)
    });
    let least = looks.min().unwrap();
    assert!(least <= 8, "{least} connections");
    assert_eq!(failure(&mut newcomer.connect(), "SELECT snowflake_nextval()").0, "55000");
    let _standby = WalReceiver::start(&fleet.registry, "standby2");
    fleet.registry.change("synchronous_standby_names", "standby2");
    servers.iter().chain([&newcomer]).for_each(|server| ask_now(server, &fleet.connection_string()));
    // Leases have lapsed, so any server may get any of the worker IDs.
    let everybody: Vec<Cluster> = servers.into_iter().chain([newcomer]).collect();
    let workers: Vec<i64> = everybody.iter().map(|server| leased_worker(server).into()).collect();
    assert_distinct(&workers);
    all.extend(take_from(&everybody));
    assert_distinct(&all);
    eventually("connections to go", || fleet_connections(&mut registry) <= 4);
}

/// A wait for the standby is canceled: the registry warns that its grant may be lost. The server asks again for the
/// same lease.
#[test]
fn a_grant_with_a_warning() {
    let fleet = Fleet::start(LASTING_LEASES);
    let mut registry = fleet.registry.connect();
    fleet.registry.change("synchronous_standby_names", "standby");
    let server = fleet.server().start();
    let mut client = server.connect();
    for round in 0..3 {
        let pid = waiting_commit(&mut registry);
        registry.execute("SELECT pg_cancel_backend($1)", &[&pid]).unwrap();
        eventually("the next question", || waiting_commits(&mut registry).iter().any(|other| *other != pid));
        assert_eq!(shown(&mut client, "lease_until"), None, "round {round}");
        assert_eq!(failure(&mut client, "SELECT snowflake_nextval()").0, "55000");
        wait_for_error(&server, "may not be durable|lock timeout");
    }
    assert!(server.log().contains("may not be durable"), "{}", server.log());
    // It is the same lease each time, although it was committed three times here.
    assert_eq!(grants(&fleet), 1);
    let standby = WalReceiver::start(&fleet.registry, "standby");
    let worker = leased_worker(&server);
    assert_renewed(&server);
    assert_eq!(grants(&fleet), 1);

    drop(standby);
    let mut renewals = 0;
    let before = eventually("a renewal that waits", || {
        let pid = waiting_commit(&mut registry);
        // Renewals that were committed before the standby was lost may still arrive.
        let before = shown(&mut client, "lease_until");
        registry.execute("SELECT pg_cancel_backend($1)", &[&pid]).unwrap();
        eventually("the next question", || waiting_commits(&mut registry).iter().any(|other| *other != pid));
        assert_eq!(shown(&mut client, "lease_until"), before);
        renewals += 1;
        (renewals == 3).then_some(before)
    });
    let stored: String = single(&mut registry, "SELECT granted_until::text FROM snowflake_registry.lease");
    assert!(stored > before.unwrap(), "nothing was committed that should not be believed");
    let _standby = WalReceiver::start(&fleet.registry, "standby2");
    fleet.registry.change("synchronous_standby_names", "standby2");
    assert_renewed(&server);
    assert_eq!(leased_worker(&server), worker);
    assert_eq!(grants(&fleet), 1);
}
