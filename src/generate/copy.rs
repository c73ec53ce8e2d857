//! Lets `COPY` insert rows in bulk into tables where `snowflake_nextval()` is a default, as it does with a
//! sequence.
//!
//! PostgreSQL inserts in bulk only if no default is volatile: a volatile function might read the table that
//! is being filled, and would miss the buffered rows. PostgreSQL's own `nextval()` is the only exception.
//! `snowflake_nextval()` reads no table either. So when `COPY` plans its defaults, the planner support
//! function below replaces the call by a call of a twin: the same C function, declared STABLE. `COPY`
//! evaluates a default for each row, whatever its volatility.
//!
//! Anywhere else, a STABLE twin would be wrong. `ALTER TABLE .. ADD COLUMN` would give all rows the same ID,
//! an index condition would be looked up with one ID, and a cached plan would no longer check the privilege
//! on the function. So the replacement must happen only in `COPY`:
//!
//! * Queries are planned with a `PlannerInfo`. So are the expressions of PL/pgSQL, and everything else in the
//!   plan cache.
//! * `COPY FROM` plans its defaults in a memory context of its own named `COPY`. All other code that plans an
//!   expression without a query does so in another context: `ALTER TABLE` and other commands in the context
//!   of the statement; CHECK constraints, trigger conditions and generated columns in that of the executor;
//!   domain constraints, which are cached, in `Domain constraints`; immutable expressions that are evaluated
//!   in advance, in that of an expression. `COPY .. WHERE` is planned before the context `COPY` is created,
//!   and code that runs while rows are read does not switch to it. `COPY TO` has such a context too, but
//!   evaluates nothing that was planned in it without a `PlannerInfo`. (Verified in PostgreSQL 15, 17 and 18.
//!   If the name ever changes, rows are inserted one by one, and tests report it.)
//! * Users cannot write a call of the twin, as its argument is of type `internal`.
//!
//! A hook that reports the current command could not replace these checks. It shows that a `COPY` is running,
//! but not whether its defaults are being planned or something that is cached.

use std::ffi::CStr;

use pgrx::prelude::*;

use crate::pg::function::{self, declare_c_function};
use crate::pg::role;

/// The cost of a call of the STABLE twin, in operators, as declared in `sql/parts/copy.sql`. See
/// [`is_too_dear_to_repeat`].
const COST_IN_OPERATORS: f64 = 1_000.0;

declare_c_function!(snowflake_nextval_support);

/// The planner support function of `snowflake_nextval()`. Returns a call of the STABLE twin, or a null
/// pointer if the call must remain unchanged.
///
/// The executor checks the privilege on the called function when it initializes the expression, which is the
/// next step. If the user lacks the privilege on either function, the call is left unchanged, because an
/// error about the twin would be misleading.
///
/// # Safety
/// Only PostgreSQL may call this function. The only argument is a node and is not NULL.
#[pg_guard]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn snowflake_nextval_support(fcinfo: pg_sys::FunctionCallInfo) -> pg_sys::Datum {
    // SAFETY: guaranteed by this function's contract.
    let request = unsafe { (*(*fcinfo).args.as_ptr()).value.cast_mut_ptr() };
    // SAFETY: as above.
    let twin = match unsafe { call_in_default_of_copy(request) } {
        Some(original) if function::may_execute(role::current_user(), original) => call_of_twin(),
        _ => None,
    };
    pg_sys::Datum::from(twin.unwrap_or(std::ptr::null_mut()))
}

/// Returns the called function if `COPY FROM` is planning a column default.
///
/// # Safety
/// `request` points to a node.
unsafe fn call_in_default_of_copy(request: *mut pg_sys::Node) -> Option<pg_sys::Oid> {
    // SAFETY: a node has the type that its tag says. PostgreSQL always has a current memory context, and
    // every context has a name.
    unsafe {
        if !pgrx::is_a(request, pg_sys::NodeTag::T_SupportRequestSimplify) {
            return None;
        }
        let request = request.cast::<pg_sys::SupportRequestSimplify>();
        let context = CStr::from_ptr((*pg_sys::CurrentMemoryContext).name);
        ((*request).root.is_null() && context == c"COPY").then(|| (*(*request).fcall).funcid)
    }
}

/// Returns a call of the STABLE twin if the current user has the privilege to call the function.
fn call_of_twin() -> Option<*mut pg_sys::FuncExpr> {
    // SAFETY: only looks up the catalog; the name is a C string.
    let schema = unsafe { pg_sys::get_namespace_oid(c"snowflake_internal".as_ptr(), true) };
    let twin = function::function_in(schema, c"snowflake_nextval_in_copy", pg_sys::INTERNALOID);
    if twin == pg_sys::Oid::INVALID || !function::may_execute(role::current_user(), twin) || !is_too_dear_to_repeat() {
        return None;
    }
    // SAFETY: creates nodes in the current memory context, where the planner expects them. The argument has
    // the width of a `Datum`, like all values of type `internal`. The value of the argument is never read.
    unsafe {
        let argument = pg_sys::makeConst(
            pg_sys::INTERNALOID,
            -1,
            pg_sys::Oid::INVALID,
            size_of::<pg_sys::Datum>() as i32,
            pg_sys::Datum::null(),
            false,
            true,
        );
        Some(pg_sys::makeFuncExpr(
            twin,
            pg_sys::INT8OID,
            pg_sys::lappend(std::ptr::null_mut(), argument.cast()),
            pg_sys::Oid::INVALID,
            pg_sys::Oid::INVALID,
            pg_sys::CoercionForm::COERCE_EXPLICIT_CALL,
        ))
    }
}

/// Returns whether a call of the STABLE twin is too expensive for the planner to duplicate. When the planner
/// inlines an SQL function that uses its argument twice, it duplicates the argument unless the argument is
/// volatile or costs more than ten operators. The twin is not volatile, so the planner considers its cost.
/// The planner treats a number that is compared with a range in the same way. If `cpu_operator_cost` is 0, or
/// so large that all costs are infinite, all costs are equal.
fn is_too_dear_to_repeat() -> bool {
    // SAFETY: reads a setting of this process.
    let operator = unsafe { pg_sys::cpu_operator_cost };
    COST_IN_OPERATORS * operator > 10.0 * operator
}
