//! The properties, and the bounds.

use snowflake_id_core::clock_sequence::FAR_AHEAD_US;
use stateright::{Model, Property};

use crate::keeper::border::{Shape, identity, slot_shapes};
use crate::keeper::mutation::Mutation;
use crate::keeper::protocol::{Action, Emptied, Grant, Protocol, Wanted};
use crate::keeper::state::*;

pub const NO_REPEAT: &str = "no ID is issued twice";
/// This holds across restarts too.
pub const ORDER: &str = "the IDs of a slot with one value increase";
/// The stored data covers every ID, so that a server that knows nothing else repeats none.
pub const HORIZON: &str =
    "every issued ID starts before the durable horizon or the recorded end of its value";
pub const WITHDRAWN: &str = "a withdrawn request leaves no trace";
pub const RAISED: &str = "no ID is issued below the floor that an administrator was told";
pub const LEASED: &str = "every ID is in a lease of its identity";
pub const FOLLOWED: &str = "no horizon is further ahead than a followed clock allows";
/// Calls never hang forever.
pub const RESUMES: &str = "generation resumes from every state";
pub const GOES_ON: &str = "a call gets an ID in the present, or no value is free";

/// Every unit of time is a tick of one ID.
const FINE: Shape = Shape { tick: 1, clock_seq_bits: 0, worker_bits: 1, sequence_bits: 0 };
/// Long ticks of two IDs each, so that rounding matters.
const COARSE: Shape = Shape { tick: 2, sequence_bits: 1, ..FINE };
/// Without a clock sequence. The other layouts share its slot while their value is 0.
const PLAIN: Shape = Shape { worker_bits: 3, ..FINE };
const NARROW: Shape = Shape { worker_bits: 2, clock_seq_bits: 1, ..FINE };
const WIDE: Shape = Shape { worker_bits: 1, clock_seq_bits: 2, ..FINE };

const DROP: &[Action] = &[Action::Drop];
const EMPTY: Action = Action::Empty { what: Emptied::Records };
const ALL: &[Action] = &[Action::Drop, EMPTY];
const HORIZONS: Action = Action::Empty { what: Emptied::Horizons };
const ALL_AND_HORIZONS: &[Action] = &[Action::Drop, EMPTY, HORIZONS];

/// A tick may begin at the start of the lease, and no later: the shortest possible lease.
const ONE_US: i64 = 1;
/// Long enough that an instant one unit ahead is far ahead (`FAR_AHEAD_US`).
const LONG_US: i64 = 2_000_000;
/// Long enough that an identity two units ahead is refused (`MOST_AHEAD_US`).
const LONGER_US: i64 = 6_000_000;

/// Bounds that take too long for every run.
pub const SLOW: [&str; 2] = ["values-reset", "leases"];

/// The bounds, with their names and descriptions. The number of states is finite: counters beyond the last ID that any
/// clock allows are equivalent, and crashes, restarts, errors, losses, requests and IDs are not counted.
pub fn correct() -> Vec<(&'static str, &'static str, Protocol)> {
    let settings = Protocol { changes_settings: true, ..bounds(&[FINE], 1, 1) };
    vec![
        ("layouts", "two layouts, clock 0 to 2", bounds(&[FINE, COARSE], 1, 2)),
        ("identities", "one layout (long ticks), two identities, clock 0 to 3", bounds(&[COARSE], 2, 3)),
        (
            "losses",
            "one layout, all losses, one caller, clock 0 to 1",
            Protocol { losses: ALL_AND_HORIZONS, callers: 1, ..bounds(&[FINE], 1, 1) },
        ),
        (
            "resets",
            "one layout, two identities, resets, one caller, clock 0 to 1",
            Protocol { resets: true, callers: 1, ..bounds(&[FINE], 2, 1) },
        ),
        (
            "dropped",
            "one layout, two identities, DROP and CREATE, resets, two callers, clock 0",
            Protocol { losses: DROP, callers: 2, clock_max: 0, ..small(1) },
        ),
        (
            "lost",
            "one layout, two identities, all losses, resets, one caller, clock 0 to 1",
            Protocol { losses: ALL, ..small(1) },
        ),
        ("far", "the same without losses; an identity far ahead is refused", small(LONGER_US)),
        ("settings", "one layout, settings that change, clock 0 to 1", settings),
        ("jumps", "one layout, clock 0 to 1, which may jump to 5", jumps()),
        ("values", "values 0 to 2, two callers, clock 0 to 1", values(&[PLAIN, WIDE], 2, 1)),
        ("values-longer", "values 0 and 1, one caller, clock 0 to 2", values(&[PLAIN, NARROW], 1, 2)),
        (
            "values-lost",
            "values 0 and 1, one caller, DROP and CREATE, clock 0 to 1",
            Protocol { losses: DROP, ..values(&[PLAIN, NARROW], 1, 1) },
        ),
        ("widths", "fields of two widths, one caller, clock 0 to 1", values(&[NARROW, WIDE], 1, 1)),
        (
            "values-reset",
            "values 0 and 1, two identities, resets, one caller, clock 0 to 1",
            Protocol { resets: true, identities: 2, ..values(&[PLAIN, NARROW], 1, 1) },
        ),
        (
            "raises",
            "values 0 and 1, one caller, a request to raise the floor, clock 0 to 1",
            Protocol { raise: Some(2), ..values(&[PLAIN, NARROW], 1, 1) },
        ),
        (
            "leases",
            "two leases of two identities, the horizons are emptied, one caller, clock 0 to 1",
            leases(),
        ),
    ]
}

fn bounds(shapes: &[Shape], identities: u8, clock_max: u8) -> Protocol {
    let unit_us = 1;
    Protocol {
        slot_shapes: slot_shapes(shapes, unit_us),
        unit_us,
        identities,
        callers: 2,
        max_ahead_us: unit_us,
        horizon_margin_us: unit_us,
        changes_settings: false,
        clock_max,
        max_value: 2,
        jump: None,
        losses: &[],
        resets: false,
        raise: None,
        leases: &[],
        has_new_server: true,
        names_callers: false,
        broken: None,
    }
}

fn in_units_of(unit_us: i64, shapes: &[Shape], bounds: Protocol) -> Protocol {
    Protocol {
        unit_us,
        slot_shapes: slot_shapes(shapes, unit_us),
        max_ahead_us: 0,
        horizon_margin_us: ONE_US,
        ..bounds
    }
}

/// For properties that take many steps.
fn small(unit_us: i64) -> Protocol {
    let bounds = Protocol { resets: true, callers: 1, ..bounds(&[FINE], 2, 1) };
    Protocol { horizon_margin_us: unit_us, ..in_units_of(unit_us, &[FINE], bounds) }
}

fn values(shapes: &[Shape], callers: usize, clock_max: u8) -> Protocol {
    let bounds = Protocol { callers, has_new_server: false, ..bounds(&[], 1, clock_max) };
    in_units_of(LONG_US, shapes, bounds)
}

fn jumps() -> Protocol {
    let bounds = Protocol { jump: Some(5), has_new_server: false, ..bounds(&[], 1, 1) };
    in_units_of(LONG_US, &[FINE], bounds)
}

fn leases() -> Protocol {
    const GRANTS: &[Grant] = &[
        Grant { identity: 0, from: 0, until: 1, renewed: 2 },
        Grant { identity: 1, from: 0, until: 2, renewed: 2 },
    ];
    let bounds = Protocol {
        leases: GRANTS,
        losses: &[HORIZONS],
        callers: 1,
        has_new_server: false,
        ..bounds(&[], 2, 1)
    };
    in_units_of(LONG_US, &[FINE], bounds)
}

/// The smallest bounds in which a mutation is caught.
pub fn broken(mutation: Mutation) -> Protocol {
    use Mutation::*;
    let one = bounds(&[FINE], 1, 1);
    let bounds = match mutation {
        OpenUnfenced => bounds(&[COARSE], 2, 1),
        ResetSameSlots => Protocol { resets: true, ..bounds(&[FINE], 2, 1) },
        ResetInUse | ResetUnfenced | RecordAfterOpen | ClaimLate | RecordsAfterHorizon => {
            Protocol { resets: true, callers: 1, ..bounds(&[FINE], 2, 1) }
        }
        PromiseAfterCommit | HistoryForgotten => Protocol { losses: DROP, callers: 1, ..one },
        ScriptOwnOnly | ResetLowersHighest | ResetKeepsLast => Protocol { losses: DROP, ..small(1) },
        AbsenceIsUnused => Protocol { losses: &[EMPTY], ..small(1) },
        JumpFollowed => jumps(),
        InheritedIsNew => Protocol { clock_max: 0, ..leases() },
        LeaseUncapped => leases(),
        LossForgets => Protocol { losses: DROP, ..values(&[PLAIN, NARROW], 1, 1) },
        ZeroAgain => values(&[PLAIN, NARROW], 1, 2),
        ReusedEarly | KeyWithoutValue | OpenedFirst | ClosedAfter | ValueKeepsLimit | WordWithoutValue => {
            values(&[PLAIN, WIDE], 1, 1)
        }
        RaiseUnrecorded | RaiseClaimedLate => Protocol { raise: Some(2), ..values(&[PLAIN, NARROW], 1, 1) },
        _ => one,
    };
    Protocol { broken: Some(mutation), ..bounds }
}

impl Model for Protocol {
    type State = State;
    type Action = Action;

    /// A new server, and a server that was started once for worker 0 and has issued no ID, so that it begins at 0.
    fn init_states(&self) -> Vec<State> {
        let begin = |durable| State {
            disk: Some(Disk { durable, ..Disk::default() }),
            shared: Shared::default(),
            keeper: Keeper::default(),
            request: Request::None,
            callers: Default::default(),
            watched: None,
            verdict: Verdict::Larger,
            raised: Instant(0),
            leases: Default::default(),
        };
        let mut started_once = Facts::default();
        started_once.horizons[0].at = Instant::of_clock(0);
        started_once.uses.0[SCOPES] = 1;
        let mut states = vec![begin(started_once)];
        if self.has_new_server {
            states.push(begin(Facts::default()));
        }
        states
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
            Property::always(RAISED, |_, state: &State| state.verdict != Verdict::Early),
            Property::always(LEASED, |_, state: &State| state.verdict != Verdict::Outside),
            Property::always(WITHDRAWN, |_, state: &State| {
                let is_carried_out = match state.keeper {
                    Keeper::WrittenLow { reset, .. } => reset.is_requested,
                    Keeper::Written(cycle) | Keeper::Committed(cycle) => cycle.raise.is_some(),
                    _ => false,
                };
                !is_carried_out || state.request != Request::None
            }),
        ];
        if self.jump.is_some() {
            properties.push(Property::always(FOLLOWED, |protocol: &Protocol, state: &State| {
                let followed_us = protocol.us(Instant::of_clock(protocol.clock_max)) + protocol.reach_us();
                let readable = state.disk.map_or(Facts::default(), |disk| disk.readable());
                readable.horizons.iter().all(|horizon| protocol.us(horizon.at) <= followed_us)
            }));
        }
        if self.broken.is_none() {
            if self.leases.is_empty() {
                properties.push(Property::always(HORIZON, Protocol::is_covered));
            }
            if self.jump.is_none() && self.leases.is_empty() {
                properties.push(Property::always(RESUMES, |protocol: &Protocol, state| {
                    (0..SLOTS).all(|at| protocol.resume(*state, at).is_some())
                }));
                properties.push(Property::always(GOES_ON, |protocol: &Protocol, state| {
                    protocol.slot_shapes().all(|(at, _)| protocol.go_on(*state, at).unwrap_or(true))
                }));
            }
        }
        properties
    }
}

impl Protocol {
    fn is_covered(&self, state: &State) -> bool {
        let (Some(id), Some(disk)) = (state.watched, state.disk) else { return true };
        let Facts { uses, horizons } = disk.durable;
        let known_us = self.uses(&uses).until_us(identity(id.identity), id.value).unwrap_or(0);
        let until =
            horizons.into_iter().filter(|horizon| horizon.value == id.value).map(|horizon| horizon.at);
        let until = until.max().unwrap_or_default().max(self.instant(known_us));
        disk.is_emptied(&state.shared.history) || id.starts < until
    }

    /// From now on no other process interferes, the extension exists, and a keeper is started.
    fn settled(&self, mut state: State, clock: u8) -> Option<State> {
        while matches!(state.keeper, Keeper::Hidden(_) | Keeper::Moved(_)) {
            state = self.keeper_goes_on(&state)?;
        }
        state.keeper = Keeper::default();
        state.callers = Default::default();
        if state.disk.is_none() {
            state = self.step(&state, Action::Create)?;
        }
        state.disk.as_mut()?.flush();
        self.run_keeper(state, self.cycle_for_worker_0(clock))
    }

    /// Checks that a slot gives worker 0 an ID if no other process interferes, and if the clock has reached `max_ahead`
    /// before the start of its next tick and the instant from which the identity may be used. `None` if it does not.
    fn resume(&self, state: State, at: usize) -> Option<State> {
        let mut state = self.settled(state, 0)?;
        let Some(slot_shape) =
            self.slot_shapes[at].filter(|slot_shape| self.is_of(slot_shape, state.shared.value()))
        else {
            return Some(state); // No layout has this slot now.
        };
        if state.shared.gate.is_none() {
            let until_us = self.uses(&state.disk?.readable().uses).until_us(identity(0), 0)?;
            let clock = self.clock_at(until_us - self.reach_us());
            state = self.run_keeper(state, self.cycle_for_worker_0(clock))?;
        }
        if state.shared.slots[at].is_none() {
            state = self.step(&state, Action::Allocate { slot_index: at as u8, clock: 0 })?;
        }
        let counter = state.shared.slots[at]?.word.counter.into();
        let clock = self.clock_at(slot_shape.key.tick_us(counter) - self.max_ahead_us);
        state = self.run_keeper(state, self.cycle_for_worker_0(clock))?;
        self.attempt(&state, at, clock)
    }

    /// At clock 0, a call of a layout with a clock sequence requests another value. If a value is opened that fits the
    /// layout, the call gets an ID, or a unit later if the slot has had that value before. If none is opened, the ticks
    /// that the layout has used are not far ahead, or all values that fit it have been used. `None` if there is no such
    /// layout, or no identity.
    fn go_on(&self, state: State, at: usize) -> Option<bool> {
        let slot_shape = self.slot_shape(at);
        if slot_shape.key.track() == 0 {
            return None;
        }
        let state = self.settled(state, 0)?;
        let (begun, _) = (state.shared.begun?, state.shared.gate?);
        let max_value = slot_shape.layout.max_clock_seq().min(self.max_value);
        let Some(mut state) = self.run_keeper(state, Action::WriteValue { clock: 0 }) else {
            let now_us = self.us(Instant::of_clock(0));
            let track = usize::from((1..=max_value).contains(&begun[1].value));
            let reached = begun[track].at.max(self.end_of_use(&state.shared, track));
            let is_far = self.us(reached) > now_us + self.reach_us() + FAR_AHEAD_US;
            let uses = self.uses(&state.disk?.readable().uses);
            let is_free = |value| uses.until_us(identity(0), value).is_none_or(|until_us| until_us <= now_us);
            return Some(!is_far || !(1..=max_value).any(|value| value != begun[1].value && is_free(value)));
        };
        if !(1..=max_value).contains(&state.shared.value()) {
            return None; // Another layout has requested a value too, and got one that fits it.
        }
        if state.shared.slots[at].is_none() {
            state = self.step(&state, Action::Allocate { slot_index: at as u8, clock: 0 })?;
        }
        let is_given = |(state, clock)| self.attempt(state, at, clock).is_some();
        let later = self.run_keeper(state, self.cycle_for_worker_0(1)).unwrap_or(state);
        Some(is_given((&state, 0)) || is_given((&later, 1)))
    }

    /// The first clock that is not earlier than this instant.
    fn clock_at(&self, us: i64) -> u8 {
        let units = us.div_euclid(self.unit_us) + i64::from(us.rem_euclid(self.unit_us) > 0);
        (units - 1).max(0) as u8
    }

    fn cycle_for_worker_0(&self, clock: u8) -> Action {
        Action::Cycle { clock, wanted: Wanted::ForGood(0), is_active: true, is_wide: false }
    }

    /// A call.
    fn attempt(&self, state: &State, at: usize, clock: u8) -> Option<State> {
        let caller = 0;
        let value = state.shared.slots[at]?.word.value;
        let attempt = [
            Action::Load { caller, slot_index: at as u8, value },
            Action::Decide { caller, clock, is_wide: false },
            Action::Exchange { caller, watch: false },
        ];
        let protocol = Protocol { names_callers: true, clock_max: clock.max(self.clock_max), ..*self };
        attempt.into_iter().try_fold(*state, |state, step| protocol.step(&state, step))
    }

    /// Lets the keeper take a step, and all steps that follow from it.
    fn run_keeper(&self, state: State, first: Action) -> Option<State> {
        let mut state = self.step(&state, first)?;
        while !matches!(state.keeper, Keeper::Up { .. }) {
            state = self.keeper_goes_on(&state)?;
        }
        Some(state)
    }

    fn keeper_goes_on(&self, state: &State) -> Option<State> {
        let mut steps = Vec::new();
        self.steps_of_keeper(state, &mut steps);
        self.step(state, steps[0])
    }
}
