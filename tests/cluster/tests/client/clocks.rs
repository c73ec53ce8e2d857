//! The clock of a program is set.

use harness::*;

use super::program::*;

/// Small steps back are bridged, large ones are refused, and no ID repeats.
#[test]
fn a_clock_is_set_back() {
    let fleet = registry(LEASES);
    let clock = SetClock::default();
    let program = start(clock.give_to(options(&fleet)));
    let mut all: Vec<i64> = (0..100).map(|_| program.next_id().unwrap()).collect();
    clock.set(-500);
    all.extend((0..100).map(|_| program.next_id().unwrap()));
    clock.set(-50_000);
    let error = program.next_id().unwrap_err();
    assert!(
        matches!(error, Error::Ahead { wait } if (10.0..50.0).contains(&wait.as_secs_f64())),
        "{error:?}"
    );
    assert!(matches!(program.next_id_or_wait().wait(), Err(Error::Ahead { .. })));
    // A clock as wrong as this one prevents renewals, but not IDs.
    clock.set(-1_000_000);
    assert!(program.next_id().is_err());
    clock.set(0);
    all.extend((0..100).map(|_| program.next_id().unwrap()));
    assert_increasing(&all);
    program.close().wait();
}

/// IDs have followed a clock that was ahead. After the correction, the program has another worker ID, and its IDs have
/// the present time.
#[test]
fn a_clock_was_ahead() {
    let fleet = registry(LEASES);
    let clock = SetClock::default();
    let program = start(clock.give_to(options(&fleet)));
    let first = program.identity();
    clock.set(300_000);
    let mut all: Vec<i64> = (0..100).map(|_| program.next_id().unwrap()).collect();
    clock.set(0);
    assert!(program.next_id().is_err());
    all.push(eventually("an ID of the present", || program.next_id().ok()));
    assert_ne!(program.identity(), first);
    assert!(all[100] < all[0]);
    assert_distinct(&all);
    // The former worker ID is free when the clock has reached its last ID.
    let free_in = fleet_column(&fleet, 0, "extract(epoch FROM free_from - clock_timestamp())");
    assert!((250.0..300.0).contains(&free_in.parse::<f64>().unwrap()), "{free_in}");
    // An ID of another program with the former worker ID would repeat.
    let other = start(options(&fleet));
    assert_ne!(other.identity(), first);
    other.close().wait();
    program.close().wait();
}

/// The same, but the first renewal of the new lease fails. A later renewal makes the lease available, and releases the
/// former one.
#[test]
fn a_clock_was_ahead_and_a_renewal_fails() {
    let fleet = registry(LEASES);
    let mut client = fleet.registry.connect();
    client.run(
        "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'broken'; END $$;
         CREATE TRIGGER fail BEFORE UPDATE ON snowflake_registry.lease
         FOR EACH ROW WHEN (new.worker_id = 1) EXECUTE FUNCTION fail();",
    );
    let clock = SetClock::default();
    let program = start(clock.give_to(options(&fleet)));
    clock.set(300_000);
    program.next_id().unwrap();
    clock.set(0);
    eventually("a failed renewal", || {
        assert!(program.next_id().is_err());
        program.problem().filter(|problem| problem.contains("broken"))
    });
    client.run("DROP TRIGGER fail ON snowflake_registry.lease");
    eventually("an ID of the present", || program.next_id().ok());
    assert_eq!(program.identity().unwrap().worker, 1);
    eventually("the release", || fleet_column(&fleet, 0, "state") != "held");
    program.close().wait();
}

/// The clock passes the end of the lease, and IDs stay in the range.
#[test]
fn a_clock_is_past_the_end() {
    let fleet = registry(LEASES);
    let clock = SetClock::default();
    let program = start(clock.give_to(options(&fleet)));
    clock.set(3_600_000);
    let error = program.next_id().unwrap_err();
    assert!(matches!(error, Error::LeaseEnded { .. }), "{error:?}");
    clock.set(0);
    eventually("an ID", || program.next_id().ok());
    program.close().wait();
    // It does not start with such a clock.
    clock.set(3_600_000);
    refused(clock.give_to(options(&fleet)), "clock");
}
