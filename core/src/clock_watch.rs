//! [`ClockWatch`] decides whether the server follows a step of the clock.

/// The two clocks are not read at the same instant, so their difference varies. A change of up to 1 ms does
/// not count as a step.
const TOLERANCE_US: i64 = 1_000;

/// Detects steps of the clock by comparing the clock with the time since boot, which cannot be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockWatch {
    /// The largest accepted difference between the clock and the time since boot, in microseconds.
    offset_us: i64,
}

impl ClockWatch {
    /// Creates a watch that accepts the current time of the clock.
    pub fn new(clock_us: i64, since_boot_us: i64) -> ClockWatch {
        ClockWatch { offset_us: clock_us - since_boot_us }
    }

    /// Creates a watch from the result of [`ClockWatch::offset_us`] of an earlier watch.
    pub fn with_offset_us(offset_us: i64) -> ClockWatch {
        ClockWatch { offset_us }
    }

    /// Returns the largest accepted difference between the clock and the time since boot, in microseconds.
    pub fn offset_us(&self) -> i64 {
        self.offset_us
    }

    /// Returns how far the clock was set back between two cycles, in microseconds. The arguments are the
    /// clock minus the time since boot in the earlier cycle and in the later cycle.
    pub fn step_back_us(before_us: i64, now_us: i64) -> Option<u64> {
        let step_us = before_us.saturating_sub(now_us);
        (step_us > TOLERANCE_US).then_some(step_us.unsigned_abs())
    }

    /// Returns the size of a jump ahead, in microseconds, if the jump exceeds `max_jump_us`. Otherwise,
    /// accepts the clock and returns `None`. A jump is measured from the highest time accepted so far.
    ///
    /// Steps back are always accepted. A later jump ahead is also accepted if it does not exceed the highest
    /// accepted time or the horizon (`reached_us`), because IDs with these times already exist.
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
