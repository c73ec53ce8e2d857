//! A registry in the keeper's own database. A single server needs no other registry.
//!
//! The database may have a malicious owner, and the worker is a superuser. Therefore, the registry's function must be a
//! member of the registry's extension, and the worker calls the function by its OID. The function runs with the rights
//! of its owner, in a security-restricted operation.

use std::ffi::CStr;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};

use pgrx::pg_sys::panic::CaughtError;
use pgrx::prelude::*;
use snowflake_id_core::lease_call::Call;
use snowflake_id_core::reply::Reply;
use snowflake_id_core::segment_answer::{Answer, COLUMNS};

use super::fetch::Answered;
use crate::background::connection::{NoAnswer, Refused};
use crate::background::stop::{is_stopping, let_sigterm_interrupt};
use crate::background::transaction::{Problem, transaction};
use crate::pg::relation::{self, Extension};
use crate::pg::{clock, set_returning};

/// Calls the registry. Returns `None` if this database contains no registry.
pub fn ask(call: &Call, most_rows: usize) -> Result<Option<Answered>, NoAnswer> {
    let is_of_data = AtomicBool::new(false);
    let take_and_classify = || {
        PgTryBuilder::new(AssertUnwindSafe(|| take(&call.request, most_rows)))
            .catch_others(|error| {
                is_of_data.store(is_data_exception(&error), Ordering::Relaxed);
                error.rethrow()
            })
            .execute()
    };
    let rows = transaction(take_and_classify, || ());
    if is_stopping() {
        // If SIGTERM interrupts the wait for a standby, the wait looks successful.
        return Err(NoAnswer::Stopping);
    }
    let refused = |Problem(problem)| {
        NoAnswer::Refused(Refused {
            problem,
            is_of_data: is_of_data.load(Ordering::Relaxed),
            is_elsewhere: false,
        })
    };
    let Some(rows) = rows.map_err(refused)? else { return Ok(None) };
    let answer = Answer::read(&rows)?;
    // Read the clock again, because the function may have waited for a lock after it read the clock. The server and
    // this registry have the same clock.
    Ok(Some(Answered { answer, registry_clock: clock::offset() }))
}

/// Returns whether an error belongs to SQLSTATE class 22.
fn is_data_exception(error: &CaughtError) -> bool {
    let code = match error {
        CaughtError::PostgresError(report)
        | CaughtError::ErrorReport(report)
        | CaughtError::RustPanic { ereport: report, .. } => report.sql_error_code(),
    };
    // SAFETY: the function returns a C string in static memory for any number.
    let state = unsafe { CStr::from_ptr(pg_sys::unpack_sql_state(code as i32)) };
    state.to_bytes().starts_with(b"22")
}

/// Calls the registry's function in a transaction and returns the rows, or `None` if the database contains no
/// registry.
fn take(request: &str, most_rows: usize) -> Result<Option<Vec<Reply>>, Problem> {
    let Some(extension) = Extension::find(c"snowflake_id_registry") else { return Ok(None) };
    let schema = relation::schema(c"snowflake_registry");
    let function = schema.and_then(|schema| extension.function(schema, c"take_local", &[pg_sys::JSONBOID]));
    let function = function.ok_or_else(|| {
        let text = "function snowflake_registry.take_local() does not belong to extension \"snowflake_id_registry\", or the owner of its schema could replace the function: change the owner of the schema to a superuser, or set snowflake_id.registry";
        Problem(text.into())
    })?;
    // SIGTERM must be able to end the call, because the owner of the extension may have replaced the function with one
    // that never returns.
    let_sigterm_interrupt();
    // SAFETY: the worker's transactions all have a snapshot. The function was found by its argument types, so the
    // arguments match. The function belongs to the extension, and is written in PL/pgSQL.
    unsafe {
        let request = set_returning::value_of(request, pg_sys::JSONBOID);
        let rows = set_returning::call(function, &[request], COLUMNS, most_rows);
        let named = |row: Vec<_>| Reply::of(COLUMNS.into_iter().zip(row));
        rows.map(|rows| Some(rows.into_iter().map(named).collect())).map_err(Problem)
    }
}
