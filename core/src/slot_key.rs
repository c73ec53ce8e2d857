//! [`SlotKey`] determines which layouts share a slot, and converts between counters, ticks and instants.
//!
//! All instants are microseconds of Unix time.

use crate::field::{Field, MAX_TOTAL_BITS};
use crate::layout::Layout;
use crate::time_scale::TimeScale;

/// The properties of a layout that determine how a counter is converted to a number. Layouts with the same
/// key share a slot. For example, layouts with `worker:10` and with `datacenter:5 worker:5` generate the same
/// numbers. If each of these layouts had its own counter, every number would be issued twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotKey {
    scale: TimeScale,
    time_shift: u32,
    sequence_shift: u32,
    sequence_bits: u32,
    /// The position of the clock sequence in the word. On track 0 the position is `None`, so that layouts
    /// with a clock sequence and layouts without one share a slot.
    clock_seq_shift: Option<u32>,
}

impl SlotKey {
    /// Returns the key of a layout on track 0. All layouts are on track 0 until the clock is set back for the
    /// first time. The width of the time field is not part of the key, because it only determines when the
    /// layout ends.
    pub fn of(layout: &Layout) -> SlotKey {
        SlotKey::on_track(layout, 0)
    }

    /// Returns the key of a layout on the given track.
    pub fn on_track(layout: &Layout, track: usize) -> SlotKey {
        SlotKey {
            scale: layout.scale(),
            time_shift: layout.shift(Field::Time),
            sequence_shift: layout.shift(Field::Sequence),
            sequence_bits: layout.bits(Field::Sequence),
            clock_seq_shift: (track > 0).then_some(layout.shift(Field::ClockSeq)),
        }
    }

    /// Returns the key of a layout when `current` is the server's value of the clock sequence. The key is on
    /// track 0 if `current` is 0 or does not fit the clock sequence field, or if the layout has no such
    /// field.
    pub fn at(layout: &Layout, current: u8) -> SlotKey {
        SlotKey::on_track(layout, usize::from(layout.clock_seq_at(current) > 0))
    }

    /// Returns the track of the slot: 0 for value 0 of the clock sequence, 1 for all other values.
    pub fn track(&self) -> usize {
        usize::from(self.clock_seq_shift.is_some())
    }

    /// Returns the number of bits of a word that counters do not need. The number equals the total width of
    /// all fields other than time and sequence. (A counter past the end of every layout needs one more bit.
    /// The sign bit provides it.)
    fn spare_bits(&self) -> u32 {
        self.time_shift - self.sequence_bits
    }

    /// Returns whether a value of the clock sequence fits the word of the slot.
    pub fn has_room_for(&self, value: u8) -> bool {
        u64::from(value) >> self.spare_bits() == 0
    }

    /// Returns the word of a slot. The low bits contain the counter, and the bits above them contain the
    /// value of the clock sequence. The counter of each value only grows, so a slot never contains the same
    /// word twice. On track 0, the word is the counter.
    ///
    /// # Panics
    /// Panics if the value does not fit the word.
    pub fn word(&self, value: u8, counter: u64) -> u64 {
        assert!(self.has_room_for(value), "bug: clock_seq {value} does not fit a word");
        match value {
            0 => counter,
            value => u64::from(value) << (u64::BITS - self.spare_bits()) | counter,
        }
    }

    /// Returns the value and the counter in the word of a slot.
    pub fn parts(&self, word: u64) -> (u8, u64) {
        match self.clock_seq_shift {
            None => (0, word),
            Some(_) => {
                let shift = u64::BITS - self.spare_bits();
                ((word >> shift) as u8, word & ((1 << shift) - 1))
            }
        }
    }

    /// Returns the first tick that starts at or after an instant. For a floor, the result is the first tick
    /// that may be used. For a horizon, the result is the first tick that may not be used, because a tick may
    /// be used only if it starts before the horizon. For an instant before the epoch, the result is 0. The
    /// result never exceeds the number of ticks that a word can represent.
    pub fn first_tick_from(&self, unix_us: i64) -> u64 {
        self.scale.first_tick_from(unix_us).min(1 << (MAX_TOTAL_BITS - self.time_shift))
    }

    /// Returns the counter at which a tick starts.
    pub fn counter_at(&self, tick: u64) -> u64 {
        tick << self.sequence_bits
    }

    /// Returns the counter of the first tick that starts at or after an instant.
    pub fn first_counter_from(&self, unix_us: i64) -> u64 {
        self.counter_at(self.first_tick_from(unix_us))
    }

    /// Rounds a counter up to the start of a tick.
    pub fn next_whole_tick(&self, counter: u64) -> u64 {
        self.counter_at(counter.div_ceil(1 << self.sequence_bits))
    }

    /// Returns the lowest word to which a fence may raise a slot. The times of all later IDs are at or after
    /// `floor_us`. If the identity changes (`is_another`), no later ID is in the same tick as an earlier ID.
    pub fn fenced(&self, word: u64, floor_us: i64, is_another: bool) -> u64 {
        let (value, counter) = self.parts(word);
        let next = if is_another { self.next_whole_tick(counter) } else { counter };
        self.word(value, next.max(self.first_counter_from(floor_us)))
    }

    /// Returns the start of the tick that contains a counter, in microseconds of Unix time.
    pub fn tick_us(&self, counter: u64) -> i64 {
        // If the start does not fit in an `i64`, the tick is past the end of every layout.
        self.scale.checked_start_us(counter >> self.sequence_bits).unwrap_or(i64::MAX)
    }

    /// Returns the start of the tick that contains the value `counter - 1`.
    pub fn last_tick_us(&self, counter: u64) -> i64 {
        self.tick_us(counter.saturating_sub(1))
    }

    /// Returns the high-water mark for a counter: the lowest horizon that covers all values before the
    /// counter. If this instant is used as a floor, no ID is repeated.
    ///
    /// The result is the instant just after the *start* of the last tick. This horizon is sufficient, because
    /// a tick may be used if it starts before the horizon. The end of the tick would also be a correct
    /// result, but would make layouts with shorter ticks wait.
    pub fn end_of_use_us(&self, counter: u64) -> i64 {
        match counter {
            0 => self.scale.epoch_us,
            _ => self.last_tick_us(counter).saturating_add(1),
        }
    }
}
