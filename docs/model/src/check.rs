//! What must hold, and within which bounds.

use stateright::{Model, Property};

use crate::mutation::Mutation;
use crate::protocol::{Action, Protocol};
use crate::state::*;

/// Promise 1.
pub const NO_REPEAT: &str = "no ID is handed out twice";
/// Promise 2; it holds across restarts as well.
pub const ORDER: &str = "the IDs of a slot increase";
/// "horizon: written durably before use; a tick may be used only if its start lies before H".
pub const HORIZON: &str = "every ID handed out starts before the durable horizon";
/// "generation resumes as soon as clock + max_drift reaches" the floor.
pub const RESUMES: &str = "generation resumes from everywhere";

/// A name, the bounds. The state is finite: what a fence adds without an ID being made is cut off two units (where everything may
/// begin anew: one) beyond the last ID that the clock allows. Crashes, restarts, errors, resets and IDs are not counted.
pub const CORRECT: [(&str, Protocol); 4] = [
    ("two layouts, clock 0 to 1", bounds(&[FINE, COARSE], 1, 1)),
    ("one layout, clock 0 to 3", bounds(&[FINE], 1, 3)),
    ("one layout, two identities, clock 0 to 2", bounds(&[COARSE], 2, 2)),
    (
        "one layout, two identities, everything may begin anew, clock 0 to 1",
        Protocol { resets: true, ..bounds(&[FINE], 2, 1) },
    ),
];

const fn bounds(layouts: &'static [Layout], identities: u8, clock_max: u8) -> Protocol {
    Protocol { layouts, identities, clock_max, resets: false, broken: None }
}

/// The smallest bounds that show what is wrong.
pub fn broken(mutation: Mutation) -> Protocol {
    let bounds = match mutation {
        Mutation::OpenUnfenced => bounds(&[COARSE], 2, 1),
        _ if mutation.needs_reset() => Protocol { resets: true, ..bounds(&[FINE], 2, 1) },
        _ => bounds(&[FINE], 1, 1),
    };
    Protocol { broken: Some(mutation), ..bounds }
}

impl Model for Protocol {
    type State = State;
    type Action = Action;

    /// A server whose past is known to be empty.
    fn init_states(&self) -> Vec<State> {
        vec![State::default()]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Action>) {
        if state.verdict == Verdict::Larger {
            self.steps(state, steps);
        }
    }

    fn next_state(&self, state: &State, step: Action) -> Option<State> {
        self.step(state, step)
    }

    fn within_boundary(&self, state: &State) -> bool {
        self.end_of_use(&state.shared) <= self.clock_max + MAX_DRIFT + if self.resets { 1 } else { 2 }
    }

    fn properties(&self) -> Vec<Property<Protocol>> {
        let mut properties = vec![
            Property::always(NO_REPEAT, |_, state: &State| state.verdict != Verdict::Repeated),
            Property::always(ORDER, |_, state: &State| state.verdict != Verdict::Smaller),
        ];
        if self.broken.is_none() {
            properties.push(Property::always(HORIZON, Protocol::is_covered));
            properties.push(Property::always(RESUMES, Protocol::resumes));
        }
        properties
    }
}

impl Protocol {
    fn is_covered(&self, state: &State) -> bool {
        // An identity that was used before everything began anew is kept below another one.
        let covers = |id: Id| state.stored.durable.max(state.stored.used[id.identity as usize].unwrap_or(0));
        state.watched.is_none_or(|id| self.layouts[id.slot].start_of(id.tick) < covers(id))
    }

    /// Whether each slot gives an ID if from now on the keeper is left alone, nobody else interferes, and the clock has
    /// come to `max_drift` before the start of the slot's next free tick.
    fn resumes(&self, state: &State) -> bool {
        (0..self.layouts.len()).all(|slot| self.resume(*state, slot).is_some())
    }

    fn resume(&self, state: State, slot: usize) -> Option<State> {
        let mut state = self.run_keeper(state, 0)?;
        if state.shared.slots[slot].is_none() {
            state = self.step(&state, Action::Allocate { slot, clock: 0 })?;
        }
        let layout = self.layouts[slot];
        let clock = layout.start_of(layout.tick(state.shared.slots[slot]?.counter)).saturating_sub(MAX_DRIFT);
        state = self.run_keeper(state, clock)?;
        state.callers[0] = Caller::default();
        let attempt = [
            Action::LoadCounter { caller: 0, slot },
            Action::LoadGate { caller: 0, slot },
            Action::ReadClock { caller: 0, clock },
            Action::Exchange { caller: 0, watch: false },
        ];
        attempt.into_iter().try_fold(state, |state, step| self.step(&state, step))
    }

    /// Runs the keeper until it has renewed the horizon and the gate is open.
    fn run_keeper(&self, mut state: State, clock: u8) -> Option<State> {
        let mut has_renewed = false;
        for _ in 0..50 {
            let step = match state.keeper {
                Keeper::Up if has_renewed && state.shared.gate.is_some() => return Some(state),
                Keeper::Up => Action::Write { clock },
                _ => {
                    let mut steps = Vec::new();
                    self.steps_of_keeper(&state, &mut steps);
                    steps[0]
                }
            };
            has_renewed |= state.keeper == Keeper::Up;
            state = self.step(&state, step)?;
        }
        None
    }
}
