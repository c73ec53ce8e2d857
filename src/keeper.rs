//! The keeper: the background worker that writes the horizon ahead, knows the identity, and opens and closes the gate.
//!
//! It **commits a horizon first and publishes it then**, and only a value whose `setval()` it committed itself, without an
//! error in between. What happens when it dies: before the commit, nothing has changed; between commit and
//! publication, the stored horizon is higher than need be; after it, calls go on up to the published horizon, by
//! then there is a new keeper or they wait.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pgrx::bgworkers::{BackgroundWorker, BackgroundWorkerBuilder, SignalWakeFlags};
use pgrx::pg_sys::panic::CaughtError;
use pgrx::prelude::*;
use snowflake_id_core::horizon::{ClockWatch, next_horizon_us};
use snowflake_id_core::{Identity, SlotKey};

use crate::shared::{Closed, State};
use crate::store::Stored;
use crate::{compat, config, identity, shared, store};

/// How long the postmaster waits before it starts a keeper again.
const RESTART_TIME: Duration = Duration::from_secs(1);
/// For how long the horizon is extended when no IDs are made any more.
const IDLE_AFTER: Duration = Duration::from_secs(60);
/// How soon the keeper looks again when something is in its way.
const RETRY_TIME: Duration = Duration::from_secs(2);
/// How soon at most, however often calls that wait ask for it: once they have, they leave the latch alone until it looks.
const BREATHER: Duration = Duration::from_millis(50);

/// Set by SIGTERM.
static IS_STOPPING: AtomicBool = AtomicBool::new(false);
/// Set while a commit is under way, which SIGTERM then has to interrupt: it may wait for a standby that is gone.
static IS_COMMITTING: AtomicBool = AtomicBool::new(false);

/// Registers the keeper with the postmaster. Nothing of ours may run while pg_upgrade copies catalogs.
pub fn register() {
    if compat::is_binary_upgrade() {
        return;
    }
    BackgroundWorkerBuilder::new("snowflake_id keeper")
        .set_type("snowflake_id keeper")
        .set_library("snowflake_id")
        .set_function("snowflake_id_keeper_main")
        .enable_spi_access() // Starts after recovery only: a standby has no keeper, so its gate stays closed.
        .set_restart_time(Some(RESTART_TIME))
        .load();
}

/// Where the process begins.
#[pg_guard]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn snowflake_id_keeper_main(_argument: pg_sys::Datum) {
    BackgroundWorker::attach_signal_handlers(SignalWakeFlags::SIGHUP);
    compat::handle_signals(on_sigterm);
    let Ok(shared) = shared::state() else {
        return; // Registered by the postmaster, which made the shared memory.
    };
    shared.keeper.register();
    let database = config::database();
    let cannot_connect =
        format!("cannot connect to database \"{}\" (snowflake_id.database)", database.to_string_lossy());
    if shared::report().text().as_ref() == Some(&cannot_connect) {
        // The keeper before this one found that out, and ended. Each attempt leaves a message in the log.
        BackgroundWorker::wait_latch(Some(RETRY_TIME));
    }
    shared::set_report(Some(&cannot_connect), compat::clock_us());
    shared.keeper.set_closed(Closed::Problem);
    compat::connect_keeper(&database);
    shared::set_report(None, 0);
    shared.keeper.set_closed(Closed::Starting);
    Keeper::new(shared).run();
    shared.keeper.unregister();
    // With code 0 the postmaster would never start it again.
    compat::exit(1);
}

/// Runs between any two instructions of the keeper.
unsafe extern "C-unwind" fn on_sigterm(_signal: i32) {
    IS_STOPPING.store(true, Ordering::SeqCst);
    compat::interrupt(IS_COMMITTING.load(Ordering::SeqCst));
}

fn is_stopping() -> bool {
    IS_STOPPING.load(Ordering::SeqCst)
}

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
    /// The horizon that was written, if it was.
    written_us: Option<i64>,
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
                Ok(pause) => (pause, Duration::ZERO),
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
        let lease = config::lease();
        let now_us = compat::clock_us();
        let jump_us = self.watch_clock(now_us);
        self.advance();
        let is_active = self.is_active() || wanted;
        let renew = (is_active || self.shared.gate.identity().is_none()) && jump_us.is_none();
        let found = self.transaction(|keeper| keeper.look_into_database(now_us, renew))?;
        if is_stopping() {
            // A wait for a standby that was cut short ends like one that was successful: do not publish.
            return Ok(None);
        }
        if let Some(horizon_us) = found.written_us {
            self.committed = Some(Stored { horizon_us: Some(horizon_us), ..found.stored });
            self.shared.publish(horizon_us);
        }
        self.apply_identity(found.identity);
        if jump_us.is_none() {
            shared::set_report(None, 0);
        }
        Ok(is_active.then_some(lease / 2))
    }

    /// Compares the clock with the time since boot. At the start of the server the clock is taken as it is.
    fn watch_clock(&self, now_us: i64) -> Option<i64> {
        let words = &self.shared.keeper;
        let since_boot_us = compat::since_boot_us();
        let accepted = words.accept_clock.swap(false, Ordering::AcqRel);
        let mut watch = match words.clock_offset_us.load(Ordering::Relaxed) {
            0 => ClockWatch::new(now_us, since_boot_us),
            _ if accepted => ClockWatch::new(now_us, since_boot_us),
            offset_us => ClockWatch::with_offset_us(offset_us),
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

    /// Moves the floor up if an administrator asked for it.
    fn advance(&self) {
        let words = &self.shared.keeper;
        let floor_us = words.advance_to_us.load(Ordering::Acquire);
        if floor_us > words.floor_us.load(Ordering::Acquire) {
            self.shared.fence(floor_us, |key, _| key.counter_at(key.first_tick_from(floor_us)));
        }
    }

    /// Whether IDs were made in the last minute.
    fn is_active(&mut self) -> bool {
        let mut sum = 0u64;
        for (_, counter) in self.shared.slots_in_use() {
            sum = sum.wrapping_add(counter);
        }
        if sum != self.activity.0 {
            self.activity = (sum, Some(Instant::now()));
        }
        self.activity.1.is_some_and(|last| last.elapsed() < IDLE_AFTER)
    }

    /// Reads what is stored, and writes the next horizon if it is to be renewed or if what is stored is not what was
    /// written. Sets the floor at the start of the server.
    fn look_into_database(&mut self, now_us: i64, renew: bool) -> Result<Found, Problem> {
        let Some(stored) = store::read()? else {
            let database = config::database();
            return Err(Problem(format!(
                "extension snowflake_id is not in database \"{0}\" (snowflake_id.database): run CREATE EXTENSION snowflake_id there, or ALTER EXTENSION snowflake_id UPDATE if it is an old version",
                database.to_string_lossy()
            )));
        };
        let identity = identity::find()?;
        let words = &self.shared.keeper;
        let max_drift_us = config::max_drift().as_micros() as i64;
        let published_us = words.horizon_us.load(Ordering::Acquire);
        if words.floor_us.load(Ordering::Acquire) == 0 {
            let floor_us = stored.horizon_us.unwrap_or_else(|| {
                log!("snowflake_id: the past of this server is not known; its IDs begin now");
                now_us + max_drift_us
            });
            words.floor_us.store(floor_us, Ordering::Release);
        }
        let is_lost = self.committed.is_some_and(|committed| {
            committed.sequence != stored.sequence || committed.horizon_us > stored.horizon_us
        });
        if is_lost {
            warning!("snowflake_id: the stored horizon was changed by somebody else; it is written anew");
        }
        if !renew && !is_lost {
            return Ok(Found { stored, identity, written_us: None });
        }
        let mut known = vec![published_us, words.floor_us.load(Ordering::Acquire)];
        known.extend(stored.horizon_us);
        let in_use = self.shared.slots_in_use();
        known.extend(in_use.iter().map(|(layout, counter)| SlotKey::of(layout).end_of_use_us(*counter)));
        let lease_us = config::lease().as_micros() as i64;
        let horizon_us = next_horizon_us(known, now_us, max_drift_us, lease_us);
        store::write(stored.sequence, horizon_us)?;
        words.committing_since_us.store(now_us, Ordering::Relaxed);
        Ok(Found { stored, identity, written_us: Some(horizon_us) })
    }

    /// Opens the gate for the identity, once this process has committed a horizon: what an earlier keeper published may lie
    /// above what it stored when it ended. If the gate was last open for another identity, each slot goes on in its next
    /// tick, so that IDs stay in order.
    fn apply_identity(&self, identity: Option<Identity>) {
        let shared = self.shared;
        let open_for = shared.gate.identity();
        match identity {
            _ if identity == open_for && identity.is_some() => {}
            Some(_) if self.committed.is_none() => {}
            Some(identity) => {
                let last = &shared.keeper.last_identity;
                if last.identity().is_some_and(|last| last != identity) {
                    shared.fence(0, |key, counter| key.next_unused_tick(counter));
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

    /// Runs a transaction. On an error it is rolled back, and the error is the problem.
    fn transaction<T>(&mut self, body: impl FnOnce(&mut Keeper) -> Result<T, Problem>) -> Result<T, Problem> {
        let run = AssertUnwindSafe(|| {
            BackgroundWorker::transaction(AssertUnwindSafe(|| {
                compat::commit_locally_at_least();
                let result = body(self);
                // A lock that came just when its time was up: what is left of that must not end a wait of the commit.
                pgrx::check_for_interrupts!();
                IS_COMMITTING.store(true, Ordering::SeqCst);
                if is_stopping() {
                    // The signal came too early to interrupt the commit by itself.
                    compat::interrupt(true);
                }
                result
            }))
        });
        let result = PgTryBuilder::new(run)
            .catch_others(|error| {
                compat::abort_transaction();
                Err(Problem(message_of(&error)))
            })
            .execute();
        IS_COMMITTING.store(false, Ordering::SeqCst);
        self.shared.keeper.committing_since_us.store(0, Ordering::Relaxed);
        result
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
        let sealed = self.transaction(|_| {
            Spi::run("SET LOCAL synchronous_commit = local")?;
            Ok(store::write(committed.sequence, end_us)?)
        });
        if let Err(Problem(text)) = sealed {
            log!("snowflake_id: could not store the end of what was handed out: {text}");
        }
    }
}

fn message_of(error: &CaughtError) -> String {
    match error {
        CaughtError::PostgresError(report)
        | CaughtError::ErrorReport(report)
        | CaughtError::RustPanic { ereport: report, .. } => report.message().into(),
    }
}
