//! The process of the keeper: its registration, its signals, its transactions.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pgrx::bgworkers::{BackgroundWorker, BackgroundWorkerBuilder, SignalWakeFlags};
use pgrx::pg_sys::panic::CaughtError;
use pgrx::prelude::*;

use super::{Keeper, Problem, RETRY_TIME};
use crate::shared::Closed;
use crate::{compat, config, shared};

/// How long the postmaster waits before it starts a keeper again.
const RESTART_TIME: Duration = Duration::from_secs(1);

/// Set by SIGTERM.
static IS_STOPPING: AtomicBool = AtomicBool::new(false);
/// Set while a commit is under way, which SIGTERM then has to interrupt: it may wait for a standby that is gone.
static IS_COMMITTING: AtomicBool = AtomicBool::new(false);

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
    shared.keeper.register();
    let database = config::database();
    let cannot_connect =
        format!("cannot connect to database \"{}\" (snowflake_id.database)", database.to_string_lossy());
    if shared::report().text().as_ref() == Some(&cannot_connect) {
        // The keeper before this one found that out, and ended. Each attempt leaves a message in the log.
        BackgroundWorker::wait_latch(Some(RETRY_TIME));
    }
    shared::set_report(Some(&cannot_connect), compat::clock_us());
    shared.keeper.set_closed(Closed::Problem);
    compat::connect_keeper(&database);
    shared::set_report(None, 0);
    shared.keeper.set_closed(Closed::Starting);
    Keeper::new(shared).run();
    shared.keeper.unregister();
    // With code 0 the postmaster would never start it again.
    compat::exit(1);
}

/// Runs between any two instructions of the keeper.
unsafe extern "C-unwind" fn on_sigterm(_signal: i32) {
    IS_STOPPING.store(true, Ordering::SeqCst);
    compat::interrupt(IS_COMMITTING.load(Ordering::SeqCst));
}

pub fn is_stopping() -> bool {
    IS_STOPPING.load(Ordering::SeqCst)
}

/// Runs a transaction, and commits it whatever `body` returns. On an error of PostgreSQL it is rolled back, and the error is
/// the problem.
///
/// When it returns and the process [`is_stopping`], the commit may not have reached a synchronous standby: a wait that was
/// cut short ends like one that was successful.
pub fn transaction<T>(body: impl FnOnce() -> Result<T, Problem>) -> Result<T, Problem> {
    let run = AssertUnwindSafe(|| {
        BackgroundWorker::transaction(AssertUnwindSafe(|| {
            compat::commit_locally_at_least();
            let result = body();
            // A lock that came just when its time was up: what is left of that must not end a wait of the commit.
            pgrx::check_for_interrupts!();
            note_commit(compat::clock_us());
            IS_COMMITTING.store(true, Ordering::SeqCst);
            if is_stopping() {
                // The signal came too early to interrupt the commit by itself.
                compat::interrupt(true);
            }
            result
        }))
    });
    let result = PgTryBuilder::new(run)
        .catch_others(|error| {
            compat::abort_transaction();
            Err(Problem(message_of(&error)))
        })
        .execute();
    IS_COMMITTING.store(false, Ordering::SeqCst);
    note_commit(0);
    result
}

/// Tells the backends since when a commit has been under way; 0: none is.
fn note_commit(since_us: i64) {
    if let Ok(shared) = shared::state() {
        shared.keeper.committing_since_us.store(since_us, Ordering::Relaxed);
    }
}

fn message_of(error: &CaughtError) -> String {
    match error {
        CaughtError::PostgresError(report)
        | CaughtError::ErrorReport(report)
        | CaughtError::RustPanic { ereport: report, .. } => report.message().into(),
    }
}
