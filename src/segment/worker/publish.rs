//! Publishes the registry's ranges and answers for backends and views.

use std::time::Instant;

use pgrx::prelude::*;
use snowflake_id_core::number_call::Request;
use snowflake_id_core::number_round::Given;
use snowflake_id_core::segment::NEVER_ENDS;
use snowflake_id_core::segment_answer::{About, Granted, SegmentState};

use super::known::LastFetch;
use super::state::Worker;
use super::wishes::Wish;
use crate::pg::clock;
use crate::pg::random::random_between;
use crate::shared::segment_table;

/// The limits of a random fraction. The next range is requested when this fraction of the current range has been taken.
/// Because the fraction is random, the servers of a fleet do not send their requests at the same time.
const WANTED_AT: (f64, f64) = (0.05, 0.15);

impl Worker {
    /// Publishes the answers to requests. The ends of their ranges have already been stored.
    pub fn publish_given(&mut self, given: Vec<Given>, wishes: &[Wish]) {
        for (index, Wish { at, request }) in wishes.iter().enumerate() {
            let is_answered = given.iter().any(|given| given.at == index);
            if !is_answered && self.known.is_suspected(*at) {
                // Statements no longer fail because of this name, so the details of the failure are outdated.
                segment_table::note(*at, &request.name, |record| {
                    record.state = SegmentState::Asked;
                    record.set_detail(None);
                });
                self.known.of(*at, &request.name).failed_at = None;
            }
        }
        for Given { at, mut about, is_held, not_above } in given {
            let Wish { at, request } = &wishes[at];
            if let Some((first, highest)) = not_above {
                about.detail = Some(self.refuse(*at, &request.name, first, highest));
            } else if about.granted.is_some() {
                self.known.of(*at, &request.name).is_refused = false;
            }
            self.note_answer(*at, request, &about);
            match about.granted {
                Some(granted) if is_held => self.hold(*at, &request.name, granted),
                Some(granted) => self.publish(*at, &request.name, &granted),
                None => self.pause(),
            }
        }
    }

    /// Returns the reason why a range that could repeat numbers is refused.
    fn refuse(&mut self, at: usize, name: &str, first: i64, highest: i64) -> String {
        let detail = format!(
            "the registry granted numbers from {first}, but this server has already received numbers up to {highest}"
        );
        // Waiting calls repeat the request, so warn only once.
        if !std::mem::replace(&mut self.known.of(at, name).is_refused, true) {
            warning!("snowflake_id: segment \"{name}\": {detail}");
        }
        detail
    }

    /// Records the registry's answer about a segment.
    pub fn note_answer(&mut self, at: usize, request: &Request, about: &About) {
        // An answer about the next period contains no information about the current period.
        if !request.next {
            let now_us = clock::clock_us();
            segment_table::note(at, &request.name, |record| {
                record.state = about.state;
                record.answered_at_us = now_us;
                record.max_value = about.max_value.unwrap_or(0);
                record.set_detail(about.detail.as_deref());
                record.set_near(about.near.as_deref());
                if let Some(granted) = &about.granted {
                    record.step = granted.range.count as i64;
                    record.taken_at_us = now_us;
                }
            });
        }
        let known = self.known.of(at, &request.name);
        known.calm_until = None;
        if about.granted.is_none() {
            known.calm_down();
        }
        known.failed_at = None;
    }

    /// Makes a range available to backends. Its end has already been stored.
    pub fn publish(&mut self, at: usize, name: &str, granted: &Granted) {
        let range = granted.range;
        let wanted_at = (range.count as f64 * random_between(WANTED_AT)) as u64;
        self.has_periods |= range.ends_us != NEVER_ENDS;
        let published = segment_table::with_slot_of(at, name, |slot| {
            slot.segment
                .publish(range, wanted_at.clamp(1, range.count))
                .map(|()| slot.segment.standing().left)
        });
        let Some(published) = published else { return };
        let Ok(left) = published else {
            log!(
                "snowflake_id: segment \"{name}\" has too many ranges; the range starting at {} is discarded",
                range.first
            );
            return;
        };
        self.segments.changes.send();
        let known = self.known.of(at, name);
        known.last = Some(LastFetch { at: Instant::now(), count: range.count, left });
    }
}
