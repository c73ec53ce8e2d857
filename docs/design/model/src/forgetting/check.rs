//! The properties of a registry that forgets, and the bounds.

use stateright::{Model, Property};

use crate::forgetting::mutation::Mutation;
use crate::forgetting::protocol::{Action, Ask, Protocol, Way};
use crate::forgetting::state::*;

pub const DISJOINT: &str = "no tick of the identity is given to two servers";
pub const NO_REPEAT: &str = "no number is given twice";
pub const NO_ALARM: &str = "a registry that has forgotten nothing does not conclude that it has";
/// After all servers have been heard and the wait is over.
pub const GIVEN: &str = "in the end a server gets the identity, and a number unless the segment is closed";

/// The bounds, with their names and descriptions.
pub const CORRECT: [(&str, &str, Protocol); 8] = [
    ("set-back", "every server reaches the registry, which is set back twice", SET_BACK),
    ("ranges", "the same once; numbers are given two at a time", RANGES),
    ("liars", "the same once; a liar has the privileges of a server", LIARS),
    ("clocks", "the same; clocks are wrong, leases are left", CLOCKS),
    (
        "cut-off",
        "servers are cut off, no witness shortens the wait, the clock is set; only identities",
        CUT_OFF,
    ),
    ("requests", "the same; starts without a loss, after which an administrator ends the wait", REQUESTS),
    ("frozen", "the registry is frozen, and set back; another one begins where its leases end", FROZEN),
    ("proved", "servers are cut off, a witness shortens the wait, and others prove the loss", PROVED),
];

const SET_BACK: Protocol = Protocol {
    time_max: 2,
    lease: 1,
    margin: 1,
    numbers: 2,
    step: 1,
    ways: &[Way::Silently, Way::Noticed],
    forgets: 2,
    clocks: &[0],
    clock_steps: 0,
    cuts: false,
    shortens: true,
    offs: false,
    leaves: false,
    restarts: true,
    requests: false,
    freezes: 0,
    lies: 0,
    names_servers: false,
    broken: None,
};
const RANGES: Protocol = Protocol { numbers: 4, step: 2, forgets: 1, ..SET_BACK };
const LIARS: Protocol = Protocol { forgets: 1, lies: 2, ..SET_BACK };
const REQUESTS: Protocol =
    Protocol { time_max: 2, clock_steps: 1, restarts: true, requests: true, ..CUT_OFF };
const CLOCKS: Protocol = Protocol {
    time_max: 3,
    numbers: 0,
    ways: &[Way::Silently],
    forgets: 1,
    clocks: &[0, 2],
    clock_steps: 2,
    offs: true,
    leaves: true,
    restarts: false,
    ..SET_BACK
};
const CUT_OFF: Protocol = Protocol {
    time_max: 4,
    numbers: 0,
    ways: &[Way::Silently],
    forgets: 1,
    clocks: &[2, 0],
    clock_steps: 2,
    cuts: true,
    shortens: false,
    restarts: false,
    ..SET_BACK
};
const FROZEN: Protocol = Protocol {
    time_max: 5,
    lease: 2,
    numbers: 0,
    ways: &[Way::Silently],
    forgets: 2,
    restarts: false,
    leaves: true,
    freezes: 1,
    ..SET_BACK
};
const PROVED: Protocol = Protocol { ways: &[Way::Silently], forgets: 1, cuts: true, ..SET_BACK };

/// The bounds in which a mutation is caught.
pub fn broken(mutation: Mutation) -> Protocol {
    use Mutation::*;
    let bounds = match mutation {
        WaitByClock | FloorStays => CUT_OFF,
        ProofIgnored | LossForgotten => PROVED,
        FormerForgotten | RefusedUnheard => CLOCKS,
        EndLowersFloor | StartAgainEndsWait => REQUESTS,
        ClaimsBelieved | ClaimsBlind | SignedEarly | SignedUndurable => LIARS,
        FreezeUntold | FrozenRenewed => FROZEN,
        PastTheEnd => RANGES,
        Overwritten => Protocol { ways: &[Way::Overwritten], ..SET_BACK },
        _ => SET_BACK,
    };
    Protocol { broken: Some(mutation), ..bounds }
}

impl Model for Protocol {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let registry = Registry { is_start_noted: true, ..Registry::default() };
        vec![State {
            now: 0,
            ahead: self.clocks[0],
            registry,
            older: registry,
            servers: Default::default(),
            forgets_left: self.forgets,
            clocks_left: self.clock_steps,
            lies_left: self.lies,
            freezes_left: self.freezes,
            other_from: None,
            has_forgotten: false,
            is_older: false,
            is_shown: false,
            verdict: Verdict::Good,
        }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Action>) {
        if state.verdict == Verdict::Good {
            self.steps(state, steps);
        }
    }

    fn next_state(&self, state: &State, step: Action) -> Option<State> {
        self.step(state, step)
    }

    fn properties(&self) -> Vec<Property<Protocol>> {
        let mut properties = vec![
            Property::always(DISJOINT, |_, state: &State| state.verdict != Verdict::Overlap),
            Property::always(NO_REPEAT, |_, state: &State| state.verdict != Verdict::Repeated),
            Property::always(NO_ALARM, |_, state: &State| state.verdict != Verdict::FalseAlarm),
            Property::always(GIVEN, |protocol: &Protocol, state| protocol.gives(state)),
        ];
        properties.retain(|property| self.broken.is_none_or(|broken| broken.violates() == property.name));
        properties
    }
}

impl Protocol {
    /// Whether both servers get what they need if from now on time passes, clocks are right, and both call regularly.
    fn gives(&self, state: &State) -> bool {
        let patient = Protocol { names_servers: true, numbers: 100, ..*self };
        (0..SERVERS).all(|at| {
            let mut state = State { ahead: self.clocks[0], ..*state };
            for server in &mut state.servers {
                (server.is_cut, server.is_off) = (false, false);
            }
            for _ in 0..10 {
                state.now += 1;
                for server in 0..SERVERS {
                    let call = Action::Call { server, ask: Ask::Report };
                    state = patient.step(&state, call).unwrap_or(state);
                }
            }
            let grants = state.registry.row.grants;
            let numbers = state.registry.next;
            for ask in [Ask::Acquire, Ask::Take] {
                state = patient.step(&state, Action::Call { server: at, ask }).unwrap_or(state);
            }
            let registry = &state.registry;
            registry.frozen_until.is_some()
                || registry.row.grants > grants
                    && (registry.next > numbers || registry.is_closed || numbers > 7)
        })
    }
}
