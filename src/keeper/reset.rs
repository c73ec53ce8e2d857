//! Reset of the horizon. A horizon is in the far future if the server was started with a clock that was years ahead.
//! The function `snowflake_reset_horizon()` repairs such a server. A server with a leased identity resets its horizon
//! automatically if the registry confirms its clock.
//!
//! After a reset, the server starts at the present, so it may reuse timestamps for which it has issued IDs. No ID is
//! repeated, because the new identity was never used on this server. The used identities stay blocked until the horizon
//! reaches its old value again. Layouts with a clock sequence start again with value 0. This is safe because the reset
//! retires all slots, so no old slot can issue the same IDs.

use snowflake_id_core::Lease;
use snowflake_id_core::left::Left;
use snowflake_id_core::reset::{ResetRefusal, begin_again, check_reset, records_before_reset};
use snowflake_id_core::track::Horizon;

use super::store::{Store, Stored};
use super::transaction::transaction;
use crate::background::stop::is_stopping;
use crate::background::transaction::Problem;
use crate::pg::clock;
use crate::shared::command_slot::Answer;
use crate::shared::keeper_words::Closed;
use crate::shared::memory::State;

/// Resets the horizon for the identity in a lease, as [`begin_again`] determines. The closure `claim` claims the
/// administrator's request, if any, before the first irreversible step. From that step until the reset succeeds,
/// `has_committed` is false. Returns the result of the reset, or `None` if the administrator has withdrawn the request.
///
/// If the process dies or the commit fails, no ID is repeated, because the used identities are stored as blocked before
/// the low horizon is stored. The high floor remains in effect until shared memory is reinitialized, and no ID below
/// the floor can be issued. The reset can be requested again. After shared memory is reinitialized, the floor is the
/// stored horizon: either the high one, or the low one with the used identities blocked.
pub fn reset(
    shared: &State,
    lease: &Lease,
    reach_us: i64,
    has_committed: &mut bool,
    claim: impl FnOnce() -> bool,
) -> Result<Option<Answer>, Problem> {
    let server_status = &shared.server_status;
    if !shared.has_room_for_reset() {
        return Err(Problem(
            "a reset needs a new entry for each layout in use, but no entries are left: restart the server"
                .into(),
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
        // The transaction waits for no more locks, so the keeper can claim the request now.
        if !claim() {
            return Ok(Err(None));
        }
        // From here on, the lower horizon may become durable even if the commit fails. After a restart, the server may
        // then start at this horizon.
        pgrx::log!("snowflake_id: resetting the horizon to the current time for {}", lease.identity);
        shared.shutdown_horizons();
        *has_committed = false;
        server_status.keeper.set_closed(Closed::Problem);
        let (floor_us, horizon) = begin_again(lease, clock::clock_us(), reach_us);
        let horizons = [horizon, Horizon::NONE];
        let highest_us = server_status.history.snapshot().highest_us;
        let records = records_before_reset(&stored.uses, lease.identity, server_status.value(), highest_us);
        // A row that was overwritten in place can be read before the commit. Record the new horizons first, so that the
        // keeper does not attribute this change to another process.
        server_status.history.reset(horizons, floor_us);
        store.write(&records, &Left::default(), horizons.map(Some));
        Ok(Ok(floor_us))
    })?;
    let floor_us = match begun {
        Ok(_) if is_stopping() => return Ok(Some(Answer::Failed)),
        Ok(floor_us) => floor_us,
        Err(answer) => return Ok(answer),
    };
    // Accept the current clock, as the keeper does when it starts.
    server_status.history.set_clock_offset(clock::offset());
    shared.reset(floor_us);
    *has_committed = true;
    pgrx::log!("snowflake_id: the horizon was reset to the current time for {}", lease.identity);
    Ok(Some(Answer::Done))
}
