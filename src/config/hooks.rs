//! The hooks of the settings: which values are refused, and what follows from a change.
//!
//! The text of `snowflake_id.layout` alone is parsed into what is used: see [`layout`](super::layout). A name is used as
//! it is. A connection string is read here to find out whether libpq can, and given to libpq as it is: what is in effect
//! depends on a service file and on the environment as well.

use std::cell::Cell;
use std::ffi::{CString, c_char, c_int, c_void};

use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;
use snowflake_id_core::message::shown;

use crate::error::Error;
use crate::pg::backend_local::BackendLocal;
use crate::pg::libpq::Options;
use crate::pg::{server, setting};

/// The longest `node_name` and `database`, in bytes: a host's name has at most 253.
pub const MAX_NAME_BYTES: usize = 255;

/// What is done when a setting has changed on which the generator of a session depends.
static ON_CHANGE: BackendLocal<Cell<fn()>> = BackendLocal::new(Cell::new(|| {}));

/// Has this called when a setting has changed on which the generator of a session depends.
pub fn call_on_change(action: fn()) {
    ON_CHANGE.set(action);
}

/// Such a setting has changed.
pub fn on_change() {
    ON_CHANGE.get()();
}

/// A function that accepts or rejects the text of a setting.
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
    let text = unsafe { setting::setting_text(*value) };
    // A setting has no NUL in it.
    let text = CString::new(text).unwrap_or_default();
    let problem = match Options::parse(&text) {
        Ok(options) if options.get("password").is_some() => Error::PasswordInRegistry,
        Ok(_) => return true,
        Err(problem) => Error::InvalidRegistry { problem },
    };
    if server::is_preloading() {
        // Without a registry in its place the server could have somebody else's worker ID.
        fail_start(problem);
    }
    reject(problem)
}

fn accepts_name(parameter: &'static str, least: usize, text: &[u8]) -> bool {
    if (least..=MAX_NAME_BYTES).contains(&text.len()) {
        return true;
    }
    let problem =
        Error::NameLength { parameter, text: shown(text), bytes: text.len(), least, most: MAX_NAME_BYTES };
    if server::is_preloading() {
        // The default in its place could be the name of another server.
        fail_start(problem);
    }
    reject(problem)
}

/// Says what is wrong with a value, and that it is refused.
pub fn reject(problem: Error) -> bool {
    let texts = problem.texts();
    setting::explain_rejection(&texts.message, &texts.detail, &texts.hint);
    false
}

/// Ends the start of the server.
pub fn fail_start(problem: Error) -> ! {
    ErrorReport::from(problem).report(PgLogLevel::FATAL);
    unreachable!("FATAL does not return")
}

#[pg_guard]
pub unsafe extern "C-unwind" fn tell_of_change(_value: c_int, _extra: *mut c_void) {
    on_change();
}
