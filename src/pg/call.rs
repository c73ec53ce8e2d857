//! One call of a function by PostgreSQL, for the functions that need more of it than pgrx hands them: those
//! that keep what they found out about an argument for the rest of the query, and those that do without
//! pgrx's wrapper.

use std::ffi::CStr;

use pgrx::PgMemoryContexts;
use pgrx::prelude::*;

use crate::pg::function;
use crate::pg::varlena::bytes;

/// The call that a function is being run for.
#[derive(Clone, Copy)]
pub struct Call(pg_sys::FunctionCallInfo);

impl Call {
    /// # Safety
    /// `fcinfo` is that of a call out of a query that is being answered, and the result does not outlive it.
    #[inline]
    pub unsafe fn new(fcinfo: pg_sys::FunctionCallInfo) -> Call {
        Call(fcinfo)
    }

    /// An argument as PostgreSQL passes it, counted from 0.
    ///
    /// # Safety
    /// The function has been declared with so many arguments, and as STRICT.
    #[inline]
    pub unsafe fn argument(self, at: usize) -> pg_sys::Datum {
        // SAFETY: by this function's contract there is such an argument.
        unsafe { (*(*self.0).args.as_ptr().add(at)).value }
    }

    /// The result, where NULL is `None`.
    #[inline]
    pub fn result(self, value: Option<i64>) -> pg_sys::Datum {
        // SAFETY: by the contract of `new`.
        unsafe { (*self.0).isnull = value.is_none() };
        pg_sys::Datum::from(value.unwrap_or_default())
    }

    /// What PostgreSQL knows of the place in the query from which the function is called.
    #[inline]
    fn call_site(self) -> *mut pg_sys::FmgrInfo {
        // SAFETY: by the contract of `new`.
        unsafe { (*self.0).flinfo }
    }

    /// The function that is called.
    pub fn function(self) -> pg_sys::Oid {
        // SAFETY: by the contract of `new`.
        unsafe { (*self.call_site()).fn_oid }
    }

    /// Whether an argument is written into the query as a constant, and so is the same in every call from its
    /// place.
    ///
    /// A parameter is not: a PL/pgSQL variable becomes one, and its value changes from call to call.
    ///
    /// # Safety
    /// The function has so many arguments.
    pub unsafe fn is_constant(self, at: usize) -> bool {
        // SAFETY: PostgreSQL sets fn_expr to the expression that is the call, or to null. A node has the type
        // that its tag says, and the list of arguments is as long as the function has some.
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

    /// What an earlier call from the same place remembered.
    ///
    /// # Safety
    /// The function remembers nothing of another type, and nothing else while the reference is used.
    #[inline]
    pub unsafe fn remembered<'a, T>(self) -> Option<&'a T> {
        // SAFETY: fn_extra is the function's own: null, or set by `remember` to a `T`, by this function's
        // contract. What it points to is dropped with the place, which outlives the call.
        unsafe { (*self.call_site()).fn_extra.cast::<T>().as_ref() }
    }

    /// Remembers a value for later calls from the same place. It is dropped with the place: when the query
    /// has ended, in PL/pgSQL with the transaction at the latest.
    pub fn remember<'a, T>(self, value: T) -> &'a T {
        // SAFETY: by the contract of `new`; fn_extra is the function's own. The value lives as long as
        // fn_mcxt, in which the place lies as well.
        unsafe {
            let call_site = self.call_site();
            let value = PgMemoryContexts::For((*call_site).fn_mcxt).leak_and_drop_on_delete(value);
            (*call_site).fn_extra = value.cast();
            &*value
        }
    }

    /// What a function of the extension, `name(text) RETURNS bytea`, gives, whoever may call it.
    pub fn text_to_bytea<'a>(self, name: &CStr, text: &[u8]) -> &'a [u8] {
        // SAFETY: all pointers are to what lives during these calls. The functions of an extension stand in
        // one schema, and no others have its names there. The result lies in the memory context of the call.
        unsafe {
            let schema = pg_sys::get_func_namespace(self.function());
            let function = function::function_in(schema, name, pg_sys::TEXTOID);
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
