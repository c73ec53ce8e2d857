//! Numbers of segments in programs.

use std::num::NonZeroU64;
use std::thread;
use std::time::{Duration, Instant};

use harness::segments::{administer, before_take, break_reports, replacing_between_grant_and_token};
use harness::*;

use super::program::*;

fn some(n: u64) -> NonZeroU64 {
    NonZeroU64::new(n).unwrap()
}

/// Two programs and a server take numbers of one segment.
#[test]
fn numbers_do_not_repeat() {
    let fleet = registry(LEASES);
    administer(&fleet.registry, "create_segment('orders', min_step => 10, max_step => 1000)");
    let server = fleet.server().start();
    let programs = [start(options(&fleet).numbers_only()), start(options(&fleet).numbers_only())];
    let mut all = vec![];
    for round in 0..200 {
        for program in &programs {
            let orders = program.segment("orders");
            all.push(orders.next_number().wait().unwrap());
            all.extend(orders.next_numbers(some(7)).wait().unwrap());
        }
        if round % 50 == 0 {
            let more = ids(&mut server.connect(), "SELECT snowflake_segment_batch('orders', 5)");
            all.extend(more);
        }
    }
    assert!(all.len() > 3_000);
    assert_distinct(&all);
    let segment = programs[0].segment("orders");
    assert!(segment.numbers_in_memory(NonZeroU64::MIN).is_some());
    programs[0].close().wait();
    assert_eq!(segment.next_number().wait(), Err(Error::Closed));
    programs[1].close().wait();
}

/// The next range is in memory before the current one is exhausted, and is used while the registry is away.
#[test]
fn the_next_range_is_there_in_time() {
    let fleet = registry(LEASES);
    administer(&fleet.registry, "create_segment('orders', min_step => 1000, max_step => 1000)");
    let program = start(options(&fleet).numbers_only());
    let orders = program.segment("orders");
    let mut all: Vec<i64> = orders.next_numbers(some(900)).wait().unwrap().into_iter().collect();
    let granted = "SELECT next_value::bigint FROM snowflake_registry.segment";
    eventually("the next range", || single::<i64>(&mut fleet.registry.connect(), granted) > 1_001);
    // It is signed in a second call.
    all.extend(orders.numbers_in_memory(some(100)).unwrap());
    all.extend(all_arrive("the first of the next range", || orders.numbers_in_memory(some(100))));
    fleet.registry.stop_server("immediate");
    while all.len() < 2_000 {
        all.extend(orders.numbers_in_memory(some(100)).unwrap_or_else(|| panic!("only {}", all.len())));
    }
    assert_distinct(&all);
    let error = orders.next_number().wait().unwrap_err();
    assert!(matches!(error, Error::NoNumbers { .. }), "{error:?}");
    fleet.registry.start_server();
    fleet.registry.connect().run("SELECT snowflake_registry.end_quarantine()");
    loop {
        match orders.next_number().wait() {
            Ok(number) => {
                all.push(number);
                break;
            }
            Err(error) => assert!(error.is_temporary(), "{error:?}"),
        }
    }
    assert_distinct(&all);
    program.close().wait();
}

#[test]
fn refusals() {
    let fleet = registry(LEASES);
    administer(&fleet.registry, "create_segment('orders', max_value => 5)");
    let program = start(options(&fleet).numbers_only());
    let error = program.segment("Ordärs").next_number().wait().unwrap_err();
    assert!(matches!(&error, Error::Segment { outcome, .. } if outcome == "unknown"), "{error:?}");
    let orders = program.segment("orders");
    let all: Vec<i64> = orders.next_numbers(some(100)).wait().unwrap().into_iter().collect();
    assert_eq!(all, [1, 2, 3, 4, 5]);
    let error = orders.next_number().wait().unwrap_err();
    assert!(matches!(&error, Error::Segment { outcome, .. } if outcome == "exhausted"), "{error:?}");
    // A refusal is not remembered.
    administer(&fleet.registry, "alter_segment('orders', max_value => 6)");
    assert_eq!(orders.next_number().wait(), Ok(6));
    program.close().wait();
}

/// The date comes from the registry's clock, and the rest of a range is not used after its period.
#[test]
fn numbers_with_a_date() {
    let fleet = registry(LEASES);
    administer(&fleet.registry, "create_segment('bills', period => 'day', digits => 6, time_zone => 'UTC')");
    let program = start(options(&fleet).numbers_only());
    let bills = program.segment("bills");
    let first = bills.next_number().wait().unwrap();
    fleet.registry.set_clock(24.0 * 60.0 * 60.0);
    // The registry's clock is known from its answers. Reports are sent at the interval of renewals.
    let today = first / 1_000_000;
    let next = loop {
        let number = bills.next_number().wait().unwrap();
        if number / 1_000_000 != today {
            break number;
        }
        thread::sleep(Duration::from_millis(50));
    };
    assert!(next > first);
    assert_eq!(next % 1_000_000, 1);
    program.close().wait();
}

/// The registry is set back: the program shows what it was granted, and gets no number twice.
#[test]
fn a_registry_that_forgets() {
    let fleet = registry("lease => '10min', renew_every => '30s'");
    administer(&fleet.registry, "create_segment('orders', min_step => 10, max_step => 10)");
    let program = start(options(&fleet).numbers_only());
    let orders = program.segment("orders");
    let mut all: Vec<i64> = orders.next_numbers(some(10)).wait().unwrap().into_iter().collect();
    let copy = fleet.registry.duplicate_in_between();
    fleet.registry.connect().run("SELECT snowflake_registry.end_quarantine()");
    while all.len() < 100 {
        match orders.next_numbers(some(10)).wait() {
            Ok(numbers) => all.extend(numbers),
            Err(error) => assert!(error.is_temporary(), "{error:?}"),
        }
    }
    fleet.registry.give_way_to(&copy);
    fleet.registry.connect().run("SELECT snowflake_registry.end_quarantine()");
    while orders.numbers_in_memory(some(10)).is_some() {}
    let error = until_refused(&orders);
    assert!(matches!(&error, Error::Segment { outcome, .. } if outcome == "closed"), "{error:?}");
    fleet.registry.connect().run("SELECT snowflake_registry.resume_segments()");
    all.extend(orders.next_numbers(some(10)).wait().unwrap());
    assert_distinct(&all);
    program.close().wait();
}

/// Takes numbers until the registry refuses.
fn until_refused(orders: &snowflake_id_client::Segment) -> Error {
    loop {
        match orders.next_number().wait() {
            Err(error @ Error::Segment { .. }) => return error,
            Err(error) => assert!(error.is_temporary(), "{error:?}"),
            Ok(number) => panic!("{number} was granted by a registry that was set back"),
        }
    }
}

/// The registry is set back between the grant and the signature. The token states less than the range, so the program
/// does not use it, and another program may get it.
#[test]
fn a_token_that_states_less_than_the_range() {
    let fleet = registry("lease => '10min', renew_every => '1s'");
    administer(&fleet.registry, "create_segment('orders', min_step => 10, max_step => 10)");
    let mut admin = fleet.registry.connect();
    admin.run("CREATE TABLE held AS SELECT 1");
    before_take(
        &fleet.registry,
        "WHILE request -> 'requests' @> '[{\"report\": true}]' AND EXISTS (SELECT FROM held) LOOP
             PERFORM pg_sleep(0.02);
         END LOOP;",
    );
    let options = options(&fleet).numbers_only().max_wait(Duration::from_secs(10));
    let [first, second] = [start(options.clone()), start(options)];
    let orders = first.segment("orders");
    let taking = thread::spawn(move || orders.next_numbers(NonZeroU64::new(10).unwrap()).wait());
    eventually("the grant", || {
        let next: i64 = single(&mut admin, "SELECT next_value::bigint FROM snowflake_registry.segment");
        (next == 11).then_some(())
    });
    admin.run(
        "ALTER TABLE snowflake_registry.segment DISABLE TRIGGER keep_the_end;
         UPDATE snowflake_registry.segment SET next_value = 1;
         ALTER TABLE snowflake_registry.segment ENABLE ALWAYS TRIGGER keep_the_end;
         DELETE FROM held",
    );
    let error = taking.join().unwrap().expect_err("an error");
    assert!(error.to_string().contains("did not sign the numbers"), "{error}");
    let numbers = second.segment("orders").next_numbers(NonZeroU64::MIN).wait().unwrap();
    assert_eq!(numbers.first, 1);
}

/// A program learns with its first numbers how often to report. After a start of its server, the registry opens 2.5
/// intervals after the first proof, and a program that was silent for longer would not be heard.
#[test]
fn the_first_report_is_on_time() {
    let fleet = registry("lease => '10min', renew_every => '500ms'");
    fleet.registry.change("track_functions", "pl");
    administer(&fleet.registry, "create_segment('orders')");
    let program = start(options(&fleet).numbers_only());
    program.segment("orders").next_number().wait().unwrap();
    let asked = |registry: &Cluster| -> i64 {
        let calls = "SELECT coalesce(sum(calls), 0)::bigint FROM pg_stat_user_functions WHERE funcname = 'take_range'";
        single(&mut registry.connect(), calls)
    };
    let before = asked(&fleet.registry);
    let began = Instant::now();
    eventually("two reports", || (asked(&fleet.registry) >= before + 2).then_some(()));
    assert_within(SLACK, began.elapsed(), "two reports");
}

/// The report after a start of the registry's server fails. The program repeats it soon, because the registry does not
/// wait for long.
#[test]
fn a_failed_report_is_repeated_soon() {
    let fleet = registry("lease => '10min', renew_every => '5min'");
    let registry = &fleet.registry;
    administer(registry, "create_segment('orders', min_step => 10, max_step => 10)");
    let program = start(options(&fleet).numbers_only());
    let orders = program.segment("orders");
    orders.next_number().wait().unwrap();
    registry.restart("fast");
    break_reports(registry, "orders");
    eventually("a failed report", || {
        let _ = orders.next_numbers(some(10)).wait();
        registry.log().contains("ERROR:  broken").then_some(())
    });
    // The report may follow another request that fails.
    thread::sleep(Duration::from_millis(500));
    // Reports no longer fail. No report can succeed before this statement takes effect.
    before_take(registry, "RAISE LOG 'a report';");
    let began = Instant::now();
    eventually("a report", || registry.log().contains("LOG:  a report").then_some(()));
    assert_within(SLACK, began.elapsed(), "a report");
    program.close().wait();
}

/// A copy of an earlier state replaces the registry between the grant and the signature, and has granted the same
/// numbers to a server before it signs them.
#[test]
fn a_token_of_another_start_of_the_registry() {
    // The lease is not renewed meanwhile.
    let fleet = registry(LONG_LEASES);
    administer(&fleet.registry, "create_segment('orders', min_step => 50, max_step => 50)");
    let server = fleet.server().start();
    // Otherwise, the copy may not know of its lease, which would then prove a loss.
    leased_worker(&server);
    let numbers = replacing_between_grant_and_token(
        &fleet.registry,
        |string| {
            let program = start(Options::new(string).numbers_only().max_wait(Duration::from_secs(60)));
            let orders = program.segment("orders");
            all_arrive("numbers", || orders.next_numbers(some(10)).wait()).into_iter().collect()
        },
        || ids(&mut server.connect(), "SELECT snowflake_segment_batch('orders', 20)"),
    );
    assert_eq!(numbers.len(), 30);
    assert_distinct(&numbers);
}
