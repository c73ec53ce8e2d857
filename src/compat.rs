//! What is particular to PostgreSQL's C side: calls that pgrx binds but does not wrap, and whatever differs between
//! versions.

use std::ffi::{CStr, c_char};
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

/// The server's clock, in microseconds of Unix time.
#[inline]
pub fn clock_us() -> i64 {
    let mut now = libc::timeval { tv_sec: 0, tv_usec: 0 };
    // SAFETY: the first pointer is to a place for the result, the second may be null.
    unsafe { libc::gettimeofday(&mut now, std::ptr::null_mut()) };
    now.tv_sec * 1_000_000 + now.tv_usec
}

/// Sleeps until the latch of this process is set, at most `timeout`, and shows as waiting in `pg_stat_activity`.
///
/// Below a millisecond, the resolution of a latch, it sleeps without one: a cancel that comes in is seen right after.
pub fn wait(timeout: Duration) {
    const MILLISECOND: Duration = Duration::from_millis(1);
    if timeout < MILLISECOND {
        // SAFETY: my_wait_event_info points to this process's own word, in shared memory or in its stand-in. PostgreSQL
        // sets it the same way, as a volatile word that others only read.
        unsafe { pg_sys::my_wait_event_info.write_volatile(pg_sys::PG_WAIT_EXTENSION) };
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
                pg_sys::PG_WAIT_EXTENSION,
            );
            pg_sys::ResetLatch(pg_sys::MyLatch);
        }
    }
    pgrx::check_for_interrupts!();
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

/// The value that a check or assign hook of a text setting is given.
///
/// # Safety
/// `value` is null or points to a C string that outlives the returned reference.
pub unsafe fn setting_text<'a>(value: *const c_char) -> &'a str {
    if value.is_null() {
        return "";
    }
    // SAFETY: by this function's contract. Settings may hold any bytes; what is not UTF-8 is no layout.
    unsafe { CStr::from_ptr(value) }.to_str().unwrap_or("\u{fffd}")
}
