//! What there is: the disk, shared memory, the processes, and what the checker remembers. Instants are few
//! (see [`Instant`]), so that a state is small. The product's types are made of this at the border
//! ([`super::border`]) when its functions are called.

use std::hash::{Hash, Hasher};

pub use snowflake_id_core::track::TRACKS;

/// How many identities there are at most.
pub const IDENTITIES: usize = 2;
/// How many values of the clock sequence there are at most, 0 included.
pub const VALUES: usize = 4;
/// How many slots there are at most.
pub const SLOTS: usize = 3;
/// Which of the configured identities: worker 0 or worker 1.
pub type Identity = u8;

/// One of the few instants that occur: `2 * n` stands for the start of unit `n` of Unix time, `2 * n + 1` for a
/// microsecond later. Clocks begin at unit 1: to the product 0 means that there is no instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Instant(pub u8);

impl Instant {
    pub const NEVER: Instant = Instant(u8::MAX);

    /// What the clock reads in the model's unit of time: a clock that reads 0 stands at the epoch of all layouts.
    pub const fn of_clock(clock: u8) -> Instant {
        Instant(2 * (clock + 1))
    }
}

/// A value of the clock sequence with an instant: a horizon, or where slots begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Mark {
    pub value: u8,
    pub at: Instant,
}

impl Mark {
    pub const NONE: Mark = Mark { value: 0, at: Instant(0) };
}

/// Everything: the disk, shared memory, the processes, and what the checker remembers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// `None` between DROP and CREATE EXTENSION.
    pub disk: Option<Disk>,
    pub shared: Shared,
    pub keeper: Keeper,
    /// The order that lies on the desk.
    pub request: Request,
    pub callers: [Caller; 2],
    /// One ID that was handed out, any one. Whatever ID is handed out twice, in some run it is the watched
    /// one, so that the number of IDs need not be bounded.
    pub watched: Option<Id>,
    pub verdict: Verdict,
    /// Below this no ID is made any more, as an administrator has been told.
    pub advanced: Instant,
    /// The leases of [`super::protocol::Protocol::leases`].
    pub leases: [Granted; IDENTITIES],
}

/// What becomes of a lease. The file on disk knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Granted {
    #[default]
    No,
    Now {
        is_renewed: bool,
        /// Before the server was started.
        is_inherited: bool,
    },
}

/// The records of use by their kinds: 0 is none, else the instant plus 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Uses(pub [u8; KINDS]);

/// How many scopes there are: each value, and the others.
pub const SCOPES: usize = VALUES + 1;
pub const KINDS: usize = (IDENTITIES + 1) * SCOPES;

/// What is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Facts {
    pub uses: Uses,
    pub horizons: [Mark; TRACKS],
}

/// Something that is written in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Write {
    Record { kind: u8, until: Instant },
    Horizon { track: u8, horizon: Mark },
}

/// What is stored. What is written in place is read at once, even if it was rolled back; a crash takes back what was not
/// flushed yet. A commit flushes all the WAL before it, anybody else may flush any part of it, from its beginning, at any time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Disk {
    /// Whether it is where the server stored last, as far as the keeper has come to note it; and whether it is where the
    /// keeper stores what it has in hand.
    pub is_known: bool,
    pub is_in_hand: bool,
    pub durable: Facts,
    /// What was written since, in this order.
    pub pending: Writes,
}

/// A list. None is longer: an end of everything and three horizons.
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
    /// What can be read.
    pub fn readable(&self) -> Facts {
        self.after(self.pending.len())
    }

    /// What is there if this much of what was written is.
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

    /// Everything that was written is durable up to there, and the rest is lost.
    pub fn settle(&mut self, writes: usize) {
        self.durable = self.after(writes);
        self.pending = Writes::default();
    }

    pub fn flush(&mut self) {
        self.settle(self.pending.len());
    }
}

/// Shared memory: a crash of the server wipes it out. A crash of a backend does as well, but for the past.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Shared {
    /// One word with the identity; empty, it is closed.
    pub gate: Option<Identity>,
    /// The range of the lease on the server_status.
    pub range: Range,
    pub history: History,
    /// The values of the tracks, and where slots begin; unknown until the keeper has found that out.
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

/// `HistoryWords` of src/shared/past.rs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct History {
    pub published: [Mark; TRACKS],
    pub promised: [Mark; TRACKS],
    pub highest: Instant,
    pub last_identity: Option<Identity>,
    /// Whether the server has stored anything anywhere.
    pub has_place: bool,
    /// The highest clock that was ever accepted. (The time since boot stands still.)
    pub clock: Instant,
}

/// The word of a slot in parts, of which the product's own functions make a word: the value of the clock
/// sequence, and the counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Word {
    pub value: u8,
    pub counter: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Slot {
    pub word: Word,
    /// The horizon in ticks: the first that may not be used.
    pub limit: u8,
    /// As long as nothing was taken since the word was set: the end of what was handed out before that.
    pub end_before: Option<Instant>,
}

/// A lease as the keeper uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lease {
    pub identity: Identity,
    pub range: Range,
}

/// What is to become of the gate; `Close` also if the identity is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GatePlan {
    /// If the lease was renewed, with its range.
    Stay(Option<Lease>),
    Open {
        lease: Lease,
        is_another: bool,
        from: [Instant; TRACKS],
    },
    Reset(Lease),
    Close,
}

/// What one look has led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cycle {
    pub begun: [Mark; TRACKS],
    pub horizons: [Option<Mark>; TRACKS],
    pub advance: Option<Instant>,
    pub gate: GatePlan,
    /// Whether this process had committed a horizon before.
    pub had_committed: bool,
}

/// Everything begins anew, for the identity of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reset {
    pub lease: Lease,
    pub is_ordered: bool,
}

/// What the keeper does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Keeper {
    /// Looks around. Also when there is none: until it acts, nobody can tell the difference.
    Up { has_committed: bool },
    /// Its plan is written, but not committed.
    Written(Cycle),
    /// The plan is committed, but not published.
    Committed(Cycle),
    /// All is published. An order to advance is carried out, and then comes the gate.
    Published { gate: GatePlan, advance: Option<Instant>, has_committed: bool },
    /// The gate is closed; raises the counter of this slot.
    Fencing(Then, u8),
    /// Everything is fenced and these ends are published, but not stored.
    AtShutdownHorizon([Mark; TRACKS]),
    /// They are written, but not committed.
    WrittenEnd([Mark; TRACKS]),
    /// They are committed, but the higher promise is not forgotten yet.
    CommittedEnd([Mark; TRACKS]),
    /// Everything is about to begin anew: the order is looked at.
    Requested(Reset),
    /// The same, after the fence.
    ShuttingOut(Reset),
    /// Who was used is shut out, and the low horizon is written; nothing is committed.
    WrittenLow { anew: Reset, floor: Instant },
    /// The same, committed, but slots go on as before.
    CommittedLow { floor: Instant },
    /// Another value of the clock sequence is promised and written, but not committed.
    WrittenValue(Opening),
    /// The same, committed.
    CommittedValue(Opening),
    /// Its slots have no horizon.
    Hidden(Opening),
    /// Its slots have words with the new value, and no horizon.
    Moved(Opening),
}

/// A value of the clock sequence that is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Opening {
    pub floor: Instant,
    pub horizon: Mark,
    pub has_committed: bool,
}

/// What a fence is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Then {
    Open {
        lease: Lease,
        is_another: bool,
        from: [Instant; TRACKS],
    },
    Close,
    Advance {
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

/// An order of an administrator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Request {
    #[default]
    None,
    /// To begin anew.
    Waiting,
    /// To make no more IDs below this.
    Advance(Instant),
    Claimed,
}

/// A caller of `snowflake_nextval()`: what its attempt holds in registers. It may stay like that for ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Caller {
    /// Which slot, and with which value of the clock sequence it makes IDs.
    pub at: Option<(u8, u8)>,
    pub current: Option<Word>,
    pub identity: Option<Identity>,
    pub limit: Option<u8>,
    /// Decided: this ID is the caller's if the exchange succeeds, and the counter is this one then.
    pub taken: Option<(u16, u8)>,
    /// The slot was retired under the attempt: its word from then on.
    pub retired: Option<Word>,
}

/// An ID that was handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Id {
    /// The slot from which IDs of this layout come that have its value of the clock sequence.
    pub slot_index: u8,
    pub value: u8,
    pub identity: Identity,
    /// The number itself.
    pub number: u16,
    /// The start of its tick.
    pub starts: Instant,
}

/// How the IDs handed out after the watched one compare with it, and what else is wrong with any ID.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Verdict {
    #[default]
    Larger,
    Repeated,
    Smaller,
    /// It is below what an administrator has been told.
    Early,
    /// It is outside the lease.
    Outside,
}

impl Disk {
    /// Whether the records of use, or the horizons, were there once and are gone. A server that ends then has forgotten
    /// who was shut out, or where its IDs ended.
    pub fn is_emptied(&self, history: &History) -> bool {
        let Facts { uses, horizons } = self.durable;
        (uses == Uses::default() && horizons != [Mark::NONE; TRACKS])
            || (history.published[0] != Mark::NONE && horizons[0] == Mark::NONE)
    }
}

impl Keeper {
    /// Then what is stored is locked.
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

    /// Then the directory of the slots is locked.
    pub fn has_directory(&self) -> bool {
        matches!(self, Keeper::Fencing(..) | Keeper::Hidden(_) | Keeper::Moved(_))
    }
}

impl Default for Keeper {
    fn default() -> Keeper {
        Keeper::Up { has_committed: false }
    }
}
