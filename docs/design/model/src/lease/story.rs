//! Describes a run in words: one line for consecutive steps of a process.

use stateright::Path;

use crate::lease::protocol::{Action, Ask, Delivery, Loss, Protocol, Step};
use crate::lease::state::*;
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
        let registry = || "registry".to_string();
        let server = |at: usize| format!("server {}", ["A", "B"][at]);
        match action {
            Action::Tick => ("time".into(), format!("comes to {}", after.now)),
            Action::Replicate => (registry(), "its standby has all commits".into()),
            Action::Lose(loss) => {
                let what = match loss {
                    Loss::Failover => "FAILS OVER to its standby",
                    Loss::Restore => "IS RESTORED from the dump",
                    Loss::New => "IS REPLACED by a new one",
                };
                let rows = after.registry.rows[..usize::from(self.identities)].iter().enumerate();
                let rows = rows.map(|(worker, row)| format!("worker {worker} until {}", row.until));
                (registry(), format!("{what}: {}", rows.collect::<Vec<_>>().join(", ")))
            }
            Action::RevokeLease(identity) => {
                (registry(), format!("the lease of worker {identity} is REVOKED"))
            }
            Action::Call { server: at, ask, now, delivery, .. } => {
                let asked = match ask {
                    Ask::Acquire => "requests an identity",
                    Ask::Renew => "requests a renewal",
                    Ask::Release => "ENDS and releases its lease",
                };
                let file = after.servers[at].file;
                let answer = match (delivery, after.waiting) {
                    _ if after.verdict == Verdict::CalledTwin => "it is called a TWIN".into(),
                    _ if before.registry.is_suspect => {
                        format!("a quarantine starts, until {}", after.registry.nothing_before)
                    }
                    (_, Some(waiting)) => format!("{}, and the commit waits", answer(waiting.answer)),
                    (Delivery::Lost, _) => "the reply is lost".into(),
                    (Delivery::Early, _) => {
                        let published =
                            after.servers[at].server_status.map(|server_status| range(&server_status.lease));
                        format!("{}, published, NOT in its file", published.unwrap_or_default())
                    }
                    (Delivery::PastEnd, _) => "in its file; its own clock is BEYOND the end".into(),
                    (Delivery::Filed, _) => match file.held {
                        Some(held)
                            if after.registry.rows[usize::from(held.lease.identity)].lease_id
                                != Some(held.lease_id) =>
                        {
                            "refused".into()
                        }
                        Some(held) if !file.is_proved => {
                            format!("{}, in its file, not signed", range(&held.lease))
                        }
                        Some(held) => format!("{}, in its file, signed", range(&held.lease)),
                        None if before.servers[at].file.held.is_some() => "a TWIN".into(),
                        None => "refused".into(),
                    },
                };
                (server(at), format!("{asked} at the registry's clock {now}: {answer}"))
            }
            Action::CallLate { server: at, ask } => {
                (server(at), format!("its call to {ask:?} is LATE").to_lowercase().replace("late", "LATE"))
            }
            Action::CarryOutLate { now, .. } => {
                (registry(), format!("at clock {now} executes the LATE call"))
            }
            Action::Acknowledge { .. } => (registry(), "the commit is on the standby".into()),
            Action::CutShort => (registry(), "the wait for the standby is CANCELED".into()),
            Action::Keep(at) => (server(at), "a copy of its directory is kept".into()),
            Action::Copy { to } => (server(to), format!("is overwritten with a COPY of {}", server(1 - to))),
            Action::CopyMemory => (server(1), format!("is a LIVE COPY of {}", server(0))),
            Action::Server(at, step) => {
                (server(at), self.describe_step(step, &before.servers[at], &after.servers[at], after))
            }
        }
    }

    fn describe_step(&self, step: Step, before: &Server, after: &Server, state: &State) -> String {
        let lease = |published: Option<Published>| {
            published.map_or("nothing".into(), |published| range(&published.lease))
        };
        match step {
            Step::Crash => format!("CRASHES, starts at {}", first_tick_from(after.stored.horizon)),
            Step::Reboot => {
                format!("its host is BOOTED, starts at {}", first_tick_from(after.stored.horizon))
            }
            Step::Stop => format!("is stopped, starts at {}", first_tick_from(after.stored.horizon)),
            Step::GoOn => format!("continues with {}", lease(after.server_status)),
            Step::Restore => format!(
                "the OLDER COPY of its directory is restored, starts at {}",
                first_tick_from(after.stored.horizon)
            ),
            Step::Forget => "CRASHES, and its stored data is GONE".into(),
            Step::WorkerDies => "its registry worker is terminated".into(),
            Step::OldAnswer => "receives the last reply AGAIN".into(),
            Step::Cycle { clock, .. } if after.keeper == Keeper::Up => {
                let horizon = first_tick_from(after.stored.horizon);
                let gate = match after.gate {
                    Some(worker) => format!("is open for worker {worker} at counter {}", after.counter),
                    None => "is closed".into(),
                };
                format!(
                    "at clock {clock} its keeper stores horizon {horizon}, the gate {gate}, limit {}",
                    after.limit()
                )
            }
            Step::Cycle { clock, cause } => {
                let Keeper::Stored(plan) = after.keeper else { return "its keeper runs a cycle".into() };
                let horizon = first_tick_from(after.stored.horizon);
                format!("at clock {clock} ({cause:?}) stores horizon {horizon}, plans {:?}", plan.gate)
            }
            Step::Publish => {
                let gate =
                    if after.gate.is_none() && before.gate.is_some() { ", closes the gate" } else { "" };
                format!("publishes it, its limit is {}{gate}", after.limit())
            }
            Step::Raise => format!("raises its counter to {}, its limit is {}", after.counter, after.limit()),
            Step::StoreReset { clock } => {
                format!("at clock {clock} stores the low horizon {}", first_tick_from(after.stored.horizon))
            }
            Step::Reset => format!("RESETS to counter {}", after.counter),
            Step::Open if after.gate.is_none() => "does not open the gate".into(),
            Step::Open => format!("opens the gate for worker {}", after.gate.unwrap_or_default()),
            Step::Cap => format!("caps its limit to {}", after.limit()),
            Step::KeeperDies => "its keeper is terminated".into(),
            Step::Load => format!("a caller loads counter {}", after.counter),
            Step::Take { tick, .. } if before.counter == after.counter => format!("fails to take {tick}"),
            Step::Take { tick, .. } => {
                let worker = before.caller.map(|(_, identity)| identity).or(before.gate).unwrap_or_default();
                let verdict = match state.verdict {
                    Verdict::Repeated => "takes AGAIN",
                    Verdict::Outside => "takes, OUTSIDE its lease,",
                    _ => "takes",
                };
                format!("{verdict} tick {tick} of worker {worker}")
            }
        }
    }
}

fn range(lease: &Lease) -> String {
    format!("worker {} [{}, {})", lease.identity, lease.from, lease.until)
}

fn answer(answer: Answer) -> String {
    match answer {
        Answer::Granted(lease) => range(&lease),
        Answer::Released => "released".into(),
        Answer::Twin => "twin".into(),
    }
}
