//! Texts in messages: instants, and excerpts of the user's text.

use jiff::Timestamp;

/// The mean year of the Gregorian calendar.
const US_PER_YEAR: i64 = 31_556_952_000_000;
/// The longest excerpt of the user's text in a message, in characters.
const SHOWN_CHARS: usize = 60;

/// The year of any instant, given in microseconds of Unix time.
pub(crate) fn year(unix_us: i128) -> i128 {
    1970 + unix_us / i128::from(US_PER_YEAR)
}

/// An instant in RFC 3339 format. After the year 9999, which that format cannot express, only the year.
pub fn instant(unix_us: i64) -> String {
    match Timestamp::from_microsecond(unix_us) {
        Ok(instant) => instant.to_string(),
        Err(_) => format!("the year {}", year(unix_us.into())),
    }
}

/// The start of the user's text, made safe for a message: short, printable, and ASCII, because a message may be
/// shown in any encoding.
///
/// Messages must not contain the user's text in any other form. The text may have a gigabyte, and a failed
/// allocation for a copy aborts the process; in a server, that ends every session.
pub fn shown(text: impl AsRef<[u8]>) -> String {
    let text = text.as_ref();
    // Enough for one character more than is shown, even if each has four bytes, the most in UTF-8.
    let start = &text[..text.len().min(4 * (SHOWN_CHARS + 1))];
    let text = String::from_utf8_lossy(start);
    let mut shown = String::new();
    for character in text.chars().take(SHOWN_CHARS) {
        match character {
            '\'' => shown.push(character), // Messages quote excerpts with double quotes.
            _ => shown.extend(character.escape_default()),
        }
    }
    if text.chars().nth(SHOWN_CHARS).is_some() {
        shown.push_str("...");
    }
    shown
}

/// The candidate of which the token is most likely a misspelling.
pub(crate) fn nearest(token: &str, candidates: &[&'static str]) -> Option<&'static str> {
    let token = token.to_ascii_lowercase();
    let distance = |name: &&str| strsim::osa_distance(&token, name);
    candidates.iter().copied().min_by_key(distance).filter(|name| distance(name) <= name.len() / 2)
}
