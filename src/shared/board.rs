//! What the keeper, the backends and administrators tell each other: one type for each writer.
//!
//! Times are microseconds of Unix time; 0 means none. No word is used to order another unless it says so:
//! Relaxed does for the rest.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicPtr, AtomicU8, AtomicU64, Ordering};

use pgrx::pg_sys;
use snowflake_id_core::clock_sequence::{Begun, MAX_VALUE, PastValues, ValueHorizon, ValueUses};
use snowflake_id_core::keeper_plan::Past;
use snowflake_id_core::{Identity, Lease};

use super::order_desk::OrderDesk;
use super::wait::Signal;

/// All of it.
#[derive(Default)]
pub struct Board {
    pub past: PastWords,
    pub keeper: KeeperWords,
    pub values: ValueWords,
    /// That of the keeper.
    pub bell: Bell,
    /// That of the registry worker.
    pub registry_bell: Bell,
    pub orders: OrderDesk,
    /// Sent by the keeper when it has looked after everything.
    pub looks: Signal,
}

impl Board {
    /// From when on a layout could have another value of the clock sequence than the one in use, if the highest that it
    /// can have is `max_value`.
    pub fn another_value_from_us(&self, max_value: u8) -> Option<i64> {
        let from_us = self.values.free_from_us(max_value)?.max(self.keeper.lease_begins_us());
        (from_us < self.keeper.until_us()).then_some(from_us)
    }
}

/// What the server knows of its own past, whatever becomes of what is stored. Written by the keeper alone.
/// Outlives the shared memory: see [`super::past`].
#[derive(Default)]
pub struct PastWords {
    published_us: AtomicI64,
    promised_us: AtomicI64,
    highest_us: AtomicI64,
    last_identity: AtomicU64,
    /// Where the horizon was stored last: the OIDs of a database and of a relation in it; 0 if nowhere yet.
    place: AtomicU64,
    /// The clock less the time since boot when they were last found to agree; 0 if never.
    clock_offset_us: AtomicI64,
    /// The horizons of the value of the clock sequence, each with its value: see [`PastValues`] and
    /// [`ValueHorizon::to_word`].
    value_published: AtomicI64,
    value_promised: AtomicI64,
}

impl PastWords {
    /// All that the server knows. The promise is read before the last identity: see
    /// [`PastWords::begin_anew`].
    pub fn snapshot(&self) -> Past {
        let published_us = self.published_us();
        let promised_us = self.promised_us.load(Ordering::Acquire);
        Past {
            published_us,
            promised_us,
            highest_us: self.highest_us.load(Ordering::Acquire),
            last_identity: self.last_identity(),
        }
    }

    /// The horizon that was published last: slots to come end there.
    pub fn published_us(&self) -> i64 {
        self.published_us.load(Ordering::Acquire)
    }

    /// Release: who sees a horizon sees all that was done to make it durable.
    pub(super) fn set_published(&self, horizon_us: i64) {
        self.published_us.store(horizon_us, Ordering::Release);
    }

    /// Notes a horizon before it is stored. Whoever stores facts anew, because the old ones were dropped
    /// meanwhile, thus knows of every horizon that may yet be published.
    pub fn promise(&self, horizon_us: i64) {
        self.promised_us.fetch_max(horizon_us, Ordering::AcqRel);
        self.note_high(horizon_us);
    }

    /// Notes how far IDs may have come that were made before all that is known here.
    pub fn note_high(&self, instant_us: i64) {
        self.highest_us.fetch_max(instant_us, Ordering::AcqRel);
    }

    /// The highest horizon is a lower one from now on: nothing was, or will be, used beyond it.
    pub fn lower_promise(&self, horizon_us: i64) {
        self.promised_us.store(horizon_us, Ordering::Release);
    }

    /// The same two for the value of the clock sequence.
    pub fn values(&self) -> PastValues {
        PastValues {
            published: ValueHorizon::from_word(self.value_published.load(Ordering::Acquire)),
            promised: ValueHorizon::from_word(self.value_promised.load(Ordering::Acquire)),
        }
    }

    /// As [`PastWords::set_published`].
    pub(super) fn set_value_published(&self, horizon: ValueHorizon) {
        self.value_published.store(horizon.to_word(), Ordering::Release);
    }

    /// As [`PastWords::promise`]. The promise for another value is forgotten: that is not going to be used any more, or
    /// never was.
    pub fn promise_value(&self, horizon: ValueHorizon) {
        self.note_high(horizon.until_us());
        let known = self.values().promised;
        if known.until_us_of(horizon.value()) <= horizon.until_us() {
            self.lower_value_promise(horizon);
        }
    }

    /// As [`PastWords::lower_promise`].
    pub fn lower_value_promise(&self, horizon: ValueHorizon) {
        self.value_promised.store(horizon.to_word(), Ordering::Release);
    }

    /// Everything begins anew, below what the last identity was used for. That goes before the promise, so
    /// that nobody finds it with the low one (see [`PastWords::snapshot`]): after a loss the last identity
    /// alone goes on above the promise.
    pub(super) fn begin_anew(&self, horizon_us: i64) {
        self.last_identity.store(Identity::NOBODY, Ordering::Release);
        self.lower_value_promise(ValueHorizon::NONE);
        self.set_value_published(ValueHorizon::NONE);
        self.lower_promise(horizon_us);
        self.set_published(horizon_us);
    }

    pub fn last_identity(&self) -> Option<Identity> {
        Identity::from_word(self.last_identity.load(Ordering::Acquire))
    }

    pub fn set_last_identity(&self, identity: Identity) {
        self.last_identity.store(identity.to_word(), Ordering::Release);
    }

    /// The OIDs of the database and of the relation where the horizon was stored last.
    pub fn place(&self) -> Option<(u32, u32)> {
        match self.place.load(Ordering::Acquire) {
            0 => None,
            word => Some(((word >> 32) as u32, word as u32)),
        }
    }

    pub fn set_place(&self, database: u32, relation: u32) {
        self.place.store(u64::from(database) << 32 | u64::from(relation), Ordering::Release);
    }

    /// The clock less the time since boot when they were last found to agree.
    pub fn clock_offset_us(&self) -> Option<i64> {
        Some(self.clock_offset_us.load(Ordering::Relaxed)).filter(|&offset_us| offset_us != 0)
    }

    pub fn set_clock_offset(&self, offset_us: i64) {
        self.clock_offset_us.store(offset_us, Ordering::Relaxed);
    }

    /// Takes over all that another copy says.
    pub(super) fn copy_from(&self, other: &PastWords) {
        let pairs = [
            (&self.published_us, &other.published_us),
            (&self.promised_us, &other.promised_us),
            (&self.highest_us, &other.highest_us),
            (&self.clock_offset_us, &other.clock_offset_us),
            (&self.value_published, &other.value_published),
            (&self.value_promised, &other.value_promised),
        ];
        for (to, from) in pairs {
            to.store(from.load(Ordering::Acquire), Ordering::Release);
        }
        self.last_identity.store(other.last_identity.load(Ordering::Acquire), Ordering::Release);
        self.place.store(other.place.load(Ordering::Acquire), Ordering::Release);
    }

    /// Nothing is known, but the clock.
    pub(super) const fn at_start(clock_offset_us: i64) -> PastWords {
        PastWords {
            published_us: AtomicI64::new(0),
            promised_us: AtomicI64::new(0),
            highest_us: AtomicI64::new(0),
            last_identity: AtomicU64::new(Identity::NOBODY),
            place: AtomicU64::new(0),
            clock_offset_us: AtomicI64::new(clock_offset_us),
            value_published: AtomicI64::new(0),
            value_promised: AtomicI64::new(0),
        }
    }
}

/// What the keeper tells. Written by the keeper alone.
#[derive(Default)]
pub struct KeeperWords {
    /// Where slots begin: the horizon that was found at the start, or a later floor.
    pub floor_us: AtomicI64,
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
    /// The range of the lease for which the gate was opened last: see [`Lease`]. Written before it is opened.
    lease_from_us: AtomicI64,
    lease_until_us: AtomicI64,
    /// The number of the news of the registry worker (see [`super::lease`]) with whose lease nothing can be done, so
    /// that another identity is needed; 0 if none is.
    pub another_needed_after: AtomicU64,
}

/// The values of the clock sequence. All but what is asked for is written by the keeper alone.
pub struct ValueWords {
    /// The value in use, and where its slots begin: see [`Begun`]. Written under the exclusive lock of the directory.
    value: AtomicU8,
    floor_us: AtomicI64,
    /// Up to when each value may have been used under the identity in use, as it is recorded; 0: not at all. Hints
    /// and figures for people: the keeper decides by what is stored.
    ends_us: [AtomicI64; MAX_VALUE as usize + 1],
    /// The highest value that the layout of a call can have which waits for the clock; 0 if none does. Written by
    /// calls, taken by the keeper.
    asked: AtomicU8,
}

impl Default for ValueWords {
    fn default() -> ValueWords {
        ValueWords {
            value: AtomicU8::new(0),
            floor_us: AtomicI64::new(0),
            ends_us: std::array::from_fn(|_| AtomicI64::new(0)),
            asked: AtomicU8::new(0),
        }
    }
}

impl ValueWords {
    /// The value in use; 0 if there is no other one.
    pub fn value(&self) -> u8 {
        self.value.load(Ordering::Acquire)
    }

    /// The same, with where its slots begin.
    pub fn begun(&self) -> Begun {
        Begun { value: self.value(), floor_us: self.floor_us.load(Ordering::Acquire) }
    }

    pub(super) fn begin(&self, begun: Begun) {
        self.floor_us.store(begun.floor_us, Ordering::Release);
        self.value.store(begun.value, Ordering::Release);
    }

    /// Asks the keeper for another value.
    pub fn ask(&self, max_value: u8) {
        self.asked.store(max_value, Ordering::Release);
    }

    /// What was asked for; 0 if nothing was.
    pub fn take_asked(&self) -> u8 {
        self.asked.swap(0, Ordering::AcqRel)
    }

    /// Notes up to when each value was used.
    pub fn note_ends(&self, identity: Identity, uses: &ValueUses) {
        for (value, end_us) in (0..=MAX_VALUE).zip(&self.ends_us).skip(1) {
            end_us.store(uses.until_us(identity, value), Ordering::Relaxed);
        }
    }

    /// The values that were used, each with the end of that. The one in use has no end.
    pub fn used(&self) -> impl Iterator<Item = (u8, i64)> {
        let ends = (0..=MAX_VALUE).zip(&self.ends_us).skip(1);
        ends.map(|(value, end_us)| (value, end_us.load(Ordering::Relaxed))).filter(|&(_, end_us)| end_us > 0)
    }

    /// When the first value is free that a layout can have; `None` if it can have none but the one in use.
    pub fn free_from_us(&self, max_value: u8) -> Option<i64> {
        let in_use = self.value();
        let others = (1..=max_value).filter(|&value| value != in_use);
        others.map(|value| self.ends_us[usize::from(value)].load(Ordering::Relaxed)).min()
    }
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

impl KeeperWords {
    /// Where slots begin, once the keeper has found that out.
    pub fn floor_us(&self) -> Option<i64> {
        Some(self.floor_us.load(Ordering::Acquire)).filter(|&floor_us| floor_us != 0)
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
        Lease { identity, from_us: self.lease_begins_us(), until_us: self.until_us() }
    }

    /// Where the times begin that the lease allows.
    fn lease_begins_us(&self) -> i64 {
        self.lease_from_us.load(Ordering::Acquire)
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

/// How a background worker is woken.
#[derive(Default)]
pub struct Bell {
    /// Set by whoever has asked for the worker, cleared by the worker: one waker is enough.
    is_wanted: AtomicBool,
    /// Written by the worker, as is its latch.
    pid: AtomicI32,
    latch: AtomicPtr<pg_sys::Latch>,
}

impl Bell {
    /// Called by the worker when it starts. False if there is one already.
    pub fn answer_from_here(&self) -> bool {
        // SAFETY: plain variables of this process; the latch is in shared memory and is never freed.
        let (pid, latch) = unsafe { (pg_sys::MyProcPid, pg_sys::MyLatch) };
        let is_first = self.pid.compare_exchange(0, pid, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if is_first {
            self.latch.store(latch, Ordering::Release);
            self.is_wanted.store(false, Ordering::Relaxed);
        }
        is_first
    }

    /// Called by the worker when it ends.
    pub fn answer_no_more(&self) {
        self.latch.store(std::ptr::null_mut(), Ordering::Release);
        self.pid.store(0, Ordering::Relaxed);
    }

    /// The process of the worker, if there is one.
    pub fn pid(&self) -> Option<i32> {
        Some(self.pid.load(Ordering::Relaxed)).filter(|&pid| pid != 0)
    }

    /// Asks for the worker.
    pub fn ring(&self) {
        let latch = self.latch.load(Ordering::Acquire);
        if !latch.is_null() && !self.is_wanted.swap(true, Ordering::AcqRel) {
            // SAFETY: latches of processes live in shared memory as long as the server. If the worker has
            // ended in the meantime, somebody else may own this one, and is woken for nothing.
            unsafe { pg_sys::SetLatch(latch) };
        }
    }

    /// Whether somebody has asked, and the worker has not begun to look since.
    pub fn is_wanted(&self) -> bool {
        self.is_wanted.load(Ordering::Relaxed)
    }

    /// Whether somebody has asked since the last time.
    pub fn take_wanted(&self) -> bool {
        self.is_wanted.swap(false, Ordering::AcqRel)
    }
}
