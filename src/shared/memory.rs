//! The state itself.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crossbeam_utils::CachePadded;
use pgrx::prelude::*;
use pgrx::{PGRXSharedMemory, PgAtomic, PgLwLock, pg_shmem_init};
use snowflake_id_core::Gate;

use super::server_status::ServerStatus;
use super::slot_table::{Directory, SlotTable};
use crate::error::Error;

/// The atomics.
#[derive(Default)]
#[repr(C)]
pub struct State {
    /// On cache lines of its own: it is read by every call and hardly ever written.
    pub gate: CachePadded<Gate>,
    pub server_status: CachePadded<ServerStatus>,
    pub statistics: CachePadded<Statistics>,
    pub(super) slot_table: SlotTable,
}

// pgrx refuses to start where it needs more than PostgreSQL gives.
const _: () = assert!(align_of::<State>() <= pg_sys::PG_CACHE_LINE_SIZE as usize);

/// What happened since the shared memory was made. Relaxed throughout: these are for people to read.
#[derive(Default)]
pub struct Statistics {
    pub calls_waited: AtomicU64,
    pub waited_us: AtomicU64,
    /// Seen by the keeper, as are the largest.
    pub clock_steps_back: AtomicU64,
    pub largest_step_back_us: AtomicU64,
}

// SAFETY: atomics alone; the one pointer is to shared memory, which lies at the same address in every
// process.
unsafe impl PGRXSharedMemory for State {}

// SAFETY: the names are those of this extension alone.
pub(super) static STATE: PgAtomic<State> = unsafe { PgAtomic::new(c"snowflake_id state") };

// SAFETY: as above.
pub(super) static DIRECTORY: PgLwLock<Directory> = unsafe { PgLwLock::new(c"snowflake_id directory") };

/// Whether the postmaster loaded the library, so that there is shared memory.
static IS_PRELOADED: AtomicBool = AtomicBool::new(false);

/// Asks for the shared memory. Called by the postmaster while it loads the library.
pub(super) fn request() {
    IS_PRELOADED.store(true, Ordering::Relaxed);
    pg_shmem_init!(STATE);
    pg_shmem_init!(DIRECTORY);
}

/// The shared state, if there is any.
pub fn state() -> Result<&'static State, Error> {
    match IS_PRELOADED.load(Ordering::Relaxed) {
        true => Ok(STATE.get()),
        false => Err(Error::NotPreloaded),
    }
}
