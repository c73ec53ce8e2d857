//! Processes: how they end, and background workers with their signals and transactions.

use std::cell::Cell;
use std::ffi::{CStr, c_int};

use pgrx::prelude::*;

use super::backend_local::BackendLocal;
use super::helper;

/// Has a function run when this process ends, while there is shared memory. Not if it is killed.
///
/// If it fails, that is reported as FATAL, and the rest of the exit goes on. PostgreSQL sees to that for its own errors.
/// The guard sees to it for a panic, which would otherwise find nothing to catch it, and abort the process: the
/// postmaster would then restart the whole server.
pub fn at_exit(action: fn()) {
    #[pg_guard]
    unsafe extern "C-unwind" fn run(_code: i32, action: pg_sys::Datum) {
        // SAFETY: the datum is the function that is passed below.
        let action = unsafe { std::mem::transmute::<usize, fn()>(action.value()) };
        action();
    }
    // SAFETY: the list has room for the few callbacks of a backend; PostgreSQL raises FATAL if not.
    unsafe { pg_sys::before_shmem_exit(Some(run), pg_sys::Datum::from(action as usize)) };
}

/// Ends this process.
pub fn exit(code: i32) -> ! {
    // SAFETY: runs PostgreSQL's exit hooks; no Rust value with a destructor that matters is alive in the
    // caller.
    unsafe { pg_sys::proc_exit(code) };
    // In version 18 its declaration does not say that it never returns.
    #[allow(unreachable_code)]
    {
        unreachable!("bug: proc_exit returned")
    }
}

unsafe extern "C" {
    /// Of PostgreSQL's utils/timeout.h, which pgrx does not bind: whether a timeout has fired and is not yet
    /// reported.
    fn get_timeout_indicator(timeout: c_int, reset: bool) -> bool;
}

/// Of the same header.
const LOCK_TIMEOUT: c_int = 2;

/// What SIGTERM does. It is set before the signal can arrive, and read when it does.
static ON_SIGTERM: BackendLocal<Cell<fn()>> = BackendLocal::new(Cell::new(|| ()));

/// Handles SIGTERM by `on_sigterm`, which may run between any two instructions of this process: it sets flags and a
/// latch, and cannot fail. SIGINT is how `lock_timeout` ends a wait of its own process; one that comes from elsewhere
/// is ignored, as a background worker has no statement of a client's to cancel.
pub fn handle_signals(on_sigterm: fn()) {
    #[cfg(any(feature = "pg15", feature = "pg16", feature = "pg17"))]
    use pg_sys::pqsignal;
    #[cfg(not(any(feature = "pg15", feature = "pg16", feature = "pg17")))]
    use pg_sys::pqsignal_be as pqsignal;
    ON_SIGTERM.set(on_sigterm);
    // SAFETY: the handler does nothing but set flags and a latch.
    unsafe {
        pqsignal(pg_sys::SIGTERM as i32, Some(on_signal));
        pqsignal(pg_sys::SIGINT as i32, Some(on_signal));
    }
}

/// Where both signals arrive. From version 19 on PostgreSQL says who sent one.
///
/// It has no `#[pg_guard]`: that would turn a panic into an error, which jumps out of whatever was interrupted. Nothing
/// here panics or raises an error.
unsafe extern "C-unwind" fn on_signal(
    signal: i32,
    #[cfg(not(any(feature = "pg15", feature = "pg16", feature = "pg17", feature = "pg18")))]
    _sender: *const pg_sys::pg_signal_info,
) {
    keeping_errno(|| match signal as u32 {
        pg_sys::SIGTERM => ON_SIGTERM.get()(),
        _ => cancel_if_lock_timed_out(),
    });
}

fn cancel_if_lock_timed_out() {
    // SAFETY: reads a flag, and sets those that PostgreSQL's own handler sets, and the latch of this process.
    unsafe {
        if get_timeout_indicator(LOCK_TIMEOUT, false) {
            (&raw mut pg_sys::QueryCancelPending).write_volatile(1);
            (&raw mut pg_sys::InterruptPending).write_volatile(1);
            pg_sys::SetLatch(pg_sys::MyLatch);
        }
    }
}

/// Runs what a signal handler does. Whoever was interrupted finds `errno` as it was.
fn keeping_errno(action: impl FnOnce()) {
    // SAFETY: the address of this thread's own variable.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let before = unsafe { *errno };
    action();
    // SAFETY: as above.
    unsafe { *errno = before };
}

/// Wakes this process. With `die`, ends also a wait of a commit for a standby, which then is as good as
/// successful to whoever commits. To be called from a signal handler, or with the signal blocked or past.
pub fn interrupt(die: bool) {
    // SAFETY: flags of this process that PostgreSQL's own handlers set in the same way, and its latch.
    unsafe {
        if die {
            (&raw mut pg_sys::ProcDiePending).write_volatile(1);
            (&raw mut pg_sys::InterruptPending).write_volatile(1);
        }
        pg_sys::SetLatch(pg_sys::MyLatch);
    }
}

/// Takes [`interrupt`] back, so that one more transaction can be run.
pub fn forget_interrupt() {
    // SAFETY: as there.
    unsafe { (&raw mut pg_sys::ProcDiePending).write_volatile(0) };
}

/// Whether SIGHUP has come since the last time; then reads the configuration again. Not beside a helper thread: a setting
/// may change the environment, which the thread reads.
pub fn reload_if_asked() {
    if !helper::is_running() && pgrx::bgworkers::BackgroundWorker::sighup_received() {
        // SAFETY: called between transactions.
        unsafe { pg_sys::ProcessConfigFile(pg_sys::GucContext::PGC_SIGHUP) };
    }
}

/// Settings that could end a session or a transaction, off.
const NEVER_ENDED: &[(&CStr, &CStr)] = &[
    (c"statement_timeout", c"0"),
    (c"idle_in_transaction_session_timeout", c"0"),
    #[cfg(not(any(feature = "pg15", feature = "pg16")))]
    (c"transaction_timeout", c"0"),
    // An error would end the process.
    (c"exit_on_error", c"off"),
];

/// Connects a background worker to a database, also if that allows no connections. These settings are pinned, and beside
/// them what could end the session. Does not return if there is no such database.
pub fn connect(database: &CStr, pinned: &[(&CStr, &CStr)]) {
    // SAFETY: called once by a background worker that asked for a database connection; all texts are C
    // strings.
    unsafe {
        pg_sys::BackgroundWorkerInitializeConnection(
            database.as_ptr(),
            std::ptr::null(),
            pg_sys::BGWORKER_BYPASS_ALLOWCONN,
        );
        for (name, value) in NEVER_ENDED.iter().chain(pinned) {
            pg_sys::SetConfigOption(
                name.as_ptr(),
                value.as_ptr(),
                pg_sys::GucContext::PGC_SUSET,
                pg_sys::GucSource::PGC_S_OVERRIDE,
            );
        }
    }
}

/// Connects a background worker that needs no database, so that it shows up in `pg_stat_activity`.
pub fn connect_to_no_database() {
    // SAFETY: called once by a background worker that asked for a database connection.
    unsafe { pg_sys::BackgroundWorkerInitializeConnection(std::ptr::null(), std::ptr::null(), 0) };
}

/// Within a transaction: has its commit wait for the local disk at least.
pub fn commit_locally_at_least() {
    // SAFETY: a setting, read by the process that it belongs to.
    let synchronous_commit = unsafe { pg_sys::synchronous_commit };
    if synchronous_commit == pg_sys::SyncCommitLevel::SYNCHRONOUS_COMMIT_OFF as i32 {
        commit_locally();
    }
}

/// Within a transaction: has its commit wait for the local disk and for nothing else.
pub fn commit_locally() {
    // SAFETY: both texts are C strings; the change ends with the transaction.
    unsafe {
        pg_sys::set_config_option(
            c"synchronous_commit".as_ptr(),
            c"local".as_ptr(),
            pg_sys::GucContext::PGC_USERSET,
            pg_sys::GucSource::PGC_S_SESSION,
            pg_sys::GucAction::GUC_ACTION_LOCAL,
            true,
            0,
            false,
        );
    }
}

/// Rolls back the transaction in which an error was caught.
pub fn abort_transaction() {
    // SAFETY: cleans up whatever state the transaction is in.
    unsafe { pg_sys::AbortCurrentTransaction() };
}
