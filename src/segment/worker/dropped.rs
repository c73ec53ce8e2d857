//! Names whose segments do not exist any more. They learn it from reports, because no call may ask for their numbers again.

use snowflake_id_core::number_call::Request;
use snowflake_id_core::number_round::Take;
use snowflake_id_core::segment_answer::{About, Answer, MOST_REQUESTS, SegmentState};

use super::failure::Failure;
use super::state::Worker;
use crate::shared::segment_table;

/// The maximum number of names about which one report asks. Meanwhile, the worker serves no calls.
const MOST_ASKED: usize = 1024;

impl Worker {
    /// Notes what the answer to reports says about the existence of segments. A slot without numbers is released at once.
    /// A slot with numbers is assigned to another name only if there is no other room.
    pub fn note_existence(&mut self, take: &Take, answer: &Answer) {
        for (index, about) in &answer.about {
            if let Some(request) = take.requests.get(*index).filter(|request| request.report) {
                self.note_existence_of(&request.name, about);
            }
        }
    }

    fn note_existence_of(&mut self, name: &str, about: &About) {
        let is_missing = |state| matches!(state, SegmentState::Dropped | SegmentState::Unknown);
        let Some((at, state)) = segment_table::state_of(name) else { return };
        if !is_missing(about.state) {
            if is_missing(state) && matches!(about.state, SegmentState::Open | SegmentState::Closed) {
                // The segment was created again.
                segment_table::note(at, name, |record| {
                    record.state = match about.state {
                        SegmentState::Open => SegmentState::Asked,
                        closed => closed,
                    };
                    record.set_detail(about.detail.as_deref());
                });
            }
            return;
        }
        let now_us = self.segments.registry_clock_us();
        let known = self.known.of(at, name);
        let is_in_use = known.held.is_some() || known.is_prefetched;
        if !is_in_use && !segment_table::slot(at).segment.standing().is_usable(now_us) {
            segment_table::release(at, name);
        } else if state != about.state {
            segment_table::note(at, name, |record| {
                record.state = about.state;
                record.set_detail(about.detail.as_deref());
            });
        }
    }

    /// Asks the registry whether the segments exist, if there is not much room for other names. Leaves out the names that
    /// this server reports, because the answers to reports say so. If there are many names, each call asks about some of
    /// them in turn.
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
                // One bad name must not keep the others.
                Err(Some(failure)) if failure.is_of_statement => {}
                sent => drop(sent?),
            }
        }
        Ok(())
    }
}
