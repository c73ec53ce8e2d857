//! What is asked of the registry, and how it is asked through libpq.

use std::ffi::{CStr, CString};
use std::time::{Duration, Instant};

use serde::Serialize;
use uuid::Uuid;

use super::answer::{Answer, COLUMNS};
use crate::background::connection::{self, KeepWaiting, NoAnswer};
use crate::pg::clock;
use crate::pg::encoding::in_ascii;
use crate::pg::libpq::Connection;

/// How long a connection is kept that is not used. Ranges are fetched every quarter of an hour, so that a connection
/// would stand there for nothing; but the first ones follow each other quickly.
const KEPT: Duration = Duration::from_secs(5);

/// What a server asks.
pub struct Question<'a> {
    /// The registry that it knows.
    pub registry_id: Option<Uuid>,
    pub requests: &'a [Request],
    pub node_name: String,
}

/// What it asks about one segment.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Request {
    pub name: String,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub had: Option<HadUntil>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub lasted: Option<Lasted>,
    /// Whether a range of the next period is wanted.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub next: bool,
    /// Nothing is wanted: this only tells, and asks for evidence.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub report: bool,
    /// What the registry has signed. Not before it is known whom that is shown.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tokens: Vec<String>,
    /// Whether the range may be one of a period that has not begun: it is held back until then.
    #[serde(skip)]
    pub may_be_early: bool,
}

/// Up to where it has had numbers, and of whom; `None` if that is not known.
#[derive(Clone, Debug, Serialize)]
pub struct HadUntil {
    pub had_until: i64,
    pub registry_id: Option<Uuid>,
}

/// How many seconds the last range has lasted, or would have, and how many numbers it had.
#[derive(Clone, Debug, Serialize)]
pub struct Lasted {
    pub lasted: f64,
    pub count: u64,
}

impl Question<'_> {
    /// The same with a name of the server that every database can write.
    pub fn in_ascii(self) -> Self {
        Question { node_name: in_ascii(&self.node_name), ..self }
    }

    /// How many rows of the function are of use: those that answer the requests come first, or else one says who answers. The
    /// rest names all other segments.
    pub fn most_rows(&self) -> usize {
        self.requests.len().max(1)
    }

    /// The requests as JSON in ASCII, which every database understands, whatever its encoding.
    pub fn requests(&self) -> Result<String, String> {
        let json = serde_json::to_string(self.requests).map_err(|problem| problem.to_string())?;
        let mut ascii = String::with_capacity(json.len());
        for character in json.chars() {
            if character.is_ascii() {
                ascii.push(character);
            } else {
                let units = character
                    .encode_utf16(&mut [0; 2])
                    .iter()
                    .map(|unit| format!("\\u{unit:04x}"))
                    .collect::<String>();
                ascii.push_str(&units);
            }
        }
        Ok(ascii)
    }
}

/// An answer, and when it was given: in microseconds since boot.
pub struct Answered {
    pub answer: Answer,
    pub since_boot_us: i64,
}

/// A connection that may be used again.
#[derive(Default)]
pub struct RegistryConnection(Option<(Connection, Instant)>);

impl RegistryConnection {
    /// Asks through a connection, a new one if need be.
    pub fn ask(
        &mut self,
        string: &CStr,
        question: &Question,
        keep_waiting: KeepWaiting,
    ) -> Result<Answered, NoAnswer> {
        if let Some((mut connection, _)) = self.0.take_if(|(_, used)| used.elapsed() < KEPT) {
            match ask(&mut connection, question, keep_waiting) {
                Ok(answered) => {
                    self.0 = Some((connection, Instant::now()));
                    return Ok(answered);
                }
                // The registry may have been restarted since. What it may have given is lost.
                Err(NoAnswer::Failed(_) | NoAnswer::Refused(_) | NoAnswer::Denied(_)) => {}
                Err(end) => return Err(end),
            }
        }
        let mut connection = connection::connect(string, keep_waiting)?;
        let answered = ask(&mut connection, question, keep_waiting);
        if let Ok(_) | Err(NoAnswer::Refused(_) | NoAnswer::Denied(_)) = answered {
            self.0 = Some((connection, Instant::now()));
        }
        answered
    }

    /// Hangs up, if nobody has asked for a while.
    pub fn rest(&mut self) {
        self.0.take_if(|(_, used)| used.elapsed() >= KEPT);
    }

    pub fn is_open(&self) -> bool {
        self.0.is_some()
    }
}

fn ask(
    connection: &mut Connection,
    question: &Question,
    keep_waiting: KeepWaiting,
) -> Result<Answered, NoAnswer> {
    let columns = COLUMNS.join(", ");
    // It also names all other segments, of which there may be more than an answer has room for.
    let rest = if question.requests.is_empty() { "LIMIT 1" } else { "WHERE outcome <> 'known'" };
    let query =
        format!("SELECT {columns} FROM snowflake_registry.take($1::uuid, $2::jsonb, $3::text) {rest}");
    // No NUL is in any of these.
    let text = |text: String| CString::new(text).ok();
    let parameters = [
        question.registry_id.and_then(|id| text(id.to_string())),
        text(question.requests()?),
        text(question.node_name.clone()),
    ];
    let sent_us = clock::since_boot_us();
    let rows = connection::ask_for_rows(
        connection,
        &CString::new(query).unwrap_or_default(),
        &parameters,
        keep_waiting,
    )?;
    let received_us = clock::since_boot_us();
    Ok(Answered { answer: Answer::read(&rows)?, since_boot_us: sent_us.midpoint(received_us) })
}
