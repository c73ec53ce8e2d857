//! The state of the segments worker, and reports of the worker's failures.

use std::ffi::CString;
use std::time::{Duration, Instant};

use pgrx::prelude::*;
use snowflake_id_core::clocks::ClockOffset;
use snowflake_id_core::number_round::{Holder, NumberRound};
use snowflake_id_core::rest::Rest;
use snowflake_id_core::segment::NEVER_ENDS;

use super::failure::Failure;
use super::known::{Known, KnownSegments};
use crate::background::rounds::{Failures, Logged, in_short};
use crate::config;
use crate::pg::clock;
use crate::segment::fetch::RegistryConnection;
use crate::segment::range_file::RangeFile;
use crate::shared::segment_table;
use crate::shared::segments::{self, Segments, Trouble};

/// The first pause and the maximum pause after a failed attempt to reach the registry. The pause doubles
/// after each failure.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// The pause before the next request if the registry has granted no range and calls are waiting.
const PAUSE: Duration = Duration::from_millis(100);

pub struct Worker {
    pub segments: &'static Segments,
    pub is_local: bool,
    pub range_file: Result<RangeFile, String>,
    pub connection: RegistryConnection,
    /// The value of `snowflake_id.registry` that the worker uses.
    pub registry: Option<CString>,
    pub round: NumberRound,
    /// True if the node name is sent unchanged, and false if a registry's database cannot represent the name.
    pub tells_name_as_it_is: bool,
    pub known: KnownSegments,
    /// The earliest time of the next request to the registry.
    pub not_before: Instant,
    /// The server's clock when it was last compared with the registry's clock.
    pub clock: ClockOffset,
    pub report_at: Instant,
    /// The numbers that were left at the last clean stop and have not been used yet.
    pub rest: Option<Rest>,
    /// Whether the current round may use the rest.
    pub may_use_rest: bool,
    /// The value of `snowflake_id.prefetch_segments` that the worker has applied.
    pub prefetched: CString,
    /// Whether any range may belong to a period. If not, the worker skips its checks of periods.
    pub has_periods: bool,
    /// The time at which the worker considers all slots again.
    pub sweep_at: Instant,
    /// The slot at which the search for dropped segments continues.
    pub look_from: usize,
    failures: Failures,
    logged: Logged,
}

impl Worker {
    pub fn new(segments: &'static Segments, is_local: bool) -> Worker {
        let ends_us = |at| segment_table::slot(at).segment.standing().current.map(|range| range.ends_us);
        Worker {
            segments,
            is_local,
            range_file: RangeFile::read(),
            rest: None,
            may_use_rest: false,
            prefetched: CString::default(),
            has_periods: (0..segment_table::used())
                .any(|at| ends_us(at).is_some_and(|end| end != NEVER_ENDS)),
            sweep_at: Instant::now(),
            look_from: 0,
            connection: RegistryConnection::default(),
            registry: config::registry(),
            round: NumberRound::new(if is_local { Holder::ServerOfRegistry } else { Holder::Server }),
            tells_name_as_it_is: true,
            known: KnownSegments::default(),
            not_before: Instant::now(),
            clock: clock::offset(),
            report_at: Instant::now(),
            failures: Failures::default(),
            logged: Logged::before(segments::registry_problem().map(|problem| problem.text)),
        }
    }

    /// Records that the registry has answered.
    pub fn succeed(&mut self) {
        if self.failures.end() {
            log!("snowflake_id: the registry of segments is available again");
        }
        self.logged.is_new(None);
        segments::report_problem(None, Trouble::default());
    }

    /// Reports the reason why no numbers are available, and delays the next request.
    pub fn fail(&mut self, Failure { problem, trouble, .. }: Failure) {
        let problem = in_short(problem);
        if self.logged.is_new(Some(problem.clone())) {
            log!("snowflake_id: could not get numbers of segments: {problem}");
        }
        segments::report_problem(Some(&problem), trouble);
        self.not_before = Instant::now() + self.failures.add(FIRST_PAUSE, LONGEST_PAUSE);
        self.known.iter_mut().for_each(Known::calm_down);
    }

    /// Delays the next request.
    pub fn pause(&mut self) {
        self.not_before = Instant::now() + PAUSE;
    }
}
