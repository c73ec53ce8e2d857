//! What is done to the slots: given to layouts, let up to a horizon, fenced, retired.
//!
//! * The directory is written under the exclusive lock and read under the shared one. What a backend has
//!   found once it may keep, so that the hot path takes no lock: a slot never goes to another layout.
//! * A slot is given to a layout under the exclusive lock, before its key is written. From then on its
//!   counter is moved by the exchanges of all backends, without a lock; its horizon by the keeper.
//! * A published horizon reaches every slot: the keeper stores it on the board and then in the slots, all
//!   under the shared lock, and a slot that is given to a layout takes it from the board under the exclusive
//!   one.

use std::sync::atomic::{AtomicU64, Ordering};

use snowflake_id_core::{Layout, Slot, SlotKey};

use super::memory::{DIRECTORY, State, state};
use super::places::{Directory, MAX_SLOTS, Place, Record};
use crate::error::Error;

/// A slot that belongs to a layout, and how many IDs were taken from it.
#[derive(Clone, Copy)]
pub struct SlotInUse {
    pub slot: &'static Slot,
    pub issued: &'static AtomicU64,
}

/// A snapshot of a slot in use.
pub struct SlotFacts {
    /// The layout that came first of those that share the slot.
    pub layout: Layout,
    pub counter: u64,
    /// How many IDs were taken, as far as they have been counted.
    pub issued: u64,
}

/// The slot of a layout, if it has one.
pub fn find(layout: &Layout) -> Result<Option<SlotInUse>, Error> {
    let at = DIRECTORY.share().find(SlotKey::of(layout));
    let state = state()?;
    Ok(at.map(|at| state.slot_at(at)))
}

/// The slot of a layout, given to it now if it had none. It begins at the floor.
pub fn find_or_assign(layout: &Layout) -> Result<SlotInUse, Error> {
    let state = state()?;
    let key = SlotKey::of(layout);
    let mut directory = DIRECTORY.exclusive();
    if let Some(at) = directory.find(key) {
        return Ok(state.slot_at(at));
    }
    let free = directory.places.iter().position(|place| *place == Place::Free);
    let free = free.ok_or_else(|| Error::TooManyLayouts {
        most: MAX_SLOTS,
        retired: directory.places.iter().filter(|place| **place == Place::Retired).count(),
    })?;
    let counter = state.first_counter(&key);
    let horizon = key.first_tick_from(state.board.past.published_us());
    state.places.slots[free].assign(counter, horizon);
    state.places.records[free].note_set(&key, 0, counter);
    directory.places[free] = Place::InUse(*layout);
    Ok(state.slot_at(free))
}

impl State {
    fn slot_at(&'static self, at: usize) -> SlotInUse {
        SlotInUse { slot: &self.places.slots[at], issued: &self.places.records[at].issued }
    }

    /// Where a slot begins that is given to a layout now.
    pub fn first_counter(&self, key: &SlotKey) -> u64 {
        key.counter_at(key.first_tick_from(self.board.keeper.floor_us().unwrap_or(0)))
    }

    /// Every slot in use, as it is now.
    pub fn slots_in_use(&self) -> Vec<SlotFacts> {
        let directory = DIRECTORY.share();
        let layouts = directory.places.iter().filter_map(Place::layout);
        let facts = |(layout, (_, slot, record)): (&Layout, (SlotKey, &Slot, &Record))| SlotFacts {
            layout: *layout,
            counter: slot.counter(),
            issued: record.issued.load(Ordering::Relaxed),
        };
        layouts.zip(directory.in_use(&self.places)).map(facts).collect()
    }

    /// The end of what was handed out so far, over all slots: a horizon there covers all of it.
    pub fn end_of_use_us(&self) -> i64 {
        self.end_of_use_in(&DIRECTORY.share())
    }

    fn end_of_use_in(&self, directory: &Directory) -> i64 {
        let ends = directory
            .in_use(&self.places)
            .map(|(key, slot, record)| record.end_of_use_us(&key, slot.counter()));
        ends.fold(0, i64::max)
    }

    /// Lets slots be used up to a horizon, those in use and those to come. Only for one that is durable.
    pub fn publish(&self, horizon_us: i64) {
        let directory = DIRECTORY.share();
        self.publish_in(&directory, horizon_us);
    }

    fn publish_in(&self, directory: &Directory, horizon_us: i64) {
        self.board.past.set_published(horizon_us);
        for (key, slot, _) in directory.in_use(&self.places) {
            slot.set_horizon(key.first_tick_from(horizon_us));
        }
    }

    /// Closes the gate and raises every slot to what `floor` makes of its counter. When this returns, no
    /// attempt that began before will succeed. Slots to come begin at `floor_us` at the earliest.
    pub fn fence(&self, floor_us: i64, floor: impl Fn(&SlotKey, u64) -> u64) {
        self.fence_in(&DIRECTORY.exclusive(), floor_us, floor);
    }

    fn fence_in(&self, directory: &Directory, floor_us: i64, floor: impl Fn(&SlotKey, u64) -> u64) {
        self.board.keeper.floor_us.fetch_max(floor_us, Ordering::AcqRel);
        let raised = self.gate.fence(directory.in_use(&self.places).map(|(key, slot, _)| {
            let floor = &floor;
            (slot, move |counter| floor(&key, counter))
        }));
        for ((key, _, record), (before, after)) in directory.in_use(&self.places).zip(raised) {
            record.note_set(&key, before, after);
        }
    }

    /// Fences, and lets nothing more be used than what was handed out. Returns the end of that, and of what
    /// was skipped because it may have been used earlier.
    pub fn seal(&self) -> i64 {
        let directory = DIRECTORY.exclusive();
        self.fence_in(&directory, 0, |_, _| 0);
        let end_us = self.end_of_use_in(&directory).max(self.board.keeper.floor_us().unwrap_or(0));
        self.publish_in(&directory, end_us);
        end_us
    }

    /// The end of a seal is durable: nothing beyond it was promised to anybody.
    pub fn forget_promises_beyond(&self, end_us: i64) {
        self.board.past.lower_promise(end_us);
    }

    /// Forgets what was handed out: layouts get new slots, which begin at `floor_us`. Only after a fence, and
    /// if no identity that was used before goes on below what it was used for.
    ///
    /// Slots are not used again. An attempt that has been paused since before the fence must not find in its
    /// slot, one day, the very counter that it knows.
    pub fn begin_anew(&self, floor_us: i64, horizon_us: i64) {
        let mut directory = DIRECTORY.exclusive();
        for (_, slot, _) in directory.in_use(&self.places) {
            slot.set_horizon(0);
        }
        for place in directory.places.iter_mut().filter(|place| **place != Place::Free) {
            *place = Place::Retired;
        }
        self.board.keeper.floor_us.store(floor_us, Ordering::Release);
        self.board.past.begin_anew(horizon_us);
    }
}
