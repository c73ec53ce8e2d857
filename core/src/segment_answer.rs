//! The parts of number requests that servers and programs share, and [`Answer`], the registry's answer.
//!
//! An answer may come from a server that is not a registry, so every value is checked.

use std::ops::RangeInclusive;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::protocol::Mismatch;
use crate::reply::{NOT_VALID, Reply};
use crate::segment::{NEVER_ENDS, Range};

/// The maximum number of requests in a call. The registry has the same limit.
pub const MOST_REQUESTS: usize = 64;
/// The maximum distance between 1970 and a valid clock of the registry, in microseconds. With this limit, differences
/// between clocks never overflow.
const FARTHEST_CLOCK_US: u64 = 1 << 61;
/// The interval between reports before the registry has specified an interval.
pub const REPORT_EVERY: Duration = Duration::from_secs(60);
const SHORTEST_REPORT_EVERY: Duration = Duration::from_millis(100);
const LONGEST_REPORT_EVERY: Duration = Duration::from_secs(12 * 60 * 60);
/// The maximum length of a token, in bytes. A token contains the name of its segment in hexadecimal. Longer tokens are
/// ignored.
pub const LONGEST_TOKEN: usize = 800;
/// The columns of a row that the functions of this module read.
pub const COLUMNS: [&str; 20] = [
    "lowest_protocol",
    "highest_protocol",
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

/// Returns the interval between reports that the registry has specified in microseconds, within reasonable limits.
pub fn report_every(us: u64) -> Duration {
    Duration::from_micros(us).clamp(SHORTEST_REPORT_EVERY, LONGEST_REPORT_EVERY)
}

/// A range that the registry has granted.
#[derive(Clone, Copy, Debug)]
pub struct Granted {
    /// The numbers.
    pub range: Range,
    /// The period in which the range may be used, or `None` if the range may be used at any time.
    pub period: Option<Period>,
}

/// A period of a segment whose numbers start with a date.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Period {
    /// The date with which the numbers of the period begin, such as 20261121.
    pub key: i64,
    /// The start of the period, in microseconds of Unix time.
    pub starts_us: i64,
}

/// Returns whether a range of this period may be used now. A range without a period may always be used.
pub fn has_begun(period: Option<Period>, now_us: i64) -> bool {
    period.is_none_or(|period| period.starts_us <= now_us)
}

impl Granted {
    /// Reads the range of a row. Returns `None` if the row contains no valid range.
    pub fn read(row: &Reply) -> Option<Granted> {
        // The time must fit in a `timestamptz`.
        const YEAR_100000_US: i64 = 3_093_527_980_800_000_000;
        let instant = |column| row.number(column).filter(|&us| (0..YEAR_100000_US).contains(&us));
        let period = match row.number("period_key") {
            Some(key @ 0..) => Some(Period { key, starts_us: instant("period_starts")? }),
            Some(_) => return None,
            None => None,
        };
        let ends_us = if period.is_some() { instant("period_ends")? } else { NEVER_ENDS };
        let range = Range {
            first: row.number("first")?,
            increment: row.number("increment")?,
            count: row.number("count")?.try_into().ok()?,
            ends_us,
        };
        range.last().filter(|_| range.first >= 0 && range.increment > 0)?;
        Some(Granted { range, period })
    }
}

/// The state of a segment according to the registry's last answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SegmentState {
    /// The registry has not answered yet.
    #[default]
    Asked,
    /// The registry grants numbers.
    Open,
    /// The registry has no segment with this name. Neither the registry nor this server has a record of an earlier
    /// segment with this name.
    Unknown,
    /// The segment was dropped.
    Dropped,
    /// The registry has granted numbers of this segment to this server, but no longer has the segment, because commits
    /// were lost.
    Lost,
    /// The registry may have lost commits.
    Closed,
    /// All numbers were granted.
    Exhausted,
    /// Other transactions held a lock on the segment for too long.
    Busy,
    /// The registry is still in an earlier period than this server.
    Ahead,
    /// The registry's answer or the server's request was invalid.
    Invalid,
    /// The registry limits the server's role to other segments.
    Denied,
}

impl SegmentState {
    /// Returns the name of the state as view `snowflake_segment_status` shows it.
    pub fn name(self) -> &'static str {
        match self {
            SegmentState::Asked => "asked",
            SegmentState::Open => "open",
            SegmentState::Unknown => "unknown",
            SegmentState::Dropped => "dropped",
            SegmentState::Lost => "lost",
            SegmentState::Closed => "closed",
            SegmentState::Exhausted => "exhausted",
            SegmentState::Busy => "busy",
            SegmentState::Ahead => "ahead",
            SegmentState::Invalid => "invalid",
            SegmentState::Denied => "permission denied",
        }
    }
}

/// A parsed answer of the registry.
#[derive(Debug)]
pub struct Answer {
    /// The ID of the registry, or `None` if the registry has not been started yet.
    pub registry_id: Option<Uuid>,
    /// The registry's clock, in microseconds of Unix time.
    pub clock_us: i64,
    /// The interval at which the registry requires reports of the high-water marks, in microseconds.
    pub report_every_us: Option<i64>,
    /// The time at which the registry's server was started, in microseconds of Unix time. A registry can lose data
    /// without detecting the loss only while its server is stopped.
    pub server_started_us: Option<i64>,
    /// True if the answer comes from a different registry. In this case, the answer contains no other data.
    pub is_foreign: bool,
    /// The reason why the registry has refused the protocol of the requests. In this case, only the protocols and the
    /// detail of the answer are used.
    pub mismatch: Option<Mismatch>,
    /// The lowest and the highest protocol of the registry, or `None` if the registry does not state them.
    pub protocols: Option<RangeInclusive<u32>>,
    /// Details of the first row, for administrators.
    pub detail: Option<String>,
    /// The answers to the individual requests, each with the zero-based index of its request.
    pub about: Vec<(usize, About)>,
}

/// The answer to one request.
#[derive(Debug)]
pub struct About {
    /// The state of the segment.
    pub state: SegmentState,
    /// The range that was granted.
    pub granted: Option<Granted>,
    /// The last number that the segment can ever provide, if known.
    pub max_value: Option<i64>,
    /// A signed statement of the numbers that the registry granted before this answer.
    pub token: Option<String>,
    /// Details for administrators.
    pub detail: Option<String>,
    /// The name of the existing segment that the user probably meant.
    pub near: Option<String>,
}

impl Answer {
    /// Parses the rows of an answer.
    ///
    /// # Errors
    /// Returns a message for the log if the rows are not a valid answer.
    pub fn read(rows: &[Reply]) -> Result<Answer, String> {
        let first = rows.first().ok_or(NOT_VALID)?;
        let clock_us = first.number("registry_clock");
        let mut answer = Answer {
            registry_id: first.text("registry_id").and_then(|text| text.parse().ok()),
            clock_us: clock_us
                .filter(|clock_us| clock_us.unsigned_abs() < FARTHEST_CLOCK_US)
                .ok_or(NOT_VALID)?,
            report_every_us: first.number("report_every"),
            server_started_us: first.number("server_started"),
            is_foreign: first.text("outcome") == Some("foreign"),
            mismatch: first.text("outcome").and_then(Mismatch::read),
            protocols: first.protocols(),
            detail: first.text("detail").map(str::to_owned),
            about: vec![],
        };
        if answer.is_foreign || answer.mismatch.is_some() {
            return Ok(answer);
        }
        for row in rows {
            let number = row.number("request").and_then(|number| usize::try_from(number).ok());
            if let Some(at) = number.and_then(|number| number.checked_sub(1)) {
                answer.about.push((at, About::read(row).ok_or(NOT_VALID)?));
            }
        }
        Ok(answer)
    }
}

impl About {
    fn read(row: &Reply) -> Option<About> {
        let state = match row.text("outcome")? {
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
        let granted = match row.text("outcome") {
            Some("granted") => Some(Granted::read(row)?),
            _ => None,
        };
        Some(About {
            state,
            granted,
            max_value: row.number("max_value"),
            token: row.token(LONGEST_TOKEN),
            detail: row.text("detail").map(str::to_owned),
            near: row.text("near").map(str::to_owned),
        })
    }
}
