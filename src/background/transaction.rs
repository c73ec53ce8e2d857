//! Transactions of background workers, and what can go wrong in them.

use std::panic::AssertUnwindSafe;

use pgrx::bgworkers::BackgroundWorker;
use pgrx::pg_sys::panic::CaughtError;
use pgrx::prelude::*;

use super::stop::{keep_sigterm_from_interrupting, let_sigterm_interrupt};
use crate::config;
use crate::pg::process;

/// How much of an error is reported, in bytes.
const LONGEST_MESSAGE: usize = 400;

/// Why something could not be done; in the words of the report.
pub struct Problem(pub String);

impl Problem {
    /// What workers store is not where they look for it.
    pub fn no_extension() -> Problem {
        Problem(format!(
            "extension \"snowflake_id\" does not exist in database \"{}\" (snowflake_id.database): run CREATE EXTENSION snowflake_id there",
            config::database().to_string_lossy()
        ))
    }
}

/// Runs a transaction, and commits it whatever `body` returns. On an error of PostgreSQL it is rolled back,
/// and the error is the problem. `before_commit` runs when nothing is left but the commit.
///
/// When it returns and the process [is stopping](super::stop::is_stopping), the commit may not have reached a
/// synchronous standby: a wait that was cut short ends like one that was successful.
pub fn transaction<T>(
    body: impl FnOnce() -> Result<T, Problem>,
    before_commit: impl FnOnce(),
) -> Result<T, Problem> {
    let run = AssertUnwindSafe(|| {
        BackgroundWorker::transaction(AssertUnwindSafe(|| {
            process::commit_locally_at_least();
            let result = body();
            // A lock that came just when its time was up: what is left of that must not end a wait of the
            // commit.
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
            // It may quote something huge, and more than this is not kept anyway.
            let message = report.message();
            message[..message.floor_char_boundary(LONGEST_MESSAGE)].into()
        }
    }
}
