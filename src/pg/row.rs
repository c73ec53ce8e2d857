//! A composite row as the result of a function.
//!
//! pgrx supports rows only for set-returning functions. If a strict set-returning function is called as `FROM
//! t, f(t.a)`, the rows of `t` in which the argument is NULL are omitted. A strict function with OUT
//! parameters returns a row of NULLs instead. Therefore, this module builds a composite row without pgrx.

use std::cell::Cell;

use pgrx::callconv::{BoxRet, FcInfo};
use pgrx::prelude::*;

use super::backend_local::BackendLocal;
use super::call::Call;

/// A row that is ready to be returned. The function must declare its OUT parameters with `sql = "..."`.
pub struct Row(pg_sys::Datum);

/// The OID of the function that last returned a row, and the row descriptor of that function. Looking up the
/// descriptor in PostgreSQL takes half a microsecond.
static DESCRIPTOR: BackendLocal<Cell<Option<(pg_sys::Oid, pg_sys::TupleDesc)>>> =
    BackendLocal::new(Cell::new(None));

impl Row {
    /// Creates the result row of the function that was called with `fcinfo`. The `values` must have the types
    /// of the OUT parameters.
    ///
    /// # Panics
    /// Panics if the number of values differs from the number of OUT parameters.
    pub fn new<const N: usize>(fcinfo: pg_sys::FunctionCallInfo, values: [Option<pg_sys::Datum>; N]) -> Row {
        // SAFETY: PostgreSQL passed fcinfo to the calling function.
        let descriptor = unsafe { descriptor(fcinfo) };
        // SAFETY: the descriptor is valid until the next row is created.
        let columns = unsafe { (*descriptor).natts };
        assert_eq!(columns, N as i32, "bug: the SQL declaration has other OUT parameters");
        let mut nulls = values.map(|value| value.is_none());
        let mut datums = values.map(|value| value.unwrap_or(pg_sys::Datum::null()));
        // SAFETY: both arrays have an element for each column of the descriptor. The tuple is allocated in the
        // current memory context, as the result of a function should be.
        unsafe {
            let tuple = pg_sys::heap_form_tuple(descriptor, datums.as_mut_ptr(), nulls.as_mut_ptr());
            Row(pg_sys::HeapTupleHeaderGetDatum((*tuple).t_data))
        }
    }
}

/// Returns the row descriptor of the function that was called with `fcinfo`. The descriptor is valid until
/// the next call. The OUT parameters of a function cannot change while the function keeps its OID.
///
/// # Safety
/// `fcinfo` belongs to a call by PostgreSQL.
unsafe fn descriptor(fcinfo: pg_sys::FunctionCallInfo) -> pg_sys::TupleDesc {
    // SAFETY: by this function's contract.
    let function = unsafe { Call::new(fcinfo) }.function();
    if let Some((known, descriptor)) = DESCRIPTOR.get()
        && known == function
    {
        return descriptor;
    }
    let mut descriptor = std::ptr::null_mut();
    // SAFETY: PostgreSQL sets the variable `descriptor` to a registered row type. The row type is copied into
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
        // SAFETY: the old descriptor was created above, and no row that is being created uses it.
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
