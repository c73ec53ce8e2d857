//! How a background worker is stopped.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::pg::process;

/// Set by SIGTERM.
static IS_STOPPING: AtomicBool = AtomicBool::new(false);
/// Set while something is under way that SIGTERM has to interrupt: a commit, which may wait for a standby that is gone, or
/// a function of somebody else.
static IS_INTERRUPTIBLE: AtomicBool = AtomicBool::new(false);

/// What SIGTERM does. Runs between any two instructions of the worker.
pub fn on_sigterm() {
    IS_STOPPING.store(true, Ordering::SeqCst);
    process::interrupt(IS_INTERRUPTIBLE.load(Ordering::SeqCst));
}

pub fn is_stopping() -> bool {
    IS_STOPPING.load(Ordering::SeqCst)
}

/// From now on, until the end of the transaction, SIGTERM interrupts. If the signal has come already, it does so now.
pub fn let_sigterm_interrupt() {
    IS_INTERRUPTIBLE.store(true, Ordering::SeqCst);
    if is_stopping() {
        process::interrupt(true);
    }
}

pub(super) fn keep_sigterm_from_interrupting() {
    IS_INTERRUPTIBLE.store(false, Ordering::SeqCst);
}
