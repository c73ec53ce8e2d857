//! The call with which servers and programs take numbers from segments.

use std::time::Duration;

use serde::Serialize;
use serde_json::json;
use uuid::Uuid;

use crate::had::{End, Had};
use crate::lease_call::Call;
use crate::protocol::Protocol;

/// The function of a registry that serves other servers.
pub const TAKE: &str = "take";
/// The function of a registry that only its own server calls.
pub const TAKE_LOCAL: &str = "take_local";

/// A request for one segment.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Request {
    /// The name of the segment.
    pub name: String,
    /// The numbers that the caller was granted, if any.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub had: Option<HadUntil>,
    /// The use of the last range, if known.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub lasted: Option<Lasted>,
    /// Whether the request is for a range of the next period.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub next: bool,
    /// Whether the request is only a report. A report requests a token but no range.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub report: bool,
    /// Whether the caller accepts a range of a period that has not started. The caller holds back such a range until
    /// the period starts.
    #[serde(skip)]
    pub may_be_early: bool,
}

/// The high-water mark of the caller in a segment, and the registry that granted the numbers, if known.
#[derive(Clone, Debug, Serialize)]
pub struct HadUntil {
    /// The highest number.
    pub had_until: i64,
    /// The ID of the registry.
    pub registry_id: Option<Uuid>,
}

impl From<&End> for HadUntil {
    fn from(end: &End) -> HadUntil {
        HadUntil { had_until: end.until, registry_id: end.registry_id }
    }
}

/// The size of the last range and the time for which its numbers lasted, in seconds. If numbers are left, the time is
/// an estimate based on the current rate.
#[derive(Clone, Debug, Serialize)]
pub struct Lasted {
    /// The time in seconds.
    pub lasted: f64,
    /// The size.
    pub count: u64,
}

impl Lasted {
    /// Returns the time for which a range of `count` numbers would last at a rate of `taken` numbers in `time`.
    pub fn new(count: u64, taken: u64, time: Duration) -> Lasted {
        let lasted = time.as_secs_f64() * count as f64 / taken as f64;
        Lasted { lasted: lasted.min(1e9), count }
    }
}

impl Request {
    /// Returns the reports of the high-water marks of a segment: one for each mark, or a single report without a mark
    /// if there are no marks.
    pub fn reports(name: &str, had: Option<&Had>) -> Vec<Request> {
        let report = |had| Request { name: name.into(), had, report: true, ..Request::default() };
        let reports: Vec<_> =
            had.iter().flat_map(|had| had.ends()).map(|end| report(Some(end.into()))).collect();
        if reports.is_empty() { vec![report(None)] } else { reports }
    }
}

/// Returns the call that takes numbers and reports high-water marks. `registry_id` is the registry that must answer, or
/// `None` if any registry may answer. The call may contain at most
/// [`MOST_REQUESTS`](crate::segment_answer::MOST_REQUESTS) requests, and at most twice as many tokens, which are
/// evidence for the registry.
pub fn take(
    function: &str,
    protocol: Protocol,
    registry_id: Option<Uuid>,
    node_name: &str,
    requests: &[impl Serialize],
    tokens: &[String],
) -> Call {
    let request = json!({
        "protocol": protocol,
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

    /// The last registry knew a newer protocol, but the current registry does not. The same request is sent a second
    /// time, but not a third time.
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
        // The registry no longer knows any protocol of this version.
        assert!(!protocol.note(true, Some(8..=9)));
        assert_eq!(protocol, Protocol::default());
    }

    /// An answer that is not a refusal changes only the next request.
    #[test]
    fn the_next_request() {
        let mut protocol = Protocol(0);
        assert!(!protocol.note(false, Some(0..=1)));
        assert_eq!(protocol, Protocol(1));
    }
}
