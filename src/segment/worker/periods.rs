//! Ranges of numbers that belong to a period. Such a range is fetched before the period starts, and published after
//! the period has started.

use std::time::Duration;

use snowflake_id_core::segment::{NEVER_ENDS, Range, Standing};
use snowflake_id_core::segment_answer::{Granted, has_begun};
use snowflake_id_core::segment_records::Update;

use super::failure::Failure;
use super::known::Known;
use super::state::Worker;
use crate::background::stop::is_stopping;
use crate::config;
use crate::pg::{clock, process};
use crate::shared::segment_table;

/// The maximum time that the worker sleeps while a range with a period is in use.
const IDLE_TIME: Duration = Duration::from_secs(1);

impl Worker {
    /// Does urgent work while the worker sleeps or waits for the registry's answer. Returns false if the worker must
    /// stop.
    pub fn keep_waiting(&mut self) -> bool {
        process::reload_if_asked();
        self.enter_periods();
        !is_stopping() && config::registry().is_none() == self.is_local
    }

    /// Publishes the ranges whose periods have started. A range that cannot be recorded is not published. A range is
    /// discarded if the server has started to use the same or higher numbers since the range was fetched.
    pub fn enter_periods(&mut self) {
        if !self.has_periods {
            return;
        }
        let now_us = self.segments.registry_clock_us();
        let held = self.known.held().filter(|(_, _, granted)| has_begun(granted.period, now_us));
        let begun: Vec<_> = held.map(|(at, name, granted)| (at, name.to_owned(), granted)).collect();
        for (at, name, granted) in begun {
            let Ok(range_file) = &mut self.range_file else { return };
            // The server may have received higher numbers, because the registry's clock was set back after the registry
            // had granted numbers of a later period, or because this range could not be recorded in time.
            if range_file.records().is_over(&name, &granted) {
                self.known.of(at, &name).held = None;
                continue;
            }
            let mut update = Update::new(range_file.records(), None);
            update.enter(&name, &granted);
            let changes = update.changes();
            if let Err(problem) = range_file.keep(changes) {
                self.fail(Failure::of_file(&problem));
                continue;
            }
            if is_stopping() {
                return; // The records may not have reached a synchronous standby.
            }
            self.known.of(at, &name).held = None;
            self.publish(at, &name, &granted);
        }
    }

    /// Returns how long to wait before the next work on periods, or `None` if no range belongs to a period.
    pub fn pause_of_periods(&self) -> Option<Duration> {
        if !self.has_periods {
            return None;
        }
        let now_us = self.segments.registry_clock_us();
        let is_in_period = |ends_us: i64| ends_us != NEVER_ENDS && ends_us > now_us;
        let mut current = self.current_ranges();
        let in_period = current.any(|range| is_in_period(range.ends_us)).then_some(IDLE_TIME);
        let held = self.known.held().filter_map(|(_, _, held)| held.period);
        // Retry if a range could not be recorded and published at the start of its period.
        let begins_in = held.map(|period| match period.starts_us.saturating_sub(now_us) {
            left_us if left_us > 0 => Duration::from_micros(left_us.unsigned_abs()),
            _ => IDLE_TIME,
        });
        begins_in.chain(in_period).min()
    }

    /// Holds a range back until its period starts.
    pub fn hold(&mut self, at: usize, name: &str, granted: Granted) {
        self.has_periods = true;
        self.known.of(at, name).held = Some(granted);
    }

    /// Iterates over the current ranges, if any range belongs to a period.
    fn current_ranges(&self) -> impl Iterator<Item = Range> {
        let used = if self.has_periods { segment_table::used() } else { 0 };
        (0..used).filter_map(|at| segment_table::slot(at).segment.standing().current)
    }

    /// Returns true if ranges with a period are in use and this server's clock was set after the last comparison with
    /// the registry's clock. The registry's clock may have been set as well. On a machine whose time since boot does
    /// not include suspensions, a suspension looks as if the clock was set.
    pub fn is_clock_set(&self) -> bool {
        clock::offset().is_set_since(self.clock)
            && self.current_ranges().any(|range| range.ends_us != NEVER_ENDS)
    }
}

/// Returns true if the first range of the next period should be fetched, because the next period starts soon and
/// numbers of the current period are in use.
pub fn is_next_period_due(known: &Known, standing: &Standing, now_us: i64) -> bool {
    let is_soon =
        |ends_us: i64| ends_us != NEVER_ENDS && now_us < ends_us && now_us >= ends_us - known.lead_us;
    known.held.is_none() && standing.current.is_some_and(|range| is_soon(range.ends_us))
}
