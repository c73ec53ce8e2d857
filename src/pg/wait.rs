//! Waiting, visible in `pg_stat_activity`.

use std::time::Duration;

use pgrx::prelude::*;

use super::libpq::Interest;

#[cfg(not(any(feature = "pg15", feature = "pg16")))]
use super::backend_local::BackendLocal;

/// What a process waits for, as `pg_stat_activity` shows it.
#[derive(Clone, Copy)]
pub enum WaitEvent {
    /// The clock has to come far enough.
    Clock,
    /// The keeper has to open the gate or to extend the horizon.
    Horizon,
    /// The registry has to answer.
    Registry,
}

impl WaitEvent {
    /// Before version 17 an extension has but one wait event, `Extension`.
    #[cfg(any(feature = "pg15", feature = "pg16"))]
    pub fn number(self) -> u32 {
        pg_sys::PG_WAIT_EXTENSION
    }

    #[cfg(not(any(feature = "pg15", feature = "pg16")))]
    pub fn number(self) -> u32 {
        use std::cell::Cell;
        static NUMBERS: BackendLocal<[Cell<u32>; 3]> = BackendLocal::new([const { Cell::new(0) }; 3]);
        let known = &NUMBERS[self as usize];
        if known.get() == 0 {
            let name = match self {
                WaitEvent::Clock => c"SnowflakeClock",
                WaitEvent::Horizon => c"SnowflakeHorizon",
                WaitEvent::Registry => c"SnowflakeRegistry",
            };
            // SAFETY: the name is a C string; the same one gives the same number in every process.
            known.set(unsafe { pg_sys::WaitEventExtensionNew(name.as_ptr()) });
        }
        known.get()
    }
}

/// Sleeps until the latch of this process is set, at most `timeout`, and shows as waiting in
/// `pg_stat_activity`.
///
/// Below a millisecond, the resolution of a latch, it sleeps without one: a cancel that comes in is seen
/// right after.
pub fn wait(timeout: Duration, event: WaitEvent) {
    wait_uninterrupted(timeout, event);
    pgrx::check_for_interrupts!();
}

/// The same, but a cancelled statement stays to be noticed.
pub fn wait_uninterrupted(timeout: Duration, event: WaitEvent) {
    const MILLISECOND: Duration = Duration::from_millis(1);
    if timeout < MILLISECOND {
        // SAFETY: my_wait_event_info points to this process's own word, in shared memory or in its stand-in.
        // PostgreSQL sets it the same way, as a volatile word that others only read.
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

/// Sleeps until the latch of this process is set or a socket is ready, at most `timeout`. Returns whether the socket
/// is.
pub fn wait_for_socket(socket: i32, interest: Interest, timeout: Duration, event: WaitEvent) -> bool {
    let ready = match interest {
        Interest::Read => pg_sys::WL_SOCKET_READABLE,
        Interest::Write => pg_sys::WL_SOCKET_WRITEABLE,
    };
    let events = ready | pg_sys::WL_LATCH_SET | pg_sys::WL_TIMEOUT | pg_sys::WL_EXIT_ON_PM_DEATH;
    // SAFETY: MyLatch is this process's own latch and is valid for its life; the socket is open.
    let happened = unsafe {
        let happened = pg_sys::WaitLatchOrSocket(
            pg_sys::MyLatch,
            events as i32,
            socket,
            timeout.as_millis().max(1) as std::ffi::c_long,
            event.number(),
        );
        pg_sys::ResetLatch(pg_sys::MyLatch);
        happened
    };
    // Others wait until every process has done what they ask for: DROP DATABASE, for example.
    pgrx::check_for_interrupts!();
    happened as u32 & ready != 0
}
