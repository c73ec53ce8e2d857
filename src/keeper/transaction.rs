//! The keeper's transactions, and what can go wrong in them.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};

use pgrx::bgworkers::BackgroundWorker;
use pgrx::pg_sys::panic::CaughtError;
use pgrx::prelude::*;

use crate::pg::{clock, process};
use crate::shared::memory;

/// Set by SIGTERM.
static IS_STOPPING: AtomicBool = AtomicBool::new(false);
/// Set while a commit is under way, which SIGTERM then has to interrupt: it may wait for a standby that is
/// gone.
static IS_COMMITTING: AtomicBool = AtomicBool::new(false);

/// How much of an error is reported, in bytes.
const LONGEST_MESSAGE: usize = 400;

/// Why something could not be done; in the words of the report.
pub struct Problem(pub String);

/// The handler of SIGTERM. Runs between any two instructions of the keeper.
pub unsafe extern "C-unwind" fn on_sigterm(_signal: i32) {
    process::keeping_errno(|| {
        IS_STOPPING.store(true, Ordering::SeqCst);
        process::interrupt(IS_COMMITTING.load(Ordering::SeqCst));
    });
}

pub fn is_stopping() -> bool {
    IS_STOPPING.load(Ordering::SeqCst)
}

/// Runs a transaction, and commits it whatever `body` returns. On an error of PostgreSQL it is rolled back,
/// and the error is the problem.
///
/// When it returns and the process [`is_stopping`], the commit may not have reached a synchronous standby: a
/// wait that was cut short ends like one that was successful.
pub fn transaction<T>(body: impl FnOnce() -> Result<T, Problem>) -> Result<T, Problem> {
    let run = AssertUnwindSafe(|| {
        BackgroundWorker::transaction(AssertUnwindSafe(|| {
            process::commit_locally_at_least();
            let result = body();
            // A lock that came just when its time was up: what is left of that must not end a wait of the
            // commit.
            pgrx::check_for_interrupts!();
            note_commit(clock::clock_us());
            IS_COMMITTING.store(true, Ordering::SeqCst);
            if is_stopping() {
                // The signal came too early to interrupt the commit by itself.
                process::interrupt(true);
            }
            result
        }))
    });
    let result = PgTryBuilder::new(run)
        .catch_others(|error| {
            process::abort_transaction();
            Err(Problem(message_of(&error)))
        })
        .execute();
    IS_COMMITTING.store(false, Ordering::SeqCst);
    note_commit(0);
    result
}

/// Tells the backends since when a commit has been under way; 0: none is.
pub fn note_commit(since_us: i64) {
    if let Ok(shared) = memory::state() {
        shared.board.keeper.committing_since_us.store(since_us, Ordering::Relaxed);
    }
}

fn message_of(error: &CaughtError) -> String {
    match error {
        CaughtError::PostgresError(report)
        | CaughtError::ErrorReport(report)
        | CaughtError::RustPanic { ereport: report, .. } => {
            // It may quote something huge, and more than this is not kept anyway.
            let message = report.message();
            message[..message.floor_char_boundary(LONGEST_MESSAGE)].into()
        }
    }
}
