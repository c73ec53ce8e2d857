//! Properties of every layout, every ID and every text.

use std::num::NonZeroU64;

use proptest::prelude::*;
use snowflake_id_core::{Field, Gate, Generator, Identity, Layout, Parts, Slot, SlotKey, Stall};

use crate::strategies::layouts;

/// A layout and parts that fit it.
fn layouts_with_parts() -> impl Strategy<Value = (Layout, Parts)> {
    (layouts(), any::<[u64; 5]>()).prop_map(|(layout, values)| (layout, parts_of(&layout, values)))
}

fn parts_of(layout: &Layout, values: [u64; 5]) -> Parts {
    let fit = |field: Field, value: u64| value & layout.max(field);
    Parts {
        tick: fit(Field::Time, values[0]),
        datacenter: fit(Field::Datacenter, values[1]),
        worker: fit(Field::Worker, values[2]),
        clock_seq: fit(Field::ClockSeq, values[3]),
        sequence: fit(Field::Sequence, values[4]),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn printing_and_parsing_give_the_same_layout(layout in layouts()) {
        prop_assert_eq!(layout.to_string().parse(), Ok(layout));
        let json = serde_json::to_string(&layout).unwrap();
        prop_assert_eq!(serde_json::from_str::<Layout>(&json).unwrap(), layout);
    }

    #[test]
    fn packing_and_unpacking_give_the_same_parts((layout, parts) in layouts_with_parts()) {
        let id = layout.pack(&parts).unwrap();
        prop_assert!(id >= 0);
        prop_assert_eq!(layout.unpack(id), Ok(parts));
        let decoded = layout.decode(id).unwrap();
        prop_assert_eq!(layout.tick_at(decoded.generated_at), Ok(parts.tick));
        prop_assert_eq!(layout.time_of(id), Ok(decoded.generated_at));
        prop_assert_eq!(layout.field_of(Field::Sequence, id), Ok(decoded.sequence));
        prop_assert_eq!(layout.field_of(Field::Worker, id), Ok(decoded.worker_id.map(u64::from)));
    }

    #[test]
    fn every_id_of_the_layout_unpacks_and_packs(layout in layouts(), id in 0..=i64::MAX) {
        let id = id & (((1u64 << layout.total_bits()) - 1) as i64);
        let parts = layout.unpack(id).unwrap();
        prop_assert_eq!(layout.pack(&parts), Ok(id));
    }

    #[test]
    fn any_integer_unpacks_or_is_refused(layout in layouts(), id in any::<i64>()) {
        let fits = id >= 0 && id >> layout.total_bits() == 0;
        prop_assert_eq!(layout.unpack(id).is_ok(), fits);
        prop_assert_eq!(layout.decode(id).is_ok(), fits);
    }

    /// In the word of a slot, the counter and the value of the clock sequence never overlap, up to the end of the
    /// layout. A session with another value finds the layout exhausted.
    #[test]
    fn words_keep_counters_and_values_apart(
        layout in layouts(),
        values in any::<[u8; 2]>(),
        tick in any::<u64>(),
    ) {
        let [value, other] = values.map(|value| layout.clock_seq_at(value));
        let key = SlotKey::at(&layout, value);
        let ends = key.first_counter_from(i64::MAX);
        prop_assert!(ends >= key.counter_at(layout.ticks()));
        for counter in [tick % ends, key.counter_at(layout.ticks()), ends, ends + 1] {
            prop_assert_eq!(key.parts(key.word(value, counter)), (value, counter));
        }
        let generator = Generator::new(layout, Identity { datacenter: 0, worker: 0 }, 0, 0).unwrap();
        let word = key.word(value, tick % ends);
        prop_assert_eq!(generator.with_clock_seq(value).counter_of(word), tick % ends);
        if value != other && other > 0 && value > 0 {
            let found = generator.with_clock_seq(other).counter_of(word);
            prop_assert!(found >= key.counter_at(layout.ticks()));
        }
    }

    #[test]
    fn packing_keeps_the_order_of_time(
        (layout, earlier) in layouts_with_parts(),
        values in any::<[u64; 5]>(),
    ) {
        let later = parts_of(&layout, values);
        let by_tick = earlier.tick.cmp(&later.tick);
        let by_id = layout.pack(&earlier).unwrap().cmp(&layout.pack(&later).unwrap());
        prop_assert!(by_tick.is_eq() || by_tick == by_id);
    }

    #[test]
    fn fields_do_not_overlap_and_fill_the_id(layout in layouts()) {
        let mut taken = 0u64;
        for (field, bits) in layout.fields() {
            let mask = ((1u64 << bits) - 1) << layout.shift(field);
            prop_assert_eq!(taken & mask, 0);
            taken |= mask;
        }
        prop_assert_eq!(taken, (1u64 << layout.total_bits()) - 1);
        prop_assert_eq!(layout.fields()[0].0, Field::Time);
    }

    #[test]
    fn instants_and_ticks_agree(layout in layouts(), instant in any::<i64>()) {
        match layout.tick_at(instant) {
            Ok(tick) => {
                let start = layout.decode(layout.pack(&Parts { tick, ..Default::default() }).unwrap());
                let into = instant - start.unwrap().generated_at;
                prop_assert!((0..layout.unit_us() as i64).contains(&into));
            }
            Err(_) => prop_assert!(instant < layout.epoch_us() || instant >= layout.end_us()),
        }
    }

    #[test]
    fn arbitrary_text_never_panics(text in any::<String>()) {
        let _ = text.parse::<Layout>();
        let _ = serde_json::from_str::<Layout>(&text);
    }

    #[test]
    fn text_that_is_nearly_a_layout_never_panics(
        words in prop::collection::vec("(time|worker|sequence|unit|epoch|twitter|clock_seq)?[:=]?[0-9]{0,25}(ms|us|s|Z)?", 0..6)
    ) {
        if let Err(error) = words.join(" ").parse::<Layout>() {
            prop_assert!(!error.to_string().is_empty() && !error.allowed().is_empty());
        }
    }

    /// A block has the promises of single IDs, and its IDs are in one tick, for any layout, clock and history.
    #[test]
    fn blocks_keep_the_promises(
        layout in layouts(),
        max_ahead_us in prop_oneof![Just(0u64), 0u64..10_000_000],
        spread in prop_oneof![Just(0u32), any::<u32>()],
        start in any::<u64>(),
        steps in prop::collection::vec((-5_000_000i64..5_000_000, any::<u64>(), any::<bool>()), 1..40),
    ) {
        let identity = Identity { datacenter: 0, worker: 0 };
        let generator = Generator::new(layout, identity, max_ahead_us, spread).unwrap();
        let (gate, slot) = (Gate::default(), Slot::new(0, u64::MAX));
        gate.open(identity);
        let length_us = layout.end_us().abs_diff(layout.epoch_us());
        let mut now_us = layout.epoch_us().wrapping_add_unsigned(start % length_us);
        let mut newest = -1;
        for (clock_step, n, is_block) in steps {
            now_us = now_us.saturating_add(clock_step);
            let n = NonZeroU64::new(n % (layout.max(Field::Sequence) + 1).min(5_000) + 1).unwrap();
            let before = slot.word();
            let taken = match is_block {
                true => slot.reserve_block(&gate, &generator, || now_us, n),
                false => slot.reserve(&gate, &generator, || now_us, n),
            };
            let Ok(reservation) = taken else {
                prop_assert_eq!(slot.word(), before);
                continue;
            };
            let ids: Vec<i64> = generator.ids(reservation).collect();
            if is_block {
                prop_assert_eq!(ids.len() as u64, n.get());
                prop_assert_eq!(
                    layout.unpack(ids[0]).unwrap().tick,
                    layout.unpack(ids[ids.len() - 1]).unwrap().tick
                );
            }
            for id in ids {
                prop_assert!(id > newest);
                newest = id;
                let start_us = i128::from(layout.time_of(id).unwrap());
                prop_assert!(start_us - i128::from(now_us) <= i128::from(max_ahead_us));
                prop_assert!(start_us + i128::from(layout.unit_us()) > i128::from(now_us));
            }
        }
    }

    /// The promises for any layout, clock, limit and history: IDs increase strictly, none exceeds `max_ahead`, the
    /// limit or the end, none is earlier than the clock, and a stall takes nothing.
    #[test]
    fn any_history_keeps_the_promises(
        layout in layouts(),
        max_ahead_us in prop_oneof![Just(0u64), 0u64..10_000_000, any::<u64>()],
        spread in prop_oneof![Just(0u32), any::<u32>()],
        start in any::<u64>(),
        steps in prop::collection::vec((-5_000_000i64..5_000_000, 1u64..2_000, any::<bool>()), 1..40),
    ) {
        let identity = Identity { datacenter: 0, worker: 0 };
        let generator = Generator::new(layout, identity, max_ahead_us, spread).unwrap();
        let (gate, slot) = (Gate::default(), Slot::new(0, u64::MAX));
        gate.open(identity);
        let length_us = layout.end_us().abs_diff(layout.epoch_us());
        let mut now_us = layout.epoch_us().wrapping_add_unsigned(start % length_us);
        let mut limit = u64::MAX;
        let mut newest = -1;
        for (clock_step, n, limited) in steps {
            now_us = now_us.saturating_add(clock_step);
            if limited {
                limit = layout.tick_at(now_us).map_or(0, |tick| tick + 3);
                slot.set_horizon(limit);
            }
            let before = slot.word();
            let n = NonZeroU64::new(n).unwrap();
            let hopeless = generator.wait_us(before, now_us, n);
            match slot.reserve(&gate, &generator, || now_us, n) {
                Ok(reservation) => {
                    prop_assert!((1..=n.get()).contains(&reservation.count()));
                    for id in generator.ids(reservation) {
                        prop_assert!(id > newest);
                        newest = id;
                        let start_us = i128::from(layout.time_of(id).unwrap());
                        prop_assert!(start_us - i128::from(now_us) <= i128::from(max_ahead_us));
                        prop_assert!(start_us + i128::from(layout.unit_us()) > i128::from(now_us));
                        prop_assert!(layout.unpack(id).unwrap().tick < limit);
                    }
                    if reservation.count() == n.get() {
                        prop_assert_eq!(hopeless, Ok(0));
                    } else {
                        prop_assert!(hopeless != Ok(0) || limit < u64::MAX);
                    }
                }
                Err(stall) => {
                    prop_assert_eq!(slot.word(), before);
                    match stall {
                        // After exactly this wait the call succeeds, unless the limit prevents it. A microsecond
                        // earlier it does not.
                        Stall::Ahead { wait_us } => {
                            let one = NonZeroU64::MIN;
                            let at = |us: u64| {
                                generator.advance(before, now_us.saturating_add_unsigned(us), u64::MAX, one)
                            };
                            prop_assert!(at(wait_us).is_ok());
                            prop_assert_eq!(at(wait_us - 1), Err(Stall::Ahead { wait_us: 1 }));
                        }
                        Stall::Horizon => prop_assert!(limit < layout.ticks()),
                        Stall::BeforeEpoch { wait_us } => {
                            prop_assert_eq!(now_us.wrapping_add_unsigned(wait_us), layout.epoch_us());
                        }
                        Stall::Exhausted => {
                            prop_assert!(now_us >= layout.end_us() || before >> layout.bits(Field::Sequence) == layout.ticks());
                        }
                        Stall::Identity(_) => prop_assert!(false),
                    }
                }
            }
        }
    }
}
