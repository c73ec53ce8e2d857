//! View `snowflake_watermark_status`.

use pgrx::prelude::*;
use snowflake_id_core::watermark::{Blocked, Holder};

use crate::error::OrReport;
use crate::pg::timestamp::timestamptz;
use crate::pg::{process, server};
use crate::shared::memory;

/// Returns one row for each layout in use that has no clock sequence. If a transaction holds back the watermark, but
/// its process is not known, column `transaction` contains the ID of the transaction.
#[pg_extern(schema = "snowflake_internal", volatile, parallel_restricted)]
#[allow(clippy::type_complexity)] // pgrx reads the columns from the type itself.
fn snowflake_watermarks() -> TableIterator<
    'static,
    (
        name!(layout, String),
        name!(watermark, Option<i64>),
        name!(watermark_time, Option<TimestampWithTimeZone>),
        name!(problem, Option<&'static str>),
        name!(pid, Option<i32>),
        name!(transaction, Option<pg_sys::TransactionId>),
        name!(lowered_at, Option<TimestampWithTimeZone>),
    ),
> {
    let shared = memory::state().or_report();
    let watermarks = if server::is_in_recovery() { Vec::new() } else { shared.watermarks() };
    let lowered_at = shared.server_status.history.lowered_at_us().map(timestamptz);
    TableIterator::new(watermarks.into_iter().map(move |row| {
        let (problem, holder) = match row.watermark {
            Ok((_, _, holder)) => (None, holder),
            Err(Blocked::AnyLayout(holder)) => (Some("many layouts"), Some(holder)),
            Err(Blocked::Retired(holder)) => (Some("reset"), Some(holder)),
            Err(Blocked::Older(holder)) => (Some("older transaction"), Some(holder)),
        };
        let (pid, transaction) = match holder {
            Some(Holder::Process(index)) => (process::pid_at(index), None),
            // The lower 32 bits are the transaction ID that PostgreSQL shows.
            Some(Holder::Transaction(transaction)) => (None, Some((transaction as u32).into())),
            None => (None, None),
        };
        let known = row.watermark.ok();
        let time = known.map(|(_, time_us, _)| timestamptz(time_us));
        (row.layout.label(), known.map(|(id, ..)| id), time, problem, pid, transaction, lowered_at)
    }))
}
