//! What becomes of the state in each step.

use std::cmp::Reverse;

use crate::horizon::mutation::Mutation;
use crate::horizon::plan::{GatePlan, Seen, Uses};
use crate::horizon::protocol::{Action, Protocol};
use crate::horizon::state::*;

impl Protocol {
    /// What becomes of the state; `None` if the step changes nothing.
    pub fn step(&self, before: &State, action: Action) -> Option<State> {
        let mut state = *before;
        let State { stored, shared, keeper, order, callers, .. } = &mut state;
        match (action, *keeper) {
            (Action::Crash, _) => {
                let stored = stored.as_mut()?;
                stored.readable = stored.durable;
                *shared = Shared::default();
                (*keeper, *order, *callers) = Default::default();
            }
            (Action::CrashOfBackend, _) => {
                let (past, place) = (shared.past, shared.place);
                *shared = match self.is(Mutation::PastForgotten) {
                    true => Shared::default(),
                    false => Shared { past, place, ..Shared::default() },
                };
                (*keeper, *order, *callers) = Default::default();
            }
            (Action::FlushWal, _) => stored.as_mut()?.flush(),
            (Action::Drop, _) => *stored = None,
            (Action::Create, _) => *stored = Some(self.create(before)),
            (Action::Empty, _) => stored.as_mut()?.uses = Uses::default(),
            (Action::Allocate { slot, clock }, _) => {
                let begin = if self.is(Mutation::LateSlotAtClock) { clock } else { shared.floor? };
                shared.slots[slot] = Some(self.new_slot(slot, begin, shared.past.published));
            }

            (Action::Look { clock, wanted, is_active }, Keeper::Up { has_committed }) => {
                let stored = stored.as_mut()?;
                // Also what was handed out before this shared memory was made.
                shared.past.highest =
                    shared.past.highest.max(stored.uses.latest()).max(stored.readable.unwrap_or(0));
                let plan = self.plan(&Seen {
                    now: clock,
                    stored: stored.readable,
                    is_elsewhere: shared.place.is_some_and(|known| known != stored.place),
                    uses: stored.uses,
                    past: shared.past,
                    floor: shared.floor,
                    end_of_use: self.end_of_use(shared),
                    wanted,
                    open_for: shared.gate,
                    is_active,
                });
                if let Some(horizon) = plan.horizon {
                    if !self.is(Mutation::PromiseAfterCommit) {
                        shared.promise(horizon);
                    }
                    stored.readable = Some(horizon);
                }
                *keeper = Keeper::Written(Look {
                    place: stored.place,
                    uses: plan.uses,
                    horizon: plan.horizon,
                    floor: plan.floor,
                    gate: plan.gate,
                    had_committed: has_committed,
                });
            }
            (Action::Commit, Keeper::Written(look)) => {
                let stored = stored.as_mut()?;
                stored.uses = look.uses;
                stored.flush();
                *keeper = Keeper::Committed(Look { uses: Uses::default(), ..look });
            }
            (Action::Publish, Keeper::Committed(look) | Keeper::Written(look)) => {
                shared.place = Some(look.place);
                shared.floor.get_or_insert(look.floor);
                if let Some(horizon) = look.horizon {
                    shared.promise(horizon); // It was, unless that is broken.
                    self.publish(shared, horizon);
                }
                *keeper = match look.gate {
                    GatePlan::Stay => {
                        Keeper::Up { has_committed: look.had_committed || look.horizon.is_some() }
                    }
                    GatePlan::Close | GatePlan::Refuse if shared.gate.is_none() => Keeper::default(),
                    gate => Keeper::Published(gate),
                };
            }
            (
                Action::Open,
                Keeper::Published(GatePlan::Open { identity, .. })
                | Keeper::Fencing(Then::Open { identity, .. }, _),
            ) => {
                shared.past.last_identity = Some(identity);
                shared.gate = Some(identity);
                *keeper = Keeper::Up { has_committed: true };
            }
            (Action::Close(then), _) => {
                if !(self.is(Mutation::SealUnclosed) && matches!(then, Then::Seal { .. })) {
                    shared.gate = None;
                }
                if let Then::Open { from, .. } = then {
                    shared.floor = shared.floor.max(Some(from));
                }
                if let (Then::BeginAnew(_), false) = (then, self.is(Mutation::ClaimLate)) {
                    *order = Order::Claimed;
                }
                *keeper = Keeper::Fencing(then, 0);
            }
            (Action::Raise, Keeper::Fencing(then, at)) => {
                if let Some(slot) = &mut shared.slots[at] {
                    self.raise(slot, self.layouts[at], then);
                }
                *keeper = match then {
                    Then::Close if at + 1 == self.layouts.len() => Keeper::default(),
                    _ => Keeper::Fencing(then, at + 1),
                };
            }
            (Action::Seal, then) => {
                let floor = if self.is(Mutation::EndWithoutFloor) { 0 } else { shared.floor.unwrap_or(0) };
                let end = self.end_of_use(shared).max(floor);
                if !self.is(Mutation::SealUnfenced) {
                    self.publish(shared, end);
                }
                *keeper = match then {
                    Keeper::Fencing(Then::BeginAnew(identity), _) => Keeper::ShuttingOut(identity),
                    // What is stored is not ours to lower.
                    Keeper::Fencing(Then::Seal { has_committed: false }, _) => Keeper::default(),
                    _ => Keeper::Sealed(end),
                };
            }
            (Action::WriteEnd, Keeper::Sealed(end)) => {
                stored.as_mut()?.readable = Some(end);
                *keeper = Keeper::WrittenEnd(end);
            }
            (Action::Commit, Keeper::WrittenEnd(end)) => {
                let stored = stored.as_mut()?;
                stored.uses = self.records_to_seal(&stored.uses, &shared.past, stored.readable);
                stored.flush();
                *keeper = Keeper::CommittedEnd(end);
            }
            (Action::Forget, Keeper::CommittedEnd(end)) => {
                shared.past.promised = end;
                *keeper = Keeper::default();
            }

            (Action::Order(identity), _) => {
                *order = Order::Waiting;
                *keeper = Keeper::Ordered(identity);
            }
            (Action::Withdraw, _) => *order = Order::None,
            (Action::LeaveOrder, _) => *keeper = Keeper::default(),
            (Action::ShutOut { clock }, Keeper::ShuttingOut(identity)) => {
                if self.may_reset(before, identity, clock) {
                    let stored = stored.as_mut()?;
                    let end = stored.readable.unwrap_or(0).max(shared.past.highest);
                    stored.uses = self.records_before_reset(&stored.uses, end);
                    stored.flush();
                    *keeper = Keeper::ShutOut;
                } else {
                    (*keeper, *order) = Default::default();
                }
            }
            (Action::WriteLow { clock }, _) => {
                let horizon = clock + self.max_drift + LEASE;
                stored.as_mut()?.readable = Some(horizon);
                *keeper = Keeper::WrittenLow { horizon, clock };
            }
            (Action::Commit, Keeper::WrittenLow { horizon, clock }) => {
                stored.as_mut()?.flush();
                *keeper = Keeper::CommittedLow { horizon, clock };
            }
            (Action::BeginAnew, Keeper::CommittedLow { horizon, clock }) => {
                self.begin_anew(shared, callers, clock, horizon);
                (*keeper, *order) = Default::default();
            }
            (Action::Die, _) => (*keeper, *order) = Default::default(),
            (Action::Skip, _) => {
                let horizon = stored.as_ref()?.readable?;
                self.publish(shared, horizon);
            }

            (Action::Load { caller, slot }, _) => {
                let Slot { counter, limit, .. } = shared.slots[slot]?;
                callers[caller] = match self.is(Mutation::GateBeforeCounter) {
                    false => Caller { slot: Some(slot), current: Some(counter), ..Caller::default() },
                    true => {
                        let identity = Some(shared.gate?);
                        Caller { slot: Some(slot), identity, limit: Some(limit), ..Caller::default() }
                    }
                };
            }
            (Action::Decide { caller, clock }, _) => {
                callers[caller] = self.decide(callers[caller], shared, clock).unwrap_or_default();
            }
            (Action::Exchange { caller, watch }, _) => self.exchange(&mut state, caller, watch)?,
            _ => unreachable!("{action:?} is not offered in {before:?}"),
        }
        self.normalize(&mut state);
        (state != *before).then_some(state)
    }

    /// Makes one of states that differ in nothing that matters.
    fn normalize(&self, state: &mut State) {
        let State { stored, shared, keeper, callers, .. } = state;
        if let (None, Keeper::Up { .. }) = (shared.gate, *keeper) {
            *keeper = Keeper::default(); // Only while the gate is open it matters who has committed.
        }
        let (known, in_hand) = (shared.place, keeper.place_in_hand());
        let rename = |place: &mut u8| {
            *place = match Some(*place) {
                place if place == known => 0,
                place if place == in_hand => 1,
                _ => 2,
            }
        };
        stored.iter_mut().map(|stored| &mut stored.place).for_each(rename);
        keeper.place_in_hand_mut().into_iter().for_each(rename);
        shared.place.iter_mut().for_each(|place| *place = 0);
        for caller in callers.iter_mut() {
            let slot = caller.slot.and_then(|slot| shared.slots[slot]);
            let counter = caller.retired.or(slot.map(|slot| slot.counter));
            // It will fail, whatever it does, as counters only grow.
            if caller.current.is_some_and(|current| Some(current) < counter)
                && !self.is(Mutation::ResetSameSlots)
            {
                *caller = Caller::default();
            }
        }
        if !self.names_callers {
            callers.sort_unstable_by_key(|&caller| Reverse(caller)); // Whoever is idle comes last.
        }
    }

    /// What the script of CREATE EXTENSION stores, in a place that nobody knows.
    fn create(&self, state: &State) -> Stored {
        let Shared { past, floor, .. } = state.shared;
        let mut uses = Uses::default();
        let mut horizon = None;
        if past.highest > 0 {
            self.records(&past, &mut uses);
            horizon = Some(past.promised.max(floor.unwrap_or(0)));
        }
        Stored { place: 2, durable: horizon, readable: horizon, uses }
    }

    fn new_slot(&self, at: usize, begin: u8, published: u8) -> Slot {
        let layout = self.layouts[at];
        let counter = layout.counter_at(layout.first_tick_from(begin));
        Slot { counter, limit: layout.first_tick_from(published), end_before: Some(0) }
    }

    fn publish(&self, shared: &mut Shared, horizon: u8) {
        shared.past.published = horizon;
        for (slot, layout) in shared.slots.iter_mut().zip(self.layouts) {
            if let Some(slot) = slot {
                slot.limit = layout.first_tick_from(horizon);
            }
        }
    }

    fn raise(&self, slot: &mut Slot, layout: Layout, then: Then) {
        let before = slot.counter;
        let raised = match then {
            Then::Open { from, is_another, .. } => {
                let next = if is_another { layout.next_whole_tick(before) } else { before };
                next.max(layout.counter_at(layout.first_tick_from(from)))
            }
            Then::Close | Then::Seal { .. } | Then::BeginAnew(_) => 0,
        };
        slot.end_before = match self.is(Mutation::UnusedTooLow) {
            true => Some(0),
            false => Some(slot.end_of_use(layout)),
        };
        slot.counter = raised.max(before + 1);
    }

    /// Whether everything may begin anew at this time for an identity.
    pub fn may_reset(&self, state: &State, identity: Identity, now: u8) -> bool {
        let Some(stored) = state.stored else { return false };
        let is_elsewhere = state.shared.place.is_some_and(|known| known != stored.place);
        self.check_reset(identity, &stored.uses, &state.shared.past, is_elsewhere, now)
    }

    /// Layouts get new slots. Whoever is in the middle of an attempt still has the old one.
    fn begin_anew(&self, shared: &mut Shared, callers: &mut [Caller; 2], floor: u8, horizon: u8) {
        for caller in callers {
            if let (Some(slot), None) = (caller.slot, caller.retired)
                && !self.is(Mutation::ResetSameSlots)
            {
                caller.retired = shared.slots[slot].map(|slot| slot.counter);
            }
        }
        for (at, slot) in shared.slots.iter_mut().enumerate().filter(|(_, slot)| slot.is_some()) {
            *slot = self.is(Mutation::ResetSameSlots).then(|| self.new_slot(at, floor, horizon));
        }
        shared.floor = Some(floor);
        shared.past.published = horizon;
        shared.past.promised = horizon;
        if !self.is(Mutation::ResetKeepsLast) {
            // It was promised more: a record of its use up to this horizon would say too little.
            shared.past.last_identity = None;
        }
        if self.is(Mutation::ResetLowersHighest) {
            shared.past.highest = horizon;
        }
    }

    /// The end of what was handed out, over all slots.
    fn end_of_use(&self, shared: &Shared) -> u8 {
        let ends = shared.slots.iter().zip(self.layouts);
        ends.filter_map(|(slot, layout)| Some((*slot)?.end_of_use(*layout))).max().unwrap_or(0)
    }
}

impl Stored {
    fn flush(&mut self) {
        self.durable = self.readable;
    }
}

impl Shared {
    /// Notes a horizon before it is stored.
    fn promise(&mut self, horizon: u8) {
        self.past.promised = self.past.promised.max(horizon);
        self.past.highest = self.past.highest.max(horizon);
    }
}

impl Slot {
    fn end_of_use(&self, layout: Layout) -> u8 {
        self.end_before.unwrap_or(layout.end_of_use(self.counter))
    }
}

impl Keeper {
    /// Where it has stored what it is about to publish.
    fn place_in_hand(mut self) -> Option<u8> {
        self.place_in_hand_mut().copied()
    }

    fn place_in_hand_mut(&mut self) -> Option<&mut u8> {
        match self {
            Keeper::Written(look) | Keeper::Committed(look) => Some(&mut look.place),
            _ => None,
        }
    }

    /// Then what is stored is locked.
    pub fn is_in_transaction(&self) -> bool {
        matches!(self, Keeper::Written(_) | Keeper::WrittenEnd(_) | Keeper::WrittenLow { .. })
    }
}

impl Default for Keeper {
    fn default() -> Keeper {
        Keeper::Up { has_committed: false }
    }
}
