//! Numbers that are bound to a period of time: a range is fetched before its period begins, held back, and published then.

use std::time::Duration;

use snowflake_id_core::segment::{NEVER_ENDS, Standing};

use super::failure::Failure;
use super::known::Known;
use super::state::{Worker, clock_offset_us};
use crate::background::stop::is_stopping;
use crate::config;
use crate::pg::process;
use crate::segment::answer::Period;

/// How soon the worker looks while there are numbers of a period.
const IDLE_TIME: Duration = Duration::from_secs(1);
/// By how much the clock has to change against the time since boot for that to be a step.
const STEP_US: u64 = 1_000_000;

impl Worker {
    /// What has to be looked after also while the registry does not answer. Returns whether to go on.
    pub fn keep_waiting(&mut self) -> bool {
        process::reload_if_asked();
        self.enter_periods();
        !is_stopping() && config::registry().is_none() == self.is_here
    }

    /// Publishes the ranges of periods that have begun. A range that cannot be noted stays held. One that does not lie
    /// above what was used meanwhile is lost.
    pub fn enter_periods(&mut self) {
        let now_us = self.segments.registry_clock_us();
        let held = self.known.held().filter(|(_, _, granted)| has_begun(granted.period, now_us));
        let begun: Vec<_> = held.map(|(at, name, granted)| (at, name.to_owned(), granted)).collect();
        for (at, name, granted) in begun {
            let Ok(range_file) = &mut self.range_file else { return };
            // The registry's clock was set back, after it had given numbers of a later period; or this one could not be
            // noted.
            if range_file.is_over(&name, &granted) {
                self.known.of(at, &name).held = None;
                continue;
            }
            if let Err(problem) = range_file.keep(|range_file| range_file.enter(&name, &granted)) {
                self.fail(Failure::of_file(&problem));
                continue;
            }
            if is_stopping() {
                return; // What was noted may not have reached a standby.
            }
            self.known.of(at, &name).held = None;
            self.publish(at, &name, &granted);
        }
    }

    /// How long nothing has to be done because of periods; `None` if there are none.
    pub fn pause_of_periods(&self) -> Option<Duration> {
        let now_us = self.segments.registry_clock_us();
        let is_in_period = |ends_us: i64| ends_us != NEVER_ENDS && ends_us > now_us;
        let in_use = self.segments.in_use();
        let current = in_use.iter().filter_map(|(_, _, slot)| slot.segment.standing().current);
        let in_period = current.filter(|range| is_in_period(range.ends_us)).map(|_| IDLE_TIME);
        let held = self.known.held().filter_map(|(_, _, held)| held.period);
        // One that has begun could not be noted: that is tried again.
        let begins_in = held.map(|period| match period.starts_us.saturating_sub(now_us) {
            left_us if left_us > 0 => Duration::from_micros(left_us.unsigned_abs()),
            _ => IDLE_TIME,
        });
        in_period.chain(begins_in).min()
    }

    /// Whether the clock was set since it was last compared with the registry's: that of the registry may have been
    /// as well, or this machine may have slept without knowing.
    pub fn is_clock_set(&self) -> bool {
        clock_offset_us().abs_diff(self.clock_offset_us) > STEP_US
            && self.segments.in_use().iter().any(|(_, _, slot)| {
                slot.segment.standing().current.is_some_and(|range| range.ends_us != NEVER_ENDS)
            })
    }
}

/// Whether it is time to fetch the first range of the next period: it begins soon, and numbers of this one were taken.
pub fn is_next_period_due(known: &Known, standing: &Standing, now_us: i64) -> bool {
    let is_soon =
        |ends_us: i64| ends_us != NEVER_ENDS && now_us < ends_us && now_us >= ends_us - known.lead_us;
    known.held.is_none() && standing.current.is_some_and(|range| is_soon(range.ends_us))
}

/// Whether a range of this period, or of none, may be used.
pub fn has_begun(period: Option<Period>, now_us: i64) -> bool {
    period.is_none_or(|period| period.starts_us <= now_us)
}
