//! What the keeper does about a lease, and what a caller takes.

use crate::lease::mutation::Mutation;
use crate::lease::protocol::{Protocol, Step};
use crate::lease::state::*;

impl Protocol {
    pub fn step_of_keeper(&self, server: &mut Server, step: Step) -> Option<()> {
        match (step, server.keeper) {
            (Step::Store { clock }, _) => {
                let published = server.board?;
                if !self.is(Mutation::FromNotStored) {
                    server.horizon = self.next_horizon(server, &published.lease, clock);
                }
                server.keeper = Keeper::Stored(published);
                if self.is(Mutation::ExchangeUnfenced) {
                    server.counter = server.counter.max(published.lease.from);
                    self.put_in_force(server, published);
                    server.keeper = Keeper::Ready(published);
                }
            }
            (Step::Exchange { clock }, _) => {
                for step in [Step::Store { clock }, Step::Close, Step::Raise, Step::Open] {
                    self.step_of_keeper(server, step)?;
                }
            }
            (Step::Close, Keeper::Stored(published)) => {
                server.gate = None;
                server.keeper = Keeper::Fencing(published);
            }
            (Step::Raise, Keeper::Fencing(published)) => {
                server.counter += 1;
                if !self.is(Mutation::SuccessorAtClock) {
                    server.counter = server.counter.max(published.lease.from);
                }
                self.put_in_force(server, published);
                server.keeper = Keeper::Ready(published);
            }
            (Step::BeginAnew { clock }, Keeper::Fencing(published)) => {
                let Lease { from, until, .. } = published.lease;
                server.horizon = (clock + HORIZON_LEASE).min(until).max(from);
                server.counter = clock.min(until).max(from);
                server.caller = None; // It has the slot that is retired, and finds it fenced.
                self.put_in_force(server, published);
                server.keeper = Keeper::Ready(published);
            }
            (Step::Open, Keeper::Ready(published)) => {
                server.gate = Some(published.lease.identity);
                server.keeper = match self.is(Mutation::CappedLate) {
                    true => Keeper::Uncapped,
                    false => Keeper::Up,
                };
            }
            (Step::Cap, Keeper::Uncapped) => {
                server.limit = server.limit.min(server.in_force?.lease.until);
                server.keeper = Keeper::Up;
            }
            (Step::Extend { clock }, _) => {
                let published = server.board?;
                server.horizon = self.next_horizon(server, &published.lease, clock);
                server.in_force = Some(Published { is_fresh: false, ..published });
                server.limit = match self.is(Mutation::NotCapped) || self.is(Mutation::CappedBeforeKnown) {
                    true => server.horizon,
                    false => server.horizon.min(published.lease.until),
                };
            }
            (Step::KeeperDies, _) => server.keeper = Keeper::Up,
            _ => return None,
        }
        Some(())
    }

    /// The horizon to store: never lower than what is stored or was handed out.
    fn next_horizon(&self, server: &Server, lease: &Lease, clock: u8) -> u8 {
        let known = server.horizon.max(server.counter).max(lease.from);
        let ahead = clock + HORIZON_LEASE;
        known.max(if self.is(Mutation::NotCapped) { ahead } else { ahead.min(lease.until) })
    }

    /// What is published for a lease, while the gate is closed.
    fn put_in_force(&self, server: &mut Server, published: Published) {
        if let Some(board) = &mut server.board {
            board.is_fresh &= !board.lease.is_same(&published.lease);
        }
        server.in_force = Some(Published { is_fresh: false, ..published });
        let until = published.lease.until;
        let is_uncapped = self.is(Mutation::NotCapped) || self.is(Mutation::CappedLate);
        server.limit = match self.is(Mutation::FromNotStored) {
            true => until,
            false if is_uncapped => server.horizon,
            false => server.horizon.min(until),
        };
    }

    /// The exchange. When it succeeds, the ID counts as handed out.
    pub fn take(&self, state: &mut State, at: usize, tick: u8, watch: bool) -> Option<()> {
        let server = &mut state.servers[at];
        let (counter, identity) = server.caller.take()?;
        if counter != server.counter {
            return (!watch).then_some(()); // Failed: everything is loaded again.
        }
        server.counter = tick + 1;
        let is_inside = server.in_force.is_some_and(|it| it.is_filed && it.lease.has(identity, tick))
            && tick < server.horizon;
        match state.watched {
            None if watch => state.watched = Some((identity, tick)),
            Some(watched) if watched == (identity, tick) => state.verdict = Verdict::Repeated,
            _ => {}
        }
        // A broken protocol is to show what comes of it.
        if !is_inside && self.checks_inside() && state.verdict == Verdict::Good {
            state.verdict = Verdict::Outside;
        }
        Some(())
    }
}
