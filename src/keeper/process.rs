//! The process of the keeper: its registration, its beginning and its end.

use std::sync::atomic::Ordering;
use std::time::Duration;

use pgrx::bgworkers::{BackgroundWorker, BackgroundWorkerBuilder, SignalWakeFlags};
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

/// How long the postmaster waits before it starts a keeper again.
const RESTART_TIME: Duration = Duration::from_secs(1);

/// Registers the keeper with the postmaster. Nothing of ours may run while pg_upgrade copies catalogs.
pub fn register() {
    if server::is_binary_upgrade() {
        return;
    }
    BackgroundWorkerBuilder::new("snowflake_id keeper")
        .set_type("snowflake_id keeper")
        .set_library("snowflake_id")
        .set_function("snowflake_id_keeper_main")
        .enable_spi_access() // Starts after recovery only: a standby has no keeper, so its gate stays closed.
        .set_restart_time(Some(RESTART_TIME))
        .load();
}

/// Where the process begins.
#[pg_guard]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn snowflake_id_keeper_main(_argument: pg_sys::Datum) {
    BackgroundWorker::attach_signal_handlers(SignalWakeFlags::SIGHUP);
    process::handle_signals(on_sigterm);
    let Ok(shared) = memory::state() else {
        return; // Registered by the postmaster, which made the shared memory.
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
        // The keeper before this one found that out, and ended. Each attempt leaves a message in the log.
        BackgroundWorker::wait_latch(Some(RETRY_TIME));
    }
    report::report_error(Some(&cannot_connect), clock::clock_us());
    server_status.keeper.set_closed(Closed::Problem);
    database::connect(&database);
    // What ended the keeper before this one may end this one as well: it stays in the report until a look was
    // successful.
    let last_error = last_error.filter(|error| *error != cannot_connect);
    report::report_error(last_error.as_deref(), clock::clock_us());
    server_status.keeper.set_closed(if last_error.is_some() { Closed::Problem } else { Closed::Starting });
    Keeper::new(shared).run();
    // With code 0 the postmaster would never start it again.
    process::exit(1);
}

/// Runs when the process ends, in whichever way but by SIGKILL, after which the postmaster makes all shared
/// memory anew.
fn on_exit() {
    let Ok(shared) = memory::state() else { return };
    if !is_stopping() && report::report().error().is_none() {
        let text = "the keeper exited unexpectedly and is restarted: see the server log";
        report::report_error(Some(text), clock::clock_us());
    }
    shared.server_status.commands.answer_claimed(Answer::Failed);
    shared.server_status.wakeup.detach();
    shared.server_status.cycles.send(); // There will be none.
    note_commit(0);
}
