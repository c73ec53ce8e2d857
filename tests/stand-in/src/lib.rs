//! A stand-in for the registry, which is SQL in the product (`sql/registry/parts/`). It follows the same rules, one call
//! after another, and its functions have the same names as there. The lockstep test compares the two after each call; the
//! simulation runs fleets on it.
//!
//! Left out: privileges other than limits to some segments, errors of malformed requests, texts for people, facts other
//! than names, time zones of segments other than UTC, and everything about several sessions: locks and concurrent calls.
//!
//! All times are in microseconds of Unix time.

#![forbid(unsafe_code)]

mod administration;
mod call;
mod evidence;
mod leases;
mod open;
mod periods;
mod segment_administration;
mod segments;
mod tables;

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

pub use call::{
    Administration, Answer, Call, Caller, Fault, Identification, LeaseAnswer, Outcome, Reply, Request,
    SegmentShape, TakeOutcome, Taken,
};
pub use evidence::Token;
pub use periods::{Period, Unit};
pub use tables::{FOREVER, LeaseRow, Place, RequestName, SegmentRow, Settings, Tables};

/// The registry's clock. It may step while a call waits for its lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    pub now_us: i64,
    /// The step at the next lock.
    pub step_at_lock_us: i64,
}

/// A registry, and the server that it is on.
#[derive(Clone, Debug)]
pub struct StandIn {
    pub tables: Tables,
    pub clock: Clock,
    /// The timeline and the start of the server.
    pub place: Place,
    /// The protocols that the registry knows.
    pub protocols: RangeInclusive<u32>,
    /// Whether any role may call `take()`.
    pub serves_others: bool,
    /// The segments of the callers' role, if it is limited to some.
    pub limits: Option<BTreeSet<String>>,
    /// Whether the caller's transaction has written something before the call. The registry then signs no tokens.
    pub has_written: bool,
    /// Whether a quarantine may end now. A simulation forbids that while a server has not called that always calls
    /// earlier.
    pub may_end_wait: bool,
}

impl StandIn {
    /// Returns a registry after its first call, which inserts the row of its settings. It grants no worker IDs yet.
    pub fn new(registry_id: uuid::Uuid, place: Place) -> StandIn {
        StandIn {
            tables: Tables::new(registry_id, place),
            clock: Clock::default(),
            place,
            protocols: 1..=1,
            serves_others: true,
            limits: None,
            has_written: false,
            may_end_wait: true,
        }
    }

    /// Executes a call and commits, unless it fails.
    pub fn apply(&mut self, call: &Call) -> Answer {
        let lease = match call {
            Call::Acquire { caller, lease_id, nonce, needs } => {
                self.acquire(caller, *lease_id, *nonce, needs)
            }
            Call::Renew { caller, ids } => self.renew(caller, ids),
            Call::Release { caller, ids, used_until_us } => self.release(caller, ids, *used_until_us),
            Call::Take { caller, is_local, requests } => {
                return Answer::Taken(self.take_ranges(caller, *is_local, requests));
            }
            Call::Administer(administration) => {
                let before = self.tables.clone();
                return match self.administer(administration) {
                    Ok(reply) => Answer::Done(reply),
                    Err(fault) => {
                        self.tables = before;
                        Answer::Failed(fault)
                    }
                };
            }
        };
        Answer::Lease(LeaseAnswer { renew_every_us: self.call_every_us(), ..lease })
    }
}
