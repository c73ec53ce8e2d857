//! [`Had`]: the high-water marks of a server in a segment.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::segment_answer::{Granted, Period};

/// The high-water marks of a server in one segment. A mark is the highest number that the server has been
/// granted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Had {
    /// The mark in the current period. If the segment has no periods, the mark applies to the whole segment.
    pub now: Option<End>,
    /// The mark in the next period. The server has not entered that period yet.
    pub next: Option<End>,
}

/// The end of the numbers that a server was granted, with their origin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// The highest number that was granted.
    pub until: i64,
    /// The ID of the registry that granted the number, if known.
    pub registry_id: Option<Uuid>,
    /// The period of the number, if the segment has periods.
    pub period: Option<Period>,
}

impl Had {
    /// Returns the number above which a granted range must start, or `None` if the range may start at any
    /// number. The limit is the highest mark of the server. The mark of the next period is ignored if the
    /// range belongs to an earlier period. A range of a past period starts below the limit, so the server
    /// rejects the range and never returns to an earlier period.
    pub fn bound(&self, granted: &Granted) -> Option<i64> {
        let is_not_later = |end: &&End| match (end.period, granted.period) {
            (Some(had), Some(new)) => had.key <= new.key,
            _ => true,
        };
        self.now.iter().chain(self.next.iter().filter(is_not_later)).map(|end| end.until).max()
    }

    /// Records that a range is about to be used. The mark of a later period is not changed. If the range was
    /// held back until its period started, the existing mark of the range is kept, because the mark contains
    /// the ID of the registry.
    pub fn enter(&mut self, end: Option<End>) {
        let held = self.next.take_if(|next| end.as_ref().is_some_and(|end| end.until == next.until));
        self.now = held.or(end);
        self.drop_what_has_begun();
    }

    /// Merges the marks of two copies by keeping the higher mark of each pair. The higher mark is also more
    /// recent, because the numbers of later periods are always higher.
    pub fn merge(&mut self, other: Had) {
        let higher = |one: Option<End>, other: Option<End>| match (one, other) {
            (Some(one), Some(other)) => Some(if other.until > one.until { other } else { one }),
            (one, other) => one.or(other),
        };
        *self = Had { now: higher(self.now.take(), other.now), next: higher(self.next.take(), other.next) };
        self.drop_what_has_begun();
    }

    fn drop_what_has_begun(&mut self) {
        let now = self.now.as_ref().map(|now| now.until);
        self.next.take_if(|next| now >= Some(next.until));
    }

    /// Iterates over the existing marks.
    pub fn ends(&self) -> impl Iterator<Item = &End> {
        self.now.iter().chain(&self.next)
    }
}
