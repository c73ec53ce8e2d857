//! The lease status: the server's lease and the state of the registry. Only the registry worker changes the
//! lease status, while it holds the exclusive lock.
//!
//! **The gate is never opened for a lease that was withdrawn.** The keeper opens the gate under the shared
//! lock, and only if the number of the lease status has not changed since the keeper made its plan. To
//! withdraw a lease, the registry worker removes the lease from the lease status under the exclusive lock,
//! and then closes the gate.

use pgrx::{PGRXSharedMemory, PgLwLock, pg_shmem_init};
use snowflake_id_core::Lease;
use snowflake_id_core::clocks::ClockOffset;
use snowflake_id_core::protocol::Mismatch;
use uuid::Uuid;

use super::bounded_text::BoundedText;
use super::memory::State;

/// The state of the registry, as seen by this server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RegistryState {
    /// The registry has not answered yet.
    #[default]
    Starting,
    /// The registry granted the last request.
    Granted,
    /// The registry does not answer, or answers with an error.
    Unreachable,
    /// The registry's server has no database with the configured name.
    NoDatabase,
    /// The registry's server does not let this server log in.
    LoginRefused,
    /// The database contains no registry, or an old version that lacks a function.
    NoRegistry,
    /// The role of this server lacks a privilege in the registry, or may not connect to the database.
    PermissionDenied,
    /// The registry has not been started.
    NotStarted,
    /// No identity is free at present.
    AllTaken,
    /// The registry grants no new identity at present, because it may have lost commits.
    Quarantine,
    /// The clocks of the registry and of this server differ too much.
    ClockDiffers,
    /// This server holds a lease of a different registry.
    Foreign,
    /// The registry or this server is too old for the other, or a newer version has written the lease file.
    Mismatch(Mismatch),
    /// The request of this server does not fit in any layout, or is invalid for another reason.
    Misconfigured,
}

impl RegistryState {
    /// Returns the name of the state in view `snowflake_status`.
    pub fn name(self) -> &'static str {
        match self {
            RegistryState::Starting => "starting",
            RegistryState::Granted => "granted",
            RegistryState::Unreachable => "unreachable",
            RegistryState::NoDatabase => "no such database",
            RegistryState::LoginRefused => "login refused",
            RegistryState::NoRegistry => "no registry",
            RegistryState::PermissionDenied => "permission denied",
            RegistryState::NotStarted => "not started",
            RegistryState::AllTaken => "all taken",
            RegistryState::Quarantine => "quarantine",
            RegistryState::ClockDiffers => "clock differs",
            RegistryState::Foreign => "another registry",
            RegistryState::Mismatch(mismatch) => mismatch.state(),
            RegistryState::Misconfigured => "misconfigured",
        }
    }
}

/// The lease status. Times are in microseconds of Unix time, and 0 means that a time is not known.
#[derive(Clone, Copy, Default)]
pub struct LeaseStatus {
    /// The number of lease changes. Renewals are not counted.
    pub number: u64,
    /// The lease that the server holds. The lease is stored durably.
    pub lease: Option<Lease>,
    /// The ID of the registry that granted the lease.
    pub registry_id: Option<Uuid>,
    /// True if the lease was granted before the registry worker was started.
    pub is_inherited: bool,
    pub state: RegistryState,
    /// The time at which a lease was last granted or renewed.
    pub renewed_at_us: i64,
    /// The clock of this server minus the clock of the registry, if known.
    pub clock_offset_us: Option<i64>,
    /// This server's clock when the registry last confirmed it. The value is `None` if the registry has since
    /// rejected the clock or failed to answer.
    pub confirmed_clock: Option<ClockOffset>,
    /// The time at which the next identity becomes free, if all identities are leased.
    pub free_from_us: i64,
    problem: BoundedText,
    warning: BoundedText,
}

impl LeaseStatus {
    /// Resets the status after the registry has been removed from the settings.
    pub fn forget(&mut self) {
        *self = LeaseStatus { number: self.number, ..LeaseStatus::default() };
    }

    /// Returns whether the registry has confirmed the current clock.
    pub fn is_clock_confirmed(&self, now: ClockOffset) -> bool {
        self.confirmed_clock.is_some_and(|confirmed| !now.is_set_since(confirmed))
    }

    /// Returns whether the clock was set after the registry had confirmed the clock.
    pub fn is_clock_set_since(&self, now: ClockOffset) -> bool {
        self.confirmed_clock.is_some_and(|confirmed| now.is_set_since(confirmed))
    }

    /// Returns the current problem as a sentence for the log and the view.
    pub fn problem(&self) -> Option<String> {
        self.problem.text()
    }

    /// Returns a warning about a condition that may later prevent the server from issuing IDs.
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

// SAFETY: the type contains plain values without pointers, and the LWLock orders all accesses to them.
unsafe impl PGRXSharedMemory for LeaseStatus {}

// SAFETY: as above.
static LEASE_STATUS: PgLwLock<LeaseStatus> = unsafe { PgLwLock::new(c"snowflake_id lease") };

/// Requests the shared memory.
pub(super) fn request() {
    pg_shmem_init!(LEASE_STATUS);
}

/// Returns a copy of the lease status.
pub fn lease_status() -> LeaseStatus {
    *LEASE_STATUS.share()
}

/// Changes the lease status. Increments its number if the lease was changed but not merely renewed.
pub fn tell(change: impl FnOnce(&mut LeaseStatus)) {
    let mut lease_status = LEASE_STATUS.exclusive();
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
    /// Opens the gate for a lease, unless the lease has changed since the keeper made its plan. `number` is
    /// the number of the lease status in the plan.
    pub fn open_gate(&self, lease: &Lease, number: u64) {
        let lease_status = LEASE_STATUS.share();
        if lease.is_for_good() || lease_status.number == number {
            self.gate.open(lease.identity);
        }
    }
}
