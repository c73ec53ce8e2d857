//! Which values of the clock sequence are asked for, and which are free.

use std::sync::atomic::{AtomicI64, AtomicU8, Ordering};

use snowflake_id_core::clock_sequence::{MAX_VALUE, Widths};
use snowflake_id_core::used::Uses;
use snowflake_id_core::{Identity, Layout};

/// The first is written by calls and taken by the keeper, the second is written by the keeper alone.
pub struct ValueWords {
    /// For which layouts calls ask that wait for the clock: [`Widths`].
    asked: AtomicU8,
    /// Up to when each value may have been used under the identity in use, as it is recorded; 0: not at all. Hints
    /// and figures for people: the keeper decides by what is stored.
    ends_us: [AtomicI64; MAX_VALUE as usize + 1],
}

impl Default for ValueWords {
    fn default() -> ValueWords {
        ValueWords { asked: AtomicU8::new(0), ends_us: std::array::from_fn(|_| AtomicI64::new(0)) }
    }
}

impl ValueWords {
    /// Asks the keeper for another value that a layout can have.
    pub fn ask(&self, layout: &Layout) {
        self.asked.fetch_or(Widths::of(layout).0, Ordering::AcqRel);
    }

    /// What was asked for.
    pub fn take_asked(&self) -> Widths {
        Widths(self.asked.swap(0, Ordering::AcqRel))
    }

    /// Notes up to when each value was used.
    pub fn note_ends(&self, identity: Identity, uses: &Uses) {
        for (value, end_us) in (0..=MAX_VALUE).zip(&self.ends_us).skip(1) {
            end_us.store(uses.until_us(identity, value).unwrap_or(0), Ordering::Relaxed);
        }
    }

    /// The values that were used, each with the end of that. The one in use has no end.
    pub fn used(&self) -> impl Iterator<Item = (u8, i64)> {
        let ends = (0..=MAX_VALUE).zip(&self.ends_us).skip(1);
        ends.map(|(value, end_us)| (value, end_us.load(Ordering::Relaxed))).filter(|&(_, end_us)| end_us > 0)
    }

    /// When the first value is free that a layout can have; `None` if it can have none but the one in use.
    pub fn free_from_us(&self, max_value: u8, in_use: u8) -> Option<i64> {
        let others = (1..=max_value).filter(|&value| value != in_use);
        others.map(|value| self.ends_us[usize::from(value)].load(Ordering::Relaxed)).min()
    }
}
