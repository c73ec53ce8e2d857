//! Registration, start and exit of the keeper process.

use std::sync::atomic::Ordering;
use std::time::Duration;

use pgrx::bgworkers::{BackgroundWorker, BackgroundWorkerBuilder};
use pgrx::prelude::*;

use super::cycle::{Keeper, RETRY_TIME};
use super::transaction::note_commit;
use crate::background::database;
use crate::background::stop::{is_stopping, on_sigterm};
use crate::config;
use crate::pg::{clock, process, server};
use crate::shared::command_slot::Answer;
use crate::shared::keeper_words::Closed;
use crate::shared::memory;
use crate::shared::report;

/// The time that the postmaster waits before it restarts the keeper.
const RESTART_TIME: Duration = Duration::from_secs(1);

/// Registers the keeper with the postmaster. Does nothing during pg_upgrade, because the keeper must not run
/// while catalogs are copied.
pub fn register() {
    if server::is_binary_upgrade() {
        return;
    }
    BackgroundWorkerBuilder::new("snowflake_id keeper")
        .set_type("snowflake_id keeper")
        .set_library("snowflake_id")
        .set_function("snowflake_id_keeper_main")
        .enable_spi_access() // The keeper starts after recovery, so the gate of a standby remains closed.
        .set_restart_time(Some(RESTART_TIME))
        .load();
}

/// The entry point of the process.
#[pg_guard]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn snowflake_id_keeper_main(_argument: pg_sys::Datum) {
    process::handle_signals(on_sigterm);
    let Ok(shared) = memory::state() else {
        // This cannot happen, because the postmaster that registered this worker also created the shared
        // memory.
        return;
    };
    let server_status = &shared.server_status;
    server_status.keeper.has_succeeded.store(false, Ordering::Relaxed);
    server_status.wakeup.attach();
    process::at_exit(on_exit);

    let database = config::database();
    let cannot_connect =
        format!("could not connect to database \"{}\" (snowflake_id.database)", database.to_string_lossy());
    let last_error = report::report().error();
    if last_error.as_ref() == Some(&cannot_connect) {
        // The previous keeper failed in the same way and exited. Wait before the next attempt, because each
        // failure logs an error.
        BackgroundWorker::wait_latch(Some(RETRY_TIME));
    }
    report::report_error(Some(&cannot_connect), clock::clock_us());
    server_status.keeper.set_closed(Closed::Problem);
    database::connect(&database);
    // The problem that stopped the previous keeper may also stop this process. Report the problem until a
    // cycle succeeds.
    let last_error = last_error.filter(|error| *error != cannot_connect);
    report::report_error(last_error.as_deref(), clock::clock_us());
    server_status.keeper.set_closed(if last_error.is_some() { Closed::Problem } else { Closed::Starting });
    Keeper::new(shared).run();
    // The postmaster would not restart the worker after exit code 0.
    process::exit(1);
}

/// Runs whenever the process exits, except after SIGKILL. After SIGKILL, the postmaster reinitializes all
/// shared memory.
fn on_exit() {
    let Ok(shared) = memory::state() else { return };
    if !is_stopping() && report::report().error().is_none() {
        let text = "the keeper exited unexpectedly and will be restarted: see the server log";
        report::report_error(Some(text), clock::clock_us());
    }
    shared.server_status.commands.answer_claimed(Answer::Failed);
    shared.server_status.wakeup.detach();
    shared.server_status.cycles.send(); // Wake the waiting calls, because no cycle will follow.
    note_commit(0);
}
