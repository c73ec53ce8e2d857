//! The pure function of the generator, which determines the next values from the values issued so far, the
//! clock and the limit.
//!
//! A **counter** is a single integer that only grows: `tick << sequence_bits | sequence` of the next free
//! value. The other fields are added when a value becomes an ID. Carrying into the next tick is therefore
//! `+ 1`, a batch is `+ n`, and "the larger of the counter and the clock" is the whole algorithm.

use std::num::NonZeroU64;

use crate::error::RangeError;
use crate::field::Field;
use crate::identity::Identity;
use crate::layout::Layout;
use crate::slot_key::SlotKey;

/// The limit of `max_ahead_us`: 2^62 µs, about 146,000 years. The limit is larger than any `max_ahead`. The
/// sum of the limit and the time since the epoch still fits in 64 bits.
const MAX_AHEAD_US: u64 = 1 << 62;

/// Values reserved for one caller: `count` consecutive counters, starting with `first`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "reserved values that are not used are lost"]
pub struct Reservation {
    pub(crate) first: u64,
    pub(crate) count: u64,
}

impl Reservation {
    /// The number of reserved values: at least 1, at most the number requested.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the counter that follows the last reserved value.
    pub(crate) fn next(&self) -> u64 {
        self.first + self.count
    }
}

/// The reason why no value is available now. No value was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stall {
    /// The gate is closed, or is open for another identity. Contains the identity of the gate, if it is open.
    Identity(Option<Identity>),
    /// The next value would be too far ahead of the clock.
    Ahead {
        /// The time until the value is allowed, in microseconds, relative to the clock passed in. The time is
        /// at least 1 µs.
        wait_us: u64,
    },
    /// The horizon is reached, and must be extended before more values can be taken.
    Horizon,
    /// The layout has no further tick. Waiting does not help.
    Exhausted,
    /// The clock is before the epoch of the layout.
    BeforeEpoch {
        /// Microseconds until the epoch.
        wait_us: u64,
    },
}

/// A layout and all other parameters that determine its next value, except the shared state and the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generator {
    layout: Layout,
    identity: Identity,
    /// The fields that are the same in every ID, shifted to their positions.
    identity_bits: u64,
    /// The value of the clock sequence, at its position in the word of a slot: see [`SlotKey::word`].
    value_bits: u64,
    sequence_bits: u32,
    max_ahead_us: u64,
    /// `sequence_spread`, limited to the largest sequence of the layout.
    spread: u64,
}

impl Generator {
    /// Creates a generator for `layout`.
    ///
    /// `max_ahead_us` is how far the start of a tick may be ahead of the clock, in microseconds.
    ///
    /// `sequence_spread` is the highest sequence at which a tick may start when the clock enters the tick.
    /// The tick determines its first sequence, from 0 to `sequence_spread`. A tick that is entered because
    /// the previous tick is full starts at sequence 0. Without a spread, almost all IDs created at a low rate
    /// would have sequence 0, and sharding by hash or modulo would place all of them on a few shards. 0 turns
    /// the spread off. A spread larger than the largest sequence of the layout is reduced to that sequence.
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

    /// Returns the same generator for IDs with this value of the clock sequence.
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

    /// Returns whether the value of the clock sequence is not 0.
    #[inline]
    pub(crate) fn has_value(&self) -> bool {
        self.value_bits != 0
    }

    /// Returns the counter in the word of a slot. If the word has another value of the clock sequence, the
    /// result is past the end of the layout, so [`Generator::advance`] reserves no values.
    #[inline]
    pub fn counter_of(&self, word: u64) -> u64 {
        word ^ self.value_bits
    }

    /// Returns the word of a slot that holds a counter.
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

    /// Returns the next `n` values, or fewer if not all of them are allowed now, but at least one.
    ///
    /// `current` is the counter. `now_us` is the clock in microseconds of Unix time, read after the counter
    /// was loaded. `limit` is the horizon: the first tick that may not be used. The caller owns the values
    /// once it has replaced `current` with the counter that follows the last value.
    ///
    /// # Errors
    /// Returns a [`Stall`] that states why no value is allowed.
    #[inline(always)] // This runs once per ID; returning the result in memory would cost 1 ns.
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

    /// Returns the time until the last of `n` values is allowed, in microseconds, provided that no other
    /// caller takes values. The caller can use this time to decide in advance that a wait would take too
    /// long.
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

    /// Returns the larger of the counter and the clock. The division is done only if the clock is in a later
    /// tick than the counter.
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

    /// Returns the first sequence of a tick that the clock enters: Fibonacci hashing of the tick, scaled to 0
    /// to `spread`.
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
