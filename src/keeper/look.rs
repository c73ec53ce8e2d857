//! One look of the keeper after another: see [`super`].

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use pgrx::bgworkers::BackgroundWorker;
use pgrx::prelude::*;
use snowflake_id_core::Lease;
use snowflake_id_core::clock_sequence::Asked;
use snowflake_id_core::keeper_plan::{GatePlan, Loss, Plan, Seen, plan, records_to_seal};

use super::begin_anew::begin_anew;
use super::clock_sequence;
use super::identity;
use super::news::{complain, risk, tell};
use super::store::{New, Store};
use super::transaction::transaction;
use super::watch_clock;
use crate::background::stop::is_stopping;
use crate::background::transaction::Problem;
use crate::config;
use crate::pg::{clock, process};
use crate::registry;
use crate::segment;
use crate::shared::board::Closed;
use crate::shared::lease::{self, LeaseNews};
use crate::shared::memory::State;
use crate::shared::order_desk::{Answer, Order, Ticket};

/// For how long the horizon is extended when no IDs are made any more.
const IDLE_AFTER: Duration = Duration::from_secs(60);
/// How soon the keeper looks again when something is in its way: an error, a clock that jumped, no identity.
pub const RETRY_TIME: Duration = Duration::from_secs(2);
/// How soon it looks while no IDs are made, only to see whether what is stored is still there.
const IDLE_TIME: Duration = Duration::from_secs(10);
/// How soon at most, however often calls that wait ask for it: once they have, they leave the latch alone
/// until it looks.
const BREATHER: Duration = Duration::from_millis(50);

/// Sleeps until the latch is set, at most for `pause`. Returns whether to go on.
fn sleep(pause: Option<Duration>) -> bool {
    !is_stopping() && BackgroundWorker::wait_latch(pause) && !is_stopping()
}

fn microseconds(time: Duration) -> i64 {
    time.as_micros() as i64
}

/// What was done in the database in one look.
struct Done {
    plan: Plan,
    wanted: Option<Lease>,
    place: (u32, u32),
    /// Where the floor was ordered to be, by an order that was claimed.
    advance_to_us: Option<i64>,
    /// What should be mended.
    warning: Option<String>,
}

pub struct Keeper {
    shared: &'static State,
    /// Whether this process has committed a horizon.
    has_committed: bool,
    /// How far ahead of the clock the horizon was last written, in microseconds.
    reach_us: i64,
    /// The sum of all counters when it last changed, and when that was.
    activity: (u64, Option<Instant>),
    /// When it last started the registry worker.
    registry_started: Option<Instant>,
    /// The same, the segments worker.
    segments_started: Option<Instant>,
    /// Whether a call has asked for another value of the clock sequence, and there was none for it.
    is_asked_in_vain: bool,
}

/// The clock in one look, and whether it may be followed.
struct Clock {
    now_us: i64,
    /// Less the time since boot.
    offset_us: i64,
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
        }
    }

    pub fn run(&mut self) {
        loop {
            process::reload_if_asked();
            let wanted = self.shared.board.bell.take_wanted();
            let (pause, breather) = match self.look(wanted) {
                Ok(pause) if self.is_all_well() => (pause, Duration::ZERO),
                Ok(pause) => (pause, BREATHER),
                Err(Problem(text)) => {
                    complain(self.shared, &text);
                    (Some(RETRY_TIME), BREATHER)
                }
            };
            self.shared.board.looks.send();
            // Who asked during the look may have set the latch while that waited for a lock or a standby,
            // which resets it.
            let pause = if self.shared.board.bell.is_wanted() { Some(Duration::ZERO) } else { pause };
            if !sleep(pause) || !sleep(Some(breather)) {
                break;
            }
        }
        self.stop();
    }

    /// Whether calls that wait can be helped. If not, they ask again and again.
    fn is_all_well(&self) -> bool {
        let jump_us = self.shared.board.keeper.clock_jump_us.load(Ordering::Relaxed);
        self.shared.gate.identity().is_some() && jump_us == 0 && !self.is_asked_in_vain
    }

    /// Looks after everything once. Returns how long to sleep until the next time.
    fn look(&mut self, is_wanted: bool) -> Result<Option<Duration>, Problem> {
        let board = &self.shared.board;
        // Before the clock is read: a call that asks later has seen a later clock, and is answered in the next look.
        let asked_value = board.values.take_asked();
        // IDs go on without it, as long as the lease lasts.
        let registry_problem = registry::start_if_needed(self.shared, &mut self.registry_started).err();
        segment::start_if_needed(&mut self.segments_started);
        let order = board.orders.waiting();
        if let Some((ticket, Order::BeginAnew(Some(identity)))) = order {
            self.begin_anew(&Lease::for_good(identity), Some(ticket))?;
        }
        self.seal_if_settings_shrank()?;
        if is_stopping() {
            return Ok(None);
        }
        let (now_us, since_boot_us) = clock::clocks_us();
        let is_accepted = matches!(order, Some((ticket, Order::AcceptClock)) if board.orders.claim(ticket));
        if is_accepted {
            board.past.set_clock_offset(now_us - since_boot_us);
        }
        let jump_us = watch_clock::watch(self.shared, now_us, since_boot_us);
        if is_accepted {
            board.orders.answer_claimed(Answer::Done);
        }
        let is_active = self.is_active() || is_wanted;
        let advance = match order {
            Some((ticket, Order::Advance(floor_us))) => Some((ticket, floor_us)),
            _ => None,
        };
        let news = lease::news();
        let anew = match order {
            Some((ticket, Order::BeginAnew(None))) => Some(ticket),
            _ => None,
        };
        let clock = Clock { now_us, offset_us: now_us - since_boot_us, is_good: jump_us.is_none() };
        if news.is_clock_set_since(clock.offset_us) {
            // Not to be waited for: everything may have to begin anew.
            board.registry_bell.ring();
        }
        let done = transaction(|| self.store_plan(&clock, is_active, &news, advance, anew.is_some()));
        if let Err(Problem(text)) = &done {
            self.has_committed = false;
            complain(self.shared, text); // Before the answer, which refers to it.
            board.orders.answer_claimed(Answer::Failed);
        }
        let done = done?;
        if is_stopping() {
            // A wait for a standby that was cut short ends like one that was successful: do not publish.
            return Ok(None);
        }
        self.carry_out(&done, &news);
        if let GatePlan::BeginAnew(lease) = done.plan.gate {
            self.begin_anew(&lease, anew)?;
            return Ok(Some(Duration::ZERO)); // The gate is opened in the next look.
        }
        if let Some(ticket) = anew
            && done.wanted.is_some()
            && !done.plan.is_another_needed
            && board.orders.claim(ticket)
        {
            board.orders.answer_claimed(Answer::PastUnknown);
        }
        let is_value_opened = self.open_next_value(&clock, asked_value)?;
        segment::start_if_needed(&mut self.segments_started); // Whether it has to be may be known only now.
        tell(self.shared, done.plan.gate, done.warning.as_deref(), jump_us, registry_problem)?;
        Ok(match is_active {
            _ if is_value_opened => Some(Duration::ZERO), // To tell which values are used now.
            true => Some(config::lease() / 2),
            // Nobody may ask any more when what is in the way goes.
            false => Some(if self.is_all_well() { IDLE_TIME } else { RETRY_TIME }),
        })
    }

    /// Opens another value of the clock sequence, up to `max_value`, if a call has asked for that, and there is reason to.
    /// Returns whether it did.
    fn open_next_value(&mut self, clock: &Clock, max_value: u8) -> Result<bool, Problem> {
        let shared = self.shared;
        self.is_asked_in_vain = max_value > 0;
        let lease = shared.gate.identity().map(|identity| shared.board.keeper.lease_of(identity));
        let Some(lease) = lease.filter(|_| max_value > 0 && clock.is_good && shared.has_room_for_value())
        else {
            return Ok(false);
        };
        let asked = Asked {
            now_us: clock.now_us,
            reach_us: self.reach_us(),
            max_value,
            identity: lease.identity,
            lease_us: (lease.from_us, lease.until_us),
            zero_us: shared.board.keeper.floor_us().unwrap_or(0).max(shared.end_of_use_us(0)),
        };
        let is_opened = clock_sequence::open_next(shared, &asked)?;
        self.is_asked_in_vain = !is_opened;
        Ok(is_opened)
    }

    /// Begins anew, and answers if it was ordered.
    fn begin_anew(&mut self, lease: &Lease, ticket: Option<Ticket>) -> Result<(), Problem> {
        let orders = &self.shared.board.orders;
        let claim = || ticket.is_none_or(|ticket| orders.claim(ticket));
        let done = begin_anew(self.shared, lease, self.reach_us(), claim);
        let answer = match &done {
            Ok(answer) => *answer,
            Err(Problem(text)) => {
                complain(self.shared, text); // Before the answer, which refers to it.
                Some(Answer::Failed)
            }
        };
        if self.shared.gate.identity().is_none() {
            self.has_committed = false;
        }
        if let (Some(answer), Some(ticket)) = (answer, ticket) {
            // Also one that was refused before it was claimed: nothing is done about it.
            orders.claim(ticket);
            orders.answer_claimed(answer);
        }
        done.map(|_| ())
    }

    /// How far ahead of the clock a horizon is written.
    fn reach_us(&self) -> i64 {
        microseconds(config::max_drift() + config::lease())
    }

    /// A lowered `lease` or `max_drift` would count only once the horizon that was written under the higher
    /// one has passed: what was not used of that is given back.
    fn seal_if_settings_shrank(&mut self) -> Result<(), Problem> {
        let reach_us = self.reach_us();
        if reach_us < self.reach_us && self.shared.gate.identity().is_some() {
            self.seal()?; // If that fails, it is tried again.
        }
        self.reach_us = reach_us;
        Ok(())
    }

    /// Whether IDs were made in the last minute.
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

    /// In a transaction: sees what is stored, makes a plan, and stores what it says.
    fn store_plan(
        &self,
        clock: &Clock,
        is_active: bool,
        news: &LeaseNews,
        advance: Option<(Ticket, i64)>,
        is_anew_ordered: bool,
    ) -> Result<Done, Problem> {
        let store = Store::lock_or_report()?;
        let board = &self.shared.board;
        let stored = store.read(&board.past);
        segment::look_for_past(store.extension);
        let wanted = identity::find(store.extension, news)?;
        // From here on nothing has to be waited for.
        let advance = advance.filter(|(ticket, _)| board.orders.claim(*ticket));
        let advance_to_us = advance.map(|(_, floor_us)| floor_us);
        let mut value_uses = stored.value_uses.clone();
        let plan = plan(&Seen {
            now_us: clock.now_us,
            max_drift_us: microseconds(config::max_drift()),
            lease_us: microseconds(config::lease()),
            stored_us: stored.horizon_us,
            is_elsewhere: stored.is_elsewhere,
            uses: stored.uses,
            values: self.shared.seen_values(stored.value, stored.value_uses),
            past: board.past.snapshot(),
            floor_us: board.keeper.floor_us(),
            end_of_use_us: self.shared.end_of_use_us(0),
            advance_to_us,
            wanted,
            open_for: self.shared.gate.identity().map(|identity| board.keeper.lease_of(identity)),
            is_lease_inherited: news.is_inherited,
            is_clock_confirmed: news.is_clock_confirmed(clock.offset_us),
            is_anew_ordered,
            has_room_to_begin_anew: self.shared.has_room_to_begin_anew(),
            is_active,
            is_clock_good: clock.is_good,
        });
        if let Some(lease) = wanted {
            value_uses.0.extend(&plan.value_records);
            board.values.note_ends(lease.identity, &value_uses);
        }
        if let Some(horizon_us) = plan.horizon_us {
            board.past.promise(horizon_us);
        }
        if let Some(horizon) = plan.value_horizon {
            board.past.promise_value(horizon);
        }
        store.write(&New {
            records: &plan.records,
            value_records: &plan.value_records,
            horizon_us: plan.horizon_us,
            value: plan.value_horizon,
        });
        Ok(Done { plan, wanted, place: stored.place, advance_to_us, warning: risk(&store) })
    }

    /// What was stored is durable: lets the server know.
    fn carry_out(&mut self, done: &Done, news: &LeaseNews) {
        let (shared, board, plan) = (self.shared, &self.shared.board, &done.plan);
        match plan.loss {
            Some(Loss::Stored) => {
                warning!("snowflake_id: what was stored was changed by somebody else; it is written anew")
            }
            Some(Loss::NothingKnown) => {
                log!("snowflake_id: the past of this server is not known; its IDs begin now")
            }
            None => {}
        }
        board.past.set_place(done.place.0, done.place.1);
        if board.keeper.floor_us().is_none() {
            shared.begin_value(plan.begun);
            board.keeper.floor_us.store(plan.floor_us, Ordering::Release);
        }
        self.has_committed |= plan.horizon_us.is_some();
        shared.publish(plan.horizon_us, plan.value_horizon);
        if let Some(floor_us) = done.advance_to_us {
            let open_for = shared.gate.identity().map(|identity| board.keeper.lease_of(identity));
            shared.fence(floor_us, floor_us, |key, _| key.first_counter_from(floor_us));
            if let Some(lease) = open_for {
                shared.open_gate(&lease, news.number);
            }
            board.orders.answer_claimed(Answer::Done);
        }
        if plan.is_another_needed {
            // Once: it asks again by itself when there is none.
            if board.keeper.another_needed_after.swap(news.number, Ordering::Relaxed) != news.number {
                board.registry_bell.ring();
            }
        }
        self.apply_to_gate(plan, done.wanted, news.number);
    }

    /// Never lets slots be used beyond the lease for which the gate is open: before another one's range is taken over,
    /// the gate is closed.
    fn apply_to_gate(&self, plan: &Plan, wanted: Option<Lease>, number: u64) {
        let shared = self.shared;
        match plan.gate {
            GatePlan::Stay => {
                if let Some(lease) = wanted {
                    shared.set_lease(&lease); // It may have been renewed.
                }
            }
            GatePlan::BeginAnew(_) => {}
            GatePlan::Open { lease, from_us, is_another } => {
                let value_from_us = plan.value_from_us;
                if is_another || from_us > 0 || value_from_us > 0 {
                    shared.fence(from_us, value_from_us, |key, counter| {
                        let next = if is_another { key.next_whole_tick(counter) } else { counter };
                        let from_us = if key.clock_seq() == 0 { from_us } else { value_from_us };
                        next.max(key.first_counter_from(from_us))
                    });
                }
                shared.set_lease(&lease);
                shared.board.past.set_last_identity(lease.identity);
                shared.open_gate(&lease, number);
            }
            GatePlan::Close | GatePlan::Refuse { .. } => {
                if shared.gate.identity().is_some() {
                    shared.fence(0, 0, |_, _| 0);
                }
                let is_leased = config::registry().is_some();
                shared.board.keeper.set_closed(if is_leased { Closed::NoLease } else { Closed::NoWorkerId });
            }
        }
    }

    /// Fences, and stores the exact end of what was handed out, so that whoever comes next need not wait for
    /// the clock.
    ///
    /// That lowers what is stored, which is safe, as everything handed out lies before the end, and nothing
    /// comes after it. For the same reason it need not reach a standby: what that has is higher.
    ///
    /// What is stored is locked first: who has to wait for that goes on with what is published.
    fn seal(&mut self) -> Result<(), Problem> {
        if !self.has_committed {
            self.shared.seal();
            return Ok(()); // What is stored is not ours to lower.
        }
        let shared = self.shared;
        let (end_us, end_of_value) = transaction(|| {
            process::commit_locally();
            let store = Store::lock_or_report()?;
            let stored = store.read(&shared.board.past);
            let ends = shared.seal();
            let past = shared.board.past.snapshot();
            let values = shared.seen_values(stored.value, stored.value_uses);
            let (records, value_records) = records_to_seal(&stored.uses, &values, &past, stored.horizon_us);
            store.write(&New {
                records: &records,
                value_records: &value_records,
                horizon_us: Some(ends.0),
                // There is none if there never was.
                value: Some(ends.1).filter(|end| *end != stored.value),
            });
            Ok(ends)
        })?;
        self.has_committed = false;
        // Nothing beyond them was promised to anybody.
        shared.board.past.lower_promise(end_us);
        shared.board.past.lower_value_promise(end_of_value);
        Ok(())
    }

    fn stop(&mut self) {
        self.shared.board.keeper.set_closed(Closed::Starting);
        if self.shared.gate.identity().is_none() {
            return;
        }
        process::forget_interrupt();
        if let Err(Problem(text)) = self.seal() {
            self.shared.seal();
            log!("snowflake_id: could not store the end of what was handed out: {text}");
        }
    }
}
