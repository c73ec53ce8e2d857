//! The protocol between a registry and its callers, which are servers and programs.
//!
//! Each request contains the number of its protocol, and the registry answers in that protocol. Each answer contains
//! the lowest and the highest protocol of the registry. A registry refuses a request if it does not know the protocol.
//! The request then has no effect, except that its tokens count as evidence.

use std::ops::RangeInclusive;

use serde::Serialize;

/// The protocols of this version, from the lowest to the highest.
pub const PROTOCOLS: RangeInclusive<u32> = 1..=1;

/// The protocol of a caller's next request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Protocol(pub(crate) u32);

/// The default is the lowest protocol of this version, which is used before any answer.
impl Default for Protocol {
    fn default() -> Protocol {
        Protocol(*PROTOCOLS.start())
    }
}

impl Protocol {
    /// Notes the protocols that the registry has stated in an answer. The next request has the highest protocol that
    /// both this version and the registry know. If there is no such protocol, the next request has the lowest protocol
    /// of this version. Returns true if the request must be sent again with this protocol, because the registry has
    /// refused a different protocol. The answer to the second request is final.
    pub fn note(&mut self, is_refused: bool, registry: Option<RangeInclusive<u32>>) -> bool {
        let highest = registry.and_then(|registry| {
            let highest = *registry.end().min(PROTOCOLS.end());
            (registry.contains(&highest) && PROTOCOLS.contains(&highest)).then_some(Protocol(highest))
        });
        let refused = std::mem::replace(self, highest.unwrap_or_default());
        is_refused && *self != refused
    }
}

/// The callers of a registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// A server of the fleet.
    Server,
    /// A program that uses the client library.
    Program,
}

/// The reason why a registry has refused the protocol of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// The protocol is newer than the registry.
    RegistryTooOld,
    /// The registry no longer knows the protocol.
    CallerTooOld,
}

impl Mismatch {
    /// Reads the outcome of an answer. Returns `None` if the registry knows the protocol.
    pub fn read(outcome: &str) -> Option<Mismatch> {
        match outcome {
            "registry too old" => Some(Mismatch::RegistryTooOld),
            "caller too old" => Some(Mismatch::CallerTooOld),
            _ => None,
        }
    }

    /// Returns the name of the state that a server shows.
    pub fn state(self) -> &'static str {
        match self {
            Mismatch::RegistryTooOld => "registry too old",
            Mismatch::CallerTooOld => "server too old",
        }
    }

    /// Returns the reason as part of a message, with the remedy and the details that the registry has sent.
    pub fn explain(self, caller: Caller, detail: Option<&str>) -> String {
        let why = match (self, caller) {
            (Mismatch::RegistryTooOld, Caller::Server) => {
                "the registry is too old for this server: install the newer version there, and run ALTER EXTENSION snowflake_id_registry UPDATE"
            }
            (Mismatch::RegistryTooOld, Caller::Program) => {
                "the registry is too old for this program: install the newer version there, and run ALTER EXTENSION snowflake_id_registry UPDATE"
            }
            (Mismatch::CallerTooOld, Caller::Server) => {
                "this server is too old for the registry: install the newer version of snowflake_id on this server"
            }
            (Mismatch::CallerTooOld, Caller::Program) => {
                "this program is too old for the registry: build it with the newer version of snowflake-id-client"
            }
        };
        detail.map_or(why.into(), |detail| format!("{why} ({detail})"))
    }
}

/// Returns whether a warning of the registry's server may mean that the commit of a call can be lost. The argument is
/// the name of the function of PostgreSQL that has raised the warning, [field `R`] of the message.
///
/// PostgreSQL warns of such a commit if the wait for a standby was interrupted. It also warns that databases must be
/// vacuumed soon, each time it assigns a transaction ID or a multixact ID. These warnings say nothing about the commit,
/// and must not end the leases of the fleet. Any other warning is taken to be about the commit.
///
/// ```
/// use snowflake_id_core::protocol::may_be_about_commit;
///
/// assert!(!may_be_about_commit("GetNewTransactionId") && !may_be_about_commit("GetNewMultiXactId"));
/// assert!(may_be_about_commit("SyncRepWaitForLSN") && may_be_about_commit(""));
/// ```
///
/// [field `R`]: https://www.postgresql.org/docs/current/protocol-error-fields.html
pub fn may_be_about_commit(function: &str) -> bool {
    !matches!(function, "GetNewTransactionId" | "GetNewMultiXactId")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_common_protocol() {
        for (registry, next) in
            [(Some(1..=9), *PROTOCOLS.end()), (Some(8..=9), *PROTOCOLS.start()), (None, *PROTOCOLS.start())]
        {
            let mut protocol = Protocol(0);
            protocol.note(false, registry);
            assert_eq!(protocol, Protocol(next));
        }
    }
}
