//! Access to the call of an SQL function, for functions that need more information than pgrx provides. Some of them
//! remember facts about an argument for the rest of the query. Others do not use pgrx's wrapper.

use std::ffi::CStr;

use pgrx::PgMemoryContexts;
use pgrx::prelude::*;

use crate::pg::relation;
use crate::pg::varlena::bytes;

/// A call of an SQL function by PostgreSQL.
#[derive(Clone, Copy)]
pub struct Call(pg_sys::FunctionCallInfo);

impl Call {
    /// # Safety
    /// `fcinfo` belongs to a call made by a running query, and `Call` does not outlive that call.
    #[inline]
    pub unsafe fn new(fcinfo: pg_sys::FunctionCallInfo) -> Call {
        Call(fcinfo)
    }

    /// Returns the argument at position `at` as PostgreSQL passes it. The first position is 0.
    ///
    /// # Safety
    /// The function has an argument at position `at`, which is not NULL.
    #[inline]
    pub unsafe fn argument(self, at: usize) -> pg_sys::Datum {
        // SAFETY: by this function's contract the argument exists.
        unsafe { (*(*self.0).args.as_ptr().add(at)).value }
    }

    /// Converts the result of the function to a datum. `None` becomes NULL.
    #[inline]
    pub fn result(self, value: Option<i64>) -> pg_sys::Datum {
        // SAFETY: by the contract of `new`.
        unsafe { (*self.0).isnull = value.is_none() };
        pg_sys::Datum::from(value.unwrap_or_default())
    }

    /// Returns PostgreSQL's information about the call site, which is the place of the call in the query.
    #[inline]
    fn call_site(self) -> *mut pg_sys::FmgrInfo {
        // SAFETY: by the contract of `new`.
        unsafe { (*self.0).flinfo }
    }

    /// Returns the OID of the function that is called.
    pub fn function(self) -> pg_sys::Oid {
        // SAFETY: by the contract of `new`.
        unsafe { (*self.call_site()).fn_oid }
    }

    /// Returns whether an argument is a constant in the query, and so has the same value in every call from this call
    /// site.
    ///
    /// A parameter is not a constant. PL/pgSQL variables are passed as parameters, and their values can change between
    /// calls.
    ///
    /// # Safety
    /// The function has an argument at position `at`.
    pub unsafe fn is_constant(self, at: usize) -> bool {
        // SAFETY: PostgreSQL sets fn_expr to the expression of the call, or to null. The type of each node is
        // checked by its tag. The list of arguments contains all arguments of the function.
        unsafe {
            let expression = (*self.call_site()).fn_expr;
            if !pgrx::is_a(expression, pg_sys::NodeTag::T_FuncExpr) {
                return false;
            }
            let arguments = (*expression.cast::<pg_sys::FuncExpr>()).args;
            let argument = (*(*arguments).elements.add(at)).ptr_value;
            pgrx::is_a(argument.cast(), pg_sys::NodeTag::T_Const)
        }
    }

    /// Returns the value, if any, that an earlier call from the same call site has remembered.
    ///
    /// # Safety
    /// The function remembers only values of type `T`, and does not replace a value while the reference is used.
    #[inline]
    pub unsafe fn remembered<'a, T>(self) -> Option<&'a T> {
        // SAFETY: fn_extra belongs to the function. By this function's contract, fn_extra is null or points
        // to a `T` that was stored by `remember`. The value is dropped together with the call site, which
        // outlives the call.
        unsafe { (*self.call_site()).fn_extra.cast::<T>().as_ref() }
    }

    /// Remembers a value for later calls from the same call site. The value is dropped at the end of the query or, in
    /// PL/pgSQL, no later than the end of the transaction.
    pub fn remember<'a, T>(self, value: T) -> &'a T {
        // SAFETY: by the contract of `new`. fn_extra belongs to the function. The value lives as long as fn_mcxt, the
        // memory context of the call site.
        unsafe {
            let call_site = self.call_site();
            let value = PgMemoryContexts::For((*call_site).fn_mcxt).leak_and_drop_on_delete(value);
            (*call_site).fn_extra = value.cast();
            &*value
        }
    }

    /// Calls an internal function that has one `text` argument and returns `bytea`. The user does not need the
    /// privilege to call that function. Raises an error if the extension has been dropped since this call began.
    pub fn text_to_bytea<'a>(self, name: &CStr, text: &[u8]) -> &'a [u8] {
        let function = relation::internal_function(self.function(), name, &[pg_sys::TEXTOID]);
        // SAFETY: all pointers are valid during these calls. The function has the same owner as the extension's
        // functions, and the owner is trusted to declare the correct result type. For an invalid OID, PostgreSQL raises
        // an error. The result is in the memory context of the call.
        unsafe {
            let function = function.unwrap_or(pg_sys::InvalidOid);
            let text = pg_sys::cstring_to_text_with_len(text.as_ptr().cast(), text.len() as i32);
            let result = pg_sys::OidFunctionCall1Coll(
                function,
                pg_sys::DEFAULT_COLLATION_OID,
                pg_sys::Datum::from(text),
            );
            bytes(result.cast_mut_ptr())
        }
    }
}
