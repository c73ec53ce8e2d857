//! Calling the registry, local or remote.

use std::collections::BTreeSet;
use std::time::Instant;

use snowflake_id_core::rest::Origin;
use snowflake_id_core::segment_answer::Answer;
use uuid::Uuid;

use super::failure::Failure;
use super::state::{Worker, clock_offset_us};
use crate::background::connection::NoAnswer;
use crate::config;
use crate::pg::process;
use crate::segment::fetch::{Answered, Question, Request};
use crate::segment::local_registry;
use crate::shared::segments::Trouble;

impl Worker {
    /// Calls the registry with the registry's tokens, and once more if it refuses the protocol and knows another one.
    /// Returns `Err(None)` if the process must stop.
    pub fn ask_registry(
        &mut self,
        requests: &[&Request],
        registry_id: Option<Uuid>,
    ) -> Result<Answered, Option<Failure>> {
        let mut answered = self.send(requests, registry_id)?;
        if self.note_protocols(&answered) {
            answered = self.send(requests, registry_id)?;
            self.note_protocols(&answered);
        }
        if let Some(mismatch) = answered.answer.mismatch {
            return Err(Some(Failure::of_mismatch(mismatch, answered.answer.detail.as_deref())));
        }
        if !answered.answer.is_foreign {
            self.segments.set_registry_clock(answered.answer.clock_us, answered.since_boot_us);
            self.clock_offset_us = clock_offset_us();
        }
        let Answer { registry_id, server_started_us, .. } = answered.answer;
        self.compare_rest(Origin { registry_id, server_started_us });
        if self.registry_started_us != server_started_us {
            // The registry may have lost what it was told before.
            self.registry_started_us = server_started_us;
            self.told = None;
            if !self.is_local {
                self.report_at = Instant::now();
            }
        }
        Ok(answered)
    }

    fn note_protocols(&mut self, Answered { answer, .. }: &Answered) -> bool {
        self.protocol.note(answer.mismatch.is_some(), answer.protocols.clone())
    }

    fn send(
        &mut self,
        requests: &[&Request],
        registry_id: Option<Uuid>,
    ) -> Result<Answered, Option<Failure>> {
        let tokens = self.evidence(requests, registry_id);
        let node_name = config::node_name();
        let protocol = self.protocol;
        let mut question = Question { protocol, registry_id, requests, tokens: &tokens, node_name };
        if self.is_local || !self.tells_name_as_it_is {
            question = question.in_ascii();
        }
        if self.is_local {
            return match local_registry::ask(&question).map_err(Failure::of_registry)? {
                Some(answered) => Ok(answered),
                None => {
                    let database = config::database();
                    let problem = format!(
                        "snowflake_id.registry is not set, and extension \"snowflake_id_registry\" does not exist in database \"{}\" (snowflake_id.database)",
                        database.to_string_lossy()
                    );
                    Err(Some(Failure::new(problem, Trouble::NoRegistry)))
                }
            };
        }
        let Some(string) = config::registry() else { return Err(None) };
        // The connection is taken out of `self` during the call, because `keep_waiting` borrows `self`.
        let mut line = std::mem::take(&mut self.connection);
        let mut answered = line.ask(&string, &question, &mut || self.keep_waiting());
        if matches!(answered, Err(NoAnswer::Refused(_))) && !question.node_name.is_ascii() {
            answered = line.ask(&string, &question.in_ascii(), &mut || self.keep_waiting());
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

    /// Returns the tokens of the given registry for the segments of the requests. If no registry is given, the tokens are
    /// those of the last registry that answered.
    fn evidence(&self, requests: &[&Request], registry_id: Option<Uuid>) -> Vec<String> {
        let Ok(range_file) = &self.range_file else { return vec![] };
        let registry_id = registry_id.or(range_file.registry_id());
        let names: BTreeSet<_> = requests.iter().map(|request| &request.name).collect();
        names.into_iter().flat_map(|name| range_file.tokens(registry_id, name)).collect()
    }
}
