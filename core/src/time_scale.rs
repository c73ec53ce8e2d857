//! [`TimeScale`]: conversion between instants and ticks.

use std::ops::RangeInclusive;

/// The longest unit of time, in microseconds: 10 seconds.
pub const MAX_UNIT_US: u64 = 10_000_000;
/// The valid epochs, in microseconds of Unix time. The range covers the years 1 to 9998, which RFC 3339 can
/// represent in any time zone.
pub const EPOCH_RANGE_US: RangeInclusive<i64> = -62_135_596_800_000_000..=253_370_764_799_999_999;

/// The time scale of a layout, given by its unit of time and its epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TimeScale {
    /// The length of a tick, in microseconds: 1 to [`MAX_UNIT_US`].
    pub unit_us: u64,
    /// The start of tick 0, in microseconds of Unix time.
    pub epoch_us: i64,
}

impl TimeScale {
    /// Converts an instant from microseconds of Unix time to microseconds since the epoch. Returns `None` if
    /// the instant is before the epoch.
    #[inline]
    pub fn elapsed_us(self, unix_us: i64) -> Option<u64> {
        (unix_us >= self.epoch_us).then(|| unix_us.abs_diff(self.epoch_us))
    }

    /// Returns the tick that contains an instant, or `None` if the instant is before the epoch.
    #[inline]
    pub fn tick_at(self, unix_us: i64) -> Option<u64> {
        Some(self.elapsed_us(unix_us)? / self.unit_us)
    }

    /// Returns the first tick that starts at or after an instant. Returns tick 0 if the instant is before the
    /// epoch.
    pub fn first_tick_from(self, unix_us: i64) -> u64 {
        self.elapsed_us(unix_us).map_or(0, |elapsed_us| elapsed_us.div_ceil(self.unit_us))
    }

    /// Returns the start of a tick of a layout, or the end of its last tick, in microseconds of Unix time.
    /// The end of a valid layout fits in an `i64`. If the epoch is before 1970, the cast to `i64` may wrap
    /// around. The addition then wraps around as well, and the sum is correct.
    #[inline]
    pub fn start_us(self, tick: u64) -> i64 {
        self.epoch_us.wrapping_add((tick * self.unit_us) as i64)
    }

    /// Returns the start of any tick, in microseconds of Unix time.
    ///
    /// # Errors
    /// If the start does not fit in an `i64`, returns the start as an `i128`.
    pub fn checked_start_us(self, tick: u64) -> Result<i64, i128> {
        let start_us = i128::from(self.epoch_us) + i128::from(tick) * i128::from(self.unit_us);
        i64::try_from(start_us).map_err(|_| start_us)
    }
}
