//! Reset of the horizon. `snowflake_reset_horizon()` repairs a server whose horizon is in the far future
//! because the server was started while its clock was years ahead. A server with a leased identity resets its
//! horizon by itself if the registry confirms its clock.
//!
//! After a reset the server starts at the present, so it may use timestamps again for which it has issued IDs
//! before. No ID is repeated, because the new identity was never used on this server. The identities that
//! were used stay blocked until the horizon reaches its old value again. Layouts with a clock sequence start
//! again with value 0: the reset retires all slots, so nothing else can issue the same numbers.

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

/// Resets the horizon for the identity of a lease. The floor is the present or the start of the lease,
/// whichever is later; the horizon is `reach_us` microseconds ahead of the floor, but not beyond the end of
/// the lease. `claim` claims the administrator's request, if there is one, before the first irreversible
/// step. Returns the answer, or `None` if the request was withdrawn.
///
/// If the process dies, or the commit fails, no ID is repeated, because the used identities are stored as
/// blocked before the low horizon is stored. Until shared memory is reinitialized, the high floor stays in
/// effect, no ID below that floor can be issued, and the reset can be requested again. After shared memory is
/// reinitialized, the floor is the stored horizon: either the high one, or the low one with the used
/// identities blocked.
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
        // From here on the transaction waits for no lock, so the request can be claimed.
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
        // A row that was overwritten in place can be read before the commit. Note the new horizons first, so
        // that the keeper does not mistake this change for a change by another process.
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
    // Accept the current clock, as the keeper does at a start.
    server_status.history.set_clock_offset(clock_us - since_boot_us);
    shared.reset(floor_us);
    pgrx::log!("snowflake_id: the horizon was reset to the present, for {}", lease.identity);
    Ok(Some(Answer::Done))
}
