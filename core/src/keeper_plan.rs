//! What the keeper of the durable horizon decides, as pure functions of what it sees. How it is carried out,
//! and in which order, is the keeper's affair.
//!
//! The rules are few:
//!
//! * The next horizon is no lower than anything that is stored, was published or was handed out.
//! * **An unknown past means that everything was used.** Records of use that are gone say nothing: each
//!   identity may have been used up to the highest horizon that this server has ever had. Only the identity
//!   in use goes on, above its own horizon.
//! * An identity goes on above its own end of use, or, if that lies too far ahead, not at all.
//!
//! All instants are microseconds of Unix time.

use crate::identity::Identity;

/// A record that IDs may have been made under an identity. Records are only ever added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    /// `None` stands for every identity that has no record of its own.
    pub identity: Option<Identity>,
    /// Up to when. 0 as long as only the stored horizon limits it.
    pub until_us: i64,
}

/// The records of use of one server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Uses(pub Vec<Use>);

impl Uses {
    /// Up to when IDs may have been made under an identity, 0 as long as only the stored horizon limits it;
    /// `None` if none were ever made.
    pub fn until_us(&self, identity: Identity) -> Option<i64> {
        self.recorded(Some(identity)).or(self.recorded(None))
    }

    fn recorded(&self, identity: Option<Identity>) -> Option<i64> {
        let records = self.0.iter().filter(|record| record.identity == identity);
        records.map(|record| record.until_us).max()
    }

    /// The latest instant in any record.
    pub fn latest_us(&self) -> i64 {
        self.0.iter().map(|record| record.until_us).max().unwrap_or(0)
    }

    /// Adds a record, unless one says as much already.
    fn add(&mut self, record: Use, added: &mut Vec<Use>) {
        if self.recorded(record.identity) < Some(record.until_us) {
            self.0.push(record);
            added.push(record);
        }
    }
}

/// What a server knows of its own past without looking at what is stored: in shared memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Past {
    /// The horizon that was published last; 0 if none was.
    pub published_us: i64,
    /// The highest horizon that may have been stored since everything began anew last.
    pub promised_us: i64,
    /// The highest horizon that may ever have been stored.
    pub highest_us: i64,
    /// The identity for which the gate was open last.
    pub last_identity: Option<Identity>,
}

impl Past {
    /// Whether records are gone: the identity in use was recorded before its first ID.
    fn lacks_record(&self, uses: &Uses) -> bool {
        self.last_identity.is_some_and(|last| uses.recorded(Some(last)).is_none())
    }

    /// The records that have to be there. Others may be gone with them, so that these two stand for all.
    pub fn records(&self) -> impl Iterator<Item = Use> + use<> {
        let own =
            self.last_identity.map(|identity| Use { identity: Some(identity), until_us: self.promised_us });
        [Some(Use { identity: None, until_us: self.highest_us }), own].into_iter().flatten()
    }
}

/// For how long an identity may have to wait until it has come to its own end of use, beyond what the clock allows:
/// if it would have to wait longer, it is not let in. To let it in lifts every slot to that end, and another one
/// that comes next would have to wait as well.
const MOST_AHEAD_US: i64 = 10_000_000;

/// What the keeper sees in one look.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The clock.
    pub now_us: i64,
    /// The setting `max_drift`.
    pub max_drift_us: i64,
    /// The setting `lease`.
    pub lease_us: i64,
    /// The horizon that is stored; `None` if none ever was.
    pub stored_us: Option<i64>,
    /// Whether it is stored elsewhere than where this server stored it last: dropped and created again,
    /// another database.
    pub is_elsewhere: bool,
    /// The records of use that are stored.
    pub uses: Uses,
    /// What the server itself knows.
    pub past: Past,
    /// Where slots begin, once the keeper has found that out.
    pub floor_us: Option<i64>,
    /// The end of what was handed out, over all slots.
    pub end_of_use_us: i64,
    /// Where an administrator wants the floor to be.
    pub advance_to_us: Option<i64>,
    /// The identity that the settings or the table give.
    pub wanted: Option<Identity>,
    /// The identity for which the gate is open.
    pub open_for: Option<Identity>,
    /// Whether IDs are being made, so that the horizon has to move on.
    pub is_active: bool,
    /// Whether the clock may be followed.
    pub is_clock_good: bool,
}

/// What the keeper is to do, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Whether there is a past of which nothing is known but that it was there, and why.
    pub loss: Option<Loss>,
    /// Records to store, before the horizon.
    pub records: Vec<Use>,
    /// The horizon to store, if it is to be written. It may be published once that is durable.
    pub horizon_us: Option<i64>,
    /// Where slots are to begin.
    pub floor_us: i64,
    /// What is to become of the gate then.
    pub gate: GatePlan,
}

/// What was lost of the past.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// There is no stored horizon, at the start of a server: it is new, or was restored from a dump.
    NothingKnown,
    /// What is stored is not what this server stored.
    Stored,
}

/// What is to become of the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GatePlan {
    /// It stays as it is.
    Stay,
    /// It is opened, after a fence that raises every slot to `from_us` at least.
    Open {
        /// For whom.
        identity: Identity,
        /// Up to when the identity may have been used; 0 if only the horizon limits that.
        from_us: i64,
        /// Whether the gate was last open for another identity: each slot then goes on in its next tick, to
        /// keep the order.
        is_another: bool,
    },
    /// It is closed: there is no identity.
    Close,
    /// It is closed: the identity may have been used up to an instant that lies too far ahead.
    Refuse {
        /// Whose.
        identity: Identity,
        /// Up to when it may have been used.
        until_us: i64,
    },
}

/// The records to store because what is stored is not what this server stored, or because a horizon was stored
/// before there was an identity. What is there then proves nothing either: it may be an older copy.
fn lost_records(uses: &Uses, past: &Past, stored_us: Option<i64>, is_lost: bool) -> Vec<Use> {
    let mut records = Vec::new();
    if is_lost || (stored_us.is_some() && uses.0.is_empty()) {
        let highest_us = past.highest_us.max(stored_us.unwrap_or(0));
        let mut known = uses.clone();
        for record in (Past { highest_us, ..*past }).records() {
            known.add(record, &mut records);
        }
        for record in uses.0.iter().filter(|record| is_lost && record.identity != past.last_identity) {
            known.add(Use { until_us: highest_us, ..*record }, &mut records);
        }
    }
    records
}

/// The records to store together with the exact end of what was handed out, given what is stored: those that
/// are gone.
pub fn records_to_seal(uses: &Uses, past: &Past, stored_us: Option<i64>) -> Vec<Use> {
    lost_records(uses, past, stored_us, past.lacks_record(uses))
}

/// Decides what to do about everything that was seen.
pub fn plan(seen: &Seen) -> Plan {
    let past = &seen.past;
    let mut uses = seen.uses.clone();
    let mut records = Vec::new();

    let is_lower = seen.stored_us.unwrap_or(0) < past.published_us;
    let is_lost = seen.is_elsewhere || is_lower || past.lacks_record(&uses);
    records.extend(lost_records(&uses, past, seen.stored_us, is_lost));
    uses.0.extend(&records);

    let is_unknown = seen.stored_us.is_none() && past.highest_us == 0;
    let first_floor_us = match seen.stored_us {
        None if is_unknown => seen.now_us.saturating_add(seen.max_drift_us),
        _ if is_lost => seen.stored_us.unwrap_or(0).max(past.promised_us),
        _ => seen.stored_us.unwrap_or(0),
    };
    let floor_us = seen.floor_us.unwrap_or(first_floor_us).max(seen.advance_to_us.unwrap_or(0));

    let promised_us = if is_lost { past.promised_us } else { past.published_us };
    let known_us = [seen.stored_us.unwrap_or(0), promised_us, floor_us, seen.end_of_use_us];
    let known_us = known_us.into_iter().fold(0, i64::max);
    let ahead_us = seen.now_us.saturating_add(seen.max_drift_us).saturating_add(seen.lease_us);
    // A clock that is not followed burns nothing.
    let next_us = if seen.is_clock_good { known_us.max(ahead_us) } else { known_us };

    let gate = plan_gate(seen, &uses, next_us, floor_us);
    let is_opened = matches!(gate, GatePlan::Open { .. });
    if let GatePlan::Open { identity, from_us, .. } = gate {
        uses.add(Use { identity: Some(identity), until_us: from_us }, &mut records);
    }
    let is_renewed = is_opened || (seen.is_active && seen.is_clock_good && gate == GatePlan::Stay);
    let is_behind = is_lost || seen.advance_to_us > Some(seen.stored_us.unwrap_or(0));
    let horizon_us = match (is_renewed, is_behind) {
        (true, _) => Some(next_us),
        (false, true) => Some(known_us),
        (false, false) => None,
    };
    let loss = match is_lost {
        true => Some(Loss::Stored),
        false => (is_unknown && seen.floor_us.is_none()).then_some(Loss::NothingKnown),
    };
    Plan { loss, records, horizon_us, floor_us, gate }
}

fn plan_gate(seen: &Seen, uses: &Uses, next_us: i64, floor_us: i64) -> GatePlan {
    let Some(identity) = seen.wanted else { return GatePlan::Close };
    if seen.open_for == Some(identity) {
        return GatePlan::Stay;
    }
    let soon_us = seen.now_us.saturating_add(seen.max_drift_us).saturating_add(MOST_AHEAD_US);
    // Where slots begin anyway, nothing is lifted.
    let latest_us = next_us.min(soon_us.max(floor_us));
    match uses.until_us(identity) {
        Some(until_us) if until_us > latest_us => GatePlan::Refuse { identity, until_us },
        until_us => GatePlan::Open {
            identity,
            from_us: until_us.unwrap_or(0),
            is_another: seen.past.last_identity.is_some_and(|last| last != identity),
        },
    }
}

/// Why everything cannot begin anew for an identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResetRefusal {
    /// IDs are being made under it.
    InUse,
    /// IDs were made under it.
    Used,
    /// It is not known which identities were used up to an instant that lies ahead.
    PastUnknown {
        /// That instant.
        until_us: i64,
    },
}

/// Whether everything may begin anew at `now_us` for an identity: not if IDs may have been made under it.
///
/// # Errors
/// The reason why not.
pub fn check_reset(
    identity: Identity,
    uses: &Uses,
    past: &Past,
    is_elsewhere: bool,
    now_us: i64,
) -> Result<(), ResetRefusal> {
    if past.last_identity == Some(identity) {
        return Err(ResetRefusal::InUse);
    }
    // Without any record nothing is known, unless there is no past at all.
    let are_gone = past.lacks_record(uses) || (uses.0.is_empty() && past.highest_us > 0);
    if is_elsewhere || are_gone {
        return Err(ResetRefusal::PastUnknown { until_us: past.highest_us });
    }
    match (uses.recorded(Some(identity)), uses.recorded(None)) {
        (Some(_), _) => Err(ResetRefusal::Used),
        // One that ends soon need not be refused: the identity begins above it.
        (None, Some(until_us)) if until_us > now_us.saturating_add(MOST_AHEAD_US) => {
            Err(ResetRefusal::PastUnknown { until_us })
        }
        (None, _) => Ok(()),
    }
}

/// The records that shut out, before everything begins anew, each identity that was used: up to `end_us`, the
/// highest horizon so far.
pub fn records_before_reset(uses: &Uses, end_us: i64) -> Vec<Use> {
    let mut shut_out = uses.clone();
    let mut added = Vec::new();
    for record in uses.0.iter().filter(|record| record.identity.is_some()) {
        shut_out.add(Use { until_us: end_us, ..*record }, &mut added);
    }
    added
}
