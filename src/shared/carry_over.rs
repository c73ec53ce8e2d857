//! What the server knows of its past outlives the shared memory.
//!
//! When a backend crashes, the postmaster makes all shared memory anew, and the server goes on. What it knew
//! must not be forgotten then: up to where IDs may have been made, and which clock was accepted. So the
//! postmaster copies it into a variable of its own before the old memory goes, and into the new memory when
//! that is there. No other process has to read the variable.
//!
//! The memory may have been damaged by whatever crashed. Each word is read once, and all are plain numbers:
//! at worst IDs are held up until an administrator has looked.

use std::cell::RefCell;

use pgrx::pg_sys;

use super::history::HistoryWords;
use super::memory::STATE;
use crate::pg::backend_local::BackendLocal;
use crate::pg::clock;

/// The postmaster's copy. At the start, nothing but the clock, which is taken as it is then and never again.
static COPY: BackendLocal<RefCell<HistoryWords>> = BackendLocal::new(RefCell::new(HistoryWords::nothing()));
static PREVIOUS_HOOK: BackendLocal<RefCell<pg_sys::shmem_startup_hook_type>> =
    BackendLocal::new(RefCell::new(None));

/// Has the past carried over. Called by the postmaster after it asked for the shared memory.
pub(super) fn request() {
    let (clock_us, since_boot_us) = clock::clocks_us();
    COPY.borrow().set_clock_offset(clock_us - since_boot_us);
    // SAFETY: called while the postmaster loads the library, on its only thread. The hook that was there is
    // called by ours.
    unsafe {
        PREVIOUS_HOOK.replace(pg_sys::shmem_startup_hook);
        pg_sys::shmem_startup_hook = Some(on_startup);
    }
}

/// Runs in the postmaster whenever shared memory has been made.
#[pgrx::pg_guard]
unsafe extern "C-unwind" fn on_startup() {
    let previous = *PREVIOUS_HOOK.borrow();
    if let Some(previous) = previous {
        // SAFETY: a hook of this kind, called when such a hook is to be called.
        unsafe { pg_sys::ffi::pg_guard_ffi_boundary(|| previous()) };
    }
    STATE.get().server_status.history.copy_from(&COPY.borrow());
    // SAFETY: runs before the memory goes, as it was registered after the memory was made. Forked processes
    // forget it.
    unsafe { pg_sys::on_shmem_exit(Some(on_exit), pg_sys::Datum::from(0)) };
}

/// Runs in the postmaster before shared memory goes.
#[pgrx::pg_guard]
unsafe extern "C-unwind" fn on_exit(_code: i32, _argument: pg_sys::Datum) {
    COPY.borrow().copy_from(&STATE.get().server_status.history);
}
