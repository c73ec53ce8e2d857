//! Conversion of times to the smallest and largest IDs, for conditions on a range of IDs.

use crate::field::Field;
use crate::layout::Layout;

impl Layout {
    /// Returns the smallest ID whose time is at or after a given time, in microseconds of Unix time.
    ///
    /// For every time `t` and every ID of the layout, `id >= min_id(t)` is equivalent to `time_of(id) >= t`,
    /// and `id < min_id(t)` is equivalent to `time_of(id) < t`, with the exception described below. The
    /// result is 0 for a time before the epoch. For a time after the start of the last tick, the result is
    /// the largest ID of the layout plus one.
    ///
    /// The exception is a layout that uses all 63 bits, because its largest ID is `i64::MAX`. For a time
    /// after the start of the last tick, the result is `i64::MAX`, and the equivalences are not true for this
    /// ID.
    #[inline]
    pub fn min_id(&self, unix_us: i64) -> i64 {
        let first_tick = match unix_us > self.epoch_us() {
            true => unix_us.abs_diff(self.epoch_us()).div_ceil(self.unit_us()).min(self.ticks()),
            false => 0,
        };
        i64::try_from(first_tick << self.shift(Field::Time)).unwrap_or(i64::MAX)
    }

    /// Returns the largest ID whose time is at or before a given time, in microseconds of Unix time.
    ///
    /// For every time `t` and every ID of the layout, `id <= max_id(t)` is equivalent to `time_of(id) <= t`,
    /// and `id > max_id(t)` is equivalent to `time_of(id) > t`. The result is -1 for a time before the epoch.
    /// For a time after the start of the last tick, the result is the largest ID of the layout.
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
