//! A server's disk, as it is read and as it is durable, and the part of it that its standby has.
//!
//! Rows are overwritten in place. A write can be read at once, even if it is rolled back. It is durable after its
//! commit, or whenever any process flushes the WAL. A write is never durable without the earlier ones.

use snowflake_id_core::track::{Horizon, TRACKS};
use snowflake_id_core::used::{Use, Uses};

/// The maximum number of segments.
pub const SEGMENTS: usize = 2;

/// The data that belongs to the extension.
#[derive(Clone, Default)]
pub struct Stored {
    pub oid: u32,
    pub horizons: [Horizon; TRACKS],
    pub uses: Uses,
    /// The highest number of each segment that the server had.
    pub had: [i64; SEGMENTS],
    /// The data was emptied, and the keeper has not run a cycle since: a crash now is not covered.
    pub is_incomplete: bool,
}

#[derive(Clone)]
pub enum Write {
    Horizon(usize, Horizon),
    Use(Use),
    Had([i64; SEGMENTS]),
    EmptyHorizons,
    EmptyUses,
    Whole,
    Drop,
    Create(Stored),
}

/// The pages: `None` without the extension.
#[derive(Clone, Default)]
pub struct Pages(pub Option<Stored>);

impl Pages {
    fn apply(&mut self, write: &Write) {
        if let Write::Create(stored) = write {
            self.0 = Some(stored.clone());
        }
        let Some(stored) = &mut self.0 else { return };
        match write {
            Write::Horizon(track, horizon) => stored.horizons[*track] = *horizon,
            Write::Use(record) => {
                stored.uses.add([*record]);
            }
            Write::Had(had) => stored.had = *had,
            Write::EmptyHorizons => (stored.horizons, stored.is_incomplete) = (<_>::default(), true),
            Write::EmptyUses => (stored.uses, stored.is_incomplete) = (<_>::default(), true),
            Write::Whole => stored.is_incomplete = false,
            Write::Drop => self.0 = None,
            Write::Create(_) => {}
        }
    }

    /// Whether a server that is started from this data is covered.
    pub fn is_sound(&self) -> bool {
        self.0.as_ref().is_some_and(|stored| !stored.is_incomplete)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StandbyKind {
    None,
    Synchronous,
    Asynchronous,
}

/// A standby: the writes that it has replayed, and those that it has yet to receive.
#[derive(Clone, Default)]
pub struct Standby {
    pub pages: Pages,
    coming: Vec<Write>,
    /// The number of writes that it has.
    pub lsn: u64,
    pub is_away: bool,
}

impl Standby {
    /// Receives `count` writes.
    pub fn receive(&mut self, count: usize) {
        for write in self.coming.drain(..count.min(self.coming.len())) {
            self.pages.apply(&write);
            self.lsn += 1;
        }
    }

    pub fn is_behind_by(&self) -> usize {
        self.coming.len()
    }
}

#[derive(Clone)]
pub struct Disk {
    pub read: Pages,
    pub durable: Pages,
    pending: Vec<Write>,
    /// The number of writes, and the number of durable ones.
    pub lsn: u64,
    pub kind: StandbyKind,
    pub standby: Standby,
}

impl Disk {
    pub fn new(pages: Pages, kind: StandbyKind) -> Disk {
        let standby = Standby { pages: pages.clone(), ..Standby::default() };
        Disk { read: pages.clone(), durable: pages, pending: vec![], lsn: 0, kind, standby }
    }

    pub fn write(&mut self, write: Write) {
        self.read.apply(&write);
        self.pending.push(write);
        self.lsn += 1;
    }

    pub fn unflushed(&self) -> usize {
        self.pending.len()
    }

    /// Makes the oldest `count` pending writes durable. They are sent to the standby.
    pub fn flush(&mut self, count: usize) {
        for write in self.pending.drain(..count.min(self.pending.len())) {
            self.durable.apply(&write);
            self.standby.coming.push(write);
        }
    }

    /// Commits the writes. Returns `false` if the commit has to wait for the standby.
    pub fn commit(&mut self, is_local: bool) -> bool {
        self.flush(usize::MAX);
        if self.kind != StandbyKind::Synchronous || is_local {
            return true;
        }
        if !self.standby.is_away {
            self.standby.receive(usize::MAX);
        }
        self.standby.coming.is_empty()
    }

    /// The power fails: `survivors` of the writes that are not durable survive.
    pub fn crash(&mut self, survivors: usize) {
        self.flush(survivors);
        self.lsn -= self.pending.len() as u64;
        self.pending.clear();
        self.read = self.durable.clone();
    }

    /// The standby is promoted, and gets a standby of its own.
    pub fn promote(&mut self) {
        let (pages, lsn) = (self.standby.pages.clone(), self.standby.lsn);
        *self = Disk { lsn, ..Disk::new(pages, self.kind) };
        self.standby.lsn = lsn;
    }
}
