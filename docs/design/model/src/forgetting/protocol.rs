//! Every possible step, and the state after it.

use crate::forgetting::mutation::Mutation;
use crate::forgetting::state::*;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Action {
    Tick,
    /// The clock of the registry is set, and those of the servers with it.
    SetClock {
        ahead: u8,
    },
    /// The clock of a server goes wrong, or is set right.
    SetOff(usize),
    /// A server is cut off, or reaches the registry again.
    Cut(usize),
    Call {
        server: usize,
        ask: Ask,
    },
    /// A server issues a number that it was given before.
    Draw(usize),
    /// A server gives up its lease.
    Leave(usize),
    /// The present state is kept, and may come back.
    Keep,
    /// The server of the registry is restarted, and nothing is lost.
    Restart,
    Forget(Way),
    Lie(Lie),
    /// An administrator states correctly that nothing was lost.
    EndWait,
    /// An administrator calls a function that is for new registries.
    StartAgain,
    /// An administrator prepares to use another registry.
    Freeze,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    Acquire,
    Renew,
    Take,
    /// Reports what the server has, and requests nothing.
    Report,
}

/// How the registry is set back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// To an older disk, or a base backup started as it is: only the start shows it.
    Silently,
    /// By a promotion, a dump, or in another location: the registry notices.
    Noticed,
    /// Rows are overwritten while the server runs. Only in a broken protocol.
    Overwritten,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// Claims more than was ever granted.
    Claim,
    /// Shows a token from a transaction that it rolled back.
    RolledBack,
    /// Commits without waiting until the commit is durable, and requests a token. The server crashes, the commit is lost,
    /// and it shows the token.
    Undurable,
    /// Shows an old token that is valid.
    Witness,
}

/// The bounds.
#[derive(Clone, Copy, Debug)]
pub struct Protocol {
    pub time_max: u8,
    /// How far ahead of the clock a range is granted.
    pub lease: u8,
    /// How much longer than a lease a wait is.
    pub margin: u8,
    /// The maximum of the numbers.
    pub numbers: u8,
    /// How many numbers are granted at once.
    pub step: u8,
    pub ways: &'static [Way],
    pub forgets: u8,
    /// The possible readings of the clock, as differences from the time. The first one is right.
    pub clocks: &'static [u8],
    /// How often the clock is set.
    pub clock_steps: u8,
    /// Whether servers may be cut off. Otherwise each server calls while the registry waits.
    pub cuts: bool,
    /// Whether a witness shortens the wait.
    pub shortens: bool,
    /// Whether the clocks of servers go wrong.
    pub offs: bool,
    pub leaves: bool,
    pub restarts: bool,
    pub requests: bool,
    pub freezes: u8,
    pub lies: u8,
    pub names_servers: bool,
    pub broken: Option<Mutation>,
}

impl Protocol {
    pub fn is(&self, mutation: Mutation) -> bool {
        self.broken == Some(mutation)
    }

    pub fn clock(&self, state: &State) -> u8 {
        state.now + state.ahead
    }

    pub fn steps(&self, state: &State, steps: &mut Vec<Action>) {
        if state.now < self.time_max {
            steps.push(Action::Tick);
        }
        if state.clocks_left > 0 {
            let others = self.clocks.iter().filter(|&&ahead| ahead != state.ahead);
            steps.extend(others.map(|&ahead| Action::SetClock { ahead }));
        }
        if state.forgets_left > 0 {
            steps.push(Action::Keep);
            steps.extend(self.ways.iter().map(|&way| Action::Forget(way)));
        }
        if self.restarts {
            steps.push(Action::Restart);
        }
        if self.requests {
            if state.registry.wait.is_some() && !state.is_older {
                steps.push(Action::EndWait);
            }
            if self.is(Mutation::StartAgainEndsWait) {
                steps.push(Action::StartAgain);
            }
        }
        if state.freezes_left > 0 {
            steps.push(Action::Freeze);
        }
        if state.lies_left > 0 {
            steps.extend([Lie::Claim, Lie::RolledBack, Lie::Undurable, Lie::Witness].map(Action::Lie));
        }
        for at in 0..SERVERS {
            let server = &state.servers[at];
            if self.cuts {
                steps.push(Action::Cut(at));
            }
            if self.offs {
                steps.push(Action::SetOff(at));
            }
            if self.leaves && server.held.is_some() {
                steps.push(Action::Leave(at));
            }
            if server.segment != Segment::default() {
                steps.push(Action::Draw(at));
            }
            if server.is_cut {
                continue;
            }
            let renew = server.held.map(|_| Ask::Renew);
            let has_room = server.segment.next.is_none();
            let take = (has_room && state.registry.next < self.numbers).then_some(Ask::Take);
            let asks = [Some(Ask::Acquire), renew, take, Some(Ask::Report)];
            steps.extend(asks.into_iter().flatten().map(|ask| Action::Call { server: at, ask }));
        }
    }

    /// Returns `None` if the step changes nothing.
    pub fn step(&self, before: &State, action: Action) -> Option<State> {
        let mut state = *before;
        match action {
            Action::Tick => state.now += 1,
            Action::SetClock { ahead } => {
                state.ahead = ahead;
                state.clocks_left -= 1;
            }
            Action::SetOff(at) => state.servers[at].is_off ^= true,
            Action::Cut(at) => state.servers[at].is_cut ^= true,
            Action::Call { server, ask } => self.call(&mut state, server, ask),
            Action::Draw(at) => self.draw(&mut state, at, None),
            Action::Leave(at) => {
                state.servers[at].held = None;
                if self.is(Mutation::FormerForgotten) {
                    state.servers[at].token = None;
                }
            }
            Action::Keep => state.older = state.registry,
            Action::Restart => self.restart(&mut state),
            Action::Forget(way) => {
                state.registry = state.older;
                state.forgets_left -= 1;
                state.has_forgotten = true;
                state.is_older = true;
                state.is_shown = false;
                if way != Way::Overwritten {
                    self.restart(&mut state);
                }
                if way == Way::Noticed {
                    self.note_start(&mut state);
                    self.prove(&mut state);
                }
            }
            Action::Lie(lie) => {
                state.lies_left -= 1;
                self.lie(&mut state, lie);
            }
            Action::EndWait => {
                state.registry.wait = None;
                if self.is(Mutation::EndLowersFloor) {
                    state.registry.floor = state.registry.floor.min(self.clock(&state));
                }
            }
            Action::StartAgain => state.registry.wait = None,
            Action::Freeze => {
                state.freezes_left -= 1;
                self.freeze(&mut state);
            }
        }
        self.normalize(&mut state);
        (state != *before).then_some(state)
    }

    pub fn restart(&self, state: &mut State) {
        state.registry.is_start_noted = false;
        state.servers.iter_mut().for_each(|server| server.is_heard = false);
    }

    /// Merges states that differ in nothing relevant.
    fn normalize(&self, state: &mut State) {
        if state.forgets_left == 0 {
            state.older = Registry::default();
        }
        if self.names_servers {
            return;
        }
        let mut swapped = *state;
        swapped.servers.swap(0, 1);
        for registry in [&mut swapped.registry, &mut swapped.older] {
            registry.row.holder.iter_mut().for_each(|holder| *holder = 1 - *holder);
        }
        *state = (*state).min(swapped);
    }
}
