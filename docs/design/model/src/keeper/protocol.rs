//! The steps of each process, and when they are possible.
//!
//! There is no variable for the clock: it may be set at any moment, so each reading may be anything.

use snowflake_id_core::reset::check_reset;

use crate::keeper::border::{SlotShape, identity};
use crate::keeper::mutation::Mutation;
use crate::keeper::state::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The postmaster is killed, or the power fails: all shared memory is lost, and of the writes that were not flushed
    /// only a prefix survives. Also the end of a clean stop, and a promotion.
    Crash { kept: u8 },
    /// A backend crashes: shared memory is reinitialized, but the history is preserved. The disk loses nothing.
    CrashOfBackend,
    /// The WAL writer, or the commit of any other process, flushes the writes.
    FlushWal,
    /// DROP EXTENSION.
    Drop,
    /// CREATE EXTENSION, whose script stores what the server knows of its past.
    Create,
    /// The records of use are emptied, or the horizons.
    Empty { what: Emptied },
    /// A layout gets a slot when it is first used. The slot begins at the floor.
    Allocate { slot_index: u8, clock: u8 },
    /// A cycle: the keeper locks and reads the stored data and makes a plan. It notes the horizons and writes the plan.
    Cycle { clock: u8, wanted: Wanted, is_active: bool, is_wide: bool },
    /// The commit of the present transaction.
    Commit,
    /// Publishes the horizons to server_status and to the slots. This is one step, because the directory is locked.
    Publish,
    /// Opens the gate, after a fence if one is needed.
    Open,
    /// A fence: close the gate, ...
    Close(Then),
    /// ... then raise every slot's counter by at least one, then act.
    Raise,
    /// Opens the gate again after a request to raise the floor, and replies.
    Reopen,
    /// Publishes the high-water marks.
    ShutdownHorizon,
    /// Writes the high-water marks.
    WriteEnd,
    /// Lowers the promises to the committed high-water marks.
    Forget,
    /// An administrator requests a reset for an identity. The keeper examines the request.
    Request(Identity),
    /// An administrator requests that no ID be issued below this instant.
    RequestRaise(u8),
    /// The administrator's call ends, and withdraws the request.
    Withdraw,
    /// The request is gone: the keeper does nothing about it.
    LeaveRequest,
    /// After the fence, the stored data shows that the reset is not permitted.
    RefuseReset,
    /// The reset is permitted: excludes the identities that were used, and writes a horizon in the present.
    WriteLow { clock: u8 },
    /// The reset is committed: layouts get new slots.
    Reset,
    /// A call has requested another value of the clock sequence: promises and writes the value.
    WriteValue { clock: u8 },
    /// The slots that are to move to the value lose their horizon, ...
    Hide,
    /// ... then their words change, and then the horizon is published.
    Move,
    /// The keeper is terminated, or fails, at any step, perhaps after only the first of its writes. Its writes and
    /// shared memory stay.
    Die { wrote: u8 },
    /// Only in a broken protocol: continues without its own commit.
    Skip,
    /// A caller loads the counter *first*.
    Load { caller: usize, slot_index: u8, value: u8 },
    /// The caller loads gate and limit, reads the clock, and decides. Reading the clock later would make no difference,
    /// because the clock may be anything at any moment.
    Decide { caller: usize, clock: u8, is_wide: bool },
    /// The exchange.
    Exchange { caller: usize, watch: bool },
}

/// The data that is emptied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Emptied {
    Records,
    Horizons,
}

/// The identity from the settings, or a lease from the registry, which may be renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    Nobody,
    ForGood(Identity),
    /// The registry may have confirmed the clock, and an administrator may have requested a reset.
    Leased {
        at: u8,
        is_renewed: bool,
        has_to_reset: bool,
    },
}

/// A lease that the registry may grant: the clocks at which its range begins and ends, and the end after a renewal. The
/// ranges of an identity are disjoint.
#[derive(Clone, Copy, Debug)]
pub struct Grant {
    pub identity: Identity,
    pub from: u8,
    pub until: u8,
    pub renewed: u8,
}

/// The protocol with its bounds, and with at most one part broken.
#[derive(Clone, Copy)]
pub struct Protocol {
    pub slot_shapes: [Option<SlotShape>; SLOTS],
    /// The unit of the model's time.
    pub unit_us: i64,
    pub identities: u8,
    pub callers: usize,
    /// The settings.
    pub max_ahead_us: i64,
    pub horizon_margin_us: i64,
    /// Whether the settings change while the server runs: each has its value here, or one unit more.
    pub changes_settings: bool,
    pub clock_max: u8,
    /// Calls request values up to this.
    pub max_value: u8,
    /// The reading to which the clock may jump, which is not followed.
    pub jump: Option<u8>,
    /// How the stored data may be lost while the server runs.
    pub losses: &'static [Action],
    /// Whether there are resets.
    pub resets: bool,
    /// The instant to which an administrator may request to raise the floor.
    pub raise: Option<u8>,
    /// The leases, if the registry grants the identities.
    pub leases: &'static [Grant],
    /// Whether the initial states include a new server.
    pub has_new_server: bool,
    /// Whether callers are distinguished, which is only necessary to print a story.
    pub names_callers: bool,
    pub broken: Option<Mutation>,
}

impl Protocol {
    pub fn is(&self, mutation: Mutation) -> bool {
        self.broken == Some(mutation)
    }

    /// The possible readings of the clock.
    pub fn clocks(&self) -> impl Iterator<Item = u8> + use<> {
        (0..=self.clock_max).chain(self.jump)
    }

    /// A counter that no clock allows.
    pub fn beyond(&self, slot_shape: &SlotShape) -> u8 {
        let last_us = self.us(Instant::of_clock(self.last_clock())) + self.most_ahead_us();
        slot_shape.key.first_counter_from(last_us + 1) as u8
    }

    pub fn last_clock(&self) -> u8 {
        self.jump.unwrap_or(self.clock_max)
    }

    pub fn most_ahead_us(&self) -> i64 {
        self.max_ahead_us + if self.changes_settings { self.unit_us } else { 0 }
    }

    /// Collects every step that is possible now.
    pub fn steps(&self, state: &State, steps: &mut Vec<Action>) {
        let State { disk, shared, .. } = state;
        match disk {
            // Without stored data only a server that leases its identity is covered, because its file shows that the
            // lease is from before the start.
            None if !self.leases.is_empty() => steps.push(Action::Crash { kept: 0 }),
            Some(disk) if !disk.is_emptied(&shared.history) || !self.leases.is_empty() => {
                steps.extend((0..=disk.pending.len() as u8).map(|kept| Action::Crash { kept }));
            }
            _ => {}
        }
        steps.push(Action::CrashOfBackend);
        if disk.is_some_and(|disk| !disk.pending.is_empty()) {
            steps.push(Action::FlushWal);
        }
        self.losses(state, steps);
        if shared.begun.is_some() && !state.keeper.has_directory() {
            for (at, slot_shape) in self.slot_shapes() {
                if shared.slots[at].is_none() && self.is_of(slot_shape, shared.value()) {
                    let readings = if self.is(Mutation::LateSlotAtClock) { self.clock_max } else { 0 };
                    steps
                        .extend((0..=readings).map(|clock| Action::Allocate { slot_index: at as u8, clock }));
                }
                if self.is(Mutation::KeyWithoutValue) {
                    break;
                }
            }
        }
        self.steps_of_keeper(state, steps);
        if matches!(state.request, Request::Waiting | Request::Raise(_)) {
            steps.push(Action::Withdraw);
        }
        for caller in 0..self.callers {
            self.steps_of_caller(state, caller, steps);
        }
    }

    /// The stored data can be lost whenever the keeper has not locked it, after the keeper has seen it.
    fn losses(&self, state: &State, steps: &mut Vec<Action>) {
        match state.disk {
            None => steps.push(Action::Create),
            Some(_) if state.keeper.is_in_transaction() || state.shared.history.highest == Instant(0) => {}
            Some(_) => {
                // A server that has published nothing yet cannot detect that its stored data is gone.
                let is_seen = state.shared.history.published[0] != Mark::NONE;
                steps.extend(self.losses.iter().filter(|loss| is_seen || **loss == Action::Drop));
            }
        }
    }

    pub fn steps_of_keeper(&self, state: &State, steps: &mut Vec<Action>) {
        let State { disk, shared, keeper, .. } = state;
        // A transaction starts writing only when the writes of earlier, rolled-back ones are durable. This omits
        // nothing: before its commit no process notices the difference, and a crash that undoes both is a crash before
        // it.
        let can_write = disk.is_some_and(|disk| disk.pending.is_empty());
        match *keeper {
            Keeper::Up { has_committed } => {
                self.steps_when_up(state, has_committed, can_write, steps);
                return;
            }
            Keeper::Written(_) if self.is(Mutation::PublishFirst) => steps.push(Action::Publish),
            Keeper::WrittenValue(_) if self.is(Mutation::OpenedFirst) => steps.push(Action::Hide),
            Keeper::Written(_)
            | Keeper::WrittenEnd(_)
            | Keeper::WrittenLow { .. }
            | Keeper::WrittenValue(_) => steps.push(Action::Commit),
            Keeper::Committed(cycle) => {
                steps.push(Action::Publish);
                if shared.gate.is_some() {
                    let has_committed = cycle.had_committed && disk.is_some();
                    steps.push(Action::Close(Then::ShutdownHorizon { has_committed }));
                }
            }
            Keeper::Published { gate, raise: Some(floor), has_committed } => {
                let open_for = shared.gate;
                steps.push(Action::Close(Then::Raise { floor, open_for, gate, has_committed }));
            }
            Keeper::Published { gate, .. } => steps.push(match gate {
                GatePlan::Open { lease, is_another, from } if is_another || from != [Instant(0); TRACKS] => {
                    Action::Close(Then::Open { lease, is_another, from })
                }
                GatePlan::Reset(lease) => Action::Close(Then::Reset(Reset { lease, is_requested: false })),
                GatePlan::Close => Action::Close(Then::Close),
                GatePlan::Stay(_) | GatePlan::Open { .. } => Action::Open,
            }),
            Keeper::Fencing(then, at) => steps.push(match then {
                _ if usize::from(at) < SLOTS => Action::Raise,
                Then::Open { .. } => Action::Open,
                Then::Raise { .. } => Action::Reopen,
                _ => Action::ShutdownHorizon,
            }),
            Keeper::AtShutdownHorizon(_) if can_write => steps.push(Action::WriteEnd),
            Keeper::CommittedEnd(_) => steps.push(Action::Forget),
            Keeper::Requested(reset) => steps.push(match state.request {
                Request::None => Action::LeaveRequest,
                _ => Action::Close(Then::Reset(reset)),
            }),
            Keeper::ShuttingOut(reset) if can_write => {
                if !self.may_reset(state, reset.lease.identity, 0) {
                    steps.push(Action::RefuseReset);
                }
                // The check reads the clock again.
                if self.may_reset(state, reset.lease.identity, self.clock_max) {
                    steps.extend(self.clocks().map(|clock| Action::WriteLow { clock }));
                }
            }
            Keeper::CommittedLow { .. } => steps.push(Action::Reset),
            Keeper::CommittedValue(_) => steps.push(match self.of_second_track(shared).is_empty() {
                true => Action::Publish,
                false => Action::Hide,
            }),
            // This step follows under a lock that no interrupt breaks.
            Keeper::Hidden(_) => return steps.push(Action::Move),
            Keeper::Moved(_) => return steps.push(Action::Publish),
            Keeper::AtShutdownHorizon(_) | Keeper::ShuttingOut(_) => {}
        }
        let wrote = disk.map_or(0, |disk| disk.pending.len() as u8);
        match keeper.is_in_transaction() {
            true => steps.extend((0..=wrote).map(|wrote| Action::Die { wrote })),
            false => steps.push(Action::Die { wrote }),
        }
    }

    fn steps_when_up(&self, state: &State, has_committed: bool, can_write: bool, steps: &mut Vec<Action>) {
        let State { shared, disk, .. } = state;
        if can_write {
            self.cycles(state, steps);
            if shared.gate.is_some() && self.slot_shapes().any(|(_, slot_shape)| slot_shape.key.track() > 0) {
                steps.extend(self.clocks().map(|clock| Action::WriteValue { clock }));
            }
        }
        match shared.gate {
            Some(_) if self.is(Mutation::ShutdownUnfenced) && has_committed => {
                steps.push(Action::ShutdownHorizon)
            }
            Some(_) => {
                let has_committed = has_committed && disk.is_some();
                steps.push(Action::Close(Then::ShutdownHorizon { has_committed }));
            }
            None => {}
        }
        if self.resets {
            let is_meant = |identity: &Identity| self.may_reset(state, *identity, self.clock_max);
            steps.extend((0..self.identities).filter(is_meant).map(Action::Request));
        }
        if state.request == Request::None {
            steps.extend(self.raise.map(Action::RequestRaise));
        }
        let is_higher =
            disk.is_some_and(|disk| disk.readable().horizons[0].at > shared.history.published[0].at);
        if self.is(Mutation::PublishRead) && is_higher && shared.gate.is_some() {
            steps.push(Action::Skip);
        }
    }

    /// The settings may give any identity, and the registry any lease that it has not granted before. An idle keeper
    /// acts only on a loss.
    fn cycles(&self, state: &State, steps: &mut Vec<Action>) {
        let held = state.leases.iter().rposition(|granted| *granted != Granted::No);
        let leased = (held.unwrap_or(0)..self.leases.len()).flat_map(|at| {
            [(false, false), (false, true), (true, false), (true, true)].into_iter().map(
                move |(is_renewed, has_to_reset)| Wanted::Leased { at: at as u8, is_renewed, has_to_reset },
            )
        });
        let for_good = (0..self.identities).filter(|_| self.leases.is_empty()).map(Wanted::ForGood);
        let nobody = (self.identities == 1 || !self.leases.is_empty()).then_some(Wanted::Nobody);
        for wanted in leased.chain(for_good).chain(nobody) {
            for clock in self.clocks() {
                for is_wide in [false, true] {
                    if is_wide && !self.changes_settings {
                        continue;
                    }
                    steps.push(Action::Cycle { clock, wanted, is_active: true, is_wide });
                    let is_same = wanted == shared_wanted(state.shared.gate);
                    if self.identities == 1 && !self.losses.is_empty() && is_same {
                        steps.push(Action::Cycle { clock, wanted, is_active: false, is_wide });
                    }
                }
            }
        }
    }

    fn steps_of_caller(&self, state: &State, caller: usize, steps: &mut Vec<Action>) {
        match state.callers[caller] {
            Caller { at: None, .. } => {
                for (at, slot_shape) in self.slot_shapes() {
                    if state.shared.slots[self.slot_of(at as u8)].is_none() {
                        continue;
                    }
                    let values = match slot_shape.key.track() {
                        0 => 0..=0,
                        _ if self.is(Mutation::KeyWithoutValue) => {
                            state.shared.value().max(1)..=state.shared.value()
                        }
                        _ => 1..=slot_shape.layout.max_clock_seq(),
                    };
                    steps.extend(values.map(|value| Action::Load { caller, slot_index: at as u8, value }));
                }
            }
            Caller { taken: None, .. } => {
                for clock in self.clocks() {
                    steps.push(Action::Decide { caller, clock, is_wide: false });
                    if self.changes_settings {
                        steps.push(Action::Decide { caller, clock, is_wide: true });
                    }
                }
            }
            _ => {
                steps.push(Action::Exchange { caller, watch: false });
                if state.watched.is_none() {
                    steps.push(Action::Exchange { caller, watch: true });
                }
            }
        }
    }

    /// Whether a reset for an identity is permitted at this time.
    pub fn may_reset(&self, state: &State, who: Identity, clock: u8) -> bool {
        let Some(disk) = state.disk else { return false };
        let mut history = state.shared.history;
        let (uses, _) = self.read(&disk, &mut history);
        let is_elsewhere = history.has_place && !disk.is_known;
        let now_us = self.us(Instant::of_clock(clock));
        let mut history = self.history(&history);
        if uses.is_empty() && self.is(Mutation::AbsenceIsUnused) {
            history = Default::default();
        }
        check_reset(identity(who), &uses, &history, is_elsewhere, now_us).is_ok()
    }

    /// A lease, if it was granted.
    pub fn granted(&self, state: &State, at: usize) -> Option<Lease> {
        let Granted::Now { is_renewed, .. } = state.leases[at] else { return None };
        let Grant { identity, from, until, renewed } = self.leases[at];
        let until = if is_renewed { renewed } else { until };
        let [from, until] = [from, until].map(Instant::of_clock);
        Some(Lease { identity, range: Range { from, until } })
    }
}

fn shared_wanted(gate: Option<Identity>) -> Wanted {
    gate.map_or(Wanted::Nobody, Wanted::ForGood)
}
