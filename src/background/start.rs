//! Starting a worker of the keeper's.

use std::time::{Duration, Instant};

use pgrx::bgworkers::BackgroundWorkerBuilder;

/// How long the keeper gives a worker to come up before it starts another one.
const TIME_TO_START: Duration = Duration::from_secs(2);

/// Whether a worker that was started last at this instant may still come up.
pub fn is_coming(last_start: Option<Instant>) -> bool {
    last_start.is_some_and(|at| at.elapsed() < TIME_TO_START)
}

/// Starts a worker with a name in `pg_stat_activity`, which begins at a function of the library.
///
/// # Errors
/// There is no room for it, in words for people.
pub fn start(name: &str, function: &str) -> Result<(), String> {
    BackgroundWorkerBuilder::new(name)
        .set_type(name)
        .set_library("snowflake_id")
        .set_function(function)
        .enable_spi_access() // So that it shows up in pg_stat_activity.
        .load_dynamic()
        .map(|_| ())
        .map_err(|_| {
            format!("could not start background worker \"{name}\": it needs one of max_worker_processes")
        })
}
