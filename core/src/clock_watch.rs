//! [`ClockWatch`]: which steps of the clock are followed.

/// The two clocks are not read at the same instant, so their difference varies. A change of up to 1 ms does
/// not count as a step.
const TOLERANCE_US: i64 = 1_000;

/// Compares the clock, which can be set, with the time since boot, which cannot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockWatch {
    /// The highest difference between the clock and the time since boot that was ever accepted, in
    /// microseconds.
    offset_us: i64,
}

impl ClockWatch {
    /// Creates a watch that accepts the clock as it is.
    pub fn new(clock_us: i64, since_boot_us: i64) -> ClockWatch {
        ClockWatch { offset_us: clock_us - since_boot_us }
    }

    /// Creates a watch that continues with a difference that [`ClockWatch::offset_us`] returned.
    pub fn with_offset_us(offset_us: i64) -> ClockWatch {
        ClockWatch { offset_us }
    }

    /// Returns the highest difference between the clock and the time since boot that was ever accepted, in
    /// microseconds.
    pub fn offset_us(&self) -> i64 {
        self.offset_us
    }

    /// Returns how far the clock was set back between two cycles, in microseconds. Each argument is the clock
    /// minus the time since boot, as measured in the earlier and in the later cycle.
    pub fn step_back_us(before_us: i64, now_us: i64) -> Option<u64> {
        let step_us = before_us.saturating_sub(now_us);
        (step_us > TOLERANCE_US).then_some(step_us.unsigned_abs())
    }

    /// Returns how far the clock has jumped beyond the highest time accepted so far, in microseconds, if that
    /// is more than `max_jump_us`. Otherwise the clock is followed, and the result is `None`.
    ///
    /// Steps back are always followed. A later jump ahead is also followed if it goes no further than the
    /// highest accepted time or the horizon (`reached_us`), because IDs with these times exist already.
    pub fn observe(
        &mut self,
        clock_us: i64,
        since_boot_us: i64,
        max_jump_us: i64,
        reached_us: i64,
    ) -> Option<i64> {
        let offset_us = clock_us - since_boot_us;
        let jump_us = offset_us - self.offset_us;
        if jump_us > max_jump_us.saturating_add(TOLERANCE_US) && clock_us > reached_us {
            return Some(jump_us);
        }
        self.offset_us = self.offset_us.max(offset_us);
        None
    }
}
