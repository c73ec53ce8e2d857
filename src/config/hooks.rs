//! The hooks of the settings, which reject invalid values and react to changes.
//!
//! The value of `snowflake_id.layout` is stored in parsed form (see [`layout`](super::layout)). All other
//! strings are stored unchanged. A connection string is parsed only to check that it is valid. Connections
//! use the original string, because the effective options also depend on a service file and on the
//! environment.

use std::cell::Cell;
use std::ffi::{CString, c_char, c_int, c_void};

use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;
use snowflake_id_core::message::shown;

use crate::error::Error;
use crate::pg::backend_local::BackendLocal;
use crate::pg::libpq::Options;
use crate::pg::{server, setting};

/// The maximum length of `node_name` and `database`, in bytes. Host names have at most 253 bytes.
pub const MAX_NAME_BYTES: usize = 255;

/// The callback for changes of settings that affect the generator of a session.
static ON_CHANGE: BackendLocal<Cell<fn()>> = BackendLocal::new(Cell::new(|| {}));

/// Sets the callback for changes of settings that affect the generator of a session.
pub fn call_on_change(action: fn()) {
    ON_CHANGE.set(action);
}

/// Calls the callback that was set with [`call_on_change`].
pub fn on_change() {
    ON_CHANGE.get()();
}

/// A check hook, which accepts or rejects the string value of a setting.
pub type TextCheckHook =
    unsafe extern "C-unwind" fn(*mut *mut c_char, *mut *mut c_void, pg_sys::GucSource::Type) -> bool;

#[pg_guard]
pub unsafe extern "C-unwind" fn check_node_name(
    value: *mut *mut c_char,
    _extra: *mut *mut c_void,
    _source: pg_sys::GucSource::Type,
) -> bool {
    // SAFETY: PostgreSQL passes a pointer to the new value.
    accepts_name("snowflake_id.node_name", 0, unsafe { setting::setting_text(*value) })
}

#[pg_guard]
pub unsafe extern "C-unwind" fn check_database(
    value: *mut *mut c_char,
    _extra: *mut *mut c_void,
    _source: pg_sys::GucSource::Type,
) -> bool {
    // SAFETY: PostgreSQL passes a pointer to the new value.
    accepts_name("snowflake_id.database", 1, unsafe { setting::setting_text(*value) })
}

#[pg_guard]
pub unsafe extern "C-unwind" fn check_registry(
    value: *mut *mut c_char,
    _extra: *mut *mut c_void,
    _source: pg_sys::GucSource::Type,
) -> bool {
    // SAFETY: PostgreSQL passes a pointer to the new value.
    let text = unsafe { new_value(value) };
    let problem = match Options::parse(&text) {
        Ok(options) if options.get("password").is_some() => Error::PasswordInRegistry,
        Ok(_) => return true,
        Err(problem) => Error::InvalidRegistry { problem },
    };
    if server::is_preloading() {
        // Do not start without the registry, because the server could use another server's worker ID.
        fail_start(problem);
    }
    reject(problem)
}

#[pg_guard]
pub unsafe extern "C-unwind" fn check_prefetch_segments(
    value: *mut *mut c_char,
    _extra: *mut *mut c_void,
    _source: pg_sys::GucSource::Type,
) -> bool {
    // SAFETY: PostgreSQL passes a pointer to the new value.
    let text = unsafe { new_value(value) };
    setting::split_list(&text).is_some() || reject(Error::InvalidSegmentList)
}

/// Copies the new value of a setting.
///
/// # Safety
/// `value` is the pointer that PostgreSQL passes to a check hook.
unsafe fn new_value(value: *mut *mut c_char) -> CString {
    // SAFETY: by this function's contract.
    let text = unsafe { setting::setting_text(*value) };
    CString::new(text).unwrap_or_default() // A setting contains no NUL.
}

fn accepts_name(parameter: &'static str, least: usize, text: &[u8]) -> bool {
    if (least..=MAX_NAME_BYTES).contains(&text.len()) {
        return true;
    }
    let problem =
        Error::NameLength { parameter, text: shown(text), bytes: text.len(), least, most: MAX_NAME_BYTES };
    if server::is_preloading() {
        // Do not start with the default name, because another server may have the same name.
        fail_start(problem);
    }
    reject(problem)
}

/// Reports why a value is invalid. Always returns false, so that the check hook rejects the value.
pub fn reject(problem: Error) -> bool {
    let texts = problem.texts();
    setting::explain_rejection(&texts.message, &texts.detail, &texts.hint);
    false
}

/// Reports the error as FATAL, so that the server does not start.
pub fn fail_start(problem: Error) -> ! {
    ErrorReport::from(problem).report(PgLogLevel::FATAL);
    unreachable!("FATAL does not return")
}

#[pg_guard]
pub unsafe extern "C-unwind" fn tell_of_change(_value: c_int, _extra: *mut c_void) {
    on_change();
}
