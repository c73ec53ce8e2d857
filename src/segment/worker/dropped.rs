//! Handling of names whose segments no longer exist. The worker finds these names in the answers to reports, because
//! calls may never ask for numbers of such segments again.

use snowflake_id_core::number_call::Request;
use snowflake_id_core::number_round::Take;
use snowflake_id_core::segment_answer::{About, Answer, MOST_REQUESTS, SegmentState};

use super::failure::Failure;
use super::state::Worker;
use crate::shared::segment_table;

/// The maximum number of names about which one report asks. During the report, the worker serves no calls.
const MOST_ASKED: usize = 1024;

impl Worker {
    /// Records whether segments exist, according to the answer to reports. A slot without numbers is released
    /// immediately. A slot with numbers is assigned to another name only if no other slot is available.
    pub fn note_existence(&mut self, take: &Take, answer: &Answer) {
        for (index, about) in &answer.about {
            if let Some(request) = take.requests.get(*index).filter(|request| request.report) {
                self.note_existence_of(&request.name, about);
            }
        }
    }

    fn note_existence_of(&mut self, name: &str, about: &About) {
        let is_missing = |state| matches!(state, SegmentState::Dropped | SegmentState::Unknown);
        let Some((at, noted)) = segment_table::state_of(name) else { return };
        let state = match about.state {
            missing if is_missing(missing) => {
                if !self.is_in_use(at, name) {
                    return segment_table::release(at, name);
                }
                missing
            }
            // The segment was created again.
            SegmentState::Open if is_missing(noted) => SegmentState::Asked,
            SegmentState::Closed if is_missing(noted) => SegmentState::Closed,
            _ => return,
        };
        if state != noted {
            segment_table::note(at, name, |record| {
                record.state = state;
                record.set_detail(about.detail.as_deref());
            });
        }
    }

    /// Returns whether this server has numbers of a segment, or has to prefetch them.
    fn is_in_use(&mut self, at: usize, name: &str) -> bool {
        let known = self.known.of(at, name);
        let now_us = self.segments.registry_clock_us();
        known.held.is_some()
            || known.is_prefetched
            || segment_table::slot(at).segment.standing().is_usable(now_us)
    }

    /// If few slots are left for new names, asks the registry whether the segments in the slots exist. Leaves out the
    /// names that this server reports to a remote registry, because the answers to the reports include them. If there
    /// are many names, each call asks about the next portion.
    ///
    /// # Errors
    /// Returns `Err(None)` if the process must stop.
    pub fn look_for_dropped(&mut self) -> Result<(), Option<Failure>> {
        if !segment_table::is_nearly_full() {
            return Ok(());
        }
        let range_file = self.range_file.as_ref().map_err(|problem| Failure::of_file(problem))?;
        let reported = &range_file.records().segments;
        let is_asked = |name: &String| self.is_local || !reported.contains_key(name);
        let from = self.look_from;
        let (names, ends): (Vec<_>, Vec<_>) = (from..segment_table::used())
            .filter_map(|at| Some((segment_table::occupant(at).filter(is_asked)?, at + 1)))
            .take(MOST_ASKED)
            .unzip();
        self.look_from = ends.last().copied().filter(|_| ends.len() == MOST_ASKED).unwrap_or(0);
        for portion in names.chunks(MOST_REQUESTS) {
            let request = |name: &String| Request { name: name.clone(), report: true, ..Request::default() };
            let take = Take { registry_id: None, requests: portion.iter().map(request).collect() };
            match self.send(&take) {
                // One bad name must not affect the other names.
                Err(Some(failure)) if failure.is_of_statement => {}
                sent => drop(sent?),
            }
        }
        Ok(())
    }
}
