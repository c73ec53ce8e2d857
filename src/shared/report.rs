//! What is in the keeper's way, and what an administrator should mend. Written by the keeper under the
//! exclusive lock.

use pgrx::prelude::*;
use pgrx::{PGRXSharedMemory, PgLwLock, pg_shmem_init};

use super::bounded_text::BoundedText;

/// What is in the keeper's way, and what an administrator should mend.
#[derive(Clone, Copy, Default)]
pub struct Report {
    error: BoundedText,
    /// When it happened, in microseconds of Unix time.
    pub error_at_us: i64,
    warning: BoundedText,
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

// SAFETY: plain values without pointers; the LWLock around them orders all access.
unsafe impl PGRXSharedMemory for Report {}

// SAFETY: as above.
static REPORT: PgLwLock<Report> = unsafe { PgLwLock::new(c"snowflake_id report") };

/// Asks for the shared memory.
pub(super) fn request() {
    pg_shmem_init!(REPORT);
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
