//! The registry's answer to requests for numbers of segments, parsed from rows.

use snowflake_id_core::segment_answer::LONGEST_TOKEN;
pub use snowflake_id_core::segment_answer::{COLUMNS, Granted, Period};
use uuid::Uuid;

use crate::pg::libpq::Row;
use crate::shared::segment_record::SegmentState;

/// A parsed answer of the registry.
pub struct Answer {
    pub registry_id: Option<Uuid>,
    /// The registry's clock, in microseconds of Unix time.
    pub clock_us: i64,
    /// The interval at which the registry requires reports of the high-water marks, in microseconds.
    pub report_every_us: Option<i64>,
    /// The time at which the registry's server was started, in microseconds of Unix time. A registry can lose data
    /// unnoticed only while its server is stopped.
    pub server_started_us: Option<i64>,
    /// True if the answer comes from a different registry. In this case, the answer contains no other data.
    pub is_foreign: bool,
    /// The answers to the individual requests, each with the zero-based index of its request.
    pub about: Vec<(usize, About)>,
}

/// The answer to one request.
pub struct About {
    pub state: SegmentState,
    pub granted: Option<Granted>,
    pub max_value: Option<i64>,
    /// A signed statement of the numbers that the registry granted before this answer.
    pub token: Option<String>,
    pub detail: Option<String>,
    /// The name of the existing segment that the user probably meant.
    pub near: Option<String>,
}

impl Answer {
    /// Parses the rows of an answer.
    ///
    /// # Errors
    /// Returns a text for the log if the rows are not a valid answer.
    pub fn read(rows: &[Row]) -> Result<Answer, String> {
        let not_understood =
            || "the registry's reply is not valid: the registry may have a newer version".to_owned();
        let first = rows.first().ok_or_else(not_understood)?;
        let mut answer = Answer {
            registry_id: text(first, 11).and_then(|text| text.parse().ok()),
            clock_us: number(first, 12).ok_or_else(not_understood)?,
            report_every_us: number(first, 15),
            server_started_us: number(first, 17),
            is_foreign: text(first, 2) == Some("foreign"),
            about: vec![],
        };
        for row in rows {
            if let Some(at) = number(row, 0).and_then(|at| usize::try_from(at).ok()?.checked_sub(1)) {
                answer.about.push((at, About::read(row).ok_or_else(not_understood)?));
            }
        }
        Ok(answer)
    }
}

impl About {
    fn read(row: &Row) -> Option<About> {
        let state = match text(row, 2)? {
            "granted" | "noted" => SegmentState::Open,
            "unknown" => SegmentState::Unknown,
            "dropped" => SegmentState::Dropped,
            "lost" => SegmentState::Lost,
            "closed" => SegmentState::Closed,
            "exhausted" => SegmentState::Exhausted,
            "busy" => SegmentState::Busy,
            "ahead" => SegmentState::Ahead,
            "invalid" => SegmentState::Invalid,
            "denied" => SegmentState::Denied,
            _ => return None,
        };
        let granted = if text(row, 2) == Some("granted") {
            Some(Granted::read(|at| self::text(row, at))?)
        } else {
            None
        };
        let token = text(row, 14).filter(|token| token.len() <= LONGEST_TOKEN).map(str::to_owned);
        Some(About {
            state,
            granted,
            max_value: number(row, 10),
            token,
            detail: text(row, 13).map(str::to_owned),
            near: text(row, 16).map(str::to_owned),
        })
    }
}

fn text(row: &Row, at: usize) -> Option<&str> {
    row.get(at)?.as_deref()
}

fn number(row: &Row, at: usize) -> Option<i64> {
    text(row, at)?.parse().ok()
}
