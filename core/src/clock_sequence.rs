//! The clock sequence. After the clock has been set back, IDs of a layout with the field `clock_seq` do not
//! have to wait for the clock. The server switches to another value of the field, and the IDs continue at
//! the current time.
//!
//! The rules are:
//!
//! * Each value except 0 has its **own horizon**, which is made durable before the value is used. All IDs
//!   with the value have times before the horizon. After a server restart, new IDs with the value start at
//!   the horizon.
//! * The server starts to use a value (**opens** the value) only at or after the value's high-water mark. No
//!   earlier ID with the value has a time at or after the high-water mark, so IDs are never repeated.
//! * The server durably records the high-water mark of the old value before it opens a new value.
//! * **The value 0 is never opened again**, because layouts without the field keep creating the same IDs as
//!   layouts with value 0.
//! * If the server's history is unknown, every value may have been used up to the highest horizon that the
//!   server has ever had. Only the current value may continue above its own horizon.
//! * The history is also unknown if the server uses an identity for the first time and the identity is not
//!   leased. A dump may have been restored, or another server may have used the identity. The server
//!   therefore assumes that all values have been used up to the current time.
//!
//! All times are in microseconds of Unix time.

use crate::field::Field;
use crate::layout::Layout;
use crate::lease::Lease;
use crate::track::{Begun, Horizon, TRACKS, Track};
use crate::used::{Scope, Use, Uses};

/// The highest value of the clock sequence, even in layouts with a wider field, because a value and its
/// horizon must fit in one word.
pub const MAX_VALUE: u8 = u8::MAX;

/// A tolerance of 1 second, in microseconds. The server acts only if its IDs are ahead of the clock by more
/// than the sum of `max_ahead`, `horizon_margin` and this tolerance. After a crash, IDs can be ahead by
/// `max_ahead` plus `horizon_margin`, which requires no action.
pub const FAR_AHEAD_US: i64 = 1_000_000;

impl Layout {
    /// Returns the highest clock sequence value in this layout, or 0 if the layout does not have the field.
    pub fn max_clock_seq(&self) -> u8 {
        self.max(Field::ClockSeq).min(MAX_VALUE.into()) as u8
    }

    /// Returns the clock sequence value for new IDs of this layout if the server's current value is
    /// `current`. Returns 0 if `current` does not fit in the layout's field.
    pub fn clock_seq_at(&self, current: u8) -> u8 {
        if current <= self.max_clock_seq() { current } else { 0 }
    }
}

/// The facts from which the keeper decides whether to open another value.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// The current time. The keeper has accepted the clock.
    pub now_us: i64,
    /// The distance from the clock to a newly written horizon, in microseconds.
    pub reach_us: i64,
    /// The `clock_seq` widths of the layouts that request another value.
    pub widths: Widths,
    /// The lease under which IDs are created.
    pub lease: Lease,
}

/// A set of widths of `clock_seq` fields. Each layout adds its own width, so the requests of different
/// layouts do not overwrite one another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Widths(pub u8);

impl Widths {
    /// Returns a set with the width of the layout's `clock_seq` field. The set is empty if the layout does
    /// not have the field.
    pub fn of(layout: &Layout) -> Widths {
        match layout.bits(Field::ClockSeq).min(u8::BITS) {
            0 => Widths(0),
            bits => Widths(1 << (bits - 1)),
        }
    }

    /// Returns the highest values that fit in the widths of the set, in ascending order.
    pub fn max_values(self) -> impl Iterator<Item = u8> {
        (1..=u8::BITS)
            .filter(move |bits| self.0 >> (bits - 1) & 1 == 1)
            .map(|bits| MAX_VALUE >> (u8::BITS - bits))
    }
}

/// The next value to open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextValue {
    /// The value, with its first horizon.
    pub horizon: Horizon,
    /// The earliest time of IDs with this value.
    pub floor_us: i64,
    /// The records that mark the current value as used. These records must be stored before the new value is
    /// opened.
    pub closing: Vec<Use>,
}

/// Decides whether to open another value, and selects the lowest value whose high-water mark is not after
/// the current time. The keeper grants the request of a layout only if the layout's IDs are too far ahead of
/// the clock to be explained by a crash.
pub fn next_value(tracks: &[Track; TRACKS], uses: &Uses, asked: &Asked) -> Option<NextValue> {
    let begun = tracks.map(|track| track.begun.unwrap_or_default());
    let [_, Begun { value: in_use, .. }] = begun;
    let Lease { identity, from_us, until_us } = asked.lease;
    // An identity is recorded before its first ID is issued. If this record is missing, other records may be
    // missing as well, and the remaining records cannot be trusted.
    let is_history_lost = uses.recorded(Some(identity), Scope::ZERO).is_none();
    if tracks[0].begun.is_none() || is_history_lost || !(from_us..until_us).contains(&asked.now_us) {
        return None;
    }
    let is_asked_for = |max_value: &u8| {
        // If the current value does not fit in the layout's field, the layout uses value 0.
        let at = usize::from((1..=*max_value).contains(&in_use));
        let ahead_us = begun[at].floor_us.max(tracks[at].end_of_use_us) - asked.now_us;
        ahead_us > asked.reach_us.saturating_add(FAR_AHEAD_US)
    };
    let is_free = |value: &u8| {
        *value != in_use && uses.until_us(identity, *value).is_none_or(|until_us| until_us <= asked.now_us)
    };
    let mut asking = asked.widths.max_values().filter(is_asked_for);
    let value = asking.find_map(|max_value| (1..=max_value).find(is_free))?;
    let horizon = Horizon::new(value, asked.now_us.saturating_add(asked.reach_us).min(until_us));
    let closing = if in_use > 0 { uses.close(in_use, tracks[1].known_us(begun[1])) } else { vec![] };
    Some(NextValue { horizon, floor_us: asked.now_us, closing: uses.clone().add(closing) })
}
