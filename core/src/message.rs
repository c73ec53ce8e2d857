//! The wording of messages: instants, and what is shown of the user's text.

use jiff::Timestamp;

/// The mean year of the Gregorian calendar.
const US_PER_YEAR: i64 = 31_556_952_000_000;
/// The longest piece of the user's text that goes into a message.
const SHOWN_CHARS: usize = 60;

/// The year of an instant (microseconds of Unix time), however far away.
pub(crate) fn year(unix_us: i128) -> i128 {
    1970 + unix_us / i128::from(US_PER_YEAR)
}

/// An instant in RFC 3339; past the year 9999, which that cannot write, the year.
pub fn instant(unix_us: i64) -> String {
    match Timestamp::from_microsecond(unix_us) {
        Ok(instant) => instant.to_string(),
        Err(_) => format!("the year {}", year(unix_us.into())),
    }
}

/// The start of the user's text, fit for a message: not too long, printable, and ASCII, as a message may have
/// to be shown in any encoding.
///
/// Messages never have such a text in another form. It may take a gigabyte, and a copy for which there is no
/// memory ends the process: in a server, every session.
pub fn shown(text: impl AsRef<[u8]>) -> String {
    let text = text.as_ref();
    // One character more than is shown, also if each has the four bytes that UTF-8 takes at most.
    let start = &text[..text.len().min(4 * (SHOWN_CHARS + 1))];
    let text = String::from_utf8_lossy(start);
    let mut shown = String::new();
    for character in text.chars().take(SHOWN_CHARS) {
        match character {
            '\'' => shown.push(character), // Messages put pieces between double quotes.
            _ => shown.extend(character.escape_default()),
        }
    }
    if text.chars().nth(SHOWN_CHARS).is_some() {
        shown.push_str("...");
    }
    shown
}

/// The candidate that the token is most likely a misspelling of: it differs in one slip for each six characters,
/// or is the beginning of no other one.
pub(crate) fn nearest(token: &str, candidates: &[&'static str]) -> Option<&'static str> {
    let token = token.to_ascii_lowercase();
    let distance = |name: &&str| strsim::osa_distance(&token, name);
    let closest = candidates.iter().copied().min_by_key(distance);
    let mut longer = candidates.iter().copied().filter(|name| token.len() >= 3 && name.starts_with(&token));
    closest
        .filter(|name| distance(name) <= (name.len() / 6).max(1))
        .or_else(|| longer.next().filter(|_| longer.next().is_none()))
}
