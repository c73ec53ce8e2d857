//! A server's record of the numbers that it has had is replicated with its rows. Another registry gives no number that
//! is already in a row.

use harness::segments::*;
use harness::*;

/// Small ranges, so that many are taken.
const SMALL: &str = "create_segment('orders', min_step => 50, max_step => 200)";
const ORDERS: &str =
    "CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_segment_nextval('orders'))";
const THOUSAND_ORDERS: &str = "INSERT INTO orders SELECT FROM generate_series(1, 1000)";

/// Another registry replaces one whose numbers are in the rows of a standby, which is then promoted. Its file is
/// missing, or is that of the base backup.
#[test]
fn a_standby_is_promoted_and_meets_another_registry() {
    let registries = [0, 1].map(|_| registry_of_fifties(&["orders", "items"]));
    let primary = server_of(&registries[0]).start();
    let other = server_of(&registries[1]).start();
    for (name, has_file) in [("orders", false), ("items", true)] {
        let mut client = primary.connect();
        client.run(&ORDERS.replace("orders", name));
        if has_file {
            client.run("INSERT INTO items SELECT FROM generate_series(1, 10)");
        }
        let standby = primary.start_standby(&[]);
        let count = format!("SELECT count(*) FROM {name}");
        let rows = single::<i64>(&mut client, &count) + 1000;
        let insert = THOUSAND_ORDERS.replace("orders", name);
        client.run(&insert);
        all_arrive("the rows", || single::<i64>(&mut standby.connect(), &count) == rows);
        assert_eq!(standby.data_dir().join("snowflake_id.segments").exists(), has_file);
        primary.stop_server("immediate");
        standby.configure(&[("snowflake_id.registry", &connection_string(&registries[1]))]);
        standby.reload();
        standby.promote();
        // The key is unique.
        let mut client = standby.connect();
        client.run(&insert);
        let highest: i64 = single(&mut client, &format!("SELECT max(id) FROM {name}"));
        // Other servers are not given the numbers in the rows either.
        assert!(next(&mut other.connect(), name) > highest - 1000);
        primary.start_server();
    }
}

/// `pg_upgrade` does not copy files that PostgreSQL does not know.
#[test]
fn an_upgraded_server_meets_another_registry() {
    let (before, after) = (registry(), registry());
    administer(&before, SMALL);
    administer(&after, SMALL);
    let old = server_of(&before).start();
    let mut client = old.connect();
    client.run(ORDERS);
    client.run(THOUSAND_ORDERS);
    drop(client);
    old.stop_server("fast");
    let new = server_of(&after).stopped();
    new.upgrade_from(&old).unwrap_or_else(|said| panic!("pg_upgrade failed:\n{said}"));
    assert!(!new.data_dir().join("snowflake_id.segments").exists());
    new.start_server();
    new.connect().run(THOUSAND_ORDERS);
}

/// A server with numbers in hand is connected to another registry, and first asks it for other numbers. It has reported
/// those in hand by then, so no other server gets them.
#[test]
fn numbers_are_in_hand_when_the_registry_changes() {
    let (old, new) = (registry(), registry());
    for registry in [&old, &new] {
        administer(registry, SMALL);
        administer(registry, "create_segment('bills', period => 'year', digits => 6, min_step => 500)");
    }
    administer(&new, "create_segment('items', min_step => 50)");
    let (one, two) = (server_of(&old).start(), server_of(&new).start());
    let mut client = one.connect();
    let (mut all, mut bills) = (some(&mut client, "orders", 60), some(&mut client, "bills", 60));
    one.change("snowflake_id.registry", &connection_string(&new));
    eventually("numbers of the new registry", || {
        client.query_one("SELECT snowflake_segment_nextval('items')", &[]).is_ok()
    });
    let mut other = two.connect();
    all.extend(some(&mut other, "orders", 300));
    bills.extend(some(&mut other, "bills", 300));
    // First the old ranges, then new ones.
    for _ in 0..5 {
        all.extend(some(&mut client, "orders", 100));
        bills.extend(some(&mut client, "bills", 300));
        all.extend(some(&mut other, "orders", 100));
        bills.extend(some(&mut other, "bills", 300));
    }
    assert_distinct(&all);
    assert_distinct(&bills);
}

/// The same while no number is requested: the new registry still receives the report, and soon.
#[test]
fn another_registry_is_told_at_once() {
    let (old, new) = (registry(), registry());
    administer(&new, "configure(lease => '1h', renew_every => '10min')");
    administer(&old, "configure(lease => '1h', renew_every => '10min')");
    administer(&old, SMALL);
    administer(&new, SMALL);
    let server = server_of(&old).start();
    let highest = *some(&mut server.connect(), "orders", 60).last().unwrap();
    server.change("snowflake_id.registry", &connection_string(&new));
    let next_value = "SELECT next_value::bigint FROM snowflake_registry.segments WHERE name = 'orders'";
    let mut client = new.connect();
    eventually("the new registry to know", || single::<i64>(&mut client, next_value) > highest);
}

/// The record is in the keeper's database. Without the extension there, nothing can be recorded: numbers in hand are
/// given, and then an error says what to do. When the extension is created again, the server's knowledge is recorded in
/// it.
#[test]
fn the_extension_is_not_in_the_keepers_database() {
    let registry = registry();
    administer(&registry, "create_segment('orders', min_step => 50, max_step => 50)");
    let server = server_of(&registry).home().stopped();
    server.start_server();
    let mut client = server.connect();
    client.run("CREATE DATABASE home");
    client.run("CREATE EXTENSION snowflake_id");
    let mut home = server.connect_to("home");
    home.run("CREATE EXTENSION snowflake_id");
    let mut all = some(&mut client, "orders", 60);
    home.run("DROP EXTENSION snowflake_id");
    let said = eventually("the end of the numbers in hand", || {
        match client.query("SELECT snowflake_segment_batch('orders', 20)", &[]) {
            Ok(rows) => {
                all.extend(rows.iter().map(|row| row.get::<_, i64>(0)));
                None
            }
            Err(error) => Some(error),
        }
    });
    assert_eq!(said.code().unwrap().code(), "55000", "{}", text(&said));
    let said = text(&said);
    assert!(said.contains("\"snowflake_id\" does not exist in database \"home\""), "{said}");
    assert!(said.contains("run CREATE EXTENSION snowflake_id"), "{said}");
    home.run("CREATE EXTENSION snowflake_id");
    eventually("the note", || is_stored(&mut home, "segment_taken"));
    all.extend(some(&mut client, "orders", 60));
    assert_increasing(&all);
    let noted: i64 = single(&mut home, "SELECT until_value FROM snowflake_internal.segment_taken");
    assert!(noted >= *all.last().unwrap(), "{noted}");
}

/// A commit that records a range waits for the synchronous standby, as commits of horizons do. No number is given
/// before that.
#[test]
fn numbers_wait_for_a_synchronous_standby() {
    let registry = registry();
    administer(&registry, "create_segment('orders', min_step => 50, max_step => 50)");
    let server = server_of(&registry).set("snowflake_id.max_wait", "200ms").start();
    server.lose_the_standby();
    let mut client = server.connect();
    client.run("SET synchronous_commit = off");
    for _ in 0..4 {
        assert_eq!(refusal(&mut client, "orders").0, "55P03");
    }
    server.change("synchronous_standby_names", "");
    client.run("SET snowflake_id.max_wait = '20s'");
    some(&mut client, "orders", 120);
    drop(client);
    // A waiting commit does not prevent a stop of the server.
    server.change("synchronous_standby_names", "gone");
    assert_within(SLACK, time_to_stop(&server), "the stop");
}

/// The statistics views count the rows that the worker inserts, while it runs.
#[test]
fn the_statistics_count_what_the_worker_does() {
    let server = single_server().start();
    let mut client = server.connect();
    for (name, rows) in [("orders", 1), ("items", 2)] {
        administer(&server, &format!("create_segment('{name}')"));
        next(&mut client, name);
        let inserted = "SELECT n_tup_ins FROM pg_stat_all_tables
            WHERE schemaname = 'snowflake_internal' AND relname = 'segment_taken'";
        eventually("the row", || single::<i64>(&mut client, inserted) == rows);
    }
}
