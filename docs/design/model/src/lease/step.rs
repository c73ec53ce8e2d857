//! The state after each step.

use crate::lease::border::new_token;
use crate::lease::mutation::Mutation;
use crate::lease::protocol::{Action, Ask, Delivery, Loss, Protocol, Step};
use crate::lease::registry::Decision;
use crate::lease::shell::withdraw;
use crate::lease::state::*;

impl Protocol {
    /// The state after a step; `None` if the step changes nothing.
    pub fn step(&self, before: &State, action: Action) -> Option<State> {
        let mut state = *before;
        match action {
            Action::Tick => state.now += 1,
            Action::Replicate => state.standby = state.registry,
            Action::Lose(loss) => self.lose(&mut state, loss),
            Action::RevokeLease(identity) => {
                let row = &mut state.registry.rows[usize::from(identity)];
                row.lease_id = None;
                if self.is(Mutation::RevocationLowers) {
                    row.until = row.until.min(state.now.saturating_sub(1)).max(row.from);
                }
            }
            Action::Call { server, ask, now, choice, delivery } => {
                let call = self.ask(&mut state, server, ask)?;
                self.carry_out(&mut state, Some(server), call, now, choice, delivery);
            }
            Action::CallLate { server, ask } => state.stray = Some(self.ask(&mut state, server, ask)?),
            Action::CarryOutLate { now, choice, again } => {
                let call = state.stray?;
                if !again {
                    state.stray = None;
                }
                self.carry_out(&mut state, None, call, now, choice, Delivery::Lost);
            }
            Action::Acknowledge { delivery } => {
                let Waiting { server, call, answer, after } = state.waiting.take()?;
                (state.registry, state.standby) = (after, after);
                self.deliver(&mut state, server, call, answer, delivery);
            }
            Action::CutShort => {
                let Waiting { server, call, answer, after } = state.waiting.take()?;
                state.registry = after;
                if self.is(Mutation::CancelledBelieved) {
                    self.deliver(&mut state, server, call, answer, Delivery::Filed);
                }
            }
            Action::Copy { to } => {
                let Server { stored, file, .. } = state.servers[1 - to];
                state.servers[to].stored = stored;
                state.servers[to].file = file;
                if !self.is(Mutation::EvidenceUnchecked) {
                    forget_lease(&mut state.servers[to].file);
                }
                restart(&mut state, to);
            }
            Action::CopyMemory => {
                state.servers[1] = state.servers[0];
                state.renewals = Some([0; SERVERS]);
            }
            Action::Keep(at) => {
                let Server { file, stored, .. } = state.servers[at];
                state.servers[at].older = Disk { file, stored };
            }
            Action::Server(at, step) => self.step_of_server(&mut state, at, step)?,
        }
        self.normalize(&mut state);
        (state != *before).then_some(state)
    }

    fn lose(&self, state: &mut State, loss: Loss) {
        let is_noticed = match loss {
            // A server that has received a reply received it after the commit reached the standby.
            Loss::Failover => !self.synchronous && !self.is(Mutation::FailoverUnnoticed),
            Loss::Restore => !self.is(Mutation::RestoreUnnoticed),
            Loss::New => !self.is(Mutation::NewRegistryTrusted),
        };
        if loss == Loss::New {
            state.standby = Registry::default();
        }
        state.registry = state.standby;
        state.registry.is_suspect |= is_noticed;
        state.standby = state.registry;
        state.waiting = None;
        state.losses_left = state.losses_left.saturating_sub(1);
    }

    /// Writes down the names that a server uses in a call.
    fn ask(&self, state: &mut State, at: usize, ask: Ask) -> Option<Call> {
        if ask == Ask::Release {
            return self.end_program(state, at);
        }
        let file = &mut state.servers[at].file;
        Some(match ask {
            Ask::Acquire => {
                file.change(|state| state.ask(new_token()));
                let (lease_id, nonce) = file.asking?;
                Call::Acquire { lease_id, nonce }
            }
            Ask::Renew => {
                let Held { lease, lease_id, last, next } = file.held?;
                Call::Renew { identity: lease.identity, lease_id, last, next }
            }
            Ask::Release => return None,
        })
    }

    /// A program stops, and says up to which tick it has used its lease. Another program starts in its place.
    fn end_program(&self, state: &mut State, at: usize) -> Option<Call> {
        let Server { file, counter, .. } = state.servers[at];
        let Held { lease, lease_id, last, next } = file.held?;
        if !self.is(Mutation::ReleasedUnfenced) {
            state.servers[at] = Server::default();
            forget_waiter(state, at);
        }
        let used_until = counter.max(lease.from);
        Some(Call::Release { identity: lease.identity, lease_id, last, next, used_until })
    }

    fn carry_out(
        &self,
        state: &mut State,
        server: Option<usize>,
        call: Call,
        now: u8,
        choice: Identity,
        delivery: Delivery,
    ) {
        let Decision { after, answer, is_written } = self.decide(&state.registry, call, now, choice);
        match answer {
            Some(answer) if is_written && self.synchronous => {
                state.waiting = Some(Waiting { server, call, answer, after });
                if self.is(Mutation::UncommittedBelieved) {
                    self.deliver(state, server, call, answer, Delivery::Filed);
                }
                return;
            }
            Some(answer) => {
                let held = server.and_then(|at| state.servers[at].file.held);
                let goes_on = held.is_some_and(|held| held.lease.until > now);
                let is_renewal = matches!(call, Call::Renew { .. });
                let is_twin = answer == Answer::Twin && is_renewal;
                if is_twin && goes_on && state.renewals.is_none() && !self.strays {
                    state.verdict = Verdict::CalledTwin;
                }
                state.registry = after;
                self.deliver(state, server, call, answer, delivery);
                if let (Some(at), Answer::Granted(_), Call::Acquire { .. }) = (server, answer, call)
                    && delivery != Delivery::Lost
                    && !self.asks_twice
                    && let Some(renewal) = self.ask(state, at, Ask::Renew)
                {
                    self.carry_out(state, server, renewal, now, choice, Delivery::Filed);
                }
                return;
            }
            None => {}
        }
        state.registry = after;
    }

    fn deliver(&self, state: &mut State, at: Option<usize>, call: Call, answer: Answer, delivery: Delivery) {
        let Some(at) = at else { return };
        if delivery == Delivery::Lost {
            return;
        }
        let server = &mut state.servers[at];
        let file = server.file;
        self.receive(server, call, answer, delivery);
        if delivery == Delivery::Early && server.file != file {
            server.file = file;
            server.server_status.iter_mut().for_each(|published| published.is_filed = false);
        }
        self.count(&mut state.renewals, at, call, answer);
    }

    fn step_of_server(&self, state: &mut State, at: usize, step: Step) -> Option<()> {
        let server = &mut state.servers[at];
        match step {
            Step::Crash => restart(state, at),
            Step::Reboot => {
                forget_lease(&mut server.file);
                restart(state, at);
            }
            Step::Restore => {
                Disk { file: server.file, stored: server.stored } = server.older;
                if !self.is(Mutation::OlderFile) {
                    forget_lease(&mut server.file);
                }
                restart(state, at);
            }
            Step::Forget => {
                server.stored = Stored::default();
                restart(state, at);
            }
            Step::Stop => {
                self.stop(server);
                restart(state, at);
            }
            Step::WorkerDies => server.is_inherited = true,
            Step::GoOn if self.is(Mutation::AnswerNeeded) => return None,
            Step::GoOn => {
                let clock = server.file.held?.lease.from;
                self.tell(server, clock);
            }
            Step::OldAnswer => {
                let lease = server.file.held?.lease;
                server.file.change(|state| state.renew(lease.to_product(), new_token()));
            }
            Step::Load => server.caller = Some((server.counter, server.gate?)),
            Step::Take { tick, watch } => {
                if !self.detailed {
                    server.caller = Some((server.counter, server.gate?));
                }
                self.take(state, at, tick, watch)?;
            }
            _ => self.step_of_keeper(server, step)?,
        }
        Some(())
    }

    /// The registry worker handles a reply.
    pub fn receive(&self, server: &mut Server, call: Call, answer: Answer, delivery: Delivery) {
        let file = &mut server.file;
        match (answer, call) {
            (Answer::Granted(lease), Call::Acquire { .. }) => {
                file.change(|state| state.hold(lease.to_product(), new_token()));
                server.is_inherited = false;
                // The lease is published when the registry has signed it, in the reply to a renewal.
                if self.is(Mutation::ReadBelieved) {
                    self.prove(server);
                    self.tell(server, lease.from);
                }
            }
            (Answer::Granted(granted), Call::Renew { .. }) => {
                let Some(held) = file.held else { return };
                let is_unchecked = self.is(Mutation::AnswerUnchecked) || self.is(Mutation::RenewalByName);
                if !held.lease.is_same(&granted) && !is_unchecked {
                    return; // A reply about another lease than the one in hand counts as "unknown".
                }
                file.change(|state| state.renew(granted.to_product(), new_token()));
                self.prove(server);
                let clock = if delivery == Delivery::PastEnd { u8::MAX / 2 } else { held.lease.from };
                self.tell(server, clock);
            }
            // The program has ended.
            (_, Call::Release { .. }) | (Answer::Released, _) => {}
            (Answer::Twin, Call::Acquire { .. }) => file.asking = None,
            (Answer::Twin, Call::Renew { .. }) => {
                withdraw(server);
                server.file.change(|state| state.held = None);
            }
        }
    }

    /// The registry has signed its grant of the lease in hand.
    fn prove(&self, server: &mut Server) {
        server.file.change(|state| state.prove(String::new(), 0));
    }

    /// Publishes the lease in hand for the keeper, by this clock.
    fn tell(&self, server: &mut Server, clock: u8) {
        let is_inherited = server.is_inherited;
        let lease = server.file.lease_at(clock);
        server.server_status = lease.map(|lease| Published { lease, is_filed: true, is_inherited });
    }

    /// Counts renewals since a memory was copied, until one of the two servers has another lease.
    fn count(&self, renewals: &mut Option<[u8; SERVERS]>, at: usize, call: Call, answer: Answer) {
        let Some(counts) = renewals else { return };
        match (answer, call) {
            (Answer::Granted(_), Call::Renew { .. }) => counts[at] = (counts[at] + 1).min(2),
            _ => *counts = [u8::MAX; SERVERS], // From now on the two differ.
        }
    }
}

/// The effect of a file that is not the original on a server.
fn forget_lease(file: &mut File) {
    file.change(|state| *state = std::mem::take(state).of_an_unrecognized_server());
}

fn restart(state: &mut State, at: usize) {
    state.servers[at] = state.servers[at].restarted();
    forget_waiter(state, at);
}

/// The process that waited for the reply has ended.
fn forget_waiter(state: &mut State, at: usize) {
    if let Some(waiting) = &mut state.waiting
        && waiting.server == Some(at)
    {
        waiting.server = None;
    }
}
