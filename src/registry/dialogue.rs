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

/// The minimum duration of a lease. The registry enforces the same limits for its settings. The worker checks
/// the limits again, because an answer may come from a server that is not a registry.
const SHORTEST_LEASE_US: i64 = 1_000_000;
const LONGEST_LEASE_US: i64 = 24 * 60 * 60 * 1_000_000;
const SHORTEST_RENEWAL_US: i64 = 100_000;
/// The default interval between renewals of a lease. The registry can specify another interval.
const RENEW_EVERY: Duration = Duration::from_secs(30);
/// The maximum difference between the clocks of a server and the registry. If the difference is larger, the
/// registry grants no lease. Therefore, a lease never starts more than this difference ahead of this server's
/// clock.
pub const MOST_CLOCK_DIFFERENCE_US: i64 = 60_000_000;

/// The state of the dialogue between this process and the registry.
pub struct Dialogue {
    /// The duration of a lease, or 0 if the duration is unknown.
    pub lease_us: i64,
    /// The interval between renewals.
    pub renew_every: Duration,
    /// The difference between this server's clock and the registry's clock. A positive offset means that this
    /// server's clock is ahead.
    pub clock_offset_us: Option<i64>,
    /// The round-trip time of the last query.
    round_trip_us: i64,
    /// True if the facts about this server are sent unchanged. The flag is false if the registry's database
    /// cannot represent all characters in the facts.
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

    /// Returns the absolute difference between the clocks of this server and the registry.
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
