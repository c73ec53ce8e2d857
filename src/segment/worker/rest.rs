//! Saving the numbers that are left at a clean stop, and using them after the next start (see [`crate::segment::rest`]).

use pgrx::prelude::*;

use super::failure::Failure;
use super::periods::has_begun;
use super::state::Worker;
use crate::pg::clock;
use crate::segment::answer::Granted;
use crate::segment::rest::Rest;
use crate::shared::segment_table;
use crate::shared::segments::Trouble;

impl Worker {
    /// Takes over the numbers that were left at the last clean stop. They are used if their registry is still the registry
    /// of this server and its server was not restarted meanwhile, or if no registry can be reached. Another registry may
    /// have granted the same numbers, and so may this one, if it lost commits and this server was not there to prove it.
    /// Returns an error if the process must stop.
    pub fn take_over_rest(&mut self) -> Result<(), ()> {
        if let Some(rest) = self.range_file.as_mut().ok().and_then(|range_file| range_file.take_rest()) {
            if rest.use_ticket() {
                self.segments.set_registry_clock(rest.clock_offset_us, 0);
                self.rest = Some(rest);
            } else {
                log!(
                    "snowflake_id: the numbers of segments that were left at the last stop are not used: the data directory is a copy, or the host was restarted"
                );
            }
        }
        let Some(rest) = self.rest.as_ref().filter(|_| !self.is_rest_confirmed) else { return Ok(()) };
        let (registry_id, started_us) = (rest.registry_id, rest.registry_started_us);
        match self.meet_registry() {
            // The WAL of a registry in this database contains its grants.
            Ok(met) if met == registry_id && (self.is_local || self.registry_started_us == started_us) => {
                self.is_rest_confirmed = true;
            }
            Ok(_) => {
                self.rest = None;
                log!(
                    "snowflake_id: the numbers of segments that were left at the last stop are not used: the server of the registry was restarted, or there is another registry"
                );
            }
            Err(None) => return Err(()),
            Err(Some(Failure { trouble: Trouble::Silence | Trouble::Denied, .. })) => {
                self.is_rest_confirmed = true;
            }
            Err(Some(failure)) => self.fail(failure),
        }
        Ok(())
    }

    /// Publishes the rest of a segment. The ends of its ranges were stored before the server was stopped.
    pub fn publish_rest(&mut self, at: usize, name: &str) {
        let Some(rest) = self.rest.as_mut().filter(|_| self.is_rest_confirmed) else { return };
        let now_us = self.segments.registry_clock_us();
        for granted in rest.take(name) {
            if has_begun(granted.period, now_us) {
                self.publish(at, name, &granted);
            } else {
                self.hold(at, name, granted);
            }
        }
    }

    /// Takes all numbers that are left, and stores them for the next start. Numbers that cannot be stored are lost.
    pub fn save_rest(mut self) {
        let Ok(range_file) = &mut self.range_file else { return };
        let since_boot_us = clock::since_boot_us();
        let offset_us = self.segments.registry_clock_us() - since_boot_us;
        let mut rest = Rest::new(range_file.registry_id(), self.registry_started_us, offset_us);
        for at in 0..segment_table::used() {
            let record = segment_table::record(at);
            for range in segment_table::slot(at).segment.drain() {
                rest.add(record.name(), Granted { range, period: None });
            }
        }
        for (_, name, granted) in self.known.held() {
            rest.add(name, granted);
        }
        if let Some(former) = self.rest.take().filter(|former| former.registry_id == rest.registry_id) {
            rest.add_others(former);
        }
        if rest.is_empty() {
            return;
        }
        let issued = rest.issue_ticket().map_err(|problem| problem.to_string());
        if let Err(problem) = issued.and_then(|()| range_file.keep_rest(rest)) {
            log!("snowflake_id: could not store the numbers of segments that are left: {problem}");
        }
    }
}
