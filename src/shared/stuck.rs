//! The hosts of a registry at which connection attempts got stuck. Processes that start later try these hosts
//! last, and pause before they connect. The registry worker and the segments worker write this state under
//! the exclusive lock.

use std::time::Duration;

use pgrx::{PGRXSharedMemory, PgLwLock, pg_shmem_init};
use snowflake_id_core::clocks::SinceBoot;

use crate::pg::clock;

/// The maximum number of remembered hosts.
const MOST_HOSTS: usize = 64;
/// The time after a successful connection during which the recorded hosts are still tried last.
const TIME_ASIDE: Duration = Duration::from_secs(60);
/// The base of the pause before a connection attempt. Each process that exits without connecting doubles the pause, so
/// the pause is 1 s after the first such process.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// The maximum pause before a connection attempt.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// A host at which a process got stuck.
#[derive(Clone, Copy, Default)]
struct Mark {
    /// A hash of the host's name. If the hashes of two hosts are equal, both hosts are tried late, which is
    /// harmless.
    host: u64,
    /// The time at which a process last got stuck at this host, or 0 if this entry is unused.
    at: SinceBoot,
    /// The end of the period during which this host is tried last.
    until: SinceBoot,
}

/// All hosts at which a process got stuck.
#[derive(Clone, Copy)]
pub struct Stuck {
    marks: [Mark; MOST_HOSTS],
    /// The number of processes that have exited without connecting since the last successful connection.
    ended: u32,
    ended_at: SinceBoot,
}

impl Default for Stuck {
    fn default() -> Stuck {
        Stuck { marks: [Mark::default(); MOST_HOSTS], ended: 0, ended_at: SinceBoot::default() }
    }
}

// SAFETY: the type contains plain values without pointers, and the LWLock orders all accesses to them.
unsafe impl PGRXSharedMemory for Stuck {}

// SAFETY: as above.
static STUCK: PgLwLock<Stuck> = unsafe { PgLwLock::new(c"snowflake_id stuck") };

/// Requests the shared memory.
pub(super) fn request() {
    pg_shmem_init!(STUCK);
}

/// Returns a copy of the current marks.
pub fn stuck() -> Stuck {
    *STUCK.share()
}

/// Records the hosts that took too long to answer. `is_end` is true if the process is about to exit for this
/// reason.
pub fn note(hosts: &[u64], is_end: bool) {
    if hosts.is_empty() && !is_end {
        return;
    }
    let now = clock::since_boot();
    let mut stuck = STUCK.exclusive();
    for &host in hosts {
        let known = stuck.marks.iter().position(|mark| mark.host == host && mark.at > SinceBoot::default());
        let oldest = || (0..MOST_HOSTS).min_by_key(|&at| stuck.marks[at].at).unwrap_or(0);
        let at = known.unwrap_or_else(oldest);
        stuck.marks[at] = Mark { host, at: now, until: SinceBoot::NEVER };
    }
    if is_end {
        stuck.ended = stuck.ended.saturating_add(1);
        stuck.ended_at = now;
    }
}

/// Records a successful connection.
pub fn note_connection() {
    if !STUCK.share().is_any() {
        return;
    }
    let until = clock::since_boot().after(TIME_ASIDE);
    let mut stuck = STUCK.exclusive();
    stuck.ended = 0;
    for mark in &mut stuck.marks {
        mark.until = mark.until.min(until);
    }
}

impl Stuck {
    fn is_any(&self) -> bool {
        self.ended > 0 || self.marks.iter().any(|mark| mark.until == SinceBoot::NEVER)
    }

    /// Returns a sort key for a host. Hosts at which no process got stuck sort first. The other hosts follow
    /// in the order in which processes last got stuck, oldest first.
    pub fn order_of(&self, host: u64) -> i64 {
        let now = clock::since_boot();
        let mark = self.marks.iter().find(|mark| mark.host == host && mark.until > now);
        mark.map_or(0, |mark| mark.at.as_us())
    }

    /// Returns the remaining pause before the next connection attempt. The pause keeps stuck processes from
    /// occupying a processor.
    pub fn pause(&self) -> Duration {
        if self.ended == 0 {
            return Duration::ZERO;
        }
        let pause = FIRST_PAUSE.saturating_mul(1 << self.ended.min(10)).min(LONGEST_PAUSE);
        let since_us = clock::since_boot().us_since(self.ended_at).max(0);
        pause.saturating_sub(Duration::from_micros(since_us.unsigned_abs()))
    }
}
