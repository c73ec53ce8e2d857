//! [`SegmentRecords`]: what a server stores about the numbers of segments, and the changes that lead to it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::had::Had;
use crate::rest::Rest;
use crate::signed::Signed;

/// The records of a server.
#[derive(Debug, Default)]
pub struct SegmentRecords {
    /// The registry that answered last.
    pub registry_id: Option<Uuid>,
    /// The high-water marks of each segment.
    pub segments: BTreeMap<String, Had>,
    /// The tokens that registries have signed.
    pub signed: Signed,
}

/// A change of the records, as it is stored in a file.
#[derive(Serialize, Deserialize)]
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
    /// Applies a change. The numbers that are left are not part of the records.
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
}
