//! Room for the slots of the layouts in use, and the directory that says which slot is whose.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use pgrx::PGRXSharedMemory;
use snowflake_id_core::{Layout, Slot, SlotKey};

/// How many layouts can be in use at a time.
pub const MAX_LAYOUTS: usize = 16;
/// How many slots there are. Each time everything begins anew, those in use are given up until the server is restarted.
pub const MAX_SLOTS: usize = 256;

/// Room for the slots.
pub(super) struct SlotTable {
    pub(super) slots: [Slot; MAX_SLOTS],
    /// Apart from the slots, whose cache lines are in demand.
    pub(super) records: [Record; MAX_SLOTS],
}

impl Default for SlotTable {
    /// Nothing may be used.
    fn default() -> SlotTable {
        SlotTable {
            slots: std::array::from_fn(|_| Slot::new(0, 0)),
            records: std::array::from_fn(|_| Record::default()),
        }
    }
}

/// What is known of a slot besides what is in it.
#[derive(Default)]
pub(super) struct Record {
    /// How many IDs were taken, as far as they have been counted. Added to by all backends.
    pub(super) issued: AtomicU64,
    /// What the slot's word was set to last, other than by taking IDs. As long as it is that, nothing has
    /// been handed out since. This and the next are written under the exclusive lock.
    set_to: AtomicU64,
    /// The end of what was handed out before that, in microseconds of Unix time.
    end_of_use_us: AtomicI64,
}

impl Record {
    /// Notes that the slot has been given this word, with a value of the clock sequence of which it has handed out nothing.
    pub(super) fn note_new(&self, word: u64) {
        self.end_of_use_us.store(0, Ordering::Relaxed);
        self.set_to.store(word, Ordering::Relaxed);
    }

    /// Notes that the slot has been raised from one word to another.
    pub(super) fn note_raised(&self, key: &SlotKey, before: u64, after: u64) {
        self.end_of_use_us.store(self.end_of_use_us(key, before), Ordering::Relaxed);
        self.set_to.store(after, Ordering::Relaxed);
    }

    /// The end of what was handed out, given the word. What was skipped was not handed out.
    pub(super) fn end_of_use_us(&self, key: &SlotKey, word: u64) -> i64 {
        match word == self.set_to.load(Ordering::Relaxed) {
            true => self.end_of_use_us.load(Ordering::Relaxed),
            false => key.end_of_use_us(key.parts(word).1),
        }
    }
}

/// Which slot belongs to which layout.
#[derive(Clone, Copy)]
pub(super) struct Directory {
    pub(super) entries: [SlotEntry; MAX_SLOTS],
}

impl Default for Directory {
    fn default() -> Directory {
        Directory { entries: [SlotEntry::Free; MAX_SLOTS] }
    }
}

// SAFETY: plain values without pointers; the LWLock around them orders all access.
unsafe impl PGRXSharedMemory for Directory {}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum SlotEntry {
    #[default]
    Free,
    /// Of this layout, on this track, and of all with the same key. On track 0 it is named after one without a clock
    /// sequence, as soon as there is one: the others move on when the clock is set back.
    InUse(Layout, usize),
    /// Nobody's any more. Backends may still hold it.
    Retired,
}

impl SlotEntry {
    pub(super) fn in_use(&self) -> Option<(&Layout, SlotKey)> {
        match self {
            SlotEntry::InUse(layout, track) => Some((layout, SlotKey::on_track(layout, *track))),
            SlotEntry::Free | SlotEntry::Retired => None,
        }
    }

    /// Whether no layout has this slot while the server's value of the clock sequence is `current`.
    pub(super) fn is_left(&self, current: u8) -> bool {
        match self {
            SlotEntry::InUse(layout, track) => SlotKey::at(layout, current).track() != *track,
            SlotEntry::Free | SlotEntry::Retired => false,
        }
    }
}

impl Directory {
    pub(super) fn find(&self, key: SlotKey) -> Option<usize> {
        self.entries.iter().position(|entry| entry.in_use().is_some_and(|(_, used)| used == key))
    }

    /// The slots in use, each with its key and its record.
    pub(super) fn in_use<'a>(
        &'a self,
        table: &'a SlotTable,
    ) -> impl Iterator<Item = (SlotKey, &'a Slot, &'a Record)> {
        self.entries
            .iter()
            .enumerate()
            .filter_map(|(at, entry)| Some((entry.in_use()?.1, &table.slots[at], &table.records[at])))
    }
}
