//! The atomic words that the processes of a server share for generating IDs, and the rules for using these
//! words.
//!
//! A [`Slot`] holds the state of one layout. The [`Gate`] states whether the server may issue IDs, and under
//! which identity. All code that must stop the callers of [`Slot::reserve`] uses a **fence**. A fence closes
//! the gate and raises the counter of every slot by at least one. The process that runs the fence then makes
//! its changes, and opens the gate. The following rules ensure that no attempt that started before the fence
//! can succeed after the counters have been raised:
//!
//! * An attempt loads the counter *before* the gate. If the attempt loaded the counter before the raise, its
//!   exchange finds another word and fails. A word from which values could have been taken is never stored in
//!   the slot again.
//! * If the attempt loaded the counter after the raise, it sees that the gate is closed. In this case, the
//!   load (Acquire) reads a value written by the raise (Release) or by a later exchange. Therefore the gate
//!   was closed before the load.
//!
//! `tests/loom.rs` checks this with up to three preemptions.

use std::num::NonZeroU64;

use crate::atomic::{AtomicU64, Ordering};
use crate::generator::{Generator, Reservation, Stall};
use crate::identity::Identity;

/// The identity under which IDs may be generated, in one word. While the gate is closed, the word contains no
/// identity, and no IDs may be generated.
///
/// The process that runs a fence writes the word, and every attempt reads the word.
#[derive(Debug, Default)]
pub struct Gate(AtomicU64);

impl Gate {
    /// Opens the gate for `identity`. The store uses Release, so that a process that finds the gate open also
    /// sees all earlier writes, such as raised counters.
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

    /// Closes the gate, and raises the counter of every slot by at least one. Each counter is raised at least
    /// to the value that the function given for the slot returns. Attempts that start before the next
    /// [`Gate::open`] cannot succeed after this function has returned.
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
/// would slow each other down. The counter and the horizon are on the same cache line, because every attempt
/// needs both and the horizon rarely changes.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct Slot {
    /// The low bits contain the next free value as `tick << sequence_bits | sequence`. The high bits contain
    /// the value of the clock sequence (see [`SlotKey::word`](crate::SlotKey::word)). Attempts and fences
    /// write the word by atomic exchanges. As long as the value of the clock sequence stays the same, the
    /// word only grows.
    word: AtomicU64,
    /// The first tick that may not be used. Only the owner of the horizon writes this field.
    horizon: AtomicU64,
}

impl Slot {
    /// Creates a slot with the given word. `horizon` is the first tick that may not be used.
    pub fn new(word: u64, horizon: u64) -> Slot {
        Slot { word: AtomicU64::new(word), horizon: AtomicU64::new(horizon) }
    }

    /// Returns a snapshot of the word, which contains the next free value and the value of the clock
    /// sequence.
    pub fn word(&self) -> u64 {
        self.word.load(Ordering::Acquire)
    }

    /// Returns a snapshot of the first tick that may not be used.
    #[inline]
    pub fn horizon(&self) -> u64 {
        self.horizon.load(Ordering::Relaxed)
    }

    /// Assigns the slot to a layout. No other process may know the slot during this call, because the word
    /// and the horizon are overwritten unconditionally.
    pub fn assign(&self, word: u64, horizon: u64) {
        self.horizon.store(horizon, Ordering::Release);
        self.word.store(word, Ordering::Release);
    }

    /// Switches the slot to another value of the clock sequence. Later attempts with the former value fail.
    /// The horizon is cleared before the word is replaced. A process that sees the new word therefore never
    /// sees the horizon of the former value. No value may be taken until a horizon is set.
    pub fn change_value(&self, word: u64) {
        self.horizon.store(0, Ordering::Release);
        self.word.swap(word, Ordering::AcqRel);
    }

    /// Sets the first tick that may not be used.
    pub fn set_horizon(&self, tick: u64) {
        self.horizon.store(tick, Ordering::Release);
    }

    /// Reserves up to `n` values in one exchange. Fewer values are reserved if fewer are currently allowed.
    ///
    /// The counter is loaded first, then the gate and the horizon, and then the clock. The proof at the top
    /// of this module depends on this order. After a failed exchange, these values are loaded again. An
    /// exchange fails only if the exchange of another process has succeeded, so at least one process always
    /// makes progress.
    ///
    /// # Errors
    /// Returns a [`Stall`] that states why no value is allowed. In this case, no value has been taken.
    #[inline(always)] // The reason is the same as for Generator::advance.
    pub fn reserve(
        &self,
        gate: &Gate,
        generator: &Generator,
        clock: impl Fn() -> i64,
        n: NonZeroU64,
    ) -> Result<Reservation, Stall> {
        let advance = |counter, now_us, limit| generator.advance(counter, now_us, limit, n);
        match generator.has_value() {
            false => self.reserve_by::<false>(gate, generator, clock, advance),
            true => self.reserve_with_value(gate, generator, clock, advance),
        }
    }

    /// Reserves `n` values of the same tick in one exchange (see [`Generator::advance_block`]).
    ///
    /// # Errors
    /// Returns a [`Stall`] that states why the values are not allowed. In this case, no value has been taken.
    pub fn reserve_block(
        &self,
        gate: &Gate,
        generator: &Generator,
        clock: impl Fn() -> i64,
        n: NonZeroU64,
    ) -> Result<Reservation, Stall> {
        self.reserve_by::<true>(gate, generator, clock, |counter, now_us, limit| {
            generator.advance_block(counter, now_us, limit, n)
        })
    }

    #[cold] // Clock sequences other than 0 are rare, and must not slow down the common case.
    fn reserve_with_value(
        &self,
        gate: &Gate,
        generator: &Generator,
        clock: impl Fn() -> i64,
        advance: impl Fn(u64, i64, u64) -> Result<Reservation, Stall>,
    ) -> Result<Reservation, Stall> {
        self.reserve_by::<true>(gate, generator, clock, advance)
    }

    /// Reserves the values that `advance` returns for the counter, the clock and the horizon. `HAS_VALUE`
    /// must be true if the clock sequence of the generator has a value other than 0.
    #[inline(always)]
    fn reserve_by<const HAS_VALUE: bool>(
        &self,
        gate: &Gate,
        generator: &Generator,
        clock: impl Fn() -> i64,
        advance: impl Fn(u64, i64, u64) -> Result<Reservation, Stall>,
    ) -> Result<Reservation, Stall> {
        loop {
            let word = self.word.load(Ordering::Acquire);
            if !gate.is_open_for(generator.identity()) {
                return Err(Stall::Identity(gate.identity()));
            }
            let limit = self.horizon.load(Ordering::Acquire);
            let counter = if HAS_VALUE { generator.counter_of(word) } else { word };
            let reservation = advance(counter, clock(), limit)?;
            let next = if HAS_VALUE { generator.word_of(reservation.next()) } else { reservation.next() };
            // AcqRel ensures that a process that loads the new word sees all writes that this process has
            // seen, such as the closing of the gate.
            let exchanged = self.word.compare_exchange_weak(word, next, Ordering::AcqRel, Ordering::Relaxed);
            if exchanged.is_ok() {
                return Ok(reservation);
            }
        }
    }

    /// Raises the word of the slot by at least one, and at least to the result of `floor(word)`. `floor` must
    /// not change the value of the clock sequence in the word. Returns the old word and the new word.
    /// Attempts that loaded the old word fail. Later attempts can succeed unless the gate is closed.
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
