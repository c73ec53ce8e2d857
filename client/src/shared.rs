//! What the handle and the tasks share.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use snowflake_id_core::Stall;
use tokio::sync::{Notify, watch};

use crate::error::Error;
use crate::leased::Leased;
use crate::options::Options;

/// A wait that is not caused by the rate of the layout, but by a clock that was set back.
const CLOCK_SET_BACK_US: u64 = 1_000_000;

/// What the handle and the tasks share.
pub struct Shared {
    pub options: Options,
    /// The generator under the current lease. Only the task of the lease changes it.
    pub leased: ArcSwapOption<Leased>,
    /// Set before the lease is released. No lease is published afterwards.
    pub is_closed: AtomicBool,
    /// Wakes the task of the lease.
    pub wanted: Notify,
    /// Changes after each round of the task of the lease.
    pub rounds: watch::Sender<u64>,
    /// Why the last round failed.
    problem: Mutex<Option<String>>,
}

impl Shared {
    pub fn new(options: Options) -> Shared {
        Shared {
            options,
            leased: ArcSwapOption::empty(),
            is_closed: AtomicBool::new(false),
            wanted: Notify::new(),
            rounds: watch::Sender::new(0),
            problem: Mutex::new(None),
        }
    }

    /// Records the result of a round of the task of the lease, and wakes the calls that wait for it.
    pub fn note_round(&self, problem: Option<String>) {
        *self.problem.lock().unwrap_or_else(PoisonError::into_inner) = problem;
        self.rounds.send_modify(|number| *number += 1);
    }

    pub fn problem(&self) -> Option<String> {
        self.problem.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The error of a call that finds no lease.
    #[cold]
    pub fn no_lease(&self) -> Error {
        if self.is_closed.load(Ordering::Acquire) {
            return Error::Closed;
        }
        let why = match self.options.leases {
            true => self.problem(),
            false => Some("the client was started with numbers_only()".into()),
        };
        Error::NoLease { why }
    }

    /// The error of a call that cannot take an ID now.
    #[cold]
    pub fn explain(&self, stall: Stall) -> Error {
        match stall {
            Stall::Identity(_) => self.no_lease(),
            Stall::Ahead { wait_us } => {
                if wait_us > CLOCK_SET_BACK_US {
                    self.wanted.notify_one();
                }
                Error::Ahead { wait: Duration::from_micros(wait_us) }
            }
            Stall::Horizon => {
                self.wanted.notify_one();
                Error::LeaseEnded { why: self.problem() }
            }
            Stall::Exhausted => Error::Exhausted,
            Stall::BeforeEpoch { .. } => Error::BeforeEpoch,
        }
    }
}
