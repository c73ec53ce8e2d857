//! [`SegmentRecords`]: the records of a server or program about the numbers of segments, and the changes to these
//! records.

use std::collections::BTreeMap;
use std::ops::Bound;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::had::{End, Had};
use crate::rest::Rest;
use crate::segment_answer::Granted;
use crate::signed::Signed;

/// The records of a server or program.
#[derive(Clone, Debug, Default)]
pub struct SegmentRecords {
    /// The registry that answered last.
    pub registry_id: Option<Uuid>,
    /// The high-water marks of each segment.
    pub segments: BTreeMap<String, Had>,
    /// The tokens that registries have signed.
    pub signed: Signed,
}

/// A change of the records, as it is stored in a file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// Another registry has answered.
    Registry(Option<Uuid>),
    /// A segment has these high-water marks.
    Had {
        /// The name of the segment.
        name: String,
        /// The marks.
        had: Had,
    },
    /// A registry has signed a token.
    Token {
        /// The registry, if known.
        registry_id: Option<Uuid>,
        /// The name of the segment.
        name: String,
        /// The token.
        token: String,
    },
    /// The numbers that were left at a clean stop. They are valid only if the change is in the last line of the file.
    Rest(Rest),
}

impl SegmentRecords {
    /// Applies a change. [`Change::Rest`] has no effect, because the numbers that are left are not part of the records.
    pub fn apply(&mut self, change: Change) {
        match change {
            Change::Registry(registry_id) => self.registry_id = registry_id,
            Change::Had { name, had } => drop(self.segments.insert(name, had)),
            Change::Token { registry_id, name, token } => self.signed.note(registry_id, &name, token),
            Change::Rest(_) => {}
        }
    }

    /// Returns the changes that lead to this state.
    pub fn as_changes(&self) -> Vec<Change> {
        let marks = self.segments.iter();
        let marks = marks.map(|(name, had)| Change::Had { name: name.clone(), had: had.clone() });
        let tokens = self.signed.all().map(|(registry_id, name, token)| Change::Token {
            registry_id,
            name: name.into(),
            token: token.into(),
        });
        std::iter::once(Change::Registry(self.registry_id)).chain(tokens).chain(marks).collect()
    }

    /// Iterates over the names that follow a name, or over all names.
    pub fn names_after(&self, name: Option<&str>) -> impl Iterator<Item = &str> {
        let after = name.map_or(Bound::Unbounded, Bound::Excluded);
        self.segments.range::<str, _>((after, Bound::Unbounded)).map(|(name, _)| name.as_str())
    }

    /// Returns whether a granted range can no longer be used because a later range has already been used.
    pub fn is_over(&self, name: &str, granted: &Granted) -> bool {
        let now = self.segments.get(name).and_then(|had| had.now.as_ref());
        now.is_some_and(|now| granted.range.first <= now.until)
    }
}

/// Changes that are stored together, before a number is used.
#[derive(Debug)]
pub struct Update<'a> {
    records: &'a SegmentRecords,
    registry_id: Option<Uuid>,
    had: BTreeMap<String, Had>,
    tokens: Vec<Change>,
}

impl<'a> Update<'a> {
    /// Begins an update with the answer of a registry. `registry_id` is the ID of the registry, if known.
    pub fn new(records: &'a SegmentRecords, registry_id: Option<Uuid>) -> Update<'a> {
        let registry_id = registry_id.or(records.registry_id);
        Update { records, registry_id, had: BTreeMap::new(), tokens: vec![] }
    }

    /// Adds a token that the registry has signed.
    pub fn prove(&mut self, name: &str, token: String) {
        if !self.records.signed.is_last(self.registry_id, name, &token) {
            self.tokens.push(Change::Token { registry_id: self.registry_id, name: name.into(), token });
        }
    }

    /// Returns the number above which a granted range must start, or `None` if there is no such limit.
    pub fn bound(&self, name: &str, granted: &Granted) -> Option<i64> {
        self.had.get(name).or(self.records.segments.get(name))?.bound(granted)
    }

    /// Records that a range is about to be used. The high-water mark of a later period does not change.
    pub fn enter(&mut self, name: &str, granted: &Granted) {
        let end = self.end_of(granted);
        self.had(name).enter(end);
    }

    /// Records a range that is held back until its period starts.
    pub fn hold(&mut self, name: &str, granted: &Granted) {
        let end = self.end_of(granted);
        self.had(name).next = end;
    }

    /// Returns the changes.
    pub fn changes(self) -> Vec<Change> {
        let registry_id = Some(self.registry_id).filter(|id| *id != self.records.registry_id);
        let had = self.had.into_iter().filter(|(name, had)| self.records.segments.get(name) != Some(had));
        let had = had.map(|(name, had)| Change::Had { name, had });
        registry_id.map(Change::Registry).into_iter().chain(self.tokens).chain(had).collect()
    }

    fn had(&mut self, name: &str) -> &mut Had {
        let known = || self.records.segments.get(name).cloned().unwrap_or_default();
        self.had.entry(name.into()).or_insert_with(known)
    }

    fn end_of(&self, granted: &Granted) -> Option<End> {
        Some(End { until: granted.range.last()?, registry_id: self.registry_id, period: granted.period })
    }
}
