//! The assignment of slots to layouts. Operations that affect all slots at once are in [`super::tracks`].
//!
//! * The directory is written under the exclusive lock and read under the shared lock. A slot is never
//!   assigned to another layout. Therefore, a backend may cache a slot, and the hot path takes no lock.
//! * A slot is initialized under the exclusive lock before it is entered in the directory. After that, all
//!   backends change the word of the slot by atomic exchanges without a lock. The keeper changes the horizon
//!   of the slot.

use std::sync::atomic::{AtomicU64, Ordering};

use snowflake_id_core::{Layout, Slot, SlotKey};

use super::memory::{DIRECTORY, State, state};
use super::slot_table::{MAX_LAYOUTS, MAX_SLOTS, Record, SlotEntry};
use crate::error::Error;

/// The slot of a layout, with a counter of the issued IDs.
#[derive(Clone, Copy)]
pub struct SlotInUse {
    /// The index of the slot.
    pub index: usize,
    pub slot: &'static Slot,
    pub issued: &'static AtomicU64,
    /// The value of the clock sequence.
    pub clock_seq: u8,
}

/// A snapshot of the state of a slot.
pub struct SlotFacts {
    /// The layout in the directory entry of the slot. Other layouts may share the slot.
    pub layout: Layout,
    pub key: SlotKey,
    /// Whether all layouts have left the slot because the clock was set back.
    pub is_left: bool,
    /// The value of the clock sequence.
    pub clock_seq: u8,
    /// The next unused value of the counter.
    pub counter: u64,
    /// The number of issued IDs that backends have reported so far.
    pub issued: u64,
}

/// Returns the slot of a layout, or `None` if the layout has no slot.
pub fn find(layout: &Layout) -> Result<Option<SlotInUse>, Error> {
    let state = state()?;
    let directory = DIRECTORY.share();
    let key = state.key_of(layout);
    Ok(directory.find(key).map(|at| state.slot_at(at, &key)))
}

/// Returns the slot of a layout. If the layout has no slot, assigns a slot that starts at the floor.
pub fn find_or_assign(layout: &Layout) -> Result<SlotInUse, Error> {
    let state = state()?;
    let mut directory = DIRECTORY.exclusive();
    let key = state.key_of(layout);
    if let Some(at) = directory.find(key) {
        return Ok(state.slot_at(at, &key));
    }
    let current = state.server_status.value();
    let in_use = directory.entries.iter().filter(|entry| entry.in_use().is_some() && !entry.is_left(current));
    let in_use = in_use.count();
    let free = directory.entries.iter().position(|entry| *entry == SlotEntry::Free);
    let free = free.filter(|_| in_use < MAX_LAYOUTS).ok_or_else(|| Error::TooManyLayouts {
        most: if in_use < MAX_LAYOUTS { MAX_SLOTS } else { MAX_LAYOUTS },
        retired: directory.entries.iter().filter(|entry| **entry == SlotEntry::Retired).count(),
    })?;
    let word = key.word(layout.clock_seq_at(current), state.first_counter(&key));
    state.slot_table.slots[free].assign(word, state.first_unusable_tick(&key));
    state.slot_table.records[free].note_new(word);
    state.slot_table.records[free].note_identity_from(key.parts(word).1);
    directory.entries[free] = SlotEntry::InUse(*layout, key.track());
    Ok(state.slot_at(free, &key))
}

/// If this layout will use its slot for longer than the layout in the directory entry of the slot, replaces the layout
/// in the entry. On track 0, the layout with the narrower clock sequence uses the slot for longer. On track 1, the
/// layout with the wider clock sequence does.
pub fn name_after(layout: &Layout) -> Result<(), Error> {
    let key = state()?.key_of(layout);
    let is_named_after_another = |entry: &SlotEntry| match entry {
        SlotEntry::InUse(named, track) if SlotKey::on_track(named, *track) == key => {
            let (named, longer) = (named.max_clock_seq(), layout.max_clock_seq());
            if *track == 0 { named > longer } else { named < longer }
        }
        _ => false,
    };
    if DIRECTORY.share().entries.iter().any(is_named_after_another) {
        let mut directory = DIRECTORY.exclusive();
        if let Some(entry) = directory.entries.iter_mut().find(|entry| is_named_after_another(entry)) {
            *entry = SlotEntry::InUse(*layout, key.track());
        }
    }
    Ok(())
}

impl State {
    fn slot_at(&'static self, at: usize, key: &SlotKey) -> SlotInUse {
        let slot = &self.slot_table.slots[at];
        SlotInUse {
            index: at,
            slot,
            issued: &self.slot_table.records[at].issued,
            clock_seq: key.parts(slot.word()).0,
        }
    }

    /// Returns the key of the slot that a layout currently uses.
    pub fn key_of(&self, layout: &Layout) -> SlotKey {
        SlotKey::at(layout, self.server_status.value())
    }

    /// Returns the first counter of a new slot.
    pub fn first_counter(&self, key: &SlotKey) -> u64 {
        key.first_counter_from(self.server_status.begun(key.track()).floor_us)
    }

    /// Returns a snapshot of every slot in use.
    pub fn slots_in_use(&self) -> Vec<SlotFacts> {
        let directory = DIRECTORY.share();
        let current = self.server_status.value();
        let entries = directory.entries.iter().zip(&self.slot_table.slots).zip(&self.slot_table.records);
        let facts = |((entry, slot), record): ((&SlotEntry, &Slot), &Record)| {
            let (layout, key) = entry.in_use()?;
            let (clock_seq, counter) = key.parts(slot.word());
            Some(SlotFacts {
                layout: *layout,
                key,
                is_left: entry.is_left(current),
                clock_seq,
                counter,
                issued: record.issued.load(Ordering::Relaxed),
            })
        };
        entries.filter_map(facts).collect()
    }
}
