//! Trigger function `snowflake_require_own_id`.
//!
//! The watermark covers only rows whose ID was taken by the transaction that inserts the row. A transaction that inserts an
//! ID taken earlier may add a row below a watermark that readers have passed.

use std::convert::Infallible;

use pgrx::prelude::*;
use snowflake_id_core::Layout;

use super::check_layout;
use crate::config;
use crate::error::{Error, OrReport};
use crate::pg::bigint::AsBigint;
use crate::read::layout_argument;
use crate::shared::memory;

/// Raises an error if the ID in a new row is not an ID that this transaction may have taken.
#[pg_trigger]
fn snowflake_require_own_id<'a>(
    trigger: &'a PgTrigger<'a>,
) -> Result<Option<PgHeapTuple<'a, AllocatedByPostgres>>, Infallible> {
    Ok(Some(checked_row(trigger).or_report()))
}

fn checked_row<'a>(trigger: &'a PgTrigger<'a>) -> Result<PgHeapTuple<'a, AllocatedByPostgres>, Error> {
    let arguments = trigger.extra_args().unwrap_or_default();
    let (column, layout) = match arguments.as_slice() {
        [column] => (column, config::layout()?),
        [column, layout] => (column, layout_argument::parse(layout.as_bytes())?),
        _ => return Err(Error::OwnIdTrigger),
    };
    let Some(row) = trigger.new() else { return Err(Error::OwnIdTrigger) };
    check_layout(&layout)?;
    let id =
        row.get_by_name::<AsBigint>(column).map_err(|_| Error::OwnIdColumn { column: column.clone() })?;
    if let Some(AsBigint(id)) = id {
        check(&layout, id)?;
    }
    Ok(row)
}

fn check(layout: &Layout, id: i64) -> Result<(), Error> {
    match memory::state()?.is_own_id(layout, id) {
        true => Ok(()),
        false => Err(Error::NotOwnId { id, layout: *layout }),
    }
}
