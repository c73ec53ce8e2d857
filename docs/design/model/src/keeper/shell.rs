//! The shell's changes to shared memory and to the stored data, as in src/shared/{tracks,history,slot_table}.rs and
//! src/keeper/store.rs.

use snowflake_id_core::Slot as ProductSlot;
use snowflake_id_core::track::Horizon;
use snowflake_id_core::used::{Scope, Use, Uses as ProductUses};

use crate::keeper::border::identity;
use crate::keeper::mutation::Mutation;
use crate::keeper::protocol::Protocol;
use crate::keeper::state::*;

impl Shared {
    /// The value of the clock sequence in use; 0 if there is no other value.
    pub fn value(&self) -> u8 {
        self.begun.unwrap_or_default()[1].value
    }
}

impl History {
    /// `HistoryWords::promise`.
    pub fn promise(&mut self, track: usize, horizon: Mark) {
        self.highest = self.highest.max(horizon.at);
        let promised = &mut self.promised[track];
        if promised.value != horizon.value || promised.at <= horizon.at {
            *promised = horizon;
        }
    }
}

impl Protocol {
    /// Reads the stored data, and notes how far IDs may have advanced. `Store::read`.
    pub fn read(&self, disk: &Disk, history: &mut History) -> (ProductUses, [Horizon; TRACKS]) {
        let Facts { uses, horizons } = disk.readable();
        let (uses, horizons) = (self.uses(&uses), horizons.map(|horizon| self.horizon(horizon)));
        let highest_us = horizons.iter().map(Horizon::until_us).fold(uses.latest_us(), i64::max);
        history.highest = history.highest.max(self.instant(highest_us));
        (uses, horizons)
    }

    /// Writes records, then horizons. `Store::write`.
    pub fn write(&self, disk: &mut Disk, records: &[Use], horizons: [Option<Mark>; TRACKS]) {
        disk.is_in_hand = true;
        let mut uses = self.uses(&disk.readable().uses);
        let records = uses.add(records.iter().copied());
        let records = records.iter().map(|record| self.write_of(record));
        let horizons = (0u8..).zip(horizons);
        let horizons =
            horizons.filter_map(|(track, horizon)| Some(Write::Horizon { track, horizon: horizon? }));
        let is_reversed = self.is(Mutation::RecordsAfterHorizon);
        let (first, then): (Vec<_>, Vec<_>) =
            records.chain(horizons).partition(|write| matches!(write, Write::Horizon { .. }) == is_reversed);
        first.into_iter().chain(then).for_each(|write| disk.write(write));
    }

    /// `State::on_track`: the slots of a track that have its value.
    pub fn on_track(&self, shared: &Shared, track: usize) -> impl Iterator<Item = usize> {
        let (slots, value) = (shared.slots, shared.begun.unwrap_or_default()[track].value);
        let is_it = move |at: usize| {
            let is_on = match self.is(Mutation::KeyWithoutValue) {
                false => self.slot_shape(at).key.track() == track,
                true => track == usize::from(shared.value() > 0),
            };
            is_on && (slots[at].is_some_and(|slot| slot.word.value == value) || self.has_raw_words())
        };
        (0..SLOTS).filter(move |&at| slots[at].is_some() && is_it(at))
    }

    /// Whether the words of slots contain no value.
    pub fn has_raw_words(&self) -> bool {
        self.is(Mutation::KeyWithoutValue) || self.is(Mutation::WordWithoutValue)
    }

    /// `Record::end_of_use_us`.
    fn end_of_slot(&self, at: usize, slot: &Slot) -> Instant {
        let counter = slot.word.counter.into();
        slot.end_before.unwrap_or_else(|| self.instant(self.slot_shape(at).key.end_of_use_us(counter)))
    }

    /// The high-water mark of all slots of a track.
    pub fn end_of_use(&self, shared: &Shared, track: usize) -> Instant {
        let slots = self.on_track(shared, track);
        let ends = slots.filter_map(|at| Some(self.end_of_slot(at, shared.slots[at].as_ref()?)));
        ends.max().unwrap_or_default()
    }

    /// `State::published_us`, and the limit of a slot of the track under it.
    fn limit_of(&self, shared: &Shared, at: usize, track: usize) -> u8 {
        let published = shared.history.published[track];
        let published_us = match published.value == shared.begun.unwrap_or_default()[track].value {
            true => self.us(published.at),
            false => 0,
        };
        self.limit(self.slot_shape(at), published_us, shared.range)
    }

    /// The track of a slot.
    fn track(&self, shared: &Shared, at: usize) -> usize {
        match self.is(Mutation::KeyWithoutValue) {
            false => self.slot_shape(at).key.track(),
            true => usize::from(shared.value() > 0),
        }
    }

    pub fn publish(&self, shared: &mut Shared, horizons: [Option<Mark>; TRACKS]) {
        for (track, horizon) in horizons.into_iter().enumerate() {
            shared.history.published[track] = horizon.unwrap_or(shared.history.published[track]);
        }
        self.let_slots_be_used(shared);
    }

    pub fn let_slots_be_used(&self, shared: &mut Shared) {
        for track in 0..TRACKS {
            for at in self.on_track(shared, track).collect::<Vec<_>>() {
                let limit = self.limit_of(shared, at, track);
                if let Some(slot) = &mut shared.slots[at] {
                    slot.limit = limit;
                }
            }
        }
    }

    /// Assigns a slot to the layouts that have it now. `find_or_assign` of src/shared/slots.rs. (The clock is read only
    /// if the protocol is broken.)
    pub fn allocate(&self, shared: &mut Shared, at: usize, clock: Instant) -> Option<()> {
        let (slot_shape, track) = (self.slot_shape(at), self.track(shared, at));
        let begun = shared.begun?[track];
        let floor = if self.is(Mutation::LateSlotAtClock) { clock } else { begun.at };
        let counter = slot_shape.key.first_counter_from(self.us(floor)) as u8;
        let value = if self.is(Mutation::KeyWithoutValue) { 0 } else { begun.value };
        let limit = self.limit_of(shared, at, track);
        let word = Word { value, counter };
        shared.slots[at] = Some(Slot { word, limit, end_before: Some(Instant(0)) });
        Some(())
    }

    /// Raises the counter of a slot by at least one, and at least to the result of the function. `Slot::raise`,
    /// `Record::note_raised`.
    pub fn raise(&self, at: usize, slot: &mut Slot, floor: impl Fn(u64) -> u64) {
        let slot_shape = self.slot_shape(at);
        let (_, after) = ProductSlot::new(self.word(slot_shape, slot.word), 0).raise(floor);
        slot.end_before = Some(match self.is(Mutation::UnusedTooLow) {
            true => Instant(0),
            false => self.end_of_slot(at, slot),
        });
        slot.word = self.word_of(slot_shape, after, slot.word.value);
    }

    /// The part of a fence that applies to one slot.
    pub fn raise_for(&self, shared: &mut Shared, at: usize, then: Then) {
        let Some(mut slot) = shared.slots[at] else { return };
        let (key, track) = (self.slot_shape(at).key, self.track(shared, at));
        let (floors, is_another) = match then {
            Then::Open { from, is_another, .. } => (from, is_another),
            Then::Raise { floor, .. } => ([floor; TRACKS], false),
            _ => Default::default(),
        };
        self.raise(at, &mut slot, |word| key.fenced(word, self.us(floors[track]), is_another));
        shared.slots[at] = Some(slot);
    }

    /// The second track is about to move, so its slots lose their horizon. The first part of `Slot::change_value`.
    pub fn hide(&self, shared: &mut Shared, value: u8) {
        for (at, slot) in self.of_second_track(shared) {
            let is_moving = slot.word.value != value && !self.is(Mutation::ValueKeepsLimit);
            if is_moving || !self.slot_shape(at).key.has_room_for(value) {
                shared.slots[at] = Some(Slot { limit: 0, ..slot });
            }
        }
    }

    /// The words of the slots move to the value: the second part. Slots that have it already are raised.
    pub fn move_to(&self, shared: &mut Shared, opening: &Opening) {
        let value = opening.horizon.value;
        for (at, mut slot) in self.of_second_track(shared) {
            let key = self.slot_shape(at).key;
            let counter = key.first_counter_from(self.us(opening.floor));
            if !key.has_room_for(value) {
            } else if slot.word.value == value {
                let first = self.word(self.slot_shape(at), Word { value, counter: counter as u8 });
                self.raise(at, &mut slot, |word| word.max(first));
            } else {
                slot.word = Word { value, counter: counter as u8 };
                slot.end_before = Some(Instant(0));
            }
            shared.slots[at] = Some(slot);
        }
    }

    pub fn of_second_track(&self, shared: &Shared) -> Vec<(usize, Slot)> {
        let slots = shared.slots.iter().enumerate().filter_map(|(at, slot)| Some((at, (*slot)?)));
        slots.filter(|(at, _)| self.slot_shape(*at).key.track() == 1).collect()
    }

    /// `HistoryWords::reset`.
    pub fn promise_reset(&self, history: &mut History, horizon: Mark) {
        history.published = [horizon, Mark::NONE];
        history.promised = [horizon, Mark::NONE];
        if !self.is(Mutation::ResetKeepsLast) {
            // A higher horizon was promised, so a record of its use up to this horizon would be too low.
            history.last_identity = None;
        }
        if self.is(Mutation::ResetLowersHighest) {
            history.highest = horizon.at;
        }
    }

    /// `State::reset`. A caller in the middle of an attempt still has the old slot.
    pub fn reset(&self, shared: &mut Shared, callers: &mut [Caller; 2], floor: Instant) {
        for caller in callers {
            if let (Some((at, _)), None) = (caller.at, caller.retired)
                && !self.is(Mutation::ResetSameSlots)
            {
                caller.retired = shared.slots[self.slot_of(at)].map(|slot| slot.word);
            }
        }
        shared.begun = Some([Mark { value: 0, at: floor }, Mark::NONE]);
        for at in 0..SLOTS {
            if shared.slots[at].take().is_some() && self.is(Mutation::ResetSameSlots) {
                self.allocate(shared, at, Instant(0));
            }
        }
    }

    /// The data that the script of CREATE EXTENSION stores, in a new location. `store_history`.
    pub fn create(&self, shared: &Shared) -> Disk {
        let mut disk = Disk::default();
        let history = shared.history;
        if history.highest > Instant(0) {
            let tracks = self.tracks(shared, [Horizon::NONE; TRACKS]);
            let (records, horizons) = self.history(&history).stored_anew(&tracks);
            let records = self.after_loss(records, &history);
            self.write(&mut disk, &records, horizons.map(|horizon| Some(self.mark(horizon))));
        }
        disk.flush();
        disk.is_in_hand = false;
        disk
    }

    /// The records after a loss, unless that is broken.
    pub fn after_loss(&self, mut records: Vec<Use>, history: &History) -> Vec<Use> {
        let last = history.last_identity.map(identity);
        if self.is(Mutation::ScriptOwnOnly) {
            records.retain(|record| record.identity == last && last.is_some());
        }
        if self.is(Mutation::LossForgets) {
            records.retain(|record| record.scope == Scope::ZERO);
        }
        records
    }
}
