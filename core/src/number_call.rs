//! The call with which servers and programs take numbers of segments.

use serde::Serialize;
use serde_json::json;
use uuid::Uuid;

use crate::lease_call::Call;
use crate::protocol::PROTOCOLS;

/// The function of a registry that serves other servers.
pub const TAKE: &str = "take";
/// The function of a registry that only its own server calls.
pub const TAKE_LOCAL: &str = "take_local";

/// Takes numbers, and reports numbers, in the lowest protocol of this version. `registry_id` is the registry that must
/// answer, or `None` if any registry may answer. `requests` are serialized as elements of the request, at most
/// [`MOST_REQUESTS`](crate::segment_answer::MOST_REQUESTS), and `tokens` is evidence for the registry, at most twice as
/// many.
pub fn take(
    function: &str,
    registry_id: Option<Uuid>,
    node_name: &str,
    requests: &[impl Serialize],
    tokens: &[String],
) -> Call {
    let request = json!({
        "protocol": PROTOCOLS.start(),
        "registry": registry_id,
        "requests": requests,
        "tokens": tokens,
        "facts": {"node_name": node_name},
    });
    Call::new(function, &request)
}
