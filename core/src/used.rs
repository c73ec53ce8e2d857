//! [`Uses`] records which IDs a server may have created: the identity, the value of the clock sequence, and
//! the latest possible time. [`History`] contains the information that remains if these records are lost.
//!
//! All times are in microseconds of Unix time.

use std::collections::BTreeMap;

use crate::identity::Identity;
use crate::track::{Begun, Horizon, TRACKS, Track};

/// The values of the clock sequence that a record covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// This value.
    Value(u8),
    /// All values other than 0, unless the identity has a separate record for the value.
    Others,
}

impl Scope {
    /// The scope of value 0, which layouts without a clock sequence also use.
    pub const ZERO: Scope = Scope::Value(0);
}

/// A record that IDs may have been created up to a given time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Use {
    /// The identity of the IDs. `None` stands for every identity that has no separate record for these
    /// values.
    pub identity: Option<Identity>,
    /// The clock sequence values of the IDs.
    pub scope: Scope,
    /// The time up to which IDs may have been created. For value 0, a time of 0 means that only the stored
    /// horizon limits the use. For any other value, a time of 0 means that the value has not been used.
    pub until_us: i64,
}

/// The collection of a server's records of use. For each identity and scope, only the record with the latest
/// time is kept. The number of records therefore depends on the numbers of identities and values, but not on
/// how often the clock is set.
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
    /// Returns all records.
    pub fn iter(&self) -> impl Iterator<Item = Use> {
        self.0.iter().map(|(&(identity, scope), &until_us)| Use { identity, scope, until_us })
    }

    /// Returns whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds each record that has a later time than the existing record. Returns the added records.
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

    /// Returns the time recorded for exactly this identity and scope.
    pub fn recorded(&self, identity: Option<Identity>, scope: Scope) -> Option<i64> {
        self.0.get(&(identity, scope)).copied()
    }

    /// Returns the time up to which IDs with this identity and value may have been created, or `None` if such
    /// IDs do not exist. A record of the identity takes precedence over a record for all identities. Among
    /// records of the same identity, a record of the value takes precedence over [`Scope::Others`].
    pub fn until_us(&self, identity: Identity, value: u8) -> Option<i64> {
        let known = |identity| {
            let others = || self.recorded(identity, Scope::Others).filter(|_| value > 0);
            self.recorded(identity, Scope::Value(value)).or_else(others)
        };
        known(Some(identity)).or_else(|| known(None))
    }

    /// Returns the latest time in any record, or 0 if the collection is empty.
    pub fn latest_us(&self) -> i64 {
        self.0.values().copied().max().unwrap_or(0)
    }

    /// Returns whether the identity has records for values other than 0. An identity of `None` selects the
    /// records for all identities.
    pub fn has_values(&self, identity: Option<Identity>) -> bool {
        self.of_values().any(|record| record.identity == identity)
    }

    fn of_values(&self) -> impl Iterator<Item = Use> {
        self.iter().filter(|record| record.scope != Scope::ZERO)
    }

    /// Returns records that block every recorded identity up to a given time. Each record states that the
    /// identity has used value 0 up to that time.
    pub fn shut_out(&self, until_us: i64) -> Vec<Use> {
        let own = self.iter().filter(|record| record.identity.is_some() && record.scope == Scope::ZERO);
        own.map(|record| Use { until_us, ..record }).collect()
    }

    /// Returns records that block a value other than 0 for all identities up to a given time.
    pub fn close(&self, value: u8, until_us: i64) -> Vec<Use> {
        let mut identities: Vec<_> = self.of_values().map(|record| record.identity).collect();
        identities.insert(0, None);
        identities.dedup();
        let records = identities.into_iter().map(|identity| {
            // Keep the later time, because the new record takes precedence over the existing record.
            let others = || self.recorded(None, Scope::Value(value)).or(self.recorded(None, Scope::Others));
            let known_us = identity.map_or_else(others, |identity| self.until_us(identity, value));
            Use { identity, scope: Scope::Value(value), until_us: until_us.max(known_us.unwrap_or(0)) }
        });
        records.collect()
    }

    /// Returns records that block all values other than 0 for all identities up to a given time.
    pub fn close_all(&self, until_us: i64) -> Vec<Use> {
        let all = Use { identity: None, scope: Scope::Others, until_us };
        [all].into_iter().chain(self.of_values().map(|record| Use { until_us, ..record })).collect()
    }

    /// Returns replacements for the records that a server has lost. The new records state that every identity
    /// may have been used up to `highest_us`. The last identity is the exception: it can continue with the
    /// values in `own`, starting at the times in `own`. The record for value 0 of the last identity is the
    /// last record. If a crash prevents this record from being stored, the loss is detected again.
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

    /// Returns the record for an identity that is used for the first time and has an unknown history. The
    /// record states that the identity has used every value other than 0 up to a given time.
    pub fn of_unknown(&self, identity: Identity, until_us: i64) -> Use {
        // Keep the latest time, because the new record takes precedence over the records for all identities.
        let all = self.of_values().filter(|record| record.identity.is_none());
        let until_us = all.map(|record| record.until_us).fold(until_us, i64::max);
        Use { identity: Some(identity), scope: Scope::Others, until_us }
    }
}

/// The history of a server according to shared memory, without the stored records. The tracks contain the
/// horizons.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct History {
    /// The highest horizon that may have been stored.
    pub highest_us: i64,
    /// The identity under which the gate was last open.
    pub last_identity: Option<Identity>,
}

impl History {
    /// Returns whether records are lost. The identity in use is recorded before its first ID, so a missing
    /// record means a loss.
    pub(crate) fn lacks_record(&self, uses: &Uses) -> bool {
        self.last_identity.is_some_and(|last| uses.recorded(Some(last), Scope::ZERO).is_none())
    }

    /// Returns the records and the horizons to store on a server with this history after `CREATE EXTENSION`.
    pub fn stored_anew(&self, tracks: &[Track; TRACKS]) -> (Vec<Use>, [Horizon; TRACKS]) {
        let begun = tracks.map(|track| match track.begun.unwrap_or_default() {
            // The keeper was about to switch to this value.
            begun if ![0, begun.value].contains(&track.promised.value()) => {
                Begun { value: track.promised.value(), floor_us: track.promised.until_us() }
            }
            begun => begun,
        });
        let horizons = [0, 1].map(|at| Horizon::new(begun[at].value, tracks[at].used_us(begun[at])));
        (self.records(tracks, &begun, &Uses::default()), horizons)
    }

    /// Returns the records that must be added to `uses` after records were lost: see [`Uses::after_loss`].
    pub(crate) fn records(&self, tracks: &[Track; TRACKS], begun: &[Begun; TRACKS], uses: &Uses) -> Vec<Use> {
        let own = [0, 1].map(|at| (begun[at].value, tracks[at].used_us(begun[at])));
        let stored_us = tracks[0].stored.until_us();
        uses.clone().add(uses.after_loss(self.last_identity, own, self.highest_us.max(stored_us)))
    }
}
