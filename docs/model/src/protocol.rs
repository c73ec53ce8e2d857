//! What happens: each step of each process. Quotations are from the design.
//!
//! There is no variable for the clock: it may be set at any moment, so that every reading of it is any of
//! `0..=clock_max`.

use crate::mutation::Mutation;
use crate::state::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// "not across `kill -9` of the postmaster, power loss": all that is not flushed is gone.
    Crash,
    /// The WAL writer, or the commit of anybody else, flushes what was written.
    FlushWal,
    /// "Slots are allocated under an LWLock, at the first nextval with that layout, starting at the floor." The clock
    /// is not asked, unless the protocol is broken.
    Allocate {
        slot: usize,
        clock: u8,
    },
    /// "Start: the floor is the stored H", once in the life of a server.
    Start,
    /// "H = max(stored, last published, every slot's counter, clock + max_drift + lease)": the `setval()`.
    Write {
        clock: u8,
    },
    /// "commits H first"
    Commit,
    /// An error between `setval()` and commit. "After any error it sets and commits anew."
    Error,
    /// "then publishes it": one word at a time.
    Publish,
    /// Opens the gate, if for another identity than before then after a fence.
    Open {
        identity: u8,
    },
    /// "fence = close the gate, ..."
    Close(Then),
    /// "... then move every slot's counter up by at least one, then act, then open"; a change of identity "moves each
    /// slot to its next tick, so that order holds".
    Raise,
    /// "after a clean stop ... the keeper fences and stores the exact end"
    WriteEnd,
    CommitEnd,
    /// `snowflake_reset_horizon()`, after the fence: notes up to when each identity may have been used, ...
    ShutOut,
    /// ... writes a horizon in the present; when that is committed, layouts get new slots.
    WriteLow {
        clock: u8,
    },
    /// The keeper is terminated, or fails, wherever it stands. Shared memory stays.
    Die,
    /// Only when broken: goes on without its own commit.
    Skip,
    /// "current = slot.counter: loaded FIRST"
    LoadCounter {
        caller: usize,
        slot: usize,
    },
    /// "identity = gate; limit = slot.horizon; closed: stall, nothing taken"
    LoadGate {
        caller: usize,
        slot: usize,
    },
    /// "now = clock; first = max(current, now_tick << S)", and the checks that stand before the exchange.
    ReadClock {
        caller: usize,
        clock: u8,
    },
    /// "compare_exchange(current, next)"
    Exchange {
        caller: usize,
        watch: bool,
    },
}

/// The protocol with its bounds, and with at most one thing broken.
#[derive(Clone, Copy)]
pub struct Protocol {
    /// One for each slot.
    pub layouts: &'static [Layout],
    pub identities: u8,
    pub clock_max: u8,
    /// Whether everything may begin anew.
    pub resets: bool,
    pub broken: Option<Mutation>,
}

impl Protocol {
    pub fn is(&self, mutation: Mutation) -> bool {
        self.broken == Some(mutation)
    }

    /// Every step that some process or the world can take now.
    pub fn steps(&self, state: &State, steps: &mut Vec<Action>) {
        let shared = &state.shared;
        steps.push(Action::Crash);
        if state.stored.durable != state.stored.readable {
            steps.push(Action::FlushWal);
        }
        for slot in 0..self.layouts.len() {
            if shared.slots[slot].is_none() && shared.floor.is_some() {
                let readings = if self.is(Mutation::LateSlotAtClock) { self.clock_max } else { 0 };
                steps.extend((0..=readings).map(|clock| Action::Allocate { slot, clock }));
            }
        }
        self.steps_of_keeper(state, steps);
        for caller in 0..state.callers.len() {
            self.steps_of_caller(state, caller, steps);
        }
    }

    pub fn steps_of_keeper(&self, state: &State, steps: &mut Vec<Action>) {
        match state.keeper {
            Keeper::Down => return steps.push(Action::Start),
            Keeper::Up => {
                steps.extend((0..=self.clock_max).map(|clock| Action::Write { clock }));
                steps.push(Action::Close(Then::Stop));
                if let Some(open_for) = state.shared.gate {
                    let others = || (0..self.identities).filter(|&identity| identity != open_for);
                    let allowed = others().filter(|&identity| self.is_allowed(state, identity));
                    steps.extend(allowed.map(|identity| Action::Close(Then::Open(identity))));
                    if self.resets {
                        let unused = others().filter(|&identity| state.stored.used[identity as usize].is_none());
                        steps.extend(unused.map(|identity| Action::Close(Then::Reset(identity))));
                    }
                }
                let may_skip = self.is(Mutation::PublishRead)
                    && state.stored.readable > state.shared.published
                    || self.is(Mutation::OpenAtOnce)
                        && state.shared.gate.is_none()
                        && state.shared.published > 0;
                if may_skip {
                    steps.push(Action::Skip);
                }
            }
            Keeper::Written(_) if self.is(Mutation::PublishFirst) => steps.push(Action::Skip),
            Keeper::Written(_) | Keeper::WrittenLow { .. } => steps.extend([Action::Commit, Action::Error]),
            Keeper::ShutOut => {
                steps.extend((0..=self.clock_max).map(|clock| Action::WriteLow { clock }));
            }
            Keeper::Publishing(..) => steps.push(Action::Publish),
            Keeper::Opening => {
                let allowed = (0..self.identities).filter(|&identity| self.is_allowed(state, identity));
                steps.extend(allowed.map(|identity| Action::Open { identity }));
            }
            Keeper::Fencing(Then::Reset(_), slot) if slot == self.layouts.len() => steps.push(Action::ShutOut),
            Keeper::Fencing(Then::Stop, slot) if slot == self.layouts.len() => steps.push(Action::WriteEnd),
            Keeper::Fencing(Then::Open(identity), slot) if slot == self.layouts.len() => {
                steps.push(Action::Open { identity });
            }
            Keeper::Fencing(..) => steps.push(Action::Raise),
            Keeper::Sealing => steps.push(Action::CommitEnd),
        }
        steps.push(Action::Die);
    }

    fn steps_of_caller(&self, state: &State, caller: usize, steps: &mut Vec<Action>) {
        let gate_first = self.is(Mutation::GateBeforeCounter);
        match state.callers[caller] {
            Caller { slot: None, .. } => {
                let in_use = (0..self.layouts.len()).filter(|&slot| state.shared.slots[slot].is_some());
                steps.extend(in_use.map(|slot| match gate_first {
                    false => Action::LoadCounter { caller, slot },
                    true => Action::LoadGate { caller, slot },
                }));
            }
            Caller { first: Some(_), .. } => {
                steps.push(Action::Exchange { caller, watch: false });
                if state.watched.is_none() {
                    steps.push(Action::Exchange { caller, watch: true });
                }
            }
            Caller { slot: Some(slot), limit: None, .. } => steps.push(Action::LoadGate { caller, slot }),
            Caller { slot: Some(slot), current: None, .. } => {
                steps.push(Action::LoadCounter { caller, slot })
            }
            _ => steps.extend((0..=self.clock_max).map(|clock| Action::ReadClock { caller, clock })),
        }
    }

    /// What becomes of the state; `None` if the step changes nothing.
    pub fn step(&self, before: &State, action: Action) -> Option<State> {
        let mut state = *before;
        let State { stored, shared, keeper, callers, .. } = &mut state;
        let end_of_use = self.end_of_use(shared);
        match (action, *keeper) {
            (Action::Crash, _) => {
                stored.readable = stored.durable;
                *shared = Shared::default();
                *keeper = Keeper::Down;
                *callers = Default::default();
            }
            (Action::FlushWal, _) => stored.durable = stored.readable,
            (Action::Allocate { slot, clock }, _) => {
                let begin = if self.is(Mutation::LateSlotAtClock) { clock } else { shared.floor? };
                let counter = self.layouts[slot].counter_at(self.layouts[slot].first_tick_from(begin));
                shared.slots[slot] =
                    Some(Slot { counter, limit: self.layouts[slot].first_tick_from(shared.published) });
            }

            (Action::Start, _) => {
                shared.floor.get_or_insert(stored.readable);
                *keeper = Keeper::Up;
            }
            (Action::Write { clock }, _) => {
                let known = stored.readable.max(shared.published).max(end_of_use);
                stored.readable = known.max(clock + MAX_DRIFT + LEASE);
                *keeper = Keeper::Written(stored.readable);
            }
            (Action::Commit, Keeper::WrittenLow { horizon, clock }) => {
                stored.durable = stored.readable;
                shared.floor = Some(clock);
                shared.published = horizon;
                self.begin_anew(shared, callers);
                *keeper = Keeper::Opening;
            }
            (Action::Commit, Keeper::Written(horizon)) => {
                stored.durable = stored.readable;
                *keeper = Keeper::Publishing(horizon, 0);
            }
            (Action::Error, _) => *keeper = Keeper::Up,
            (Action::Publish, Keeper::Publishing(horizon, word)) => {
                match word {
                    0 => shared.published = horizon,
                    _ => {
                        if let Some(slot) = &mut shared.slots[word - 1] {
                            slot.limit = self.layouts[word - 1].first_tick_from(horizon);
                        }
                    }
                }
                *keeper = match shared.gate {
                    _ if word < self.layouts.len() => Keeper::Publishing(horizon, word + 1),
                    None => Keeper::Opening,
                    Some(_) => Keeper::Up,
                };
            }
            (Action::Open { identity }, Keeper::Opening)
                if shared.identity.is_some_and(|last| last != identity)
                    && !self.is(Mutation::OpenUnfenced)
                    || self.used_until(before, identity) > 0 =>
            {
                shared.floor = shared.floor.max(Some(self.used_until(before, identity)));
                *keeper = Keeper::Fencing(Then::Open(identity), 0);
            }
            (Action::Open { identity }, _) => {
                if self.resets {
                    stored.used[identity as usize].get_or_insert(0);
                }
                shared.gate = Some(identity);
                shared.identity = shared.gate;
                *keeper = Keeper::Up;
            }
            (Action::Close(then), _) => {
                if !self.is(Mutation::StopUnclosed) {
                    shared.gate = None;
                }
                if let Then::Open(identity) = then {
                    shared.floor = shared.floor.max(Some(self.used_until(before, identity)));
                }
                *keeper = Keeper::Fencing(then, 0);
            }
            (Action::Raise, Keeper::Fencing(then, at)) => {
                if let Some(slot) = &mut shared.slots[at] {
                    let layout = self.layouts[at];
                    let next_tick = layout.counter_at(layout.next_unused_tick(slot.counter));
                    slot.counter = match then {
                        Then::Stop | Then::Reset(_) => slot.counter + 1,
                        Then::Open(identity) => {
                            let until = self.used_until(before, identity);
                            let from = if shared.identity == Some(identity) { slot.counter } else { next_tick };
                            from.max(slot.counter + 1).max(layout.counter_at(layout.first_tick_from(until)))
                        }
                    };
                }
                *keeper = Keeper::Fencing(then, at + 1);
            }
            (Action::ShutOut, _) => {
                let until = stored.readable.max(shared.published).max(shared.floor?).max(end_of_use);
                if !self.is(Mutation::ResetInUse) {
                    for used in stored.used.iter_mut().flatten() {
                        *used = until.max(*used);
                    }
                }
                *keeper = Keeper::ShutOut;
            }
            (Action::WriteLow { clock }, _) => {
                stored.readable = clock + MAX_DRIFT + LEASE;
                *keeper = Keeper::WrittenLow { horizon: stored.readable, clock };
            }
            (Action::WriteEnd, _) => {
                let floor = if self.is(Mutation::EndWithoutFloor) { 0 } else { shared.floor? };
                stored.readable = floor.max(end_of_use);
                *keeper = Keeper::Sealing;
            }
            (Action::CommitEnd, _) => {
                stored.durable = stored.readable;
                *keeper = Keeper::Down;
            }
            (Action::Die, _) => *keeper = Keeper::Down,
            (Action::Skip, Keeper::Up) if self.is(Mutation::OpenAtOnce) => *keeper = Keeper::Opening,
            (Action::Skip, _) => *keeper = Keeper::Publishing(stored.readable, 0),

            (Action::LoadGate { caller, .. } | Action::LoadCounter { caller, .. }, _)
                if callers[caller].retired.is_some() =>
            {
                // The limit of a slot that is retired is 0.
                callers[caller] = Caller::default();
            }
            (Action::LoadCounter { caller, slot }, _) => {
                callers[caller].slot = Some(slot);
                callers[caller].current = Some(shared.slots[slot]?.counter);
            }
            (Action::LoadGate { caller, slot }, _) => match shared.gate {
                None => callers[caller] = Caller::default(),
                Some(_) => {
                    callers[caller].slot = Some(slot);
                    callers[caller].identity = shared.gate;
                    callers[caller].limit = Some(shared.slots[slot]?.limit);
                }
            },
            (Action::ReadClock { caller, clock }, _) => {
                callers[caller] = self.decide(callers[caller], clock)?
            }
            (Action::Exchange { caller, watch }, _) => self.exchange(&mut state, caller, watch)?,
            _ => unreachable!("{action:?} is not offered in {before:?}"),
        }
        (state != *before).then_some(state)
    }

    /// The exchange. When it succeeds, the ID counts as handed out.
    fn exchange(&self, state: &mut State, caller: usize, watch: bool) -> Option<()> {
        let Caller { slot, current, identity, first, retired, .. } = std::mem::take(&mut state.callers[caller]);
        let (at, first) = (slot?, first?);
        let slot = state.shared.slots[at].as_mut();
        let counter = retired.or(slot.as_ref().map(|slot| slot.counter))?;
        if Some(counter) != current {
            return (!watch).then_some(()); // Failed: everything is loaded again.
        }
        if let (None, Some(slot)) = (retired, slot) {
            slot.counter = first + 1;
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

    /// Whether the gate may be opened for an identity: not while it may have been used up to a time that lies ahead.
    fn is_allowed(&self, state: &State, identity: u8) -> bool {
        state.stored.used[identity as usize].is_none_or(|until| until <= state.stored.readable)
    }

    /// Where an identity that was used before everything began anew may begin.
    fn used_until(&self, state: &State, identity: u8) -> u8 {
        match self.is(Mutation::ResetUnfenced) {
            true => 0,
            false => state.stored.used[identity as usize].unwrap_or(0),
        }
    }

    /// Layouts get new slots. Whoever is in the middle of an attempt still has the old one.
    fn begin_anew(&self, shared: &mut Shared, callers: &mut [Caller; 2]) {
        if self.is(Mutation::ResetSameSlots) {
            for (slot, layout) in shared.slots.iter_mut().zip(self.layouts) {
                if let Some(slot) = slot {
                    slot.counter = layout.counter_at(layout.first_tick_from(shared.floor.unwrap_or(0)));
                    slot.limit = layout.first_tick_from(shared.published);
                }
            }
            return;
        }
        for caller in callers {
            if let (Some(slot), None) = (caller.slot, caller.retired) {
                caller.retired = shared.slots[slot].map(|slot| slot.counter);
            }
        }
        shared.slots = Default::default();
    }

    /// `Generator::advance`: a stall ends the attempt, and nothing is taken.
    fn decide(&self, caller: Caller, clock: u8) -> Option<Caller> {
        let layout = self.layouts[caller.slot?];
        let first = caller.current?.max(layout.counter_at(layout.tick_at(clock)));
        let tick = layout.tick(first);
        let stalls = layout.start_of(tick) > clock + MAX_DRIFT || tick >= caller.limit?;
        Some(if stalls { Caller::default() } else { Caller { first: Some(first), limit: None, ..caller } })
    }

    /// The end of what was handed out, over all slots.
    pub fn end_of_use(&self, shared: &Shared) -> u8 {
        let ends = shared.slots.iter().zip(self.layouts);
        ends.filter_map(|(slot, layout)| Some(layout.end_of_use((*slot)?.counter))).max().unwrap_or(0)
    }
}
