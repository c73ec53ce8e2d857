//! Processes: how they exit, and the signals and transactions of background workers.

use std::cell::Cell;
use std::ffi::{CStr, c_int};

use pgrx::bgworkers::{BackgroundWorker, SignalWakeFlags};
use pgrx::prelude::*;

use super::backend_local::BackendLocal;
use super::helper;

/// Registers a function to run when this process exits. Shared memory is still attached at that time. The function
/// does not run if the process is killed.
///
/// If the function raises an error, PostgreSQL reports the error as FATAL and continues to exit. The guard converts a
/// panic to an error. Without the guard, a panic would abort the process, and the postmaster would restart the whole
/// server.
pub fn at_exit(action: fn()) {
    #[pg_guard]
    unsafe extern "C-unwind" fn run(_code: i32, action: pg_sys::Datum) {
        // SAFETY: the datum is the function that is passed below.
        let action = unsafe { std::mem::transmute::<usize, fn()>(action.value()) };
        action();
    }
    // SAFETY: the list has room for the few callbacks of a backend. PostgreSQL raises FATAL if the list is full.
    unsafe { pg_sys::before_shmem_exit(Some(run), pg_sys::Datum::from(action as usize)) };
}

/// Returns whether this process is a worker of a parallel query.
#[inline]
pub fn is_parallel_worker() -> bool {
    // SAFETY: reads a variable of this process.
    unsafe { pg_sys::ParallelWorkerNumber >= 0 }
}

/// Returns the index of the process that runs the current transaction. In a worker of a parallel query, that process is
/// the leader. In all other processes, it is the process itself. Indexes are less than [`max_processes`].
pub fn index_of_leader() -> usize {
    // SAFETY: reads this process's entry in shared memory. A parallel worker joins the group of its leader before it
    // runs anything else.
    unsafe {
        let leader = if is_parallel_worker() { (*pg_sys::MyProc).lockGroupLeader } else { pg_sys::MyProc };
        assert!(!leader.is_null(), "bug: a parallel worker has no leader");
        leader.offset_from((*pg_sys::ProcGlobal).allProcs) as usize
    }
}

/// Returns the process ID of the process with this index, or `None` if there is no such process.
pub fn pid_at(index: usize) -> Option<i32> {
    assert!(index < max_processes(), "bug: no process has index {index}");
    // SAFETY: the array has at least this many elements. Another process may change the process ID at any time.
    let pid = unsafe { (&raw const (*(*pg_sys::ProcGlobal).allProcs.add(index)).pid).read_volatile() };
    (pid != 0).then_some(pid)
}

/// Returns the maximum number of processes that run transactions. The number is known when the shared memory is
/// requested.
pub fn max_processes() -> usize {
    // SAFETY: set before the shared memory is requested, and never changed.
    unsafe { pg_sys::MaxBackends as usize }
}

unsafe extern "C" {
    /// The setting `max_prepared_transactions`. This variable in PostgreSQL's `access/twophase.h` has no binding in
    /// pgrx.
    static max_prepared_xacts: c_int;
}

/// Returns the maximum number of prepared transactions.
pub fn max_prepared_transactions() -> usize {
    // SAFETY: a setting that changes only at a restart.
    unsafe { max_prepared_xacts as usize }
}

/// Exits this process, with PostgreSQL's cleanup.
pub fn exit(code: i32) -> ! {
    // SAFETY: runs PostgreSQL's exit callbacks. The caller holds no Rust value with a destructor that must run.
    unsafe { pg_sys::proc_exit(code) };
    // For PostgreSQL 18 and later, pgrx does not declare that this function never returns.
    #[allow(unreachable_code)]
    {
        unreachable!("bug: proc_exit returned")
    }
}

unsafe extern "C" {
    /// Returns whether a timeout has fired and has not been reported yet. This function in PostgreSQL's
    /// `utils/timeout.h` has no binding in pgrx.
    fn get_timeout_indicator(timeout: c_int, reset: bool) -> bool;
}

/// From `utils/timeout.h`.
const LOCK_TIMEOUT: c_int = 2;

/// The action on SIGTERM. The action is set before SIGTERM can arrive, and is read by the signal handler.
static ON_SIGTERM: BackendLocal<Cell<fn()>> = BackendLocal::new(Cell::new(|| ()));

/// Installs signal handlers. SIGTERM runs `on_sigterm`. Because a signal can interrupt the process at any instruction,
/// `on_sigterm` may only set flags and a latch, and must not fail. When `lock_timeout` expires, PostgreSQL sends SIGINT
/// from the process to itself to end the wait. A SIGINT from another process is ignored, because a background worker
/// does not execute client statements.
///
/// This function also reads the configuration files. PostgreSQL discards a SIGHUP that arrives before the background
/// worker has installed a handler, so without this reading, the worker would keep the settings from before the reload.
pub fn handle_signals(on_sigterm: fn()) {
    #[cfg(any(feature = "pg15", feature = "pg16", feature = "pg17"))]
    use pg_sys::pqsignal;
    #[cfg(not(any(feature = "pg15", feature = "pg16", feature = "pg17")))]
    use pg_sys::pqsignal_be as pqsignal;
    ON_SIGTERM.set(on_sigterm);
    // SAFETY: the handler only sets flags and a latch.
    unsafe {
        pqsignal(pg_sys::SIGTERM as i32, Some(on_signal));
        pqsignal(pg_sys::SIGINT as i32, Some(on_signal));
    }
    // This call is last, because it also unblocks the signals.
    BackgroundWorker::attach_signal_handlers(SignalWakeFlags::SIGHUP);
    read_configuration();
}

/// Handles SIGTERM and SIGINT. PostgreSQL 19 and later also pass the sender of the signal.
///
/// The handler has no `#[pg_guard]`, because the guard would turn a panic into an error in the middle of the
/// interrupted code. The handler does not panic or raise errors.
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
    // SAFETY: reads a flag, and sets the flags and the latch that PostgreSQL's own handler sets.
    unsafe {
        if get_timeout_indicator(LOCK_TIMEOUT, false) {
            (&raw mut pg_sys::QueryCancelPending).write_volatile(1);
            (&raw mut pg_sys::InterruptPending).write_volatile(1);
            pg_sys::SetLatch(pg_sys::MyLatch);
        }
    }
}

/// Runs the body of a signal handler and preserves `errno` for the interrupted code.
fn keeping_errno(action: impl FnOnce()) {
    // SAFETY: returns the address of this thread's own variable.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let before = unsafe { *errno };
    action();
    // SAFETY: as above.
    unsafe { *errno = before };
}

/// Wakes this process. If `die` is true, a commit that waits for a standby also stops waiting, and returns as if it had
/// succeeded. This function must be called only in the signal handler, while the signal is blocked, or after the signal
/// has arrived.
pub fn interrupt(die: bool) {
    // SAFETY: PostgreSQL's own handlers set the flags and the latch of this process in the same way.
    unsafe {
        if die {
            (&raw mut pg_sys::ProcDiePending).write_volatile(1);
            (&raw mut pg_sys::InterruptPending).write_volatile(1);
        }
        pg_sys::SetLatch(pg_sys::MyLatch);
    }
}

/// Reverses the effect of [`interrupt`], so that one more transaction can run.
pub fn forget_interrupt() {
    // SAFETY: as in [`interrupt`].
    unsafe { (&raw mut pg_sys::ProcDiePending).write_volatile(0) };
}

/// Reads the configuration files again if SIGHUP has arrived since the last call. Does nothing while a helper thread
/// runs, because a new setting could change the environment that the thread reads.
pub fn reload_if_asked() {
    if !helper::is_running() && BackgroundWorker::sighup_received() {
        read_configuration();
    }
}

fn read_configuration() {
    // SAFETY: the callers are background workers, between transactions.
    unsafe { pg_sys::ProcessConfigFile(pg_sys::GucContext::PGC_SIGHUP) };
}

/// Values for the settings that could otherwise end a session or a transaction.
const NEVER_ENDED: &[(&CStr, &CStr)] = &[
    (c"statement_timeout", c"0"),
    (c"idle_in_transaction_session_timeout", c"0"),
    #[cfg(not(any(feature = "pg15", feature = "pg16")))]
    (c"transaction_timeout", c"0"),
    // With `exit_on_error` on, an error would end the process.
    (c"exit_on_error", c"off"),
];

/// Connects a background worker to a database, even if the database does not allow connections. Pins the values of the
/// settings in `pinned`, and of the settings that could end the session. If the database does not exist, the process
/// exits.
pub fn connect(database: &CStr, pinned: &[(&CStr, &CStr)]) {
    // SAFETY: called once, by a background worker that requested a database connection. All strings are C strings.
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

/// Initializes a background worker that needs no database, so that it appears in `pg_stat_activity`.
pub fn connect_to_no_database() {
    // SAFETY: called once, by a background worker that requested a database connection.
    unsafe { pg_sys::BackgroundWorkerInitializeConnection(std::ptr::null(), std::ptr::null(), 0) };
}

/// Ensures that the commit of the current transaction waits at least for the local disk.
pub fn commit_locally_at_least() {
    // SAFETY: reads a setting of this process.
    let synchronous_commit = unsafe { pg_sys::synchronous_commit };
    if synchronous_commit == pg_sys::SyncCommitLevel::SYNCHRONOUS_COMMIT_OFF as i32 {
        commit_locally();
    }
}

/// Makes the commit of the current transaction wait only for the local disk.
pub fn commit_locally() {
    // SAFETY: both strings are C strings. The change ends with the transaction.
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

/// Rolls back the current transaction after an error was caught.
pub fn abort_transaction() {
    // SAFETY: cleans up a transaction in any state.
    unsafe { pg_sys::AbortCurrentTransaction() };
}

/// Updates PostgreSQL's cumulative statistics with this process's activity since the last update. A background worker
/// must do so itself, between transactions.
pub fn report_statistics() {
    // SAFETY: the callers are background workers, between transactions.
    unsafe { pg_sys::pgstat_report_stat(true) };
}
