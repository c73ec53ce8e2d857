//! Requests ranges, stores their ends, and publishes the ranges.

use snowflake_id_core::segment_answer::SegmentState;

use super::failure::Failure;
use super::periods::has_begun;
use super::state::Worker;
use super::wishes::Wish;
use crate::background::stop::is_stopping;
use crate::segment::range_file::Update;
use crate::shared::segment_table;

impl Worker {
    /// Requests ranges from the registry and publishes the granted ranges.
    pub fn ask(&mut self, wishes: &[Wish]) -> Result<(), Option<Failure>> {
        let range_file = self.range_file.as_mut().map_err(|problem| Failure::of_file(problem))?;
        range_file.prove_writable().map_err(|problem| Failure::of_file(&problem))?;
        let mut registry_id = self.meet_registry()?;
        let requests: Vec<_> = wishes.iter().map(|wish| &wish.request).collect();
        let mut answered = self.ask_registry(&requests, registry_id)?;
        if answered.answer.is_foreign {
            self.told = None;
            registry_id = self.meet_registry()?;
            answered = self.ask_registry(&requests, registry_id)?;
        }
        if answered.answer.is_foreign {
            return Err(Some(Failure::of_changes()));
        }
        // The registry may have reached the next period already. Publish the held ranges of that period first,
        // because the new range is above the held ranges.
        self.enter_periods();
        let answer = answered.answer;
        let signed = self.evidence_of(&answer, wishes)?;
        let now_us = self.segments.registry_clock_us();
        let mut update = Update::default();
        update.set_registry(answer.registry_id);
        for (name, token) in signed {
            update.prove(answer.registry_id, &name, token);
        }
        for (index, Wish { at, request }) in wishes.iter().enumerate() {
            let is_answered = answer.about.iter().any(|(answered, _)| *answered == index);
            if !is_answered && self.known.is_suspected(*at) {
                // The statement no longer fails because of this name. What the failure said is outdated.
                segment_table::note(*at, &request.name, |record| {
                    record.state = SegmentState::Asked;
                    record.set_detail(None);
                });
                self.known.of(*at, &request.name).failed_at = None;
            }
        }
        let mut granted = vec![];
        let mut is_refused = false;
        for (at, about) in answer.about {
            let Some(Wish { at, request }) = wishes.get(at) else { continue };
            let at = *at;
            let about = self.checked(&update, at, &request.name, about);
            is_refused |= about.granted.is_none();
            self.note_answer(at, request, &about);
            if let Some(range) = about.granted {
                let is_held = request.may_be_early && !has_begun(range.period, now_us);
                let range_file = self.range_file.as_ref().map_err(|problem| Failure::of_file(problem))?;
                if is_held {
                    update.hold(range_file, &request.name, &range)
                } else {
                    update.enter(range_file, &request.name, &range)
                }
                granted.push((at, &request.name, range, is_held));
            }
        }
        let range_file = self.range_file.as_mut().map_err(|problem| Failure::of_file(problem))?;
        range_file.keep(update).map_err(|problem| Failure::of_file(&problem))?;
        if is_stopping() {
            return Err(None); // The records may not have reached a synchronous standby.
        }
        for (at, name, range, is_held) in granted {
            if is_held {
                self.hold(at, name, range);
            } else {
                self.publish(at, name, &range);
            }
        }
        if is_refused {
            self.pause();
        }
        Ok(())
    }
}
