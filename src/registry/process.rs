//! The process of the registry worker: its beginning and its end.

use std::time::{Duration, Instant};

use pgrx::bgworkers::{BackgroundWorker, BackgroundWorkerBuilder, SignalWakeFlags};
use pgrx::prelude::*;

use super::worker::Worker;
use crate::background::stop::on_sigterm;
use crate::config;
use crate::pg::process;
use crate::shared::lease::{self, LeaseNews};
use crate::shared::memory::{self, State};

/// How long the keeper gives a worker to come up before it starts another one.
const TIME_TO_START: Duration = Duration::from_secs(2);

/// The keeper's part: starts the worker when it has to run and does not.
pub fn start_if_needed(shared: &State, last_start: &mut Option<Instant>) -> Result<(), String> {
    let is_starting = last_start.is_some_and(|at| at.elapsed() < TIME_TO_START);
    if config::registry().is_none() || shared.board.registry_bell.pid().is_some() || is_starting {
        return Ok(());
    }
    BackgroundWorkerBuilder::new("snowflake_id registry")
        .set_type("snowflake_id registry")
        .set_library("snowflake_id")
        .set_function("snowflake_id_registry_main")
        .enable_spi_access() // So that it shows up in pg_stat_activity.
        .load_dynamic()
        .map(|_| *last_start = Some(Instant::now()))
        .map_err(|_| {
            "cannot start the background worker \"snowflake_id registry\": it needs one of max_worker_processes".into()
        })
}

/// Where the process begins.
#[pg_guard]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn snowflake_id_registry_main(_argument: pg_sys::Datum) {
    BackgroundWorker::attach_signal_handlers(SignalWakeFlags::SIGHUP);
    process::handle_signals(on_sigterm);
    let Ok(shared) = memory::state() else {
        return; // Started by the keeper, which has shared memory.
    };
    process::connect_to_no_database();
    process::shorten_name_lookups();
    if !shared.board.registry_bell.answer_from_here() {
        return; // There is one already.
    }
    process::at_exit(on_exit);
    Worker::new(shared).run();
    if config::registry().is_none() {
        lease::tell(LeaseNews::forget);
        shared.board.bell.ring();
    }
}

fn on_exit() {
    if let Ok(shared) = memory::state() {
        shared.board.registry_bell.answer_no_more();
        shared.board.bell.ring(); // The keeper starts another one.
    }
}
