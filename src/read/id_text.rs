//! IDs as text: `snowflake_to_text` and `snowflake_from_text`.

use pgrx::prelude::*;
use snowflake_id_core::id_text::{Encoding, MAX_WIDTH, TextError};
use snowflake_id_core::message::shown;

use crate::error::{Error, OrReport};
use crate::pg::varlena::{Text, TextBytes};

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
    Error::UnknownEncoding { name: shown(name) }
}

#[cold]
fn invalid(text: &[u8], problem: TextError) -> Error {
    Error::InvalidText { text: shown(text), problem }
}
