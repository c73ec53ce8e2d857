//! Describes a run in words: one line for consecutive steps of a process.

use stateright::Path;

use crate::keeper::protocol::{Action, Emptied, Protocol, Wanted};
use crate::keeper::state::*;
use crate::keeper::step::describe;
use crate::run::{Tale, story};

impl Tale for Protocol {
    fn for_a_tale(self) -> Protocol {
        Protocol { names_callers: true, ..self }
    }

    fn tell(&self, run: Path<State, Action>) -> Vec<String> {
        let run = run.into_vec();
        let is_new = run[0].0.disk.is_some_and(|disk| disk.durable == Facts::default());
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
    /// The actor and the description of a step. `None` if the step is not worth mentioning.
    fn describe(&self, step: Action, before: &State, after: &State) -> Option<(String, String)> {
        let State { disk, shared, .. } = after;
        let caller_of = |caller: usize| format!("caller {}", ["A", "B"][caller]);
        let (server, keeper, superuser) =
            ("server".to_string(), "keeper".to_string(), "superuser".to_string());
        let administrator = "administrator".to_string();
        let stored = || disk.map_or("nothing".into(), |disk| self.facts(&disk.readable()));
        let floors = || marks(&shared.begun.unwrap_or_default());
        Some(match step {
            Action::Crash { .. } => (server, format!("CRASHES; what is stored is {}; starts", stored())),
            Action::CrashOfBackend => ("backend".into(), "CRASHES; shared memory is reinitialized".into()),
            Action::FlushWal => ("WAL".into(), "is flushed".into()),
            Action::Drop => (superuser, "DROPS the extension".into()),
            Action::Create => (superuser, format!("CREATES it: stores {}", stored())),
            Action::Empty { what: Emptied::Records } => (superuser, "EMPTIES the records of use".into()),
            Action::Empty { what: Emptied::Horizons } => (superuser, "EMPTIES the horizons".into()),
            Action::Allocate { slot_index, .. } => {
                let Slot { word, limit, .. } = shared.slots[self.slot_of(slot_index)]?;
                ("backend".into(), format!("allocates slot {slot_index}: {}, limit {limit}", said(word)))
            }
            Action::Cycle { clock, wanted, is_wide, .. } => {
                let Keeper::Written(cycle) = after.keeper else { return None };
                let wanted = match wanted {
                    Wanted::Nobody => "no worker".into(),
                    Wanted::ForGood(identity) => format!("worker {identity}"),
                    Wanted::Leased { at, .. } => {
                        let Lease { identity, range } = self.granted(after, at.into())?;
                        let (from, until) = (time(range.from), time(range.until));
                        format!("worker {identity} with a lease from {from} to {until}")
                    }
                };
                let wide = if is_wide { " with higher settings" } else { "" };
                let what = self.written(before, after);
                let what = format!("at clock {clock}{wide}, for {wanted}, writes {what}");
                match cycle.raise {
                    Some(floor) => (keeper, format!("{what}, to raise the floor to {}", time(floor))),
                    None => (keeper, what),
                }
            }
            Action::Commit => (keeper, "commits".into()),
            Action::Publish => {
                let published = marks(&shared.history.published);
                let what = format!("publishes {published}; slots begin at {}", floors());
                match before.keeper {
                    Keeper::Written(_) => (keeper, format!("does NOT commit yet; {what}")),
                    _ => (keeper, what),
                }
            }
            Action::Open => match shared.gate {
                Some(identity) => (keeper, format!("opens the gate for worker {identity}")),
                None => return None,
            },
            Action::Close(then) => {
                let why = match then {
                    Then::Open { lease, .. } => format!("for worker {}", lease.identity),
                    Then::Close => "because there is no worker ID for which it may open it".into(),
                    Then::Raise { floor, .. } => format!("to raise the floor to {}", time(floor)),
                    Then::ShutdownHorizon { .. } => "because it is stopped, or settings were lowered".into(),
                    Then::Reset(reset) => format!("to reset for worker {}", reset.lease.identity),
                };
                let what = if shared.gate.is_some() { "leaves the gate OPEN" } else { "closes the gate" };
                (keeper, format!("{what}, {why}"))
            }
            Action::Raise => match before.keeper {
                Keeper::Fencing(_, at) => {
                    let word = shared.slots[usize::from(at)]?.word;
                    (keeper, format!("raises slot {at} to {}", said(word)))
                }
                _ => return None,
            },
            Action::Reopen => (keeper, "opens the gate again, and replies".into()),
            Action::ShutdownHorizon => match after.keeper {
                Keeper::AtShutdownHorizon(ends) => (keeper, format!("finds the end {}", marks(&ends))),
                _ => (keeper, format!("publishes the end {}", marks(&shared.history.published))),
            },
            Action::WriteEnd => (keeper, format!("writes the end: {}", self.written(before, after))),
            Action::Forget => (keeper, "forgets higher promises".into()),
            Action::Request(identity) => (administrator, format!("requests a reset for worker {identity}")),
            Action::RequestRaise(floor) => (administrator, format!("requests to raise the floor to {floor}")),
            Action::Withdraw => (administrator, "WITHDRAWS the request".into()),
            Action::LeaveRequest => (keeper, "leaves the request alone".into()),
            Action::RefuseReset => (keeper, "refuses the reset".into()),
            Action::WriteLow { clock } => {
                let what = self.written(before, after);
                (keeper, format!("at clock {clock} writes, for the reset, {what}"))
            }
            Action::Reset => (keeper, format!("gives layouts new slots, from {}", floors())),
            Action::WriteValue { clock } => (
                keeper,
                format!("at clock {clock} opens another value: writes {}", self.written(before, after)),
            ),
            Action::Hide => match before.keeper {
                Keeper::WrittenValue(_) => {
                    (keeper, "does NOT commit yet; removes the horizon of slots".into())
                }
                _ => (keeper, "removes the horizon of slots".into()),
            },
            Action::Move => (keeper, "moves their words to the new value".into()),
            Action::Die { .. } => (keeper, format!("is terminated; what can be read is {}", stored())),
            Action::Skip => {
                let published = marks(&shared.history.published);
                (keeper, format!("publishes {published} WITHOUT a commit of its own"))
            }
            Action::Load { caller, slot_index, .. } => match after.callers[caller].current {
                Some(word) => (caller_of(caller), format!("loads {} of slot {slot_index}", said(word))),
                None => {
                    (caller_of(caller), format!("finds the gate open, and the limit of slot {slot_index}"))
                }
            },
            Action::Decide { caller, clock, .. } => match after.callers[caller].taken {
                Some((id, _)) => (caller_of(caller), format!("at clock {clock} decides for ID {id}")),
                None if shared.gate.is_none() => (caller_of(caller), "finds the gate closed".into()),
                None => (caller_of(caller), format!("at clock {clock} stalls")),
            },
            Action::Exchange { caller, .. } => {
                let Caller { at, taken, .. } = before.callers[caller];
                let ((at, _), (id, _)) = (at?, taken?);
                let verdict = match after.verdict {
                    Verdict::Repeated => "takes AGAIN",
                    Verdict::Smaller => "takes, after a LARGER ID,",
                    Verdict::Early => "takes, BELOW the floor that an administrator was told,",
                    Verdict::Outside => "takes, OUTSIDE the lease,",
                    Verdict::Larger if before.shared == after.shared => "fails to take",
                    Verdict::Larger => "takes",
                };
                let slot_shape = self.slot_shape(at);
                let parts = slot_shape.layout.unpack(id.into()).ok()?;
                let mut fields =
                    format!("slot {at}, tick {}, worker {}", parts.tick, before.callers[caller].identity?);
                for (name, field) in [("value", parts.clock_seq), ("sequence", parts.sequence)] {
                    if field > 0 {
                        fields += &format!(", {name} {field}");
                    }
                }
                (caller_of(caller), format!("{verdict} ID {id} ({fields})"))
            }
        })
    }

    /// The writes of this step.
    fn written(&self, before: &State, after: &State) -> String {
        let Some((before, after)) = before.disk.zip(after.disk) else { return "nothing".into() };
        let writes: Vec<_> =
            after.pending.iter().skip(before.pending.len()).map(|write| self.describe_write(write)).collect();
        if writes.is_empty() { "nothing new".into() } else { writes.join(", ") }
    }

    fn describe_write(&self, write: Write) -> String {
        match write {
            Write::Record { kind, until } => {
                let mut uses = Uses::default();
                uses.0[usize::from(kind)] = until.0 + 1;
                self.records(&uses)
            }
            Write::Horizon { track, horizon } => match horizon {
                Mark::NONE if track == 1 => "no other value".into(),
                Mark { value: 0, at } => format!("horizon {}", time(at)),
                Mark { value, at } => format!("horizon {} of value {value}", time(at)),
            },
        }
    }

    fn facts(&self, facts: &Facts) -> String {
        format!("{}, {}", marks(&facts.horizons), self.records(&facts.uses))
    }

    fn records(&self, uses: &Uses) -> String {
        let kinds = uses.0.iter().zip(self.kinds()).filter(|(until, _)| **until > 0);
        let records: Vec<String> =
            kinds.map(|(until, what)| format!("{what} until {}", time(Instant(until - 1)))).collect();
        if records.is_empty() { "no records".into() } else { records.join(", ") }
    }

    /// The description of each kind of record.
    fn kinds(&self) -> Vec<String> {
        let record = |kind: usize| {
            let mut uses = Uses::default();
            uses.0[kind] = 1;
            self.uses(&uses).iter().next().as_ref().map(describe).unwrap_or_default()
        };
        (0..KINDS).map(record).collect()
    }
}

/// An instant as a reading of the clock. A `+` marks a microsecond later.
fn time(instant: Instant) -> String {
    match instant {
        Instant(0) => "nothing".into(),
        Instant::NEVER => "infinity".into(),
        Instant(half) => {
            format!("{}{}", i32::from(half / 2) - 1, if half % 2 > 0 { "+" } else { "" })
        }
    }
}

fn marks(marks: &[Mark; TRACKS]) -> String {
    match marks {
        [zero, Mark::NONE] => time(zero.at),
        [zero, other] => format!("{} (value {}: {})", time(zero.at), other.value, time(other.at)),
    }
}

fn said(word: Word) -> String {
    match word.value {
        0 => format!("counter {}", word.counter),
        value => format!("value {value}, counter {}", word.counter),
    }
}
