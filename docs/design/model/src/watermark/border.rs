//! The border between the compact state of the model and the types of the product. The code of the product is called
//! here.

use std::sync::LazyLock;

use snowflake_id_core::marks::Mark;
use snowflake_id_core::watermark::{id_at, low_water};
use snowflake_id_core::{Field, Identity, Layout, Marks, Parts, Slot, SlotKey};

use crate::watermark::state::*;

/// The worker ID is above the sequence, so that IDs with a lower worker ID come first in each tick.
static LAYOUT: LazyLock<Layout> =
    LazyLock::new(|| "time:40 worker:2 sequence:2 epoch=1970-01-01T00:00:00Z".parse().unwrap());

fn identity(worker: u8) -> Identity {
    Identity { datacenter: 0, worker: worker.into() }
}

/// The ID with a counter.
pub fn id(counter: u8, worker: u8) -> u8 {
    let bits = LAYOUT.bits(Field::Sequence);
    let parts = Parts {
        tick: u64::from(counter) >> bits,
        sequence: u64::from(counter) & LAYOUT.max(Field::Sequence),
        worker: worker.into(),
        ..Parts::default()
    };
    LAYOUT.pack(&parts).expect("bug: the parts do not fit") as u8
}

/// The counter from which a fence lets another identity go on.
pub fn next_whole_tick(counter: u8) -> u8 {
    SlotKey::of(&LAYOUT).next_whole_tick(u64::from(counter) + 1) as u8
}

/// The watermark as an ID.
pub fn watermark(counter: u8, identity_from: Option<(u8, u8)>) -> u8 {
    let identity_from = identity_from.map(|(worker, from)| (identity(worker), from.into()));
    id_at(&LAYOUT, counter.into(), identity_from) as u8
}

impl Line {
    fn marks(&self) -> Marks {
        let marks = Marks::default();
        for &(slot, word) in &self.0 {
            marks.set(slot.into(), &Slot::new(word.into(), u64::MAX));
        }
        marks
    }

    fn of(marks: &Marks) -> Line {
        let slot = |mark| match mark {
            Mark::Slot { index, word } => (index as u8, word as u8),
            Mark::Any => unreachable!("bug: there are too few slots"),
        };
        Line(marks.read().map(slot).collect())
    }

    pub fn set(&mut self, slot: u8, counter: u8) {
        let marks = self.marks();
        marks.set(slot.into(), &Slot::new(counter.into(), u64::MAX));
        *self = Line::of(&marks);
    }

    pub fn clear(&mut self) {
        let marks = self.marks();
        marks.clear();
        *self = Line::of(&marks);
    }

    pub fn copy(&self) -> Line {
        let copy = Marks::default();
        copy.copy_from(&self.marks());
        Line::of(&copy)
    }
}

impl Seen {
    /// The watermarks of the slots, if the marks tell them.
    pub fn low_water(&self, first: u8) -> Option<Sample> {
        let slots: Vec<_> =
            self.counters.iter().map(|counter| counter.map(|it| Slot::new(it.into(), u64::MAX))).collect();
        let marks: Vec<_> = self.lines.iter().map(Line::marks).collect();
        let prepared = || {
            let entry = |entry: &Entry| (entry.transaction.into(), entry.line.marks().read().collect());
            self.prepared.iter().map(entry).collect()
        };
        let slots = slots.iter().map(Option::as_ref);
        let (low, snapshot) =
            low_water(slots, &marks, prepared, || self.snapshot.clone(), first.into()).ok()?;
        Some(Sample { low: low.into_iter().map(|low| Some(low?.word as u8)).collect(), snapshot })
    }
}
