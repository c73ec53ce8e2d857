//! The keeper of a server, step by step: `src/keeper/` of the extension (`cycle.rs`, `gate.rs`, `reset.rs`,
//! `clock_sequence.rs`, `store.rs`). The product's code makes its decisions. Anything else may happen between any two
//! steps.

use std::collections::VecDeque;

use snowflake_id_core::Lease;
use snowflake_id_core::clock_sequence::{Asked, Widths, next_value};
use snowflake_id_core::clock_watch::ClockWatch;
use snowflake_id_core::clocks::ClockOffset;
use snowflake_id_core::keeper_plan::{GatePlan, Plan, Seen, plan, records_at_shutdown};
use snowflake_id_core::left::{Candidates, Left, choose};
use snowflake_id_core::reset::{begin_again, check_reset, records_before_reset};
use snowflake_id_core::track::{Horizon, TRACKS};
use snowflake_id_core::used::Use;

use crate::context::Context;
use crate::disk::{Stored, Write};
use crate::mutation::Mutation;
use crate::server::{Server, horizons_in_words, instant};
use crate::shared::{LeaseStatus, Request, Shared};

const MAX_CLOCK_JUMP_US: i64 = 60_000_000;

/// The processes that end when the keeper is told to stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    Server,
    Keeper,
}

#[derive(Clone, Copy)]
struct Clock {
    now_us: i64,
    offset: ClockOffset,
    is_good: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Transaction {
    Plan,
    Reset,
    NextValue,
    ShutdownHorizon,
}

struct Done {
    plan: Plan,
    wanted: Option<Lease>,
    stored_at: u32,
    lease_status: LeaseStatus,
}

enum Op {
    /// Compares the settings and reads the clock.
    Prepare,
    Plan {
        clock: Clock,
        lease_status: LeaseStatus,
        is_active: bool,
        widths: Widths,
    },
    Promise(usize, Horizon),
    Write(Write),
    Commit(Transaction),
    CarryOut(Box<Done>),
    Publish([Option<Horizon>; TRACKS]),
    RaiseFloor(i64, u64),
    Gate(Box<Done>),
    Fence([i64; TRACKS], bool),
    SetLease(Lease),
    OpenGate(Lease, u64),
    CloseGate,
    CheckReset(Lease),
    FenceForReset(Box<Stored>, Lease),
    StoreReset(Box<Stored>, Lease),
    Reset(i64),
    NextValue(Clock, Widths),
    OpenValue(i64, Horizon),
    ShutdownHorizon,
    EndSeal([Horizon; TRACKS]),
    Exit,
}

#[derive(Default)]
pub struct Keeper {
    ops: VecDeque<Op>,
    pub has_committed: bool,
    reach_us: i64,
    /// Whether the keeper has locked the stored data.
    pub is_locked: bool,
    pub ending: Option<Ending>,
}

impl Server {
    /// The keeper exits at once, without a shutdown horizon. Another one is started.
    pub fn kill_keeper(&mut self, cx: &mut Context) -> bool {
        let Some(running) = self.running.as_mut().filter(|running| running.keeper.ending.is_none()) else {
            return false;
        };
        running.keeper = Keeper::default();
        running.shared.request = None;
        self.say(cx, || "the keeper exits unexpectedly, and is restarted".into());
        true
    }

    /// The keeper takes up to `steps` steps. It stops early at the end of a cycle or when it has to wait.
    pub fn keep(&mut self, cx: &mut Context, steps: usize, is_active: bool) {
        for _ in 0..steps {
            let Some(running) = &mut self.running else { return };
            let keeper = &mut running.keeper;
            let op = match keeper.ops.pop_front() {
                Some(op) => op,
                None => {
                    self.begin_cycle(cx);
                    continue;
                }
            };
            if !self.step(cx, op, is_active) || cx.failure.is_some() {
                return;
            }
            if self
                .running
                .as_ref()
                .is_some_and(|running| running.keeper.ops.is_empty() && running.keeper.ending.is_none())
            {
                return; // The cycle is over.
            }
        }
    }

    /// Whether the keeper is in the middle of a cycle.
    pub fn is_keeping(&self) -> bool {
        self.running.as_ref().is_some_and(|running| !running.keeper.ops.is_empty())
    }

    fn begin_cycle(&mut self, cx: &mut Context) {
        let Some(running) = &mut self.running else { return };
        let keeper = &mut running.keeper;
        if keeper.ending.is_some() {
            self.begin_stop(cx);
            return;
        }
        running.shared.is_wanted = false;
        if let Some(Request::Reset(Some(identity))) = running.shared.request {
            keeper.ops.push_back(Op::CheckReset(Lease::for_good(identity)));
        }
        keeper.ops.push_back(Op::Prepare);
    }

    fn begin_stop(&mut self, cx: &mut Context) {
        let Some(running) = &mut self.running else { return };
        let ops = &mut running.keeper.ops;
        ops.clear();
        if running.keeper.has_committed {
            ops.push_back(Op::ShutdownHorizon);
        } else if running.shared.gate.identity().is_some() {
            running.shared.shutdown_horizons(true);
            self.say(cx, || "the keeper fences and stores nothing".into());
        }
        if let Some(running) = &mut self.running {
            running.keeper.ops.push_back(Op::Exit);
        }
    }

    /// Rolls the transaction back. In-place writes stay.
    fn fail(&mut self, cx: &mut Context, transaction: Transaction, why: &str) {
        let Some(running) = &mut self.running else { return };
        let keeper = &mut running.keeper;
        keeper.is_locked = false;
        let is_exiting = matches!(keeper.ops.back(), Some(Op::Exit));
        keeper.ops.clear();
        match transaction {
            Transaction::Plan => {
                keeper.has_committed = false;
                running.shared.request.take_if(|request| matches!(request, Request::RaiseFloor(_)));
            }
            Transaction::Reset => running.shared.request = None,
            Transaction::NextValue => {}
            Transaction::ShutdownHorizon if is_exiting => {
                running.shared.shutdown_horizons(true);
                keeper.ops.push_back(Op::Exit);
            }
            Transaction::ShutdownHorizon => {}
        }
        self.say(cx, || format!("the keeper's transaction fails: {why}"));
    }

    /// Locks and reads the stored data.
    fn lock(&mut self) -> Option<(Stored, bool)> {
        let running = self.running.as_mut()?;
        let stored = self.disk.read.0.clone()?;
        running.keeper.is_locked = true;
        let history = &mut running.shared.history;
        history
            .note_high(stored.horizons.iter().map(Horizon::until_us).fold(stored.uses.latest_us(), i64::max));
        let is_elsewhere = history.stored_at.is_some_and(|known| known != stored.oid);
        Some((stored, is_elsewhere))
    }

    /// The remaining steps of a transaction: the writes, then the commit.
    fn writes(
        &self,
        stored: &Stored,
        records: &[Use],
        horizons: [Option<Horizon>; TRACKS],
        transaction: Transaction,
    ) -> Vec<Op> {
        let records = stored.uses.clone().add(records.iter().copied());
        let mut ops: Vec<_> = records.into_iter().map(|record| Op::Write(Write::Use(record))).collect();
        for (track, horizon) in horizons.into_iter().enumerate() {
            ops.extend(horizon.map(|horizon| Op::Write(Write::Horizon(track, horizon))));
        }
        // Only for the checks: the keeper has run a cycle since something was emptied.
        if stored.is_incomplete && [Transaction::Plan, Transaction::ShutdownHorizon].contains(&transaction) {
            ops.push(Op::Write(Write::Whole));
        }
        ops.push(Op::Commit(transaction));
        ops
    }

    fn push_front(&mut self, ops: Vec<Op>) {
        let Some(running) = &mut self.running else { return };
        for op in ops.into_iter().rev() {
            running.keeper.ops.push_front(op);
        }
    }

    /// Takes a step. Returns whether the keeper continued.
    fn step(&mut self, cx: &mut Context, op: Op, is_active: bool) -> bool {
        match op {
            Op::Prepare => self.prepare(cx, is_active),
            Op::Plan { clock, lease_status, is_active, widths } => {
                self.plan(cx, clock, lease_status, is_active, widths)
            }
            Op::Promise(track, horizon) => {
                if let Some(running) = &mut self.running {
                    running.shared.history.promise(track, horizon);
                }
            }
            Op::Write(write) => self.disk.write(write),
            Op::Commit(transaction) => return self.commit(cx, transaction),
            Op::CarryOut(done) => self.carry_out(cx, done),
            Op::Publish(horizons) => {
                let Some(running) = &mut self.running else { return false };
                running.keeper.has_committed |= horizons[0].is_some();
                running.shared.publish(horizons);
                if horizons != [None, None] {
                    let text = horizons_in_words(horizons.map(Option::unwrap_or_default));
                    self.say(cx, || format!("the keeper publishes {text}"));
                }
            }
            Op::RaiseFloor(floor_us, number) => {
                let Some(running) = &mut self.running else { return false };
                let shared = &mut running.shared;
                let open_for = shared.open_for();
                shared.fence([floor_us; TRACKS], false);
                if let Some(lease) = open_for {
                    open_gate(shared, &lease, number);
                }
                shared.request = None;
                if let Some(to) = self.must_raise.take_if(|(to_us, _)| *to_us <= floor_us) {
                    self.has_raised = Some((self.disk.lsn, to));
                }
                self.say(cx, || format!("the floor is moved to {}", instant(floor_us)));
            }
            Op::Gate(done) => self.apply_gate(cx, *done),
            Op::CheckReset(lease) => self.check_for_reset(cx, lease),
            Op::Fence(floors_us, is_another) => {
                let Some(running) = &mut self.running else { return false };
                running.shared.fence(floors_us, is_another);
            }
            Op::SetLease(lease) => {
                let Some(running) = &mut self.running else { return false };
                running.shared.set_lease(&lease);
            }
            Op::OpenGate(lease, number) => {
                let Some(running) = &mut self.running else { return false };
                running.shared.history.last_identity = Some(lease.identity);
                open_gate(&running.shared, &lease, number);
                self.say(cx, || format!("the gate is opened for {}", lease.identity));
            }
            Op::CloseGate => {
                let Some(running) = &mut self.running else { return false };
                running.shared.close_gate();
                self.say(cx, || "the gate is closed".into());
            }
            Op::FenceForReset(stored, lease) => {
                let Some(running) = &mut self.running else { return false };
                running.shared.shutdown_horizons(true);
                running.keeper.has_committed = false;
                running.keeper.ops.push_front(Op::StoreReset(stored, lease));
                self.say(cx, || "the keeper fences for a reset".into());
            }
            Op::StoreReset(stored, lease) => self.store_reset(cx, &stored, lease),
            Op::Reset(floor_us) => {
                let offset = self.clock_offset(cx);
                let Some(running) = &mut self.running else { return false };
                running.shared.history.clock_offset = Some(offset);
                running.shared.reset(floor_us);
                running.keeper.has_committed = true;
                running.shared.request = None;
                self.say(cx, || format!("the reset is complete; slots begin at {}", instant(floor_us)));
            }
            Op::NextValue(clock, widths) => self.next_value(cx, clock, widths),
            Op::OpenValue(floor_us, horizon) => {
                let Some(running) = &mut self.running else { return false };
                running.shared.open_value(floor_us, horizon);
                self.say(cx, || {
                    format!(
                        "value {} of the clock sequence is opened at {}",
                        horizon.value(),
                        instant(floor_us)
                    )
                });
                cx.count("(value of the clock sequence opened)");
            }
            Op::ShutdownHorizon => self.shutdown_horizon(cx),
            Op::EndSeal(ends) => {
                let reach_us = self.max_ahead_us + self.horizon_margin_us;
                let Some(running) = &mut self.running else { return false };
                running.keeper.has_committed = false;
                running.keeper.reach_us = reach_us;
                running.shared.history.promised = ends;
            }
            Op::Exit => {
                let Some(running) = &mut self.running else { return false };
                match running.keeper.ending.take() {
                    Some(Ending::Server) => self.down(cx),
                    _ => running.keeper = Keeper::default(),
                }
                return false;
            }
        }
        true
    }

    fn prepare(&mut self, cx: &mut Context, is_active: bool) {
        let reach_us = self.max_ahead_us + self.horizon_margin_us;
        let (now_us, offset) = (self.clock_us(cx), self.clock_offset(cx));
        let Some(running) = &mut self.running else { return };
        let (shared, keeper) = (&mut running.shared, &mut running.keeper);
        if keeper.ending.is_some() {
            self.begin_stop(cx);
            return;
        }
        if reach_us < keeper.reach_us && shared.gate.identity().is_some() {
            if !keeper.has_committed {
                shared.shutdown_horizons(true);
                keeper.reach_us = reach_us;
            } else {
                keeper.ops.push_back(Op::ShutdownHorizon);
            }
            keeper.ops.push_back(Op::Prepare);
            self.say(cx, || "settings were lowered".into());
            return;
        }
        keeper.reach_us = reach_us;
        if shared.request == Some(Request::AcceptClock) {
            shared.history.clock_offset = Some(offset);
            shared.request = None;
        }
        let mut watch = ClockWatch::new(shared.history.clock_offset.unwrap_or(offset));
        let reached_us = shared.history.published[0].until_us();
        let is_good = watch.observe(now_us, offset, MAX_CLOCK_JUMP_US, reached_us).is_none();
        shared.history.clock_offset = Some(watch.offset());
        let widths = std::mem::take(&mut shared.asked);
        let clock = Clock { now_us, offset, is_good };
        keeper.ops.push_back(Op::Plan { clock, lease_status: shared.lease_status, is_active, widths });
    }

    fn plan(
        &mut self,
        cx: &mut Context,
        clock: Clock,
        lease_status: LeaseStatus,
        is_active: bool,
        widths: Widths,
    ) {
        let Some((stored, is_elsewhere)) = self.lock() else {
            self.fail(cx, Transaction::Plan, "the extension does not exist");
            return;
        };
        let (is_leased, fixed) = (self.is_leased, self.fixed_lease());
        let (max_ahead_us, horizon_margin_us) = (self.max_ahead_us, self.horizon_margin_us);
        let Some(running) = &mut self.running else { return };
        let shared = &mut running.shared;
        let raise_floor_to_us = match shared.request {
            Some(Request::RaiseFloor(floor_us)) => Some(floor_us),
            _ => None,
        };
        // No server changes between the two sources of its identity.
        let candidates = Candidates {
            has_registry: is_leased,
            leased: lease_status.lease,
            by_hand: fixed.filter(|_| !is_leased).map(|lease| lease.identity),
            open_for: shared.open_for(),
            used_before: None,
        };
        let wanted = choose(&candidates, &Left::default(), clock.now_us).wanted;
        let is_confirmed = |confirmed| !clock.offset.is_set_since(confirmed);
        let seen = Seen {
            now_us: clock.now_us,
            max_ahead_us,
            horizon_margin_us,
            tracks: shared.tracks(stored.horizons),
            is_elsewhere,
            copied_us: 0,
            uses: stored.uses.clone(),
            history: shared.history.snapshot(),
            raise_floor_to_us,
            wanted: wanted.map(|lease| match cx.is(Mutation::LeaseOverrun) && !lease.is_for_good() {
                true => Lease { until_us: lease.until_us + shared.overrun_us, ..lease },
                false => lease,
            }),
            is_lease_inherited: lease_status.is_inherited,
            open_for: shared.open_for(),
            is_clock_confirmed: lease_status.confirmed_clock.is_some_and(is_confirmed),
            is_reset_requested: shared.request == Some(Request::Reset(None)),
            has_room_for_reset: shared.has_room_for_reset(),
            is_active,
            is_clock_good: clock.is_good,
        };
        let mut plan = plan(&seen);
        if cx.is(Mutation::FloorAtClock) && !shared.is_begun() {
            plan.tracks[0].begun.floor_us = plan.tracks[0].begun.floor_us.min(clock.now_us);
        }
        let horizons = plan.tracks.map(|track| track.horizon);
        let gate = plan.gate;
        let loss = plan.loss;
        self.say(cx, || {
            let loss = loss.map(|loss| format!("{loss:?} lost; ")).unwrap_or_default();
            let write = match horizons {
                [None, None] => "writes no horizon".into(),
                _ => format!("writes {}", horizons_in_words(horizons.map(Option::unwrap_or_default))),
            };
            format!("the keeper plans: {loss}{write}; gate: {}", gate_in_words(gate))
        });
        let promises = (0..TRACKS).filter_map(|at| Some(Op::Promise(at, horizons[at]?)));
        let promises: Vec<_> = promises.collect();
        let writes = self.writes(&stored, &plan.records, horizons, Transaction::Plan);
        let done = Box::new(Done { plan, wanted, stored_at: stored.oid, lease_status });
        let number = lease_status.number;
        let mut ops = vec![];
        if cx.is(Mutation::PromiseLate) {
            ops.extend(writes);
            ops.extend(promises);
            ops.extend([Op::CarryOut(done), Op::Publish(horizons)]);
        } else if cx.is(Mutation::PublishFirst) {
            ops.extend(promises);
            ops.extend([Op::Publish(horizons)]);
            ops.extend(writes);
            ops.push(Op::CarryOut(done));
        } else {
            ops.extend(promises);
            ops.extend(writes);
            ops.extend([Op::CarryOut(done), Op::Publish(horizons)]);
        }
        // CarryOut passes its arguments on to the gate.
        ops.extend(raise_floor_to_us.map(|floor_us| Op::RaiseFloor(floor_us, number)));
        ops.push(Op::NextValue(clock, widths));
        self.push_front(ops);
    }

    fn commit(&mut self, cx: &mut Context, transaction: Transaction) -> bool {
        if self.is_commit_failing {
            self.is_commit_failing = false;
            self.fail(cx, transaction, "an error before its commit");
            cx.count("commit of the keeper fails");
            return true;
        }
        let is_durable = self.disk.commit(transaction == Transaction::ShutdownHorizon);
        let Some(running) = &mut self.running else { return false };
        let keeper = &mut running.keeper;
        let is_stopping = keeper.ending.is_some();
        if !is_durable && !is_stopping {
            keeper.ops.push_front(Op::Commit(transaction));
            return false;
        }
        keeper.is_locked = false;
        if is_stopping && transaction != Transaction::ShutdownHorizon {
            // A canceled wait ends like a successful one: nothing is published.
            self.begin_stop(cx);
        }
        true
    }

    fn carry_out(&mut self, cx: &mut Context, done: Box<Done>) {
        let Some(running) = &mut self.running else { return };
        let shared = &mut running.shared;
        shared.history.stored_at = Some(done.stored_at);
        if !shared.is_begun() {
            shared.begin(done.plan.tracks.map(|track| track.begun));
        }
        shared.another_needed_after = if done.plan.is_another_needed { done.lease_status.number } else { 0 };
        // After the operations that publish and advance.
        let ops = &mut running.keeper.ops;
        let at = ops.iter().position(|op| matches!(op, Op::NextValue(..))).unwrap_or(ops.len());
        ops.insert(at, Op::Gate(done));
        if cx.is(Mutation::PublishFirst)
            && let Some(running) = &mut self.running
        {
            // For slots that came into use meanwhile.
            let published = running.shared.history.published.map(Some);
            running.shared.publish(published);
            running.keeper.has_committed = true;
        }
    }

    fn apply_gate(&mut self, cx: &mut Context, done: Done) {
        let Some(running) = &mut self.running else { return };
        let shared = &mut running.shared;
        if shared.request == Some(Request::Reset(None))
            && done.wanted.is_some()
            && !done.plan.is_another_needed
        {
            shared.request = None; // There is no reset.
        }
        let ops = match done.plan.gate {
            GatePlan::Stay => done.wanted.map(Op::SetLease).into_iter().collect(),
            GatePlan::Reset(lease) => {
                running.keeper.ops.clear();
                vec![Op::CheckReset(lease)]
            }
            GatePlan::Open { lease, is_another } => {
                let floors_us = done.plan.tracks.map(|track| track.from_us);
                let is_fenced = is_another || floors_us != [0; TRACKS];
                let fence = Op::Fence(floors_us, is_another);
                let fence = Some(fence).filter(|_| is_fenced && !cx.is(Mutation::OpenUnfenced));
                let open = [Op::SetLease(lease), Op::OpenGate(lease, done.lease_status.number)];
                fence.into_iter().chain(open).collect()
            }
            GatePlan::Close | GatePlan::Refuse { .. } => {
                shared.gate.identity().map(|_| Op::CloseGate).into_iter().collect()
            }
        };
        self.push_front(ops);
    }

    /// Begins the transaction of a reset, which holds the lock to its end.
    fn check_for_reset(&mut self, cx: &mut Context, lease: Lease) {
        let now_us = self.clock_us(cx);
        let Some((stored, is_elsewhere)) = self.lock() else {
            self.fail(cx, Transaction::Reset, "the extension does not exist");
            return;
        };
        let Some(running) = &mut self.running else { return };
        let history = running.shared.history.snapshot();
        if !running.shared.has_room_for_reset() {
            self.fail(cx, Transaction::Reset, "there is no room for a reset");
        } else if check_reset(lease.identity, &stored.uses, &history, is_elsewhere, now_us).is_err() {
            running.keeper.is_locked = false;
            running.shared.request = None;
            self.say(cx, || format!("a reset for {} is refused", lease.identity));
        } else {
            running.keeper.ops.push_front(Op::FenceForReset(Box::new(stored), lease));
        }
    }

    fn store_reset(&mut self, cx: &mut Context, stored: &Stored, lease: Lease) {
        let reach_us = self.max_ahead_us + self.horizon_margin_us;
        let (floor_us, horizon) = begin_again(&lease, self.clock_us(cx), reach_us);
        let Some(running) = &mut self.running else { return };
        let highest_us = running.shared.history.snapshot().highest_us;
        // A write can be read before it is committed. It must not look like a change by another process.
        running.shared.promise_reset(horizon);
        let mut records =
            records_before_reset(&stored.uses, lease.identity, running.shared.value(), highest_us);
        if cx.is(Mutation::ResetUnshut) {
            records.clear();
        }
        let mut ops = self.writes(stored, &records, [Some(horizon), Some(Horizon::NONE)], Transaction::Reset);
        ops.push(Op::Reset(floor_us));
        // Order ends here: the write may become durable although the reset is not carried out.
        self.last.clear();
        self.say(cx, || format!("a reset for {} writes {}", lease.identity, instant(horizon.until_us())));
        self.push_front(ops);
    }

    fn next_value(&mut self, cx: &mut Context, clock: Clock, widths: Widths) {
        let reach_us = self.max_ahead_us + self.horizon_margin_us;
        let Some(running) = &self.running else { return };
        let Some(lease) = running.shared.open_for() else { return };
        if widths == Widths::default() || !clock.is_good || !running.shared.has_room_for_value() {
            return;
        }
        let asked = Asked { now_us: clock.now_us, reach_us, widths, lease };
        let Some((stored, is_elsewhere)) = self.lock() else {
            self.fail(cx, Transaction::NextValue, "the extension does not exist");
            return;
        };
        let Some(running) = &mut self.running else { return };
        let tracks = running.shared.tracks(stored.horizons);
        let next =
            next_value(&tracks, &stored.uses, &asked).filter(|_| !is_elsewhere && !tracks[1].is_changed());
        let Some(mut next) = next else {
            running.keeper.is_locked = false;
            return;
        };
        if cx.is(Mutation::RecordForgotten) {
            next.closing.clear();
        }
        let mut ops = vec![Op::Promise(1, next.horizon)];
        ops.extend(self.writes(&stored, &next.closing, [None, Some(next.horizon)], Transaction::NextValue));
        ops.push(Op::OpenValue(next.floor_us, next.horizon));
        self.push_front(ops);
    }

    fn shutdown_horizon(&mut self, cx: &mut Context) {
        let Some((stored, _)) = self.lock() else {
            self.fail(cx, Transaction::ShutdownHorizon, "the extension does not exist");
            return;
        };
        let is_fenced = !cx.is(Mutation::ShutdownUnfenced);
        let Some(running) = &mut self.running else { return };
        let ends = running.shared.shutdown_horizons(is_fenced);
        let tracks = running.shared.tracks(stored.horizons);
        let records = records_at_shutdown(&stored.uses, &tracks, &running.shared.history.snapshot());
        let changed = [0, 1].map(|at| Some(ends[at]).filter(|end| *end != stored.horizons[at]));
        let mut ops = self.writes(&stored, &records, changed, Transaction::ShutdownHorizon);
        ops.push(Op::EndSeal(ends));
        self.say(cx, || format!("the keeper stores the high-water mark: {}", horizons_in_words(ends)));
        self.push_front(ops);
    }
}

/// Opens the gate for a lease, unless the lease status has changed since the plan was made.
fn open_gate(shared: &Shared, lease: &Lease, number: u64) {
    if lease.is_for_good() || shared.lease_status.number == number {
        shared.gate.open(lease.identity);
    }
}

fn gate_in_words(gate: GatePlan) -> String {
    match gate {
        GatePlan::Stay => "stays".into(),
        GatePlan::Open { lease, is_another } => {
            let other = if is_another { ", another one" } else { "" };
            format!("opens for {}{other} until {}", lease.identity, instant(lease.until_us))
        }
        GatePlan::Reset(lease) => format!("resets for {}", lease.identity),
        GatePlan::Close => "is closed".into(),
        GatePlan::Refuse { identity, until_us } => {
            format!("{identity} is refused until {}", instant(until_us))
        }
    }
}
