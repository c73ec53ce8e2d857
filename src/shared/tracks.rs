//! What is done to all slots of a track: let be used up to a horizon, fenced, moved to another value of the clock sequence,
//! given up.
//!
//! * A published horizon reaches every slot, but never beyond the end of the lease: the keeper stores both on
//!   the server_status and then the earlier one in the slots, all under the shared lock, and a slot that is given to a
//!   layout takes it from the server_status under the exclusive one.
//! * Layouts with a clock sequence have a slot on track 0, and another one as soon as the clock is set back. When that moves to
//!   another value, the word in it says so: attempts with the former value fail, and sessions look for the new one.

use snowflake_id_core::track::{Begun, Horizon, TRACKS, Track};
use snowflake_id_core::{Lease, Slot, SlotKey};

use super::memory::{DIRECTORY, State};
use super::slot_table::{Directory, MAX_LAYOUTS, Record, SlotEntry};

impl State {
    /// What there is of the tracks, together with what is stored.
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

    /// The slots of a track, with its value.
    fn on_track<'a>(
        &'a self,
        directory: &'a Directory,
        track: usize,
    ) -> impl Iterator<Item = (SlotKey, &'a Slot, &'a Record)> {
        let value = self.server_status.begun(track).value;
        let in_use = directory.in_use(&self.slot_table);
        in_use.filter(move |(key, slot, _)| key.track() == track && key.parts(slot.word()).0 == value)
    }

    /// The end of what was handed out so far, over all slots of a track: a horizon there covers all of it.
    fn end_of_use_us(&self, directory: &Directory, track: usize) -> i64 {
        let slots = self.on_track(directory, track);
        slots.map(|(key, slot, record)| record.end_of_use_us(&key, slot.word())).fold(0, i64::max)
    }

    /// Lets slots be used up to the horizons, those in use and those to come. Only for such as are durable.
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

    /// Takes over the range of a lease. Only while the gate is closed, or if it is open for the same lease.
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

    /// Where the times end that slots with a key may use.
    pub(super) fn first_unusable_tick(&self, key: &SlotKey) -> u64 {
        match self.published_us(key.track()) {
            // A layout whose epoch lies before 1970 has ticks before instant 0.
            0 => 0,
            published_us => key.first_tick_from(published_us.min(self.server_status.keeper.until_us())),
        }
    }

    /// The horizon of a track that was published last; 0 if none was.
    pub fn published_us(&self, track: usize) -> i64 {
        self.server_status.history.published(track).until_us_of(self.server_status.begun(track).value)
    }

    /// Notes the values of the tracks, and where their slots begin, once the keeper has found that out.
    pub fn begin(&self, begun: [Begun; TRACKS]) {
        let _directory = DIRECTORY.exclusive();
        // The first one says that it was done.
        self.server_status.begin(1, begun[1]);
        self.server_status.begin(0, begun[0]);
    }

    /// Moves the second track to another value of the clock sequence. Only if its horizon is durable, and the end of the
    /// value in use as well; and if all that was made with the new one lies before its floor.
    ///
    /// A slot that has the value already is raised to the floor: no attempt that was paused since then succeeds.
    pub fn open_value(&self, floor_us: i64, horizon: Horizon) {
        let directory = DIRECTORY.exclusive();
        let value = horizon.value();
        // First, so that a call which finds another word looks for its new slot.
        self.server_status.begin(1, Begun { value, floor_us });
        for (key, slot, record) in directory.in_use(&self.slot_table).filter(|(key, ..)| key.track() == 1) {
            if !key.has_room_for(value) {
                slot.set_horizon(0); // Its layouts have value 0, on track 0.
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

    /// Whether there are slots for all layouts with another value of the clock sequence.
    pub fn has_room_for_value(&self) -> bool {
        self.server_status.value() > 0
            || DIRECTORY.share().entries.iter().filter(|entry| **entry == SlotEntry::Free).count()
                >= MAX_LAYOUTS
    }

    /// Closes the gate, and raises every slot to the floor of its track; if `is_another`, to its next tick at least, so that
    /// another identity keeps the order. When this returns, no attempt that began before will succeed. Slots to come begin
    /// at the floors at the earliest.
    pub fn fence(&self, floors_us: [i64; TRACKS], is_another: bool) {
        self.fence_in(&DIRECTORY.exclusive(), floors_us, is_another);
    }

    /// Closes the gate. When this returns, no attempt that began before will succeed.
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
        let raised = self.gate.fence(slots().map(|(key, slot, _)| {
            let floor = move |word: u64| {
                let (value, counter) = key.parts(word);
                let next = if is_another { key.next_whole_tick(counter) } else { counter };
                key.word(value, next.max(key.first_counter_from(floors_us[key.track()])))
            };
            (slot, floor)
        }));
        for ((key, _, record), (before, after)) in slots().zip(raised) {
            record.note_raised(&key, before, after);
        }
    }

    /// Fences, and lets nothing more be used than what was handed out. Returns the end of that, and of what
    /// was skipped because it may have been used earlier, for each track.
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

    /// Whether there are slots for the layouts in use when everything begins anew.
    pub fn has_room_for_reset(&self) -> bool {
        let directory = DIRECTORY.share();
        // A layout may have two, and needs one.
        let current = self.server_status.value();
        let is_in_use = |entry: &&SlotEntry| entry.in_use().is_some() && !entry.is_left(current);
        let is_free = |entry: &&SlotEntry| **entry == SlotEntry::Free;
        let entries = || directory.entries.iter();
        entries().filter(is_free).count() >= entries().filter(is_in_use).count()
    }

    /// Forgets what was handed out: layouts get new slots, which begin at `floor_us`. Only after a fence, after
    /// [`HistoryWords::reset`](super::history::HistoryWords::reset), and if no identity that was used before goes on below
    /// what it was used for, durably.
    ///
    /// Slots are not used again. An attempt that has been paused since before the fence must not find in its
    /// slot, one day, the very word that it knows.
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
    }
}
