//! The slots of the layouts in use, and the directory that assigns them.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use pgrx::PGRXSharedMemory;
use snowflake_id_core::{Layout, Slot, SlotKey};

/// The maximum number of layouts in use at a time.
pub const MAX_LAYOUTS: usize = 16;
/// The total number of slots. Each reset retires the slots in use. Retired slots are not used again until the
/// server is restarted.
pub const MAX_SLOTS: usize = 256;

/// The slots.
pub(super) struct SlotTable {
    pub(super) slots: [Slot; MAX_SLOTS],
    /// The records are stored separately from the slots, because the cache lines of the slots are contended.
    pub(super) records: [Record; MAX_SLOTS],
}

impl Default for SlotTable {
    /// Every slot starts with horizon 0, which permits no ticks.
    fn default() -> SlotTable {
        SlotTable {
            slots: std::array::from_fn(|_| Slot::new(0, 0)),
            records: std::array::from_fn(|_| Record::default()),
        }
    }
}

/// The data of a slot that is stored outside the slot.
#[derive(Default)]
pub(super) struct Record {
    /// The number of IDs that backends have reported so far. All backends add their counts.
    pub(super) issued: AtomicU64,
    /// The first counter that the identity of the open gate may have used. Written under the exclusive lock.
    identity_from: AtomicU64,
    /// The slot's word after the last change that did not take an ID. As long as the slot still has this
    /// word, no ID has been taken since. `set_to` and `end_of_use_us` are written under the exclusive lock.
    set_to: AtomicU64,
    /// The high-water mark of the IDs issued before the change to `set_to`, in microseconds of Unix time.
    end_of_use_us: AtomicI64,
}

impl Record {
    /// Records that the slot was set to a new word. Earlier IDs from this slot no longer count towards its
    /// high-water mark.
    pub(super) fn note_new(&self, word: u64) {
        self.end_of_use_us.store(0, Ordering::Relaxed);
        self.set_to.store(word, Ordering::Relaxed);
    }

    /// Records that the keeper has raised the slot from one word to another.
    pub(super) fn note_raised(&self, key: &SlotKey, before: u64, after: u64) {
        self.end_of_use_us.store(self.end_of_use_us(key, before), Ordering::Relaxed);
        self.set_to.store(after, Ordering::Relaxed);
    }

    /// Records the first counter that the next identity of the gate may use.
    pub(super) fn note_identity_from(&self, counter: u64) {
        self.identity_from.store(counter, Ordering::Relaxed);
    }

    /// Returns the first counter that the identity of the gate may have used. The directory must be locked.
    pub(super) fn identity_from(&self) -> u64 {
        self.identity_from.load(Ordering::Relaxed)
    }

    /// Returns the high-water mark of the issued IDs, given the slot's word. Skipped IDs are not included.
    pub(super) fn end_of_use_us(&self, key: &SlotKey, word: u64) -> i64 {
        match word == self.set_to.load(Ordering::Relaxed) {
            true => self.end_of_use_us.load(Ordering::Relaxed),
            false => key.end_of_use_us(key.parts(word).1),
        }
    }
}

/// The assignment of slots to layouts.
#[derive(Clone, Copy)]
pub(super) struct Directory {
    pub(super) entries: [SlotEntry; MAX_SLOTS],
}

impl Default for Directory {
    fn default() -> Directory {
        Directory { entries: [SlotEntry::Free; MAX_SLOTS] }
    }
}

// SAFETY: the type contains plain values without pointers, and the LWLock orders all accesses to them.
unsafe impl PGRXSharedMemory for Directory {}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum SlotEntry {
    #[default]
    Free,
    /// The slot belongs to this layout on this track, and to all other layouts with the same key. On track 0,
    /// the entry names a layout without a clock sequence if there is one, because the other layouts leave the
    /// slot when the clock is set back.
    InUse(Layout, usize),
    /// A reset has retired the slot. No layout uses it any more, but backends may still have it in their
    /// caches.
    Retired,
}

impl SlotEntry {
    pub(super) fn in_use(&self) -> Option<(&Layout, SlotKey)> {
        match self {
            SlotEntry::InUse(layout, track) => Some((layout, SlotKey::on_track(layout, *track))),
            SlotEntry::Free | SlotEntry::Retired => None,
        }
    }

    /// Returns whether all layouts have left this slot. The parameter `current` is the server's current value
    /// of the clock sequence.
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

    /// Returns the slots in use, each with its key and its record.
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
