//! The call with which servers and programs take numbers of segments.

use std::ops::RangeInclusive;

use serde::Serialize;
use serde_json::json;
use uuid::Uuid;

use crate::lease_call::Call;
use crate::protocol::next_protocol;

/// The function of a registry that serves other servers.
pub const TAKE: &str = "take";
/// The function of a registry that only its own server calls.
pub const TAKE_LOCAL: &str = "take_local";

/// The protocol of a caller's requests for numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protocol(u32);

impl Default for Protocol {
    fn default() -> Protocol {
        Protocol(next_protocol(None))
    }
}

impl Protocol {
    /// Notes the protocols of the registry that an answer contains. Returns whether the request has to be sent once more,
    /// because the registry has refused its protocol and knows another one. The answer to the second request is final.
    pub fn note(&mut self, is_refused: bool, registry: Option<RangeInclusive<u32>>) -> bool {
        let refused = std::mem::replace(self, Protocol(next_protocol(registry)));
        is_refused && *self != refused
    }
}

/// Takes numbers, and reports numbers. `registry_id` is the registry that must answer, or `None` if any registry may
/// answer. `requests` are serialized as elements of the request, at most
/// [`MOST_REQUESTS`](crate::segment_answer::MOST_REQUESTS), and `tokens` is evidence for the registry, at most twice as
/// many.
pub fn take(
    function: &str,
    protocol: Protocol,
    registry_id: Option<Uuid>,
    node_name: &str,
    requests: &[impl Serialize],
    tokens: &[String],
) -> Call {
    let request = json!({
        "protocol": protocol.0,
        "registry": registry_id,
        "requests": requests,
        "tokens": tokens,
        "facts": {"node_name": node_name},
    });
    Call::new(function, &request)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(protocol: Protocol) -> String {
        take(TAKE, protocol, None, "node", &[json!({"name": "orders"})], &[]).request
    }

    /// The last registry knew a newer protocol, and this one does not. The same request is sent once more, and not a third
    /// time.
    #[test]
    fn the_registry_becomes_older() {
        let mut protocol = Protocol(2);
        assert!(request(protocol).contains("\"protocol\":2"));
        assert!(protocol.note(true, Some(1..=1)));
        assert!(request(protocol).contains("\"protocol\":1"));
        assert!(!protocol.note(true, Some(1..=1)));
    }

    /// The registry no longer knows the protocol of the request.
    #[test]
    fn the_registry_becomes_newer() {
        let mut protocol = Protocol(0);
        assert!(protocol.note(true, Some(1..=9)));
        assert_eq!(protocol, Protocol(1));
        // It no longer knows any protocol of this version.
        assert!(!protocol.note(true, Some(8..=9)));
        assert_eq!(protocol, Protocol::default());
    }

    /// An answer that is no refusal changes only the next request.
    #[test]
    fn the_next_request() {
        let mut protocol = Protocol(0);
        assert!(!protocol.note(false, Some(0..=1)));
        assert_eq!(protocol, Protocol(1));
    }
}
