//! IDs with a value of the clock sequence, and the slots of layouts that have the field.

use std::num::NonZeroU64;

use snowflake_id_core::{Gate, Generator, Identity, Layout, Slot, SlotKey};

const HOUR_US: i64 = 3_600_000_000;
const ME: Identity = Identity { datacenter: 0, worker: 5 };

fn layout(text: &str) -> Layout {
    text.parse().unwrap()
}

#[test]
fn layouts_share_a_slot_while_their_values_are_equal() {
    let key = |text: &str, current| SlotKey::at(&layout(text), current);
    for current in [0, 1, 7] {
        assert_eq!(key("standard", current), SlotKey::of(&layout("standard")));
        assert_eq!(key("rollback3", current) == key("standard", current), current == 0);
    }
    // Two layouts with the same field at the same position. One is too narrow for value 2.
    let (wide, narrow) =
        ("time:41 clock_seq:2 worker:8 sequence:12", "time:41 datacenter:1 clock_seq:1 worker:8 sequence:12");
    let same = "time:41 clock_seq:2 datacenter:1 worker:7 sequence:12"; // At the same position and as wide.
    assert_eq!([0, 1, 2].map(|current| key(wide, current) == key(same, current)), [true, true, true]);
    assert_eq!([0, 1, 2].map(|current| key(wide, current) == key(narrow, current)), [true, true, false]);
    assert_eq!(key(narrow, 2).track(), 0);
    // At another position: with value 1 they give the numbers of other layouts.
    let elsewhere = "time:41 worker:8 clock_seq:2 sequence:12";
    assert_eq!([0, 1, 2].map(|current| key(wide, current) == key(elsewhere, current)), [true, false, false]);
    assert_eq!(key(wide, 1), key(wide, 2));
}

#[test]
fn ids_carry_the_value_and_nothing_else_changes() {
    for text in ["rollback3", "rollback2"] {
        let layout = layout(text);
        let gate = Gate::default();
        gate.open(ME);
        let generator = Generator::new(layout, ME, 0, 0).unwrap();
        let now_us = layout.epoch_us() + HOUR_US;
        for value in [3, 0, 1] {
            let generator = generator.with_clock_seq(value);
            let slot = Slot::new(SlotKey::at(&layout, value).word(value, 0), u64::MAX);
            let reservation = slot.reserve(&gate, &generator, || now_us, NonZeroU64::MIN).unwrap();
            let decoded = layout.decode(generator.first_id(reservation)).unwrap();
            assert_eq!(decoded.clock_seq, Some(value.into()), "{text}");
            assert_eq!((decoded.worker_id, decoded.generated_at), (Some(5), now_us));
        }
    }
}

#[test]
#[should_panic(expected = "clock_seq 4 does not fit")]
fn a_value_never_spills_into_another_field() {
    let _ = Generator::new(layout("rollback2"), ME, 0, 0).unwrap().with_clock_seq(4);
}
