//! Stops background workers on SIGTERM.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::pg::process;

/// Set by SIGTERM.
static IS_STOPPING: AtomicBool = AtomicBool::new(false);
/// True if SIGTERM must interrupt the worker. The flag is set during a commit, which may wait for an
/// unavailable standby, and during a call of a function that does not belong to the extension.
static IS_INTERRUPTIBLE: AtomicBool = AtomicBool::new(false);

/// The action on SIGTERM, which may run between any two instructions of the worker.
pub fn on_sigterm() {
    IS_STOPPING.store(true, Ordering::SeqCst);
    process::interrupt(IS_INTERRUPTIBLE.load(Ordering::SeqCst));
}

pub fn is_stopping() -> bool {
    IS_STOPPING.load(Ordering::SeqCst)
}

/// Allows SIGTERM to interrupt the worker until the end of the transaction. A signal that has already arrived
/// interrupts the worker immediately.
pub fn let_sigterm_interrupt() {
    IS_INTERRUPTIBLE.store(true, Ordering::SeqCst);
    if is_stopping() {
        process::interrupt(true);
    }
}

pub(super) fn keep_sigterm_from_interrupting() {
    IS_INTERRUPTIBLE.store(false, Ordering::SeqCst);
}
