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
//! * A leased identity is used in the range of its lease only. Nothing is stored beyond that for its sake. If
//!   the server stands far ahead of a clock that the registry agrees with, it begins anew at the present, under
//!   an identity that it has never used.
//!
//! What is said of horizons goes for that of the value of the clock sequence as well: see [`crate::clock_sequence`].
//!
//! All instants are microseconds of Unix time.

use crate::clock_sequence::{Begun, FAR_AHEAD_US, SeenValues, ValueHorizon, ValueUse, ValueUses};
use crate::identity::Identity;
use crate::lease::Lease;

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

    /// Adds for each identity that has a record, but for one of them, that it was used up to an instant.
    fn shut_out(&mut self, except: Option<Identity>, until_us: i64, added: &mut Vec<Use>) {
        let recorded: Vec<_> = self.0.iter().filter_map(|record| record.identity).collect();
        for identity in recorded.into_iter().filter(|&identity| Some(identity) != except) {
            self.add(Use { identity: Some(identity), until_us }, added);
        }
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

/// For how long an identity may have to wait until it has come to its own end of use, beyond what the clock
/// allows: if it would have to wait longer, it is not let in. To let it in lifts every slot to that end, and
/// another one that comes next would have to wait as well.
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
    /// What there is of values of the clock sequence.
    pub values: SeenValues,
    /// What the server itself knows.
    pub past: Past,
    /// Where slots begin, once the keeper has found that out.
    pub floor_us: Option<i64>,
    /// The end of what was handed out, over all slots without a value of the clock sequence.
    pub end_of_use_us: i64,
    /// Where an administrator wants the floor to be.
    pub advance_to_us: Option<i64>,
    /// The lease of the identity that the settings, the table or the registry gives.
    pub wanted: Option<Lease>,
    /// Whether the lease was granted before the server was started. What it was used for is known from what is
    /// stored, and from nothing else.
    pub is_lease_inherited: bool,
    /// The lease for which the gate is open.
    pub open_for: Option<Lease>,
    /// Whether the registry has found lately that this server's clock is right.
    pub is_clock_confirmed: bool,
    /// Whether an administrator wants everything to begin anew under another leased identity.
    pub is_anew_ordered: bool,
    /// Whether there are places for the layouts in use when everything begins anew.
    pub has_room_to_begin_anew: bool,
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
    /// Records of the use of values to store, before the horizons.
    pub value_records: Vec<ValueUse>,
    /// The value and its horizon to store, if they are to be written.
    pub value_horizon: Option<ValueHorizon>,
    /// The value that is in use, and where its slots begin.
    pub begun: Begun,
    /// If the gate is opened: where the use of that value begins; 0 if only its horizon limits that.
    pub value_from_us: i64,
    /// What is to become of the gate then.
    pub gate: GatePlan,
    /// Whether the registry is to be asked for another identity.
    pub is_another_needed: bool,
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
        /// For what.
        lease: Lease,
        /// The later of the beginning of the lease and of when this server may have used the identity up to;
        /// 0 if only the horizon limits that.
        from_us: i64,
        /// Whether the gate was last open for another identity: each slot then goes on in its next tick, to
        /// keep the order.
        is_another: bool,
    },
    /// Everything begins anew at the present, under an identity that was never used. That opens the gate in the
    /// next look.
    BeginAnew(Lease),
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
    if !is_lost && !is_first(uses, stored_us) {
        return records;
    }
    let highest_us = past.highest_us.max(stored_us.unwrap_or(0));
    let mut known = uses.clone();
    for record in (Past { highest_us, ..*past }).records() {
        known.add(record, &mut records);
    }
    known.shut_out(past.last_identity, highest_us, &mut records);
    records
}

/// Whether a horizon was stored before there was an identity.
fn is_first(uses: &Uses, stored_us: Option<i64>) -> bool {
    stored_us.is_some() && uses.0.is_empty()
}

/// The same for values of the clock sequence: each of them was used as well.
fn lost_value_records(
    uses: &Uses,
    values: &SeenValues,
    past: &Past,
    stored_us: Option<i64>,
    is_lost: bool,
) -> Vec<ValueUse> {
    if !is_lost && !is_first(uses, stored_us) {
        return vec![];
    }
    let begun = values.begun(is_lost);
    let in_use = ValueHorizon::new(begun.value, values.known_us(begun));
    values.uses.after_loss(past.last_identity, in_use, past.highest_us.max(stored_us.unwrap_or(0)))
}

/// The records to store together with the exact end of what was handed out, given what is stored: those that
/// are gone.
pub fn records_to_seal(
    uses: &Uses,
    values: &SeenValues,
    past: &Past,
    stored_us: Option<i64>,
) -> (Vec<Use>, Vec<ValueUse>) {
    let is_lost = past.lacks_record(uses);
    (lost_records(uses, past, stored_us, is_lost), lost_value_records(uses, values, past, stored_us, is_lost))
}

/// Decides what to do about everything that was seen.
pub fn plan(seen: &Seen) -> Plan {
    let past = &seen.past;
    let mut uses = seen.uses.clone();

    let is_lower = seen.stored_us.unwrap_or(0) < past.published_us;
    let is_lost = seen.is_elsewhere || is_lower || past.lacks_record(&uses) || seen.values.is_changed();
    let mut records = lost_records(&uses, past, seen.stored_us, is_lost);
    let mut value_records = lost_value_records(&uses, &seen.values, past, seen.stored_us, is_lost);
    uses.0.extend(&records);
    if let (Some(floor_us), true) = (seen.advance_to_us, seen.is_leased()) {
        // Such a server begins anew by itself, but not below that.
        uses.add(Use { identity: None, until_us: floor_us }, &mut records);
    }
    if let Some(floor_us) = seen.advance_to_us.filter(|&floor_us| floor_us > 0) {
        // A value that is opened later begins at the present, but not below that.
        value_records.extend(seen.values.uses.close_all(floor_us));
    }

    // Records alone do not say up to where: a stored horizon that was emptied is one of which nothing is known.
    let is_unknown = seen.stored_us.is_none() && past.promised_us == 0 && past.published_us == 0;
    let first_floor_us = match seen.stored_us {
        None if is_unknown => seen.now_us.saturating_add(seen.max_drift_us),
        _ if is_lost => seen.stored_us.unwrap_or(0).max(past.promised_us),
        _ => seen.stored_us.unwrap_or(0),
    };
    let floor_us = seen.floor_us.unwrap_or(first_floor_us).max(seen.advance_to_us.unwrap_or(0));

    let promised_us = if is_lost { past.promised_us } else { past.published_us };
    let begins_us = seen.wanted.filter(|_| !seen.is_continued()).map_or(0, |lease| lease.from_us);
    let known_us = [seen.stored_us.unwrap_or(0), promised_us, floor_us, seen.end_of_use_us, begins_us];
    let known_us = known_us.into_iter().fold(0, i64::max);
    let ends_us = seen.wanted.map_or(i64::MAX, |lease| lease.until_us);
    // A clock that is not followed burns nothing.
    let next_us = if seen.is_clock_good { known_us.max(seen.reach_us().min(ends_us)) } else { known_us };

    let mut begun = seen.values.begun(is_lost);
    if begun.value > 0 {
        begun.floor_us = begun.floor_us.max(seen.advance_to_us.unwrap_or(0));
    }
    let known_value_us = seen.values.known_us(begun).max(begins_us);
    let next_value_us =
        if seen.is_clock_good { known_value_us.max(seen.reach_us().min(ends_us)) } else { known_value_us };

    let gate = plan_gate(seen, &uses, is_unknown, is_lost, next_us, floor_us);
    let is_opened = matches!(gate, GatePlan::Open { .. });
    let mut value_from_us = 0;
    if let GatePlan::Open { lease, .. } = gate {
        let Lease { identity, from_us, .. } = lease;
        let mut recorded = ValueUses([&seen.values.uses.0[..], &value_records].concat());
        if !seen.is_leased() && (is_unknown || uses.recorded(Some(identity)).is_none()) {
            // Stored together with a horizon: alone it would make the past look known.
            let unknown = recorded.of_unknown(identity, seen.now_us.saturating_add(seen.max_drift_us));
            recorded.0.extend(unknown);
            value_records.extend(unknown);
        }
        if begun.value > 0 {
            value_from_us = recorded.until_us(identity, begun.value).max(from_us);
        }
        let until_us = uses.until_us(identity).unwrap_or(0);
        uses.add(Use { identity: Some(identity), until_us }, &mut records);
    }
    // The horizons cover the whole lease already.
    let published_value_us = seen.values.past.published.until_us_of(begun.value);
    let has_ended = past.published_us >= ends_us.max(next_us)
        && (begun.value == 0 || published_value_us >= ends_us.max(next_value_us));
    let is_going_on = gate == GatePlan::Stay && !has_ended;
    let is_renewed = is_opened || (seen.is_active && seen.is_clock_good && is_going_on);
    let is_behind = is_lost || seen.advance_to_us > Some(seen.stored_us.unwrap_or(0));
    let horizon_us = match (is_renewed, is_behind) {
        (true, _) => Some(next_us),
        (false, true) => Some(known_us),
        (false, false) => None,
    };
    let is_value_behind = is_lost || seen.advance_to_us > Some(seen.values.stored.until_us());
    let value_horizon = match (is_renewed, is_value_behind) {
        // Whatever is lost later: what the identity may have made with the value lies below its horizon.
        (true, _) if begun.value > 0 => {
            Some(ValueHorizon::new(begun.value, next_value_us.max(value_from_us)))
        }
        (_, true) if begun.value > 0 || (is_lost && seen.values.stored != ValueHorizon::NONE) => {
            Some(ValueHorizon::new(begun.value, known_value_us))
        }
        _ => None,
    };
    let loss = match is_lost {
        true => Some(Loss::Stored),
        false => (is_unknown && seen.floor_us.is_none()).then_some(Loss::NothingKnown),
    };
    let is_another_needed = seen.is_leased()
        && match gate {
            // What is not known of anybody is not known of another one either.
            GatePlan::Refuse { identity, .. } => is_unknown || uses.recorded(Some(identity)).is_some(),
            GatePlan::BeginAnew(_) => false,
            _ => {
                seen.has_to_begin_anew(&uses, floor_us)
                    && unknown_until_us(&uses, past, seen.is_elsewhere, seen.now_us).is_none()
            }
        };
    Plan {
        loss,
        records,
        horizon_us,
        floor_us,
        value_records,
        value_horizon,
        begun,
        value_from_us,
        gate,
        is_another_needed,
    }
}

impl Seen {
    /// Whether the gate is open for what is wanted, whose lease may have been renewed.
    fn is_continued(&self) -> bool {
        self.open_for.zip(self.wanted).is_some_and(|(open, wanted)| open.is_renewed_by(&wanted))
    }

    /// Whether the registry gives the identity.
    fn is_leased(&self) -> bool {
        self.wanted.is_some_and(|lease| !lease.is_for_good())
    }

    /// How far ahead of the clock a horizon is written.
    fn reach_us(&self) -> i64 {
        self.now_us.saturating_add(self.max_drift_us).saturating_add(self.lease_us)
    }

    /// Whether a leased identity is to be exchanged for one under which everything begins at the present: IDs would
    /// have to wait for the clock longer than they ever do otherwise, and the clock is right.
    fn has_to_begin_anew(&self, uses: &Uses, floor_us: i64) -> bool {
        let is_far_ahead = floor_us.max(self.end_of_use_us) > self.reach_us().saturating_add(FAR_AHEAD_US);
        // Nobody may begin below what holds for all: then it is no use.
        let can_begin_now = uses.recorded(None).is_none_or(|until_us| until_us <= self.now_us);
        let is_called_for =
            self.is_anew_ordered || (is_far_ahead && can_begin_now && self.is_clock_confirmed);
        is_called_for && self.has_room_to_begin_anew
    }
}

fn plan_gate(
    seen: &Seen,
    uses: &Uses,
    is_unknown: bool,
    is_lost: bool,
    next_us: i64,
    floor_us: i64,
) -> GatePlan {
    let Some(lease) = seen.wanted else { return GatePlan::Close };
    let identity = lease.identity;
    if is_unknown && seen.is_lease_inherited && seen.is_leased() {
        // An earlier life of this server may have used all of it.
        return GatePlan::Refuse { identity, until_us: lease.until_us };
    }
    if seen.is_leased()
        && seen.has_to_begin_anew(uses, floor_us)
        && !is_lost
        && check_reset(identity, uses, &seen.past, seen.is_elsewhere, seen.now_us).is_ok()
    {
        return GatePlan::BeginAnew(lease);
    }
    if seen.is_continued() {
        return GatePlan::Stay;
    }
    let soon_us = seen.now_us.saturating_add(seen.max_drift_us).saturating_add(MOST_AHEAD_US);
    // Where slots begin anyway, nothing is lifted.
    let latest_us = next_us.min(soon_us.max(floor_us));
    match uses.until_us(identity) {
        Some(until_us) if until_us > latest_us => GatePlan::Refuse { identity, until_us },
        until_us => GatePlan::Open {
            lease,
            from_us: until_us.unwrap_or(0).max(lease.from_us),
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
    if is_past_gone(uses, past, is_elsewhere) {
        return Err(ResetRefusal::PastUnknown { until_us: past.highest_us });
    }
    match (uses.recorded(Some(identity)), unknown_until_us(uses, past, is_elsewhere, now_us)) {
        (Some(_), _) => Err(ResetRefusal::Used),
        (None, Some(until_us)) => Err(ResetRefusal::PastUnknown { until_us }),
        (None, None) => Ok(()),
    }
}

/// Whether it is not known which identities were used: without any record, unless there is no past at all.
fn is_past_gone(uses: &Uses, past: &Past, is_elsewhere: bool) -> bool {
    is_elsewhere || past.lacks_record(uses) || (uses.0.is_empty() && past.highest_us > 0)
}

/// Up to when it is not known which identities were used. One that ends soon does not count: an identity begins above
/// it.
fn unknown_until_us(uses: &Uses, past: &Past, is_elsewhere: bool, now_us: i64) -> Option<i64> {
    if is_past_gone(uses, past, is_elsewhere) {
        return Some(past.highest_us);
    }
    uses.recorded(None).filter(|&until_us| until_us > now_us.saturating_add(MOST_AHEAD_US))
}

/// The records that shut out, before everything begins anew, each identity that was used: up to `end_us`, the
/// highest horizon so far.
pub fn records_before_reset(uses: &Uses, end_us: i64) -> Vec<Use> {
    let mut added = Vec::new();
    uses.clone().shut_out(None, end_us, &mut added);
    added
}
