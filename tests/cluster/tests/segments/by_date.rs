//! Numbers that begin with a date, on real servers: midnights, years, changes of clocks, and unreachable registries.

use std::thread;
use std::time::Duration;

use harness::segments::*;
use harness::*;

/// Late enough for servers to fetch numbers of the next day. The clock of the registry stands still, so that the next
/// day begins only when the test wants that.
const EVE: &str = "2027-05-09 23:59:05";
const BY_DAY: &str = "create_segment('bills', period => 'day', digits => 6, min_step => 100)";

/// Connects to a server that has lost its shared memory, as soon as that is reinitialized.
fn reconnect(server: &Cluster) -> Client {
    eventually("the server", || {
        let mut client = server.try_connect("postgres").ok()?;
        let rows: i64 = client.query_one("SELECT count(*) FROM snowflake_segment_status", &[]).ok()?.get(0);
        (rows == 0).then_some(client)
    })
}

/// The change from one period of a segment to the next: its number of digits, the prefixes before and after, and the
/// instant by the registry's clock.
struct Change<'a> {
    name: &'a str,
    digits: u32,
    before: i64,
    after: i64,
    instant: &'a str,
}

/// The change that most tests use.
const MIDNIGHT: Change =
    Change { name: "bills", digits: 6, before: 20270509, after: 20270510, instant: "2027-05-10 00:00:00" };

/// Takes numbers until one is of the next period. After the first period has ended, none may be of that period.
#[track_caller]
fn until(registry: &Cluster, client: &mut Client, change: &Change) -> Vec<i64> {
    let mut all = vec![];
    let mut registry = registry.connect();
    // A server's knowledge of the registry's clock may be late by half the time of a query.
    let has_ended =
        format!("SELECT clock_timestamp() > timestamptz '{} UTC' + interval '10 s'", change.instant);
    eventually("the next period", || {
        let has_ended: bool = single(&mut registry, &has_ended);
        let number = next(client, change.name);
        let key = number / 10_i64.pow(change.digits);
        assert!(key == change.after || key == change.before && !has_ended, "{number}");
        all.push(number);
        key == change.after
    });
    assert_increasing(&all);
    all
}

#[test]
fn at_midnight_numbers_start_over() {
    let registry = registry_with_clock(EVE);
    administer(&registry, "create_segment('bills', period => 'day', digits => 10, min_step => 100)");
    let servers = [server_of(&registry).start(), server_of(&registry).start()];
    let refs: Vec<_> = servers.iter().collect();
    let all = taking_numbers(&refs, "bills", || {
        let mut client = servers[0].connect();
        next(&mut client, "bills");
        set_clock_to(&registry, "2027-05-09 23:59:58");
        until(&registry, &mut client, &Change { digits: 10, ..MIDNIGHT });
    });
    assert_distinct(&all);
    let of_day = |day: i64| all.iter().filter(|number| **number / 10_000_000_000 == day).count();
    assert!(of_day(20270509) > 0 && of_day(20270510) > 0);
    assert_eq!(of_day(20270509) + of_day(20270510), all.len());
    assert!(!all.contains(&202705100000000000));
}

/// The first range of the next day is fetched before it begins, so the registry is not needed at midnight.
#[test]
fn midnight_comes_without_the_registry() {
    let registry = registry_with_clock(EVE);
    administer(&registry, BY_DAY);
    let server = server_of(&registry).start();
    let mut client = server.connect();
    assert_eq!(next(&mut client, "bills"), 20270509000001);
    wait_for_period(&server, 20270510);
    hold_clock_at(&registry, "2027-05-09 23:59:57");
    wait_for_report(&registry);
    registry.stop_server("immediate");
    let all = until_dry(&mut client, 20270509);
    assert_eq!(*all.last().unwrap(), 20270510000001, "{all:?}");
}

/// The next day may have begun for the registry but not yet for the server, which has numbers of that day. They are
/// used before those that it is granted after that.
#[test]
fn the_next_day_begins_at_the_registry_first() {
    let registry = registry_with_clock(EVE);
    administer(
        &registry,
        "create_segment('bills', period => 'day', digits => 6, min_step => 100, max_step => 100)",
    );
    // No report tells the server the time.
    administer(&registry, "configure(lease => '24h', renew_every => '1h')");
    let server = server_of(&registry).start();
    let mut client = server.connect();
    let mut all = vec![next(&mut client, "bills")];
    wait_for_period(&server, 20270510);
    hold_clock_at(&registry, "2027-05-10 00:00:10");
    for _ in 0..100 {
        all.extend(some(&mut client, "bills", 5));
    }
    assert_increasing(&all);
    assert!(all.contains(&20270510000001), "{all:?}");
}

/// Like `until`, for a day whose numbers may be exhausted before midnight.
fn until_dry(client: &mut Client, day: i64) -> Vec<i64> {
    let mut all = vec![];
    eventually("the next day", || {
        // Slowly, so that the numbers of today last.
        thread::sleep(Duration::from_millis(200));
        let number = next(client, "bills");
        all.push(number);
        number / 1_000_000 > day
    });
    all
}

/// Without numbers of the next day and without the registry, no numbers are available after midnight until the registry
/// is back.
#[test]
fn a_registry_comes_back_after_midnight() {
    let registry = registry_with_clock(EVE);
    administer(&registry, BY_DAY);
    let server = server_of(&registry).start();
    assert_eq!(next(&mut server.connect(), "bills"), 20270509000001);
    set_clock_to(&registry, "2027-05-10 00:00:01");
    registry.stop_server("immediate");
    // Numbers of the next day are lost with the shared memory.
    server.crash_a_backend();
    reconnect(&server);
    let (code, said) = refusal(&mut impatient(&server), "bills");
    assert_eq!(code, "55P03", "{said}");
    registry.start_server();
    assert_eq!(some_at_last(&server, "bills", 1)[0] / 1_000_000, 20270510);
}

/// A server that loses its shared memory before midnight, when it has numbers of the next day, continues with today's.
#[test]
fn a_crash_before_midnight_does_not_lead_into_the_next_day() {
    let registry = registry_with_clock(EVE);
    administer(&registry, BY_DAY);
    let server = server_of(&registry).start();
    let mut all = vec![next(&mut server.connect(), "bills")];
    wait_for_period(&server, 20270510);
    server.crash_a_backend();
    all.push(next(&mut reconnect(&server), "bills"));
    server.restart("fast");
    let mut client = server.connect();
    all.push(next(&mut client, "bills"));
    assert!(all.iter().all(|number| number / 1_000_000 == 20270509), "{all:?}");
    set_clock_to(&registry, "2027-05-09 23:59:58");
    all.extend(until(&registry, &mut client, &MIDNIGHT));
    assert_increasing(&all);
}

#[test]
fn years_end_and_clocks_change() {
    let registry = registry_with_clock("2027-03-01 04:00:00");
    let server = server_of(&registry).start();
    let mut client = server.connect();
    // Shortly before a month ends in New York, the day of a change of clocks ends in Berlin, or the year ends in London.
    for (name, setting, minute, before, after) in [
        ("month", "'month', time_zone => 'America/New_York'", "2027-03-01 04:59", 202702, 202703),
        ("spring", "'day', time_zone => 'Europe/Berlin'", "2027-03-28 21:59", 20270328, 20270329),
        ("autumn", "'day', time_zone => 'Europe/Berlin'", "2027-10-31 22:59", 20271031, 20271101),
        ("year", "'year'", "2027-12-31 23:59", 2027, 2028),
    ] {
        hold_clock_at(&registry, &format!("{minute}:05"));
        administer(&registry, &format!("create_segment('{name}', digits => 9, period => {setting})"));
        assert_eq!(next(&mut client, name), before * 1_000_000_000 + 1, "{name}");
        let ends = format!(
            "SELECT (period_ends AT TIME ZONE 'UTC')::text FROM snowflake_segment_status WHERE name = '{name}'"
        );
        let instant: String = single(&mut client, &ends);
        set_clock_to(&registry, &format!("{minute}:58"));
        let all =
            until(&registry, &mut client, &Change { name, digits: 9, before, after, instant: &instant });
        assert_eq!(*all.last().unwrap(), after * 1_000_000_000 + 1, "{name}");
    }
}

/// A day that has begun stays current, whatever clocks are set to.
#[test]
fn clocks_are_set_back_over_midnight() {
    let registry = registry_with_clock(EVE);
    administer(
        &registry,
        "create_segment('bills', period => 'day', digits => 6, min_step => 10, max_step => 10)",
    );
    let server = server_of(&registry).clock().start();
    let mut client = server.connect();
    set_clock_to(&registry, "2027-05-09 23:59:57");
    let mut all = until(&registry, &mut client, &MIDNIGHT);
    server.set_clock(-3600.0);
    set_clock_to(&registry, "2027-05-09 23:00:00");
    for _ in 0..50 {
        all.push(next(&mut client, "bills"));
    }
    assert_increasing(&all);
    assert_eq!(all.last().unwrap() / 1_000_000, 20270510);
    // This holds after a restart too.
    server.restart("immediate");
    all.push(next(&mut server.connect(), "bills"));
    assert_increasing(&all);
}

/// A server with the registry in its own database, whose clock is set.
#[test]
fn the_clock_of_a_single_server_is_set() {
    let server = single_server().clock().start();
    set_clock_to(&server, "2027-05-09 12:00:00");
    administer(&server, BY_DAY);
    let mut client = server.connect();
    let mut all = vec![next(&mut client, "bills")];
    assert_eq!(all[0], 20270509000001);
    // Set forward: the next day begins as soon as that is noticed.
    set_clock_to(&server, "2027-05-10 08:00:00");
    eventually("the next day", || {
        all.push(next(&mut client, "bills"));
        all.last().unwrap() / 1_000_000 == 20270510
    });
    // Set back.
    set_clock_to(&server, "2027-05-09 12:00:00");
    for _ in 0..300 {
        all.push(next(&mut client, "bills"));
    }
    assert_increasing(&all);
    assert_eq!(all.last().unwrap() / 1_000_000, 20270510);
}

#[test]
fn a_period_has_no_more_numbers() {
    let registry = registry_with_clock(EVE);
    administer(
        &registry,
        "create_segment('bills', period => 'day', digits => 2, min_step => 40, max_step => 40)",
    );
    let server = server_of(&registry).start();
    let mut client = server.connect();
    for serial in 1..=99 {
        assert_eq!(next(&mut client, "bills"), 2027050900 + serial);
    }
    let (code, said) = refusal(&mut client, "bills");
    assert_eq!(code, "2200H", "{said}");
    assert!(said.contains("has no more numbers with 2 digits") && said.contains("more digits"), "{said}");
    set_clock_to(&registry, "2027-05-09 23:59:58");
    let first = eventually("the next day", || {
        match client.query_one("SELECT snowflake_segment_nextval('bills')", &[]) {
            Ok(row) => Some(row.get::<_, i64>(0)),
            Err(error) => {
                assert_eq!(error.code().unwrap().code(), "2200H", "{}", text(&error));
                None
            }
        }
    });
    assert_eq!(first, 2027051001);
    // The next day must not begin before midnight.
    let clock: String =
        single(&mut registry.connect(), "SELECT (clock_timestamp() AT TIME ZONE 'UTC')::text");
    assert!(clock.starts_with("2027-05-10"), "{clock}");
    let ends: String = single(&mut client, "SELECT period_ends::text FROM snowflake_segment_status");
    assert!(ends.starts_with("2027-05-11 00:00:00"), "{ends}");
}
