//! Interleavings of transactions that mark slots and of a reader that computes the watermarks, checked by loom. Built only
//! with `--cfg loom`. `docs/design/watermark.md` lists changes that make these tests fail.
//!
//! In place of PostgreSQL's list of running transactions there is one atomic word, which gives no ordering at all.
//! PostgreSQL protects its list by a lock. The watermark does not rely on this lock.
#![cfg(loom)]

use std::num::NonZeroU64;

use loom::sync::atomic::{AtomicU64, Ordering};
use loom::sync::{Arc, Mutex};
use loom::thread;
use snowflake_id_core::marks::Mark;
use snowflake_id_core::watermark::{Blocked, Holder, Snapshot, low_water};
use snowflake_id_core::{Gate, Generator, Identity, Layout, Marks, Slot};

/// The maximum number of times that a thread is interrupted. All interleavings would take hours.
const PREEMPTIONS: usize = 2;

const IDENTITY: Identity = Identity { datacenter: 0, worker: 1 };

/// The ID of a transaction. The transactions of a test are numbered from 1.
type Transaction = u64;

/// A server with some slots, in which one process takes IDs. The process may have a parallel worker.
struct Server {
    gate: Gate,
    slots: Vec<Slot>,
    marks: Marks,
    /// The transactions that have ended, as bits.
    ended: AtomicU64,
    /// The prepared transactions. An entry of a transaction that has ended is reused.
    prepared: Mutex<Vec<(Transaction, Marks)>>,
    transactions: Transaction,
}

/// An ID that was taken.
#[derive(Clone, Copy)]
struct Taken {
    transaction: Transaction,
    slot: usize,
    counter: u64,
}

fn server(slots: usize, transactions: Transaction) -> Arc<Server> {
    let gate = Gate::default();
    gate.open(IDENTITY);
    Arc::new(Server {
        gate,
        slots: (0..slots).map(|_| Slot::new(4, u64::MAX)).collect(),
        marks: Marks::default(),
        ended: AtomicU64::new(0),
        prepared: Mutex::new(Vec::new()),
        transactions,
    })
}

fn layout() -> Layout {
    "time:40 worker:2 sequence:2 epoch=1970-01-01T00:00:00Z".parse().unwrap()
}

impl Server {
    /// Marks a slot, and takes an ID from the slot.
    fn take(&self, transaction: Transaction, slot: usize) -> Taken {
        self.marks.set(slot, &self.slots[slot]);
        let generator = Generator::new(layout(), IDENTITY, 1_000_000, 0).unwrap();
        let reservation =
            self.slots[slot].reserve(&self.gate, &generator, || 1_000, NonZeroU64::MIN).unwrap();
        let parts = layout().unpack(generator.first_id(reservation)).unwrap();
        Taken { transaction, slot, counter: parts.tick << 2 | parts.sequence }
    }

    /// Ends a transaction for all other sessions, as a commit or a rollback does.
    fn end(&self, transaction: Transaction) {
        self.ended.fetch_or(1 << transaction, Ordering::Relaxed);
    }

    /// Ends a transaction, and clears its marks.
    fn commit(&self, transaction: Transaction) {
        self.end(transaction);
        self.marks.clear();
    }

    /// Copies the marks to the list, and clears the marks. The transaction remains in progress.
    fn prepare(&self, transaction: Transaction) {
        let mut prepared = self.prepared.lock().unwrap();
        let running = self.snapshot();
        let at = prepared.iter().position(|(transaction, _)| !running.is_running(*transaction));
        let at = at.unwrap_or_else(|| {
            prepared.push(Default::default());
            prepared.len() - 1
        });
        prepared[at].1.copy_from(&self.marks);
        prepared[at].0 = transaction;
        drop(prepared);
        self.marks.clear();
    }

    fn snapshot(&self) -> Snapshot {
        let ended = self.ended.load(Ordering::Relaxed);
        let running = (1..=self.transactions).filter(|transaction| ended & 1 << transaction == 0);
        Snapshot { xmax: self.transactions + 1, running: running.collect() }
    }

    /// Computes the watermarks, as a reader does.
    fn low_water(&self) -> Result<(Vec<u64>, Snapshot), Blocked> {
        let prepared = || {
            let entries = self.prepared.lock().unwrap();
            let marks = |(transaction, marks): &(Transaction, Marks)| (*transaction, marks.read().collect());
            entries.iter().map(marks).collect::<Vec<(Transaction, Vec<Mark>)>>()
        };
        let slots = self.slots.iter().map(Some);
        let (low, snapshot) = low_water(slots, [&self.marks], prepared, || self.snapshot(), 1)?;
        Ok((low.into_iter().map(|low| low.unwrap().word).collect(), snapshot))
    }
}

/// Runs transactions in a thread while this thread computes the watermarks. Each ID below the watermark of its slot must
/// belong to a transaction that has ended in the snapshot.
fn check(
    slots: usize,
    transactions: Transaction,
    run: impl Fn(&Arc<Server>) -> Vec<Taken> + Send + Sync + Copy + 'static,
) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(PREEMPTIONS);
    model.check(move || {
        let server = server(slots, transactions);
        let other = {
            let server = server.clone();
            thread::spawn(move || run(&server))
        };
        let known = server.low_water();
        let taken = other.join().unwrap();
        if let Ok((low, snapshot)) = known {
            assert_covered(&taken, &low, &snapshot);
        }
    });
}

fn assert_covered(taken: &[Taken], low: &[u64], snapshot: &Snapshot) {
    for Taken { transaction, slot, counter } in taken {
        let has_ended = !snapshot.is_running(*transaction);
        assert!(*counter >= low[*slot] || has_ended, "transaction {transaction} is below the watermark");
    }
}

#[test]
fn two_transactions_of_a_process() {
    check(1, 2, |server| {
        let first = server.take(1, 0);
        server.commit(1);
        let second = server.take(2, 0);
        server.commit(2);
        vec![first, second]
    });
}

/// The second transaction uses the mark of the first for another slot.
#[test]
fn two_transactions_of_a_process_with_different_slots() {
    check(2, 2, |server| {
        let first = server.take(1, 0);
        server.commit(1);
        let second = server.take(2, 1);
        server.commit(2);
        vec![first, second]
    });
}

#[test]
fn a_transaction_that_takes_ids_from_two_slots() {
    check(2, 1, |server| {
        let taken = vec![server.take(1, 1), server.take(1, 0)];
        server.commit(1);
        taken
    });
}

/// Takes IDs in a parallel worker, and in its leader at the same time.
fn in_parallel(server: &Arc<Server>, leader: &[usize], worker: &'static [usize]) -> Vec<Taken> {
    let other = {
        let server = server.clone();
        thread::spawn(move || worker.iter().map(|slot| server.take(1, *slot)).collect::<Vec<_>>())
    };
    let mut taken: Vec<_> = leader.iter().map(|slot| server.take(1, *slot)).collect();
    taken.extend(other.join().unwrap());
    server.commit(1);
    taken
}

#[test]
fn a_leader_and_its_worker_with_the_same_slot() {
    check(1, 1, |server| in_parallel(server, &[0], &[0]));
}

#[test]
fn a_leader_and_its_worker_with_different_slots() {
    check(2, 1, |server| in_parallel(server, &[0], &[1]));
}

/// A transaction that takes IDs from more slots than it can mark.
#[test]
fn more_slots_than_marks() {
    check(4, 1, |server| {
        let taken = (0..4).map(|slot| server.take(1, slot)).collect();
        server.commit(1);
        taken
    });
}

#[test]
fn a_prepared_transaction() {
    check(1, 1, |server| {
        let taken = server.take(1, 0);
        server.prepare(1);
        server.end(1);
        vec![taken]
    });
}

/// The transaction has taken its ID before. It moves from the marks of its process to the list, while the first
/// transaction is still in the list.
#[test]
fn a_transaction_that_is_being_prepared() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(PREEMPTIONS);
    model.check(|| {
        let server = server(2, 2);
        let mut taken = vec![server.take(1, 0)];
        server.prepare(1);
        taken.push(server.take(2, 1));
        let other = {
            let server = server.clone();
            thread::spawn(move || server.prepare(2))
        };
        let (low, snapshot) = server.low_water().unwrap();
        other.join().unwrap();
        assert_covered(&taken, &low, &snapshot);
    });
}

/// The second transaction uses the place of the first in the list of prepared transactions, and another slot.
#[test]
fn two_prepared_transactions() {
    check(2, 2, |server| {
        let first = server.take(1, 0);
        server.prepare(1);
        server.end(1);
        let second = server.take(2, 1);
        server.prepare(2);
        assert_eq!(server.prepared.lock().unwrap().len(), 1, "the place was not used again");
        vec![first, second]
    });
}

/// The tests above would pass if a reader never got a watermark, or never a high one.
#[test]
fn the_watermark_is_the_counter_if_no_transaction_is_in_progress() {
    loom::model(|| {
        let server = server(4, 2);
        let taken: Vec<_> = (0..4).map(|slot| server.take(1, slot)).collect();
        assert_eq!(server.low_water(), Err(Blocked::AnyLayout(Holder::Process(0))));
        server.prepare(1);
        assert_eq!(server.low_water(), Err(Blocked::AnyLayout(Holder::Transaction(1))));
        server.end(1);
        let (low, snapshot) = server.low_water().unwrap();
        assert_eq!(low, [5; 4]);
        assert_covered(&taken, &low, &snapshot);
        let held = server.take(2, 1);
        assert_eq!(server.low_water().unwrap().0, [5, held.counter, 5, 5]);
    });
}
