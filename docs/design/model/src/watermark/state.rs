//! The state: shared memory, the transactions with their rows, the writers, and the readers.

use snowflake_id_core::watermark::Snapshot;

/// The layout that the readers follow.
pub const FOLLOWED: u8 = 0;

/// The whole state. A transaction's ID is its index in `transactions`, plus one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The slots by index. After a reset, the layouts get new ones.
    pub slots: Vec<SlotState>,
    /// The worker ID of the gate.
    pub worker: u8,
    /// The worker IDs that were used, as bits.
    pub used: u8,
    /// The counter at which new slots start.
    pub floor: u8,
    pub rows: Vec<Row>,
    pub transactions: Vec<Status>,
    pub writers: Vec<Writer>,
    /// The list of prepared transactions.
    pub prepared: Vec<Entry>,
    /// The next transaction when the server was started. PostgreSQL starts with the transaction before as the latest
    /// that has completed, so that snapshots list all transactions that were prepared before the start.
    pub next_at_start: u8,
    /// The first transaction of which the marks are known.
    pub first: u8,
    /// Which samples are kept does not matter here, so there is at most one, and any of them.
    pub sample: Option<Sample>,
    pub readers: Vec<Reader>,
    pub changes_left: u8,
    pub resets_left: u8,
    pub restarts_left: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SlotState {
    pub layout: u8,
    pub counter: u8,
    /// The first counter of the identity of the gate.
    pub identity_from: u8,
    pub is_retired: bool,
}

/// A row with the ID that its transaction has taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Row {
    pub layout: u8,
    pub id: u8,
    pub transaction: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    Running,
    Prepared,
    Committed,
    RolledBack,
}

/// A process that writes, and its marks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Writer {
    pub line: Line,
    pub stage: Stage,
    /// The transaction, from its first row on.
    pub transaction: Option<u8>,
    /// The slot that the process has marked (`MARKED` of the session).
    pub marked: Option<u8>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stage {
    #[default]
    InProgress,
    /// The marks were copied to the list of prepared transactions.
    Copied,
    /// The transaction has ended for all other sessions, or is prepared. The marks are still there.
    Ended,
    /// Only in a broken protocol: the marks were cleared before the transaction has ended.
    Cleared,
}

/// The contents of a `Marks`: slots and counters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Line(pub Vec<(u8, u8)>);

/// An entry in the list of prepared transactions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    pub transaction: u8,
    pub line: Line,
}

/// The watermarks of the slots, and a snapshot in which all transactions below them have ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sample {
    pub low: Vec<Option<u8>>,
    pub snapshot: Snapshot,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Reader {
    /// The highest ID that was read. The next statement continues there.
    pub cursor: u8,
    /// The rows that were read, as bits.
    pub read: u16,
    pub statement: Option<Statement>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Statement {
    pub snapshot: Snapshot,
    /// The rows up to this ID were returned or left out.
    pub position: u8,
    /// The parts that were read for the watermark, in the order of the protocol. `None` before the statement asks.
    pub seen: Option<Seen>,
    /// Only in a broken protocol: the first counter of the identity when the statement began.
    pub from: Option<u8>,
}

/// What a reader has read so far for a watermark, while it holds the lock of the directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Seen {
    /// The number of parts.
    pub parts: u8,
    pub counters: Vec<Option<u8>>,
    pub lines: Vec<Line>,
    pub prepared: Vec<Entry>,
    pub snapshot: Snapshot,
}

impl State {
    /// The snapshot that PostgreSQL would take now.
    pub fn snapshot(&self) -> Snapshot {
        let is_running = |status: &Status| matches!(status, Status::Running | Status::Prepared);
        let latest = self.transactions.iter().rposition(|status| !is_running(status));
        let xmax = latest.map_or(1, |at| at as u64 + 2).max(self.next_at_start.into());
        let running = (1..xmax).filter(|&id| is_running(&self.transactions[id as usize - 1])).collect();
        Snapshot { xmax, running }
    }

    pub fn status(&mut self, transaction: u8) -> &mut Status {
        &mut self.transactions[usize::from(transaction) - 1]
    }

    /// The slot that a layout uses.
    pub fn slot_of(&self, layout: u8) -> Option<usize> {
        self.slots.iter().position(|slot| slot.layout == layout && !slot.is_retired)
    }

    /// Whether the directory is locked by a reader.
    pub fn is_locked(&self) -> bool {
        let seen = self.readers.iter().filter_map(|reader| reader.statement.as_ref()?.seen.as_ref());
        seen.into_iter().any(|seen| seen.parts > 0)
    }
}
