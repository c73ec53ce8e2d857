//! The shared state of a segment: ranges of numbers from which all processes of a server take numbers.
//!
//! A registry grants ranges, one writer publishes them here, and any number of callers take numbers from them. Callers
//! change a single word, which holds the generation of the current range and the count of numbers taken from it. There
//! is room for four ranges, so the next range can be present before the current range is exhausted.
//!
//! The following rules ensure that no number is ever taken twice:
//!
//! * A caller reads the word and then the range of that generation. The caller takes numbers by replacing the word in a
//!   compare-and-exchange. If the exchange succeeds, the word has not changed since it was read. The range has not
//!   changed either, because the writer overwrites a range only after the word has moved to a later generation. (If the
//!   range is overwritten while a caller reads it, the caller may read arbitrary values, but its exchange fails.)
//! * The word only grows, so a generation is repeated only after its 24 bits have wrapped around. A repeated
//!   generation would be harmful only if 16 million ranges were exhausted between the read and the exchange
//!   of one caller. Each of these ranges must be written to disk first.
//! * The writer ensures that the numbers of each range are above those of all earlier ranges.
//!
//! A segment can be reassigned to another name. Each assignment begins a new tenure. A caller passes the tenure for
//! which it takes numbers ([`Segment::take_in`]). After taking numbers, the caller drops them if the tenure has
//! changed. No range is published while a tenure begins, so a caller that sees a later range also sees the new tenure.
//! The numbers of a tenure are therefore returned only to its callers, or are lost.
//!
//! `tests/loom.rs` checks these rules with up to three preemptions.

use std::num::NonZeroU64;

use crate::atomic::{AtomicI64, AtomicU64, Ordering};

/// The number of ranges for which a segment has room, including the current range.
const RANGES: u64 = 4;
/// The number of bits that count the numbers taken from the current range. The other 24 bits of the word
/// contain the generation.
const OFFSET_BITS: u32 = 40;
const GENERATIONS: u64 = 1 << (u64::BITS - OFFSET_BITS);
/// The maximum size of a range, in numbers.
pub const MOST_NUMBERS: u64 = (1 << OFFSET_BITS) - 1;
/// The value of [`Range::ends_us`] for a range that may be used at any time.
pub const NEVER_ENDS: i64 = i64::MAX;

/// A range of numbers: `first + k * increment` for `k` from 0 to `count - 1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The lowest number.
    pub first: i64,
    /// The difference between consecutive numbers.
    pub increment: i64,
    /// The count of numbers.
    pub count: u64,
    /// The time at which the range ends, in microseconds, or [`NEVER_ENDS`]. The time is compared with the
    /// clock that is passed to [`Segment::take`].
    pub ends_us: i64,
}

impl Range {
    /// Returns the highest number, or `None` if the range is invalid. The numbers of a valid range are 0 or
    /// positive, increase, and fit a `bigint`. Their count is 1 to [`MOST_NUMBERS`].
    pub fn last(&self) -> Option<i64> {
        let is_range = self.first >= 0 && self.increment > 0 && (1..=MOST_NUMBERS).contains(&self.count);
        let steps = i64::try_from(self.count).ok()? - 1;
        is_range.then(|| steps.checked_mul(self.increment)?.checked_add(self.first)).flatten()
    }
}

/// The numbers returned by a call of [`Segment::take`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The lowest number.
    pub first: i64,
    /// The difference between consecutive numbers.
    pub increment: i64,
    /// The count of numbers, which is at least 1.
    pub count: u64,
    /// True if the caller should request the next range. Only one call per range returns `true`.
    pub is_next_wanted: bool,
}

impl Taken {
    /// Returns the numbers in increasing order.
    pub fn numbers(self) -> impl Iterator<Item = i64> {
        (0..self.count).map(move |at| self.first + at as i64 * self.increment)
    }

    /// Returns the highest number.
    pub fn last(&self) -> i64 {
        self.first + (self.count as i64 - 1) * self.increment
    }
}

/// The error for a segment that has no usable numbers or belongs to another name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dry;

/// The error for a segment that has no room for another range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// A snapshot of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The current range, or `None` if no range was ever added.
    pub current: Option<Range>,
    /// The count of numbers taken from the current range.
    pub offset: u64,
    /// The range that follows the current range, if any.
    pub next: Option<Range>,
    /// The count of numbers left in all ranges.
    pub left: u64,
    /// The count of numbers that callers have taken since the segment was created. Skipped and drained numbers do not
    /// count.
    pub issued: u64,
    /// True if the next range should be fetched: the current range is the last range of the segment, and enough of its
    /// numbers have been taken.
    pub is_next_wanted: bool,
}

impl Standing {
    /// Returns whether the segment has a number that can be taken at the time `now_us`.
    pub fn is_usable(&self, now_us: i64) -> bool {
        let current = self.current.filter(|range| self.offset < range.count);
        [current, self.next].into_iter().flatten().any(|range| range.ends_us > now_us)
    }
}

/// The stored form of one range.
#[derive(Debug)]
struct RangeWords {
    first: AtomicI64,
    increment: AtomicI64,
    count: AtomicU64,
    ends_us: AtomicI64,
    /// When this many numbers have been taken, the next range should be fetched.
    wanted_at: AtomicU64,
    /// The count of numbers in all earlier ranges.
    before: AtomicU64,
}

impl RangeWords {
    fn new() -> RangeWords {
        RangeWords {
            first: AtomicI64::new(0),
            increment: AtomicI64::new(0),
            count: AtomicU64::new(0),
            ends_us: AtomicI64::new(NEVER_ENDS),
            wanted_at: AtomicU64::new(0),
            before: AtomicU64::new(0),
        }
    }

    fn range(&self) -> Range {
        Range {
            first: self.first.load(Ordering::Relaxed),
            increment: self.increment.load(Ordering::Relaxed),
            count: self.count.load(Ordering::Relaxed),
            ends_us: self.ends_us.load(Ordering::Relaxed),
        }
    }
}

/// A word that shares no cache line with other data. The word is aligned to 128 bytes, because processors
/// fetch cache lines in pairs.
#[derive(Debug)]
#[repr(align(128))]
struct Apart(AtomicU64);

/// The ranges of one segment, shared by all processes of a server.
///
/// Every call writes the word, but the ranges rarely change. The word and the ranges are on different cache
/// lines. Therefore the ranges stay in a processor's cache when another processor changes the word.
#[derive(Debug)]
pub struct Segment {
    /// `generation << 40 | offset`. All processes write the word by a compare-and-exchange.
    word: Apart,
    /// The generation of the newest range. Only the writer of the segment changes the generation. Accesses
    /// use Release and Acquire, so a process that sees a generation also sees its range.
    newest: AtomicU64,
    /// The count of numbers that were skipped or drained. Accesses are Relaxed, because the count is used
    /// only for statistics.
    unused: AtomicU64,
    /// The count of assignments of this place to a name. Accesses are Relaxed, for the reason given at the
    /// top of this module.
    tenure: AtomicU64,
    /// The stored ranges. Only the writer of the segment changes the ranges. Accesses are Relaxed, for the
    /// reasons given at `newest` and at the top of this module.
    ranges: [RangeWords; RANGES as usize],
}

impl Default for Segment {
    fn default() -> Segment {
        Segment {
            word: Apart(AtomicU64::new(0)),
            newest: AtomicU64::new(0),
            unused: AtomicU64::new(0),
            tenure: AtomicU64::new(0),
            ranges: std::array::from_fn(|_| RangeWords::new()),
        }
    }
}

fn split(word: u64) -> (u64, u64) {
    (word >> OFFSET_BITS, word & MOST_NUMBERS)
}

fn after(generation: u64) -> u64 {
    (generation + 1) % GENERATIONS
}

impl Segment {
    fn range_words(&self, generation: u64) -> &RangeWords {
        &self.ranges[(generation % RANGES) as usize]
    }

    /// Takes `n` numbers from the current range, or all remaining numbers if fewer are left. If the current
    /// range has ended, its remaining numbers are skipped. `clock` is called only if the range has an end
    /// time.
    ///
    /// # Errors
    /// Returns [`Dry`] if no number is left. In this case, no number has been taken.
    #[inline]
    pub fn take(&self, clock: impl Fn() -> i64, n: NonZeroU64) -> Result<Taken, Dry> {
        loop {
            let word = self.word.0.load(Ordering::Acquire);
            let (generation, offset) = split(word);
            let words = self.range_words(generation);
            let range = words.range();
            let left = range.count.saturating_sub(offset);
            if left == 0 || range.ends_us != NEVER_ENDS && clock() >= range.ends_us {
                self.go_on(word, generation, left)?;
                continue;
            }
            let wanted_at = words.wanted_at.load(Ordering::Relaxed);
            let count = n.get().min(left);
            // Release orders the loads above before the exchange. A writer overwrites this range only after
            // it has seen a later generation, so the writer's stores come after these loads.
            let exchanged =
                self.word.0.compare_exchange_weak(word, word + count, Ordering::AcqRel, Ordering::Relaxed);
            if exchanged.is_ok() {
                let first = range.first + offset as i64 * range.increment;
                let is_next_wanted = offset < wanted_at && offset + count >= wanted_at;
                return Ok(Taken { first, increment: range.increment, count, is_next_wanted });
            }
        }
    }

    /// Takes numbers as [`Segment::take`] does, if `tenure` is still current. If the segment is assigned to another
    /// name during the call, the numbers are lost.
    ///
    /// # Errors
    /// Returns [`Dry`] if no number is left for the name of this tenure.
    #[inline]
    pub fn take_in(&self, tenure: u64, clock: impl Fn() -> i64, n: NonZeroU64) -> Result<Taken, Dry> {
        // The first test only avoids wasting numbers. The second test is decisive.
        if self.tenure() != tenure {
            return Err(Dry);
        }
        let taken = self.take(clock, n)?;
        if self.tenure() == tenure { Ok(taken) } else { Err(Dry) }
    }

    /// Returns the current tenure. The first assignment begins tenure 1.
    #[inline]
    pub fn tenure(&self) -> u64 {
        self.tenure.load(Ordering::Relaxed)
    }

    /// Begins a new tenure, and discards the remaining numbers. The caller must ensure that no range is published
    /// during the call.
    pub fn begin_tenure(&self) {
        self.tenure.fetch_add(1, Ordering::Relaxed);
        self.drain();
        // The last range of the former name is exhausted. Its end time must not affect the new name.
        let newest = self.newest.load(Ordering::Relaxed);
        self.range_words(newest).ends_us.store(NEVER_ENDS, Ordering::Relaxed);
    }

    /// Makes the next range the current range, and skips the remaining numbers. If the exchange fails, another process
    /// has already made this change, or has taken numbers from the current range.
    #[cold]
    fn go_on(&self, word: u64, generation: u64, left: u64) -> Result<(), Dry> {
        if self.newest.load(Ordering::Acquire) == generation {
            return Err(Dry);
        }
        let next = after(generation) << OFFSET_BITS;
        // A failed exchange needs no handling, because the caller loads the word again.
        if self.word.0.compare_exchange(word, next, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            self.unused.fetch_add(left, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Takes all remaining numbers, and returns them as ranges in ascending order, including ranges that have ended.
    /// The caller must ensure that no range is published during the call.
    ///
    /// A single exchange takes all numbers. If the ranges were emptied one by one, a caller could take a number of a
    /// later range in between. After the drained numbers are published again, that caller would get lower numbers.
    pub fn drain(&self) -> Vec<Range> {
        let newest = self.newest.load(Ordering::Relaxed);
        let end = newest << OFFSET_BITS | self.range_words(newest).range().count;
        loop {
            let word = self.word.0.load(Ordering::Acquire);
            let (mut generation, mut offset) = split(word);
            let mut drained = vec![];
            loop {
                let range = self.range_words(generation).range();
                let count = range.count.saturating_sub(offset);
                if count > 0 {
                    let first = range.first + offset as i64 * range.increment;
                    drained.push(Range { first, count, ..range });
                }
                if generation == newest {
                    break;
                }
                (generation, offset) = (after(generation), 0);
            }
            if self.word.0.compare_exchange(word, end, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                let count = drained.iter().map(|range| range.count).sum();
                self.unused.fetch_add(count, Ordering::Relaxed);
                return drained;
            }
        }
    }

    /// Adds a range. Its numbers must be higher than those of all earlier ranges of this tenure. Only the
    /// segment's single writer may call this function. The next range will be requested when `wanted_at`
    /// numbers of this range have been taken.
    ///
    /// # Errors
    /// Returns [`Full`] if the segment has no room. In this case, the range has not been added.
    ///
    /// # Panics
    /// Panics if the range is invalid.
    pub fn publish(&self, range: Range, wanted_at: u64) -> Result<(), Full> {
        assert!(range.last().is_some(), "bug: {range:?} is no range");
        let (generation, _) = split(self.word.0.load(Ordering::Acquire));
        let newest = self.newest.load(Ordering::Relaxed);
        let ahead = (newest + GENERATIONS - generation) % GENERATIONS;
        if ahead + 1 == RANGES {
            return Err(Full);
        }
        let last = self.range_words(newest);
        let before = last.before.load(Ordering::Relaxed) + last.count.load(Ordering::Relaxed);
        let words = self.range_words(after(newest));
        words.first.store(range.first, Ordering::Relaxed);
        words.increment.store(range.increment, Ordering::Relaxed);
        words.count.store(range.count, Ordering::Relaxed);
        words.ends_us.store(range.ends_us, Ordering::Relaxed);
        words.wanted_at.store(wanted_at, Ordering::Relaxed);
        words.before.store(before, Ordering::Relaxed);
        self.newest.store(after(newest), Ordering::Release);
        Ok(())
    }

    /// Returns a snapshot. All numbers that have not been taken are counted as left, even if their range has
    /// ended.
    pub fn standing(&self) -> Standing {
        loop {
            let word = self.word.0.load(Ordering::Acquire);
            let (generation, offset) = split(word);
            let newest = self.newest.load(Ordering::Acquire);
            let range_of =
                |generation| Some(self.range_words(generation).range()).filter(|range| range.count > 0);
            let (mut at, mut left) = (generation, 0);
            let mut counted = 0;
            loop {
                left += self.range_words(at).range().count;
                counted += 1;
                if at == newest || counted == RANGES {
                    break;
                }
                at = after(at);
            }
            let standing = Standing {
                current: range_of(generation),
                offset,
                next: (generation != newest).then(|| range_of(after(generation))).flatten(),
                left: left.saturating_sub(offset),
                // A process may have moved the word, but not yet counted the skipped numbers.
                issued: (self.range_words(generation).before.load(Ordering::Relaxed) + offset)
                    .saturating_sub(self.unused.load(Ordering::Relaxed)),
                is_next_wanted: generation == newest
                    && offset >= self.range_words(generation).wanted_at.load(Ordering::Relaxed),
            };
            // As long as the generation stays the same, its range and later ranges are not overwritten. More
            // ranges may be added.
            if split(self.word.0.load(Ordering::Acquire)).0 == generation {
                return standing;
            }
        }
    }
}
