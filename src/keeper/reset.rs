//! Beginning anew: `snowflake_reset_horizon()` puts a server back to work whose horizon was burnt into the
//! far future, by a clock that was years ahead at its start.
//!
//! A server whose identity is leased does so by itself, if the registry confirms its clock.
//!
//! It begins at the present, and so may hand out times of which it has made IDs before. That repeats nothing
//! as long as it does so under an identity that it has never used. Those that were used stay shut out until
//! the horizon has come back to where it was. Layouts with a clock sequence begin with its value 0 again, as nobody is
//! left who makes the same numbers: all slots are given up.

use snowflake_id_core::Lease;
use snowflake_id_core::reset::{ResetRefusal, check_reset, records_before_reset};
use snowflake_id_core::track::Horizon;

use super::store::{Store, Stored};
use super::transaction::transaction;
use crate::background::stop::is_stopping;
use crate::background::transaction::Problem;
use crate::pg::clock;
use crate::shared::command_slot::Answer;
use crate::shared::keeper_words::Closed;
use crate::shared::memory::State;

/// Begins anew for the identity of a lease, at the later of the present and of the beginning of the lease, with a
/// horizon that lies `reach_us` ahead of that. `claim` takes on the order for it, if it was ordered, before the first
/// thing that cannot be undone. Returns the answer; `None` if the order was withdrawn.
///
/// What happens when the process dies, or the commit fails: identities are stored as shut out before the low horizon is.
/// As long as shared memory is there the floor is the high one, and nothing begins below it; it can be ordered again. Who
/// finds the floor anew takes what is stored: the high horizon, or the low one with the identities shut out.
pub fn reset(
    shared: &State,
    lease: &Lease,
    reach_us: i64,
    claim: impl FnOnce() -> bool,
) -> Result<Option<Answer>, Problem> {
    let server_status = &shared.server_status;
    if !shared.has_room_for_reset() {
        return Err(Problem(
            "no entries are left for the layouts in use, each of which needs a new entry for a reset: restart the server".into(),
        ));
    }
    let refusal = |stored: &Stored| {
        let history = server_status.history.snapshot();
        let check =
            check_reset(lease.identity, &stored.uses, &history, stored.is_elsewhere, clock::clock_us());
        check.err().map(|refusal| match refusal {
            ResetRefusal::InUse => Answer::IdentityInUse,
            ResetRefusal::Used => Answer::IdentityUsed,
            ResetRefusal::HistoryUnknown => Answer::HistoryUnknown,
        })
    };
    let begun = transaction(|| {
        let store = Store::lock_or_report()?;
        let stored = store.read(&server_status.history);
        if let Some(answer) = refusal(&stored) {
            return Ok(Err(Some(answer)));
        }
        // From here on nothing has to be waited for.
        if !claim() {
            return Ok(Err(None));
        }
        shared.shutdown_horizons();
        server_status.keeper.set_closed(Closed::Problem);
        let floor_us = clock::clock_us().max(lease.from_us);
        let horizon_us = floor_us.saturating_add(reach_us).min(lease.until_us).max(floor_us);
        let horizons = [Horizon::new(0, horizon_us), Horizon::NONE];
        let highest_us = server_status.history.snapshot().highest_us;
        let records = records_before_reset(&stored.uses, lease.identity, server_status.value(), highest_us);
        // What is written in place can be read, committed or not. It must not seem to be changed by somebody else.
        server_status.history.reset(horizons);
        store.write(&records, horizons.map(Some));
        Ok(Ok(floor_us))
    })?;
    let floor_us = match begun {
        Ok(_) if is_stopping() => return Ok(Some(Answer::Failed)),
        Ok(floor_us) => floor_us,
        Err(answer) => return Ok(answer),
    };
    let (clock_us, since_boot_us) = clock::clocks_us();
    server_status.history.set_clock_offset(clock_us - since_boot_us); // The clock is taken as it is, as at a start.
    shared.reset(floor_us);
    pgrx::log!("snowflake_id: the horizon was reset to the present, for {}", lease.identity);
    Ok(Some(Answer::Done))
}
