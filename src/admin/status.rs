//! Views `snowflake_status`, `snowflake_layout_status` and `snowflake_clock_seq_status`.

use std::sync::atomic::{AtomicU64, Ordering};

use pgrx::prelude::*;
use snowflake_id_core::SlotKey;
use snowflake_id_core::track::TRACKS;

use crate::config;
use crate::error::OrReport;
use crate::generate::wait::is_far_ahead;
use crate::keeper;
use crate::pg::encoding::Shown;
use crate::pg::timestamp::{interval, timestamptz};
use crate::pg::{clock, server};
use crate::shared::keeper_words::{Closed, Misfit};
use crate::shared::lease;
use crate::shared::memory::{self, State};
use crate::shared::report;
use crate::shared::segment_table;

/// Returns the state of the server, in one row.
#[pg_extern(schema = "snowflake_internal", volatile, parallel_safe)]
#[allow(clippy::type_complexity)] // pgrx reads the columns from the type itself.
fn snowflake_server_status() -> TableIterator<
    'static,
    (
        name!(state, &'static str),
        name!(datacenter_id, Option<i32>),
        name!(worker_id, Option<i32>),
        name!(identity_source, Option<&'static str>),
        name!(node_name, Shown),
        name!(horizon, Option<TimestampWithTimeZone>),
        name!(floor, Option<TimestampWithTimeZone>),
        name!(resumes_at, TimestampWithTimeZone),
        name!(clock_jump, Option<Interval>),
        name!(keeper_pid, Option<i32>),
        name!(last_error, Option<Shown>),
        name!(last_error_at, Option<TimestampWithTimeZone>),
        name!(warning, Option<Shown>),
        name!(calls_waited, i64),
        name!(time_waited, Interval),
        name!(clock_steps_back, i64),
        name!(largest_clock_step_back, Interval),
        name!(registry_state, Option<&'static str>),
        name!(lease_until, Option<TimestampWithTimeZone>),
        name!(lease_renewed_at, Option<TimestampWithTimeZone>),
        name!(clock_offset, Option<Interval>),
        name!(segments_in_use, i32),
    ),
> {
    let shared = memory::state().or_report();
    let server_status = &shared.server_status;
    let now_us = clock::clock_us();
    let identity = shared.gate.identity();
    let source = match config::identity() {
        _ if server_status.keeper.until_us() != i64::MAX => "registry",
        Some(_) => "settings",
        None => "snowflake_workers",
    };
    let lease_status = config::registry().map(|_| lease::lease_status());
    let report = report::report();
    // The horizon and the floor are shown for the track of the session's layout.
    let track = config::valid_layout().map_or(0, |layout| shared.key_of(&layout).track());
    let instant = |us: i64| (us > 0).then(|| timestamptz(us));
    let statistics = &shared.statistics;
    let count = |figure: &AtomicU64| figure.load(Ordering::Relaxed) as i64;
    let jump_us = server_status.keeper.clock_jump_us.load(Ordering::Relaxed);
    let segments_in_use = segment_table::occupied();
    let warning = || match server::is_in_recovery() {
        true => keeper::standby_warning(),
        false => {
            report.warning().or_else(|| lease_status?.warning()).or_else(|| of_segments(segments_in_use))
        }
    };
    TableIterator::once((
        state_word(shared, now_us),
        // An identity has at most 31 bits.
        identity.map(|identity| identity.datacenter as i32),
        identity.map(|identity| identity.worker as i32),
        identity.map(|_| source),
        config::node_name().into(),
        instant(shared.published_us(track)),
        server_status.is_begun().then(|| timestamptz(server_status.begun(track).floor_us)),
        timestamptz(resumes_at_us(shared, now_us)),
        (jump_us > 0).then(|| interval(jump_us)),
        server_status.wakeup.pid(),
        report.error().or_else(|| lease_status?.problem()).map(Shown::from),
        instant(report.error_at_us),
        warning().map(Shown::from),
        count(&statistics.calls_waited),
        interval(count(&statistics.waited_us)),
        count(&statistics.clock_steps_back),
        interval(count(&statistics.largest_step_back_us)),
        lease_status.map(|lease_status| lease_status.state.name()),
        lease_status.and_then(|lease_status| lease_status.lease).map(|lease| timestamptz(lease.until_us)),
        lease_status.and_then(|lease_status| instant(lease_status.renewed_at_us)),
        lease_status.and_then(|lease_status| lease_status.clock_offset_us).map(interval),
        segments_in_use as i32,
    ))
}

/// Returns a warning if little room is left for more segments.
fn of_segments(in_use: usize) -> Option<String> {
    let most = config::max_segments();
    segment_table::is_near(in_use, most).then(|| {
        format!("{in_use} of at most {most} segments are in use (snowflake_id.max_segments); if this maximum is reached, calls for other segments fail")
    })
}

/// Returns one row for each layout in use.
#[pg_extern(schema = "snowflake_internal", volatile, parallel_safe)]
fn snowflake_layouts_in_use() -> TableIterator<
    'static,
    (
        name!(layout, String),
        name!(last_id_time, TimestampWithTimeZone),
        name!(ahead, Interval),
        name!(ids_issued, i64),
        name!(clock_seq, Option<i32>),
    ),
> {
    let now_us = clock::clock_us();
    let slots = memory::state().or_report().slots_in_use();
    TableIterator::new(slots.into_iter().filter(|slot| !slot.is_left).map(move |slot| {
        let last_us = slot.key.last_tick_us(slot.counter);
        let ahead = interval(last_us - now_us);
        // A layout without field `clock_seq` has value 0, which is shown as NULL.
        let value = (slot.layout.max_clock_seq() > 0).then_some(slot.clock_seq.into());
        (slot.layout.label(), timestamptz(last_us), ahead, slot.issued as i64, value)
    }))
}

/// Returns one row for the current value of the clock sequence, and one row for each other value that fits
/// the session's layout but cannot be reused yet.
#[pg_extern(schema = "snowflake_internal", volatile, parallel_safe)]
fn snowflake_clock_sequence_values() -> TableIterator<
    'static,
    (name!(clock_seq, i32), name!(is_in_use, bool), name!(used_until, Option<TimestampWithTimeZone>)),
> {
    let server_status = &memory::state().or_report().server_status;
    let (in_use, now_us) = (server_status.value(), clock::clock_us());
    let max_value = config::valid_layout().map_or(0, |layout| layout.max_clock_seq());
    let exhausted = server_status
        .values
        .used()
        .filter(|&(value, end_us)| value != in_use && value <= max_value && end_us > now_us);
    let mut rows: Vec<_> =
        exhausted.map(|(value, end_us)| (value.into(), false, Some(timestamptz(end_us)))).collect();
    rows.push((in_use.into(), true, None));
    rows.sort_unstable_by_key(|row| row.0);
    TableIterator::new(rows)
}

/// Returns the time at which every layout in use can issue IDs again, in microseconds of Unix time. Returns
/// `now_us` if the clock allows IDs now.
fn resumes_at_us(shared: &State, now_us: i64) -> i64 {
    now_us.max(latest_us(shared, now_us, SlotKey::tick_us))
}

/// Returns whether the clock was set back so far that the floor or an issued ID is more than `max_ahead`
/// ahead of the clock. (The *next* ID can also be more than `max_ahead` ahead if IDs are issued at the
/// maximum rate, but only for less than a tick.)
fn is_clock_behind(shared: &State, now_us: i64) -> bool {
    latest_us(shared, now_us, SlotKey::last_tick_us) > now_us
}

/// Returns the earliest time at which the clock allows IDs at the floor and in all slots in use, in
/// microseconds of Unix time. `time_of` converts the counter of a slot to a time.
fn latest_us(shared: &State, now_us: i64, time_of: impl Fn(&SlotKey, u64) -> i64) -> i64 {
    let in_use = shared.slots_in_use();
    let in_use = in_use.iter().filter(|slot| !slot.is_left);
    let times = in_use.map(|slot| (slot.layout.max_clock_seq(), time_of(&slot.key, slot.counter)));
    let layout = config::valid_layout();
    let track = layout.map_or(0, |layout| shared.key_of(&layout).track());
    let floor_us = shared.server_status.begun(track).floor_us;
    let begin = (layout.map_or(0, |layout| layout.max_clock_seq()), floor_us);
    let allowed = times.chain([begin]).map(|(max_value, time_us)| {
        let allowed_us = time_us - max_ahead_us();
        match shared.server_status.another_value_from_us(max_value) {
            // The layout switches to another value of the clock sequence instead of waiting.
            Some(from_us) if is_far_ahead(allowed_us - now_us) => allowed_us.min(from_us.max(now_us)),
            _ => allowed_us,
        }
    });
    allowed.fold(0, i64::max)
}

fn max_ahead_us() -> i64 {
    config::max_ahead().as_micros() as i64
}

fn state_word(shared: &State, now_us: i64) -> &'static str {
    let server_status = &shared.server_status;
    // A horizon in the past is not a problem if the keeper can extend it and no call is waiting. It only
    // means that no IDs were requested recently.
    let is_hindered = report::report().error().is_some()
        || server_status.keeper.committing_for_us(now_us).is_some()
        || server_status.wakeup.is_wanted()
        || !server_status.keeper.has_succeeded.load(Ordering::Relaxed);
    let tracks = 0..if server_status.value() > 0 { TRACKS } else { 1 };
    let has_reached_horizon = tracks.into_iter().any(|track| shared.published_us(track) <= now_us);
    if server::is_in_recovery() {
        "recovery"
    } else if server_status.wakeup.pid().is_none() {
        "no keeper"
    } else if let Some(misfit) = server_status.keeper.misfit() {
        match misfit {
            Misfit::Worker => "worker id too large",
            Misfit::Datacenter => "datacenter id too large",
            Misfit::Epoch => "clock before epoch",
            Misfit::End => "layout exhausted",
        }
    } else if shared.gate.identity().is_none() {
        match server_status.keeper.closed() {
            Closed::NoWorkerId => "no worker id",
            Closed::NoLease => "no lease",
            Closed::Refused => "worker id refused",
            Closed::Starting | Closed::Problem => "starting",
        }
    } else if server_status.keeper.clock_jump_us.load(Ordering::Relaxed) > 0 {
        "clock jumped"
    } else if server_status.keeper.until_us() <= now_us {
        "lease ended"
    } else if has_reached_horizon && is_hindered {
        "horizon stalled"
    } else if is_clock_behind(shared, now_us) {
        "clock behind"
    } else {
        "ready"
    }
}
