//! The marks of transactions that are in progress or prepared. A mark holds back the watermark of a slot.
//!
//! * Each process that can run transactions has its own [`Marks`]. The process and its parallel workers set the marks,
//!   and the process clears them (see [`snowflake_id_core::marks`]).
//! * A prepared transaction has no process. Therefore, the process that prepares a transaction copies its marks to a
//!   list before it clears them. The list is written under the exclusive lock and read under the shared lock. Readers
//!   ignore entries of transactions that have ended. Such entries are reused later.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, Ordering};

use pgrx::{PGRXSharedMemory, pg_shmem_init};
use snowflake_id_core::marks::Mark;
use snowflake_id_core::{Marks, Slot};

use super::array::SharedArray;
use super::fair_lock::FairLock;
use crate::pg::backend_local::BackendLocal;
use crate::pg::{process, snapshot};

#[derive(Default)]
struct ProcessMarks(Marks);

/// An entry in the list of prepared transactions.
#[derive(Default)]
struct Prepared {
    /// The ID of the transaction.
    transaction: AtomicU64,
    marks: Marks,
}

// SAFETY: the type consists only of atomics.
unsafe impl PGRXSharedMemory for ProcessMarks {}
// SAFETY: as above.
unsafe impl PGRXSharedMemory for Prepared {}

// SAFETY: no other extension uses these names.
static PROCESSES: SharedArray<ProcessMarks> =
    unsafe { SharedArray::new(c"snowflake_id marks", process::max_processes) };
/// The list of prepared transactions. The list has room for the maximum number of prepared transactions, and one more
/// for each process, because each process may be about to prepare a transaction. An unused or reusable entry can
/// therefore always be found.
// SAFETY: as above.
static PREPARED: SharedArray<Prepared> = unsafe {
    SharedArray::new(c"snowflake_id prepared transactions", || {
        process::max_prepared_transactions() + process::max_processes()
    })
};
/// The number of entries that were ever used, and the lock of the list.
// SAFETY: as above.
static PREPARED_COUNT: FairLock<usize> =
    unsafe { FairLock::new(c"snowflake_id prepared", c"snowflake_id prepared entrance") };

/// Requests the shared memory.
pub(super) fn request() {
    pg_shmem_init!(PROCESSES = ());
    pg_shmem_init!(PREPARED = ());
    pg_shmem_init!(PREPARED_COUNT);
}

/// Returns the marks of the current transaction. A parallel worker uses the marks of its leader. Returns `None` if the
/// library is not preloaded.
#[inline]
pub fn own() -> Option<&'static Marks> {
    static OWN: BackendLocal<Cell<Option<&Marks>>> = BackendLocal::new(Cell::new(None));
    if OWN.get().is_none() {
        OWN.set(PROCESSES.get().get(process::index_of_leader()).map(|marks| &marks.0));
    }
    OWN.get()
}

/// The slots for which the current transaction had no mark left. Each slot is stored with a word that it had before the
/// transaction took its first ID from the slot. Before the transaction read this word, it began to hold back the
/// watermarks of all slots.
static OTHERS: BackendLocal<RefCell<Vec<(usize, u64)>>> = BackendLocal::new(RefCell::new(Vec::new()));

/// Marks a slot for the current transaction. Must be called before the transaction takes an ID from the slot.
pub fn set_own(index: usize, slot: &Slot) {
    let marks = own().expect("bug: this process has no marks");
    if !marks.set(index, slot) {
        let mut others = OTHERS.borrow_mut();
        if others.iter().all(|&(other, _)| other != index) {
            others.push((index, slot.word()));
        }
    }
}

/// Returns a word that a slot had before the current transaction took its first ID from the slot.
pub fn own_word(index: usize) -> Option<u64> {
    let other = || OTHERS.borrow().iter().find(|&&(other, _)| other == index).map(|&(_, word)| word);
    own()?.of(index).or_else(other)
}

/// Clears the marks of the current transaction. Must be called after the transaction has ended.
pub fn clear_own() {
    if let Some(marks) = own()
        && !marks.is_empty()
    {
        marks.clear();
        OTHERS.borrow_mut().clear();
    }
}

/// Returns the marks of all processes, in the order of their indexes.
pub fn of_processes() -> impl Iterator<Item = &'static Marks> {
    PROCESSES.get().iter().map(|marks| &marks.0)
}

/// Returns the marks in the list of prepared transactions, with the transaction IDs. Some transactions may have ended.
pub fn of_prepared() -> Vec<(u64, Vec<Mark>)> {
    let count = PREPARED_COUNT.share();
    let used = PREPARED.get().iter().take(*count);
    used.map(|entry| (entry.transaction.load(Ordering::Relaxed), entry.marks.read().collect())).collect()
}

/// Copies the marks of the current transaction, if any, to the list of prepared transactions. Must be called before the
/// transaction is prepared.
pub fn copy_to_prepared() {
    let Some(marks) = own().filter(|marks| !marks.is_empty()) else { return };
    let transaction = snapshot::own_transaction();
    let mut count = PREPARED_COUNT.exclusive();
    let running = snapshot::take();
    let entries = PREPARED.get();
    let has_ended = |entry: &Prepared| !running.is_running(entry.transaction.load(Ordering::Relaxed));
    let reused = entries[..*count].iter().position(has_ended);
    let at = reused.unwrap_or_else(|| {
        *count += 1;
        *count - 1
    });
    let entry = entries.get(at).expect("bug: more transactions are prepared than PostgreSQL allows");
    entry.marks.copy_from(marks);
    entry.transaction.store(transaction, Ordering::Relaxed);
}
