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

/// The reason for a failure, in the wording of the report.
pub struct Problem(pub String);

impl Problem {
    /// Returns the problem to report if the keeper's database does not contain the extension.
    pub fn no_extension() -> Problem {
        Problem(format!(
            "extension \"snowflake_id\" does not exist in database \"{}\" (snowflake_id.database): run CREATE EXTENSION snowflake_id there",
            config::database().to_string_lossy()
        ))
    }
}

/// Runs `body` in a transaction, and commits, even if `body` returns `Err`. If PostgreSQL raises an error, the
/// transaction is rolled back, and the error message is returned as the problem. `before_commit` runs immediately
/// before the commit.
///
/// If the process [is stopping](super::stop::is_stopping) when this function returns, the commit may not have reached a
/// synchronous standby, because shutdown interrupts the wait for the standby without an error.
pub fn transaction<T>(
    body: impl FnOnce() -> Result<T, Problem>,
    before_commit: impl FnOnce(),
) -> Result<T, Problem> {
    let run = AssertUnwindSafe(|| {
        BackgroundWorker::transaction(AssertUnwindSafe(|| {
            process::commit_locally_at_least();
            let result = body();
            // If a lock was granted just as lock_timeout expired, the interrupt of the timeout may still be pending.
            // Process it now, because it would end the commit's wait for a standby.
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
    // An error here, such as a lack of shared memory, ends the worker. The next worker reads what was committed.
    process::report_statistics();
    result
}

fn message_of(error: &CaughtError) -> String {
    match error {
        CaughtError::PostgresError(report)
        | CaughtError::ErrorReport(report)
        | CaughtError::RustPanic { ereport: report, .. } => {
            // Truncate the message, which may quote a very long string.
            let message = report.message();
            message[..message.floor_char_boundary(LONGEST_MESSAGE)].into()
        }
    }
}
