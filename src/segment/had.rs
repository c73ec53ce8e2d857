//! Up to where a server has had numbers of a segment.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::answer::{Granted, Period};

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

impl Had {
    /// The number above which a range has to lie: the highest that the server had, but for those of a later period than
    /// that of the range which it has not entered. An earlier period than that in which it is lies below, so that it
    /// never goes back to one.
    pub fn bound(&self, granted: &Granted) -> Option<i64> {
        let is_not_later = |end: &&End| match (end.period, granted.period) {
            (Some(had), Some(new)) => had.key <= new.key,
            _ => true,
        };
        self.now.iter().chain(self.next.iter().filter(is_not_later)).map(|end| end.until).max()
    }

    /// Notes a range that is going to be used at once. What was noted of a later period stays. A range that was held has its
    /// note already, which knows whose it is.
    pub fn enter(&mut self, end: Option<End>) {
        let held = self.next.take_if(|next| end.as_ref().is_some_and(|end| end.until == next.until));
        self.now = held.or(end);
        self.drop_what_has_begun();
    }

    /// Takes over what somebody else knows: of each end the higher one. The numbers of a later period are higher.
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

    /// Both, as far as they are there.
    pub fn ends(&self) -> impl Iterator<Item = &End> {
        self.now.iter().chain(&self.next)
    }
}
