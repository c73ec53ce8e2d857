//! The state after each step.

use std::cmp::Reverse;

use snowflake_id_core::clock_sequence::{Asked, NextValue, Widths, next_value};
use snowflake_id_core::clock_watch::ClockWatch;
use snowflake_id_core::clocks::ClockOffset;
use snowflake_id_core::keeper_plan::{self, Seen, plan, records_at_shutdown};
use snowflake_id_core::reset::{begin_again, records_before_reset};
use snowflake_id_core::used::{Scope, Use, Uses as ProductUses};

use crate::keeper::border::identity;
use crate::keeper::mutation::Mutation;
use crate::keeper::protocol::{Action, Emptied, Protocol, Wanted};
use crate::keeper::state::*;

/// The keeper's view in a cycle, besides the stored data and shared memory.
struct Glance {
    clock: Instant,
    wanted: Wanted,
    is_active: bool,
    is_wide: bool,
    had_committed: bool,
}

impl Protocol {
    /// The state after a step; `None` if the step changes nothing.
    pub fn step(&self, before: &State, action: Action) -> Option<State> {
        let mut state = *before;
        self.act(&mut state, action)?;
        self.normalize(&mut state);
        (state != *before).then_some(state)
    }

    fn act(&self, state: &mut State, action: Action) -> Option<()> {
        let State { disk, shared, keeper, request, callers, leases, .. } = state;
        match (action, *keeper) {
            (Action::Crash { kept }, _) => {
                disk.iter_mut().for_each(|disk| disk.settle(kept.into()));
                *shared = Shared::default();
                (*keeper, *request, *callers) = Default::default();
                for lease in leases.iter_mut() {
                    if let Granted::Now { is_inherited, .. } = lease {
                        *is_inherited = true;
                    }
                }
            }
            (Action::CrashOfBackend, _) => {
                let history =
                    if self.is(Mutation::HistoryForgotten) { History::default() } else { shared.history };
                *shared = Shared { history, ..Shared::default() };
                (*keeper, *request, *callers) = Default::default();
            }
            (Action::FlushWal, _) => disk.as_mut()?.flush(),
            (Action::Drop, _) => *disk = None,
            (Action::Create, _) => *disk = Some(self.create(shared)),
            (Action::Empty { what }, _) => {
                let disk = disk.as_mut()?;
                disk.flush();
                match what {
                    Emptied::Records => disk.durable.uses = Uses::default(),
                    Emptied::Horizons => disk.durable.horizons = [Mark::NONE; TRACKS],
                }
            }
            (Action::Allocate { slot_index, clock }, _) => {
                self.allocate(shared, slot_index.into(), Instant::of_clock(clock))?;
            }

            (Action::Cycle { clock, wanted, is_active, is_wide }, Keeper::Up { has_committed }) => {
                let clock = Instant::of_clock(clock);
                let glance = Glance { clock, wanted, is_active, is_wide, had_committed: has_committed };
                state.keeper = Keeper::Written(self.cycle(state, &glance)?);
            }
            (
                Action::Commit,
                Keeper::Written(_)
                | Keeper::WrittenEnd(_)
                | Keeper::WrittenLow { .. }
                | Keeper::WrittenValue(_),
            ) => {
                disk.as_mut()?.flush();
                *keeper = match *keeper {
                    Keeper::Written(cycle) => Keeper::Committed(cycle),
                    Keeper::WrittenEnd(ends) => Keeper::CommittedEnd(ends),
                    Keeper::WrittenLow { floor, .. } => {
                        if self.is(Mutation::ClaimLate) {
                            *request =
                                if *request == Request::None { Request::None } else { Request::Claimed };
                        }
                        Keeper::CommittedLow { floor }
                    }
                    Keeper::WrittenValue(opening) => Keeper::CommittedValue(opening),
                    _ => return None,
                };
            }
            (Action::Publish, Keeper::Committed(cycle) | Keeper::Written(cycle)) => {
                // If it was dropped meanwhile, the present data is in another location.
                disk.iter_mut().for_each(|disk| disk.is_known = disk.is_in_hand);
                shared.history.has_place = true;
                shared.begun.get_or_insert(cycle.begun);
                for (track, horizon) in cycle.horizons.into_iter().enumerate() {
                    // It was promised before, unless that is broken.
                    horizon.into_iter().for_each(|horizon| shared.history.promise(track, horizon));
                }
                self.publish(shared, cycle.horizons);
                let has_committed = cycle.had_committed || cycle.horizons[0].is_some();
                *keeper = match cycle.gate {
                    GatePlan::Stay(None) if cycle.raise.is_none() => Keeper::Up { has_committed },
                    GatePlan::Close if shared.gate.is_none() && cycle.raise.is_none() => Keeper::default(),
                    gate => Keeper::Published { gate, raise: cycle.raise, has_committed },
                };
            }
            (Action::Open, Keeper::Published { gate: GatePlan::Stay(renewed), has_committed, .. }) => {
                if let Some(lease) = renewed {
                    shared.range = lease.range;
                    self.let_slots_be_used(shared);
                }
                *keeper = Keeper::Up { has_committed };
            }
            (
                Action::Open,
                Keeper::Published { gate: GatePlan::Open { lease, .. }, .. }
                | Keeper::Fencing(Then::Open { lease, .. }, _),
            ) => {
                shared.range = lease.range;
                self.let_slots_be_used(shared);
                shared.history.last_identity = Some(lease.identity);
                shared.gate = Some(lease.identity);
                *keeper = Keeper::Up { has_committed: true };
            }
            (Action::Close(then), _) => {
                if !(self.is(Mutation::ShutdownUnclosed) && matches!(then, Then::ShutdownHorizon { .. })) {
                    shared.gate = None;
                }
                let floors = match then {
                    Then::Open { from, .. } => from,
                    Then::Raise { floor, .. } => [floor; TRACKS],
                    _ => Default::default(),
                };
                for (track, begun) in shared.begun.iter_mut().flatten().enumerate() {
                    if track == 0 || *begun != Mark::NONE {
                        begun.at = begun.at.max(floors[track]);
                    }
                }
                if let (Then::Reset(Reset { is_requested: true, .. }), false) =
                    (then, self.is(Mutation::ClaimLate))
                {
                    *request = Request::Claimed;
                }
                *keeper = Keeper::Fencing(then, 0);
            }
            (Action::Raise, Keeper::Fencing(then, at)) => {
                self.raise_for(shared, at.into(), then);
                *keeper = match then {
                    Then::Close if usize::from(at) + 1 == SLOTS => Keeper::default(),
                    _ => Keeper::Fencing(then, at + 1),
                };
            }
            (Action::Reopen, Keeper::Fencing(Then::Raise { floor, open_for, gate, has_committed }, _)) => {
                shared.gate = open_for;
                if *request != Request::None {
                    state.raised = state.raised.max(floor);
                }
                *request = Request::None;
                *keeper = Keeper::Published { gate, raise: None, has_committed };
            }
            (Action::ShutdownHorizon, then) => {
                let begun = shared.begun?;
                let ends = [0, 1].map(|track| match begun[track] {
                    Mark::NONE => Mark::NONE,
                    Mark { value, at } => {
                        let floor = if self.is(Mutation::EndWithoutFloor) { Instant(0) } else { at };
                        Mark { value, at: self.end_of_use(shared, track).max(floor) }
                    }
                });
                if !self.is(Mutation::ShutdownUnfenced) {
                    self.publish(shared, ends.map(Some));
                }
                *keeper = match then {
                    Keeper::Fencing(Then::Reset(reset), _) => Keeper::ShuttingOut(reset),
                    // The keeper must not lower stored data that is not its own.
                    Keeper::Fencing(Then::ShutdownHorizon { has_committed: false }, _) => Keeper::default(),
                    _ => Keeper::AtShutdownHorizon(ends),
                };
            }
            (Action::WriteEnd, Keeper::AtShutdownHorizon(ends)) => {
                let disk = disk.as_mut()?;
                let (uses, stored) = self.read(disk, &mut shared.history);
                let records =
                    records_at_shutdown(&uses, &self.tracks(shared, stored), &self.history(&shared.history));
                self.write(disk, &records, ends.map(Some));
                *keeper = Keeper::WrittenEnd(ends);
            }
            (Action::Forget, Keeper::CommittedEnd(ends)) => {
                shared.history.promised = ends;
                *keeper = Keeper::default();
            }

            (Action::Request(identity), _) => {
                *request = Request::Waiting;
                let lease = Lease { identity, range: Range::default() };
                *keeper = Keeper::Requested(Reset { lease, is_requested: true });
            }
            (Action::RequestRaise(floor), _) => *request = Request::Raise(Instant::of_clock(floor)),
            (Action::Withdraw, _) => *request = Request::None,
            (Action::LeaveRequest, _) => *keeper = Keeper::default(),
            (Action::RefuseReset, _) => (*keeper, *request) = Default::default(),
            (Action::WriteLow { clock }, Keeper::ShuttingOut(reset)) => {
                let disk = disk.as_mut()?;
                let (uses, _) = self.read(disk, &mut shared.history);
                let who = reset.lease.identity;
                let now_us = self.us(Instant::of_clock(clock));
                let (floor_us, horizon) = begin_again(&self.lease(reset.lease), now_us, self.reach_us());
                let (floor, horizon) = (self.instant(floor_us), self.mark(horizon));
                let (value, highest_us) = (shared.value(), self.us(shared.history.highest));
                let mut records = records_before_reset(&uses, identity(who), value, highest_us);
                if self.is(Mutation::ResetInUse) {
                    records.retain(|record| record.identity == Some(identity(who)));
                }
                self.promise_reset(&mut shared.history, horizon);
                self.write(disk, &records, [Some(horizon), Some(Mark::NONE)]);
                *keeper = Keeper::WrittenLow { reset, floor };
            }
            (Action::Reset, Keeper::CommittedLow { floor }) => {
                self.reset(shared, callers, floor);
                (*keeper, *request) = Default::default();
            }

            (Action::WriteValue { clock }, Keeper::Up { has_committed }) => {
                let (floor, horizon) = self.write_value(state, Instant::of_clock(clock))?;
                state.keeper = Keeper::WrittenValue(Opening { floor, horizon, has_committed });
            }
            (Action::Hide, Keeper::CommittedValue(opening) | Keeper::WrittenValue(opening)) => {
                self.hide(shared, opening.horizon.value);
                *keeper = Keeper::Hidden(opening);
            }
            (Action::Move, Keeper::Hidden(opening)) => {
                self.move_to(shared, &opening);
                *keeper = Keeper::Moved(opening);
            }
            (Action::Publish, Keeper::CommittedValue(opening) | Keeper::Moved(opening)) => {
                let Opening { floor, horizon, has_committed } = opening;
                let zero = shared.begun?[0];
                if horizon.value == 0 {
                    shared.begun = Some([Mark { value: 0, at: floor }, Mark::NONE]);
                    self.publish(shared, [Some(horizon), Some(Mark::NONE)]);
                } else {
                    shared.begun = Some([zero, Mark { value: horizon.value, at: floor }]);
                    self.publish(shared, [None, Some(horizon)]);
                }
                *keeper = Keeper::Up { has_committed };
            }

            (Action::Die { wrote }, _) => {
                disk.iter_mut().for_each(|disk| disk.pending.truncate(wrote.into()));
                (*keeper, *request) = Default::default();
            }
            (Action::Skip, _) => {
                let horizons = disk.as_ref()?.readable().horizons;
                self.publish(shared, horizons.map(Some));
            }

            (Action::Load { caller, slot_index, value }, _) => {
                callers[caller] = self.load(shared, slot_index, value)?;
            }
            (Action::Decide { caller, clock, is_wide }, _) => {
                let clock = Instant::of_clock(clock);
                let max_ahead_us = self.max_ahead_us + if is_wide { self.unit_us } else { 0 };
                callers[caller] =
                    self.decide(callers[caller], shared, clock, max_ahead_us).unwrap_or_default();
            }
            (Action::Exchange { caller, watch }, _) => self.exchange(state, caller, watch)?,
            _ => unreachable!("{action:?} is not offered"),
        }
        Some(())
    }

    /// A cycle: `Keeper::store_plan` of src/keeper/cycle.rs.
    fn cycle(&self, state: &mut State, glance: &Glance) -> Option<Cycle> {
        let clock_us = self.us(glance.clock);
        let is_clock_good = self.watch(&mut state.shared.history, glance.clock);
        let (wanted, is_lease_inherited) = self.wanted(state, glance.wanted);
        let State { disk, shared, request, .. } = state;
        let disk = disk.as_mut()?;
        let (uses, stored) = self.read(disk, &mut shared.history);
        let raise = match *request {
            Request::Raise(floor) => Some(floor),
            _ => None,
        };
        if raise.is_some() && !self.is(Mutation::RaiseClaimedLate) {
            *request = Request::Claimed;
        }
        let more_us = if glance.is_wide { self.unit_us } else { 0 };
        let is_confirmed = matches!(glance.wanted, Wanted::Leased { has_to_reset: true, .. });
        let open_for = shared.gate.map(|identity| self.lease(Lease { identity, range: shared.range }));
        let mut seen = Seen {
            now_us: clock_us,
            max_ahead_us: self.max_ahead_us + more_us,
            horizon_margin_us: self.horizon_margin_us + more_us,
            tracks: self.tracks(shared, stored),
            is_elsewhere: shared.history.has_place && !disk.is_known,
            copied_us: 0,
            uses,
            history: self.history(&shared.history),
            raise_floor_to_us: raise.map(|floor| self.us(floor)),
            wanted,
            is_lease_inherited: is_lease_inherited && !self.is(Mutation::InheritedIsNew),
            open_for,
            is_clock_confirmed: is_confirmed,
            is_reset_requested: is_confirmed,
            has_room_for_reset: true,
            is_active: glance.is_active,
            is_clock_good: is_clock_good || self.is(Mutation::JumpFollowed),
        };
        if seen.uses.is_empty() && self.is(Mutation::AbsenceIsUnused) {
            seen.history.last_identity = None;
        }
        let mut plan = plan(&seen);
        self.break_plan(&seen, &shared.history, &mut plan);
        let horizons = plan.tracks.map(|track| track.horizon.map(|horizon| self.mark(horizon)));
        for (track, horizon) in horizons.into_iter().enumerate() {
            if let Some(horizon) = horizon
                && !self.is(Mutation::PromiseAfterCommit)
            {
                shared.history.promise(track, horizon);
            }
        }
        self.write(disk, &plan.records, horizons);
        let gate = match plan.gate {
            keeper_plan::GatePlan::Stay => {
                let lease = wanted.map(|lease| self.lease_of(&lease));
                GatePlan::Stay(lease.filter(|lease| lease.range != shared.range))
            }
            keeper_plan::GatePlan::Open { lease, is_another } => {
                let from = plan.tracks.map(|track| self.instant(track.from_us));
                GatePlan::Open { lease: self.lease_of(&lease), is_another, from }
            }
            keeper_plan::GatePlan::Reset(lease) => GatePlan::Reset(self.lease_of(&lease)),
            keeper_plan::GatePlan::Close | keeper_plan::GatePlan::Refuse { .. } => GatePlan::Close,
        };
        let begun = plan.tracks.map(|track| self.mark_of_begun(track.begun));
        Some(Cycle {
            begun: shared.begun.unwrap_or(begun),
            horizons,
            raise,
            gate,
            had_committed: glance.had_committed,
        })
    }

    /// Changes the plan if that is broken.
    fn break_plan(&self, seen: &Seen, history: &History, plan: &mut keeper_plan::Plan) {
        let records = std::mem::take(&mut plan.records);
        plan.records = match plan.loss {
            Some(keeper_plan::Loss::Stored) => self.after_loss(records, history),
            _ => records,
        };
        let wanted = seen.wanted.map(|lease| lease.identity);
        let is_opened = matches!(plan.gate, keeper_plan::GatePlan::Open { .. });
        if self.is(Mutation::AbsenceIsUnused) {
            plan.records.retain(|record| record.identity == wanted);
        }
        if self.is(Mutation::RecordAfterOpen) && is_opened {
            plan.records.retain(|record| record.identity != wanted);
        }
        if self.is(Mutation::RaiseUnrecorded) && seen.raise_floor_to_us.is_some() {
            plan.records.clear();
        }
        if self.is(Mutation::ResetUnfenced) {
            plan.tracks.iter_mut().for_each(|track| track.from_us = 0);
        }
        if let keeper_plan::GatePlan::Open { is_another, .. } = &mut plan.gate
            && self.is(Mutation::OpenUnfenced)
        {
            *is_another = false;
        }
    }

    /// The wanted lease, and whether it was granted before the server was started. Records the registry's actions.
    fn wanted(&self, state: &mut State, wanted: Wanted) -> (Option<snowflake_id_core::Lease>, bool) {
        match wanted {
            Wanted::Nobody => (None, false),
            Wanted::ForGood(who) => (Some(snowflake_id_core::Lease::for_good(identity(who))), false),
            Wanted::Leased { at, is_renewed, .. } => {
                let at = usize::from(at);
                let (was_renewed, is_inherited) = match state.leases[at] {
                    Granted::No => (false, false),
                    Granted::Now { is_renewed, is_inherited } => (is_renewed, is_inherited),
                };
                state.leases[at] = Granted::Now { is_renewed: is_renewed || was_renewed, is_inherited };
                (self.granted(state, at).map(|lease| self.lease(lease)), is_inherited)
            }
        }
    }

    /// Whether the clock may be followed. `watch` of src/keeper/watch_clock.rs.
    fn watch(&self, history: &mut History, clock: Instant) -> bool {
        if self.jump.is_none() {
            return true;
        }
        let mut watch = ClockWatch::new(ClockOffset::from_us(self.us(history.clock)));
        let max_jump_us = i64::from(self.clock_max) * self.unit_us;
        let (clock_us, reached_us) = (self.us(clock), self.us(history.published[0].at));
        let jump = watch.observe(clock_us, ClockOffset::from_us(clock_us), max_jump_us, reached_us);
        history.clock = self.instant(watch.offset().as_us());
        jump.is_none()
    }

    /// Opens another value of the clock sequence if one is needed: `open_next` of src/keeper/clock_sequence.rs up to
    /// the commit. Returns its start and its horizon.
    fn write_value(&self, state: &mut State, clock: Instant) -> Option<(Instant, Mark)> {
        let State { disk, shared, .. } = state;
        let disk = disk.as_mut()?;
        if !self.watch(&mut shared.history, clock) {
            return None;
        }
        let (uses, stored) = self.read(disk, &mut shared.history);
        let tracks = self.tracks(shared, stored);
        let is_elsewhere = shared.history.has_place && !disk.is_known;
        if is_elsewhere || tracks[1].is_changed() {
            return None;
        }
        let widths = self.slot_shapes().filter(|(_, slot_shape)| slot_shape.key.track() == 1);
        let widths =
            widths.map(|(_, slot_shape)| Widths::of(&slot_shape.layout).0).fold(0, |all, width| all | width);
        let lease = self.lease(Lease { identity: shared.gate?, range: shared.range });
        let now_us = self.us(clock);
        let asked = Asked { now_us, reach_us: self.reach_us(), widths: Widths(widths), lease };
        // Only in a broken protocol: records of values are ignored.
        let is_passed_over = |record: &Use| self.is(Mutation::ReusedEarly) && record.scope != Scope::ZERO;
        let known: ProductUses = uses.iter().filter(|record| !is_passed_over(record)).collect();
        let next = match next_value(&tracks, &known, &asked) {
            _ if self.is(Mutation::ZeroAgain) && shared.value() > 0 => {
                let horizon = Mark { value: 0, at: self.instant(now_us + self.reach_us()) };
                self.write(disk, &[], [Some(horizon), Some(Mark::NONE)]);
                return Some((clock, horizon));
            }
            next => next?,
        };
        let NextValue { horizon, floor_us, closing } = next;
        let horizon = self.mark(horizon);
        if horizon.value > self.max_value {
            return None;
        }
        shared.history.promise(1, horizon);
        if self.is(Mutation::ClosedAfter) {
            self.write(disk, &[], [None, Some(horizon)]);
        }
        self.write(disk, &closing, [None, Some(horizon)]);
        Some((self.instant(floor_us), horizon))
    }

    /// Merges states that differ in nothing relevant.
    fn normalize(&self, state: &mut State) {
        let State { disk, shared, keeper, callers, .. } = state;
        if let (None, Keeper::Up { .. }) = (shared.gate, *keeper) {
            *keeper = Keeper::default(); // Who has committed matters only while the gate is open.
        }
        if self.jump.is_some() && shared.history.clock == Instant(0) {
            shared.history.clock = Instant::of_clock(0); // The same value as at the start.
        }
        if let Some(disk) = disk
            && !matches!(keeper, Keeper::Written(_) | Keeper::Committed(_))
        {
            disk.is_in_hand = false;
        }
        for (at, slot_shape) in self.slot_shapes() {
            // A slot that was raised to this counter by a fence is raised further by the next fence, so the two states
            // are equivalent.
            if let Some(Slot { word, end_before: Some(_), .. }) = &mut shared.slots[at] {
                word.counter = word.counter.min(self.beyond(slot_shape));
            }
        }
        for caller in callers.iter_mut() {
            let Some(((at, _), current)) = caller.at.zip(caller.current) else { continue };
            let slot = shared.slots[self.slot_of(at)];
            let word = caller.retired.or(slot.map(|slot| slot.word));
            // It will fail in any case, because counters only grow while the value stays the same.
            let fails = word.is_none_or(|word| word.value == current.value && word.counter > current.counter);
            if fails && !self.is(Mutation::ResetSameSlots) && !self.is(Mutation::WordWithoutValue) {
                *caller = Caller::default();
            }
        }
        if !self.names_callers {
            callers.sort_unstable_by_key(|&caller| Reverse(caller)); // Idle callers come last.
        }
    }
}

/// Describes a record, for a story.
pub fn describe(record: &Use) -> String {
    let who =
        record.identity.map_or("every identity".into(), |identity| format!("worker {}", identity.worker));
    match record.scope {
        Scope::ZERO => who,
        Scope::Value(value) => format!("{who} with value {value}"),
        Scope::Others => format!("{who} with other values"),
    }
}
