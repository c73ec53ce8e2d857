//! The keeper's report: its current problem, and a warning for administrators. Only the keeper writes the
//! report, under the exclusive lock.

use pgrx::{PGRXSharedMemory, PgLwLock, pg_shmem_init};

use super::bounded_text::BoundedText;

/// The keeper's current problem and current warning.
#[derive(Clone, Copy, Default)]
pub struct Report {
    error: BoundedText,
    /// The time of the error, in microseconds of Unix time.
    pub error_at_us: i64,
    warning: BoundedText,
}

impl Report {
    /// Returns the problem that prevents the keeper from working, if there is one.
    pub fn error(&self) -> Option<String> {
        self.error.text()
    }

    /// Returns a warning about a problem that an administrator should fix although IDs can be issued.
    pub fn warning(&self) -> Option<String> {
        self.warning.text()
    }
}

// SAFETY: the type contains plain values without pointers, and the LWLock orders all accesses to them.
unsafe impl PGRXSharedMemory for Report {}

// SAFETY: as above.
static REPORT: PgLwLock<Report> = unsafe { PgLwLock::new(c"snowflake_id report") };

/// Requests the shared memory.
pub(super) fn request() {
    pg_shmem_init!(REPORT);
}

/// Returns a copy of the report.
pub fn report() -> Report {
    *REPORT.share()
}

/// Sets the keeper's error, with its time in microseconds of Unix time. `None` clears the error.
pub fn report_error(text: Option<&str>, at_us: i64) {
    let mut report = REPORT.exclusive();
    report.error.set(text.unwrap_or_default());
    report.error_at_us = at_us;
}

/// Sets the warning. `None` clears the warning.
pub fn report_warning(text: Option<&str>) {
    REPORT.exclusive().warning.set(text.unwrap_or_default());
}
