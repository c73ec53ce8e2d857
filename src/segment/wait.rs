//! The slow path of taking numbers: requests a range from the worker, and waits for it. The wait takes at most
//! `max_wait`, holds no lock, can be canceled, and is visible in `pg_stat_activity`.

use std::num::NonZeroU64;
use std::sync::atomic::Ordering;
use std::time::Duration;

use snowflake_id_core::message::shown;
use snowflake_id_core::segment::Taken;
use snowflake_id_core::segment_answer::SegmentState;

use super::privilege;
use crate::config;
use crate::error::Error;
use crate::pg::encoding::utf8;
use crate::pg::{clock, server};
use crate::shared::memory;
use crate::shared::segment_record::{LONGEST_NAME, Record};
use crate::shared::segment_table::{Place, find_or_assign, need, record_of, slot, want};
use crate::shared::segments::{self, RegistryProblem, Segments, Trouble, segments};
use crate::shared::wait::{Deadline, Watch};
use crate::wait_event::WaitEvent;

/// The maximum time that calls wait for a registry that does not answer, for example during a restart or a failover.
/// After this time, calls fail immediately, so that waiting calls do not accumulate.
const MAX_SILENCE: Duration = Duration::from_secs(2);

/// Takes up to `n` numbers of a segment, and waits until at least one number is available. Returns the place of the
/// segment and the numbers.
pub fn take(name: &[u8], n: NonZeroU64) -> Result<(Place, Taken), Error> {
    with_numbers(name, |segments, place| {
        let taken = place.take(place.slot(), || segments.registry_clock_us(), n).ok()?;
        if taken.is_next_wanted {
            need(place.at);
            segments.request_worker();
        }
        Some((place, taken))
    })
}

/// Waits until this server holds numbers of a segment.
pub fn prefetch(name: &[u8]) -> Result<(), Error> {
    with_numbers(name, |segments, place| {
        let is_usable = place.slot().segment.standing().is_usable(segments.registry_clock_us());
        (is_usable && place.is_current()).then_some(())
    })
}

/// Calls the closure `attempt` with the place of the segment until the closure returns a result. After each attempt
/// without a result, requests numbers and waits for them.
fn with_numbers<T>(name: &[u8], attempt: impl Fn(&Segments, Place) -> Option<T>) -> Result<T, Error> {
    let segments = segments()?;
    if server::is_in_recovery() {
        return Err(Error::SegmentsInRecovery);
    }
    let text = checked_name(name)?;
    let mut waiting = Waiting::new(segments, &text);
    loop {
        let place = find_or_assign(&text)?;
        if let Some(result) = attempt(segments, place) {
            return Ok(result);
        }
        // If the slot has been assigned to another name, find or assign a slot again.
        if place.is_current() {
            waiting.ask(place.at)?;
        }
    }
}

/// Converts the name to UTF-8.
fn checked_name(name: &[u8]) -> Result<String, Error> {
    let bad_length = |bytes| Error::SegmentName { name: shown(name), bytes, most: LONGEST_NAME };
    // Do not convert a name that is too long in every encoding. Such a name may be huge, and a failed allocation would
    // abort the process.
    if name.len() > 4 * LONGEST_NAME {
        return Err(bad_length(name.len()));
    }
    let unknown = || Error::SegmentUnknown { name: shown(name), detail: None, near: None };
    let text = utf8(name).ok_or_else(unknown)?;
    if !(1..=LONGEST_NAME).contains(&text.len()) {
        return Err(bad_length(text.len()));
    }
    Ok(text)
}

/// A call that waits for numbers.
struct Waiting<'a> {
    segments: &'static Segments,
    name: &'a str,
    deadline: Deadline,
    changes: Watch<'a>,
    /// The number of the first round in which the worker considers this call.
    round: Option<u64>,
}

impl<'a> Waiting<'a> {
    fn new(segments: &'static Segments, name: &'a str) -> Waiting<'a> {
        let deadline = Deadline::after(config::max_wait());
        Waiting { segments, name, deadline, changes: Watch::of(&segments.changes), round: None }
    }

    /// Requests numbers from the worker, and sleeps until the worker has published a change or finished a round.
    /// Returns an error if the registry refuses to grant numbers, if the registry does not answer, or if the deadline
    /// has passed.
    fn ask(&mut self, at: usize) -> Result<(), Error> {
        let record = || record_of(at, self.name);
        if self.round.is_none() {
            slot(at).calls_waited.fetch_add(1, Ordering::Relaxed);
        }
        if self.round.is_some_and(|round| self.segments.has_ended(round)) {
            // The record must be read after the end of the round, because the round may have changed it.
            self.refuse(record())?;
            // Try again, because other calls have taken the new numbers, or because another request may succeed.
            self.round = None;
        }
        want(at);
        let round = self.segments.next_round();
        self.round.get_or_insert(round);
        self.segments.request_worker();
        if self.deadline.is_over() {
            return Err(self.too_late(record()));
        }
        self.changes.wait(self.deadline.left(), WaitEvent::Registry);
        Ok(())
    }

    /// Returns the error that corresponds to the registry's last answer. Returns `Ok` if the registry has granted
    /// numbers, or if the call should ask the registry again.
    fn refuse(&self, record: Option<Record>) -> Result<(), Error> {
        if let Some(problem) = segments::registry_problem() {
            let silent_us = clock::clock_us().saturating_sub(problem.since_us);
            let is_short = Duration::from_micros(silent_us.max(0).unsigned_abs()) < MAX_SILENCE;
            return match problem.trouble {
                Trouble::Silence if is_short => Ok(()),
                _ => Err(problem_as_error(problem)),
            };
        }
        let Some(record) = record else { return Ok(()) };
        let (name, detail) = (shown(self.name.as_bytes()), detail_of(&record));
        match record.state {
            SegmentState::Asked | SegmentState::Open | SegmentState::Busy => Ok(()),
            SegmentState::Unknown | SegmentState::Dropped | SegmentState::Lost => {
                Err(Error::SegmentUnknown { name, detail, near: near_of(&record) })
            }
            SegmentState::Closed => Err(Error::SegmentClosed { name, detail }),
            SegmentState::Exhausted => Err(Error::SegmentExhausted { name, detail }),
            SegmentState::Ahead => Err(Error::SegmentAhead { name, detail }),
            SegmentState::Invalid => Err(Error::SegmentRefused { name, detail }),
            SegmentState::Denied => Err(Error::SegmentDeniedByRegistry { name, detail }),
        }
    }

    fn too_late(&self, record: Option<Record>) -> Error {
        let detail = match (segments::registry_problem(), self.segments.wakeup.pid()) {
            (Some(problem), _) => return problem_as_error(problem),
            (None, None) if is_keeper_running() => {
                "Background worker \"snowflake_id segments\" is not running.".into()
            }
            (None, None) => {
                "Background worker \"snowflake_id segments\" cannot be started, because background worker \"snowflake_id keeper\" is not running. Each background worker needs one of max_worker_processes.".into()
            }
            (None, Some(_)) => match record.and_then(|record| detail_of(&record)) {
                Some(detail) => format!("The registry last reported: {detail}."),
                None => "The registry has not answered yet.".into(),
            },
        };
        Error::SegmentTooLate { name: shown(self.name.as_bytes()), max_wait: self.deadline.max_wait, detail }
    }
}

/// Returns the registry's message about a segment. The message may contain the name and numbers of another segment, so
/// a role that is limited to some segments does not see it.
fn detail_of(record: &Record) -> Option<String> {
    record.detail().filter(|_| privilege::sees_all())
}

/// Returns the name that was probably meant, if the current user may use that segment.
fn near_of(record: &Record) -> Option<String> {
    record.near().map(str::as_bytes).filter(|near| privilege::check(near).is_ok()).map(shown)
}

fn is_keeper_running() -> bool {
    memory::state().is_ok_and(|shared| shared.server_status.wakeup.pid().is_some())
}

fn problem_as_error(problem: RegistryProblem) -> Error {
    match problem.trouble {
        Trouble::Silence => Error::SegmentRegistryAway { problem: problem.text, since_us: problem.since_us },
        Trouble::Denied => Error::SegmentsDenied { problem: problem.text },
        Trouble::NoRegistry => Error::NoSegmentRegistry { problem: problem.text },
        Trouble::File => Error::SegmentFile { problem: problem.text },
        Trouble::Mismatch(_) => Error::SegmentRegistryVersion { problem: problem.text },
    }
}
