//! View `snowflake_status`.

use std::sync::atomic::{AtomicU64, Ordering};

use pgrx::prelude::*;
use snowflake_id_core::SlotKey;

use crate::config;
use crate::error::OrReport;
use crate::pg::timestamp::timestamptz;
use crate::pg::{clock, server};
use crate::shared::board::Closed;
use crate::shared::memory;
use crate::shared::memory::State;
use crate::shared::report;

/// The server's own facts: one row.
#[pg_extern(volatile, parallel_safe)]
#[allow(clippy::type_complexity)] // pgrx reads the columns from the type itself.
fn snowflake_server_status() -> TableIterator<
    'static,
    (
        name!(state, &'static str),
        name!(datacenter_id, Option<i32>),
        name!(worker_id, Option<i32>),
        name!(identity_source, Option<&'static str>),
        name!(node_name, String),
        name!(horizon, Option<TimestampWithTimeZone>),
        name!(floor, Option<TimestampWithTimeZone>),
        name!(resumes_at, TimestampWithTimeZone),
        name!(clock_jump, Option<Interval>),
        name!(keeper_pid, Option<i32>),
        name!(last_error, Option<String>),
        name!(last_error_at, Option<TimestampWithTimeZone>),
        name!(warning, Option<String>),
        name!(calls_waited, i64),
        name!(time_waited, Interval),
        name!(clock_steps_back, i64),
        name!(largest_clock_step_back, Interval),
    ),
> {
    let shared = memory::state().or_report();
    let board = &shared.board;
    let now_us = clock::clock_us();
    let identity = shared.gate.identity();
    let source = match config::identity() {
        Some(_) => "settings",
        None => "snowflake_worker",
    };
    let report = report::report();
    let instant = |us: i64| (us > 0).then(|| timestamptz(us));
    let statistics = &shared.statistics;
    let count = |figure: &AtomicU64| figure.load(Ordering::Relaxed) as i64;
    let jump_us = board.keeper.clock_jump_us.load(Ordering::Relaxed);
    TableIterator::once((
        state_word(shared, now_us),
        // An identity has at most 31 bits.
        identity.map(|identity| identity.datacenter as i32),
        identity.map(|identity| identity.worker as i32),
        identity.map(|_| source),
        config::node_name(),
        instant(board.past.published_us()),
        board.keeper.floor_us().map(timestamptz),
        timestamptz(resumes_at_us(shared, now_us)),
        (jump_us > 0).then(|| Interval::from_micros(jump_us)),
        board.bell.keeper_pid(),
        report.error(),
        instant(report.error_at_us),
        report.warning(),
        count(&statistics.calls_waited),
        Interval::from_micros(count(&statistics.waited_us)),
        count(&statistics.clock_steps_back),
        Interval::from_micros(count(&statistics.largest_step_back_us)),
    ))
}

/// The slots in use: a row each.
#[pg_extern(volatile, parallel_safe)]
fn snowflake_slots() -> TableIterator<
    'static,
    (
        name!(layout, String),
        name!(last_id_time, TimestampWithTimeZone),
        name!(drift, Interval),
        name!(ids_issued, i64),
    ),
> {
    let now_us = clock::clock_us();
    let slots = memory::state().or_report().slots_in_use();
    TableIterator::new(slots.into_iter().map(move |slot| {
        let last_us = SlotKey::of(&slot.layout).last_tick_us(slot.counter);
        let drift = Interval::from_micros(last_us - now_us);
        (slot.layout.to_string(), timestamptz(last_us), drift, slot.issued as i64)
    }))
}

/// When the clock will have come far enough for IDs in every layout that is in use: now, if it has.
fn resumes_at_us(shared: &State, now_us: i64) -> i64 {
    now_us.max(latest_us(shared, SlotKey::tick_us) - max_drift_us())
}

/// Whether the clock was set back too far: the floor, or an ID that was made, is further ahead of it than any
/// ID may be. (At saturation the next ID is as well, for less than a tick.)
fn is_clock_behind(shared: &State, now_us: i64) -> bool {
    latest_us(shared, SlotKey::last_tick_us) - max_drift_us() > now_us
}

/// The latest of the floor and what `time_of` makes of each slot's counter.
fn latest_us(shared: &State, time_of: impl Fn(&SlotKey, u64) -> i64) -> i64 {
    let in_use = shared.slots_in_use();
    let times = in_use.iter().map(|slot| time_of(&SlotKey::of(&slot.layout), slot.counter));
    times.fold(shared.board.keeper.floor_us().unwrap_or(0), i64::max)
}

fn max_drift_us() -> i64 {
    config::max_drift().as_micros() as i64
}

fn state_word(shared: &State, now_us: i64) -> &'static str {
    let board = &shared.board;
    // Without a call that waits, a horizon that was reached only tells that nobody has taken IDs; unless the
    // keeper could not extend it anyway.
    let is_hindered = report::report().error().is_some()
        || board.keeper.committing_for_us(now_us).is_some()
        || board.bell.is_wanted()
        || !board.keeper.has_succeeded.load(Ordering::Relaxed);
    if server::is_in_recovery() {
        "recovery"
    } else if board.bell.keeper_pid().is_none() {
        "no keeper"
    } else if shared.gate.identity().is_none() {
        match board.keeper.closed() {
            Closed::NoWorkerId => "no worker id",
            Closed::Starting | Closed::Problem => "starting",
        }
    } else if board.keeper.clock_jump_us.load(Ordering::Relaxed) > 0 {
        "clock jumped"
    } else if board.past.published_us() <= now_us && is_hindered {
        "horizon stalled"
    } else if is_clock_behind(shared, now_us) {
        "clock behind"
    } else {
        "ready"
    }
}
