//! The settings. All of them stand in this one list, which is why it is long.
//!
//! `snowflake_id.layout` is the delicate one: whatever happens, no session may silently work with another
//! layout than the one that was set for it.
//!
//! | a bad layout | what happens |
//! | --- | --- |
//! | at the start, in postgresql.conf or on the command line | FATAL: the server does not start |
//! | at a reload, by SET, ALTER SYSTEM, ALTER DATABASE, ALTER ROLE | refused; the old one stays |
//! | stored for a database or role while the library was not loaded | the session has no layout: every use is an error |

use std::cell::Cell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;
use pgrx::{GucContext, GucFlags, GucRegistry, GucSetting};
use snowflake_id_core::message::shown;
use snowflake_id_core::{Identity, Layout};

use crate::error::Error;
use crate::pg::backend_local::BackendLocal;
use crate::pg::encoding::guessed_utf8;
use crate::pg::libpq::Options;
use crate::pg::{server, setting};

static LAYOUT: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(Some(c"standard"));
static WORKER_ID: GucSetting<i32> = GucSetting::<i32>::new(-1);
static DATACENTER_ID: GucSetting<i32> = GucSetting::<i32>::new(0);
static MAX_DRIFT: GucSetting<i32> = GucSetting::<i32>::new(1_000);
static MAX_WAIT: GucSetting<i32> = GucSetting::<i32>::new(5_000);
static SEQUENCE_SPREAD: GucSetting<i32> = GucSetting::<i32>::new(0);
static LEASE: GucSetting<i32> = GucSetting::<i32>::new(3_000);
static MAX_CLOCK_JUMP: GucSetting<i32> = GucSetting::<i32>::new(60_000);
static REGISTRY: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(Some(c""));
static MAX_CLOCK_OFFSET: GucSetting<i32> = GucSetting::<i32>::new(5_000);
static NODE_NAME: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(Some(c""));
static MAX_SEGMENTS: GucSetting<i32> = GucSetting::<i32>::new(64);
static DATABASE: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(Some(c"postgres"));

/// The largest `max_drift`: an hour, in milliseconds.
const MOST_DRIFT_MS: i32 = 3_600_000;
/// The largest `max_wait`: a day, in milliseconds.
const MOST_WAIT_MS: i32 = 86_400_000;
/// The shortest and the longest `lease`: a tenth of a second, an hour.
const LEAST_LEASE_MS: i32 = 100;
const MOST_LEASE_MS: i32 = 3_600_000;
/// The longest `node_name` and `database`, in bytes: a host's name has at most 253.
const MAX_NAME_BYTES: usize = 255;
/// The largest `max_clock_offset`: a minute, in milliseconds, from where on the registry decides nothing.
const MOST_CLOCK_OFFSET_MS: i32 = 60_000;
/// The largest `max_segments`: for so many there is room in shared memory.
pub const MOST_SEGMENTS: i32 = 256;
/// The largest `sequence_spread`.
const MOST_SPREAD: i32 = 65_535;

/// Set while `snowflake_id.layout` is being defined: a rejection would then mean the built-in default.
static IS_DEFINING: AtomicBool = AtomicBool::new(false);

/// The parsed layout of this session; `None` if its text is not a layout.
static SESSION_LAYOUT: BackendLocal<Cell<Option<Layout>>> = BackendLocal::new(Cell::new(None));

/// The layout that the session uses, if the setting is one.
#[inline]
pub fn valid_layout() -> Option<Layout> {
    SESSION_LAYOUT.get()
}

/// The layout that the session uses, or the error to report.
#[inline]
pub fn layout() -> Result<Layout, Error> {
    valid_layout().ok_or_else(invalid_layout)
}

#[cold]
fn invalid_layout() -> Error {
    // SAFETY: PostgreSQL keeps the text until the setting changes, which is not before the end of this
    // function.
    let text = unsafe { setting::setting_text(*LAYOUT.as_ptr()) };
    match Layout::from_bytes(text) {
        Err(problem) => Error::InvalidLayoutSetting { text: shown(text), problem },
        // Every assignment goes through the assign hook, which parses the text.
        Ok(_) => unreachable!("bug: a valid layout setting was not parsed"),
    }
}

/// How far ahead the horizon is written.
pub fn lease() -> Duration {
    milliseconds(&LEASE)
}

/// The largest step of the clock ahead that is followed.
pub fn max_clock_jump() -> Duration {
    milliseconds(&MAX_CLOCK_JUMP)
}

/// The database in which the keeper works.
pub fn database() -> CString {
    DATABASE.get().unwrap_or_default()
}

/// How many segments can be in use.
pub fn max_segments() -> usize {
    MAX_SEGMENTS.get().unsigned_abs() as usize
}

/// This server's name in table `snowflake_worker`.
pub fn node_name() -> String {
    // SAFETY: PostgreSQL keeps the text until the setting changes, which is not before the end of this
    // function.
    let node_name = unsafe { setting::setting_text(*NODE_NAME.as_ptr()) };
    // Nobody keeps cluster_name from being longer; then it is no name for us.
    [node_name, server::cluster_name()]
        .into_iter()
        .find(|name| !name.is_empty() && name.len() <= MAX_NAME_BYTES)
        .map_or_else(server::host_and_port, guessed_utf8)
}

/// The identity that the settings give the server, if they give one.
pub fn identity() -> Option<Identity> {
    Some(Identity { worker: worker_id()?, datacenter: datacenter_id() })
}

/// The worker ID that the settings give the server, if they give one. With a registry: that one or none.
pub fn worker_id() -> Option<u32> {
    u32::try_from(WORKER_ID.get()).ok()
}

/// The datacenter ID.
pub fn datacenter_id() -> u32 {
    DATACENTER_ID.get().unsigned_abs()
}

/// How to connect to the registry that leases the worker ID, if one does.
pub fn registry() -> Option<CString> {
    REGISTRY.get().filter(|text| !text.is_empty())
}

/// How much this server's clock may differ from the registry's.
pub fn max_clock_offset() -> Duration {
    milliseconds(&MAX_CLOCK_OFFSET)
}

/// How far the time in an ID may be ahead of the clock.
pub fn max_drift() -> Duration {
    milliseconds(&MAX_DRIFT)
}

/// The longest that one call may wait.
pub fn max_wait() -> Duration {
    milliseconds(&MAX_WAIT)
}

/// The upper end of the range in which ticks start their sequences.
pub fn sequence_spread() -> u32 {
    SEQUENCE_SPREAD.get().unsigned_abs()
}

fn milliseconds(setting: &GucSetting<i32>) -> Duration {
    Duration::from_millis(setting.get().unsigned_abs().into())
}

/// What is done when a setting has changed on which the generator of a session depends.
static ON_CHANGE: BackendLocal<Cell<fn()>> = BackendLocal::new(Cell::new(|| {}));

/// Defines the settings; `on_change` is called when one has changed on which the generator of a session
/// depends. Those that can change only at a restart are left out where the library was not preloaded: to
/// define them then would end the session.
pub fn define(on_change: fn()) {
    ON_CHANGE.set(on_change);
    if server::is_preloading() {
        define_restart_only();
    }
    IS_DEFINING.store(true, Ordering::Relaxed);
    // SAFETY: the hooks are guarded.
    unsafe {
        GucRegistry::define_string_guc_with_hooks(
            c"snowflake_id.layout",
            c"How the bits of a snowflake ID are divided.",
            c"A preset (see view snowflake_layouts), a preset and options, or fields and options.",
            &LAYOUT,
            GucContext::Suset,
            GucFlags::default(),
            Some(check_layout),
            Some(assign_layout),
            None,
        );
    }
    IS_DEFINING.store(false, Ordering::Relaxed);
    define_for_keeper();
    define_for_registry();
    define_int(
        c"snowflake_id.max_drift",
        c"How far the time in a snowflake ID may be ahead of the clock.",
        c"Bursts and small steps of the clock backwards go unnoticed within it.",
        &MAX_DRIFT,
        0,
        MOST_DRIFT_MS,
        GucContext::Sighup,
        GucFlags::UNIT_MS,
        Some(tell_of_change),
    );
    define_int(
        c"snowflake_id.max_wait",
        c"The longest that one call waits for the clock.",
        c"A call fails at once if it would have to wait longer. 0: never wait.",
        &MAX_WAIT,
        0,
        MOST_WAIT_MS,
        GucContext::Userset,
        GucFlags::UNIT_MS,
        None,
    );
    define_int(
        c"snowflake_id.sequence_spread",
        c"Each tick starts its sequence at a value from 0 to this that depends on the tick.",
        c"Spreads IDs made at a low rate over shards chosen by hash or modulo. 0: start at 0.",
        &SEQUENCE_SPREAD,
        0,
        MOST_SPREAD,
        GucContext::Sighup,
        GucFlags::default(),
        Some(tell_of_change),
    );
}

/// Who the server is, and how its horizon is kept.
fn define_for_keeper() {
    define_int(
        c"snowflake_id.worker_id",
        c"The worker ID that this server writes into snowflake IDs.",
        c"No two servers of a fleet may share it. -1: the one of this server's row in table snowflake_worker.",
        &WORKER_ID,
        -1,
        i32::MAX,
        GucContext::Sighup,
        GucFlags::default(),
        None,
    );
    define_int(
        c"snowflake_id.datacenter_id",
        c"The datacenter ID that this server writes into snowflake IDs.",
        c"Has to be 0 with layouts that have no datacenter field. A row of table snowflake_worker has its own.",
        &DATACENTER_ID,
        0,
        i32::MAX,
        GucContext::Sighup,
        GucFlags::default(),
        None,
    );
    define_int(
        c"snowflake_id.lease",
        c"How far ahead the horizon is written.",
        c"Also how long it may take after a crash until IDs are made again.",
        &LEASE,
        LEAST_LEASE_MS,
        MOST_LEASE_MS,
        GucContext::Sighup,
        GucFlags::UNIT_MS,
        None,
    );
    define_int(
        c"snowflake_id.max_clock_jump",
        c"The largest step of the clock ahead that is followed.",
        c"After a larger one no IDs are made until the clock is set right or snowflake_accept_clock() is called.",
        &MAX_CLOCK_JUMP,
        0,
        i32::MAX,
        GucContext::Sighup,
        GucFlags::UNIT_MS,
        None,
    );
    define_name(
        c"snowflake_id.node_name",
        c"This server's name in table snowflake_worker.",
        c"Empty: cluster_name, or else host and port.",
        &NODE_NAME,
        GucContext::Sighup,
        GucFlags::default(),
        check_node_name,
    );
}

/// Where the worker ID is leased.
fn define_for_registry() {
    define_name(
        c"snowflake_id.registry",
        c"How to connect to the registry that leases the worker ID: a connection string of libpq.",
        c"Without a password: use a password file or a service. Empty: the worker ID is not leased.",
        &REGISTRY,
        GucContext::Sighup,
        GucFlags::SUPERUSER_ONLY,
        check_registry,
    );
    define_int(
        c"snowflake_id.max_clock_offset",
        c"How much the clock may differ from that of the registry before that is worth a warning.",
        c"From 60 s on the registry gives no lease.",
        &MAX_CLOCK_OFFSET,
        1,
        MOST_CLOCK_OFFSET_MS,
        GucContext::Sighup,
        GucFlags::UNIT_MS,
        None,
    );
}

fn define_restart_only() {
    define_name(
        c"snowflake_id.database",
        c"The database in which the durable horizon and table snowflake_worker are kept.",
        c"The extension has to be created in it.",
        &DATABASE,
        GucContext::Postmaster,
        GucFlags::default(),
        check_database,
    );
    define_int(
        c"snowflake_id.max_segments",
        c"How many segments can be in use at a time.",
        c"One that has been used keeps its place until the server is restarted.",
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
    check_hook: TextCheckHook,
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

#[allow(clippy::too_many_arguments)] // Those of DefineCustomIntVariable.
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

/// Makes PostgreSQL refuse unknown settings with our prefix. To be called last.
pub fn reserve_prefix() {
    // SAFETY: the argument is a C string.
    unsafe { pg_sys::MarkGUCPrefixReserved(c"snowflake_id".as_ptr()) };
}

/// A function that accepts or rejects the text of a setting.
type TextCheckHook =
    unsafe extern "C-unwind" fn(*mut *mut c_char, *mut *mut c_void, pg_sys::GucSource::Type) -> bool;

#[pg_guard]
unsafe extern "C-unwind" fn check_node_name(
    value: *mut *mut c_char,
    _extra: *mut *mut c_void,
    _source: pg_sys::GucSource::Type,
) -> bool {
    // SAFETY: PostgreSQL passes a pointer to the new value.
    accepts_name("snowflake_id.node_name", unsafe { setting::setting_text(*value) })
}

#[pg_guard]
unsafe extern "C-unwind" fn check_database(
    value: *mut *mut c_char,
    _extra: *mut *mut c_void,
    _source: pg_sys::GucSource::Type,
) -> bool {
    // SAFETY: PostgreSQL passes a pointer to the new value.
    accepts_name("snowflake_id.database", unsafe { setting::setting_text(*value) })
}

#[pg_guard]
unsafe extern "C-unwind" fn check_registry(
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

fn accepts_name(parameter: &'static str, text: &[u8]) -> bool {
    if text.len() <= MAX_NAME_BYTES {
        return true;
    }
    let problem =
        Error::NameTooLong { parameter, text: shown(text), bytes: text.len(), most: MAX_NAME_BYTES };
    if server::is_preloading() {
        // The default in its place could be the name of another server.
        fail_start(problem);
    }
    reject(problem)
}

/// Says what is wrong with a value, and that it is refused.
fn reject(problem: Error) -> bool {
    let texts = problem.texts();
    setting::explain_rejection(&texts.message, &texts.detail, &texts.hint);
    false
}

#[pg_guard]
unsafe extern "C-unwind" fn check_layout(
    value: *mut *mut c_char,
    _extra: *mut *mut c_void,
    source: pg_sys::GucSource::Type,
) -> bool {
    // SAFETY: PostgreSQL passes a pointer to the new value.
    let text = unsafe { setting::setting_text(*value) };
    let Err(problem) = Layout::from_bytes(text) else {
        return true;
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

fn fail_start(problem: Error) -> ! {
    ErrorReport::from(problem).report(PgLogLevel::FATAL);
    unreachable!("FATAL does not return")
}

#[pg_guard]
unsafe extern "C-unwind" fn assign_layout(value: *const c_char, _extra: *mut c_void) {
    // SAFETY: PostgreSQL passes the new value.
    let text = unsafe { setting::setting_text(value) };
    SESSION_LAYOUT.set(Layout::from_bytes(text).ok());
    ON_CHANGE.get()();
}

#[pg_guard]
unsafe extern "C-unwind" fn tell_of_change(_value: c_int, _extra: *mut c_void) {
    ON_CHANGE.get()();
}
