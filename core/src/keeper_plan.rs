//! The decisions of the keeper of the durable horizon, as pure functions of what the keeper sees. The keeper
//! itself carries them out.
//!
//! The rules are:
//!
//! * The next horizon is not lower than anything that is stored, was published or was handed out.
//! * **If the history is unknown, everything counts as used.** If records of use are lost, a missing record
//!   does not prove that an identity is unused. Each identity may have been used up to the highest horizon
//!   that this server has ever had. Only the identity in use continues, above its own horizon.
//! * An identity continues above its own high-water mark. If the high-water mark is too far ahead, the
//!   identity is refused.
//! * A leased identity is used only in the range of its lease. Nothing beyond the range is stored for its
//!   sake. If the server is far ahead of its clock, and the registry confirms that the clock is right, the
//!   server resets to the present, under an identity that it has never used.
//!
//! Each track ([`crate::track`]) has a plan of its own. The gate has one plan for all tracks.
//!
//! All instants are microseconds of Unix time.

use crate::clock_sequence::FAR_AHEAD_US;
use crate::identity::Identity;
use crate::lease::Lease;
use crate::reset::{MOST_AHEAD_US, check_reset, is_history_unknown};
use crate::track::{Begun, Horizon, TRACKS, Track};
use crate::used::{History, Scope, Use, Uses};

/// What the keeper sees in one cycle.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The clock.
    pub now_us: i64,
    /// The setting `max_ahead`, in microseconds.
    pub max_ahead_us: i64,
    /// The setting `horizon_margin`, in microseconds.
    pub horizon_margin_us: i64,
    /// The tracks.
    pub tracks: [Track; TRACKS],
    /// Whether the stored data is not where this server last stored it. The extension may have been dropped
    /// and created again, or the database may be another one.
    pub is_elsewhere: bool,
    /// The stored records of use.
    pub uses: Uses,
    /// What the server knows of its history from shared memory.
    pub history: History,
    /// The floor that an administrator has requested.
    pub advance_to_us: Option<i64>,
    /// The lease of the identity that the settings, the table or the registry gives.
    pub wanted: Option<Lease>,
    /// Whether the lease was granted before the server was started. How far such a lease has been used is
    /// known only from what is stored.
    pub is_lease_inherited: bool,
    /// The lease for which the gate is open.
    pub open_for: Option<Lease>,
    /// Whether the registry has recently confirmed that this server's clock is right.
    pub is_clock_confirmed: bool,
    /// Whether an administrator has requested a reset under another leased identity.
    pub is_reset_requested: bool,
    /// Whether there are enough free slots for the layouts in use, so that a reset is possible.
    pub has_room_for_reset: bool,
    /// Whether IDs are being created, so that the horizon has to move on.
    pub is_active: bool,
    /// Whether the clock may be followed.
    pub is_clock_good: bool,
}

/// What the keeper has to do, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Whether the server may have a history that is unknown, and why.
    pub loss: Option<Loss>,
    /// The records of use to store, before the horizons.
    pub records: Vec<Use>,
    /// What to do with each track.
    pub tracks: [TrackPlan; TRACKS],
    /// What to do with the gate, after the tracks.
    pub gate: GatePlan,
    /// Whether to request another identity from the registry.
    pub is_another_needed: bool,
}

/// What to do with a track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrackPlan {
    /// The value of the track, and the instant at which its slots start.
    pub begun: Begun,
    /// The horizon to store, if it has to be written. It may be published once it is durable.
    pub horizon: Option<Horizon>,
    /// If the gate is opened: the later of the start of the lease and the instant up to which this server may
    /// have used the identity with this value. 0 if only the horizon limits the use.
    pub from_us: i64,
}

/// Why the history is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// There is no stored horizon at the start of the server. The server is new, or was restored from a dump.
    NothingKnown,
    /// The stored data is not what this server stored.
    Stored,
}

/// What to do with the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GatePlan {
    /// The gate stays as it is.
    Stay,
    /// The gate is opened, after a fence that raises every slot at least to `from_us` of its track.
    Open {
        /// The lease for which the gate is opened.
        lease: Lease,
        /// Whether the gate was last open for another identity, or it is unknown for which. Each slot then
        /// continues in its next tick, to preserve the order of IDs.
        is_another: bool,
    },
    /// The server resets to the present, under an identity that was never used. The gate is then opened in
    /// the next cycle.
    Reset(Lease),
    /// The gate is closed, because there is no identity.
    Close,
    /// The gate is closed, because the identity may have been used up to an instant that is too far ahead.
    Refuse {
        /// The identity.
        identity: Identity,
        /// The instant up to which the identity may have been used.
        until_us: i64,
    },
}

/// Returns the records to store if the stored data is not what this server stored, or if a horizon was stored
/// before there was an identity. In both cases the present records prove nothing, because they may come from
/// an older copy.
fn lost_records(uses: &Uses, tracks: &[Track; TRACKS], history: &History, is_lost: bool) -> Vec<Use> {
    let is_first = tracks[0].stored != Horizon::NONE && uses.is_empty();
    match is_lost || is_first {
        true => history.records(tracks, &tracks.map(|track| track.begun(is_lost)), uses),
        false => vec![],
    }
}

/// Returns the records to store together with the shutdown horizon: those that are missing from the stored
/// records.
pub fn records_at_shutdown(uses: &Uses, tracks: &[Track; TRACKS], history: &History) -> Vec<Use> {
    lost_records(uses, tracks, history, history.lacks_record(uses))
}

/// Decides what to do in a cycle, given what the keeper has seen.
pub fn plan(seen: &Seen) -> Plan {
    let is_lost = seen.is_elsewhere
        || seen.history.lacks_record(&seen.uses)
        || seen.tracks.iter().any(Track::is_changed);
    let mut uses = seen.uses.clone();
    let mut records = uses.add(lost_records(&seen.uses, &seen.tracks, &seen.history, is_lost));
    if let Some(until_us) = seen.advance_to_us.filter(|&floor_us| floor_us > 0) {
        // A value that is opened later would start at the present. A leased server that is far ahead would
        // reset to the present by itself. Neither may go below the requested floor.
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
            // This record is stored together with a horizon. Without a horizon it would make the history look
            // known.
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
    /// Returns whether the history is unknown. Records alone do not count, because they do not say how far
    /// the history goes.
    fn is_unknown(&self) -> bool {
        self.tracks[0].is_unknown()
    }

    /// Returns the value of a track, and the instant at which its slots start. On a new server, slots start
    /// `max_ahead` after the clock, which no earlier ID can have passed.
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

    /// Returns whether the gate is open for the wanted lease, which may have been renewed.
    fn is_continued(&self) -> bool {
        self.open_for.zip(self.wanted).is_some_and(|(open, wanted)| open.is_renewed_by(&wanted))
    }

    /// Returns whether the registry gives the identity.
    fn is_leased(&self) -> bool {
        self.wanted.is_some_and(|lease| !lease.is_for_good())
    }

    /// Returns the lowest horizon that is allowed for a track.
    fn known_us(&self, track: &Track, begun: Begun) -> i64 {
        let begins_us = self.wanted.filter(|_| !self.is_continued()).map_or(0, |lease| lease.from_us);
        track.known_us(begun).max(begins_us)
    }

    /// Returns the next horizon of a track, if it is renewed. A clock that is not followed does not move the
    /// horizon.
    fn next_us(&self, track: &Track, begun: Begun) -> i64 {
        let reach_us = if self.is_clock_good { self.reach_us().min(self.ends_us()) } else { 0 };
        self.known_us(track, begun).max(reach_us)
    }

    /// Returns the end of the lease.
    fn ends_us(&self) -> i64 {
        self.wanted.map_or(i64::MAX, |lease| lease.until_us)
    }

    /// Returns the latest time that IDs may have now.
    fn soon_us(&self) -> i64 {
        self.now_us.saturating_add(self.max_ahead_us)
    }

    /// Returns the instant up to which a horizon is written.
    fn reach_us(&self) -> i64 {
        self.soon_us().saturating_add(self.horizon_margin_us)
    }

    /// Returns whether the server should reset to the present under another leased identity, either because
    /// an administrator requested it, or because IDs would have to wait for the clock longer than in any
    /// other case although the clock is right.
    fn has_to_reset(&self, uses: &Uses, begun: Begun) -> bool {
        let stands_at_us = begun.floor_us.max(self.tracks[0].end_of_use_us);
        let is_far_ahead = stands_at_us > self.reach_us().saturating_add(FAR_AHEAD_US);
        // No identity can start below the record for all identities, so until then a reset is of no use.
        let can_begin_now = uses.recorded(None, Scope::ZERO).is_none_or(|until_us| until_us <= self.now_us);
        let is_called_for =
            self.is_reset_requested || (is_far_ahead && can_begin_now && self.is_clock_confirmed);
        is_called_for && self.has_room_for_reset
    }
}

/// Plans one track. `from_us` is the instant up to which the identity for which the gate is opened was used
/// with the value of the track.
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
    // The horizon covers everything that the identity may have created, even if the records are lost later.
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

/// Plans the gate. `begun` is the value of track 0, with the instant at which its slots start.
fn plan_gate(seen: &Seen, uses: &Uses, begun: Begun, is_lost: bool) -> GatePlan {
    let Some(lease) = seen.wanted else { return GatePlan::Close };
    let identity = lease.identity;
    if seen.is_unknown() && seen.is_lease_inherited && seen.is_leased() {
        // The server may have used the whole lease before it was started.
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
    // Slots start at the floor in any case, so an identity used up to the floor raises nothing.
    let latest_us = seen.next_us(&seen.tracks[0], begun).min(soon_us.max(begun.floor_us));
    match uses.until_us(identity, 0) {
        Some(until_us) if until_us > latest_us => GatePlan::Refuse { identity, until_us },
        _ => GatePlan::Open { lease, is_another: seen.history.last_identity != Some(identity) },
    }
}

/// Returns whether the server needs another leased identity.
fn is_another_needed(seen: &Seen, uses: &Uses, begun: Begun, gate: GatePlan) -> bool {
    match gate {
        // If the identity has no record of its own, it was refused because of the record for all identities,
        // which applies to any other identity as well.
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
