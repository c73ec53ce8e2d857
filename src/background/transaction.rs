//! Transactions of background workers, and their errors.

use std::panic::AssertUnwindSafe;

use pgrx::bgworkers::BackgroundWorker;
use pgrx::pg_sys::panic::CaughtError;
use pgrx::prelude::*;

use super::stop::{keep_sigterm_from_interrupting, let_sigterm_interrupt};
use crate::config;
use crate::pg::process;

/// The maximum length of a reported error message, in bytes.
const LONGEST_MESSAGE: usize = 400;

/// The reason why something failed, worded for the report.
pub struct Problem(pub String);

impl Problem {
    /// The keeper's database does not contain the extension, and therefore contains no stored state.
    pub fn no_extension() -> Problem {
        Problem(format!(
            "extension \"snowflake_id\" does not exist in database \"{}\" (snowflake_id.database): run CREATE EXTENSION snowflake_id there",
            config::database().to_string_lossy()
        ))
    }
}

/// Runs `body` in a transaction, and commits whether `body` returns `Ok` or `Err`. If PostgreSQL raises an
/// error, the transaction is rolled back, and its message is returned as the problem. `before_commit` runs
/// immediately before the commit.
///
/// If the process [is stopping](super::stop::is_stopping) when this returns, the commit may not have reached
/// a synchronous standby: a wait that was cut short looks successful.
pub fn transaction<T>(
    body: impl FnOnce() -> Result<T, Problem>,
    before_commit: impl FnOnce(),
) -> Result<T, Problem> {
    let run = AssertUnwindSafe(|| {
        BackgroundWorker::transaction(AssertUnwindSafe(|| {
            process::commit_locally_at_least();
            let result = body();
            // If a lock was granted just as lock_timeout fired, the interrupt of the timeout may still be
            // pending. Process the interrupt now, so that it does not cut short the commit's wait for a
            // standby.
            pgrx::check_for_interrupts!();
            before_commit();
            let_sigterm_interrupt();
            result
        }))
    });
    let result = PgTryBuilder::new(run)
        .catch_others(|error| {
            process::abort_transaction();
            Err(Problem(message_of(&error)))
        })
        .execute();
    keep_sigterm_from_interrupting();
    result
}

fn message_of(error: &CaughtError) -> String {
    match error {
        CaughtError::PostgresError(report)
        | CaughtError::ErrorReport(report)
        | CaughtError::RustPanic { ereport: report, .. } => {
            // The message may quote a very long text, but the report keeps at most this length.
            let message = report.message();
            message[..message.floor_char_boundary(LONGEST_MESSAGE)].into()
        }
    }
}
