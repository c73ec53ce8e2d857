//! Numbers that begin with a date: midnights, years, and clocks that are changed.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use harness::segments::hold_clock_at;
use harness::*;

use super::member::many;
use super::taker::{Member, administer, assert_no_number_twice, start, state};

/// Starts a registry with a clock of its own, which stands still at this instant in UTC.
fn start_with_clock(instant: &str) -> Cluster {
    let registry = start(many().clock());
    hold_clock_at(&registry, instant);
    registry
}

#[test]
fn numbers_by_date_over_midnight() {
    let registry = start_with_clock("2027-05-09 23:59:00");
    let mut client = registry.connect();
    administer(
        &mut client,
        "create_segment('bills', period => 'day', digits => 6, min_step => 10, max_step => 10)",
    );
    let (mut early, mut late, mut absent) = (Member::default(), Member::default(), Member::default());
    assert_eq!(early.granted(&mut client, "bills").first, Some(20270509000001));
    assert_eq!(absent.granted(&mut client, "bills").first, Some(20270509000011));
    // Shortly before midnight, numbers of both days are granted.
    let ahead = early.take_by(&mut client, "take", "bills", ", \"next\": true");
    assert_eq!((ahead.first, ahead.period_key), (Some(20270510000001), Some(20270510)));
    assert!(ahead.period_starts.unwrap() > ahead.registry_clock);
    let today = late.granted(&mut client, "bills");
    assert_eq!(today.first, Some(20270509000021));
    assert_eq!(today.period_ends, ahead.period_starts);
    assert_eq!(late.take_by(&mut client, "take", "bills", ", \"next\": true").first, Some(20270510000011));
    // A server that has begun the next day does not return to the day before.
    assert_eq!(early.granted(&mut client, "bills").first, Some(20270510000021));

    hold_clock_at(&registry, "2027-05-10 00:00:01");
    let after = absent.granted(&mut client, "bills");
    assert_eq!((after.first, after.period_key), (Some(20270510000031), Some(20270510)));
    assert!(after.period_starts.unwrap() < after.registry_clock);
    // The clock is set back: no server returns to the day before.
    for instant in ["2027-05-09 23:00:00", "2027-05-10 00:30:00", "2027-05-08 12:00:00"] {
        hold_clock_at(&registry, instant);
        let taken = Member::default().granted(&mut client, "bills");
        assert_eq!(taken.period_key, Some(20270510), "{taken:?}");
    }
    // The next day for all servers is the day after that one.
    let ahead = late.take_by(&mut client, "take", "bills", ", \"next\": true");
    assert_eq!(ahead.first, Some(20270511000001));
    // Days without numbers: the range taken ahead is not used, and not given again.
    hold_clock_at(&registry, "2027-05-14 08:00:00");
    assert_eq!(early.granted(&mut client, "bills").first, Some(20270514000001));
    hold_clock_at(&registry, "2027-05-11 08:00:00");
    assert_eq!(early.granted(&mut client, "bills").first, Some(20270514000011));
}

#[test]
fn the_year_ends_and_clocks_change() {
    let registry = start_with_clock("2027-12-31 22:55:00");
    let mut client = registry.connect();
    for (name, period) in [("d", "day"), ("m", "month"), ("y", "year")] {
        administer(
            &mut client,
            &format!(
                "create_segment('{name}', period => '{period}', digits => 3, time_zone => 'Europe/Berlin')"
            ),
        );
    }
    let asked = [("d", ""), ("m", ""), ("y", "")];
    let first = |client: &mut Client| -> Vec<_> {
        let answers = Member::default().try_take(client, "take", &asked).unwrap();
        answers.iter().map(|taken| taken.first.unwrap_or_default()).collect()
    };
    assert_eq!(first(&mut client), [20271231001, 202712001, 2027001]);
    // All 999 numbers were in that range.
    let taken = Member::default().take(&mut client, "y");
    assert_eq!(taken.outcome, "exhausted");
    assert_eq!(
        taken.detail.unwrap(),
        "period 2027 has no more numbers with 3 digits, and the next period starts at 2027-12-31T23:00:00Z"
    );
    assert_eq!(state(&mut client, "y"), "exhausted");
    // Midnight is that of Berlin, not of Greenwich.
    hold_clock_at(&registry, "2027-12-31 23:00:00");
    assert_eq!(state(&mut client, "y"), "open");
    assert_eq!(first(&mut client), [20280101001, 202801001, 2028001]);

    // Days of 23 and of 25 hours, days with two midnights, and other irregular days.
    for (number, (zone, begins, day, hours)) in [
        ("Europe/Berlin", "2028-03-25 23:00:00", 20280326, 23.0),
        ("Europe/Berlin", "2028-10-28 22:00:00", 20281029, 25.0),
        ("America/Havana", "2028-11-05 04:00:00", 20281105, 25.0),
        ("Australia/Lord_Howe", "2029-03-31 13:00:00", 20290401, 24.5),
        ("Asia/Kathmandu", "2029-06-01 18:15:00", 20290602, 24.0),
        ("Pacific/Kiritimati", "2029-06-30 10:00:00", 20290701, 24.0),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("zone {number}");
        let instant: String =
            single(&mut client, &format!("SELECT (timestamp '{begins}' - interval '5 min')::text"));
        hold_clock_at(&registry, &instant);
        administer(
            &mut client,
            &format!(
                "create_segment('{name}', period => 'day', digits => 6, time_zone => '{zone}', min_step => 1,
                                max_step => 1)"
            ),
        );
        let mut server = Member::default();
        let before = server.granted(&mut client, &name);
        assert!(before.period_key.unwrap() < day, "{before:?}");
        hold_clock_at(&registry, begins);
        let taken = server.granted(&mut client, &name);
        assert_eq!(taken.first, Some(day * 1_000_000 + 1), "{zone}");
        assert_eq!(taken.period_starts, before.period_ends, "{zone}");
        let lasts = taken.period_ends.unwrap() - taken.period_starts.unwrap();
        assert_eq!(lasts as f64 / 3.6e9, hours, "{zone}");
        let last: String = single(
            &mut client,
            &format!(
                "SELECT (to_timestamp({} / 1000000 - 300) AT TIME ZONE 'UTC')::text",
                taken.period_ends.unwrap()
            ),
        );
        hold_clock_at(&registry, &last);
        assert_eq!(server.granted(&mut client, &name).first, Some(day * 1_000_000 + 2), "{zone}");
    }
}

/// The clock jumps over midnight and back, while servers take numbers of today and of tomorrow.
#[test]
fn many_servers_take_over_midnight() {
    let registry = start_with_clock("2027-05-09 23:59:50");
    administer(
        &mut registry.connect(),
        "create_segment('bills', period => 'day', digits => 8, min_step => 1, max_step => 5)",
    );
    let is_over = AtomicBool::new(false);
    let ranges = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for number in 0..8_u32 {
            let (registry, ranges, is_over) = (&registry, &ranges, &is_over);
            scope.spawn(move || {
                let mut client = registry.connect();
                let mut member = Member::default();
                let mut round = number;
                while !is_over.load(Ordering::Relaxed) {
                    round += 1;
                    let more =
                        if round % 4 == 0 { ", \"lasted\": 1, \"next\": true" } else { ", \"lasted\": 1" };
                    let had = member.had_until.get("bills").copied().unwrap_or_default();
                    let taken = match member.try_take(&mut client, "take", &[("bills", more)]) {
                        Ok(mut answers) => answers.remove(0),
                        // Timeouts use the same clock.
                        Err(error) => {
                            assert_eq!(error.code().unwrap().code(), "57014", "{}", text(&error));
                            continue;
                        }
                    };
                    assert!(["granted", "busy"].contains(&taken.outcome.as_str()), "{taken:?}");
                    if taken.outcome == "granted" {
                        assert!(taken.first.unwrap() > had, "{taken:?} after {had}");
                        ranges.lock().unwrap().push(taken);
                    }
                }
            });
        }
        let _stop = StopAtEnd(&is_over);
        let many_are_taken = || {
            let before = ranges.lock().unwrap().len();
            eventually("ranges", || ranges.lock().unwrap().len() >= before + 40);
        };
        for day in 9..12 {
            for _ in 0..2 {
                hold_clock_at(&registry, &format!("2027-05-{day:02} 23:59:50"));
                many_are_taken();
                hold_clock_at(&registry, &format!("2027-05-{:02} 00:00:05", day + 1));
                many_are_taken();
            }
        }
    });
    let ranges = ranges.into_inner().unwrap();
    for day in 9..12 {
        let of_day = ranges.iter().filter(|range| range.period_key == Some(20270500 + day)).count();
        assert!(of_day > 10, "{of_day} ranges on day {day}");
    }
    for range in &ranges {
        assert_eq!(range.first.unwrap() / 100_000_000, range.period_key.unwrap());
        assert_eq!(range.last() / 100_000_000, range.period_key.unwrap());
    }
    assert_no_number_twice(&ranges);
}
