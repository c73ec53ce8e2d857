//! Numbers in ranges, in shared memory: a slot for each segment that is in use on this server.
//!
//! Who writes what:
//!
//! * the ranges of a slot: the segments worker alone, which publishes what it has noted durably before (see
//!   [`crate::segment`]); taken from by all backends, without a lock (see [`snowflake_id_core::segment`]).
//! * the directory, which says whose a slot is and what the registry last said of it: backends give a slot to a name,
//!   the worker writes the rest, both under the exclusive lock.
//! * whether a slot is wanted: set by backends that wait, cleared by the worker before it asks.
//! * the rounds: counted by the worker. A round that begins after a backend has asked is an answer to it.
//!
//! A slot that ever had a number stays with its name until the server is restarted, so that backends may keep it. One
//! of a name that the registry does not know may go to another name.

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

/// The largest `snowflake_id.max_segments`.
const MOST_SEGMENTS: usize = 256;
/// After so long a name that the registry has not answered about may lose its slot, if nobody waits.
const IDLE_AFTER_US: i64 = 10_000_000;
/// How many bytes a name can have.
pub const LONGEST_NAME: usize = 63;

/// The atomics.
#[derive(Default)]
pub struct Segments {
    /// That of the segments worker.
    pub wakeup: Wakeup,
    /// Whether any segment was ever asked for, so that the worker has to run.
    pub is_used: AtomicBool,
    /// Rounds that the worker has begun, and the last one that has ended.
    begun: AtomicU64,
    ended: AtomicU64,
    /// Sent by the worker when a range was published, and when a round has ended.
    pub changes: Signal,
    /// The registry's clock less the time since boot, in microseconds. Written by the worker before any range that ends.
    clock_offset_us: AtomicI64,
    slots: Slots,
}

struct Slots([Slot; MOST_SEGMENTS]);

impl Default for Slots {
    fn default() -> Slots {
        Slots(std::array::from_fn(|_| Slot::default()))
    }
}

/// What is shared of one segment.
#[derive(Default)]
pub struct Slot {
    pub segment: Segment,
    /// Whether somebody waits for numbers.
    is_wanted: AtomicBool,
    /// When somebody was last seen to wait, in microseconds since boot. Relaxed: it only says which slot is idle.
    wanted_at_us: AtomicI64,
    /// How many calls have waited. Relaxed: for people to read.
    pub calls_waited: AtomicU64,
}

impl Slot {
    /// Somebody waits for numbers. SeqCst: see [`Segments::begin_round`].
    pub fn want(&self) {
        self.wanted_at_us.store(clock::since_boot_us(), Ordering::Relaxed);
        self.is_wanted.store(true, Ordering::SeqCst);
    }

    /// Whether somebody has waited since the last time.
    pub fn take_wanted(&self) -> bool {
        self.is_wanted.swap(false, Ordering::SeqCst)
    }

    /// Whether nobody has waited for a while.
    fn is_idle(&self) -> bool {
        let waited_us = clock::since_boot_us() - self.wanted_at_us.load(Ordering::Relaxed);
        waited_us > IDLE_AFTER_US
    }
}

/// What is known of the segment in a slot.
#[derive(Clone, Copy, Default)]
pub struct Record {
    name: Name,
    pub state: SegmentState,
    /// When the registry said so, in microseconds of Unix time.
    pub answered_at_us: i64,
    /// When the newest range was taken, and how many numbers it has.
    pub taken_at_us: i64,
    pub step: i64,
    /// The last number that the segment can ever give, if the registry has said so; 0 if not.
    pub max_value: i64,
    detail: BoundedText,
    /// A segment that the registry has, and that the name may be a misspelling of.
    near: Name,
}

/// What the registry says of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SegmentState {
    /// Nothing yet.
    #[default]
    Asked,
    Open,
    /// The registry has no segment of this name, and never had one, as far as it and this server know.
    Unknown,
    /// It had one, which was dropped.
    Dropped,
    /// It has given numbers of it to this server, and knows of no such segment: commits were lost.
    Lost,
    /// Commits of the registry may be lost.
    Closed,
    Exhausted,
    /// Others held the row for too long.
    Busy,
    /// The server is in a later period than the registry.
    Ahead,
    /// What was asked, or what was answered, makes no sense.
    Invalid,
}

impl SegmentState {
    /// As view `snowflake_segments` shows it.
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
        }
    }
}

impl Record {
    pub fn name(&self) -> &str {
        self.name.text()
    }

    /// More about the state, for people.
    pub fn detail(&self) -> Option<String> {
        self.detail.text()
    }

    pub fn set_detail(&mut self, text: Option<&str>) {
        self.detail.set(text.unwrap_or_default());
    }

    /// A segment that the registry has, and that the name may be a misspelling of.
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

/// The name of a segment, in UTF-8.
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
    /// If it is too long.
    fn new(text: &str) -> Name {
        let mut name = Name { length: text.len() as u8, ..Name::default() };
        name.bytes[..text.len()].copy_from_slice(text.as_bytes());
        name
    }

    fn text(&self) -> &str {
        str::from_utf8(&self.bytes[..self.length.into()]).unwrap_or_default()
    }
}

/// What is known of all segments, and of the registry.
#[derive(Clone, Copy)]
pub struct Directory {
    records: [Record; MOST_SEGMENTS],
    /// Why the registry does not answer; and since when, in microseconds of Unix time.
    problem: BoundedText,
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

/// What keeps numbers from coming.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trouble {
    /// The registry does not answer, or cannot be understood.
    #[default]
    Silence,
    /// The role of this server lacks a privilege at the registry.
    Denied,
    /// There is no registry to ask.
    NoRegistry,
    /// What was had cannot be noted, or read.
    File,
}

// SAFETY: atomics alone; the one pointer is to shared memory, which lies at the same address in every process.
unsafe impl PGRXSharedMemory for Segments {}

// SAFETY: plain values without pointers; the LWLock around them orders all access.
unsafe impl PGRXSharedMemory for Directory {}

// SAFETY: the names are those of this extension alone.
static STATE: PgAtomic<Segments> = unsafe { PgAtomic::new(c"snowflake_id segments state") };

// SAFETY: as above.
static DIRECTORY: PgLwLock<Directory> = unsafe { PgLwLock::new(c"snowflake_id segments") };

/// Asks for the shared memory.
pub(super) fn request() {
    pg_shmem_init!(STATE);
    pg_shmem_init!(DIRECTORY);
}

/// The shared state, if there is any.
pub fn segments() -> Result<&'static Segments, Error> {
    memory::state()?; // Both or none.
    Ok(STATE.get())
}

/// What keeps the registry from answering.
pub struct RegistryProblem {
    pub text: String,
    pub since_us: i64,
    pub trouble: Trouble,
}

/// Why the registry does not answer, if it does not.
pub fn registry_problem() -> Option<RegistryProblem> {
    let directory = DIRECTORY.share();
    Some(RegistryProblem {
        text: directory.problem.text()?,
        since_us: directory.problem_since_us,
        trouble: directory.trouble,
    })
}

/// Notes why the registry does not answer; `None` when it has.
pub fn report_problem(text: Option<&str>, trouble: Trouble) {
    let mut directory = DIRECTORY.exclusive();
    if text.is_some() && directory.problem.text().is_none() {
        directory.problem_since_us = clock::clock_us();
    }
    directory.problem.set(text.unwrap_or_default());
    directory.trouble = trouble;
}

/// The place of a name's slot, given to it now if it had none, and the slot. It may go to another name again, as long
/// as no number was taken from it: see [`Segments::record_of`].
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
    /// A slot that is nobody's; or that of a name that the registry does not know or understand, the one that was found
    /// to be so first; or that of one of which nothing is known.
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

    /// Every slot in use, with what is known of it.
    pub fn in_use(&self) -> Vec<(usize, Record, &Slot)> {
        let directory = DIRECTORY.share();
        let records = directory.records.iter().enumerate().filter(|(_, record)| !record.is_free());
        records.map(|(at, record)| (at, *record, &self.slots.0[at])).collect()
    }

    /// Does something with a slot, if it is that of this name. It cannot go to another name meanwhile: one that is given
    /// away has no range yet, and whoever gives it away holds the lock alone.
    pub fn with_slot_of<T>(&self, at: usize, name: &str, action: impl FnOnce(&Slot) -> T) -> Option<T> {
        let directory = DIRECTORY.share();
        (directory.records[at].name() == name).then(|| action(&self.slots.0[at]))
    }

    /// What is known of the segment in a slot, as long as it is that of this name.
    pub fn record_of(&self, at: usize, name: &str) -> Option<Record> {
        Some(DIRECTORY.share().records[at]).filter(|record| record.name() == name)
    }

    /// Notes what is known of the segment in a slot, unless the slot has gone to another name.
    pub fn note(&self, at: usize, name: &str, change: impl FnOnce(&mut Record)) {
        let mut directory = DIRECTORY.exclusive();
        let record = &mut directory.records[at];
        if record.name() == name {
            change(record);
        }
    }

    /// Wakes the worker; or the keeper, which then starts one.
    pub fn ring(&self) {
        self.is_used.store(true, Ordering::Relaxed);
        match (self.wakeup.pid(), memory::state()) {
            (None, Ok(shared)) => shared.server_status.wakeup.request(),
            _ => self.wakeup.request(),
        }
    }

    /// The number of the first round that is an answer to what is asked now.
    pub fn next_round(&self) -> u64 {
        self.begun.load(Ordering::SeqCst) + 1
    }

    /// Whether a round has ended.
    pub fn has_ended(&self, round: u64) -> bool {
        self.ended.load(Ordering::Acquire) >= round
    }

    /// The worker begins a round. SeqCst: who has asked before the number changed is seen to have asked.
    pub fn begin_round(&self) {
        self.begun.fetch_add(1, Ordering::SeqCst);
    }

    /// All that the round has found out is written.
    pub fn end_round(&self) {
        self.ended.store(self.begun.load(Ordering::SeqCst), Ordering::Release);
        self.changes.send();
    }

    /// The clock of the registry, as it was when that last answered, and as time has passed since. Nobody can set it on
    /// this server.
    pub fn registry_clock_us(&self) -> i64 {
        clock::since_boot_us().saturating_add(self.clock_offset_us.load(Ordering::Relaxed))
    }

    /// Notes the clock of the registry, as of a moment of the time since boot.
    pub fn set_registry_clock(&self, clock_us: i64, since_boot_us: i64) {
        self.clock_offset_us.store(clock_us.saturating_sub(since_boot_us), Ordering::Relaxed);
    }
}
