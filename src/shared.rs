//! The state in shared memory: one gate for the server and one slot for each layout in use.
//!
//! Who writes what:
//!
//! * `gate` (one word): opened by the postmaster at the start if the settings give a worker ID; read by every attempt.
//! * `slots[i]` (counter and horizon): given to a layout under the exclusive lock, before its key is written. From then
//!   on the counter is moved by the exchanges of all backends, without a lock.
//! * the directory (which slot belongs to which layout): written under the exclusive lock, read under the shared one.
//!   Entries are only ever added, so that what a backend has found once it may keep: the hot path takes no lock.
//!
//! The orderings of the atomics, and why they suffice, are explained in [`snowflake_id_core::slot`].
//!
//! After a crash of a backend the postmaster makes all of it anew. Nothing here outlives the server.

use std::sync::atomic::{AtomicBool, Ordering};

use pgrx::prelude::*;
use pgrx::{PGRXSharedMemory, PgAtomic, PgLwLock, pg_shmem_init};
use snowflake_id_core::{Gate, Layout, Slot, SlotKey};

use crate::config;
use crate::error::Error;

/// How many layouts can be in use at a time.
pub const MAX_SLOTS: usize = 16;
/// A horizon beyond every tick: until horizons are kept durably, nothing limits a slot but its layout's end.
const UNLIMITED: u64 = u64::MAX;

/// The atomics.
#[repr(C)]
pub struct State {
    /// On cache lines of its own: it is read by every call and hardly ever written.
    pub gate: Padded<Gate>,
    slots: [Slot; MAX_SLOTS],
}

/// Keeps a value off the cache lines of its neighbours; 128 bytes, as processors fetch lines in pairs.
#[repr(C, align(128))]
pub struct Padded<T>(T);

impl<T> std::ops::Deref for Padded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// Which slot belongs to which layout: the key of `slots[i]` is `keys[i]`.
#[derive(Clone, Copy, Default)]
struct Directory {
    keys: [Option<SlotKey>; MAX_SLOTS],
}

// SAFETY: atomics alone, without pointers; every process may use them at any time.
unsafe impl PGRXSharedMemory for State {}
// SAFETY: plain values without pointers; the LWLock around them orders all access.
unsafe impl PGRXSharedMemory for Directory {}

// SAFETY: the names are those of this extension alone.
static STATE: PgAtomic<State> = unsafe { PgAtomic::new(c"snowflake_id state") };
// SAFETY: as above.
static DIRECTORY: PgLwLock<Directory> = unsafe { PgLwLock::new(c"snowflake_id directory") };

/// Whether the postmaster loaded the library, so that there is shared memory.
static IS_PRELOADED: AtomicBool = AtomicBool::new(false);

/// Asks for the shared memory. Called by the postmaster while it loads the library, after the settings are defined.
pub fn request() {
    IS_PRELOADED.store(true, Ordering::Relaxed);
    pg_shmem_init!(STATE = State::at_start());
    pg_shmem_init!(DIRECTORY);
}

impl State {
    /// Until a keeper proves that nobody else uses the worker ID, the settings alone open the gate.
    fn at_start() -> State {
        let gate = Gate::default();
        if let Some(identity) = config::identity() {
            gate.open(identity);
        }
        State { gate: Padded(gate), slots: std::array::from_fn(|_| Slot::new(0, UNLIMITED)) }
    }
}

/// The shared state, if there is any.
pub fn state() -> Result<&'static State, Error> {
    match IS_PRELOADED.load(Ordering::Relaxed) {
        true => Ok(STATE.get()),
        false => Err(Error::NotPreloaded),
    }
}

/// The slot of a layout, given to it now if it had none.
pub fn slot(layout: &Layout) -> Result<&'static Slot, Error> {
    let key = Some(SlotKey::of(layout));
    let find = |directory: &Directory| directory.keys.iter().position(|&found| found == key);
    if let Some(at) = find(&DIRECTORY.share()) {
        return Ok(&state()?.slots[at]);
    }
    let mut directory = DIRECTORY.exclusive();
    let at = match find(&directory) {
        Some(at) => at,
        None => {
            let free = directory.keys.iter().position(Option::is_none).ok_or(Error::TooManyLayouts)?;
            directory.keys[free] = key;
            free
        }
    };
    Ok(&state()?.slots[at])
}
