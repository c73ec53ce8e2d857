//! What a review of fleets has found.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use harness::*;

/// `DROP DATABASE` waits for all processes, and so for the registry worker, which mostly sleeps.
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

/// The lease is still in its file, but what it was used for is forgotten: the keeper works in another database. And the
/// clock was set back.
#[test]
fn the_history_of_a_lease_is_forgotten() {
    let fleet = Fleet::start("lease => '10min', renew_every => '1min'");
    let server = fleet.server().clock().start();
    let mut client = server.connect();
    client.run("CREATE DATABASE other");
    server.connect_to("other").run("CREATE EXTENSION snowflake_id");
    // In milliseconds, without the worker ID.
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
    // To before the first of these IDs; the next ones come up to behind the last.
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

/// A floor that an administrator has ordered is no reason to exchange the worker ID, nor to begin below it.
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

/// The lease in the file is from a life of which nothing is known any more: another database of the same server. There is
/// no other worker ID for it. It lets the lease end, and goes on above it.
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

/// A server of which nobody knows what it was used for does not try one worker ID after another.
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
    // It would try the next one every half second.
    thread::sleep(Duration::from_secs(4));
    let count = single::<i64>(&mut registry, count);
    assert!(count <= 3, "{count}");
}
