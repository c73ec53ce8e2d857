//! The keeper's transactions. During a commit, the start time of the commit is in shared memory.

use std::sync::atomic::Ordering;

use crate::background::transaction::{self, Problem};
use crate::pg::clock;
use crate::shared::memory;

/// Runs a transaction, and publishes the time at which its commit starts: see [`transaction::transaction`].
pub fn transaction<T>(body: impl FnOnce() -> Result<T, Problem>) -> Result<T, Problem> {
    let result = transaction::transaction(body, || note_commit(clock::clock_us()));
    note_commit(0);
    result
}

/// Publishes the start time of the current commit in microseconds of Unix time, or 0 after the commit.
pub fn note_commit(since_us: i64) {
    if let Ok(shared) = memory::state() {
        shared.server_status.keeper.committing_since_us.store(since_us, Ordering::Relaxed);
    }
}
