//! What is done to the slots: given to layouts, let up to a horizon, fenced, retired.
//!
//! * The directory is written under the exclusive lock and read under the shared one. What a backend has
//!   found once it may keep, so that the hot path takes no lock: a slot never goes to another layout.
//! * A slot is given to a layout under the exclusive lock, before its key is written. From then on its
//!   counter is moved by the exchanges of all backends, without a lock; its horizon by the keeper.
//! * A published horizon reaches every slot, but never beyond the end of the lease: the keeper stores both on
//!   the board and then the earlier one in the slots, all under the shared lock, and a slot that is given to a
//!   layout takes it from the board under the exclusive one.
//! * A slot belongs to a layout with one value of the clock sequence. When the clock is set back, layouts with the
//!   field move on to other slots; those with the value that they leave have no horizon any more, which tells
//!   sessions to look for the new one. Only those with value 0 keep theirs: layouts without the field go on there.

use std::sync::atomic::{AtomicU64, Ordering};

use snowflake_id_core::clock_sequence::{Begun, SeenValues, ValueHorizon, ValueUses};
use snowflake_id_core::{Layout, Lease, Slot, SlotKey};

use super::memory::{DIRECTORY, State, state};
use super::places::{Directory, MAX_LAYOUTS, MAX_SLOTS, Place, Record};
use crate::error::Error;

/// A slot that belongs to a layout, and how many IDs were taken from it.
#[derive(Clone, Copy)]
pub struct SlotInUse {
    pub slot: &'static Slot,
    pub issued: &'static AtomicU64,
    /// The value of the clock sequence.
    pub clock_seq: u8,
}

/// A snapshot of a slot in use.
pub struct SlotFacts {
    /// The layout that came first of those that share the slot.
    pub layout: Layout,
    pub key: SlotKey,
    /// Whether no layout has it any more, as the clock was set back.
    pub is_left: bool,
    pub counter: u64,
    /// How many IDs were taken, as far as they have been counted.
    pub issued: u64,
}

/// The slot of a layout, if it has one.
pub fn find(layout: &Layout) -> Result<Option<SlotInUse>, Error> {
    let state = state()?;
    let directory = DIRECTORY.share();
    let key = state.key_of(layout);
    Ok(directory.find(key).map(|at| state.slot_at(at, &key)))
}

/// The slot of a layout, given to it now if it had none. It begins at the floor.
pub fn find_or_assign(layout: &Layout) -> Result<SlotInUse, Error> {
    let state = state()?;
    let mut directory = DIRECTORY.exclusive();
    let key = state.key_of(layout);
    if let Some(at) = directory.find(key) {
        return Ok(state.slot_at(at, &key));
    }
    let current = state.board.values.value();
    let in_use = directory.places.iter().filter(|place| place.in_use().is_some() && !place.is_left(current));
    let in_use = in_use.count();
    let free = directory.places.iter().position(|place| *place == Place::Free);
    let free = free.filter(|_| in_use < MAX_LAYOUTS).ok_or_else(|| Error::TooManyLayouts {
        most: if in_use < MAX_LAYOUTS { MAX_SLOTS } else { MAX_LAYOUTS },
        retired: directory.places.iter().filter(|place| **place == Place::Retired).count(),
    })?;
    let counter = state.first_counter(&key);
    let horizon = state.first_unusable_tick(&key);
    state.places.slots[free].assign(counter, horizon);
    state.places.records[free].note_set(&key, 0, counter);
    directory.places[free] = Place::InUse(*layout, key.clock_seq());
    Ok(state.slot_at(free, &key))
}

/// Names a slot with value 0 after a layout that stays there when the clock is set back.
pub fn name_after(layout: &Layout) -> Result<(), Error> {
    let current = state()?.board.values.value();
    let is_named_after_another = |place: &Place| match place {
        Place::InUse(named, 0) => {
            SlotKey::of(named) == SlotKey::of(layout) && named.max_clock_seq() > layout.max_clock_seq()
        }
        _ => false,
    };
    if layout.clock_seq_at(current) == 0 && DIRECTORY.share().places.iter().any(is_named_after_another) {
        let mut directory = DIRECTORY.exclusive();
        if let Some(place) = directory.places.iter_mut().find(|place| is_named_after_another(place)) {
            *place = Place::InUse(*layout, 0);
        }
    }
    Ok(())
}

impl State {
    fn slot_at(&'static self, at: usize, key: &SlotKey) -> SlotInUse {
        SlotInUse {
            slot: &self.places.slots[at],
            issued: &self.places.records[at].issued,
            clock_seq: key.clock_seq(),
        }
    }

    /// The key that a layout has now.
    pub fn key_of(&self, layout: &Layout) -> SlotKey {
        SlotKey::at(layout, self.board.values.value())
    }

    /// Where a slot begins that is given to a layout now.
    pub fn first_counter(&self, key: &SlotKey) -> u64 {
        key.first_counter_from(self.floor_us(key.clock_seq()))
    }

    /// Where slots with a value of the clock sequence begin.
    pub fn floor_us(&self, clock_seq: u8) -> i64 {
        match clock_seq {
            0 => self.board.keeper.floor_us().unwrap_or(0),
            _ => self.board.values.begun().floor_us,
        }
    }

    /// Every slot in use, as it is now.
    pub fn slots_in_use(&self) -> Vec<SlotFacts> {
        let directory = DIRECTORY.share();
        let current = self.board.values.value();
        let places = directory.places.iter().zip(&self.places.slots).zip(&self.places.records);
        let facts = |((place, slot), record): ((&Place, &Slot), &Record)| {
            let (layout, key) = place.in_use()?;
            Some(SlotFacts {
                layout: *layout,
                key,
                is_left: place.is_left(current),
                counter: slot.counter(),
                issued: record.issued.load(Ordering::Relaxed),
            })
        };
        places.filter_map(facts).collect()
    }

    /// The end of what was handed out so far, over all slots with a value of the clock sequence: a horizon there
    /// covers all of it.
    pub fn end_of_use_us(&self, clock_seq: u8) -> i64 {
        self.end_of_use_in(&DIRECTORY.share(), clock_seq)
    }

    /// What there is of values of the clock sequence, together with what is stored.
    pub fn seen_values(&self, stored: ValueHorizon, uses: ValueUses) -> SeenValues {
        // Found out together with the floor.
        let begun = self.board.keeper.floor_us().map(|_| self.board.values.begun());
        let value = begun.map_or(0, |begun| begun.value);
        let end_of_use_us = if value > 0 { self.end_of_use_us(value) } else { 0 };
        SeenValues { stored, uses, past: self.board.past.values(), begun, end_of_use_us }
    }

    fn end_of_use_in(&self, directory: &Directory, clock_seq: u8) -> i64 {
        let slots = directory.in_use(&self.places).filter(|(key, ..)| key.clock_seq() == clock_seq);
        let ends = slots.map(|(key, slot, record)| record.end_of_use_us(&key, slot.counter()));
        ends.fold(0, i64::max)
    }

    /// Lets slots be used up to the horizons, those in use and those to come. Only for such as are durable.
    pub fn publish(&self, horizon_us: Option<i64>, value_horizon: Option<ValueHorizon>) {
        let directory = DIRECTORY.share();
        self.publish_in(&directory, horizon_us, value_horizon);
    }

    fn publish_in(
        &self,
        directory: &Directory,
        horizon_us: Option<i64>,
        value_horizon: Option<ValueHorizon>,
    ) {
        if let Some(horizon_us) = horizon_us {
            self.board.past.set_published(horizon_us);
        }
        if let Some(value_horizon) = value_horizon {
            self.board.past.set_value_published(value_horizon);
        }
        self.let_slots_be_used(directory);
    }

    /// Notes which value of the clock sequence is in use, once the keeper has found that out.
    pub fn begin_value(&self, begun: Begun) {
        let _directory = DIRECTORY.exclusive();
        self.board.values.begin(begun);
    }

    /// Opens another value of the clock sequence. Only if its horizon is durable, and the end of the value in use as
    /// well; and if all that was made with the new one lies before its floor.
    ///
    /// A slot that has had the value before is raised to the floor: no attempt that was paused since then succeeds.
    pub fn open_value(&self, floor_us: i64, horizon: ValueHorizon) {
        let directory = DIRECTORY.exclusive();
        let value = horizon.value();
        for (key, slot, record) in directory.in_use(&self.places).filter(|(key, ..)| key.clock_seq() == value)
        {
            let (before, after) = slot.raise(|counter| counter.max(key.first_counter_from(floor_us)));
            record.note_set(&key, before, after);
        }
        self.board.values.begin(Begun { value, floor_us });
        self.publish_in(&directory, None, Some(horizon));
    }

    /// Whether there are slots for all layouts with another value of the clock sequence.
    pub fn has_room_for_value(&self) -> bool {
        let directory = DIRECTORY.share();
        directory.places.iter().filter(|place| **place == Place::Free).count() >= MAX_LAYOUTS
    }

    /// Takes over the range of a lease. Only while the gate is closed, or if it is open for the same lease.
    pub fn set_lease(&self, lease: &Lease) {
        let directory = DIRECTORY.share();
        self.board.keeper.set_lease(lease);
        self.let_slots_be_used(&directory);
    }

    fn let_slots_be_used(&self, directory: &Directory) {
        for (key, slot, _) in directory.in_use(&self.places) {
            slot.set_horizon(self.first_unusable_tick(&key));
        }
    }

    fn first_unusable_tick(&self, key: &SlotKey) -> u64 {
        match self.published_us(key.clock_seq()) {
            // A layout whose epoch lies before 1970 has ticks before instant 0.
            0 => 0,
            published_us => key.first_tick_from(published_us.min(self.board.keeper.until_us())),
        }
    }

    /// The horizon that was published last for slots with a value of the clock sequence; 0 if none was.
    pub fn published_us(&self, clock_seq: u8) -> i64 {
        match clock_seq {
            0 => self.board.past.published_us(),
            _ => self.board.past.values().published.until_us_of(clock_seq),
        }
    }

    /// Closes the gate and raises every slot to what `floor` makes of its counter. When this returns, no
    /// attempt that began before will succeed. Slots to come begin at `floor_us` at the earliest, those with a value of
    /// the clock sequence at `value_floor_us`.
    pub fn fence(&self, floor_us: i64, value_floor_us: i64, floor: impl Fn(&SlotKey, u64) -> u64) {
        self.fence_in(&DIRECTORY.exclusive(), floor_us, value_floor_us, floor);
    }

    fn fence_in(
        &self,
        directory: &Directory,
        floor_us: i64,
        value_floor_us: i64,
        floor: impl Fn(&SlotKey, u64) -> u64,
    ) {
        self.board.keeper.floor_us.fetch_max(floor_us, Ordering::AcqRel);
        let begun = self.board.values.begun();
        self.board.values.begin(Begun { floor_us: begun.floor_us.max(value_floor_us), ..begun });
        let raised = self.gate.fence(directory.in_use(&self.places).map(|(key, slot, _)| {
            let floor = &floor;
            (slot, move |counter| floor(&key, counter))
        }));
        for ((key, _, record), (before, after)) in directory.in_use(&self.places).zip(raised) {
            record.note_set(&key, before, after);
        }
    }

    /// Fences, and lets nothing more be used than what was handed out. Returns the end of that, and of what
    /// was skipped because it may have been used earlier; the same for the value of the clock sequence.
    pub fn seal(&self) -> (i64, ValueHorizon) {
        let directory = DIRECTORY.exclusive();
        self.fence_in(&directory, 0, 0, |_, _| 0);
        let end_us = |clock_seq| self.end_of_use_in(&directory, clock_seq).max(self.floor_us(clock_seq));
        let value = self.board.values.value();
        let ends = (end_us(0), ValueHorizon::new(value, end_us(value)));
        self.publish_in(&directory, Some(ends.0), Some(ends.1));
        ends
    }

    /// Whether there are slots for the layouts in use when everything begins anew.
    pub fn has_room_to_begin_anew(&self) -> bool {
        let directory = DIRECTORY.share();
        // A layout may have left several places behind as the clock was set back. It needs one.
        let current = self.board.values.value();
        let is_in_use = |place: &&Place| place.in_use().is_some() && !place.is_left(current);
        let is_free = |place: &&Place| **place == Place::Free;
        let places = || directory.places.iter();
        places().filter(is_free).count() >= places().filter(is_in_use).count()
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
        self.board.values.begin(Begun::default());
        self.board.past.begin_anew(horizon_us);
    }
}
