//! The high-water marks of a server in a segment.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::answer::{Granted, Period};

/// The highest numbers of a segment that the server has been granted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Had {
    /// The mark in the current period, or in the segment if the segment has no periods.
    pub now: Option<End>,
    /// The mark in the next period, which the server has not entered yet.
    pub next: Option<End>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// The highest number that was granted.
    pub until: i64,
    /// The registry that granted it, if known.
    pub registry_id: Option<Uuid>,
    /// The period to which the number belongs, if the segment has periods.
    pub period: Option<Period>,
}

impl Had {
    /// Returns the number above which a granted range must start; `None` if there is no such limit. The limit is the
    /// highest mark of the server, but the mark of the next period is ignored if the range belongs to an earlier
    /// period. All ranges of past periods start below the limit, so the server never returns to an earlier period.
    pub fn bound(&self, granted: &Granted) -> Option<i64> {
        let is_not_later = |end: &&End| match (end.period, granted.period) {
            (Some(had), Some(new)) => had.key <= new.key,
            _ => true,
        };
        self.now.iter().chain(self.next.iter().filter(is_not_later)).map(|end| end.until).max()
    }

    /// Records that a range is about to be used. The mark of a later period is not changed. If the range was held
    /// back, its existing mark is used, because that mark contains the registry that granted the range.
    pub fn enter(&mut self, end: Option<End>) {
        let held = self.next.take_if(|next| end.as_ref().is_some_and(|end| end.until == next.until));
        self.now = held.or(end);
        self.drop_what_has_begun();
    }

    /// Merges the marks with those of another copy. The higher mark of each pair is kept. The higher mark is also the
    /// later one, because numbers of a later period are always higher.
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
