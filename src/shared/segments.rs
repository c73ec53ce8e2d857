//! Stores the segments in shared memory, with one slot for each segment in use on this server.
//!
//! Who writes what:
//!
//! * the ranges of a slot: written only by the segments worker, which publishes a range after it has durably
//!   stored it (see [`crate::segment`]). All backends take numbers from the ranges without a lock (see
//!   [`snowflake_id_core::segment`]).
//! * the directory, which says to which segment a slot belongs, and what the registry last answered about it:
//!   backends assign slots to names, and the worker writes the rest, both under the exclusive lock.
//! * whether a slot is wanted: set by backends that wait, cleared by the worker before it asks the registry.
//! * the rounds: counted by the worker. A backend's request is answered by a round that starts after the
//!   request.
//!
//! Once a slot has had a number, it keeps its name until the server is restarted, so backends may cache the
//! slot. The slot of a name that the registry does not know may be assigned to another name.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use pgrx::prelude::*;
use pgrx::{PGRXSharedMemory, PgAtomic, PgLwLock, pg_shmem_init};
use snowflake_id_core::Segment;

use super::bounded_text::BoundedText;
use super::memory;
use super::wait::Signal;
use super::wakeup::Wakeup;
use crate::error::Error;
use crate::pg::clock;

/// The maximum of `snowflake_id.max_segments`.
const MOST_SEGMENTS: usize = 256;
/// A name may lose its slot if the registry has not answered a request for the name, and if no call has
/// waited for the name for this time.
const IDLE_AFTER_US: i64 = 10_000_000;
/// The maximum length of a segment's name, in bytes.
pub const LONGEST_NAME: usize = 63;

/// The state that consists of atomics only.
#[derive(Default)]
pub struct Segments {
    /// The wakeup of the segments worker.
    pub wakeup: Wakeup,
    /// Whether any segment was ever used. If so, the worker must run.
    pub is_used: AtomicBool,
    /// The number of rounds that the worker has started. The field `ended` is the number of the last completed round.
    begun: AtomicU64,
    ended: AtomicU64,
    /// The signal that the worker sends after publishing a range and after ending a round.
    pub changes: Signal,
    /// The registry's clock minus the time since boot, in microseconds. The worker writes this value before
    /// publishing any range that has an end time.
    clock_offset_us: AtomicI64,
    slots: Slots,
}

struct Slots([Slot; MOST_SEGMENTS]);

impl Default for Slots {
    fn default() -> Slots {
        Slots(std::array::from_fn(|_| Slot::default()))
    }
}

/// The atomics of one segment.
#[derive(Default)]
pub struct Slot {
    pub segment: Segment,
    /// Whether a call waits for numbers.
    is_wanted: AtomicBool,
    /// The time of the last wait for numbers, in microseconds since boot. Relaxed: the value only serves to find an
    /// idle slot.
    wanted_at_us: AtomicI64,
    /// The number of calls that have waited. Relaxed: the number is used only for statistics.
    pub calls_waited: AtomicU64,
}

impl Slot {
    /// Records that a call is waiting for numbers. SeqCst: see [`Segments::begin_round`].
    pub fn want(&self) {
        self.wanted_at_us.store(clock::since_boot_us(), Ordering::Relaxed);
        self.is_wanted.store(true, Ordering::SeqCst);
    }

    /// Returns whether a call has waited since the previous call of this function.
    pub fn take_wanted(&self) -> bool {
        self.is_wanted.swap(false, Ordering::SeqCst)
    }

    /// Returns whether the last wait for numbers was more than 10 seconds ago.
    fn is_idle(&self) -> bool {
        let waited_us = clock::since_boot_us() - self.wanted_at_us.load(Ordering::Relaxed);
        waited_us > IDLE_AFTER_US
    }
}

/// The directory entry of a segment.
#[derive(Clone, Copy, Default)]
pub struct Record {
    name: Name,
    pub state: SegmentState,
    /// The time of the registry's last answer, in microseconds of Unix time.
    pub answered_at_us: i64,
    /// The time at which the worker received the newest range, in microseconds of Unix time.
    pub taken_at_us: i64,
    /// The size of the newest range.
    pub step: i64,
    /// The last number that the segment can ever provide, or 0 if this number is unknown.
    pub max_value: i64,
    detail: BoundedText,
    /// The name of an existing segment of which this name is probably a misspelling.
    near: Name,
}

/// The state of a segment according to the registry's last answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SegmentState {
    /// The registry has not answered yet.
    #[default]
    Asked,
    Open,
    /// The registry has no segment with this name. The registry and this server have no record of an earlier segment
    /// with this name.
    Unknown,
    /// The segment was dropped.
    Dropped,
    /// The registry has granted numbers of this segment to this server, but no longer has the segment: commits were
    /// lost.
    Lost,
    /// The registry may have lost commits.
    Closed,
    Exhausted,
    /// Other transactions held the row for too long.
    Busy,
    /// The registry is still in an earlier period than this server.
    Ahead,
    /// The registry's answer or the server's request was invalid.
    Invalid,
    /// The registry limits the server's role to other segments.
    Denied,
}

impl SegmentState {
    /// Returns the name of the state as view `snowflake_segments` shows it.
    pub fn name(self) -> &'static str {
        match self {
            SegmentState::Asked => "asked",
            SegmentState::Open => "open",
            SegmentState::Unknown => "unknown",
            SegmentState::Dropped => "dropped",
            SegmentState::Lost => "lost",
            SegmentState::Closed => "closed",
            SegmentState::Exhausted => "exhausted",
            SegmentState::Busy => "busy",
            SegmentState::Ahead => "ahead",
            SegmentState::Invalid => "invalid",
            SegmentState::Denied => "permission denied",
        }
    }
}

impl Record {
    pub fn name(&self) -> &str {
        self.name.text()
    }

    /// Returns details about the state for administrators.
    pub fn detail(&self) -> Option<String> {
        self.detail.text()
    }

    pub fn set_detail(&mut self, text: Option<&str>) {
        self.detail.set(text.unwrap_or_default());
    }

    /// The name of an existing segment of which this name is probably a misspelling.
    pub fn near(&self) -> Option<&str> {
        Some(self.near.text()).filter(|name| !name.is_empty())
    }

    pub fn set_near(&mut self, name: Option<&str>) {
        self.near = name.filter(|name| name.len() <= LONGEST_NAME).map(Name::new).unwrap_or_default();
    }

    fn is_free(&self) -> bool {
        self.name.length == 0
    }
}

/// The name of a segment in UTF-8.
#[derive(Clone, Copy)]
struct Name {
    bytes: [u8; LONGEST_NAME],
    length: u8,
}

impl Default for Name {
    fn default() -> Name {
        Name { bytes: [0; LONGEST_NAME], length: 0 }
    }
}

impl Name {
    /// # Panics
    /// Panics if the text exceeds [`LONGEST_NAME`].
    fn new(text: &str) -> Name {
        let mut name = Name { length: text.len() as u8, ..Name::default() };
        name.bytes[..text.len()].copy_from_slice(text.as_bytes());
        name
    }

    fn text(&self) -> &str {
        str::from_utf8(&self.bytes[..self.length.into()]).unwrap_or_default()
    }
}

/// The state of all segments and of the registry.
#[derive(Clone, Copy)]
pub struct Directory {
    records: [Record; MOST_SEGMENTS],
    /// The reason why the registry does not answer.
    problem: BoundedText,
    /// The time at which the registry stopped answering, in microseconds of Unix time.
    pub problem_since_us: i64,
    pub trouble: Trouble,
}

impl Default for Directory {
    fn default() -> Directory {
        Directory {
            records: [Record::default(); MOST_SEGMENTS],
            problem: BoundedText::default(),
            problem_since_us: 0,
            trouble: Trouble::default(),
        }
    }
}

/// The reason why no numbers are available.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trouble {
    /// The registry does not answer, or its answer is invalid.
    #[default]
    Silence,
    /// The role of this server lacks a privilege in the registry.
    Denied,
    /// No registry is configured.
    NoRegistry,
    /// The record of the server's ranges cannot be written or read.
    File,
}

// SAFETY: consists of atomics only; the one pointer is to shared memory, which has the same address in every
// process.
unsafe impl PGRXSharedMemory for Segments {}

// SAFETY: plain values without pointers; the LWLock around them orders all access.
unsafe impl PGRXSharedMemory for Directory {}

// SAFETY: no other extension uses these names.
static STATE: PgAtomic<Segments> = unsafe { PgAtomic::new(c"snowflake_id segments state") };

// SAFETY: as above.
static DIRECTORY: PgLwLock<Directory> = unsafe { PgLwLock::new(c"snowflake_id segments") };

/// Requests the shared memory.
pub(super) fn request() {
    pg_shmem_init!(STATE);
    pg_shmem_init!(DIRECTORY);
}

/// Returns the shared state, or an error if the library was not preloaded.
pub fn segments() -> Result<&'static Segments, Error> {
    memory::state()?; // Both structures exist, or neither.
    Ok(STATE.get())
}

/// The reason why the registry does not answer.
pub struct RegistryProblem {
    pub text: String,
    pub since_us: i64,
    pub trouble: Trouble,
}

/// Returns the reason why the registry does not answer, or `None` if the registry answers.
pub fn registry_problem() -> Option<RegistryProblem> {
    let directory = DIRECTORY.share();
    Some(RegistryProblem {
        text: directory.problem.text()?,
        since_us: directory.problem_since_us,
        trouble: directory.trouble,
    })
}

/// Sets or clears the reason why the registry does not answer.
pub fn report_problem(text: Option<&str>, trouble: Trouble) {
    let mut directory = DIRECTORY.exclusive();
    if text.is_some() && directory.problem.text().is_none() {
        directory.problem_since_us = clock::clock_us();
    }
    directory.problem.set(text.unwrap_or_default());
    directory.trouble = trouble;
}

/// Returns the slot of a name and the slot's index. A name without a slot is assigned a slot. Another name can take
/// over the slot until a number is taken from the slot: see [`Segments::record_of`].
pub fn find_or_assign(name: &str, max_segments: usize) -> Result<(usize, &'static Slot), Error> {
    let segments = segments()?;
    if let Some(at) = find(&DIRECTORY.share().records, name) {
        return Ok((at, &segments.slots.0[at]));
    }
    let mut directory = DIRECTORY.exclusive();
    if let Some(at) = find(&directory.records, name) {
        return Ok((at, &segments.slots.0[at]));
    }
    let at = segments.room_in(&directory.records[..max_segments.min(MOST_SEGMENTS)]);
    let at = at.ok_or(Error::TooManySegments { most: max_segments })?;
    directory.records[at] = Record { name: Name::new(name), ..Record::default() };
    Ok((at, &segments.slots.0[at]))
}

fn find(records: &[Record], name: &str) -> Option<usize> {
    records.iter().position(|record| !record.is_free() && record.name() == name)
}

impl Segments {
    /// Returns the index of a slot for a new name. A free slot is preferred. If no slot is free, a slot can be
    /// reassigned if it has had no number, and if the registry does not know the name, rejects the name, or has not
    /// answered about an idle name. Among several such slots, the function chooses the slot with the oldest answer.
    fn room_in(&self, records: &[Record]) -> Option<usize> {
        let is_useless = |at: &usize| {
            let slot = &self.slots.0[*at];
            let is_unknown = match records[*at].state {
                SegmentState::Unknown
                | SegmentState::Dropped
                | SegmentState::Lost
                | SegmentState::Invalid => true,
                SegmentState::Asked => slot.is_idle(),
                _ => false,
            };
            is_unknown && slot.segment.standing().is_unused()
        };
        let free = records.iter().position(Record::is_free);
        free.or_else(|| (0..records.len()).filter(is_useless).min_by_key(|&at| records[at].answered_at_us))
    }

    /// Returns the slots in use, each with its index and its record.
    pub fn in_use(&self) -> Vec<(usize, Record, &Slot)> {
        let directory = DIRECTORY.share();
        let records = directory.records.iter().enumerate().filter(|(_, record)| !record.is_free());
        records.map(|(at, record)| (at, *record, &self.slots.0[at])).collect()
    }

    /// Calls the closure `action` with the slot at this index if the slot belongs to this name. The slot cannot be
    /// reassigned meanwhile, because that requires the exclusive lock and a slot without ranges.
    pub fn with_slot_of<T>(&self, at: usize, name: &str, action: impl FnOnce(&Slot) -> T) -> Option<T> {
        let directory = DIRECTORY.share();
        (directory.records[at].name() == name).then(|| action(&self.slots.0[at]))
    }

    /// Returns the directory entry of a slot, or `None` if the slot does not belong to this name.
    pub fn record_of(&self, at: usize, name: &str) -> Option<Record> {
        Some(DIRECTORY.share().records[at]).filter(|record| record.name() == name)
    }

    /// Changes the record of a slot, unless the slot was reassigned to another name.
    pub fn note(&self, at: usize, name: &str, change: impl FnOnce(&mut Record)) {
        let mut directory = DIRECTORY.exclusive();
        let record = &mut directory.records[at];
        if record.name() == name {
            change(record);
        }
    }

    /// Wakes the worker. If the worker is not running, the function wakes the keeper, and the keeper starts the
    /// worker.
    pub fn request_worker(&self) {
        self.is_used.store(true, Ordering::Relaxed);
        match (self.wakeup.pid(), memory::state()) {
            (None, Ok(shared)) => shared.server_status.wakeup.request(),
            _ => self.wakeup.request(),
        }
    }

    /// Returns the number of the first round that will answer a new request.
    pub fn next_round(&self) -> u64 {
        self.begun.load(Ordering::SeqCst) + 1
    }

    /// Whether a round has ended.
    pub fn has_ended(&self, round: u64) -> bool {
        self.ended.load(Ordering::Acquire) >= round
    }

    /// Starts a round. SeqCst ensures that the round sees all requests made before the number of the round changed.
    pub fn begin_round(&self) {
        self.begun.fetch_add(1, Ordering::SeqCst);
    }

    /// Ends the round. The function must be called after all results of the round are written.
    pub fn end_round(&self) {
        self.ended.store(self.begun.load(Ordering::SeqCst), Ordering::Release);
        self.changes.send();
    }

    /// Returns the registry's clock in microseconds: its value at the last answer, plus the time that has
    /// passed since then. Setting the clock of this server does not change the result.
    pub fn registry_clock_us(&self) -> i64 {
        clock::since_boot_us().saturating_add(self.clock_offset_us.load(Ordering::Relaxed))
    }

    /// Records the registry's clock at a given time since boot.
    pub fn set_registry_clock(&self, clock_us: i64, since_boot_us: i64) {
        self.clock_offset_us.store(clock_us.saturating_sub(since_boot_us), Ordering::Relaxed);
    }
}
