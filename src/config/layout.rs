//! The setting `snowflake_id.layout` is the delicate one: whatever happens, no session may silently work with another
//! layout than the one that was set for it.
//!
//! | a bad layout | what happens |
//! | --- | --- |
//! | at the start, in postgresql.conf or on the command line | FATAL: the server does not start |
//! | at a reload, by SET, ALTER SYSTEM, ALTER DATABASE, ALTER ROLE | refused; the old one stays |
//! | stored for a database or role while the library was not loaded | the session has no layout: every use is an error |
//!
//! The check hook parses the text, and hands the layout over to the assign hook, which may not fail.

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

/// Set while `snowflake_id.layout` is being defined: a rejection would then mean the built-in default.
static IS_DEFINING: AtomicBool = AtomicBool::new(false);

/// The parsed layout of this session; `None` if its text is not a layout.
static SESSION_LAYOUT: BackendLocal<Cell<Option<Layout>>> = BackendLocal::new(Cell::new(None));

/// The layout that the session uses, if the setting is one.
#[inline]
pub fn valid_layout() -> Option<Layout> {
    SESSION_LAYOUT.get()
}

/// Runs what defines the setting.
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
        // SAFETY: PostgreSQL passes a place for it.
        Ok(layout) => return unsafe { setting::hand_over(extra, layout) },
        Err(problem) => problem,
    };
    if server::is_preloading() && IS_DEFINING.load(Ordering::Relaxed) {
        fail_start(Error::InvalidLayoutSetting { text: shown(text), problem });
    }
    if IS_DEFINING.load(Ordering::Relaxed) || is_applied_at_login(source) || server::is_taking_over_settings()
    {
        // To reject the value would mean another layout, or no parallel query at all. The session has none
        // instead, and says so when it is used.
        return true;
    }
    reject(Error::InvalidLayoutSetting { text: shown(text), problem })
}

/// Whether a rejection gives only a warning and the next lower setting: those of ALTER DATABASE and ALTER
/// ROLE, when a session starts. (When such a command is typed, the source is another one, and it can be
/// refused.)
fn is_applied_at_login(source: pg_sys::GucSource::Type) -> bool {
    use pg_sys::GucSource::*;
    [PGC_S_GLOBAL, PGC_S_DATABASE, PGC_S_USER, PGC_S_DATABASE_USER].contains(&source)
}

/// Nothing is handed over with a text that is no layout.
#[pg_guard]
pub unsafe extern "C-unwind" fn assign(_value: *const c_char, extra: *mut c_void) {
    // SAFETY: it comes from the hook above.
    SESSION_LAYOUT.set(unsafe { setting::handed_over(extra) });
    on_change();
}
