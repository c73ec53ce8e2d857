//! Tells a run in words: one line for what a process does until another one's turn comes.

use stateright::Path;

use crate::horizon::plan::Uses;
use crate::horizon::protocol::{Action, Protocol};
use crate::horizon::state::*;
use crate::run::{Tale, story};

impl Tale for Protocol {
    fn for_a_tale(self) -> Protocol {
        Protocol { names_callers: true, ..self }
    }

    fn tell(&self, run: Path<State, Action>) -> Vec<String> {
        let run = run.into_vec();
        let is_new = run[0].0.stored.is_some_and(|stored| stored.durable.is_none());
        let start = is_new.then(|| ("server".into(), "is new".into()));
        let steps = run.iter().zip(&run[1..]).map_while(|(from, to)| Some((from.1?, &from.0, &to.0)));
        story(
            start
                .into_iter()
                .chain(steps.filter_map(|(step, before, after)| self.describe(step, before, after))),
        )
    }
}

impl Protocol {
    /// Who does a step, and what it is. `None` if it is not worth a word.
    fn describe(&self, step: Action, before: &State, after: &State) -> Option<(String, String)> {
        let State { stored, shared, .. } = after;
        let caller_of = |caller: usize| format!("caller {}", ["A", "B"][caller]);
        let keeper = "keeper".to_string();
        let readable = || number(stored.and_then(|stored| stored.readable));
        let uses = || stored.map_or(String::new(), |stored| records(&stored.uses));
        Some(match step {
            Action::Crash => {
                ("server".into(), format!("CRASHES; what is stored is {}, {}; starts", readable(), uses()))
            }
            Action::CrashOfBackend => ("backend".into(), "CRASHES; shared memory is made anew".into()),
            Action::FlushWal => ("WAL".into(), format!("is flushed: {} is durable", readable())),
            Action::Drop => ("superuser".into(), "DROPS the extension".into()),
            Action::Create => ("superuser".into(), format!("CREATES it: stores {}, {}", readable(), uses())),
            Action::Empty => ("superuser".into(), "EMPTIES the records of use".into()),
            Action::Allocate { slot, .. } => {
                let Slot { counter, limit, .. } = shared.slots[slot]?;
                ("backend".into(), format!("allocates slot {slot}: counter {counter}, limit {limit}"))
            }
            Action::Look { clock, wanted, .. } => {
                let Keeper::Written(look) = after.keeper else { return None };
                let wanted = wanted.map_or("no worker".into(), |identity| format!("worker {identity}"));
                let horizon =
                    look.horizon.map_or("no horizon".into(), |horizon| format!("store {horizon}"));
                let records = records(&look.uses);
                (keeper, format!("at clock {clock}, for {wanted}, writes {horizon}, {records}"))
            }
            Action::Commit => (keeper, "commits".into()),
            Action::Publish => {
                let what =
                    format!("publishes {}; slots begin at {}", shared.past.published, number(shared.floor));
                match before.keeper {
                    Keeper::Written(_) => (keeper, format!("does NOT commit yet; {what}")),
                    _ => (keeper, what),
                }
            }
            Action::Open => (keeper, format!("opens the gate for worker {}", shared.gate?)),
            Action::Close(then) => {
                let why = match then {
                    Then::Open { identity, .. } => format!("for worker {identity}"),
                    Then::Close => "as there is no worker that it may open it for".into(),
                    Then::Seal { .. } => "as it is stopped, or settings were lowered".into(),
                    Then::BeginAnew(identity) => format!("to begin anew for worker {identity}"),
                };
                let what = if shared.gate.is_some() { "leaves the gate OPEN" } else { "closes the gate" };
                (keeper, format!("{what}, {why}"))
            }
            Action::Raise => match before.keeper {
                Keeper::Fencing(_, slot) => {
                    (keeper, format!("raises slot {slot} to {}", shared.slots[slot]?.counter))
                }
                _ => return None,
            },
            Action::Seal => match after.keeper {
                Keeper::Sealed(end) => (keeper, format!("finds the end {end}")),
                _ => (keeper, format!("publishes the end {}", shared.past.published)),
            },
            Action::WriteEnd => (keeper, format!("store {}, the end", readable())),
            Action::Forget => (keeper, "forgets what it promised beyond".into()),
            Action::Order(identity) => {
                ("administrator".into(), format!("orders to begin anew for worker {identity}"))
            }
            Action::Withdraw => ("administrator".into(), "WITHDRAWS the order".into()),
            Action::LeaveOrder => (keeper, "leaves the order alone".into()),
            Action::ShutOut { clock } => match after.keeper {
                Keeper::ShutOut => (keeper, format!("shuts out: {}", uses())),
                _ => (keeper, format!("at clock {clock} refuses to begin anew")),
            },
            Action::WriteLow { clock } => {
                (keeper, format!("at clock {clock} store {}, to begin anew", readable()))
            }
            Action::BeginAnew => (keeper, format!("gives layouts new slots, from {}", number(shared.floor))),
            Action::Die => (keeper, "is terminated".into()),
            Action::Skip => {
                (keeper, format!("publishes {} WITHOUT a commit of its own", shared.past.published))
            }
            Action::Load { caller, slot } => match after.callers[caller].current {
                Some(counter) => (caller_of(caller), format!("loads counter {counter} of slot {slot}")),
                None => (caller_of(caller), format!("finds the gate open, and the limit of slot {slot}")),
            },
            Action::Decide { caller, clock } => match after.callers[caller].first {
                Some(first) => (caller_of(caller), format!("at clock {clock} decides for {first}")),
                None if shared.gate.is_none() => (caller_of(caller), "finds the gate closed".into()),
                None => (caller_of(caller), format!("at clock {clock} stalls")),
            },
            Action::Exchange { caller, .. } => {
                let Caller { slot, first, identity, .. } = before.callers[caller];
                let (slot, first) = (slot?, first?);
                let fails = before.shared == after.shared;
                let verdict = match after.verdict {
                    Verdict::Repeated => "takes AGAIN",
                    Verdict::Smaller => "takes, after a LARGER ID,",
                    Verdict::Larger if fails => "fails to take",
                    Verdict::Larger => "takes",
                };
                let layout = self.layouts[slot];
                let (tick, sequence) = (layout.tick(first), first - layout.counter_at(layout.tick(first)));
                let id = format!("slot {slot}, tick {tick}, worker {}, sequence {sequence}", identity?);
                (caller_of(caller), format!("{verdict} ID ({id})"))
            }
        })
    }
}

fn number(number: Option<u8>) -> String {
    number.map_or("nothing".into(), |number| number.to_string())
}

fn records(uses: &Uses) -> String {
    let own = uses.own.iter().enumerate().map(|(identity, until)| (format!("worker {identity}"), *until));
    let records: Vec<String> = [("everybody".into(), uses.everybody)]
        .into_iter()
        .chain(own)
        .filter_map(|(who, until)| Some(format!("{who} until {}", until?)))
        .collect();
    if records.is_empty() { "no records".into() } else { records.join(", ") }
}
