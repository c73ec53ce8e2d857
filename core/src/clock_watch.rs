//! [`ClockWatch`] decides whether the server follows a step of the clock.

use crate::clocks::ClockOffset;

/// The two clocks are not read at the same instant, so their difference varies. A change of up to 1 ms does
/// not count as a step.
const TOLERANCE_US: i64 = 1_000;

/// Detects steps of the clock by comparing the clock with the time since boot, which cannot be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockWatch {
    /// The largest accepted offset.
    offset: ClockOffset,
}

impl ClockWatch {
    /// Creates a watch that accepts a clock with this offset from the time since boot. Pass the offset of the
    /// current clock, or the result of [`ClockWatch::offset`] of an earlier watch.
    pub fn new(offset: ClockOffset) -> ClockWatch {
        ClockWatch { offset }
    }

    /// Returns the largest accepted offset.
    pub fn offset(&self) -> ClockOffset {
        self.offset
    }

    /// Returns how far the clock was set back between two cycles, in microseconds. The arguments are the
    /// offsets in the earlier cycle and in the later cycle.
    pub fn step_back_us(before: ClockOffset, now: ClockOffset) -> Option<u64> {
        let step_us = before.us_ahead_of(now);
        (step_us > TOLERANCE_US).then_some(step_us.unsigned_abs())
    }

    /// Returns the size of a jump ahead, in microseconds, if the jump exceeds `max_jump_us`. Otherwise,
    /// accepts the clock and returns `None`. A jump is measured from the highest time accepted so far.
    ///
    /// Steps back are always accepted. After a step back, a return to the highest accepted time is not a
    /// jump. A jump to a time that is not after the horizon (`reached_us`) is also accepted, because IDs with
    /// such times may already exist.
    pub fn observe(
        &mut self,
        clock_us: i64,
        offset: ClockOffset,
        max_jump_us: i64,
        reached_us: i64,
    ) -> Option<i64> {
        let jump_us = offset.us_ahead_of(self.offset);
        if jump_us > max_jump_us.saturating_add(TOLERANCE_US) && clock_us > reached_us {
            return Some(jump_us);
        }
        self.offset = self.offset.max(offset);
        None
    }
}
