//! [`LeaseState`]: what a server knows of its leases, and which steps it goes with the registry.
//!
//! The registry gives an identity for a range of ID time: see [`Lease`]. A server keeps what it knows in a file,
//! and everything here is made so that whoever finds that file after a crash, at any point, can go on:
//!
//! * Before it asks for an identity, it writes down under which ID it asks ([`Asking`]). An answer that was lost
//!   can be asked for again: the registry returns the same lease.
//! * What was granted is in the file before it is used.
//! * Each renewal presents two nonces, the one that the registry should know and the next one. Both are in the file
//!   before they are sent, so that a lost answer does no harm. A copy of the server has the same file; but the next
//!   nonce but one is random, so that the registry finds out at the second renewal that there are two.
//!
//! Instants are microseconds of Unix time.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::identity::Identity;
use crate::lease::Lease;

/// What a server knows of its leases.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseState {
    /// The registry that it has dealt with.
    pub registry_id: Option<Uuid>,
    /// The lease that it holds.
    pub held: Option<Held>,
    /// The lease that it is asking for.
    pub asking: Option<Asking>,
    /// What it can show the registry: of the lease in hand, and of those that it had. They outlive the lease, and a copy
    /// of the server may show them as well, as they give no right to anything.
    #[serde(default)]
    pub evidence: Vec<Evidence>,
}

/// A range that the registry has granted, and has signed that it did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// The range, which may have been renewed since that was signed.
    pub lease: Lease,
    /// What the registry has signed.
    pub token: String,
}

/// For how long after its end a lease is told of: longer than any registry waits. A clock that was ahead when it was
/// granted may be right by now.
const TOLD_FOR_US: i64 = 50 * 60 * 60 * 1_000_000;
/// The most leases of which a server tells. Of more, that in hand, and those that end last.
const MOST_EVIDENCE: usize = 32;

/// A lease that was granted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// The identity and its range.
    pub lease: Lease,
    /// Known to the registry and to this server alone.
    pub lease_id: Uuid,
    /// The nonce that the registry was told last, as far as is known.
    pub last_nonce: Uuid,
    /// The one that it is told with the next renewal.
    pub next_nonce: Uuid,
}

/// A lease that is being asked for, and may have been granted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asking {
    /// As in [`Held`].
    pub lease_id: Uuid,
    /// The first nonce.
    pub nonce: Uuid,
}

/// Which identities will do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// The datacenter ID.
    pub datacenter: u32,
    /// The worker ID, if it has to be a certain one.
    pub pin: Option<u32>,
    /// The first worker ID for which the layout has no room.
    pub worker_limit: u32,
    /// Worker IDs that were found to be of no use.
    pub unwanted: Vec<u32>,
}

impl Needs {
    /// Whether an identity will do.
    pub fn are_met_by(&self, identity: Identity) -> bool {
        identity.datacenter == self.datacenter
            && self.pin.is_none_or(|pin| identity.worker == pin)
            && identity.worker < self.worker_limit
            && !self.unwanted.contains(&identity.worker)
    }
}

/// What the registry answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The lease is granted, or renewed.
    Granted(Lease),
    /// Nobody holds this lease: it has lapsed and was given to another server, or the registry has lost it.
    Unknown,
    /// Somebody else renews this very lease: one of the two servers is a copy of the other.
    Twin,
    /// No identity is free before this instant.
    Taken {
        /// 0 if none ever will be.
        free_from_us: i64,
    },
    /// The registry was installed, and gives out no identities until its fleet is started.
    NotStarted,
    /// A lapsed lease is not renewed now, as it may be somebody else's by now.
    Quarantine,
    /// The clocks of the server and the registry differ too much for a decision.
    ClockDiffers,
    /// It is another registry.
    Foreign,
}

impl LeaseState {
    /// What is left of it in a copy of the server: a stranger, who knows the registry and holds nothing.
    pub fn of_an_unrecognized_server(self) -> LeaseState {
        LeaseState { held: None, asking: None, ..self }
    }

    /// The lease in hand, if any of it is left at an instant, and there is evidence of it.
    pub fn lease_at(&self, now_us: i64) -> Option<Lease> {
        let held = self.held.as_ref().filter(|_| self.is_proved());
        held.map(|held| held.lease).filter(|lease| now_us < lease.until_us)
    }

    /// Whether another identity has to be asked for.
    pub fn has_to_acquire(&self, needs: &Needs) -> bool {
        self.held.as_ref().is_none_or(|held| !needs.are_met_by(held.lease.identity))
    }

    /// Begins to ask for an identity, or goes on to. To be written down before the registry is asked.
    pub fn ask(&mut self, new_token: impl Fn() -> Uuid) -> Asking {
        self.asking.get_or_insert_with(|| Asking { lease_id: new_token(), nonce: new_token() }).clone()
    }

    /// The lease that was asked for is granted. To be written down before it is used.
    pub fn hold(&mut self, lease: Lease, new_token: impl Fn() -> Uuid) {
        if let Some(Asking { lease_id, nonce }) = self.asking.take() {
            self.held = Some(Held { lease, lease_id, last_nonce: nonce, next_nonce: new_token() });
        }
    }

    /// The lease in hand is renewed. To be written down before it is used. The end of a lease never moves back.
    pub fn renew(&mut self, lease: Lease, new_token: impl Fn() -> Uuid) {
        if let Some(held) = &mut self.held {
            held.lease.until_us = held.lease.until_us.max(lease.until_us);
            held.last_nonce = std::mem::replace(&mut held.next_nonce, new_token());
        }
    }

    /// Notes evidence of the lease in hand. What is past is left out.
    pub fn prove(&mut self, token: String, now_us: i64) {
        let Some(held) = &self.held else { return };
        let lease = held.lease;
        self.evidence.retain(|it| {
            !it.lease.is_same_range(&lease) && it.lease.until_us.saturating_add(TOLD_FOR_US) > now_us
        });
        self.evidence.push(Evidence { lease, token });
        // Without that of the lease in hand nothing of it could be used.
        self.evidence
            .sort_by_key(|it| (!it.lease.is_same_range(&lease), std::cmp::Reverse(it.lease.until_us)));
        self.evidence.truncate(MOST_EVIDENCE);
    }

    /// Whether there is evidence of the lease in hand. Without it nothing of it is used: who else could tell the registry?
    pub fn is_proved(&self) -> bool {
        let is_known = |held: &Held| self.evidence.iter().any(|it| it.lease.is_same_range(&held.lease));
        self.held.as_ref().is_some_and(is_known)
    }

    /// Notes who has granted or renewed a lease.
    pub fn note(&mut self, registry_id: Uuid) {
        self.registry_id = Some(registry_id);
    }
}
