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
use crate::reset::{MOST_AHEAD_US, check_reset, is_history_unknown};
use crate::track::{Begun, Horizon, TRACKS, Track};
use crate::used::{History, Scope, Use, Uses};

/// What the keeper sees in one look.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The clock.
    pub now_us: i64,
    /// The setting `max_ahead`.
    pub max_ahead_us: i64,
    /// The setting `lease`.
    pub horizon_margin_us: i64,
    /// The tracks.
    pub tracks: [Track; TRACKS],
    /// Whether what is stored is elsewhere than where this server stored it last: dropped and created again,
    /// another database.
    pub is_elsewhere: bool,
    /// The records of use that are stored.
    pub uses: Uses,
    /// What the server itself knows.
    pub history: History,
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
    pub is_reset_requested: bool,
    /// Whether there are places for the layouts in use when everything begins anew.
    pub has_room_for_reset: bool,
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
        /// Whether the gate was last open for another identity, as far as is known: each slot then goes on in its next
        /// tick, to keep the order.
        is_another: bool,
    },
    /// Everything begins anew at the present, under an identity that was never used. That opens the gate in the
    /// next look.
    Reset(Lease),
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

/// The records to store because what is stored is not what this server stored, or because a horizon was stored before
/// there was an identity. What is there then proves nothing either: it may be an older copy.
fn lost_records(uses: &Uses, tracks: &[Track; TRACKS], history: &History, is_lost: bool) -> Vec<Use> {
    let is_first = tracks[0].stored != Horizon::NONE && uses.is_empty();
    match is_lost || is_first {
        true => history.records(tracks, &tracks.map(|track| track.begun(is_lost)), uses),
        false => vec![],
    }
}

/// The records to store together with the exact end of what was handed out, given what is stored: those that
/// are gone.
pub fn records_at_shutdown(uses: &Uses, tracks: &[Track; TRACKS], history: &History) -> Vec<Use> {
    lost_records(uses, tracks, history, history.lacks_record(uses))
}

/// Decides what to do about everything that was seen.
pub fn plan(seen: &Seen) -> Plan {
    let is_lost = seen.is_elsewhere
        || seen.history.lacks_record(&seen.uses)
        || seen.tracks.iter().any(Track::is_changed);
    let mut uses = seen.uses.clone();
    let mut records = uses.add(lost_records(&seen.uses, &seen.tracks, &seen.history, is_lost));
    if let Some(until_us) = seen.advance_to_us.filter(|&floor_us| floor_us > 0) {
        // A value that is opened later begins at the present, and a leased server that is far ahead begins anew by
        // itself; but not below that.
        let all = Use { identity: None, scope: Scope::ZERO, until_us };
        let leased = seen.is_leased().then_some(all);
        records.extend(uses.add(uses.close_all(until_us).into_iter().chain(leased)));
    }
    let begun = [0, 1].map(|at| seen.begun(at, is_lost));
    let gate = plan_gate(seen, &uses, begun[0], is_lost);
    let mut from_us = [0; TRACKS];
    if let GatePlan::Open { lease: Lease { identity, from_us: begins_us, .. }, .. } = gate {
        let is_new = uses.recorded(Some(identity), Scope::ZERO).is_none() && !uses.has_values(Some(identity));
        if !seen.is_leased() && (seen.is_unknown() || is_new) {
            // Stored together with a horizon: alone it would make the past look known.
            records.extend(uses.add([uses.of_unknown(identity, seen.soon_us())]));
        }
        from_us = begun.map(|begun| uses.until_us(identity, begun.value).unwrap_or(0).max(begins_us));
        let until_us = uses.until_us(identity, 0).unwrap_or(0);
        records.extend(uses.add([Use { identity: Some(identity), scope: Scope::ZERO, until_us }]));
    }
    Plan {
        loss: match is_lost {
            true => Some(Loss::Stored),
            false => (seen.is_unknown() && seen.tracks[0].begun.is_none()).then_some(Loss::NothingKnown),
        },
        records,
        tracks: [0, 1].map(|at| plan_track(seen, &seen.tracks[at], begun[at], from_us[at], gate, is_lost)),
        gate,
        is_another_needed: seen.is_leased() && is_another_needed(seen, &uses, begun[0], gate),
    }
}

impl Seen {
    /// Whether nothing is known of the past. Records alone do not say up to where it went.
    fn is_unknown(&self) -> bool {
        self.tracks[0].is_unknown()
    }

    /// The value of a track, and where its slots begin: on a new server where no ID can have been ahead.
    fn begun(&self, at: usize, is_lost: bool) -> Begun {
        let track = &self.tracks[at];
        let begun = track.begun(is_lost);
        if at > 0 && begun == Begun::NONE {
            return begun;
        }
        let first_us = if self.is_unknown() && track.begun.is_none() { self.soon_us() } else { 0 };
        let floor_us = begun.floor_us.max(first_us).max(self.advance_to_us.unwrap_or(0));
        Begun { floor_us, ..begun }
    }

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

    /// How far ahead of the clock IDs may be.
    fn soon_us(&self) -> i64 {
        self.now_us.saturating_add(self.max_ahead_us)
    }

    /// How far ahead of the clock a horizon is written.
    fn reach_us(&self) -> i64 {
        self.soon_us().saturating_add(self.horizon_margin_us)
    }

    /// Whether a leased identity is to be exchanged for one under which everything begins at the present: IDs would
    /// have to wait for the clock longer than they ever do otherwise, and the clock is right.
    fn has_to_reset(&self, uses: &Uses, begun: Begun) -> bool {
        let stands_at_us = begun.floor_us.max(self.tracks[0].end_of_use_us);
        let is_far_ahead = stands_at_us > self.reach_us().saturating_add(FAR_AHEAD_US);
        // Nobody may begin below what holds for all: then it is no use.
        let can_begin_now = uses.recorded(None, Scope::ZERO).is_none_or(|until_us| until_us <= self.now_us);
        let is_called_for =
            self.is_reset_requested || (is_far_ahead && can_begin_now && self.is_clock_confirmed);
        is_called_for && self.has_room_for_reset
    }
}

/// Decides about one track. The identity for which the gate is opened was used up to `from_us` with its value.
fn plan_track(
    seen: &Seen,
    track: &Track,
    begun: Begun,
    from_us: i64,
    gate: GatePlan,
    is_lost: bool,
) -> TrackPlan {
    let plan = |horizon| TrackPlan { begun, horizon, from_us };
    if begun == Begun::NONE {
        return plan((is_lost && track.stored != Horizon::NONE).then_some(Horizon::NONE));
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
        _ => return plan(None),
    };
    plan(Some(Horizon::new(begun.value, until_us)))
}

/// Decides about the gate, given where slots begin with value 0.
fn plan_gate(seen: &Seen, uses: &Uses, begun: Begun, is_lost: bool) -> GatePlan {
    let Some(lease) = seen.wanted else { return GatePlan::Close };
    let identity = lease.identity;
    if seen.is_unknown() && seen.is_lease_inherited && seen.is_leased() {
        // An earlier life of this server may have used all of it.
        return GatePlan::Refuse { identity, until_us: lease.until_us };
    }
    if seen.is_leased()
        && seen.has_to_reset(uses, begun)
        && !is_lost
        && check_reset(identity, uses, &seen.history, seen.is_elsewhere, seen.now_us).is_ok()
    {
        return GatePlan::Reset(lease);
    }
    if seen.is_continued() {
        return GatePlan::Stay;
    }
    let soon_us = seen.soon_us().saturating_add(MOST_AHEAD_US);
    // Where slots begin anyway, nothing is lifted.
    let latest_us = seen.next_us(&seen.tracks[0], begun).min(soon_us.max(begun.floor_us));
    match uses.until_us(identity, 0) {
        Some(until_us) if until_us > latest_us => GatePlan::Refuse { identity, until_us },
        _ => GatePlan::Open { lease, is_another: seen.history.last_identity != Some(identity) },
    }
}

/// Whether a leased identity is of no use any more.
fn is_another_needed(seen: &Seen, uses: &Uses, begun: Begun, gate: GatePlan) -> bool {
    match gate {
        // What is not known of anybody is not known of another one either.
        GatePlan::Refuse { identity, .. } => {
            seen.is_unknown() || uses.recorded(Some(identity), Scope::ZERO).is_some()
        }
        GatePlan::Reset(_) => false,
        _ => {
            seen.has_to_reset(uses, begun)
                && !is_history_unknown(uses, &seen.history, seen.is_elsewhere, seen.now_us)
        }
    }
}
