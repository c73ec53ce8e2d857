//! What a review of fleets has found.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use snowflake_id_cluster_tests::fleet::{Fleet, SHORT_LEASES, leased_worker};
use snowflake_id_cluster_tests::{assert_distinct, ids, poll, single};

/// `DROP DATABASE` waits for all processes, and so for the registry worker, which mostly sleeps.
#[test]
fn a_database_is_dropped() {
    let fleet = Fleet::start("lease => '10min', renew_every => '1min'");
    let server = fleet.server(&[]);
    leased_worker(&server);
    let mut client = server.connect();
    for _ in 0..3 {
        client.batch_execute("CREATE DATABASE other").unwrap();
        let start = Instant::now();
        client.batch_execute("DROP DATABASE other").unwrap();
        assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    }
}

/// The lease is still in its file, but what it was used for is forgotten: the keeper works in another database. And the
/// clock was set back.
#[test]
fn the_past_of_a_lease_is_forgotten() {
    let fleet = Fleet::start("lease => '10min', renew_every => '1min'");
    let mut server = fleet.stopped_server(&[]);
    server.give_clock();
    server.start_server().unwrap();
    let mut client = server.connect();
    client.batch_execute("CREATE EXTENSION snowflake_id").unwrap();
    client.batch_execute("CREATE DATABASE other").unwrap();
    server.connect_to("other").batch_execute("CREATE EXTENSION snowflake_id").unwrap();
    let first = leased_worker(&server);
    let mut all = vec![];
    for _ in 0..100 {
        all.extend(ids(&mut client, "SELECT snowflake_batch(100)"));
        thread::sleep(Duration::from_millis(30));
    }
    server.stop_server("fast");
    server.configure(&[("snowflake_id.database", "other")]);
    server.set_clock(-10.0);
    server.start_server().unwrap();
    let second = leased_worker(&server);
    let mut client = server.connect();
    for _ in 0..300 {
        all.extend(ids(&mut client, "SELECT snowflake_batch(100)"));
        thread::sleep(Duration::from_millis(30));
    }
    assert_distinct(&all);
    assert_ne!(first, second);
}

/// A floor that an administrator has ordered is no reason to exchange the worker ID, nor to begin below it.
#[test]
fn the_floor_is_moved_by_hand_under_a_lease() {
    let fleet = Fleet::start(SHORT_LEASES);
    let server = fleet.server(&[("snowflake_id.max_wait", "30s")]);
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

/// A server of which nobody knows what it was used for does not try one worker ID after another.
#[test]
fn a_server_without_a_past_does_not_take_all_worker_ids() {
    let fleet = Fleet::start(SHORT_LEASES);
    let server = fleet.server(&[]);
    leased_worker(&server);
    let mut client = server.connect();
    client.batch_execute("SELECT snowflake_advance(now() + interval '20 min')").unwrap();
    client.batch_execute("DROP EXTENSION snowflake_id; CREATE EXTENSION snowflake_id").unwrap();
    server.stop_server("fast");
    fs::remove_file(server.data_dir().join("snowflake_id.lease")).unwrap();
    server.start_server().unwrap();
    let count = "SELECT count(*) FROM snowflake_registry.fleet";
    let mut registry = fleet.registry.connect();
    poll("a lease", || (single::<i64>(&mut registry, count) > 1).then_some(()));
    thread::sleep(Duration::from_secs(5));
    let count = single::<i64>(&mut registry, count);
    assert!(count <= 3, "{count}");
}
