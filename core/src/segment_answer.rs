//! What servers and programs share of the requests for numbers, and the ranges in the registry's answers.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::segment::{NEVER_ENDS, Range};

/// The maximum number of requests in a call. The registry has the same limit.
pub const MOST_REQUESTS: usize = 64;
/// The interval between reports before the registry has specified an interval.
pub const REPORT_EVERY: Duration = Duration::from_secs(60);
const SHORTEST_REPORT_EVERY: Duration = Duration::from_millis(100);
const LONGEST_REPORT_EVERY: Duration = Duration::from_secs(12 * 60 * 60);
/// The maximum length of a token, in bytes. A token contains the name of its segment in hexadecimal. Longer tokens are
/// ignored.
pub const LONGEST_TOKEN: usize = 800;
/// The columns of a row, in the order that the functions of this module expect.
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

/// Returns the interval between reports that the registry has specified in microseconds, within reasonable limits.
pub fn report_every(us: u64) -> Duration {
    Duration::from_micros(us).clamp(SHORTEST_REPORT_EVERY, LONGEST_REPORT_EVERY)
}

/// Returns a JSON text in ASCII, which a database can read in any encoding.
///
/// ```
/// # use snowflake_id_core::segment_answer::in_ascii;
/// assert_eq!(in_ascii(r#"{"name": "größe 🙂"}"#), r#"{"name": "gr\u00f6\u00dfe \ud83d\ude42"}"#);
/// ```
pub fn in_ascii(json: &str) -> String {
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
    ascii
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

impl Granted {
    /// Reads the range of a row. `text` returns the text of the column with this index, or `None` for NULL.
    /// Returns `None` if the row contains no valid range.
    pub fn read<'a>(text: impl Fn(usize) -> Option<&'a str>) -> Option<Granted> {
        let number = |at: usize| text(at)?.parse::<i64>().ok();
        // The time must fit in a `timestamptz`.
        const YEAR_100000_US: i64 = 3_093_527_980_800_000_000;
        let instant = |at: usize| number(at).filter(|&us| (0..YEAR_100000_US).contains(&us));
        let period = match number(6) {
            Some(key) => Some(Period { key, starts_us: instant(7)? }),
            None => None,
        };
        let ends_us = if period.is_some() { instant(8)? } else { NEVER_ENDS };
        let range =
            Range { first: number(3)?, increment: number(4)?, count: number(5)?.try_into().ok()?, ends_us };
        range.last().filter(|_| range.first >= 0 && range.increment > 0)?;
        Some(Granted { range, period })
    }
}
