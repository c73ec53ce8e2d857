//! Repeats the cycle of the keeper until shutdown: see [`super`].

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use pgrx::bgworkers::BackgroundWorker;
use pgrx::prelude::*;
use snowflake_id_core::Lease;
use snowflake_id_core::clock_sequence::{Asked, Widths};
use snowflake_id_core::clocks::ClockOffset;
use snowflake_id_core::keeper_plan::{GatePlan, Loss, Plan, Seen, plan};
use snowflake_id_core::left::{Candidates, Choice, choose};
use snowflake_id_core::message::instant;
use snowflake_id_core::used::{Scope, Use};

use super::announce::{complain, note_misfit, refusal, risk, tell, unused_by_hand};
use super::clock_sequence;
use super::gate;
use super::identity;
use super::identity_file::IdentityFile;
use super::reset::reset;
use super::store::Store;
use super::transaction::transaction;
use super::watch_clock;
use crate::background::stop::is_stopping;
use crate::background::transaction::Problem;
use crate::config;
use crate::pg::{clock, process};
use crate::registry;
use crate::segment;
use crate::shared::command_slot::{Answer, Request, Ticket};
use crate::shared::keeper_words::Closed;
use crate::shared::lease::{self, LeaseStatus};
use crate::shared::memory::State;

/// How long the keeper continues to extend the horizon after the last ID was issued.
const IDLE_AFTER: Duration = Duration::from_secs(60);
/// The time between cycles while a problem persists, such as an error, a clock jump, or a missing identity.
pub const RETRY_TIME: Duration = Duration::from_secs(2);
/// The time between cycles while no IDs are issued. Such cycles only check that the stored state still exists.
const IDLE_TIME: Duration = Duration::from_secs(10);
/// The minimum time between cycles while calls wait for the keeper but the keeper cannot help them. Such calls repeat
/// their requests, and the first request after the start of a cycle sets the latch. Without a pause, the next cycle
/// would therefore start at once.
const MINIMUM_PAUSE: Duration = Duration::from_millis(50);

/// Sleeps until the latch is set or `pause` has passed. A pause of `None` has no time limit. Returns false if
/// the server is being stopped.
fn sleep(pause: Option<Duration>) -> bool {
    !is_stopping() && BackgroundWorker::wait_latch(pause) && !is_stopping()
}

fn microseconds(time: Duration) -> i64 {
    time.as_micros() as i64
}

/// The result of the transaction in a cycle.
struct Done {
    plan: Plan,
    wanted: Option<Lease>,
    /// The reason why the identity that is set by hand is refused.
    refusal: Option<String>,
    stored_at: (u32, u32),
    /// The floor that an administrator requested, if the keeper has claimed the request.
    raise_floor_to_us: Option<i64>,
    /// Whether the stored horizon is missing although the server was used before.
    has_history: bool,
    /// A problem that an administrator should fix although IDs can be issued.
    warning: Option<String>,
}

pub struct Keeper {
    shared: &'static State,
    /// Whether this process has committed a horizon since its last transaction failed or since it last stored a
    /// shutdown horizon.
    has_committed: bool,
    /// The distance from the clock to the horizon in the last cycle, in microseconds.
    reach_us: i64,
    /// The sum of the counters of all slots in use, and the time at which the sum last changed.
    activity: (u64, Option<Instant>),
    /// The time at which the keeper last started the registry worker.
    registry_started: Option<Instant>,
    /// The time at which the keeper last started the segments worker.
    segments_started: Option<Instant>,
    /// True if a call has requested another value of the clock sequence, but the keeper could not switch to one.
    is_asked_in_vain: bool,
    /// The file with the identities, once this process has read it.
    identity_file: Option<IdentityFile>,
}

/// The clock as read in a cycle, and whether the keeper may follow the clock.
struct Clock {
    now_us: i64,
    offset: ClockOffset,
    is_good: bool,
}

impl Keeper {
    pub fn new(shared: &'static State) -> Keeper {
        Keeper {
            shared,
            has_committed: false,
            reach_us: 0,
            activity: (0, None),
            registry_started: None,
            segments_started: None,
            is_asked_in_vain: false,
            identity_file: None,
        }
    }

    pub fn run(&mut self) {
        loop {
            process::reload_if_asked();
            let wanted = self.shared.server_status.wakeup.take_wanted();
            let (pause, minimum_pause) = match self.cycle(wanted) {
                Ok(pause) if self.is_all_well() => (pause, Duration::ZERO),
                Ok(pause) => (pause, MINIMUM_PAUSE),
                Err(Problem(text)) => {
                    complain(self.shared, &text);
                    (Some(RETRY_TIME), MINIMUM_PAUSE)
                }
            };
            self.shared.server_status.cycles.send();
            // A request may have set the latch while the cycle waited for a lock or a standby. That wait has reset the
            // latch, so the latch no longer shows the request.
            let pause =
                if self.shared.server_status.wakeup.is_wanted() { Some(Duration::ZERO) } else { pause };
            if !sleep(pause) || !sleep(Some(minimum_pause)) {
                break;
            }
        }
        gate::stop(self.shared, self.has_committed);
    }

    /// Returns whether the keeper can help waiting calls. If not, the calls repeat their requests.
    fn is_all_well(&self) -> bool {
        let jump_us = self.shared.server_status.keeper.clock_jump_us.load(Ordering::Relaxed);
        self.shared.gate.identity().is_some() && jump_us == 0 && !self.is_asked_in_vain
    }

    /// Runs one cycle. Returns the pause before the next cycle.
    fn cycle(&mut self, is_wanted: bool) -> Result<Option<Duration>, Problem> {
        let server_status = &self.shared.server_status;
        // Take the requests before reading the clock. A request that arrives later is based on a later reading of the
        // clock, so the next cycle serves it.
        let asked_value = server_status.values.take_asked();
        // A problem with the registry does not end the cycle, because IDs can be issued while the lease lasts.
        let registry_problem = registry::start_if_needed(self.shared, &mut self.registry_started).err();
        segment::start_if_needed(&mut self.segments_started);
        let request = server_status.commands.waiting();
        if let Some((ticket, Request::Reset(Some(identity)))) = request {
            self.reset(&Lease::for_good(identity), Some(ticket))?;
        }
        self.shorten_if_settings_shrank()?;
        if is_stopping() {
            return Ok(None);
        }
        let (now_us, offset) = clock::clock_and_offset();
        let is_accepted =
            matches!(request, Some((ticket, Request::AcceptClock)) if server_status.commands.claim(ticket));
        let mut jump_us = watch_clock::watch(self.shared, now_us, offset);
        if is_accepted {
            // The first call of `watch` has determined the answer. Now accept the clock, and call `watch` again to
            // publish that there is no clock jump any more.
            let answer = if jump_us.is_some() { Answer::Done } else { Answer::NoJump };
            server_status.history.set_clock_offset(offset);
            jump_us = watch_clock::watch(self.shared, now_us, offset);
            server_status.commands.answer_claimed(answer);
        }
        let is_active = self.is_active() || is_wanted;
        let raise = match request {
            Some((ticket, Request::RaiseFloor(floor_us))) => Some((ticket, floor_us)),
            _ => None,
        };
        let lease_status = lease::lease_status();
        let reset = match request {
            Some((ticket, Request::Reset(None))) => Some(ticket),
            _ => None,
        };
        let clock = Clock { now_us, offset, is_good: jump_us.is_none() };
        if lease_status.is_clock_set_since(clock.offset) {
            // The keeper may have to reset the horizon, but only if the registry confirms the clock. Therefore, ask the
            // registry now rather than at the next renewal.
            server_status.registry_wakeup.request();
        }
        let done = transaction(|| self.store_plan(&clock, is_active, &lease_status, raise, reset.is_some()));
        if let Err(Problem(text)) = &done {
            self.has_committed = false;
            complain(self.shared, text); // The answer refers to this problem.
            server_status.commands.answer_claimed(Answer::Failed);
        }
        let done = done?;
        if is_stopping() {
            // If shutdown cut short the wait for a standby, the commit still looks successful. Do not publish.
            return Ok(None);
        }
        self.carry_out(&done, &lease_status);
        if let GatePlan::Reset(lease) = done.plan.gate {
            self.reset(&lease, reset)?;
            return Ok(Some(Duration::ZERO)); // The next cycle opens the gate.
        }
        if let Some(ticket) = reset
            && done.wanted.is_some()
            && !done.plan.is_another_needed
            && server_status.commands.claim(ticket)
        {
            server_status.commands.answer_claimed(Answer::HistoryUnknown);
        }
        let is_value_opened = self.open_next_value(&clock, asked_value)?;
        segment::start_if_needed(&mut self.segments_started); // The cycle may have found stored ranges.
        tell(self.shared, done.plan.gate, done.warning.as_deref(), jump_us, done.refusal, registry_problem);
        Ok(match is_active {
            _ if is_value_opened => Some(Duration::ZERO), // The next cycle publishes the new value.
            true => Some(config::horizon_margin() / 2),
            // If there is a problem, run the next cycle soon. When the problem is solved, there may be no waiting call
            // that requests a cycle.
            false => Some(if self.is_all_well() { IDLE_TIME } else { RETRY_TIME }),
        })
    }

    /// Switches to another value of the clock sequence if calls have requested a switch and a suitable value is
    /// available. Returns whether the value has changed.
    fn open_next_value(&mut self, clock: &Clock, widths: Widths) -> Result<bool, Problem> {
        let shared = self.shared;
        self.is_asked_in_vain = widths != Widths::default();
        let lease = shared.gate.identity().map(|identity| shared.server_status.keeper.lease_of(identity));
        let Some(lease) =
            lease.filter(|_| self.is_asked_in_vain && clock.is_good && shared.has_room_for_value())
        else {
            return Ok(false);
        };
        let asked = Asked { now_us: clock.now_us, reach_us: self.reach_us(), widths, lease };
        let is_opened = clock_sequence::open_next(shared, &asked)?;
        self.is_asked_in_vain = !is_opened;
        Ok(is_opened)
    }

    /// Resets the horizon, and answers the administrator's request, if any.
    fn reset(&mut self, lease: &Lease, ticket: Option<Ticket>) -> Result<(), Problem> {
        let commands = &self.shared.server_status.commands;
        let claim = || ticket.is_none_or(|ticket| commands.claim(ticket));
        let reach_us = self.reach_us();
        let done = reset(self.shared, lease, reach_us, &mut self.has_committed, claim);
        let answer = match &done {
            Ok(answer) => *answer,
            Err(Problem(text)) => {
                complain(self.shared, text); // The answer refers to this problem.
                Some(Answer::Failed)
            }
        };
        if let (Some(answer), Some(ticket)) = (answer, ticket) {
            // A request that was refused may not have been claimed yet. Claim the request now, so that it can be
            // answered.
            commands.claim(ticket);
            commands.answer_claimed(answer);
        }
        done.map(|_| ())
    }

    /// Returns the distance from the clock to a new horizon, in microseconds.
    fn reach_us(&self) -> i64 {
        microseconds(config::max_ahead() + config::horizon_margin())
    }

    /// Lowers the stored horizon if `horizon_margin` or `max_ahead` was lowered. Otherwise, the new settings would have
    /// no effect until the clock passed the old horizon.
    fn shorten_if_settings_shrank(&mut self) -> Result<(), Problem> {
        let reach_us = self.reach_us();
        if reach_us < self.reach_us && self.shared.gate.identity().is_some() {
            gate::store_shutdown_horizon(self.shared, &mut self.has_committed)?; // On failure, the next cycle retries.
        }
        self.reach_us = reach_us;
        Ok(())
    }

    /// Returns whether any counter has changed within [`IDLE_AFTER`].
    fn is_active(&mut self) -> bool {
        let mut sum = 0u64;
        for slot in self.shared.slots_in_use() {
            sum = sum.wrapping_add(slot.counter);
        }
        if sum != self.activity.0 {
            self.activity = (sum, Some(Instant::now()));
        }
        self.activity.1.is_some_and(|last| last.elapsed() < IDLE_AFTER)
    }

    /// Reads the stored state, makes a plan, and stores the records and horizons of the plan. The caller must
    /// have started a transaction.
    fn store_plan(
        &mut self,
        clock: &Clock,
        is_active: bool,
        lease_status: &LeaseStatus,
        raise: Option<(Ticket, i64)>,
        is_reset_requested: bool,
    ) -> Result<Done, Problem> {
        let store = Store::lock_or_report()?;
        let server_status = &self.shared.server_status;
        let stored = store.read(&server_status.history);
        segment::find_ranges(store.extension);
        let set_by_hand = identity::by_hand(store.extension, server_status.keeper.row())?;
        let by_hand = set_by_hand.into_iter().flatten().next();
        let file = match &mut self.identity_file {
            Some(file) => file,
            file => file.insert(IdentityFile::read(&stored.left, &stored.uses).map_err(Problem)?),
        };
        let mut left = stored.left.clone();
        left.add(&file.left);
        let open_for = self.shared.gate.identity().map(|identity| server_status.keeper.lease_of(identity));
        let candidates = Candidates {
            has_registry: config::registry().is_some(),
            leased: lease_status.lease,
            by_hand,
            open_for,
            used_before: file.used_by_hand,
        };
        let Choice { wanted, refused } = choose(&candidates, &left, clock.now_us);
        let is_worker_waiting = !server_status.keeper.is_identity_known();
        server_status.keeper.set_identities(set_by_hand, &left, file.is_behind(&left));
        if is_worker_waiting {
            server_status.registry_wakeup.request();
        }
        // The keeper can claim a request now, because the transaction waits for no more locks.
        let raise = raise.filter(|(ticket, _)| server_status.commands.claim(*ticket));
        let raise_floor_to_us = raise.map(|(_, floor_us)| floor_us);
        let mut uses = stored.uses.clone();
        let has_uses = !uses.is_empty();
        let plan = plan(&Seen {
            now_us: clock.now_us,
            max_ahead_us: microseconds(config::max_ahead()),
            horizon_margin_us: microseconds(config::horizon_margin()),
            tracks: self.shared.tracks(stored.horizons),
            is_elsewhere: stored.is_elsewhere,
            copied_us: stored.copied_us,
            uses: stored.uses,
            history: server_status.history.snapshot(),
            raise_floor_to_us,
            wanted,
            open_for,
            is_lease_inherited: lease_status.is_inherited,
            is_clock_confirmed: lease_status.is_clock_confirmed(clock.offset),
            is_reset_requested,
            has_room_for_reset: self.shared.has_room_for_reset(),
            is_active,
            is_clock_good: clock.is_good,
        });
        uses.add(plan.records.iter().copied());
        let used = match plan.gate {
            GatePlan::Open { lease, .. } => Some(lease),
            GatePlan::Stay => wanted,
            _ => None,
        };
        if let Some(lease) = wanted {
            server_status.values.note_ends(lease.identity, &uses);
        }
        // An identity that was leased, or left to a registry, must never be set by hand and used again. Therefore, the
        // records of such identities must be durable before the first ID is issued under the lease.
        if let Some(lease) = used.filter(|lease| !lease.is_for_good())
            && lease_status.lease.is_some()
        {
            let registry_id =
                lease_status.registry_id.ok_or_else(|| Problem("bug: the lease has no registry".into()))?;
            file.registry_id = Some(registry_id);
            // The file may contain an identity whose record has been lost.
            left.leave(
                uses.iter().filter_map(|record| record.identity).chain(file.used_by_hand),
                lease.identity,
                registry_id,
                clock.now_us,
            );
        }
        // If no identity is used in this cycle, keep the identity in the file, because the server may issue IDs under
        // it again later.
        let used_by_hand = match used {
            Some(lease) => Some(lease.identity).filter(|_| lease.is_for_good()),
            None => file.used_by_hand,
        };
        file.write(used_by_hand, &left).map_err(Problem)?;
        let mut stored_left = stored.left;
        let unstored = stored_left.add(&left);
        let mut records = plan.records.clone();
        if uses.is_empty() && !unstored.is_empty() {
            // The records of use and the history were lost. Assume that every identity was used up to the latest time
            // that an ID may have now.
            let until_us = clock.now_us + microseconds(config::max_ahead());
            records.push(Use { identity: None, scope: Scope::ZERO, until_us });
        }
        let mut horizons = plan.tracks.map(|track| track.horizon);
        for (track, horizon) in horizons.into_iter().enumerate() {
            if let Some(horizon) = horizon {
                server_status.history.promise(track, horizon);
            }
        }
        if stored.copied_us > 0 && horizons[0].is_some() {
            // The new horizon is above the copied horizons. Overwrite the copied horizons on all tracks.
            horizons = [0, 1].map(|track| horizons[track].or(Some(stored.horizons[track])));
        }
        store.write(&records, &unstored, horizons);
        let has_history = plan.loss == Some(Loss::NothingKnown)
            && (has_uses || server_status.keeper.is_restored.load(Ordering::Relaxed));
        let refusal = refused.map(|(identity, departure)| refusal(identity, departure, wanted));
        // While the former lease lasts, IDs can be issued, so the refusal is only a warning.
        let (refusal, unused) = if wanted.is_none() { (refusal, None) } else { (None, refusal) };
        let warning = unused.or_else(|| risk(&store)).or_else(|| unused_by_hand(by_hand, lease_status));
        let stored_at = stored.stored_at;
        Ok(Done { plan, wanted, refusal, stored_at, raise_floor_to_us, has_history, warning })
    }

    /// Publishes the plan. The data in the plan must already be durable.
    fn carry_out(&mut self, done: &Done, lease_status: &LeaseStatus) {
        let (shared, server_status, plan) = (self.shared, &self.shared.server_status, &done.plan);
        match plan.loss {
            Some(Loss::Stored) => {
                warning!(
                    "snowflake_id: the stored horizons were changed by another session and are written again"
                )
            }
            Some(Loss::NothingKnown) if done.has_history => {
                log!("snowflake_id: the history of this server is not known; IDs start at the current time")
            }
            Some(Loss::NothingKnown) => {
                log!(
                    "snowflake_id: no horizon was stored in database \"{}\"; IDs start at {} or later",
                    config::database().to_string_lossy(),
                    instant(plan.tracks[0].begun.floor_us)
                )
            }
            None => {}
        }
        server_status.history.set_stored_at(done.stored_at);
        if !server_status.is_begun() {
            shared.begin(plan.tracks.map(|track| track.begun));
        }
        self.has_committed |= plan.tracks[0].horizon.is_some();
        shared.publish(plan.tracks.map(|track| track.horizon));
        if let Some(floor_us) = done.raise_floor_to_us {
            gate::raise_floor(shared, floor_us, lease_status.number);
            server_status.commands.answer_claimed(Answer::Done);
        }
        // While no other identity is available, the registry worker repeats its request.
        let another_needed_after = if plan.is_another_needed { lease_status.number } else { 0 };
        let before = server_status.keeper.another_needed_after.swap(another_needed_after, Ordering::Relaxed);
        if plan.is_another_needed && before != another_needed_after {
            server_status.registry_wakeup.request();
        }
        note_misfit(shared, done.wanted);
        let why = match plan.gate {
            GatePlan::Refuse { .. } => Closed::Refused,
            _ if done.refusal.is_some() => Closed::Refused,
            _ if config::registry().is_some() => Closed::NoLease,
            _ => Closed::NoWorkerId,
        };
        gate::apply(shared, plan, done.wanted, lease_status.number, why);
    }
}
