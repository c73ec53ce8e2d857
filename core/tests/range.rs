//! The bounds of a range of time: comparing IDs with them is equivalent to comparing times.

use proptest::prelude::*;
use snowflake_id_core::{Field, Layout};

use crate::strategies::layouts;

fn layout(text: &str) -> Layout {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// The largest ID of a layout.
fn largest(layout: &Layout) -> i64 {
    ((1u64 << layout.total_bits()) - 1) as i64
}

/// An instant as users choose it for a range: anywhere, in the layout, near the start of a tick, at an end, or infinite
/// as PostgreSQL passes it on.
fn instants(layout: Layout) -> impl Strategy<Value = i64> {
    let (epoch_us, end_us) = (layout.epoch_us(), layout.end_us());
    let near = move |tick: u64, offset: i64| {
        let start = epoch_us.wrapping_add_unsigned((tick % layout.ticks()) * layout.unit_us());
        start.saturating_add(offset)
    };
    prop_oneof![
        any::<i64>(),
        epoch_us..end_us,
        (any::<u64>(), -1i64..=1).prop_map(move |(tick, offset)| near(tick, offset)),
        (-2i64..=2).prop_map(move |offset| epoch_us.saturating_add(offset)),
        (-2i64..=2).prop_map(move |offset| end_us.saturating_add(offset)),
        (-2i64..=2).prop_map(move |offset| near(layout.ticks() - 1, offset)),
        prop_oneof![Just(i64::MIN), Just(i64::MAX)],
    ]
}

/// An ID of the layout: any, or next to a bound.
fn ids(layout: Layout, bounds: [i64; 2]) -> impl Strategy<Value = i64> {
    let largest = largest(&layout);
    let bound = prop_oneof![Just(bounds[0]), Just(bounds[1]), Just(0), Just(largest)];
    let near = (bound, -1i64..=1).prop_map(move |(id, offset)| id.saturating_add(offset).clamp(0, largest));
    prop_oneof![0..=largest, near]
}

fn layouts_instants_and_ids() -> impl Strategy<Value = (Layout, i64, i64)> {
    layouts().prop_flat_map(|layout| {
        instants(layout).prop_flat_map(move |instant| {
            let bounds = [layout.min_id(instant), layout.max_id(instant)];
            ids(layout, bounds).prop_map(move |id| (layout, instant, id))
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn comparing_ids_says_what_comparing_times_says((layout, instant, id) in layouts_instants_and_ids()) {
        let time = layout.time_of(id).unwrap();
        // The only exception, which the documentation describes.
        let has_no_number_above = id == i64::MAX && instant > time;
        prop_assert!(has_no_number_above || (id >= layout.min_id(instant)) == (time >= instant));
        prop_assert_eq!(id <= layout.max_id(instant), time <= instant);
    }

    #[test]
    fn bounds_lie_in_the_layout_or_right_beside_it((layout, instant, _) in layouts_instants_and_ids()) {
        let largest = largest(&layout);
        prop_assert!((0..=largest.saturating_add(1)).contains(&layout.min_id(instant)));
        prop_assert!((-1..=largest).contains(&layout.max_id(instant)));
        // Every ID that is not at or before an instant is after it: none is between the two bounds, and the IDs within
        // both are those of the tick that starts at the instant.
        let one_tick = 1u64 << layout.shift(Field::Time);
        let both = i128::from(layout.max_id(instant)) + 1 - i128::from(layout.min_id(instant));
        prop_assert!(both == 0 || both == i128::from(one_tick) || layout.min_id(instant) == i64::MAX && both == 1);
    }

    #[test]
    fn a_later_instant_has_no_smaller_bounds((layout, instant, _) in layouts_instants_and_ids(), other in any::<i64>()) {
        let (earlier, later) = (instant.min(other), instant.max(other));
        prop_assert!(layout.min_id(earlier) <= layout.min_id(later));
        prop_assert!(layout.max_id(earlier) <= layout.max_id(later));
    }
}

#[test]
fn bounds_of_a_layout() {
    let layout = layout("time:10 worker:2 sequence:3 unit=1s epoch=2024-01-01T00:00:00Z");
    let epoch_us = layout.epoch_us();
    // Microseconds after the epoch, the smallest ID at or after, the largest ID at or before.
    let bounds = [
        (-1, 0, -1),
        (0, 0, 31),
        (1, 32, 31),
        (999_999, 32, 31),
        (1_000_000, 32, 63),
        (1_000_001, 64, 63),
        (1_023_000_000, 1023 * 32, 1023 * 32 + 31),
        (1_023_000_001, 1024 * 32, 1024 * 32 - 1),
        (1_024_000_000, 1024 * 32, 1024 * 32 - 1),
    ];
    for (offset, min, max) in bounds {
        assert_eq!(
            (layout.min_id(epoch_us + offset), layout.max_id(epoch_us + offset)),
            (min, max),
            "{offset}"
        );
    }
    assert_eq!((layout.min_id(i64::MIN), layout.max_id(i64::MIN)), (0, -1));
    assert_eq!((layout.min_id(i64::MAX), layout.max_id(i64::MAX)), (1024 * 32, 1024 * 32 - 1));
}

#[test]
fn a_layout_of_63_bits_has_no_number_above_its_largest_id() {
    for text in ["standard", "time:63 unit=1us epoch=1900-01-01T00:00:00Z", "time:1 sequence:62"] {
        let layout = layout(text);
        assert_eq!((layout.min_id(i64::MAX), layout.max_id(i64::MAX)), (i64::MAX, i64::MAX), "{text}");
        assert_eq!((layout.min_id(i64::MIN), layout.max_id(i64::MIN)), (0, -1), "{text}");
    }
}
