//! The calls with which servers and programs run the registry's functions for leases.
//!
//! Each function has one argument, a JSON object. The page "Protocol of the registry" in the manual describes
//! this object.

use serde::Serialize;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::lease_answer::Terms;
use crate::lease_state::{Asking, Held, LeaseState, Needs};

/// The facts that a caller reports about itself, for administrators.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Facts {
    /// The name of the server or program.
    pub node_name: String,
    /// The host of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The port of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<i32>,
    /// The layout of the IDs: the name of a preset, or the definition of the layout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layout: Option<String>,
    /// The version of the caller.
    pub version: String,
    /// The worker IDs that are set by hand in the configuration of the server. The registry reads only the
    /// first 8.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub by_hand: Vec<u32>,
}

/// A statement, and its only parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The statement. Its result has one column, which [`Reply::read`](crate::reply::Reply::read) reads.
    pub query: String,
    /// The parameter, which is the request in JSON.
    pub request: String,
}

impl Call {
    /// Creates the call of a function of the registry.
    pub fn new(function: &str, request: &Value) -> Call {
        let query = format!(
            "SELECT pg_catalog.to_json(reply)::text FROM snowflake_registry.{function}($1::jsonb) AS reply"
        );
        Call { query, request: request.to_string() }
    }
}

/// The values that identify a lease in a call. Only the holder of the lease and the registry know these
/// values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ids {
    /// The ID of the lease.
    pub lease_id: Uuid,
    /// The last nonce that the registry is known to have received.
    pub last_nonce: Uuid,
    /// The new nonce.
    pub next_nonce: Uuid,
}

impl From<&Held> for Ids {
    fn from(held: &Held) -> Ids {
        Ids { lease_id: held.lease_id, last_nonce: held.last_nonce, next_nonce: held.next_nonce }
    }
}

impl From<&Asking> for Ids {
    fn from(asking: &Asking) -> Ids {
        Ids { lease_id: asking.lease_id, last_nonce: asking.nonce, next_nonce: asking.nonce }
    }
}

/// The data that all calls of a caller contain.
#[derive(Clone, Copy, Debug)]
pub struct LeaseCalls<'a> {
    /// The leases of the caller, and its evidence.
    pub state: &'a LeaseState,
    /// The terms that the registry has stated so far.
    pub terms: &'a Terms,
    /// The facts about the caller.
    pub facts: &'a Facts,
    /// The clock of the caller, in microseconds of Unix time.
    pub sent_us: i64,
}

impl LeaseCalls<'_> {
    /// Returns the call that requests an identity.
    pub fn acquire(&self, asking: &Asking, needs: &Needs) -> Call {
        let mut request = self.request();
        request["lease_id"] = json!(asking.lease_id);
        request["nonce"] = json!(asking.nonce);
        request["needs"] = json!({
            "datacenter": needs.datacenter,
            "pin": needs.pin,
            "worker_limit": needs.worker_limit.min(1 << 31),
            "unwanted": needs.unwanted,
        });
        Call::new("acquire", &request)
    }

    /// Returns the call that renews a lease.
    pub fn renew(&self, ids: Ids) -> Call {
        Call::new("renew", &self.request_of(ids))
    }

    /// Returns the call that releases a lease that was used until `used_until_us`.
    pub fn release(&self, ids: Ids, used_until_us: i64) -> Call {
        let mut request = self.request_of(ids);
        request["used_until"] = json!(used_until_us);
        Call::new("release", &request)
    }

    fn request_of(&self, ids: Ids) -> Value {
        let mut request = self.request();
        request["lease_id"] = json!(ids.lease_id);
        request["last_nonce"] = json!(ids.last_nonce);
        request["next_nonce"] = json!(ids.next_nonce);
        request
    }

    fn request(&self) -> Value {
        let mut facts = json!(self.facts);
        facts["clock_offset"] = json!(self.terms.clock_offset_us);
        json!({
            "protocol": self.terms.protocol,
            "registry": self.state.registry_id,
            "clock": self.sent_us,
            "round_trip": self.terms.round_trip_us,
            "tokens": self.state.evidence.iter().map(|evidence| &evidence.token).collect::<Vec<_>>(),
            "facts": facts,
        })
    }
}
