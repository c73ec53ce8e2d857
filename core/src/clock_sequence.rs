//! The clock sequence: layouts with the field `clock_seq` need not wait for a clock that was set back. They go
//! on in the present with another value of the field.
//!
//! The rules:
//!
//! * A value that is not 0 has a **horizon of its own**, which is durable before it is used. IDs of one value
//!   start before it, and after a start they begin at it.
//! * A value is **opened** only at an instant at or after the end of all its use. So it repeats nothing.
//! * Before another value is opened, the end of the one in use is noted, durably.
//! * **0 is never opened again**: layouts without the field make the same numbers, and go on meanwhile.
//! * An unknown past means that every value was used, up to the highest horizon that the server has ever had. Only the
//!   one in use goes on, above its own horizon.
//! * An identity that a server has for the first time, without a lease, has a past that it does not know: a dump may
//!   have been restored, or another server may have had it. So every value was used up to the present.
//!
//! All instants are microseconds of Unix time.

use crate::field::Field;
use crate::layout::Layout;
use crate::lease::Lease;
use crate::track::{Begun, Horizon, TRACKS, Track};
use crate::used::{Scope, Use, Uses};

/// The highest value that is used, however wide the field is: it has to fit into a word beside its horizon.
pub const MAX_VALUE: u8 = u8::MAX;

/// How much further than a server comes by itself (`max_ahead` and `lease` ahead of the clock) it has to stand ahead
/// of the clock before something is done about it: a crash alone is no reason.
pub const FAR_AHEAD_US: i64 = 1_000_000;

impl Layout {
    /// The highest value of the clock sequence that this layout can have; 0 without the field.
    pub fn max_clock_seq(&self) -> u8 {
        self.max(Field::ClockSeq).min(MAX_VALUE.into()) as u8
    }

    /// The value that this layout has while the server's is `current`: that, or 0 if the field is too narrow for it.
    pub fn clock_seq_at(&self, current: u8) -> u8 {
        if current <= self.max_clock_seq() { current } else { 0 }
    }
}

/// A call that waits for the clock asks for another value: what the keeper sees then.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// The clock, which may be followed.
    pub now_us: i64,
    /// How far ahead of the clock a horizon is written.
    pub reach_us: i64,
    /// The highest values that the layouts can have which ask.
    pub widths: Widths,
    /// The lease of who makes IDs.
    pub lease: Lease,
}

/// Widths of the fields of layouts that ask for another value: a set, so that none asks over another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Widths(pub u8);

impl Widths {
    /// That of one layout: without the field, none.
    pub fn of(layout: &Layout) -> Widths {
        match layout.bits(Field::ClockSeq).min(u8::BITS) {
            0 => Widths(0),
            bits => Widths(1 << (bits - 1)),
        }
    }

    /// The highest value that each layout can have, the narrowest first.
    pub fn max_values(self) -> impl Iterator<Item = u8> {
        (1..=u8::BITS)
            .filter(move |bits| self.0 >> (bits - 1) & 1 == 1)
            .map(|bits| MAX_VALUE >> (u8::BITS - bits))
    }
}

/// Another value is to be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextValue {
    /// Which, and up to when it may be used at first.
    pub horizon: Horizon,
    /// Where its slots begin.
    pub floor_us: i64,
    /// The records of the value in use, to be stored before that.
    pub closing: Vec<Use>,
}

/// Decides whether another value is opened, and which: the lowest whose end of use lies in the past. A layout asks if it
/// stands further ahead of the clock than any does after a crash.
pub fn next_value(tracks: &[Track; TRACKS], uses: &Uses, asked: &Asked) -> Option<NextValue> {
    let begun = tracks.map(|track| track.begun.unwrap_or_default());
    let [_, Begun { value: in_use, .. }] = begun;
    let Lease { identity, from_us, until_us } = asked.lease;
    // Who makes IDs was recorded before the first of them. Without that record the others are gone as well, and say nothing.
    let is_history_lost = uses.recorded(Some(identity), Scope::ZERO).is_none();
    if tracks[0].begun.is_none() || is_history_lost || !(from_us..until_us).contains(&asked.now_us) {
        return None;
    }
    let is_asked_for = |max_value: &u8| {
        // With a field that is too narrow for the value in use the layout has 0.
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
