//! Defects in fleets that a review has found.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use harness::*;

/// `DROP DATABASE` waits for all processes, including the registry worker, which sleeps most of the time.
#[test]
fn a_database_is_dropped() {
    let fleet = Fleet::start(LONG_LEASES);
    let server = fleet.server().start();
    leased_worker(&server);
    let mut client = server.connect();
    client.run("CREATE DATABASE other");
    let start = Instant::now();
    client.run("DROP DATABASE other");
    assert_within(SLACK, start.elapsed(), "DROP DATABASE");
}

/// The lease is still in its file, but the record of its use is lost, because the keeper works in another database. In
/// addition, the clock was set back.
#[test]
fn the_history_of_a_lease_is_forgotten() {
    // A registry grants nothing before its start.
    let fleet = Fleet::of(Cluster::builder().clock_at(-100.0), LONG_LEASES);
    fleet.registry.set_clock(0.0);
    let server = fleet.server().set("snowflake_id.max_ahead", "100ms").clock().start();
    let mut client = server.connect();
    client.run("CREATE DATABASE other");
    server.connect_to("other").run("CREATE EXTENSION snowflake_id");
    // The time in milliseconds, without the worker ID.
    let time = |id: i64| id >> 22;
    let first = leased_worker(&server);
    let mut all = vec![];
    let start = Instant::now();
    for _ in 0..20 {
        all.extend(ids(&mut client, "SELECT snowflake_batch(100)"));
        thread::sleep(Duration::from_millis(30));
    }
    server.stop_server("fast");
    server.configure(&[("snowflake_id.database", "other")]);
    let (count, last) = (all.len(), time(all[all.len() - 1]));
    server.set_clock(-50.0);
    server.start_server();
    let second = leased_worker(&server);
    let mut client = server.connect();
    // Set the clock to before the first of these IDs. The next IDs reach beyond the last of them.
    server.set_clock(-0.2 - start.elapsed().as_secs_f64());
    eventually("the time of the last ID", || {
        all.extend(ids(&mut client, "SELECT snowflake_batch(100)"));
        time(all[all.len() - 1]) > last
    });
    assert!(time(all[count]) < time(all[0]), "the second series begins after the first");
    assert_distinct(&all);
    assert_ne!(first, second);
}

/// A floor that an administrator has requested does not make the server exchange its worker ID, or issue IDs below the
/// floor.
#[test]
fn the_floor_is_moved_by_hand_under_a_lease() {
    let fleet = Fleet::start(LASTING_LEASES);
    let server = fleet.server_with_clock().set("snowflake_id.max_wait", "100ms").start();
    let worker = leased_worker(&server);
    let mut client = server.connect();
    // The floor is above the lease.
    let floor: String = single(
        &mut client,
        "WITH floor AS MATERIALIZED (SELECT clock_timestamp() + interval '15 min' AS floor)
         SELECT floor::text FROM floor, LATERAL (SELECT snowflake_raise_floor(floor)) AS done",
    );
    for seconds in [0.0, LATE_IN_A_LEASE, AFTER_THE_LEASE] {
        set_clocks([&server, &fleet.registry], seconds);
        assert_renewed(&server);
        let (code, message) = failure(&mut client, "SELECT snowflake_nextval()");
        assert_eq!(code, "55P03", "{message}");
    }
    set_clocks([&server, &fleet.registry], 15.0 * 60.0);
    let first = wait_for_first_id(&mut client);
    assert!(single::<bool>(&mut client, &format!("SELECT snowflake_timestamp({first}) >= '{floor}'")));
    assert_eq!(leased_worker(&server), worker);
}

/// The lease in the file is from a time of which no record is left: the keeper's database was another one. No other
/// worker ID is available. The server lets the lease end, and continues above it.
#[test]
fn a_lease_of_a_forgotten_life_ends() {
    let fleet = Fleet::start(&format!("first_worker => 512, last_worker => 512, {LASTING_LEASES}"));
    let server = fleet.server_with_clock().start();
    let mut all = some_ids(&server);
    server.connect().run("CREATE DATABASE other");
    server.connect_to("other").run("CREATE EXTENSION snowflake_id");
    server.configure(&[("snowflake_id.database", "other")]);
    server.stop_server("fast");
    server.start_server();
    wait_for_registry_state(&server, "all taken");
    let mut client = server.connect();
    wait_for_refusal(&mut client);
    set_clocks([&server, &fleet.registry], AFTER_THE_LEASE);
    all.push(wait_for_first_id(&mut client));
    assert_increasing(&all);
    assert_eq!(leased_worker(&server), 512);
}

/// A server without any record of its earlier use does not try one worker ID after another.
#[test]
fn a_server_without_a_history_does_not_take_all_worker_ids() {
    let fleet = Fleet::start(LASTING_LEASES);
    let server = fleet.server().start();
    leased_worker(&server);
    let mut client = server.connect();
    client.run("SELECT snowflake_raise_floor(now() + interval '20 min')");
    client.run("DROP EXTENSION snowflake_id; CREATE EXTENSION snowflake_id");
    server.stop_server("fast");
    fs::remove_file(server.data_dir().join("snowflake_id.lease")).unwrap();
    server.start_server();
    let count = "SELECT count(*) FROM snowflake_registry.fleet";
    let mut registry = fleet.registry.connect();
    eventually("a lease", || single::<i64>(&mut registry, count) > 1);
    // Otherwise it would try the next worker ID every half second.
    thread::sleep(Duration::from_secs(2));
    let count = single::<i64>(&mut registry, count);
    assert!(count <= 3, "{count}");
}
