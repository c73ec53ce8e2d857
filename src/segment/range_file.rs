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
//! harmless, because it excludes only numbers that are not granted again.

use std::collections::BTreeMap;
use std::io;

use serde::{Deserialize, Serialize};
use snowflake_id_core::signed::Signed;
use uuid::Uuid;

use super::answer::Granted;
use super::had::{End, Had};
use super::taken;
use crate::background::file;
use crate::pg::relation::Extension;

const NAME: &str = "snowflake_id.segments";

/// The records of this server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RangeFile {
    /// The registry that answered last.
    pub registry_id: Option<Uuid>,
    segments: BTreeMap<String, Had>,
    #[serde(default)]
    signed: Signed,
    /// True if the last attempt to store the records failed.
    #[serde(skip)]
    is_unwritable: bool,
}

/// The contents of the file, with an explanation for administrators.
#[derive(Serialize, Deserialize)]
struct Contents<P> {
    about: String,
    range_file: P,
}

impl RangeFile {
    /// Reads the file and the database. If there is no file, only the marks in the database are known.
    pub fn read() -> Result<RangeFile, String> {
        let read = || -> io::Result<RangeFile> {
            let Some(file) = file::open(NAME)? else { return Ok(RangeFile::default()) };
            let contents: Contents<RangeFile> = serde_json::from_reader(io::BufReader::new(file))?;
            Ok(contents.range_file)
        };
        let mut range_file =
            read().map_err(|problem| format!("could not read file \"{NAME}\": {problem}"))?;
        for (name, had) in taken::read()? {
            range_file.segments.entry(name).or_default().merge(had);
        }
        Ok(range_file)
    }

    /// Stores changed records, and then applies the change. A change that cannot be stored is not applied.
    pub fn keep(&mut self, change: impl FnOnce(&mut RangeFile)) -> Result<(), String> {
        let mut range_file = self.clone();
        change(&mut range_file);
        if range_file == *self {
            return Ok(());
        }
        self.write(&range_file)?;
        *self = RangeFile { is_unwritable: false, ..range_file };
        Ok(())
    }

    /// Tries again to store the records if the last attempt failed. A range is lost if it is fetched but cannot be
    /// recorded.
    pub fn prove_writable(&mut self) -> Result<(), String> {
        if self.is_unwritable { self.write(&self.clone()) } else { Ok(()) }
    }

    fn write(&mut self, range_file: &RangeFile) -> Result<(), String> {
        let about = "the highest numbers of segments that this server has received, written by extension snowflake_id";
        let written = file::replace(NAME, |_| Ok(Contents { about: about.into(), range_file }));
        let written = written.map_err(|problem| format!("could not write file \"{NAME}\": {problem}"));
        let written = written.and_then(|()| taken::write(&range_file.segments));
        self.is_unwritable = written.is_err();
        written
    }

    /// Restores marks that are missing from the database, for example because the extension was dropped and created
    /// again.
    pub fn note_again(&self) -> Result<(), String> {
        taken::write(&self.segments)
    }

    /// Returns whether any records exist, or may exist in an unreadable file. The function must be called in a
    /// transaction in the keeper's database.
    pub fn is_there(extension: Extension) -> bool {
        !matches!(file::open(NAME), Ok(None)) || taken::is_there(extension)
    }

    /// Iterates over the names of all segments for which this server has been granted numbers.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.segments.keys().map(String::as_str)
    }

    /// Returns the tokens that this registry has signed for a name.
    pub fn tokens(&self, registry_id: Option<Uuid>, name: &str) -> Vec<String> {
        self.signed.tokens(registry_id, name)
    }

    /// Stores a token that a registry has signed.
    pub fn prove(&mut self, registry_id: Option<Uuid>, name: &str, token: String) {
        self.signed.note(registry_id, name, token);
    }

    pub fn had(&self, name: &str) -> Had {
        self.segments.get(name).cloned().unwrap_or_default()
    }

    /// Returns the number above which a granted range must start, or `None` if there is no such limit.
    pub fn bound(&self, name: &str, granted: &Granted) -> Option<i64> {
        self.segments.get(name)?.bound(granted)
    }

    /// Returns whether a fetched range can no longer be used because a later range has already been used.
    pub fn is_over(&self, name: &str, granted: &Granted) -> bool {
        let now = self.segments.get(name).and_then(|had| had.now.as_ref());
        now.is_some_and(|now| granted.range.first <= now.until)
    }

    /// Records that a range is about to be used. The high-water mark of a later period does not change.
    pub fn enter(&mut self, name: &str, granted: &Granted) {
        let end = self.end_of(granted);
        self.segments.entry(name.into()).or_default().enter(end);
    }

    /// Records a range that is held back until its period starts.
    pub fn hold(&mut self, name: &str, granted: &Granted) {
        let end = self.end_of(granted);
        self.segments.entry(name.into()).or_default().next = end;
    }

    fn end_of(&self, granted: &Granted) -> Option<End> {
        Some(End { until: granted.range.last()?, registry_id: self.registry_id, period: granted.period })
    }
}
