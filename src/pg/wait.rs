//! Waits with a wait event that is visible in `pg_stat_activity`.

use std::cell::Cell;
use std::ffi::CStr;
use std::time::Duration;

use pgrx::prelude::*;

use super::backend_local::BackendLocal;

/// A wait event of the extension, identified by its name.
pub struct WaitEventName {
    name: &'static CStr,
    /// The number of the wait event, or 0 if the number has not been needed yet.
    number: BackendLocal<Cell<u32>>,
}

impl WaitEventName {
    pub const fn new(name: &'static CStr) -> WaitEventName {
        WaitEventName { name, number: BackendLocal::new(Cell::new(0)) }
    }

    /// Returns the number that PostgreSQL has assigned to the event. The number is the same in every process.
    pub fn number(&self) -> u32 {
        if self.number.get() == 0 {
            self.number.set(number_of(self.name));
        }
        self.number.get()
    }
}

/// Before PostgreSQL 17, all extensions share the wait event `Extension`.
#[cfg(any(feature = "pg15", feature = "pg16"))]
fn number_of(_name: &CStr) -> u32 {
    pg_sys::PG_WAIT_EXTENSION
}

#[cfg(not(any(feature = "pg15", feature = "pg16")))]
fn number_of(name: &CStr) -> u32 {
    // SAFETY: the name is a C string, and PostgreSQL copies it.
    unsafe { pg_sys::WaitEventExtensionNew(name.as_ptr()) }
}

/// The socket condition that a process waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    Read,
    Write,
}

/// Sleeps until the latch of this process is set or `timeout` has passed. `pg_stat_activity` shows the wait event
/// during the sleep. Raises an error if the statement has been canceled.
///
/// The resolution of a latch is one millisecond. For a shorter timeout, the function sleeps without the latch, and the
/// process handles cancel requests after the sleep.
pub fn wait(timeout: Duration, event: u32) {
    wait_uninterrupted(timeout, event);
    pgrx::check_for_interrupts!();
}

/// Works like [`wait`], but ignores cancel requests.
pub fn wait_uninterrupted(timeout: Duration, event: u32) {
    const MILLISECOND: Duration = Duration::from_millis(1);
    if timeout < MILLISECOND {
        // SAFETY: `my_wait_event_info` points to a word of this process in shared memory. In a process without shared
        // memory, the pointer refers to a local variable. PostgreSQL itself also sets the word by a volatile write.
        // Other processes only read the word.
        unsafe { pg_sys::my_wait_event_info.write_volatile(event) };
        std::thread::sleep(timeout);
        // SAFETY: as above.
        unsafe { pg_sys::my_wait_event_info.write_volatile(0) };
    } else {
        let events = pg_sys::WL_LATCH_SET | pg_sys::WL_TIMEOUT | pg_sys::WL_EXIT_ON_PM_DEATH;
        // SAFETY: MyLatch is this process's own latch, and is valid until the process ends.
        unsafe {
            pg_sys::WaitLatch(pg_sys::MyLatch, events as i32, timeout.as_millis() as std::ffi::c_long, event);
            pg_sys::ResetLatch(pg_sys::MyLatch);
        }
    }
}

/// Sleeps until the latch of this process is set, the socket is ready, or `timeout` has passed. Returns whether the
/// socket is ready.
pub fn wait_for_socket(socket: i32, interest: Interest, timeout: Duration, event: u32) -> bool {
    let ready = match interest {
        Interest::Read => pg_sys::WL_SOCKET_READABLE,
        Interest::Write => pg_sys::WL_SOCKET_WRITEABLE,
    };
    let events = ready | pg_sys::WL_LATCH_SET | pg_sys::WL_TIMEOUT | pg_sys::WL_EXIT_ON_PM_DEATH;
    // SAFETY: MyLatch is this process's own latch, and is valid until the process ends. The socket is open.
    let happened = unsafe {
        let happened = pg_sys::WaitLatchOrSocket(
            pg_sys::MyLatch,
            events as i32,
            socket,
            timeout.as_millis().max(1) as std::ffi::c_long,
            event,
        );
        pg_sys::ResetLatch(pg_sys::MyLatch);
        happened
    };
    // Another process may be waiting for this process to handle an interrupt, for example in `DROP DATABASE`.
    pgrx::check_for_interrupts!();
    happened as u32 & ready != 0
}
