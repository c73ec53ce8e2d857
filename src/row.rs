//! One composite row as the result of a function with OUT parameters.
//!
//! pgrx offers rows from set-returning functions only. Those would make a row of the calling query vanish where the
//! argument is NULL (`FROM orders, snowflake_decode(parent_id)`); a strict function with OUT parameters gives a row of
//! NULLs. That is worth the two calls into PostgreSQL below.

use pgrx::callconv::{BoxRet, FcInfo};
use pgrx::prelude::*;

/// A row that is ready to be returned. The function has to declare its OUT parameters with `sql = "..."`.
pub struct Row(pg_sys::Datum);

impl Row {
    /// Makes the row that the function called with `fcinfo` returns; `values` have the types of its OUT parameters.
    pub fn new<const N: usize>(fcinfo: pg_sys::FunctionCallInfo, values: [Option<pg_sys::Datum>; N]) -> Row {
        let mut descriptor = std::ptr::null_mut();
        let mut nulls = values.map(|value| value.is_none());
        let mut datums = values.map(|value| value.unwrap_or(pg_sys::Datum::null()));
        // SAFETY: PostgreSQL passed fcinfo to the calling function; descriptor is a place for one pointer.
        unsafe { pg_sys::get_call_result_type(fcinfo, std::ptr::null_mut(), &mut descriptor) };
        // SAFETY: get_call_result_type made the descriptor, or left it null.
        let columns = unsafe { descriptor.as_ref() }.map_or(0, |descriptor| descriptor.natts);
        assert_eq!(columns, N as i32, "bug: the SQL declaration has other OUT parameters");
        // SAFETY: both arrays have an element for each column of the descriptor. The tuple lives in the current memory
        // context, in which a function's result belongs.
        unsafe {
            let tuple = pg_sys::heap_form_tuple(
                pg_sys::BlessTupleDesc(descriptor),
                datums.as_mut_ptr(),
                nulls.as_mut_ptr(),
            );
            Row(pg_sys::HeapTupleHeaderGetDatum((*tuple).t_data))
        }
    }
}

pgrx::pgrx_sql_entity_graph::impl_sql_translatable!(Row, "record");

// SAFETY: the datum is a composite value in the memory context of the call.
unsafe impl BoxRet for Row {
    unsafe fn box_into<'fcx>(self, fcinfo: &mut FcInfo<'fcx>) -> pgrx::datum::Datum<'fcx> {
        // SAFETY: the datum was made for this call.
        unsafe { fcinfo.return_raw_datum(self.0) }
    }
}
