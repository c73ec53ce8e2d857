//! The keeper's transactions: everybody sees since when one has been committing.

use std::sync::atomic::Ordering;

use crate::background::transaction::{self, Problem};
use crate::pg::clock;
use crate::shared::memory;

/// Runs a transaction: see [`transaction::transaction`].
pub fn transaction<T>(body: impl FnOnce() -> Result<T, Problem>) -> Result<T, Problem> {
    let result = transaction::transaction(body, || note_commit(clock::clock_us()));
    note_commit(0);
    result
}

/// Tells the backends since when a commit has been under way; 0: none is.
pub fn note_commit(since_us: i64) {
    if let Ok(shared) = memory::state() {
        shared.server_status.keeper.committing_since_us.store(since_us, Ordering::Relaxed);
    }
}
