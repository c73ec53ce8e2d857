//! The keeper's transactions. During a commit, shared memory contains the time at which the commit started.

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

/// Publishes the start of the commit in progress, in microseconds of Unix time, or 0 if no commit is in
/// progress.
pub fn note_commit(since_us: i64) {
    if let Ok(shared) = memory::state() {
        shared.server_status.keeper.committing_since_us.store(since_us, Ordering::Relaxed);
    }
}
