//! Strategies of the property tests.

use proptest::prelude::*;
use snowflake_id_core::{Field, Layout};

/// Any valid layout: random widths and order of the fields, unit and epoch.
pub fn layouts() -> impl Strategy<Value = Layout> {
    let widths = (1u32..=63, [0u32..=31, 0..=31, 0..=31], 0u32..=62);
    let order = Just([Field::Datacenter, Field::Worker, Field::ClockSeq, Field::Sequence]).prop_shuffle();
    let epoch_us = -62_135_596_800_000_000i64..=253_370_764_799_999_999;
    (widths, order, unit_us(), epoch_us).prop_filter_map(
        "fields or time too long",
        |((time, [datacenter, worker, clock_seq], sequence), order, unit_us, epoch_us)| {
            let mut left = 63 - time;
            let mut fields = vec![(Field::Time, time)];
            for field in order {
                let wanted = match field {
                    Field::Datacenter => datacenter,
                    Field::Worker => worker,
                    Field::ClockSeq => clock_seq,
                    _ => sequence,
                };
                let bits = wanted.min(left);
                left -= bits;
                fields.extend((bits > 0).then_some((field, bits)));
            }
            Layout::new(&fields, unit_us, epoch_us).ok()
        },
    )
}

fn unit_us() -> impl Strategy<Value = u64> {
    prop_oneof![
        1u64..=10_000_000,
        prop_oneof![Just(1u64), Just(1_000), Just(10_000), Just(1_000_000), Just(10_000_000)]
    ]
}
