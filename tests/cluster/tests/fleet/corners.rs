//! Defects in fleets that a review has found.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use harness::*;

/// `DROP DATABASE` waits for all processes, including the registry worker, which sleeps most of the time.
#[test]
fn a_database_is_dropped() {
    let fleet = Fleet::start("lease => '10min', renew_every => '1min'");
    let server = fleet.server().start();
    leased_worker(&server);
    let mut client = server.connect();
    for _ in 0..3 {
        client.run("CREATE DATABASE other");
        let start = Instant::now();
        client.run("DROP DATABASE other");
        assert!(start.elapsed() < SLACK, "{:?}", start.elapsed());
    }
}

/// The lease is still in its file, but the record of its use is lost, because the keeper works in another database. In
/// addition, the clock was set back.
#[test]
fn the_history_of_a_lease_is_forgotten() {
    let fleet = Fleet::start("lease => '10min', renew_every => '1min'");
    let server = fleet.server().clock().start();
    let mut client = server.connect();
    client.run("CREATE DATABASE other");
    server.connect_to("other").run("CREATE EXTENSION snowflake_id");
    // The time in milliseconds, without the worker ID.
    let time = |id: i64| id >> 22;
    let first = leased_worker(&server);
    let mut all = vec![];
    let start = Instant::now();
    for _ in 0..40 {
        all.extend(ids(&mut client, "SELECT snowflake_batch(100)"));
        thread::sleep(Duration::from_millis(30));
    }
    server.stop_server("fast");
    server.configure(&[("snowflake_id.database", "other")]);
    // Set the clock to before the first of these IDs. The next IDs reach beyond the last of them.
    server.set_clock(-4.0 - start.elapsed().as_secs_f64());
    server.start_server();
    let second = leased_worker(&server);
    let mut client = server.connect();
    let (count, last) = (all.len(), time(all[all.len() - 1]));
    eventually("the time of the last ID", || {
        all.extend(ids(&mut client, "SELECT snowflake_batch(100)"));
        time(all[all.len() - 1]) > last
    });
    assert!(time(all[count]) < last, "the times of the second series are all above those of the first");
    assert_distinct(&all);
    assert_ne!(first, second);
}

/// A floor that an administrator has requested does not make the server exchange its worker ID, or issue IDs below the
/// floor.
#[test]
fn the_floor_is_moved_by_hand_under_a_lease() {
    let fleet = Fleet::start(SHORT_LEASES);
    let server = fleet.server().set("snowflake_id.max_wait", "30s").start();
    let worker = leased_worker(&server);
    let mut client = server.connect();
    let floor: String = single(
        &mut client,
        "WITH floor AS MATERIALIZED (SELECT clock_timestamp() + interval '8 s' AS floor)
         SELECT floor::text FROM floor, LATERAL (SELECT snowflake_advance(floor)) AS done",
    );
    let is_above: bool =
        single(&mut client, &format!("SELECT snowflake_timestamp(snowflake_nextval()) >= '{floor}'"));
    assert!(is_above);
    assert_eq!(leased_worker(&server), worker);
}

/// The lease in the file is from a time of which no record is left: the keeper's database was another one. No other
/// worker ID is available. The server lets the lease end, and continues above it.
#[test]
fn a_lease_of_a_forgotten_life_ends() {
    let fleet = Fleet::start(SHORT_LEASES);
    let server = fleet.server().worker(5).start();
    let mut all = some_ids(&server);
    server.connect().run("CREATE DATABASE other");
    server.connect_to("other").run("CREATE EXTENSION snowflake_id");
    server.configure(&[("snowflake_id.database", "other")]);
    server.stop_server("fast");
    server.start_server();
    let mut client = server.connect();
    client.run("SET snowflake_id.max_wait = '1s'");
    let next = eventually("an ID", || client.query_one("SELECT snowflake_nextval()", &[]).ok());
    all.push(next.get(0));
    assert_increasing(&all);
    assert_eq!(leased_worker(&server), 5);
}

/// A server without any record of its earlier use does not try one worker ID after another.
#[test]
fn a_server_without_a_history_does_not_take_all_worker_ids() {
    let fleet = Fleet::start(SHORT_LEASES);
    let server = fleet.server().start();
    leased_worker(&server);
    let mut client = server.connect();
    client.run("SELECT snowflake_advance(now() + interval '20 min')");
    client.run("DROP EXTENSION snowflake_id; CREATE EXTENSION snowflake_id");
    server.stop_server("fast");
    fs::remove_file(server.data_dir().join("snowflake_id.lease")).unwrap();
    server.start_server();
    let count = "SELECT count(*) FROM snowflake_registry.fleet";
    let mut registry = fleet.registry.connect();
    eventually("a lease", || single::<i64>(&mut registry, count) > 1);
    // Otherwise it would try the next worker ID every half second.
    thread::sleep(Duration::from_secs(4));
    let count = single::<i64>(&mut registry, count);
    assert!(count <= 3, "{count}");
}
