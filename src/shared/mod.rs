//! The state in shared memory: the gate, the slots, and the board on which processes tell each other things.
//!
//! Who writes what:
//!
//! * `gate` (one word): opened and closed by the keeper alone; read by every attempt.
//! * the slots and the directory of them: see [`slots`].
//! * the board: see [`board`]; one type for each writer.
//! * the statistics: added to by whoever has something to add; nothing depends on them.
//! * the report (what is in the keeper's way): written by the keeper under the exclusive lock.
//!
//! The orderings of the atomics, and why they suffice, are explained in [`snowflake_id_core::slot`].
//!
//! After a crash of a backend the postmaster makes all of it anew. What the server knows of its past is carried over (see
//! [`past`]); what has to outlive the server itself is stored (see [`crate::keeper`]).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use pgrx::prelude::*;
use pgrx::{PGRXSharedMemory, PgAtomic, PgLwLock, pg_shmem_init};
use snowflake_id_core::Gate;

use crate::error::Error;

pub mod board;
pub mod order_desk;
mod past;
pub mod slots;

use board::Board;
use slots::{Directory, Places};

/// The atomics.
#[derive(Default)]
#[repr(C)]
pub struct State {
    /// On cache lines of its own: it is read by every call and hardly ever written.
    pub gate: Padded<Gate>,
    pub board: Padded<Board>,
    pub statistics: Padded<Statistics>,
    places: Places,
}

/// Keeps a value off the cache lines of its neighbours; 128 bytes, as processors fetch lines in pairs.
#[derive(Default)]
#[repr(C, align(128))]
pub struct Padded<T>(T);

impl<T> std::ops::Deref for Padded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// What happened since the shared memory was made. Relaxed throughout: these are for people to read.
#[derive(Default)]
pub struct Statistics {
    pub calls_waited: AtomicU64,
    pub waited_us: AtomicU64,
    /// Seen by the keeper, as are the largest.
    pub clock_steps_back: AtomicU64,
    pub largest_step_back_us: AtomicU64,
}

/// What is in the keeper's way, and what an administrator should mend.
#[derive(Clone, Copy, Default)]
pub struct Report {
    error: Line,
    /// When it happened, in microseconds of Unix time.
    pub error_at_us: i64,
    warning: Line,
}

/// A text of bounded length.
#[derive(Clone, Copy)]
struct Line {
    bytes: [u8; Line::CAPACITY],
    length: usize,
}

impl Line {
    const CAPACITY: usize = 512;

    fn set(&mut self, text: &str) {
        self.length = text.floor_char_boundary(Line::CAPACITY);
        self.bytes[..self.length].copy_from_slice(&text.as_bytes()[..self.length]);
    }

    fn text(&self) -> Option<String> {
        (self.length > 0).then(|| String::from_utf8_lossy(&self.bytes[..self.length]).into_owned())
    }
}

impl Default for Line {
    fn default() -> Line {
        Line { bytes: [0; Line::CAPACITY], length: 0 }
    }
}

impl Report {
    /// What keeps the keeper from its work.
    pub fn error(&self) -> Option<String> {
        self.error.text()
    }

    /// What should be mended although IDs can be made.
    pub fn warning(&self) -> Option<String> {
        self.warning.text()
    }
}

// SAFETY: atomics alone; the one pointer is to shared memory, which lies at the same address in every process.
unsafe impl PGRXSharedMemory for State {}
// SAFETY: plain values without pointers; the LWLock around them orders all access.
unsafe impl PGRXSharedMemory for Report {}

// SAFETY: the names are those of this extension alone.
static STATE: PgAtomic<State> = unsafe { PgAtomic::new(c"snowflake_id state") };
// SAFETY: as above.
static DIRECTORY: PgLwLock<Directory> = unsafe { PgLwLock::new(c"snowflake_id directory") };
// SAFETY: as above.
static REPORT: PgLwLock<Report> = unsafe { PgLwLock::new(c"snowflake_id report") };

/// Whether the postmaster loaded the library, so that there is shared memory.
static IS_PRELOADED: AtomicBool = AtomicBool::new(false);

/// Asks for the shared memory. Called by the postmaster while it loads the library.
pub fn request() {
    IS_PRELOADED.store(true, Ordering::Relaxed);
    pg_shmem_init!(STATE);
    pg_shmem_init!(DIRECTORY);
    pg_shmem_init!(REPORT);
    past::carry_over();
}

/// The shared state, if there is any.
pub fn state() -> Result<&'static State, Error> {
    match IS_PRELOADED.load(Ordering::Relaxed) {
        true => Ok(STATE.get()),
        false => Err(Error::NotPreloaded),
    }
}

/// What is in the keeper's way.
pub fn report() -> Report {
    *REPORT.share()
}

/// Notes an error of the keeper; `None` when all is well again.
pub fn report_error(text: Option<&str>, at_us: i64) {
    let mut report = REPORT.exclusive();
    report.error.set(text.unwrap_or_default());
    report.error_at_us = at_us;
}

/// Notes what should be mended; `None` if there is nothing.
pub fn report_warning(text: Option<&str>) {
    REPORT.exclusive().warning.set(text.unwrap_or_default());
}
