//! [`Leased`]: the generator under one lease.
//!
//! Every ID starts in the leased range, whatever the clock shows: the slot starts at the start of the
//! range, and its horizon is the end. A renewal moves the horizon. [`Leased::end`] is a fence: when it has
//! returned, no call that started before can succeed.

use std::num::NonZeroU64;

use snowflake_id_core::{Gate, Generator, Lease, RangeError, Reservation, Slot, SlotKey, Stall};

use crate::options::Options;

/// The generator under one lease.
pub struct Leased {
    slot: Slot,
    gate: Gate,
    generator: Generator,
    key: SlotKey,
    lease: Lease,
    /// The counter at which the slot started.
    first: u64,
}

impl Leased {
    /// Creates the generator. Its IDs start at `floor_us` or later, and in the range of the lease.
    ///
    /// # Errors
    /// Returns an error if the identity does not fit the layout.
    pub fn new(options: &Options, lease: &Lease, floor_us: i64) -> Result<Leased, RangeError> {
        let max_ahead_us = options.max_ahead.as_micros() as u64;
        let generator =
            Generator::new(options.layout, lease.identity, max_ahead_us, options.sequence_spread)?;
        let key = SlotKey::of(&options.layout);
        let first = key.first_counter_from(lease.from_us.max(floor_us));
        let slot = Slot::new(first, key.first_tick_from(lease.until_us));
        let gate = Gate::default();
        gate.open(lease.identity);
        Ok(Leased { slot, gate, generator, key, lease: *lease, first })
    }

    /// Extends the range after a renewal.
    pub fn extend(&self, until_us: i64) {
        self.slot.set_horizon(self.key.first_tick_from(until_us));
    }

    /// Takes up to `n` IDs.
    #[inline]
    pub fn reserve(&self, options: &Options, n: NonZeroU64) -> Result<Reservation, Stall> {
        self.slot.reserve(&self.gate, &self.generator, || options.now_us(), n)
    }

    /// The generator, which converts a reservation to IDs.
    #[inline]
    pub fn generator(&self) -> &Generator {
        &self.generator
    }

    /// Returns whether this is the generator of the range of a lease.
    pub fn is_of(&self, lease: &Lease) -> bool {
        self.lease.is_same_range(lease)
    }

    /// The lease, as it was granted: [`Leased::extend`] does not change its end.
    pub fn lease(&self) -> Lease {
        self.lease
    }

    /// The time by which the next ID would be ahead of a clock, in microseconds. The result is negative if
    /// the clock has passed.
    pub fn ahead_us(&self, now_us: i64) -> i64 {
        self.key.tick_us(self.slot.word()).saturating_sub(now_us)
    }

    /// Ends the use of the lease, and returns the instant up to which it was used, in microseconds of Unix
    /// time: every ID starts before it.
    pub fn end(&self) -> i64 {
        let raised = self.gate.fence([(&self.slot, |word| word)]);
        match raised.first() {
            Some(&(next, _)) if next > self.first => self.key.end_of_use_us(next).max(self.lease.from_us),
            _ => self.lease.from_us,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
    use std::thread;

    use super::*;
    use snowflake_id_core::Identity;

    const FROM_US: i64 = 1_795_000_000_000_000;
    const ONE: NonZeroU64 = NonZeroU64::MIN;

    fn lease(until_us: i64) -> Lease {
        Lease { identity: Identity { datacenter: 0, worker: 3 }, from_us: FROM_US, until_us }
    }

    fn at(now_us: i64) -> Options {
        Options::new("").clock(move || now_us)
    }

    /// IDs start in the range, whatever the clock shows.
    #[test]
    fn ids_stay_in_the_range() {
        let until_us = FROM_US + 10_000_000;
        let leased = Leased::new(&at(0), &lease(until_us), i64::MIN).unwrap();
        let time = |reservation: Reservation| {
            let id = leased.generator().first_id(reservation);
            leased.generator().layout().time_of(id).unwrap()
        };
        assert!(matches!(leased.reserve(&at(FROM_US - 5_000_000), ONE), Err(Stall::Ahead { .. })));
        assert!(time(leased.reserve(&at(FROM_US - 500_000), ONE).unwrap()) >= FROM_US);
        assert!(time(leased.reserve(&at(until_us - 1), ONE).unwrap()) < until_us);
        assert_eq!(leased.reserve(&at(until_us), ONE), Err(Stall::Horizon));
        leased.extend(until_us + 10_000_000);
        assert!(time(leased.reserve(&at(until_us), ONE).unwrap()) >= until_us);
    }

    /// The used range ends after the last ID, and before the next one could start.
    #[test]
    fn the_end_of_use() {
        let unused = Leased::new(&at(0), &lease(FROM_US + 10_000_000), i64::MIN).unwrap();
        assert_eq!(unused.end(), FROM_US);
        let leased = Leased::new(&at(0), &lease(FROM_US + 10_000_000), i64::MIN).unwrap();
        let now_us = FROM_US + 3_000_500;
        let many = NonZeroU64::new(10_000).unwrap();
        let last = leased.generator().ids(leased.reserve(&at(now_us), many).unwrap()).last().unwrap();
        let last_us = leased.generator().layout().time_of(last).unwrap();
        assert_eq!(leased.end(), last_us + 1);
        assert_eq!(leased.reserve(&at(now_us), ONE), Err(Stall::Identity(None)));
    }

    /// No call succeeds after the end, and every ID is before the instant that was returned.
    #[test]
    fn calls_beside_the_end() {
        for _ in 0..200 {
            let now = Arc::new(AtomicI64::new(FROM_US));
            let clock = now.clone();
            let options = Options::new("").clock(move || clock.fetch_add(100, Ordering::Relaxed));
            let leased = Leased::new(&options, &lease(FROM_US + 3_600_000_000), i64::MIN).unwrap();
            let has_started = AtomicBool::new(false);
            thread::scope(|scope| {
                let threads: Vec<_> = (0..3)
                    .map(|_| {
                        scope.spawn(|| {
                            let mut last = 0;
                            while let Ok(reservation) = leased.reserve(&options, ONE) {
                                last = leased.generator().first_id(reservation);
                                has_started.store(true, Ordering::Relaxed);
                            }
                            last
                        })
                    })
                    .collect();
                while !has_started.load(Ordering::Relaxed) {
                    thread::yield_now();
                }
                let used_until_us = leased.end();
                for thread in threads {
                    let last = thread.join().unwrap();
                    if last > 0 {
                        let last_us = leased.generator().layout().time_of(last).unwrap();
                        assert!(last_us < used_until_us);
                    }
                }
            });
        }
    }
}
