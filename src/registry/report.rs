//! The registry worker reports the state of the lease in the log and in view `snowflake_status`. The pause
//! before the next request depends on the reported state.

use std::time::Duration;

use pgrx::prelude::*;
use snowflake_id_core::lease_state::Outcome;
use snowflake_id_core::message::instant;
use snowflake_id_core::protocol::Caller;

use super::dialogue::Dialogue;
use crate::background::rounds::{Failures, Logged, in_short};
use crate::config;
use crate::error::duration;
use crate::pg::clock;
use crate::pg::random::random_between;
use crate::shared::lease::{self, RegistryState};

/// The pause after the first failure.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The maximum pause after a failure. The maximum is lower if leases are renewed more often.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// The lower limit of the maximum pause after a failure.
const LEAST_LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// The reason why the registry has granted no lease.
pub struct Refusal {
    pub state: RegistryState,
    pub why: String,
    /// The time at which an identity may become free, in microseconds of Unix time, or 0 if unknown.
    pub free_from_us: i64,
}

impl Refusal {
    pub fn new(state: RegistryState, why: String) -> Refusal {
        Refusal { state, why, free_from_us: 0 }
    }

    /// Converts an answer without a usable lease to a refusal.
    pub fn of(outcome: Outcome, detail: Option<String>, clock_difference: Duration) -> Refusal {
        let (state, why) = match outcome {
            // A server releases no lease.
            Outcome::Granted(_) | Outcome::Released => {
                (RegistryState::Granted, "the registry granted another lease".into())
            }
            Outcome::Unknown => (RegistryState::Granted, "the registry does not know the lease".into()),
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
                format!(
                    "the clocks of this server and of the registry differ by {}",
                    duration(clock_difference)
                ),
            ),
            Outcome::Foreign => {
                let why = "the last lease was granted by another registry; if the change of registries is intended, stop the server and remove file \"snowflake_id.lease\" from its data directory";
                (RegistryState::Foreign, why.into())
            }
            Outcome::Mismatch(mismatch) => {
                let why = mismatch.explain(Caller::Server, detail.as_deref());
                return Refusal::new(RegistryState::Mismatch(mismatch), why);
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
        Refusal { state, why, free_from_us }
    }
}

/// The last reported texts.
pub struct Report {
    failures: Failures,
    problem: Logged,
    warning: Logged,
}

impl Report {
    pub fn new() -> Report {
        let lease_status = lease::lease_status();
        Report {
            failures: Failures::default(),
            problem: Logged::before(lease_status.problem().map(without_numbers)),
            warning: Logged::before(lease_status.warning().map(without_numbers)),
        }
    }

    /// Reports that the registry has granted a lease. If the answer contains a note for administrators, the
    /// note is reported as well. Returns the time to sleep.
    pub fn succeed(&mut self, note: Option<String>, dialogue: &Dialogue) -> Duration {
        self.failures.end();
        self.problem.is_new(None);
        let offset = dialogue.clock_difference();
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
            lease_status.clock_offset_us = dialogue.terms.clock_offset_us;
            lease_status.confirmed_clock_us = is_clock_good.then_some(dialogue.compared_clock_us);
            lease_status.free_from_us = 0;
            lease_status.set_problem(None);
            lease_status.set_warning(warning.as_deref());
        });
        // Spread the renewals of the servers of a fleet.
        dialogue.terms.renew_every.mul_f64(random_between((0.9, 1.1)))
    }

    /// Reports the reason why the registry has granted no lease. Raises a warning if less than half of the
    /// current lease is left. The current lease ends at `until_us`. Returns the time to sleep.
    pub fn fail(&mut self, refusal: Refusal, until_us: i64, dialogue: &Dialogue) -> Duration {
        let Refusal { state, why, free_from_us } = refusal;
        let why = in_short(why);
        let problem = format!("could not get a lease from the registry: {why}");
        if self.problem.is_new(Some(without_numbers(problem.clone()))) {
            log!("snowflake_id: {problem}");
        }
        let left_us = until_us - clock::clock_us();
        let is_ending = left_us > 0 && left_us < dialogue.terms.lease_us / 2;
        let warning = is_ending.then(|| {
            let until = instant(until_us);
            format!("the lease of this server's worker ID ends at {until} and was not renewed: {why}")
        });
        self.warn(warning.as_deref());
        lease::tell(|lease_status| {
            lease_status.state = state;
            lease_status.clock_offset_us = dialogue.terms.clock_offset_us;
            lease_status.confirmed_clock_us = None;
            lease_status.free_from_us = free_from_us;
            lease_status.set_problem(Some(&problem));
            lease_status.set_warning(warning.as_deref());
        });
        let longest = LONGEST_PAUSE.min(dialogue.terms.renew_every).max(LEAST_LONGEST_PAUSE);
        self.failures.add(FIRST_PAUSE, longest).mul_f64(random_between((0.5, 1.0)))
    }

    /// Logs a warning if it is new.
    fn warn(&mut self, text: Option<&str>) {
        let is_new = self.warning.is_new(text.map(str::to_owned).map(without_numbers));
        if let (Some(text), true) = (text, is_new) {
            ereport!(PgLogLevel::WARNING, PgSqlErrorCode::ERRCODE_WARNING, format!("snowflake_id: {text}"));
        }
    }
}

/// Removes all digits, so that two texts that differ only in times and numbers become equal.
fn without_numbers(mut text: String) -> String {
    text.retain(|character| !character.is_ascii_digit());
    text
}
