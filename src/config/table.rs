//! The table of settings. The file is long because the list of settings is long.

use std::ffi::{CStr, CString, c_int};

use pgrx::prelude::*;
use pgrx::{GucContext, GucFlags, GucRegistry, GucSetting};

use super::{hooks, layout};
use crate::pg::server;

pub static LAYOUT: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(Some(c"standard"));
pub static WORKER_ID: GucSetting<i32> = GucSetting::<i32>::new(-1);
pub static DATACENTER_ID: GucSetting<i32> = GucSetting::<i32>::new(0);
pub static MAX_AHEAD: GucSetting<i32> = GucSetting::<i32>::new(1_000);
pub static MAX_WAIT: GucSetting<i32> = GucSetting::<i32>::new(5_000);
pub static SEQUENCE_SPREAD: GucSetting<i32> = GucSetting::<i32>::new(0);
pub static HORIZON_MARGIN: GucSetting<i32> = GucSetting::<i32>::new(3_000);
pub static MAX_CLOCK_JUMP: GucSetting<i32> = GucSetting::<i32>::new(60_000);
pub static REGISTRY: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(Some(c""));
pub static MAX_CLOCK_OFFSET: GucSetting<i32> = GucSetting::<i32>::new(5_000);
pub static NODE_NAME: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(Some(c""));
pub static PREFETCH_SEGMENTS: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(Some(c""));
pub static MAX_SEGMENTS: GucSetting<i32> = GucSetting::<i32>::new(4_096);
pub static DATABASE: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(Some(c"postgres"));
static VERSION: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(Some(version()));

/// The maximum of `max_ahead`: 1 h, in milliseconds.
const MAX_MAX_AHEAD_MS: i32 = 3_600_000;
/// The maximum of `max_wait`: 1 day, in milliseconds.
const MOST_WAIT_MS: i32 = 86_400_000;
/// The minimum and the maximum of `horizon_margin`: 0.1 s and 1 h, in milliseconds.
const MIN_HORIZON_MARGIN_MS: i32 = 100;
const MAX_HORIZON_MARGIN_MS: i32 = 3_600_000;
/// The maximum of `max_clock_offset`: 1 min, in milliseconds. If the clocks differ by more, the registry
/// grants no lease.
const MOST_CLOCK_OFFSET_MS: i32 = 60_000;
/// The maximum of `max_segments`.
pub const MOST_SEGMENTS: i32 = 65_536;
/// The maximum of `sequence_spread`.
const MOST_SPREAD: i32 = 65_535;

/// Returns [`super::VERSION`] as a C string.
const fn version() -> &'static CStr {
    match CStr::from_bytes_with_nul(concat!(env!("SNOWFLAKE_ID_VERSION"), "\0").as_bytes()) {
        Ok(version) => version,
        Err(_) => panic!("SNOWFLAKE_ID_VERSION contains a NUL"),
    }
}

/// Defines the settings. `on_change` is called after a change of a setting that affects the generator of a
/// session. If the library was not preloaded, settings that require a restart are not defined, because
/// defining them would terminate the session.
pub fn define(on_change: fn()) {
    hooks::call_on_change(on_change);
    if server::is_preloading() {
        define_restart_only();
    }
    layout::while_defining(|| {
        // SAFETY: the hooks are guarded.
        unsafe {
            GucRegistry::define_string_guc_with_hooks(
                c"snowflake_id.layout",
                c"Sets the layout of snowflake IDs.",
                c"Specify a preset (see view snowflake_presets), a preset and options, or fields and options.",
                &LAYOUT,
                GucContext::Suset,
                GucFlags::default(),
                Some(layout::check),
                Some(layout::assign),
                None,
            );
        }
    });
    GucRegistry::define_string_guc(
        c"snowflake_id.version",
        c"Shows the version of the library that the server has loaded.",
        c"If the library is preloaded, a new version takes effect when the server is restarted.",
        &VERSION,
        GucContext::Internal,
        GucFlags::DISALLOW_IN_FILE,
    );
    define_for_keeper();
    define_for_registry();
    define_int(
        c"snowflake_id.max_ahead",
        c"Sets the maximum time by which snowflake IDs can be ahead of the clock.",
        c"Within this limit, bursts and small backward steps of the clock do not delay calls.",
        &MAX_AHEAD,
        0,
        MAX_MAX_AHEAD_MS,
        GucContext::Sighup,
        GucFlags::UNIT_MS,
        Some(hooks::tell_of_change),
    );
    define_int(
        c"snowflake_id.max_wait",
        c"Sets the maximum time that a call waits for IDs or numbers.",
        c"A call that would have to wait longer fails immediately. Zero disables waiting.",
        &MAX_WAIT,
        0,
        MOST_WAIT_MS,
        GucContext::Userset,
        GucFlags::UNIT_MS,
        None,
    );
    define_int(
        c"snowflake_id.sequence_spread",
        c"Sets the maximum start value of the sequence in a tick.",
        c"The start value depends on the tick, so that IDs issued at a low rate are spread over shards chosen by hash or modulo. Zero means that the sequence always starts at 0.",
        &SEQUENCE_SPREAD,
        0,
        MOST_SPREAD,
        GucContext::Sighup,
        GucFlags::default(),
        Some(hooks::tell_of_change),
    );
}

/// Defines the settings of the server's identity, its horizon and its clock.
fn define_for_keeper() {
    define_int(
        c"snowflake_id.worker_id",
        c"Sets the worker ID of this server.",
        c"Two servers of a fleet must not have the same worker ID. -1 means that the worker ID is read from table snowflake_workers.",
        &WORKER_ID,
        -1,
        i32::MAX,
        GucContext::Sighup,
        GucFlags::default(),
        None,
    );
    define_int(
        c"snowflake_id.datacenter_id",
        c"Sets the datacenter ID of this server.",
        c"The value must be 0 for layouts without a datacenter field. If the worker ID is read from table snowflake_workers, the datacenter ID is also read from that table.",
        &DATACENTER_ID,
        0,
        i32::MAX,
        GucContext::Sighup,
        GucFlags::default(),
        None,
    );
    define_int(
        c"snowflake_id.horizon_margin",
        c"Sets how far ahead of the clock the horizon is stored.",
        c"After a crash, the server may issue no IDs for up to this time.",
        &HORIZON_MARGIN,
        MIN_HORIZON_MARGIN_MS,
        MAX_HORIZON_MARGIN_MS,
        GucContext::Sighup,
        GucFlags::UNIT_MS,
        None,
    );
    define_int(
        c"snowflake_id.max_clock_jump",
        c"Sets the maximum forward step of the clock that the server accepts.",
        c"After a larger step, the server issues no IDs until the clock is corrected or snowflake_accept_clock() is called.",
        &MAX_CLOCK_JUMP,
        0,
        i32::MAX,
        GucContext::Sighup,
        GucFlags::UNIT_MS,
        None,
    );
    define_name(
        c"snowflake_id.node_name",
        c"Sets the name of this server in its fleet.",
        c"If this is empty, cluster_name is used. If cluster_name is also empty, the host name and the port are used.",
        &NODE_NAME,
        GucContext::Sighup,
        GucFlags::default(),
        hooks::check_node_name,
    );
}

/// Defines the settings of the registry.
fn define_for_registry() {
    define_name(
        c"snowflake_id.registry",
        c"Sets the connection string of the registry that leases the worker ID.",
        c"Specify a libpq connection string without a password. If this is empty, the worker ID is not leased.",
        &REGISTRY,
        GucContext::Sighup,
        GucFlags::SUPERUSER_ONLY,
        hooks::check_registry,
    );
    define_int(
        c"snowflake_id.max_clock_offset",
        c"Sets the maximum difference between the clocks of this server and the registry that causes no warning.",
        c"If the clocks differ by more than 60 s, the registry grants no lease.",
        &MAX_CLOCK_OFFSET,
        1,
        MOST_CLOCK_OFFSET_MS,
        GucContext::Sighup,
        GucFlags::UNIT_MS,
        None,
    );
    define_name(
        c"snowflake_id.prefetch_segments",
        c"Sets the segments whose numbers are fetched before the first call.",
        c"Specify names separated by commas. Enclose a name in double quotes if it contains spaces, commas or quotes.",
        &PREFETCH_SEGMENTS,
        GucContext::Sighup,
        GucFlags::default(),
        hooks::check_prefetch_segments,
    );
}

fn define_restart_only() {
    define_name(
        c"snowflake_id.database",
        c"Sets the database that stores the durable horizon and table snowflake_workers.",
        c"The extension must be installed in this database.",
        &DATABASE,
        GucContext::Postmaster,
        GucFlags::default(),
        hooks::check_database,
    );
    define_int(
        c"snowflake_id.max_segments",
        c"Sets the maximum number of segments that can be in use on this server.",
        c"A segment remains in use until it is dropped or the server is restarted. Each segment needs about 1.6 kB of shared memory.",
        &MAX_SEGMENTS,
        1,
        MOST_SEGMENTS,
        GucContext::Postmaster,
        GucFlags::default(),
        None,
    );
}

fn define_name(
    name: &'static CStr,
    short: &'static CStr,
    long: &'static CStr,
    setting: &'static GucSetting<Option<CString>>,
    context: GucContext,
    flags: GucFlags,
    check_hook: hooks::TextCheckHook,
) {
    // SAFETY: the hooks that are passed are guarded.
    unsafe {
        GucRegistry::define_string_guc_with_hooks(
            name,
            short,
            long,
            setting,
            context,
            flags,
            Some(check_hook),
            None,
            None,
        );
    }
}

#[allow(clippy::too_many_arguments)] // The function has the same parameters as DefineCustomIntVariable.
fn define_int(
    name: &'static CStr,
    short: &'static CStr,
    long: &'static CStr,
    setting: &'static GucSetting<i32>,
    least: c_int,
    most: c_int,
    context: GucContext,
    flags: GucFlags,
    assign_hook: pg_sys::GucIntAssignHook,
) {
    // SAFETY: the only hook that is passed is guarded.
    unsafe {
        GucRegistry::define_int_guc_with_hooks(
            name,
            short,
            long,
            setting,
            least,
            most,
            context,
            flags,
            None,
            assign_hook,
            None,
        );
    }
}
