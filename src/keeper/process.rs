//! The process of the keeper: its registration, its beginning and its end.

use std::sync::atomic::Ordering;
use std::time::Duration;

use pgrx::bgworkers::{BackgroundWorker, BackgroundWorkerBuilder, SignalWakeFlags};
use pgrx::prelude::*;

use super::transaction::{is_stopping, note_commit, on_sigterm};
use super::{Keeper, RETRY_TIME};
use crate::shared::board::Closed;
use crate::shared::order_desk::Answer;
use crate::{compat, config, shared};

/// How long the postmaster waits before it starts a keeper again.
const RESTART_TIME: Duration = Duration::from_secs(1);

/// Registers the keeper with the postmaster. Nothing of ours may run while pg_upgrade copies catalogs.
pub fn register() {
    if compat::is_binary_upgrade() {
        return;
    }
    let keeper = BackgroundWorkerBuilder::new("snowflake_id keeper")
        .set_type("snowflake_id keeper")
        .set_library("snowflake_id")
        .set_function("snowflake_id_keeper_main")
        .enable_spi_access() // Starts after recovery only: a standby has no keeper, so its gate stays closed.
        .set_restart_time(Some(RESTART_TIME));
    if !compat::registers_worker(|| keeper.load()) {
        ereport!(
            PgLogLevel::LOG,
            PgSqlErrorCode::ERRCODE_CONFIGURATION_LIMIT_EXCEEDED,
            "snowflake_id: max_worker_processes leaves no room for the keeper: no IDs can be made",
            "Raise max_worker_processes in postgresql.conf and restart the server."
        );
    }
}

/// Where the process begins.
#[pg_guard]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn snowflake_id_keeper_main(_argument: pg_sys::Datum) {
    BackgroundWorker::attach_signal_handlers(SignalWakeFlags::SIGHUP);
    compat::handle_signals(on_sigterm);
    let Ok(shared) = shared::state() else {
        return; // Registered by the postmaster, which made the shared memory.
    };
    let board = &shared.board;
    board.keeper.has_succeeded.store(false, Ordering::Relaxed);
    board.bell.answer_from_here();
    compat::at_exit(on_exit);

    let database = config::database();
    let cannot_connect =
        format!("cannot connect to database \"{}\" (snowflake_id.database)", database.to_string_lossy());
    let last_error = shared::report().error();
    if last_error.as_ref() == Some(&cannot_connect) {
        // The keeper before this one found that out, and ended. Each attempt leaves a message in the log.
        BackgroundWorker::wait_latch(Some(RETRY_TIME));
    }
    shared::report_error(Some(&cannot_connect), compat::clock_us());
    board.keeper.set_closed(Closed::Problem);
    compat::connect_keeper(&database);
    // What ended the keeper before this one may end this one as well: it stays in the report until a look was successful.
    let last_error = last_error.filter(|error| *error != cannot_connect);
    shared::report_error(last_error.as_deref(), compat::clock_us());
    board.keeper.set_closed(if last_error.is_some() { Closed::Problem } else { Closed::Starting });
    Keeper::new(shared).run();
    // With code 0 the postmaster would never start it again.
    compat::exit(1);
}

/// Runs when the process ends, in whichever way but by SIGKILL, after which the postmaster makes all shared memory anew.
fn on_exit() {
    let Ok(shared) = shared::state() else { return };
    if !is_stopping() && shared::report().error().is_none() {
        let text = "the keeper has ended over its work, and is started again: see the server's log";
        shared::report_error(Some(text), compat::clock_us());
    }
    shared.board.orders.answer_claimed(Answer::Failed);
    shared.board.bell.answer_no_more();
    note_commit(0);
}
