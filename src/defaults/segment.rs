//! Calls of `snowflake_segment_nextval()` and `snowflake_segment_next()` in defaults. The twins check the privileges of
//! the table's owner.
//!
//! A role that may insert rows into the table can take numbers by inserting rows. Therefore, the twin gives the role no
//! additional privilege, even if the role's own `INSERT` contains the call. Conversely, a role that creates a table
//! with such a default gets only the numbers that it may take as the owner of the table.
//!
//! A call is replaced in the following cases, if the default of a column contains a call of the same function with the
//! same segment name:
//!
//! * The query is an `INSERT` or a `MERGE` into the table. The twin is VOLATILE, so the plan is otherwise the same.
//!   Each time a plan is executed, the executor checks the privilege to insert rows before it evaluates the call.
//! * `COPY FROM` plans the defaults of a table. The planner does not know the table, so the support function uses the
//!   table that the current statement names. `COPY` in a function and the initial copy of a subscription insert in
//!   bulk, too, but with the privileges of the current user.
//!
//! All other calls check the privileges of the current user. Such calls are in subqueries, in functions, in other
//! commands, or in the default of a domain, or their segment name is not a constant.
//!
//! A plan may be cached and executed by another role, so the twin checks privileges at run time. The table and the
//! segment name are arguments of the twin. These arguments are ordinary constants, which `EXPLAIN` can show.

use pgrx::prelude::*;

use super::copy;
use crate::pg::function::{self, declare_c_function};
use crate::pg::planned_call::{Argument, PlannedCall};
use crate::pg::{role, running_copy};

declare_c_function!(snowflake_segment_nextval_support);

/// The planner support function of `snowflake_segment_nextval()` and `snowflake_segment_next()`. Returns a call of a
/// twin, or a null pointer if the call must remain unchanged.
///
/// # Safety
/// Only PostgreSQL may call this function. The only argument is a node and is not NULL.
#[pg_guard]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn snowflake_segment_nextval_support(
    fcinfo: pg_sys::FunctionCallInfo,
) -> pg_sys::Datum {
    // SAFETY: guaranteed by this function's contract.
    let call = unsafe { PlannedCall::new(fcinfo) };
    pg_sys::Datum::from(call.and_then(replacement).unwrap_or(std::ptr::null_mut()))
}

fn replacement(call: PlannedCall) -> Option<*mut pg_sys::FuncExpr> {
    let name = call.text()?;
    let user = role::current_user();
    let is_default = |table: &pg_sys::Oid| call.is_in_default_of(*table);
    let (twin, table) = if copy::is_planning(call) {
        let table = running_copy::relation(user).filter(is_default);
        // If the user lacks the privilege on the function, the executor reports this for the unchanged call, as for
        // `snowflake_nextval()`.
        let is_allowed = table.is_some() || function::may_execute(user, call.function());
        if !is_allowed || !copy::is_too_dear_to_repeat() {
            return None;
        }
        (c"snowflake_segment_nextval_in_copy", table.unwrap_or(pg_sys::InvalidOid))
    } else {
        (c"snowflake_segment_nextval_in_default", call.target_of_insert().filter(is_default)?)
    };
    let arguments = [
        Argument::Oid(pg_sys::REGPROCEDUREOID, call.function()),
        name,
        Argument::Oid(pg_sys::REGCLASSOID, table),
        Argument::Internal,
    ];
    call.replaced_by(user, twin, arguments)
}
