//! The state in shared memory: the gate, the keeper's words, and one slot for each layout in use.
//!
//! Who writes what:
//!
//! * `gate` (one word): opened and closed by the keeper alone; read by every attempt.
//! * `slots[i]` (counter and horizon): given to a layout under the exclusive lock, before its key is written. From then
//!   on the counter is moved by the exchanges of all backends, without a lock; the horizon by the keeper.
//! * the directory (which slot belongs to which layout): written under the exclusive lock, read under the shared one.
//!   What a backend has found once it may keep, so that the hot path takes no lock: a slot never goes to another layout.
//! * the keeper's words: see [`KeeperWords`].
//! * the statistics: added to by whoever has something to add; nothing depends on them.
//! * the report (the keeper's last error): written by the keeper under the exclusive lock.
//!
//! A published horizon reaches every slot: the keeper stores it in its words and then in the slots, all under the shared
//! lock, and a slot that is given to a layout takes it from the words under the exclusive one.
//!
//! The orderings of the atomics, and why they suffice, are explained in [`snowflake_id_core::slot`].
//!
//! After a crash of a backend the postmaster makes all of it anew. Nothing here outlives the server; what has to is the
//! stored horizon (see [`crate::store`]).

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicPtr, AtomicU8, AtomicU64, Ordering};

use pgrx::prelude::*;
use pgrx::{PGRXSharedMemory, PgAtomic, PgLwLock, pg_shmem_init};
use snowflake_id_core::{Gate, Layout, Slot, SlotKey};

use crate::error::Error;

/// How many layouts can be in use at a time.
pub const MAX_SLOTS: usize = 16;

/// The atomics.
#[repr(C)]
pub struct State {
    /// On cache lines of its own: it is read by every call and hardly ever written.
    pub gate: Padded<Gate>,
    pub keeper: Padded<KeeperWords>,
    pub statistics: Padded<Statistics>,
    slots: [Slot; MAX_SLOTS],
    /// How many IDs were taken from each slot. Apart from the slots, whose cache lines are in demand.
    issued: [AtomicU64; MAX_SLOTS],
}

/// Keeps a value off the cache lines of its neighbours; 128 bytes, as processors fetch lines in pairs.
#[derive(Default)]
#[repr(C, align(128))]
pub struct Padded<T>(T);

impl<T> std::ops::Deref for Padded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// What happened since the shared memory was made. Relaxed throughout: these are for people to read.
#[derive(Default)]
pub struct Statistics {
    pub calls_waited: AtomicU64,
    pub waited_us: AtomicU64,
    /// Seen by the keeper, as are the largest.
    pub clock_steps_back: AtomicU64,
    pub largest_step_back_us: AtomicU64,
}

/// What the keeper tells the backends, and they tell it. Times are microseconds of Unix time; 0 means none.
///
/// Written by the keeper alone, except for what it is asked: `is_wanted`, `advance_to_us`, `accept_clock`, `reset_for`. No word is
/// used to order another: Relaxed would do for all but `looks` and `resets`, which are counted up (Release) after everything
/// that a look found out, or did, was written.
#[derive(Default)]
pub struct KeeperWords {
    /// The horizon that was published last.
    pub horizon_us: AtomicI64,
    /// Where slots begin: the horizon that was found at the start, or a later floor.
    pub floor_us: AtomicI64,
    /// Since when a commit of the horizon has been under way.
    pub committing_since_us: AtomicI64,
    /// How far the clock has jumped ahead, if that is too far to be followed.
    pub clock_jump_us: AtomicI64,
    /// Where an administrator wants the floor to be.
    pub advance_to_us: AtomicI64,
    /// Where the floor has been moved to of that, durably.
    pub advanced_to_us: AtomicI64,
    /// Set when an administrator accepts the clock as it is.
    pub accept_clock: AtomicBool,
    /// The clock less the time since boot when they were last found to agree.
    pub clock_offset_us: AtomicI64,
    /// The same as it was at the last look.
    pub last_clock_offset_us: AtomicI64,
    /// The identity for which the gate was open last: a word like the gate's that nobody closes.
    pub last_identity: Gate,
    /// The identity for which an administrator wants everything to begin anew: a word like the gate's.
    pub reset_for: Gate,
    /// The one for which everything began anew last: a word like the gate's that nobody closes.
    pub last_reset_for: Gate,
    /// How often everything began anew.
    pub resets: AtomicU64,
    /// How often the keeper has looked after everything.
    pub looks: AtomicU64,
    /// Why the gate is closed: a [`Closed`].
    closed: AtomicU8,
    /// Set by a backend that has asked for the keeper, cleared by the keeper: one waker is enough.
    is_wanted: AtomicBool,
    pub pid: AtomicI32,
    latch: AtomicPtr<pg_sys::Latch>,
}

/// Why the gate is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Closed {
    /// The keeper has not come so far yet, or has ended.
    Starting = 0,
    /// Neither the settings nor the table give an identity.
    NoWorkerId = 1,
    /// The report says it.
    Problem = 2,
}

impl KeeperWords {
    pub fn closed(&self) -> Closed {
        match self.closed.load(Ordering::Relaxed) {
            1 => Closed::NoWorkerId,
            2 => Closed::Problem,
            _ => Closed::Starting,
        }
    }

    pub fn set_closed(&self, why: Closed) {
        self.closed.store(why as u8, Ordering::Relaxed);
    }

    /// Called by the keeper when it starts.
    pub fn register(&self) {
        // SAFETY: plain variables of this process; the latch is in shared memory and is never freed.
        let (pid, latch) = unsafe { (pg_sys::MyProcPid, pg_sys::MyLatch) };
        self.pid.store(pid, Ordering::Relaxed);
        self.latch.store(latch, Ordering::Release);
        self.is_wanted.store(false, Ordering::Relaxed);
    }

    /// Called by the keeper when it ends.
    pub fn unregister(&self) {
        self.latch.store(std::ptr::null_mut(), Ordering::Release);
        self.pid.store(0, Ordering::Relaxed);
    }

    /// Whether no keeper is running.
    pub fn is_away(&self) -> bool {
        self.pid.load(Ordering::Relaxed) == 0
    }

    /// Asks for the keeper.
    pub fn wake(&self) {
        let latch = self.latch.load(Ordering::Acquire);
        if !latch.is_null() && !self.is_wanted.swap(true, Ordering::AcqRel) {
            // SAFETY: latches of processes live in shared memory as long as the server. If the keeper has ended in the
            // meantime, somebody else may own this one, and is woken for nothing.
            unsafe { pg_sys::SetLatch(latch) };
        }
    }

    /// Whether somebody has asked, and the keeper has not begun to look since.
    pub fn is_wanted(&self) -> bool {
        self.is_wanted.load(Ordering::Relaxed)
    }

    /// Whether somebody has asked since the last time.
    pub fn take_wanted(&self) -> bool {
        self.is_wanted.swap(false, Ordering::AcqRel)
    }
}

/// Which slot belongs to which layout.
#[derive(Clone, Copy, Default)]
pub struct Directory {
    places: [Place; MAX_SLOTS],
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Free,
    /// Of this layout, the one that came first, and of all with the same key.
    InUse(Layout),
    /// Nobody's any more. Backends may still hold it.
    Retired,
}

impl Place {
    fn layout(&self) -> Option<&Layout> {
        match self {
            Place::InUse(layout) => Some(layout),
            Place::Free | Place::Retired => None,
        }
    }
}

impl Directory {
    fn find(&self, key: SlotKey) -> Option<usize> {
        self.places.iter().position(|place| place.layout().map(SlotKey::of) == Some(key))
    }

    /// The slots in use, with a layout of each.
    fn in_use<'a>(&'a self, state: &'a State) -> impl Iterator<Item = (&'a Layout, SlotInUse<'a>)> {
        let places = self.places.iter().enumerate();
        places.filter_map(|(at, place)| Some((place.layout()?, state.slot_at(at))))
    }
}

/// A slot that belongs to a layout, and how many IDs were taken from it.
#[derive(Clone, Copy)]
pub struct SlotInUse<'a> {
    pub slot: &'a Slot,
    pub issued: &'a AtomicU64,
}

/// A snapshot of a slot in use.
pub struct SlotFacts {
    /// The layout that came first of those that share the slot.
    pub layout: Layout,
    pub counter: u64,
    /// How many IDs were taken, as far as they have been counted.
    pub issued: u64,
}

/// The keeper's last error.
#[derive(Clone, Copy)]
pub struct Report {
    text: [u8; Report::CAPACITY],
    length: usize,
    /// When it happened, in microseconds of Unix time.
    pub at_us: i64,
}

impl Report {
    const CAPACITY: usize = 512;

    pub fn text(&self) -> Option<String> {
        (self.length > 0).then(|| String::from_utf8_lossy(&self.text[..self.length]).into_owned())
    }
}

impl Default for Report {
    fn default() -> Report {
        Report { text: [0; Report::CAPACITY], length: 0, at_us: 0 }
    }
}

// SAFETY: atomics alone; the one pointer is to shared memory, which lies at the same address in every process.
unsafe impl PGRXSharedMemory for State {}
// SAFETY: plain values without pointers; the LWLock around them orders all access.
unsafe impl PGRXSharedMemory for Directory {}
// SAFETY: as above.
unsafe impl PGRXSharedMemory for Report {}

// SAFETY: the names are those of this extension alone.
static STATE: PgAtomic<State> = unsafe { PgAtomic::new(c"snowflake_id state") };
// SAFETY: as above.
static DIRECTORY: PgLwLock<Directory> = unsafe { PgLwLock::new(c"snowflake_id directory") };
// SAFETY: as above.
static REPORT: PgLwLock<Report> = unsafe { PgLwLock::new(c"snowflake_id report") };

/// Whether the postmaster loaded the library, so that there is shared memory.
static IS_PRELOADED: AtomicBool = AtomicBool::new(false);

/// Asks for the shared memory. Called by the postmaster while it loads the library.
pub fn request() {
    IS_PRELOADED.store(true, Ordering::Relaxed);
    pg_shmem_init!(STATE);
    pg_shmem_init!(DIRECTORY);
    pg_shmem_init!(REPORT);
}

impl Default for State {
    /// Closed, and nothing may be used.
    fn default() -> State {
        State {
            gate: Padded::default(),
            keeper: Padded::default(),
            statistics: Padded::default(),
            slots: std::array::from_fn(|_| Slot::new(0, 0)),
            issued: Default::default(),
        }
    }
}

/// The shared state, if there is any.
pub fn state() -> Result<&'static State, Error> {
    match IS_PRELOADED.load(Ordering::Relaxed) {
        true => Ok(STATE.get()),
        false => Err(Error::NotPreloaded),
    }
}

/// The slot of a layout, given to it now if it had none. It begins at the floor.
pub fn slot(layout: &Layout) -> Result<SlotInUse<'static>, Error> {
    let state = state()?;
    let key = SlotKey::of(layout);
    if let Some(at) = DIRECTORY.share().find(key) {
        return Ok(state.slot_at(at));
    }
    let mut directory = DIRECTORY.exclusive();
    let at = match directory.find(key) {
        Some(at) => at,
        None => {
            let free = directory.places.iter().position(|place| *place == Place::Free);
            let free = free.ok_or_else(|| Error::TooManyLayouts {
                retired: directory.places.iter().filter(|place| **place == Place::Retired).count(),
            })?;
            let floor = key.first_tick_from(state.keeper.floor_us.load(Ordering::Acquire));
            let horizon = key.first_tick_from(state.keeper.horizon_us.load(Ordering::Acquire));
            state.slots[free].assign(key.counter_at(floor), horizon);
            directory.places[free] = Place::InUse(*layout);
            free
        }
    };
    Ok(state.slot_at(at))
}

impl State {
    fn slot_at(&self, at: usize) -> SlotInUse<'_> {
        SlotInUse { slot: &self.slots[at], issued: &self.issued[at] }
    }

    /// Every slot in use, as it is now.
    pub fn slots_in_use(&self) -> Vec<SlotFacts> {
        let directory = DIRECTORY.share();
        let facts = |(layout, found): (&Layout, SlotInUse)| SlotFacts {
            layout: *layout,
            counter: found.slot.counter(),
            issued: found.issued.load(Ordering::Relaxed),
        };
        directory.in_use(self).map(facts).collect()
    }

    /// Lets slots be used up to a horizon, those in use and those to come. Only for one that is durable.
    pub fn publish(&self, horizon_us: i64) {
        let directory = DIRECTORY.share();
        self.keeper.horizon_us.store(horizon_us, Ordering::Release);
        for (layout, found) in directory.in_use(self) {
            found.slot.set_horizon(SlotKey::of(layout).first_tick_from(horizon_us));
        }
    }

    /// Closes the gate and raises every slot to what `floor` makes of its counter. When this returns, no attempt that
    /// began before will succeed. Slots to come begin at `floor_us` at the earliest. Returns the end of what was handed
    /// out.
    pub fn fence(&self, floor_us: i64, floor: impl Fn(&SlotKey, u64) -> u64) -> i64 {
        let directory = DIRECTORY.exclusive();
        let floor_us = floor_us.max(self.keeper.floor_us.load(Ordering::Acquire));
        self.keeper.floor_us.store(floor_us, Ordering::Release);
        self.gate.fence(directory.in_use(self).map(|(layout, found)| {
            let (key, floor) = (SlotKey::of(layout), &floor);
            (found.slot, move |counter| floor(&key, counter))
        }));
        directory
            .in_use(self)
            .map(|(layout, found)| SlotKey::of(layout).end_of_use_us(found.slot.counter()))
            .fold(floor_us, i64::max)
    }

    /// Forgets what was handed out: layouts get new slots, which begin at `floor_us`. Only after a fence, and if no identity that
    /// was used before goes on below what it was used for.
    ///
    /// Slots are not used again. An attempt that has been paused since before the fence must not find in its slot, one
    /// day, the very counter that it knows.
    pub fn begin_anew(&self, floor_us: i64, horizon_us: i64) {
        let mut directory = DIRECTORY.exclusive();
        for (_, found) in directory.in_use(self) {
            found.slot.set_horizon(0);
        }
        for place in directory.places.iter_mut().filter(|place| **place != Place::Free) {
            *place = Place::Retired;
        }
        self.keeper.floor_us.store(floor_us, Ordering::Release);
        self.keeper.horizon_us.store(horizon_us, Ordering::Release);
    }
}

/// The keeper's last error.
pub fn report() -> Report {
    *REPORT.share()
}

/// Notes an error of the keeper; `None` when all is well again.
pub fn set_report(text: Option<&str>, at_us: i64) {
    let mut report = REPORT.exclusive();
    let text = text.unwrap_or_default();
    let mut length = text.len().min(Report::CAPACITY);
    while !text.is_char_boundary(length) {
        length -= 1;
    }
    report.text[..length].copy_from_slice(&text.as_bytes()[..length]);
    report.length = length;
    report.at_us = at_us;
}
