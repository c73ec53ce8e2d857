//! What can happen: each step of each process, and when it is possible.
//!
//! There is no variable for the clock: it may be set at any moment, so that every reading of it is any of
//! `0..=clock_max`.

use crate::horizon::mutation::Mutation;
use crate::horizon::plan::GatePlan;
use crate::horizon::state::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The postmaster is killed, or the power fails: all that is not flushed is gone, and all shared memory.
    /// Also the end of a clean stop.
    Crash,
    /// A backend crashes: shared memory is made anew, but the past is carried over. Nothing of the disk is
    /// lost.
    CrashOfBackend,
    /// The WAL writer, or the commit of anybody else, flushes what was written.
    FlushWal,
    /// DROP EXTENSION.
    Drop,
    /// CREATE EXTENSION, whose script stores what the server knows of its past.
    Create,
    /// The records of use are emptied.
    Empty,
    /// A slot is given to a layout when it is first used. It begins at the floor. The clock is not asked,
    /// unless the protocol is broken.
    Allocate { slot: usize, clock: u8 },
    /// The keeper locks what is stored, looks at everything and makes a plan; notes the horizon; writes the
    /// plan down.
    Look { clock: u8, wanted: Option<Identity>, is_active: bool },
    /// The commit of whatever is written.
    Commit,
    /// Publishes the horizon, to the board and to the slots, in which it is one step: the directory is
    /// locked.
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
    /// The keeper is terminated, or fails, wherever it stands. What is not committed is rolled back. Shared
    /// memory stays.
    Die,
    /// Only when broken: goes on without its own commit.
    Skip,
    /// A caller loads the counter *first*.
    Load { caller: usize, slot: usize },
    /// It loads gate and limit, reads the clock, and decides. As the clock may be anything at any moment, to
    /// read it later would make no difference.
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
}

/// Whether the records of use were there once and are gone. A server that ends then has forgotten who was
/// shut out.
pub fn is_emptied(stored: &Stored) -> bool {
    stored.uses.is_empty() && stored.durable.is_some()
}
