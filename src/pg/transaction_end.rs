//! Callbacks at the end of a transaction.

use std::cell::Cell;
use std::ffi::c_void;

use pgrx::prelude::*;

use super::backend_local::BackendLocal;
use super::process;

/// The actions of the extension.
#[derive(Clone, Copy)]
pub struct Actions {
    /// Runs after a commit, a rollback or PREPARE TRANSACTION. At that time, other sessions already see that the
    /// transaction has ended or is prepared. Must not fail. Does not run in parallel workers.
    pub ended: fn(),
    /// Runs before the transaction is prepared, after its deferred triggers. May fail.
    pub before_prepare: fn(),
}

static ACTIONS: BackendLocal<Cell<Option<Actions>>> = BackendLocal::new(Cell::new(None));

/// Registers the actions for all processes that the postmaster starts. Called by the postmaster while it loads the
/// library.
pub fn register(actions: Actions) {
    ACTIONS.set(Some(actions));
    // SAFETY: the callback has the right signature and exists as long as the process. The list is inherited by all
    // processes, because this function runs in the postmaster.
    unsafe { pg_sys::RegisterXactCallback(Some(on_event), std::ptr::null_mut()) };
}

/// This callback has no guard, because a guard would slow down the end of every transaction. Only [`before_prepare`],
/// which has a guard, calls functions that could fail.
unsafe extern "C-unwind" fn on_event(event: pg_sys::XactEvent::Type, _argument: *mut c_void) {
    use pg_sys::XactEvent::*;
    let Some(actions) = ACTIONS.get() else { return };
    // The leader of a parallel worker runs the actions. A worker also commits a transaction of its own while it
    // connects to the database.
    if process::is_parallel_worker() {
        return;
    }
    match event {
        // PostgreSQL calls the callbacks for these events after other sessions can see that the transaction has ended
        // or is prepared.
        XACT_EVENT_COMMIT | XACT_EVENT_ABORT | XACT_EVENT_PREPARE => (actions.ended)(),
        XACT_EVENT_PRE_PREPARE => {
            // SAFETY: PostgreSQL calls this callback, so a guarded function may be called here.
            unsafe { before_prepare() }
        }
        _ => {}
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn before_prepare() {
    if let Some(actions) = ACTIONS.get() {
        (actions.before_prepare)();
    }
}
