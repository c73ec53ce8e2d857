//! Helper threads for work that may take an unlimited time. The main thread waits for a helper thread on the process
//! latch, as for all other events.
//!
//! A helper thread must not call functions of the PostgreSQL server or use variables of the main thread. It handles no
//! signals, because signal handlers must run in the main thread. No other thread can stop it. If it does not return,
//! the process has to exit.

use std::io::{self, PipeReader};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use pgrx::prelude::*;

use super::wait::{Interest, wait_for_socket};

/// The number of helper threads that may still be running. Only the main thread changes this number.
static RUNNING: AtomicUsize = AtomicUsize::new(0);

/// Returns whether a helper thread may still be running. While this function returns true, operations that are not
/// thread-safe, such as changing the environment, must wait.
pub fn is_running() -> bool {
    RUNNING.load(Ordering::Relaxed) > 0
}

/// A helper thread. If a `Helper` is dropped before its result is taken, the thread keeps running, and the process
/// has to exit.
pub struct Helper<T> {
    thread: JoinHandle<T>,
    /// The read end of a pipe that the thread closes when the work is done.
    end: PipeReader,
}

impl<T: Send + 'static> Helper<T> {
    /// Starts a thread that runs `work`.
    ///
    /// # Safety
    /// The closure `work` must not call functions of the PostgreSQL server, access the server's variables, or use a
    /// [`BackendLocal`](super::backend_local::BackendLocal). pgrx checks most of the functions, but nothing checks the
    /// variables.
    pub unsafe fn start(work: impl FnOnce() -> T + Send + 'static) -> io::Result<Helper<T>> {
        leave_at_once_if_running();
        let (end, open) = io::pipe()?;
        let work = move || {
            // The pipe is also closed if the thread panics.
            let _open = open;
            work()
        };
        #[expect(clippy::disallowed_methods)] // The contract of this function restricts the thread.
        let thread = without_signals(|| thread::Builder::new().spawn(work))?;
        RUNNING.fetch_add(1, Ordering::Relaxed);
        Ok(Helper { thread, end })
    }

    /// Waits until the work is done, the latch of this process is set, or `timeout` has elapsed. Returns whether the
    /// work is done.
    pub fn wait(&self, timeout: Duration, event: u32) -> bool {
        wait_for_socket(self.end.as_raw_fd(), Interest::Read, timeout, event)
    }

    /// Waits for the thread to end and returns the result, or `None` if the thread has panicked.
    pub fn result(self) -> Option<T> {
        let result = self.thread.join();
        RUNNING.fetch_sub(1, Ordering::Relaxed);
        result.ok()
    }
}

/// Skips the exit handlers of the C library if a helper thread is still running when the process exits. Otherwise, the
/// exit handlers of OpenSSL would free memory that the thread is using. The thread would crash, and the postmaster
/// would then restart all backends.
///
/// PostgreSQL's own cleanup is not skipped, because `proc_exit()` runs this callback after it has released shared
/// memory. The postmaster regards this as a normal exit.
fn leave_at_once_if_running() {
    static IS_SET: AtomicBool = AtomicBool::new(false);
    #[pg_guard]
    unsafe extern "C-unwind" fn leave(code: i32, _argument: pg_sys::Datum) {
        if is_running() {
            // SAFETY: ends the process immediately, so no other code of the process runs.
            unsafe { libc::_exit(code) };
        }
    }
    if !IS_SET.swap(true, Ordering::Relaxed) {
        // SAFETY: the library with the callback stays loaded. PostgreSQL raises a FATAL error if the list of callbacks
        // is full.
        unsafe { pg_sys::on_proc_exit(Some(leave), pg_sys::Datum::from(0_usize)) };
    }
}

/// Runs an action with all signals blocked. Signals remain blocked in threads that the action starts.
fn without_signals<T>(action: impl FnOnce() -> T) -> T {
    // SAFETY: signal sets are plain integers, and sigfillset fills this one.
    let mut all: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: as above, except that pthread_sigmask stores the old mask in this one.
    let mut before: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: both sets are on the stack. Only the signal mask of this thread changes.
    unsafe {
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
    }
    let result = action();
    // SAFETY: `before` is the mask that this thread had.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut()) };
    result
}

/// Waits in a helper thread until a socket is ready or `timeout` has elapsed. Returns whether the socket is ready.
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
