//! How the keeper starts other workers.

use std::time::{Duration, Instant};

use pgrx::bgworkers::BackgroundWorkerBuilder;

/// The time that the keeper allows a worker to start before the keeper starts another worker.
const TIME_TO_START: Duration = Duration::from_secs(2);

/// Returns whether a worker may still be starting. The parameter `last_start` is the time of the last attempt
/// to start the worker.
pub fn is_coming(last_start: Option<Instant>) -> bool {
    last_start.is_some_and(|at| at.elapsed() < TIME_TO_START)
}

/// Starts a worker with this name in `pg_stat_activity`, whose entry point is `function` in the library.
///
/// # Errors
/// If no worker slot is free. The error is a message for administrators.
pub fn start(name: &str, function: &str) -> Result<(), String> {
    BackgroundWorkerBuilder::new(name)
        .set_type(name)
        .set_library("snowflake_id")
        .set_function(function)
        .enable_spi_access() // Needed to appear in pg_stat_activity.
        .load_dynamic()
        .map(|_| ())
        .map_err(|_| {
            format!("could not start background worker \"{name}\": no slot is free; increase max_worker_processes and restart the server")
        })
}
