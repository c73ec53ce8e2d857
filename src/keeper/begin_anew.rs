//! Beginning anew: `snowflake_reset_horizon()` puts a server back to work whose horizon was burnt into the
//! far future, by a clock that was years ahead at its start.
//!
//! It begins at the present, and so may hand out times of which it has made IDs before. That repeats nothing
//! as long as it does so under an identity that it has never used. Those that were used stay shut out until
//! the horizon has come back to where it was.

use snowflake_id_core::Identity;
use snowflake_id_core::keeper_plan::{ResetRefusal, check_reset, records_before_reset};

use super::store::Store;
use super::transaction::{Problem, is_stopping, transaction};
use crate::pg::clock;
use crate::shared::board::Closed;
use crate::shared::memory::State;
use crate::shared::order_desk::{Answer, Ticket};

/// Begins anew for an identity as it was ordered, with a horizon that lies `reach_us` ahead of the clock.
/// Returns the answer; `None` if the order was withdrawn.
///
/// What happens when the process dies: after the first commit, identities are shut out up to where the stored
/// horizon is anyway. After the second, a keeper that comes next while the server runs writes the high
/// horizon again; one after a restart finds the low one, with the identities shut out.
pub fn begin_anew(
    shared: &State,
    ticket: Ticket,
    identity: Identity,
    reach_us: i64,
) -> Result<Option<Answer>, Problem> {
    let board = &shared.board;
    let refusal = |store: &Store| {
        // Also what was stored before this server was started, which the keeper may not have seen yet.
        board.past.note_high(store.uses().latest_us().max(store.horizon_us().unwrap_or(0)));
        let past = board.past.snapshot();
        let is_elsewhere = board.past.place().is_some_and(|place| place != store.place());
        let check = check_reset(identity, &store.uses(), &past, is_elsewhere, clock::clock_us());
        check.err().map(|refusal| match refusal {
            ResetRefusal::InUse => Answer::IdentityInUse,
            ResetRefusal::Used => Answer::IdentityUsed,
            ResetRefusal::PastUnknown { .. } => Answer::PastUnknown,
        })
    };
    // First without a hindrance to those who make IDs.
    if let Some(answer) = transaction(|| Ok(refusal(&Store::lock_or_report()?)))? {
        return Ok(Some(answer));
    }
    if !board.orders.claim(ticket) {
        return Ok(None);
    }
    shared.seal();
    board.keeper.set_closed(Closed::Problem);
    let answer = transaction(|| {
        let store = Store::lock_or_report()?;
        let refusal = refusal(&store);
        if refusal.is_none() {
            let end_us = store.horizon_us().unwrap_or(0).max(board.past.snapshot().highest_us);
            store.write(&records_before_reset(&store.uses(), end_us), None);
        }
        Ok(refusal)
    })?;
    if answer.is_some() || is_stopping() {
        return Ok(Some(answer.unwrap_or(Answer::Failed)));
    }
    let now_us = clock::clock_us();
    let horizon_us = now_us.saturating_add(reach_us);
    transaction(|| {
        Store::lock_or_report()?.write(&[], Some(horizon_us));
        Ok(())
    })?;
    if is_stopping() {
        return Ok(Some(Answer::Failed));
    }
    let (clock_us, since_boot_us) = clock::clocks_us();
    board.past.set_clock_offset(clock_us - since_boot_us); // The clock is taken as it is, as at a start.
    shared.begin_anew(now_us, horizon_us);
    pgrx::log!("snowflake_id: the horizon was reset to the present, for {identity}");
    Ok(Some(Answer::Done))
}
