//! The steps of processes that take IDs.

use crate::watermark::border;
use crate::watermark::mutation::Mutation;
use crate::watermark::protocol::{Action, Protocol, ended};
use crate::watermark::state::*;

/// The process whose line is used, and which runs the transaction, if the second process is a parallel worker.
const LEADER: usize = 0;
const WORKER: usize = 1;

impl Protocol {
    fn is_worker(&self, at: usize) -> bool {
        self.parallel && at == WORKER
    }

    /// The process that runs the transaction.
    fn leader_of(&self, at: usize) -> usize {
        if self.is_worker(at) { LEADER } else { at }
    }

    pub fn writer_steps(&self, state: &State, steps: &mut Vec<Action>) {
        for (at, writer) in state.writers.iter().enumerate() {
            let leader = &state.writers[self.leader_of(at)];
            if leader.stage == Stage::InProgress && state.rows.len() < self.rows {
                let layouts = 0..self.layouts;
                let marks = layouts.clone().filter(|&layout| self.may_mark(state, at, layout));
                steps.extend(marks.map(|layout| Action::Mark { writer: at, layout }));
                let takes = layouts.filter(|&layout| self.may_take(state, at, layout));
                steps.extend(takes.map(|layout| Action::Take { writer: at, layout }));
            }
            if self.is_worker(at) {
                if writer.marked.is_some() {
                    steps.push(Action::Exit);
                }
                continue;
            }
            let is_unmarked = self.is(Mutation::MarkAfter) && writer.marked.is_none();
            if self.parallel && at == LEADER && state.writers[WORKER].marked.is_some() || is_unmarked {
                continue; // The leader waits for its worker.
            }
            let end = |commits| Action::End { writer: at, commits };
            let ends = self.ends().map(end);
            let has_rows = writer.transaction.is_some();
            match writer.stage {
                Stage::InProgress if self.is(Mutation::ClearFirst) && has_rows => {
                    steps.push(Action::Clear(at))
                }
                Stage::InProgress if has_rows => {
                    steps.extend(ends);
                    if self.prepares {
                        steps.push(Action::Copy(at));
                    }
                }
                Stage::InProgress if self.rolls_back && writer.marked.is_some() => steps.push(end(false)),
                Stage::InProgress => {}
                Stage::Copied => steps.extend([end(false), Action::Prepare(at)]),
                Stage::Ended => steps.push(Action::Clear(at)),
                Stage::Cleared => steps.extend(ends),
            }
        }
    }

    fn may_mark(&self, state: &State, at: usize, layout: u8) -> bool {
        let writer = &state.writers[at];
        let slot = state.slot_of(layout);
        let is_marked = match self.is(Mutation::MarkedAtAll) {
            true => writer.marked.is_some() && slot.is_some(),
            false => writer.marked.is_some() && writer.marked == slot.map(|slot| slot as u8),
        };
        let has_taken = writer.transaction.is_some() || !self.is(Mutation::MarkAfter) || slot.is_none();
        // Another slot is assigned under the exclusive lock.
        !is_marked && has_taken && (slot.is_some() || !state.is_locked())
    }

    fn may_take(&self, state: &State, at: usize, layout: u8) -> bool {
        let Some(slot) = state.slot_of(layout) else { return false };
        let writer = &state.writers[at];
        let has_transaction = state.writers[self.leader_of(at)].transaction.is_some();
        let is_marked = writer.marked == Some(slot as u8)
            || self.is(Mutation::MarkedAtAll) && writer.marked.is_some()
            || self.is(Mutation::MarkAfter) && writer.marked.is_none() && !has_transaction;
        is_marked && (has_transaction || state.transactions.len() < self.transactions)
    }

    pub fn mark(&self, state: &mut State, at: usize, layout: u8) {
        let slot = state.slot_of(layout).unwrap_or_else(|| {
            let (counter, identity_from) = (state.floor, state.floor);
            state.slots.push(SlotState { layout, counter, identity_from, is_retired: false });
            state.slots.len() - 1
        });
        let counter = state.slots[slot].counter;
        let line_of = if self.is(Mutation::WorkerLine) { at } else { self.leader_of(at) };
        let line = &mut state.writers[line_of].line;
        let slot = slot as u8;
        line.set(slot, counter);
        if self.is(Mutation::PlainStore) {
            line.0.iter_mut().filter(|mark| mark.0 == slot).for_each(|mark| mark.1 = counter);
        }
        state.writers[at].marked = Some(slot);
    }

    /// Takes an ID by one exchange, and inserts a row with it.
    pub fn take(&self, state: &mut State, at: usize, layout: u8) {
        let slot = state.slot_of(layout).expect("bug: the layout has no slot");
        let leader = self.leader_of(at);
        let transaction = *state.writers[leader].transaction.get_or_insert_with(|| {
            state.transactions.push(Status::Running);
            state.transactions.len() as u8
        });
        let counter = &mut state.slots[slot].counter;
        let id = border::id(*counter, state.worker);
        *counter += 1;
        state.rows.push(Row { layout, id, transaction });
    }

    pub fn end(&self, state: &mut State, at: usize, commits: bool) {
        if let Some(transaction) = state.writers[at].transaction {
            *state.status(transaction) = ended(commits);
        }
        match state.writers[at].stage {
            Stage::Cleared => state.writers[at] = Writer::default(),
            _ => state.writers[at].stage = Stage::Ended,
        }
    }

    pub fn clear(&self, state: &mut State, at: usize) {
        let writer = &mut state.writers[at];
        writer.line.clear();
        match writer.stage {
            Stage::InProgress => writer.stage = Stage::Cleared,
            _ => *writer = Writer::default(),
        }
    }

    /// The place of a transaction that has ended is used again.
    pub fn copy(&self, state: &mut State, at: usize) {
        let writer = &mut state.writers[at];
        writer.stage = Stage::Copied;
        let transaction = writer.transaction.expect("bug: there is no transaction");
        let entry = Entry { transaction, line: writer.line.copy() };
        let snapshot = state.snapshot();
        let is_free =
            |entry: &Entry| self.is(Mutation::PlaceReused) || !snapshot.is_running(entry.transaction.into());
        let free = state.prepared.iter().position(is_free);
        if self.is(Mutation::PreparedForgotten) {
            return;
        }
        match free {
            Some(place) => state.prepared[place] = entry,
            None => state.prepared.push(entry),
        }
    }
}
