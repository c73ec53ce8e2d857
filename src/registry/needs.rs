//! The identities that this server can use.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use snowflake_id_core::lease_state::Needs;
use snowflake_id_core::{Field, Identity, Lease};

use crate::config;
use crate::shared::lease;
use crate::shared::memory::State;

/// The minimum time before a rejected worker ID is requested again.
const LEAST_TIME_UNWANTED: Duration = Duration::from_secs(60);
/// The maximum length of a list of rejected worker IDs that the registry accepts.
const MOST_UNWANTED: usize = 10_000;

/// The rejected worker IDs, with the times of rejection. Rejected worker IDs are forgotten after a while.
#[derive(Default)]
pub struct Unwanted {
    workers: Vec<(u32, Instant)>,
    /// The number of the last lease status that caused a rejection.
    noted_after: u64,
}

impl Unwanted {
    /// Rejects the worker ID of the published lease if the keeper has reported that the lease is unusable.
    /// The worker ID stays rejected for the length of a lease, but for at least [`LEAST_TIME_UNWANTED`].
    pub fn update(&mut self, shared: &State, lease_time: Duration) {
        let lease_status = lease::lease_status();
        let after = shared.server_status.keeper.another_needed_after.load(Ordering::Relaxed);
        let time = lease_time.max(LEAST_TIME_UNWANTED);
        self.workers.retain(|(_, since)| since.elapsed() < time);
        if let Some(Lease { identity, .. }) = lease_status.lease
            && after == lease_status.number
            && self.noted_after != lease_status.number
        {
            self.noted_after = lease_status.number;
            if self.workers.len() == MOST_UNWANTED {
                self.workers.remove(0);
            }
            self.workers.push((identity.worker, Instant::now()));
        }
    }

    /// Forgets a rejected worker ID, because another lease of this worker ID may be usable.
    pub fn forget(&mut self, worker: u32) {
        self.workers.retain(|(unwanted, _)| *unwanted != worker);
    }

    /// Returns the identities that this server can use, or the reason why no identity is usable.
    pub fn needs(&self) -> Result<Needs, String> {
        let datacenter = config::datacenter_id();
        let layout = config::valid_layout().ok_or("snowflake_id.layout is not valid")?;
        let worker_limit = 1u64 << layout.bits(Field::Worker);
        layout
            .check_identity(Identity { datacenter, worker: 0 })
            .map_err(|problem| layout.explain_misfit(&problem))?;
        Ok(Needs {
            datacenter,
            pin: None,
            // The cast does not truncate, because a worker ID has at most 31 bits.
            worker_limit: worker_limit as u32,
            unwanted: self.workers.iter().map(|(worker, _)| *worker).collect(),
        })
    }
}
