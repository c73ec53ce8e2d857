//! What happens: each step of each process.
//!
//! There is no variable for the clock: it may be set at any moment, so that every reading of it is any of `0..=clock_max`.

use std::cmp::Reverse;

use crate::mutation::Mutation;
use crate::plan::{GatePlan, Seen, Uses};
use crate::state::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The postmaster is killed, or the power fails: all that is not flushed is gone, and all shared memory. Also the end of a clean
    /// stop.
    Crash,
    /// A backend crashes: shared memory is made anew, but the past is carried over. Nothing of the disk is lost.
    CrashOfBackend,
    /// The WAL writer, or the commit of anybody else, flushes what was written.
    FlushWal,
    /// DROP EXTENSION.
    Drop,
    /// CREATE EXTENSION, whose script stores what the server knows of its past.
    Create,
    /// The records of use are emptied.
    Empty,
    /// A slot is given to a layout when it is first used. It begins at the floor. The clock is not asked, unless the protocol
    /// is broken.
    Allocate { slot: usize, clock: u8 },
    /// The keeper locks what is stored, looks at everything and makes a plan; notes the horizon; writes the plan down.
    Look { clock: u8, wanted: Option<Identity>, is_active: bool },
    /// The commit of whatever is written.
    Commit,
    /// Publishes the horizon, to the board and to the slots, in which it is one step: the directory is locked.
    Publish,
    /// Opens the gate, after a fence if there has to be one.
    Open,
    /// Fence: close the gate, ...
    Close(Then),
    /// ... then raise every slot's counter by at least one, then act.
    Raise,
    /// Publishes the end of what was handed out.
    Seal,
    /// Writes it down.
    WriteEnd,
    /// Lets the promise be no higher than the end that is committed.
    Forget,
    /// An administrator orders to begin anew for an identity. The keeper looks at that.
    Order(Identity),
    /// The administrator's call ends, and takes the order back.
    Withdraw,
    /// The order is gone: nothing is done about it.
    LeaveOrder,
    /// After the fence: looks whether everything may begin anew, and shuts out the identities that were used.
    ShutOut { clock: u8 },
    /// Writes a horizon in the present.
    WriteLow { clock: u8 },
    /// It is committed: layouts get new slots.
    BeginAnew,
    /// The keeper is terminated, or fails, wherever it stands. What is not committed is rolled back. Shared memory stays.
    Die,
    /// Only when broken: goes on without its own commit.
    Skip,
    /// A caller loads the counter *first*.
    Load { caller: usize, slot: usize },
    /// It loads gate and limit, reads the clock, and decides. As the clock may be anything at any moment, to read it later would
    /// make no difference.
    Decide { caller: usize, clock: u8 },
    /// The exchange.
    Exchange { caller: usize, watch: bool },
}

/// The protocol with its bounds, and with at most one thing broken.
#[derive(Clone, Copy)]
pub struct Protocol {
    /// One for each slot.
    pub layouts: &'static [Layout],
    pub identities: u8,
    pub callers: usize,
    /// The setting. The lease is always 1.
    pub max_drift: u8,
    pub clock_max: u8,
    /// How what is stored may be lost while the server runs.
    pub losses: &'static [Action],
    /// Whether everything may begin anew.
    pub resets: bool,
    /// Whether callers are told apart, which only a story needs.
    pub names_callers: bool,
    pub broken: Option<Mutation>,
}

impl Protocol {
    pub fn is(&self, mutation: Mutation) -> bool {
        self.broken == Some(mutation)
    }

    /// Every step that some process or the world can take now.
    pub fn steps(&self, state: &State, steps: &mut Vec<Action>) {
        let State { stored, shared, .. } = state;
        if stored.is_some_and(|stored| !is_emptied(&stored)) {
            steps.push(Action::Crash);
        }
        steps.push(Action::CrashOfBackend);
        if stored.is_some_and(|stored| stored.durable != stored.readable) {
            steps.push(Action::FlushWal);
        }
        self.losses(state, steps);
        for slot in 0..self.layouts.len() {
            if shared.slots[slot].is_none() && shared.floor.is_some() {
                let readings = if self.is(Mutation::LateSlotAtClock) { self.clock_max } else { 0 };
                steps.extend((0..=readings).map(|clock| Action::Allocate { slot, clock }));
            }
        }
        self.steps_of_keeper(state, steps);
        if state.order == Order::Waiting {
            steps.push(Action::Withdraw);
        }
        for caller in 0..self.callers {
            self.steps_of_caller(state, caller, steps);
        }
    }

    /// What is stored can be lost whenever the keeper has not locked it, once the keeper has seen it.
    fn losses(&self, state: &State, steps: &mut Vec<Action>) {
        match state.stored {
            None => steps.push(Action::Create),
            Some(_) if state.keeper.is_in_transaction() || state.shared.past.highest == 0 => {}
            Some(_) => steps.extend(self.losses),
        }
    }

    pub fn steps_of_keeper(&self, state: &State, steps: &mut Vec<Action>) {
        let open_for = state.shared.gate;
        let clocks = || 0..=self.clock_max;
        match state.keeper {
            Keeper::Up { has_committed } => {
                if state.stored.is_some() {
                    self.looks(state, steps);
                }
                match open_for {
                    Some(_) if self.is(Mutation::SealUnfenced) && has_committed => steps.push(Action::Seal),
                    Some(_) => steps.push(Action::Close(Then::Seal { has_committed })),
                    None => {}
                }
                if self.resets {
                    let orders = (0..self.identities)
                        .filter(|&identity| self.may_reset(state, identity, self.clock_max));
                    steps.extend(orders.map(Action::Order));
                }
                let is_higher =
                    state.stored.and_then(|stored| stored.readable) > Some(state.shared.past.published);
                if self.is(Mutation::PublishRead) && is_higher && open_for.is_some() {
                    steps.push(Action::Skip);
                }
                return;
            }
            Keeper::Written(_) if self.is(Mutation::PublishFirst) => steps.push(Action::Publish),
            Keeper::Written(_) | Keeper::WrittenEnd(_) | Keeper::WrittenLow { .. } => {
                steps.push(Action::Commit)
            }
            Keeper::Committed(look) => {
                steps.push(Action::Publish);
                if open_for.is_some() {
                    steps.push(Action::Close(Then::Seal { has_committed: look.had_committed }));
                }
            }
            Keeper::Published(GatePlan::Open { identity, from, is_another }) => {
                steps.push(match is_another || from > 0 {
                    true => Action::Close(Then::Open { identity, from, is_another }),
                    false => Action::Open,
                })
            }
            Keeper::Published(_) => steps.push(Action::Close(Then::Close)),
            Keeper::Fencing(then, slot) => steps.push(match then {
                _ if slot < self.layouts.len() => Action::Raise,
                Then::Open { .. } => Action::Open,
                _ => Action::Seal,
            }),
            Keeper::Sealed(_) if state.stored.is_some() => steps.push(Action::WriteEnd),
            Keeper::CommittedEnd(_) => steps.push(Action::Forget),
            Keeper::Ordered(identity) => steps.push(match state.order {
                Order::None => Action::LeaveOrder,
                _ => Action::Close(Then::BeginAnew(identity)),
            }),
            Keeper::ShuttingOut(_) if state.stored.is_some() => {
                steps.extend(clocks().map(|clock| Action::ShutOut { clock }));
            }
            Keeper::ShutOut if state.stored.is_some() => {
                steps.extend(clocks().map(|clock| Action::WriteLow { clock }));
            }
            Keeper::CommittedLow { .. } => steps.push(Action::BeginAnew),
            // What is stored is gone.
            Keeper::Sealed(_) | Keeper::ShuttingOut(_) | Keeper::ShutOut => {}
        }
        steps.push(Action::Die);
    }

    /// The settings may give any identity. An idle keeper does something only about a loss.
    fn looks(&self, state: &State, steps: &mut Vec<Action>) {
        let nobody = (self.identities == 1).then_some(None);
        for wanted in (0..self.identities).map(Some).chain(nobody) {
            for clock in 0..=self.clock_max {
                steps.push(Action::Look { clock, wanted, is_active: true });
                if self.identities == 1 && !self.losses.is_empty() && wanted == state.shared.gate {
                    steps.push(Action::Look { clock, wanted, is_active: false });
                }
            }
        }
    }

    fn steps_of_caller(&self, state: &State, caller: usize, steps: &mut Vec<Action>) {
        match state.callers[caller] {
            Caller { slot: None, .. } => {
                let in_use = (0..self.layouts.len()).filter(|&slot| state.shared.slots[slot].is_some());
                steps.extend(in_use.map(|slot| Action::Load { caller, slot }));
            }
            Caller { first: None, .. } => {
                steps.extend((0..=self.clock_max).map(|clock| Action::Decide { caller, clock }));
            }
            _ => {
                steps.push(Action::Exchange { caller, watch: false });
                if state.watched.is_none() {
                    steps.push(Action::Exchange { caller, watch: true });
                }
            }
        }
    }

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
                stored.as_mut()?.flush();
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
    fn may_reset(&self, state: &State, identity: Identity, now: u8) -> bool {
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
            // It was promised more than this.
            shared.past.last_identity = None;
        }
        if self.is(Mutation::ResetLowersHighest) {
            shared.past.highest = horizon;
        }
    }

    /// `Generator::advance`. A stall ends the attempt, and nothing is taken: then `None`.
    fn decide(&self, caller: Caller, shared: &Shared, clock: u8) -> Option<Caller> {
        let slot = match caller.retired {
            Some(counter) => Slot { counter, limit: 0, end_before: None },
            None => shared.slots[caller.slot?]?,
        };
        let current = caller.current.unwrap_or(slot.counter);
        let identity = caller.identity.or(shared.gate)?;
        let limit = caller.limit.unwrap_or(slot.limit);
        let layout = self.layouts[caller.slot?];
        let first = current.max(layout.counter_at(layout.tick_at(clock)));
        let tick = layout.tick(first);
        let stalls = layout.start_of(tick) > clock + self.max_drift || tick >= limit;
        let decided = Caller {
            current: Some(current),
            identity: Some(identity),
            limit: None,
            first: Some(first),
            ..caller
        };
        (!stalls).then_some(decided)
    }

    /// The exchange. When it succeeds, the ID counts as handed out.
    fn exchange(&self, state: &mut State, caller: usize, watch: bool) -> Option<()> {
        let Caller { slot, current, identity, first, retired, .. } =
            std::mem::take(&mut state.callers[caller]);
        let (at, first) = (slot?, first?);
        let slot = state.shared.slots[at].as_mut();
        let counter = retired.or(slot.as_ref().map(|slot| slot.counter))?;
        if Some(counter) != current {
            return (!watch).then_some(()); // Failed: everything is loaded again.
        }
        if let (None, Some(slot)) = (retired, slot) {
            slot.counter = first + 1;
            slot.end_before = None;
        }
        let tick = self.layouts[at].tick(first);
        let id =
            Id { slot: at, tick, identity: identity?, sequence: first - self.layouts[at].counter_at(tick) };
        match state.watched {
            None if watch => state.watched = Some(id),
            Some(watched) if id == watched => state.verdict = Verdict::Repeated,
            // Who begins anew gives up the order.
            Some(watched) if !self.resets && watched.slot == at && id < watched => {
                state.verdict = Verdict::Smaller;
            }
            _ => {}
        }
        Some(())
    }

    /// The end of what was handed out, over all slots.
    fn end_of_use(&self, shared: &Shared) -> u8 {
        let ends = shared.slots.iter().zip(self.layouts);
        ends.filter_map(|(slot, layout)| Some((*slot)?.end_of_use(*layout))).max().unwrap_or(0)
    }
}

/// Whether the records of use were there once and are gone: in that state a crash of the server, or a stop, forgets who was shut out.
pub fn is_emptied(stored: &Stored) -> bool {
    stored.uses.is_empty() && stored.durable.is_some()
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
    fn is_in_transaction(&self) -> bool {
        matches!(self, Keeper::Written(_) | Keeper::WrittenEnd(_) | Keeper::WrittenLow { .. })
    }
}

impl Default for Keeper {
    fn default() -> Keeper {
        Keeper::Up { has_committed: false }
    }
}
