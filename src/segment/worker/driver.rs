//! Carries out the steps of [`NumberRound`](snowflake_id_core::number_round::NumberRound), the conversation with the
//! registry about numbers. The functions return `Err(None)` if the process must stop.

use std::ffi::CString;
use std::time::Instant;

use pgrx::prelude::*;
use snowflake_id_core::lease_call::Call;
use snowflake_id_core::number_round::{Effect, Event, Take};
use snowflake_id_core::rest::Origin;
use snowflake_id_core::segment_answer::Answer;
use snowflake_id_core::segment_records::Change;

use super::failure::Failure;
use super::state::Worker;
use super::wishes::Wish;
use crate::background::connection::NoAnswer;
use crate::background::stop::is_stopping;
use crate::config;
use crate::pg::encoding::in_ascii;
use crate::pg::random::random_between;
use crate::pg::{clock, process};
use crate::segment::fetch::{Answered, RegistryConnection};
use crate::segment::local_registry;
use crate::shared::segments::Trouble;

impl Worker {
    /// Follows the setting `snowflake_id.registry`. If the setting has changed, the worker reports to the new registry
    /// immediately.
    pub fn follow_registry(&mut self) {
        let registry = config::registry();
        if registry != self.registry {
            self.registry = registry;
            self.connection = RegistryConnection::default();
            self.round.forget_registry();
            self.report_at = Instant::now();
        }
    }

    /// Requests ranges from the registry, and publishes the granted ranges.
    pub fn ask(&mut self, wishes: &[Wish]) -> Result<(), Option<Failure>> {
        let range_file = self.range_file.as_mut().map_err(|problem| Failure::of_file(problem))?;
        range_file.prove_writable().map_err(|problem| Failure::of_file(&problem))?;
        let requests = wishes.iter().map(|wish| wish.request.clone()).collect();
        let effect = self.round.take(range_file.records(), requests);
        self.drive(effect, wishes)
    }

    /// Reports to the registry if the registry has not yet received reports of all numbers.
    pub fn meet_registry(&mut self) -> Result<(), Option<Failure>> {
        let range_file = self.range_file.as_ref().map_err(|problem| Failure::of_file(problem))?;
        let effect = self.round.meet(range_file.records());
        self.drive(effect, &[])
    }

    /// Reports high-water marks. Returns an error only if the process must stop. Other failures are ignored here,
    /// because the next request for numbers reports them.
    pub fn report(&mut self) -> Result<(), ()> {
        let reported = self.report_marks();
        self.report_at = self.next_report();
        // Apply the list again, because a name in `snowflake_id.prefetch_segments` may have lost its slot, or may not
        // have found one.
        self.prefetched = CString::default();
        match reported {
            Err(None) => Err(()),
            Ok(()) | Err(Some(_)) => Ok(()),
        }
    }

    fn report_marks(&mut self) -> Result<(), Option<Failure>> {
        let range_file = self.range_file.as_mut().map_err(|problem| Failure::of_file(problem))?;
        range_file.note_again().map_err(|problem| Failure::of_file(&problem))?;
        let effect = self.round.report(range_file.records());
        self.drive(effect, &[])?;
        self.look_for_dropped()
    }

    fn next_report(&self) -> Instant {
        Instant::now() + self.round.pause_of_reports().mul_f64(random_between((0.9, 1.1)))
    }

    /// Carries out effects until the end of the round.
    fn drive(&mut self, mut effect: Effect, wishes: &[Wish]) -> Result<(), Option<Failure>> {
        let was_urgent = self.round.is_report_urgent();
        let mut failure = None;
        loop {
            let event = match effect {
                Effect::Send(take) => match self.send(&take) {
                    Ok(answer) => {
                        self.enter_periods();
                        Event::Answered(answer)
                    }
                    Err(None) => return Err(None),
                    Err(Some(why)) => {
                        let is_of_data = why.is_of_data;
                        failure = Some(why);
                        Event::Failed { is_of_data }
                    }
                },
                Effect::Keep(changes) => match self.keep(changes) {
                    // The records may not have reached a synchronous standby.
                    Ok(()) if is_stopping() => return Err(None),
                    Ok(()) => Event::Kept,
                    Err(why) => {
                        failure = Some(why);
                        Event::NotKept
                    }
                },
                Effect::Publish(given) => {
                    self.publish_given(given, wishes);
                    Event::Published
                }
                Effect::Rest(result) => {
                    // After a restart of its server, the registry may need more frequent reports.
                    self.report_at = self.report_at.min(self.next_report());
                    if self.round.is_report_urgent() && !was_urgent {
                        self.report_at = Instant::now();
                    }
                    return result.map_err(|refusal| Some(Failure::of_refusal(refusal, failure)));
                }
            };
            let range_file = self.range_file.as_ref().map_err(|problem| Failure::of_file(problem))?;
            effect = self.round.step(range_file.records(), event, self.segments.registry_clock_us());
        }
    }

    fn keep(&mut self, changes: Vec<Change>) -> Result<(), Failure> {
        let range_file = self.range_file.as_mut().map_err(|problem| Failure::of_file(problem))?;
        let is_another = |change: &Change| matches!(change, Change::Registry(_));
        if range_file.records().registry_id.is_some() && changes.iter().any(is_another) {
            ereport!(
                PgLogLevel::WARNING,
                PgSqlErrorCode::ERRCODE_WARNING,
                "snowflake_id: the registry of segments has changed; numbers continue above all numbers that this server has received"
            );
        }
        range_file.keep(changes).map_err(|problem| Failure::of_file(&problem))
    }

    /// Calls the registry, local or remote, with the registry's tokens.
    pub fn send(&mut self, take: &Take) -> Result<Answer, Option<Failure>> {
        let Answered { answer, registry_clock } = match self.is_local {
            true => self.ask_local(take)?,
            false => self.ask_remote(take)?,
        };
        if answer.mismatch.is_none() {
            if !answer.is_foreign {
                self.segments.set_registry_clock(registry_clock);
                self.clock = clock::offset();
                self.note_existence(take, &answer);
            }
            let Answer { registry_id, server_started_us, .. } = answer;
            self.compare_rest(Origin { registry_id, server_started_us });
        }
        Ok(answer)
    }

    fn call(&self, take: &Take, node_name: &str) -> Result<Call, Failure> {
        let range_file = self.range_file.as_ref().map_err(|problem| Failure::of_file(problem))?;
        Ok(self.round.call(range_file.records(), take, node_name))
    }

    fn ask_local(&mut self, take: &Take) -> Result<Answered, Option<Failure>> {
        let call = self.call(take, &in_ascii(&config::node_name()))?;
        let answered = local_registry::ask(&call, take.most_rows()).map_err(Failure::of_registry)?;
        answered.ok_or_else(|| {
            let problem = format!(
                "snowflake_id.registry is not set, and extension \"snowflake_id_registry\" does not exist in database \"{}\" (snowflake_id.database)",
                config::database().to_string_lossy()
            );
            Some(Failure::new(problem, Trouble::NoRegistry))
        })
    }

    fn ask_remote(&mut self, take: &Take) -> Result<Answered, Option<Failure>> {
        let Some(string) = config::registry() else { return Err(None) };
        let name = config::node_name();
        // Any encoding can represent ASCII. Only the node name is converted, because names of segments must not be
        // changed.
        let ascii = in_ascii(&name);
        let name = if self.tells_name_as_it_is { &name } else { &ascii };
        let call = self.call(take, name)?;
        // The connection is moved out of `self` during the call, because `keep_waiting` borrows `self`.
        let mut line = std::mem::take(&mut self.connection);
        let mut answered = line.ask(&string, &call, &mut || self.keep_waiting());
        if matches!(answered, Err(NoAnswer::Refused(_)))
            && *name != ascii
            && let Ok(call) = self.call(take, &ascii)
        {
            answered = line.ask(&string, &call, &mut || self.keep_waiting());
            self.tells_name_as_it_is = answered.is_err();
        }
        self.connection = line;
        if let Err(NoAnswer::Stuck { problem, has_answer }) = &answered {
            if !has_answer {
                self.publish_all_rests();
            }
            self.keep_unused_rest();
            self.fail(Failure::of_silence(problem));
            // The keeper starts a new worker.
            process::exit(1);
        }
        answered.map_err(Failure::of_registry)
    }
}
