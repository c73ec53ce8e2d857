//! [`LeaseState`] is a server's record of its leases, and implements the server's part of the protocol with
//! the registry.
//!
//! The registry grants an identity for a range of time (see [`Lease`]). A server keeps the state of its
//! leases in a file. The following rules allow the server to continue from this file after a crash:
//!
//! * The server stores the ID of a new lease ([`Asking`]) before it requests the lease. If the reply is lost,
//!   the server repeats the request, and the registry returns the same lease.
//! * A granted lease is stored before it is used.
//! * Each renewal contains the current nonce, which the registry should know, and the next nonce. Both nonces
//!   are stored before they are sent, so a lost reply does no harm. A copy of the server starts with the same
//!   nonces, but both servers then generate different random nonces. The registry therefore detects the copy
//!   at the second renewal.
//!
//! All times are in microseconds of Unix time.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::identity::Identity;
use crate::lease::Lease;
use crate::protocol::Mismatch;

/// A server's record of its leases.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseState {
    /// The registry that last granted or renewed a lease.
    pub registry_id: Option<Uuid>,
    /// The lease that the server holds.
    pub held: Option<Held>,
    /// The lease that the server is requesting.
    pub asking: Option<Asking>,
    /// Evidence of current and earlier leases, which the server can present to the registry. Evidence is kept
    /// after its lease has ended. A copy of the server may present the same evidence, because evidence grants
    /// no rights.
    #[serde(default)]
    pub evidence: Vec<Evidence>,
}

/// A granted range, with the registry's signed statement of the grant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// The range. The lease may have been renewed after the registry signed the statement.
    pub lease: Lease,
    /// The statement that the registry signed.
    pub token: String,
}

/// The time for which evidence is kept after its lease has ended. These 50 hours are longer than any
/// quarantine of a registry. They also allow for a clock that was ahead when the lease was granted and was
/// corrected later.
const TOLD_FOR_US: i64 = 50 * 60 * 60 * 1_000_000;
/// The maximum number of leases for which a server keeps evidence. If there are more leases, the server keeps
/// evidence of its current lease and of the leases that end last.
const MOST_EVIDENCE: usize = 32;

/// A lease that was granted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// The identity and its range.
    pub lease: Lease,
    /// The ID of the lease, which only the registry and this server know.
    pub lease_id: Uuid,
    /// The last nonce that the registry is known to have received.
    pub last_nonce: Uuid,
    /// The new nonce for the next renewal.
    pub next_nonce: Uuid,
}

/// A requested lease, which the registry may already have granted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asking {
    /// The ID of the requested lease.
    pub lease_id: Uuid,
    /// The first nonce.
    pub nonce: Uuid,
}

/// The requirements that an identity must meet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// The datacenter ID.
    pub datacenter: u32,
    /// The required worker ID, or `None` if every worker ID is acceptable.
    pub pin: Option<u32>,
    /// The lowest worker ID that does not fit in the layout.
    pub worker_limit: u32,
    /// Worker IDs that were found to be unusable.
    pub unwanted: Vec<u32>,
}

impl Needs {
    /// Returns whether an identity meets the requirements.
    pub fn are_met_by(&self, identity: Identity) -> bool {
        identity.datacenter == self.datacenter
            && self.pin.is_none_or(|pin| identity.worker == pin)
            && identity.worker < self.worker_limit
            && !self.unwanted.contains(&identity.worker)
    }
}

/// The reply of the registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The lease is granted or renewed.
    Granted(Lease),
    /// The registry does not know this lease. Either the lease has expired and its worker ID was granted to
    /// another server, or the registry has lost the lease.
    Unknown,
    /// Another server renews the same lease. One of the two servers is a copy of the other.
    Twin,
    /// No identity is free now.
    Taken {
        /// The time at which an identity becomes free, or 0 if no identity will become free.
        free_from_us: i64,
    },
    /// The registry has not been started. It grants no identity before `start_fleet()` is called.
    NotStarted,
    /// The lease has expired, and the registry cannot renew it now because its identity may already belong to
    /// another server.
    Quarantine,
    /// The clocks of the server and the registry differ too much for the registry to decide.
    ClockDiffers,
    /// The reply comes from a registry other than [`LeaseState::registry_id`].
    Foreign,
    /// The registry does not know the protocol of the request.
    Mismatch(Mismatch),
    /// The lease is released.
    Released,
}

impl LeaseState {
    /// Returns the initial state of a copy of this server. The copy is an unrecognized server, which knows
    /// the registry and has the evidence but holds no lease.
    pub fn of_an_unrecognized_server(self) -> LeaseState {
        LeaseState { held: None, asking: None, ..self }
    }

    /// Replaces the registry by `last`, the registry that granted the last lease of this server according to
    /// the server's database. The database may be newer than the file, because replication continued after
    /// the file was copied.
    pub fn of_last_registry(self, last: Option<(Uuid, i64)>) -> LeaseState {
        match last {
            Some((id, _)) if self.registry_id != Some(id) => {
                LeaseState { registry_id: Some(id), evidence: vec![], ..self }
            }
            _ => self,
        }
    }

    /// Returns the current lease if the lease has not ended at `now_us` and the server has evidence of the
    /// lease.
    pub fn lease_at(&self, now_us: i64) -> Option<Lease> {
        let held = self.held.as_ref().filter(|_| self.is_proved());
        held.map(|held| held.lease).filter(|lease| now_us < lease.until_us)
    }

    /// Returns whether the server has to request another identity.
    pub fn has_to_acquire(&self, needs: &Needs) -> bool {
        self.held.as_ref().is_none_or(|held| !needs.are_met_by(held.lease.identity))
    }

    /// Starts a request for an identity, or repeats the current request. The caller must store the state
    /// before sending the request.
    pub fn ask(&mut self, mut new_token: impl FnMut() -> Uuid) -> Asking {
        self.asking.get_or_insert_with(|| Asking { lease_id: new_token(), nonce: new_token() }).clone()
    }

    /// Records that the requested lease was granted. The caller must store the state before using the lease.
    pub fn hold(&mut self, lease: Lease, mut new_token: impl FnMut() -> Uuid) {
        if let Some(Asking { lease_id, nonce }) = self.asking.take() {
            self.held = Some(Held { lease, lease_id, last_nonce: nonce, next_nonce: new_token() });
        }
    }

    /// Records that the lease was renewed. The caller must store the state before using the lease. A renewal
    /// never shortens a lease.
    pub fn renew(&mut self, lease: Lease, mut new_token: impl FnMut() -> Uuid) {
        if let Some(held) = &mut self.held {
            held.lease.until_us = held.lease.until_us.max(lease.until_us);
            held.last_nonce = std::mem::replace(&mut held.next_nonce, new_token());
        }
    }

    /// Records evidence of the current lease, and removes outdated evidence.
    pub fn prove(&mut self, token: String, now_us: i64) {
        let Some(held) = &self.held else { return };
        let lease = held.lease;
        self.evidence.retain(|it| {
            !it.lease.is_same_range(&lease) && it.lease.until_us.saturating_add(TOLD_FOR_US) > now_us
        });
        self.evidence.push(Evidence { lease, token });
        // Evidence of the current lease comes first, because a lease cannot be used without evidence.
        self.evidence
            .sort_by_key(|it| (!it.lease.is_same_range(&lease), std::cmp::Reverse(it.lease.until_us)));
        self.evidence.truncate(MOST_EVIDENCE);
    }

    /// Returns whether the server has evidence of the current lease. A lease is not used without evidence,
    /// because a registry that has lost the lease can learn of the grant only from the evidence.
    pub fn is_proved(&self) -> bool {
        let is_known = |held: &Held| self.evidence.iter().any(|it| it.lease.is_same_range(&held.lease));
        self.held.as_ref().is_some_and(is_known)
    }

    /// Records the ID of the registry that granted or renewed a lease.
    pub fn note(&mut self, registry_id: Uuid) {
        self.registry_id = Some(registry_id);
    }
}
