//! The setting `snowflake_id.layout`. A session must never silently use a layout other than the configured layout.
//! Therefore, invalid layouts are handled as follows:
//!
//! | an invalid layout | result |
//! | --- | --- |
//! | at server start, in postgresql.conf or on the command line | FATAL: the server does not start |
//! | at a reload, or in SET, ALTER SYSTEM, ALTER DATABASE or ALTER ROLE | rejected; the old layout stays |
//! | stored for a database or role while the library was not loaded | the session has no layout: every use is an error |
//!
//! The check hook parses the string and passes the layout to the assign hook, which must not fail.

use std::cell::Cell;
use std::ffi::{c_char, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

use pgrx::prelude::*;
use snowflake_id_core::Layout;
use snowflake_id_core::message::shown;

use super::hooks::{fail_start, on_change, reject};
use crate::error::Error;
use crate::pg::backend_local::BackendLocal;
use crate::pg::{server, setting};

/// True while `snowflake_id.layout` is being defined. If the check hook rejects a value at that time,
/// PostgreSQL uses the built-in default.
static IS_DEFINING: AtomicBool = AtomicBool::new(false);

/// The layout of this session, or `None` if the setting is invalid.
static SESSION_LAYOUT: BackendLocal<Cell<Option<Layout>>> = BackendLocal::new(Cell::new(None));

/// Returns the layout of the session, or `None` if the setting is invalid.
#[inline]
pub fn valid_layout() -> Option<Layout> {
    SESSION_LAYOUT.get()
}

/// Runs `define`, which defines the setting.
pub fn while_defining(define: impl FnOnce()) {
    IS_DEFINING.store(true, Ordering::Relaxed);
    define();
    IS_DEFINING.store(false, Ordering::Relaxed);
}

#[pg_guard]
pub unsafe extern "C-unwind" fn check(
    value: *mut *mut c_char,
    extra: *mut *mut c_void,
    source: pg_sys::GucSource::Type,
) -> bool {
    // SAFETY: PostgreSQL passes a pointer to the new value.
    let text = unsafe { setting::setting_text(*value) };
    let problem = match Layout::from_bytes(text) {
        // SAFETY: PostgreSQL passes a pointer to the variable that will contain the layout.
        Ok(layout) => return unsafe { setting::hand_over(extra, layout) },
        Err(problem) => problem,
    };
    if server::is_preloading() && IS_DEFINING.load(Ordering::Relaxed) {
        fail_start(Error::InvalidLayoutSetting { text: shown(text), problem });
    }
    if IS_DEFINING.load(Ordering::Relaxed) || is_applied_at_login(source) || server::is_taking_over_settings()
    {
        // Accept the invalid string. If the hook rejected it, the session would use another layout, or could not start
        // parallel workers. Instead, the session reports an error whenever it needs a layout.
        return true;
    }
    reject(Error::InvalidLayoutSetting { text: shown(text), problem })
}

/// Returns whether PostgreSQL applies the value at the start of a session. This is the case for values set by ALTER
/// DATABASE and ALTER ROLE. If the hook rejected such a value, PostgreSQL would only raise a warning, and use the
/// setting of the next lower precedence. (While ALTER DATABASE or ALTER ROLE is executed, the source is different, and
/// the value can be rejected.)
fn is_applied_at_login(source: pg_sys::GucSource::Type) -> bool {
    use pg_sys::GucSource::*;
    [PGC_S_GLOBAL, PGC_S_DATABASE, PGC_S_USER, PGC_S_DATABASE_USER].contains(&source)
}

/// Sets the layout of the session to the layout that the check hook has passed. The check hook passes no layout for an
/// invalid string.
#[pg_guard]
pub unsafe extern "C-unwind" fn assign(_value: *const c_char, extra: *mut c_void) {
    // SAFETY: the check hook above has set `extra`.
    SESSION_LAYOUT.set(unsafe { setting::handed_over(extra) });
    on_change();
}
