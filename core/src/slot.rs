//! The atomics that all processes of a server share, and the rules by which they are used.
//!
//! A [`Slot`] is the state of one layout, the [`Gate`] that of the server. **Fence** is the one primitive with which
//! somebody else than a caller of [`Slot::reserve`] interferes: close the gate, raise the counter of every slot by at
//! least one, act, open the gate. After the raise no attempt that began before the fence can succeed any more:
//!
//! * An attempt loads the counter *first*, then the gate. If it loaded the counter before the raise, its exchange finds
//!   another value and fails; the counter never returns to an earlier value.
//! * If it loaded the counter after the raise (Acquire of a value that was written, directly or by later exchanges, on
//!   top of the Release of the raise), it happens after the closing of the gate and sees the gate closed.
//!
//! `tests/loom.rs` checks this over all interleavings.

use std::num::NonZeroU64;

use crate::generator::{Generator, Identity, Reservation, Stall};
use crate::layout::{Field, Layout, MAX_IDENTITY_BITS};

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering};

/// One word: who may generate. Empty, it is closed and nobody may.
///
/// Written by whoever runs a fence, read by every attempt.
#[derive(Debug, Default)]
pub struct Gate(AtomicU64);

impl Gate {
    /// Set in every open gate, so that datacenter 0 and worker 0 do not look like a closed one.
    const OPEN: u64 = 1 << 63;
    const CLOSED: u64 = 0;

    fn word(identity: Identity) -> u64 {
        Gate::OPEN | u64::from(identity.datacenter) << 32 | u64::from(identity.worker)
    }

    /// Lets calls with this identity through. Release: they see what was written before, such as raised counters.
    ///
    /// # Panics
    /// If a part of the identity has more than 31 bits: no layout has room for it.
    pub fn open(&self, identity: Identity) {
        let widest = identity.datacenter.max(identity.worker);
        assert!(widest >> MAX_IDENTITY_BITS == 0, "bug: no layout has room for {identity:?}");
        self.0.store(Gate::word(identity), Ordering::Release);
    }

    /// Lets no call through.
    pub fn close(&self) {
        self.0.store(Gate::CLOSED, Ordering::Release);
    }

    /// The identity for which the gate is open.
    pub fn identity(&self) -> Option<Identity> {
        let word = self.0.load(Ordering::Acquire);
        let identity = Identity { datacenter: ((word & !Gate::OPEN) >> 32) as u32, worker: word as u32 };
        (word != Gate::CLOSED).then_some(identity)
    }

    fn is_open_for(&self, identity: Identity) -> bool {
        self.0.load(Ordering::Acquire) == Gate::word(identity)
    }

    /// Closes the gate and raises the counter of every slot by at least one, and at least to what the function beside it
    /// makes of the counter. When this returns, no attempt that began before will succeed, and none that begins until
    /// [`Gate::open`].
    pub fn fence<'a, F: Fn(u64) -> u64>(&self, slots: impl IntoIterator<Item = (&'a Slot, F)>) {
        self.close();
        for (slot, floor) in slots {
            slot.raise(floor);
        }
    }
}

/// What decides which number a counter becomes. Layouts with the same key share a slot: `worker:10` and
/// `datacenter:5 worker:5` give the same numbers, so that two counters would give them twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotKey {
    pub(crate) epoch_us: i64,
    pub(crate) unit_us: u64,
    pub(crate) time_shift: u32,
    sequence_shift: u32,
    pub(crate) sequence_bits: u32,
}

impl SlotKey {
    /// The key of a layout. The width of the time field is not part of it: it only says when the layout ends.
    pub fn of(layout: &Layout) -> SlotKey {
        SlotKey {
            epoch_us: layout.epoch_us(),
            unit_us: layout.unit_us(),
            time_shift: layout.shift(Field::Time),
            sequence_shift: layout.shift(Field::Sequence),
            sequence_bits: layout.bits(Field::Sequence),
        }
    }
}

/// The state of one layout, shared by all processes of a server.
///
/// It fills two cache lines: the processor fetches lines in pairs, so that neighbours closer than 128 bytes would slow
/// each other down. Counter and horizon share a line on purpose: every attempt needs both, and the horizon changes
/// rarely.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct Slot {
    /// The next free value, as `tick << sequence_bits | sequence`. Written by attempts and fences, both by exchange;
    /// it only grows.
    counter: AtomicU64,
    /// The first tick that may not be used. Written by the owner of the horizon.
    horizon: AtomicU64,
}

impl Slot {
    /// A slot whose first value is `counter` and whose ticks end before `horizon`.
    pub fn new(counter: u64, horizon: u64) -> Slot {
        Slot { counter: AtomicU64::new(counter), horizon: AtomicU64::new(horizon) }
    }

    /// The next free value: a snapshot.
    pub fn counter(&self) -> u64 {
        self.counter.load(Ordering::Acquire)
    }

    /// The first tick that may not be used: a snapshot.
    #[inline]
    pub fn horizon(&self) -> u64 {
        self.horizon.load(Ordering::Relaxed)
    }

    /// Makes the slot that of a layout. Only while no process knows it yet: neither value is compared with the old one.
    pub fn assign(&self, counter: u64, horizon: u64) {
        self.horizon.store(horizon, Ordering::Release);
        self.counter.store(counter, Ordering::Release);
    }

    /// Sets the first tick that may not be used.
    pub fn set_horizon(&self, tick: u64) {
        self.horizon.store(tick, Ordering::Release);
    }

    /// Reserves `n` values in one exchange, or as many as are allowed now.
    ///
    /// The order of the loads is part of the proof at the head of this module: the counter first, then gate and horizon,
    /// then the clock. A failed exchange starts over with all of them. Some attempt succeeded each time one fails, so
    /// that all processes together never stand still.
    ///
    /// # Errors
    /// A [`Stall`]; then nothing was taken.
    #[inline(always)] // As Generator::advance.
    pub fn reserve(
        &self,
        gate: &Gate,
        generator: &Generator,
        clock: impl Fn() -> i64,
        n: NonZeroU64,
    ) -> Result<Reservation, Stall> {
        loop {
            let current = self.counter.load(Ordering::Acquire);
            if !gate.is_open_for(generator.identity()) {
                return Err(Stall::Identity(gate.identity()));
            }
            let limit = self.horizon.load(Ordering::Acquire);
            let reservation = generator.advance(current, clock(), limit, n)?;
            // AcqRel: whoever loads the new value sees what this process saw (a closed gate, above all).
            let exchanged = self.counter.compare_exchange_weak(
                current,
                reservation.next(),
                Ordering::AcqRel,
                Ordering::Relaxed,
            );
            if exchanged.is_ok() {
                return Ok(reservation);
            }
        }
    }

    /// Raises the counter by at least one and at least to what `floor` makes of it.
    fn raise(&self, floor: impl Fn(u64) -> u64) {
        let mut current = self.counter.load(Ordering::Acquire);
        while let Err(found) = self.counter.compare_exchange_weak(
            current,
            floor(current).max(current + 1),
            Ordering::AcqRel,
            Ordering::Acquire,
        ) {
            current = found;
        }
    }
}
