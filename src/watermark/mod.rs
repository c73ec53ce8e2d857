//! `snowflake_watermark`, view `snowflake_watermark_status`, and trigger `snowflake_require_own_id`.
//!
//! Rows become visible in the order of commits, not in the order of their IDs. A reader that continues after the
//! highest ID it has read would therefore miss rows with lower IDs that are committed later. The watermark is an ID
//! below which no new row can become visible.

mod answers;
mod own_id;
mod status;

use pgrx::prelude::*;
use snowflake_id_core::Layout;

use crate::config;
use crate::error::{Error, OrReport};
use crate::pg::{process, server, snapshot, transaction_end};
use crate::read::layout_argument::LayoutArgument;
use crate::shared::{marks, memory};

/// Registers the actions that run at the end of transactions. Called by the postmaster while it loads the library.
pub fn register() {
    transaction_end::register(transaction_end::Actions {
        ended: || {
            crate::generate::session::end_transaction();
            answers::forget();
        },
        before_prepare: marks::copy_to_prepared,
    });
}

#[pg_extern(stable, parallel_restricted)]
fn snowflake_watermark() -> Option<i64> {
    config::layout().and_then(|layout| watermark(&layout)).or_report()
}

#[pg_extern(name = "snowflake_watermark", stable, parallel_restricted)]
fn snowflake_watermark_as(layout: LayoutArgument) -> Option<i64> {
    watermark(&layout.0).or_report()
}

/// Returns the watermark of a layout for the current statement. All calls of a statement return the same result.
fn watermark(layout: &Layout) -> Result<Option<i64>, Error> {
    let shared = memory::state()?;
    check_layout(layout)?;
    // Each process remembers only its own answers, so a parallel worker could return a different answer than its
    // leader. PostgreSQL calls this function in a parallel worker only if a function that is declared PARALLEL SAFE
    // calls this function.
    if process::is_parallel_worker() {
        return Err(Error::WatermarkInParallelWorker);
    }
    if server::is_in_recovery() {
        return Err(Error::WatermarkInRecovery);
    }
    let answer = snapshot::of_statement(|statement| {
        answers::answer(layout, statement, || shared.watermark(layout, &statement.widened()))
    });
    Ok(answer.flatten())
}

/// Returns an error if the layout has a clock sequence. The values of a clock sequence are used in any order, so a
/// later ID can be lower than an earlier ID.
fn check_layout(layout: &Layout) -> Result<(), Error> {
    match layout.max_clock_seq() {
        0 => Ok(()),
        _ => Err(Error::WatermarkOfClockSequence { layout: *layout }),
    }
}
