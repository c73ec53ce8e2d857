//! Reports the state of the lease in the log and in view `snowflake_status`.

use std::time::Duration;

use pgrx::prelude::*;
use snowflake_id_core::clocks::ClockOffset;
use snowflake_id_core::lease_answer::Terms;
use snowflake_id_core::lease_round::{LeaseRound, Refusal};
use snowflake_id_core::lease_state::Outcome;
use snowflake_id_core::message::instant;
use snowflake_id_core::protocol::Caller;
use uuid::Uuid;

use crate::background::connection::{NoAnswer, Refused};
use crate::background::rounds::{Logged, in_short};
use crate::config;
use crate::error::duration;
use crate::pg::clock;
use crate::pg::libpq::Rejection;
use crate::shared::lease::{self, RegistryState};

/// The reason why the registry has granted no lease.
pub struct Failure {
    pub state: RegistryState,
    pub why: String,
    /// The time at which an identity may become free, in microseconds of Unix time, or 0 if unknown.
    pub free_from_us: i64,
    /// Whether the helper thread is stuck. In this case, the process must exit.
    pub is_stuck: bool,
}

impl Failure {
    pub fn new(state: RegistryState, why: String) -> Failure {
        Failure { state, why, free_from_us: 0, is_stuck: false }
    }

    /// Converts the reason why the registry has not answered. Returns `None` if the process was asked to stop.
    pub fn of_no_answer(no_answer: NoAnswer) -> Option<Failure> {
        let (state, why) = match no_answer {
            NoAnswer::Rejected { problem, rejection } => {
                let state = match rejection {
                    Rejection::Database => RegistryState::NoDatabase,
                    Rejection::Login => RegistryState::LoginRefused,
                    Rejection::Permission => RegistryState::PermissionDenied,
                };
                (state, problem)
            }
            NoAnswer::Refused(Refused { problem, is_elsewhere: true, .. }) => {
                (RegistryState::NoRegistry, problem)
            }
            NoAnswer::Denied(denied) => (RegistryState::PermissionDenied, denied.text(&["acquire", "renew"])),
            NoAnswer::Stuck { problem, .. } => {
                let failure = Failure::new(RegistryState::Unreachable, problem);
                return Some(Failure { is_stuck: true, ..failure });
            }
            NoAnswer::Unreachable(problem)
            | NoAnswer::Failed(problem)
            | NoAnswer::Refused(Refused { problem, .. }) => (RegistryState::Unreachable, problem),
            NoAnswer::Stopping => return None,
        };
        Some(Failure::new(state, why))
    }

    /// Converts an answer without a usable lease, or the failure of an effect. `last_registry` is the registry that
    /// granted the last lease, and the time at which the server moved to that registry. If `is_old_copy` is true, the
    /// server needs a lease from that registry before it can move to another registry.
    pub fn of(
        refusal: Refusal,
        clock_offset: Duration,
        last_registry: Option<(Uuid, i64)>,
        is_old_copy: bool,
    ) -> Failure {
        let (outcome, detail) = match refusal {
            Refusal::Answer(outcome, detail) => (outcome, detail),
            Refusal::Failure(why) => return Failure::new(RegistryState::Unreachable, why),
        };
        let (state, why) = match outcome {
            // The granted lease was requested earlier, with different settings.
            Outcome::Granted(lease) => {
                (RegistryState::AllTaken, format!("this server cannot use {}", lease.identity))
            }
            // Servers do not release leases.
            Outcome::Released | Outcome::Unknown => {
                (RegistryState::Granted, "the registry does not know the lease".into())
            }
            Outcome::Twin => (RegistryState::Granted, "another server has the same lease".into()),
            Outcome::Taken { free_from_us } => {
                let when = match free_from_us {
                    0 => String::new(),
                    _ => format!("; a worker ID will be free at {}", instant(free_from_us)),
                };
                (RegistryState::AllTaken, format!("the registry has no worker ID for this server{when}"))
            }
            Outcome::NotStarted => (RegistryState::NotStarted, "the fleet has not been started".into()),
            Outcome::Quarantine => {
                (RegistryState::Quarantine, "the lease has ended and cannot be renewed now".into())
            }
            Outcome::ClockDiffers => (
                RegistryState::ClockDiffers,
                format!("the clocks of this server and of the registry differ by {}", duration(clock_offset)),
            ),
            Outcome::Foreign => {
                let known = match last_registry {
                    Some((id, at_us)) => format!(
                        "this server moved to registry {id} at {}, and snowflake_id.registry names another registry",
                        instant(at_us)
                    ),
                    None => "the last lease was granted by another registry".into(),
                };
                let how = if is_old_copy {
                    "set snowflake_id.registry as on the last primary"
                } else {
                    "if the change of registries is intended, stop the server and remove file \"snowflake_id.lease\" from its data directory"
                };
                (RegistryState::Foreign, format!("{known}; {how}"))
            }
            Outcome::Mismatch(mismatch) => {
                let why = mismatch.explain(Caller::Server, detail.as_deref());
                return Failure::new(RegistryState::Mismatch(mismatch), why);
            }
        };
        let why = match detail {
            Some(detail) => format!("{why} ({detail})"),
            None => why,
        };
        let free_from_us = match outcome {
            Outcome::Taken { free_from_us } => free_from_us,
            _ => 0,
        };
        Failure { free_from_us, ..Failure::new(state, why) }
    }
}

/// The last reported messages.
pub struct Report {
    problem: Logged,
    warning: Logged,
}

impl Report {
    pub fn new() -> Report {
        let lease_status = lease::lease_status();
        Report {
            problem: Logged::before(lease_status.problem().map(without_numbers)),
            warning: Logged::before(lease_status.warning().map(without_numbers)),
        }
    }

    /// Reports that the registry has granted a lease. If the answer contains a note for administrators, also reports
    /// the note.
    pub fn succeed(&mut self, note: Option<String>, terms: &Terms, compared_clock: ClockOffset) {
        self.problem.is_new(None);
        let offset = terms.clock_offset();
        let is_clock_good = offset <= config::max_clock_offset();
        let warning = match is_clock_good {
            true => note.map(in_short),
            false => {
                Some(format!("the clocks of this server and of the registry differ by {}", duration(offset)))
            }
        };
        self.warn(warning.as_deref());
        lease::tell(|lease_status| {
            lease_status.state = RegistryState::Granted;
            lease_status.renewed_at_us = clock::clock_us();
            lease_status.clock_offset_us = terms.clock_offset_us;
            lease_status.confirmed_clock = is_clock_good.then_some(compared_clock);
            lease_status.free_from_us = 0;
            lease_status.set_problem(None);
            lease_status.set_warning(warning.as_deref());
        });
    }

    /// Reports the reason why the registry has granted no lease. Raises a warning if less than half of the
    /// current lease is left.
    pub fn fail(&mut self, failure: Failure, round: &LeaseRound) {
        let Failure { state, why, free_from_us, .. } = failure;
        let until_us = round.state().held.as_ref().map_or(0, |held| held.lease.until_us);
        let why = in_short(why);
        let problem = format!("could not get a lease from the registry: {why}");
        if self.problem.is_new(Some(without_numbers(problem.clone()))) {
            log!("snowflake_id: {problem}");
        }
        let left_us = until_us - clock::clock_us();
        let is_ending = left_us > 0 && left_us < round.terms().lease_us / 2;
        let warning = is_ending.then(|| {
            let until = instant(until_us);
            format!("the lease of this server's worker ID ends at {until} and was not renewed: {why}")
        });
        self.warn(warning.as_deref());
        lease::tell(|lease_status| {
            lease_status.state = state;
            lease_status.clock_offset_us = round.terms().clock_offset_us;
            lease_status.confirmed_clock = None;
            lease_status.free_from_us = free_from_us;
            lease_status.set_problem(Some(&problem));
            lease_status.set_warning(warning.as_deref());
        });
    }

    /// Logs a warning if it is new.
    fn warn(&mut self, text: Option<&str>) {
        let is_new = self.warning.is_new(text.map(str::to_owned).map(without_numbers));
        if let (Some(text), true) = (text, is_new) {
            ereport!(PgLogLevel::WARNING, PgSqlErrorCode::ERRCODE_WARNING, format!("snowflake_id: {text}"));
        }
    }
}

/// Removes all digits, so that messages that differ only in times and numbers become equal.
fn without_numbers(mut text: String) -> String {
    text.retain(|character| !character.is_ascii_digit());
    text
}
