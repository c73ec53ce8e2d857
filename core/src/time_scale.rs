//! [`TimeScale`]: every conversion between instants and ticks.

use std::ops::RangeInclusive;

/// The longest unit of time, in microseconds: 10 seconds.
pub const MAX_UNIT_US: u64 = 10_000_000;
/// The instants that can be an epoch: the years 1 to 9998, all of which RFC 3339 can write in any zone.
pub const EPOCH_RANGE_US: RangeInclusive<i64> = -62_135_596_800_000_000..=253_370_764_799_999_999;

/// The unit of time of a layout and the epoch from which it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TimeScale {
    /// The length of a tick, in microseconds: 1 to [`MAX_UNIT_US`].
    pub unit_us: u64,
    /// The start of tick 0, in microseconds of Unix time.
    pub epoch_us: i64,
}

impl TimeScale {
    /// Microseconds from the epoch to an instant (microseconds of Unix time); `None` before the epoch.
    #[inline]
    pub fn elapsed_us(self, unix_us: i64) -> Option<u64> {
        (unix_us >= self.epoch_us).then(|| unix_us.abs_diff(self.epoch_us))
    }

    /// The tick that an instant falls into; `None` before the epoch.
    #[inline]
    pub fn tick_at(self, unix_us: i64) -> Option<u64> {
        Some(self.elapsed_us(unix_us)? / self.unit_us)
    }

    /// The first tick that starts at or after an instant; tick 0 before the epoch.
    pub fn first_tick_from(self, unix_us: i64) -> u64 {
        self.elapsed_us(unix_us).map_or(0, |elapsed_us| elapsed_us.div_ceil(self.unit_us))
    }

    /// The start of a tick of a layout, or the end of its last one, in microseconds of Unix time. A valid
    /// layout ends within `i64`, so that neither the cast nor the sum can wrap.
    #[inline]
    pub fn start_us(self, tick: u64) -> i64 {
        self.epoch_us.wrapping_add((tick * self.unit_us) as i64)
    }

    /// The start of any tick.
    ///
    /// # Errors
    /// The number, if it is too large for microseconds of Unix time.
    pub fn checked_start_us(self, tick: u64) -> Result<i64, i128> {
        let start_us = i128::from(self.epoch_us) + i128::from(tick) * i128::from(self.unit_us);
        i64::try_from(start_us).map_err(|_| start_us)
    }
}
