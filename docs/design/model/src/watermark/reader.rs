//! The steps of readers.

use snowflake_id_core::watermark::Snapshot;

use crate::watermark::border;
use crate::watermark::mutation::Mutation;
use crate::watermark::protocol::{Action, Protocol};
use crate::watermark::state::*;

/// What a reader reads for the watermark, in one step each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Counters,
    Line(usize),
    List,
    Snapshot,
}

impl Protocol {
    /// The parts in the order in which they are read.
    pub fn parts(&self) -> Vec<Part> {
        let lines = || (0..self.writers).map(Part::Line);
        // Only some bounds have prepared transactions.
        let list = self.prepares.then_some(Part::List);
        let mut parts: Vec<_> = [Part::Counters].into_iter().chain(lines()).chain(list).collect();
        parts.push(Part::Snapshot);
        let last = parts.len() - 1;
        match self.broken {
            Some(Mutation::ListFirst) => parts[1..last].rotate_right(1),
            Some(Mutation::SnapshotFirst) => parts[1..].rotate_right(1),
            Some(Mutation::SnapshotBeforeList) => parts[last - 1..].rotate_right(1),
            Some(Mutation::CountersLast) => parts[..last].rotate_left(1),
            _ => {}
        }
        parts
    }

    pub fn reader_steps(&self, state: &State, steps: &mut Vec<Action>) {
        let last = self.parts().len() - 1;
        for (at, reader) in state.readers.iter().enumerate() {
            match &reader.statement {
                // Without rows, a statement can only keep a sample. One reader is enough for this purpose.
                None if self.samples && at == 0
                    || self.visible(state, &state.snapshot(), reader.cursor).len() > 0 =>
                {
                    steps.push(Action::Begin(at));
                }
                None => {}
                Some(statement) => match statement.seen.as_ref().map_or(0, |seen| seen.parts as usize) {
                    parts if parts == last => {
                        steps.push(Action::Answer { reader: at, keeps: false });
                        if self.samples {
                            steps.push(Action::Answer { reader: at, keeps: true });
                        }
                    }
                    _ => steps.push(Action::Read(at)),
                },
            }
        }
    }

    pub fn read(&self, state: &mut State, at: usize) {
        let statement = state.readers[at].statement.as_mut().expect("bug: no statement");
        let mut seen = statement.seen.take().unwrap_or_default();
        match self.parts()[usize::from(seen.parts)] {
            Part::Counters => {
                let counter = |slot: &SlotState| (!slot.is_retired).then_some(slot.counter);
                seen.counters = state.slots.iter().map(counter).collect();
            }
            Part::Line(writer) => seen.lines.push(state.writers[writer].line.clone()),
            Part::List => seen.prepared = state.prepared.clone(),
            Part::Snapshot => seen.snapshot = state.snapshot(),
        }
        seen.parts += 1;
        let statement = state.readers[at].statement.as_mut().expect("bug: no statement");
        statement.seen = Some(seen);
    }

    /// Reads the last part. The statement then returns the rows below the watermark. All of its rows get the same
    /// answer.
    pub fn answer(&self, state: &mut State, at: usize, keeps: bool) {
        self.read(state, at);
        let statement = state.readers[at].statement.take().expect("bug: no statement");
        let seen = statement.seen.as_ref().expect("bug: nothing was read");
        let fresh = self.low_water(state, seen);
        let answer = self.watermark(state, fresh.as_ref(), &statement);
        if keeps && fresh.is_some() {
            state.sample = fresh;
        }
        let is_asked_again = match answer {
            Some(_) => self.is(Mutation::AnswerForgotten),
            None => self.is(Mutation::NullForgotten),
        };
        let mut rows = self.visible(state, &statement.snapshot, statement.position);
        while let Some((id, bit)) = rows.next() {
            let reader = &mut state.readers[at];
            if answer.is_some_and(|watermark| id < watermark) {
                reader.cursor = id;
                reader.read |= bit;
            }
            if is_asked_again {
                if rows.len() > 0 {
                    let (snapshot, from) = (statement.snapshot, statement.from);
                    reader.statement = Some(Statement { snapshot, position: id, seen: None, from });
                }
                return;
            }
        }
    }

    fn low_water(&self, state: &State, seen: &Seen) -> Option<Sample> {
        let mut seen = seen.clone();
        if self.is(Mutation::RetiredIgnored) {
            let counters = &seen.counters;
            let is_in_use = |&(slot, _): &(u8, u8)| counters[usize::from(slot)].is_some();
            seen.lines.iter_mut().for_each(|line| line.0.retain(is_in_use));
        }
        seen.low_water(state.first)
    }

    fn watermark(&self, state: &State, fresh: Option<&Sample>, statement: &Statement) -> Option<u8> {
        let asking = &statement.snapshot;
        let holds = |sample: &&Sample| {
            self.is(Mutation::Uncovered)
                || self.is(Mutation::CoveredByXmax) && asking.xmax >= sample.snapshot.xmax
                || sample.snapshot.is_covered_by(asking)
        };
        let sample = fresh.filter(holds).or(state.sample.as_ref().filter(holds))?;
        Some(match state.slot_of(FOLLOWED) {
            Some(slot) => {
                let counter = (*sample.low.get(slot)?)?;
                let from = statement.from.or_else(|| self.identity_from(state))?;
                border::watermark(counter, Some((state.worker, from)))
            }
            None => border::watermark(state.floor, None),
        })
    }

    /// The first counter of the identity, in the slot of the layout that is followed.
    pub fn identity_from(&self, state: &State) -> Option<u8> {
        let slot = state.slots[state.slot_of(FOLLOWED)?];
        Some(if self.is(Mutation::IdentityAlways) { 0 } else { slot.identity_from })
    }

    /// The rows that a statement sees above a position, in the order of their IDs, with their bits.
    fn visible(
        &self,
        state: &State,
        snapshot: &Snapshot,
        position: u8,
    ) -> impl ExactSizeIterator<Item = (u8, u16)> + use<> {
        let mut rows: Vec<_> = state.rows.iter().enumerate().collect();
        rows.retain(|(_, row)| {
            let status = state.transactions[usize::from(row.transaction) - 1];
            let is_visible = status == Status::Committed && !snapshot.is_running(row.transaction.into());
            row.layout == FOLLOWED && row.id > position && is_visible
        });
        let mut rows: Vec<_> = rows.into_iter().map(|(index, row)| (row.id, 1 << index)).collect();
        rows.sort_unstable();
        rows.into_iter()
    }
}
