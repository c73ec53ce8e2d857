//! [`Rest`]: the numbers that are left when a server is stopped, and that the server uses after the next start.
//!
//! The server stores the numbers in a file, with a ticket. The server, not this crate, ensures that a ticket is used
//! only once.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::clocks::ClockOffset;
use crate::segment::Range;
use crate::segment_answer::{Granted, Period};

/// The numbers that were left at a clean stop.
#[derive(Debug, Serialize, Deserialize)]
pub struct Rest {
    /// The random ID of these numbers.
    pub ticket: Uuid,
    /// The registry that granted the numbers.
    pub origin: Origin,
    /// The offset of the registry's clock.
    #[serde(rename = "clock_offset_us")]
    pub registry_clock: ClockOffset,
    segments: BTreeMap<String, Vec<Left>>,
}

/// The registry that granted numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The ID of the registry, if known.
    pub registry_id: Option<Uuid>,
    /// The time at which the registry's server was started, in microseconds of Unix time. If that server was restarted,
    /// the registry may have lost grants without detecting the loss. `None` if this server has not reported all its
    /// numbers to the registry since then.
    pub server_started_us: Option<i64>,
}

impl Origin {
    /// Returns whether the former origin is the same registry, and the registry certainly still has the grants. A
    /// registry cannot lose grants while its server is running. If the registry is in this database, the WAL of this
    /// server contains the grants.
    pub fn is_same(self, former: Origin, is_local: bool) -> bool {
        let is_running =
            self.server_started_us.is_some() && self.server_started_us == former.server_started_us;
        self.registry_id == former.registry_id && (is_local || is_running)
    }
}

/// A range, as it is stored.
#[derive(Debug, Serialize, Deserialize)]
struct Left {
    first: i64,
    increment: i64,
    count: u64,
    ends_us: i64,
    period: Option<Period>,
}

impl Left {
    fn new(Granted { range: Range { first, increment, count, ends_us }, period }: Granted) -> Left {
        Left { first, increment, count, ends_us, period }
    }

    /// Returns the range, or `None` if the stored values are invalid.
    fn granted(self) -> Option<Granted> {
        let Left { first, increment, count, ends_us, period } = self;
        let range = Range { first, increment, count, ends_us };
        range.last().map(|_| Granted { range, period })
    }
}

impl Rest {
    /// Returns a rest without numbers. `ticket` must be random.
    pub fn new(ticket: Uuid, origin: Origin, registry_clock: ClockOffset) -> Rest {
        Rest { ticket, origin, registry_clock, segments: BTreeMap::new() }
    }

    /// Returns the same numbers with another ticket, which must be unused.
    pub fn with_ticket(self, ticket: Uuid) -> Rest {
        Rest { ticket, ..self }
    }

    /// Iterates over the names of the segments.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.segments.keys().map(String::as_str)
    }

    /// Adds a range of a segment. The ranges of a segment must be added in ascending order.
    pub fn add(&mut self, name: &str, granted: Granted) {
        self.segments.entry(name.into()).or_default().push(Left::new(granted));
    }

    /// Discards the numbers of a segment.
    pub fn discard(&mut self, name: &str) {
        self.segments.remove(name);
    }

    /// Returns whether there are no numbers.
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Adds the segments that only the other rest contains.
    pub fn add_others(&mut self, other: Rest) {
        for (name, ranges) in other.segments {
            self.segments.entry(name).or_insert(ranges);
        }
    }

    /// Removes a segment, and returns its ranges in ascending order.
    pub fn take(&mut self, name: &str) -> Vec<Granted> {
        let ranges = self.segments.remove(name).unwrap_or_default();
        ranges.into_iter().filter_map(Left::granted).collect()
    }
}
