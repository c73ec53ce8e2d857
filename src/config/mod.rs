//! The settings, with a [table] of settings, the [hooks], and functions that return the current values.

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

/// The version of the library, such as 0.1.0. If another commit than that of the version was built, the commit follows.
pub const VERSION: &str = env!("SNOWFLAKE_ID_VERSION");

/// Returns the layout of the session, or the error to report.
#[inline]
pub fn layout() -> Result<Layout, Error> {
    valid_layout().ok_or_else(invalid_layout)
}

#[cold]
fn invalid_layout() -> Error {
    // SAFETY: the text remains valid until the setting changes, and this function does not change the
    // setting.
    let text = unsafe { setting::setting_text(*table::LAYOUT.as_ptr()) };
    match Layout::from_bytes(text) {
        Err(problem) => Error::InvalidLayoutSetting { text: shown(text), problem },
        // This cannot happen, because the check hook has passed the parsed layout to the assign hook.
        Ok(_) => unreachable!("bug: a valid layout was not handed over"),
    }
}

/// Returns the time by which a new horizon exceeds the clock plus `max_ahead`.
pub fn horizon_margin() -> Duration {
    milliseconds(&table::HORIZON_MARGIN)
}

/// Returns the size of the largest clock jump that the keeper accepts.
pub fn max_clock_jump() -> Duration {
    milliseconds(&table::MAX_CLOCK_JUMP)
}

/// Returns the name of the keeper's database.
pub fn database() -> CString {
    table::DATABASE.get().unwrap_or_default()
}

/// Returns whether `max_segments` can be increased.
pub fn can_have_more_segments() -> bool {
    table::MAX_SEGMENTS.get() < table::MOST_SEGMENTS
}

/// Returns the maximum number of segments in use.
pub fn max_segments() -> usize {
    table::MAX_SEGMENTS.get().unsigned_abs() as usize
}

/// Returns the unparsed list of segments whose numbers are fetched before the first call.
pub fn prefetch_segments() -> CString {
    table::PREFETCH_SEGMENTS.get().unwrap_or_default()
}

/// Returns the name of this server in table `snowflake_workers` and in the registry.
pub fn node_name() -> String {
    // SAFETY: the text remains valid until the setting changes, and this function does not change the
    // setting.
    let node_name = unsafe { setting::setting_text(*table::NODE_NAME.as_ptr()) };
    // The length of cluster_name is not limited. A cluster_name that is too long is ignored.
    [node_name, server::cluster_name()]
        .into_iter()
        .find(|name| !name.is_empty() && name.len() <= hooks::MAX_NAME_BYTES)
        .map_or_else(server::host_and_port, guessed_utf8)
}

/// Returns the identity from the settings, or `None` if `worker_id` is not set.
pub fn identity() -> Option<Identity> {
    Some(Identity { worker: worker_id()?, datacenter: datacenter_id() })
}

/// Returns the setting `worker_id`, or `None` if `worker_id` is not set. A server with a registry uses this worker ID
/// only until its first lease.
pub fn worker_id() -> Option<u32> {
    u32::try_from(table::WORKER_ID.get()).ok()
}

/// Returns the datacenter ID from the settings.
pub fn datacenter_id() -> u32 {
    table::DATACENTER_ID.get().unsigned_abs()
}

/// Returns the connection string of the registry, or `None` if the string is empty.
pub fn registry() -> Option<CString> {
    table::REGISTRY.get().filter(|text| !text.is_empty())
}

/// Returns the largest clock difference between this server and the registry that causes no warning.
pub fn max_clock_offset() -> Duration {
    milliseconds(&table::MAX_CLOCK_OFFSET)
}

/// Returns the maximum time by which IDs may run ahead of the clock.
pub fn max_ahead() -> Duration {
    milliseconds(&table::MAX_AHEAD)
}

/// Returns the maximum time that a call may wait.
pub fn max_wait() -> Duration {
    milliseconds(&table::MAX_WAIT)
}

/// Returns the maximum start value of the sequence in a tick.
pub fn sequence_spread() -> u32 {
    table::SEQUENCE_SPREAD.get().unsigned_abs()
}

fn milliseconds(setting: &GucSetting<i32>) -> Duration {
    Duration::from_millis(setting.get().unsigned_abs().into())
}

/// Makes PostgreSQL reject unknown settings with the prefix `snowflake_id`. Must be called after all settings
/// have been defined.
pub fn reserve_prefix() {
    // SAFETY: the argument is a C string.
    unsafe { pg_sys::MarkGUCPrefixReserved(c"snowflake_id".as_ptr()) };
}
