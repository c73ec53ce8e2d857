//! The arithmetic of the generator. A generator computes the next values from the counter, the clock and the
//! limit. The computation has no side effects.
//!
//! A **counter** is a single integer that only grows: `tick << sequence_bits | sequence` of the next free
//! value. The other fields are added when a counter is converted to an ID. Therefore, adding 1 also moves
//! from a full tick to the next tick, and adding `n` reserves a batch. The whole algorithm is to continue at
//! the counter or at the clock, whichever is larger.

use std::num::NonZeroU64;

use crate::error::RangeError;
use crate::field::Field;
use crate::identity::Identity;
use crate::layout::Layout;
use crate::slot_key::SlotKey;

/// The limit of `max_ahead_us`: 2^62 µs, about 146,000 years. The limit is larger than any `max_ahead`. The
/// sum of the limit and the time since the epoch still fits in 64 bits.
const MAX_AHEAD_US: u64 = 1 << 62;

/// A range of `count` consecutive counters, starting with `first`, that is reserved for one caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "reserved values that are not used are lost"]
pub struct Reservation {
    pub(crate) first: u64,
    pub(crate) count: u64,
}

impl Reservation {
    /// Returns the number of reserved values. The number is at least 1, and at most the number requested.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the counter that follows the last reserved value.
    pub(crate) fn next(&self) -> u64 {
        self.first + self.count
    }
}

/// The reason why no value is available now. No value has been taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stall {
    /// The gate is closed, or is open for another identity. The value is the identity of the gate, or `None`
    /// if the gate is closed.
    Identity(Option<Identity>),
    /// The next value would be too far ahead of the clock.
    Ahead {
        /// The time from the caller's `now_us` until the value is allowed, in microseconds. This time is at
        /// least 1 µs.
        wait_us: u64,
    },
    /// The counter has reached the horizon. The horizon must be extended before more values can be taken.
    Horizon,
    /// The layout has no further tick. Waiting does not help.
    Exhausted,
    /// The clock is before the epoch of the layout.
    BeforeEpoch {
        /// Microseconds until the epoch.
        wait_us: u64,
    },
}

/// A layout with the parameters for generating its IDs. The shared state and the clock are not included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generator {
    layout: Layout,
    identity: Identity,
    /// The fields that are the same in every ID, shifted to their positions.
    identity_bits: u64,
    /// The value of the clock sequence, shifted to its position in the word of a slot (see
    /// [`SlotKey::word`]).
    value_bits: u64,
    sequence_bits: u32,
    max_ahead_us: u64,
    /// The smaller of `sequence_spread` and the largest sequence of the layout.
    spread: u64,
}

impl Generator {
    /// Creates a generator for `layout`.
    ///
    /// `max_ahead_us` is the maximum time by which the start of a tick may be ahead of the clock, in
    /// microseconds.
    ///
    /// `sequence_spread` is the highest sequence at which a tick may start when the clock enters the tick.
    /// The first sequence of such a tick is computed from the tick, and is between 0 and `sequence_spread`.
    /// If a tick is entered because the previous tick is full, the tick starts at sequence 0. Without a
    /// spread, almost all IDs created at a low rate would have sequence 0, and sharding by hash or modulo
    /// would place all of them on a few shards. A `sequence_spread` of 0 turns the spread off. A spread
    /// larger than the largest sequence of the layout is reduced to that sequence.
    ///
    /// # Errors
    /// Returns [`RangeError::Field`] if the identity does not fit the layout.
    pub fn new(
        layout: Layout,
        identity: Identity,
        max_ahead_us: u64,
        sequence_spread: u32,
    ) -> Result<Generator, RangeError> {
        let identity_bits = layout.pack(&crate::layout::Parts {
            datacenter: identity.datacenter.into(),
            worker: identity.worker.into(),
            ..Default::default()
        })?;
        Ok(Generator {
            layout,
            identity,
            identity_bits: identity_bits as u64,
            value_bits: 0,
            sequence_bits: layout.bits(Field::Sequence),
            max_ahead_us: max_ahead_us.min(MAX_AHEAD_US),
            spread: u64::from(sequence_spread).min(layout.max(Field::Sequence)),
        })
    }

    /// Returns a copy of the generator that sets the clock sequence field to `value`.
    ///
    /// # Panics
    /// Panics if the value does not fit the layout.
    pub fn with_clock_seq(mut self, value: u8) -> Generator {
        assert!(value <= self.layout.max_clock_seq(), "bug: clock_seq {value} does not fit {}", self.layout);
        let shift = self.layout.shift(Field::ClockSeq);
        self.identity_bits &= !(self.layout.max(Field::ClockSeq) << shift);
        self.identity_bits |= u64::from(value) << shift;
        self.value_bits = SlotKey::at(&self.layout, value).word(value, 0);
        self
    }

    /// Returns whether the clock sequence of the generator has a value other than 0.
    #[inline]
    pub(crate) fn has_value(&self) -> bool {
        self.value_bits != 0
    }

    /// Extracts the counter from the word of a slot. If the word contains a clock sequence value other than
    /// the generator's, the function returns a counter past the end of the layout. [`Generator::advance`]
    /// then reserves no values.
    #[inline]
    pub fn counter_of(&self, word: u64) -> u64 {
        word ^ self.value_bits
    }

    /// Returns the word that a slot contains for the given counter.
    #[inline]
    pub(crate) fn word_of(&self, counter: u64) -> u64 {
        counter ^ self.value_bits
    }

    /// The layout of the IDs.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The identity in the IDs.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// Returns the next values of the layout: as many as are allowed now, at least 1 and at most `n`.
    ///
    /// `current` is the counter. `now_us` is the clock in microseconds of Unix time, read after the counter
    /// was loaded. `limit` is the horizon: the first tick that may not be used. To take the values, the
    /// caller must replace `current` with the counter that follows the last value.
    ///
    /// # Errors
    /// Returns a [`Stall`] that states why no value is allowed.
    #[inline(always)] // This function runs for every ID, and returning the result in memory would take 1 ns.
    pub fn advance(
        &self,
        current: u64,
        now_us: i64,
        limit: u64,
        n: NonZeroU64,
    ) -> Result<Reservation, Stall> {
        let elapsed_us = self.elapsed(now_us)?;
        let first = self.first_free(current, elapsed_us)?;
        let last_tick = first.saturating_add(n.get() - 1) >> self.sequence_bits;
        // The product cannot overflow, because it is evaluated only if `last_tick` is a tick of the layout.
        if last_tick < limit
            && last_tick < self.layout.ticks()
            && last_tick * self.layout.unit_us() <= elapsed_us + self.max_ahead_us
        {
            return Ok(Reservation { first, count: n.get() });
        }
        self.advance_partly(first, elapsed_us, limit, n)
    }

    /// Returns the next `n` values of the layout, all in one tick. If the current tick has fewer values left,
    /// the values come from the next tick. The arguments and errors are those of [`Generator::advance`].
    ///
    /// `n` must be at most the number of values in a tick.
    pub fn advance_block(
        &self,
        current: u64,
        now_us: i64,
        limit: u64,
        n: NonZeroU64,
    ) -> Result<Reservation, Stall> {
        let elapsed_us = self.elapsed(now_us)?;
        let mut first = self.first_free(current, elapsed_us)?;
        let in_tick = 1 << self.sequence_bits;
        debug_assert!(n.get() <= in_tick);
        if first % in_tick + n.get() > in_tick {
            // If the clock has just entered this tick, all of its values are free. The block may therefore
            // start below the sequence that the spread has chosen.
            let entered = first != current;
            first = first.next_multiple_of(in_tick) - if entered { n.get() } else { 0 };
        }
        if first >> self.sequence_bits >= self.layout.ticks() {
            return Err(Stall::Exhausted);
        }
        self.advance_partly(first, elapsed_us, limit, n) // A tick is available as a whole or not at all.
    }

    /// Estimates how long a caller must wait for `n` values, in microseconds, if no other caller takes
    /// values. The caller can then decide not to wait at all.
    ///
    /// # Errors
    /// Returns [`Stall::Exhausted`] if fewer than `n` values of the layout are left, and
    /// [`Stall::BeforeEpoch`] if the clock is before the epoch.
    pub fn wait_us(&self, current: u64, now_us: i64, n: NonZeroU64) -> Result<u64, Stall> {
        let elapsed_us = self.elapsed(now_us)?;
        let first = self.first_free(current, elapsed_us)?;
        let last_tick = first.saturating_add(n.get() - 1) >> self.sequence_bits;
        if last_tick >= self.layout.ticks() {
            return Err(Stall::Exhausted);
        }
        Ok((last_tick * self.layout.unit_us()).saturating_sub(elapsed_us + self.max_ahead_us))
    }

    /// Returns the microseconds since the epoch.
    #[inline]
    fn elapsed(&self, now_us: i64) -> Result<u64, Stall> {
        let epoch_us = self.layout.epoch_us();
        if now_us < epoch_us {
            return Err(Stall::BeforeEpoch { wait_us: epoch_us.abs_diff(now_us) });
        }
        Ok(now_us.abs_diff(epoch_us))
    }

    /// Returns `current` if the clock is not in a later tick, and otherwise a counter in the tick of the
    /// clock. A division is needed only in the second case.
    #[inline]
    fn first_free(&self, current: u64, elapsed_us: u64) -> Result<u64, Stall> {
        let unit_us = self.layout.unit_us();
        let current_tick = current >> self.sequence_bits;
        if current_tick >= self.layout.ticks() {
            return Err(Stall::Exhausted);
        }
        if elapsed_us < (current_tick + 1) * unit_us {
            return Ok(current);
        }
        let tick = elapsed_us / unit_us;
        if tick >= self.layout.ticks() {
            return Err(Stall::Exhausted);
        }
        Ok((tick << self.sequence_bits) + self.spread_of(tick))
    }

    /// Returns the sequence at which a tick starts when the clock enters the tick. The sequence is a
    /// Fibonacci hash of the tick, scaled to the range from 0 to `spread`.
    #[inline]
    fn spread_of(&self, tick: u64) -> u64 {
        let hash = tick.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        (hash * (self.spread + 1)) >> 32
    }

    #[cold]
    fn advance_partly(
        &self,
        first: u64,
        elapsed_us: u64,
        limit: u64,
        n: NonZeroU64,
    ) -> Result<Reservation, Stall> {
        let unit_us = self.layout.unit_us();
        let reach_us = elapsed_us + self.max_ahead_us;
        let first_tick = first >> self.sequence_bits;
        if first_tick * unit_us > reach_us {
            return Err(Stall::Ahead { wait_us: first_tick * unit_us - reach_us });
        }
        if first_tick >= limit {
            return Err(Stall::Horizon);
        }
        let ticks = limit.min(self.layout.ticks()).min(reach_us / unit_us + 1);
        let free = (ticks << self.sequence_bits) - first;
        Ok(Reservation { first, count: free.min(n.get()) })
    }

    /// Returns the IDs of a reservation made by this generator, in increasing order.
    pub fn ids(&self, reservation: Reservation) -> impl Iterator<Item = i64> + use<> {
        let generator = *self;
        (reservation.first..reservation.next()).map(move |counter| generator.id(counter))
    }

    /// Returns the first ID of a reservation made by this generator.
    #[inline]
    pub fn first_id(&self, reservation: Reservation) -> i64 {
        self.id(reservation.first)
    }

    /// Converts a counter to an ID. The counter must be below the end of the layout.
    #[inline]
    fn id(&self, counter: u64) -> i64 {
        let tick = counter >> self.sequence_bits;
        let sequence = counter & self.layout.max(Field::Sequence);
        debug_assert!(tick < self.layout.ticks());
        let id = (tick << self.layout.shift(Field::Time))
            | (sequence << self.layout.shift(Field::Sequence))
            | self.identity_bits;
        id as i64
    }
}
