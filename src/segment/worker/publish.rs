//! Publishes the registry's ranges and answers for backends and views.

use std::time::Instant;

use pgrx::prelude::*;
use snowflake_id_core::segment::NEVER_ENDS;
use snowflake_id_core::segment_answer::{About, Granted, SegmentState};

use super::known::LastFetch;
use super::state::Worker;
use crate::pg::clock;
use crate::pg::random::random_between;
use crate::segment::fetch::Request;
use crate::segment::range_file::Update;
use crate::shared::segment_table;

/// The limits of a random fraction. The next range is requested when this fraction of the current range has been
/// taken. The fraction is random so that the servers of a fleet do not send their requests at the same time.
const WANTED_AT: (f64, f64) = (0.05, 0.15);

impl Worker {
    /// Checks a granted range. If the range is not above the server's high-water mark, numbers could be repeated. The
    /// range is then removed, and the state is set to `Invalid`.
    pub fn checked(&mut self, update: &Update, at: usize, name: &str, about: About) -> About {
        let Ok(range_file) = &self.range_file else { return about };
        let highest = about.granted.as_ref().and_then(|granted| update.bound(range_file, name, granted));
        match about.granted {
            Some(granted) if highest.is_some_and(|highest| granted.range.first <= highest) => {
                let detail = format!(
                    "the registry granted numbers from {}, but this server has already received numbers up to {}",
                    granted.range.first,
                    highest.unwrap_or(0)
                );
                // Waiting calls repeat the request, so warn only once.
                if !std::mem::replace(&mut self.known.of(at, name).is_refused, true) {
                    warning!("snowflake_id: segment \"{name}\": {detail}");
                }
                About { state: SegmentState::Invalid, granted: None, detail: Some(detail), ..about }
            }
            Some(_) => {
                self.known.of(at, name).is_refused = false;
                about
            }
            None => about,
        }
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
