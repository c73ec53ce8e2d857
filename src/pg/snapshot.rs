//! Snapshots: which transactions a statement sees.

use std::cell::UnsafeCell;
use std::slice;

use pgrx::pg_sys;
use snowflake_id_core::watermark::Snapshot;

use super::backend_local::BackendLocal;

/// The snapshot of the current statement, as PostgreSQL stores it.
pub struct StatementSnapshot<'a> {
    /// All transactions with a lower ID had ended when the snapshot was taken.
    pub xmin: pg_sys::TransactionId,
    pub xmax: pg_sys::TransactionId,
    /// The transactions that were in progress.
    pub running: &'a [pg_sys::TransactionId],
}

/// The memory in which PostgreSQL stores the snapshots that [`take`] requests. PostgreSQL allocates the arrays for the
/// first snapshot, and then reuses them.
static TAKEN: BackendLocal<UnsafeCell<pg_sys::SnapshotData>> =
    // SAFETY: zeros are valid for all fields, and mean that no arrays are allocated.
    BackendLocal::new(UnsafeCell::new(unsafe { std::mem::zeroed() }));

/// Calls the closure `action` with the snapshot of the current statement. Returns `None` if the snapshot is not an MVCC
/// snapshot, or was taken during recovery.
pub fn of_statement<T>(action: impl FnOnce(&StatementSnapshot) -> T) -> Option<T> {
    // SAFETY: reads the active snapshot of this process. The snapshot stays active until the statement ends, and the
    // closure cannot keep the reference for longer. No code of this extension pops the snapshot.
    let snapshot = unsafe {
        if !pg_sys::ActiveSnapshotSet() {
            return None;
        }
        pg_sys::GetActiveSnapshot().as_ref()?
    };
    let is_mvcc = snapshot.snapshot_type == pg_sys::SnapshotType::SNAPSHOT_MVCC;
    if !is_mvcc || snapshot.takenDuringRecovery {
        return None;
    }
    // SAFETY: PostgreSQL has filled the snapshot.
    let running = unsafe { running(snapshot) };
    Some(action(&StatementSnapshot { xmin: snapshot.xmin, xmax: snapshot.xmax, running }))
}

/// Takes a snapshot of the transactions that are now in progress, including the current transaction. During recovery,
/// no such snapshot exists. The caller must already have a snapshot, or be about to end its transaction.
pub fn take() -> Snapshot {
    // SAFETY: takes a snapshot into memory that only this function uses. PostgreSQL's own function for this purpose
    // cannot be used while a parallel query runs.
    let taken = unsafe { pg_sys::GetSnapshotData(TAKEN.get()).as_ref() }
        .expect("bug: GetSnapshotData returns its argument");
    // SAFETY: PostgreSQL has filled the array.
    let mut snapshot = widened(taken.xmax, unsafe { running(taken) });
    // SAFETY: reads a variable of this process.
    let own = unsafe { pg_sys::GetTopTransactionIdIfAny() };
    if own != pg_sys::InvalidTransactionId {
        snapshot.running.push(widen(next(), own));
        snapshot.running.sort_unstable();
    }
    snapshot
}

impl StatementSnapshot<'_> {
    /// Returns the snapshot with transaction IDs of 64 bits.
    pub fn widened(&self) -> Snapshot {
        widened(self.xmax, self.running)
    }
}

/// # Safety
/// PostgreSQL has filled the snapshot.
unsafe fn running(snapshot: &pg_sys::SnapshotData) -> &[pg_sys::TransactionId] {
    match snapshot.xcnt {
        0 => &[],
        // SAFETY: by this function's contract.
        count => unsafe { slice::from_raw_parts(snapshot.xip, count as usize) },
    }
}

fn widened(xmax: pg_sys::TransactionId, running: &[pg_sys::TransactionId]) -> Snapshot {
    let next = next();
    let mut running: Vec<_> = running.iter().map(|&transaction| widen(next, transaction)).collect();
    running.sort_unstable();
    Snapshot { xmax: widen(next, xmax), running }
}

/// Returns the 64-bit ID of the next transaction.
pub fn next() -> u64 {
    // SAFETY: reads shared memory that exists in every process.
    unsafe { pg_sys::ReadNextFullTransactionId().value }
}

/// Returns the 64-bit form of a recent transaction ID. Each ID in use precedes the next ID by less than 2^31.
fn widen(next: u64, transaction: pg_sys::TransactionId) -> u64 {
    next - u64::from((next as u32).wrapping_sub(transaction.into_inner()))
}

/// Returns the 64-bit ID of the current transaction. Assigns an ID if the transaction has none.
pub fn own_transaction() -> u64 {
    // SAFETY: called in a transaction that may write.
    unsafe { pg_sys::GetTopFullTransactionId().value }
}

/// Returns whether a snapshot with this xmin may still be in use by this process.
pub fn may_be_in_use(xmin: pg_sys::TransactionId) -> bool {
    // SAFETY: reads this process's entry in shared memory. Only this process writes the field.
    let oldest = unsafe { (*pg_sys::MyProc).xmin };
    // SAFETY: compares two numbers.
    oldest == pg_sys::InvalidTransactionId || !unsafe { pg_sys::TransactionIdPrecedes(xmin, oldest) }
}
