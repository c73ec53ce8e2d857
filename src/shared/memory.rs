//! The main structure in shared memory.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crossbeam_utils::CachePadded;
use pgrx::prelude::*;
use pgrx::{PGRXSharedMemory, PgAtomic, pg_shmem_init};
use snowflake_id_core::Gate;

use super::fair_lock::FairLock;
use super::server_status::ServerStatus;
use super::slot_table::{Directory, SlotTable};
use crate::error::Error;

/// The part of the shared state that consists of atomics and condition variables.
#[derive(Default)]
#[repr(C)]
pub struct State {
    /// The gate has its own cache lines, because every call reads the gate and writes are very rare.
    pub gate: CachePadded<Gate>,
    pub server_status: CachePadded<ServerStatus>,
    pub statistics: CachePadded<Statistics>,
    /// The first transaction whose marks cannot have been lost in a restart, or 0 if the keeper has not determined the
    /// floors yet.
    first_transaction: AtomicU64,
    pub(super) slot_table: SlotTable,
}

// pgrx refuses to start if the alignment is larger than that of PostgreSQL's shared memory.
const _: () = assert!(align_of::<State>() <= pg_sys::PG_CACHE_LINE_SIZE as usize);

/// Statistics since shared memory was created. All accesses are Relaxed, because no decision depends on these
/// numbers.
#[derive(Default)]
pub struct Statistics {
    pub calls_waited: AtomicU64,
    pub waited_us: AtomicU64,
    /// The keeper writes this counter and `largest_step_back_us`.
    pub clock_steps_back: AtomicU64,
    pub largest_step_back_us: AtomicU64,
}

// SAFETY: the type consists of atomics and condition variables. Its pointers refer to latches in shared memory, which
// has the same address in every process.
unsafe impl PGRXSharedMemory for State {}

// SAFETY: no other extension uses these names.
pub(super) static STATE: PgAtomic<State> = unsafe { PgAtomic::new(c"snowflake_id state") };

// SAFETY: as above.
pub(super) static DIRECTORY: FairLock<Directory> =
    unsafe { FairLock::new(c"snowflake_id directory", c"snowflake_id directory entrance") };

/// True if the postmaster loaded the library, so that shared memory exists.
static IS_PRELOADED: AtomicBool = AtomicBool::new(false);

/// Requests the shared memory. The postmaster calls this function while it loads the library.
pub(super) fn request() {
    IS_PRELOADED.store(true, Ordering::Relaxed);
    pg_shmem_init!(STATE);
    pg_shmem_init!(DIRECTORY);
}

impl State {
    /// Records the next transaction as the first one whose marks are known. Must be called before the first ID is
    /// issued. Older transactions may have been prepared before a restart, in which their marks were lost.
    pub(super) fn note_first_transaction(&self, next: u64) {
        let _ = self.first_transaction.compare_exchange(0, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Returns the first transaction whose marks cannot have been lost in a restart.
    pub(super) fn first_transaction(&self) -> u64 {
        self.first_transaction.load(Ordering::Relaxed)
    }
}

/// Returns the shared state.
/// # Errors
/// Returns [`Error::NotPreloaded`] if the library is not in `shared_preload_libraries`.
pub fn state() -> Result<&'static State, Error> {
    match IS_PRELOADED.load(Ordering::Relaxed) {
        true => Ok(STATE.get()),
        false => Err(Error::NotPreloaded),
    }
}
