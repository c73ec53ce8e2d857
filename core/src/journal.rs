//! The lines of a journal, a file to which changes are appended.
//!
//! The first line contains the number of the format, and describes the file. Each further line consists of a checksum
//! and of changes in JSON. The second line is written together with the first line, and contains the changes that lead
//! to the state at that time. Each line after the second contains the changes of one call.
//!
//! A line is durable when the call returns. If the server crashes during the call, the line can be incomplete: its end
//! may be missing, or bytes that were not stored may be read as zeros. An incomplete line is the last line of the file,
//! and has no line break. The line is ignored, because no caller has relied on its changes. A line with a line break
//! was written completely, and its changes may have been used. If the checksum of such a line is invalid, the file is
//! damaged, even if the line is the last one. After a crash, a file system that stored the end of a line before its
//! start can leave the file in the same state. The reader cannot distinguish the two cases, so it treats both as
//! damage.

use std::error::Error;
use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::message::newer_format;

/// The length of a checksum in hexadecimal digits, with the space that follows it.
const CHECKSUM: usize = 9;

/// The start of the first line.
const START: &str = "# format ";

/// The reason why the text is not a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// The first line is not that of a journal.
    Header,
    /// The first line starts like that of a journal, but does not contain a valid format number. Or a line has a valid
    /// checksum, but its changes cannot be read, so another version must have written the line.
    Unknown,
    /// A newer version wrote the text. The format number in the text is higher than the caller's.
    Newer {
        /// The format in the first line.
        found: u64,
        /// The format of the caller.
        known: u64,
    },
    /// The line with this number, counted from 1, is missing, or has an invalid checksum although it was written
    /// completely.
    Line(usize),
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Damage::Header => write!(f, "the first line does not contain a format"),
            Damage::Unknown => write!(
                f,
                "this version of snowflake_id does not know the format of the file: install the version that wrote it, or remove the file"
            ),
            Damage::Newer { found, known } => {
                write!(f, "{}, or remove the file", newer_format("the file", *found, *known))
            }
            Damage::Line(number) => write!(f, "line {number} is damaged"),
        }
    }
}

impl Error for Damage {}

/// Passes all changes in the text to the closure `apply`, in their order. `header` is the first line of the journals
/// that the caller writes, without the line break. The caller can read this format and all lower formats.
///
/// # Panics
/// Panics if `header` contains no format.
///
/// # Errors
/// Returns the first damage. The closure has then received the changes of the lines before the damaged one.
pub fn read<C: DeserializeOwned>(text: &[u8], header: &str, mut apply: impl FnMut(C)) -> Result<(), Damage> {
    let (text, is_complete) = match text.strip_suffix(b"\n") {
        Some(text) => (text, true),
        None => (text, false),
    };
    let lines: Vec<&[u8]> = text.split(|&byte| byte == b'\n').collect();
    let known = format_of(header.as_bytes()).expect("bug: the header contains no format");
    let found = match format_of(lines[0]) {
        Some(found) => found,
        None if lines[0].starts_with(START.as_bytes()) => return Err(Damage::Unknown),
        None => return Err(Damage::Header),
    };
    if found > known {
        return Err(Damage::Newer { found, known });
    }
    if lines.len() == 1 {
        return Err(Damage::Line(2)); // The first two lines are written together.
    }
    for (at, line) in lines.iter().enumerate().skip(1) {
        match json_of(line) {
            Some(json) => serde_json::from_slice::<Vec<C>>(json)
                .map_err(|_| Damage::Unknown)?
                .into_iter()
                .for_each(&mut apply),
            None if at > 1 && at + 1 == lines.len() && !is_complete => {} // Its write was interrupted.
            None => return Err(Damage::Line(at + 1)),
        }
    }
    Ok(())
}

/// Returns the format in a first line such as `# format 1: ...`.
fn format_of(line: &[u8]) -> Option<u64> {
    let rest = str::from_utf8(line).ok()?.strip_prefix(START)?;
    rest.split(':').next()?.parse().ok().filter(|&format| format > 0)
}

/// Returns the text of a new journal. `all` contains the changes that lead to the current state.
///
/// # Errors
/// Fails if the changes cannot be written as JSON.
pub fn start<C: Serialize>(header: &str, all: &[C]) -> serde_json::Result<Vec<u8>> {
    Ok([header.as_bytes(), b"\n", &line(all)?].concat())
}

/// Returns the line that contains these changes, with the line break.
///
/// # Errors
/// Fails if the changes cannot be written as JSON.
pub fn line<C: Serialize>(changes: &[C]) -> serde_json::Result<Vec<u8>> {
    let json = serde_json::to_string(changes)?;
    Ok(format!("{}{json}\n", checksum(json.as_bytes())).into_bytes())
}

/// Returns the part of a line after the checksum, if the checksum is valid.
fn json_of(line: &[u8]) -> Option<&[u8]> {
    let (found, json) = line.split_at_checked(CHECKSUM)?;
    (found == checksum(json).as_bytes()).then_some(json)
}

fn checksum(json: &[u8]) -> String {
    format!("{:08x} ", crc32fast::hash(json))
}
