//! [`SlotKey`]: which layouts share a slot, and the arithmetic between counters, ticks and instants.
//!
//! All instants are microseconds of Unix time.

use crate::field::{Field, MAX_TOTAL_BITS};
use crate::layout::Layout;
use crate::time_scale::TimeScale;

/// What decides which number a counter becomes. Layouts with the same key share a slot: `worker:10` and
/// `datacenter:5 worker:5` give the same numbers, so that two counters would give them twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotKey {
    scale: TimeScale,
    time_shift: u32,
    sequence_shift: u32,
    sequence_bits: u32,
    /// Where the value of the clock sequence stands. `None` on track 0, so that layouts without the field share a slot with
    /// those that have it.
    clock_seq_shift: Option<u32>,
}

impl SlotKey {
    /// The key of a layout as long as the clock was never set back. The width of the time field is not part of it: it only says when the layout ends.
    pub fn of(layout: &Layout) -> SlotKey {
        SlotKey::on_track(layout, 0)
    }

    /// The key of a layout on a track.
    pub fn on_track(layout: &Layout, track: usize) -> SlotKey {
        SlotKey {
            scale: layout.scale(),
            time_shift: layout.shift(Field::Time),
            sequence_shift: layout.shift(Field::Sequence),
            sequence_bits: layout.bits(Field::Sequence),
            clock_seq_shift: (track > 0).then_some(layout.shift(Field::ClockSeq)),
        }
    }

    /// The key of a layout while the server's value of the clock sequence is `current`: on track 0 if that is 0, or if the
    /// layout's field is too narrow for it, or it has none.
    pub fn at(layout: &Layout, current: u8) -> SlotKey {
        SlotKey::on_track(layout, usize::from(layout.clock_seq_at(current) > 0))
    }

    /// The track of which the slot is: 0, or 1 with whichever value of the clock sequence that has.
    pub fn track(&self) -> usize {
        usize::from(self.clock_seq_shift.is_some())
    }

    /// How many bits of a word no counter needs: those of the fields besides time and sequence. (A counter past the end of
    /// every layout needs one more, and the sign bit is that.)
    fn spare_bits(&self) -> u32 {
        self.time_shift - self.sequence_bits
    }

    /// Whether there is room for a value of the clock sequence in the slot's word.
    pub fn has_room_for(&self, value: u8) -> bool {
        u64::from(value) >> self.spare_bits() == 0
    }

    /// The word that the slot holds: a counter, and above it the value of the clock sequence. So there is no word that a
    /// slot holds twice, whatever values it gets: with one and the same value its counter only grows. On track 0 it is the
    /// counter.
    ///
    /// # Panics
    /// If there is no room for the value.
    pub fn word(&self, value: u8, counter: u64) -> u64 {
        assert!(self.has_room_for(value), "bug: clock_seq {value} does not fit a word");
        match value {
            0 => counter,
            value => u64::from(value) << (u64::BITS - self.spare_bits()) | counter,
        }
    }

    /// The value and the counter in a word that the slot holds.
    pub fn parts(&self, word: u64) -> (u8, u64) {
        match self.clock_seq_shift {
            None => (0, word),
            Some(_) => {
                let shift = u64::BITS - self.spare_bits();
                ((word >> shift) as u8, word & ((1 << shift) - 1))
            }
        }
    }

    /// The first tick that starts at or after an instant: the floor for that instant, and the limit for a
    /// horizon there (a tick may be used only if it starts before the horizon). Before the epoch that is tick
    /// 0; it is never past the last tick for which there are bits.
    pub fn first_tick_from(&self, unix_us: i64) -> u64 {
        self.scale.first_tick_from(unix_us).min(1 << (MAX_TOTAL_BITS - self.time_shift))
    }

    /// The counter at which a tick begins.
    pub fn counter_at(&self, tick: u64) -> u64 {
        tick << self.sequence_bits
    }

    /// The counter at which the first tick begins that starts at or after an instant.
    pub fn first_counter_from(&self, unix_us: i64) -> u64 {
        self.counter_at(self.first_tick_from(unix_us))
    }

    /// The counter at which the first tick begins that lies wholly at or after a counter.
    pub fn next_whole_tick(&self, counter: u64) -> u64 {
        self.counter_at(counter.div_ceil(1 << self.sequence_bits))
    }

    /// The start of the tick in which a counter lies, in microseconds of Unix time.
    pub fn tick_us(&self, counter: u64) -> i64 {
        // Past the end of every layout if it does not fit.
        self.scale.checked_start_us(counter >> self.sequence_bits).unwrap_or(i64::MAX)
    }

    /// The start of the tick of the last value before a counter.
    pub fn last_tick_us(&self, counter: u64) -> i64 {
        self.tick_us(counter.saturating_sub(1))
    }

    /// The end of use, given the counter: the least horizon that covers everything before it. As a floor it
    /// repeats nothing.
    ///
    /// That is just after the *start* of the last tick, as a tick may be used if it starts before the
    /// horizon. The end of the tick would do as well, but it would make layouts with shorter ticks wait for
    /// it.
    pub fn end_of_use_us(&self, counter: u64) -> i64 {
        match counter {
            0 => self.scale.epoch_us,
            _ => self.last_tick_us(counter).saturating_add(1),
        }
    }
}
