//! What the keeper decides: core/src/keeper_plan.rs, line by line, in the model's units. Names are the same,
//! less `_us`.
//!
//! Left out: clocks that are not followed, `snowflake_advance()`, and what is waited for and for how long
//! (`MOST_AHEAD_US`). Of several records of one identity only the latest is kept, as nothing else of them is
//! ever asked.

use crate::horizon::mutation::Mutation;
use crate::horizon::protocol::Protocol;
use crate::horizon::state::{IDENTITIES, Identity, LEASE};

/// The records of use: up to when IDs may have been made, 0 as long as only the stored horizon limits it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Uses {
    /// The record that stands for every identity that has none of its own.
    pub everybody: Option<u8>,
    pub own: [Option<u8>; IDENTITIES],
}

impl Uses {
    pub fn until(&self, identity: Identity) -> Option<u8> {
        self.recorded(Some(identity)).or(self.recorded(None))
    }

    fn recorded(&self, identity: Option<Identity>) -> Option<u8> {
        identity.map_or(self.everybody, |identity| self.own[usize::from(identity)])
    }

    pub fn latest(&self) -> u8 {
        self.own.into_iter().flatten().chain(self.everybody).max().unwrap_or(0)
    }

    pub fn is_empty(&self) -> bool {
        *self == Uses::default()
    }

    fn add(&mut self, identity: Option<Identity>, until: u8) {
        let recorded = match identity {
            None => &mut self.everybody,
            Some(identity) => &mut self.own[usize::from(identity)],
        };
        *recorded = (*recorded).max(Some(until));
    }
}

/// What a server knows of its own past without looking at what is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Past {
    pub published: u8,
    pub promised: u8,
    pub highest: u8,
    pub last_identity: Option<Identity>,
}

impl Past {
    fn lacks_record(&self, uses: &Uses) -> bool {
        self.last_identity.is_some_and(|last| uses.recorded(Some(last)).is_none())
    }
}

/// What the keeper sees in one look.
#[derive(Clone, Copy)]
pub struct Seen {
    pub now: u8,
    pub stored: Option<u8>,
    pub is_elsewhere: bool,
    pub uses: Uses,
    pub past: Past,
    pub floor: Option<u8>,
    pub end_of_use: u8,
    pub wanted: Option<Identity>,
    pub open_for: Option<Identity>,
    pub is_active: bool,
}

/// What the keeper is to do, in this order.
#[derive(Clone, Copy)]
pub struct Plan {
    /// The records as they are to be.
    pub uses: Uses,
    pub horizon: Option<u8>,
    pub floor: u8,
    pub gate: GatePlan,
}

/// What is to become of the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GatePlan {
    Stay,
    Open { identity: Identity, from: u8, is_another: bool },
    Close,
    Refuse,
}

impl Protocol {
    /// The records that have to be there; `Past::records()`.
    pub fn records(&self, past: &Past, uses: &mut Uses) {
        if !self.is(Mutation::ScriptOwnOnly) {
            uses.add(None, past.highest);
        }
        if let Some(identity) = past.last_identity {
            uses.add(Some(identity), past.promised);
        }
    }

    /// The records as they have to be because what is stored is not what this server stored.
    fn add_lost_records(&self, uses: &mut Uses, past: &Past, stored: Option<u8>, is_lost: bool) {
        if !(is_lost || (stored.is_some() && uses.is_empty())) || self.is(Mutation::AbsenceIsUnused) {
            return;
        }
        let highest = past.highest.max(stored.unwrap_or(0));
        let known = *uses;
        self.records(&Past { highest, ..*past }, uses);
        for identity in (0..IDENTITIES as Identity).filter(|_| is_lost) {
            if known.recorded(Some(identity)).is_some() && past.last_identity != Some(identity) {
                uses.add(Some(identity), highest);
            }
        }
    }

    /// The records to store together with the end of what was handed out.
    pub fn records_to_seal(&self, uses: &Uses, past: &Past, stored: Option<u8>) -> Uses {
        let mut sealed = *uses;
        self.add_lost_records(&mut sealed, past, stored, past.lacks_record(uses));
        sealed
    }

    pub fn plan(&self, seen: &Seen) -> Plan {
        let past = &seen.past;
        let mut uses = seen.uses;

        let is_lower = seen.stored.unwrap_or(0) < past.published;
        let is_lost = seen.is_elsewhere || is_lower || past.lacks_record(&uses);
        self.add_lost_records(&mut uses, past, seen.stored, is_lost);

        let is_unknown = seen.stored.is_none() && past.highest == 0;
        let first_floor = match seen.stored {
            None if is_unknown => seen.now + self.max_drift,
            _ if is_lost => seen.stored.unwrap_or(0).max(past.promised),
            _ => seen.stored.unwrap_or(0),
        };
        let floor = seen.floor.unwrap_or(first_floor);

        let promised = if is_lost { past.promised } else { past.published };
        let known = [seen.stored.unwrap_or(0), promised, floor, seen.end_of_use];
        let known = known.into_iter().fold(0, u8::max);
        let ahead = seen.now + self.max_drift + LEASE;
        let next = known.max(ahead);

        let gate = self.plan_gate(seen, &uses, next);
        let is_opened = matches!(gate, GatePlan::Open { .. });
        if let GatePlan::Open { identity, from, .. } = gate
            && !self.is(Mutation::RecordAfterOpen)
        {
            uses.add(Some(identity), from);
        }
        let is_renewed = is_opened || (seen.is_active && gate == GatePlan::Stay);
        let horizon = match (is_renewed, is_lost) {
            (true, _) => Some(next),
            (false, true) => Some(known),
            (false, false) => None,
        };
        Plan { uses, horizon, floor, gate }
    }

    fn plan_gate(&self, seen: &Seen, uses: &Uses, next: u8) -> GatePlan {
        let Some(identity) = seen.wanted else { return GatePlan::Close };
        if seen.open_for == Some(identity) {
            return GatePlan::Stay;
        }
        match uses.until(identity) {
            Some(until) if until > next => GatePlan::Refuse,
            until => GatePlan::Open {
                identity,
                from: if self.is(Mutation::ResetUnfenced) { 0 } else { until.unwrap_or(0) },
                is_another: seen.past.last_identity.is_some_and(|last| last != identity)
                    && !self.is(Mutation::OpenUnfenced),
            },
        }
    }

    /// Whether everything may begin anew for an identity.
    pub fn check_reset(
        &self,
        identity: Identity,
        uses: &Uses,
        past: &Past,
        is_elsewhere: bool,
        now: u8,
    ) -> bool {
        if past.last_identity == Some(identity) {
            return false;
        }
        // Without any record nothing is known, unless there is no past at all.
        let are_gone = past.lacks_record(uses)
            || (uses.is_empty() && past.highest > 0 && !self.is(Mutation::AbsenceIsUnused));
        if is_elsewhere || are_gone {
            return false;
        }
        match (uses.recorded(Some(identity)), uses.recorded(None)) {
            (Some(_), _) => false,
            (None, Some(until)) if until > now => false,
            (None, _) => true,
        }
    }

    /// The records with those added that shut out each identity that was used.
    pub fn records_before_reset(&self, uses: &Uses, end: u8) -> Uses {
        let mut shut_out = *uses;
        if !self.is(Mutation::ResetInUse) {
            shut_out.own = uses.own.map(|until| until.max(until.map(|_| end)));
        }
        shut_out
    }
}
