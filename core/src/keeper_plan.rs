//! The decisions of the keeper of the durable horizon, as pure functions of what the keeper sees. The keeper
//! itself carries them out.
//!
//! The rules are:
//!
//! * The next horizon is never lower than a horizon that was stored or published, or than the time of any
//!   issued ID.
//! * **If the history is unknown, all identities count as used.** After a loss of records of use, a missing
//!   record does not prove that an identity is unused. Any identity may have been used up to the highest
//!   horizon that this server has ever had. Only the current identity continues, above its own horizon.
//! * An identity continues above its own high-water mark. If that mark is too far ahead of the clock, the
//!   identity is refused.
//! * A leased identity is used only in the range of its lease. The clock moves the horizon only up to the end
//!   of that range. If the server is far ahead of its clock, and the registry confirms that the clock is
//!   right, the server resets to the present, under an identity that it has never used.
//!
//! Each track ([`crate::track`]) has a plan of its own. All tracks share one plan for the gate.
//!
//! All instants are microseconds of Unix time.

use crate::clock_sequence::FAR_AHEAD_US;
use crate::identity::Identity;
use crate::lease::Lease;
use crate::reset::{MOST_AHEAD_US, check_reset, is_history_unknown};
use crate::track::{Begun, Horizon, TRACKS, Track};
use crate::used::{History, Scope, Use, Uses};

/// The facts that the keeper has gathered in a cycle.
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
    /// Whether the stored data is in another database or relation than the one that this server last wrote
    /// to. The extension may have been dropped and created again, or the database may be another one.
    pub is_elsewhere: bool,
    /// The stored records of use.
    pub uses: Uses,
    /// The history of the server, as kept in shared memory.
    pub history: History,
    /// The floor that an administrator has requested.
    pub advance_to_us: Option<i64>,
    /// The lease of the identity that comes from the settings, the table or the registry.
    pub wanted: Option<Lease>,
    /// Whether the lease was granted before the server was started. Only the stored records show how far such
    /// a lease has been used.
    pub is_lease_inherited: bool,
    /// The lease for which the gate is open.
    pub open_for: Option<Lease>,
    /// Whether the registry has recently confirmed that this server's clock is right.
    pub is_clock_confirmed: bool,
    /// Whether an administrator has requested a reset to a different leased identity.
    pub is_reset_requested: bool,
    /// Whether there are enough free slots for the layouts in use, so that a reset is possible.
    pub has_room_for_reset: bool,
    /// Whether IDs are being created, so that the horizon must be extended.
    pub is_active: bool,
    /// Whether the clock may be followed.
    pub is_clock_good: bool,
}

/// The actions of the keeper in one cycle. They are carried out in the order of the fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The reason why the history of the server is unknown, if it is.
    pub loss: Option<Loss>,
    /// The records of use to store. They are stored before the horizons.
    pub records: Vec<Use>,
    /// What to do with each track.
    pub tracks: [TrackPlan; TRACKS],
    /// What to do with the gate, after the plans of the tracks are carried out.
    pub gate: GatePlan,
    /// Whether to request another identity from the registry.
    pub is_another_needed: bool,
}

/// What to do with a track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrackPlan {
    /// The value of the track, and the instant at which its slots start.
    pub begun: Begun,
    /// The horizon to store, if any. A horizon may be published once it is durable.
    pub horizon: Option<Horizon>,
    /// The instant from which slots may be used if the gate is opened. This is the later of the start of the
    /// lease and the high-water mark of this identity and value. The value is 0 if only the horizon limits
    /// the use.
    pub from_us: i64,
}

/// Why the history is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// No horizon is stored when the server starts. Either the server is new, or it was restored from a dump.
    NothingKnown,
    /// The stored data differs from the data that this server stored.
    Stored,
}

/// What to do with the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GatePlan {
    /// The gate stays as it is.
    Stay,
    /// The gate is opened after a fence. The fence raises every slot at least to `from_us` of its track.
    Open {
        /// The lease for which the gate is opened.
        lease: Lease,
        /// Whether the identity for which the gate was last open is unknown or differs from this one. Each
        /// slot then continues in its next tick, to preserve the order of IDs.
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
/// before there was an identity. In either case the existing records prove nothing, because they may come
/// from an older copy of the data.
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
        // A value that is opened later would start at the current time. A leased server that is far ahead of
        // its clock would reset to the current time by itself. These records prevent both the value and the
        // server from starting below the requested floor.
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
            // This record must be stored together with a horizon. Without a horizon, the record would make
            // the history look known.
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
    /// Returns whether the history is unknown. Records without a horizon do not make the history known,
    /// because they do not show how far it extends.
    fn is_unknown(&self) -> bool {
        self.tracks[0].is_unknown()
    }

    /// Returns the value of a track, and the instant at which its slots start. On a new server, slots start
    /// at the clock plus `max_ahead`, because no earlier ID can have a later time.
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

    /// Returns whether the gate is open for the wanted lease, or for the same lease before its renewal.
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

    /// Returns the next horizon of a track if the horizon is to be extended. The clock extends the horizon
    /// only if the clock is followed.
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

    /// Returns the instant to which the clock allows a horizon to be extended.
    fn reach_us(&self) -> i64 {
        self.soon_us().saturating_add(self.horizon_margin_us)
    }

    /// Returns whether the server should reset to the current time under another leased identity. A reset is
    /// due if an administrator requested it, or if the server is too far ahead of its clock although the
    /// clock is right.
    fn has_to_reset(&self, uses: &Uses, begun: Begun) -> bool {
        let stands_at_us = begun.floor_us.max(self.tracks[0].end_of_use_us);
        let is_far_ahead = stands_at_us > self.reach_us().saturating_add(FAR_AHEAD_US);
        // No identity can start before the time in the record for all identities, so an earlier reset would
        // not help.
        let can_begin_now = uses.recorded(None, Scope::ZERO).is_none_or(|until_us| until_us <= self.now_us);
        let is_called_for =
            self.is_reset_requested || (is_far_ahead && can_begin_now && self.is_clock_confirmed);
        is_called_for && self.has_room_for_reset
    }
}

/// Plans one track. The gate is opened for an identity. `from_us` is the high-water mark of that identity
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

/// Plans the gate. `begun` contains the value of track 0 and the instant at which slots with this value
/// start.
fn plan_gate(seen: &Seen, uses: &Uses, begun: Begun, is_lost: bool) -> GatePlan {
    let Some(lease) = seen.wanted else { return GatePlan::Close };
    let identity = lease.identity;
    if seen.is_unknown() && seen.is_lease_inherited && seen.is_leased() {
        // Before its last start, the server may have used the lease up to its end.
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
    // Slots start at the floor anyway, so an identity that was used up to the floor can be accepted.
    let latest_us = seen.next_us(&seen.tracks[0], begun).min(soon_us.max(begun.floor_us));
    match uses.until_us(identity, 0) {
        Some(until_us) if until_us > latest_us => GatePlan::Refuse { identity, until_us },
        _ => GatePlan::Open { lease, is_another: seen.history.last_identity != Some(identity) },
    }
}

/// Returns whether the server needs another leased identity.
fn is_another_needed(seen: &Seen, uses: &Uses, begun: Begun, gate: GatePlan) -> bool {
    match gate {
        // If the identity has no record of its own, it was refused because of the record for all identities.
        // Another identity would be refused as well.
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
