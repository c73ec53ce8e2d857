//! The IDs that belong to a range of time: conversion from instants to IDs.

use crate::field::Field;
use crate::layout::Layout;

impl Layout {
    /// Returns the smallest ID whose time is at or after an instant (microseconds of Unix time).
    ///
    /// For every instant `t` and every ID of the layout, `id >= min_id(t)` is equivalent to
    /// `time_of(id) >= t`, and `id < min_id(t)` is equivalent to `time_of(id) < t`, with one exception below.
    /// For an instant before the epoch the result is 0. For an instant after the start of the last tick, the
    /// result is the largest ID of the layout plus one, which is larger than every ID.
    ///
    /// The exception is a layout that uses all 63 bits. The largest ID of such a layout is `i64::MAX`, and no
    /// number is larger. For an instant after the start of the last tick, the result is therefore `i64::MAX`,
    /// the only ID for which the equivalences do not hold.
    #[inline]
    pub fn min_id(&self, unix_us: i64) -> i64 {
        let first_tick = match unix_us > self.epoch_us() {
            true => unix_us.abs_diff(self.epoch_us()).div_ceil(self.unit_us()).min(self.ticks()),
            false => 0,
        };
        i64::try_from(first_tick << self.shift(Field::Time)).unwrap_or(i64::MAX)
    }

    /// Returns the largest ID whose time is at or before an instant (microseconds of Unix time).
    ///
    /// For every instant `t` and every ID of the layout, `id <= max_id(t)` is equivalent to
    /// `time_of(id) <= t`, and `id > max_id(t)` is equivalent to `time_of(id) > t`. For an instant before the
    /// epoch the result is -1, which is smaller than every ID. For an instant after the start of the last
    /// tick, the result is the largest ID of the layout.
    #[inline]
    pub fn max_id(&self, unix_us: i64) -> i64 {
        let ticks_begun = match unix_us >= self.epoch_us() {
            true => (unix_us.abs_diff(self.epoch_us()) / self.unit_us() + 1).min(self.ticks()),
            false => 0,
        };
        // The shifted number is at most 2^63, so the result fits an i64. The result is -1 if no tick has
        // started.
        (ticks_begun << self.shift(Field::Time)).wrapping_sub(1) as i64
    }
}
