//! The pure step of the generator: which values come next, given what was handed out, the clock and the
//! limit.
//!
//! A **counter** is `tick << sequence_bits | sequence`, the next free value, one integer that only grows. The
//! other fields are put in when a value becomes an ID. So carrying into the next tick is `+ 1`, a batch is
//! `+ n`, and "the larger of the counter and the clock" is the whole algorithm.

use std::num::NonZeroU64;

use crate::error::RangeError;
use crate::field::Field;
use crate::identity::Identity;
use crate::layout::Layout;
use crate::slot_key::SlotKey;

/// 146,000 years: any `max_ahead`, and small enough that a time since the epoch plus it stays in 64 bits.
const MAX_AHEAD_US: u64 = 1 << 62;

/// Values that belong to the caller alone: `count` of them from `first` on, as counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "reserved values that are not used are lost"]
pub struct Reservation {
    pub(crate) first: u64,
    pub(crate) count: u64,
}

impl Reservation {
    /// How many values were reserved: at least 1, at most as many as were asked for.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The counter after the last value: the first that is still free.
    pub(crate) fn next(&self) -> u64 {
        self.first + self.count
    }
}

/// Why no value can be had now. Nothing was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stall {
    /// The gate is closed, or open for another identity, which is given.
    Identity(Option<Identity>),
    /// The next value would be too far ahead of the clock. It is allowed after this many microseconds (at
    /// least 1) by the clock that was passed in.
    Ahead {
        /// Microseconds to wait.
        wait_us: u64,
    },
    /// The horizon is reached: somebody has to extend it.
    Horizon,
    /// The layout has no further tick. This does not pass.
    Exhausted,
    /// The clock stands before the layout's epoch, by this many microseconds.
    BeforeEpoch {
        /// Microseconds to the epoch.
        wait_us: u64,
    },
}

/// A layout together with all that decides about its next value, except for the shared state and the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generator {
    layout: Layout,
    identity: Identity,
    /// The fields that are the same in every ID, in place.
    identity_bits: u64,
    /// The value of the clock sequence, as it stands in the words of slots: see [`SlotKey::word`].
    value_bits: u64,
    sequence_bits: u32,
    max_ahead_us: u64,
    /// `sequence_spread`, as far as the layout's sequence reaches.
    spread: u64,
}

impl Generator {
    /// A generator for `layout`.
    ///
    /// `max_ahead_us`: how far the start of a tick in use may be ahead of the clock, in microseconds.
    /// `sequence_spread`: a tick that is entered by the clock (and not by counting on from the tick before)
    /// starts its sequence at a value from 0 to this that depends on the tick. Otherwise almost all IDs made
    /// at a low rate would have sequence 0, and IDs that are spread over shards by hash or modulo would all
    /// fall to a few. 0 turns it off; what exceeds the sequence field is cut down to its largest value.
    ///
    /// # Errors
    /// [`RangeError::Field`] if the identity does not fit the layout.
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

    /// The same generator, for IDs with this value of the clock sequence.
    ///
    /// # Panics
    /// If the layout has no room for it.
    pub fn with_clock_seq(mut self, value: u8) -> Generator {
        assert!(value <= self.layout.max_clock_seq(), "bug: clock_seq {value} does not fit {}", self.layout);
        let shift = self.layout.shift(Field::ClockSeq);
        self.identity_bits &= !(self.layout.max(Field::ClockSeq) << shift);
        self.identity_bits |= u64::from(value) << shift;
        self.value_bits = SlotKey::at(&self.layout, value).word(value, 0);
        self
    }

    /// Whether the value of the clock sequence is another one than 0.
    #[inline]
    pub(crate) fn has_value(&self) -> bool {
        self.value_bits != 0
    }

    /// The counter in the word of a slot. One with another value of the clock sequence is past the end of the layout, where
    /// [`Generator::advance`] takes nothing.
    #[inline]
    pub fn counter_of(&self, word: u64) -> u64 {
        word ^ self.value_bits
    }

    /// The word of a slot that holds a counter.
    #[inline]
    pub(crate) fn word_of(&self, counter: u64) -> u64 {
        counter ^ self.value_bits
    }

    /// The layout of the IDs.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The identity that the IDs carry.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// Decides which values come next: `n` of them, or as many as are allowed now, at least one.
    ///
    /// `current` is the counter as it was loaded, `now_us` the clock (microseconds of Unix time) read after
    /// that, `limit` the horizon: the first tick that may not be used. The values are the caller's once it
    /// has exchanged `current` for what comes after the last of them.
    ///
    /// # Errors
    /// The reason why not even one value is allowed, as a [`Stall`].
    #[inline(always)] // It runs once per ID; a result in memory costs a nanosecond.
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
        // In this order, the product is that of a tick of the layout, and cannot overflow.
        if last_tick < limit
            && last_tick < self.layout.ticks()
            && last_tick * self.layout.unit_us() <= elapsed_us + self.max_ahead_us
        {
            return Ok(Reservation { first, count: n.get() });
        }
        self.advance_partly(first, elapsed_us, limit, n)
    }

    /// How long (microseconds by the clock that is passed in) it takes until the last of `n` values is
    /// allowed, if nobody else takes any. Tells beforehand that a wait is hopeless.
    ///
    /// # Errors
    /// [`Stall::Exhausted`] if the layout has no `n` values left, [`Stall::BeforeEpoch`].
    pub fn wait_us(&self, current: u64, now_us: i64, n: NonZeroU64) -> Result<u64, Stall> {
        let elapsed_us = self.elapsed(now_us)?;
        let first = self.first_free(current, elapsed_us)?;
        let last_tick = first.saturating_add(n.get() - 1) >> self.sequence_bits;
        if last_tick >= self.layout.ticks() {
            return Err(Stall::Exhausted);
        }
        Ok((last_tick * self.layout.unit_us()).saturating_sub(elapsed_us + self.max_ahead_us))
    }

    /// Microseconds since the epoch.
    #[inline]
    fn elapsed(&self, now_us: i64) -> Result<u64, Stall> {
        let epoch_us = self.layout.epoch_us();
        if now_us < epoch_us {
            return Err(Stall::BeforeEpoch { wait_us: epoch_us.abs_diff(now_us) });
        }
        Ok(now_us.abs_diff(epoch_us))
    }

    /// The larger of the counter and the clock. Only a call that finds the clock in a later tick than the
    /// counter pays for a division.
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

    /// Where a tick that is entered by the clock starts its sequence: Fibonacci hashing of the tick, scaled
    /// to 0 to `spread`.
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

    /// The IDs of a reservation that this generator made, in increasing order.
    pub fn ids(&self, reservation: Reservation) -> impl Iterator<Item = i64> + use<> {
        let generator = *self;
        (reservation.first..reservation.next()).map(move |counter| generator.id(counter))
    }

    /// The first ID of a reservation that this generator made.
    #[inline]
    pub fn first_id(&self, reservation: Reservation) -> i64 {
        self.id(reservation.first)
    }

    /// Turns a counter below the layout's end into an ID.
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
