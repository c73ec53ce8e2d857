//! The IDs that belong to a range of time: where in the order of IDs an instant lies.

use crate::field::Field;
use crate::layout::Layout;

impl Layout {
    /// The smallest ID whose time is at or after an instant (microseconds of Unix time).
    ///
    /// `id >= min_id(t)` says the same as `time_of(id) >= t`, and `id < min_id(t)` the same as
    /// `time_of(id) < t`, for every instant `t` and every ID of the layout, with one exception below. Before
    /// the epoch it is 0. After the start of the last tick it is the largest ID of the layout plus one, which
    /// no ID reaches.
    ///
    /// The exception: a layout of all 63 bits has no number above its largest ID, `i64::MAX`. After the start
    /// of its last tick the result is that very ID, the only one for which the two comparisons then differ.
    #[inline]
    pub fn min_id(&self, unix_us: i64) -> i64 {
        let first_tick = match unix_us > self.epoch_us() {
            true => unix_us.abs_diff(self.epoch_us()).div_ceil(self.unit_us()).min(self.ticks()),
            false => 0,
        };
        i64::try_from(first_tick << self.shift(Field::Time)).unwrap_or(i64::MAX)
    }

    /// The largest ID whose time is at or before an instant (microseconds of Unix time).
    ///
    /// `id <= max_id(t)` says the same as `time_of(id) <= t`, and `id > max_id(t)` the same as
    /// `time_of(id) > t`, for every instant `t` and every ID of the layout. Before the epoch it is -1, which
    /// lies below every ID; after the start of the last tick the largest ID of the layout.
    #[inline]
    pub fn max_id(&self, unix_us: i64) -> i64 {
        let ticks_begun = match unix_us >= self.epoch_us() {
            true => (unix_us.abs_diff(self.epoch_us()) / self.unit_us() + 1).min(self.ticks()),
            false => 0,
        };
        // At most 2^63, so that what is left is an i64; -1 if no tick has begun.
        (ticks_begun << self.shift(Field::Time)).wrapping_sub(1) as i64
    }
}
