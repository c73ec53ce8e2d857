//! The state that the keeper publishes about itself. Only the keeper writes this state, except for `is_restored`.
//!
//! Times are in microseconds of Unix time. A time of 0 means that there is no such time.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, Ordering};

use snowflake_id_core::left::Left;
use snowflake_id_core::{Identity, Lease};
use uuid::Uuid;

/// The words of the keeper.
#[derive(Default)]
pub struct KeeperWords {
    /// The start time of the current commit of a horizon.
    pub committing_since_us: AtomicI64,
    /// The length of a forward clock jump that the keeper does not follow, in microseconds.
    pub clock_jump_us: AtomicI64,
    /// The offset of the clock as of the last cycle, in microseconds, or 0 before the first cycle.
    pub last_clock_offset_us: AtomicI64,
    /// True if the running keeper has completed a cycle. Until then, the keeper may be unable to extend the
    /// horizon.
    pub has_succeeded: AtomicBool,
    /// The reason why the gate is closed, as a [`Closed`].
    closed: AtomicU8,
    /// True if the extension was created by restoring a dump. The session that creates the extension sets this flag.
    pub is_restored: AtomicBool,
    /// A [`Misfit`] if the server's default layout cannot issue IDs, and 0 otherwise.
    misfit: AtomicU8,
    /// The start of the [`Lease`] for which the gate was last opened. The keeper writes the lease before it
    /// opens the gate.
    lease_from_us: AtomicI64,
    lease_until_us: AtomicI64,
    /// The number of the lease status (see [`super::lease`]) if the keeper cannot use its lease, or otherwise 0. As long
    /// as the lease status has this number, the registry worker requests another identity.
    pub another_needed_after: AtomicU64,
    /// The identity in the server's row in table `snowflake_workers`, encoded by [`Identity::to_word`].
    row: AtomicU64,
    /// The identities that are set by hand, except those that were left to a registry.
    by_hand: [AtomicU64; 2],
    /// The ID of the registry from which the server last leased an identity, or 0 if there is none.
    last_registry: [AtomicU64; 2],
    /// The time at which the server moved to `last_registry`.
    moved_at_us: AtomicI64,
    /// True if the server is a copy that was made before the move to `last_registry`, and has not leased an identity
    /// from that registry yet.
    is_old_copy: AtomicBool,
    /// True once `set_identities` has been called.
    is_identity_known: AtomicBool,
}

/// The reason why the gate is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Closed {
    /// The keeper has not completed its first cycle, or has exited.
    Starting = 0,
    /// Neither the settings nor table `snowflake_workers` specifies an identity.
    NoWorkerId = 1,
    /// The report contains the problem that keeps the gate closed.
    Problem = 2,
    /// The registry has not granted an identity.
    NoLease = 3,
    /// The identity is refused, because another server may use it, or because this server may already have issued IDs
    /// under it. The report contains the reason.
    Refused = 4,
}

/// The reason why the server's default layout cannot issue IDs: either a part of the identity is too large, or the
/// clock is outside the time range of the layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Misfit {
    Worker = 1,
    Datacenter = 2,
    /// The clock is before the epoch.
    Epoch = 3,
    /// The clock is past the last tick.
    End = 4,
}

impl KeeperWords {
    pub fn misfit(&self) -> Option<Misfit> {
        match self.misfit.load(Ordering::Relaxed) {
            1 => Some(Misfit::Worker),
            2 => Some(Misfit::Datacenter),
            3 => Some(Misfit::Epoch),
            4 => Some(Misfit::End),
            _ => None,
        }
    }

    pub fn set_misfit(&self, misfit: Option<Misfit>) {
        self.misfit.store(misfit.map_or(0, |misfit| misfit as u8), Ordering::Relaxed);
    }

    pub fn closed(&self) -> Closed {
        match self.closed.load(Ordering::Relaxed) {
            1 => Closed::NoWorkerId,
            2 => Closed::Problem,
            3 => Closed::NoLease,
            4 => Closed::Refused,
            _ => Closed::Starting,
        }
    }

    pub fn set_closed(&self, why: Closed) {
        self.closed.store(why as u8, Ordering::Relaxed);
    }

    /// Returns the lease of the identity for which the gate is open. If the identity is not leased, the lease covers
    /// all times.
    pub fn lease_of(&self, identity: Identity) -> Lease {
        let std::ops::Range { start: from_us, end: until_us } = self.range_us();
        Lease { identity, from_us, until_us }
    }

    /// Returns the range of times for which the lease is valid, in microseconds of Unix time.
    pub fn range_us(&self) -> std::ops::Range<i64> {
        self.lease_from_us.load(Ordering::Acquire)..self.until_us()
    }

    /// Returns the end of the lease in microseconds of Unix time, or `i64::MAX` if the lease has no end.
    pub fn until_us(&self) -> i64 {
        match self.lease_until_us.load(Ordering::Acquire) {
            0 => i64::MAX,
            until_us => until_us,
        }
    }

    pub(super) fn set_lease(&self, lease: &Lease) {
        self.lease_from_us.store(lease.from_us, Ordering::Release);
        self.lease_until_us.store(lease.until_us, Ordering::Release);
    }

    /// Publishes the identities that are set by hand, and the last registry of the server.
    pub fn set_identities(&self, by_hand: [Option<Identity>; 2], left: &Left, is_old_copy: bool) {
        let word = |identity: Option<Identity>| identity.map_or(Identity::NOBODY, Identity::to_word);
        self.row.store(word(by_hand[1]), Ordering::Relaxed);
        for (stored, identity) in self.by_hand.iter().zip(by_hand) {
            let identity = identity.filter(|&identity| left.get(identity).is_none());
            stored.store(word(identity), Ordering::Relaxed);
        }
        let id = left.latest().map_or(Uuid::nil(), |latest| latest.registry_id);
        let (high, low) = id.as_u64_pair();
        self.last_registry[0].store(high, Ordering::Relaxed);
        self.last_registry[1].store(low, Ordering::Relaxed);
        self.moved_at_us.store(left.moved_at_us().unwrap_or(0), Ordering::Relaxed);
        self.is_old_copy.store(is_old_copy, Ordering::Relaxed);
        self.is_identity_known.store(true, Ordering::Release);
    }

    /// Returns whether [`KeeperWords::set_identities`] was called since the server was started.
    pub fn is_identity_known(&self) -> bool {
        self.is_identity_known.load(Ordering::Acquire)
    }

    /// Returns whether the server is a copy that was made before the move to its last registry, and has not leased an
    /// identity from that registry yet.
    pub fn is_old_copy(&self) -> bool {
        self.is_old_copy.load(Ordering::Relaxed)
    }

    /// Returns the identity in the server's row, as of the last read.
    pub fn row(&self) -> Option<Identity> {
        Identity::from_word(self.row.load(Ordering::Relaxed))
    }

    /// Returns the identities that are set by hand, except those that were left to a registry.
    pub fn by_hand(&self) -> Vec<Identity> {
        let words = self.by_hand.iter().map(|word| word.load(Ordering::Relaxed));
        let mut identities: Vec<_> = words.filter_map(Identity::from_word).collect();
        identities.dedup();
        identities
    }

    /// Returns the registry from which the server last leased an identity, and the time at which the server moved to
    /// that registry, in microseconds of Unix time.
    pub fn last_registry(&self) -> Option<(Uuid, i64)> {
        let [high, low] = &self.last_registry;
        let id = Uuid::from_u64_pair(high.load(Ordering::Relaxed), low.load(Ordering::Relaxed));
        (!id.is_nil()).then(|| (id, self.moved_at_us.load(Ordering::Relaxed)))
    }

    /// Returns how long the current commit has been in progress, in microseconds.
    pub fn committing_for_us(&self, now_us: i64) -> Option<u64> {
        match self.committing_since_us.load(Ordering::Relaxed) {
            0 => None,
            since_us => Some(now_us.saturating_sub(since_us).max(0).unsigned_abs()),
        }
    }
}
