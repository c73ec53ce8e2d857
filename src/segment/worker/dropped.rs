//! Names whose segments do not exist any more. They learn it from reports, because no call may ask for their numbers again.

use snowflake_id_core::number_call::Request;
use snowflake_id_core::number_round::Take;
use snowflake_id_core::segment_answer::{About, Answer, MOST_REQUESTS, SegmentState};

use super::failure::Failure;
use super::state::Worker;
use crate::shared::segment_table;

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
            if about.state == SegmentState::Open && is_missing(state) {
                // The segment was created again.
                segment_table::note(at, name, |record| {
                    record.state = SegmentState::Asked;
                    record.set_detail(None);
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

    /// Asks a registry in the server's own database whether the segments exist, if there is not much room for other names.
    /// Other registries say so in their answers to reports.
    ///
    /// # Errors
    /// Returns `Err(None)` if the process must stop.
    pub fn look_for_dropped(&mut self) -> Result<(), Option<Failure>> {
        if !self.is_local || !segment_table::is_nearly_full() {
            return Ok(());
        }
        let names = (0..segment_table::used()).map(|at| segment_table::record(at).name().to_owned());
        let names: Vec<_> = names.filter(|name| !name.is_empty()).collect();
        for portion in names.chunks(MOST_REQUESTS) {
            let request = |name: &String| Request { name: name.clone(), report: true, ..Request::default() };
            self.send(&Take { registry_id: None, requests: portion.iter().map(request).collect() })?;
        }
        Ok(())
    }
}
