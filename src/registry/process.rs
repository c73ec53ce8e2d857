//! Start and exit of the registry worker process.

use std::time::Instant;

use pgrx::prelude::*;

use super::worker::Worker;
use crate::background::start;
use crate::background::stop::on_sigterm;
use crate::config;
use crate::pg::process;
use crate::shared::lease::{self, LeaseStatus};
use crate::shared::memory::{self, State};

/// Starts the registry worker if the worker is needed and not running. The keeper calls this function.
pub fn start_if_needed(shared: &State, last_start: &mut Option<Instant>) -> Result<(), String> {
    if config::registry().is_none() {
        return Ok(());
    }
    let wakeup = &shared.server_status.registry_wakeup;
    start::start_if_missing(wakeup, last_start, "snowflake_id registry", "snowflake_id_registry_main")
}

/// The entry point of the process.
#[pg_guard]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn snowflake_id_registry_main(_argument: pg_sys::Datum) {
    process::handle_signals(on_sigterm);
    let Ok(shared) = memory::state() else {
        return; // This cannot happen, because the keeper that started this worker has shared memory.
    };
    process::connect_to_no_database();
    if !shared.server_status.registry_wakeup.attach() {
        return; // Another registry worker is running.
    }
    process::at_exit(on_exit);
    if let Some(mut worker) = Worker::new(shared) {
        worker.run();
    }
    if config::registry().is_none() {
        lease::tell(LeaseStatus::forget);
        shared.server_status.wakeup.request();
    }
}

fn on_exit() {
    if let Ok(shared) = memory::state() {
        shared.server_status.registry_wakeup.detach();
        shared.server_status.wakeup.request(); // Wake the keeper, which starts another worker.
    }
}
