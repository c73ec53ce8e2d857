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
use crate::identity::Identity;
use crate::layout::Layout;

/// The highest value that is used, however wide the field is: it has to fit into a word beside its horizon.
pub const MAX_VALUE: u8 = u8::MAX;

/// How much further than a server comes by itself (`max_drift` and `lease` ahead of the clock) it has to stand ahead
/// of the clock before something is done about it: a crash alone is no reason.
pub const FAR_AHEAD_US: i64 = 1_000_000;

const US_PER_MS: i64 = 1_000;

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

/// A value of the clock sequence with its horizon, in whole milliseconds. It fits one word, so that nobody ever reads
/// the value without its horizon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ValueHorizon {
    value: u8,
    until_ms: i64,
}

impl ValueHorizon {
    /// No value: layouts with the field have 0, whose horizon is the server's.
    pub const NONE: ValueHorizon = ValueHorizon { value: 0, until_ms: 0 };
    const VALUE_BITS: u32 = 8;

    /// A value, and a horizon: the next whole millisecond. [`ValueHorizon::NONE`] for value 0.
    pub fn new(value: u8, until_us: i64) -> ValueHorizon {
        let until_us = until_us.max(0);
        match value {
            0 => ValueHorizon::NONE,
            _ => ValueHorizon { value, until_ms: until_us / US_PER_MS + i64::from(until_us % US_PER_MS > 0) },
        }
    }

    /// The value; 0 for none.
    pub fn value(&self) -> u8 {
        self.value
    }

    /// The horizon.
    pub fn until_us(&self) -> i64 {
        self.until_ms.saturating_mul(US_PER_MS)
    }

    /// The horizon if it is that of this value, else 0.
    pub fn until_us_of(&self, value: u8) -> i64 {
        if self.value == value { self.until_us() } else { 0 }
    }

    /// In one number, which is never negative; 0 for none.
    pub fn to_word(&self) -> i64 {
        // Milliseconds of what fits microseconds need 54 bits at most.
        self.until_ms << Self::VALUE_BITS | i64::from(self.value)
    }

    /// What [`ValueHorizon::to_word`] made a number of. A number that it cannot have made is none.
    pub fn from_word(word: i64) -> ValueHorizon {
        match (word as u8, word >> Self::VALUE_BITS) {
            (value, until_ms) if value > 0 && until_ms >= 0 => ValueHorizon { value, until_ms },
            _ => ValueHorizon::NONE,
        }
    }
}

/// A record that a value may have been used. Records are only ever added; of several the latest instant counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueUse {
    /// `None` stands for every identity that has no record of this kind of its own.
    pub identity: Option<Identity>,
    /// `None` stands for every value of which the identity has no record.
    pub value: Option<u8>,
    /// Up to when. 0: not at all.
    pub until_us: i64,
}

/// The records of the use of values of one server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ValueUses(pub Vec<ValueUse>);

impl ValueUses {
    /// Up to when a value may have been used under an identity; 0 if it never was.
    pub fn until_us(&self, identity: Identity, value: u8) -> i64 {
        self.known(Some(identity), value).or(self.known(None, value)).unwrap_or(0)
    }

    /// The latest instant in any record.
    pub fn latest_us(&self) -> i64 {
        self.0.iter().map(|record| record.until_us).max().unwrap_or(0)
    }

    fn known(&self, identity: Option<Identity>, value: u8) -> Option<i64> {
        self.recorded(identity, Some(value)).or(self.recorded(identity, None))
    }

    fn recorded(&self, identity: Option<Identity>, value: Option<u8>) -> Option<i64> {
        let records = self.0.iter().filter(|record| (record.identity, record.value) == (identity, value));
        records.map(|record| record.until_us).max()
    }

    /// Each identity that has records of its own, and `None` for all others.
    fn identities(&self) -> Vec<Option<Identity>> {
        let mut identities = vec![None];
        for record in &self.0 {
            if !identities.contains(&record.identity) {
                identities.push(record.identity);
            }
        }
        identities
    }

    /// The records to add so that a value was used up to an instant, by whomever.
    pub fn close(&self, value: u8, until_us: i64) -> Vec<ValueUse> {
        let records = self.identities().into_iter().map(|identity| {
            // A record for one value stands before that for every value, and must not say less.
            let until_us = until_us.max(self.known(identity, value).unwrap_or(0));
            ValueUse { identity, value: Some(value), until_us }
        });
        records
            .filter(|record| self.recorded(record.identity, record.value) < Some(record.until_us))
            .collect()
    }

    /// The records to add so that all values were used up to an instant, by whomever.
    pub fn close_all(&self, until_us: i64) -> Vec<ValueUse> {
        let mut kinds: Vec<_> = self.identities().into_iter().map(|identity| (identity, None)).collect();
        for record in &self.0 {
            if !kinds.contains(&(record.identity, record.value)) {
                kinds.push((record.identity, record.value));
            }
        }
        let records =
            kinds.into_iter().filter(|&(identity, value)| self.recorded(identity, value) < Some(until_us));
        records.map(|(identity, value)| ValueUse { identity, value, until_us }).collect()
    }

    /// The records to add as what was stored is lost: every value was used up to `highest_us`. Only the last identity goes
    /// on with the value in use, above its horizon.
    pub fn after_loss(&self, last: Option<Identity>, in_use: ValueHorizon, highest_us: i64) -> Vec<ValueUse> {
        let mut records = self.close_all(highest_us);
        if let (Some(last), value @ 1..) = (last, in_use.value()) {
            records.retain(|record| (record.identity, record.value) != (Some(last), Some(value)));
            let own = [(None, highest_us), (Some(value), in_use.until_us())];
            let own = own.map(|(value, until_us)| ValueUse { identity: Some(last), value, until_us });
            let is_new =
                |record: &ValueUse| self.recorded(record.identity, record.value) < Some(record.until_us);
            let own: Vec<_> = own.into_iter().filter(|own| is_new(own) && !records.contains(own)).collect();
            records.extend(own);
        }
        records
    }

    /// The record to add as an identity is opened for the first time, of whose past nothing is known: every value was used
    /// up to an instant. None if the identity has records of its own.
    pub fn of_unknown(&self, identity: Identity, until_us: i64) -> Option<ValueUse> {
        let is_known = self.0.iter().any(|record| record.identity == Some(identity));
        // It stands before what holds for all others, and must not say less.
        let others = self.0.iter().filter(|record| record.identity.is_none());
        let until_us = others.map(|record| record.until_us).fold(until_us, i64::max);
        (!is_known).then_some(ValueUse { identity: Some(identity), value: None, until_us })
    }

    /// The record to add for an identity that was never used, and so has used no value: if there are other records, or
    /// are going to be.
    pub fn of_unused(&self, identity: Identity, are_others_added: bool) -> Option<ValueUse> {
        let record = ValueUse { identity: Some(identity), value: None, until_us: 0 };
        (are_others_added || !self.0.is_empty()).then_some(record)
    }
}

/// The value that is in use, and where its slots begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Begun {
    /// The value; 0 if there is no other one.
    pub value: u8,
    /// Where slots begin that have it. Of no use for 0: those begin at the server's floor.
    pub floor_us: i64,
}

/// What a server knows of values without looking at what is stored: in shared memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PastValues {
    /// The value and the horizon that were published last.
    pub published: ValueHorizon,
    /// The value that was opened, or was about to be opened, last, and the highest horizon of it that may have been
    /// stored.
    pub promised: ValueHorizon,
}

/// What the keeper sees of values in one look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeenValues {
    /// What is stored.
    pub stored: ValueHorizon,
    /// The records that are stored.
    pub uses: ValueUses,
    /// What the server itself knows.
    pub past: PastValues,
    /// The value in use, once the keeper has found that out.
    pub begun: Option<Begun>,
    /// The end of what was handed out with that value, over all slots.
    pub end_of_use_us: i64,
}

impl SeenValues {
    /// Whether what is stored is not what this server stored. (A value that was promised, but never published, was about
    /// to be opened.)
    pub fn is_changed(&self) -> bool {
        let PastValues { published, promised } = self.past;
        let is_promised = self.stored.value() == promised.value();
        match published.value() {
            0 => self.begun.is_some_and(|begun| self.stored.value() != begun.value && !is_promised),
            value if value == self.stored.value() => self.stored.until_us() < published.until_us(),
            value => !is_promised || promised.value() == value,
        }
    }

    /// The value in use; at a start it is found here.
    pub fn begun(&self, is_lost: bool) -> Begun {
        self.begun.unwrap_or_else(|| {
            let from = if is_lost { self.past.promised } else { self.stored };
            Begun { value: from.value(), floor_us: from.until_us() }
        })
    }

    /// What everything that is known says of where the horizon of a value has to be at least.
    pub fn known_us(&self, begun: Begun) -> i64 {
        let PastValues { published, promised } = self.past;
        let stored = [self.stored, published, promised].map(|known| known.until_us_of(begun.value));
        stored.into_iter().fold(begun.floor_us.max(self.end_of_use_us), i64::max)
    }
}

/// A call that waits for the clock asks for another value: what the keeper sees then.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// The clock, which may be followed.
    pub now_us: i64,
    /// How far ahead of the clock a horizon is written.
    pub reach_us: i64,
    /// The highest value that the layout can have.
    pub max_value: u8,
    /// Who makes IDs.
    pub identity: Identity,
    /// The range of the lease of that.
    pub lease_us: (i64, i64),
    /// The latest of the floor and the end of what was handed out with value 0.
    pub zero_us: i64,
}

/// Another value is to be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextValue {
    /// Which, and up to when it may be used at first.
    pub horizon: ValueHorizon,
    /// Where its slots begin.
    pub floor_us: i64,
    /// The records of the value in use, to be durable before that.
    pub closing: Vec<ValueUse>,
}

/// Decides whether another value is opened, and which: the lowest whose end of use lies in the past.
pub fn next_value(seen: &SeenValues, asked: &Asked) -> Option<NextValue> {
    let begun = seen.begun?;
    let known_us = seen.known_us(begun);
    // With a field that is too narrow for the value in use the layout has 0.
    let is_in_use = begun.value > 0 && begun.value <= asked.max_value;
    let ahead_us =
        if is_in_use { begun.floor_us.max(seen.end_of_use_us) } else { asked.zero_us } - asked.now_us;
    let (from_us, until_us) = asked.lease_us;
    if ahead_us <= asked.reach_us.saturating_add(FAR_AHEAD_US) || !(from_us..until_us).contains(&asked.now_us)
    {
        return None;
    }
    let is_free =
        |value: &u8| *value != begun.value && seen.uses.until_us(asked.identity, *value) <= asked.now_us;
    let value = (1..=asked.max_value).find(is_free)?;
    let horizon_us = asked.now_us.saturating_add(asked.reach_us).min(until_us);
    let closing = if begun.value > 0 { seen.uses.close(begun.value, known_us) } else { vec![] };
    Some(NextValue { horizon: ValueHorizon::new(value, horizon_us), floor_us: asked.now_us, closing })
}
