//! Computes watermarks from the slots, the marks and the samples.
//!
//! The directory is locked during the computation, so that no slot is assigned or retired and no fence changes the
//! identity. The computation takes the locks of prepared transactions and of samples under this lock. No process takes
//! these locks in the reverse order.

use snowflake_id_core::watermark::{Blocked, Holder, LowWater, Snapshot, id_at, id_of, low_water};
use snowflake_id_core::{Identity, Layout, SlotKey};

use super::memory::{DIRECTORY, State};
use super::slot_table::{Directory, SlotEntry};
use super::{marks, samples};
use crate::pg::clock::since_boot;
use crate::pg::snapshot;

/// The current watermark of a layout in use.
pub struct LayoutWatermark {
    pub layout: Layout,
    /// The watermark, with its time in microseconds of Unix time, and the transaction that holds it back.
    pub watermark: Result<(i64, i64, Option<Holder>), Blocked>,
}

impl State {
    /// Returns the highest known watermark that is valid for a statement with this snapshot, or `None` if no valid
    /// watermark is known. The layout must not have a clock sequence.
    pub fn watermark(&'static self, layout: &Layout, statement: &Snapshot) -> Option<i64> {
        let directory = DIRECTORY.share();
        if !self.server_status.is_begun() {
            return None;
        }
        let key = SlotKey::of(layout);
        let index = directory.find(key);
        let now = since_boot();
        let fresh = self.low_water(&directory).ok();
        if let Some((low, snapshot)) = &fresh {
            samples::keep(low, snapshot, now);
        }
        let fresh = fresh.filter(|(_, snapshot)| snapshot.is_covered_by(statement));
        let words = |low: Vec<Option<LowWater>>| low.into_iter().map(|low| Some(low?.word)).collect();
        let low: Vec<Option<u64>> = fresh.map(|(low, _)| words(low)).or_else(|| samples::find(statement))?;
        Some(match index {
            Some(index) => {
                let counter = self.counter_of(index, &key, (*low.get(index)?)?);
                id_at(layout, counter, self.identity_of(index))
            }
            // Since the floor was set, this server has issued no IDs of this layout.
            None => id_at(layout, self.first_counter(&key), None),
        })
    }

    /// Returns the current watermark of each layout in use. The watermarks may be too high for a statement with an
    /// older snapshot. Layouts with a clock sequence are omitted.
    pub fn watermarks(&'static self) -> Vec<LayoutWatermark> {
        let directory = DIRECTORY.share();
        let low = self.low_water(&directory);
        let current = self.server_status.value();
        let entries = directory.entries.iter().enumerate();
        let in_use = entries.filter(|(_, entry)| !entry.is_left(current));
        let layouts = in_use.filter_map(|(index, entry)| Some((index, *entry.in_use()?.0)));
        layouts
            .filter(|(_, layout)| layout.max_clock_seq() == 0)
            .map(|(index, layout)| {
                let watermark = |low: &[Option<LowWater>]| {
                    let low = low[index].expect("bug: a slot in use has no watermark");
                    let key = SlotKey::of(&layout);
                    let counter = self.counter_of(index, &key, low.word);
                    (id_at(&layout, counter, self.identity_of(index)), key.tick_us(counter), low.holder)
                };
                let watermark = low.as_ref().map(|(low, _)| watermark(low)).map_err(|blocked| *blocked);
                LayoutWatermark { layout, watermark }
            })
            .collect()
    }

    fn low_water(&'static self, directory: &Directory) -> Result<(Vec<Option<LowWater>>, Snapshot), Blocked> {
        let assigned = directory.entries.iter().take_while(|entry| **entry != SlotEntry::Free);
        let slots = assigned.zip(&self.slot_table.slots).map(|(entry, slot)| entry.in_use().map(|_| slot));
        low_water(slots, marks::of_processes(), marks::of_prepared, snapshot::take, self.first_transaction())
    }

    /// Returns the counter of a watermark, given the word that holds the watermark back. The directory must be locked.
    ///
    /// The result is not above counters that a fence skipped. If the server is restarted before more IDs are issued,
    /// IDs can begin at the skipped counters, because the shutdown horizon is not above these counters either.
    fn counter_of(&self, index: usize, key: &SlotKey, word: u64) -> u64 {
        let current = self.slot_table.slots[index].word();
        let end_of_use_us = self.slot_table.records[index].end_of_use_us(key, current);
        let floor_us = self.server_status.begun(key.track()).floor_us;
        key.parts(word).1.min(key.first_counter_from(end_of_use_us.max(floor_us)))
    }

    /// Returns the identity of the gate, with the first counter of a slot that this identity may have used. The
    /// directory must be locked.
    fn identity_of(&self, index: usize) -> Option<(Identity, u64)> {
        Some((self.gate.identity()?, self.slot_table.records[index].identity_from()))
    }

    /// Returns whether the current transaction may have taken this ID. This is the case if the ID was taken after the
    /// transaction first used the slot, and contains the identity of the server. The layout must not have a clock
    /// sequence.
    pub fn is_own_id(&'static self, layout: &Layout, id: i64) -> bool {
        let directory = DIRECTORY.share();
        let key = SlotKey::of(layout);
        let (Some(index), Ok(parts)) = (directory.find(key), layout.unpack(id)) else { return false };
        let slot = &self.slot_table.slots[index];
        let counter = key.counter_at(parts.tick) + parts.sequence;
        let is_taken_since = |mark: u64| (mark..slot.word()).contains(&counter);
        // Below the first counter of the identity, a watermark contains zeros instead of the identity. An ID with any
        // identity is therefore at or above the watermark.
        let has_identity = self
            .identity_of(index)
            .is_none_or(|(identity, from)| counter < from || id_of(layout, counter, identity) == Some(id));
        marks::own_word(index).is_some_and(is_taken_since) && has_identity
    }
}
