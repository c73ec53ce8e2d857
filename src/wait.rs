//! Waiting for the clock and for the keeper: never longer than `max_wait`, not at all when that is known to be in vain,
//! without a lock, cancellable, and visible in `pg_stat_activity`.

use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use snowflake_id_core::Stall;

use crate::compat::WaitEvent;
use crate::error::{Error, length};
use crate::session::Session;
use crate::shared::{Closed, KeeperWords};
use crate::{compat, config, session, shared};

/// How often a long wait looks at the clock, which may have been set in the meantime.
const LONGEST_NAP: Duration = Duration::from_millis(100);

/// How often a call that waits for the keeper looks.
const SHORT_NAP: Duration = Duration::from_millis(2);

/// What the keeper last reported, or that there is none.
fn report(words: &KeeperWords) -> String {
    shared::report().text().unwrap_or_else(|| match words.is_away() {
        true => "The background worker \"snowflake_id keeper\" is not running. It needs one of max_worker_processes.".into(),
        false => "The keeper has not reported anything.".into(),
    })
}

/// What a call waited for in vain: a commit of the keeper that is under way, or what it reported.
fn obstacle(words: &KeeperWords) -> String {
    match words.committing_since_us.load(Ordering::Relaxed) {
        since_us if since_us > 0 => {
            let time = Duration::from_micros((compat::clock_us() - since_us).max(0) as u64);
            format!("A commit of the keeper has been under way for {}.", length(time))
        }
        _ => report(words),
    }
}

/// The error for what the keeper was asked, and has not done.
pub fn not_followed(words: &KeeperWords) -> Error {
    Error::KeeperNotReady { report: obstacle(words) }
}

/// What an administrator asked of the keeper. It is withdrawn when the call ends, in whichever way, so that nothing happens when
/// nobody expects it any more.
pub struct Order<F: Fn()> {
    withdraw: F,
}

impl<F: Fn()> Order<F> {
    /// Stands for an order that has just been given.
    pub fn until_withdrawn_by(withdraw: F) -> Order<F> {
        Order { withdraw }
    }
}

impl<F: Fn()> Drop for Order<F> {
    fn drop(&mut self) {
        (self.withdraw)();
    }
}

/// The waiting of one call, however often it has to. It is added to the statistics when the call ends, in whichever way.
pub struct Patience {
    max_wait: Duration,
    deadline: Instant,
    waited: Cell<Duration>,
}

impl Patience {
    pub fn new() -> Patience {
        Patience::lasting(config::max_wait())
    }

    /// That of an administrator's order: long enough for a keeper that has nothing else to do, also with a shorter `max_wait`.
    pub fn of_order() -> Patience {
        const LEAST: Duration = Duration::from_secs(1);
        Patience::lasting(config::max_wait().max(LEAST))
    }

    fn lasting(max_wait: Duration) -> Patience {
        Patience { max_wait, deadline: Instant::now() + max_wait, waited: Cell::default() }
    }

    /// Waits until it is worth while to try again.
    pub fn wait_out(&self, session: &Session, stall: Stall) -> Result<(), Error> {
        match stall {
            Stall::Ahead { wait_us } => self.wait(session, Duration::from_micros(wait_us)),
            Stall::Horizon => self.wait_for_horizon(session),
            // The session is made anew, for another identity or, once there is one, for the same.
            Stall::Identity(_) => {
                session::forget();
                Ok(())
            }
            Stall::Exhausted | Stall::BeforeEpoch { .. } => {
                Error::unless_it_passes(session.generator.layout(), stall)
            }
        }
    }

    /// Asks the keeper to open the gate, and waits until it has looked. Fails if it then is still closed.
    pub fn wait_for_gate(&self) -> Result<(), Error> {
        let shared = shared::state()?;
        let words = &shared.keeper;
        let look = Look::ask(words);
        loop {
            // Asked first: a look that is over has opened the gate if it could.
            let is_over = look.is_over() || words.is_away();
            if shared.gate.identity().is_some() {
                return Ok(());
            }
            match words.closed() {
                Closed::NoWorkerId if is_over => return Err(Error::NoWorkerId),
                Closed::Problem if is_over => return Err(Error::KeeperNotReady { report: report(words) }),
                _ if self.left().is_zero() => return Err(not_followed(words)),
                _ => self.nap(words),
            }
        }
    }

    /// Asks the keeper to look after everything, and waits until it has.
    pub fn wait_for_look(&self) -> Result<(), Error> {
        let words = &shared::state()?.keeper;
        let look = Look::ask(words);
        while !look.is_over() {
            if self.left().is_zero() {
                return Err(not_followed(words));
            }
            self.nap(words);
        }
        Ok(())
    }

    fn nap(&self, words: &KeeperWords) {
        words.wake();
        self.sleep(self.left().min(SHORT_NAP), WaitEvent::Horizon);
    }

    /// Asks the keeper to extend the horizon, and waits a moment.
    fn wait_for_horizon(&self, session: &Session) -> Result<(), Error> {
        let words = &shared::state()?.keeper;
        words.wake(); // Also if this call fails at once: the next one shall not.
        if session.may_be_retired() {
            session::forget();
        }
        let jump_us = words.clock_jump_us.load(Ordering::Relaxed);
        if jump_us > 0 {
            return Err(Error::ClockJumped { jump: Duration::from_micros(jump_us as u64) });
        }
        if self.left().is_zero() {
            return Err(Error::HorizonStalled { report: obstacle(words), max_wait: self.max_wait });
        }
        self.nap(words);
        Ok(())
    }

    fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Fails if the wait ahead is longer than what is left.
    pub fn check(&self, session: &Session, wait: Duration) -> Result<(), Error> {
        let left = self.left();
        if wait > left {
            let layout = *session.generator.layout();
            return Err(Error::WaitTooLong { layout, wait, left, max_wait: self.max_wait });
        }
        Ok(())
    }

    fn wait(&self, session: &Session, wait: Duration) -> Result<(), Error> {
        self.check(session, wait)?;
        self.sleep(wait.min(LONGEST_NAP), WaitEvent::Clock);
        Ok(())
    }

    fn sleep(&self, time: Duration, event: WaitEvent) {
        let _timer = Timer { since: Instant::now(), total: &self.waited };
        compat::wait(time, event);
    }
}

impl Drop for Patience {
    fn drop(&mut self) {
        let waited = self.waited.get();
        if let (false, Ok(shared)) = (waited.is_zero(), shared::state()) {
            shared.statistics.calls_waited.fetch_add(1, Ordering::Relaxed);
            shared.statistics.waited_us.fetch_add(waited.as_micros() as u64, Ordering::Relaxed);
        }
    }
}

/// Adds the time from its making to its end, also when that is a cancelled statement.
struct Timer<'a> {
    since: Instant,
    total: &'a Cell<Duration>,
}

impl Drop for Timer<'_> {
    fn drop(&mut self) {
        self.total.set(self.total.get() + self.since.elapsed());
    }
}

/// A look of the keeper that begins after it was asked for.
struct Look<'a> {
    words: &'a KeeperWords,
    last: u64,
}

impl Look<'_> {
    fn ask(words: &KeeperWords) -> Look<'_> {
        words.wake();
        // One that is under way may have begun before whatever the caller relies on, such as CREATE EXTENSION.
        Look { words, last: words.looks.load(Ordering::Acquire) + 2 }
    }

    fn is_over(&self) -> bool {
        self.words.looks.load(Ordering::Acquire) >= self.last
    }
}
