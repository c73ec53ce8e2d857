//! Access to values of type `text` and `bytea` as PostgreSQL passes them to functions.
//!
//! pgrx panics if a text argument is not in UTF-8, even if the database has another encoding. The types in this module
//! give a function the bytes of its argument. The function can then report the same error for every invalid string.

use pgrx::callconv::{Arg, ArgAbi, BoxRet, FcInfo};
use pgrx::prelude::*;
use pgrx::varlena::{varatt_is_1b, varatt_is_1b_e, varatt_is_4b_u, varlena_to_byte_slice};

/// Returns the bytes of a varlena. Almost all values are stored inline and uncompressed. Such values are read without a
/// call into PostgreSQL, because pgrx's guard around such a call would take longer than the function that needs the
/// bytes.
///
/// # Safety
/// `varlena` points to a varlena that is valid for `'a`.
#[inline]
pub unsafe fn bytes<'a>(varlena: *mut pg_sys::varlena) -> &'a [u8] {
    // SAFETY: by this function's contract.
    unsafe {
        match plain_bytes(varlena) {
            Some(bytes) => bytes,
            None => fetched_bytes(varlena),
        }
    }
}

/// Returns the bytes of a varlena, or `None` if the value is compressed or stored out of line. Raises no error.
///
/// # Safety
/// As for [`bytes`].
#[inline]
pub unsafe fn plain_bytes<'a>(varlena: *mut pg_sys::varlena) -> Option<&'a [u8]> {
    // SAFETY: by this function's contract.
    unsafe {
        let is_short = varatt_is_1b(varlena) && !varatt_is_1b_e(varlena);
        (is_short || varatt_is_4b_u(varlena)).then(|| varlena_to_byte_slice(varlena))
    }
}

/// Returns the bytes of a varlena that is compressed or stored out of line.
///
/// # Safety
/// As for [`bytes`].
#[cold]
unsafe fn fetched_bytes<'a>(varlena: *mut pg_sys::varlena) -> &'a [u8] {
    // SAFETY: by this function's contract. The copy is in the memory context of the call.
    unsafe { varlena_to_byte_slice(pg_sys::pg_detoast_datum_packed(varlena)) }
}

/// A text argument as it is stored, in the encoding of the database.
pub struct TextBytes<'fcx>(pub &'fcx [u8]);

pgrx::pgrx_sql_entity_graph::impl_sql_translatable!(TextBytes<'_>, "text");

impl FromDatum for TextBytes<'_> {
    #[inline]
    unsafe fn from_polymorphic_datum(datum: pg_sys::Datum, is_null: bool, _: pg_sys::Oid) -> Option<Self> {
        // SAFETY: by this function's contract the datum is a varlena.
        (!is_null).then(|| TextBytes(unsafe { bytes(datum.cast_mut_ptr()) }))
    }
}

// SAFETY: the argument is declared as text, so the datum is a varlena. The datum is not null, because a function with
// an argument of this type is strict, and an `Option` of this type checks for null before it calls the function below.
unsafe impl<'fcx> ArgAbi<'fcx> for TextBytes<'fcx> {
    unsafe fn unbox_arg_unchecked(arg: Arg<'_, 'fcx>) -> TextBytes<'fcx> {
        // SAFETY: as above.
        unsafe { arg.unbox_arg_using_from_datum() }
            .expect("bug: a function with a text argument is not strict")
    }
}

/// A `text` value that a function returns to PostgreSQL.
pub struct Text(pg_sys::Datum);

impl Text {
    /// Creates a `text` value from ASCII characters, which are valid in every database encoding.
    #[inline]
    pub fn new(ascii: &str) -> Text {
        debug_assert!(ascii.is_ascii());
        // SAFETY: copies the text into the current memory context, where the result of a function belongs.
        Text(pg_sys::Datum::from(unsafe {
            pg_sys::cstring_to_text_with_len(ascii.as_ptr().cast(), ascii.len() as i32)
        }))
    }
}

pgrx::pgrx_sql_entity_graph::impl_sql_translatable!(Text, "text");

// SAFETY: the datum is a text in the memory context of the call.
unsafe impl BoxRet for Text {
    unsafe fn box_into<'fcx>(self, fcinfo: &mut FcInfo<'fcx>) -> pgrx::datum::Datum<'fcx> {
        // SAFETY: the datum was made for this call.
        unsafe { fcinfo.return_raw_datum(self.0) }
    }
}
