//! Resets a server to the present, under an identity that the server has never used.
//!
//! All times are in microseconds of Unix time.

use crate::identity::Identity;
use crate::lease::Lease;
use crate::track::Horizon;
use crate::used::{History, Scope, Use, Uses};

/// The maximum time by which the high-water mark of an identity may exceed the latest time that an ID can
/// have at present: 10 seconds, in microseconds. An identity with a higher mark is refused. Otherwise, every
/// slot would be raised to the mark, and the next identity would also have to wait for that time.
pub const MOST_AHEAD_US: i64 = 10_000_000;

/// The reason why a reset is refused for an identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResetRefusal {
    /// The server is currently issuing IDs under the identity.
    InUse,
    /// The server has issued IDs under the identity.
    Used,
    /// The server does not know which identities were used.
    HistoryUnknown,
}

/// Returns an error if the server must not reset to `now_us` under an identity. A reset is refused if IDs may
/// already have been created under the identity.
///
/// # Errors
/// Returns the reason why the reset is refused.
pub fn check_reset(
    identity: Identity,
    uses: &Uses,
    history: &History,
    is_elsewhere: bool,
    now_us: i64,
) -> Result<(), ResetRefusal> {
    let is_used = uses.recorded(Some(identity), Scope::ZERO).is_some();
    if history.last_identity == Some(identity) {
        Err(ResetRefusal::InUse)
    } else if is_used && !is_history_lost(uses, history, is_elsewhere) {
        Err(ResetRefusal::Used)
    } else if is_history_unknown(uses, history, is_elsewhere, now_us) {
        Err(ResetRefusal::HistoryUnknown)
    } else {
        Ok(())
    }
}

/// Returns whether the list of used identities may be incomplete. An unknown history is ignored if it ends at
/// most 10 seconds after `now_us`, because the new identity can start after the end of the history.
pub(crate) fn is_history_unknown(uses: &Uses, history: &History, is_elsewhere: bool, now_us: i64) -> bool {
    let soon_us = now_us.saturating_add(MOST_AHEAD_US);
    is_history_lost(uses, history, is_elsewhere) || uses.recorded(None, Scope::ZERO) > Some(soon_us)
}

/// Returns whether records are missing, including the case that the server has a history but no records.
pub(crate) fn is_history_lost(uses: &Uses, history: &History, is_elsewhere: bool) -> bool {
    is_elsewhere || history.lacks_record(uses) || (uses.is_empty() && history.highest_us > 0)
}

/// Returns the floor and the horizon of a reset to `now_us` for the identity in a lease. The floor is the current
/// time or the start of the lease, whichever is later. The horizon is `reach_us` microseconds after the floor, but
/// not after the end of the lease.
pub fn begin_again(lease: &Lease, now_us: i64, reach_us: i64) -> (i64, Horizon) {
    let floor_us = now_us.max(lease.from_us);
    let until_us = floor_us.saturating_add(reach_us).min(lease.until_us).max(floor_us);
    (floor_us, Horizon::new(0, until_us))
}

/// Returns the records to store before a reset. The records block each recorded identity up to `end_us`, the
/// highest horizon so far. In addition, the records block the current value up to `end_us` for all identities
/// except the new identity, which has used no value.
pub fn records_before_reset(uses: &Uses, identity: Identity, value: u8, end_us: i64) -> Vec<Use> {
    let mut known = uses.clone();
    let mut records = known.add(uses.shut_out(end_us));
    if value > 0 {
        // The new identity already has a record if an earlier attempt at this reset was interrupted.
        let closing = uses.close(value, end_us).into_iter();
        records.extend(known.add(closing.filter(|record| record.identity != Some(identity))));
    }
    if known.has_values(None) {
        records.extend(known.add([Use { identity: Some(identity), scope: Scope::Others, until_us: 0 }]));
    }
    records
}
