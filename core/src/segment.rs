//! Numbers in ranges: what all processes of a server share of one segment.
//!
//! A registry hands out ranges, one writer publishes them here, and any number of callers take from them. All that
//! callers change is one word: in which range the server is (its generation) and how many numbers of it are gone.
//! Four ranges have room, so that the next one is there before this one is used up.
//!
//! Why no number can be taken twice:
//!
//! * A caller reads the word, then the range of that generation, and takes by an exchange of the word. If the
//!   exchange succeeds, the word was what it had read all the time, and so was the range: the writer puts nothing
//!   in its place before the word has gone on to the next generation. (What a caller read of a range that was
//!   replaced meanwhile may be anything. Its exchange fails.)
//! * The word only grows: a generation is never entered again. It has 24 bits, so that 16 million ranges would have to
//!   pass, each written to disk, while one caller stands between its read and its exchange.
//! * Whether a range lies above all before it is for the writer to see to.
//!
//! `tests/loom.rs` checks this over all interleavings.

use std::num::NonZeroU64;

#[cfg(loom)]
use loom::sync::atomic::{AtomicI64, AtomicU64, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// How many ranges have room: the one in use, and those ahead.
const RANGES: u64 = 4;
/// How many bits say how much of a range is gone; the other 24 are the generation.
const OFFSET_BITS: u32 = 40;
const GENERATIONS: u64 = 1 << (u64::BITS - OFFSET_BITS);
/// The most numbers that a range can have.
pub const MOST_NUMBERS: u64 = (1 << OFFSET_BITS) - 1;
/// The end of a range that has none in time.
pub const NEVER_ENDS: i64 = i64::MAX;

/// A range of numbers: `first + k * increment` for `k` from 0 to `count - 1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The lowest number.
    pub first: i64,
    /// The difference between two numbers.
    pub increment: i64,
    /// How many numbers there are.
    pub count: u64,
    /// When it ends, in microseconds of the clock that [`Segment::take`] is given; or [`NEVER_ENDS`].
    pub ends_us: i64,
}

impl Range {
    /// The highest number; `None` if this is no range: its numbers have to be positive or 0, grow, and fit a `bigint`.
    pub fn last(&self) -> Option<i64> {
        let is_range = self.first >= 0 && self.increment > 0 && (1..=MOST_NUMBERS).contains(&self.count);
        let steps = i64::try_from(self.count).ok()? - 1;
        is_range.then(|| steps.checked_mul(self.increment)?.checked_add(self.first)).flatten()
    }
}

/// What a call has taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The lowest number.
    pub first: i64,
    /// The difference between two numbers.
    pub increment: i64,
    /// How many there are, one at least.
    pub count: u64,
    /// Whether it is time to fetch the next range: of all calls that take from a range one learns so.
    pub is_next_wanted: bool,
}

impl Taken {
    /// The numbers, rising.
    pub fn numbers(self) -> impl Iterator<Item = i64> {
        (0..self.count).map(move |at| self.first + at as i64 * self.increment)
    }

    /// The highest of them.
    pub fn last(&self) -> i64 {
        self.first + (self.count as i64 - 1) * self.increment
    }
}

/// There is no number left whose time has not passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dry;

/// All places are taken by ranges that are not used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// How things stand: a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The range in use; `None` before the first one.
    pub current: Option<Range>,
    /// How many of its numbers are gone.
    pub offset: u64,
    /// The range after that, if it is there.
    pub next: Option<Range>,
    /// How many numbers are left, over all ranges.
    pub left: u64,
    /// Whether the next range has to be fetched: so much of the last one is gone.
    pub is_next_wanted: bool,
}

impl Standing {
    /// Whether there has never been a range.
    pub fn is_unused(&self) -> bool {
        self.current.is_none() && self.next.is_none()
    }

    /// Whether a number can be taken at this time.
    pub fn is_usable(&self, now_us: i64) -> bool {
        let current = self.current.filter(|range| self.offset < range.count);
        [current, self.next].into_iter().flatten().any(|range| range.ends_us > now_us)
    }
}

/// Room for one range.
#[derive(Debug)]
struct RangeWords {
    first: AtomicI64,
    increment: AtomicI64,
    count: AtomicU64,
    ends_us: AtomicI64,
    /// With which offset it is time to fetch the next range.
    wanted_at: AtomicU64,
}

impl RangeWords {
    fn new() -> RangeWords {
        RangeWords {
            first: AtomicI64::new(0),
            increment: AtomicI64::new(0),
            count: AtomicU64::new(0),
            ends_us: AtomicI64::new(NEVER_ENDS),
            wanted_at: AtomicU64::new(0),
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

/// A word on cache lines of its own: 128 bytes, as processors fetch lines in pairs.
#[derive(Debug)]
#[repr(align(128))]
struct Apart(AtomicU64);

/// The ranges of one segment, shared by all processes of a server.
///
/// The word, which every call writes, lies apart from the ranges, which hardly ever change: a processor that failed
/// its exchange still has them.
#[derive(Debug)]
pub struct Segment {
    /// `generation << 40 | offset`. Written by callers, by exchange.
    word: Apart,
    /// The generation of the newest range. Written by the one writer. Release and Acquire: who sees a generation
    /// sees its range.
    newest: AtomicU64,
    /// Written by the one writer. Relaxed: see above, and the head of this module.
    ranges: [RangeWords; RANGES as usize],
}

impl Default for Segment {
    fn default() -> Segment {
        Segment {
            word: Apart(AtomicU64::new(0)),
            newest: AtomicU64::new(0),
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

    /// Takes `n` numbers, or as many as are left in the range in use. A range whose end has come is left for the next.
    /// `clock` is read only for a range that ends.
    ///
    /// # Errors
    /// [`Dry`]; then nothing was taken.
    #[inline]
    pub fn take(&self, clock: impl Fn() -> i64, n: NonZeroU64) -> Result<Taken, Dry> {
        loop {
            let word = self.word.0.load(Ordering::Acquire);
            let (generation, offset) = split(word);
            let words = self.range_words(generation);
            let range = words.range();
            let left = range.count.saturating_sub(offset);
            if left == 0 || range.ends_us != NEVER_ENDS && clock() >= range.ends_us {
                self.go_on(word, generation)?;
                continue;
            }
            let wanted_at = words.wanted_at.load(Ordering::Relaxed);
            let count = n.get().min(left);
            // Release: who replaces this range has seen a later generation, and so comes after the loads above.
            let exchanged =
                self.word.0.compare_exchange_weak(word, word + count, Ordering::AcqRel, Ordering::Relaxed);
            if exchanged.is_ok() {
                let first = range.first + offset as i64 * range.increment;
                let is_next_wanted = offset < wanted_at && offset + count >= wanted_at;
                return Ok(Taken { first, increment: range.increment, count, is_next_wanted });
            }
        }
    }

    /// Enters the next range, if there is one. Whoever fails the exchange finds that somebody else has done so, or has
    /// taken from this one.
    #[cold]
    fn go_on(&self, word: u64, generation: u64) -> Result<(), Dry> {
        if self.newest.load(Ordering::Acquire) == generation {
            return Err(Dry);
        }
        let next = after(generation) << OFFSET_BITS;
        // A failure is as good: the word is loaded again.
        let _ = self.word.0.compare_exchange(word, next, Ordering::AcqRel, Ordering::Relaxed);
        Ok(())
    }

    /// Adds a range, which has to lie above all before it. By the one writer alone. The next one will be wanted when
    /// `wanted_at` numbers of this one are gone.
    ///
    /// # Errors
    /// [`Full`]; then the range was not added.
    ///
    /// # Panics
    /// If it is no range.
    pub fn publish(&self, range: Range, wanted_at: u64) -> Result<(), Full> {
        assert!(range.last().is_some(), "bug: {range:?} is no range");
        let (generation, _) = split(self.word.0.load(Ordering::Acquire));
        let newest = self.newest.load(Ordering::Relaxed);
        let ahead = (newest + GENERATIONS - generation) % GENERATIONS;
        if ahead + 1 == RANGES {
            return Err(Full);
        }
        let words = self.range_words(after(newest));
        words.first.store(range.first, Ordering::Relaxed);
        words.increment.store(range.increment, Ordering::Relaxed);
        words.count.store(range.count, Ordering::Relaxed);
        words.ends_us.store(range.ends_us, Ordering::Relaxed);
        words.wanted_at.store(wanted_at, Ordering::Relaxed);
        self.newest.store(after(newest), Ordering::Release);
        Ok(())
    }

    /// How things stand. The numbers of a range count as long as they are not taken, also if its end has come.
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
                is_next_wanted: generation == newest
                    && offset >= self.range_words(generation).wanted_at.load(Ordering::Relaxed),
            };
            // Within one generation nothing of it is replaced; more may be added.
            if split(self.word.0.load(Ordering::Acquire)).0 == generation {
                return standing;
            }
        }
    }
}
