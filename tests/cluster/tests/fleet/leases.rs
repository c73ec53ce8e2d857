//! Servers that lease their worker IDs: which server gets which ID, how long a lease lasts, and what servers report
//! when it is over.

use std::thread;
use std::time::{Duration, Instant};

use harness::check::problems;
use harness::*;

#[test]
fn every_server_has_a_worker_id_of_its_own() {
    let fleet = Fleet::start(LASTING_LEASES);
    let servers: Vec<Cluster> = (0..3).map(|_| fleet.server().start()).collect();
    let workers = || servers.iter().map(|server| leased_worker(server).into()).collect::<Vec<i64>>();
    let first = workers();
    assert_distinct(&first);
    let mut client = servers[0].connect();
    let show = |client: &mut _, column| shown(client, column).unwrap_or_default();
    assert_eq!(show(&mut client, "identity_source"), "registry");
    assert_eq!(show(&mut client, "registry_state"), "granted");
    assert_eq!(show(&mut client, "state"), "ready");
    assert_eq!(shown(&mut client, "warning"), None);
    // The lease is renewed repeatedly.
    let until = show(&mut client, "lease_until");
    eventually("a renewal", || show(&mut client, "lease_until") > until);
    assert_eq!(workers(), first);
}

/// All databases and layouts of a server share one lease. Only a layout for which the worker ID is too large fails.
#[test]
fn a_layout_without_room_for_the_worker_id() {
    let fleet = Fleet::start("first_worker => 500");
    let server = fleet.server().start();
    assert_eq!(leased_worker(&server), 500);
    let mut client = server.connect();
    client.run("CREATE DATABASE narrow");
    client.run("ALTER DATABASE narrow SET snowflake_id.layout = 'js53'");
    let mut narrow = server.connect_to("narrow");
    narrow.run("CREATE EXTENSION snowflake_id");
    let (state, message) = failure(&mut narrow, "SELECT snowflake_nextval()");
    assert_eq!(state, "22023", "{message}");
    assert!(message.contains("worker 500"), "{message}");
    narrow.run("SET snowflake_id.layout = 'wide epoch=2020-01-01T00:00:00Z'");
    assert_eq!(failure(&mut narrow, "SELECT snowflake_nextval()").0, "22023");
    narrow.run("SET snowflake_id.layout = 'redis'; SELECT snowflake_nextval()");
    client.run("SELECT snowflake_nextval()");
}

/// A registry that nobody has started, and a datacenter ID that the layout has no room for: each has a state of its own.
#[test]
fn why_there_is_no_worker_id() {
    let registry = Registry::of_leases(LASTING_LEASES).not_started().start(Cluster::builder());
    let server = Cluster::builder()
        .preload()
        .set("snowflake_id.registry", registry.connection_string("fleet"))
        .start();
    wait_for_registry_state(&server, "not started");
    let error = wait_for_error(&server, "start_fleet");
    assert_eq!(
        error,
        "could not get a lease from the registry: the fleet has not been started (its administrator must call snowflake_registry.start_fleet())"
    );
    registry.connect().run("SELECT snowflake_registry.start_fleet(0, 1023, first_start => true)");
    ask_now(&server, &registry.connection_string("fleet"));
    wait_for_registry_state(&server, "granted");

    let elsewhere = Cluster::builder()
        .preload()
        .set("snowflake_id.datacenter_id", "3")
        .set("snowflake_id.registry", registry.connection_string("fleet"))
        .start();
    wait_for_registry_state(&elsewhere, "misconfigured");
    eventually("the state", || server_state(&mut elsewhere.connect()) == "datacenter id too large");
    wait_for_error(&elsewhere, "datacenter");
}

/// The connection string leads to a database without a registry or to none, or the role does not exist or may not connect.
/// Each state says so, and the error is that of the registry's server, without SQLSTATE and place in its sources.
#[test]
fn mistakes_in_the_connection_string() {
    let fleet = Fleet::start(LASTING_LEASES);
    let mut client = fleet.registry.connect();
    client.run("CREATE DATABASE shop");
    client.run("CREATE DATABASE closed");
    client.run("REVOKE CONNECT ON DATABASE closed FROM PUBLIC");
    let right = fleet.connection_string();
    let server = fleet.server_by(&right).start();
    leased_worker(&server);
    for (word, wrong, state, said) in [
        (
            "dbname=postgres",
            "dbname=shop",
            "no registry",
            "schema \"snowflake_registry\" does not exist; check dbname in",
        ),
        (
            "dbname=postgres",
            "dbname=nowhere",
            "no such database",
            "FATAL:  database \"nowhere\" does not exist",
        ),
        ("user=fleet", "user=nobody", "login refused", "FATAL:  role \"nobody\" does not exist"),
        (
            "dbname=postgres",
            "dbname=closed",
            "permission denied",
            "FATAL:  permission denied for database \"closed\"; DETAIL:  User does not have CONNECT privilege.",
        ),
    ] {
        server.change("snowflake_id.registry", &right.replace(word, wrong));
        wait_for_registry_state(&server, state);
        let error = wait_for_error(&server, said);
        assert!(state == "no registry" || error.ends_with(said), "{error}");
    }
    server.change("snowflake_id.registry", &right);
    wait_for_registry_state(&server, "granted");
}

/// The role of the servers lacks a privilege. What the server says is what has to be typed.
#[test]
fn a_grant_is_missing() {
    let fleet = Fleet::start(LASTING_LEASES);
    let mut client = fleet.registry.connect();
    client.run("ALTER ROLE fleet RENAME TO \"The Fleet\"");
    let string = fleet.registry.connection_string("'The Fleet'");
    for revoke in [
        "REVOKE USAGE ON SCHEMA snowflake_registry FROM \"The Fleet\"",
        "REVOKE EXECUTE ON FUNCTION snowflake_registry.acquire FROM \"The Fleet\"",
        "REVOKE EXECUTE ON FUNCTION snowflake_registry.renew FROM \"The Fleet\"",
    ] {
        client.run(revoke);
        let server = fleet.server_by(&string).start();
        wait_for_registry_state(&server, "permission denied");
        let error = wait_for_error(&server, "permission denied for");
        assert!(!error.contains("LINE 1"), "{error}");
        let (_, grant) = error.split_once("run in the database of the registry: ").unwrap();
        client.run(grant);
        ask_now(&server, &string);
        wait_for_registry_state(&server, "granted");
    }
}

/// The default layout of the servers has 4 worker IDs. Four servers get one; the others get an error that says when to
/// expect one.
#[test]
fn more_servers_than_worker_ids() {
    let fleet = Fleet::start(LASTING_LEASES);
    let server = fleet.server_with_clock().set("snowflake_id.layout", "time:41 worker:2 sequence:20");
    // All servers ask at the same time.
    let servers: Vec<Cluster> = thread::scope(|scope| {
        let starting: Vec<_> = (0..7).map(|_| scope.spawn(|| server.clone().start())).collect();
        starting.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let mut without = vec![];
    let mut workers = vec![];
    for server in servers {
        let state = eventually("a decision of the registry", || {
            let state = shown(&mut server.connect(), "registry_state")?;
            (state == "granted" || state == "all taken").then_some(state)
        });
        match state.as_str() {
            "granted" => workers.push((leased_worker(&server), server)),
            _ => without.push(server),
        }
    }
    assert_eq!((workers.len(), without.len()), (4, 3));
    let numbers: Vec<i64> = workers.iter().map(|(worker, _)| i64::from(*worker)).collect();
    assert_distinct(&numbers);
    for server in &without {
        let mut client = server.connect();
        let (state, message) = failure(&mut client, "SELECT snowflake_nextval()");
        assert_eq!(state, "55000", "{message}");
        assert!(message.contains("no lease") && message.contains("will be free at"), "{message}");
        assert_eq!(shown(&mut client, "state").unwrap(), "no lease");
        assert!(!message.contains("/cluster."), "{message}");
    }
    // The worker IDs of two stopped servers are granted again once their leases have lapsed.
    let lost: Vec<_> = workers.drain(..2).collect();
    fleet.lose_servers(lost.iter().map(|(_, server)| server));
    let all = || without.iter().chain(workers.iter().map(|(_, server)| server)).chain([&fleet.registry]);
    set_clocks(all(), LATE_IN_A_LEASE);
    workers.iter().for_each(|(_, server)| assert_renewed(server));
    set_clocks(all(), AFTER_THE_LEASE);
    let mut clients: Vec<Client> = without.iter().map(Cluster::connect).collect();
    eventually("a worker ID that was left behind", || {
        clients.iter_mut().filter_map(|client| (server_state(client) == "ready").then_some(())).count() == 2
    });
}

/// Without the registry a server continues to the end of its lease, reports that in time, and resumes when the registry
/// is back.
#[test]
fn the_registry_is_away() {
    let fleet = Fleet::start(LASTING_LEASES);
    // PostgreSQL itself writes nothing while it is idle.
    let quiet = [("wal_level", "minimal"), ("max_wal_senders", "0"), ("autovacuum", "off")];
    let server = fleet.server_with_clock().settings(&quiet).start();
    create_orders(&server);
    let worker = leased_worker(&server);
    let mut client = server.connect();
    fleet.lose_registry();
    let (handed_out, warning) = under_load(&server, || {
        server.set_clock(LATE_IN_A_LEASE);
        let warning = eventually("a warning", || shown(&mut client, "warning"));
        server.set_clock(AFTER_THE_LEASE);
        wait_for_end_of_lease(&mut client);
        eventually("the state", || shown(&mut client, "state").as_deref() == Some("lease ended"));
        warning
    });
    assert!(warning.contains("was not renewed"), "{warning}");
    let found = problems(&mut client);
    let has_stopped = found.iter().find(|row| row.problem == "this server issues no IDs: lease ended");
    let has_stopped = has_stopped.unwrap_or_else(|| panic!("{found:#?}"));
    assert!(has_stopped.detail.starts_with("The lease ended at "), "{has_stopped:?}");
    assert!(found.iter().any(|row| row.problem == "the registry cannot be reached"), "{found:#?}");
    assert!(server.log().contains(&warning), "{}", server.log());
    // It fails at once, whatever max_wait is.
    let start = Instant::now();
    let (state, message) =
        failure(&mut client, "SET snowflake_id.max_wait = '110s'; SELECT snowflake_nextval()");
    assert_within(SLACK, start.elapsed(), "the refusal");
    assert_eq!(state, "55000", "{message}");
    assert!(message.contains("has ended") && message.contains("unreachable"), "{message}");
    // Nothing is written on account of a lease that has ended.
    let position = "SELECT pg_current_wal_insert_lsn()::text";
    let before: String = single(&mut client, position);
    // Wait for twice the horizon margin.
    thread::sleep(Duration::from_secs(1));
    assert_eq!(single::<String>(&mut client, position), before);

    fleet.registry.set_clock(AFTER_THE_LEASE);
    fleet.registry.start_server();
    let mut all = handed_out.all();
    eventually("the renewal", || client.batch_execute("SELECT snowflake_nextval()").ok());
    assert_eq!(leased_worker(&server), worker);
    all.extend(ids(&mut client, "SELECT snowflake_batch(10000)"));
    assert_distinct(&all);
}

/// After a restart the server continues under the lease in its file, even without the registry.
#[test]
fn a_restart() {
    let fleet = Fleet::start("lease => '10min', renew_every => '10s'");
    let server = fleet.server().short_horizon().start();
    let worker = leased_worker(&server);
    let mut all = ids(&mut server.connect(), "SELECT snowflake_batch(1000)");
    for (mode, has_registry) in [("fast", true), ("immediate", true), ("fast", false), ("immediate", false)] {
        if !has_registry && mode == "fast" {
            fleet.lose_registry();
        }
        server.restart(mode);
        let started = Instant::now();
        assert_eq!(leased_worker(&server), worker, "{mode}, {has_registry}");
        println!("{mode}, registry {has_registry}: first ID after {:?}", started.elapsed());
        all.extend(ids(&mut server.connect(), "SELECT snowflake_batch(1000)"));
    }
    assert_increasing(&all);
}

/// An exchange under load: the new worker ID starts in the next tick.
#[test]
fn the_worker_id_is_exchanged_under_load() {
    let fleet = Fleet::start(LASTING_LEASES);
    let server = fleet.server().start();
    create_orders(&server);
    let first = leased_worker(&server);
    let mut client = server.connect();
    let (handed_out, second) = under_load(&server, || {
        fleet.revoke_lease(first);
        eventually("another worker ID", || Some(leased_worker(&server)).filter(|&worker| worker != first))
    });
    assert_distinct(&handed_out.all());
    // IDs stay in order across the exchange, over all sessions.
    let disorder: i64 = single(
        &mut client,
        &format!(
            "SELECT count(*) FROM orders WHERE snowflake_worker(id) = {first}
             AND id > (SELECT min(id) FROM orders WHERE snowflake_worker(id) = {second})
             AND snowflake_timestamp(id) >= (SELECT min(snowflake_timestamp(id)) FROM orders WHERE snowflake_worker(id) = {second})"
        ),
    );
    assert_eq!(disorder, 0);
}

/// A worker ID in the configuration is not requested from the registry.
#[test]
fn a_worker_id_in_the_configuration() {
    let fleet = Fleet::start(LASTING_LEASES);
    let servers = ["one", "other"]
        .map(|name| fleet.server().set("snowflake_id.worker_id", "7").set("cluster_name", name).start());
    let workers = servers.each_ref().map(leased_worker);
    assert_ne!(workers[0], workers[1]);
    for (server, worker) in servers.iter().zip(workers) {
        let warning = shown(&mut server.connect(), "warning").unwrap();
        assert!(
            warning.contains("worker ID 7, ") && warning.contains(&format!("leased worker ID {worker} ")),
            "{warning}"
        );
        server.change("snowflake_id.worker_id", "9");
        assert_renewed(server);
        assert_eq!(leased_worker(server), worker);
        server.change("snowflake_id.worker_id", "-1");
        eventually("no warning", || shown(&mut server.connect(), "warning").is_none());
    }
    // The datacenter is part of the identity.
    let elsewhere = [("snowflake_id.datacenter_id", "3"), ("snowflake_id.layout", "twitter")];
    let elsewhere = fleet.server().settings(&elsewhere).start();
    assert!(workers.contains(&leased_worker(&elsewhere)));
}

/// Two servers with the same name hold two worker IDs. A new server with a name that had a worker ID gets that worker
/// ID if it is free.
#[test]
fn a_name_is_a_preference() {
    let fleet = Fleet::start(LASTING_LEASES);
    let server = |name: &str| fleet.server_with_clock().set("snowflake_id.node_name", name).start();
    let servers = [server("orders"), server("bills"), server("orders")];
    let [one, _, two] = servers.each_ref().map(leased_worker);
    assert_ne!(one, two);
    fleet.lose_servers(&servers[1..]);
    set_clocks(servers.iter().chain([&fleet.registry]), LATE_IN_A_LEASE);
    assert_renewed(&servers[0]);
    set_clocks(servers.iter().chain([&fleet.registry]), AFTER_THE_LEASE);
    let heir = fleet.server_with_clock().clock_at(AFTER_THE_LEASE);
    let heir = heir.set("snowflake_id.node_name", "orders").start();
    assert_eq!(leased_worker(&heir), two);
}

/// All processes of a server are paused for longer than its lease, while another server takes over its worker ID.
#[test]
fn a_server_is_paused_beyond_its_lease() {
    let fleet = Fleet::start(&format!("{LASTING_LEASES}, last_worker => 0"));
    let paused = fleet.server_with_clock().start();
    create_orders(&paused);
    assert_eq!(leased_worker(&paused), 0);
    let (handed_out, (_heir, heirs)) = under_load(&paused, || {
        while_inserting(&paused);
        signal_all(&paused, "STOP");
        // The server may have sent a request.
        let active = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'fleet' AND state = 'active'";
        let mut registry = fleet.registry.connect();
        thread::sleep(Duration::from_millis(100));
        eventually("the end of its request", || single::<i64>(&mut registry, active) == 0);
        set_clocks([&paused, &fleet.registry], AFTER_THE_LEASE);
        let heir = fleet.server_with_clock().clock_at(AFTER_THE_LEASE).start();
        assert_eq!(leased_worker(&heir), 0);
        let ids = ids(&mut heir.connect(), "SELECT snowflake_batch(100000)");
        signal_all(&paused, "CONT");
        wait_for_registry_state(&paused, "all taken");
        (heir, ids)
    });
    let HandedOut { rows, others } = handed_out;
    assert_distinct(rows.iter().chain(&others).chain(&heirs));
    assert_eq!(failure(&mut paused.connect(), "SELECT snowflake_nextval()").0, "55000");
}
