//! The properties of the watermark, and the bounds.

use stateright::{Model, Property};

use crate::watermark::mutation::Mutation;
use crate::watermark::protocol::{Action, Protocol};
use crate::watermark::state::*;

pub const NO_SKIP: &str = "no reader skips a committed row";
/// If all transactions have ended.
pub const ALL_READ: &str = "in the end each reader reads all committed rows";

/// The bounds, with their names and descriptions.
pub const CORRECT: [(&str, &str, Protocol); 9] = [
    ("writers", "two writers, three transactions, three rows, one reader", WRITERS),
    ("samples", "the same with samples", Protocol { samples: true, ..WRITERS }),
    ("two-layouts", "two transactions, three rows, two layouts", Protocol { rows: 3, ..LAYOUTS }),
    ("workers", "a parallel worker, its leader, and another writer", Protocol { transactions: 3, ..WORKERS }),
    ("prepared", "transactions are prepared", LATE_PREPARED),
    ("exchanged", "the identity changes; samples", Protocol { changes: 1, ..LATE_SAMPLES }),
    ("slots-reset", "IDs begin lower after a reset; samples", Protocol { resets: 1, ..LATE_SAMPLES }),
    (
        "restarts",
        "the server crashes while a transaction is prepared",
        Protocol { restarts: 1, ..LATE_PREPARED },
    ),
    ("readers", "two readers with samples, two transactions, two rows", READERS),
];

const WRITERS: Protocol = Protocol {
    writers: 2,
    parallel: false,
    readers: 1,
    layouts: 1,
    transactions: 3,
    rows: 3,
    rolls_back: true,
    prepares: false,
    samples: false,
    changes: 0,
    resets: 0,
    restarts: 0,
    names_writers: false,
    broken: None,
};
const SMALL: Protocol = Protocol { transactions: 2, rows: 2, rolls_back: false, ..WRITERS };
const SAMPLES: Protocol = Protocol { rows: 3, samples: true, ..SMALL };
const LAYOUTS: Protocol = Protocol { layouts: 2, ..SMALL };
const WORKERS: Protocol = Protocol { writers: 3, parallel: true, rows: 3, ..SMALL };
const PREPARED: Protocol = Protocol { prepares: true, rolls_back: true, ..SMALL };
const IDENTITIES: Protocol = Protocol { changes: 1, transactions: 3, rows: 3, ..SMALL };
const RESETS: Protocol = Protocol { resets: 1, rolls_back: true, ..SMALL };
const RESTARTS: Protocol = Protocol { prepares: true, restarts: 1, ..SMALL };
const READERS: Protocol = Protocol { readers: 2, samples: true, ..SMALL };

/// Without rollbacks.
const LATE_PREPARED: Protocol = Protocol { rolls_back: false, prepares: true, ..WRITERS };
const LATE_SAMPLES: Protocol = Protocol { rolls_back: false, samples: true, ..WRITERS };

/// The bounds in which a mutation is caught.
pub fn broken(mutation: Mutation) -> Protocol {
    use Mutation::*;
    let bounds = match mutation {
        MarkedAtAll => LAYOUTS,
        PlainStore | WorkerLine => WORKERS,
        PreparedForgotten | PlaceReused | ListFirst => PREPARED,
        // The place of a transaction in the list is used by a third transaction.
        SnapshotBeforeList => Protocol { transactions: 3, rows: 3, rolls_back: false, ..PREPARED },
        IdentityAlways | FromEarly => IDENTITIES,
        RetiredIgnored | NullForgotten => RESETS,
        SampleKept => Protocol { samples: true, rolls_back: false, ..RESETS },
        OlderIgnored => RESTARTS,
        CountersLast => SAMPLES,
        _ => WRITERS,
    };
    Protocol { broken: Some(mutation), ..bounds }
}

impl Model for Protocol {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![self.start()]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Action>) {
        self.steps(state, steps);
    }

    fn next_state(&self, state: &State, step: Action) -> Option<State> {
        self.step(state, step)
    }

    fn properties(&self) -> Vec<Property<Protocol>> {
        let mut properties = vec![
            Property::always(NO_SKIP, |_, state: &State| skipped(state).is_none()),
            Property::always(ALL_READ, |protocol: &Protocol, state| protocol.reads_all(state)),
        ];
        if self.broken.is_some() {
            properties.truncate(1);
        }
        properties
    }
}

/// A committed row that a reader has passed without reading it.
pub fn skipped(state: &State) -> Option<Row> {
    state.readers.iter().find_map(|reader| missing(state, reader).find(|row| row.id <= reader.cursor))
}

/// The committed rows that a reader has not read.
fn missing<'a>(state: &'a State, reader: &'a Reader) -> impl Iterator<Item = Row> + 'a {
    let rows = state.rows.iter().enumerate();
    let is_missing = |&(index, row): &(usize, &Row)| {
        let status = state.transactions[usize::from(row.transaction) - 1];
        row.layout == FOLLOWED && status == Status::Committed && reader.read & 1 << index == 0
    };
    rows.filter(is_missing).map(|(_, row)| *row)
}

impl Protocol {
    fn reads_all(&self, state: &State) -> bool {
        let is_quiet = state.writers.iter().all(|writer| *writer == Writer::default())
            && state.readers.iter().all(|reader| reader.statement.is_none())
            && !state.transactions.contains(&Status::Prepared);
        // After a reset, IDs are lower than before, until the clock has caught up.
        let is_caught_up = !state.slots.iter().any(|slot| slot.is_retired);
        !is_quiet
            || !is_caught_up
            || (0..self.readers).all(|reader| {
                let mut state = self.step(state, Action::Begin(reader)).expect("bug: no statement begins");
                for _ in 1..self.parts().len() {
                    state = self.step(&state, Action::Read(reader)).expect("bug: nothing is read");
                }
                let answer = Action::Answer { reader, keeps: false };
                let state = self.step(&state, answer).expect("bug: there is no answer");
                missing(&state, &state.readers[reader]).next().is_none()
            })
    }
}
