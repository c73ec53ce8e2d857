//! The process of the segments worker: its beginning and its end.

use std::sync::OnceLock;
use std::sync::atomic::Ordering;
use std::time::Instant;

use pgrx::bgworkers::{BackgroundWorker, SignalWakeFlags};
use pgrx::prelude::*;

use super::range_file::RangeFile;
use super::worker::Worker;
use crate::background::stop::on_sigterm;
use crate::background::{database, start};
use crate::config;
use crate::pg::process;
use crate::pg::relation::Extension;
use crate::shared::memory;
use crate::shared::segments::{self, Trouble, segments};

/// In the keeper's process, once it has looked: whether this server has had numbers.
static HAS_PAST: OnceLock<bool> = OnceLock::new();

/// The keeper's part, in a transaction: looks whether this server has had numbers.
pub fn look_for_ranges(extension: Extension) {
    HAS_PAST.get_or_init(|| RangeFile::is_there(extension));
}

/// The keeper's part: starts the worker when it has to run and does not.
pub fn start_if_needed(last_start: &mut Option<Instant>) {
    let Ok(segments) = segments() else { return };
    let is_there = segments.wakeup.pid().is_some() || start::is_coming(*last_start);
    // Who has had numbers tells the registry so, whether more are wanted or not.
    let is_needed = HAS_PAST.get() == Some(&true) || segments.is_used.load(Ordering::Relaxed);
    if !is_needed || is_there {
        return;
    }
    *last_start = Some(Instant::now());
    if let Err(text) = start::start("snowflake_id segments", "snowflake_id_segments_main") {
        segments::report_problem(Some(&text), Trouble::Silence);
    }
}

/// Where the process begins.
#[pg_guard]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn snowflake_id_segments_main(_argument: pg_sys::Datum) {
    BackgroundWorker::attach_signal_handlers(SignalWakeFlags::SIGHUP);
    process::handle_signals(on_sigterm);
    let (Ok(shared), Ok(segments)) = (memory::state(), segments()) else {
        return; // Started by the keeper, which has shared memory.
    };
    // Where it notes what was had. Without a registry elsewhere that may be there as well.
    database::connect(&config::database());
    let is_here = config::registry().is_none();
    if !segments.wakeup.attach() {
        return; // There is one already.
    }
    process::at_exit(on_exit);
    Worker::new(segments, is_here).run();
    shared.server_status.wakeup.request();
}

fn on_exit() {
    if let (Ok(shared), Ok(segments)) = (memory::state(), segments()) {
        segments.wakeup.detach();
        shared.server_status.wakeup.request(); // The keeper starts another one.
    }
}
