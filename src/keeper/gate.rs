//! What the keeper does to the gate: opens it, closes it, and seals what was handed out.

use pgrx::log;
use snowflake_id_core::Lease;
use snowflake_id_core::keeper_plan::{GatePlan, Plan, records_at_shutdown};
use snowflake_id_core::track::TRACKS;

use super::store::Store;
use super::transaction::transaction;
use crate::background::transaction::Problem;
use crate::config;
use crate::pg::process;
use crate::shared::keeper_words::Closed;
use crate::shared::memory::State;

/// Does what the plan says. `number` is that of the news of the registry worker.
///
/// Never lets slots be used beyond the lease for which the gate is open: before another one's range is taken over,
/// the gate is closed.
pub fn apply(shared: &State, plan: &Plan, wanted: Option<Lease>, number: u64) {
    match plan.gate {
        GatePlan::Stay => {
            if let Some(lease) = wanted {
                shared.set_lease(&lease); // It may have been renewed.
            }
        }
        GatePlan::Reset(_) => {}
        GatePlan::Open { lease, is_another } => {
            let floors_us = plan.tracks.map(|track| track.from_us);
            if is_another || floors_us != [0; TRACKS] {
                shared.fence(floors_us, is_another);
            }
            shared.set_lease(&lease);
            shared.server_status.history.set_last_identity(lease.identity);
            shared.open_gate(&lease, number);
        }
        GatePlan::Close | GatePlan::Refuse { .. } => {
            if shared.gate.identity().is_some() {
                shared.close_gate();
            }
            let is_leased = config::registry().is_some();
            shared.server_status.keeper.set_closed(if is_leased {
                Closed::NoLease
            } else {
                Closed::NoWorkerId
            });
        }
    }
}

/// Raises every slot to a floor that an administrator wants, and opens the gate again if it was open.
pub fn advance(shared: &State, floor_us: i64, number: u64) {
    let open_for = shared.gate.identity().map(|identity| shared.server_status.keeper.lease_of(identity));
    shared.fence([floor_us; TRACKS], false);
    if let Some(lease) = open_for {
        shared.open_gate(&lease, number);
    }
}

/// Fences, and stores the exact end of what was handed out, so that whoever comes next need not wait for
/// the clock. If the keeper has committed no horizon, what is stored is not its own to lower: it fences only.
///
/// That lowers what is stored, which is safe, as everything handed out lies before the end, and nothing
/// comes after it. For the same reason it need not reach a standby: what that has is higher.
///
/// What is stored is locked first: who has to wait for that goes on with what is published.
pub fn store_shutdown_horizon(shared: &State, has_committed: &mut bool) -> Result<(), Problem> {
    if !*has_committed {
        shared.shutdown_horizons();
        return Ok(());
    }
    let history = &shared.server_status.history;
    let ends = transaction(|| {
        process::commit_locally();
        let store = Store::lock_or_report()?;
        let stored = store.read(history);
        let ends = shared.shutdown_horizons();
        let records = records_at_shutdown(&stored.uses, &shared.tracks(stored.horizons), &history.snapshot());
        let changed = [0, 1].map(|track| Some(ends[track]).filter(|end| *end != stored.horizons[track]));
        store.write(&records, changed);
        Ok(ends)
    })?;
    *has_committed = false;
    // Nothing beyond them was promised to anybody.
    ends.into_iter().enumerate().for_each(|(track, end)| history.lower_promise(track, end));
    Ok(())
}

/// Seals as the server is stopped.
pub fn stop(shared: &State, mut has_committed: bool) {
    shared.server_status.keeper.set_closed(Closed::Starting);
    if shared.gate.identity().is_none() {
        return;
    }
    process::forget_interrupt();
    if let Err(Problem(text)) = store_shutdown_horizon(shared, &mut has_committed) {
        shared.shutdown_horizons();
        log!("snowflake_id: could not store the end of the issued IDs: {text}");
    }
}
