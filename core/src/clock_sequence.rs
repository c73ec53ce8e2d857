//! The clock sequence. When the clock is set back, layouts with the field `clock_seq` need not wait for it.
//! These layouts use another value of the field, and their IDs continue at the current time.
//!
//! The rules are:
//!
//! * A value other than 0 has a **horizon of its own**, which is durable before the value is used. All IDs
//!   with the value have times before the horizon. After a start of the server, these IDs continue at the
//!   horizon.
//! * A value is **opened** only at or after its high-water mark, which is the instant up to which it may have
//!   been used. It therefore repeats no ID.
//! * Before a new value is opened, the high-water mark of the old value is durably recorded.
//! * **0 is never opened again**, because layouts without the field create the same numbers and continue to
//!   do so.
//! * If the history is unknown, every value may have been used up to the highest horizon that the server has
//!   ever had. Only the current value continues, above its own horizon.
//! * If a server uses an identity for the first time, and the identity is not leased, its history is unknown.
//!   A dump may have been restored, or another server may have used the identity. Every value therefore
//!   counts as used up to the current time.
//!
//! All instants are microseconds of Unix time.

use crate::field::Field;
use crate::layout::Layout;
use crate::lease::Lease;
use crate::track::{Begun, Horizon, TRACKS, Track};
use crate::used::{Scope, Use, Uses};

/// The highest value that is used, even if the field is wider. A value and its horizon must fit in one word.
pub const MAX_VALUE: u8 = u8::MAX;

/// A server takes action only if its IDs are further ahead of the clock than `max_ahead`, `horizon_margin`
/// and this value together: 1 second, in microseconds. A crash alone can put IDs ahead by `max_ahead` plus
/// `horizon_margin`, and requires no action.
pub const FAR_AHEAD_US: i64 = 1_000_000;

impl Layout {
    /// Returns the highest value of the clock sequence that this layout can have; 0 if the layout lacks the
    /// field.
    pub fn max_clock_seq(&self) -> u8 {
        self.max(Field::ClockSeq).min(MAX_VALUE.into()) as u8
    }

    /// Returns the value that this layout uses while the server's value is `current`. The value is 0 if
    /// `current` does not fit in the layout's field.
    pub fn clock_seq_at(&self, current: u8) -> u8 {
        if current <= self.max_clock_seq() { current } else { 0 }
    }
}

/// The facts on which the keeper decides when a call that waits for the clock requests another value.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// The clock, which may be followed.
    pub now_us: i64,
    /// How far ahead of the clock a horizon is written, in microseconds.
    pub reach_us: i64,
    /// The `clock_seq` widths of the layouts that request another value.
    pub widths: Widths,
    /// The lease under which IDs are created.
    pub lease: Lease,
}

/// A set of widths of `clock_seq` fields. Each layout adds its width, so requests do not overwrite one
/// another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Widths(pub u8);

impl Widths {
    /// Returns the width of the `clock_seq` field of one layout; the empty set if the layout lacks the field.
    pub fn of(layout: &Layout) -> Widths {
        match layout.bits(Field::ClockSeq).min(u8::BITS) {
            0 => Widths(0),
            bits => Widths(1 << (bits - 1)),
        }
    }

    /// Returns the highest value of each width in the set, starting with the narrowest.
    pub fn max_values(self) -> impl Iterator<Item = u8> {
        (1..=u8::BITS)
            .filter(move |bits| self.0 >> (bits - 1) & 1 == 1)
            .map(|bits| MAX_VALUE >> (u8::BITS - bits))
    }
}

/// A value to be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextValue {
    /// The value, with its first horizon.
    pub horizon: Horizon,
    /// The instant at which slots with this value start.
    pub floor_us: i64,
    /// The records that mark the current value as used. These records must be stored before the new value is
    /// opened.
    pub closing: Vec<Use>,
}

/// Decides whether to open another value, and selects the lowest value whose high-water mark has passed. A
/// layout's request is honored only if its IDs are further ahead of the clock than a crash alone can put
/// them.
pub fn next_value(tracks: &[Track; TRACKS], uses: &Uses, asked: &Asked) -> Option<NextValue> {
    let begun = tracks.map(|track| track.begun.unwrap_or_default());
    let [_, Begun { value: in_use, .. }] = begun;
    let Lease { identity, from_us, until_us } = asked.lease;
    // An identity is recorded before its first ID. If that record is missing, other records may be missing as
    // well, so the remaining ones prove nothing.
    let is_history_lost = uses.recorded(Some(identity), Scope::ZERO).is_none();
    if tracks[0].begun.is_none() || is_history_lost || !(from_us..until_us).contains(&asked.now_us) {
        return None;
    }
    let is_asked_for = |max_value: &u8| {
        // If the value in use does not fit the field of the layout, the layout has value 0.
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
