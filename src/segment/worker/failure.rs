//! Reasons why no numbers are available.

use snowflake_id_core::number_round::Refusal;
use snowflake_id_core::protocol::{Caller, Mismatch};

use crate::background::connection::{NoAnswer, Refused};
use crate::shared::segments::Trouble;

/// The reason why a round failed.
pub struct Failure {
    pub problem: String,
    pub trouble: Trouble,
    /// Whether the registry reported that the statement failed. In this case, one of the names in the
    /// requests may be the cause.
    pub is_of_statement: bool,
    /// Whether the registry's database cannot process a value of the statement, such as a name.
    pub is_of_data: bool,
    /// Whether no server has sent any data.
    pub is_unreachable: bool,
}

impl Failure {
    pub fn new(problem: String, trouble: Trouble) -> Failure {
        Failure { problem, trouble, is_of_statement: false, is_of_data: false, is_unreachable: false }
    }

    /// Returns the failure if the registry has sent no answer or an unexpected answer.
    pub fn of_silence(problem: &str) -> Failure {
        Failure::new(problem.into(), Trouble::Silence)
    }

    pub fn of_file(problem: &str) -> Failure {
        Failure::new(problem.into(), Trouble::File)
    }

    /// Returns the failure if the registry or this server is too old for the other.
    pub fn of_mismatch(mismatch: Mismatch, detail: Option<&str>) -> Failure {
        Failure::new(mismatch.explain(Caller::Server, detail), Trouble::Mismatch(mismatch))
    }

    /// Converts the reason why a round has failed. `failure` is the last failure of an effect.
    pub fn of_refusal(refusal: Refusal, failure: Option<Failure>) -> Failure {
        match (refusal, failure) {
            (Refusal::Failed, Some(failure)) => failure,
            (Refusal::Failed, None) => Failure::of_silence("bug: an effect failed without a reason"),
            (Refusal::Failure(why), _) => Failure::of_silence(why),
            (Refusal::Mismatch(mismatch, detail), _) => Failure::of_mismatch(mismatch, detail.as_deref()),
        }
    }

    /// Converts the reason why the registry has not answered. Returns `None` if the process must stop.
    pub fn of_registry(why: NoAnswer) -> Option<Failure> {
        Some(match why {
            NoAnswer::Stopping => return None,
            NoAnswer::Unreachable(problem) => {
                Failure { is_unreachable: true, ..Failure::of_silence(&problem) }
            }
            NoAnswer::Failed(problem)
            | NoAnswer::Rejected { problem, .. }
            | NoAnswer::Stuck { problem, .. } => Failure::of_silence(&problem),
            NoAnswer::Refused(Refused { problem, is_of_data, .. }) => {
                Failure { is_of_statement: true, is_of_data, ..Failure::of_silence(&problem) }
            }
            NoAnswer::Denied(denied) => Failure::new(denied.text(&["take"]), Trouble::Denied),
        })
    }
}
