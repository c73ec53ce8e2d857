//! The task that holds the lease: it acquires, renews, exchanges and releases.
//!
//! [`snowflake_id_core::lease_state`] determines the steps, as it does for servers. The state is in memory
//! instead of a file. If the memory is lost, the lease is lost.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use snowflake_id_core::failures::Failures;
use snowflake_id_core::lease_answer::MOST_CLOCK_DIFFERENCE_US;
use snowflake_id_core::lease_call::Ids;
use snowflake_id_core::lease_state::{Held, LeaseState, Needs, Outcome};
use snowflake_id_core::message::instant;
use snowflake_id_core::protocol::Caller;
use tokio::sync::watch;
use tokio::time::sleep;
use uuid::Uuid;

use crate::connection::{Connection, Connector, Problem, in_short};
use crate::dialogue::Dialogue;
use crate::leased::Leased;
use crate::pauses::about;
use crate::shared::Shared;

/// The pause after the first failure.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The maximum pause after a failure. The maximum is lower if leases are renewed more often.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// The lower limit of the maximum pause after a failure.
const LEAST_LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// The shortest time between a successful round and one that calls have asked for.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
/// If the next ID is further ahead of a confirmed clock than `max_ahead` and this time, IDs have followed a
/// wrong clock.
const TOLERANCE_US: i64 = 1_000_000;
/// How often a release is tried.
const TRIES_TO_RELEASE: u32 = 2;

/// The task.
pub struct Leases {
    shared: Arc<Shared>,
    connect: Connector,
    state: LeaseState,
    dialogue: Dialogue,
    needs: Needs,
    /// Whether the registry has answered that it does not know the lease. The lease is used to its end.
    is_unknown: bool,
    /// A lease that was exchanged for another one, until it is released.
    former: Option<Held>,
    failures: Failures,
}

impl Leases {
    pub fn new(shared: Arc<Shared>, connect: Connector) -> Leases {
        let options = &shared.options;
        let needs = Needs {
            datacenter: options.datacenter,
            pin: None,
            worker_limit: options.worker_limit(),
            unwanted: vec![],
        };
        Leases {
            shared,
            connect,
            state: LeaseState::default(),
            dialogue: Dialogue::new(),
            needs,
            is_unknown: false,
            former: None,
            failures: Failures::default(),
        }
    }

    /// Runs until `stop` changes, and then releases the lease.
    pub async fn run(mut self, mut stop: watch::Receiver<bool>) {
        loop {
            let round = tokio::select! {
                // If the round is cut off, its request may still be executed. The nonces allow for that.
                _ = stop.wait_for(|stop| *stop) => break,
                round = self.round() => round,
            };
            let (pause, may_be_shorter) = match &round {
                Ok(()) => {
                    self.failures.end();
                    (about(self.dialogue.terms.renew_every, 0.9, 1.1), true)
                }
                Err(_) => {
                    let longest = LONGEST_PAUSE.min(self.dialogue.terms.renew_every).max(LEAST_LONGEST_PAUSE);
                    (about(self.failures.add(FIRST_PAUSE, longest), 0.5, 1.0), false)
                }
            };
            self.shared.note_round(round.err());
            let wanted = async {
                sleep(SHORTEST_PAUSE).await;
                self.shared.wanted.notified().await;
            };
            tokio::select! {
                _ = stop.wait_for(|stop| *stop) => break,
                _ = sleep(pause) => {}
                _ = wanted, if may_be_shorter => {}
            }
        }
        self.end().await;
    }

    /// Runs one round: renews the lease, or acquires one. A connection serves one round, because most
    /// programs renew once a minute.
    async fn round(&mut self) -> Result<(), Problem> {
        let connection = (self.connect)().await?;
        if self.state.held.is_some() && !self.is_unknown {
            self.renew(&connection).await?;
            if !self.is_unknown {
                // The first renewal after an exchange may have failed.
                self.release_former(&connection).await;
                if !self.is_far_ahead() {
                    return Ok(());
                }
            }
        }
        self.acquire(&connection).await
    }

    /// Asks the registry to renew the lease.
    async fn renew(&mut self, connection: &Connection) -> Result<(), Problem> {
        let Some(held) = self.state.held.clone() else { return Ok(()) };
        let options = &self.shared.options;
        let answer = self.dialogue.renew(connection, options, &self.state, (&held).into()).await?;
        match answer.outcome {
            Outcome::Granted(lease) if lease.is_same_range(&held.lease) => {
                self.state.renew(lease, Uuid::new_v4);
                if let Some(token) = answer.token {
                    self.state.prove(token, self.shared.options.now_us());
                }
                if let Some(registry) = answer.registry {
                    self.state.note(registry.id);
                }
                self.publish()
            }
            // A delayed request may have made the registry grant another range under this lease ID.
            Outcome::Unknown | Outcome::Granted(_) => {
                self.is_unknown = true;
                Ok(())
            }
            Outcome::Twin => {
                // Another process issues IDs in the same range, or has released it.
                self.withdraw();
                self.state.held = None;
                Err(refusal(Outcome::Twin, answer.detail))
            }
            outcome => Err(refusal(outcome, answer.detail)),
        }
    }

    /// Asks the registry for an identity, in addition to a lease that the registry does not know or that is
    /// to be exchanged.
    async fn acquire(&mut self, connection: &Connection) -> Result<(), Problem> {
        let asking = self.state.ask(Uuid::new_v4);
        let options = &self.shared.options;
        let answer = self.dialogue.acquire(connection, options, &self.state, &asking, &self.needs).await?;
        match answer.outcome {
            Outcome::Granted(lease) if self.needs.are_met_by(lease.identity) => {
                if lease.from_us > self.shared.options.now_us().saturating_add(MOST_CLOCK_DIFFERENCE_US) {
                    return Err(refusal(Outcome::ClockDiffers, answer.detail));
                }
                if let Some(registry) = answer.registry {
                    self.state.note(registry.id);
                }
                self.former = self.state.held.take().filter(|_| !self.is_unknown);
                self.is_unknown = false;
                self.state.hold(lease, Uuid::new_v4);
                // A second query is needed, because the registry signs only grants that have been committed.
                self.renew(connection).await?;
                if !self.is_unknown {
                    self.release_former(connection).await; // Calls use the new lease.
                }
                Ok(())
            }
            // The granted lease belongs to a request with other options, or another process has sent a
            // request with the same IDs.
            Outcome::Granted(_) | Outcome::Twin => {
                self.state.asking = None;
                Err(refusal(answer.outcome, answer.detail))
            }
            outcome => Err(refusal(outcome, answer.detail)),
        }
    }

    /// Returns whether IDs have followed a wrong clock that has been corrected since: the registry has just
    /// confirmed the clock, but the next ID is far ahead of it.
    fn is_far_ahead(&self) -> bool {
        let options = &self.shared.options;
        let leased = self.shared.leased.load();
        let ahead_us = leased.as_ref().map_or(0, |leased| leased.ahead_us(options.now_us()));
        let offset_us = self.dialogue.terms.clock_offset_us.unwrap_or(i64::MAX);
        ahead_us > options.max_ahead.as_micros() as i64 + TOLERANCE_US
            && offset_us.unsigned_abs() <= TOLERANCE_US.unsigned_abs()
    }

    /// Makes the lease available to calls. A lease is not used without evidence, because a registry that
    /// has lost the lease can learn of it only from the evidence.
    fn publish(&mut self) -> Result<(), Problem> {
        let Some(held) = self.state.held.as_ref().filter(|_| self.state.is_proved()) else {
            return Err("the registry did not sign the lease: the registry may have an older version".into());
        };
        let current = self.shared.leased.load_full();
        if let Some(leased) = current.as_ref().filter(|leased| leased.is_of(&held.lease)) {
            leased.extend(held.lease.until_us);
            return Ok(());
        }
        // IDs stay in order, unless the former lease was used far ahead of the clock.
        let is_reset = self.is_far_ahead();
        let used_until_us = current.map(|leased| leased.end());
        let floor_us = used_until_us.filter(|_| !is_reset).unwrap_or(i64::MIN);
        if let Some(former) = &mut self.former
            && let Some(used_until_us) = used_until_us
        {
            // The rest of this range is not used.
            former.lease.until_us = used_until_us;
        }
        let leased = Leased::new(&self.shared.options, &held.lease, floor_us);
        let leased = leased.map_err(|problem| problem.to_string());
        let (leased, problem) = match leased {
            Ok(leased) => (Some(Arc::new(leased)), Ok(())),
            Err(problem) => (None, Err(problem)),
        };
        self.shared.leased.store(leased);
        problem
    }

    /// Makes the lease unavailable to calls. Returns the instant up to which it was used, if it was available.
    fn withdraw(&self) -> Option<i64> {
        self.shared.leased.swap(None).map(|leased| leased.end())
    }

    /// Releases the former lease. If that fails, the lease ends at its end.
    async fn release_former(&mut self, connection: &Connection) {
        if let Some(former) = self.former.take() {
            let (options, ids, used_until_us) =
                (&self.shared.options, Ids::from(&former), former.lease.until_us);
            let _ = self.dialogue.release(connection, options, &self.state, ids, used_until_us).await;
        }
    }

    /// Ends the use of the lease, and releases it. A request for a lease that was cut off may have been
    /// granted.
    async fn end(mut self) {
        self.shared.is_closed.store(true, Ordering::Release);
        let used_until_us = self.withdraw();
        self.shared.note_round(None);
        let mut unused = vec![];
        if let Some(held) = self.state.held.take().filter(|_| !self.is_unknown) {
            // A lease that was never published was not used.
            let used_until_us = used_until_us.unwrap_or(held.lease.from_us);
            unused.push((Ids::from(&held), used_until_us));
        }
        if let Some(former) = self.former.take() {
            unused.push((Ids::from(&former), former.lease.until_us));
        }
        if let Some(asking) = self.state.asking.take() {
            unused.push((Ids::from(&asking), 0));
        }
        for _ in 0..TRIES_TO_RELEASE {
            if unused.is_empty() {
                return;
            }
            let Ok(connection) = (self.connect)().await else { continue };
            let options = &self.shared.options;
            while let Some((ids, used_until_us)) = unused.pop() {
                let released =
                    self.dialogue.release(&connection, options, &self.state, ids, used_until_us).await;
                if released.is_err() {
                    unused.push((ids, used_until_us));
                    break;
                }
            }
        }
    }
}

/// The text of an answer without a usable lease.
fn refusal(outcome: Outcome, detail: Option<String>) -> Problem {
    let why = match outcome {
        Outcome::Granted(_) => "the registry granted another lease".into(),
        Outcome::Unknown => "the registry does not know the lease".into(),
        Outcome::Twin => "another process has the same lease".into(),
        Outcome::Taken { free_from_us: 0 } => "the registry has no worker ID for this program".into(),
        Outcome::Taken { free_from_us } => {
            format!("the registry has no worker ID for this program before {}", instant(free_from_us))
        }
        Outcome::NotStarted => "the fleet has not been started".into(),
        Outcome::Quarantine => "the lease has ended and cannot be renewed now".into(),
        Outcome::ClockDiffers => "the clocks of this program and of the registry differ".into(),
        Outcome::Foreign => "the last lease was granted by another registry".into(),
        Outcome::Released => "the lease is released".into(),
        Outcome::Mismatch(mismatch) => {
            return in_short(mismatch.explain(Caller::Program, detail.as_deref()));
        }
    };
    match detail {
        Some(detail) => in_short(format!("{why} ({detail})")),
        None => why,
    }
}
