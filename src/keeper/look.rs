//! One look of the keeper after another: see [`super`].

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use pgrx::bgworkers::BackgroundWorker;
use pgrx::prelude::*;
use snowflake_id_core::Identity;
use snowflake_id_core::keeper_plan::{GatePlan, Loss, Plan, Seen, plan, records_to_seal};

use crate::config;
use crate::shared::board::Closed;
use crate::shared::memory::State;
use crate::shared::order_desk::{Answer, Order, Ticket};

use super::begin_anew::begin_anew;
use super::identity;
use super::news::{complain, risk, tell};
use super::store::Store;
use super::transaction::{Problem, is_stopping, transaction};
use super::watch_clock;
use crate::pg::{clock, process};

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
struct Stored {
    plan: Plan,
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
}

impl Keeper {
    pub fn new(shared: &'static State) -> Keeper {
        Keeper { shared, has_committed: false, reach_us: 0, activity: (0, None) }
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
            self.shared.board.keeper.looks.fetch_add(1, Ordering::Release);
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
        self.shared.gate.identity().is_some() && jump_us == 0
    }

    /// Looks after everything once. Returns how long to sleep until the next time.
    fn look(&mut self, is_wanted: bool) -> Result<Option<Duration>, Problem> {
        let board = &self.shared.board;
        let order = board.orders.waiting();
        if let Some((ticket, Order::BeginAnew(identity))) = order {
            self.begin_anew_as_ordered(ticket, identity)?;
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
        let stored = transaction(|| self.store_plan(now_us, is_active, jump_us.is_none(), advance));
        if let Err(Problem(text)) = &stored {
            self.has_committed = false;
            complain(self.shared, text); // Before the answer, which refers to it.
            board.orders.answer_claimed(Answer::Failed);
        }
        let stored = stored?;
        if is_stopping() {
            // A wait for a standby that was cut short ends like one that was successful: do not publish.
            return Ok(None);
        }
        self.carry_out(&stored);
        tell(self.shared, stored.plan.gate, stored.warning.as_deref(), jump_us)?;
        Ok(match is_active {
            true => Some(config::lease() / 2),
            // Nobody may ask any more when what is in the way goes.
            false => Some(if self.is_all_well() { IDLE_TIME } else { RETRY_TIME }),
        })
    }

    /// Begins anew, and answers.
    fn begin_anew_as_ordered(&mut self, ticket: Ticket, identity: Identity) -> Result<(), Problem> {
        let orders = &self.shared.board.orders;
        let done = begin_anew(self.shared, ticket, identity, self.reach_us());
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
        if let Some(answer) = answer {
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
        now_us: i64,
        is_active: bool,
        is_clock_good: bool,
        advance: Option<(Ticket, i64)>,
    ) -> Result<Stored, Problem> {
        let store = Store::lock_or_report()?;
        let board = &self.shared.board;
        let (place, uses, stored_us) = (store.place(), store.uses(), store.horizon_us());
        // Also what was handed out before this shared memory was made.
        board.past.note_high(uses.latest_us().max(stored_us.unwrap_or(0)));
        let wanted = identity::find(store.extension)?;
        // From here on nothing has to be waited for.
        let advance = advance.filter(|(ticket, _)| board.orders.claim(*ticket));
        let advance_to_us = advance.map(|(_, floor_us)| floor_us);
        let plan = plan(&Seen {
            now_us,
            max_drift_us: microseconds(config::max_drift()),
            lease_us: microseconds(config::lease()),
            stored_us,
            is_elsewhere: board.past.place().is_some_and(|known| known != place),
            uses,
            past: board.past.snapshot(),
            floor_us: board.keeper.floor_us(),
            end_of_use_us: self.shared.end_of_use_us(),
            advance_to_us,
            wanted,
            open_for: self.shared.gate.identity(),
            is_active,
            is_clock_good,
        });
        if let Some(horizon_us) = plan.horizon_us {
            board.past.promise(horizon_us);
        }
        store.write(&plan.records, plan.horizon_us);
        Ok(Stored { plan, place, advance_to_us, warning: risk(&store) })
    }

    /// What was stored is durable: lets the server know.
    fn carry_out(&mut self, stored: &Stored) {
        let (shared, board, plan) = (self.shared, &self.shared.board, &stored.plan);
        match plan.loss {
            Some(Loss::Stored) => {
                warning!("snowflake_id: what was stored was changed by somebody else; it is written anew")
            }
            Some(Loss::NothingKnown) => {
                log!("snowflake_id: the past of this server is not known; its IDs begin now")
            }
            None => {}
        }
        board.past.set_place(stored.place.0, stored.place.1);
        if board.keeper.floor_us().is_none() {
            board.keeper.floor_us.store(plan.floor_us, Ordering::Release);
        }
        if let Some(horizon_us) = plan.horizon_us {
            self.has_committed = true;
            shared.publish(horizon_us);
        }
        if let Some(floor_us) = stored.advance_to_us {
            let open_for = shared.gate.identity();
            shared.fence(floor_us, |key, _| key.counter_at(key.first_tick_from(floor_us)));
            if let Some(identity) = open_for {
                shared.gate.open(identity);
            }
            board.orders.answer_claimed(Answer::Done);
        }
        self.apply_to_gate(plan.gate);
    }

    fn apply_to_gate(&self, gate: GatePlan) {
        let shared = self.shared;
        match gate {
            GatePlan::Stay => {}
            GatePlan::Open { identity, from_us, is_another } => {
                if is_another || from_us > 0 {
                    shared.fence(from_us, |key, counter| {
                        let next = if is_another { key.next_whole_tick(counter) } else { counter };
                        next.max(key.counter_at(key.first_tick_from(from_us)))
                    });
                }
                shared.board.past.set_last_identity(identity);
                shared.gate.open(identity);
            }
            GatePlan::Close | GatePlan::Refuse { .. } => {
                if shared.gate.identity().is_some() {
                    shared.fence(0, |_, _| 0);
                }
                shared.board.keeper.set_closed(Closed::NoWorkerId);
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
        let end_us = transaction(|| {
            process::commit_locally();
            let store = Store::lock_or_report()?;
            let end_us = shared.seal();
            let past = shared.board.past.snapshot();
            store.write(&records_to_seal(&store.uses(), &past, store.horizon_us()), Some(end_us));
            Ok(end_us)
        })?;
        self.has_committed = false;
        shared.forget_promises_beyond(end_us);
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
