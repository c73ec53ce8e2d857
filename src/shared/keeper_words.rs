//! What the keeper tells of itself. Written by the keeper alone.
//!
//! Times are microseconds of Unix time; 0 means none.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, Ordering};

use snowflake_id_core::{Identity, Lease};

/// All of it.
#[derive(Default)]
pub struct KeeperWords {
    /// Since when a commit of the horizon has been under way.
    pub committing_since_us: AtomicI64,
    /// How far the clock has jumped ahead, if that is too far to be followed.
    pub clock_jump_us: AtomicI64,
    /// The clock less the time since boot at the last look.
    pub last_clock_offset_us: AtomicI64,
    /// Whether a look of the keeper that is running was successful. One that fails before that is no help to
    /// anybody.
    pub has_succeeded: AtomicBool,
    /// Why the gate is closed: a [`Closed`].
    closed: AtomicU8,
    /// Whether the extension was last created by a script that restores a dump. Written by that session.
    pub is_restored: AtomicBool,
    /// Which part of the identity is too large for the server's layout: a [`Misfit`].
    misfit: AtomicU8,
    /// The range of the lease for which the gate was opened last: see [`Lease`]. Written before it is opened.
    lease_from_us: AtomicI64,
    lease_until_us: AtomicI64,
    /// The number of the news of the registry worker (see [`super::lease`]) with whose lease nothing can be done, so
    /// that another identity is needed; 0 if none is.
    pub another_needed_after: AtomicU64,
}

/// Why the gate is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Closed {
    /// The keeper has not come so far yet, or has ended.
    Starting = 0,
    /// Neither the settings nor the table give an identity.
    NoWorkerId = 1,
    /// The report says it.
    Problem = 2,
    /// The registry has not given an identity.
    NoLease = 3,
}

/// Which part of the identity is too large for the server's layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Misfit {
    Worker = 1,
    Datacenter = 2,
}

impl KeeperWords {
    pub fn misfit(&self) -> Option<Misfit> {
        match self.misfit.load(Ordering::Relaxed) {
            1 => Some(Misfit::Worker),
            2 => Some(Misfit::Datacenter),
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
            _ => Closed::Starting,
        }
    }

    pub fn set_closed(&self, why: Closed) {
        self.closed.store(why as u8, Ordering::Relaxed);
    }

    /// The lease of an identity for which the gate is open. Without one that ends, all times are allowed.
    pub fn lease_of(&self, identity: Identity) -> Lease {
        let std::ops::Range { start: from_us, end: until_us } = self.range_us();
        Lease { identity, from_us, until_us }
    }

    /// The times that the lease allows.
    pub fn range_us(&self) -> std::ops::Range<i64> {
        self.lease_from_us.load(Ordering::Acquire)..self.until_us()
    }

    /// Where the times end that the lease allows.
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

    /// How long a commit has been under way, in microseconds.
    pub fn committing_for_us(&self, now_us: i64) -> Option<u64> {
        match self.committing_since_us.load(Ordering::Relaxed) {
            0 => None,
            since_us => Some(now_us.saturating_sub(since_us).max(0).unsigned_abs()),
        }
    }
}
