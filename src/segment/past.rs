//! The file in which a server notes up to where it has had numbers: `snowflake_id.segments` in the data directory.
//!
//! Whatever a registry gives has to lie above that, and it is told about it, so that it goes on above: also one that
//! has lost commits, or another one than before. A copy of the file, in a base backup or on a promoted standby, does no
//! harm: what it says was had is not given to anybody.

use std::collections::BTreeMap;
use std::io;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::answer::{Granted, Period};
use crate::background::file;

const NAME: &str = "snowflake_id.segments";

/// What is known of the past.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Past {
    /// The registry that answered last.
    pub registry_id: Option<Uuid>,
    segments: BTreeMap<String, Had>,
    /// What the registry has signed: what it has given of a name, to whomever.
    #[serde(default)]
    tokens: BTreeMap<String, String>,
    /// Whether the file could not be written the last time.
    #[serde(skip)]
    is_unwritable: bool,
}

/// Up to where the server has had numbers of a segment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Had {
    /// In the period in which it is, or without one.
    pub now: Option<End>,
    /// In the period after it, which it has not entered yet.
    pub next: Option<End>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// The highest number.
    pub until: i64,
    /// Who has given it, if that is known.
    pub registry_id: Option<Uuid>,
    /// The period to which it belongs, if it belongs to one.
    pub period: Option<Period>,
}

/// The file, with what tells people what it is.
#[derive(Serialize, Deserialize)]
struct Contents<P> {
    about: String,
    past: P,
}

impl Past {
    /// Reads the file. Without one nothing is known.
    pub fn read() -> Result<Past, String> {
        let read = || -> io::Result<Past> {
            let Some(file) = file::open(NAME)? else { return Ok(Past::default()) };
            let contents: Contents<Past> = serde_json::from_reader(io::BufReader::new(file))?;
            Ok(contents.past)
        };
        read().map_err(|problem| format!("cannot use file {NAME}: {problem}"))
    }

    /// Changes what is known, and writes it down first: nothing counts that is not in the file.
    pub fn keep(&mut self, change: impl FnOnce(&mut Past)) -> Result<(), String> {
        let mut past = self.clone();
        change(&mut past);
        if past == *self {
            return Ok(());
        }
        self.write(&past)?;
        *self = Past { is_unwritable: false, ..past };
        Ok(())
    }

    /// If the file could not be written the last time, tries again. What is fetched while it cannot is lost for everybody.
    pub fn prove_writable(&mut self) -> Result<(), String> {
        if self.is_unwritable { self.write(&self.clone()) } else { Ok(()) }
    }

    fn write(&mut self, past: &Past) -> Result<(), String> {
        let about = "up to where this server has had numbers of segments, kept by extension snowflake_id";
        let written = file::replace(NAME, |_| Ok(Contents { about: about.into(), past }));
        self.is_unwritable = written.is_err();
        written.map_err(|problem| format!("cannot write file {NAME}: {problem}"))
    }

    /// Whether there is a file.
    pub fn is_there() -> bool {
        matches!(file::open(NAME), Ok(Some(_)))
    }

    /// All names of which this server has had numbers.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.segments.keys().map(String::as_str)
    }

    /// What can be shown of a name.
    pub fn token(&self, name: &str) -> Option<&str> {
        self.tokens.get(name).map(String::as_str)
    }

    /// Notes evidence. What shows less than is known already is of no use.
    pub fn prove(&mut self, name: &str, token: String) {
        if self.token(name).is_none_or(|known| shown(known) <= shown(&token)) {
            self.tokens.insert(name.into(), token);
        }
    }

    pub fn had(&self, name: &str) -> Had {
        self.segments.get(name).cloned().unwrap_or_default()
    }

    /// The number above which a range has to lie: the highest that the server had, but for those of a later period than
    /// that of the range which it has not entered. An earlier period than that in which it is lies below, so that it
    /// never goes back to one.
    pub fn bound(&self, name: &str, granted: &Granted) -> Option<i64> {
        let had = self.segments.get(name)?;
        let is_not_later = |end: &&End| match (end.period, granted.period) {
            (Some(had), Some(new)) => had.key <= new.key,
            _ => true,
        };
        had.now.iter().chain(had.next.iter().filter(is_not_later)).map(|end| end.until).max()
    }

    /// Whether a range of a later period was used since this one was fetched.
    pub fn is_over(&self, name: &str, granted: &Granted) -> bool {
        let now = self.segments.get(name).and_then(|had| had.now.as_ref());
        now.is_some_and(|now| granted.range.first <= now.until)
    }

    /// Notes a range that is going to be used at once. What was noted of a later period stays.
    pub fn enter(&mut self, name: &str, granted: &Granted) {
        let end = self.end_of(granted);
        let had = self.segments.entry(name.into()).or_default();
        let is_later = |next: &End| end.as_ref().is_some_and(|end| next.until > end.until);
        *had = Had { next: had.next.take().filter(is_later), now: end };
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

/// What a token shows: where the segment goes on, in its period and in the next one.
fn shown(token: &str) -> Option<(u128, u128)> {
    let (statement, _) = token.split_once('.')?;
    let mut parts = statement.split(':').skip(2);
    let next = parts.next()?.parse().ok()?;
    Some((next, parts.next()?.parse().unwrap_or(0)))
}
