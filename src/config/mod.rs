//! The settings: their [table], their [hooks], and what they say.

mod hooks;
mod layout;
mod table;

use std::ffi::CString;
use std::time::Duration;

use pgrx::GucSetting;
use pgrx::prelude::*;
use snowflake_id_core::message::shown;
use snowflake_id_core::{Identity, Layout};

pub use self::layout::valid_layout;
pub use self::table::define;
use crate::error::Error;
use crate::pg::encoding::guessed_utf8;
use crate::pg::{server, setting};

/// The layout that the session uses, or the error to report.
#[inline]
pub fn layout() -> Result<Layout, Error> {
    valid_layout().ok_or_else(invalid_layout)
}

#[cold]
fn invalid_layout() -> Error {
    // SAFETY: PostgreSQL keeps the text until the setting changes, which is not before the end of this
    // function.
    let text = unsafe { setting::setting_text(*table::LAYOUT.as_ptr()) };
    match Layout::from_bytes(text) {
        Err(problem) => Error::InvalidLayoutSetting { text: shown(text), problem },
        // With every text that is assigned the assign hook gets what the check hook has made of it.
        Ok(_) => unreachable!("bug: a valid layout was not handed over"),
    }
}

/// How far ahead the horizon is written.
pub fn horizon_margin() -> Duration {
    milliseconds(&table::HORIZON_MARGIN)
}

/// The largest step of the clock ahead that is followed.
pub fn max_clock_jump() -> Duration {
    milliseconds(&table::MAX_CLOCK_JUMP)
}

/// The database in which the keeper works.
pub fn database() -> CString {
    table::DATABASE.get().unwrap_or_default()
}

/// How many segments can be in use.
pub fn max_segments() -> usize {
    table::MAX_SEGMENTS.get().unsigned_abs() as usize
}

/// This server's name in table `snowflake_worker`.
pub fn node_name() -> String {
    // SAFETY: PostgreSQL keeps the text until the setting changes, which is not before the end of this
    // function.
    let node_name = unsafe { setting::setting_text(*table::NODE_NAME.as_ptr()) };
    // Nobody keeps cluster_name from being longer; then it is no name for us.
    [node_name, server::cluster_name()]
        .into_iter()
        .find(|name| !name.is_empty() && name.len() <= hooks::MAX_NAME_BYTES)
        .map_or_else(server::host_and_port, guessed_utf8)
}

/// The identity that the settings give the server, if they give one.
pub fn identity() -> Option<Identity> {
    Some(Identity { worker: worker_id()?, datacenter: datacenter_id() })
}

/// The worker ID that the settings give the server, if they give one. With a registry: that one or none.
pub fn worker_id() -> Option<u32> {
    u32::try_from(table::WORKER_ID.get()).ok()
}

/// The datacenter ID.
pub fn datacenter_id() -> u32 {
    table::DATACENTER_ID.get().unsigned_abs()
}

/// How to connect to the registry that leases the worker ID, if one does.
pub fn registry() -> Option<CString> {
    table::REGISTRY.get().filter(|text| !text.is_empty())
}

/// How much this server's clock may differ from the registry's.
pub fn max_clock_offset() -> Duration {
    milliseconds(&table::MAX_CLOCK_OFFSET)
}

/// How far the time in an ID may be ahead of the clock.
pub fn max_ahead() -> Duration {
    milliseconds(&table::MAX_AHEAD)
}

/// The longest that one call may wait.
pub fn max_wait() -> Duration {
    milliseconds(&table::MAX_WAIT)
}

/// The upper end of the range in which ticks start their sequences.
pub fn sequence_spread() -> u32 {
    table::SEQUENCE_SPREAD.get().unsigned_abs()
}

fn milliseconds(setting: &GucSetting<i32>) -> Duration {
    Duration::from_millis(setting.get().unsigned_abs().into())
}

/// Makes PostgreSQL refuse unknown settings with our prefix. To be called last.
pub fn reserve_prefix() {
    // SAFETY: the argument is a C string.
    unsafe { pg_sys::MarkGUCPrefixReserved(c"snowflake_id".as_ptr()) };
}
