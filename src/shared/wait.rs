//! How calls wait for what background workers do: they sleep until a worker says that something has changed, and look then.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::pg::condition::Condition;
use crate::wait_event::WaitEvent;

/// Counts what has happened, and wakes those who wait for it.
#[derive(Default)]
pub struct Signal {
    /// Counted up (Release) after what has happened was written, read (Acquire) before that is looked at.
    count: AtomicU64,
    condition: Condition,
}

impl Signal {
    /// Something has happened.
    pub fn send(&self) {
        self.count.fetch_add(1, Ordering::Release);
        self.condition.broadcast();
    }

    /// How much has happened. Who reads this, looks, and then waits for more misses nothing.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    /// Waits until more has happened than `seen`, at most for `timeout`.
    pub fn wait_beyond(&self, seen: u64, timeout: Duration, event: WaitEvent) {
        self.condition.wait_until(timeout, event.number(), || self.count() > seen);
    }
}

/// What a call has seen of a signal. It looks once before it sleeps: what happens from then on wakes it.
pub struct Watch<'a> {
    signal: &'a Signal,
    seen: Cell<Option<u64>>,
}

impl<'a> Watch<'a> {
    pub fn of(signal: &'a Signal) -> Watch<'a> {
        Watch { signal, seen: Cell::new(None) }
    }

    /// Sleeps until something has happened since this was called before, at most for `timeout`. The first time it returns at
    /// once.
    pub fn wait(&self, timeout: Duration, event: WaitEvent) {
        if let Some(seen) = self.seen.replace(Some(self.signal.count())) {
            self.signal.wait_beyond(seen, timeout, event);
        }
    }
}

/// Until when a call waits.
#[derive(Clone, Copy)]
pub struct Deadline {
    /// How long that was in the beginning.
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
