//! IDs as text: `snowflake_to_text` and `snowflake_from_text`.

use pgrx::prelude::*;
use snowflake_id_core::encoding::{Encoding, MAX_WIDTH, TextError};
use snowflake_id_core::text::shown;

use crate::convert::{Text, TextBytes};
use crate::error::{Error, OrReport};

/// How much of a text is looked at for an error message, in bytes: more than is shown.
const SHOWN_BYTES: usize = 256;

#[pg_extern(immutable, parallel_safe)]
fn snowflake_to_text(id: i64, encoding: TextBytes<'_>) -> Text {
    to_text(id, encoding.0).or_report()
}

#[pg_extern(immutable, parallel_safe)]
fn snowflake_from_text(text: TextBytes<'_>, encoding: TextBytes<'_>) -> i64 {
    from_text(text.0, encoding.0).or_report()
}

#[inline]
fn to_text(id: i64, encoding: &[u8]) -> Result<Text, Error> {
    Ok(Text::new(named(encoding)?.encode(id, &mut [0; MAX_WIDTH])?))
}

#[inline]
fn from_text(text: &[u8], encoding: &[u8]) -> Result<i64, Error> {
    named(encoding)?.decode(text).map_err(|problem| invalid(text, problem))
}

#[inline]
fn named(name: &[u8]) -> Result<Encoding, Error> {
    Encoding::from_name(name).ok_or_else(|| unknown(name))
}

#[cold]
fn unknown(name: &[u8]) -> Error {
    Error::UnknownEncoding { name: start_of(name) }
}

#[cold]
fn invalid(text: &[u8], problem: TextError) -> Error {
    Error::InvalidText { text: start_of(text), problem }
}

/// The start of a text, for a message.
fn start_of(text: &[u8]) -> String {
    shown(&String::from_utf8_lossy(&text[..text.len().min(SHOWN_BYTES)]))
}
