//! Opens and closes the gate, and stores the shutdown horizon.

use pgrx::log;
use snowflake_id_core::Lease;
use snowflake_id_core::keeper_plan::{GatePlan, Plan, records_at_shutdown};
use snowflake_id_core::left::Left;
use snowflake_id_core::track::TRACKS;

use super::store::Store;
use super::transaction::transaction;
use crate::background::transaction::Problem;
use crate::pg::process;
use crate::shared::keeper_words::Closed;
use crate::shared::memory::State;

/// Applies the plan to the gate. `number` is the number of the lease status on which the plan is based. `why` is the
/// reason to publish if the plan closes the gate.
///
/// No slot can be used beyond the end of the lease for which the gate is open, because the gate is closed before the
/// time range of another lease is set.
pub fn apply(shared: &State, plan: &Plan, wanted: Option<Lease>, number: u64, why: Closed) {
    match plan.gate {
        GatePlan::Stay => {
            if let Some(lease) = wanted {
                shared.set_lease(&lease); // The lease may have been renewed.
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
            shared.server_status.keeper.set_closed(why);
        }
    }
}

/// Raises every slot to a floor that an administrator requested. If the gate was open before, it is opened again.
pub fn raise_floor(shared: &State, floor_us: i64, number: u64) {
    let open_for = shared.gate.identity().map(|identity| shared.server_status.keeper.lease_of(identity));
    shared.fence([floor_us; TRACKS], false);
    if let Some(lease) = open_for {
        shared.open_gate(&lease, number);
    }
}

/// Fences the slots, and stores the exact high-water mark of the issued IDs as the horizon, so that the next start need
/// not wait for the clock. A keeper that has not committed a horizon only fences the slots, because it must not lower
/// the stored horizon.
///
/// Lowering the stored horizon is safe: every issued ID is before the high-water mark, and no ID is issued after the
/// fence. The commit need not wait for a standby, because a standby without this commit only has a higher horizon.
///
/// The stored state is locked before the slots are fenced, so that calls can still issue IDs up to the published
/// horizon while the keeper waits for the lock.
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
        store.write(&records, &Left::default(), changed);
        Ok(ends)
    })?;
    *has_committed = false;
    // The server has not issued IDs beyond these horizons, and will not do so.
    ends.into_iter().enumerate().for_each(|(track, end)| history.lower_promise(track, end));
    Ok(())
}

/// Stores the shutdown horizon when the server is stopped. If this keeper has committed horizons, stores the shutdown
/// horizon even if the gate is closed, because the view that contains the horizons may have been emptied since the last
/// cycle.
pub fn stop(shared: &State, mut has_committed: bool) {
    shared.server_status.keeper.set_closed(Closed::Starting);
    if shared.gate.identity().is_none() && !has_committed {
        return;
    }
    process::forget_interrupt();
    if let Err(Problem(text)) = store_shutdown_horizon(shared, &mut has_committed) {
        shared.shutdown_horizons();
        log!("snowflake_id: could not store the shutdown horizon: {text}");
    }
}
