//! The calls of the registry's functions for leases.

use std::time::Instant;

use serde_json::json;
use snowflake_id_core::lease_answer::{Answer, COLUMNS, Terms};
use snowflake_id_core::lease_state::{Asking, LeaseState, Needs, Outcome};
use snowflake_id_core::protocol::PROTOCOL;
use uuid::Uuid;

use crate::connection::{Connection, Problem};
use crate::options::Options;

/// The dialogue with the registry.
pub struct Dialogue {
    /// What the registry has answered so far.
    pub terms: Terms,
    /// The columns of an answer, as texts.
    columns: String,
}

impl Dialogue {
    pub fn new() -> Dialogue {
        let columns: Vec<_> = COLUMNS.split(", ").map(|column| format!("{column}::text")).collect();
        Dialogue { terms: Terms::default(), columns: columns.join(", ") }
    }

    /// Asks the registry for an identity.
    pub async fn acquire(
        &mut self,
        connection: &Connection,
        options: &Options,
        state: &LeaseState,
        asking: &Asking,
        needs: &Needs,
    ) -> Result<Answer, Problem> {
        let parameters = vec![
            Some(asking.lease_id.to_string()),
            Some(asking.nonce.to_string()),
            Some(self.facts(options, state)),
            Some(needs.datacenter.to_string()),
            Some(needs.worker_limit.min(i32::MAX as u32).to_string()),
        ];
        let arguments = "$4::uuid, $5::uuid, $6::jsonb, $7::int, NULL, $8::int, NULL";
        self.ask(connection, options, state.registry_id, "acquire", arguments, parameters).await
    }

    /// Asks the registry to renew a lease. `ids` contains the lease ID, the last nonce and the next nonce.
    pub async fn renew(
        &mut self,
        connection: &Connection,
        options: &Options,
        state: &LeaseState,
        ids: [Uuid; 3],
    ) -> Result<Answer, Problem> {
        let ids = ids.iter().map(|id| Some(id.to_string()));
        let parameters = ids.chain([Some(self.facts(options, state))]).collect();
        let arguments = "$4::uuid, $5::uuid, $6::uuid, $7::jsonb";
        self.ask(connection, options, state.registry_id, "renew", arguments, parameters).await
    }

    /// Releases a lease that was used until `used_until_us`. After a start of its server, the registry accepts a
    /// release only after a renewal.
    pub async fn release(
        &mut self,
        connection: &Connection,
        options: &Options,
        state: &LeaseState,
        ids: [Uuid; 3],
        used_until_us: i64,
    ) -> Result<(), Problem> {
        let is_known = self.release_once(connection, options, state, ids, used_until_us).await?;
        if !is_known {
            let answer = self.renew(connection, options, state, ids).await?;
            if let Outcome::Granted(_) = answer.outcome {
                self.release_once(connection, options, state, ids, used_until_us).await?;
            }
        }
        Ok(())
    }

    /// Calls `release()`. Returns false if the registry does not know the lease, or cannot tell its holder from a copy.
    async fn release_once(
        &self,
        connection: &Connection,
        options: &Options,
        state: &LeaseState,
        [lease_id, last_nonce, next_nonce]: [Uuid; 3],
        used_until_us: i64,
    ) -> Result<bool, Problem> {
        let query = "SELECT outcome::text FROM snowflake_registry.release($1::uuid, $2::uuid, $3::uuid, $4::uuid, $5::bigint, $6::jsonb)";
        let parameters = [
            state.registry_id.map(|id| id.to_string()),
            Some(lease_id.to_string()),
            Some(last_nonce.to_string()),
            Some(next_nonce.to_string()),
            Some(used_until_us.to_string()),
            Some(self.facts(options, state)),
        ];
        let rows = connection.ask(query, &parameters).await?;
        Ok(rows.first().and_then(|row| row.first()?.as_deref()) != Some("unknown"))
    }

    /// Sends a query once, and reads its answer. The first three arguments are the registry, the clock and
    /// the last round-trip time.
    async fn ask(
        &mut self,
        connection: &Connection,
        options: &Options,
        registry_id: Option<Uuid>,
        function: &str,
        arguments: &str,
        parameters: Vec<Option<String>>,
    ) -> Result<Answer, Problem> {
        let query = format!(
            "SELECT {} FROM snowflake_registry.{function}($1::uuid, $2::bigint, $3::bigint, {arguments})",
            self.columns
        );
        let sent_us = options.now_us();
        let sent = Instant::now();
        let mut all = vec![
            registry_id.map(|id| id.to_string()),
            Some(sent_us.to_string()),
            Some(self.terms.round_trip_us.to_string()),
        ];
        all.extend(parameters);
        let rows = connection.ask(&query, &all).await?;
        let [row] = rows.as_slice() else {
            return Err("the registry did not reply with exactly one row".into());
        };
        let answer = Answer::read(|at| row.get(at)?.as_deref(), options.now_us())?;
        self.terms.note(&answer, sent_us, sent.elapsed().as_micros() as i64);
        Ok(answer)
    }

    /// The facts about this program, in ASCII, which the registry's database can represent in any encoding.
    fn facts(&self, options: &Options, state: &LeaseState) -> String {
        json!({
            "protocol": PROTOCOL,
            "node_name": options.name.replace(|character: char| !character.is_ascii(), "?"),
            "layout": options.layout.label(),
            "version": env!("CARGO_PKG_VERSION"),
            "clock_offset": self.terms.clock_offset_us,
            "tokens": state.evidence.iter().map(|evidence| &evidence.token).collect::<Vec<_>>(),
        })
        .to_string()
    }
}
