//! The atomics that all processes of a server share, and the rules by which they are used.
//!
//! A [`Slot`] is the state of one layout, the [`Gate`] that of the server. **Fence** is the one primitive
//! with which somebody else than a caller of [`Slot::reserve`] interferes: close the gate, raise the counter
//! of every slot by at least one, act, open the gate. After the raise no attempt that began before the fence
//! can succeed any more:
//!
//! * An attempt loads the counter *first*, then the gate. If it loaded the counter before the raise, its
//!   exchange finds another word and fails; no word returns from which anything was, or could be, taken.
//! * If it loaded the counter after the raise (Acquire of a value that was written, directly or by later
//!   exchanges, on top of the Release of the raise), it happens after the closing of the gate and sees the
//!   gate closed.
//!
//! `tests/loom.rs` checks this over all interleavings.

use std::num::NonZeroU64;

use crate::generator::{Generator, Reservation, Stall};
use crate::identity::Identity;

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
    /// Lets calls with this identity through. Release: they see what was written before, such as raised
    /// counters.
    ///
    /// # Panics
    /// If no layout has room for the identity.
    pub fn open(&self, identity: Identity) {
        assert!(identity.is_possible(), "bug: no layout has room for {identity:?}");
        self.0.store(identity.to_word(), Ordering::Release);
    }

    /// Lets no call through.
    pub fn close(&self) {
        self.0.store(Identity::NOBODY, Ordering::Release);
    }

    /// The identity for which the gate is open.
    pub fn identity(&self) -> Option<Identity> {
        Identity::from_word(self.0.load(Ordering::Acquire))
    }

    fn is_open_for(&self, identity: Identity) -> bool {
        self.0.load(Ordering::Acquire) == identity.to_word()
    }

    /// Closes the gate and raises the counter of every slot by at least one, and at least to what the
    /// function beside it makes of the counter. When this returns, no attempt that began before will succeed,
    /// and none that begins until [`Gate::open`]. Returns for each slot the counter before and after: what
    /// lies before the first was handed out, or skipped earlier; what lies between the two never will be.
    pub fn fence<'a, F: Fn(u64) -> u64>(
        &self,
        slots: impl IntoIterator<Item = (&'a Slot, F)>,
    ) -> Vec<(u64, u64)> {
        self.close();
        slots.into_iter().map(|(slot, floor)| slot.raise(floor)).collect()
    }
}

/// The state of one layout, shared by all processes of a server.
///
/// It fills two cache lines: the processor fetches lines in pairs, so that neighbours closer than 128 bytes
/// would slow each other down. Counter and horizon share a line on purpose: every attempt needs both, and the
/// horizon changes rarely.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct Slot {
    /// The next free value, as `tick << sequence_bits | sequence`, and above it the value of the clock sequence: see
    /// [`SlotKey::word`](crate::SlotKey::word). Written by attempts and fences, both by exchange; with one value it only
    /// grows.
    word: AtomicU64,
    /// The first tick that may not be used. Written by the owner of the horizon.
    horizon: AtomicU64,
}

impl Slot {
    /// A slot that holds this word first, and whose ticks end before `horizon`.
    pub fn new(word: u64, horizon: u64) -> Slot {
        Slot { word: AtomicU64::new(word), horizon: AtomicU64::new(horizon) }
    }

    /// The next free value, with that of the clock sequence: a snapshot.
    pub fn word(&self) -> u64 {
        self.word.load(Ordering::Acquire)
    }

    /// The first tick that may not be used: a snapshot.
    #[inline]
    pub fn horizon(&self) -> u64 {
        self.horizon.load(Ordering::Relaxed)
    }

    /// Makes the slot that of a layout. Only while no process knows it yet: neither value is compared with
    /// the old one.
    pub fn assign(&self, word: u64, horizon: u64) {
        self.horizon.store(horizon, Ordering::Release);
        self.word.store(word, Ordering::Release);
    }

    /// Goes over to another value of the clock sequence: an attempt with the former one succeeds no more. Nothing may be
    /// used until a horizon is set: whoever sees the new word does not see the horizon of the former value.
    pub fn change_value(&self, word: u64) {
        self.horizon.store(0, Ordering::Release);
        self.word.swap(word, Ordering::AcqRel);
    }

    /// Sets the first tick that may not be used.
    pub fn set_horizon(&self, tick: u64) {
        self.horizon.store(tick, Ordering::Release);
    }

    /// Reserves `n` values in one exchange, or as many as are allowed now.
    ///
    /// The order of the loads is part of the proof at the head of this module: the counter first, then gate
    /// and horizon, then the clock. A failed exchange starts over with all of them. Some attempt succeeded
    /// each time one fails, so that all processes together never stand still.
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
        match generator.has_value() {
            false => self.reserve_by::<false>(gate, generator, clock, n),
            true => self.reserve_with_value(gate, generator, clock, n),
        }
    }

    #[cold] // Rare, and so that the others do not pay for it.
    fn reserve_with_value(
        &self,
        gate: &Gate,
        generator: &Generator,
        clock: impl Fn() -> i64,
        n: NonZeroU64,
    ) -> Result<Reservation, Stall> {
        self.reserve_by::<true>(gate, generator, clock, n)
    }

    #[inline(always)]
    fn reserve_by<const HAS_VALUE: bool>(
        &self,
        gate: &Gate,
        generator: &Generator,
        clock: impl Fn() -> i64,
        n: NonZeroU64,
    ) -> Result<Reservation, Stall> {
        loop {
            let word = self.word.load(Ordering::Acquire);
            if !gate.is_open_for(generator.identity()) {
                return Err(Stall::Identity(gate.identity()));
            }
            let limit = self.horizon.load(Ordering::Acquire);
            let counter = if HAS_VALUE { generator.counter_of(word) } else { word };
            let reservation = generator.advance(counter, clock(), limit, n)?;
            let next = if HAS_VALUE { generator.word_of(reservation.next()) } else { reservation.next() };
            // AcqRel: whoever loads the new value sees what this process saw (a closed gate, above all).
            let exchanged = self.word.compare_exchange_weak(word, next, Ordering::AcqRel, Ordering::Relaxed);
            if exchanged.is_ok() {
                return Ok(reservation);
            }
        }
    }

    /// Raises the counter by at least one and at least to what `floor` makes of it; of words, which keep their value of
    /// the clock sequence. Returns the word as it was and as it is. No attempt that loaded the word before succeeds any
    /// more; without a fence others may follow.
    pub fn raise(&self, floor: impl Fn(u64) -> u64) -> (u64, u64) {
        let mut current = self.word.load(Ordering::Acquire);
        loop {
            let raised = floor(current).max(current + 1);
            match self.word.compare_exchange_weak(current, raised, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return (current, raised),
                Err(found) => current = found,
            }
        }
    }
}
