//! What a server notes about numbers before anybody gets them: up to where it has had those of each name, which registry
//! has answered last, and what registries have signed.
//!
//! Whatever a registry gives has to lie above that, and it is told about it, so that it goes on above: also one that
//! has lost commits, or another one than before.
//!
//! Up to where numbers were had is noted twice:
//!
//! - in the database ([`taken`]): the WAL brings it to wherever the rows with these numbers are;
//! - in file `snowflake_id.segments` of the data directory, with the rest: it outlives `DROP EXTENSION`.
//!
//! At a start the higher one counts. A copy that is out of date, in a base backup or on a promoted standby, does no harm:
//! what it says was had is not given to anybody.

use std::collections::BTreeMap;
use std::io;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::answer::Granted;
use super::had::{End, Had};
use super::signed::Signed;
use super::taken;
use crate::background::file;
use crate::pg::relation::Extension;

const NAME: &str = "snowflake_id.segments";

/// What is known of the past.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RangeFile {
    /// The registry that answered last.
    pub registry_id: Option<Uuid>,
    segments: BTreeMap<String, Had>,
    #[serde(default)]
    signed: Signed,
    /// Whether it could not be noted the last time.
    #[serde(skip)]
    is_unwritable: bool,
}

/// The file, with what tells people what it is.
#[derive(Serialize, Deserialize)]
struct Contents<P> {
    about: String,
    range_file: P,
}

impl RangeFile {
    /// Reads file and database. Without a file nothing is known but what is in the database.
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

    /// Changes what is known, and writes it down first: nothing counts that is not noted.
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

    /// If it could not be noted the last time, tries again. What is fetched while it cannot is lost for everybody.
    pub fn prove_writable(&mut self) -> Result<(), String> {
        if self.is_unwritable { self.write(&self.clone()) } else { Ok(()) }
    }

    fn write(&mut self, range_file: &RangeFile) -> Result<(), String> {
        let about =
            "the highest numbers of segments that this server has had, written by extension snowflake_id";
        let written = file::replace(NAME, |_| Ok(Contents { about: about.into(), range_file }));
        let written = written.map_err(|problem| format!("could not write file \"{NAME}\": {problem}"));
        let written = written.and_then(|()| taken::write(&range_file.segments));
        self.is_unwritable = written.is_err();
        written
    }

    /// Notes again what is gone from the database: the extension was dropped and created again, for example.
    pub fn note_again(&self) -> Result<(), String> {
        taken::write(&self.segments)
    }

    /// In a transaction in the keeper's database: whether anything is noted, or may be where nobody can read it.
    pub fn is_there(extension: Extension) -> bool {
        !matches!(file::open(NAME), Ok(None)) || taken::is_there(extension)
    }

    /// All names of which this server has had numbers.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.segments.keys().map(String::as_str)
    }

    /// What can be shown of a name to a registry.
    pub fn tokens(&self, registry_id: Option<Uuid>, name: &str) -> Vec<String> {
        self.signed.tokens(registry_id, name)
    }

    /// Notes what a registry has signed.
    pub fn prove(&mut self, registry_id: Option<Uuid>, name: &str, token: String) {
        self.signed.note(registry_id, name, token);
    }

    pub fn had(&self, name: &str) -> Had {
        self.segments.get(name).cloned().unwrap_or_default()
    }

    /// The number above which a range has to lie.
    pub fn bound(&self, name: &str, granted: &Granted) -> Option<i64> {
        self.segments.get(name)?.bound(granted)
    }

    /// Whether a range of a later period was used since this one was fetched.
    pub fn is_over(&self, name: &str, granted: &Granted) -> bool {
        let now = self.segments.get(name).and_then(|had| had.now.as_ref());
        now.is_some_and(|now| granted.range.first <= now.until)
    }

    /// Notes a range that is going to be used at once. What was noted of a later period stays.
    pub fn enter(&mut self, name: &str, granted: &Granted) {
        let end = self.end_of(granted);
        self.segments.entry(name.into()).or_default().enter(end);
    }

    /// Notes a range that is going to be used when its period has begun.
    pub fn hold(&mut self, name: &str, granted: &Granted) {
        let end = self.end_of(granted);
        self.segments.entry(name.into()).or_default().next = end;
    }

    fn end_of(&self, granted: &Granted) -> Option<End> {
        Some(End { until: granted.range.last()?, registry_id: self.registry_id, period: granted.period })
    }
}
