//! Which steps of the clock are followed.

use snowflake_id_core::clock_watch::ClockWatch;
use snowflake_id_core::clocks::{ClockOffset, SinceBoot};

const SECOND_US: i64 = 1_000_000;

fn offset(clock_us: i64, since_boot_us: i64) -> ClockOffset {
    ClockOffset::of(clock_us, SinceBoot::from_us(since_boot_us))
}

fn observe(
    watch: &mut ClockWatch,
    clock_us: i64,
    since_boot_us: i64,
    max_us: i64,
    reached_us: i64,
) -> Option<i64> {
    watch.observe(clock_us, offset(clock_us, since_boot_us), max_us, reached_us)
}

#[test]
fn the_watch_follows_small_steps_and_steps_back_but_no_jump_ahead() {
    let mut watch = ClockWatch::new(offset(1_000 * SECOND_US, 10 * SECOND_US));
    assert_eq!(observe(&mut watch, 1_005 * SECOND_US, 15 * SECOND_US, 60 * SECOND_US, 0), None);
    // An hour back, then on from there.
    assert_eq!(observe(&mut watch, -2_590 * SECOND_US, 20 * SECOND_US, 60 * SECOND_US, 0), None);
    assert_eq!(observe(&mut watch, -2_530 * SECOND_US, 20 * SECOND_US, 60 * SECOND_US, 0), None);
    // Back to the former time, and a little further.
    assert_eq!(observe(&mut watch, 1_040 * SECOND_US, 20 * SECOND_US, 60 * SECOND_US, 0), None);
    // Ten years ahead, however often the clock is observed.
    for _ in 0..2 {
        let jump = observe(&mut watch, 315_001_040 * SECOND_US, 20 * SECOND_US, 60 * SECOND_US, 0);
        assert_eq!(jump, Some(315_000_000 * SECOND_US));
    }
    // A horizon that high shows that the clock was at that time before the server was started.
    let reached_us = 400_000_000 * SECOND_US;
    let mut restarted = ClockWatch::new(offset(1_000 * SECOND_US, 10 * SECOND_US));
    assert_eq!(observe(&mut restarted, reached_us, 20 * SECOND_US, 60 * SECOND_US, reached_us), None);
    // The clock is set right again.
    assert_eq!(observe(&mut watch, 1_041 * SECOND_US, 21 * SECOND_US, 60 * SECOND_US, 0), None);
    // Time during which the machine was asleep is not a jump.
    assert_eq!(observe(&mut watch, 101_040 * SECOND_US, 100_020 * SECOND_US, 60 * SECOND_US, 0), None);
}

/// The two clocks are not read at the same instant.
#[test]
fn a_millisecond_is_no_step() {
    let mut watch = ClockWatch::new(offset(1_000 * SECOND_US, 0));
    assert_eq!(observe(&mut watch, 1_000 * SECOND_US + 1_000, 0, 0, 0), None);
    assert_eq!(observe(&mut watch, 1_000 * SECOND_US + 2_001, 0, 0, 0), Some(1_001));
    assert_eq!(ClockWatch::step_back_us(ClockOffset::from_us(5_000), ClockOffset::from_us(4_000)), None);
    assert_eq!(
        ClockWatch::step_back_us(ClockOffset::from_us(5_000), ClockOffset::from_us(3_999)),
        Some(1_001)
    );
    assert_eq!(ClockWatch::step_back_us(ClockOffset::from_us(5_000), ClockOffset::from_us(9_000)), None);
}
