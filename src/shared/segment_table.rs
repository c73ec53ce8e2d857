//! The table of the segments in use on this server, with one slot for each name.
//!
//! A slot consists of two elements at the same index of two arrays: the atomics, from which backends take numbers
//! without a lock, and the record, which contains the segment's name. A hash table maps names to slots. Buckets, chains
//! and records are read under the shared lock and changed under the exclusive lock.
//!
//! The name of an existing segment keeps its slot until the server is restarted. Other slots can be reassigned, for
//! example after a segment was dropped. Backends cache a slot as a [`Place`]. A cached place never yields numbers of
//! the slot's next name.

use std::cell::UnsafeCell;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};

use pgrx::lwlock::{PgLwLockExclusiveGuard, PgLwLockShareGuard};
use pgrx::{PGRXSharedMemory, PgLwLock, pg_shmem_init};
use snowflake_id_core::Segment;
use snowflake_id_core::clocks::SinceBoot;
use snowflake_id_core::segment::{Dry, Standing, Taken};
use snowflake_id_core::segment_answer::SegmentState;

use super::array::SharedArray;
use super::segment_record::Record;
use crate::config;
use crate::error::Error;
use crate::pg::clock;
use crate::pg::random::random_bytes;

/// The time without a waiting call after which a name can lose its slot, if the registry has not answered the request
/// for the name.
const IDLE_AFTER_US: i64 = 10_000_000;

/// The atomics of one segment.
#[derive(Default)]
pub struct Slot {
    pub segment: Segment,
    /// The time of the last wait for numbers, in microseconds since boot. Relaxed: the value only serves to find an
    /// idle slot.
    wanted_at_us: AtomicI64,
    /// The number of calls that have waited. Relaxed: the number is used only for statistics.
    pub calls_waited: AtomicU64,
    /// The count of numbers that were issued under earlier names. Relaxed: used only for statistics.
    issued_before: AtomicU64,
}

/// The slot of a name. The place becomes invalid when the slot is assigned to another name.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The index of the slot.
    pub at: usize,
    tenure: u64,
}

impl Place {
    pub fn slot(self) -> &'static Slot {
        slot(self.at)
    }

    /// Takes numbers from the slot if the slot still belongs to the name. See [`Segment::take_in`].
    #[inline]
    pub fn take(self, slot: &Slot, clock: impl Fn() -> i64, n: NonZeroU64) -> Result<Taken, Dry> {
        slot.segment.take_in(self.tenure, clock, n)
    }

    /// Returns whether the slot still belongs to the name.
    pub fn is_current(self) -> bool {
        self.slot().segment.tenure() == self.tenure
    }
}

impl Slot {
    /// Returns whether the last wait for numbers was more than 10 seconds ago.
    fn is_idle(&self) -> bool {
        let wanted_at = SinceBoot::from_us(self.wanted_at_us.load(Ordering::Relaxed));
        clock::since_boot().us_since(wanted_at) > IDLE_AFTER_US
    }

    /// Returns the count of numbers that calls have taken since the slot was assigned to its name.
    pub fn issued(&self, standing: &Standing) -> u64 {
        standing.issued.saturating_sub(self.issued_before.load(Ordering::Relaxed))
    }
}

/// The loss that results from reassigning a slot.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Loss {
    Nothing,
    /// Numbers of a segment that no longer exists.
    Numbers,
}

/// Returns what is lost if the slot is reassigned, or `None` if the slot must not be reassigned.
fn loss(record: &Record, slot: &Slot) -> Option<Loss> {
    let is_empty = || slot.segment.standing().left == 0;
    match record.state {
        _ if record.name().is_empty() => Some(Loss::Nothing),
        SegmentState::Unknown | SegmentState::Dropped if !is_empty() => Some(Loss::Numbers),
        SegmentState::Unknown
        | SegmentState::Dropped
        | SegmentState::Lost
        | SegmentState::Denied
        | SegmentState::Invalid => is_empty().then_some(Loss::Nothing),
        SegmentState::Asked => (slot.is_idle() && is_empty()).then_some(Loss::Nothing),
        _ => None,
    }
}

/// The part of a slot that the lock protects.
#[derive(Default)]
struct Entry {
    record: UnsafeCell<Record>,
    /// The next slot in the chain of the bucket.
    next: Link,
}

/// The index of a slot plus 1, or 0 for the end of a chain. All accesses are Relaxed, because the lock orders them.
#[derive(Default)]
struct Link(AtomicU32);

impl Link {
    fn get(&self) -> Option<usize> {
        (self.0.load(Ordering::Relaxed) as usize).checked_sub(1)
    }

    fn set(&self, at: Option<usize>) {
        self.0.store(at.map_or(0, |at| at as u32 + 1), Ordering::Relaxed);
    }
}

/// The state of the table.
#[derive(Clone, Copy, Default)]
struct Head {
    /// The number of slots that were ever assigned. They are the first slots of the table.
    used: usize,
    /// The index at which the next search for a reassignable slot starts.
    hand: usize,
    /// A random number that users cannot know. Without it, users could choose names with equal hashes.
    key: [u8; 16],
}

// SAFETY: the type consists only of atomics.
unsafe impl PGRXSharedMemory for Slot {}
// SAFETY: the type contains plain values and atomics without pointers. The lock orders all accesses to the record.
unsafe impl PGRXSharedMemory for Entry {}
// SAFETY: see above.
unsafe impl Sync for Entry {}
// SAFETY: the type consists only of atomics.
unsafe impl PGRXSharedMemory for Link {}
// SAFETY: the type contains plain values without pointers, and the LWLock orders all accesses to them.
unsafe impl PGRXSharedMemory for Head {}

// SAFETY: no other extension uses these names.
static HEAD: PgLwLock<Head> = unsafe { PgLwLock::new(c"snowflake_id segments") };
// SAFETY: as above.
static SLOTS: SharedArray<Slot> =
    unsafe { SharedArray::new(c"snowflake_id segment slots", config::max_segments) };
// SAFETY: as above.
static ENTRIES: SharedArray<Entry> =
    unsafe { SharedArray::new(c"snowflake_id segment entries", config::max_segments) };
// SAFETY: as above.
static BUCKETS: SharedArray<Link> =
    unsafe { SharedArray::new(c"snowflake_id segment buckets", config::max_segments) };
/// One bit for each slot. The bit is set if the slot needs the attention of the worker. SeqCst: see
/// [`super::segments::Segments::begin_round`].
// SAFETY: as above.
static WANTED: SharedArray<AtomicU64> =
    unsafe { SharedArray::new(c"snowflake_id segment requests", || config::max_segments().div_ceil(64)) };

/// Requests the shared memory.
pub(super) fn request() {
    pg_shmem_init!(HEAD = Head { key: random_bytes(), ..Head::default() });
    pg_shmem_init!(SLOTS = ());
    pg_shmem_init!(ENTRIES = ());
    pg_shmem_init!(BUCKETS = ());
    pg_shmem_init!(WANTED = ());
}

/// Returns the slot at an index.
pub fn slot(at: usize) -> &'static Slot {
    &SLOTS.get()[at]
}

/// The table under the shared lock.
struct Shared(PgLwLockShareGuard<'static, Head>);

/// The table under the exclusive lock.
struct Exclusive(PgLwLockExclusiveGuard<'static, Head>);

fn share() -> Shared {
    Shared(HEAD.share())
}

fn bucket(key: [u8; 16], name: &str) -> &'static Link {
    let mut hasher = DefaultHasher::new();
    (key, name).hash(&mut hasher);
    let buckets = BUCKETS.get();
    &buckets[hasher.finish() as usize % buckets.len()]
}

impl Shared {
    fn record(&self, at: usize) -> &Record {
        // SAFETY: the shared lock is held as long as this borrow. Only holders of the exclusive lock write a record.
        unsafe { &*ENTRIES.get()[at].record.get() }
    }

    fn find(&self, name: &str) -> Option<usize> {
        let mut at = bucket(self.0.key, name).get();
        while let Some(index) = at.filter(|&index| self.record(index).name() != name) {
            at = ENTRIES.get()[index].next.get();
        }
        at
    }
}

impl Exclusive {
    fn record(&mut self, at: usize) -> &mut Record {
        // SAFETY: the exclusive lock is held as long as this borrow, and this borrow of the guard is unique.
        unsafe { &mut *ENTRIES.get()[at].record.get() }
    }

    /// Returns the link that refers to the slot of this name, or the last link of the chain if the name has no slot.
    fn link_to(&mut self, name: &str) -> &'static Link {
        let mut link = bucket(self.0.key, name);
        while let Some(index) = link.get().filter(|&index| self.record(index).name() != name) {
            link = &ENTRIES.get()[index].next;
        }
        link
    }

    /// Returns the index of a slot for a new name. The function prefers an unused slot, and then a slot without
    /// numbers. The search starts after the slot that was reassigned last.
    fn room(&mut self) -> Option<usize> {
        if self.0.used < ENTRIES.get().len() {
            self.0.used += 1;
            return Some(self.0.used - 1);
        }
        let hand = self.0.hand;
        let mut with_numbers = None;
        let mut without = None;
        for at in (hand..self.0.used).chain(0..hand) {
            match loss(self.record(at), slot(at)) {
                Some(Loss::Nothing) => {
                    without = Some(at);
                    break;
                }
                Some(Loss::Numbers) => with_numbers = with_numbers.or(Some(at)),
                None => {}
            }
        }
        let at = without.or(with_numbers)?;
        self.vacate(at);
        self.0.hand = at + 1;
        Some(at)
    }

    /// Removes the name, if any, from a slot.
    fn vacate(&mut self, at: usize) {
        // `link_to` compares the names in the records, so the record is cleared last.
        let former = *self.record(at);
        if !former.name().is_empty() {
            self.link_to(former.name()).set(ENTRIES.get()[at].next.get());
        }
        *self.record(at) = Record::default();
    }

    /// Begins the next tenure of a slot (its assignment to a name). Numbers that are left are lost. The exclusive lock
    /// keeps out the worker, which publishes ranges under the shared lock.
    fn begin(&mut self, at: usize) {
        let slot = slot(at);
        slot.segment.begin_tenure();
        slot.issued_before.store(slot.segment.standing().issued, Ordering::Relaxed);
        slot.calls_waited.store(0, Ordering::Relaxed);
    }
}

/// Returns the place of a name, and assigns a slot to the name if necessary.
pub fn find_or_assign(name: &str) -> Result<Place, Error> {
    // The tenure cannot change while the lock is held.
    let place = |at: usize| Place { at, tenure: slot(at).segment.tenure() };
    {
        let table = share();
        if let Some(at) = table.find(name) {
            return Ok(place(at));
        }
    }
    let mut table = Exclusive(HEAD.exclusive());
    if let Some(at) = table.link_to(name).get() {
        return Ok(place(at));
    }
    let most = ENTRIES.get().len();
    let full = Error::TooManySegments { most, can_have_more: config::can_have_more_segments() };
    let at = table.room().ok_or(full)?;
    *table.record(at) = Record::of(name);
    table.begin(at);
    slot(at).wanted_at_us.store(clock::since_boot().as_us(), Ordering::Relaxed);
    ENTRIES.get()[at].next.set(None);
    table.link_to(name).set(Some(at));
    Ok(place(at))
}

/// Takes the slot from a name whose segment no longer exists. Numbers that are left are lost.
pub fn release(at: usize, name: &str) {
    let mut table = Exclusive(HEAD.exclusive());
    if table.record(at).name() == name {
        table.vacate(at);
        table.begin(at);
    }
}

/// Returns the number of slots that were ever assigned.
pub fn used() -> usize {
    share().0.used
}

/// Returns the number of slots that cannot be assigned to another name.
pub fn occupied() -> usize {
    let table = share();
    (0..table.0.used).filter(|&at| loss(table.record(at), slot(at)).is_none()).count()
}

/// Returns the name of a slot that cannot be assigned to another name.
pub fn occupant(at: usize) -> Option<String> {
    let table = share();
    let record = table.record(at);
    loss(record, slot(at)).is_none().then(|| record.name().to_owned())
}

/// Returns whether four fifths of the slots cannot be assigned to another name.
pub fn is_nearly_full() -> bool {
    is_near(occupied(), ENTRIES.get().len())
}

/// Returns whether a number has reached four fifths of its maximum.
pub fn is_near(count: usize, most: usize) -> bool {
    count * 5 >= most * 4
}

/// Returns the slot of a name, and the state of its segment.
pub fn state_of(name: &str) -> Option<(usize, SegmentState)> {
    let table = share();
    table.find(name).map(|at| (at, table.record(at).state))
}

/// Returns the record of a slot.
pub fn record(at: usize) -> Record {
    *share().record(at)
}

/// Returns the record of a slot, or `None` if the slot does not belong to this name.
pub fn record_of(at: usize, name: &str) -> Option<Record> {
    Some(record(at)).filter(|record| record.name() == name)
}

/// Changes the record of a slot, unless the slot was reassigned to another name.
pub fn note(at: usize, name: &str, change: impl FnOnce(&mut Record)) {
    let mut table = Exclusive(HEAD.exclusive());
    let record = table.record(at);
    if record.name() == name {
        change(record);
    }
}

/// Calls the closure `action` with the slot at this index if the slot belongs to this name. During the call, the slot
/// cannot be reassigned, because only a process with the exclusive lock can reassign slots.
pub fn with_slot_of<T>(at: usize, name: &str, action: impl FnOnce(&Slot) -> T) -> Option<T> {
    let table = share();
    (table.record(at).name() == name).then(|| action(slot(at)))
}

/// Asks the worker to consider a slot in its next round, because a call waits for numbers.
pub fn want(at: usize) {
    slot(at).wanted_at_us.store(clock::since_boot().as_us(), Ordering::Relaxed);
    need(at);
}

/// Asks the worker to consider a slot in its next round.
pub fn need(at: usize) {
    WANTED.get()[at / 64].fetch_or(1 << (at % 64), Ordering::SeqCst);
}

/// Returns the slots for which `want` or `need` was called since the previous call of this function, in ascending
/// order.
pub fn take_wanted() -> Vec<usize> {
    let mut wanted = vec![];
    for (word, bits) in WANTED.get().iter().enumerate() {
        let mut bits = bits.swap(0, Ordering::SeqCst);
        while bits != 0 {
            wanted.push(word * 64 + bits.trailing_zeros() as usize);
            bits &= bits - 1;
        }
    }
    wanted
}
