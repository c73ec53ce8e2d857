//! The task that holds the lease: it acquires, renews, exchanges and releases.
//!
//! [`LeaseRound`] determines the steps, and this module carries them out. The state is in memory instead of a file. If
//! the memory is lost, the lease is lost.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use snowflake_id_core::Lease;
use snowflake_id_core::lease_answer::Answer;
use snowflake_id_core::lease_call::Facts;
use snowflake_id_core::lease_round::{Effect, Event, LeaseRound, Now, Refusal, Request, Rest};
use snowflake_id_core::lease_state::{LeaseState, Needs, Outcome};
use snowflake_id_core::message::instant;
use snowflake_id_core::protocol::Caller;
use tokio::sync::watch;
use tokio::time::sleep;
use uuid::Uuid;

use crate::connection::{Connection, Connector, Problem, in_short};
use crate::leased::Leased;
use crate::options::Options;
use crate::pauses::about;
use crate::shared::Shared;

/// The shortest time between a successful round and one that calls have asked for.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
/// If the next ID is further ahead of a confirmed clock than `max_ahead` and this time, IDs have followed a
/// wrong clock.
const TOLERANCE_US: i64 = 1_000_000;

/// The task.
pub struct Leases {
    shared: Arc<Shared>,
    connect: Connector,
    round: LeaseRound,
    /// A connection serves one round, because most programs renew once a minute.
    connection: Option<Connection>,
}

impl Leases {
    pub fn new(shared: Arc<Shared>, connect: Connector) -> Leases {
        Leases { shared, connect, round: LeaseRound::new(LeaseState::default(), true), connection: None }
    }

    /// Runs until `stop` changes, and then releases the lease.
    pub async fn run(mut self, mut stop: watch::Receiver<bool>) {
        loop {
            let rest = tokio::select! {
                // If the round is cut off, its request may still be executed. The nonces allow for that.
                _ = stop.wait_for(|stop| *stop) => break,
                rest = self.round() => rest,
            };
            // Only the end has no pause, and only a stop leads there.
            let Some(rest) = rest else { return };
            let (pause, may_be_shorter) = match &rest.result {
                Ok(_) => (about(rest.pause, 0.9, 1.1), true),
                Err(_) => (about(rest.pause, 0.5, 1.0), false),
            };
            self.shared.note_round(rest.result.err().map(text_of));
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
        self.shared.is_closed.store(true, Ordering::Release);
        let effect = self.round.stop();
        self.drive(effect).await;
    }

    async fn round(&mut self) -> Option<Rest> {
        let options = &self.shared.options;
        let (datacenter, worker_limit) = (options.datacenter, options.worker_limit());
        let effect = self.round.begin(Needs { datacenter, pin: None, worker_limit, unwanted: vec![] });
        self.drive(effect).await
    }

    /// Carries out effects until the next pause. Returns `None` at the end.
    async fn drive(&mut self, mut effect: Effect) -> Option<Rest> {
        loop {
            let event = match effect {
                Effect::Connect => match (self.connect)().await {
                    Ok(connection) => {
                        self.connection = Some(connection);
                        Event::Connected
                    }
                    Err(problem) => Event::Failed(problem),
                },
                Effect::Send(request) => self.send(&request).await.unwrap_or_else(Event::Failed),
                Effect::Keep(_) => Event::Kept,
                Effect::Publish(lease) => self.publish(&lease).unwrap_or_else(Event::Failed),
                Effect::Withdraw => {
                    if let Some(leased) = self.shared.leased.swap(None) {
                        self.round.note_used(&leased.lease(), leased.end());
                    }
                    if self.shared.is_closed.load(Ordering::Acquire) {
                        self.shared.note_round(None);
                    }
                    Event::Withdrawn
                }
                Effect::Rest(rest) => {
                    self.connection = None;
                    return Some(rest);
                }
                Effect::End => return None,
            };
            let us = self.shared.options.now_us();
            effect = self.round.step(event, &mut Now { us, random: &mut Uuid::new_v4 });
        }
    }

    /// Sends a request, and reads its answer.
    async fn send(&self, request: &Request) -> Result<Event, Problem> {
        let options = &self.shared.options;
        let connection = self.connection.as_ref().ok_or("there is no connection")?;
        let (sent_us, sent) = (options.now_us(), Instant::now());
        let rows = connection.call(&self.round.call(request, &facts(options), sent_us)).await?;
        let [reply] = rows.as_slice() else {
            return Err("the registry did not reply with exactly one row".into());
        };
        let answer = Answer::read(reply, options.now_us())?;
        Ok(Event::Answered { answer, sent_us, round_trip_us: sent.elapsed().as_micros() as i64 })
    }

    /// Makes the lease available to calls.
    fn publish(&mut self, lease: &Lease) -> Result<Event, Problem> {
        let current = self.shared.leased.load_full();
        if let Some(leased) = current.as_ref().filter(|leased| leased.is_of(lease)) {
            leased.extend(lease.until_us);
        } else {
            // IDs stay in order, unless the former lease was used far ahead of the clock.
            let is_reset = self.is_far_ahead();
            let used_until_us = current.map(|leased| {
                let used_until_us = leased.end();
                self.round.note_used(&leased.lease(), used_until_us);
                used_until_us
            });
            let floor_us = used_until_us.filter(|_| !is_reset).unwrap_or(i64::MIN);
            let leased = Leased::new(&self.shared.options, lease, floor_us);
            let leased = leased.map_err(|problem| problem.to_string());
            let (leased, problem) = match leased {
                Ok(leased) => (Some(Arc::new(leased)), Ok(())),
                Err(problem) => (None, Err(problem)),
            };
            self.shared.leased.store(leased);
            problem?;
        }
        Ok(Event::Published { wants_another: self.is_far_ahead() })
    }

    /// Returns whether IDs have followed a wrong clock that has been corrected since: the registry has just
    /// confirmed the clock, but the next ID is far ahead of it.
    fn is_far_ahead(&self) -> bool {
        let options = &self.shared.options;
        let leased = self.shared.leased.load();
        let ahead_us = leased.as_ref().map_or(0, |leased| leased.ahead_us(options.now_us()));
        let offset_us = self.round.terms().clock_offset_us.unwrap_or(i64::MAX);
        ahead_us > options.max_ahead.as_micros() as i64 + TOLERANCE_US
            && offset_us.unsigned_abs() <= TOLERANCE_US.unsigned_abs()
    }
}

/// The facts about this program, in ASCII, which the registry's database can represent in any encoding.
fn facts(options: &Options) -> Facts {
    Facts {
        node_name: options.shown_name(),
        layout: Some(options.layout.label()),
        version: env!("CARGO_PKG_VERSION").into(),
        ..Facts::default()
    }
}

/// The text of a refusal.
fn text_of(refusal: Refusal) -> Problem {
    let (outcome, detail) = match refusal {
        Refusal::Answer(outcome, detail) => (outcome, detail),
        Refusal::Failure(why) => return why,
    };
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
        Outcome::Released => "the registry has released the lease".into(),
        Outcome::Mismatch(mismatch) => {
            return in_short(mismatch.explain(Caller::Program, detail.as_deref()));
        }
    };
    match detail {
        Some(detail) => in_short(format!("{why} ({detail})")),
        None => why,
    }
}
