//! The numbers that a server holds: ranges for programs, and numbers fetched in advance.

use harness::segments::*;
use harness::*;

/// The first number, the increment and the count of each range.
fn ranges(client: &mut Client, name: &str, count: i32) -> Vec<(i64, i64, i64)> {
    let query = format!("SELECT first, increment, count FROM snowflake_segment_ranges('{name}', {count})");
    let rows = client.query(&query, &[]).unwrap();
    rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect()
}

fn shown_number(client: &mut Client, column: &str) -> Option<i64> {
    single(client, &format!("SELECT {column} FROM snowflake_segment_status WHERE name = 'orders'"))
}

/// A program that counts on by itself within these ranges gets each number once, although other servers take ranges
/// in between.
#[test]
fn ranges_of_a_batch_with_holes() {
    let registry = registry();
    administer(
        &registry,
        "create_segment('orders', start => 2, increment => 3, min_step => 50, max_step => 50)",
    );
    let servers = [server_of(&registry).start(), server_of(&registry).start()];
    let mut clients = [servers[0].connect(), servers[1].connect()];
    assert_eq!(ranges(&mut clients[0], "orders", 10), [(2, 3, 10)]);
    wait_for_next_range(&servers[0], "orders");
    let mut all: Vec<i64> = (0..10).map(|at| 2 + at * 3).collect();
    let mut holes = 0;
    for round in 0..10 {
        let rows = ranges(&mut clients[round % 2], "orders", 120);
        assert_eq!(rows.iter().map(|(.., count)| count).sum::<i64>(), 120);
        holes += rows.len() - 1;
        for (first, increment, count) in rows {
            assert_eq!(increment, 3);
            all.extend((0..count).map(|at| first + at * increment));
        }
        all.push(next(&mut clients[1 - round % 2], "orders"));
    }
    assert!(holes > 3, "only {holes} holes");
    assert_distinct(&all);
    for count in [0, -1, 1_000_001] {
        let call = format!("SELECT snowflake_segment_ranges('orders', {count})");
        assert_eq!(failure(&mut clients[0], &call).0, "22023");
    }
}

/// When a batch has used all numbers that a server holds, the server fetches the next range although no call waits.
#[test]
fn a_batch_that_takes_all() {
    let registry = registry_of_fifties(&["orders"]);
    let server = server_of(&registry).start();
    let mut client = server.connect();
    some(&mut client, "orders", 10);
    wait_for_next_range(&server, "orders");
    let waited = |client: &mut Client| shown_number(client, "calls_waited");
    for _ in 0..5 {
        let before = waited(&mut client);
        let left: i64 = single(
            &mut client,
            "SELECT range_end - position + 1 + CASE WHEN next_range IS NULL THEN 0 ELSE 50 END FROM snowflake_segment_status",
        );
        some(&mut client, "orders", left as i32);
        assert_eq!(waited(&mut client), before);
        eventually("numbers", || shown_number(&mut client, "position"));
    }
}

/// The registry denies all names but one. They do not fill the table of segments.
#[test]
fn denied_names_lose_their_slots() {
    let registry = registry();
    administer(&registry, "create_segment('orders')");
    administer(&registry, "grant_segment('orders', 'fleet')");
    let server = server_of(&registry).set("snowflake_id.max_segments", 3).start();
    let mut client = server.connect();
    for at in 0..5 {
        assert_eq!(refusal(&mut client, &format!("other {at}")).0, "42501");
    }
    assert_eq!(next(&mut client, "orders"), 1);
}

/// The first call after a start need not wait for the registry.
#[test]
fn numbers_fetched_in_advance() {
    let registry = registry_of_fifties(&["orders"]);
    administer(&registry, "create_segment('order lines, new')");
    let server = server_of(&registry).start();
    let mut client = server.connect();
    client.run("SELECT snowflake_segment_prefetch('orders')");
    assert_eq!(shown_number(&mut client, "position"), Some(1));
    assert_eq!(shown_number(&mut client, "calls_waited"), Some(1));
    let (code, _) = failure(&mut client, "SELECT snowflake_segment_prefetch('nothing')");
    assert_eq!(code, "42704");
    drop(client);

    // The setting does the same after a start, and also after a crash.
    let (code, said) =
        failure(&mut server.connect(), "ALTER SYSTEM SET snowflake_id.prefetch_segments = 'orders,,items'");
    assert_eq!(code, "22023", "{said}");
    server.configure(&[("snowflake_id.prefetch_segments", "orders, \"order lines, new\", nothing")]);
    server.restart("immediate");
    let mut client = server.connect();
    let held =
        "SELECT count(*) FROM snowflake_segment_status WHERE position IS NOT NULL AND calls_waited = 0";
    eventually("two segments", || single::<i64>(&mut client, held) == 2);
    registry.stop_server("immediate");
    assert_eq!(next(&mut client, "orders"), 51);
    assert_eq!(next(&mut client, "order lines, new"), 1);
    assert_eq!(segment_state(&mut client, "nothing"), "unknown");
}
