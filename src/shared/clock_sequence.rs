//! Shared state of the clock sequence. The state contains the requests for another value, and the recorded
//! high-water mark of each value.

use std::sync::atomic::{AtomicI64, AtomicU8, Ordering};

use snowflake_id_core::clock_sequence::{MAX_VALUE, Widths};
use snowflake_id_core::used::Uses;
use snowflake_id_core::{Identity, Layout};

/// The shared words for values of the clock sequence. Calls that generate IDs set `asked`, and the keeper
/// clears it. Only the keeper writes `ends_us`.
pub struct ValueWords {
    /// The widths ([`Widths`]) of the layouts whose calls wait for the clock and have requested another
    /// value.
    asked: AtomicU8,
    /// The recorded high-water mark of each value under the current identity, in microseconds of Unix time,
    /// or 0 if the value was never used. These marks are only hints and statistics. The keeper bases its
    /// decisions on the stored marks.
    ends_us: [AtomicI64; MAX_VALUE as usize + 1],
}

impl Default for ValueWords {
    fn default() -> ValueWords {
        ValueWords { asked: AtomicU8::new(0), ends_us: std::array::from_fn(|_| AtomicI64::new(0)) }
    }
}

impl ValueWords {
    /// Asks the keeper for another value that fits the layout.
    pub fn ask(&self, layout: &Layout) {
        self.asked.fetch_or(Widths::of(layout).0, Ordering::AcqRel);
    }

    /// Returns the requested widths, and clears the request.
    pub fn take_asked(&self) -> Widths {
        Widths(self.asked.swap(0, Ordering::AcqRel))
    }

    /// Publishes the recorded high-water mark of each value.
    pub fn note_ends(&self, identity: Identity, uses: &Uses) {
        for (value, end_us) in (0..=MAX_VALUE).zip(&self.ends_us).skip(1) {
            end_us.store(uses.until_us(identity, value).unwrap_or(0), Ordering::Relaxed);
        }
    }

    /// Returns the used values with their high-water marks. The mark of the current value can still rise.
    pub fn used(&self) -> impl Iterator<Item = (u8, i64)> {
        let ends = (0..=MAX_VALUE).zip(&self.ends_us).skip(1);
        ends.map(|(value, end_us)| (value, end_us.load(Ordering::Relaxed))).filter(|&(_, end_us)| end_us > 0)
    }

    /// Returns the earliest time at which a value other than `in_use` becomes free, in microseconds of Unix
    /// time. Only values from 1 to `max_value` are considered. Returns `None` if there is no such value.
    pub fn free_from_us(&self, max_value: u8, in_use: u8) -> Option<i64> {
        let others = (1..=max_value).filter(|&value| value != in_use);
        others.map(|value| self.ends_us[usize::from(value)].load(Ordering::Relaxed)).min()
    }
}
