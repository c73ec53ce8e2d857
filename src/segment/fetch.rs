//! Creates requests to the registry, and sends them through libpq.

use std::ffi::CStr;
use std::time::{Duration, Instant};

use serde::Serialize;
use snowflake_id_core::lease_call::Call;
use snowflake_id_core::number_call::{self, Protocol, TAKE};
use snowflake_id_core::segment_answer::Answer;
use uuid::Uuid;

use crate::background::connection::{self, KeepWaiting, NoAnswer};
use crate::pg::clock;
use crate::pg::encoding::in_ascii;
use crate::pg::libpq::Connection;

/// Idle time after which a connection is closed. Ranges are usually fetched every quarter of an hour, which is too
/// rarely to keep a connection open. Only the first ranges are fetched in quick succession.
const KEPT: Duration = Duration::from_secs(5);

/// One call of the registry's function.
pub struct Question<'a> {
    pub protocol: Protocol,
    /// The registry that must answer, or `None` if any registry may answer.
    pub registry_id: Option<Uuid>,
    pub requests: &'a [&'a Request],
    /// Tokens that the registry has signed.
    pub tokens: &'a [String],
    pub node_name: String,
}

/// A request for one segment.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Request {
    pub name: String,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub had: Option<HadUntil>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub lasted: Option<Lasted>,
    /// Whether the request is for a range of the next period.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub next: bool,
    /// Whether the request is only a report. A report requests a token but no range.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub report: bool,
    /// Whether the server accepts a range of a period that has not started. The worker holds such a range back until
    /// its period starts.
    #[serde(skip)]
    pub may_be_early: bool,
}

/// The high-water mark of this server in a segment, and the registry that granted the numbers. The field
/// `registry_id` is `None` if the registry is unknown.
#[derive(Clone, Debug, Serialize)]
pub struct HadUntil {
    pub had_until: i64,
    pub registry_id: Option<Uuid>,
}

/// The size of the last range and the time for which its numbers lasted, in seconds. If numbers are left, the time is
/// an estimate based on the current rate.
#[derive(Clone, Debug, Serialize)]
pub struct Lasted {
    pub lasted: f64,
    pub count: u64,
}

impl Question<'_> {
    /// Converts the node name to ASCII, which the registry's database can represent in any encoding. Names of segments must
    /// not be changed.
    pub fn in_ascii(self) -> Self {
        Question { node_name: in_ascii(&self.node_name), ..self }
    }

    /// Returns the number of rows in the result of the function: one row for each request, or a single row with the ID
    /// of the registry if the list of requests is empty. Further rows are not read.
    pub fn most_rows(&self) -> usize {
        self.requests.len().max(1)
    }

    /// Returns the call of a function of the registry.
    pub fn call(&self, function: &str) -> Call {
        number_call::take(
            function,
            self.protocol,
            self.registry_id,
            &self.node_name,
            self.requests,
            self.tokens,
        )
    }
}

/// An answer with the time since boot at which the registry gave the answer, in microseconds.
pub struct Answered {
    pub answer: Answer,
    pub since_boot_us: i64,
}

/// A connection to the registry that stays open between requests.
#[derive(Default)]
pub struct RegistryConnection {
    open: Option<(Connection, Instant)>,
}

impl RegistryConnection {
    /// Sends a request to the registry and returns the answer. If no usable connection is open, the function connects
    /// first.
    pub fn ask(
        &mut self,
        string: &CStr,
        question: &Question,
        keep_waiting: KeepWaiting,
    ) -> Result<Answered, NoAnswer> {
        if let Some((mut connection, _)) = self.open.take_if(|(_, used)| used.elapsed() < KEPT) {
            match ask(&mut connection, question, keep_waiting) {
                Ok(answered) => {
                    self.open = Some((connection, Instant::now()));
                    return Ok(answered);
                }
                // The old connection may have failed because the registry was restarted. If the registry granted a
                // range for the failed request, the numbers of that range are lost.
                Err(
                    NoAnswer::Failed(_)
                    | NoAnswer::Rejected { .. }
                    | NoAnswer::Refused(_)
                    | NoAnswer::Denied(_),
                ) => {}
                Err(end) => return Err(end),
            }
        }
        let mut connection = connection::connect(string, keep_waiting)?;
        let answered = ask(&mut connection, question, keep_waiting);
        if let Ok(_) | Err(NoAnswer::Refused(_) | NoAnswer::Denied(_)) = answered {
            self.open = Some((connection, Instant::now()));
        }
        answered
    }

    /// Closes the connection if it has been idle for too long.
    pub fn rest(&mut self) {
        self.open.take_if(|(_, used)| used.elapsed() >= KEPT);
    }

    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }
}

fn ask(
    connection: &mut Connection,
    question: &Question,
    keep_waiting: KeepWaiting,
) -> Result<Answered, NoAnswer> {
    let sent_us = clock::since_boot_us();
    let rows = connection::ask_for_rows(connection, &question.call(TAKE), keep_waiting)?;
    let received_us = clock::since_boot_us();
    Ok(Answered { answer: Answer::read(&rows)?, since_boot_us: sent_us.midpoint(received_us) })
}
