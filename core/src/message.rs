//! Formatting of times and of excerpts from the user's text in messages, and wording that several messages share.

use std::fmt::Display;

use jiff::Timestamp;

/// The mean length of a year in the Gregorian calendar.
const US_PER_YEAR: i64 = 31_556_952_000_000;
/// The maximum length of an excerpt from the user's text, in characters.
const SHOWN_CHARS: usize = 60;
/// The SQLSTATE of a wrong password.
const INVALID_PASSWORD: &str = "28P01";

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

/// Returns a string from another server with a space in place of each control character. The result may be
/// shown in logs and on terminals, where a line break or an escape sequence could imitate a message of this
/// server.
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

/// Returns the candidate that the user probably meant by a token, if any. The most similar candidate is
/// returned if it differs by a single typing error, or by at most one error for every six characters.
/// Otherwise, the only candidate that starts with the token is returned.
pub(crate) fn nearest(token: &str, candidates: &[&'static str]) -> Option<&'static str> {
    let token = token.to_ascii_lowercase();
    let distance = |name: &&str| strsim::osa_distance(&token, name);
    let closest = candidates.iter().copied().min_by_key(distance);
    let mut longer = candidates.iter().copied().filter(|name| token.len() >= 3 && name.starts_with(&token));
    closest
        .filter(|name| distance(name) <= (name.len() / 6).max(1))
        .or_else(|| longer.next().filter(|_| longer.next().is_none()))
}

/// Returns the message for stored data whose format is newer than the formats that this version knows.
pub fn newer_format(what: &str, found: impl Display, known: impl Display) -> String {
    format!(
        "{what} has format {found}, and this version of snowflake_id knows formats up to {known}: install the newer version again"
    )
}

/// Splits a message of libpq that was made with verbosity `PQERRORS_VERBOSE` into the usual form of the
/// message and the SQLSTATE of the last error. libpq does not return the SQLSTATE of a failed connection in
/// any other way. The SQLSTATE is `None` if libpq itself raised the last error.
///
/// A message contains several errors if libpq has tried a server more than once, for instance with TLS and without.
///
/// ```
/// use snowflake_id_core::message::of_verbose;
///
/// let with_tls = "connection to server at \"::1\", port 5432 failed: FATAL:  28000: no pg_hba.conf entry\n\
///                 LOCATION:  ClientAuthentication, auth.c:543\n";
/// let without = "connection to server at \"::1\", port 5432 failed: FATAL:  3D000: database \"x: a.c:1\" does not exist\n\
///                LOCATION:  InitPostgres, postinit.c:1005\n";
/// let both = with_tls.to_owned() + without;
/// let (text, state) = of_verbose(&both);
/// assert_eq!(
///     text,
///     "connection to server at \"::1\", port 5432 failed: FATAL:  no pg_hba.conf entry\n\
///      connection to server at \"::1\", port 5432 failed: FATAL:  database \"x: a.c:1\" does not exist\n"
/// );
/// assert_eq!(state, Some("3D000"));
/// let french = "FATAL:  3D000: la base de données « x » n'existe pas\nEMPLACEMENT : InitPostgres, postinit.c : 1005\n";
/// let wrong_password = "FATAL:  28P01: password authentication failed for user \"shard1\"\n\
///                       LOCATION:  auth_failed, auth.c:326\n\
///                       password retrieved from file \"/etc/registry.pgpass\"\n";
/// assert_eq!(of_verbose(wrong_password).1, Some("28P01"));
/// assert_eq!(of_verbose(french).0, "FATAL:  la base de données « x » n'existe pas\n");
/// for of_libpq in ["connection to server at \"::1\", port 5432 failed: Connection refused\n", "Verbindungsaufbau abgelehnt\n"] {
///     assert_eq!(of_verbose(of_libpq), (of_libpq.to_owned(), None));
///     let last = without.to_owned() + of_libpq;
///     assert_eq!(of_verbose(&last).1, None);
/// }
/// ```
pub fn of_verbose(message: &str) -> (String, Option<&str>) {
    let mut text = String::new();
    let mut state = None;
    let mut is_of_server = false;
    for line in message.lines() {
        if let Some((severity, found, rest)) = split_at_state(line) {
            (state, is_of_server) = (Some(found), true);
            text.extend([severity, ":  ", rest, "\n"]);
        } else if is_of_server && is_place(line) {
            // The location is the last line of an error, unless libpq adds from which file it took a wrong password.
            is_of_server = state == Some(INVALID_PASSWORD);
        } else {
            // A pooler sends no location. The next error is then recognized only if libpq does not translate
            // its messages.
            if !is_of_server || line.starts_with("connection to server ") {
                (state, is_of_server) = (None, false);
            }
            text.extend([line, "\n"]);
        }
    }
    (text, state)
}

/// Splits a line such as `FATAL:  3D000: database "x" does not exist` at its SQLSTATE.
fn split_at_state(line: &str) -> Option<(&str, &str, &str)> {
    let (severity, rest) = line.split_once(":  ")?;
    let (state, text) = rest.split_at_checked(5)?;
    let is_state = state.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase());
    Some((severity, state, text.strip_prefix(": ").filter(|_| is_state)?))
}

/// Returns whether a line is a location such as `LOCATION:  InitPostgres, postinit.c:1005`. The first word is
/// translated, and some languages put spaces around colons.
fn is_place(line: &str) -> bool {
    line.rsplit_once(".c").is_some_and(|(_, end)| {
        let number = end.trim_start().strip_prefix(':').unwrap_or_default().trim();
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}
