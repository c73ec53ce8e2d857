//! What can happen: each step of each process, and when it is possible.
//!
//! There is no variable for the clock: it may be set at any moment, so that every reading of it is any that
//! there is.

use snowflake_id_core::reset::check_reset;

use crate::keeper::border::{SlotShape, identity};
use crate::keeper::mutation::Mutation;
use crate::keeper::state::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The postmaster is killed, or the power fails: all shared memory is gone, and of what was not flushed all but the
    /// first writes. Also the end of a clean stop, and a promotion.
    Crash { kept: u8 },
    /// A backend crashes: shared memory is made anew, but the past is carried over. Nothing of the disk is
    /// lost.
    CrashOfBackend,
    /// The WAL writer, or the commit of anybody else, flushes what was written.
    FlushWal,
    /// DROP EXTENSION.
    Drop,
    /// CREATE EXTENSION, whose script stores what the server knows of its past.
    Create,
    /// The records of use are emptied, or the horizons.
    Empty { what: Emptied },
    /// A slot is given to a layout when it is first used. It begins at the floor.
    Allocate { slot_index: u8, clock: u8 },
    /// The keeper locks what is stored, looks at everything and makes a plan; notes the horizons; writes the
    /// plan down.
    Cycle { clock: u8, wanted: Wanted, is_active: bool, is_wide: bool },
    /// The commit of whatever is written.
    Commit,
    /// Publishes the horizons, to the server_status and to the slots, in which it is one step: the directory is
    /// locked.
    Publish,
    /// Opens the gate, after a fence if there has to be one.
    Open,
    /// Fence: close the gate, ...
    Close(Then),
    /// ... then raise every slot's counter by at least one, then act.
    Raise,
    /// Opens the gate again after a request to advance, and answers.
    Reopen,
    /// Publishes the ends of what was handed out.
    ShutdownHorizon,
    /// Writes them down.
    WriteEnd,
    /// Lets no promise be higher than the end that is committed.
    Forget,
    /// An administrator orders to begin anew for an identity. The keeper looks at that.
    Request(Identity),
    /// He orders that no ID be made below this.
    RequestAdvance(u8),
    /// His call ends, and takes the order back.
    Withdraw,
    /// The order is gone: nothing is done about it.
    LeaveRequest,
    /// After the fence: what is stored shows that not everything may begin anew.
    RefuseReset,
    /// It may: shuts out the identities that were used, and writes a horizon in the present.
    WriteLow { clock: u8 },
    /// It is committed: layouts get new slots.
    Reset,
    /// A call has asked for another value of the clock sequence: promises and writes it.
    WriteValue { clock: u8 },
    /// The horizons of the slots that are to move to it are set to nothing; ...
    Hide,
    /// ... then their words are changed; then it is published.
    Move,
    /// The keeper is terminated, or fails, wherever it stands, also when it has written only the first of its writes. What
    /// it has written stays. So does shared memory.
    Die { wrote: u8 },
    /// Only when broken: goes on without its own commit.
    Skip,
    /// A caller loads the counter *first*.
    Load { caller: usize, slot_index: u8, value: u8 },
    /// It loads gate and limit, reads the clock, and decides. As the clock may be anything at any moment, to
    /// read it later would make no difference.
    Decide { caller: usize, clock: u8, is_wide: bool },
    /// The exchange.
    Exchange { caller: usize, watch: bool },
}

/// What is emptied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Emptied {
    Records,
    Horizons,
}

/// Which identity the settings give, or the registry: one of the leases, which it may renew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    Nobody,
    ForGood(Identity),
    /// The registry may have found that the clock is right, and an administrator may want everything to begin anew.
    Leased {
        at: u8,
        is_renewed: bool,
        has_to_reset: bool,
    },
}

/// A lease that the registry may grant: the clock where its range begins, where it ends, and where it ends once it is
/// renewed. All ranges of an identity are apart.
#[derive(Clone, Copy, Debug)]
pub struct Grant {
    pub identity: Identity,
    pub from: u8,
    pub until: u8,
    pub renewed: u8,
}

/// The protocol with its bounds, and with at most one thing broken.
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
    /// Whether they are changed while the server runs: each is what it is here, or one unit more.
    pub changes_settings: bool,
    pub clock_max: u8,
    /// Calls ask for values up to this.
    pub max_value: u8,
    /// Where the clock may jump to, which is not followed.
    pub jump: Option<u8>,
    /// How what is stored may be lost while the server runs.
    pub losses: &'static [Action],
    /// Whether everything may begin anew.
    pub resets: bool,
    /// What an administrator may order.
    pub advance: Option<u8>,
    /// If the registry gives the identities.
    pub leases: &'static [Grant],
    /// Whether there is a server that is new.
    pub has_new_server: bool,
    /// Whether callers are told apart, which only a story needs.
    pub names_callers: bool,
    pub broken: Option<Mutation>,
}

impl Protocol {
    pub fn is(&self, mutation: Mutation) -> bool {
        self.broken == Some(mutation)
    }

    /// What a clock can read.
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

    /// Every step that some process or the world can take now.
    pub fn steps(&self, state: &State, steps: &mut Vec<Action>) {
        let State { disk, shared, .. } = state;
        match disk {
            // A server that leases its identity knows that its lease was there before. Nobody else does.
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
        if matches!(state.request, Request::Waiting | Request::Advance(_)) {
            steps.push(Action::Withdraw);
        }
        for caller in 0..self.callers {
            self.steps_of_caller(state, caller, steps);
        }
    }

    /// What is stored can be lost whenever the keeper has not locked it, once the keeper has seen it.
    fn losses(&self, state: &State, steps: &mut Vec<Action>) {
        match state.disk {
            None => steps.push(Action::Create),
            Some(_) if state.keeper.is_in_transaction() || state.shared.history.highest == Instant(0) => {}
            Some(_) => {
                // A server that has published nothing yet cannot tell that anything is gone from where it is.
                let is_seen = state.shared.history.published[0] != Mark::NONE;
                steps.extend(self.losses.iter().filter(|loss| is_seen || **loss == Action::Drop));
            }
        }
    }

    pub fn steps_of_keeper(&self, state: &State, steps: &mut Vec<Action>) {
        let State { disk, shared, keeper, .. } = state;
        // What an earlier transaction wrote that was rolled back is durable before another one writes. Nothing is left out by
        // that: until that other one commits nobody notices it, and a crash that takes both back is one before it.
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
            Keeper::Published { gate, advance: Some(floor), has_committed } => {
                let open_for = shared.gate;
                steps.push(Action::Close(Then::Advance { floor, open_for, gate, has_committed }));
            }
            Keeper::Published { gate, .. } => steps.push(match gate {
                GatePlan::Open { lease, is_another, from } if is_another || from != [Instant(0); TRACKS] => {
                    Action::Close(Then::Open { lease, is_another, from })
                }
                GatePlan::Reset(lease) => Action::Close(Then::Reset(Reset { lease, is_ordered: false })),
                GatePlan::Close => Action::Close(Then::Close),
                GatePlan::Stay(_) | GatePlan::Open { .. } => Action::Open,
            }),
            Keeper::Fencing(then, at) => steps.push(match then {
                _ if usize::from(at) < SLOTS => Action::Raise,
                Then::Open { .. } => Action::Open,
                Then::Advance { .. } => Action::Reopen,
                _ => Action::ShutdownHorizon,
            }),
            Keeper::AtShutdownHorizon(_) if can_write => steps.push(Action::WriteEnd),
            Keeper::CommittedEnd(_) => steps.push(Action::Forget),
            Keeper::Requested(anew) => steps.push(match state.request {
                Request::None => Action::LeaveRequest,
                _ => Action::Close(Then::Reset(anew)),
            }),
            Keeper::ShuttingOut(anew) if can_write => {
                if !self.may_reset(state, anew.lease.identity, 0) {
                    steps.push(Action::RefuseReset);
                }
                // The clock is read again for the check.
                if self.may_reset(state, anew.lease.identity, self.clock_max) {
                    steps.extend(self.clocks().map(|clock| Action::WriteLow { clock }));
                }
            }
            Keeper::CommittedLow { .. } => steps.push(Action::Reset),
            Keeper::CommittedValue(_) => steps.push(match self.of_second_track(shared).is_empty() {
                true => Action::Publish,
                false => Action::Hide,
            }),
            // Under a lock that no interrupt breaks.
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
            steps.extend(self.advance.map(Action::RequestAdvance));
        }
        let is_higher =
            disk.is_some_and(|disk| disk.readable().horizons[0].at > shared.history.published[0].at);
        if self.is(Mutation::PublishRead) && is_higher && shared.gate.is_some() {
            steps.push(Action::Skip);
        }
    }

    /// The settings may give any identity, and the registry any lease that it has not given before. An idle keeper does
    /// something only about a loss.
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

    /// Whether everything may begin anew at this time for an identity.
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
