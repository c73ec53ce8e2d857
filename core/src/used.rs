//! [`Uses`]: under which identities a server may have made IDs, with which values of the clock sequence, and up to when.
//!
//! All instants are microseconds of Unix time.

use crate::identity::Identity;

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

    fn is_about_zero(self) -> bool {
        self == Scope::ZERO
    }
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

impl Use {
    fn key(&self) -> (Option<Identity>, Scope) {
        (self.identity, self.scope)
    }
}

/// The records of one server. Of two about the same the later instant counts, so that one at most has to be kept of each
/// kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Uses(pub Vec<Use>);

impl Uses {
    /// Up to when IDs may have been made under an identity with a value; `None` if none ever were. What is recorded of the
    /// identity stands before what is recorded of all, and what is recorded of the value before that of the others.
    pub fn until_us(&self, identity: Identity, value: u8) -> Option<i64> {
        self.known(Some(identity), value).or(self.known(None, value))
    }

    /// The latest instant in any record.
    pub fn latest_us(&self) -> i64 {
        self.0.iter().map(|record| record.until_us).max().unwrap_or(0)
    }

    fn known(&self, identity: Option<Identity>, value: u8) -> Option<i64> {
        let others = || if value > 0 { self.recorded(identity, Scope::Others) } else { None };
        self.recorded(identity, Scope::Value(value)).or_else(others)
    }

    /// What is recorded of just that.
    pub fn recorded(&self, identity: Option<Identity>, scope: Scope) -> Option<i64> {
        let records = self.0.iter().filter(|record| record.key() == (identity, scope));
        records.map(|record| record.until_us).max()
    }

    /// Adds records, unless others say as much already. Returns those that were added.
    pub fn add(&mut self, records: impl IntoIterator<Item = Use>) -> Vec<Use> {
        let mut added = Vec::new();
        for record in records {
            if self.recorded(record.identity, record.scope) < Some(record.until_us) {
                self.0.push(record);
                added.push(record);
            }
        }
        added
    }

    /// The kinds of records that there are among those about value 0, or among those about others.
    fn kinds(&self, is_about_zero: bool) -> Vec<(Option<Identity>, Scope)> {
        let kinds = self.0.iter().map(Use::key).filter(|(_, scope)| scope.is_about_zero() == is_about_zero);
        let mut kinds: Vec<_> = kinds.collect();
        kinds.sort_unstable();
        kinds.dedup();
        kinds
    }

    /// Records by which each identity that has one was used up to an instant with value 0.
    pub fn shut_out(&self, until_us: i64) -> Vec<Use> {
        let own = self.kinds(true).into_iter().filter(|(identity, _)| identity.is_some());
        own.map(|(identity, scope)| Use { identity, scope, until_us }).collect()
    }

    /// Records by which a value other than 0 was used up to an instant, by whomever.
    pub fn close(&self, value: u8, until_us: i64) -> Vec<Use> {
        let mut identities: Vec<_> = self.kinds(false).into_iter().map(|(identity, _)| identity).collect();
        identities.insert(0, None);
        identities.dedup();
        let records = identities.into_iter().map(|identity| {
            // It stands before all others, and must not say less.
            let known_us = self.known(identity, value).or(self.known(None, value)).unwrap_or(0);
            let until_us = until_us.max(known_us);
            Use { identity, scope: Scope::Value(value), until_us }
        });
        records.collect()
    }

    /// Records by which all values but 0 were used up to an instant, by whomever.
    pub fn close_all(&self, until_us: i64) -> Vec<Use> {
        let kinds = [(None, Scope::Others)].into_iter().chain(self.kinds(false));
        kinds.map(|(identity, scope)| Use { identity, scope, until_us }).collect()
    }

    /// The records of a server that has lost its own: everything was used up to `highest_us`. Only the last identity goes
    /// on, with the values in use, each up to the instant beside it.
    pub fn after_loss(&self, last: Option<Identity>, own: [(u8, i64); 2], highest_us: i64) -> Vec<Use> {
        let own = own.map(|(value, until_us)| Use { identity: last, scope: Scope::Value(value), until_us });
        let own = || own.iter().filter(|own| own.identity.is_some());
        let all = Use { identity: None, scope: Scope::ZERO, until_us: highest_us };
        let others = self.shut_out(highest_us).into_iter().chain(self.close_all(highest_us));
        let mut records = vec![all];
        records.extend(own());
        records.extend(others.filter(|record| own().all(|own| own.key() != record.key())));
        records
    }

    /// The record of an identity that is opened for the first time, of whose past nothing is known: it has used every value
    /// but 0 up to an instant.
    pub fn of_unknown(&self, identity: Identity, until_us: i64) -> Use {
        // It stands before what holds for all, and must not say less.
        let all = self.0.iter().filter(|record| record.identity.is_none() && !record.scope.is_about_zero());
        let until_us = all.map(|record| record.until_us).fold(until_us, i64::max);
        Use { identity: Some(identity), scope: Scope::Others, until_us }
    }

    /// Whether there are records about values other than 0 under an identity, or under all of them.
    pub fn has_values(&self, identity: Option<Identity>) -> bool {
        self.kinds(false).iter().any(|kind| kind.0 == identity)
    }
}
