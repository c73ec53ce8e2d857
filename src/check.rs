//! The parts of `snowflake_check()` that cannot be written in SQL. The other parts are in sql/parts/check.sql.

use std::time::{Duration, Instant};

use pgrx::datum::datetime_support::now;
use pgrx::prelude::*;
use serde_json::json;
use snowflake_id_core::guess::{MAX_AHEAD_US, guess};
use snowflake_id_core::lease_call::Call;
use snowflake_id_core::protocol::PROTOCOLS;
use snowflake_id_core::reply::Reply;
use snowflake_id_core::{Field, Layout};

use crate::background::connection::{self, NoAnswer, Refused};
use crate::background::rounds::in_short;
use crate::config;
use crate::pg::encoding::Shown;
use crate::pg::timestamp::{timestamptz, unix_us};
use crate::pg::{clock, helper, sample};
use crate::shared::memory;

/// The maximum time for the request to the registry.
const TIME_FOR_REGISTRY: Duration = Duration::from_secs(30);
/// The maximum number of manually set worker IDs that the registry accepts.
const MOST_BY_HAND: usize = 8;
/// The maximum number of problems that are taken from the registry.
const MOST_PROBLEMS: usize = 50;
/// 2025-01-01, in microseconds of Unix time. `snowflake_nextval()` did not exist before this date.
const FIRST_IDS_US: i64 = 1_735_689_600_000_000;
/// One year, in microseconds. An ID that is more than one year ahead of the clock probably belongs to another layout.
const YEAR_US: i64 = 365 * 86_400 * 1_000_000;

/// Returns whether the library was preloaded, so that the server can issue IDs.
#[pg_extern(schema = "snowflake_internal", stable, parallel_safe)]
fn is_preloaded() -> bool {
    memory::state().is_ok()
}

/// Returns IDs from the first and the last pages of a table, as the session's layout decodes them. If an ID does not
/// seem to belong to this layout, `other_layout` is the preset with which the ID was probably made.
#[pg_extern(schema = "snowflake_internal", volatile, parallel_restricted)]
#[allow(clippy::type_complexity)] // pgrx reads the columns from the type itself.
fn sampled_ids(
    id_table: pg_sys::Oid,
    column_number: i16,
) -> TableIterator<
    'static,
    (
        name!(id, i64),
        name!(generated_at, Option<TimestampWithTimeZone>),
        name!(datacenter_id, Option<i32>),
        name!(worker_id, Option<i32>),
        name!(other_layout, Option<&'static str>),
    ),
> {
    let Some(layout) = config::valid_layout() else { return TableIterator::empty() };
    let now_us = unix_us(now().into_inner());
    let integer = |value: Option<u32>| value.map(|value| value as i32);
    let ids = sample::ends_of_column(id_table, column_number);
    TableIterator::new(ids.into_iter().map(move |id| {
        let decoded = layout.decode(id).ok();
        let us = decoded.map(|decoded| decoded.generated_at);
        (
            id,
            us.map(timestamptz),
            decoded.and_then(|decoded| integer(decoded.datacenter_id)),
            decoded.and_then(|decoded| integer(decoded.worker_id)),
            other_layout(&layout, id, us, now_us),
        )
    }))
}

/// If the time of an ID in this layout is not plausible, returns the preset with which the ID was probably made. Not
/// every ID of another preset is recognized, because the first IDs of one preset can be the same numbers as old IDs of
/// another preset.
fn other_layout(layout: &Layout, id: i64, us: Option<i64>, now_us: i64) -> Option<&'static str> {
    let is_old = us.is_some_and(|us| us < FIRST_IDS_US);
    let is_new = us.is_none_or(|us| us > now_us.saturating_add(MAX_AHEAD_US + YEAR_US));
    if !is_old && !is_new {
        return None;
    }
    let others = guess(id, now_us).into_iter().filter(|other| other.preset.layout() != *layout);
    let mut plausible = others.filter(|other| is_new || other.decoded.generated_at >= FIRST_IDS_US);
    plausible.next().map(|other| other.preset.name)
}

/// Asks the registry which problems it sees for this server. `by_hand` contains the worker IDs that this server's
/// configuration sets. The problems contain no secret part of the connection string.
#[pg_extern(schema = "snowflake_internal", volatile, parallel_restricted)]
#[allow(clippy::type_complexity)] // pgrx reads the columns from the type itself.
fn check_registry(
    by_hand: Vec<i32>,
) -> TableIterator<'static, (name!(problem, Shown), name!(detail, Option<Shown>), name!(hint, Option<Shown>))>
{
    let shown = |(problem, detail, hint): (String, Option<String>, Option<String>)| {
        (Shown::from(problem), detail.map(Shown::from), hint.map(Shown::from))
    };
    TableIterator::new(registry_problems(by_hand).into_iter().map(shown))
}

type RegistryProblem = (String, Option<String>, Option<String>);

fn registry_problems(mut by_hand: Vec<i32>) -> Vec<RegistryProblem> {
    if memory::state().is_err() || config::registry().is_none() {
        return vec![];
    }
    // A thread of an earlier call may still be connecting.
    if helper::is_running() {
        let detail =
            "An earlier call in this session was canceled, or took too long, while it was connecting.";
        let hint = "Start a new session, and call snowflake_check() there.";
        return vec![("the registry was not checked".into(), Some(detail.into()), Some(hint.into()))];
    }
    by_hand.truncate(MOST_BY_HAND);
    let worker_limit = config::valid_layout().map(|layout| 1u64 << layout.bits(Field::Worker));
    let request = json!({
        "clock": clock::clock_us(),
        "by_hand": by_hand,
        "datacenter": config::datacenter_id(),
        "worker_limit": worker_limit,
        "protocol": PROTOCOLS.end(),
    });
    match ask_and_warn(&Call::new("check_server", &request)) {
        Ok(rows) => rows.iter().take(MOST_PROBLEMS).map(problem_of_row).collect(),
        Err(no_answer) => vec![problem_of_no_answer(no_answer)],
    }
}

/// Asks the registry. If a thread of the session cannot be stopped, tells the user to close the session, even if the
/// query is canceled. Unlike the registry worker, the process cannot simply exit, because the other problems are not
/// reported yet.
fn ask_and_warn(call: &Call) -> Result<Vec<Reply>, NoAnswer> {
    let warn = || {
        if helper::is_running() {
            ereport!(
                PgLogLevel::WARNING,
                PgSqlErrorCode::ERRCODE_WARNING,
                "a thread of this session is still connecting to the registry",
                "Close this session."
            );
        }
    };
    PgTryBuilder::new(|| ask(call)).finally(warn).execute()
}

fn ask(call: &Call) -> Result<Vec<Reply>, NoAnswer> {
    let string = config::registry().ok_or(NoAnswer::Stopping)?;
    let deadline = Instant::now() + TIME_FOR_REGISTRY;
    let mut keep_waiting = || Instant::now() < deadline;
    let mut connection = connection::connect(&string, &mut keep_waiting)?;
    connection::ask_for_rows(&mut connection, call, &mut keep_waiting)
}

fn problem_of_row(row: &Reply) -> RegistryProblem {
    let text = |column| row.text(column).map(|text| in_short(text.to_owned()));
    (text("problem").unwrap_or_default(), text("detail"), text("hint"))
}

fn problem_of_no_answer(no_answer: NoAnswer) -> RegistryProblem {
    let (problem, detail, hint) = match no_answer {
        NoAnswer::Stopping => (
            "the registry did not reply in time",
            format!("There was no reply within {} s.", TIME_FOR_REGISTRY.as_secs()),
            "Check the network, and the host names in snowflake_id.registry.",
        ),
        NoAnswer::Unreachable(problem) | NoAnswer::Stuck { problem, .. } => (
            "the registry cannot be reached",
            problem,
            "Check that the server of the registry is running, and that host and port in snowflake_id.registry are right.",
        ),
        NoAnswer::Rejected { problem, .. } => (
            "the registry rejects the connection of this server",
            problem,
            "Correct user and dbname in snowflake_id.registry, the password file of this server, or pg_hba.conf of the registry's server.",
        ),
        NoAnswer::Denied(denied) => (
            "the role of this server lacks a privilege in the registry",
            denied.text(&["acquire", "renew", "check_server"]),
            "Run the statements in DETAIL in the database of the registry, or create the role with snowflake_registry.add_server().",
        ),
        NoAnswer::Refused(Refused { problem, is_elsewhere: true, .. }) => (
            "the database contains no registry, or an old one",
            problem,
            "Correct dbname in snowflake_id.registry, or create or update extension snowflake_id_registry in that database.",
        ),
        NoAnswer::Failed(problem) | NoAnswer::Refused(Refused { problem, .. }) => (
            "the registry replied with an error",
            problem,
            "Connect with psql, the same connection string and as the operating system user of this server, and repeat the check.",
        ),
    };
    (problem.into(), Some(in_short(detail)), Some(hint.into()))
}
