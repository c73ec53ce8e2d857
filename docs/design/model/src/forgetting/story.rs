//! Describes a run in words.

use stateright::Path;

use crate::forgetting::protocol::{Action, Protocol};
use crate::forgetting::state::*;
use crate::run::{Tale, story};

impl Tale for Protocol {
    fn for_a_tale(self) -> Protocol {
        Protocol { names_servers: true, ..self }
    }

    fn tell(&self, run: Path<State, Action>) -> Vec<String> {
        let run = run.into_vec();
        let steps = run.iter().zip(&run[1..]).map_while(|(from, to)| Some((from.1?, &from.0, &to.0)));
        story(steps.map(|(step, before, after)| self.describe(step, before, after)))
    }
}

impl Protocol {
    /// The actor and the description of a step.
    fn describe(&self, action: Action, before: &State, after: &State) -> (String, String) {
        let server = |at: usize| format!("server {}", ["A", "B"][at]);
        let row = &after.registry.row;
        match action {
            Action::Tick => ("time".into(), format!("comes to {}", after.now)),
            Action::SetClock { .. } => {
                ("clock".into(), format!("is SET from {} to {}", self.clock(before), self.clock(after)))
            }
            Action::SetOff(at) => (
                server(at),
                format!("its clock is {}", if after.servers[at].is_off { "WRONG" } else { "right" }),
            ),
            Action::Cut(at) => {
                (server(at), if after.servers[at].is_cut { "is CUT OFF" } else { "is back" }.into())
            }
            Action::Leave(at) => (server(at), "gives up its lease".into()),
            Action::Draw(at) => {
                let again = if after.verdict == Verdict::Repeated { " AGAIN" } else { "" };
                (
                    server(at),
                    format!("issues number {}{again}", number(&before.servers[at], &after.servers[at])),
                )
            }
            Action::Keep => ("registry".into(), "its state is kept".into()),
            Action::Restart => ("registry".into(), "is started".into()),
            Action::Forget(way) => (
                "registry".into(),
                format!("IS SET BACK ({way:?}): until {}, next number {}", row.until, after.registry.next)
                    .to_lowercase()
                    .replace("is set back", "IS SET BACK"),
            ),
            Action::Lie(lie) => ("liar".into(), format!("{lie:?}").to_lowercase()),
            Action::EndWait => ("administrator".into(), "says that nothing was lost".into()),
            Action::StartAgain => ("administrator".into(), "starts it again".into()),
            Action::Freeze => (
                "administrator".into(),
                format!("freezes it up to {}", after.registry.frozen_until.unwrap_or_default()),
            ),
            Action::Call { server: at, ask } => {
                let (was, is) = (&before.servers[at], &after.servers[at]);
                let wait = match after.registry.wait {
                    Some(wait) if wait.is_proved => " (LOSS proved, waits)",
                    Some(_) => " (waits)",
                    None => "",
                };
                let what = if was.held != is.held {
                    is.held.map_or("nothing".into(), |range| format!("[{}, {})", range.from, range.until))
                } else if after.verdict == Verdict::Repeated {
                    format!("numbers below {}, one of them AGAIN", is.numbers)
                } else if was.had != is.had {
                    format!("numbers below {}", is.numbers)
                } else {
                    "nothing".into()
                };
                (server(at), format!("calls ({ask:?}) at clock {}: {what}{wait}", self.clock(after)))
            }
        }
    }
}

/// The number that was issued.
fn number(before: &Server, after: &Server) -> u32 {
    (before.drawn ^ after.drawn).trailing_zeros()
}
