//! Conversions between counters, ticks and instants.

use proptest::prelude::*;
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
fn the_end_of_use_is_just_after_the_start_of_the_last_tick_in_use() {
    let (key, epoch_us) = key("time:41 sequence:2");
    assert_eq!(key.end_of_use_us(0), epoch_us);
    assert_eq!(key.end_of_use_us(1), epoch_us + 1);
    assert_eq!(key.end_of_use_us(4), epoch_us + 1);
    assert_eq!(key.end_of_use_us(5), epoch_us + 1_001);
}

#[test]
fn the_next_whole_tick_begins_where_one_begins() {
    let (key, _) = key("time:41 sequence:2");
    assert_eq!([0, 1, 4, 5].map(|counter| key.next_whole_tick(counter)), [0, 4, 4, 8]);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    /// A floor at the end of use repeats nothing. As a horizon it covers all IDs that were issued.
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
            prop_assert!(counter == 0 || key.last_tick_us(counter) < end_us);
    }
}
