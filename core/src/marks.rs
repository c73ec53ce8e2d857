//! [`Marks`]: the lowest IDs that a transaction in progress may have taken.
//!
//! Readers that follow a table in the order of its IDs need the lowest ID that a transaction in progress may still
//! commit. A writer therefore marks the slot of a layout **before** it takes an ID from the slot, and the mark remains
//! until the transaction has ended for all other sessions. [`low_water`](crate::watermark::low_water) reads the marks.
//!
//! The following rules ensure that a reader that finds no mark of a transaction may ignore this transaction:
//!
//! * The reader loads the counter of the slot before the marks. If the counter includes an ID, the load (Acquire) reads
//!   a value written by the exchange (Release) that took the ID, or by a later exchange. Therefore the reader sees the
//!   mark that was set before this exchange, unless the mark was cleared. The exchange orders the mark, so the mark
//!   itself is set with Relaxed.
//! * A mark is cleared (Release) after its transaction has ended. A reader that finds the mark cleared (Acquire) takes
//!   its snapshot afterwards, so the transaction has ended in this snapshot. The same is true if the reader finds the
//!   mark of a later transaction, because a mark is set by atomic exchanges, which continue the release sequence of the
//!   store that cleared the mark.
//!
//! `tests/loom_marks.rs` checks this with up to two preemptions.

use crate::atomic::{AtomicU64, Ordering};
use crate::slot::Slot;

/// The number of slots that a transaction can mark separately. If a transaction takes IDs from more slots, it holds
/// back the watermarks of all slots.
pub const MARKED_SLOTS: usize = 3;

/// The marks of one transaction in progress.
///
/// The leader of a parallel query and its workers share the marks of the leader. The leader clears the marks when the
/// workers have exited. The marks are aligned to 128 bytes, because processors fetch cache lines in pairs.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct Marks {
    /// The marks, which are set from the first to the last.
    marks: [MarkWords; MARKED_SLOTS],
    /// Contains 1 if the transaction may have taken IDs from more than [`MARKED_SLOTS`] slots, and 0 otherwise.
    has_more: AtomicU64,
}

/// One mark.
#[derive(Debug)]
struct MarkWords {
    /// The index of the slot plus one, or [`MarkWords::FREE`].
    slot: AtomicU64,
    /// A word that the slot had before the transaction took its first ID, or [`MarkWords::NOTHING`].
    word: AtomicU64,
}

/// The result of reading a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// The transaction may have taken IDs from the slot with this index, at or after this word.
    Slot {
        /// The index of the slot.
        index: usize,
        /// The lowest word that may contain an ID of the transaction.
        word: u64,
    },
    /// The transaction may have taken IDs from any slot.
    Any,
}

impl Default for MarkWords {
    fn default() -> MarkWords {
        MarkWords { slot: AtomicU64::new(MarkWords::FREE), word: AtomicU64::new(MarkWords::NOTHING) }
    }
}

impl MarkWords {
    const FREE: u64 = 0;
    const NOTHING: u64 = u64::MAX;

    /// Sets the mark if it is free or belongs to the same slot. Returns whether the mark now belongs to the slot.
    ///
    /// Two processes of a parallel query may set the same mark for different slots at once. Only one of them gets the
    /// mark, but both may lower its word. A word that is lower than necessary holds readers back, but is safe.
    fn set(&self, slot: u64, word: u64) -> bool {
        let found = self.slot.load(Ordering::Relaxed);
        if found != MarkWords::FREE && found != slot {
            return false;
        }
        // Only the lowest word counts. Another process of a parallel query may have set a lower one.
        self.word.fetch_min(word, Ordering::Relaxed);
        found == slot
            || match self.slot.compare_exchange(MarkWords::FREE, slot, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => true,
                Err(found) => found == slot,
            }
    }

    fn clear(&self) {
        if self.slot.load(Ordering::Relaxed) != MarkWords::FREE {
            self.slot.store(MarkWords::FREE, Ordering::Release);
            self.word.store(MarkWords::NOTHING, Ordering::Release);
        }
    }

    fn read(&self) -> Option<Mark> {
        let slot = self.slot.load(Ordering::Acquire);
        let word = self.word.load(Ordering::Acquire);
        let index = slot.checked_sub(1)? as usize;
        (word != MarkWords::NOTHING).then_some(Mark::Slot { index, word })
    }
}

impl Marks {
    /// Marks a slot. Must be called before the transaction takes its first ID from the slot. Returns false if the slot
    /// has no mark of its own, because the transaction has marked too many others.
    pub fn set(&self, index: usize, slot: &Slot) -> bool {
        let word = slot.word();
        let is_marked = self.marks.iter().any(|mark| mark.set(index as u64 + 1, word));
        if !is_marked {
            // A reader that finds this value returns no watermark, so the store needs no ordering.
            self.has_more.store(1, Ordering::Relaxed);
        }
        is_marked
    }

    /// Clears the marks. Must be called after the transaction has ended for all other sessions, by the process that
    /// runs the transaction. The parallel workers of the transaction must have exited.
    pub fn clear(&self) {
        self.marks.iter().for_each(MarkWords::clear);
        if self.has_more.load(Ordering::Relaxed) != 0 {
            self.has_more.store(0, Ordering::Release);
        }
    }

    /// Returns whether the transaction has marked no slot.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.marks[0].slot.load(Ordering::Acquire) == MarkWords::FREE
    }

    /// Returns the marks. The reader must already have loaded the counters of the slots.
    pub fn read(&self) -> impl Iterator<Item = Mark> + '_ {
        let any = self.has_more.load(Ordering::Acquire) != 0;
        self.marks.iter().filter_map(MarkWords::read).chain(any.then_some(Mark::Any))
    }

    /// Returns the mark of a slot, which is a word that the slot had before the transaction took its first ID from the
    /// slot.
    pub fn of(&self, index: usize) -> Option<u64> {
        self.read().find_map(|mark| match mark {
            Mark::Slot { index: marked, word } if marked == index => Some(word),
            Mark::Slot { .. } | Mark::Any => None,
        })
    }

    /// Copies the marks of another transaction. Neither transaction may change its marks during the call. The caller
    /// must hold a lock that orders the call before each use of the copy.
    pub fn copy_from(&self, other: &Marks) {
        for (mark, other) in self.marks.iter().zip(&other.marks) {
            mark.word.store(other.word.load(Ordering::Relaxed), Ordering::Relaxed);
            mark.slot.store(other.slot.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        self.has_more.store(other.has_more.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}
