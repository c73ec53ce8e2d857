//! The process of the segments worker: its beginning and its end.

use std::sync::OnceLock;
use std::sync::atomic::Ordering;
use std::time::Instant;

use pgrx::bgworkers::{BackgroundWorker, SignalWakeFlags};
use pgrx::prelude::*;

use super::past::Past;
use super::worker::Worker;
use crate::background::start;
use crate::background::stop::on_sigterm;
use crate::config;
use crate::pg::process;
use crate::shared::memory;
use crate::shared::segments::{self, Trouble, segments};

/// The keeper's part: starts the worker when it has to run and does not.
pub fn start_if_needed(last_start: &mut Option<Instant>) {
    let Ok(segments) = segments() else { return };
    let is_there = segments.bell.pid().is_some() || start::is_coming(*last_start);
    // Who has had numbers tells the registry so, whether more are wanted or not.
    static HAS_PAST: OnceLock<bool> = OnceLock::new();
    if !*HAS_PAST.get_or_init(Past::is_there) && !segments.is_used.load(Ordering::Relaxed) || is_there {
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
    // Without a registry elsewhere it may be in the keeper's database.
    let is_here = config::registry().is_none();
    if is_here {
        process::connect_keeper(&config::database());
    } else {
        process::connect_to_no_database();
    }
    if !segments.bell.answer_from_here() {
        return; // There is one already.
    }
    process::at_exit(on_exit);
    Worker::new(segments, is_here).run();
    shared.board.bell.ring();
}

fn on_exit() {
    if let (Ok(shared), Ok(segments)) = (memory::state(), segments()) {
        segments.bell.answer_no_more();
        shared.board.bell.ring(); // The keeper starts another one.
    }
}
