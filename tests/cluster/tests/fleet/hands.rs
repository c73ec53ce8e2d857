//! Worker IDs that are set by hand on servers that join a registry, and leave it. A server only continues with such a
//! worker ID until its first lease. After that, neither the server nor a copy of it uses the worker ID again.

use std::collections::BTreeSet;
use std::fs;
use std::sync::atomic::AtomicBool;

use harness::*;

/// The registry grants worker IDs from 512 on.
const POOL: &str = "first_worker => 512, lease => '10min', renew_every => '300ms'";

/// The worker ID in an ID of the layout of the tests.
fn worker_of(id: &i64) -> i64 {
    id >> 12 & 1023
}

/// Runs `event` while clients take IDs from servers, which may be down meanwhile.
fn while_taking_from<'a>(servers: impl IntoIterator<Item = &'a Cluster>, event: impl FnOnce()) -> Vec<i64> {
    let of = |server| Taker {
        returns: true,
        first: "SET snowflake_id.max_wait = '200ms'".into(),
        ..Taker::of(server)
    };
    let takers = servers.into_iter().map(|server| move |stop: &AtomicBool| of(server).take(stop));
    beside(takers, event).0.concat()
}

fn join(server: &Cluster, fleet: &Fleet) {
    server.change("snowflake_id.registry", &fleet.connection_string());
}

#[track_caller]
fn wait_for_source(server: &Cluster, source: &str) {
    eventually(source, || {
        let mut client = server.try_connect("postgres").ok()?;
        (shown(&mut client, "identity_source").as_deref() == Some(source)).then_some(())
    });
}

#[track_caller]
fn wait_for_state(server: &Cluster, state: &str) {
    let mut client = server.connect();
    eventually(state, || {
        let found = server_state(&mut client);
        if found == state { Ok(()) } else { Err(std::io::Error::other(format!("{found}\n{}", server.log()))) }
    });
}

/// Waits until a worker ID that is set by hand is refused for ever. Returns the problem.
#[track_caller]
fn wait_until_refused(server: &Cluster, worker: i32) -> String {
    wait_for_state(server, "worker id refused");
    let mut client = server.connect();
    let problem = shown(&mut client, "last_error").unwrap();
    assert!(problem.contains(&format!("worker ID {worker} belongs to registry")), "{problem}");
    let (code, said) = failure(&mut client, "SELECT snowflake_nextval()");
    assert_eq!(code, "55000", "{said}");
    assert!(said.contains("belongs to registry"), "{said}");
    problem
}

/// Two servers join under load and crash meanwhile. One has its worker ID from a row. Later they return to their old
/// configuration, by mistake.
#[test]
fn joining_under_load_and_back() {
    let mut random = Random::seeded();
    let fleet = Fleet::start(POOL);
    let by_setting = Cluster::builder().worker(1).short_horizon().following_clock().start();
    let by_row = Cluster::builder().preload().short_horizon().following_clock();
    let by_row = by_row.set("snowflake_id.node_name", "beta").start();
    by_row.connect().run("INSERT INTO snowflake_workers (node_name, worker_id) VALUES ('beta', 2)");
    let servers = [&by_setting, &by_row];
    servers.iter().zip([1, 2]).for_each(|(server, worker)| assert_eq!(leased_worker(server), worker));
    let mut all = while_taking_from(servers, || {
        for server in servers {
            join(server, &fleet);
            random.pause(300);
            server.restart("immediate");
        }
        for server in servers {
            wait_for_source(server, "registry");
            assert!(leased_worker(server) >= 512);
        }
    });
    let warning = shown(&mut by_setting.connect(), "warning").unwrap();
    assert!(
        warning.contains("does not use worker ID 1,") && warning.contains("has leased worker ID 51"),
        "{warning}"
    );
    let moved = BTreeSet::from_iter(all.iter().map(worker_of));
    assert!(moved.is_subset(&BTreeSet::from([1, 2, 512, 513])) && moved.len() >= 3, "{moved:?}");
    let later = while_taking_from(servers, || {
        for server in servers {
            // The former lease is used to its end.
            server.change("snowflake_id.registry", "");
            let mut client = server.connect();
            eventually("the warning", || {
                shown(&mut client, "warning").filter(|said| said.contains("former lease"))
            });
            assert!(leased_worker(server) >= 512);
        }
        by_setting.restart("immediate");
        set_clocks([servers[0], servers[1], &fleet.registry], AFTER_THE_LEASE);
        wait_until_refused(&by_setting, 1);
        wait_until_refused(&by_row, 2);
    });
    assert!(later.iter().all(|id| worker_of(id) >= 512));
    all.extend(later);
    println!("{} IDs", all.len());
    assert_distinct(&all);
    // Both return to the registry.
    servers.iter().for_each(|server| join(server, &fleet));
    all.extend(servers.iter().flat_map(|server| some_ids(server)));
    assert_distinct(&all);
}

/// A server that has not issued IDs under a worker ID does not begin to while it waits for a lease.
#[test]
fn a_new_server_with_a_worker_id() {
    let fleet = Fleet::start(POOL);
    let wrong = "host=/nonexistent";
    let server = fleet.server_by(wrong).set("snowflake_id.worker_id", "1").start();
    wait_for_registry_state(&server, "unreachable");
    wait_for_state(&server, "no lease");
    assert_eq!(failure(&mut server.connect(), "SELECT snowflake_nextval()").0, "55000");
    join(&server, &fleet);
    assert!(leased_worker(&server) >= 512);
    // It has never issued IDs under this worker ID.
    server.change("snowflake_id.registry", "");
    assert_eq!(leased_worker(&server), 1);
}

/// The registry cannot be reached while the server joins. The server continues, also after a crash. A copy does not.
#[test]
fn a_crash_while_a_server_joins() {
    let fleet = Fleet::start(POOL);
    let server = Cluster::builder().worker(1).short_horizon().start();
    let mut all = some_ids(&server);
    server.change("snowflake_id.registry", "host=/nonexistent");
    wait_for_registry_state(&server, "unreachable");
    wait_for_source(&server, "settings");
    all.extend(while_taking_from([&server], || {
        server.restart("immediate");
        assert_eq!(leased_worker(&server), 1);
        server.crash_a_backend();
        server.wait_until_up();
        assert_eq!(leased_worker(&server), 1);
    }));
    // While the server has no identity, it does not forget what it used.
    server.change("snowflake_id.worker_id", "-1");
    wait_for_state(&server, "no lease");
    server.change("snowflake_id.worker_id", "1");
    assert_eq!(leased_worker(&server), 1);
    let copy = server.duplicate_in_between();
    assert_eq!(leased_worker(&server), 1);
    copy.start_server();
    wait_for_registry_state(&copy, "unreachable");
    wait_for_state(&copy, "no lease");
    [&server, &copy].iter().for_each(|server| join(server, &fleet));
    for server in [&server, &copy] {
        wait_for_source(server, "registry");
        all.extend(some_ids(server));
    }
    assert_distinct(&all);
}

/// The records of use are lost before the first lease. The file still says which worker ID the server has used.
#[test]
fn the_records_are_lost_while_a_server_joins() {
    let fleet = Fleet::start(POOL);
    let server = Cluster::builder().worker(1).short_horizon().start();
    let mut all = some_ids(&server);
    server.connect().run("DROP EXTENSION snowflake_id");
    server.configure(&[("snowflake_id.registry", &fleet.connection_string())]);
    server.restart("immediate");
    server.connect().run("CREATE EXTENSION snowflake_id");
    wait_for_source(&server, "registry");
    all.extend(some_ids(&server));
    server.configure(&[("snowflake_id.registry", "")]);
    server.restart("immediate");
    wait_until_refused(&server, 1);
    assert_distinct(&all);
}

/// A server does not use or overwrite the file of a newer version.
#[test]
fn the_file_of_a_newer_version() {
    let server = Cluster::builder().worker(1).short_horizon().start();
    some_ids(&server);
    server.stop_server("fast");
    let path = server.data_dir().join("snowflake_id.identity");
    let newer = fs::read_to_string(&path).unwrap().replacen("# format 1:", "# format 2:", 1);
    fs::write(&path, &newer).unwrap();
    server.start_server();
    wait_for_error(&server, "could not read file \"snowflake_id.identity\"");
    assert_eq!(fs::read_to_string(&path).unwrap(), newer);
}

/// Both copies were made before the server moved. One is a standby, and the other one a restored backup.
#[test]
fn two_copies_of_a_backup_that_is_older_than_the_move() {
    let fleet = Fleet::start(POOL);
    let server = Cluster::builder().worker(1).short_horizon().start();
    let mut all = some_ids(&server);
    let wrong = [("snowflake_id.registry", "host=/nonexistent")];
    let copies = [server.base_backup(&wrong), server.base_backup(&wrong)];
    join(&server, &fleet);
    wait_for_source(&server, "registry");
    all.extend(some_ids(&server));
    copies[1].signal("standby.signal");
    copies.iter().for_each(Cluster::start_server);
    copies[1].promote();
    let issued = while_taking_from(&copies, || {
        copies.iter().for_each(|copy| wait_for_registry_state(copy, "unreachable"));
        copies.iter().for_each(|copy| wait_for_state(copy, "no lease"));
        copies.iter().for_each(|copy| join(copy, &fleet));
        copies.iter().for_each(|copy| assert!(leased_worker(copy) >= 512));
    });
    assert!(issued.iter().all(|id| worker_of(id) >= 512));
    all.extend(issued);
    all.extend(some_ids(&server));
    assert_distinct(&all);
}

/// What was left is known after every loss of the stored records.
#[test]
fn losses_after_the_move() {
    let fleet = Fleet::start(POOL);
    let server = Cluster::builder().worker(1).short_horizon().start();
    let mut all = some_ids(&server);
    let revert = |server: &Cluster| {
        server.configure(&[("snowflake_id.registry", "")]);
        server.restart("immediate");
        wait_until_refused(server, 1);
        join(server, &fleet);
        wait_for_source(server, "registry");
    };
    join(&server, &fleet);
    wait_for_source(&server, "registry");
    revert(&server);
    for statements in [
        "DROP EXTENSION snowflake_id; CREATE EXTENSION snowflake_id",
        "REFRESH MATERIALIZED VIEW snowflake_internal.used_identity WITH NO DATA",
        "REFRESH MATERIALIZED VIEW snowflake_internal.used_identity WITH NO DATA;
         REFRESH MATERIALIZED VIEW snowflake_internal.horizon WITH NO DATA",
    ] {
        server.connect().run(statements);
        println!("{statements}");
        revert(&server);
        all.extend(some_ids(&server));
    }
    // There is no extension while the server starts.
    server.connect().run("DROP EXTENSION snowflake_id");
    let copy = server.base_backup(&[("snowflake_id.registry", "")]);
    copy.start_server();
    copy.connect().run("CREATE EXTENSION snowflake_id");
    wait_until_refused(&copy, 1);
    server.configure(&[("snowflake_id.registry", "")]);
    server.restart("immediate");
    server.connect().run("CREATE EXTENSION snowflake_id");
    wait_until_refused(&server, 1);
    assert_distinct(&all);
    // A base backup has all of it.
    let copy = server.base_backup(&[("snowflake_id.registry", "")]);
    fs::remove_file(copy.data_dir().join("snowflake_id.identity")).unwrap();
    copy.start_server();
    wait_until_refused(&copy, 1);
}

/// The standby still has the configuration from before the move.
#[test]
fn a_forgotten_standby() {
    let fleet = Fleet::start(POOL);
    let server = Cluster::builder().worker(1).short_horizon().start();
    let mut all = some_ids(&server);
    let standby = server.start_standby(&[]);
    let mut client = standby.connect();
    assert_eq!(shown(&mut client, "warning"), None);
    join(&server, &fleet);
    wait_for_source(&server, "registry");
    all.extend(some_ids(&server));
    let warning = eventually("the warning", || shown(&mut client, "warning"));
    assert!(warning.contains("cannot issue IDs after a promotion"), "{warning}");
    let found = "SELECT count(*) FROM snowflake_check() WHERE problem = 'this standby would issue no IDs after a promotion' AND hint ~ 'snowflake_id.registry'";
    assert_eq!(single::<i64>(&mut client, found), 1);
    let issued = while_taking_from([&standby], || {
        standby.promote();
        wait_until_refused(&standby, 1);
    });
    assert!(issued.is_empty(), "{}", issued.len());
    join(&standby, &fleet);
    all.extend(some_ids(&standby));
    all.extend(some_ids(&server));
    assert_distinct(&all);
}

/// A server has moved from one registry to another. Its standby still names the first one, which would grant a lease.
#[test]
fn a_standby_that_names_the_former_registry() {
    let [former, fleet] = [(); 2].map(|()| Fleet::start(POOL));
    let server = Cluster::builder().worker(1).short_horizon().start();
    let mut all = some_ids(&server);
    // This base backup has no lease file, and the other one has that of the first registry.
    let string = former.connection_string();
    let first = server.start_standby(&[("snowflake_id.registry", &string)]);
    // This one names no registry before it is promoted.
    let forgotten = server.base_backup(&[("primary_conninfo", &server.connection_string("test"))]);
    forgotten.signal("standby.signal");
    forgotten.start_server();
    join(&server, &former);
    wait_for_source(&server, "registry");
    let second = server.base_backup(&[("snowflake_id.registry", &string)]);
    second.configure(&[("primary_conninfo", &server.connection_string("test"))]);
    second.signal("standby.signal");
    // An earlier version has written no such file.
    fs::remove_file(second.data_dir().join("snowflake_id.identity")).unwrap();
    second.start_server();
    server.stop_server("fast");
    fs::remove_file(lease_path(&server)).unwrap();
    server.configure(&[("snowflake_id.registry", &fleet.connection_string())]);
    server.start_server();
    all.extend(some_ids(&server));
    let registry: String =
        single(&mut fleet.registry.connect(), "SELECT registry_id::text FROM snowflake_registry.settings");
    let standbys = [&first, &second];
    for standby in [&first, &second, &forgotten] {
        let mut client = standby.connect();
        let replayed = format!(
            "SELECT count(*) > 0 FROM snowflake_internal.used_identity WHERE registry_id = '{registry}'"
        );
        eventually("the move to be replayed", || single::<bool>(&mut client, &replayed));
    }
    let issued = while_taking_from(standbys, || {
        for standby in standbys {
            standby.promote();
            wait_for_registry_state(standby, "another registry");
            let problem = wait_for_error(standby, "this server moved to registry");
            assert!(problem.contains(&registry), "{problem}");
            assert!(!problem.contains("start_fleet") && !problem.contains("remove file"), "{problem}");
            // The same after a restart.
            standby.restart("fast");
            wait_for_registry_state(standby, "another registry");
        }
    });
    forgotten.promote();
    wait_until_refused(&forgotten, 1);
    forgotten.configure(&[("snowflake_id.registry", &string)]);
    forgotten.restart("fast");
    wait_for_registry_state(&forgotten, "another registry");
    let standbys = [&first, &second, &forgotten];
    assert!(issued.is_empty(), "{}", issued.len());
    standbys.iter().for_each(|standby| join(standby, &fleet));
    all.extend(standbys.iter().flat_map(|standby| some_ids(standby)));
    assert_distinct(&all);
}

/// The registry is lost for longer than a lease. A server continues by hand, each time with a fresh worker ID.
#[test]
fn an_emergency() {
    let fleet = Fleet::start(POOL);
    let server = Cluster::builder().worker(1).short_horizon().start();
    let mut all = some_ids(&server);
    join(&server, &fleet);
    wait_for_source(&server, "registry");
    let leased = leased_worker(&server);
    let by_hand = |worker: i32| {
        server.configure(&[("snowflake_id.worker_id", &worker.to_string())]);
        server.change("snowflake_id.registry", "");
    };
    by_hand(504);
    wait_for_source(&server, "settings");
    assert_eq!(leased_worker(&server), 504);
    all.extend(some_ids(&server));
    join(&server, &fleet);
    wait_for_source(&server, "registry");
    assert_eq!(leased_worker(&server), leased);
    all.extend(some_ids(&server));
    for refused in [504, leased, 1] {
        by_hand(refused);
        server.restart("immediate");
        wait_until_refused(&server, refused);
    }
    by_hand(505);
    assert_eq!(leased_worker(&server), 505);
    all.extend(some_ids(&server));
    assert_distinct(&all);
}

/// A leased server does not depend on table `snowflake_workers`.
#[test]
fn the_table_is_locked_or_missing() {
    let fleet = Fleet::start(POOL);
    let server = Cluster::builder().preload().short_horizon().set("snowflake_id.node_name", "beta").start();
    let mut admin = server.connect();
    admin.run("INSERT INTO snowflake_workers (node_name, worker_id) VALUES ('beta', 2)");
    some_ids(&server);
    join(&server, &fleet);
    wait_for_source(&server, "registry");
    let mut client = server.connect();
    let mut goes_on = || {
        let now: String = single(&mut client, "SELECT now()::text");
        let is_later = format!(
            "SELECT snowflake_nextval() > 0 AND horizon > '{now}'::timestamptz + '3 s' FROM snowflake_status"
        );
        eventually("a later horizon", || single::<bool>(&mut client, &is_later));
    };
    admin.run("BEGIN; LOCK TABLE snowflake_workers");
    goes_on();
    admin.run("ROLLBACK; ALTER TABLE snowflake_workers RENAME TO renamed");
    goes_on();
}

/// A server that has never leased an identity does not depend on the file.
#[test]
fn the_file_cannot_be_written() {
    let server = Cluster::builder().worker(1).short_horizon().start();
    let mut all = some_ids(&server);
    let path = server.data_dir().join("snowflake_id.identity");
    assert!(path.exists());
    // No file can be written, and the old one must not remain.
    fs::create_dir(path.with_extension("identity.tmp")).unwrap();
    server.change("snowflake_id.worker_id", "2");
    eventually("the new worker ID", || leased_worker(&server) == 2);
    all.extend(some_ids(&server));
    assert!(!path.exists());
    fs::create_dir(&path).unwrap();
    server.restart("immediate");
    let mut client = server.connect();
    for _ in 0..2 {
        let before: String = single(&mut client, "SELECT horizon::text FROM snowflake_status");
        let is_later =
            format!("SELECT snowflake_nextval() > 0 AND horizon > '{before}' FROM snowflake_status");
        eventually("a later horizon", || single::<bool>(&mut client, &is_later));
    }
    all.extend(some_ids(&server));
    assert_distinct(&all);
    assert_eq!(server.log().matches("could not write file").count(), 2);
}

/// The library is new, and the relations and the lease file are those of an earlier version, which has recorded no registry.
#[test]
fn leases_of_an_earlier_version() {
    let fleet = Fleet::start(POOL);
    let server = Cluster::builder().worker(1).short_horizon().start();
    some_ids(&server);
    join(&server, &fleet);
    wait_for_source(&server, "registry");
    let leased = leased_worker(&server);
    server.stop_server("fast");
    server.configure(&[("snowflake_id.registry", "")]);
    server.start_server();
    wait_until_refused(&server, 1);
    // The horizon is in the future, because the clock was ahead.
    server.connect().run(
        "BEGIN;
         ALTER EXTENSION snowflake_id DROP MATERIALIZED VIEW snowflake_internal.horizon;
         ALTER EXTENSION snowflake_id DROP MATERIALIZED VIEW snowflake_internal.used_identity;
         DROP MATERIALIZED VIEW snowflake_internal.horizon, snowflake_internal.used_identity;
         CREATE MATERIALIZED VIEW snowflake_internal.horizon (format, track, clock_seq, horizon_us) AS
             SELECT 1, 0, 0, (extract(epoch FROM now() + '1 hour') * 1000000)::bigint;
         CREATE MATERIALIZED VIEW snowflake_internal.used_identity (
             format, datacenter_id, worker_id, clock_seq, used_until_us, noted_at
         ) AS SELECT 1, 0, worker, 0, 0::bigint, now() FROM unnest(ARRAY[1]) AS worker;
         ALTER EXTENSION snowflake_id ADD MATERIALIZED VIEW snowflake_internal.horizon;
         ALTER EXTENSION snowflake_id ADD MATERIALIZED VIEW snowflake_internal.used_identity;
         COMMIT",
    );
    server.stop_server("immediate");
    fs::remove_file(server.data_dir().join("snowflake_id.identity")).unwrap();
    server.start_server();
    wait_for_error(&server, "columns, and this version of snowflake_id writes");
    server.connect().run("DROP EXTENSION snowflake_id; CREATE EXTENSION snowflake_id");
    for worker in [1, leased] {
        server.change("snowflake_id.worker_id", &worker.to_string());
        wait_for_error(&server, &format!("worker ID {worker} belongs to registry"));
        wait_until_refused(&server, worker);
    }
    // The server may have used any worker ID up to its horizon.
    server.change("snowflake_id.worker_id", "7");
    wait_for_error(&server, "this server may have used worker ID 7 for times up to");
    wait_for_state(&server, "worker id refused");
}
