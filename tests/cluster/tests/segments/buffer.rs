//! The numbers that a server holds: ranges for programs, numbers fetched in advance, and numbers that are left at a
//! clean stop.

use std::thread;
use std::time::Duration;

use harness::segments::*;
use harness::*;

/// Ranges of a constant size.
const FIFTY: &str = "create_segment('orders', min_step => 50, max_step => 50)";

/// The first number, the increment and the count of each range.
fn ranges(client: &mut Client, name: &str, count: i32) -> Vec<(i64, i64, i64)> {
    let query = format!("SELECT first, increment, count FROM snowflake_segment_ranges('{name}', {count})");
    let rows = client.query(&query, &[]).unwrap();
    rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect()
}

fn shown_number(client: &mut Client, column: &str) -> Option<i64> {
    single(client, &format!("SELECT {column} FROM snowflake_segments WHERE name = 'orders'"))
}

/// Waits until the server holds two ranges, so that the sum of the numbers is known.
fn wait_for_next_range(client: &mut Client) {
    eventually("the next range", || shown_number(client, "next_range"));
}

/// A server that has taken numbers, and holds the rest of two ranges of 50. Returns the numbers as well.
fn server_with_two_ranges(registry: &Cluster) -> (Cluster, Vec<i64>) {
    let server = server_of(registry).start();
    let numbers = some(&mut server.connect(), "orders", 30);
    wait_for_next_range(&mut server.connect());
    (server, numbers)
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
    wait_for_next_range(&mut clients[0]);
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
    let registry = registry();
    administer(&registry, FIFTY);
    let server = server_of(&registry).start();
    let mut client = server.connect();
    some(&mut client, "orders", 10);
    wait_for_next_range(&mut client);
    let waited = |client: &mut Client| shown_number(client, "calls_waited");
    for _ in 0..5 {
        let before = waited(&mut client);
        let left: i64 = single(
            &mut client,
            "SELECT range_end - position + 1 + CASE WHEN next_range IS NULL THEN 0 ELSE 50 END FROM snowflake_segments",
        );
        some(&mut client, "orders", left as i32);
        assert_eq!(waited(&mut client), before);
        eventually("numbers", || shown_number(&mut client, "position"));
    }
}

/// A clean stop keeps the numbers that are left. After the start they are used, although the registry does not answer.
#[test]
fn a_clean_stop_while_the_registry_is_away() {
    let registry = registry();
    administer(&registry, FIFTY);
    let (server, mut all) = server_with_two_ranges(&registry);
    // Another worker process continues where the first one stopped, before it fetches numbers.
    kill("TERM", worker_pid(&server));
    eventually("the numbers that were left", || {
        let position = shown_number(&mut server.connect(), "position")?;
        assert_eq!(position, 31);
        Some(())
    });
    registry.stop_server("immediate");
    for _ in 0..3 {
        server.restart("fast");
        let mut client = server.connect();
        all.extend(some(&mut client, "orders", 20));
        assert_eq!(shown_number(&mut client, "numbers_issued"), Some(20));
        // Another worker of the same server continues as well.
        kill("TERM", worker_pid(&server));
        all.push(next(&mut client, "orders"));
    }
    assert_eq!(all, (1..=93).collect::<Vec<_>>());
    // The remaining numbers are used, and no others.
    assert_eq!(some(&mut server.connect(), "orders", 7), (94..=100).collect::<Vec<_>>());
    assert_eq!(refusal(&mut server.connect(), "orders").0, "55P03");
    server.restart("fast");
    assert_eq!(refusal(&mut server.connect(), "orders").0, "55P03");
    registry.start_server();
    eventually("the registry", || server.try_run("SELECT snowflake_segment_nextval('orders')"));
    // A crash loses the numbers. It is not mistaken for a copy of the server.
    server.restart("fast");
    let last = next(&mut server.connect(), "orders");
    server.restart("immediate");
    assert!(next(&mut server.connect(), "orders") > last + 1);
    assert!(!server.log().contains("are not used"), "{}", server.log());
}

/// The numbers that are left are used once: not by a copy of the data directory, and not after the disk was set back.
#[test]
fn a_copy_of_a_stopped_server() {
    let registry = registry();
    administer(&registry, FIFTY);
    let (server, mut all) = server_with_two_ranges(&registry);
    server.stop_server("fast");
    let copy = server.duplicate();
    let file = server.data_dir().join("snowflake_id.segments");
    let earlier = std::fs::read(&file).unwrap();
    assert!(String::from_utf8_lossy(&earlier).contains("rest"));
    // The first of the two that starts has the numbers.
    server.start_server();
    all.push(next(&mut server.connect(), "orders"));
    assert_eq!(all.last(), Some(&31));
    copy.start_server();
    all.push(next(&mut copy.connect(), "orders"));
    assert!(copy.log().contains("numbers of segments that were left at the last stop are not used"));
    // The same file, with the same inode, as after a snapshot of the volume was restored.
    for mode in ["fast", "immediate"] {
        server.stop_server(mode);
        std::fs::write(&file, &earlier).unwrap();
        server.start_server();
        all.extend(some(&mut server.connect(), "orders", 120));
    }
    assert_distinct(&all);
}

/// What the server finds at the start after a stop during which another registry took over.
#[derive(Clone, Copy, PartialEq)]
enum Found {
    AnotherRegistry,
    /// A registry to which the server cannot report, because a row is locked.
    BusyRegistry,
    /// No registry at first.
    Silence,
}

/// Numbers of another registry are not used after the start, because the new registry may have granted them.
#[test]
fn another_registry_during_the_stop() {
    for found in [Found::AnotherRegistry, Found::BusyRegistry, Found::Silence] {
        let registries = [registry(), registry()];
        for registry in &registries {
            administer(registry, FIFTY);
            administer(registry, "create_segment('items')");
        }
        let (server, mut all) = server_with_two_ranges(&registries[0]);
        next(&mut server.connect(), "items");
        let other = server_of(&registries[1]).start();
        server.stop_server("fast");
        // An administrator knows only the numbers in the tables.
        administer(&registries[1], "alter_segment('orders', next_value => 31)");
        all.extend(some(&mut other.connect(), "orders", 100));
        let mut locker = registries[1].connect();
        if found == Found::BusyRegistry {
            locker.run("BEGIN; SELECT FROM snowflake_registry.segment WHERE name = 'orders' FOR UPDATE");
        }
        let new = connection_string(&registries[1]);
        let string = if found == Found::Silence { "host=/nowhere user=fleet" } else { &new };
        server.configure(&[("snowflake_id.registry", string)]);
        server.start_server();
        match found {
            Found::AnotherRegistry => {}
            Found::BusyRegistry => {
                let (code, said) = refusal(&mut server.connect(), "orders");
                assert_eq!(code, "55P03", "{said}");
                locker.run("ROLLBACK");
            }
            Found::Silence => {
                next(&mut server.connect(), "items");
                server.configure(&[("snowflake_id.registry", &new)]);
                server.reload();
                let said = "the registry of segments has changed";
                eventually("the report", || server.log().contains(said).then_some(()));
            }
        }
        eventually("numbers", || server.try_run("SELECT snowflake_segment_nextval('orders')"));
        all.extend(some(&mut server.connect(), "orders", 100));
        assert_distinct(&all);
    }
}

/// A registry whose server was restarted may have lost commits and granted the numbers again, and the stopped server
/// could not prove it.
#[test]
fn a_registry_that_was_set_back_during_the_stop() {
    let registry = registry();
    administer(&registry, "configure(witnesses => false, lease => '1 s', renew_every => '200ms')");
    administer(&registry, FIFTY);
    let copy = registry.duplicate_in_between();
    administer(&registry, "end_quarantine()");
    let (server, mut all) = server_with_two_ranges(&registry);
    server.stop_server("fast");
    registry.stop_server("immediate");
    copy.start_server();
    administer(&copy, "end_quarantine()");
    let other = server_of(&copy).start();
    let numbers = some(&mut other.connect(), "orders", 100);
    assert!(numbers.contains(&40), "{numbers:?}");
    server.configure(&[("snowflake_id.registry", &connection_string(&copy))]);
    server.start_server();
    // The other numbers below 31 were used before. This is the one case that is not covered: a server that was away
    // while the registry was set back.
    all.retain(|number| *number > 30);
    all.extend(numbers);
    eventually("a number", || {
        let row = server.connect().query_one("SELECT snowflake_segment_nextval('orders')", &[]).ok()?;
        all.push(row.get(0));
        Some(())
    });
    assert_distinct(&all);
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

/// Numbers of a period that has ended meanwhile are not used, and numbers of the next period are used when it starts.
#[test]
fn numbers_with_a_date_that_are_left() {
    let registry = registry_with_clock("2027-05-09 23:59:45");
    administer(&registry, "create_segment('orders', period => 'day', digits => 6, min_step => 500)");
    let server = server_of(&registry).start();
    let mut client = server.connect();
    assert_eq!(next(&mut client, "orders"), 20270509000001);
    eventually("the first range of the next day", || {
        let text =
            std::fs::read_to_string(server.data_dir().join("snowflake_id.segments")).unwrap_or_default();
        text.contains("\"key\":20270510")
    });
    let number = next(&mut client, "orders");
    assert!((20270509000002..20270510000000).contains(&number), "{number}");
    drop(client);
    server.stop_server("fast");
    registry.stop_server("immediate");
    server.start_server();
    let mut client = server.connect();
    let mut all = vec![number];
    eventually("the next day", || {
        thread::sleep(Duration::from_millis(100));
        all.push(next(&mut client, "orders"));
        (*all.last()? > 20270510000000).then_some(())
    });
    assert_increasing(&all);
    assert_eq!(all.last(), Some(&20270510000001));
}

/// The first call after a start need not wait for the registry.
#[test]
fn numbers_fetched_in_advance() {
    let registry = registry();
    administer(&registry, FIFTY);
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
        failure(&mut server.connect(), "ALTER SYSTEM SET snowflake_id.warm_segments = 'orders,,items'");
    assert_eq!(code, "22023", "{said}");
    server.configure(&[("snowflake_id.warm_segments", "orders, \"order lines, new\", nothing")]);
    server.restart("immediate");
    let mut client = server.connect();
    let held = "SELECT count(*) FROM snowflake_segments WHERE position IS NOT NULL AND calls_waited = 0";
    eventually("two segments", || (single::<i64>(&mut client, held) == 2).then_some(()));
    registry.stop_server("immediate");
    assert_eq!(next(&mut client, "orders"), 51);
    assert_eq!(next(&mut client, "order lines, new"), 1);
    assert_eq!(segment_state(&mut client, "nothing"), "unknown");
}
