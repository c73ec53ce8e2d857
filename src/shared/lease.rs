//! What the registry worker tells: the lease that the server holds, and how things are with the registry.
//! Written by the registry worker alone, under the exclusive lock.
//!
//! **The gate is never opened for a lease that was withdrawn.** The keeper opens it while it holds the shared lock,
//! and only if the news has still the number that it made its plan with. The registry worker first takes the lease
//! out of the news, under the exclusive lock, and then closes the gate.

use pgrx::prelude::*;
use pgrx::{PGRXSharedMemory, PgLwLock, pg_shmem_init};
use snowflake_id_core::Lease;

use super::bounded_text::BoundedText;
use super::memory::State;

/// How things are with the registry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RegistryState {
    /// Nothing was heard of it yet.
    #[default]
    Starting,
    /// It has answered, and granted what was asked for.
    Granted,
    /// It does not answer, or with an error.
    Unreachable,
    /// It answers that this server's role lacks a privilege.
    PermissionDenied,
    /// Its fleet was not started.
    NotStarted,
    /// It has no identity to give now.
    AllTaken,
    /// It gives no identity to anybody now, as commits of its own may have been lost.
    Quarantine,
    /// Its clock and that of this server differ too much.
    ClockDiffers,
    /// It is another registry than the one whose lease this server holds.
    Foreign,
    /// What this server asks for fits no layout, or is otherwise wrong.
    Misconfigured,
}

impl RegistryState {
    /// As view `snowflake_status` shows it.
    pub fn name(self) -> &'static str {
        match self {
            RegistryState::Starting => "starting",
            RegistryState::Granted => "granted",
            RegistryState::Unreachable => "unreachable",
            RegistryState::PermissionDenied => "permission denied",
            RegistryState::NotStarted => "not started",
            RegistryState::AllTaken => "all taken",
            RegistryState::Quarantine => "quarantine",
            RegistryState::ClockDiffers => "clock differs",
            RegistryState::Foreign => "another registry",
            RegistryState::Misconfigured => "misconfigured",
        }
    }
}

/// The news of the registry worker. Instants are microseconds of Unix time, 0 for none.
#[derive(Clone, Copy, Default)]
pub struct LeaseStatus {
    /// Counts the leases; the first has number 1. A renewal does not count.
    pub number: u64,
    /// The lease that the server holds, durably.
    pub lease: Option<Lease>,
    /// Whether that was granted before the registry worker was started.
    pub is_inherited: bool,
    pub state: RegistryState,
    /// When a lease was granted or renewed last.
    pub renewed_at_us: i64,
    /// The clock of this server less that of the registry, once it is known.
    pub clock_offset_us: Option<i64>,
    /// The clock of this server less the time since boot, when the registry last found that the clocks agree; `None` if
    /// it has found since that they do not, or has not answered.
    pub confirmed_clock_us: Option<i64>,
    /// When the first identity will be free, if all are taken.
    pub free_from_us: i64,
    problem: BoundedText,
    warning: BoundedText,
}

/// Whether the clock was set between two instants, by what it was less the time since boot.
fn is_another_clock(before_us: i64, now_us: i64) -> bool {
    const SLEWED_US: u64 = 1_000_000;
    before_us.abs_diff(now_us) > SLEWED_US
}

impl LeaseStatus {
    /// There is no registry any more.
    pub fn forget(&mut self) {
        *self = LeaseStatus { number: self.number, ..LeaseStatus::default() };
    }

    /// Whether the registry has confirmed the clock as it is: `offset_us` ahead of the time since boot.
    pub fn is_clock_confirmed(&self, offset_us: i64) -> bool {
        self.confirmed_clock_us.is_some_and(|confirmed_us| !is_another_clock(confirmed_us, offset_us))
    }

    /// Whether it has confirmed another one, as the clock was set since.
    pub fn is_clock_set_since(&self, offset_us: i64) -> bool {
        self.confirmed_clock_us.is_some_and(|confirmed_us| is_another_clock(confirmed_us, offset_us))
    }

    /// What is in the way, in a sentence for the log and the status.
    pub fn problem(&self) -> Option<String> {
        self.problem.text()
    }

    /// What should be mended before there are no more IDs.
    pub fn warning(&self) -> Option<String> {
        self.warning.text()
    }

    pub fn set_warning(&mut self, text: Option<&str>) {
        self.warning.set(text.unwrap_or_default());
    }

    pub fn set_problem(&mut self, text: Option<&str>) {
        self.problem.set(text.unwrap_or_default());
    }
}

// SAFETY: plain values without pointers; the LWLock around them orders all access.
unsafe impl PGRXSharedMemory for LeaseStatus {}

// SAFETY: as above.
static NEWS: PgLwLock<LeaseStatus> = unsafe { PgLwLock::new(c"snowflake_id lease") };

/// Asks for the shared memory.
pub(super) fn request() {
    pg_shmem_init!(NEWS);
}

/// The news as it is now.
pub fn lease_status() -> LeaseStatus {
    *NEWS.share()
}

/// Changes the news. A lease that is not the one before, or that one renewed, gets a number of its own.
pub fn tell(change: impl FnOnce(&mut LeaseStatus)) {
    let mut lease_status = NEWS.exclusive();
    let before = lease_status.lease;
    change(&mut lease_status);
    let is_continued = match (before, lease_status.lease) {
        (Some(before), Some(after)) => before.is_renewed_by(&after),
        (before, after) => before == after,
    };
    if !is_continued {
        lease_status.number += 1;
    }
}

impl State {
    /// Opens the gate for a lease, unless the news has changed since a plan was made with it.
    pub fn open_gate(&self, lease: &Lease, number: u64) {
        let lease_status = NEWS.share();
        if lease.is_for_good() || lease_status.number == number {
            self.gate.open(lease.identity);
        }
    }
}
