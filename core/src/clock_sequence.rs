//! The clock sequence. When the clock is set back, layouts with the field `clock_seq` need not wait for it.
//! They continue at the present, with another value of the field.
//!
//! The rules are:
//!
//! * A value other than 0 has a **horizon of its own**, which is durable before the value is used. The ticks
//!   of all IDs with the value start before the horizon. After a start of the server, these IDs continue at
//!   the horizon.
//! * A value is **opened** only at or after its high-water mark, which is the instant up to which it may have
//!   been used. It therefore repeats no ID.
//! * Before another value is opened, the high-water mark of the value in use is durably recorded.
//! * **0 is never opened again**, because layouts without the field create the same numbers and continue to
//!   do so.
//! * If the history is unknown, every value counts as used up to the highest horizon that the server has ever
//!   had. Only the value in use continues, above its own horizon.
//! * If a server has an identity for the first time, without a lease, the history of the identity is unknown.
//!   A dump may have been restored, or another server may have had the identity. Every value therefore counts
//!   as used up to the present.
//!
//! All instants are microseconds of Unix time.

use crate::field::Field;
use crate::layout::Layout;
use crate::lease::Lease;
use crate::track::{Begun, Horizon, TRACKS, Track};
use crate::used::{Scope, Use, Uses};

/// The highest value that is used, however wide the field is. A value has to fit a word together with its
/// horizon.
pub const MAX_VALUE: u8 = u8::MAX;

/// How far beyond its normal reach a server has to be before it takes action: 1 second, in microseconds. The
/// normal reach is `max_ahead` plus `horizon_margin` after the clock. A crash alone can take a server that
/// far, and is no reason for action.
pub const FAR_AHEAD_US: i64 = 1_000_000;

impl Layout {
    /// Returns the highest value of the clock sequence that this layout can have; 0 if the layout lacks the
    /// field.
    pub fn max_clock_seq(&self) -> u8 {
        self.max(Field::ClockSeq).min(MAX_VALUE.into()) as u8
    }

    /// Returns the value of this layout while the server's value is `current`: the same value, or 0 if it
    /// does not fit the field.
    pub fn clock_seq_at(&self, current: u8) -> u8 {
        if current <= self.max_clock_seq() { current } else { 0 }
    }
}

/// What the keeper sees when a call that waits for the clock requests another value.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// The clock, which may be followed.
    pub now_us: i64,
    /// How far ahead of the clock a horizon is written, in microseconds.
    pub reach_us: i64,
    /// The widths of the `clock_seq` fields of the layouts that request another value.
    pub widths: Widths,
    /// The lease under which IDs are created.
    pub lease: Lease,
}

/// Widths of `clock_seq` fields. They form a set, so that the request of one layout does not overwrite that
/// of another one.
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

    /// Returns the highest value for each width, narrowest first.
    pub fn max_values(self) -> impl Iterator<Item = u8> {
        (1..=u8::BITS)
            .filter(move |bits| self.0 >> (bits - 1) & 1 == 1)
            .map(|bits| MAX_VALUE >> (u8::BITS - bits))
    }
}

/// Another value that has to be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextValue {
    /// The value, and the instant up to which it may be used at first.
    pub horizon: Horizon,
    /// The instant at which its slots start.
    pub floor_us: i64,
    /// The records that close the value in use. They have to be stored before the new value is opened.
    pub closing: Vec<Use>,
}

/// Decides whether to open another value, and which one: the lowest value whose high-water mark has passed. A
/// layout's request counts only if its IDs are further ahead of the clock than they can be after a crash.
pub fn next_value(tracks: &[Track; TRACKS], uses: &Uses, asked: &Asked) -> Option<NextValue> {
    let begun = tracks.map(|track| track.begun.unwrap_or_default());
    let [_, Begun { value: in_use, .. }] = begun;
    let Lease { identity, from_us, until_us } = asked.lease;
    // An identity is recorded before its first ID. If that record is missing, the other records are lost as
    // well, and prove nothing.
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
