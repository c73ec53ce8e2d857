//! The main loop of the segments worker. In each round it finds the segments that need numbers, requests ranges for
//! all of them at once, and publishes them.

mod bad_names;
mod driver;
mod dropped;
mod failure;
mod known;
mod periods;
mod prefetch;
mod publish;
mod rest;
mod state;
mod wishes;

use std::time::{Duration, Instant};

pub use self::state::Worker;
use super::range_file::RangeFile;
use crate::background::rounds;
use crate::config;
use crate::shared::segment_table;

/// The maximum time that the worker sleeps without being woken, if no connection to the registry is open.
const IDLE_TIME: Duration = Duration::from_secs(10);
/// The same maximum while a connection to the registry is open.
const IDLE_TIME_IN_TOUCH: Duration = Duration::from_secs(2);

impl Worker {
    pub fn run(&mut self) {
        while self.keep_waiting() {
            self.follow_registry();
            self.segments.wakeup.take_wanted();
            if Instant::now() >= self.not_before && self.round().is_err() {
                return;
            }
            if Instant::now() >= self.report_at && self.report().is_err() {
                return;
            }
            self.connection.rest();
            self.sleep();
        }
    }

    /// Runs one round: finds the segments that need numbers, requests ranges, and publishes them. Returns an
    /// error if the process must stop.
    fn round(&mut self) -> Result<(), ()> {
        self.segments.begin_round();
        if self.range_file.is_err() {
            self.range_file = RangeFile::read(); // The file may have been repaired.
        }
        match self.take_over_rest() {
            Ok(()) => {}
            Err(None) => return Err(()),
            Err(Some(failure)) => {
                self.fail(failure);
                self.segments.end_round();
                return Ok(());
            }
        }
        self.prefetch();
        let wanted = segment_table::take_wanted();
        let wishes = self.wishes(&wanted);
        let is_clock_set = self.is_clock_set();
        if wishes.is_empty() && !is_clock_set {
            self.segments.end_round();
            return Ok(());
        }
        self.ask_in_portions(wishes)?;
        self.segments.end_round();
        Ok(())
    }

    /// Sleeps until a backend requests numbers, or the next work is due.
    fn sleep(&mut self) {
        let until = Instant::now() + self.idle_time();
        let wakeup = &self.segments.wakeup;
        rounds::sleep(wakeup, self.not_before, until, || {
            let goes_on = self.keep_waiting() && config::registry() == self.registry;
            goes_on.then_some(self.not_before)
        });
    }

    /// Returns the time until the next work is due.
    fn idle_time(&self) -> Duration {
        let idle_time = if self.connection.is_open() { IDLE_TIME_IN_TOUCH } else { IDLE_TIME };
        let until_report = self.report_at.saturating_duration_since(Instant::now());
        self.pause_of_periods().unwrap_or(idle_time).min(idle_time).min(until_report)
    }
}
