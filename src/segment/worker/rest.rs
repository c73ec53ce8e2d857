//! Saves the numbers that are left at a clean stop (the rest), and uses them after the next start (see
//! [`crate::segment::ticket`]).

use pgrx::prelude::*;
use snowflake_id_core::rest::{Origin, Rest};
use snowflake_id_core::segment_answer::{Granted, has_begun};

use super::failure::Failure;
use super::state::Worker;
use crate::segment::ticket;
use crate::shared::segment_table;

impl Worker {
    /// Takes over the rest of the last clean stop, and determines whether this round may use it. The round may use the
    /// rest in two cases: if no registry can be reached, or if this server's current registry granted the rest and the
    /// registry's server was not restarted since. Otherwise, another registry may have granted the same numbers, or
    /// this registry may have lost commits and granted the numbers again before this server could report them. A
    /// restart of a registry in this database does not matter, because the WAL contains its grants.
    ///
    /// # Errors
    /// Returns a failure if the registry has answered, but has not yet received the reports of this server. Returns
    /// `Err(None)` if the process must stop.
    pub fn take_over_rest(&mut self) -> Result<(), Option<Failure>> {
        if let Some(rest) = self.range_file.as_mut().ok().and_then(|range_file| range_file.take_rest()) {
            if ticket::redeem(rest.ticket) {
                self.segments.set_registry_clock(rest.registry_clock);
                self.rest = Some(rest);
            } else {
                log!(
                    "snowflake_id: the numbers of segments that were left at the last stop are not used: the data directory is a copy, or the host was restarted"
                );
            }
        }
        self.may_use_rest = false;
        if self.rest.is_none() {
            return Ok(());
        }
        match self.meet_registry() {
            Ok(()) => self.may_use_rest = true,
            Err(Some(failure)) if failure.is_unreachable => self.may_use_rest = true,
            Err(failure) => return Err(failure),
        }
        Ok(())
    }

    /// Drops the rest if the registry that has just answered may have granted the same numbers. The rest is then not
    /// used even if no registry can be reached.
    pub fn compare_rest(&mut self, met: Origin) {
        if self.rest.take_if(|rest| !met.is_same(rest.origin, self.is_local)).is_some() {
            log!(
                "snowflake_id: the numbers of segments that were left at the last stop are not used: the server of the registry was restarted, or there is another registry"
            );
        }
    }

    /// Publishes the rest of a segment, if this round may use it. The ends of the ranges in the rest were stored before
    /// the server was stopped.
    pub fn publish_rest(&mut self, at: usize, name: &str) {
        let Some(rest) = self.rest.as_mut().filter(|_| self.may_use_rest) else { return };
        let now_us = self.segments.registry_clock_us();
        for granted in rest.take(name) {
            if has_begun(granted.period, now_us) {
                self.publish(at, name, &granted);
            } else {
                self.hold(at, name, granted);
            }
        }
    }

    /// Publishes the rests of all segments, because this process has to exit while no registry can be reached.
    pub fn publish_all_rests(&mut self) {
        let names = self.rest.iter().flat_map(Rest::names).map(str::to_owned).collect::<Vec<_>>();
        self.may_use_rest = true;
        for name in names {
            if let Ok(place) = segment_table::find_or_assign(&name) {
                self.publish_rest(place.at, &name);
            }
        }
    }

    /// Stores the rest that this process has not used, for the next process.
    pub fn keep_unused_rest(&mut self) {
        if let Some(rest) = self.rest.take() {
            self.keep_rest(rest.with_ticket(ticket::new()));
        }
    }

    fn keep_rest(&mut self, rest: Rest) {
        let Ok(range_file) = &mut self.range_file else { return };
        if rest.is_empty() {
            return;
        }
        let ticket = rest.ticket;
        let issued = ticket::issue(ticket).map_err(|problem| problem.to_string());
        if let Err(problem) = issued.and_then(|()| range_file.keep_rest(rest)) {
            // Remove the ticket's file. Otherwise, it would exist until the host is restarted.
            ticket::redeem(ticket);
            log!("snowflake_id: could not store the numbers of segments that are left: {problem}");
        }
    }

    /// Takes all numbers that are left, and stores them for the next start. Numbers that cannot be stored are lost.
    pub fn save_rest(mut self) {
        let Ok(range_file) = &self.range_file else { return };
        let origin = self.round.origin(range_file.records());
        let mut rest = Rest::new(ticket::new(), origin, self.segments.registry_clock());
        for at in 0..segment_table::used() {
            let record = segment_table::record(at);
            for range in segment_table::slot(at).segment.drain() {
                rest.add(record.name(), Granted { range, period: None });
            }
        }
        for (_, name, granted) in self.known.held() {
            rest.add(name, granted);
        }
        // Numbers that were left earlier can be used only under the same conditions as the new rest.
        if let Some(former) = self.rest.take() {
            if former.origin == origin {
                rest.add_others(former);
            } else if rest.is_empty() {
                rest = former.with_ticket(ticket::new());
            } else {
                log!(
                    "snowflake_id: the numbers of segments that were left at an earlier stop are lost: the server holds other numbers"
                );
            }
        }
        self.keep_rest(rest);
    }
}
