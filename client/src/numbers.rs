//! [`Segment`]: numbers of a segment.
//!
//! The registry grants ranges of numbers. A range is in memory only: the numbers that are left when the
//! program ends are lost. The next range is requested before the current one is exhausted.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use snowflake_id_core::clocks::{ClockOffset, SinceBoot};
use snowflake_id_core::segment;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout_at;

use crate::error::Error;
use crate::pauses::deadline;

/// A request for the next range of a segment. The task replies if a call waits.
pub(crate) struct Wish {
    pub of: Arc<Ranges>,
    pub reply: Option<oneshot::Sender<Result<(), Error>>>,
}

/// The ranges of a segment, which calls and the task share.
pub(crate) struct Ranges {
    pub name: String,
    pub segment: segment::Segment,
    pub clock: Arc<RegistryClock>,
}

/// The registry's clock as of the registry's last answer, as a [`ClockOffset`] in microseconds.
#[derive(Default)]
pub(crate) struct RegistryClock(AtomicI64);

impl RegistryClock {
    /// Records the registry's clock.
    pub fn note(&self, clock: ClockOffset) {
        self.0.store(clock.as_us(), Ordering::Relaxed);
    }

    pub fn now_us(&self) -> i64 {
        ClockOffset::from_us(self.0.load(Ordering::Relaxed)).clock_us(since_boot())
    }
}

/// The clock that also counts while the machine is suspended. On macOS, this is the monotonic clock.
#[cfg(any(target_os = "linux", target_os = "android"))]
const SINCE_BOOT: ClockId = ClockId::Boottime;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const SINCE_BOOT: ClockId = ClockId::Monotonic;

/// Returns the time since boot.
pub(crate) fn since_boot() -> SinceBoot {
    let time = clock_gettime(SINCE_BOOT);
    SinceBoot::from_us(time.tv_sec * 1_000_000 + time.tv_nsec / 1_000)
}

/// The numbers that one call has taken: `first + k * increment` for `k` from 0 to `count - 1`. Only these
/// numbers may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbers {
    /// The lowest number.
    pub first: i64,
    /// The difference between consecutive numbers.
    pub increment: i64,
    /// The count of numbers, which is at least 1.
    pub count: u64,
}

impl IntoIterator for Numbers {
    type Item = i64;
    type IntoIter = Box<dyn Iterator<Item = i64> + Send>;

    fn into_iter(self) -> Self::IntoIter {
        Box::new((0..self.count).map(move |at| self.first + at as i64 * self.increment))
    }
}

/// Numbers of a segment, in increasing order for each program. The numbers of several programs interleave
/// in ranges.
///
/// A clone takes from the same ranges.
#[derive(Clone)]
pub struct Segment {
    pub(crate) ranges: Arc<Ranges>,
    pub(crate) wishes: mpsc::Sender<Wish>,
    pub(crate) max_wait: Duration,
}

impl Segment {
    /// Returns the next number. Waits for the registry, for at most `max_wait`, if no number is in memory.
    ///
    /// # Errors
    /// Returns [`Error::Segment`] if the registry grants no numbers, [`Error::NoNumbers`] if it does not
    /// answer in time, and [`Error::Closed`] after [`Client::close`](crate::Client::close).
    pub async fn next_number(&self) -> Result<i64, Error> {
        Ok(self.next_numbers(NonZeroU64::MIN).await?.first)
    }

    /// Returns up to `n` numbers, at least one: fewer than `n` if the current range has fewer left. Waits as
    /// [`Segment::next_number`] does.
    ///
    /// # Errors
    /// Returns the errors of [`Segment::next_number`].
    pub async fn next_numbers(&self, n: NonZeroU64) -> Result<Numbers, Error> {
        let deadline = deadline(self.max_wait);
        loop {
            if let Some(numbers) = self.numbers_in_memory(n) {
                return Ok(numbers);
            }
            let (reply, answer) = oneshot::channel();
            let wish = Wish { of: self.ranges.clone(), reply: Some(reply) };
            let asked = async {
                self.wishes.send(wish).await.map_err(|_| Error::Closed)?;
                answer.await.unwrap_or(Err(Error::Closed))
            };
            match timeout_at(deadline, asked).await {
                Ok(answer) => answer?,
                Err(_) => {
                    let why = format!("no reply of the registry within {:?}", self.max_wait);
                    return Err(Error::NoNumbers { name: self.ranges.name.clone(), why });
                }
            }
        }
    }

    /// Returns up to `n` numbers that are in memory, or `None` if there are none or the client is closed. Never
    /// waits.
    pub fn numbers_in_memory(&self, n: NonZeroU64) -> Option<Numbers> {
        if self.wishes.is_closed() {
            return None;
        }
        let clock = &self.ranges.clock;
        let taken = self.ranges.segment.take(|| clock.now_us(), n).ok()?;
        if taken.is_next_wanted {
            // If the task is busy, the range is requested when the numbers are exhausted.
            let _ = self.wishes.try_send(Wish { of: self.ranges.clone(), reply: None });
        }
        Some(Numbers { first: taken.first, increment: taken.increment, count: taken.count })
    }
}
