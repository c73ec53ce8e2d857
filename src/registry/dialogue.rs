//! The dialogue with the registry. This module sends queries to the registry and checks the answers.

use std::ffi::{CStr, CString};
use std::time::{Duration, Instant};

use serde_json::json;
use snowflake_id_core::lease_answer::{Answer, COLUMNS, Terms};
use snowflake_id_core::lease_state::{Asking, Held, LeaseState, Needs};
use snowflake_id_core::protocol::PROTOCOL;

use crate::background::connection::{self, KeepWaiting, NoAnswer};
use crate::config;
use crate::pg::encoding::in_ascii;
use crate::pg::libpq::Connection;
use crate::pg::{clock, server};

/// The state of the dialogue between this process and the registry.
pub struct Dialogue {
    /// What the registry has answered so far.
    pub terms: Terms,
    /// This server's clock minus the time since boot, when the last query was sent. The registry has compared this clock,
    /// even if the clock was set before the answer arrived.
    pub compared_clock_us: i64,
    /// True if the facts about this server are sent unchanged. The flag is false if the registry's database
    /// cannot represent all characters in the facts.
    tells_facts_as_they_are: bool,
}

impl Dialogue {
    pub fn new() -> Dialogue {
        Dialogue { terms: Terms::default(), compared_clock_us: 0, tells_facts_as_they_are: true }
    }

    pub fn lease_time(&self) -> Duration {
        Duration::from_micros(self.terms.lease_us.unsigned_abs())
    }

    /// Returns the absolute difference between the clocks of this server and the registry.
    pub fn clock_difference(&self) -> Duration {
        Duration::from_micros(self.terms.clock_offset_us.unwrap_or(0).unsigned_abs())
    }

    /// Asks the registry to renew a lease.
    pub fn renew(
        &mut self,
        connection: &mut Connection,
        state: &LeaseState,
        held: &Held,
        keep_waiting: KeepWaiting,
    ) -> Result<Answer, NoAnswer> {
        let query = format!(
            "SELECT {COLUMNS} FROM snowflake_registry.renew($1::uuid, $2::bigint, $3::bigint, $4::uuid, $5::uuid, $6::uuid, $7::jsonb)"
        );
        let parameters = vec![
            Some(held.lease_id.to_string()),
            Some(held.last_nonce.to_string()),
            Some(held.next_nonce.to_string()),
            Some(self.facts(state)),
        ];
        self.ask(connection, state, query, parameters, keep_waiting)
    }

    /// Asks the registry for an identity.
    pub fn acquire(
        &mut self,
        connection: &mut Connection,
        state: &LeaseState,
        asking: &Asking,
        needs: &Needs,
        keep_waiting: KeepWaiting,
    ) -> Result<Answer, NoAnswer> {
        let query = format!(
            "SELECT {COLUMNS} FROM snowflake_registry.acquire($1::uuid, $2::bigint, $3::bigint, $4::uuid, $5::uuid, $6::jsonb, $7::int, $8::int, $9::int, $10::int[])"
        );
        let unwanted: Vec<_> = needs.unwanted.iter().map(u32::to_string).collect();
        let parameters = vec![
            Some(asking.lease_id.to_string()),
            Some(asking.nonce.to_string()),
            Some(self.facts(state)),
            Some(needs.datacenter.to_string()),
            needs.pin.map(|pin| pin.to_string()),
            Some(needs.worker_limit.min(i32::MAX as u32).to_string()),
            Some(format!("{{{}}}", unwanted.join(","))),
        ];
        self.ask(connection, state, query, parameters, keep_waiting)
    }

    /// Sends a query with the facts about this server. If the encoding of the registry's database cannot
    /// represent the facts, the query is sent again with the facts in ASCII. The grant of a worker ID must
    /// not depend on the characters in the facts.
    fn ask(
        &mut self,
        connection: &mut Connection,
        state: &LeaseState,
        query: String,
        mut parameters: Vec<Option<String>>,
        keep_waiting: KeepWaiting,
    ) -> Result<Answer, NoAnswer> {
        let query = CString::new(query).unwrap_or_default();
        let is_ascii = parameters.iter().flatten().all(|text| text.is_ascii());
        if is_ascii || self.tells_facts_as_they_are {
            match self.ask_once(connection, state, &query, &parameters, keep_waiting) {
                Err(NoAnswer::Refused(_)) if !is_ascii => {}
                answered => return answered,
            }
        }
        parameters.iter_mut().flatten().for_each(|text| *text = in_ascii(text));
        let answered = self.ask_once(connection, state, &query, &parameters, keep_waiting);
        self.tells_facts_as_they_are = answered.is_err();
        answered
    }

    /// Sends a query once. Records the registry's settings and clock, which are part of every answer.
    fn ask_once(
        &mut self,
        connection: &mut Connection,
        state: &LeaseState,
        query: &CStr,
        parameters: &[Option<String>],
        keep_waiting: KeepWaiting,
    ) -> Result<Answer, NoAnswer> {
        let (sent_us, since_boot_us) = clock::clocks_us();
        let sent = Instant::now();
        self.compared_clock_us = sent_us - since_boot_us;
        let known = [
            state.registry_id.map(|id| id.to_string()),
            Some(sent_us.to_string()),
            Some(self.terms.round_trip_us.to_string()),
        ];
        let parameters = known.iter().chain(parameters);
        let parameters: Vec<_> = parameters.map(|text| CString::new(text.as_deref()?).ok()).collect();
        let row = connection::ask(connection, query, &parameters, keep_waiting)?;
        let answer = Answer::read(|at| row.get(at)?.as_deref(), clock::clock_us())?;
        self.terms.note(&answer, sent_us, sent.elapsed().as_micros() as i64);
        Ok(answer)
    }

    fn facts(&self, state: &LeaseState) -> String {
        let layout = config::valid_layout().map(|layout| layout.label());
        json!({
            "protocol": PROTOCOL,
            "node_name": config::node_name(),
            "host": server::host(),
            "port": server::port(),
            "layout": layout,
            "version": config::VERSION,
            "clock_offset": self.terms.clock_offset_us,
            "tokens": state.evidence.iter().map(|evidence| &evidence.token).collect::<Vec<_>>(),
        })
        .to_string()
    }
}
