//! The dialogue with the registry. This module sends queries to the registry and checks the answers.

use std::time::{Duration, Instant};

use snowflake_id_core::lease_answer::{Answer, Terms};
use snowflake_id_core::lease_call::{Call, Facts, LeaseCalls};
use snowflake_id_core::lease_state::{Asking, Held, LeaseState, Needs};

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
        self.ask(connection, state, |calls| calls.renew(held.into()), keep_waiting)
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
        self.ask(connection, state, |calls| calls.acquire(asking, needs), keep_waiting)
    }

    /// Sends a call with the facts about this server. If the encoding of the registry's database cannot
    /// represent the facts, the call is sent again with the facts in ASCII. The grant of a worker ID must
    /// not depend on the characters in the facts.
    fn ask(
        &mut self,
        connection: &mut Connection,
        state: &LeaseState,
        call: impl Fn(&LeaseCalls) -> Call,
        keep_waiting: KeepWaiting,
    ) -> Result<Answer, NoAnswer> {
        let mut facts = facts();
        let is_ascii = facts.node_name.is_ascii() && facts.host.as_deref().is_none_or(str::is_ascii);
        if is_ascii || self.tells_facts_as_they_are {
            match self.ask_once(connection, state, &facts, &call, keep_waiting) {
                Err(NoAnswer::Refused(_)) if !is_ascii => {}
                answered => return answered,
            }
        }
        facts.node_name = in_ascii(&facts.node_name);
        facts.host = facts.host.as_deref().map(in_ascii);
        let answered = self.ask_once(connection, state, &facts, &call, keep_waiting);
        self.tells_facts_as_they_are = answered.is_err();
        answered
    }

    /// Sends a call once. Records the registry's settings and clock, which are part of every answer.
    fn ask_once(
        &mut self,
        connection: &mut Connection,
        state: &LeaseState,
        facts: &Facts,
        call: impl Fn(&LeaseCalls) -> Call,
        keep_waiting: KeepWaiting,
    ) -> Result<Answer, NoAnswer> {
        let (sent_us, since_boot_us) = clock::clocks_us();
        let sent = Instant::now();
        self.compared_clock_us = sent_us - since_boot_us;
        let call = call(&LeaseCalls { state, terms: &self.terms, facts, sent_us });
        let reply = connection::ask(connection, &call, keep_waiting)?;
        let answer = Answer::read(&reply, clock::clock_us())?;
        self.terms.note(&answer, sent_us, sent.elapsed().as_micros() as i64);
        Ok(answer)
    }
}

/// What this server tells about itself.
fn facts() -> Facts {
    Facts {
        node_name: config::node_name(),
        host: Some(server::host()),
        port: Some(server::port()),
        layout: config::valid_layout().map(|layout| layout.label()),
        version: config::VERSION.to_owned(),
    }
}
