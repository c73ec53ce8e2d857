//! Random inputs, for tests that look for internal errors and crashes.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use postgres::{Client, SimpleQueryMessage, SimpleQueryRow};
use serde_json::Value;

use crate::load::Random;
use crate::{Cluster, text};

/// Numbers at which something ends.
const NUMBERS: [i64; 18] = [
    0,
    1,
    -1,
    63,
    64,
    65,
    1023,
    1024,
    65_536,
    i32::MAX as i64,
    i32::MAX as i64 + 1,
    i32::MIN as i64,
    1_000_000_000,
    1 << 53,
    // The last timestamp, in microseconds of Unix time.
    9_223_371_331_200_000_000,
    i64::MAX - 1,
    i64::MAX,
    i64::MIN,
];

/// Words that parsers know, and characters that are special somewhere.
const WORDS: [&str; 40] = [
    "",
    " ",
    "-",
    "_",
    ".",
    ":",
    ",",
    "'",
    "\"",
    "\\",
    "\\u0000",
    "{}",
    "[]",
    "%s",
    "%",
    "$1",
    "--",
    "\n",
    "\r\n",
    "\t",
    "\u{1b}[31m",
    "\u{7f}",
    "\u{fffd}",
    "é",
    "🙂",
    "NaN",
    "infinity",
    "-1",
    "0",
    "1e400",
    "null",
    "true",
    "orders",
    "twitter",
    "time:41 worker:10",
    "sequence:12",
    "unit=1ms",
    "epoch=2024-01-01T00:00:00Z",
    "segment:6f7264657273:",
    "lease:0:1:",
];

/// The rounds of a test, until its time is over. The time is 2 s, unless `SNOWFLAKE_ID_FUZZ_SECONDS` sets it.
pub struct Rounds {
    pub random: Random,
    end: Instant,
    count: u64,
    /// How often each SQLSTATE came. Success is an empty text.
    states: BTreeMap<String, u64>,
}

impl Rounds {
    pub fn new() -> Rounds {
        let seconds =
            std::env::var("SNOWFLAKE_ID_FUZZ_SECONDS").map_or(2, |seconds| seconds.parse().unwrap());
        let end = Instant::now() + Duration::from_secs(seconds);
        Rounds { random: Random::seeded(), end, count: 0, states: BTreeMap::new() }
    }

    /// Returns whether another round begins.
    pub fn go_on(&mut self) -> bool {
        let is_over = self.count > 0 && Instant::now() >= self.end;
        self.count += u64::from(!is_over);
        !is_over
    }

    /// Runs a query, and returns its rows. The query may fail with one of these SQLSTATEs, or classes of SQLSTATEs.
    #[track_caller]
    pub fn query(&mut self, client: &mut Client, query: &str, may_fail: &[&str]) -> Vec<SimpleQueryRow> {
        let (state, rows) = match client.simple_query(query) {
            Ok(messages) => (String::new(), messages),
            Err(error) => {
                let state =
                    error.code().unwrap_or_else(|| panic!("{query} ended the session: {}", text(&error)));
                let state = state.code().to_owned();
                let is_expected = may_fail.iter().any(|start| state.starts_with(start));
                assert!(is_expected, "{query}: {state}: {}", text(&error));
                (state, vec![])
            }
        };
        *self.states.entry(state).or_default() += 1;
        let rows = rows.into_iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        rows.collect()
    }

    /// Prints what was run, and checks that the log of a server shows neither crashes nor internal errors.
    #[track_caller]
    pub fn finish(self, servers: &[&Cluster]) {
        println!("{} rounds; by SQLSTATE: {:?}", self.count, self.states);
        for server in servers {
            let log = server.log();
            for sign in ["XX000", "panicked", "was terminated by signal", "attempt to ", "out of memory"] {
                assert!(!log.contains(sign), "{sign}: {log}");
            }
        }
    }
}

impl Default for Rounds {
    fn default() -> Rounds {
        Rounds::new()
    }
}

impl Random {
    /// Whether something happens that happens once in so many times.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// One of these values.
    pub fn one_of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len() as u64) as usize]
    }

    /// A number, often one at which something ends.
    pub fn number(&mut self) -> i64 {
        match self.below(4) {
            0 => self.below(100) as i64,
            1 => self.below(u64::MAX) as i64,
            _ => *self.one_of(&NUMBERS),
        }
    }

    /// A text without NUL.
    pub fn text(&mut self) -> String {
        if self.once_in(50) {
            return self.one_of(&WORDS).repeat(1_000);
        }
        (0..self.below(5)).map(|_| *self.one_of(&WORDS)).collect()
    }

    /// Changes a text in a few places. The result contains no NUL.
    pub fn change(&mut self, text: &str) -> String {
        let mut characters: Vec<char> = text.chars().collect();
        for _ in 0..=self.below(3) {
            let at = self.below(characters.len() as u64 + 1) as usize;
            let end = (at + self.below(4) as usize).min(characters.len());
            let new = match self.below(5) {
                0 => String::new(),
                1 => self.number().to_string(),
                2 => self.one_of(&WORDS).to_string(),
                3 => char::from_u32(1 + self.below(300) as u32).into_iter().collect(),
                _ => characters[at..end].iter().collect::<String>().repeat(2),
            };
            characters.splice(at..end, new.chars());
        }
        characters.into_iter().collect()
    }

    /// Changes JSON in a few places, and returns it as text. It stays valid JSON.
    pub fn change_json(&mut self, value: &Value) -> String {
        let mut value = value.clone();
        for _ in 0..=self.below(3) {
            self.change_value(&mut value);
        }
        // Numbers that no type of Rust has are marked in strings: see `scalar()`.
        value.to_string().replace("\"#", "").replace("#\"", "")
    }

    fn change_value(&mut self, value: &mut Value) {
        match value {
            Value::Array(all) if !all.is_empty() && !self.once_in(5) => match self.below(6) {
                0 => drop(all.pop()),
                1 => all.push(all[0].clone()),
                _ => {
                    let at = self.below(all.len() as u64) as usize;
                    self.change_value(&mut all[at]);
                }
            },
            Value::Object(all) if !all.is_empty() && !self.once_in(5) => {
                let key = all.keys().nth(self.below(all.len() as u64) as usize).cloned().unwrap_or_default();
                match self.below(6) {
                    0 => drop(all.remove(&key)),
                    1 => drop(all.insert(self.text(), self.scalar())),
                    _ => self.change_value(&mut all[&key]),
                }
            }
            Value::String(text) if !self.once_in(3) => *text = self.change(text),
            _ => {
                *value = match self.below(8) {
                    0 => Value::Array(vec![value.clone(); self.below(70) as usize]),
                    1 => [(self.text(), value.clone())].into_iter().collect(),
                    _ => self.scalar(),
                }
            }
        }
    }

    fn scalar(&mut self) -> Value {
        match self.below(6) {
            0 => Value::Null,
            1 => self.once_in(2).into(),
            2 => self
                .one_of(&["#1e131071#", "#-1e-16000#", "#0.5#", "#18446744073709551616#", "#1e18#"])
                .to_string()
                .into(),
            3 => self.number().into(),
            _ => self.text().into(),
        }
    }
}

/// A text as a literal of SQL.
pub fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\0', "").replace('\'', "''"))
}
