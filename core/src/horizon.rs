//! The arithmetic of the horizon, and the watch over the clock. What is done with them is the keeper's affair.
//!
//! All times are microseconds of Unix time.

use crate::slot::SlotKey;

impl SlotKey {
    /// The first tick that starts at or after an instant: the floor for that instant, and the limit for a horizon there (a
    /// tick may be used only if it starts before the horizon). Before the epoch that is tick 0; it is never past the
    /// last tick for which there are bits.
    pub fn first_tick_from(&self, unix_us: i64) -> u64 {
        if unix_us <= self.epoch_us {
            return 0;
        }
        unix_us.abs_diff(self.epoch_us).div_ceil(self.unit_us).min(1 << (63 - self.time_shift))
    }

    /// The counter at which a tick begins.
    pub fn counter_at(&self, tick: u64) -> u64 {
        tick << self.sequence_bits
    }

    /// The counter at which the first tick begins of which nothing was handed out.
    pub fn next_unused_tick(&self, counter: u64) -> u64 {
        self.counter_at(self.ticks_in_use(counter))
    }

    fn ticks_in_use(&self, counter: u64) -> u64 {
        counter.div_ceil(1 << self.sequence_bits)
    }

    /// The start of the tick in which a counter lies, in microseconds of Unix time.
    pub fn tick_us(&self, counter: u64) -> i64 {
        self.start_us(counter >> self.sequence_bits)
    }

    /// The start of the tick of the last value before a counter.
    pub fn last_tick_us(&self, counter: u64) -> i64 {
        self.tick_us(counter.saturating_sub(1))
    }

    fn start_us(&self, tick: u64) -> i64 {
        let start_us = i128::from(self.epoch_us) + i128::from(tick) * i128::from(self.unit_us);
        // Past the end of every layout if it does not fit.
        i64::try_from(start_us).unwrap_or(i64::MAX)
    }

    /// The end of what was handed out, given the counter: the start of the first tick of which no value was. A horizon
    /// there lets nobody use more; as a floor it repeats nothing.
    pub fn end_of_use_us(&self, counter: u64) -> i64 {
        self.start_us(self.ticks_in_use(counter))
    }
}

/// The horizon to commit next: no lower than what is stored, what was published and what was handed out, and `lease_us`
/// beyond the furthest tick that the clock allows.
pub fn next_horizon_us(
    known_us: impl IntoIterator<Item = i64>,
    now_us: i64,
    max_drift_us: i64,
    lease_us: i64,
) -> i64 {
    let ahead_us = now_us.saturating_add(max_drift_us).saturating_add(lease_us);
    known_us.into_iter().fold(ahead_us, i64::max)
}

/// Compares the clock, which anybody may set, with the time since boot, which nobody can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockWatch {
    /// The clock less the time since boot, the most that was ever accepted.
    offset_us: i64,
}

impl ClockWatch {
    /// Takes the clock as it is.
    pub fn new(clock_us: i64, since_boot_us: i64) -> ClockWatch {
        ClockWatch { offset_us: clock_us - since_boot_us }
    }

    /// Goes on from what [`ClockWatch::offset_us`] gave.
    pub fn with_offset_us(offset_us: i64) -> ClockWatch {
        ClockWatch { offset_us }
    }

    /// The clock less the time since boot, the most that was ever accepted.
    pub fn offset_us(&self) -> i64 {
        self.offset_us
    }

    /// How far the clock was set back, in microseconds, between two looks, given the clock less the time since boot at
    /// each. The two are not read at the same instant: a millisecond is none.
    pub fn step_back_us(before_us: i64, now_us: i64) -> Option<u64> {
        const TOLERANCE_US: u64 = 1_000;
        let step_us = before_us.abs_diff(now_us);
        (now_us < before_us && step_us > TOLERANCE_US).then_some(step_us)
    }

    /// How far the clock has jumped ahead of where it ever was, if that is further than `max_jump_us`. Smaller steps are
    /// followed. So are steps back, and from there ahead again to where the clock was or where the horizon is
    /// (`reached_us`): IDs have been there already.
    pub fn look(
        &mut self,
        clock_us: i64,
        since_boot_us: i64,
        max_jump_us: i64,
        reached_us: i64,
    ) -> Option<i64> {
        let offset_us = clock_us - since_boot_us;
        let jump_us = offset_us - self.offset_us;
        if jump_us > max_jump_us && clock_us > reached_us {
            return Some(jump_us);
        }
        self.offset_us = self.offset_us.max(offset_us);
        None
    }
}
