//! What must hold, and within which bounds.

use stateright::{Model, Property};

use crate::horizon::mutation::Mutation;
use crate::horizon::plan::Uses;
use crate::horizon::protocol::{Action, Protocol, is_emptied};
use crate::horizon::state::*;

pub const NO_REPEAT: &str = "no ID is handed out twice";
/// It holds across restarts as well.
pub const ORDER: &str = "the IDs of a slot increase";
/// What is stored covers every ID, so that whoever knows no more than that repeats none.
pub const HORIZON: &str = "every ID handed out starts before what is durable for its identity";
pub const DESK: &str = "an order that was withdrawn leaves no trace";
/// Calls do not hang for ever, whatever happened.
pub const RESUMES: &str = "generation resumes from everywhere";

/// A name, the bounds. The states are finite: what a fence adds without an ID being made is cut off beyond
/// the last ID that the clock allows. Crashes, restarts, errors, losses, orders and IDs are not counted.
pub const CORRECT: [(&str, &str, Protocol); 6] = [
    ("layouts", "two layouts, clock 0 to 2", bounds(&[FINE, COARSE], 1, 2)),
    ("identities", "one layout (long ticks), two identities, clock 0 to 3", bounds(&[COARSE], 2, 3)),
    (
        "losses",
        "one layout, losses, clock 0 to 2",
        Protocol { losses: &[Action::Drop, Action::Empty], ..bounds(&[FINE], 1, 2) },
    ),
    (
        "resets",
        "one layout, two identities, resets, clock 0 to 1",
        Protocol { resets: true, ..bounds(&[FINE], 2, 1) },
    ),
    (
        "dropped",
        "one layout, two identities, DROP and CREATE, resets, clock 0 to 1",
        Protocol { losses: &[Action::Drop], callers: 2, ..small() },
    ),
    (
        "lost",
        "one layout, two identities, all losses, resets, one caller, clock 0 to 1",
        Protocol { losses: &[Action::Drop, Action::Empty], ..small() },
    ),
];

const fn bounds(layouts: &'static [Layout], identities: u8, clock_max: u8) -> Protocol {
    let (losses, resets, names_callers): (&[_], _, _) = (&[], false, false);
    Protocol {
        layouts,
        identities,
        callers: 2,
        max_drift: 1,
        clock_max,
        losses,
        resets,
        names_callers,
        broken: None,
    }
}

/// For what takes many steps.
const fn small() -> Protocol {
    Protocol { resets: true, callers: 1, max_drift: 0, ..bounds(&[FINE], 2, 1) }
}

/// The smallest bounds that show what is wrong.
pub fn broken(mutation: Mutation) -> Protocol {
    use Mutation::*;
    let one = bounds(&[FINE], 1, 1);
    let bounds = match mutation {
        OpenUnfenced => bounds(&[COARSE], 2, 1),
        ResetInUse | ResetUnfenced | ResetSameSlots | RecordAfterOpen | ClaimLate => {
            Protocol { resets: true, ..bounds(&[FINE], 2, 1) }
        }
        PromiseAfterCommit | PastForgotten => Protocol { losses: &[Action::Drop], callers: 1, ..one },
        ScriptOwnOnly | ResetLowersHighest | ResetKeepsLast => {
            Protocol { losses: &[Action::Drop], ..small() }
        }
        AbsenceIsUnused => Protocol { losses: &[Action::Empty], ..small() },
        _ => one,
    };
    Protocol { broken: Some(mutation), ..bounds }
}

impl Model for Protocol {
    type State = State;
    type Action = Action;

    /// A new server; and one that was started once, for worker 0, and has handed out nothing, so that it
    /// begins at 0.
    fn init_states(&self) -> Vec<State> {
        let started_once = Uses { everybody: None, own: [Some(0), None] };
        let servers = [(Some(0), started_once), (None, Uses::default())];
        let begin = |(horizon, uses)| State {
            stored: Some(Stored { place: 2, durable: horizon, readable: horizon, uses }),
            shared: Shared::default(),
            keeper: Keeper::default(),
            order: Order::None,
            callers: Default::default(),
            watched: None,
            verdict: Verdict::Larger,
        };
        servers.map(begin).to_vec()
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
        let slots = state.shared.slots.iter().zip(self.layouts);
        let reached = slots.filter_map(|(slot, layout)| {
            Some(layout.start_of(layout.tick(layout.next_whole_tick((*slot)?.counter))))
        });
        reached.max().unwrap_or(0) <= self.clock_max + self.max_drift + 2
    }

    fn properties(&self) -> Vec<Property<Protocol>> {
        let mut properties = vec![
            Property::always(NO_REPEAT, |_, state: &State| state.verdict != Verdict::Repeated),
            Property::always(ORDER, |_, state: &State| state.verdict != Verdict::Smaller),
            Property::always(DESK, |_, state: &State| {
                let has_begun = matches!(
                    state.keeper,
                    Keeper::ShutOut | Keeper::WrittenLow { .. } | Keeper::CommittedLow { .. }
                );
                !has_begun || state.order != Order::None
            }),
        ];
        if self.broken.is_none() {
            properties.push(Property::always(HORIZON, Protocol::is_covered));
            properties.push(Property::always(RESUMES, |protocol: &Protocol, state| protocol.resumes(state)));
        }
        properties
    }
}

impl Protocol {
    fn is_covered(&self, state: &State) -> bool {
        let (Some(id), Some(stored)) = (state.watched, state.stored) else { return true };
        let until = stored.uses.until(id.identity).max(stored.durable).unwrap_or(0);
        is_emptied(&stored) || self.layouts[id.slot].start_of(id.tick) < until
    }

    /// Whether each slot gives an ID to worker 0 if from now on nobody else interferes, the extension is
    /// there, a keeper is started, and the clock has come to `max_drift` before the start of the slot's next
    /// tick, and to where the identity may be used.
    fn resumes(&self, state: &State) -> bool {
        (0..self.layouts.len()).all(|slot| self.resume(*state, slot).is_some())
    }

    fn resume(&self, mut state: State, slot: usize) -> Option<State> {
        state.keeper = Keeper::default();
        state.callers = Default::default();
        if state.stored.is_none() {
            state = self.step(&state, Action::Create)?;
        }
        state = self.run_keeper(state, 0)?;
        if state.shared.gate.is_none() {
            let until = state.stored?.uses.until(0)?;
            state = self.run_keeper(state, until.saturating_sub(self.max_drift + LEASE))?;
        }
        if state.shared.slots[slot].is_none() {
            state = self.step(&state, Action::Allocate { slot, clock: 0 })?;
        }
        let layout = self.layouts[slot];
        let clock =
            layout.start_of(layout.tick(state.shared.slots[slot]?.counter)).saturating_sub(self.max_drift);
        state = self.run_keeper(state, clock)?;
        let caller = 0;
        let attempt = [
            Action::Load { caller, slot },
            Action::Decide { caller, clock },
            Action::Exchange { caller, watch: false },
        ];
        let protocol = Protocol { names_callers: true, ..*self };
        attempt.into_iter().try_fold(state, |state, step| protocol.step(&state, step))
    }

    /// Runs the keeper for one look.
    fn run_keeper(&self, state: State, clock: u8) -> Option<State> {
        let mut state = self.step(&state, Action::Look { clock, wanted: Some(0), is_active: true })?;
        while !matches!(state.keeper, Keeper::Up { .. }) {
            let mut steps = Vec::new();
            self.steps_of_keeper(&state, &mut steps);
            state = self.step(&state, steps[0])?;
        }
        Some(state)
    }
}
