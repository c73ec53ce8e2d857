//! The properties of a lease, and the bounds.

use stateright::{Model, Property};

use crate::lease::border::Cause;
use crate::lease::mutation::Mutation;
use crate::lease::protocol::{Action, Ask, Delivery, Loss, Protocol, Step};
use crate::lease::shell::next_step;
use crate::lease::state::*;

pub const NO_REPEAT: &str = "no tick of an identity is used twice";
pub const DISJOINT: &str = "the ranges that two servers may use are disjoint";
pub const INSIDE: &str = "every ID starts inside a lease that is on disk, and below the stored horizon";
/// Only a server with a twin is stopped before its range ends.
pub const ALONE: &str = "no server is told that it has a twin unless it has one";
pub const TWINS: &str = "of two live copies, one is stopped at its second renewal";
/// As soon as the registry's clock has passed the end of an identity's range, a server that asks gets the identity and
/// issues an ID.
pub const GIVEN: &str = "a free identity is given";
/// Whether or not the registry replies, unless it reports a twin.
pub const GOES_ON: &str = "a server goes on to the end of its range without the registry";

/// The bounds, with their names and descriptions.
pub const CORRECT: [(&str, &str, Protocol); 12] = [
    ("keeper", "one server step by step, two identities", KEEPER),
    ("keeper-resets", "the same with resets", KEEPER_RESETS),
    ("fleet", "two servers, one identity, copies, late calls", FLEET),
    ("forgetful", "one server, two identities, its stored data is lost", FORGETFUL),
    ("restored", "one server, one identity, an older copy of its directory comes back", RESTORED),
    ("exchanges", "two servers, two identities", EXCHANGES),
    ("fleet-resets", "two servers, two identities, resets", RESET),
    ("quarantine", "two servers, one identity, the registry loses commits", QUARANTINE),
    ("synchronous", "two servers, one identity, commits wait for a standby", SYNCHRONOUS),
    ("twins", "one server whose memory is copied", COPIED_MEMORY),
    ("releases", "two programs that come and go, one identity, late calls", RELEASES),
    ("releases-lost", "the same, the registry loses commits, no late calls", RELEASES_LOST),
];

/// The clock of the registry may be anything.
const SMALLEST: Protocol = Protocol {
    servers: 2,
    identities: 1,
    detailed: false,
    any_horizon: true,
    asks_twice: true,
    lease: 1,
    time_max: 2,
    late: 2,
    any_time: true,
    synchronous: false,
    losses: &[],
    losses_max: 0,
    strays: false,
    crashes: true,
    copies: false,
    restores: false,
    forgets: false,
    past_clocks: false,
    revocations: false,
    releases: false,
    is_reset: false,
    copies_memory: false,
    names_servers: false,
    broken: None,
};
const KEEPER: Protocol =
    Protocol { servers: 1, identities: 2, detailed: true, any_horizon: false, ..SMALLEST };
const KEEPER_RESETS: Protocol = Protocol { is_reset: true, any_horizon: true, time_max: 1, ..KEEPER };
const FLEET: Protocol = Protocol {
    any_horizon: false,
    asks_twice: false,
    copies: true,
    strays: true,
    revocations: true,
    ..SMALLEST
};
const FORGETFUL: Protocol =
    Protocol { servers: 1, identities: 2, forgets: true, past_clocks: true, asks_twice: false, ..SMALLEST };
const RESTORED: Protocol = Protocol { servers: 1, restores: true, ..SMALLEST };
const EXCHANGES: Protocol =
    Protocol { identities: 2, any_horizon: false, asks_twice: false, crashes: false, ..SMALLEST };
const RESET: Protocol = Protocol { is_reset: true, time_max: 1, any_horizon: true, ..EXCHANGES };
/// The clock moves on here, because time counts.
const QUARANTINE: Protocol = Protocol {
    time_max: 3,
    late: 1,
    any_time: false,
    any_horizon: false,
    asks_twice: false,
    crashes: false,
    losses: &[Loss::Failover, Loss::New],
    losses_max: 2,
    ..SMALLEST
};
const SYNCHRONOUS: Protocol = Protocol { synchronous: true, losses: &[Loss::Failover], ..SMALLEST };
const RELEASES: Protocol = Protocol {
    releases: true,
    strays: true,
    any_horizon: false,
    asks_twice: false,
    crashes: false,
    lease: 2,
    time_max: 3,
    ..SMALLEST
};
const RELEASES_LOST: Protocol = Protocol { releases: true, lease: 2, ..QUARANTINE };
const COPIED_MEMORY: Protocol = Protocol { copies_memory: true, ..SMALLEST };

/// The bounds in which a mutation is caught.
pub fn broken(mutation: Mutation) -> Protocol {
    use Mutation::*;
    let one_loss = Protocol { losses: &[Loss::Failover], losses_max: 1, time_max: 3, ..QUARANTINE };
    let short = Protocol { time_max: 1, asks_twice: false, ..SMALLEST };
    let bounds = match mutation {
        NotCapped => short,
        FromNotStored | AnswerNeeded | RenewalTakenTwice => Protocol { servers: 1, ..SMALLEST },
        InheritedIgnored => FORGETFUL,
        OlderFile => RESTORED,
        CappedLate | CappedBeforeKnown => Protocol { time_max: 1, ..EXCHANGES },
        ExchangeUnfenced => Protocol { detailed: true, time_max: 1, ..EXCHANGES },
        GateBeforeFile => Protocol { time_max: 1, ..KEEPER },
        LeaseInHandReset => Protocol { detailed: false, ..KEEPER_RESETS },
        ReadBelieved | CancelledBelieved | UncommittedBelieved => {
            Protocol { time_max: 1, any_horizon: false, crashes: false, ..SYNCHRONOUS }
        }
        RestoreUnnoticed => Protocol { losses: &[Loss::Restore], ..one_loss },
        NewRegistryTrusted => Protocol { losses: &[Loss::New], ..one_loss },
        FailoverUnnoticed | QuarantineTooShort | QuarantineForever | LapsedKept | NonceKept => one_loss,
        NoNonce => COPIED_MEMORY,
        ReleasedEarly | ReleasedUnfenced => RELEASES,
        AnswerUnchecked => Protocol { strays: true, any_horizon: false, crashes: false, ..SMALLEST },
        EvidenceUnchecked => Protocol { copies: true, any_horizon: false, ..short },
        SuccessorAtClock => Protocol { any_horizon: false, ..short },
        RenewalByName | RevocationLowers | RenewalLowers => {
            Protocol { copies: false, crashes: false, ..FLEET }
        }
    };
    Protocol { broken: Some(mutation), ..bounds }
}

impl Model for Protocol {
    type State = State;
    type Action = Action;

    /// A fleet that has just been started: no server has a lease.
    fn init_states(&self) -> Vec<State> {
        vec![State {
            servers: Default::default(),
            registry: Registry::default(),
            standby: Registry::default(),
            losses_left: self.losses_max,
            waiting: None,
            stray: None,
            now: if self.any_time { self.time_max } else { 0 },
            watched: None,
            renewals: None,
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
            Property::always(NO_REPEAT, |_, state: &State| state.verdict != Verdict::Repeated),
            Property::always(ALONE, |_, state: &State| state.verdict != Verdict::CalledTwin),
            Property::always(INSIDE, |_, state: &State| state.verdict != Verdict::Outside),
            Property::always(TWINS, |_, state: &State| state.renewals != Some([2; SERVERS])),
        ];
        if !self.copies_memory {
            properties.push(Property::always(DISJOINT, |_, state: &State| are_disjoint(state)));
            properties.push(Property::always(GIVEN, |protocol: &Protocol, state| protocol.gives(state)));
            properties.push(Property::always(GOES_ON, |protocol: &Protocol, state| protocol.goes_on(state)));
        }
        // A broken protocol is only checked for the property that it is expected to violate.
        properties.retain(|property| self.broken.is_none_or(|broken| broken.violates() == property.name));
        properties
    }
}

fn are_disjoint(state: &State) -> bool {
    let [one, other] = &state.servers;
    one.leases().all(|lease| other.leases().all(|another| !lease.overlaps(&another)))
}

impl Protocol {
    /// Whether an ID outside of its lease is an error. A broken protocol is to show the consequences of such an ID.
    pub fn checks_inside(&self) -> bool {
        self.broken.is_none_or(|mutation| mutation.violates() == INSIDE)
    }

    /// Long after all events: if no other process interferes from now on, each server gets an identity.
    fn gives(&self, state: &State) -> bool {
        let patient = Protocol { time_max: 100, any_time: true, names_servers: true, ..*self };
        (0..self.servers).all(|at| patient.give(*state, at).is_some())
    }

    fn give(&self, mut state: State, server: usize) -> Option<State> {
        let delivery = Delivery::Filed;
        if state.waiting.is_some() {
            state = self.step(&state, Action::Acknowledge { delivery })?;
        }
        state.servers[server] = rested(&state.servers[server]);
        let lease = |state: &State| state.servers[server].file.held.map(|held| held.lease);
        let had = lease(&state);
        // The first call may start a quarantine. The second call comes after it.
        for now in [40, 80] {
            let call = |ask| Action::Call { server, ask, now, choice: 0, delivery };
            state = self.step_and_commit(state, call(Ask::Acquire));
            if lease(&state) != had {
                let state = self.step_and_commit(state, call(Ask::Renew));
                return self.make_id(state, server, now);
            }
        }
        None
    }

    fn step_and_commit(&self, state: State, call: Action) -> State {
        let state = self.step(&state, call).unwrap_or(state);
        self.step(&state, Action::Acknowledge { delivery: Delivery::Filed }).unwrap_or(state)
    }

    fn goes_on(&self, state: &State) -> bool {
        let silent = Protocol { names_servers: true, ..*self };
        (0..self.servers).all(|at| {
            let mut state = *state;
            state.servers[at] = rested(&state.servers[at]);
            let server = &state.servers[at];
            let Some(held) = server.file.held.filter(|_| server.file.is_proved) else { return true };
            let lease = held.lease;
            // How much of it was used before the start is not known.
            let is_unknown = server.stored.horizon == 0 && server.published == 0;
            if is_unknown
                && server.server_status.map_or(server.is_inherited, |published| published.is_inherited)
            {
                return true;
            }
            // The fence costs a tick.
            let begins =
                server.floor.unwrap_or(server.stored.horizon).max(used_until(server, lease.identity));
            if first_tick_from(begins).max(server.counter + 1) >= lease.until {
                return true;
            }
            let next = match server.server_status {
                None => silent.step(&state, Action::Server(at, Step::GoOn)),
                Some(_) => Some(state),
            };
            next.and_then(|state| silent.make_id(state, at, lease.until - 1)).is_some()
        })
    }

    /// The keeper does its work, and a caller takes an ID.
    fn make_id(&self, mut state: State, at: usize, clock: u8) -> Option<State> {
        // After a loss it runs one more cycle.
        for _ in 0..2 {
            let cycle = Action::Server(at, Step::Cycle { clock, cause: Cause::Nothing });
            // A cycle without work changes nothing.
            state = self.step(&state, cycle).unwrap_or(state);
            while let Some(step) = next_step(state.servers[at].keeper, clock) {
                state = self.step(&state, Action::Server(at, step))?;
            }
        }
        if self.detailed {
            state = self.step(&state, Action::Server(at, Step::Load))?;
        }
        let server = &state.servers[at];
        let tick = server.counter;
        if tick >= server.limit() {
            return None;
        }
        self.step(&state, Action::Server(at, Step::Take { tick, watch: false }))
    }
}

/// Up to when the server may have used an identity. If the keeper was terminated during a reset, everything may have
/// been used.
fn used_until(server: &Server, identity: Identity) -> Instant {
    let Stored { horizon, uses, uses_of_all } = server.stored;
    let is_known = horizon >= server.published && (uses != [None; IDENTITIES] || uses_of_all.is_some());
    match uses[usize::from(identity)].or(uses_of_all) {
        until if is_known => until.unwrap_or_default(),
        _ => horizon.max(server.published).max(server.promised).max(server.highest),
    }
}

/// The server with its processes restarted and shared memory kept.
fn rested(server: &Server) -> Server {
    Server { keeper: Keeper::Up, caller: None, ..*server }
}
