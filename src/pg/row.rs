//! One composite row as the result of a function.
//!
//! pgrx offers rows from set-returning functions only. Those would make a row of the calling query vanish
//! where the argument is NULL (`FROM t, f(t.a)`); a strict function with OUT parameters gives a row of NULLs. That
//! is worth the few calls into PostgreSQL below.

use std::cell::Cell;

use pgrx::callconv::{BoxRet, FcInfo};
use pgrx::prelude::*;

use super::backend_local::BackendLocal;
use super::call::Call;

/// A row that is ready to be returned. The function has to declare its OUT parameters with `sql = "..."`.
pub struct Row(pg_sys::Datum);

/// The function that last returned a row, and what its rows look like. PostgreSQL takes half a microsecond to
/// find out.
static DESCRIPTOR: BackendLocal<Cell<Option<(pg_sys::Oid, pg_sys::TupleDesc)>>> =
    BackendLocal::new(Cell::new(None));

impl Row {
    /// Makes the row that the function called with `fcinfo` returns; `values` have the types of its OUT
    /// parameters.
    pub fn new<const N: usize>(fcinfo: pg_sys::FunctionCallInfo, values: [Option<pg_sys::Datum>; N]) -> Row {
        // SAFETY: PostgreSQL passed fcinfo to the calling function.
        let descriptor = unsafe { descriptor(fcinfo) };
        // SAFETY: the descriptor is valid until the next row is made.
        let columns = unsafe { (*descriptor).natts };
        assert_eq!(columns, N as i32, "bug: the SQL declaration has other OUT parameters");
        let mut nulls = values.map(|value| value.is_none());
        let mut datums = values.map(|value| value.unwrap_or(pg_sys::Datum::null()));
        // SAFETY: both arrays have an element for each column of the descriptor. The tuple lives in the
        // current memory context, in which a function's result belongs.
        unsafe {
            let tuple = pg_sys::heap_form_tuple(descriptor, datums.as_mut_ptr(), nulls.as_mut_ptr());
            Row(pg_sys::HeapTupleHeaderGetDatum((*tuple).t_data))
        }
    }
}

/// What the rows of the function called with `fcinfo` look like, valid until the next call. The OUT
/// parameters of a function cannot change while it keeps its OID.
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
    // SAFETY: descriptor is a place for one pointer, to a row type that PostgreSQL has registered. It is
    // copied into TopMemoryContext, which lives as long as the backend.
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
