//! The rounds of the registry worker. In each round, the worker renews its lease or requests a lease.

use std::ffi::CStr;
use std::time::{Duration, Instant};

use pgrx::prelude::*;
use snowflake_id_core::lease_answer::{Answer, MOST_CLOCK_DIFFERENCE_US};
use snowflake_id_core::lease_state::{Needs, Outcome};
use snowflake_id_core::message::instant;
use snowflake_id_core::protocol::Mismatch;

use super::dialogue::Dialogue;
use super::hand::Hand;
use super::needs::Unwanted;
use super::report::{Refusal, Report};
use crate::background::connection::{self, NoAnswer, Refused};
use crate::background::rounds;
use crate::background::stop::is_stopping;
use crate::config;
use crate::pg::libpq::{Connection, Rejection};
use crate::pg::{clock, process};
use crate::shared::lease::RegistryState;
use crate::shared::memory::State;

/// The time for which a newly started server tries to renew its stored lease. After this time, the server
/// uses the lease without a renewal.
const TIME_TO_RENEW_FIRST: Duration = Duration::from_secs(2);

pub struct Worker {
    shared: &'static State,
    started: Instant,
    hand: Hand,
    dialogue: Dialogue,
    unwanted: Unwanted,
    /// The identities that the server could use in the last round, or the reason why the server could not use
    /// any identity.
    asked_for: Result<Needs, String>,
    report: Report,
}

/// The result of a round.
enum Round {
    /// A lease was granted or renewed, and the registry may have sent a note.
    Granted {
        note: Option<String>,
    },
    Refused(Refusal),
}

impl Worker {
    /// Reads the lease file. If a newer version has written the file, waits until an administrator removes it. Returns
    /// `None` if the process must stop.
    pub fn new(shared: &'static State) -> Option<Worker> {
        let (mut report, dialogue) = (Report::new(), Dialogue::new());
        let hand = loop {
            let problem = match Hand::new(shared) {
                Ok(hand) => break hand,
                Err(problem) => problem,
            };
            let refusal = Refusal::new(RegistryState::Mismatch(Mismatch::CallerTooOld), problem);
            let until = Instant::now() + report.fail(refusal, 0, &dialogue);
            shared.server_status.wakeup.request();
            rounds::sleep(&shared.server_status.registry_wakeup, until, until, || {
                is_still_needed().then_some(until)
            });
            if !is_still_needed() {
                return None;
            }
        };
        Some(Worker {
            shared,
            started: Instant::now(),
            hand,
            dialogue,
            unwanted: Unwanted::default(),
            asked_for: Ok(Needs::default()),
            report,
        })
    }

    pub fn run(&mut self) {
        loop {
            self.shared.server_status.registry_wakeup.take_wanted();
            let Some(string) = config::registry() else { return };
            let pause = match self.round(&string) {
                Err(NoAnswer::Stopping) => return,
                Ok(Round::Granted { note }) => self.report.succeed(note, &self.dialogue),
                Ok(Round::Refused(refusal)) => self.fail(refusal),
                Err(NoAnswer::Rejected { problem, rejection }) => {
                    let state = match rejection {
                        Rejection::Database => RegistryState::NoDatabase,
                        Rejection::Login => RegistryState::LoginRefused,
                        Rejection::Permission => RegistryState::PermissionDenied,
                    };
                    self.fail(Refusal::new(state, problem))
                }
                Err(NoAnswer::Refused(Refused { problem, is_elsewhere: true, .. })) => {
                    self.fail(Refusal::new(RegistryState::NoRegistry, problem))
                }
                Err(
                    NoAnswer::Unreachable(problem)
                    | NoAnswer::Failed(problem)
                    | NoAnswer::Refused(Refused { problem, .. }),
                ) => self.fail(Refusal::new(RegistryState::Unreachable, problem)),
                Err(NoAnswer::Denied(denied)) => {
                    let why = denied.text(&["acquire", "renew"]);
                    self.fail(Refusal::new(RegistryState::PermissionDenied, why))
                }
                Err(NoAnswer::Stuck { problem, .. }) => {
                    self.fail(Refusal::new(RegistryState::Unreachable, problem));
                    // The keeper starts another worker.
                    process::exit(1);
                }
            };
            self.sleep(Instant::now() + pause);
            if !keep_waiting(self.started, self.shared, &self.hand) {
                return;
            }
        }
    }

    /// Continues to use the current lease, and reports the refusal. Returns the time to sleep.
    fn fail(&mut self, refusal: Refusal) -> Duration {
        self.hand.go_on();
        let pause = self.report.fail(refusal, self.hand.until_us(), &self.dialogue);
        self.shared.server_status.wakeup.request();
        pause
    }

    /// Sleeps until the next round is due, or until the identities that this server can use have changed
    /// since the last round.
    fn sleep(&mut self, until: Instant) {
        let (shared, started, now) = (self.shared, self.started, Instant::now());
        rounds::sleep(&shared.server_status.registry_wakeup, now, until, || {
            self.unwanted.update(shared, self.dialogue.lease_time());
            let goes_on =
                keep_waiting(started, shared, &self.hand) && self.unwanted.needs() == self.asked_for;
            goes_on.then_some(now)
        });
    }

    /// Runs one round, in which the worker connects and then renews or requests a lease.
    fn round(&mut self, string: &CStr) -> Result<Round, NoAnswer> {
        self.unwanted.update(self.shared, self.dialogue.lease_time());
        self.asked_for = self.unwanted.needs();
        if let (Ok(needs), Some(held)) = (&self.asked_for, &self.hand.state().held)
            && self.hand.is_refused(needs)
        {
            self.unwanted.forget(held.lease.identity.worker);
            self.asked_for = self.unwanted.needs();
            self.hand.let_go()?;
        }
        let needs = match self.asked_for.clone() {
            Ok(needs) => needs,
            Err(why) => return Ok(Round::Refused(Refusal::new(RegistryState::Misconfigured, why))),
        };
        let mut connection =
            connection::connect(string, &mut || keep_waiting(self.started, self.shared, &self.hand))?;
        if self.hand.known().is_some() {
            let renewed = self.renew(&mut connection)?;
            // The registry may have answered that the lease is unknown, or that another server has the same
            // lease.
            let is_another_needed = match renewed {
                Round::Granted { .. } => self.hand.state().has_to_acquire(&needs),
                Round::Refused(_) => self.hand.known().is_none(),
            };
            if !is_another_needed {
                return Ok(renewed);
            }
        }
        self.acquire(&mut connection, &needs)
    }

    /// Asks the registry to renew the current lease.
    fn renew(&mut self, connection: &mut Connection) -> Result<Round, NoAnswer> {
        let (hand, started, shared) = (&self.hand, self.started, self.shared);
        let Some(held) = hand.known() else { return Ok(Round::Granted { note: None }) };
        let range = held.lease;
        let answer = self
            .dialogue
            .renew(connection, hand.state(), held, &mut || keep_waiting(started, shared, hand))?;
        self.note_registry(&answer);
        match answer.outcome {
            Outcome::Granted(lease) if lease.is_same_range(&range) => {
                self.hand.renew(lease, answer.token)?;
                Ok(Round::Granted { note: answer.detail })
            }
            // A delayed request may have made the registry grant another range under this lease ID. The
            // granted range is not the current lease.
            Outcome::Unknown | Outcome::Granted(_) => {
                self.hand.note_unknown();
                Ok(self.refused(Outcome::Unknown, answer.detail))
            }
            Outcome::Twin => {
                self.hand.drop_twin()?;
                Ok(self.refused(Outcome::Twin, answer.detail))
            }
            outcome => Ok(self.refused(outcome, answer.detail)),
        }
    }

    /// Asks the registry for an identity.
    fn acquire(&mut self, connection: &mut Connection, needs: &Needs) -> Result<Round, NoAnswer> {
        let asking = self.hand.ask()?;
        let (hand, started, shared) = (&self.hand, self.started, self.shared);
        let answer = self
            .dialogue
            .acquire(connection, hand.state(), &asking, needs, &mut || keep_waiting(started, shared, hand))?;
        self.note_registry(&answer);
        match answer.outcome {
            Outcome::Granted(lease) if needs.are_met_by(lease.identity) => {
                if lease.from_us > clock::clock_us().saturating_add(MOST_CLOCK_DIFFERENCE_US) {
                    return Ok(self.refused(Outcome::ClockDiffers, answer.detail));
                }
                self.hand.hold(lease)?;
                // A second query is needed, because the registry signs only grants that have been committed.
                let renewed = self.renew(connection)?;
                if let Round::Granted { .. } = renewed {
                    log!("snowflake_id: {} is leased until {}", lease.identity, instant(lease.until_us));
                }
                Ok(renewed)
            }
            // The granted lease was requested earlier, with different settings.
            Outcome::Granted(lease) => {
                self.hand.stop_asking()?;
                let why = format!("this server cannot use {}", lease.identity);
                Ok(Round::Refused(Refusal::new(RegistryState::AllTaken, why)))
            }
            // Another server has sent a request with the same IDs, and uses the granted lease.
            Outcome::Twin => {
                self.hand.stop_asking()?;
                Ok(self.refused(Outcome::Twin, answer.detail))
            }
            outcome => Ok(self.refused(outcome, answer.detail)),
        }
    }

    /// Records the ID of the registry, but only if the answer grants a lease. Otherwise, any server that
    /// answers could replace the recorded ID, and the real registry would then be mistaken for a different
    /// registry.
    fn note_registry(&mut self, answer: &Answer) {
        if let (Outcome::Granted(_), Some(registry)) = (&answer.outcome, &answer.registry) {
            self.hand.note_registry(registry.id);
        }
    }

    fn refused(&self, outcome: Outcome, detail: Option<String>) -> Round {
        Round::Refused(Refusal::of(outcome, detail, self.dialogue.clock_difference()))
    }
}

/// Returns whether the process need not stop.
fn is_still_needed() -> bool {
    process::reload_if_asked();
    !is_stopping() && config::registry().is_some()
}

/// Does urgent work while the worker waits for the registry's answer. Returns false if the worker has to
/// stop.
fn keep_waiting(started: Instant, shared: &State, hand: &Hand) -> bool {
    let registry = config::registry();
    let is_needed = is_still_needed();
    if config::registry() != registry {
        shared.server_status.registry_wakeup.request();
    }
    if started.elapsed() >= TIME_TO_RENEW_FIRST {
        hand.go_on();
    }
    is_needed
}
