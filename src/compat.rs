//! What is particular to PostgreSQL's C side: calls that pgrx binds but does not wrap, and whatever differs between
//! versions.

use std::ffi::{CStr, CString, c_char, c_int};
use std::ops::Deref;
use std::time::Duration;

use pgrx::prelude::*;

/// A variable of this process. A `static` costs nothing to reach, while a `thread_local!` in a shared library costs a call
/// into the dynamic linker each time.
pub struct BackendLocal<T>(T);

// SAFETY: PostgreSQL calls us on the one thread of a backend, and we start no other.
unsafe impl<T> Sync for BackendLocal<T> {}

impl<T> BackendLocal<T> {
    pub const fn new(value: T) -> BackendLocal<T> {
        BackendLocal(value)
    }
}

impl<T: Default> Default for BackendLocal<T> {
    fn default() -> BackendLocal<T> {
        BackendLocal(T::default())
    }
}

impl<T> Deref for BackendLocal<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

/// Whether the postmaster is loading `shared_preload_libraries`.
pub fn is_preloading() -> bool {
    // SAFETY: a plain flag that only the main thread of this process writes.
    unsafe { pg_sys::process_shared_preload_libraries_in_progress }
}

/// Whether this process is a parallel worker that takes over the settings of its leader.
pub fn is_taking_over_settings() -> bool {
    // SAFETY: a plain flag of this process.
    unsafe { pg_sys::InitializingParallelWorker }
}

/// Whether the server is a standby or still replays WAL.
pub fn is_in_recovery() -> bool {
    // SAFETY: reads shared memory that exists in every backend; no preconditions.
    unsafe { pg_sys::RecoveryInProgress() }
}

/// The function of this name in a schema that takes one argument of this type, or `Oid::INVALID`.
pub fn function_in(schema: pg_sys::Oid, name: &CStr, argument: pg_sys::Oid) -> pg_sys::Oid {
    // SAFETY: a lookup in the catalog, within a transaction as all that calls functions; the name is a C string.
    unsafe {
        pg_sys::GetSysCacheOid(
            pg_sys::SysCacheIdentifier::PROCNAMEARGSNSP as i32,
            pg_sys::Anum_pg_proc_oid as pg_sys::AttrNumber,
            pg_sys::Datum::from(name.as_ptr()),
            pg_sys::Datum::from(pg_sys::buildoidvector(&argument, 1)),
            pg_sys::Datum::from(schema),
            pg_sys::Datum::null(),
        )
    }
}

/// Whether the current user may execute a function.
pub fn may_execute(function: pg_sys::Oid) -> bool {
    // SAFETY: a lookup in the catalog, within a transaction; the OID is that of a function.
    let result = unsafe {
        let (user, mode) = (pg_sys::GetUserId(), pg_sys::ACL_EXECUTE as pg_sys::AclMode);
        #[cfg(feature = "pg15")]
        let result = pg_sys::pg_proc_aclcheck(function, user, mode);
        #[cfg(not(feature = "pg15"))]
        let result = pg_sys::object_aclcheck(pg_sys::ProcedureRelationId, function, user, mode);
        result
    };
    result == pg_sys::AclResult::ACLCHECK_OK
}

/// The database to which this process is connected.
pub fn current_database() -> Option<CString> {
    // SAFETY: the OID is that of a database; the name is a C string that is ours, or null if it was dropped.
    let name =
        unsafe { pg_sys::get_database_name(pg_sys::MyDatabaseId).as_ref().map(|name| CStr::from_ptr(name)) };
    name.map(CStr::to_owned)
}

/// The OID of that database.
pub fn database_oid() -> pg_sys::Oid {
    // SAFETY: a plain variable of this process.
    unsafe { pg_sys::MyDatabaseId }
}

/// The server's clock, in microseconds of Unix time.
#[inline]
pub fn clock_us() -> i64 {
    let mut now = libc::timeval { tv_sec: 0, tv_usec: 0 };
    // SAFETY: the first pointer is to a place for the result, the second may be null.
    unsafe { libc::gettimeofday(&mut now, std::ptr::null_mut()) };
    now.tv_sec * 1_000_000 + now.tv_usec
}

/// The clock and the time since boot, in microseconds, as of the same moment: less than a tenth of a millisecond apart,
/// if the machine lets the process run for so long without a break.
pub fn clocks_us() -> (i64, i64) {
    const TRIES: u32 = 10;
    let mut before_us = since_boot_us();
    for _ in 1..TRIES {
        let now_us = clock_us();
        let after_us = since_boot_us();
        if after_us - before_us < 100 {
            return (now_us, after_us);
        }
        before_us = after_us;
    }
    (clock_us(), since_boot_us())
}

/// The time since the machine was started, in microseconds, including time that it slept. Nobody can set it.
fn since_boot_us() -> i64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a place for the result.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &mut now) };
    now.tv_sec * 1_000_000 + now.tv_nsec / 1_000
}

/// Whether pg_upgrade runs this server.
pub fn is_binary_upgrade() -> bool {
    // SAFETY: a plain flag, set before the library is loaded.
    unsafe { pg_sys::IsBinaryUpgrade }
}

/// The setting `cluster_name`.
pub fn cluster_name() -> &'static [u8] {
    // SAFETY: a setting's text is a C string or null; it changes only at a restart.
    unsafe { setting_text(pg_sys::cluster_name) }
}

/// `host:port` of this server.
pub fn host_and_port() -> String {
    let mut name = [0; 256];
    // SAFETY: the buffer has this length; one byte is left for the NUL, which a long name would lack.
    unsafe { libc::gethostname(name.as_mut_ptr(), name.len() - 1) };
    // SAFETY: there is a NUL at the end of the buffer at the latest.
    let name = unsafe { CStr::from_ptr(name.as_ptr()) };
    // SAFETY: a setting that changes only at a restart.
    format!("{}:{}", name.to_string_lossy(), unsafe { pg_sys::PostPortNumber })
}

/// What a process waits for, as `pg_stat_activity` shows it.
#[derive(Clone, Copy)]
pub enum WaitEvent {
    /// The clock has to come far enough.
    Clock,
    /// The keeper has to open the gate or to extend the horizon.
    Horizon,
}

impl WaitEvent {
    /// Before version 17 an extension has but one wait event, `Extension`.
    #[cfg(any(feature = "pg15", feature = "pg16"))]
    fn number(self) -> u32 {
        pg_sys::PG_WAIT_EXTENSION
    }

    #[cfg(not(any(feature = "pg15", feature = "pg16")))]
    fn number(self) -> u32 {
        use std::cell::Cell;
        static NUMBERS: BackendLocal<[Cell<u32>; 2]> = BackendLocal::new([Cell::new(0), Cell::new(0)]);
        let known = &NUMBERS[self as usize];
        if known.get() == 0 {
            let name = match self {
                WaitEvent::Clock => c"SnowflakeClock",
                WaitEvent::Horizon => c"SnowflakeHorizon",
            };
            // SAFETY: the name is a C string; the same one gives the same number in every process.
            known.set(unsafe { pg_sys::WaitEventExtensionNew(name.as_ptr()) });
        }
        known.get()
    }
}

/// Has a function run when this process ends, while there is shared memory. Not if it is killed.
pub fn at_exit(action: fn()) {
    unsafe extern "C-unwind" fn run(_code: i32, action: pg_sys::Datum) {
        // SAFETY: the datum is the function that is passed below.
        let action = unsafe { std::mem::transmute::<usize, fn()>(action.value()) };
        action();
    }
    // SAFETY: the list has room for the few callbacks of a backend; PostgreSQL raises FATAL if not.
    unsafe { pg_sys::before_shmem_exit(Some(run), pg_sys::Datum::from(action as usize)) };
}

/// Sleeps until the latch of this process is set, at most `timeout`, and shows as waiting in `pg_stat_activity`.
///
/// Below a millisecond, the resolution of a latch, it sleeps without one: a cancel that comes in is seen right after.
pub fn wait(timeout: Duration, event: WaitEvent) {
    wait_uninterrupted(timeout, event);
    pgrx::check_for_interrupts!();
}

/// The same, but a cancelled statement stays to be noticed.
pub fn wait_uninterrupted(timeout: Duration, event: WaitEvent) {
    const MILLISECOND: Duration = Duration::from_millis(1);
    if timeout < MILLISECOND {
        // SAFETY: my_wait_event_info points to this process's own word, in shared memory or in its stand-in. PostgreSQL
        // sets it the same way, as a volatile word that others only read.
        unsafe { pg_sys::my_wait_event_info.write_volatile(event.number()) };
        std::thread::sleep(timeout);
        // SAFETY: as above.
        unsafe { pg_sys::my_wait_event_info.write_volatile(0) };
    } else {
        let events = pg_sys::WL_LATCH_SET | pg_sys::WL_TIMEOUT | pg_sys::WL_EXIT_ON_PM_DEATH;
        // SAFETY: MyLatch is this process's own latch and is valid for its life.
        unsafe {
            pg_sys::WaitLatch(
                pg_sys::MyLatch,
                events as i32,
                timeout.as_millis() as std::ffi::c_long,
                event.number(),
            );
            pg_sys::ResetLatch(pg_sys::MyLatch);
        }
    }
}

/// Gives a check hook's DETAIL and HINT; the hook then returns false.
pub fn explain_rejection(detail: &str, hint: &str) {
    // SAFETY: the GUC machinery clears both pointers before it calls a check hook and reads them right after, before
    // ErrorContext, in which the strings live, is reset.
    unsafe {
        pg_sys::GUC_check_errdetail_string = error_string(detail);
        pg_sys::GUC_check_errhint_string = error_string(hint);
    }
}

/// Copies a text into ErrorContext.
fn error_string(text: &str) -> *mut c_char {
    // A NUL cannot come from a setting's text, which is a C string itself.
    let text = std::ffi::CString::new(text).unwrap_or_default();
    // SAFETY: ErrorContext exists from the start of the process, and text is NUL-terminated.
    unsafe { pg_sys::MemoryContextStrdup(pg_sys::ErrorContext, text.as_ptr()) }
}

/// A setting's text as it is, in whatever encoding.
///
/// # Safety
/// `value` is null or points to a C string that outlives the returned reference.
pub unsafe fn setting_text<'a>(value: *const c_char) -> &'a [u8] {
    if value.is_null() {
        return b"";
    }
    // SAFETY: by this function's contract.
    unsafe { CStr::from_ptr(value) }.to_bytes()
}

unsafe extern "C" {
    /// Of PostgreSQL's utils/timeout.h, which pgrx does not bind: whether a timeout has fired and is not yet reported.
    fn get_timeout_indicator(timeout: c_int, reset: bool) -> bool;
}

/// Of the same header.
const LOCK_TIMEOUT: c_int = 2;

/// Handles SIGTERM by `handler`. SIGINT is how `lock_timeout` ends a wait of its own process; one that comes from
/// elsewhere is ignored, as there is nothing of the keeper's to cancel.
pub fn handle_signals(handler: unsafe extern "C-unwind" fn(i32)) {
    unsafe extern "C-unwind" fn on_sigint(_signal: i32) {
        // SAFETY: reads a flag, and sets those that PostgreSQL's own handler sets, and the latch of this process.
        keeping_errno(|| unsafe {
            if get_timeout_indicator(LOCK_TIMEOUT, false) {
                (&raw mut pg_sys::QueryCancelPending).write_volatile(1);
                (&raw mut pg_sys::InterruptPending).write_volatile(1);
                pg_sys::SetLatch(pg_sys::MyLatch);
            }
        });
    }
    #[cfg(not(feature = "pg18"))]
    use pg_sys::pqsignal;
    #[cfg(feature = "pg18")]
    use pg_sys::pqsignal_be as pqsignal;
    // SAFETY: the handlers do nothing but set flags and a latch.
    unsafe {
        pqsignal(pg_sys::SIGTERM as i32, Some(handler));
        pqsignal(pg_sys::SIGINT as i32, Some(on_sigint));
    }
}

/// Runs what a signal handler does. Whoever was interrupted finds `errno` as it was.
pub fn keeping_errno(action: impl FnOnce()) {
    // SAFETY: the address of this thread's own variable.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let before = unsafe { *errno };
    action();
    // SAFETY: as above.
    unsafe { *errno = before };
}

/// Wakes this process. With `die`, ends also a wait of a commit for a standby, which then is as good as successful to
/// whoever commits. To be called from a signal handler, or with the signal blocked or past.
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

/// Whether a registration of a background worker, in the postmaster, was successful. PostgreSQL itself only logs that
/// there are too many, without a name.
pub fn registers_worker(register: impl FnOnce()) -> bool {
    #[repr(C)]
    struct ListHead {
        /// In version 18 lists are doubly linked: first the last worker, then the first.
        links: [*const std::ffi::c_void; if cfg!(feature = "pg18") { 2 } else { 1 }],
    }
    unsafe extern "C" {
        /// The workers that the postmaster knows, the one registered last at the head (bgworker_internals.h).
        static BackgroundWorkerList: ListHead;
    }
    // SAFETY: a list of this process, the postmaster, on its only thread; read anew each time.
    let first = || unsafe {
        *(&raw const BackgroundWorkerList.links).read_volatile().last().unwrap_or(&std::ptr::null())
    };
    let before = first();
    register();
    first() != before
}

/// Connects the keeper to its database, also if that allows no connections, and pins the settings on which it depends.
/// Does not return if there is no such database.
pub fn connect_keeper(database: &CStr) {
    const PINNED: &[(&CStr, &CStr)] = &[
        (c"default_transaction_read_only", c"off"),
        (c"default_transaction_isolation", c"read committed"),
        (c"lock_timeout", c"1s"),
        (c"statement_timeout", c"0"),
        (c"idle_in_transaction_session_timeout", c"0"),
        #[cfg(not(any(feature = "pg15", feature = "pg16")))]
        (c"transaction_timeout", c"0"),
        // An error would end the process.
        (c"exit_on_error", c"off"),
        (c"search_path", c""),
    ];
    // SAFETY: called once by a background worker that asked for a database connection; all texts are C strings.
    unsafe {
        pg_sys::BackgroundWorkerInitializeConnection(
            database.as_ptr(),
            std::ptr::null(),
            pg_sys::BGWORKER_BYPASS_ALLOWCONN,
        );
        for (name, value) in PINNED {
            pg_sys::SetConfigOption(
                name.as_ptr(),
                value.as_ptr(),
                pg_sys::GucContext::PGC_SUSET,
                pg_sys::GucSource::PGC_S_OVERRIDE,
            );
        }
    }
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

/// Whether SIGHUP has come since the last time; then reads the configuration again.
pub fn reload_if_asked() {
    if pgrx::bgworkers::BackgroundWorker::sighup_received() {
        // SAFETY: called between transactions.
        unsafe { pg_sys::ProcessConfigFile(pg_sys::GucContext::PGC_SIGHUP) };
    }
}

/// Ends this process.
pub fn exit(code: i32) -> ! {
    // SAFETY: runs PostgreSQL's exit hooks; no Rust value with a destructor that matters is alive in the caller.
    unsafe { pg_sys::proc_exit(code) };
    // In version 18 its declaration does not say that it never returns.
    #[allow(unreachable_code)]
    {
        unreachable!("bug: proc_exit returned")
    }
}
