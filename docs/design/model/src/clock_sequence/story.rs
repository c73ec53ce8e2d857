//! Tells a run in words.

use stateright::Path;

use crate::clock_sequence::protocol::{Action, Protocol};
use crate::clock_sequence::state::*;
use crate::run::{Tale, story};

impl Tale for Protocol {
    fn for_a_tale(self) -> Protocol {
        Protocol { names_callers: true, ..self }
    }

    fn tell(&self, run: Path<State, Action>) -> Vec<String> {
        let run = run.into_vec();
        let steps = run.iter().zip(&run[1..]).map_while(|(from, to)| Some((from.1?, &from.0, &to.0)));
        story(steps.filter_map(|(step, before, after)| self.describe(step, before, after)))
    }
}

impl Protocol {
    /// Who does a step, and what it is. `None` if it is not worth a word.
    fn describe(&self, step: Action, before: &State, after: &State) -> Option<(String, String)> {
        let State { stored, shared, .. } = after;
        let caller_of = |caller: usize| format!("caller {}", ["A", "B"][caller]);
        let keeper = "keeper".to_string();
        let what_is_stored = || stored.map_or("nothing".into(), |stored| tell(&stored));
        Some(match step {
            Action::Crash => {
                ("server".into(), format!("CRASHES; what is stored is {}; starts", what_is_stored()))
            }
            Action::CrashOfBackend => ("backend".into(), "CRASHES; shared memory is made anew".into()),
            Action::Stop => ("server".into(), format!("is stopped; stores {}; starts", what_is_stored())),
            Action::FlushWal => ("WAL".into(), "is flushed".into()),
            Action::Drop => ("superuser".into(), "DROPS the extension".into()),
            Action::Create => ("superuser".into(), format!("CREATES it: stores {}", what_is_stored())),
            Action::Look { clock } => (keeper, format!("at clock {clock} writes {}", what_is_stored())),
            Action::Record => (keeper, format!("records the end of the value in use: {}", what_is_stored())),
            Action::Write { value, clock } => {
                (keeper, format!("at clock {clock} writes value {value}, until {}", clock + LEASE))
            }
            Action::Commit => (keeper, "commits".into()),
            Action::Publish => {
                let begun = shared.begun?;
                let how = if matches!(before.keeper, Keeper::Written(_)) {
                    "WITHOUT a commit publishes"
                } else {
                    "publishes"
                };
                (
                    keeper,
                    format!(
                        "{how}: value {}, from {}; value 0 from {}",
                        begun.value, begun.floor, begun.zero_floor
                    ),
                )
            }
            Action::Die => (keeper, "is terminated".into()),
            Action::Allocate { value } => {
                let slot = shared.slots[self.slot_of(value)]?;
                (
                    "backend".into(),
                    format!(
                        "allocates the slot of value {value}: counter {}, limit {}",
                        slot.counter, slot.limit
                    ),
                )
            }
            Action::Load { caller, value } => {
                (caller_of(caller), format!("loads the counter for value {value}"))
            }
            Action::Decide { caller, clock } => match after.callers[caller].first {
                Some(first) => (caller_of(caller), format!("at clock {clock} decides for {first}")),
                None => (caller_of(caller), format!("at clock {clock} stalls")),
            },
            Action::Exchange { caller, .. } => {
                let Caller { at, first, .. } = before.callers[caller];
                let verdict = match after.verdict {
                    Verdict::Repeated => "takes AGAIN",
                    Verdict::Smaller => "takes, after a LARGER ID,",
                    Verdict::Larger if before.shared == after.shared => "fails to take",
                    Verdict::Larger => "takes",
                };
                (caller_of(caller), format!("{verdict} ID (value {}, tick {})", at?.1, first?))
            }
        })
    }
}

fn tell(stored: &Stored) -> String {
    let Stored { zero, readable, uses, .. } = stored;
    let ends = uses.own.iter().enumerate().map(|(value, until)| (format!("value {value}"), *until));
    let ends = [("every value".into(), uses.every)].into_iter().chain(ends);
    let ends: Vec<String> =
        ends.filter_map(|(what, until)| Some(format!("{what} used until {}", until?))).collect();
    let ends = if ends.is_empty() { "no records".into() } else { ends.join(", ") };
    format!("value {} until {}, value 0 until {zero}, {ends}", readable.value, readable.until)
}
