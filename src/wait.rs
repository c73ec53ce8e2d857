//! Waiting for the clock: never longer than `max_wait`, not at all when that is known to be in vain, without a lock,
//! cancellable, and visible in `pg_stat_activity`.

use std::time::{Duration, Instant};

use snowflake_id_core::Stall;

use crate::error::Error;
use crate::session::Session;
use crate::{compat, config, session};

/// How often a long wait looks at the clock, which may have been set in the meantime.
const LONGEST_NAP: Duration = Duration::from_millis(100);

/// The waiting of one call, however often it has to.
pub struct Patience {
    max_wait: Duration,
    deadline: Instant,
}

impl Patience {
    pub fn new() -> Patience {
        let max_wait = config::max_wait();
        Patience { max_wait, deadline: Instant::now() + max_wait }
    }

    /// Waits until it is worth while to try again.
    pub fn wait_out(&self, session: &Session, stall: Stall) -> Result<(), Error> {
        match stall {
            Stall::Ahead { wait_us } => self.wait(session, Duration::from_micros(wait_us)),
            // The identity changed: the session is made anew, or finds out that there is none.
            Stall::Identity(_) => {
                session::forget();
                Ok(())
            }
            Stall::Horizon => Err(Error::HorizonReached),
            Stall::Exhausted => Err(Error::Exhausted { layout: *session.generator.layout() }),
            Stall::BeforeEpoch { wait_us } => Err(Error::BeforeEpoch {
                layout: *session.generator.layout(),
                wait: Duration::from_micros(wait_us),
            }),
        }
    }

    /// Fails if the wait ahead is longer than what is left.
    pub fn check(&self, session: &Session, wait: Duration) -> Result<(), Error> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if wait > left {
            let layout = *session.generator.layout();
            return Err(Error::WaitTooLong { layout, wait, left, max_wait: self.max_wait });
        }
        Ok(())
    }

    fn wait(&self, session: &Session, wait: Duration) -> Result<(), Error> {
        self.check(session, wait)?;
        compat::wait(wait.min(LONGEST_NAP));
        Ok(())
    }
}
