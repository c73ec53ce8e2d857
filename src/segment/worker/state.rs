//! What the worker knows, and what people are told of its failures.

use std::ffi::CString;
use std::time::{Duration, Instant};

use pgrx::prelude::*;
use uuid::Uuid;

use super::failure::Failure;
use super::known::{Known, KnownSegments};
use crate::background::rounds::{Failures, Logged, in_short};
use crate::config;
use crate::pg::clock;
use crate::segment::fetch::RegistryConnection;
use crate::segment::range_file::RangeFile;
use crate::shared::segments::{self, Segments, Trouble};

/// How soon the registry is asked again that did not answer, at first and later.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// How soon after an answer that was no range it is asked again, for those who wait.
const PAUSE: Duration = Duration::from_millis(100);
/// How often the registry is told what was had, unless it says otherwise.
const REPORT_EVERY: Duration = Duration::from_secs(60);

pub struct Worker {
    pub segments: &'static Segments,
    pub is_here: bool,
    pub range_file: Result<RangeFile, String>,
    pub connection: RegistryConnection,
    /// The setting `snowflake_id.registry` that was last followed.
    pub registry: Option<CString>,
    /// The registry that this process has told up to where numbers were had, of all names, whoever gave them. No other one
    /// is asked for numbers.
    pub told: Option<Uuid>,
    /// Whether the registry may be able to write the name of this server as it is.
    pub tells_name_as_it_is: bool,
    pub known: KnownSegments,
    /// Not before this is the registry asked again.
    pub not_before: Instant,
    /// The clock less the time since boot, when it was last compared with the registry's.
    pub clock_offset_us: i64,
    /// How often, and when next, the registry is told what was had.
    pub report_every: Duration,
    pub report_at: Instant,
    failures: Failures,
    logged: Logged,
}

impl Worker {
    pub fn new(segments: &'static Segments, is_here: bool) -> Worker {
        Worker {
            segments,
            is_here,
            range_file: RangeFile::read(),
            connection: RegistryConnection::default(),
            registry: config::registry(),
            told: None,
            tells_name_as_it_is: true,
            known: KnownSegments::default(),
            not_before: Instant::now(),
            clock_offset_us: clock_offset_us(),
            report_every: REPORT_EVERY,
            report_at: Instant::now(),
            failures: Failures::default(),
            logged: Logged::before(segments::registry_problem().map(|problem| problem.text)),
        }
    }

    /// The registry has answered.
    pub fn succeed(&mut self) {
        if self.failures.end() {
            log!("snowflake_id: the registry of segments is available again");
        }
        self.logged.is_new(None);
        segments::report_problem(None, Trouble::default());
    }

    /// There are no numbers: tells why, and has the registry not asked for a while.
    pub fn fail(&mut self, Failure { problem, trouble, .. }: Failure) {
        let problem = in_short(problem);
        if self.logged.is_new(Some(problem.clone())) {
            log!("snowflake_id: could not get numbers of segments: {problem}");
        }
        segments::report_problem(Some(&problem), trouble);
        self.not_before = Instant::now() + self.failures.add(FIRST_PAUSE, LONGEST_PAUSE);
        self.known.iter_mut().for_each(Known::calm_down);
    }

    /// Has the registry not asked again at once.
    pub fn pause(&mut self) {
        self.not_before = Instant::now() + PAUSE;
    }
}

/// The clock less the time since boot.
pub fn clock_offset_us() -> i64 {
    let (now_us, since_boot_us) = clock::clocks_us();
    now_us - since_boot_us
}
