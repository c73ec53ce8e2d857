//! Determines which segments need numbers.

use std::time::{Duration, Instant};

use snowflake_id_core::had::End;
use snowflake_id_core::number_call::Request;
use snowflake_id_core::segment::NEVER_ENDS;
use snowflake_id_core::segment_answer::{SegmentState, has_begun};

use super::periods::is_next_period_due;
use super::state::Worker;
use crate::pg::clock;
use crate::shared::segment_table;

/// The pause after a statement has failed because of a name, before the name is requested again. The pause limits the
/// number of errors in the registry's log.
const PAUSE_OF_SUSPECTS: Duration = Duration::from_secs(2);

/// The interval at which the worker considers all slots.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// A request that the worker sends in its next round.
pub struct Wish {
    /// The index of the slot.
    pub at: usize,
    pub request: Request,
}

impl Worker {
    /// Returns the requests that are due now. `wanted` contains the slots for which processes have requested numbers,
    /// in ascending order. Once a second, all slots are considered, because a process may have been killed before it
    /// could request the next range.
    pub fn wishes(&mut self, wanted: &[usize]) -> Vec<Wish> {
        let mut wishes = vec![];
        let now_us = self.segments.registry_clock_us();
        let is_sweep = Instant::now() >= self.sweep_at;
        if is_sweep {
            self.sweep_at = Instant::now() + SWEEP_EVERY;
        }
        let slots = if is_sweep { (0..segment_table::used()).collect() } else { wanted.to_vec() };
        for at in slots {
            let is_wanted = wanted.binary_search(&at).is_ok();
            let slot = segment_table::slot(at);
            let standing = slot.segment.standing();
            let is_in_period = standing.current.is_some_and(|range| range.ends_us != NEVER_ENDS);
            if !(is_wanted || standing.is_next_wanted || is_in_period || self.known.is_prefetched(at)) {
                continue;
            }
            let record = segment_table::record(at);
            if record.name().is_empty() {
                continue; // The slot was released.
            }
            // Publish the rest first, because its numbers are lower than those that the registry would grant now.
            self.publish_rest(at, record.name());
            let standing = slot.segment.standing();
            let known = self.known.of(at, record.name());
            let is_calm = known.is_calm();
            let is_usable = standing.is_usable(now_us);
            // The last range may be exhausted even if no call is waiting yet.
            let has_run_dry = standing.is_next_wanted && record.state == SegmentState::Open;
            let is_fetch_due = if is_usable {
                standing.is_next_wanted && !is_calm
            } else {
                is_wanted || (has_run_dry || known.is_prefetched) && !is_calm
            };
            let is_next_due = is_next_period_due(known, &standing, now_us) && !is_calm;
            if known.has_failed_within(PAUSE_OF_SUSPECTS) {
                // Waiting calls fail with the error of the last failure.
                if is_wanted {
                    self.pause();
                }
                continue;
            }
            let Ok(range_file) = &self.range_file else {
                if is_wanted {
                    // Because of this request, the round fails and reports the problem with the file.
                    wishes.push(Wish {
                        at,
                        request: Request { name: record.name().into(), ..Request::default() },
                    });
                }
                continue;
            };
            let had = range_file.records().segments.get(record.name()).cloned().unwrap_or_default();
            let request = |end: &Option<End>| Request {
                name: record.name().into(),
                had: end.as_ref().map(Into::into),
                lasted: known.last.as_ref().and_then(|last| last.lasted(&standing)),
                ..Request::default()
            };
            // A range that was fetched before a restart may belong to a period that has started since.
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
