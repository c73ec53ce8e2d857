//! The server's records about numbers of segments. The records contain the server's high-water mark for each name,
//! the registry that answered last, and the tokens that registries have signed. The records are stored before a call
//! gets a number.
//!
//! A range must be above the high-water mark. The server reports the high-water mark to the registry, which continues
//! above this mark even if the registry has lost commits or did not grant the numbers.
//!
//! The high-water marks are stored twice:
//!
//! - in the database ([`taken`]): the WAL carries them to every server that has rows with these numbers;
//! - in file `snowflake_id.segments` of the data directory, with the other records: the file outlives the extension.
//!
//! After a start, the server uses the higher mark. An outdated copy in a base backup or on a promoted standby is
//! harmless, because it excludes only numbers that are not granted again. At a clean stop, the file also contains the
//! numbers that are left (see [`ticket`](super::ticket)).

use std::collections::BTreeMap;
use std::ops::Bound;

use snowflake_id_core::had::{End, Had};
use snowflake_id_core::rest::Rest;
use snowflake_id_core::segment_answer::Granted;
use snowflake_id_core::segment_records::{Change, SegmentRecords};
use uuid::Uuid;

use super::taken::{self, Taken};
use crate::background::file;
use crate::background::journal::Journal;
use crate::pg::relation::Extension;

const NAME: &str = "snowflake_id.segments";
const HEADER: &str = "# format 1: the highest numbers of segments that this server has received, written by extension snowflake_id";

/// The records of this server.
#[derive(Debug)]
pub struct RangeFile {
    records: SegmentRecords,
    /// The numbers that were left at the last clean stop. The worker takes them over once.
    rest: Option<Rest>,
    journal: Journal,
    taken: Taken,
    /// True if the last attempt to store the records failed.
    is_unwritable: bool,
}

/// Changes that are stored together.
#[derive(Default)]
pub struct Update {
    registry_id: Option<Uuid>,
    had: BTreeMap<String, Had>,
    tokens: Vec<(Option<Uuid>, String, String)>,
}

impl RangeFile {
    /// Reads the file and the database. If there is no file, only the marks in the database are known.
    pub fn read() -> Result<RangeFile, String> {
        let mut records = SegmentRecords::default();
        let mut rest = None;
        let journal = Journal::read(NAME, HEADER, |change| {
            rest = None;
            match change {
                Change::Rest(left) => rest = Some(left),
                change => records.apply(change),
            }
        });
        let journal = journal.map_err(|problem| format!("could not read file \"{NAME}\": {problem}"))?;
        let (taken, noted) = Taken::read()?;
        for (name, had) in noted {
            let known = records.segments.entry(name.clone()).or_default();
            let stored = known.clone();
            known.merge(had);
            if *known != stored {
                // Another server has used later numbers, and this server has their rows.
                rest.iter_mut().for_each(|rest| rest.discard(&name));
            }
        }
        Ok(RangeFile { records, rest, journal, taken, is_unwritable: false })
    }

    /// Returns the numbers that were left at the last clean stop. Only the first call returns them.
    pub fn take_rest(&mut self) -> Option<Rest> {
        let rest = self.rest.take()?;
        // The next worker must not find them again, even if nothing else changes. If this fails, it finds no ticket.
        let _ = self.append(&[]);
        Some(rest)
    }

    /// Stores the numbers that are left. The file must not change afterwards.
    pub fn keep_rest(&mut self, rest: Rest) -> Result<(), String> {
        self.append(&[Change::Rest(rest)])
    }

    /// Stores the changes, and then applies them. A change that cannot be stored is not applied.
    pub fn keep(&mut self, update: Update) -> Result<(), String> {
        let Update { registry_id, had, tokens } = update;
        let mut changes = vec![];
        if registry_id.is_some() && registry_id != self.records.registry_id {
            changes.push(Change::Registry(registry_id));
        }
        let of_token = |(registry_id, name, token)| Change::Token { registry_id, name, token };
        let is_new = |(registry_id, name, token): &(Option<Uuid>, String, String)| {
            !self.records.signed.is_last(*registry_id, name, token)
        };
        changes.extend(tokens.into_iter().filter(is_new).map(of_token));
        let is_changed = |(name, had): &(&String, &Had)| self.records.segments.get(*name) != Some(*had);
        let of_mark = |(name, had): (&String, &Had)| Change::Had { name: name.clone(), had: had.clone() };
        changes.extend(had.iter().filter(is_changed).map(of_mark));
        if !changes.is_empty() {
            let written = self.append(&changes).and_then(|()| match had.is_empty() {
                true => Ok(()), // The database contains only the marks.
                false => self.taken.write(&had),
            });
            self.is_unwritable = written.is_err();
            written?;
        }
        changes.into_iter().for_each(|change| self.records.apply(change));
        Ok(())
    }

    fn append(&mut self, changes: &[Change]) -> Result<(), String> {
        let written = self.journal.append(changes, || self.records.as_changes());
        written.map_err(|problem| format!("could not write file \"{NAME}\": {problem}"))
    }

    /// Tries again to store the records if the last attempt failed. A range is lost if it is fetched but cannot be
    /// recorded.
    pub fn prove_writable(&mut self) -> Result<(), String> {
        if self.is_unwritable {
            self.append(&[])?;
            self.note_again()?;
            self.is_unwritable = false;
        }
        Ok(())
    }

    /// Restores marks that are missing from the database, for example because the extension was dropped and created
    /// again.
    pub fn note_again(&mut self) -> Result<(), String> {
        self.taken.write(&self.records.segments)
    }

    /// Returns whether any records exist, or may exist in an unreadable file. The function must be called in a
    /// transaction in the keeper's database.
    pub fn is_there(extension: Extension) -> bool {
        !matches!(file::open(NAME), Ok(None)) || taken::is_there(extension)
    }

    /// Returns the registry that answered last.
    pub fn registry_id(&self) -> Option<Uuid> {
        self.records.registry_id
    }

    /// Iterates over the names of all segments for which this server has been granted numbers.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.records.segments.keys().map(String::as_str)
    }

    /// Iterates over the names that follow a name, or over all names.
    pub fn names_after(&self, name: Option<&str>) -> impl Iterator<Item = &str> {
        let after = name.map_or(Bound::Unbounded, Bound::Excluded);
        self.records.segments.range::<str, _>((after, Bound::Unbounded)).map(|(name, _)| name.as_str())
    }

    /// Returns the tokens that this registry has signed for a name.
    pub fn tokens(&self, registry_id: Option<Uuid>, name: &str) -> Vec<String> {
        self.records.signed.tokens(registry_id, name)
    }

    pub fn had(&self, name: &str) -> Had {
        self.records.segments.get(name).cloned().unwrap_or_default()
    }

    /// Returns whether a fetched range can no longer be used because a later range has already been used.
    pub fn is_over(&self, name: &str, granted: &Granted) -> bool {
        let now = self.records.segments.get(name).and_then(|had| had.now.as_ref());
        now.is_some_and(|now| granted.range.first <= now.until)
    }
}

impl Update {
    /// Records the registry that answered.
    pub fn set_registry(&mut self, registry_id: Option<Uuid>) {
        self.registry_id = registry_id;
    }

    /// Stores a token that a registry has signed.
    pub fn prove(&mut self, registry_id: Option<Uuid>, name: &str, token: String) {
        self.tokens.push((registry_id, name.into(), token));
    }

    /// Returns the high-water marks of a name after these changes.
    fn had<'a>(&'a mut self, file: &RangeFile, name: &str) -> &'a mut Had {
        self.had.entry(name.into()).or_insert_with(|| file.had(name))
    }

    /// Returns the number above which a granted range must start, or `None` if there is no such limit.
    pub fn bound(&self, file: &RangeFile, name: &str, granted: &Granted) -> Option<i64> {
        self.had.get(name).or(file.records.segments.get(name))?.bound(granted)
    }

    /// Records that a range is about to be used. The high-water mark of a later period does not change.
    pub fn enter(&mut self, file: &RangeFile, name: &str, granted: &Granted) {
        let end = self.end_of(file, granted);
        self.had(file, name).enter(end);
    }

    /// Records a range that is held back until its period starts.
    pub fn hold(&mut self, file: &RangeFile, name: &str, granted: &Granted) {
        let end = self.end_of(file, granted);
        self.had(file, name).next = end;
    }

    fn end_of(&self, file: &RangeFile, granted: &Granted) -> Option<End> {
        let registry_id = self.registry_id.or(file.records.registry_id);
        Some(End { until: granted.range.last()?, registry_id, period: granted.period })
    }
}
