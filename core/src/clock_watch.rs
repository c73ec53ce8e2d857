//! [`ClockWatch`]: which steps of the clock are followed.

/// The two clocks are not read at the same instant, so that their difference varies: up to a millisecond is
/// no step.
const TOLERANCE_US: i64 = 1_000;

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

    /// How far the clock was set back, in microseconds, between two looks, given the clock less the time
    /// since boot at each.
    pub fn step_back_us(before_us: i64, now_us: i64) -> Option<u64> {
        let step_us = before_us.saturating_sub(now_us);
        (step_us > TOLERANCE_US).then_some(step_us.unsigned_abs())
    }

    /// How far the clock has jumped ahead of where it ever was, if that is further than `max_jump_us`.
    /// Smaller steps are followed. So are steps back, and from there ahead again to where the clock was or
    /// where the horizon is (`reached_us`): IDs have been there already.
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
