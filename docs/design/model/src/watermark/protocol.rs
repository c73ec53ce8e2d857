//! Every possible step, and the state after it.

use crate::watermark::border;
use crate::watermark::mutation::Mutation;
use crate::watermark::state::*;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Action {
    Mark {
        writer: usize,
        layout: u8,
    },
    Take {
        writer: usize,
        layout: u8,
    },
    /// A commit or a rollback.
    End {
        writer: usize,
        commits: bool,
    },
    /// The marks are copied to the list of prepared transactions.
    Copy(usize),
    /// The transaction is prepared.
    Prepare(usize),
    Clear(usize),
    /// The parallel worker exits.
    Exit,
    /// COMMIT PREPARED or ROLLBACK PREPARED.
    Finish {
        transaction: u8,
        commits: bool,
    },
    /// A fence, and another identity.
    Change {
        worker: u8,
    },
    /// The slots are retired, and IDs begin lower, under another identity.
    Reset {
        worker: u8,
        floor: u8,
    },
    /// The server crashes and starts.
    Restart,
    /// A statement takes its snapshot.
    Begin(usize),
    /// The next part for the watermark is read.
    Read(usize),
    /// The last part is read. The statement gets its answer, and returns rows. The new sample may be kept.
    Answer {
        reader: usize,
        keeps: bool,
    },
}

/// The bounds.
#[derive(Clone, Copy, Debug)]
pub struct Protocol {
    pub writers: usize,
    /// Whether the second writer is a parallel worker of the first.
    pub parallel: bool,
    pub readers: usize,
    pub layouts: u8,
    pub transactions: usize,
    pub rows: usize,
    /// Whether transactions roll back, also those without a row.
    pub rolls_back: bool,
    pub prepares: bool,
    /// Whether samples are kept.
    pub samples: bool,
    pub changes: u8,
    pub resets: u8,
    pub restarts: u8,
    pub names_writers: bool,
    pub broken: Option<Mutation>,
}

impl Protocol {
    pub fn is(&self, mutation: Mutation) -> bool {
        self.broken == Some(mutation)
    }

    /// Whether a transaction commits.
    pub fn ends(&self) -> impl Iterator<Item = bool> + use<> {
        [true, false].into_iter().take(if self.rolls_back { 2 } else { 1 })
    }

    pub fn start(&self) -> State {
        State {
            slots: Vec::new(),
            worker: 2,
            used: 1 << 2,
            floor: 0,
            rows: Vec::new(),
            transactions: Vec::new(),
            writers: vec![Writer::default(); self.writers],
            prepared: Vec::new(),
            next_at_start: 1,
            first: 1,
            sample: None,
            readers: vec![Reader::default(); self.readers],
            changes_left: self.changes,
            resets_left: self.resets,
            restarts_left: self.restarts,
        }
    }

    pub fn steps(&self, state: &State, steps: &mut Vec<Action>) {
        self.writer_steps(state, steps);
        self.reader_steps(state, steps);
        for (index, status) in state.transactions.iter().enumerate() {
            if *status == Status::Prepared {
                let transaction = index as u8 + 1;
                steps.extend(self.ends().map(|commits| Action::Finish { transaction, commits }));
            }
        }
        let is_free = !state.is_locked();
        let unused = || (1..=3).filter(|worker| state.used & 1 << worker == 0);
        if state.changes_left > 0 && is_free {
            steps.extend(unused().map(|worker| Action::Change { worker }));
        }
        if state.resets_left > 0 && is_free {
            // Above the IDs of the first tick, or below all IDs.
            for floor in [0, border::next_whole_tick(0)] {
                steps.extend(unused().map(|worker| Action::Reset { worker, floor }));
            }
        }
        if state.restarts_left > 0 {
            steps.push(Action::Restart);
        }
    }

    /// Returns `None` if the step changes nothing.
    pub fn step(&self, before: &State, action: Action) -> Option<State> {
        let mut state = before.clone();
        match action {
            Action::Mark { writer, layout } => self.mark(&mut state, writer, layout),
            Action::Take { writer, layout } => self.take(&mut state, writer, layout),
            Action::End { writer, commits } => self.end(&mut state, writer, commits),
            Action::Copy(writer) => self.copy(&mut state, writer),
            Action::Prepare(writer) => {
                let transaction = state.writers[writer].transaction?;
                *state.status(transaction) = Status::Prepared;
                state.writers[writer].stage = Stage::Ended;
            }
            Action::Clear(writer) => self.clear(&mut state, writer),
            Action::Exit => {
                let worker = &mut state.writers[1];
                worker.marked = None;
                worker.line.clear(); // Empty, unless this part is broken.
            }
            Action::Finish { transaction, commits } => *state.status(transaction) = ended(commits),
            Action::Change { worker } => {
                state.changes_left -= 1;
                change_worker(&mut state, worker);
                for slot in state.slots.iter_mut().filter(|slot| !slot.is_retired) {
                    slot.counter = border::next_whole_tick(slot.counter).max(slot.counter + 1);
                    slot.identity_from = slot.counter;
                }
            }
            Action::Reset { worker, floor } => self.reset(&mut state, worker, floor),
            Action::Restart => self.restart(&mut state),
            Action::Begin(reader) => {
                let from = self.identity_from(&state).filter(|_| self.is(Mutation::FromEarly));
                let snapshot = state.snapshot();
                let reader = &mut state.readers[reader];
                reader.statement = Some(Statement { snapshot, position: reader.cursor, seen: None, from });
            }
            Action::Read(reader) => self.read(&mut state, reader),
            Action::Answer { reader, keeps } => self.answer(&mut state, reader, keeps),
        }
        self.normalize(&mut state);
        (state != *before).then_some(state)
    }

    /// Merges states that differ only in the order of the writers. While a reader reads the marks, it distinguishes them.
    fn normalize(&self, state: &mut State) {
        if !self.names_writers && !self.parallel && !state.is_locked() {
            state.writers.sort_unstable();
        }
    }

    /// IDs begin lower. A reader starts again from the beginning, but does not return the rows that it has read.
    fn reset(&self, state: &mut State, worker: u8, floor: u8) {
        state.resets_left -= 1;
        change_worker(state, worker);
        state.slots.iter_mut().for_each(|slot| slot.is_retired = true);
        state.floor = floor;
        if !self.is(Mutation::SampleKept) {
            state.sample = None;
        }
        for reader in &mut state.readers {
            reader.cursor = 0;
            reader.statement = None;
        }
    }

    fn restart(&self, state: &mut State) {
        state.restarts_left -= 1;
        let counters = state.slots.iter().map(|slot| border::next_whole_tick(slot.counter));
        state.floor = counters.fold(state.floor, u8::max);
        state.slots.clear();
        for status in state.transactions.iter_mut().filter(|status| **status == Status::Running) {
            *status = Status::RolledBack;
        }
        state.writers.fill(Writer::default());
        state.prepared.clear();
        state.sample = None;
        state.next_at_start = state.transactions.len() as u8 + 1;
        state.first = if self.is(Mutation::OlderIgnored) { 0 } else { state.next_at_start };
        state.readers.iter_mut().for_each(|reader| reader.statement = None);
    }
}

fn change_worker(state: &mut State, worker: u8) {
    state.worker = worker;
    state.used |= 1 << worker;
}

pub fn ended(commits: bool) -> Status {
    if commits { Status::Committed } else { Status::RolledBack }
}
