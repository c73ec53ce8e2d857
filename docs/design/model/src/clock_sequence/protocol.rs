//! What can happen: each step of each process, and when it is possible. The clock may read anything at any moment.

use crate::clock_sequence::mutation::Mutation;
use crate::clock_sequence::state::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The postmaster is killed, or the power fails; also a promotion: what was flushed is there.
    Crash,
    /// A backend crashes: shared memory is made anew, but for the past.
    CrashOfBackend,
    /// A clean stop: fence, and the exact ends are stored.
    Stop,
    /// Somebody flushes the WAL.
    FlushWal,
    /// DROP EXTENSION.
    Drop,
    /// CREATE EXTENSION, whose script stores what the server knows of its past.
    Create,
    /// The keeper looks: it writes the next horizons.
    Look {
        clock: u8,
    },
    /// It records the end of the value in use: a transaction of its own.
    Record,
    /// It promises and writes another value.
    Write {
        value: Value,
        clock: u8,
    },
    /// The commit of what is written.
    Commit,
    Publish,
    /// The keeper is terminated.
    Die,
    /// A layout gets the slot of a value.
    Allocate {
        value: Value,
    },
    /// A caller loads the counter of a slot: the one that its session knows, which may be that of a value that was left.
    Load {
        caller: usize,
        value: Value,
    },
    Decide {
        caller: usize,
        clock: u8,
    },
    Exchange {
        caller: usize,
        watch: bool,
    },
}

/// The protocol with its bounds, and with at most one thing broken.
#[derive(Clone, Copy)]
pub struct Protocol {
    /// How many values there are, 0 included.
    pub values: Value,
    pub callers: usize,
    pub clock_max: u8,
    /// Whether the extension is dropped and created again.
    pub losses: bool,
    /// Whether callers are told apart, which only a story needs.
    pub names_callers: bool,
    pub broken: Option<Mutation>,
}

impl Protocol {
    pub fn is(&self, mutation: Mutation) -> bool {
        self.broken == Some(mutation)
    }

    /// Which slot a layout has while its value is this one.
    pub fn slot_of(&self, value: Value) -> usize {
        if self.is(Mutation::KeyWithoutValue) { 0 } else { value.into() }
    }

    pub fn steps(&self, state: &State, steps: &mut Vec<Action>) {
        let State { stored, shared, keeper, .. } = state;
        if let Some(stored) = stored {
            steps.push(Action::Crash);
            if stored.durable != stored.readable {
                steps.push(Action::FlushWal);
            }
            if *keeper == Keeper::Up && shared.begun.is_some() {
                steps.push(Action::Stop);
            }
        }
        steps.push(Action::CrashOfBackend);
        let is_locked = matches!(keeper, Keeper::Written(_));
        match stored {
            None => steps.push(Action::Create),
            Some(_) if self.losses && !is_locked && shared.past.highest > 0 => steps.push(Action::Drop),
            Some(_) => {}
        }
        self.steps_of_keeper(state, steps);
        for value in self.values_in_use(shared) {
            if shared.slots[self.slot_of(value)].is_none() {
                steps.push(Action::Allocate { value });
            }
        }
        for caller in 0..self.callers {
            self.steps_of_caller(state, caller, steps);
        }
    }

    fn values_in_use(&self, shared: &Shared) -> Vec<Value> {
        let Some(begun) = shared.begun else { return vec![] };
        let mut values = vec![0, begun.value];
        values.dedup();
        values
    }

    fn steps_of_keeper(&self, state: &State, steps: &mut Vec<Action>) {
        let clocks = 0..=self.clock_max;
        match (state.keeper, &state.stored) {
            (Keeper::Up, None) => {}
            (Keeper::Up, Some(stored)) => {
                steps.extend(clocks.clone().map(|clock| Action::Look { clock }));
                let Some(begun) = state.shared.begun else { return };
                if self.is_lost(stored, &state.shared) {
                    return;
                }
                let is_closed = self.closing(stored, &state.shared, begun) == stored.uses;
                if !is_closed && !self.is(Mutation::ClosedTogether) {
                    steps.push(Action::Record);
                    return;
                }
                for value in 0..self.values {
                    let now = clocks.clone().filter(|&clock| self.is_free(stored, begun, value, clock));
                    steps.extend(now.map(|clock| Action::Write { value, clock }));
                }
            }
            (Keeper::Written(look), _) => {
                let is_early = self.is(Mutation::OpenedFirst) && look.opens;
                steps.push(if is_early { Action::Publish } else { Action::Commit });
                steps.push(Action::Die);
            }
            (Keeper::Committed(_), _) => {
                steps.push(Action::Publish);
                steps.push(Action::Die);
            }
        }
    }

    fn steps_of_caller(&self, state: &State, caller: usize, steps: &mut Vec<Action>) {
        match state.callers[caller] {
            Caller { at: None, .. } => {
                let values = (0..VALUES as Value).filter(|&value| match self.is(Mutation::KeyWithoutValue) {
                    false => state.shared.slots[usize::from(value)].is_some(),
                    true => {
                        state.shared.slots[0].is_some() && self.values_in_use(&state.shared).contains(&value)
                    }
                });
                steps.extend(values.map(|value| Action::Load { caller, value }));
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
