//! A helper thread, for work that may block or compute for an unlimited time. The process waits for the thread on its
//! latch, as it waits for all other events.
//!
//! The thread must not call functions of the PostgreSQL server. The thread handles no signals, because signal
//! handlers must run in the main thread. A thread cannot be stopped from outside. If a thread does not return, the
//! process has to exit.

use std::io::{self, PipeReader};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use pgrx::prelude::*;

use super::wait::{Interest, wait_for_socket};

/// How many threads may still be running. Changed by the main thread only.
static RUNNING: AtomicUsize = AtomicUsize::new(0);

/// Whether a thread may still be running. Actions that are not safe next to another thread, such as changing the
/// environment, have to wait while this is true.
pub fn is_running() -> bool {
    RUNNING.load(Ordering::Relaxed) > 0
}

/// A helper thread. If a `Helper` is dropped before its result is taken, the thread keeps running, and the process
/// has to exit.
pub struct Helper<T> {
    thread: JoinHandle<T>,
    /// A pipe that reaches its end when the work is done.
    end: PipeReader,
}

impl<T: Send + 'static> Helper<T> {
    /// Starts a thread that does some work.
    pub fn start(work: impl FnOnce() -> T + Send + 'static) -> io::Result<Helper<T>> {
        leave_at_once_if_running();
        let (end, open) = io::pipe()?;
        let work = move || {
            // A panic closes the pipe as well.
            let _open = open;
            work()
        };
        let thread = without_signals(|| thread::Builder::new().spawn(work))?;
        RUNNING.fetch_add(1, Ordering::Relaxed);
        Ok(Helper { thread, end })
    }

    /// Waits until the work is done, the latch of this process is set, or `timeout` has elapsed. Returns whether the
    /// work is done.
    pub fn wait(&self, timeout: Duration, event: u32) -> bool {
        wait_for_socket(self.end.as_raw_fd(), Interest::Read, timeout, event)
    }

    /// Returns the result after the work is done; `None` if the thread has panicked.
    pub fn result(self) -> Option<T> {
        let result = self.thread.join();
        RUNNING.fetch_sub(1, Ordering::Relaxed);
        result.ok()
    }
}

/// Makes the process skip the exit handlers of the C library if a thread is still running when the process exits. The
/// handlers of OpenSSL would free memory that the thread is using. The thread would crash, and the postmaster would
/// then restart all backends.
///
/// PostgreSQL's own cleanup is not skipped: `proc_exit()` runs this callback after it has released shared memory. The
/// postmaster regards this as a normal exit.
fn leave_at_once_if_running() {
    static IS_SET: AtomicBool = AtomicBool::new(false);
    #[pg_guard]
    unsafe extern "C-unwind" fn leave(code: i32, _argument: pg_sys::Datum) {
        if is_running() {
            // SAFETY: ends the process immediately; nothing else of it runs.
            unsafe { libc::_exit(code) };
        }
    }
    if !IS_SET.swap(true, Ordering::Relaxed) {
        // SAFETY: the list has room for the few callbacks of a backend. PostgreSQL raises a FATAL error if the list
        // is full.
        unsafe { pg_sys::on_proc_exit(Some(leave), pg_sys::Datum::from(0_usize)) };
    }
}

/// Runs an action with all signals blocked. In threads that the action starts, the signals remain blocked.
fn without_signals<T>(action: impl FnOnce() -> T) -> T {
    // SAFETY: signal sets are plain integers, and sigfillset fills this one.
    let mut all: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    let mut before: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: both sets are on the stack. Only the signal mask of this thread changes.
    unsafe {
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
    }
    let result = action();
    // SAFETY: restores the old mask.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut()) };
    result
}

/// Used by the thread: waits until a socket is ready, for at most `timeout`. Returns whether it is ready.
pub fn poll(socket: i32, interest: Interest, timeout: Duration) -> bool {
    let events = match interest {
        Interest::Read => libc::POLLIN,
        Interest::Write => libc::POLLOUT,
    };
    let mut socket = libc::pollfd { fd: socket, events, revents: 0 };
    let milliseconds = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX).max(1);
    // SAFETY: the array has one element, on the stack.
    unsafe { libc::poll(&mut socket, 1, milliseconds) > 0 }
}
