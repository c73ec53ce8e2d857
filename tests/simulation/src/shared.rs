//! The shared memory of a server: `src/shared/` of the extension (`tracks.rs`, `slots.rs`, `slot_table.rs`,
//! `history.rs`, `lease.rs`, `keeper_words.rs`), without locks and atomics, because each step is atomic here. Gate and
//! slots are those of the product.

use snowflake_id_core::clock_sequence::Widths;
use snowflake_id_core::clocks::ClockOffset;
use snowflake_id_core::track::{Begun, Horizon, TRACKS, Track};
use snowflake_id_core::used::History;
use snowflake_id_core::{Gate, Identity, Layout, Lease, Segment, Slot, SlotKey};

use crate::disk::SEGMENTS;

const MAX_LAYOUTS: usize = 16;
const MAX_SLOTS: usize = 256;

/// The state that survives a backend crash.
#[derive(Clone, Copy, Default)]
pub struct HistoryWords {
    pub published: [Horizon; TRACKS],
    pub promised: [Horizon; TRACKS],
    pub highest_us: i64,
    pub last_identity: Option<Identity>,
    pub stored_at: Option<u32>,
    pub clock_offset: Option<ClockOffset>,
}

impl HistoryWords {
    pub fn snapshot(&self) -> History {
        History { highest_us: self.highest_us, last_identity: self.last_identity }
    }

    pub fn promise(&mut self, track: usize, horizon: Horizon) {
        self.note_high(horizon.until_us());
        if self.promised[track].until_us_of(horizon.value()) <= horizon.until_us() {
            self.promised[track] = horizon;
        }
    }

    pub fn note_high(&mut self, instant_us: i64) {
        self.highest_us = self.highest_us.max(instant_us);
    }
}

/// The lease status that the registry worker publishes.
#[derive(Clone, Copy, Default)]
pub struct LeaseStatus {
    pub number: u64,
    pub lease: Option<Lease>,
    pub is_inherited: bool,
    pub confirmed_clock: Option<ClockOffset>,
}

impl LeaseStatus {
    /// Publishes a lease. Unless it is the previous lease or its renewal, it gets a new number.
    pub fn tell(&mut self, lease: Option<Lease>) {
        let is_continued = match (self.lease, lease) {
            (Some(before), Some(after)) => before.is_renewed_by(&after),
            (before, after) => before == after,
        };
        self.lease = lease;
        if !is_continued {
            self.number += 1;
        }
    }
}

pub struct SlotEntry {
    /// `None` if the slot was retired.
    pub layout: Option<Layout>,
    pub track: usize,
    pub slot: Slot,
    set_to: u64,
    end_of_use_us: i64,
}

impl SlotEntry {
    fn key(&self) -> Option<SlotKey> {
        Some(SlotKey::on_track(&self.layout?, self.track))
    }

    fn note_new(&mut self, word: u64) {
        (self.end_of_use_us, self.set_to) = (0, word);
    }

    fn note_raised(&mut self, key: &SlotKey, before: u64, after: u64) {
        self.end_of_use_us = self.end_of_use_us(key, before);
        self.set_to = after;
    }

    fn end_of_use_us(&self, key: &SlotKey, word: u64) -> i64 {
        if word == self.set_to { self.end_of_use_us } else { key.end_of_use_us(key.parts(word).1) }
    }

    fn is_left(&self, current: u8) -> bool {
        self.layout.is_some_and(|layout| SlotKey::at(&layout, current).track() != self.track)
    }
}

/// A request of an administrator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Request {
    AcceptClock,
    RaiseFloor(i64),
    Reset(Option<Identity>),
}

#[derive(Default)]
pub struct Shared {
    pub gate: Gate,
    pub entries: Vec<SlotEntry>,
    begun: [Begun; TRACKS],
    pub history: HistoryWords,
    pub lease_status: LeaseStatus,
    lease_from_us: i64,
    lease_until_us: i64,
    pub another_needed_after: u64,
    pub asked: Widths,
    pub is_wanted: bool,
    pub request: Option<Request>,
    pub segments: [Segment; SEGMENTS],
    /// How far a broken keeper exceeds the end of a lease.
    pub overrun_us: i64,
}

impl Shared {
    pub fn new(history: HistoryWords, overrun_us: i64) -> Shared {
        Shared { history, overrun_us, ..Shared::default() }
    }

    pub fn is_begun(&self) -> bool {
        self.begun[0].floor_us != 0
    }

    pub fn begun(&self, track: usize) -> Begun {
        self.begun[track]
    }

    pub fn value(&self) -> u8 {
        self.begun[1].value
    }

    pub fn lease_of(&self, identity: Identity) -> Lease {
        Lease { identity, from_us: self.lease_from_us, until_us: self.until_us() }
    }

    fn until_us(&self) -> i64 {
        if self.lease_until_us == 0 { i64::MAX } else { self.lease_until_us }
    }

    pub fn open_for(&self) -> Option<Lease> {
        self.gate.identity().map(|identity| self.lease_of(identity))
    }

    pub fn tracks(&self, stored: [Horizon; TRACKS]) -> [Track; TRACKS] {
        [0, 1].map(|track| Track {
            begun: self.is_begun().then(|| self.begun[track]),
            stored: stored[track],
            published: self.history.published[track],
            promised: self.history.promised[track],
            end_of_use_us: self.end_of_use_us(track),
        })
    }

    fn on_track(&self, track: usize) -> impl Iterator<Item = (SlotKey, &SlotEntry)> {
        let value = self.begun[track].value;
        let in_use = self.entries.iter().filter_map(|entry| Some((entry.key()?, entry)));
        in_use.filter(move |(key, entry)| key.track() == track && key.parts(entry.slot.word()).0 == value)
    }

    fn end_of_use_us(&self, track: usize) -> i64 {
        let slots = self.on_track(track);
        slots.map(|(key, entry)| entry.end_of_use_us(&key, entry.slot.word())).fold(0, i64::max)
    }

    pub fn publish(&mut self, horizons: [Option<Horizon>; TRACKS]) {
        for (track, horizon) in horizons.into_iter().enumerate() {
            if let Some(horizon) = horizon {
                self.history.published[track] = horizon;
            }
        }
        self.let_slots_be_used();
    }

    pub fn set_lease(&mut self, lease: &Lease) {
        (self.lease_from_us, self.lease_until_us) = (lease.from_us, lease.until_us);
        self.let_slots_be_used();
    }

    fn let_slots_be_used(&self) {
        for track in 0..TRACKS {
            for (key, entry) in self.on_track(track) {
                entry.slot.set_horizon(self.first_unusable_tick(&key));
            }
        }
    }

    fn first_unusable_tick(&self, key: &SlotKey) -> u64 {
        match self.published_us(key.track()) {
            0 => 0,
            published_us => {
                key.first_tick_from(published_us.min(self.until_us().saturating_add(self.overrun_us)))
            }
        }
    }

    fn published_us(&self, track: usize) -> i64 {
        self.history.published[track].until_us_of(self.begun[track].value)
    }

    pub fn begin(&mut self, begun: [Begun; TRACKS]) {
        self.begun = begun;
    }

    pub fn open_value(&mut self, floor_us: i64, horizon: Horizon) {
        let value = horizon.value();
        for entry in &mut self.entries {
            let Some(key) = entry.key().filter(|key| key.track() == 1) else { continue };
            if !key.has_room_for(value) {
                entry.slot.set_horizon(0);
                continue;
            }
            let first = key.word(value, key.first_counter_from(floor_us));
            if key.parts(entry.slot.word()).0 == value {
                let (before, after) = entry.slot.raise(|word| word.max(first));
                entry.note_raised(&key, before, after);
            } else {
                entry.slot.change_value(first);
                entry.note_new(first);
            }
        }
        self.begun[1] = Begun { value, floor_us };
        self.publish([None, Some(horizon)]);
    }

    pub fn has_room_for_value(&self) -> bool {
        self.value() > 0 || MAX_SLOTS - self.entries.len() >= MAX_LAYOUTS
    }

    pub fn fence(&mut self, floors_us: [i64; TRACKS], is_another: bool) {
        for (track, floor_us) in floors_us.into_iter().enumerate() {
            if track == 0 || self.begun[track] != Begun::NONE {
                self.begun[track].floor_us = self.begun[track].floor_us.max(floor_us);
            }
        }
        let keys: Vec<_> = self.entries.iter().map(SlotEntry::key).collect();
        let slots = self.entries.iter().zip(&keys).filter_map(|(entry, key)| Some((entry, (*key)?)));
        let raised = self.gate.fence(slots.map(|(entry, key)| {
            (&entry.slot, move |word| key.fenced(word, floors_us[key.track()], is_another))
        }));
        let slots = self.entries.iter_mut().zip(&keys).filter_map(|(entry, key)| Some((entry, (*key)?)));
        for ((entry, key), (before, after)) in slots.zip(raised) {
            entry.note_raised(&key, before, after);
        }
    }

    pub fn close_gate(&mut self) {
        self.fence([0; TRACKS], false);
    }

    /// Fences, unless that is omitted, and limits the horizons to the IDs that were issued.
    pub fn shutdown_horizons(&mut self, is_fenced: bool) -> [Horizon; TRACKS] {
        if is_fenced {
            self.close_gate();
        }
        let ends = [0, 1].map(|track| match self.begun[track] {
            Begun::NONE => Horizon::NONE,
            begun => Horizon::new(begun.value, self.end_of_use_us(track).max(begun.floor_us)),
        });
        if is_fenced {
            self.publish(ends.map(Some));
        }
        ends
    }

    pub fn has_room_for_reset(&self) -> bool {
        let current = self.value();
        let in_use = self.entries.iter().filter(|entry| entry.layout.is_some() && !entry.is_left(current));
        MAX_SLOTS - self.entries.len() >= in_use.count()
    }

    /// Called before the low horizon is written.
    pub fn promise_reset(&mut self, horizon: Horizon) {
        self.history.last_identity = None;
        self.history.promised = [horizon, Horizon::NONE];
        self.history.published = [horizon, Horizon::NONE];
    }

    pub fn reset(&mut self, floor_us: i64) {
        for entry in &mut self.entries {
            if entry.layout.take().is_some() {
                entry.slot.set_horizon(0);
            }
        }
        self.begun = [Begun { value: 0, floor_us }, Begun::NONE];
    }

    pub fn key_of(&self, layout: &Layout) -> SlotKey {
        SlotKey::at(layout, self.value())
    }

    pub fn first_counter(&self, key: &SlotKey) -> u64 {
        key.first_counter_from(self.begun[key.track()].floor_us)
    }

    pub fn find(&self, layout: &Layout) -> Option<usize> {
        let key = self.key_of(layout);
        self.entries.iter().position(|entry| entry.key() == Some(key))
    }

    /// The value of the clock sequence in a slot.
    pub fn clock_seq(&self, at: usize) -> u8 {
        let entry = &self.entries[at];
        entry.key().map_or(0, |key| key.parts(entry.slot.word()).0)
    }

    /// Assigns a slot to a layout that has none. Returns `None` if there is no room.
    pub fn assign(&mut self, layout: &Layout) -> Option<usize> {
        let current = self.value();
        let in_use = self.entries.iter().filter(|entry| entry.layout.is_some() && !entry.is_left(current));
        if self.entries.len() == MAX_SLOTS || in_use.count() >= MAX_LAYOUTS {
            return None;
        }
        let key = self.key_of(layout);
        let word = key.word(layout.clock_seq_at(current), self.first_counter(&key));
        let slot = Slot::new(word, self.first_unusable_tick(&key));
        let mut entry =
            SlotEntry { layout: Some(*layout), track: key.track(), slot, set_to: 0, end_of_use_us: 0 };
        entry.note_new(word);
        self.entries.push(entry);
        Some(self.entries.len() - 1)
    }

    /// Names a slot after a layout if that layout keeps the slot for longer than the one after which it is named.
    pub fn name_after(&mut self, layout: &Layout) {
        let key = self.key_of(layout);
        for entry in &mut self.entries {
            let Some(named) = entry.layout.filter(|_| entry.key() == Some(key)) else { continue };
            let (named, longer) = (named.max_clock_seq(), layout.max_clock_seq());
            if if entry.track == 0 { named > longer } else { named < longer } {
                entry.layout = Some(*layout);
            }
        }
    }
}
