//! The shell: the actions of the keeper, as in `src/keeper/` and `src/shared/tracks.rs` of the extension, and those of
//! a caller. The keeper's decisions are made by `keeper_plan` of the product.

use snowflake_id_core::keeper_plan::{self, records_at_shutdown};
use snowflake_id_core::reset::{begin_again, check_reset, records_before_reset};
use snowflake_id_core::used::{Use, Uses};

use crate::lease::border::{Cause, identity_to_product, instant_of, instant_us};
use crate::lease::mutation::Mutation;
use crate::lease::protocol::{Protocol, Step};
use crate::lease::state::*;

impl Protocol {
    pub fn step_of_keeper(&self, server: &mut Server, step: Step) -> Option<()> {
        match (step, server.keeper) {
            (Step::Cycle { clock, cause }, Keeper::Up) => {
                server.keeper = Keeper::Stored(self.store_plan(server, clock, cause));
                while !self.detailed && ![Keeper::Up, Keeper::Uncapped].contains(&server.keeper) {
                    let next = next_step(server.keeper, clock)?;
                    self.step_of_keeper(server, next)?;
                }
            }
            (Step::Publish, Keeper::Stored(plan)) => self.publish(server, plan)?,
            (Step::Raise, Keeper::Fencing(plan)) => {
                raise(server, plan.from);
                self.limit_to(server, plan.wanted?);
            }
            (Step::Open, Keeper::Ready(published)) => {
                // Not for a lease that was withdrawn or exchanged since the plan was made.
                let is_told = server
                    .server_status
                    .is_some_and(|server_status| is_renewed_by(&published, &server_status));
                if is_told {
                    server.gate = Some(published.lease.identity);
                }
                server.keeper = match self.is(Mutation::CappedLate) {
                    true => Keeper::Uncapped,
                    false => Keeper::Up,
                };
            }
            (Step::Cap, Keeper::Uncapped) => {
                server.is_uncapped = false;
                server.keeper = Keeper::Up;
            }
            (Step::StoreReset { clock }, Keeper::AtShutdownHorizon(published)) => {
                server.keeper = match self.store_reset(server, &published.lease, clock) {
                    Some(floor) => Keeper::StoredReset(published, floor),
                    None => Keeper::Up,
                };
            }
            (Step::Reset, Keeper::StoredReset(_, floor)) => {
                // Slots are new. A caller that has a former slot finds it fenced.
                server.counter = first_tick_from(floor);
                (server.floor, server.used, server.caller) = (Some(floor), 0, None);
                server.last = None;
                (server.published, server.promised) = (server.stored.horizon, server.stored.horizon);
                server.keeper = Keeper::Up;
            }
            (Step::KeeperDies, _) => server.keeper = Keeper::Up,
            _ => return None,
        }
        Some(())
    }

    /// Makes a plan and commits it.
    fn store_plan(&self, server: &mut Server, clock: u8, cause: Cause) -> Plan {
        let mut seen = server.seen(clock, self.margin_us(), cause);
        if self.is(Mutation::NotCapped) {
            seen.wanted.iter_mut().for_each(|lease| lease.until_us += instant_us(start_of(self.end())));
        }
        if self.is(Mutation::InheritedIgnored) {
            seen.is_lease_inherited = false;
        }
        if self.is(Mutation::LeaseInHandReset) {
            seen.history.last_identity = None;
            seen.uses = under_another_name(seen.uses);
        }
        server.highest = instant_of(seen.history.highest_us);
        let made = keeper_plan::plan(&seen);
        let mut plan = Plan::of(&made, server.server_status);
        let is_opened = matches!(plan.gate, Gate::Open { .. });
        if self.is(Mutation::SuccessorAtClock) && is_opened {
            plan.from = 0;
        }
        if let Some(horizon) = plan.horizon {
            server.highest = server.highest.max(horizon);
            server.promised = server.promised.max(horizon);
            if !(self.is(Mutation::FromNotStored) && is_opened) {
                server.stored.horizon = horizon;
            }
        }
        if !self.is(Mutation::LeaseInHandReset) || is_opened {
            server.stored.add(made.records);
        }
        plan
    }

    /// Publishes the stored horizon, which is durable now.
    fn publish(&self, server: &mut Server, plan: Plan) -> Option<()> {
        if server.floor.is_none() {
            server.floor = Some(plan.floor);
            server.counter = server.counter.max(first_tick_from(plan.floor));
        }
        server.published = plan.horizon.unwrap_or(server.published);
        server.keeper = Keeper::Up;
        match plan.gate {
            Gate::Stay => {
                server.in_force = plan.wanted;
                server.is_uncapped = self.is(Mutation::NotCapped) || self.is(Mutation::CappedBeforeKnown);
            }
            Gate::Close if server.gate.is_some() => {
                server.gate = None;
                raise(server, 0);
            }
            Gate::Close => {}
            Gate::Open { .. } if self.is(Mutation::ExchangeUnfenced) => {
                server.counter = server.counter.max(first_tick_from(plan.from));
                self.limit_to(server, plan.wanted?);
            }
            Gate::Open { is_another } if is_another || plan.from > 0 => {
                server.gate = None;
                server.keeper = Keeper::Fencing(plan);
            }
            Gate::Open { .. } => self.limit_to(server, plan.wanted?),
            Gate::Reset => {
                shutdown_horizon(server);
                server.keeper = Keeper::AtShutdownHorizon(plan.wanted?);
            }
        }
        Some(())
    }

    /// Limits slots to the range of a lease, for which the gate is to be opened.
    fn limit_to(&self, server: &mut Server, published: Published) {
        server.in_force = Some(published);
        server.is_uncapped = self.is(Mutation::NotCapped) || self.is(Mutation::CappedLate);
        server.last = Some(published.lease.identity);
        server.keeper = Keeper::Ready(published);
    }

    /// Commits the low horizon, as `reset()` of the extension does. Returns the new start; `None` if the reset is
    /// refused.
    fn store_reset(&self, server: &mut Server, lease: &Lease, clock: u8) -> Option<Instant> {
        let (mut history, mut uses) = (server.history(), server.stored.uses());
        if self.is(Mutation::LeaseInHandReset) {
            history.last_identity = None;
            uses = under_another_name(uses);
        }
        let identity = identity_to_product(lease.identity);
        let lease = lease.to_product();
        let now_us = instant_us(start_of(clock));
        check_reset(identity, &uses, &history, false, now_us).ok()?;
        let (floor_us, horizon) = begin_again(&lease, now_us, self.margin_us());
        if !self.is(Mutation::LeaseInHandReset) {
            server.stored.add(records_before_reset(&uses, identity, 0, history.highest_us));
        }
        server.stored.horizon = instant_of(horizon.until_us());
        server.highest = instant_of(history.highest_us);
        Some(instant_of(floor_us))
    }

    /// A clean stop stores the high-water mark.
    pub fn stop(&self, server: &mut Server) {
        let end = shutdown_horizon(server);
        let records = records_at_shutdown(&server.stored.uses(), &server.tracks(), &server.history());
        server.stored.add(records);
        server.stored.horizon = end;
    }

    /// The exchange. If it succeeds, the ID has been issued.
    pub fn take(&self, state: &mut State, at: usize, tick: u8, watch: bool) -> Option<()> {
        let server = &mut state.servers[at];
        let (counter, identity) = server.caller.take()?;
        if counter != server.counter {
            return (!watch).then_some(()); // It failed: everything is loaded again.
        }
        server.counter = tick + 1;
        server.used = start_of(tick) + 1;
        let is_inside = server.in_force.is_some_and(|it| it.is_filed && it.lease.has(identity, tick))
            && start_of(tick) < server.stored.horizon;
        match state.watched {
            None if watch => state.watched = Some((identity, tick)),
            Some(watched) if watched == (identity, tick) => state.verdict = Verdict::Repeated,
            _ => {}
        }
        // A broken protocol is to show the consequences.
        if !is_inside && self.checks_inside() && state.verdict == Verdict::Good {
            state.verdict = Verdict::Outside;
        }
        Some(())
    }
}

/// The keeper's next step.
pub fn next_step(keeper: Keeper, clock: u8) -> Option<Step> {
    Some(match keeper {
        Keeper::Up => return None,
        Keeper::Stored(_) => Step::Publish,
        Keeper::Fencing(_) => Step::Raise,
        Keeper::Ready(_) => Step::Open,
        Keeper::Uncapped => Step::Cap,
        Keeper::AtShutdownHorizon(_) => Step::StoreReset { clock },
        Keeper::StoredReset(..) => Step::Reset,
    })
}

fn is_renewed_by(published: &Published, other: &Published) -> bool {
    published.lease.to_product().is_renewed_by(&other.lease.to_product())
}

/// Withdraws the lease from the keeper, and closes the gate.
pub fn withdraw(server: &mut Server) {
    server.server_status = None;
    server.gate = None;
    raise(server, 0);
}

/// The second half of a fence: no attempt that began before it succeeds. There is no slot before the gate is opened.
fn raise(server: &mut Server, from: Instant) {
    let next = server.counter + u8::from(server.last.is_some());
    server.counter = next.max(first_tick_from(from));
    server.floor = server.floor.map(|floor| floor.max(from));
}

/// Fences, and limits use to the IDs that were issued.
fn shutdown_horizon(server: &mut Server) -> Instant {
    server.gate = None;
    raise(server, 0);
    server.published = server.used.max(server.floor.unwrap_or_default());
    server.published
}

/// Only in a broken protocol: attributes the records of use to another identity.
fn under_another_name(uses: Uses) -> Uses {
    let rename = |mut record: Use| {
        record.identity.iter_mut().for_each(|identity| identity.worker += 100);
        record
    };
    uses.iter().map(rename).collect()
}
