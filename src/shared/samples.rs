//! Samples of the watermarks, for statements that began before the current watermarks were valid (see
//! [`snowflake_id_core::samples`]).
//!
//! The samples are written under the exclusive lock and read under the shared lock. A process may take this lock while
//! it holds the lock of the directory.

use std::sync::atomic::{AtomicU64, Ordering};

use pgrx::{PGRXSharedMemory, PgLwLock, pg_shmem_init};
use snowflake_id_core::clocks::SinceBoot;
use snowflake_id_core::samples::{SAMPLES, to_replace};
use snowflake_id_core::watermark::{LowWater, Snapshot};

use super::array::SharedArray;
use super::slot_table::MAX_SLOTS;
use crate::pg::process;

/// The times of the samples. Time 0 means that the sample does not exist.
#[derive(Clone, Copy, Default)]
struct Times([SinceBoot; SAMPLES]);

// SAFETY: the type contains plain values without pointers, and the LWLock orders all accesses to them.
unsafe impl PGRXSharedMemory for Times {}

// SAFETY: no other extension uses these names.
static TIMES: PgLwLock<Times> = unsafe { PgLwLock::new(c"snowflake_id samples") };
/// For each sample: the snapshot's `xmax`, the number of running transactions, the watermark of each slot, and the IDs
/// of the running transactions.
// SAFETY: as above.
static WORDS: SharedArray<AtomicU64> =
    unsafe { SharedArray::new(c"snowflake_id sample words", || SAMPLES * words_of_sample()) };

const XMAX: usize = 0;
const COUNT: usize = 1;
const LOW: usize = 2;
const RUNNING: usize = LOW + MAX_SLOTS;

/// Stands for the watermark of a slot that was not in use. No slot contains this word.
const NONE: u64 = u64::MAX;

/// Returns the number of words in a sample. PostgreSQL's list of running transactions has room for each process and
/// each prepared transaction. The transaction that takes the snapshot is added to this list.
fn words_of_sample() -> usize {
    RUNNING + process::max_processes() + process::max_prepared_transactions() + 1
}

/// Requests the shared memory.
pub(super) fn request() {
    pg_shmem_init!(TIMES);
    pg_shmem_init!(WORDS = ());
}

/// Returns the watermarks in the newest sample that is valid for a statement with this snapshot, indexed by slot.
pub fn find(statement: &Snapshot) -> Option<Vec<Option<u64>>> {
    let times = TIMES.share();
    let mut by_age: Vec<_> = times.0.into_iter().zip(WORDS.get().chunks(words_of_sample())).collect();
    by_age.retain(|(time, _)| *time > SinceBoot::default());
    by_age.sort_unstable_by_key(|(time, _)| std::cmp::Reverse(*time));
    by_age.iter().find_map(|(_, sample)| {
        let word = |at: usize| sample[at].load(Ordering::Relaxed);
        let running = (0..word(COUNT) as usize).map(|at| word(RUNNING + at)).collect();
        let snapshot = Snapshot { xmax: word(XMAX), running };
        let low = |index: usize| Some(word(LOW + index)).filter(|&word| word != NONE);
        snapshot.is_covered_by(statement).then(|| (0..MAX_SLOTS).map(low).collect())
    })
}

/// Keeps a sample that was taken at the time `now`, unless the newest kept sample is almost as new.
pub fn keep(low: &[Option<LowWater>], snapshot: &Snapshot, now: SinceBoot) {
    let mut times = TIMES.exclusive();
    let Some(at) = to_replace(&times.0, now) else { return };
    let stride = words_of_sample();
    let sample = &WORDS.get()[at * stride..][..stride];
    let set = |at: usize, word: u64| sample[at].store(word, Ordering::Relaxed);
    set(XMAX, snapshot.xmax);
    set(COUNT, snapshot.running.len() as u64);
    for index in 0..MAX_SLOTS {
        set(LOW + index, low.get(index).copied().flatten().map_or(NONE, |low| low.word));
    }
    snapshot.running.iter().enumerate().for_each(|(index, &transaction)| set(RUNNING + index, transaction));
    times.0[at] = now;
}

/// Forgets all samples, because a reset retires all slots.
pub(super) fn clear() {
    *TIMES.exclusive() = Times::default();
}
