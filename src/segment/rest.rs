//! The numbers that are left when the server is stopped, so that they are used after the next start.
//!
//! At a clean stop, the worker takes all numbers that are left, and stores them in the range file. No call can get them
//! meanwhile. A copy of the file, or an earlier version of the disk, must not lead to a second use of the numbers.
//! Therefore the file contains a ticket, and the ticket is also the name of an empty file in shared memory of the host, which
//! nothing copies or restores together with a disk. The worker that removes that file may use the numbers. No other worker
//! can remove it again: neither on a copy of the data directory, nor after the disk was set back. If the host was
//! restarted, the file does not exist, and the numbers are lost, as after a crash.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use snowflake_id_core::segment::Range;
use uuid::Uuid;

use super::answer::{Granted, Period};
use crate::pg::random::random_bytes;

/// The directory for the shared memory of the host. PostgreSQL uses it, too (see `shm_overview(7)`).
const DIRECTORY: &str = "/dev/shm";

/// The numbers that were left at a clean stop.
#[derive(Debug, Serialize, Deserialize)]
pub struct Rest {
    ticket: Uuid,
    /// The registry that granted the numbers.
    pub registry_id: Option<Uuid>,
    /// The time at which the registry's server was started, in microseconds of Unix time.
    pub registry_started_us: Option<i64>,
    /// The registry's clock minus the time since boot, in microseconds.
    pub clock_offset_us: i64,
    segments: BTreeMap<String, Vec<Left>>,
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
    pub fn new(registry_id: Option<Uuid>, registry_started_us: Option<i64>, clock_offset_us: i64) -> Rest {
        let ticket = uuid::Builder::from_random_bytes(random_bytes()).into_uuid();
        Rest { ticket, registry_id, registry_started_us, clock_offset_us, segments: BTreeMap::new() }
    }

    /// Adds a range of a segment. The ranges of a segment must be added in ascending order.
    pub fn add(&mut self, name: &str, granted: Granted) {
        self.segments.entry(name.into()).or_default().push(Left::new(granted));
    }

    /// Discards the numbers of a segment.
    pub fn discard(&mut self, name: &str) {
        self.segments.remove(name);
    }

    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Adds the segments of another rest that this rest does not contain.
    pub fn add_others(&mut self, other: Rest) {
        for (name, ranges) in other.segments {
            self.segments.entry(name).or_insert(ranges);
        }
    }

    /// Returns the ranges of a segment in ascending order. Only the first call for a name returns them.
    pub fn take(&mut self, name: &str) -> Vec<Granted> {
        let ranges = self.segments.remove(name).unwrap_or_default();
        ranges.into_iter().filter_map(Left::granted).collect()
    }

    fn path(&self) -> PathBuf {
        PathBuf::from(DIRECTORY).join(format!("snowflake_id.{}", self.ticket))
    }

    /// Creates the ticket's file. The caller must do this before it stores the numbers.
    pub fn issue_ticket(&self) -> std::io::Result<()> {
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(self.path()).map(|_| ())
    }

    /// Removes the ticket's file. Returns whether the file existed and belonged to the user that runs the server. Only in
    /// this case, the numbers may be used.
    pub fn use_ticket(&self) -> bool {
        let path = self.path();
        // SAFETY: the function has no preconditions and always succeeds.
        let user = unsafe { libc::geteuid() };
        let is_own = fs::symlink_metadata(&path).is_ok_and(|found| found.uid() == user);
        is_own && fs::remove_file(&path).is_ok()
    }
}
