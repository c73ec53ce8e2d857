//! The registry's answer to requests for numbers of segments, parsed from rows.

use serde::{Deserialize, Serialize};
use snowflake_id_core::segment::{NEVER_ENDS, Range};
use uuid::Uuid;

use crate::pg::libpq::Row;
use crate::shared::segment_record::SegmentState;

/// The maximum length of a token, in bytes. A token contains the name of its segment in hexadecimal. Longer tokens are
/// ignored.
const LONGEST_TOKEN: usize = 800;
/// The columns of a row, in the order that `Answer::read` expects.
pub const COLUMNS: [&str; 18] = [
    "request",
    "name",
    "outcome",
    "first",
    "increment",
    "count",
    "period_key",
    "period_starts",
    "period_ends",
    "step",
    "max_value",
    "registry_id",
    "registry_clock",
    "detail",
    "token",
    "report_every",
    "near",
    "server_started",
];

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

/// A range that the registry has granted.
#[derive(Clone, Copy, Debug)]
pub struct Granted {
    pub range: Range,
    /// The period in which the range may be used, or `None` if the range may be used at any time.
    pub period: Option<Period>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Period {
    /// The date with which the numbers of the period begin, such as 20261121.
    pub key: i64,
    /// The start of the period, in microseconds of Unix time.
    pub starts_us: i64,
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
        let granted = if text(row, 2) == Some("granted") { Some(Granted::read(row)?) } else { None };
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

impl Granted {
    fn read(row: &Row) -> Option<Granted> {
        let period = match number(row, 6) {
            Some(key) => Some(Period { key, starts_us: instant(row, 7)? }),
            None => None,
        };
        let ends_us = if period.is_some() { instant(row, 8)? } else { NEVER_ENDS };
        let range = Range {
            first: number(row, 3)?,
            increment: number(row, 4)?,
            count: number(row, 5)?.try_into().ok()?,
            ends_us,
        };
        range.last().filter(|_| range.first >= 0 && range.increment > 0)?;
        Some(Granted { range, period })
    }
}

fn text(row: &Row, at: usize) -> Option<&str> {
    row.get(at)?.as_deref()
}

/// Reads a time in microseconds of Unix time. The time must fit in a `timestamptz`.
fn instant(row: &Row, at: usize) -> Option<i64> {
    const YEAR_100000_US: i64 = 3_093_527_980_800_000_000;
    number(row, at).filter(|&us| (0..YEAR_100000_US).contains(&us))
}

fn number(row: &Row, at: usize) -> Option<i64> {
    text(row, at)?.parse().ok()
}
