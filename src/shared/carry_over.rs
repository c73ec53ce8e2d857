//! Preserves the server's history when shared memory is reinitialized.
//!
//! When a backend crashes, the postmaster reinitializes all shared memory, and the server continues. The
//! history must survive: it contains the time up to which IDs may have been issued and the clock that was
//! accepted. Therefore, the postmaster copies the history into a variable of its own before the old memory is
//! removed, and copies it back after the new memory has been created. No other process reads the variable.
//!
//! The crashed process may have damaged the memory. Therefore, the history consists of plain numbers, so that no
//! value can crash the postmaster, and the postmaster reads each number only once. In the worst case, no IDs
//! are issued until an administrator intervenes.

use std::cell::RefCell;

use pgrx::pg_sys;

use super::history::HistoryWords;
use super::memory::STATE;
use crate::pg::backend_local::BackendLocal;
use crate::pg::clock;

/// The postmaster's copy. At server start, it contains only the offset of the current clock, which is
/// accepted without a check. After a crash of a backend, it contains the history from before the crash.
static COPY: BackendLocal<RefCell<HistoryWords>> = BackendLocal::new(RefCell::new(HistoryWords::nothing()));
static PREVIOUS_HOOK: BackendLocal<RefCell<pg_sys::shmem_startup_hook_type>> =
    BackendLocal::new(RefCell::new(None));

/// Installs the hook that copies the history into new shared memory. The postmaster must request the shared
/// memory before it calls this function.
pub(super) fn request() {
    COPY.borrow().set_clock_offset(clock::offset());
    // SAFETY: called while the postmaster loads the library, on its only thread. Our hook calls the previous
    // hook.
    unsafe {
        PREVIOUS_HOOK.replace(pg_sys::shmem_startup_hook);
        pg_sys::shmem_startup_hook = Some(on_startup);
    }
}

/// Runs in the postmaster each time shared memory has been created.
#[pgrx::pg_guard]
unsafe extern "C-unwind" fn on_startup() {
    let previous = *PREVIOUS_HOOK.borrow();
    if let Some(previous) = previous {
        // SAFETY: `previous` is a function for this hook, and PostgreSQL is calling the hook now.
        unsafe { pg_sys::ffi::pg_guard_ffi_boundary(|| previous()) };
    }
    STATE.get().server_status.history.copy_from(&COPY.borrow());
    // SAFETY: the callback is registered after the memory was created, so it runs before the memory is
    // removed. Forked processes discard the callback.
    unsafe { pg_sys::on_shmem_exit(Some(on_exit), pg_sys::Datum::from(0)) };
}

/// Runs in the postmaster before shared memory is removed.
#[pgrx::pg_guard]
unsafe extern "C-unwind" fn on_exit(_code: i32, _argument: pg_sys::Datum) {
    COPY.borrow().copy_from(&STATE.get().server_status.history);
}
