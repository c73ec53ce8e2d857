//! The steps of each process, and when they are possible.
//!
//! There is no variable for the clock of a server: it may be set at any moment, so each reading may be anything.

use crate::lease::border::{Cause, TICK_US};
use crate::lease::mutation::Mutation;
use crate::lease::shell::next_step;
use crate::lease::state::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Time passes.
    Tick,
    /// The standby of the registry receives all commits. Equivalent to taking a dump.
    Replicate,
    /// The registry loses commits.
    Lose(Loss),
    /// An administrator revokes the lease of an identity.
    RevokeLease(Identity),
    /// A server calls, and the registry executes the call at this reading of its clock. If it grants an identity, it
    /// grants this one. The effects at the server happen at once: this is equivalent to a late reply, because until the
    /// reply arrives the server takes only steps that do not concern the registry.
    Call { server: usize, ask: Ask, now: u8, choice: Identity, delivery: Delivery },
    /// A server calls but does not wait for the reply: the call is in transit.
    CallLate { server: usize, ask: Ask },
    /// The registry executes the late call. It may arrive once more.
    CarryOutLate { now: u8, choice: Identity, again: bool },
    /// The standby has the commit. The reply is sent.
    Acknowledge { delivery: Delivery },
    /// The wait for the standby is canceled. The reply is sent with a warning.
    CutShort,
    /// A step of a server.
    Server(usize, Step),
    /// A copy of a data directory is taken.
    Keep(usize),
    /// A server is overwritten with a copy of the other one's data directory, and started.
    Copy { to: usize },
    /// The memory of a server is copied as well, and both continue.
    CopyMemory,
}

/// The request of a server. The server first writes down the names that it uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    Acquire,
    Renew,
    /// A program ends, and releases its lease. Another program starts in its place.
    Release,
}

/// The fate of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// It is written to the file, and then published if it is signed.
    Filed,
    /// As above, but the server's clock is beyond the end of the lease, so the lease is not published.
    PastEnd,
    /// The reply is lost, or the process that waited for it has ended.
    Lost,
    /// Only in a broken protocol: the lease is published before it is in the file.
    Early,
}

/// How a registry can lose commits. A failover promotes the standby. Restoring a dump is the same step, but other
/// evidence shows it. A new registry knows nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    Failover,
    Restore,
    New,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The power fails, or the postmaster or a backend is killed: memory is lost.
    Crash,
    /// The host is booted: the file can no longer be recognized as the original.
    Reboot,
    /// An older copy of the data directory is restored.
    Restore,
    /// The extension is dropped, and created again after the server was started: the keeper's stored data is lost, but
    /// the file still exists.
    Forget,
    /// The registry worker is terminated.
    WorkerDies,
    /// Only in a broken protocol: the reply to the last renewal arrives a second time.
    OldAnswer,
    /// A clean stop stores the high-water mark.
    Stop,
    /// The registry worker publishes the lease in the file, because it has no reply.
    GoOn,
    /// A cycle of the keeper: it makes a plan, and commits it. Unless it works step by step, it also carries the plan
    /// out.
    Cycle { clock: u8, cause: Cause },
    /// Publishes the stored horizon. Closes the gate if the gate is to be opened for another lease: a fence.
    Publish,
    /// The fence raises the counter. Then the lease limits slots.
    Raise,
    /// Opens the gate.
    Open,
    /// Only in a broken protocol: the lease limits slots.
    Cap,
    /// A reset: commits the low horizon, ...
    StoreReset { clock: u8 },
    /// ... then creates new slots.
    Reset,
    /// The keeper is terminated. Shared memory stays.
    KeeperDies,
    /// A caller loads the counter first, then the gate.
    Load,
    /// The caller loads the horizon, reads the clock, and exchanges: this tick belongs to it.
    Take { tick: u8, watch: bool },
}

/// The protocol with its bounds, and with at most one part broken.
#[derive(Clone, Copy)]
pub struct Protocol {
    pub servers: usize,
    pub identities: u8,
    /// Whether keeper and callers take one step at a time. Otherwise an exchange of the identity is one step, and so is
    /// a call of `snowflake_nextval()`, because their details do not concern other servers.
    pub detailed: bool,
    /// Whether the clock of a keeper may read anything, with a horizon one tick ahead of it. Otherwise the horizon is
    /// as far ahead as the lease permits.
    pub any_horizon: bool,
    /// Whether a grant and the renewal that signs it are two steps. Otherwise only a crash comes between them.
    pub asks_twice: bool,
    /// The length of a lease.
    pub lease: u8,
    /// The end of time.
    pub time_max: u8,
    /// How far the registry's clock may be behind the time. A registry whose clock is further behind uses another clock
    /// than the fleet. It is not covered if it loses commits as well.
    pub late: u8,
    /// Whether time stands still at its end, so that the registry's clock may read anything at any moment.
    pub any_time: bool,
    /// Whether a commit waits for the standby.
    pub synchronous: bool,
    pub losses: &'static [Loss],
    /// How often the registry may lose commits without a synchronous standby.
    pub losses_max: u8,
    /// Whether calls that were given up may be executed.
    pub strays: bool,
    /// Whether servers crash and stop.
    pub crashes: bool,
    /// Whether data directories are copied and hosts are booted.
    pub copies: bool,
    /// Whether an older copy of a data directory is restored.
    pub restores: bool,
    /// Whether the keeper's stored data is lost.
    pub forgets: bool,
    /// Whether the clocks of servers may be beyond the ends of leases.
    pub past_clocks: bool,
    pub revocations: bool,
    /// Whether servers are programs that end and release their leases. They do not crash, because a program that has
    /// crashed knows nothing of its lease.
    pub releases: bool,
    /// Whether there are resets in new leases.
    pub is_reset: bool,
    /// Whether memory is copied. In that case no IDs are issued, because those of two live copies are not covered.
    pub copies_memory: bool,
    /// Whether servers are distinguished, which is only necessary to print a story.
    pub names_servers: bool,
    pub broken: Option<Mutation>,
}

impl Protocol {
    pub fn is(&self, mutation: Mutation) -> bool {
        self.broken == Some(mutation)
    }

    /// The end of the usable ticks.
    pub fn end(&self) -> u8 {
        self.time_max + self.lease
    }

    /// How far ahead of the clock a horizon is written.
    pub fn margin_us(&self) -> i64 {
        i64::from(if self.any_horizon { 1 } else { self.end() }) * TICK_US
    }

    /// Collects every step that is possible now.
    pub fn steps(&self, state: &State, steps: &mut Vec<Action>) {
        if !self.any_time && state.now < self.time_max {
            steps.push(Action::Tick);
        }
        self.steps_of_registry(state, steps);
        for at in 0..self.servers {
            let mut own = Vec::new();
            self.steps_of_server(&state.servers[at], state.watched.is_none(), &mut own);
            steps.extend(own.into_iter().map(|step| Action::Server(at, step)));
            if self.copies {
                steps.push(Action::Copy { to: at });
            }
            if self.restores {
                steps.push(Action::Keep(at));
            }
        }
        if self.copies_memory && state.renewals.is_none() {
            steps.push(Action::CopyMemory);
        }
    }

    fn steps_of_registry(&self, state: &State, steps: &mut Vec<Action>) {
        if state.losses_left > 0 || self.synchronous {
            steps.extend(self.losses.iter().map(|&loss| Action::Lose(loss)));
            if !self.synchronous {
                steps.push(Action::Replicate);
            }
        }
        if state.waiting.is_some() {
            steps.extend([Delivery::Filed, Delivery::Lost].map(|delivery| Action::Acknowledge { delivery }));
            steps.push(Action::CutShort);
            return;
        }
        if self.revocations {
            steps.extend((0..self.identities).map(Action::RevokeLease));
        }
        for server in 0..self.servers {
            let held = state.servers[server].file.held;
            let release = held.filter(|_| self.releases).map(|_| Ask::Release);
            let asks = [Some(Ask::Acquire), held.map(|_| Ask::Renew), release];
            for ask in asks.into_iter().flatten() {
                self.calls(state, server, ask, steps);
            }
        }
        if let Some(call) = state.stray {
            for again in [false, true] {
                let late = |now, choice| Action::CarryOutLate { now, choice, again };
                let choices = if matches!(call, Call::Acquire { .. }) { self.identities } else { 1 };
                let choices = 0..choices;
                steps.extend(
                    choices.flat_map(|choice| self.readings(state).map(move |now| late(now, choice))),
                );
            }
        }
    }

    fn calls(&self, state: &State, server: usize, ask: Ask, steps: &mut Vec<Action>) {
        let choices = if ask == Ask::Acquire { self.identities } else { 1 };
        let early = (self.is(Mutation::GateBeforeFile) && ask == Ask::Renew).then_some(Delivery::Early);
        let history = (self.past_clocks && ask == Ask::Renew).then_some(Delivery::PastEnd);
        for delivery in [Delivery::Filed, Delivery::Lost].into_iter().chain(early).chain(history) {
            for choice in 0..choices {
                let readings = self.readings(state);
                steps.extend(readings.map(|now| Action::Call { server, ask, now, choice, delivery }));
            }
        }
        if self.strays {
            steps.push(Action::CallLate { server, ask });
        }
    }

    fn readings(&self, state: &State) -> impl Iterator<Item = u8> + use<> {
        state.now.saturating_sub(self.late)..=state.now
    }

    fn steps_of_server(&self, server: &Server, may_watch: bool, steps: &mut Vec<Step>) {
        if self.crashes {
            steps.push(Step::Crash);
        }
        if self.crashes && server.file.held.is_some() && !server.is_inherited {
            steps.push(Step::WorkerDies);
        }
        if self.copies {
            steps.push(Step::Reboot);
        }
        if self.restores {
            steps.push(Step::Restore);
        }
        if self.forgets {
            steps.push(Step::Forget);
        }
        if server.server_status.is_none() && server.file.held.is_some() {
            steps.push(Step::GoOn);
        }
        if self.is(Mutation::RenewalTakenTwice) && server.server_status.is_some() {
            steps.push(Step::OldAnswer);
        }
        if self.copies_memory {
            return;
        }
        self.steps_of_keeper(server, steps);
        let counter = match (self.detailed, server.caller) {
            (true, Some((counter, _))) => counter,
            (true, None) => {
                steps.extend(server.gate.map(|_| Step::Load));
                return;
            }
            (false, _) if server.gate.is_none() => return,
            (false, _) => server.counter,
        };
        for tick in counter..server.limit() {
            steps.push(Step::Take { tick, watch: false });
            if may_watch {
                steps.push(Step::Take { tick, watch: true });
            }
        }
    }

    fn steps_of_keeper(&self, server: &Server, steps: &mut Vec<Step>) {
        let clocks = if self.any_horizon { 0..self.end() } else { 0..1 };
        let causes: &[Cause] = match self.is_reset {
            true => &[Cause::Nothing, Cause::ClockConfirmed, Cause::Requested],
            false => &[Cause::Nothing],
        };
        match server.keeper {
            // There is nothing to open or to close.
            Keeper::Up if !self.any_horizon && server.server_status.is_none() && server.gate.is_none() => {
                return;
            }
            Keeper::Up => {
                for clock in clocks {
                    steps.extend(causes.iter().map(|&cause| Step::Cycle { clock, cause }));
                }
                if server.gate.is_some() && self.crashes {
                    steps.push(Step::Stop);
                }
                return;
            }
            Keeper::AtShutdownHorizon(_) => steps.extend(clocks.map(|clock| Step::StoreReset { clock })),
            keeper => steps.extend(next_step(keeper, 0)),
        }
        steps.push(Step::KeeperDies);
    }
}
