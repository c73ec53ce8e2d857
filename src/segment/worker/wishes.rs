//! Finding out which segments need numbers.

use std::time::Duration;

use super::periods::{has_begun, is_next_period_due};
use super::state::Worker;
use crate::pg::clock;
use crate::segment::fetch::{HadUntil, Request};
use crate::segment::had::End;

/// The pause before the next request for a name that made the statement fail. The registry logs each failure.
const PAUSE_OF_SUSPECTS: Duration = Duration::from_secs(2);

/// A request that the worker sends in its next round.
pub struct Wish {
    /// The index of the slot.
    pub at: usize,
    pub request: Request,
}

impl Worker {
    /// Returns the requests that are due now.
    pub fn wishes(&mut self) -> Vec<Wish> {
        let mut wishes = vec![];
        let now_us = self.segments.registry_clock_us();
        for (at, record, slot) in self.segments.in_use() {
            let is_wanted = slot.take_wanted();
            let standing = slot.segment.standing();
            let known = self.known.of(at, record.name());
            let is_calm = known.is_calm();
            let is_fetch_due =
                if standing.is_usable(now_us) { standing.is_next_wanted && !is_calm } else { is_wanted };
            let is_next_due = is_next_period_due(known, &standing, now_us) && !is_calm;
            if known.has_failed_within(PAUSE_OF_SUSPECTS) {
                // Waiting calls get the error of the last failure.
                if is_wanted {
                    self.pause();
                }
                continue;
            }
            let Ok(range_file) = &self.range_file else {
                if is_wanted {
                    // This request makes the round fail, so that the problem with the file is reported.
                    wishes.push(Wish {
                        at,
                        request: Request { name: record.name().into(), ..Request::default() },
                    });
                }
                continue;
            };
            let had = range_file.had(record.name());
            let request = |end: &Option<End>| Request {
                name: record.name().into(),
                had: end.as_ref().map(|end| HadUntil { had_until: end.until, registry_id: end.registry_id }),
                lasted: known.last.as_ref().and_then(|last| last.lasted(&standing)),
                ..Request::default()
            };
            // A range that was fetched before a restart may belong to a period that has started in the
            // meantime.
            let begun = had
                .next
                .clone()
                .filter(|_| known.held.is_none())
                .filter(|end| has_begun(end.period, clock::clock_us()));
            if is_fetch_due && begun.is_some() {
                wishes.push(Wish { at, request: Request { may_be_early: true, ..request(&begun) } });
            } else if is_fetch_due {
                wishes.push(Wish { at, request: request(&had.now) });
            }
            if is_next_due {
                let next = Request { next: true, may_be_early: true, lasted: None, ..request(&had.now) };
                wishes.push(Wish { at, request: next });
            }
        }
        wishes
    }
}
