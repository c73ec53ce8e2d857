//! [`Uses`]: under which identities a server may have made IDs, with which values of the clock sequence, and up to when; and
//! what it knows of that if the records are lost.
//!
//! All instants are microseconds of Unix time.

use std::collections::BTreeMap;

use crate::identity::Identity;
use crate::track::{Begun, TRACKS, Track};

/// Which values of the clock sequence a record is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// This one.
    Value(u8),
    /// Every value but 0 of which the identity has no record.
    Others,
}

impl Scope {
    /// Value 0, which layouts without the field have as well.
    pub const ZERO: Scope = Scope::Value(0);
}

/// A record that IDs may have been made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Use {
    /// Under which identity. `None` stands for every one that has no record of its own about these values.
    pub identity: Option<Identity>,
    /// With which values.
    pub scope: Scope,
    /// Up to when. 0: with value 0, as long as only the stored horizon limits it; with others, not at all.
    pub until_us: i64,
}

/// The records of one server: of two about the same the later instant counts, so that there is one at most of each kind.
/// Their number is bounded by that of the identities and of the values, however often the clock is stepped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Uses(BTreeMap<(Option<Identity>, Scope), i64>);

impl FromIterator<Use> for Uses {
    fn from_iter<I: IntoIterator<Item = Use>>(records: I) -> Uses {
        let mut uses = Uses::default();
        uses.add(records);
        uses
    }
}

impl Uses {
    /// The records.
    pub fn iter(&self) -> impl Iterator<Item = Use> {
        self.0.iter().map(|(&(identity, scope), &until_us)| Use { identity, scope, until_us })
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds records, unless what there is says as much already. Returns those that were added.
    pub fn add(&mut self, records: impl IntoIterator<Item = Use>) -> Vec<Use> {
        let is_new = |record: &Use| {
            let is_new = self.recorded(record.identity, record.scope) < Some(record.until_us);
            if is_new {
                self.0.insert((record.identity, record.scope), record.until_us);
            }
            is_new
        };
        records.into_iter().filter(is_new).collect()
    }

    /// What is recorded of just that.
    pub fn recorded(&self, identity: Option<Identity>, scope: Scope) -> Option<i64> {
        self.0.get(&(identity, scope)).copied()
    }

    /// Up to when IDs may have been made under an identity with a value; `None` if none ever were. What is recorded of the
    /// identity stands before what is recorded of all, and what is recorded of the value before that of the others.
    pub fn until_us(&self, identity: Identity, value: u8) -> Option<i64> {
        let known = |identity| {
            let others = || self.recorded(identity, Scope::Others).filter(|_| value > 0);
            self.recorded(identity, Scope::Value(value)).or_else(others)
        };
        known(Some(identity)).or_else(|| known(None))
    }

    /// The latest instant in any record.
    pub fn latest_us(&self) -> i64 {
        self.0.values().copied().max().unwrap_or(0)
    }

    /// Whether there are records about values other than 0 under an identity, or under all of them.
    pub fn has_values(&self, identity: Option<Identity>) -> bool {
        self.of_values().any(|record| record.identity == identity)
    }

    fn of_values(&self) -> impl Iterator<Item = Use> {
        self.iter().filter(|record| record.scope != Scope::ZERO)
    }

    /// Records by which each identity that has one was used up to an instant with value 0.
    pub fn shut_out(&self, until_us: i64) -> Vec<Use> {
        let own = self.iter().filter(|record| record.identity.is_some() && record.scope == Scope::ZERO);
        own.map(|record| Use { until_us, ..record }).collect()
    }

    /// Records by which a value other than 0 was used up to an instant, by whomever.
    pub fn close(&self, value: u8, until_us: i64) -> Vec<Use> {
        let mut identities: Vec<_> = self.of_values().map(|record| record.identity).collect();
        identities.insert(0, None);
        identities.dedup();
        let records = identities.into_iter().map(|identity| {
            // It stands before all others, and must not say less.
            let others = || self.recorded(None, Scope::Value(value)).or(self.recorded(None, Scope::Others));
            let known_us = identity.map_or_else(others, |identity| self.until_us(identity, value));
            Use { identity, scope: Scope::Value(value), until_us: until_us.max(known_us.unwrap_or(0)) }
        });
        records.collect()
    }

    /// Records by which all values but 0 were used up to an instant, by whomever.
    pub fn close_all(&self, until_us: i64) -> Vec<Use> {
        let all = Use { identity: None, scope: Scope::Others, until_us };
        [all].into_iter().chain(self.of_values().map(|record| Use { until_us, ..record })).collect()
    }

    /// The records of a server that has lost its own: everything was used up to `highest_us`. Only the last identity goes
    /// on, with the values in use, each up to the instant beside it. Its record of value 0 comes last: as long as that is
    /// missing, the loss is found again, by whoever comes after a crash in the middle.
    pub fn after_loss(&self, last: Option<Identity>, own: [(u8, i64); 2], highest_us: i64) -> Vec<Use> {
        let [zero, other] = own;
        let of_last = |(value, until_us)| Use { identity: last, scope: Scope::Value(value), until_us };
        let own = [other, zero].into_iter().skip(usize::from(other.0 == 0)).map(of_last);
        let own: Vec<_> = own.filter(|own| own.identity.is_some()).collect();
        let is_own =
            |record: &Use| own.iter().any(|own| (own.identity, own.scope) == (record.identity, record.scope));
        let all = Use { identity: None, scope: Scope::ZERO, until_us: highest_us };
        let others = [vec![all], self.shut_out(highest_us), self.close_all(highest_us)].concat();
        others.into_iter().filter(|record| !is_own(record)).chain(own.iter().copied()).collect()
    }

    /// The record of an identity that is opened for the first time, of whose past nothing is known: it has used every value
    /// but 0 up to an instant.
    pub fn of_unknown(&self, identity: Identity, until_us: i64) -> Use {
        // It stands before what holds for all, and must not say less.
        let all = self.of_values().filter(|record| record.identity.is_none());
        let until_us = all.map(|record| record.until_us).fold(until_us, i64::max);
        Use { identity: Some(identity), scope: Scope::Others, until_us }
    }
}

/// What a server knows of its own past without looking at what is stored: in shared memory. What it knows of horizons is
/// with the tracks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct History {
    /// The highest horizon that may ever have been stored.
    pub highest_us: i64,
    /// The identity for which the gate was open last.
    pub last_identity: Option<Identity>,
}

impl History {
    /// Whether records are gone: the identity in use was recorded before its first ID.
    pub(crate) fn lacks_record(&self, uses: &Uses) -> bool {
        self.last_identity.is_some_and(|last| uses.recorded(Some(last), Scope::ZERO).is_none())
    }

    /// The records that have to be there if all were lost but these: see [`Uses::after_loss`].
    pub fn records(&self, tracks: &[Track; TRACKS], begun: &[Begun; TRACKS], uses: &Uses) -> Vec<Use> {
        let own = [0, 1].map(|at| (begun[at].value, tracks[at].used_us(begun[at])));
        let stored_us = tracks[0].stored.until_us();
        uses.clone().add(uses.after_loss(self.last_identity, own, self.highest_us.max(stored_us)))
    }
}
