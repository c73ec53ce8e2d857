//! The atomics that all processes of a server share, and the rules for using them.
//!
//! A [`Slot`] holds the state of one layout. The [`Gate`] holds the state of the server. A **fence** is the
//! only primitive by which other code interferes with callers of [`Slot::reserve`]. A fence closes the gate
//! and raises the counter of every slot by at least one. The other code then makes its changes and opens the
//! gate. After the counters are raised, no attempt that started before the fence can succeed:
//!
//! * An attempt loads the counter *first*, then the gate. If the attempt loaded the counter before the raise,
//!   its exchange finds another word and fails. A slot never returns to a word from which values could have
//!   been taken.
//! * If the attempt loaded the counter after the raise, it sees that the gate is closed. Its load (Acquire)
//!   read a value that was written by the raise (Release) or by an exchange after the raise. The load
//!   therefore happens after the gate was closed.
//!
//! `tests/loom.rs` checks this over all interleavings.

use std::num::NonZeroU64;

use crate::generator::{Generator, Reservation, Stall};
use crate::identity::Identity;

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering};

/// One word: the identity for which IDs may be generated. While the gate is closed, the word holds no
/// identity, and no IDs may be generated.
///
/// The word is written by the process that runs a fence, and read by every attempt.
#[derive(Debug, Default)]
pub struct Gate(AtomicU64);

impl Gate {
    /// Opens the gate for calls with this identity. Release: these calls see everything that was written
    /// before, such as raised counters.
    ///
    /// # Panics
    /// Panics if the identity does not fit any layout.
    pub fn open(&self, identity: Identity) {
        assert!(identity.is_possible(), "bug: no layout has room for {identity:?}");
        self.0.store(identity.to_word(), Ordering::Release);
    }

    /// Closes the gate for all calls.
    pub fn close(&self) {
        self.0.store(Identity::NOBODY, Ordering::Release);
    }

    /// Returns the identity for which the gate is open, if it is open.
    pub fn identity(&self) -> Option<Identity> {
        Identity::from_word(self.0.load(Ordering::Acquire))
    }

    fn is_open_for(&self, identity: Identity) -> bool {
        self.0.load(Ordering::Acquire) == identity.to_word()
    }

    /// Closes the gate, and raises the counter of every slot by at least one, and at least to the value that
    /// the function of the slot returns. After this function has returned, no attempt succeeds unless it
    /// starts after the next [`Gate::open`].
    ///
    /// Returns the counter of each slot before and after the raise. Values below the first counter were
    /// issued or skipped earlier. Values between the two counters will never be issued.
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
/// A slot fills two cache lines. The processor fetches lines in pairs, so neighbors closer than 128 bytes
/// would slow each other down. Counter and horizon share a line on purpose: every attempt needs both, and the
/// horizon rarely changes.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct Slot {
    /// The next free value, as `tick << sequence_bits | sequence`, and above it the value of the clock
    /// sequence: see [`SlotKey::word`](crate::SlotKey::word). Attempts and fences write the word by atomic
    /// exchanges. As long as the value of the clock sequence stays the same, the word only grows.
    word: AtomicU64,
    /// The first tick that may not be used. Only the owner of the horizon writes this field.
    horizon: AtomicU64,
}

impl Slot {
    /// Creates a slot with this word. The ticks that may be used end before `horizon`.
    pub fn new(word: u64, horizon: u64) -> Slot {
        Slot { word: AtomicU64::new(word), horizon: AtomicU64::new(horizon) }
    }

    /// Returns a snapshot of the next free value, with the value of the clock sequence.
    pub fn word(&self) -> u64 {
        self.word.load(Ordering::Acquire)
    }

    /// Returns a snapshot of the first tick that may not be used.
    #[inline]
    pub fn horizon(&self) -> u64 {
        self.horizon.load(Ordering::Relaxed)
    }

    /// Assigns the slot to a layout. This function must be called while no other process knows the slot,
    /// because it overwrites the old word and horizon without comparing them.
    pub fn assign(&self, word: u64, horizon: u64) {
        self.horizon.store(horizon, Ordering::Release);
        self.word.store(word, Ordering::Release);
    }

    /// Switches to another value of the clock sequence. Attempts with the former value fail from then on. The
    /// horizon is cleared first, so a process that sees the new word never sees the horizon of the former
    /// value. Until a horizon is set, no value may be taken.
    pub fn change_value(&self, word: u64) {
        self.horizon.store(0, Ordering::Release);
        self.word.swap(word, Ordering::AcqRel);
    }

    /// Sets the first tick that may not be used.
    pub fn set_horizon(&self, tick: u64) {
        self.horizon.store(tick, Ordering::Release);
    }

    /// Reserves `n` values in one exchange, or fewer if fewer are currently allowed.
    ///
    /// The counter is loaded first, then the gate and the horizon, and then the clock. The proof at the top
    /// of this module depends on this order. After a failed exchange, all of them are loaded again. Whenever
    /// an exchange fails, another one has succeeded, so the processes together always make progress.
    ///
    /// # Errors
    /// A [`Stall`] with the reason why no value is allowed. No value was taken.
    #[inline(always)] // For the same reason as Generator::advance.
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

    #[cold] // A value other than 0 is rare, and must not slow down the common case.
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
            // With AcqRel, a process that loads the new word sees everything that this process saw, in
            // particular a closed gate.
            let exchanged = self.word.compare_exchange_weak(word, next, Ordering::AcqRel, Ordering::Relaxed);
            if exchanged.is_ok() {
                return Ok(reservation);
            }
        }
    }

    /// Raises the word by at least one, and at least to the word that `floor` returns for it. `floor` must
    /// not change the value of the clock sequence in the word. Returns the words before and after the raise.
    /// Attempts that loaded the word before the raise fail. Without a fence, later attempts can succeed.
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
