//! Conversion between the database encoding and UTF-8, which the extension uses internally.
//!
//! pgrx returns strings in UTF-8. In a database with another encoding, their bytes would represent other characters, or
//! could not be sent to the client. Therefore, this module converts all strings that may contain non-ASCII characters.
//! SQL functions return such strings as [`Shown`]. Strings in errors are converted with [`in_any_encoding`].

use std::borrow::Cow;
use std::ffi::CStr;

use pgrx::callconv::{BoxRet, FcInfo};
use pgrx::prelude::*;

use pg_sys::pg_enc::{PG_SQL_ASCII, PG_UTF8};

/// The maximum number of bytes that a conversion can produce from one byte. This is PostgreSQL's
/// `MAX_CONVERSION_GROWTH`.
const MOST_GROWTH: usize = 4;

fn encoding() -> pg_sys::pg_enc::Type {
    // SAFETY: reads a variable of this process.
    unsafe { pg_sys::GetDatabaseEncoding() as pg_sys::pg_enc::Type }
}

/// Returns whether this database accepts UTF-8 strings without a conversion. The encoding SQL_ASCII accepts any bytes,
/// and strings from a database with this encoding are assumed to be UTF-8.
fn takes_utf8() -> bool {
    [PG_UTF8, PG_SQL_ASCII].contains(&encoding())
}

/// Returns the database encoding if strings have to be converted to UTF-8. Returns `None` if strings are already in
/// UTF-8 or cannot be converted.
fn encoding_to_convert() -> Option<pg_sys::pg_enc::Type> {
    // Version 19 removed this encoding.
    #[cfg(any(feature = "pg15", feature = "pg16", feature = "pg17", feature = "pg18"))]
    if encoding() == pg_sys::pg_enc::PG_MULE_INTERNAL {
        return None;
    }
    (!takes_utf8()).then(encoding)
}

/// Converts a string from the database encoding to UTF-8. Returns `None` if the string cannot be converted.
pub fn utf8(text: &[u8]) -> Option<String> {
    if text.is_ascii() || encoding_to_convert().is_none() {
        return str::from_utf8(text).ok().map(str::to_owned);
    }
    // SAFETY: the conversion returns a C string, or its argument if no conversion is needed.
    unsafe {
        let length = text.len() as i32;
        let converted = pg_sys::pg_server_to_any(text.as_ptr().cast(), length, PG_UTF8 as i32);
        if std::ptr::eq(converted, text.as_ptr().cast()) {
            return str::from_utf8(text).ok().map(str::to_owned);
        }
        CStr::from_ptr(converted).to_str().ok().map(str::to_owned)
    }
}

/// Decodes strings from configuration files, whose encoding is unknown. Bytes that are not valid UTF-8 are assumed to
/// be in the database encoding, which `ALTER SYSTEM` uses. Bytes that are invalid in both encodings are replaced.
pub fn guessed_utf8(bytes: &[u8]) -> String {
    match str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => converted_to_utf8(bytes).unwrap_or_else(|| String::from_utf8_lossy(bytes).into_owned()),
    }
}

/// Converts bytes from the database encoding to UTF-8. Returns `None` if the bytes cannot be converted, or need no
/// conversion.
pub fn converted_to_utf8(bytes: &[u8]) -> Option<String> {
    let (converted, rest) = convert(bytes, encoding_to_convert()?, PG_UTF8)?;
    rest.is_empty().then(|| String::from_utf8(converted).ok())?
}

/// Converts a string to the database encoding. Characters that do not exist in this encoding are replaced with question
/// marks.
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

/// Converts the string up to the first character that cannot be converted. Returns the result and the rest of the
/// string. Returns `None` if there is no conversion between the two encodings. Also returns `None` outside of a
/// transaction, because PostgreSQL cannot look up conversions there.
fn convert(text: &[u8], from: pg_sys::pg_enc::Type, to: pg_sys::pg_enc::Type) -> Option<(Vec<u8>, &[u8])> {
    let mut converted = vec![0; (text.len() + 1) * MOST_GROWTH];
    let (from, to) = (from as i32, to as i32);
    // SAFETY: the lengths match the buffers, and the string is only read. The last argument suppresses errors about
    // invalid strings.
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

/// Returns whether the string can be put into an error message without a conversion.
pub fn is_in_any_encoding(text: &str) -> bool {
    text.is_ascii() || takes_utf8()
}

/// Converts a string for use in an error. pgrx always passes errors in UTF-8. In a database with another encoding,
/// non-ASCII characters are therefore replaced.
pub fn in_any_encoding(text: String) -> String {
    if is_in_any_encoding(&text) { text } else { in_ascii(&text) }
}

/// Replaces non-ASCII characters with question marks, so that the string is valid in every encoding.
pub fn in_ascii(text: &str) -> String {
    text.replace(|character: char| !character.is_ascii(), "?")
}

/// A function result of type `text`, in the database encoding.
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
        // SAFETY: copies the text into the current memory context, where the result of a function belongs.
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
