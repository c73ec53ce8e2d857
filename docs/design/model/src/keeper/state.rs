//! The state: the disk, shared memory, the processes, and the checker's records. There are few instants (see
//! [`Instant`]), so that a state is small. The border ([`super::border`]) converts them to the product's types when it
//! calls the product's functions.

use std::hash::{Hash, Hasher};

pub use snowflake_id_core::track::TRACKS;

/// The maximum number of identities.
pub const IDENTITIES: usize = 2;
/// The maximum number of values of the clock sequence, including 0.
pub const VALUES: usize = 4;
/// The maximum number of slots.
pub const SLOTS: usize = 3;
/// One of the configured identities: worker 0 or worker 1.
pub type Identity = u8;

/// One of the few instants that occur: `2 * n` stands for the start of unit `n` of Unix time, `2 * n + 1` for a
/// microsecond later. Clocks begin at unit 1, because 0 means "no instant" in the product.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Instant(pub u8);

impl Instant {
    pub const NEVER: Instant = Instant(u8::MAX);

    /// The reading of the clock in units of the model. A clock that reads 0 is at the epoch of all layouts.
    pub const fn of_clock(clock: u8) -> Instant {
        Instant(2 * (clock + 1))
    }
}

/// A value of the clock sequence with an instant: a horizon, or the start of slots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Mark {
    pub value: u8,
    pub at: Instant,
}

impl Mark {
    pub const NONE: Mark = Mark { value: 0, at: Instant(0) };
}

/// The whole state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// `None` between DROP and CREATE EXTENSION.
    pub disk: Option<Disk>,
    pub shared: Shared,
    pub keeper: Keeper,
    /// The request in the command slot.
    pub request: Request,
    pub callers: [Caller; 2],
    /// Any one of the issued IDs. An ID that is issued twice is the watched ID in some run, so the number of IDs does
    /// not have to be bounded.
    pub watched: Option<Id>,
    pub verdict: Verdict,
    /// An administrator has been told that no more IDs are issued below this.
    pub raised: Instant,
    /// The leases of [`super::protocol::Protocol::leases`].
    pub leases: [Granted; IDENTITIES],
}

/// The state of a lease, which is also in the file on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Granted {
    #[default]
    No,
    Now {
        is_renewed: bool,
        /// Whether it was granted before the server was started.
        is_inherited: bool,
    },
}

/// The records of use by kind: 0 means none, otherwise the instant plus 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Uses(pub [u8; KINDS]);

/// The number of scopes: each value, and all others.
pub const SCOPES: usize = VALUES + 1;
pub const KINDS: usize = (IDENTITIES + 1) * SCOPES;

/// The stored data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Facts {
    pub uses: Uses,
    pub horizons: [Mark; TRACKS],
}

/// An in-place write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Write {
    Record { kind: u8, until: Instant },
    Horizon { track: u8, horizon: Mark },
}

/// The stored data on disk. In-place writes can be read at once, even if they were rolled back. A crash undoes writes
/// that were not flushed. A commit flushes all earlier WAL, and any other process may flush any prefix of it at any
/// time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Disk {
    /// Whether the data is where the server last stored it, as far as the keeper has noted that, and whether it is
    /// where the present keeper transaction stores it.
    pub is_known: bool,
    pub is_in_hand: bool,
    pub durable: Facts,
    /// Later writes, in order.
    pub pending: Writes,
}

/// A list with its maximum length: an end of everything and three horizons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Writes([Option<Write>; Writes::MOST]);

impl Writes {
    const MOST: usize = 14;

    pub fn iter(&self) -> impl Iterator<Item = Write> + '_ {
        self.0.iter().map_while(|write| *write)
    }

    pub fn len(&self) -> usize {
        self.iter().count()
    }

    pub fn is_empty(&self) -> bool {
        self.0[0].is_none()
    }

    pub fn push(&mut self, write: Write) {
        let len = self.len();
        self.0[len] = Some(write);
    }

    pub fn truncate(&mut self, len: usize) {
        self.0[len..].fill(None);
    }
}

impl Default for Writes {
    fn default() -> Writes {
        Writes([None; Writes::MOST])
    }
}

impl Hash for Writes {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u8(self.len() as u8);
        self.iter().for_each(|write| write.hash(state));
    }
}

impl Facts {
    pub fn apply(&mut self, write: Write) {
        match write {
            Write::Record { kind, until } => {
                let known = &mut self.uses.0[usize::from(kind)];
                *known = (*known).max(until.0 + 1);
            }
            Write::Horizon { track, horizon } => self.horizons[usize::from(track)] = horizon,
        }
    }
}

impl Disk {
    /// The data as it is read.
    pub fn readable(&self) -> Facts {
        self.after(self.pending.len())
    }

    /// The data after so many of the pending writes.
    pub fn after(&self, writes: usize) -> Facts {
        let mut facts = self.durable;
        self.pending.iter().take(writes).for_each(|write| facts.apply(write));
        facts
    }

    pub fn write(&mut self, write: Write) {
        let (before, mut after) = (self.readable(), self.readable());
        after.apply(write);
        if after != before {
            self.pending.push(write);
        }
    }

    /// So many of the pending writes become durable, and the rest is lost.
    pub fn settle(&mut self, writes: usize) {
        self.durable = self.after(writes);
        self.pending = Writes::default();
    }

    pub fn flush(&mut self) {
        self.settle(self.pending.len());
    }
}

/// Shared memory. A crash of the server erases it. A crash of a backend erases all of it except the history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Shared {
    /// A word with the identity; `None` if the gate is closed.
    pub gate: Option<Identity>,
    /// The range of the lease in server_status.
    pub range: Range,
    pub history: History,
    /// The values of the tracks and the start of their slots; unknown until the keeper has determined them.
    pub begun: Option<[Mark; TRACKS]>,
    pub slots: [Option<Slot>; SLOTS],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Range {
    pub from: Instant,
    pub until: Instant,
}

impl Default for Range {
    fn default() -> Range {
        Range { from: Instant(0), until: Instant::NEVER }
    }
}

/// `HistoryWords` of src/shared/history.rs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct History {
    pub published: [Mark; TRACKS],
    pub promised: [Mark; TRACKS],
    pub highest: Instant,
    pub last_identity: Option<Identity>,
    /// Whether the server has ever stored data.
    pub has_place: bool,
    /// The highest clock that was accepted. (The time since boot stands still.)
    pub clock: Instant,
}

/// The word of a slot in parts: the value of the clock sequence and the counter. The product's own functions combine
/// them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Word {
    pub value: u8,
    pub counter: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Slot {
    pub word: Word,
    /// The horizon in ticks: the first tick that must not be used.
    pub limit: u8,
    /// While nothing has been taken since the word was set: the high-water mark before that.
    pub end_before: Option<Instant>,
}

/// A lease as the keeper uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lease {
    pub identity: Identity,
    pub range: Range,
}

/// The planned state of the gate. `Close` also if the identity is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GatePlan {
    /// The lease with its range, if it was renewed.
    Stay(Option<Lease>),
    Open {
        lease: Lease,
        is_another: bool,
        from: [Instant; TRACKS],
    },
    Reset(Lease),
    Close,
}

/// The result of a cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cycle {
    pub begun: [Mark; TRACKS],
    pub horizons: [Option<Mark>; TRACKS],
    pub raise: Option<Instant>,
    pub gate: GatePlan,
    /// Whether this process had committed a horizon before.
    pub had_committed: bool,
}

/// A reset, for the identity of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reset {
    pub lease: Lease,
    pub is_requested: bool,
}

/// The keeper's position between two steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Keeper {
    /// Between cycles. Also when there is no keeper: until it acts, there is no difference.
    Up { has_committed: bool },
    /// The plan is written but not committed.
    Written(Cycle),
    /// The plan is committed but not published.
    Committed(Cycle),
    /// Everything is published. A request to raise the floor is carried out, and then the gate is handled.
    Published { gate: GatePlan, raise: Option<Instant>, has_committed: bool },
    /// The gate is closed. The keeper raises the counter of this slot next.
    Fencing(Then, u8),
    /// All slots are fenced, and these high-water marks are published but not stored.
    AtShutdownHorizon([Mark; TRACKS]),
    /// The high-water marks are written but not committed.
    WrittenEnd([Mark; TRACKS]),
    /// The high-water marks are committed, but the higher promise is not forgotten yet.
    CommittedEnd([Mark; TRACKS]),
    /// A reset is about to begin: the request is examined.
    Requested(Reset),
    /// The same, after the fence.
    ShuttingOut(Reset),
    /// The used identities are excluded and the low horizon is written, but not committed.
    WrittenLow { reset: Reset, floor: Instant },
    /// The same, committed, but slots are unchanged.
    CommittedLow { floor: Instant },
    /// Another value of the clock sequence is promised and written, but not committed.
    WrittenValue(Opening),
    /// The same, committed.
    CommittedValue(Opening),
    /// Its slots have no horizon.
    Hidden(Opening),
    /// The words of its slots have the new value, but no horizon.
    Moved(Opening),
}

/// A value of the clock sequence that is being opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Opening {
    pub floor: Instant,
    pub horizon: Mark,
    pub has_committed: bool,
}

/// The purpose of a fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Then {
    Open {
        lease: Lease,
        is_another: bool,
        from: [Instant; TRACKS],
    },
    Close,
    Raise {
        floor: Instant,
        open_for: Option<Identity>,
        gate: GatePlan,
        has_committed: bool,
    },
    /// A clean stop, or settings that were lowered.
    ShutdownHorizon {
        has_committed: bool,
    },
    Reset(Reset),
}

/// A request of an administrator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Request {
    #[default]
    None,
    /// A request for a reset.
    Waiting,
    /// A request to issue no more IDs below this.
    Raise(Instant),
    Claimed,
}

/// A caller of `snowflake_nextval()`: the values that its attempt holds in registers. It may pause forever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Caller {
    /// The slot, and the value of the clock sequence with which it issues IDs.
    pub at: Option<(u8, u8)>,
    pub current: Option<Word>,
    pub identity: Option<Identity>,
    pub limit: Option<u8>,
    /// The decision: if the exchange succeeds, this ID belongs to the caller, and the counter becomes this value.
    pub taken: Option<(u16, u8)>,
    /// The slot was retired during the attempt: its word since then.
    pub retired: Option<Word>,
}

/// An issued ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Id {
    /// The slot that issues the IDs of this layout with its value of the clock sequence.
    pub slot_index: u8,
    pub value: u8,
    pub identity: Identity,
    /// The number itself.
    pub number: u16,
    /// The start of its tick.
    pub starts: Instant,
}

/// How the IDs that were issued after the watched one compare with it, and other errors of any ID.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Verdict {
    #[default]
    Larger,
    Repeated,
    Smaller,
    /// The ID is below the floor that an administrator was told.
    Early,
    /// The ID is outside its lease.
    Outside,
}

impl Disk {
    /// Whether the records of use, or the horizons, existed once and are gone. A server that ends in this state has
    /// forgotten which identities were excluded, or where its IDs ended.
    pub fn is_emptied(&self, history: &History) -> bool {
        let Facts { uses, horizons } = self.durable;
        (uses == Uses::default() && horizons != [Mark::NONE; TRACKS])
            || (history.published[0] != Mark::NONE && horizons[0] == Mark::NONE)
    }
}

impl Keeper {
    /// Whether the stored data is locked.
    pub fn is_in_transaction(&self) -> bool {
        matches!(
            self,
            Keeper::Written(_)
                | Keeper::Fencing(Then::ShutdownHorizon { has_committed: true }, _)
                | Keeper::AtShutdownHorizon(_)
                | Keeper::WrittenEnd(_)
                | Keeper::WrittenLow { .. }
                | Keeper::WrittenValue(_)
        )
    }

    /// Whether the directory of the slots is locked.
    pub fn has_directory(&self) -> bool {
        matches!(self, Keeper::Fencing(..) | Keeper::Hidden(_) | Keeper::Moved(_))
    }
}

impl Default for Keeper {
    fn default() -> Keeper {
        Keeper::Up { has_committed: false }
    }
}
