//! The identities that this server can use.

use std::sync::atomic::Ordering;

use snowflake_id_core::lease_state::Needs;
use snowflake_id_core::unwanted::Unwanted;
use snowflake_id_core::{Field, Identity};

use crate::config;
use crate::shared::lease;
use crate::shared::memory::State;

/// Returns the worker ID of the published lease if the keeper has reported that the lease is unusable.
pub fn unusable_worker(shared: &State) -> Option<u32> {
    let lease_status = lease::lease_status();
    let after = shared.server_status.keeper.another_needed_after.load(Ordering::Relaxed);
    let lease = lease_status.lease.filter(|_| after == lease_status.number);
    lease.map(|lease| lease.identity.worker)
}

/// Returns which identities this server can use, or the reason why no identity is usable.
pub fn of_this_server(unwanted: &Unwanted) -> Result<Needs, String> {
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
        unwanted: unwanted.workers(),
    })
}
