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
//! Each track ([`crate::track`]) has a plan of its own; the gate has one for all.
//!
//! All instants are microseconds of Unix time.

use crate::clock_sequence::FAR_AHEAD_US;
use crate::identity::Identity;
use crate::lease::Lease;
use crate::track::{Begun, Horizon, TRACKS, Track};
use crate::used::{Scope, Use, Uses};

/// What a server knows of its own past without looking at what is stored: in shared memory. What it knows of horizons is
/// with the tracks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Past {
    /// The highest horizon that may ever have been stored.
    pub highest_us: i64,
    /// The identity for which the gate was open last.
    pub last_identity: Option<Identity>,
}

impl Past {
    /// Whether records are gone: the identity in use was recorded before its first ID.
    fn lacks_record(&self, uses: &Uses) -> bool {
        self.last_identity.is_some_and(|last| uses.recorded(Some(last), Scope::ZERO).is_none())
    }

    /// The records that have to be there if all were lost but these: see [`Uses::after_loss`].
    pub fn records(&self, tracks: &[Track; TRACKS], begun: &[Begun; TRACKS], uses: &Uses) -> Vec<Use> {
        let own = [0, 1].map(|at| (begun[at].value, tracks[at].used_us(begun[at])));
        let stored_us = tracks[0].stored.until_us();
        uses.clone().add(uses.after_loss(self.last_identity, own, self.highest_us.max(stored_us)))
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
    /// The tracks.
    pub tracks: [Track; TRACKS],
    /// Whether what is stored is elsewhere than where this server stored it last: dropped and created again,
    /// another database.
    pub is_elsewhere: bool,
    /// The records of use that are stored.
    pub uses: Uses,
    /// What the server itself knows.
    pub past: Past,
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
    /// Records to store, before the horizons.
    pub records: Vec<Use>,
    /// What is to become of each track.
    pub tracks: [TrackPlan; TRACKS],
    /// What is to become of the gate then.
    pub gate: GatePlan,
    /// Whether the registry is to be asked for another identity.
    pub is_another_needed: bool,
}

/// What is to become of a track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrackPlan {
    /// Its value, and where slots are to begin.
    pub begun: Begun,
    /// The horizon to store, if it is to be written. It may be published once that is durable.
    pub horizon: Option<Horizon>,
    /// If the gate is opened: the later of the beginning of the lease and of when this server may have used the identity
    /// with this value up to; 0 if only the horizon limits that.
    pub from_us: i64,
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
    /// It is opened, after a fence that raises every slot to `from_us` of its track at least.
    Open {
        /// For what.
        lease: Lease,
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

/// Whether a horizon was stored before there was an identity.
fn is_first(uses: &Uses, tracks: &[Track; TRACKS]) -> bool {
    tracks[0].stored != Horizon::NONE && uses.is_empty()
}

/// The records to store because what is stored is not what this server stored, or because a horizon was stored before
/// there was an identity. What is there then proves nothing either: it may be an older copy.
fn lost_records(uses: &Uses, tracks: &[Track; TRACKS], past: &Past, is_lost: bool) -> Vec<Use> {
    if !is_lost && !is_first(uses, tracks) {
        return vec![];
    }
    past.records(tracks, &tracks.map(|track| track.begun(is_lost)), uses)
}

/// The records to store together with the exact end of what was handed out, given what is stored: those that
/// are gone.
pub fn records_to_seal(uses: &Uses, tracks: &[Track; TRACKS], past: &Past) -> Vec<Use> {
    lost_records(uses, tracks, past, past.lacks_record(uses))
}

/// Decides what to do about everything that was seen.
pub fn plan(seen: &Seen) -> Plan {
    let tracks = &seen.tracks;
    let mut uses = seen.uses.clone();
    let is_lost = seen.is_elsewhere || seen.past.lacks_record(&uses) || tracks.iter().any(Track::is_changed);
    let mut records = lost_records(&uses, tracks, &seen.past, is_lost);
    uses.add(records.iter().copied());
    if let Some(floor_us) = seen.advance_to_us.filter(|&floor_us| floor_us > 0) {
        // A value that is opened later begins at the present, and a leased server that is far ahead begins anew by
        // itself; but not below that.
        let all = Use { identity: None, scope: Scope::ZERO, until_us: floor_us };
        let leased = seen.is_leased().then_some(all);
        records.extend(uses.add(uses.close_all(floor_us).into_iter().chain(leased)));
    }
    let is_unknown = tracks[0].is_unknown();
    let soon_us = seen.now_us.saturating_add(seen.max_drift_us);
    let mut begun = tracks.map(|track| track.begun(is_lost));
    if is_unknown && tracks[0].begun.is_none() {
        begun[0].floor_us = soon_us;
    }
    for (at, begun) in begun.iter_mut().enumerate() {
        if at == 0 || *begun != Begun::NONE {
            begun.floor_us = begun.floor_us.max(seen.advance_to_us.unwrap_or(0));
        }
    }

    let gate =
        plan_gate(seen, &uses, is_unknown, is_lost, seen.next_us(&tracks[0], begun[0]), begun[0].floor_us);
    let mut from_us = [0; TRACKS];
    if let GatePlan::Open { lease: Lease { identity, from_us: begins_us, .. }, .. } = gate {
        let is_new = uses.recorded(Some(identity), Scope::ZERO).is_none() && !uses.has_values(Some(identity));
        if !seen.is_leased() && (is_unknown || is_new) {
            // Stored together with a horizon: alone it would make the past look known.
            records.extend(uses.add([uses.of_unknown(identity, soon_us)]));
        }
        from_us = begun.map(|begun| uses.until_us(identity, begun.value).unwrap_or(0).max(begins_us));
        let until_us = uses.until_us(identity, 0).unwrap_or(0);
        records.extend(uses.add([Use { identity: Some(identity), scope: Scope::ZERO, until_us }]));
    }
    let plan_track = |at: usize| TrackPlan {
        begun: begun[at],
        horizon: plan_horizon(seen, &tracks[at], begun[at], from_us[at], gate, is_lost),
        from_us: from_us[at],
    };
    let loss = match is_lost {
        true => Some(Loss::Stored),
        false => (is_unknown && tracks[0].begun.is_none()).then_some(Loss::NothingKnown),
    };
    let is_another_needed = seen.is_leased()
        && match gate {
            // What is not known of anybody is not known of another one either.
            GatePlan::Refuse { identity, .. } => {
                is_unknown || uses.recorded(Some(identity), Scope::ZERO).is_some()
            }
            GatePlan::BeginAnew(_) => false,
            _ => {
                seen.has_to_begin_anew(&uses, begun[0].floor_us)
                    && unknown_until_us(&uses, &seen.past, seen.is_elsewhere, seen.now_us).is_none()
            }
        };
    Plan { loss, records, tracks: [0, 1].map(plan_track), gate, is_another_needed }
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

    /// What the horizon of a track has to be at least.
    fn known_us(&self, track: &Track, begun: Begun) -> i64 {
        let begins_us = self.wanted.filter(|_| !self.is_continued()).map_or(0, |lease| lease.from_us);
        track.known_us(begun).max(begins_us)
    }

    /// The horizon of a track if it is renewed. A clock that is not followed burns nothing.
    fn next_us(&self, track: &Track, begun: Begun) -> i64 {
        let reach_us = if self.is_clock_good { self.reach_us().min(self.ends_us()) } else { 0 };
        self.known_us(track, begun).max(reach_us)
    }

    /// Where the lease ends.
    fn ends_us(&self) -> i64 {
        self.wanted.map_or(i64::MAX, |lease| lease.until_us)
    }

    /// How far ahead of the clock a horizon is written.
    fn reach_us(&self) -> i64 {
        self.now_us.saturating_add(self.max_drift_us).saturating_add(self.lease_us)
    }

    /// Whether a leased identity is to be exchanged for one under which everything begins at the present: IDs would
    /// have to wait for the clock longer than they ever do otherwise, and the clock is right.
    fn has_to_begin_anew(&self, uses: &Uses, floor_us: i64) -> bool {
        let is_far_ahead =
            floor_us.max(self.tracks[0].end_of_use_us) > self.reach_us().saturating_add(FAR_AHEAD_US);
        // Nobody may begin below what holds for all: then it is no use.
        let can_begin_now = uses.recorded(None, Scope::ZERO).is_none_or(|until_us| until_us <= self.now_us);
        let is_called_for =
            self.is_anew_ordered || (is_far_ahead && can_begin_now && self.is_clock_confirmed);
        is_called_for && self.has_room_to_begin_anew
    }
}

/// Decides about the horizon of one track.
fn plan_horizon(
    seen: &Seen,
    track: &Track,
    begun: Begun,
    from_us: i64,
    gate: GatePlan,
    is_lost: bool,
) -> Option<Horizon> {
    if begun == Begun::NONE {
        return (is_lost && track.stored != Horizon::NONE).then_some(Horizon::NONE);
    }
    // Whatever is lost later: what the identity may have made lies below the horizon.
    let next_us = seen.next_us(track, begun).max(from_us);
    let has_ended = track.published.until_us_of(begun.value) >= next_us.max(seen.ends_us());
    let is_going_on = gate == GatePlan::Stay && seen.is_active && seen.is_clock_good && !has_ended;
    let is_behind = is_lost || seen.advance_to_us > Some(track.stored.until_us());
    let until_us = match gate {
        GatePlan::Open { .. } => next_us,
        _ if is_going_on => next_us,
        _ if is_behind => seen.known_us(track, begun),
        _ => return None,
    };
    Some(Horizon::new(begun.value, until_us))
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
    match uses.until_us(identity, 0) {
        Some(until_us) if until_us > latest_us => GatePlan::Refuse { identity, until_us },
        _ => {
            GatePlan::Open { lease, is_another: seen.past.last_identity.is_some_and(|last| last != identity) }
        }
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
    match (uses.recorded(Some(identity), Scope::ZERO), unknown_until_us(uses, past, is_elsewhere, now_us)) {
        (Some(_), _) => Err(ResetRefusal::Used),
        (None, Some(until_us)) => Err(ResetRefusal::PastUnknown { until_us }),
        (None, None) => Ok(()),
    }
}

/// Whether it is not known which identities were used: without any record, unless there is no past at all.
fn is_past_gone(uses: &Uses, past: &Past, is_elsewhere: bool) -> bool {
    is_elsewhere || past.lacks_record(uses) || (uses.is_empty() && past.highest_us > 0)
}

/// Up to when it is not known which identities were used. One that ends soon does not count: an identity begins above
/// it.
fn unknown_until_us(uses: &Uses, past: &Past, is_elsewhere: bool, now_us: i64) -> Option<i64> {
    if is_past_gone(uses, past, is_elsewhere) {
        return Some(past.highest_us);
    }
    uses.recorded(None, Scope::ZERO).filter(|&until_us| until_us > now_us.saturating_add(MOST_AHEAD_US))
}

/// The records to store before everything begins anew: each identity that was used is shut out up to `end_us`, the
/// highest horizon so far, and has used the value in use; the new one has used none.
pub fn records_before_reset(uses: &Uses, identity: Identity, value: u8, end_us: i64) -> Vec<Use> {
    let mut known = uses.clone();
    let mut records = known.add(uses.shut_out(end_us));
    if value > 0 {
        records.extend(known.add(uses.close(value, end_us)));
    }
    if known.has_values(None) {
        records.extend(known.add([Use { identity: Some(identity), scope: Scope::Others, until_us: 0 }]));
    }
    records
}
