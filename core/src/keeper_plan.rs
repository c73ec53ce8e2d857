//! Pure functions that make the keeper's decisions. The keeper process carries out these decisions.
//!
//! The rules are:
//!
//! * A new horizon is never lower than a stored or published horizon, or than the time of an issued ID.
//! * **If the history is unknown, all identities count as used.** If records have been lost, a missing record
//!   does not prove that an identity is unused. Any identity may have been used up to the highest horizon
//!   that this server has ever had. Only the current identity may continue above its own horizon.
//! * IDs of an identity continue above the identity's own high-water mark. If the high-water mark is too far
//!   ahead of the clock, the keeper refuses the identity.
//! * A leased identity is used only within the time range of its lease. The horizon is not extended beyond
//!   the end of this range. If the server is far ahead of its clock and the registry confirms the clock, the
//!   server resets to the current time under an identity that it has never used.
//!
//! Each track ([`crate::track`]) has its own plan, and all tracks share one plan for the gate.
//!
//! All times are in microseconds of Unix time.

use crate::clock_sequence::FAR_AHEAD_US;
use crate::identity::Identity;
use crate::lease::Lease;
use crate::reset::{MOST_AHEAD_US, check_reset, is_history_lost, is_history_unknown};
use crate::track::{Begun, Horizon, TRACKS, Track};
use crate::used::{History, Scope, Use, Uses};

/// The facts that the keeper has gathered in one cycle.
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
    /// True if the server last stored its data in a different database or relation. The extension may have
    /// been dropped and created again, or the keeper may have connected to another database.
    pub is_elsewhere: bool,
    /// The highest horizon that was copied from another database, or 0 if no horizon was copied.
    pub copied_us: i64,
    /// The stored records of identities, and of the times up to which they may have been used.
    pub uses: Uses,
    /// The history of the server in shared memory.
    pub history: History,
    /// The floor that an administrator has requested.
    pub raise_floor_to_us: Option<i64>,
    /// The lease of the identity that comes from the settings, the table or the registry.
    pub wanted: Option<Lease>,
    /// True if the lease was granted before the server was started. Only the stored records show how much of
    /// such a lease has been used.
    pub is_lease_inherited: bool,
    /// The lease for which the gate is open.
    pub open_for: Option<Lease>,
    /// True if the registry has recently confirmed this server's clock.
    pub is_clock_confirmed: bool,
    /// True if an administrator has requested a reset to a different leased identity.
    pub is_reset_requested: bool,
    /// True if enough slots are free to reset all layouts in use.
    pub has_room_for_reset: bool,
    /// True if IDs are being created and the horizon has to be extended.
    pub is_active: bool,
    /// True if the keeper has accepted the clock.
    pub is_clock_good: bool,
}

/// The actions of the keeper in one cycle, in the order of the fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The reason why the server's history is unknown, or `None` if the history is known.
    pub loss: Option<Loss>,
    /// The records of use to store before the horizons.
    pub records: Vec<Use>,
    /// The plan for each track.
    pub tracks: [TrackPlan; TRACKS],
    /// The plan for the gate, which is carried out after the plans for the tracks.
    pub gate: GatePlan,
    /// True if the server has to request another identity from the registry.
    pub is_another_needed: bool,
}

/// The plan for one track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrackPlan {
    /// The clock sequence value of the track, and the start time of its slots.
    pub begun: Begun,
    /// The horizon to store, if any. The horizon is published after it has become durable.
    pub horizon: Option<Horizon>,
    /// The earliest time of IDs if the gate is opened. This time is the later of the start of the lease and
    /// the high-water mark of this identity and value, or 0 if the horizon is the only limit.
    pub from_us: i64,
}

/// The reason why the history is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// No horizon was stored when the server was started. The server is new, or was restored from a dump.
    NothingKnown,
    /// The stored data differs from the data that this server last stored.
    Stored,
}

/// The plan for the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GatePlan {
    /// The gate does not change.
    Stay,
    /// The gate is opened after a fence has raised the counter of each slot to at least the `from_us` of its
    /// track.
    Open {
        /// The lease for which the gate is opened.
        lease: Lease,
        /// True if the gate was last open for a different or unknown identity. In this case, each slot
        /// continues in its next tick to preserve the order of IDs.
        is_another: bool,
    },
    /// The server resets to the current time under an identity that it has never used. The next cycle opens
    /// the gate.
    Reset(Lease),
    /// The gate is closed because the server has no identity.
    Close,
    /// The gate is closed because the identity may have been used up to a time that is too far ahead.
    Refuse {
        /// The identity.
        identity: Identity,
        /// The time up to which the identity may have been used.
        until_us: i64,
    },
}

/// Returns the records to store if stored data was lost, or if a horizon was stored before the server had an
/// identity. In both cases, the existing records cannot be trusted, because they may come from an older copy
/// of the data.
fn lost_records(uses: &Uses, tracks: &[Track; TRACKS], history: &History, is_lost: bool) -> Vec<Use> {
    let is_first = tracks[0].stored != Horizon::NONE && uses.is_empty();
    match is_lost || is_first {
        true => history.records(tracks, &tracks.map(|track| track.begun(is_lost)), uses),
        false => vec![],
    }
}

/// Returns the missing records, which have to be stored together with the shutdown horizon.
pub fn records_at_shutdown(uses: &Uses, tracks: &[Track; TRACKS], history: &History) -> Vec<Use> {
    lost_records(uses, tracks, history, is_history_lost(uses, history, false))
}

/// Returns the plan for one cycle, based on the facts that the keeper has gathered.
pub fn plan(seen: &Seen) -> Plan {
    let is_lost = seen.is_elsewhere
        || seen.history.lacks_record(&seen.uses)
        || seen.tracks.iter().any(Track::is_changed);
    let mut uses = seen.uses.clone();
    let mut records = uses.add(lost_records(&seen.uses, &seen.tracks, &seen.history, is_lost));
    if let Some(until_us) = seen.raise_floor_to_us.filter(|&floor_us| floor_us > 0) {
        // These records prevent the server from issuing IDs below the requested floor. Without the records, a
        // clock sequence value that is opened later would start at the current time, and a leased server that
        // is far ahead of its clock would reset to the current time.
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
            // This record must be stored together with a horizon. A record without a horizon would suggest
            // that the history is known.
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
    /// Returns whether the history is unknown. If there is no horizon, the history is unknown even if there
    /// are records, because a record does not show how far the history extends.
    fn is_unknown(&self) -> bool {
        self.tracks[0].is_unknown()
    }

    /// Returns the clock sequence value of a track, and the start time of its slots. On a new server, slots
    /// start at the current time plus `max_ahead`, because no earlier ID can have a later time. If the stored
    /// horizons were copied from another database, slots do not start below these horizons either.
    fn begun(&self, at: usize, is_lost: bool) -> Begun {
        let track = &self.tracks[at];
        let begun = track.begun(is_lost);
        if at > 0 && begun == Begun::NONE {
            return begun;
        }
        let first_us =
            if self.is_unknown() && track.begun.is_none() { self.soon_us().max(self.copied_us) } else { 0 };
        let floor_us = begun.floor_us.max(first_us).max(self.raise_floor_to_us.unwrap_or(0));
        Begun { floor_us, ..begun }
    }

    /// Returns whether the gate is already open for the wanted lease. The lease may have been renewed since.
    fn is_continued(&self) -> bool {
        self.open_for.zip(self.wanted).is_some_and(|(open, wanted)| open.is_renewed_by(&wanted))
    }

    /// Returns whether the identity is leased from a registry.
    fn is_leased(&self) -> bool {
        self.wanted.is_some_and(|lease| !lease.is_for_good())
    }

    /// Returns the lowest horizon that is allowed for a track.
    fn known_us(&self, track: &Track, begun: Begun) -> i64 {
        let begins_us = self.wanted.filter(|_| !self.is_continued()).map_or(0, |lease| lease.from_us);
        track.known_us(begun).max(begins_us)
    }

    /// Returns the next horizon for a track whose horizon is extended. The current time is ignored if the
    /// keeper has not accepted the clock.
    fn next_us(&self, track: &Track, begun: Begun) -> i64 {
        let reach_us = if self.is_clock_good { self.reach_us().min(self.ends_us()) } else { 0 };
        self.known_us(track, begun).max(reach_us)
    }

    /// Returns the end of the lease.
    fn ends_us(&self) -> i64 {
        self.wanted.map_or(i64::MAX, |lease| lease.until_us)
    }

    /// Returns the latest time that an ID may have at present.
    fn soon_us(&self) -> i64 {
        self.now_us.saturating_add(self.max_ahead_us)
    }

    /// Returns the latest horizon that the current time permits.
    fn reach_us(&self) -> i64 {
        self.soon_us().saturating_add(self.horizon_margin_us)
    }

    /// Returns whether the server should reset to the current time under another leased identity. The server
    /// has to reset if an administrator has requested a reset, or if the server is too far ahead of a clock
    /// that the registry has confirmed.
    fn has_to_reset(&self, uses: &Uses, begun: Begun) -> bool {
        let stands_at_us = begun.floor_us.max(self.tracks[0].end_of_use_us);
        let is_far_ahead = stands_at_us > self.reach_us().saturating_add(FAR_AHEAD_US);
        // The record for all identities blocks every identity up to the recorded time, so an earlier reset
        // would have no effect.
        let can_begin_now = uses.recorded(None, Scope::ZERO).is_none_or(|until_us| until_us <= self.now_us);
        let is_called_for =
            self.is_reset_requested || (is_far_ahead && can_begin_now && self.is_clock_confirmed);
        is_called_for && self.has_room_for_reset
    }
}

/// Plans one track. `from_us` is the high-water mark of the track's value under the identity for which the
/// gate is opened.
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
    // The horizon is above all IDs that the identity may have created, in case the records are lost later.
    let next_us = seen.next_us(track, begun).max(from_us);
    let has_ended = track.published.until_us_of(begun.value) >= next_us.max(seen.ends_us());
    let is_going_on = gate == GatePlan::Stay && seen.is_active && seen.is_clock_good && !has_ended;
    let is_behind = is_lost || seen.raise_floor_to_us > Some(track.stored.until_us());
    let until_us = match gate {
        GatePlan::Open { .. } => next_us,
        _ if is_going_on => next_us,
        _ if is_behind => seen.known_us(track, begun),
        _ => return plan(None),
    };
    plan(Some(Horizon::new(begun.value, until_us)))
}

/// Plans the gate. `begun` contains the value of track 0 and the start time of its slots.
fn plan_gate(seen: &Seen, uses: &Uses, begun: Begun, is_lost: bool) -> GatePlan {
    let Some(lease) = seen.wanted else { return GatePlan::Close };
    let identity = lease.identity;
    if seen.is_unknown() && seen.is_lease_inherited && seen.is_leased() {
        // The server may have used the whole lease before the server was last started.
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
    // An identity that was used up to the floor is acceptable, because slots start at the floor anyway.
    let latest_us = seen.next_us(&seen.tracks[0], begun).min(soon_us.max(begun.floor_us));
    match uses.until_us(identity, 0) {
        Some(until_us) if until_us > latest_us => GatePlan::Refuse { identity, until_us },
        _ => GatePlan::Open { lease, is_another: seen.history.last_identity != Some(identity) },
    }
}

/// Returns whether the server needs another leased identity.
fn is_another_needed(seen: &Seen, uses: &Uses, begun: Begun, gate: GatePlan) -> bool {
    match gate {
        // An identity without its own record was refused because of the record for all identities. This
        // record would block another identity as well.
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
