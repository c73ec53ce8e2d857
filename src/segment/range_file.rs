//! The server's records about numbers of segments: the server's high-water mark for each name, the registry that
//! answered last, and the tokens that registries have signed. The records are stored before a call gets a number.
//!
//! A range must be above the high-water mark. The server reports the mark to the registry. The registry then grants
//! only numbers above the mark, even if it has lost commits, or if another registry granted the numbers up to the mark.
//!
//! The high-water marks are stored twice:
//!
//! - in the database ([`taken`]): the WAL carries them to every server that has rows with these numbers;
//! - in file `snowflake_id.segments` of the data directory, with the other records: the file outlives the extension.
//!
//! After a start, the server uses the higher mark. A base backup or a promoted standby may contain an outdated file.
//! This is harmless, because the marks in the file exclude only numbers that were already granted, and a registry does
//! not grant them again. After a clean stop, the file also contains the numbers that are left (see
//! [`ticket`](super::ticket)).

use snowflake_id_core::rest::Rest;
use snowflake_id_core::segment_records::{Change, SegmentRecords};

use super::taken::{self, Noted, Taken};
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
        // Remove the rest from the file, so that the next worker does not find it. If this write fails, the next worker
        // finds the remaining numbers, but cannot redeem their ticket again.
        let _ = self.append(&[]);
        Some(rest)
    }

    /// Stores the numbers that are left. The file must not change afterwards.
    pub fn keep_rest(&mut self, rest: Rest) -> Result<(), String> {
        self.append(&[Change::Rest(rest)])
    }

    /// Stores the changes, and then applies them. Changes that cannot be stored are not applied.
    pub fn keep(&mut self, changes: Vec<Change>) -> Result<(), String> {
        if !changes.is_empty() {
            let written = self.append(&changes).and_then(|()| {
                let marks = changes.iter().filter_map(|change| match change {
                    Change::Had { name, had } => Some((name.clone(), had.clone())),
                    _ => None,
                });
                match marks.collect::<Noted>() {
                    marks if marks.is_empty() => Ok(()), // The database contains only the marks.
                    marks => self.taken.write(&marks),
                }
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

    /// Tries again to store the records if the last attempt failed. Without this attempt, the worker could fetch a
    /// range that it cannot record, and the range would be lost.
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

    /// Returns whether any records exist, or may exist in an unreadable file. Must be called in a transaction in the
    /// keeper's database.
    pub fn is_there(extension: Extension) -> bool {
        !matches!(file::open(NAME), Ok(None)) || taken::is_there(extension)
    }

    /// Returns the records.
    pub fn records(&self) -> &SegmentRecords {
        &self.records
    }
}
