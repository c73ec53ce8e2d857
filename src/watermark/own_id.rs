//! Trigger function `snowflake_require_own_id`.
//!
//! The watermark covers only rows whose ID was taken by the transaction that inserts the row. If the ID was taken
//! earlier, the row may appear below a watermark that readers have already passed.

use pgrx::prelude::*;
use snowflake_id_core::Layout;

use super::check_layout;
use crate::config;
use crate::error::{Error, OrReport};
use crate::pg::bigint::AsBigint;
use crate::pg::function::declare_c_function;
use crate::read::layout_argument;
use crate::shared::memory;

declare_c_function!(snowflake_require_own_id);

/// Raises an error if this transaction cannot have taken the ID in a new row. pgrx's wrapper is not used, because the
/// wrapper would report a call outside of a trigger as an internal error.
///
/// # Safety
/// Only PostgreSQL may call this function.
#[pg_guard]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn snowflake_require_own_id(fcinfo: pg_sys::FunctionCallInfo) -> pg_sys::Datum {
    // SAFETY: by this function's contract. PostgreSQL has opened and locked the table.
    let trigger = unsafe { PgTrigger::from_fcinfo(&*fcinfo) };
    let trigger = trigger.map_err(|_| Error::NotCalledAsTrigger).or_report();
    checked_row(&trigger).or_report().into_trigger_datum().unwrap_or(pg_sys::Datum::null())
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
    let id_in = |row: &PgHeapTuple<_>| {
        row.get_by_name::<AsBigint>(column).map_err(|_| Error::OwnIdColumn { column: column.clone() })
    };
    let old = trigger.old().as_ref().map_or(Ok(None), id_in)?;
    match id_in(&row)? {
        // An update that keeps the ID cannot hide the row from readers.
        Some(AsBigint(id)) if old.is_none_or(|AsBigint(old)| old != id) => check(&layout, id)?,
        _ => {}
    }
    Ok(row)
}

fn check(layout: &Layout, id: i64) -> Result<(), Error> {
    match memory::state()?.is_own_id(layout, id) {
        true => Ok(()),
        false => Err(Error::NotOwnId { id, layout: *layout }),
    }
}
