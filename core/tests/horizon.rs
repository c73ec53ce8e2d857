//! Horizon and floor in ticks, and the watch over the clock.

use proptest::prelude::*;
use snowflake_id_core::horizon::{ClockWatch, next_horizon_us};
use snowflake_id_core::{Layout, SlotKey};

const SECOND_US: i64 = 1_000_000;

fn key(layout: &str) -> (SlotKey, i64) {
    let layout: Layout = layout.parse().unwrap();
    (SlotKey::of(&layout), layout.epoch_us())
}

#[test]
fn a_tick_may_be_used_only_if_it_starts_before_the_horizon() {
    let (key, epoch_us) = key("time:39 sequence:8 worker:16 unit=10ms");
    assert_eq!(key.first_tick_from(epoch_us - SECOND_US), 0);
    assert_eq!(key.first_tick_from(epoch_us), 0);
    assert_eq!(key.first_tick_from(epoch_us + 1), 1);
    assert_eq!(key.first_tick_from(epoch_us + 10_000), 1);
    assert_eq!(key.first_tick_from(epoch_us + 10_001), 2);
    assert_eq!(key.first_tick_from(i64::MAX), 1 << 39);
}

#[test]
fn the_end_of_use_is_the_start_of_the_first_unused_tick() {
    let (key, epoch_us) = key("time:41 sequence:2");
    assert_eq!(key.end_of_use_us(0), epoch_us);
    assert_eq!(key.end_of_use_us(1), epoch_us + 1_000);
    assert_eq!(key.end_of_use_us(4), epoch_us + 1_000);
    assert_eq!(key.end_of_use_us(5), epoch_us + 2_000);
}

#[test]
fn the_next_horizon_is_never_lower_than_what_is_known() {
    assert_eq!(next_horizon_us([], 100, 20, 3), 123);
    assert_eq!(next_horizon_us([50, 122], 100, 20, 3), 123);
    assert_eq!(next_horizon_us([50, 124], 100, 20, 3), 124);
    assert_eq!(next_horizon_us([], i64::MAX, 20, 3), i64::MAX);
}

#[test]
fn the_watch_follows_small_steps_and_steps_back_but_no_jump_ahead() {
    let mut watch = ClockWatch::new(1_000 * SECOND_US, 10 * SECOND_US);
    assert_eq!(watch.look(1_005 * SECOND_US, 15 * SECOND_US, 60 * SECOND_US, 0), None);
    // An hour back, then on from there.
    assert_eq!(watch.look(-2_590 * SECOND_US, 20 * SECOND_US, 60 * SECOND_US, 0), None);
    assert_eq!(watch.look(-2_530 * SECOND_US, 20 * SECOND_US, 60 * SECOND_US, 0), None);
    // Back to where it was, and a little further.
    assert_eq!(watch.look(1_040 * SECOND_US, 20 * SECOND_US, 60 * SECOND_US, 0), None);
    // Ten years ahead, as often as one looks.
    for _ in 0..2 {
        let jump = watch.look(315_001_040 * SECOND_US, 20 * SECOND_US, 60 * SECOND_US, 0);
        assert_eq!(jump, Some(315_000_000 * SECOND_US));
    }
    // A horizon that lies there shows that the clock has been there, before the server was started.
    let reached_us = 400_000_000 * SECOND_US;
    let mut restarted = ClockWatch::new(1_000 * SECOND_US, 10 * SECOND_US);
    assert_eq!(restarted.look(reached_us, 20 * SECOND_US, 60 * SECOND_US, reached_us), None);
    // Set right again.
    assert_eq!(watch.look(1_041 * SECOND_US, 21 * SECOND_US, 60 * SECOND_US, 0), None);
    // Time that the machine slept through is no jump.
    assert_eq!(watch.look(101_040 * SECOND_US, 100_020 * SECOND_US, 60 * SECOND_US, 0), None);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    /// A floor at the end of use repeats nothing, and as a horizon it covers all that was used.
    #[test]
    fn end_of_use_and_floor_agree(
        counter in 0u64..1 << 50,
        sequence in 0u32..13,
        unit_us in 1u64..1_000_000,
    ) {
        let bits = if sequence == 0 { String::new() } else { format!(" sequence:{sequence}") };
        let (key, _) = key(&format!("time:39{bits} unit={unit_us}us"));
        let end_us = key.end_of_use_us(counter % (1 << (39 + sequence)));
        let counter = counter % (1 << (39 + sequence));
        let floor = key.counter_at(key.first_tick_from(end_us));
        prop_assert!(floor >= counter && floor - counter < 1 << sequence);
    }
}
