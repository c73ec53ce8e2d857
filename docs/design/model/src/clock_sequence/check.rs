//! What must hold, and within which bounds.

use stateright::{Model, Property};

use crate::clock_sequence::mutation::Mutation;
use crate::clock_sequence::protocol::{Action, Protocol};
use crate::clock_sequence::state::*;

pub const NO_REPEAT: &str = "no ID is handed out twice, whatever its value";
pub const ORDER: &str = "the IDs of a value increase";
pub const COVERED: &str = "every ID handed out starts before what is durable for its value";
pub const GOES_ON: &str = "with a value that was never used a call gets an ID in the present";

pub const CORRECT: [(&str, &str, Protocol); 3] = [
    ("values", "two callers, clock 0 to 1", bounds(2, 1, false)),
    ("values-longer", "two values, one caller, clock 0 to 2", Protocol { values: 2, ..bounds(1, 2, false) }),
    ("values-lost", "one caller, DROP and CREATE, clock 0 to 1", bounds(1, 1, true)),
];

const fn bounds(callers: usize, clock_max: u8, losses: bool) -> Protocol {
    Protocol { values: VALUES as Value, callers, clock_max, losses, names_callers: false, broken: None }
}

/// The smallest bounds that show what is wrong.
pub fn broken(mutation: Mutation) -> Protocol {
    let bounds = match mutation {
        Mutation::LossForgets => bounds(1, 1, true),
        Mutation::ZeroAgain => Protocol { values: 2, ..bounds(1, 2, false) },
        _ => bounds(1, 1, false),
    };
    Protocol { broken: Some(mutation), ..bounds }
}

impl Model for Protocol {
    type State = State;
    type Action = Action;

    /// A server that was started once, and has handed out nothing.
    fn init_states(&self) -> Vec<State> {
        let stored = Stored {
            is_known: false,
            is_in_hand: false,
            zero: 0,
            durable: Horizon::NONE,
            readable: Horizon::NONE,
            uses: Uses::default(),
        };
        vec![State {
            stored: Some(stored),
            shared: Shared::default(),
            keeper: Keeper::Up,
            callers: Default::default(),
            watched: None,
            verdict: Verdict::Larger,
        }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Action>) {
        if state.verdict == Verdict::Larger {
            self.steps(state, steps);
        }
    }

    fn next_state(&self, state: &State, step: Action) -> Option<State> {
        self.step(state, step)
    }

    fn properties(&self) -> Vec<Property<Protocol>> {
        let mut properties = vec![
            Property::always(NO_REPEAT, |_, state: &State| state.verdict != Verdict::Repeated),
            Property::always(ORDER, |_, state: &State| state.verdict != Verdict::Smaller),
        ];
        if self.broken.is_none() {
            properties.push(Property::always(COVERED, |_, state: &State| is_covered(state)));
            properties.push(Property::always(GOES_ON, |protocol: &Protocol, state| protocol.goes_on(state)));
        }
        properties
    }
}

fn is_covered(state: &State) -> bool {
    let (Some(id), Some(stored)) = (state.watched, state.stored) else { return true };
    let until = match id.value {
        0 => stored.zero,
        value => stored.durable.until_of(value).max(stored.uses.until(value)),
    };
    id.tick < until
}

impl Protocol {
    /// Whether a call of the layout with the field gets an ID at clock 0, if there is a value that was never used, and from
    /// now on nobody else interferes.
    fn goes_on(&self, state: &State) -> bool {
        self.go_on(*state).unwrap_or(true)
    }

    /// `None`: there is no such value.
    fn go_on(&self, mut state: State) -> Option<bool> {
        state.keeper = Keeper::Up;
        state.callers = Default::default();
        if state.stored.is_none() {
            state = self.step(&state, Action::Create)?;
        }
        for step in [Action::Look { clock: 0 }, Action::Commit, Action::Publish] {
            state = self.step(&state, step).unwrap_or(state);
        }
        let (begun, uses) = (state.shared.begun?, state.stored?.uses);
        let value = (1..self.values).find(|&value| value != begun.value && uses.until(value) == 0)?;
        for step in [Action::Record, Action::Write { value, clock: 0 }, Action::Commit, Action::Publish] {
            state = self.step(&state, step).unwrap_or(state);
        }
        if state.shared.slots[usize::from(value)].is_none() {
            state = self.step(&state, Action::Allocate { value })?;
        }
        let caller = 0;
        let attempt = [Action::Load { caller, value }, Action::Decide { caller, clock: 0 }];
        let protocol = Protocol { names_callers: true, ..*self };
        for step in attempt {
            state = protocol.step(&state, step)?;
        }
        Some(state.callers[caller].first == Some(0))
    }
}
