//! Tells a run in words: one line for what a process does until another one's turn comes.

use stateright::Path;

use crate::mutation::Mutation;
use crate::protocol::{Action, Protocol};
use crate::state::*;

impl Protocol {
    pub fn tell(&self, run: Path<State, Action>) -> Vec<String> {
        let run = run.into_vec();
        let mut lines: Vec<String> = Vec::new();
        let mut last = String::new();
        for (from, to) in run.iter().zip(&run[1..]) {
            let Some(step) = from.1 else { break };
            let Some((who, what)) = self.describe(step, &from.0, &to.0) else { continue };
            match lines.last_mut() {
                Some(line) if who == last => *line += &format!("; {what}"),
                _ => lines.push(format!("{who}: {what}")),
            }
            last = who;
        }
        lines
    }

    /// Who does a step, and what it is. `None` if it is not worth a word.
    fn describe(&self, step: Action, before: &State, after: &State) -> Option<(String, String)> {
        let State { stored, shared, .. } = after;
        let caller_of = |caller: usize| format!("caller {}", ["A", "B"][caller]);
        let keeper = "keeper".to_string();
        Some(match step {
            Action::Crash => {
                ("server".into(), format!("CRASHES; what is stored is {} again; starts", stored.durable))
            }
            Action::FlushWal => ("WAL".into(), format!("is flushed: {} is durable", stored.durable)),
            Action::Allocate { slot, .. } => {
                let Slot { counter, limit } = shared.slots[slot]?;
                ("backend".into(), format!("allocates slot {slot}: counter {counter}, limit {limit}"))
            }
            Action::Start => {
                (keeper, format!("starts; reads {}; the floor is {}", stored.readable, shared.floor?))
            }
            Action::Write { clock } => (keeper, format!("at clock {clock} setval({})", stored.readable)),
            Action::Commit => (keeper, "commits".into()),
            Action::Error => (keeper, "fails before the commit".into()),
            Action::Publish => match before.keeper {
                Keeper::Publishing(horizon, 0) => (keeper, format!("publishes {horizon}")),
                _ => return None,
            },
            Action::Open { identity } => match shared.gate {
                Some(_) => (keeper, format!("opens the gate for worker {identity}")),
                None => (keeper, format!("has to fence for worker {identity}")),
            },
            Action::Close(_) if shared.gate.is_some() => (keeper, "is stopped; leaves the gate OPEN".into()),
            Action::Close(Then::Stop) => (keeper, "is stopped; closes the gate".into()),
            Action::Close(Then::Open(identity)) => (keeper, format!("closes the gate for worker {identity}")),
            Action::Raise => match before.keeper {
                Keeper::Fencing(_, slot) => {
                    (keeper, format!("raises slot {slot} to {}", shared.slots[slot]?.counter))
                }
                _ => return None,
            },
            Action::Close(Then::Reset(identity)) => {
                (keeper, format!("closes the gate, to begin anew for worker {identity}"))
            }
            Action::ShutOut => (keeper, format!("notes until when workers were used: {:?}", stored.used)),
            Action::WriteLow { clock } => {
                (keeper, format!("at clock {clock} setval({}), to begin anew", stored.readable))
            }
            Action::WriteEnd => (keeper, format!("setval({}), the exact end", stored.readable)),
            Action::CommitEnd => (keeper, "commits; ends".into()),
            Action::Die => (keeper, "is terminated".into()),
            Action::Skip if self.is(Mutation::PublishFirst) => (keeper, "does NOT commit yet".into()),
            Action::Skip => (keeper, "goes on WITHOUT a commit of its own".into()),
            Action::LoadCounter { caller, slot } => {
                let counter = shared.slots[slot]?.counter;
                (caller_of(caller), format!("loads counter {counter} of slot {slot}"))
            }
            Action::LoadGate { caller, slot } => match after.callers[caller].limit {
                Some(limit) => {
                    (caller_of(caller), format!("finds the gate open, slot {slot} with limit {limit}"))
                }
                None => (caller_of(caller), "finds the gate closed".into()),
            },
            Action::ReadClock { caller, clock } => match after.callers[caller].first {
                Some(first) => (caller_of(caller), format!("at clock {clock} decides for {first}")),
                None => (caller_of(caller), format!("at clock {clock} stalls")),
            },
            Action::Exchange { caller, .. } => {
                let Caller { slot, first, identity, .. } = before.callers[caller];
                let (slot, first) = (slot?, first?);
                let fails = before.shared == after.shared;
                let verdict = match after.verdict {
                    _ if fails => "fails to take",
                    Verdict::Larger => "takes",
                    Verdict::Repeated => "takes AGAIN",
                    Verdict::Smaller => "takes, after a LARGER ID,",
                };
                let layout = self.layouts[slot];
                let (tick, sequence) = (layout.tick(first), first - layout.counter_at(layout.tick(first)));
                let id = format!("slot {slot}, tick {tick}, worker {}, sequence {sequence}", identity?);
                (caller_of(caller), format!("{verdict} ID ({id})"))
            }
        })
    }
}
