//! How this version treats data and registries of other versions.
//!
//! Each file and each relation that the library writes contains the number of its format. A version reads all formats
//! up to its own. It neither uses nor overwrites a newer format. An older library that has replaced a newer one does
//! not know which IDs and numbers the newer library has used.

use std::ffi::CStr;

use pgrx::pg_sys;
use snowflake_id_core::message::newer_format;

use super::transaction::Problem;
use crate::pg::relation::Relation;

/// The first column of the relations that the library writes.
pub const FORMAT_COLUMN: (&CStr, pg_sys::Oid) = (c"format", pg_sys::INT4OID);

/// Checks the formats of all rows of a relation in schema `snowflake_internal`. This version writes the relation in
/// format `known`.
///
/// # Errors
/// Returns the problem to report if a format is newer or missing. A missing format counts as 0. It is an error, because
/// a newer version may have changed the column.
pub fn check_rows(relation: Relation, name: &str, known: i32) -> Result<(), Problem> {
    let mut unknown = None;
    relation.for_each_row([FORMAT_COLUMN], |[format]| {
        let format = format.map_or(0, |format| format.value() as i32);
        if !(1..=known).contains(&format) {
            unknown = Some(format);
        }
    });
    let Some(format) = unknown else { return Ok(()) };
    let relation = format!("relation \"snowflake_internal.{name}\"");
    Err(Problem(newer_format(&relation, format, known)))
}
