//! Calls of `snowflake_nextval()` and `snowflake_next()` in defaults. The STABLE twin is the same C function.

use pgrx::prelude::*;

use super::copy;
use crate::pg::function::{self, declare_c_function};
use crate::pg::planned_call::{Argument, PlannedCall};
use crate::pg::role;

declare_c_function!(snowflake_nextval_support);

/// The planner support function of `snowflake_nextval()` and `snowflake_next()`. Returns a call of the STABLE twin,
/// or a null pointer if the call must remain unchanged.
///
/// # Safety
/// Only PostgreSQL may call this function. The only argument is a node and is not NULL.
#[pg_guard]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn snowflake_nextval_support(fcinfo: pg_sys::FunctionCallInfo) -> pg_sys::Datum {
    // SAFETY: guaranteed by this function's contract.
    let call = unsafe { PlannedCall::new(fcinfo) };
    pg_sys::Datum::from(call.and_then(replacement).unwrap_or(std::ptr::null_mut()))
}

/// Returns the call of the twin, or `None` if the call must remain unchanged. When PostgreSQL then initializes the
/// expression, it checks the user's privilege on the called function. If the user lacks the privilege on either
/// function, the call remains unchanged, because an error about the twin would be misleading.
fn replacement(call: PlannedCall) -> Option<*mut pg_sys::FuncExpr> {
    let user = role::current_user();
    if !copy::is_planning(call)
        || !copy::is_too_dear_to_repeat()
        || !function::may_execute(user, call.function())
    {
        return None;
    }
    call.replaced_by(user, c"snowflake_nextval_in_copy", [Argument::Internal])
}
