//! Formatting of times and of excerpts from the user's text in messages, and wording that several messages share.

use std::fmt::Display;

use jiff::Timestamp;

/// The mean length of a year in the Gregorian calendar.
const US_PER_YEAR: i64 = 31_556_952_000_000;
/// The maximum length of an excerpt from the user's text, in characters.
const SHOWN_CHARS: usize = 60;

/// Returns the year of a time in microseconds of Unix time, even if the year is outside the range of
/// timestamps.
pub(crate) fn year(unix_us: i128) -> i128 {
    1970 + unix_us / i128::from(US_PER_YEAR)
}

/// Formats a time in microseconds of Unix time according to RFC 3339. RFC 3339 cannot represent times after
/// the year 9999, for which the function returns only the year.
pub fn instant(unix_us: i64) -> String {
    match Timestamp::from_microsecond(unix_us) {
        Ok(instant) => instant.to_string(),
        Err(_) => format!("the year {}", year(unix_us.into())),
    }
}

/// Returns a text of another server with a space in place of each control character. The text may be shown in
/// logs and on terminals, where a line break or an escape sequence could imitate a message of this server.
///
/// ```
/// use snowflake_id_core::message::without_controls;
///
/// assert_eq!(without_controls("too busy\n\x1b[31mFATAL: a lie"), "too busy  [31mFATAL: a lie");
/// ```
pub fn without_controls(text: &str) -> String {
    text.replace(char::is_control, " ")
}

/// Returns an excerpt from the user's text for messages. The excerpt consists of at most 60 printable ASCII
/// characters, because a message may be shown in any encoding.
///
/// Messages contain the user's text only in this form. The text may be as large as 1 GB. If memory for a copy
/// of the text could not be allocated, the process would abort and all sessions of the server would end.
pub fn shown(text: impl AsRef<[u8]>) -> String {
    let text = text.as_ref();
    // Keep one character more than the excerpt can contain. A character takes at most 4 bytes in UTF-8.
    let start = &text[..text.len().min(4 * (SHOWN_CHARS + 1))];
    let text = String::from_utf8_lossy(start);
    let mut shown = String::new();
    for character in text.chars().take(SHOWN_CHARS) {
        match character {
            '\'' => shown.push(character), // Excerpts are enclosed in double quotes.
            _ => shown.extend(character.escape_default()),
        }
    }
    if text.chars().nth(SHOWN_CHARS).is_some() {
        shown.push_str("...");
    }
    shown
}

/// Returns the candidate that the user probably meant by a token. This is the most similar candidate if it
/// differs by at most one typing error for each six characters, and otherwise the only candidate that starts
/// with the token.
pub(crate) fn nearest(token: &str, candidates: &[&'static str]) -> Option<&'static str> {
    let token = token.to_ascii_lowercase();
    let distance = |name: &&str| strsim::osa_distance(&token, name);
    let closest = candidates.iter().copied().min_by_key(distance);
    let mut longer = candidates.iter().copied().filter(|name| token.len() >= 3 && name.starts_with(&token));
    closest
        .filter(|name| distance(name) <= (name.len() / 6).max(1))
        .or_else(|| longer.next().filter(|_| longer.next().is_none()))
}

/// Returns the problem that stored data has a newer format than this version knows, with the remedy.
pub fn newer_format(what: &str, found: impl Display, known: impl Display) -> String {
    format!(
        "{what} has format {found}, and this version of snowflake_id knows formats up to {known}: install the newer version again"
    )
}
