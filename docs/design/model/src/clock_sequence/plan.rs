//! What the keeper decides: core/src/clock_sequence.rs, and what core/src/keeper_plan.rs says of values. Names are the
//! same, less `_us`.

use crate::clock_sequence::mutation::Mutation;
use crate::clock_sequence::protocol::Protocol;
use crate::clock_sequence::state::*;

impl Uses {
    pub fn until(&self, value: Value) -> u8 {
        self.own[usize::from(value)].or(self.every).unwrap_or(0)
    }

    /// The records as they are to be so that a value was used up to an instant.
    pub fn closed(mut self, value: Value, until: u8) -> Uses {
        self.own[usize::from(value)] = Some(until.max(self.until(value)));
        self
    }

    fn closed_all(self, until: u8) -> Uses {
        Uses { every: self.every.max(Some(until)), own: self.own.map(|own| own.max(own.map(|_| until))) }
    }
}

impl Protocol {
    /// As what was stored is lost: only the last identity goes on with the value in use.
    pub fn after_loss(&self, uses: Uses, has_identity: bool, in_use: Horizon, highest: u8) -> Uses {
        if self.is(Mutation::LossForgets) {
            return uses;
        }
        let mut lost = uses.closed_all(highest);
        if has_identity && in_use.value > 0 {
            let own = &mut lost.own[usize::from(in_use.value)];
            *own = uses.own[usize::from(in_use.value)].max(Some(in_use.until));
        }
        lost
    }

    pub fn is_changed(&self, stored: &Stored, shared: &Shared) -> bool {
        let Past { published, promised, .. } = shared.past;
        let is_promised = stored.readable.value == promised.value;
        match published.value {
            0 => shared.begun.is_some_and(|begun| stored.readable.value != begun.value && !is_promised),
            value if value == stored.readable.value => stored.readable.until < published.until,
            value => !is_promised || promised.value == value,
        }
    }

    pub fn is_lost(&self, stored: &Stored, shared: &Shared) -> bool {
        let past = &shared.past;
        (past.has_place && !stored.is_known)
            || stored.zero < past.zero
            || (self.is_changed(stored, shared) && !self.is(Mutation::ZeroAgain))
    }

    /// What everything that is known says of where the horizon of the value in use has to be at least.
    pub fn known(&self, stored: &Stored, shared: &Shared, begun: Begun) -> u8 {
        let Past { published, promised, .. } = shared.past;
        let known = [stored.readable, published, promised].map(|horizon| horizon.until_of(begun.value));
        let end = shared.slots[usize::from(begun.value)].map_or(0, |slot| slot.counter);
        let end = if begun.value == 0 { end.max(shared.past.zero) } else { end };
        known.into_iter().fold(begun.floor.max(end), u8::max)
    }

    /// One look: the horizons are renewed.
    pub fn plan(&self, stored: &Stored, shared: &Shared, now: u8) -> Look {
        let past = &shared.past;
        let is_lost = self.is_lost(stored, shared);
        let mut begun = shared.begun.unwrap_or_else(|| {
            let from = if is_lost { past.promised } else { stored.readable };
            Begun { value: from.value, floor: from.until, zero_floor: stored.zero.max(past.zero) }
        });
        let known = self.known(stored, shared, begun);
        let uses = match is_lost {
            true => {
                let in_use = Horizon { value: begun.value, until: known };
                self.after_loss(stored.uses, past.has_identity, in_use, past.highest)
            }
            false => stored.uses,
        };
        // The gate is opened at the end of what the identity has made with the value.
        let from = if shared.begun.is_none() && begun.value > 0 { uses.until(begun.value) } else { 0 };
        begun.floor = begun.floor.max(from);
        let end = shared.slots[0].map_or(0, |slot| slot.counter);
        let zero = stored.zero.max(past.zero).max(begun.zero_floor).max(end).max(now + LEASE);
        let horizon = match begun.value {
            0 if begun.floor > 0 && self.is(Mutation::ZeroAgain) => {
                Some(Horizon { value: 0, until: known.max(now + LEASE) })
            }
            0 => (is_lost && stored.readable != Horizon::NONE).then_some(Horizon::NONE),
            value => Some(Horizon { value, until: known.max(now + LEASE).max(from) }),
        };
        Look { zero: Some(zero), horizon, uses, begun, opens: false }
    }

    /// Whether a value may be opened now. (How far ahead of the clock the one in use has to be is left out: it is never
    /// wrong to open another one.)
    pub fn is_free(&self, stored: &Stored, begun: Begun, value: Value, now: u8) -> bool {
        let is_allowed = value > 0 || self.is(Mutation::ZeroAgain);
        let has_ended = stored.uses.until(value) <= now || self.is(Mutation::ReusedEarly);
        is_allowed && value != begun.value && has_ended
    }

    /// The records as they have to be before the value in use is left.
    pub fn closing(&self, stored: &Stored, shared: &Shared, begun: Begun) -> Uses {
        match begun.value {
            0 if !self.is(Mutation::ZeroAgain) => stored.uses,
            value => stored.uses.closed(value, self.known(stored, shared, begun)),
        }
    }
}
