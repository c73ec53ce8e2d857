//! What becomes of the state in each step.

use std::cmp::Reverse;

use crate::clock_sequence::mutation::Mutation;
use crate::clock_sequence::protocol::{Action, Protocol};
use crate::clock_sequence::state::*;

impl Protocol {
    /// What becomes of the state; `None` if the step changes nothing.
    pub fn step(&self, before: &State, action: Action) -> Option<State> {
        let mut state = *before;
        let State { stored, shared, keeper, callers, .. } = &mut state;
        match (action, *keeper) {
            (Action::Crash, _) => {
                let stored = stored.as_mut()?;
                stored.readable = stored.durable;
                *shared = Shared::default();
                (*keeper, *callers) = Default::default();
            }
            (Action::CrashOfBackend, _) => {
                *shared = Shared { past: shared.past, ..Shared::default() };
                (*keeper, *callers) = Default::default();
            }
            (Action::Stop, _) => {
                let (stored, begun) = (stored.as_mut()?, shared.begun?);
                let end = |value: Value, floor| {
                    let slot = shared.slots[self.slot_of(value)];
                    slot.map_or(0, |slot| slot.counter).max(floor)
                };
                stored.zero = end(0, begun.zero_floor);
                if begun.value > 0 {
                    stored.readable = Horizon { value: begun.value, until: end(begun.value, begun.floor) };
                } else if !self.is(Mutation::ZeroAgain) {
                    stored.readable = Horizon::NONE;
                }
                stored.durable = stored.readable;
                *shared = Shared::default();
                (*keeper, *callers) = Default::default();
            }
            (Action::FlushWal, _) => {
                let stored = stored.as_mut()?;
                stored.durable = stored.readable;
            }
            (Action::Drop, _) => *stored = None,
            (Action::Create, _) => *stored = Some(self.create(shared)),

            (Action::Look { clock }, _) => {
                let stored = stored.as_mut()?;
                let known = [stored.zero, stored.readable.until, stored.uses.every.unwrap_or(0)];
                let recorded = stored.uses.own.into_iter().flatten();
                shared.past.highest = known.into_iter().chain(recorded).fold(shared.past.highest, u8::max);
                let look = self.plan(stored, shared, clock);
                shared.past.highest = shared.past.highest.max(look.zero.unwrap_or(0));
                self.write(stored, shared, look);
                *keeper = Keeper::Written(look);
            }
            (Action::Record, _) => {
                let (stored, begun) = (stored.as_mut()?, shared.begun?);
                stored.uses = self.closing(stored, shared, begun);
                stored.durable = stored.readable; // A commit flushes what was written before.
            }
            (Action::Write { value, clock }, _) => {
                let (stored, begun) = (stored.as_mut()?, shared.begun?);
                let uses = match self.is(Mutation::ClosedTogether) {
                    true => self.closing(stored, shared, begun),
                    false => stored.uses,
                };
                let look = Look {
                    zero: None,
                    horizon: Some(Horizon { value, until: clock + LEASE }),
                    uses,
                    begun: Begun { value, floor: clock, ..begun },
                    opens: true,
                };
                self.write(stored, shared, look);
                *keeper = Keeper::Written(look);
            }
            (Action::Commit, Keeper::Written(look)) => {
                let stored = stored.as_mut()?;
                stored.uses = look.uses;
                stored.zero = look.zero.unwrap_or(stored.zero);
                stored.durable = stored.readable;
                *keeper = Keeper::Committed(Look { uses: Uses::default(), ..look });
            }
            (Action::Publish, Keeper::Committed(look) | Keeper::Written(look)) => {
                if let (Some(stored), false) = (stored.as_mut(), look.opens) {
                    stored.is_known = stored.is_in_hand;
                }
                self.publish(shared, look);
                *keeper = Keeper::Up;
            }
            (Action::Die, _) => *keeper = Keeper::Up,

            (Action::Allocate { value }, _) => {
                let floor = self.floor_of(shared.begun?, value);
                let limit = self.limit_of(&shared.past, shared.begun?, value);
                shared.slots[self.slot_of(value)] = Some(Slot { value, counter: floor, limit });
            }
            (Action::Load { caller, value }, _) => {
                let at = self.slot_of(value);
                let current = shared.slots[at]?.counter;
                callers[caller] = Caller { at: Some((at, value)), current, first: None };
            }
            (Action::Decide { caller, clock }, _) => {
                let Caller { at, current, .. } = callers[caller];
                let first = current.max(clock);
                let stalls = first > clock || first >= shared.slots[at?.0]?.limit;
                callers[caller] =
                    if stalls { Caller::default() } else { Caller { at, current, first: Some(first) } };
            }
            (Action::Exchange { caller, watch }, _) => {
                let Caller { at, current, first } = std::mem::take(&mut callers[caller]);
                let ((at, value), first) = (at?, first?);
                let slot = shared.slots[at].as_mut()?;
                if slot.counter != current {
                    return (!watch).then_some(self.normalized(state));
                }
                slot.counter = first + 1;
                let id = Id { value, tick: first };
                match state.watched {
                    None if watch => state.watched = Some(id),
                    Some(watched) if id == watched => state.verdict = Verdict::Repeated,
                    Some(watched) if watched.value == value && id.tick < watched.tick => {
                        state.verdict = Verdict::Smaller;
                    }
                    _ => {}
                }
            }
            _ => unreachable!("{action:?} is not offered in {before:?}"),
        }
        let state = self.normalized(state);
        (state != *before).then_some(state)
    }

    /// Makes one of states that differ in nothing that matters.
    fn normalized(&self, mut state: State) -> State {
        if state.keeper == Keeper::Up
            && let Some(stored) = &mut state.stored
        {
            stored.is_in_hand = false;
        }
        for caller in &mut state.callers {
            let counter = caller.at.and_then(|(at, _)| state.shared.slots[at]).map(|slot| slot.counter);
            if Some(caller.current) != counter {
                *caller = Caller::default(); // It will fail, whatever it does.
            }
        }
        if !self.names_callers {
            state.callers.sort_unstable_by_key(|&caller| Reverse(caller));
        }
        state
    }

    /// Promises, and then writes.
    fn write(&self, stored: &mut Stored, shared: &mut Shared, look: Look) {
        stored.is_in_hand = true;
        if let Some(horizon) = look.horizon {
            let past = &mut shared.past;
            past.highest = past.highest.max(horizon.until);
            if past.promised.until_of(horizon.value) <= horizon.until {
                past.promised = horizon;
            }
            stored.readable = horizon;
        }
    }

    fn publish(&self, shared: &mut Shared, look: Look) {
        let past = &mut shared.past;
        if let Some(zero) = look.zero {
            (past.has_place, past.has_identity) = (true, true);
            past.zero = zero;
        }
        past.published = look.horizon.unwrap_or(past.published);
        let begun = match look.opens {
            true => look.begun,
            false => *shared.begun.get_or_insert(look.begun),
        };
        shared.begun = Some(begun);
        if let (true, Some(slot)) = (look.opens, &mut shared.slots[self.slot_of(begun.value)]) {
            slot.counter = slot.counter.max(begun.floor);
        }
        let past = shared.past;
        for slot in shared.slots.iter_mut().flatten() {
            slot.limit = self.limit_of(&past, begun, slot.value);
        }
    }

    fn floor_of(&self, begun: Begun, value: Value) -> u8 {
        let is_opened_zero = self.is(Mutation::ZeroAgain) && begun.value == 0 && begun.floor > 0;
        if value == 0 && !is_opened_zero { begun.zero_floor } else { begun.floor }
    }

    fn limit_of(&self, past: &Past, begun: Begun, value: Value) -> u8 {
        let is_opened_zero = self.is(Mutation::ZeroAgain) && begun.value == 0 && begun.floor > 0;
        if value == 0 && !is_opened_zero { past.zero } else { past.published.until_of(value) }
    }

    /// What the script of CREATE EXTENSION stores.
    fn create(&self, shared: &Shared) -> Stored {
        let Past { promised, highest, has_identity, .. } = shared.past;
        let value = match (promised.value, shared.begun) {
            (0, Some(begun)) if begun.value > 0 => Horizon { value: begun.value, until: begun.floor },
            (value, Some(begun)) if value == begun.value && value > 0 => {
                Horizon { value, until: promised.until.max(begun.floor) }
            }
            _ => promised,
        };
        let uses = self.after_loss(Uses::default(), has_identity, value, highest);
        Stored { is_known: false, is_in_hand: false, zero: highest, durable: value, readable: value, uses }
    }
}
