//! The worker IDs that a server has left to registries, and the choice between a worker ID that is set by hand and a
//! leased one.
//!
//! A worker ID that is set by hand has no lease. Nothing tells a server that another server uses the same worker ID, or
//! that the server itself is a copy. Therefore:
//!
//! * If a server's settings name a registry, the server issues IDs under a worker ID that is set by hand only if it
//!   **continues**, that is, if it already issued IDs under this worker ID before its settings named the registry.
//! * Before a server uses a lease, it records that it has left all its former identities to the registry. A server that
//!   finds such a record of an identity never uses this identity if it is set by hand. This also applies to a copy of
//!   the server. The identities of leases are recorded in the same way.
//!
//! All times are in microseconds of Unix time.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::identity::Identity;
use crate::lease::Lease;

/// The record that an identity was left to a registry, or leased from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Departure {
    /// The ID of the registry.
    pub registry_id: Uuid,
    /// The time of the record.
    pub since_us: i64,
}

/// The identities that a server has left to registries.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Left(BTreeMap<Identity, Departure>);

impl FromIterator<(Identity, Departure)> for Left {
    fn from_iter<I: IntoIterator<Item = (Identity, Departure)>>(records: I) -> Left {
        Left(records.into_iter().collect())
    }
}

impl Left {
    /// Returns all records.
    pub fn iter(&self) -> impl Iterator<Item = (Identity, Departure)> {
        self.0.iter().map(|(&identity, &departure)| (identity, departure))
    }

    /// Returns whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the record of an identity.
    pub fn get(&self, identity: Identity) -> Option<Departure> {
        self.0.get(&identity).copied()
    }

    /// Adds each record that is later than the existing record. Returns the added records.
    pub fn add(&mut self, others: &Left) -> Left {
        let is_new = |&(identity, departure): &(Identity, Departure)| {
            self.get(identity).is_none_or(|known| known.since_us < departure.since_us)
        };
        let new: Left = others.iter().filter(is_new).collect();
        self.0.extend(new.iter());
        new
    }

    /// Records that the server uses a leased identity, and has left its `former` identities to the registry.
    pub fn leave(
        &mut self,
        former: impl IntoIterator<Item = Identity>,
        leased: Identity,
        registry_id: Uuid,
        now_us: i64,
    ) {
        // The record of the last registry has to be the latest one, even if the clock was set back.
        let latest = self.latest();
        let since_us = latest.map_or(now_us, |latest| now_us.max(latest.since_us.saturating_add(1)));
        let departure = Departure { registry_id, since_us };
        if latest.is_none_or(|latest| latest.registry_id != registry_id) {
            self.0.insert(leased, departure);
        }
        for identity in former.into_iter().chain([leased]) {
            self.0.entry(identity).or_insert(departure);
        }
    }

    /// Returns the latest record, which is that of the registry from which the server last leased an identity.
    pub fn latest(&self) -> Option<Departure> {
        self.0.values().max_by_key(|departure| departure.since_us).copied()
    }

    /// Returns the time at which the server moved to its last registry.
    pub fn moved_at_us(&self) -> Option<i64> {
        let last = self.latest()?.registry_id;
        let of_others = self.0.values().filter(|departure| departure.registry_id != last);
        let before_us = of_others.map(|departure| departure.since_us).max();
        let since_us = self.0.values().map(|departure| departure.since_us);
        since_us.filter(|&since_us| before_us.is_none_or(|before_us| since_us > before_us)).min()
    }
}

/// The identities that a server could use.
#[derive(Clone, Copy, Debug, Default)]
pub struct Candidates {
    /// Whether the settings name a registry.
    pub has_registry: bool,
    /// The lease, if the registry has granted one.
    pub leased: Option<Lease>,
    /// The identity that is set by hand.
    pub by_hand: Option<Identity>,
    /// The lease for which the gate is open.
    pub open_for: Option<Lease>,
    /// The identity set by hand under which this server issues IDs, or last issued IDs. If the server is a copy, an
    /// identity that only the original server has used does not count.
    pub used_before: Option<Identity>,
}

/// The result of [`choose`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The lease of the identity to use, if any.
    pub wanted: Option<Lease>,
    /// If the settings name no registry, the identity that is set by hand but cannot be used because it was left to a
    /// registry.
    pub refused: Option<(Identity, Departure)>,
}

/// Chooses the identity that a server uses at `now_us`.
pub fn choose(candidates: &Candidates, left: &Left, now_us: i64) -> Choice {
    let Candidates { has_registry, leased, by_hand, open_for, used_before } = *candidates;
    let departure = by_hand.and_then(|identity| left.get(identity));
    // A lease for which the gate is open is used to its end, even if the registry worker stops because the settings no
    // longer name a registry. When a lease is withdrawn, the gate is closed.
    let former = open_for.filter(|lease| !lease.is_for_good() && now_us < lease.until_us);
    if has_registry {
        let open_by_hand = open_for.filter(Lease::is_for_good).map(|lease| lease.identity);
        let continued = by_hand
            .filter(|identity| departure.is_none() && [open_by_hand, used_before].contains(&Some(*identity)));
        return Choice { wanted: leased.or(continued.map(Lease::for_good)).or(former), refused: None };
    }
    match by_hand.zip(departure) {
        Some(refused) => Choice { wanted: former, refused: Some(refused) },
        None => Choice { wanted: by_hand.map(Lease::for_good), refused: None },
    }
}
