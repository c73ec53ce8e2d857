//! Functions for starting and stopping the segments worker.

use std::sync::OnceLock;
use std::sync::atomic::Ordering;
use std::time::Instant;

use pgrx::prelude::*;

use super::range_file::RangeFile;
use super::worker::Worker;
use crate::background::stop::{is_stopping, on_sigterm};
use crate::background::{database, start};
use crate::config;
use crate::pg::process;
use crate::pg::relation::Extension;
use crate::shared::memory;
use crate::shared::segments::{self, Trouble, segments};

/// True if this server has been granted numbers before. The keeper sets this flag in `find_ranges`.
static HAS_RANGES: OnceLock<bool> = OnceLock::new();

/// Determines whether this server has been granted numbers before. The keeper calls this function in a
/// transaction.
pub fn find_ranges(extension: Extension) {
    HAS_RANGES.get_or_init(|| RangeFile::is_there(extension));
}

/// Starts the segments worker if it is needed and is not running. The keeper calls this function.
pub fn start_if_needed(last_start: &mut Option<Instant>) {
    let Ok(segments) = segments() else { return };
    // A server that has been granted numbers reports its high-water marks to the registry, even if it needs no more
    // numbers.
    let is_needed = HAS_RANGES.get() == Some(&true)
        || segments.is_used.load(Ordering::Relaxed)
        || !config::prefetch_segments().is_empty();
    if !is_needed {
        return;
    }
    let (wakeup, name) = (&segments.wakeup, "snowflake_id segments");
    if let Err(text) = start::start_if_missing(wakeup, last_start, name, "snowflake_id_segments_main") {
        segments::report_problem(Some(&text), Trouble::Silence);
    }
}

/// Entry point of the worker.
#[pg_guard]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn snowflake_id_segments_main(_argument: pg_sys::Datum) {
    process::handle_signals(on_sigterm);
    let (Ok(shared), Ok(segments)) = (memory::state(), segments()) else {
        return; // Unreachable, because the keeper starts the worker only if shared memory exists.
    };
    // The high-water marks are stored in this database. If `snowflake_id.registry` is not set, the same
    // database can contain the registry.
    database::connect(&config::database());
    let is_local = config::registry().is_none();
    if !segments.wakeup.attach() {
        return; // Another worker is running.
    }
    process::at_exit(on_exit);
    let mut worker = Worker::new(segments, is_local);
    worker.run();
    if is_stopping() {
        worker.save_rest();
    } else {
        worker.keep_unused_rest();
    }
    shared.server_status.wakeup.request();
}

fn on_exit() {
    if let (Ok(shared), Ok(segments)) = (memory::state(), segments()) {
        segments.wakeup.detach();
        shared.server_status.wakeup.request(); // The keeper starts a new worker.
    }
}
