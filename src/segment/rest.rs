//! The numbers that are left when the server is stopped, so that they are used after the next start.
//!
//! At a clean stop, the worker takes all numbers that are left, and stores them in the range file. No call can get them
//! meanwhile. A copy of the file, or an earlier version of the disk, must not lead to a second use of the numbers.
//! Therefore the file contains a ticket, and the ticket is also the name of an empty file in shared memory of the host,
//! which nothing copies or restores together with a disk. The worker that removes that file may use the numbers. No
//! other worker can remove it again: neither on a copy of the data directory, nor after the disk was set back. If the
//! host was restarted, the file does not exist, and the numbers are lost, as after a crash.

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
    pub origin: Origin,
    /// The registry's clock minus the time since boot, in microseconds.
    pub clock_offset_us: i64,
    segments: BTreeMap<String, Vec<Left>>,
}

/// The registry that granted numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    pub registry_id: Option<Uuid>,
    /// The time at which the registry's server was started, in microseconds of Unix time. If the server was started
    /// again, the registry may have lost grants unnoticed. `None` if this server has not reported all its numbers to
    /// the registry since then.
    pub server_started_us: Option<i64>,
}

impl Origin {
    /// Returns whether the registry cannot have lost the grants of a former origin unnoticed. The WAL of a registry in
    /// this database contains its grants.
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
    pub fn new(origin: Origin, clock_offset_us: i64) -> Rest {
        let ticket = uuid::Builder::from_random_bytes(random_bytes()).into_uuid();
        Rest { ticket, origin, clock_offset_us, segments: BTreeMap::new() }
    }

    /// Returns the same numbers with another ticket, which has not been used.
    pub fn with_new_ticket(self) -> Rest {
        Rest { segments: self.segments, ..Rest::new(self.origin, self.clock_offset_us) }
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
    ///
    /// # Errors
    /// Fails if the directory is not in memory: a snapshot of a disk could contain the ticket as well.
    pub fn issue_ticket(&self) -> std::io::Result<()> {
        if !is_in_memory(DIRECTORY)? {
            return Err(std::io::Error::other(format!("\"{DIRECTORY}\" is not in memory")));
        }
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(self.path()).map(|_| ())
    }

    /// Removes the ticket's file. Returns whether the file existed and belonged to the user that runs the server. Only
    /// in this case, the numbers may be used.
    pub fn use_ticket(&self) -> bool {
        let path = self.path();
        // SAFETY: the function has no preconditions and always succeeds.
        let user = unsafe { libc::geteuid() };
        let is_own = fs::symlink_metadata(&path).is_ok_and(|found| found.uid() == user);
        is_own && fs::remove_file(&path).is_ok()
    }
}

/// Returns whether a directory is in a file system of type tmpfs.
fn is_in_memory(directory: &str) -> std::io::Result<bool> {
    let path = std::ffi::CString::new(directory)?;
    let mut found = std::mem::MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: the path is a C string, and the function writes into a value of this type.
    match unsafe { libc::statfs(path.as_ptr(), found.as_mut_ptr()) } {
        // SAFETY: the function has succeeded, so the value is initialized.
        0 => Ok(unsafe { found.assume_init() }.f_type == libc::TMPFS_MAGIC),
        _ => Err(std::io::Error::last_os_error()),
    }
}
