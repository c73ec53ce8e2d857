//! Functions that `snowflake_adopt_online()` calls and that cannot be written in SQL.
//!
//! Trigger function `snowflake_adopt_copy`: while `snowflake_adopt_online()` is in progress, the trigger keeps the new
//! columns of type bigint equal to the columns that they will replace.
//!
//! The arguments of the trigger are pairs of names: a column, and its new column. A function in PL/pgSQL could find
//! columns by name only with a query for each row.

use std::ffi::CStr;

use pgrx::prelude::*;
use pgrx::trigger_support::called_as_trigger;
use snowflake_id_core::message::shown;

use crate::error::{Error, OrReport};
use crate::pg::function::declare_c_function;
use crate::pg::new_row::{Column, NewRow};

/// Returns whether the calling procedure can commit: not in a transaction block, in a function or in a subtransaction.
#[pg_extern(schema = "snowflake_internal", volatile, parallel_restricted)]
fn can_commit() -> bool {
    // SAFETY: reads variables of this backend. PL/pgSQL evaluates expressions in the procedure's connection to SPI. Without
    // a connection, the result is false.
    unsafe { pg_sys::SPI_inside_nonatomic_context() }
}

declare_c_function!(snowflake_adopt_copy);

/// Copies the values of columns to their new columns.
///
/// # Safety
/// Only PostgreSQL may call this function.
#[pg_guard]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn snowflake_adopt_copy(fcinfo: pg_sys::FunctionCallInfo) -> pg_sys::Datum {
    // SAFETY: by this function's contract.
    if unsafe { !called_as_trigger(fcinfo) } {
        Err(Error::NotCalledAsTrigger).or_report()
    }
    // SAFETY: as above.
    let row = unsafe { NewRow::of(fcinfo) };
    row.ok_or(Error::AdoptTrigger).and_then(copied).or_report().into_datum()
}

fn copied(mut row: NewRow) -> Result<NewRow, Error> {
    let names = row.arguments();
    let pairs = names.chunks_exact(2);
    if names.is_empty() || !pairs.remainder().is_empty() {
        return Err(Error::AdoptTrigger);
    }
    let pairs: Vec<(Column, Column)> = pairs
        .map(|pair| {
            let old = found(&row, pair[0], &[pg_sys::INT2OID, pg_sys::INT4OID])?;
            Ok((old, found(&row, pair[1], &[pg_sys::INT8OID])?))
        })
        .collect::<Result<_, Error>>()?;
    for (old, new) in pairs {
        let value = row.value(old).map(|datum| match old.type_oid {
            pg_sys::INT2OID => datum.value() as i16 as i64,
            _ => datum.value() as i32 as i64,
        });
        if row.value(new).map(|datum| datum.value() as i64) != value {
            row.set(new, value);
        }
    }
    Ok(row)
}

/// The column with this name, which must have one of these types.
fn found(row: &NewRow, name: &CStr, types: &[pg_sys::Oid]) -> Result<Column, Error> {
    let column = row.column(name).filter(|column| types.contains(&column.type_oid));
    column.ok_or_else(|| Error::AdoptColumn { column: shown(name.to_bytes()) })
}
