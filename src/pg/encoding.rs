//! Conversion between the encoding of the database and UTF-8, which the extension uses internally.
//!
//! pgrx returns a text as its bytes in UTF-8. In a database with another encoding, these bytes represent other
//! characters, or cannot be sent to the client. Therefore, texts that may contain characters other than ASCII are
//! passed through this module. Functions return such texts as [`Shown`], and errors contain texts converted by
//! [`in_any_encoding`].

use std::borrow::Cow;
use std::ffi::CStr;

use pgrx::callconv::{BoxRet, FcInfo};
use pgrx::prelude::*;

use pg_sys::pg_enc::{PG_SQL_ASCII, PG_UTF8};

/// The maximum number of bytes to which a conversion can expand one byte. This is PostgreSQL's
/// `MAX_CONVERSION_GROWTH`.
const MOST_GROWTH: usize = 4;

fn encoding() -> pg_sys::pg_enc::Type {
    // SAFETY: reads a variable of this process.
    unsafe { pg_sys::GetDatabaseEncoding() as pg_sys::pg_enc::Type }
}

/// Whether texts in UTF-8 are valid texts of this database without a conversion. SQL_ASCII accepts any bytes. Texts
/// read from such a database are taken as UTF-8 as well.
fn takes_utf8() -> bool {
    [PG_UTF8, PG_SQL_ASCII].contains(&encoding())
}

/// Returns the encoding of this database if its texts have to be converted to UTF-8. Returns `None` if they are in
/// UTF-8 already, or cannot be converted.
fn encoding_to_convert() -> Option<pg_sys::pg_enc::Type> {
    // Version 19 removed this encoding.
    #[cfg(any(feature = "pg15", feature = "pg16", feature = "pg17", feature = "pg18"))]
    if encoding() == pg_sys::pg_enc::PG_MULE_INTERNAL {
        return None;
    }
    (!takes_utf8()).then(encoding)
}

/// Converts a text of this database to UTF-8. Returns `None` if it cannot be converted.
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

/// Decodes bytes of the configuration files, whose encoding is not known. Valid UTF-8 is decoded as UTF-8. Other
/// bytes are decoded from the encoding of this database, which is the encoding that `ALTER SYSTEM` uses. Bytes that
/// are invalid in both encodings are replaced.
pub fn guessed_utf8(bytes: &[u8]) -> String {
    match str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => converted_to_utf8(bytes).unwrap_or_else(|| String::from_utf8_lossy(bytes).into_owned()),
    }
}

/// Converts bytes from the encoding of this database to UTF-8. Returns `None` if they cannot be converted, or if no
/// conversion is needed.
pub fn converted_to_utf8(bytes: &[u8]) -> Option<String> {
    let (converted, rest) = convert(bytes, encoding_to_convert()?, PG_UTF8)?;
    rest.is_empty().then(|| String::from_utf8(converted).ok())?
}

/// Converts a text to the encoding of this database. Characters that the encoding lacks become question marks.
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

/// Converts the text up to the first character that cannot be converted. Returns the result, and the rest of the
/// text. Returns `None` if there is no conversion between the two encodings. Also returns `None` outside of a
/// transaction, where PostgreSQL cannot look up the conversion.
fn convert(text: &[u8], from: pg_sys::pg_enc::Type, to: pg_sys::pg_enc::Type) -> Option<(Vec<u8>, &[u8])> {
    let mut converted = vec![0; (text.len() + 1) * MOST_GROWTH];
    let (from, to) = (from as i32, to as i32);
    // SAFETY: the lengths match the buffers, and the text is only read. With the last argument, an invalid
    // text raises no error.
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

/// Whether a text can be part of an error without a conversion.
pub fn is_in_any_encoding(text: &str) -> bool {
    text.is_ascii() || takes_utf8()
}

/// Makes a text fit for an error. pgrx passes errors in UTF-8 only, so in a database with another encoding the text
/// is reduced to ASCII.
pub fn in_any_encoding(text: String) -> String {
    if is_in_any_encoding(&text) { text } else { in_ascii(&text) }
}

/// Replaces characters other than ASCII by question marks, so that the text is valid in every encoding.
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
