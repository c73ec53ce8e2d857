//! Describes a run in words.

use stateright::Path;

use crate::run::{Tale, story};
use crate::watermark::check::skipped;
use crate::watermark::protocol::{Action, Protocol};
use crate::watermark::reader::Part;
use crate::watermark::state::*;

impl Tale for Protocol {
    fn for_a_tale(self) -> Protocol {
        Protocol { names_writers: true, ..self }
    }

    fn tell(&self, run: Path<State, Action>) -> Vec<String> {
        let run = run.into_vec();
        let steps = run.iter().zip(&run[1..]).map_while(|(from, to)| Some((from.1?, &from.0, &to.0)));
        let mut lines = story(steps.map(|(step, before, after)| self.describe(step, before, after)));
        let skipped = run.last().and_then(|(state, _)| skipped(state));
        lines.extend(skipped.map(|row| format!("the row with ID {} is SKIPPED", row.id)));
        lines
    }
}

impl Protocol {
    /// The actor and the description of a step.
    fn describe(&self, action: Action, before: &State, after: &State) -> (String, String) {
        let writer = |at: usize| match (self.parallel, at) {
            (true, 0) => "leader".to_string(),
            (true, 1) => "its worker".to_string(),
            (..) => format!("writer {}", ["A", "B", "C"][at]),
        };
        let reader = |at: usize| format!("reader {}", at + 1);
        let end = |commits| if commits { "commits" } else { "rolls back" };
        let server = || "server".to_string();
        match action {
            Action::Mark { writer: at, layout } => {
                let slot = after.slots[after.slot_of(layout).unwrap_or_default()];
                (writer(at), format!("marks layout {layout} at counter {}", slot.counter))
            }
            Action::Take { writer: at, .. } => {
                let row = after.rows[after.rows.len() - 1];
                (
                    writer(at),
                    format!(
                        "takes ID {} of layout {} in transaction {}",
                        row.id, row.layout, row.transaction
                    ),
                )
            }
            Action::End { writer: at, commits } => (writer(at), end(commits).into()),
            Action::Copy(at) => (writer(at), "copies its marks to the list".into()),
            Action::Prepare(at) => (writer(at), "is prepared".into()),
            Action::Clear(at) => (writer(at), "clears its marks".into()),
            Action::Exit => (writer(1), "exits".into()),
            Action::Finish { transaction, commits } => {
                (format!("prepared transaction {transaction}"), end(commits).into())
            }
            Action::Change { worker } => (server(), format!("the worker ID becomes {worker}")),
            Action::Reset { worker, floor } => {
                (server(), format!("is RESET, under worker ID {worker}, to counter {floor}"))
            }
            Action::Restart => (server(), "CRASHES and starts".into()),
            Action::Begin(at) => {
                (reader(at), format!("a statement begins after ID {}", after.readers[at].cursor))
            }
            Action::Read(at) => {
                let statement = before.readers[at].statement.as_ref();
                let parts = statement.and_then(|it| it.seen.as_ref()).map_or(0, |seen| seen.parts);
                let what = match self.parts()[usize::from(parts)] {
                    Part::Counters => "loads the counters".into(),
                    Part::Line(at) => format!("reads the marks of {}", writer(at)),
                    Part::List => "reads the list".into(),
                    Part::Snapshot => "takes a snapshot".into(),
                };
                (reader(at), what)
            }
            Action::Answer { reader: at, keeps } => {
                let (was, is) = (&before.readers[at], &after.readers[at]);
                let rows = match is.cursor == was.cursor {
                    true => "returns no rows".into(),
                    false => format!("returns rows up to ID {}", is.cursor),
                };
                let more = if is.statement.is_some() { ", and goes on" } else { "" };
                let kept = if keeps { ", keeps the sample" } else { "" };
                (reader(at), format!("gets its answer{kept}, {rows}{more}"))
            }
        }
    }
}
