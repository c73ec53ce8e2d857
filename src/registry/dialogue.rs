//! The dialogue with the registry. This module sends queries to the registry and checks the answers.

use std::ffi::{CStr, CString};
use std::time::{Duration, Instant};

use serde_json::json;
use snowflake_id_core::lease_state::{Asking, Held, LeaseState, Needs, Outcome};
use snowflake_id_core::message::instant;

use super::answer::{Answer, COLUMNS};
use crate::background::connection::{self, KeepWaiting, NoAnswer};
use crate::config;
use crate::pg::encoding::in_ascii;
use crate::pg::libpq::Connection;
use crate::pg::{clock, server};

/// These bounds are the same as in the registry. The worker checks them as well, because an answer may come
/// from a server that is not a registry.
const SHORTEST_LEASE_US: i64 = 1_000_000;
const LONGEST_LEASE_US: i64 = 24 * 60 * 60 * 1_000_000;
const SHORTEST_RENEWAL_US: i64 = 100_000;
/// How often a lease is renewed, unless the registry says otherwise.
const RENEW_EVERY: Duration = Duration::from_secs(30);
/// The registry grants nothing if the clocks differ by more than this. Therefore, the start of a lease is
/// never further ahead of this server's clock.
pub const MOST_CLOCK_DIFFERENCE_US: i64 = 60_000_000;

/// The information that this process has received from the registry so far.
pub struct Dialogue {
    /// How long a lease lasts; 0 if unknown.
    pub lease_us: i64,
    /// The time between two renewals.
    pub renew_every: Duration,
    /// The clock of this server minus that of the registry.
    pub clock_offset_us: Option<i64>,
    /// How long the last exchange took.
    round_trip_us: i64,
    /// Whether to send the facts about this server unchanged. This is false if the registry's database cannot
    /// represent all characters in the facts.
    tells_facts_as_they_are: bool,
}

impl Dialogue {
    pub fn new() -> Dialogue {
        Dialogue {
            lease_us: 0,
            renew_every: RENEW_EVERY,
            clock_offset_us: None,
            round_trip_us: 0,
            tells_facts_as_they_are: true,
        }
    }

    pub fn lease_time(&self) -> Duration {
        Duration::from_micros(self.lease_us.unsigned_abs())
    }

    /// Returns how much the clocks of this server and of the registry differ.
    pub fn clock_difference(&self) -> Duration {
        Duration::from_micros(self.clock_offset_us.unwrap_or(0).unsigned_abs())
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

    /// Sends a query. The encoding of the registry's database may be unable to represent the facts about this
    /// server. If a query is refused for this reason, the facts are sent again in ASCII. The grant of a
    /// worker ID must not depend on the characters in the facts.
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

    /// Sends a query once, and records what every answer contains: the settings of the registry and its
    /// clock.
    fn ask_once(
        &mut self,
        connection: &mut Connection,
        state: &LeaseState,
        query: &CStr,
        parameters: &[Option<String>],
        keep_waiting: KeepWaiting,
    ) -> Result<Answer, NoAnswer> {
        let sent_us = clock::clock_us();
        let sent = Instant::now();
        let known = [
            state.registry_id.map(|id| id.to_string()),
            Some(sent_us.to_string()),
            Some(self.round_trip_us.to_string()),
        ];
        let parameters = known.iter().chain(parameters);
        let parameters: Vec<_> = parameters.map(|text| CString::new(text.as_deref()?).ok()).collect();
        let row = connection::ask(connection, query, &parameters, keep_waiting)?;
        let answer = Answer::read(&row)?;
        if let Outcome::Granted(lease) = answer.outcome {
            let latest_us = clock::clock_us().saturating_add(LONGEST_LEASE_US + MOST_CLOCK_DIFFERENCE_US);
            if lease.until_us > latest_us || lease.until_us <= lease.from_us {
                return Err(format!(
                    "the registry granted an invalid range, which ends at {}",
                    instant(lease.until_us)
                )
                .into());
            }
        }
        self.round_trip_us = sent.elapsed().as_micros() as i64;
        if let (Some(registry), true) = (&answer.registry, answer.outcome != Outcome::Foreign) {
            self.lease_us = registry.lease_us.clamp(SHORTEST_LEASE_US, LONGEST_LEASE_US);
            let renew_every_us = registry.renew_every_us.clamp(SHORTEST_RENEWAL_US, self.lease_us / 2);
            self.renew_every = Duration::from_micros(renew_every_us.unsigned_abs());
        }
        let offset_us = (sent_us + self.round_trip_us / 2).saturating_sub(answer.registry_clock_us);
        self.clock_offset_us = Some(offset_us);
        Ok(answer)
    }

    fn facts(&self, state: &LeaseState) -> String {
        let layout = config::valid_layout().map(|layout| layout.to_string());
        json!({
            "node_name": config::node_name(),
            "host": server::host(),
            "port": server::port(),
            "layout": layout,
            "version": env!("CARGO_PKG_VERSION"),
            "clock_offset": self.clock_offset_us,
            "tokens": state.evidence.iter().map(|evidence| &evidence.token).collect::<Vec<_>>(),
        })
        .to_string()
    }
}
