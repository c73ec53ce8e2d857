//! Types for the time since boot and for the offset of a clock. Because these are separate types, neither value can be
//! mistaken for the time of a clock.
//!
//! The time of a clock is an `i64` in microseconds of Unix time, and its name ends with `_us`.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The time since this machine was started, including the time during which it was suspended. No program can set it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SinceBoot(i64);

/// The time of a clock minus the time since boot of this machine. The clock may be the clock of another machine. The
/// offset changes only if the clock is set or slewed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ClockOffset(i64);

impl SinceBoot {
    /// Later than any time.
    pub const NEVER: SinceBoot = SinceBoot(i64::MAX);

    /// Returns the time that is this number of microseconds after the start of the machine.
    pub const fn from_us(us: i64) -> SinceBoot {
        SinceBoot(us)
    }

    /// Returns the number of microseconds since the start of the machine.
    pub const fn as_us(self) -> i64 {
        self.0
    }

    /// Returns the number of microseconds that have passed since an earlier time.
    pub const fn us_since(self, earlier: SinceBoot) -> i64 {
        self.0.saturating_sub(earlier.0)
    }

    /// Returns the time halfway between this time and another time.
    pub const fn midpoint(self, other: SinceBoot) -> SinceBoot {
        SinceBoot(self.0.midpoint(other.0))
    }

    /// Returns the time that is `duration` after this time.
    pub fn after(self, duration: Duration) -> SinceBoot {
        SinceBoot(self.0.saturating_add(i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)))
    }
}

impl ClockOffset {
    /// Returns the offset of a clock that showed `clock_us` when the time since boot was `since_boot`.
    #[inline]
    pub const fn of(clock_us: i64, since_boot: SinceBoot) -> ClockOffset {
        ClockOffset(clock_us.saturating_sub(since_boot.0))
    }

    /// Returns the time that the clock shows when the time since boot is `since_boot`, in microseconds of Unix time.
    #[inline]
    pub const fn clock_us(self, since_boot: SinceBoot) -> i64 {
        since_boot.0.saturating_add(self.0)
    }

    /// Returns an offset of `us` microseconds.
    pub const fn from_us(us: i64) -> ClockOffset {
        ClockOffset(us)
    }

    /// Returns the offset in microseconds.
    pub const fn as_us(self) -> i64 {
        self.0
    }

    /// Returns whether the clock has been set since its offset was `earlier`. A change of up to 1 s is attributed to
    /// slewing.
    pub const fn is_set_since(self, earlier: ClockOffset) -> bool {
        const SLEWED_US: u64 = 1_000_000;
        self.us_ahead_of(earlier).unsigned_abs() > SLEWED_US
    }

    /// Returns by how many microseconds a clock with this offset is ahead of a clock with another offset.
    pub const fn us_ahead_of(self, other: ClockOffset) -> i64 {
        self.0.saturating_sub(other.0)
    }
}
