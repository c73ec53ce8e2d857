//! The encoding of the database, and UTF-8, in which everything here is kept.
//!
//! pgrx passes a text on as the bytes of its UTF-8. In a database with another encoding these say something else, or are
//! an error when they are sent to the client. So a text that may be other than ASCII goes through here: [`Shown`] where it is
//! returned, [`in_any_encoding`] where it is in an error.

use std::borrow::Cow;
use std::ffi::CStr;

use pgrx::callconv::{BoxRet, FcInfo};
use pgrx::prelude::*;

use pg_sys::pg_enc::{PG_SQL_ASCII, PG_UTF8};

/// A character of UTF-8 or of the other encoding becomes at most so many bytes: PostgreSQL's `MAX_CONVERSION_GROWTH`.
const MOST_GROWTH: usize = 4;

fn encoding() -> pg_sys::pg_enc::Type {
    // SAFETY: reads a variable of this process.
    unsafe { pg_sys::GetDatabaseEncoding() as pg_sys::pg_enc::Type }
}

/// Whether texts in UTF-8 can be texts of this database as they are. In SQL_ASCII any bytes can, and texts that are read from
/// it are taken for UTF-8 as well.
fn takes_utf8() -> bool {
    [PG_UTF8, PG_SQL_ASCII].contains(&encoding())
}

/// The encoding of this database, if its texts have to be converted to UTF-8. `None` if they are in UTF-8 already, or
/// cannot be converted.
fn encoding_to_convert() -> Option<pg_sys::pg_enc::Type> {
    // Gone in version 19.
    #[cfg(any(feature = "pg15", feature = "pg16", feature = "pg17", feature = "pg18"))]
    if encoding() == pg_sys::pg_enc::PG_MULE_INTERNAL {
        return None;
    }
    (!takes_utf8()).then(encoding)
}

/// A text of this database in UTF-8, `None` if it cannot be written so.
pub fn utf8(text: &[u8]) -> Option<String> {
    if text.is_ascii() || encoding_to_convert().is_none() {
        return str::from_utf8(text).ok().map(str::to_owned);
    }
    // SAFETY: the conversion gives a C string, or what it was given if there is nothing to convert.
    unsafe {
        let length = text.len() as i32;
        let converted = pg_sys::pg_server_to_any(text.as_ptr().cast(), length, PG_UTF8 as i32);
        if std::ptr::eq(converted, text.as_ptr().cast()) {
            return str::from_utf8(text).ok().map(str::to_owned);
        }
        CStr::from_ptr(converted).to_str().ok().map(str::to_owned)
    }
}

/// Bytes from the configuration, of which nobody says what encoding they are in: UTF-8 if they can be, or else that of this
/// database, in which `ALTER SYSTEM` writes them. What they are in neither is replaced.
pub fn guessed_utf8(bytes: &[u8]) -> String {
    match str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => converted_to_utf8(bytes).unwrap_or_else(|| String::from_utf8_lossy(bytes).into_owned()),
    }
}

/// Bytes that may be a text of this database in UTF-8; `None` if they cannot be converted, or have not to be.
pub fn converted_to_utf8(bytes: &[u8]) -> Option<String> {
    let (converted, rest) = convert(bytes, encoding_to_convert()?, PG_UTF8)?;
    rest.is_empty().then(|| String::from_utf8(converted).ok())?
}

/// A text in the encoding of this database. What that has not is a question mark.
fn in_database_encoding(text: &str) -> Cow<'_, [u8]> {
    if text.is_ascii() || takes_utf8() {
        return text.as_bytes().into();
    }
    let mut bytes = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        if let Some((converted, left)) = convert(rest.as_bytes(), PG_UTF8, encoding()) {
            bytes.extend(converted);
            rest = &rest[rest.len() - left.len()..];
        }
        let mut characters = rest.chars();
        if let Some(character) = characters.next() {
            bytes.push(if character.is_ascii() { character as u8 } else { b'?' });
        }
        rest = characters.as_str();
    }
    bytes.into()
}

/// Converts as much as can be, and returns that and the rest. `None` if nothing can be, or outside of a transaction, in which
/// PostgreSQL looks up how to.
fn convert(text: &[u8], from: pg_sys::pg_enc::Type, to: pg_sys::pg_enc::Type) -> Option<(Vec<u8>, &[u8])> {
    let mut converted = vec![0; (text.len() + 1) * MOST_GROWTH];
    let (from, to) = (from as i32, to as i32);
    // SAFETY: the lengths are those of the two; the text is only read. With the last argument nothing that is wrong with it is
    // an error.
    let done = unsafe {
        if !pg_sys::IsTransactionState() {
            return None;
        }
        let function = pg_sys::FindDefaultConversionProc(from, to);
        if function == pg_sys::InvalidOid {
            return None;
        }
        pg_sys::pg_do_encoding_conversion_buf(
            function,
            from,
            to,
            text.as_ptr().cast_mut(),
            text.len() as i32,
            converted.as_mut_ptr(),
            converted.len() as i32,
            true,
        )
    };
    let end = converted.iter().position(|&byte| byte == 0)?;
    converted.truncate(end);
    Some((converted, text.get(done as usize..)?))
}

/// Whether a text can be in an error as it is.
pub fn is_in_any_encoding(text: &str) -> bool {
    text.is_ascii() || takes_utf8()
}

/// The text of an error. pgrx has those in UTF-8 alone, so that in a database with another encoding they are in ASCII.
pub fn in_any_encoding(text: String) -> String {
    if is_in_any_encoding(&text) { text } else { in_ascii(&text) }
}

/// A text that every database can write.
pub fn in_ascii(text: &str) -> String {
    text.replace(|character: char| !character.is_ascii(), "?")
}

/// A text that a function returns, in the encoding of the database.
pub struct Shown(String);

impl From<String> for Shown {
    fn from(text: String) -> Shown {
        Shown(text)
    }
}

pgrx::pgrx_sql_entity_graph::impl_sql_translatable!(Shown, "TEXT");

impl IntoDatum for Shown {
    fn into_datum(self) -> Option<pg_sys::Datum> {
        let text = in_database_encoding(&self.0);
        // SAFETY: copies so many bytes into the current memory context, in which a function's result belongs.
        let text = unsafe { pg_sys::cstring_to_text_with_len(text.as_ptr().cast(), text.len() as i32) };
        Some(pg_sys::Datum::from(text))
    }

    fn type_oid() -> pg_sys::Oid {
        pg_sys::TEXTOID
    }
}

// SAFETY: the datum is a text in the memory context of the call.
unsafe impl BoxRet for Shown {
    unsafe fn box_into<'fcx>(self, fcinfo: &mut FcInfo<'fcx>) -> pgrx::datum::Datum<'fcx> {
        match self.into_datum() {
            // SAFETY: the datum was made for this call.
            Some(datum) => unsafe { fcinfo.return_raw_datum(datum) },
            None => fcinfo.return_null(),
        }
    }
}
