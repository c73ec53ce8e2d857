//! Beginning anew at the present, under an identity that was never used.
//!
//! All instants are microseconds of Unix time.

use crate::identity::Identity;
use crate::used::{History, Scope, Use, Uses};

/// For how long an identity may have to wait until it has come to its own end of use, beyond what the clock
/// allows: if it would have to wait longer, it is not let in. To let it in lifts every slot to that end, and
/// another one that comes next would have to wait as well.
pub const MOST_AHEAD_US: i64 = 10_000_000;

/// Why everything cannot begin anew for an identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResetRefusal {
    /// IDs are being made under it.
    InUse,
    /// IDs were made under it.
    Used,
    /// It is not known which identities were used.
    HistoryUnknown,
}

/// Whether everything may begin anew at `now_us` for an identity: not if IDs may have been made under it.
///
/// # Errors
/// The reason why not.
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

/// Whether it is not known which identities were used. An unknown past that ends soon does not count: an identity begins
/// above it.
pub(crate) fn is_history_unknown(uses: &Uses, history: &History, is_elsewhere: bool, now_us: i64) -> bool {
    let soon_us = now_us.saturating_add(MOST_AHEAD_US);
    is_history_lost(uses, history, is_elsewhere) || uses.recorded(None, Scope::ZERO) > Some(soon_us)
}

/// Without any record, unless there is no past at all.
fn is_history_lost(uses: &Uses, history: &History, is_elsewhere: bool) -> bool {
    is_elsewhere || history.lacks_record(uses) || (uses.is_empty() && history.highest_us > 0)
}

/// The records to store before everything begins anew: each identity that was used is shut out up to `end_us`, the
/// highest horizon so far, and has used the value in use; the new one has used none.
pub fn records_before_reset(uses: &Uses, identity: Identity, value: u8, end_us: i64) -> Vec<Use> {
    let mut known = uses.clone();
    let mut records = known.add(uses.shut_out(end_us));
    if value > 0 {
        // The new one has a record already if this was ordered before, and was cut short.
        let closing = uses.close(value, end_us).into_iter();
        records.extend(known.add(closing.filter(|record| record.identity != Some(identity))));
    }
    if known.has_values(None) {
        records.extend(known.add([Use { identity: Some(identity), scope: Scope::Others, until_us: 0 }]));
    }
    records
}
