//! The calls of the registry's functions for leases.

use std::time::Instant;

use snowflake_id_core::lease_answer::{Answer, Terms};
use snowflake_id_core::lease_call::{Call, Facts, Ids, LeaseCalls};
use snowflake_id_core::lease_state::{Asking, LeaseState, Needs, Outcome};
use snowflake_id_core::message::without_controls;

use crate::connection::{Connection, Problem};
use crate::options::Options;

/// The dialogue with the registry.
pub struct Dialogue {
    /// What the registry has answered so far.
    pub terms: Terms,
}

impl Dialogue {
    pub fn new() -> Dialogue {
        Dialogue { terms: Terms::default() }
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
        self.ask(connection, options, state, |calls| calls.acquire(asking, needs)).await
    }

    /// Asks the registry to renew a lease.
    pub async fn renew(
        &mut self,
        connection: &Connection,
        options: &Options,
        state: &LeaseState,
        ids: Ids,
    ) -> Result<Answer, Problem> {
        self.ask(connection, options, state, |calls| calls.renew(ids)).await
    }

    /// Releases a lease that was used until `used_until_us`. After a start of its server, the registry accepts a
    /// release only after a renewal.
    pub async fn release(
        &mut self,
        connection: &Connection,
        options: &Options,
        state: &LeaseState,
        ids: Ids,
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
        ids: Ids,
        used_until_us: i64,
    ) -> Result<bool, Problem> {
        let facts = facts(options);
        let calls = LeaseCalls { state, terms: &self.terms, facts: &facts, sent_us: options.now_us() };
        let rows = connection.call(&calls.release(ids, used_until_us)).await?;
        Ok(rows.first().and_then(|row| row.text("outcome")) != Some("unknown"))
    }

    /// Sends a call once, and reads its answer.
    async fn ask(
        &mut self,
        connection: &Connection,
        options: &Options,
        state: &LeaseState,
        call: impl Fn(&LeaseCalls) -> Call,
    ) -> Result<Answer, Problem> {
        let sent_us = options.now_us();
        let sent = Instant::now();
        let call = call(&LeaseCalls { state, terms: &self.terms, facts: &facts(options), sent_us });
        let rows = connection.call(&call).await?;
        let [reply] = rows.as_slice() else {
            return Err("the registry did not reply with exactly one row".into());
        };
        let answer = Answer::read(reply, options.now_us())?;
        self.terms.note(&answer, sent_us, sent.elapsed().as_micros() as i64);
        Ok(answer)
    }
}

/// The facts about this program, in ASCII, which the registry's database can represent in any encoding.
fn facts(options: &Options) -> Facts {
    Facts {
        node_name: without_controls(&options.name.replace(|character: char| !character.is_ascii(), "?")),
        layout: Some(options.layout.label()),
        version: env!("CARGO_PKG_VERSION").into(),
        ..Facts::default()
    }
}
