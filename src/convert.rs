//! Conversions between SQL and Rust that pgrx lacks: one composite row as a result, text as bytes, and a layout as an
//! argument.
//!
//! pgrx offers rows from set-returning functions only. Those would make a row of the calling query vanish where the
//! argument is NULL (`FROM orders, snowflake_decode(parent_id)`); a strict function with OUT parameters gives a row of
//! NULLs. That is worth the few calls into PostgreSQL below.
//!
//! A text argument of pgrx has to be UTF-8, whatever the encoding of the database; else the call panics. A layout, or
//! anything else, that is taken from the bytes gives the same error for any text that is none.

use std::cell::Cell;

use pgrx::callconv::{Arg, ArgAbi, BoxRet, FcInfo};
use pgrx::prelude::*;
use pgrx::varlena::{varatt_is_1b, varatt_is_1b_e, varatt_is_4b_u, varlena_to_byte_slice};
use snowflake_id_core::Layout;

use crate::call::Call;
use crate::compat::BackendLocal;
use crate::error::OrReport;
use crate::layouts;

/// A row that is ready to be returned. The function has to declare its OUT parameters with `sql = "..."`.
pub struct Row(pg_sys::Datum);

/// The function that last returned a row, and what its rows look like. PostgreSQL takes half a microsecond to find out.
static DESCRIPTOR: BackendLocal<Cell<Option<(pg_sys::Oid, pg_sys::TupleDesc)>>> =
    BackendLocal::new(Cell::new(None));

impl Row {
    /// Makes the row that the function called with `fcinfo` returns; `values` have the types of its OUT parameters.
    pub fn new<const N: usize>(fcinfo: pg_sys::FunctionCallInfo, values: [Option<pg_sys::Datum>; N]) -> Row {
        // SAFETY: PostgreSQL passed fcinfo to the calling function.
        let descriptor = unsafe { descriptor(fcinfo) };
        // SAFETY: the descriptor is valid until the next row is made.
        assert_eq!(
            unsafe { (*descriptor).natts },
            N as i32,
            "bug: the SQL declaration has other OUT parameters"
        );
        let mut nulls = values.map(|value| value.is_none());
        let mut datums = values.map(|value| value.unwrap_or(pg_sys::Datum::null()));
        // SAFETY: both arrays have an element for each column of the descriptor. The tuple lives in the current memory
        // context, in which a function's result belongs.
        unsafe {
            let tuple = pg_sys::heap_form_tuple(descriptor, datums.as_mut_ptr(), nulls.as_mut_ptr());
            Row(pg_sys::HeapTupleHeaderGetDatum((*tuple).t_data))
        }
    }
}

/// What the rows of the function called with `fcinfo` look like, valid until the next call. The OUT parameters of a function cannot
/// change while it keeps its OID.
///
/// # Safety
/// `fcinfo` is that of a call by PostgreSQL.
unsafe fn descriptor(fcinfo: pg_sys::FunctionCallInfo) -> pg_sys::TupleDesc {
    // SAFETY: by this function's contract.
    let function = unsafe { Call::new(fcinfo) }.function();
    if let Some((known, descriptor)) = DESCRIPTOR.get()
        && known == function
    {
        return descriptor;
    }
    let mut descriptor = std::ptr::null_mut();
    // SAFETY: descriptor is a place for one pointer, to a row type that PostgreSQL has registered. It is copied into
    // TopMemoryContext, which lives as long as the backend.
    let descriptor = unsafe {
        let class = pg_sys::get_call_result_type(fcinfo, std::ptr::null_mut(), &mut descriptor);
        assert_eq!(
            class,
            pg_sys::TypeFuncClass::TYPEFUNC_COMPOSITE,
            "bug: the SQL declaration has no OUT parameters"
        );
        let context = pg_sys::MemoryContextSwitchTo(pg_sys::TopMemoryContext);
        let descriptor = pg_sys::CreateTupleDescCopy(descriptor);
        pg_sys::MemoryContextSwitchTo(context);
        descriptor
    };
    if let Some((_, old)) = DESCRIPTOR.replace(Some((function, descriptor))) {
        // SAFETY: the old descriptor was made above, and no row in the making uses it.
        unsafe { pg_sys::FreeTupleDesc(old) };
    }
    descriptor
}

pgrx::pgrx_sql_entity_graph::impl_sql_translatable!(Row, "record");

// SAFETY: the datum is a composite value in the memory context of the call.
unsafe impl BoxRet for Row {
    unsafe fn box_into<'fcx>(self, fcinfo: &mut FcInfo<'fcx>) -> pgrx::datum::Datum<'fcx> {
        // SAFETY: the datum was made for this call.
        unsafe { fcinfo.return_raw_datum(self.0) }
    }
}

/// A layout that is given as text.
pub struct LayoutArgument(pub Layout);

pgrx::pgrx_sql_entity_graph::impl_sql_translatable!(LayoutArgument, "text");

// SAFETY: the argument is declared as text, so that the datum is a varlena; functions with it are strict, so that it is
// not null.
unsafe impl<'fcx> ArgAbi<'fcx> for LayoutArgument {
    #[inline]
    unsafe fn unbox_arg_unchecked(arg: Arg<'_, 'fcx>) -> LayoutArgument {
        // SAFETY: any argument can be had as a bare datum.
        let datum: Option<pg_sys::Datum> = unsafe { arg.unbox_arg_using_from_datum() };
        let datum = datum.expect("bug: a function with a layout is not strict");
        // SAFETY: the datum points to a varlena that outlives the call.
        unsafe { LayoutArgument::from_text(datum) }
    }
}

impl LayoutArgument {
    /// The layout that a text describes; an error, which does not return, if it describes none.
    ///
    /// # Safety
    /// The datum is a text.
    pub unsafe fn from_text(datum: pg_sys::Datum) -> LayoutArgument {
        // SAFETY: by this function's contract; the text is not kept.
        let text = unsafe { bytes(datum.cast_mut_ptr()) };
        LayoutArgument(layouts::parse(text).or_report())
    }
}

/// The bytes of a varlena. Those that lie there as they are, as all but always, are reached without a call into PostgreSQL:
/// the guard around it would cost more than the function that wants the layout.
///
/// # Safety
/// `varlena` points to a varlena that lives for `'a`.
#[inline]
pub unsafe fn bytes<'a>(varlena: *mut pg_sys::varlena) -> &'a [u8] {
    // SAFETY: by this function's contract.
    unsafe {
        let is_short = varatt_is_1b(varlena) && !varatt_is_1b_e(varlena);
        match is_short || varatt_is_4b_u(varlena) {
            true => varlena_to_byte_slice(varlena),
            false => fetched_bytes(varlena),
        }
    }
}

/// The bytes of a varlena that is compressed or lies elsewhere.
///
/// # Safety
/// As for [`bytes`].
#[cold]
unsafe fn fetched_bytes<'a>(varlena: *mut pg_sys::varlena) -> &'a [u8] {
    // SAFETY: by this function's contract. The copy lies in the memory context of the call.
    unsafe { varlena_to_byte_slice(pg_sys::pg_detoast_datum_packed(varlena)) }
}

/// A text argument as it is, in whatever encoding the database has.
pub struct TextBytes<'fcx>(pub &'fcx [u8]);

pgrx::pgrx_sql_entity_graph::impl_sql_translatable!(TextBytes<'_>, "text");

impl FromDatum for TextBytes<'_> {
    #[inline]
    unsafe fn from_polymorphic_datum(datum: pg_sys::Datum, is_null: bool, _: pg_sys::Oid) -> Option<Self> {
        // SAFETY: by the contract of this function the datum is a varlena.
        (!is_null).then(|| TextBytes(unsafe { bytes(datum.cast_mut_ptr()) }))
    }
}

// SAFETY: the argument is declared as text, so that the datum is a varlena; functions with it are strict, so that it is
// not null.
unsafe impl<'fcx> ArgAbi<'fcx> for TextBytes<'fcx> {
    unsafe fn unbox_arg_unchecked(arg: Arg<'_, 'fcx>) -> TextBytes<'fcx> {
        // SAFETY: as above.
        unsafe { arg.unbox_arg_using_from_datum() }
            .expect("bug: a function with a text argument is not strict")
    }
}

/// A text that is ready to be returned.
pub struct Text(pg_sys::Datum);

impl Text {
    /// Copies a text, which is ASCII, as that is part of every encoding that a database can have.
    #[inline]
    pub fn new(ascii: &str) -> Text {
        debug_assert!(ascii.is_ascii());
        // SAFETY: copies so many bytes into the current memory context, in which a function's result belongs.
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
