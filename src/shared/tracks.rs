//! Operations on all slots of a track. A track ([`Track`]) is the state of one value of the clock sequence.
//! The operations publish a horizon, fence the slots, switch to another value, or retire the slots.
//!
//! * The limit of every slot is the published horizon or the end of the lease, whichever is earlier. Under
//!   the shared lock, the keeper first writes the horizon and the lease to `server_status`, and then the
//!   limits to the slots. A newly assigned slot gets its limit from `server_status`, under the exclusive
//!   lock.
//! * Layouts with a clock sequence have a slot on track 0. After the clock is set back, they also have a slot
//!   on track 1. When track 1 switches to another value, the word of the slot is replaced by a word with the
//!   new value. Attempts with the old value then fail, and their sessions look up the slot again.

use snowflake_id_core::track::{Begun, Horizon, TRACKS, Track};
use snowflake_id_core::{Lease, Slot, SlotKey};

use super::memory::{DIRECTORY, State};
use super::samples;
use super::slot_table::{Directory, MAX_LAYOUTS, Record, SlotEntry};
use crate::pg::snapshot;

impl State {
    /// Returns the state of the tracks, including the given stored horizons.
    pub fn tracks(&self, stored: [Horizon; TRACKS]) -> [Track; TRACKS] {
        let directory = DIRECTORY.share();
        let is_begun = self.server_status.is_begun();
        [0, 1].map(|track| Track {
            begun: is_begun.then(|| self.server_status.begun(track)),
            stored: stored[track],
            published: self.server_status.history.published(track),
            promised: self.server_status.history.promised(track),
            end_of_use_us: self.end_of_use_us(&directory, track),
        })
    }

    /// Returns the slots of a track that have the current value of the track.
    fn on_track<'a>(
        &'a self,
        directory: &'a Directory,
        track: usize,
    ) -> impl Iterator<Item = (SlotKey, &'a Slot, &'a Record)> {
        let value = self.server_status.begun(track).value;
        let in_use = directory.in_use(&self.slot_table);
        in_use.filter(move |(key, slot, _)| key.track() == track && key.parts(slot.word()).0 == value)
    }

    /// Returns the high-water mark of the IDs issued so far on a track, in microseconds of Unix time. A
    /// horizon at this instant is sufficient for all these IDs.
    fn end_of_use_us(&self, directory: &Directory, track: usize) -> i64 {
        let slots = self.on_track(directory, track);
        slots.map(|(key, slot, record)| record.end_of_use_us(&key, slot.word())).fold(0, i64::max)
    }

    /// Publishes the horizons of the tracks. The horizons apply to all slots, including slots that are
    /// assigned later. The caller must ensure that the horizons are durable.
    pub fn publish(&self, horizons: [Option<Horizon>; TRACKS]) {
        self.publish_in(&DIRECTORY.share(), horizons);
    }

    fn publish_in(&self, directory: &Directory, horizons: [Option<Horizon>; TRACKS]) {
        for (track, horizon) in horizons.into_iter().enumerate() {
            if let Some(horizon) = horizon {
                self.server_status.history.set_published(track, horizon);
            }
        }
        self.let_slots_be_used(directory);
    }

    /// Sets the range of the lease. The gate must be closed, or open for the same lease.
    pub fn set_lease(&self, lease: &Lease) {
        let directory = DIRECTORY.share();
        self.server_status.keeper.set_lease(lease);
        self.let_slots_be_used(&directory);
    }

    fn let_slots_be_used(&self, directory: &Directory) {
        for track in 0..TRACKS {
            for (key, slot, _) in self.on_track(directory, track) {
                slot.set_horizon(self.first_unusable_tick(&key));
            }
        }
    }

    /// Returns the first tick that slots with this key may not use.
    pub(super) fn first_unusable_tick(&self, key: &SlotKey) -> u64 {
        match self.published_us(key.track()) {
            // Instant 0 would permit ticks of a layout whose epoch is before 1970.
            0 => 0,
            published_us => key.first_tick_from(published_us.min(self.server_status.keeper.until_us())),
        }
    }

    /// Returns the last published horizon of a track, in microseconds of Unix time, or 0 if no horizon was
    /// published.
    pub fn published_us(&self, track: usize) -> i64 {
        self.server_status.history.published(track).until_us_of(self.server_status.begun(track).value)
    }

    /// Sets the value and the floor of each track. The keeper calls this function after it has determined the
    /// values and the floors.
    pub fn begin(&self, begun: [Begun; TRACKS]) {
        let _directory = DIRECTORY.exclusive();
        self.note_first_transaction(snapshot::next());
        // Track 0 is set last, because
        // [`ServerStatus::is_begun`](super::server_status::ServerStatus::is_begun) checks track 0.
        self.server_status.begin(1, begun[1]);
        self.server_status.begin(0, begun[0]);
    }

    /// Switches track 1 to another value of the clock sequence. The horizon of the new value and the
    /// high-water mark of the old value must already be durable. All earlier IDs with the new value must be
    /// before `floor_us`.
    ///
    /// If a slot already has the new value, its counter is raised to the floor. An attempt that was paused
    /// during an earlier use of the value then fails.
    pub fn open_value(&self, floor_us: i64, horizon: Horizon) {
        let directory = DIRECTORY.exclusive();
        let value = horizon.value();
        // The value is set before the words are changed, so that a call that finds a changed word can look up
        // its new slot.
        self.server_status.begin(1, Begun { value, floor_us });
        for (key, slot, record) in directory.in_use(&self.slot_table).filter(|(key, ..)| key.track() == 1) {
            if !key.has_room_for(value) {
                slot.set_horizon(0); // If the new value does not fit, the layouts use value 0 on track 0.
                continue;
            }
            let first = key.word(value, key.first_counter_from(floor_us));
            if key.parts(slot.word()).0 == value {
                let (before, after) = slot.raise(|word| word.max(first));
                record.note_raised(&key, before, after);
            } else {
                slot.change_value(first);
                record.note_new(first);
            }
        }
        self.publish_in(&directory, [None, Some(horizon)]);
    }

    /// Returns whether enough slots are free to switch all layouts to another value of the clock sequence.
    pub fn has_room_for_value(&self) -> bool {
        self.server_status.value() > 0
            || DIRECTORY.share().entries.iter().filter(|entry| **entry == SlotEntry::Free).count()
                >= MAX_LAYOUTS
    }

    /// Closes the gate, and raises every slot to the floor of its track. If the identity changes
    /// (`is_another`), every slot is raised to at least its next tick, so that IDs of the new identity sort
    /// after IDs of the old identity. Attempts that started before this call cannot succeed after it returns.
    /// Slots that are assigned later start at or above the floors.
    pub fn fence(&self, floors_us: [i64; TRACKS], is_another: bool) {
        self.fence_in(&DIRECTORY.exclusive(), floors_us, is_another);
    }

    /// Closes the gate. Attempts that started before this call cannot succeed after it returns.
    pub fn close_gate(&self) {
        self.fence([0; TRACKS], false);
    }

    fn fence_in(&self, directory: &Directory, floors_us: [i64; TRACKS], is_another: bool) {
        for (track, floor_us) in floors_us.into_iter().enumerate() {
            let begun = self.server_status.begun(track);
            if track == 0 || begun != Begun::NONE {
                self.server_status.begin(track, Begun { floor_us: begun.floor_us.max(floor_us), ..begun });
            }
        }
        let slots = || directory.in_use(&self.slot_table);
        let raised =
            self.gate.fence(slots().map(|(key, slot, _)| {
                (slot, move |word| key.fenced(word, floors_us[key.track()], is_another))
            }));
        for ((key, _, record), (before, after)) in slots().zip(raised) {
            record.note_raised(&key, before, after);
            if is_another {
                record.note_identity_from(key.parts(after).1);
            }
        }
    }

    /// Runs a fence, and lowers the published horizons so that no more IDs can be issued. For each track,
    /// returns the high-water mark of the issued IDs or the floor, whichever is higher. The floor counts,
    /// because IDs below the floor may have been issued earlier.
    pub fn shutdown_horizons(&self) -> [Horizon; TRACKS] {
        let directory = DIRECTORY.exclusive();
        self.fence_in(&directory, [0; TRACKS], false);
        let ends = [0, 1].map(|track| match self.server_status.begun(track) {
            Begun::NONE => Horizon::NONE,
            begun => Horizon::new(begun.value, self.end_of_use_us(&directory, track).max(begun.floor_us)),
        });
        self.publish_in(&directory, ends.map(Some));
        ends
    }

    /// Returns whether a reset leaves enough free slots for the layouts in use.
    pub fn has_room_for_reset(&self) -> bool {
        let directory = DIRECTORY.share();
        // A layout with two slots will need only one slot after a reset.
        let current = self.server_status.value();
        let is_in_use = |entry: &&SlotEntry| entry.in_use().is_some() && !entry.is_left(current);
        let is_free = |entry: &&SlotEntry| **entry == SlotEntry::Free;
        let entries = || directory.entries.iter();
        entries().filter(is_free).count() >= entries().filter(is_in_use).count()
    }

    /// Retires all slots. Layouts then get new slots that start at `floor_us`. The caller must first run a
    /// fence and call [`HistoryWords::reset`](super::history::HistoryWords::reset). The high-water marks of
    /// all used identities must be durable, so that these identities cannot continue below their marks.
    ///
    /// Retired slots are never reused. In a reused slot, an attempt that was paused before the fence could
    /// find the same word again and succeed.
    pub fn reset(&self, floor_us: i64) {
        let mut directory = DIRECTORY.exclusive();
        for (_, slot, _) in directory.in_use(&self.slot_table) {
            slot.set_horizon(0);
        }
        for entry in directory.entries.iter_mut().filter(|entry| **entry != SlotEntry::Free) {
            *entry = SlotEntry::Retired;
        }
        self.server_status.begin(0, Begun { value: 0, floor_us });
        self.server_status.begin(1, Begun::NONE);
        samples::clear();
    }
}
