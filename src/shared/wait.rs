//! Waiting for background workers. A call sleeps until a worker signals a change, and then checks its
//! condition again.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::pg::condition::Condition;
use crate::wait_event::WaitEvent;

/// A signal, which counts events and wakes the waiting calls.
#[derive(Default)]
pub struct Signal {
    /// A process increments the counter (Release) after it has written the result of the event. Other
    /// processes read the counter (Acquire) before they read the result.
    count: AtomicU64,
    condition: Condition,
}

impl Signal {
    /// Signals an event.
    pub fn send(&self) {
        self.count.fetch_add(1, Ordering::Release);
        self.condition.broadcast();
    }

    /// Returns the number of events so far. To avoid missing an event, a call reads this number, then checks
    /// its condition, and then waits for a higher number.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    /// Waits until the count exceeds `seen` or `timeout` has elapsed.
    pub fn wait_beyond(&self, seen: u64, timeout: Duration, event: WaitEvent) {
        self.condition.wait_until(timeout, event.number(), || self.count() > seen);
    }
}

/// The last count that a waiting call has read from a signal. The call checks its condition once before it
/// first sleeps, so no event is missed.
pub struct Watch<'a> {
    signal: &'a Signal,
    seen: Cell<Option<u64>>,
}

impl<'a> Watch<'a> {
    pub fn of(signal: &'a Signal) -> Watch<'a> {
        Watch { signal, seen: Cell::new(None) }
    }

    /// Sleeps until an event has occurred since the previous call of this function, or until `timeout` has
    /// elapsed. The first call returns immediately.
    pub fn wait(&self, timeout: Duration, event: WaitEvent) {
        if let Some(seen) = self.seen.replace(Some(self.signal.count())) {
            self.signal.wait_beyond(seen, timeout, event);
        }
    }
}

/// The time at which a call stops waiting.
#[derive(Clone, Copy)]
pub struct Deadline {
    /// The maximum total time that the call may wait.
    pub max_wait: Duration,
    at: Instant,
}

impl Deadline {
    pub fn after(max_wait: Duration) -> Deadline {
        Deadline { max_wait, at: Instant::now() + max_wait }
    }

    pub fn left(&self) -> Duration {
        self.at.saturating_duration_since(Instant::now())
    }

    pub fn is_over(&self) -> bool {
        self.left().is_zero()
    }
}
