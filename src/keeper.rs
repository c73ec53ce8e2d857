//! The keeper: the background worker that writes the horizon ahead, knows the identity, and opens and closes the gate.
//!
//! It **commits a horizon first and publishes it then**, and only a value whose `setval()` it committed itself, without an
//! error in between. What happens when it dies: before the commit, nothing has changed; between commit and
//! publication, the stored horizon is higher than need be; after it, calls go on up to the published horizon, by
//! then there is a new keeper or they wait.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use pgrx::bgworkers::BackgroundWorker;
use pgrx::prelude::*;
use snowflake_id_core::horizon::{ClockWatch, next_horizon_us};
use snowflake_id_core::{Generator, Identity, SlotKey};

use crate::error::name_of;
use crate::shared::{Closed, State};
use crate::store::Stored;
use crate::{compat, config, identity, shared, store};

mod process;
mod reset;

pub use process::register;
use process::{is_stopping, transaction};

/// For how long the horizon is extended when no IDs are made any more.
const IDLE_AFTER: Duration = Duration::from_secs(60);
/// How soon the keeper looks again when something is in its way: an error, a clock that jumped, no identity.
const RETRY_TIME: Duration = Duration::from_secs(2);
/// How soon at most, however often calls that wait ask for it: once they have, they leave the latch alone until it looks.
const BREATHER: Duration = Duration::from_millis(50);

/// Sleeps until the latch is set, at most for `pause`. Returns whether to go on.
fn sleep(pause: Option<Duration>) -> bool {
    !is_stopping() && BackgroundWorker::wait_latch(pause) && !is_stopping()
}

/// Why a look ended early; in the words of the report.
struct Problem(String);

impl From<spi::Error> for Problem {
    fn from(error: spi::Error) -> Problem {
        Problem(error.to_string())
    }
}

/// What one look found in the database.
struct Found {
    stored: Stored,
    identity: Option<Identity>,
    /// Why there is none, if it is not just that nobody gave one.
    refusal: Option<Problem>,
    /// Up to when the identity may have been used before everything began anew.
    used_until_us: i64,
    /// The horizon that was written, if it was.
    written_us: Option<i64>,
}

impl Found {
    /// Before the gate is opened for another identity: notes its use, and looks up to when it may have been used before
    /// everything began anew. If that lies ahead, the identity is refused.
    fn look_up_use(&mut self) -> Result<(), Problem> {
        let Some(identity) = self.identity else { return Ok(()) };
        match identity::used_until_us(identity)? {
            None => identity::note_use(identity)?,
            Some(until_us) if Some(until_us) > self.stored.horizon_us.max(Some(0)) => {
                self.identity = None;
                self.refusal = Some(Problem(format!(
                    "{} was used by this server before snowflake_reset_horizon(), with times that lie ahead: set snowflake_id.worker_id (or the row in table snowflake_worker) to one that was never used",
                    name_of(identity)
                )));
            }
            Some(until_us) => self.used_until_us = until_us,
        }
        Ok(())
    }
}

/// Why an identity is of no use in the layout that the server uses by default, if it is not. Other layouts may have room for it, so
/// that the gate is opened all the same.
fn misfit(identity: Identity) -> Option<String> {
    let layout = config::valid_layout()?;
    let problem = Generator::new(layout, identity, 0, 0).err()?;
    Some(format!("{} does not fit snowflake_id.layout \"{layout}\": {problem}", name_of(identity)))
}

struct Keeper {
    shared: &'static State,
    /// What this process committed last, without an error since.
    committed: Option<Stored>,
    /// The sum of all counters when it last changed, and when that was.
    activity: (u64, Option<Instant>),
}

impl Keeper {
    fn new(shared: &'static State) -> Keeper {
        Keeper { shared, committed: None, activity: (0, None) }
    }

    fn run(&mut self) {
        loop {
            compat::reload_if_asked();
            let wanted = self.shared.keeper.take_wanted();
            let (pause, breather) = match self.look(wanted) {
                Ok(pause) if self.shared.gate.identity().is_some() => (pause, Duration::ZERO),
                Ok(pause) => (pause, BREATHER),
                Err(Problem(text)) => {
                    self.committed = None;
                    self.complain(&text);
                    (Some(RETRY_TIME), BREATHER)
                }
            };
            self.shared.keeper.looks.fetch_add(1, Ordering::Release);
            // Who asked during the look may have set the latch while that waited for a lock or a standby, which resets it.
            let pause = if self.shared.keeper.is_wanted() { Some(Duration::ZERO) } else { pause };
            if !sleep(pause) || !sleep(Some(breather)) {
                break;
            }
        }
        self.stop();
    }

    /// Notes a problem, and logs it when it is new.
    fn complain(&self, text: &str) {
        if shared::report().text().as_deref() != Some(text) {
            log!("snowflake_id: {text}");
        }
        shared::set_report(Some(text), compat::clock_us());
        if self.shared.gate.identity().is_none() {
            self.shared.keeper.set_closed(Closed::Problem);
        }
    }

    /// Looks after everything once. Returns how long to sleep until the next time.
    fn look(&mut self, wanted: bool) -> Result<Option<Duration>, Problem> {
        self.begin_anew_if_asked()?;
        let words = &self.shared.keeper;
        let ordered_us = words.advance_to_us.load(Ordering::Acquire);
        let lease = config::lease();
        let (now_us, since_boot_us) = compat::clocks_us();
        let jump_us = self.watch_clock(now_us, since_boot_us);
        self.advance(ordered_us);
        let is_active = self.is_active() || wanted;
        let renew = (is_active || self.shared.gate.identity().is_none()) && jump_us.is_none();
        let found = transaction(|| self.look_into_database(now_us, renew, ordered_us))?;
        if is_stopping() {
            // A wait for a standby that was cut short ends like one that was successful: do not publish.
            return Ok(None);
        }
        if let Some(horizon_us) = found.written_us {
            self.committed = Some(Stored { horizon_us: Some(horizon_us), ..found.stored });
            self.shared.publish(horizon_us);
        }
        words.advanced_to_us.store(ordered_us, Ordering::Release);
        self.apply_identity(found.identity, found.used_until_us);
        if let Some(problem) = found.refusal {
            return Err(problem);
        }
        if jump_us.is_none() {
            match found.identity.and_then(misfit) {
                Some(text) => self.complain(&text),
                None => shared::set_report(None, 0),
            }
        }
        Ok(match is_active {
            true => Some(lease / 2),
            // Nobody may ask any more when what is in the way goes.
            false => (jump_us.is_some() || found.identity.is_none()).then_some(RETRY_TIME),
        })
    }

    /// Compares the clock with the time since boot. At the start of the server the clock is taken as it is.
    fn watch_clock(&self, now_us: i64, since_boot_us: i64) -> Option<i64> {
        let words = &self.shared.keeper;
        let accepted = words.accept_clock.swap(false, Ordering::AcqRel);
        self.note_step_back(now_us - since_boot_us);
        let mut watch = match words.clock_offset_us.load(Ordering::Relaxed) {
            offset_us if offset_us != 0 && !accepted => ClockWatch::with_offset_us(offset_us),
            _ => ClockWatch::new(now_us, since_boot_us),
        };
        let reached_us = words.horizon_us.load(Ordering::Relaxed);
        let max_jump_us = config::max_clock_jump().as_micros() as i64;
        let jump_us = watch.look(now_us, since_boot_us, max_jump_us, reached_us);
        words.clock_offset_us.store(watch.offset_us(), Ordering::Relaxed);
        words.clock_jump_us.store(jump_us.unwrap_or(0), Ordering::Relaxed);
        if let Some(jump_us) = jump_us {
            self.complain(&format!("the clock has jumped ahead by {} s", jump_us / 1_000_000));
        }
        jump_us
    }

    /// Counts the steps of the clock backwards between two looks, for people to see.
    fn note_step_back(&self, offset_us: i64) {
        let last = self.shared.keeper.last_clock_offset_us.swap(offset_us, Ordering::Relaxed);
        if let (true, Some(step_us)) = (last != 0, ClockWatch::step_back_us(last, offset_us)) {
            self.shared.statistics.clock_steps_back.fetch_add(1, Ordering::Relaxed);
            self.shared.statistics.largest_step_back_us.fetch_max(step_us, Ordering::Relaxed);
        }
    }

    /// Moves the floor up if an administrator asked for it. The first floor, which takes that into account, is set
    /// elsewhere: an order must not take the place of what is stored.
    fn advance(&self, floor_us: i64) {
        let known_us = self.shared.keeper.floor_us.load(Ordering::Acquire);
        if known_us != 0 && floor_us > known_us {
            self.shared.fence(floor_us, |key, _| key.counter_at(key.first_tick_from(floor_us)));
        }
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

    /// Reads what is stored, and writes the next horizon if it is to be renewed, if what is stored is not what was
    /// written, or if it lies below the floor that an administrator ordered. Sets the floor at the start of the server.
    fn look_into_database(&mut self, now_us: i64, renew: bool, ordered_us: i64) -> Result<Found, Problem> {
        let Some(stored) = store::read()? else {
            let database = config::database();
            return Err(Problem(format!(
                "extension snowflake_id is not in database \"{0}\" (snowflake_id.database): run CREATE EXTENSION snowflake_id there",
                database.to_string_lossy()
            )));
        };
        let mut found =
            Found { stored, identity: identity::find()?, refusal: None, used_until_us: 0, written_us: None };
        // The extension may have been created anew, and have forgotten who uses it.
        let is_known_here = self.committed.is_some_and(|committed| committed.sequence == stored.sequence);
        if found.identity != self.shared.gate.identity() || !is_known_here {
            found.look_up_use()?;
        }
        let words = &self.shared.keeper;
        let max_drift_us = config::max_drift().as_micros() as i64;
        let published_us = words.horizon_us.load(Ordering::Acquire);
        if words.floor_us.load(Ordering::Acquire) == 0 {
            let floor_us = stored.horizon_us.unwrap_or_else(|| {
                log!("snowflake_id: the past of this server is not known; its IDs begin now");
                now_us + max_drift_us
            });
            words.floor_us.store(floor_us.max(ordered_us), Ordering::Release);
        }
        let is_lost = self.committed.is_some_and(|committed| {
            committed.sequence != stored.sequence || committed.horizon_us > stored.horizon_us
        });
        if is_lost {
            warning!("snowflake_id: the stored horizon was changed by somebody else; it is written anew");
        }
        let renew = is_lost || (renew && found.identity.is_some());
        if !renew && ordered_us <= stored.horizon_us.unwrap_or(0) {
            return Ok(found);
        }
        let mut known = vec![published_us, words.floor_us.load(Ordering::Acquire)];
        known.extend(stored.horizon_us);
        let in_use = self.shared.slots_in_use();
        known.extend(in_use.iter().map(|slot| SlotKey::of(&slot.layout).end_of_use_us(slot.counter)));
        let horizon_us = match renew {
            true => self.next_horizon_us(now_us, known),
            false => known.into_iter().fold(ordered_us, i64::max),
        };
        store::write(stored.sequence, horizon_us)?;
        Ok(Found { written_us: Some(horizon_us), ..found })
    }

    /// The horizon to commit next, given what is known to have been used or written.
    fn next_horizon_us(&self, now_us: i64, known_us: impl IntoIterator<Item = i64>) -> i64 {
        let us = |time: Duration| time.as_micros() as i64;
        next_horizon_us(known_us, now_us, us(config::max_drift()), us(config::lease()))
    }

    /// Opens the gate for the identity, once this process has committed a horizon: what an earlier keeper published may lie
    /// above what it stored when it ended. If the gate was last open for another identity, each slot goes on in its next
    /// tick, so that IDs stay in order. No slot begins before `used_until_us`: after everything began anew the gate may be opened
    /// for an identity that was used before, even for the one that was the last.
    fn apply_identity(&self, identity: Option<Identity>, used_until_us: i64) {
        let shared = self.shared;
        let open_for = shared.gate.identity();
        match identity {
            _ if identity == open_for && identity.is_some() => {}
            Some(_) if self.committed.is_none() => {}
            Some(identity) => {
                let last = &shared.keeper.last_identity;
                let is_another = last.identity().is_some_and(|last| last != identity);
                if is_another || used_until_us > 0 {
                    shared.fence(used_until_us, |key, counter| {
                        let next = if is_another { key.next_unused_tick(counter) } else { counter };
                        next.max(key.counter_at(key.first_tick_from(used_until_us)))
                    });
                }
                last.open(identity);
                shared.gate.open(identity);
            }
            None => {
                if open_for.is_some() {
                    shared.fence(0, |_, _| 0);
                }
                shared.keeper.set_closed(Closed::NoWorkerId);
            }
        }
    }

    /// Fences, and stores the exact end of what was handed out, so that the next start need not wait for the clock.
    ///
    /// That lowers what is stored, which is safe, as everything handed out lies before the end, and nothing comes after
    /// it. For the same reason it need not reach a standby: what that has is higher.
    fn stop(&mut self) {
        self.shared.keeper.set_closed(Closed::Starting);
        if self.shared.gate.identity().is_none() {
            return;
        }
        let end_us = self.shared.fence(0, |_, _| 0);
        let Some(committed) = self.committed else {
            return; // What is stored is not ours to lower.
        };
        compat::forget_interrupt();
        let sealed = transaction(|| {
            Spi::run("SET LOCAL synchronous_commit = local")?;
            Ok(store::write(committed.sequence, end_us)?)
        });
        if let Err(Problem(text)) = sealed {
            log!("snowflake_id: could not store the end of what was handed out: {text}");
        }
    }
}
