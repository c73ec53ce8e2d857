//! A helper thread, for what may block or compute for as long as it likes. The process waits for it as for everything
//! else: by its latch.
//!
//! The thread may call no function of PostgreSQL's server, and handles no signal: its handlers run in the process's own
//! thread alone. A thread cannot be ended from outside. Where one does not let go, its process has to end.

use std::io::{self, PipeReader};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use pgrx::prelude::*;

use super::wait::{Interest, wait_for_socket};

/// How many threads may still run. Changed by the process's own thread alone.
static RUNNING: AtomicUsize = AtomicUsize::new(0);

/// Whether a thread may still run. What is not safe beside one has to wait then: changing the environment, for example.
pub fn is_running() -> bool {
    RUNNING.load(Ordering::Relaxed) > 0
}

/// A thread. If it is dropped before the result was taken, it is left behind, and the process has to end.
pub struct Helper<T> {
    thread: JoinHandle<T>,
    /// Comes to its end when the work does.
    end: PipeReader,
}

impl<T: Send + 'static> Helper<T> {
    /// Begins with some work.
    pub fn start(work: impl FnOnce() -> T + Send + 'static) -> io::Result<Helper<T>> {
        leave_at_once_if_running();
        let (end, open) = io::pipe()?;
        let work = move || {
            // A panic closes it as well.
            let _open = open;
            work()
        };
        let thread = without_signals(|| thread::Builder::new().spawn(work))?;
        RUNNING.fetch_add(1, Ordering::Relaxed);
        Ok(Helper { thread, end })
    }

    /// Waits until the work is done, the latch of this process is set, or the time is over. Returns whether it is done.
    pub fn wait(&self, timeout: Duration, event: u32) -> bool {
        wait_for_socket(self.end.as_raw_fd(), Interest::Read, timeout, event)
    }

    /// The result of work that is done; `None` if it has panicked.
    pub fn result(self) -> Option<T> {
        let result = self.thread.join();
        RUNNING.fetch_sub(1, Ordering::Relaxed);
        result.ok()
    }
}

/// Has the process, if it ends while a thread is running, leave without the exit handlers of the C library. Those of
/// OpenSSL would clear away what the thread is using: it would crash, and then the postmaster restarts all backends.
///
/// What PostgreSQL does when a process ends comes first: `proc_exit()` runs these functions when it is done with the
/// shared memory. To the postmaster that is an ordinary exit.
fn leave_at_once_if_running() {
    static IS_SET: AtomicBool = AtomicBool::new(false);
    #[pg_guard]
    unsafe extern "C-unwind" fn leave(code: i32, _argument: pg_sys::Datum) {
        if is_running() {
            // SAFETY: ends the process, and nothing else of it runs.
            unsafe { libc::_exit(code) };
        }
    }
    if !IS_SET.swap(true, Ordering::Relaxed) {
        // SAFETY: the list has room for the few callbacks of a backend; PostgreSQL raises FATAL if not.
        unsafe { pg_sys::on_proc_exit(Some(leave), pg_sys::Datum::from(0_usize)) };
    }
}

/// Does something with all signals blocked. A thread that is started meanwhile keeps them blocked.
fn without_signals<T>(action: impl FnOnce() -> T) -> T {
    // SAFETY: sets of signals are plain integers; sigfillset fills this one.
    let mut all: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    let mut before: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: two sets on the stack. The mask is that of this thread.
    unsafe {
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
    }
    let result = action();
    // SAFETY: puts back what it was.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut()) };
    result
}

/// For the thread: waits until a socket is ready, at most so long. Returns whether it is.
pub fn poll(socket: i32, interest: Interest, timeout: Duration) -> bool {
    let events = match interest {
        Interest::Read => libc::POLLIN,
        Interest::Write => libc::POLLOUT,
    };
    let mut socket = libc::pollfd { fd: socket, events, revents: 0 };
    let milliseconds = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX).max(1);
    // SAFETY: one place, which is on the stack.
    unsafe { libc::poll(&mut socket, 1, milliseconds) > 0 }
}
