//! [`Metrics`]: what the service has done, in the text format of Prometheus.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};

use hyper::StatusCode;

use crate::paths::Path;

/// Counts since the start of the service.
#[derive(Default)]
pub struct Metrics {
    requests: Mutex<BTreeMap<(Path, StatusCode), u64>>,
    numbers: Mutex<BTreeMap<String, u64>>,
}

impl Metrics {
    /// Counts a request to one of the paths.
    pub fn count_request(&self, path: Path, status: StatusCode) {
        *self.requests.lock().unwrap_or_else(PoisonError::into_inner).entry((path, status)).or_default() += 1;
    }

    /// Counts numbers of a segment, or IDs, that a client gets.
    pub fn count_numbers(&self, kind: &str, name: &str, count: u64) {
        let mut numbers = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        let label = format!("kind=\"{kind}\",name=\"{}\"", escaped(name));
        *numbers.entry(label).or_default() += count;
    }

    /// All metrics. `has_lease` is `None` if the service gives out no IDs.
    pub fn text(&self, has_lease: Option<bool>) -> String {
        let mut text = String::from(
            "# HELP snowflake_numbers_requests_total Requests, by path and status.\n\
             # TYPE snowflake_numbers_requests_total counter\n",
        );
        for ((path, status), count) in &*self.requests.lock().unwrap_or_else(PoisonError::into_inner) {
            let (path, status) = (path.text(), status.as_u16());
            let _ = writeln!(
                text,
                "snowflake_numbers_requests_total{{path=\"{path}\",status=\"{status}\"}} {count}"
            );
        }
        text += "# HELP snowflake_numbers_issued_total Numbers of segments and IDs that clients got, by name.\n\
                 # TYPE snowflake_numbers_issued_total counter\n";
        for (label, count) in &*self.numbers.lock().unwrap_or_else(PoisonError::into_inner) {
            let _ = writeln!(text, "snowflake_numbers_issued_total{{{label}}} {count}");
        }
        if let Some(has_lease) = has_lease {
            text += "# HELP snowflake_numbers_has_lease 1 if the service has a worker ID, and 0 otherwise.\n\
                     # TYPE snowflake_numbers_has_lease gauge\n";
            let _ = writeln!(text, "snowflake_numbers_has_lease {}", u8::from(has_lease));
        }
        text
    }
}

fn escaped(name: &str) -> String {
    name.replace('\\', "\\\\").replace('"', "\\\"")
}
