//! The state of the segments worker in shared memory.
//!
//! Who writes what:
//!
//! * The ranges of a slot: written only by the segments worker, which stores a range durably before it publishes the
//!   range (see [`crate::segment`]). All backends take numbers from the ranges without a lock (see
//!   [`snowflake_id_core::segment`]).
//! * The table, which contains the segment of each slot and the registry's last answer about the segment: backends
//!   assign slots to names, and the worker writes the rest, always under the exclusive lock (see
//!   [`super::segment_table`]).
//! * The flags of wanted slots: set by backends and the worker, and cleared by the worker before it asks the registry.
//! * The rounds: counted by the worker. A backend's request is answered by a round that starts after the request.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use pgrx::{PGRXSharedMemory, PgAtomic, PgLwLock, pg_shmem_init};
use snowflake_id_core::clocks::ClockOffset;
use snowflake_id_core::protocol::Mismatch;

use super::bounded_text::BoundedText;
use super::wait::Signal;
use super::wakeup::Wakeup;
use super::{memory, segment_table};
use crate::error::Error;
use crate::pg::clock;

/// The state that consists of atomics and a condition variable.
#[derive(Default)]
pub struct Segments {
    /// The wakeup of the segments worker.
    pub wakeup: Wakeup,
    /// True if any segment was ever used. The worker must run in this case.
    pub is_used: AtomicBool,
    /// The number of rounds that the worker has started. The field `ended` is the number of the last completed round.
    begun: AtomicU64,
    ended: AtomicU64,
    /// The signal that the worker sends after publishing a range and after ending a round.
    pub changes: Signal,
    /// The registry's clock, as a [`ClockOffset`] in microseconds. The worker writes this value before publishing
    /// any range that has an end time.
    registry_clock: AtomicI64,
}

/// The problem that prevents the worker from getting numbers, if there is one.
#[derive(Clone, Copy, Default)]
struct Problem {
    text: BoundedText,
    /// The time of the first failure since the registry's last answer, in microseconds of Unix time.
    since_us: i64,
    trouble: Trouble,
}

/// The kind of a problem.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trouble {
    /// The registry does not answer, or its answer is invalid.
    #[default]
    Silence,
    /// The role of this server lacks a privilege in the registry.
    Denied,
    /// No registry is configured.
    NoRegistry,
    /// The record of the server's ranges cannot be written or read.
    File,
    /// The registry or this server is too old for the other.
    Mismatch(Mismatch),
}

// SAFETY: the type consists of atomics and a condition variable. Its only pointer refers to a latch in shared memory,
// which has the same address in every process.
unsafe impl PGRXSharedMemory for Segments {}

// SAFETY: the type contains plain values without pointers, and the LWLock orders all accesses to them.
unsafe impl PGRXSharedMemory for Problem {}

// SAFETY: no other extension uses these names.
static STATE: PgAtomic<Segments> = unsafe { PgAtomic::new(c"snowflake_id segments state") };

// SAFETY: as above.
static PROBLEM: PgLwLock<Problem> = unsafe { PgLwLock::new(c"snowflake_id segments problem") };

/// Requests the shared memory.
pub(super) fn request() {
    pg_shmem_init!(STATE);
    pg_shmem_init!(PROBLEM);
    segment_table::request();
}

/// Returns the shared state, or an error if the library was not preloaded.
pub fn segments() -> Result<&'static Segments, Error> {
    memory::state()?; // Either all structures exist, or none do.
    Ok(STATE.get())
}

/// The problem that prevents the worker from getting numbers.
pub struct RegistryProblem {
    pub text: String,
    pub since_us: i64,
    pub trouble: Trouble,
}

/// Returns the current problem, or `None` if there is no problem.
pub fn registry_problem() -> Option<RegistryProblem> {
    let problem = PROBLEM.share();
    Some(RegistryProblem { text: problem.text.text()?, since_us: problem.since_us, trouble: problem.trouble })
}

/// Sets the current problem. If `text` is `None`, clears the problem.
pub fn report_problem(text: Option<&str>, trouble: Trouble) {
    let mut problem = PROBLEM.exclusive();
    if text.is_some() && problem.text.text().is_none() {
        problem.since_us = clock::clock_us();
    }
    problem.text.set(text.unwrap_or_default());
    problem.trouble = trouble;
}

impl Segments {
    /// Wakes the worker. If the worker is not running, wakes the keeper, which starts the worker.
    pub fn request_worker(&self) {
        self.is_used.store(true, Ordering::Relaxed);
        match (self.wakeup.pid(), memory::state()) {
            (None, Ok(shared)) => shared.server_status.wakeup.request(),
            _ => self.wakeup.request(),
        }
    }

    /// Returns the number of the first round that answers a request made now.
    pub fn next_round(&self) -> u64 {
        self.begun.load(Ordering::SeqCst) + 1
    }

    /// Returns whether a round has ended.
    pub fn has_ended(&self, round: u64) -> bool {
        self.ended.load(Ordering::Acquire) >= round
    }

    /// Starts a round. SeqCst: the round sees every request that was made before the round number changed.
    pub fn begin_round(&self) {
        self.begun.fetch_add(1, Ordering::SeqCst);
    }

    /// Ends the round. Must be called after all results of the round are written.
    pub fn end_round(&self) {
        self.ended.store(self.begun.load(Ordering::SeqCst), Ordering::Release);
        self.changes.send();
    }

    /// Returns the registry's clock in microseconds: its value at the last answer, plus the time that has passed since.
    /// Setting the clock of this server does not change the result.
    pub fn registry_clock_us(&self) -> i64 {
        self.registry_clock().clock_us(clock::since_boot())
    }

    pub fn registry_clock(&self) -> ClockOffset {
        ClockOffset::from_us(self.registry_clock.load(Ordering::Relaxed))
    }

    /// Records the registry's clock.
    pub fn set_registry_clock(&self, clock: ClockOffset) {
        self.registry_clock.store(clock.as_us(), Ordering::Relaxed);
    }
}
