//! Starts other workers on behalf of the keeper.

use std::time::{Duration, Instant};

use pgrx::bgworkers::BackgroundWorkerBuilder;

use crate::shared::wakeup::Wakeup;

/// How long the keeper waits for a worker to start before it starts another one.
const TIME_TO_START: Duration = Duration::from_secs(2);

/// Starts the worker that owns `wakeup`, unless it is running or may still be starting. The worker has the name `name`
/// in `pg_stat_activity`, and its entry point is `function` in the library. `last_start` is the time of the last start.
///
/// # Errors
/// Returns a message for administrators if no worker slot is free.
pub fn start_if_missing(
    wakeup: &Wakeup,
    last_start: &mut Option<Instant>,
    name: &str,
    function: &str,
) -> Result<(), String> {
    let is_coming = last_start.is_some_and(|at| at.elapsed() < TIME_TO_START);
    if wakeup.pid().is_some() || is_coming {
        return Ok(());
    }
    BackgroundWorkerBuilder::new(name)
        .set_type(name)
        .set_library("snowflake_id")
        .set_function(function)
        .enable_spi_access() // Needed to appear in pg_stat_activity.
        .load_dynamic()
        .map_err(|_| {
            format!("could not start background worker \"{name}\": no slot is free; increase max_worker_processes and restart the server")
        })?;
    *last_start = Some(Instant::now());
    Ok(())
}
