//! Has `COPY` insert rows in bulk where `snowflake_nextval()` is a default, as it does with a sequence.
//!
//! PostgreSQL inserts in bulk only if no default is volatile: one that is might look into the table that is
//! being filled, and would miss the rows of the batch. Its own `nextval()` is the one exception.
//! `snowflake_nextval()` looks into no table either. So when `COPY` has its defaults planned, the planner
//! support function below puts a twin in the place of the call: the same C function, declared STABLE. `COPY`
//! evaluates a default anew for each row, whatever it is declared as.
//!
//! Elsewhere a STABLE twin would be wrong: `ALTER TABLE .. ADD COLUMN` would give all rows one ID, an index
//! condition would be looked up with one ID, and a plan that is kept would go on without asking for the right
//! to the function. So nobody else may get it:
//!
//! * Queries are planned with a `PlannerInfo`; so are the expressions of PL/pgSQL, and whatever else is kept
//!   in the plan cache.
//! * `COPY FROM` plans its defaults in a memory context of its own named `COPY`. Whoever else plans a lone
//!   expression does so in another one: `ALTER TABLE` and other commands in that of the statement; CHECK
//!   constraints, conditions of triggers and generated columns in that of the executor; constraints of
//!   domains, which are kept, in `Domain constraints`; what is evaluated beforehand, as it is immutable, in
//!   that of an expression. `COPY .. WHERE` is planned before the context is made; what runs while rows are
//!   read does not switch to it. `COPY TO` has such a context as well, but nothing is evaluated that was
//!   planned in it without a `PlannerInfo`. (Looked up in PostgreSQL 15, 17 and 18. Should the name change
//!   one day, rows are inserted one by one, and tests say so.)
//! * Nobody can write a call of the twin, as its argument is of type `internal`.
//!
//! A hook that says which command is under way would not do instead. It knows that there is a `COPY`, not
//! whether the defaults are being planned or something that is kept.

use std::ffi::CStr;

use pgrx::prelude::*;

use crate::pg::function::{self, declare_c_function};

/// What a call of the twin costs the planner, in operators, as declared in `sql/parts/copy.sql`. See
/// [`is_too_dear_to_repeat`].
const COST_IN_OPERATORS: f64 = 1_000.0;

declare_c_function!(snowflake_nextval_support);

/// The planner support function of `snowflake_nextval()`: a call of the twin, or a null pointer for "as it
/// is".
///
/// The executor checks the right to what is called when it takes over the expression, which is next. Without
/// the right to both, the call is left as it is: an error about the twin would be of no use to anybody.
///
/// # Safety
/// Called by PostgreSQL alone, with a node as its only argument, which is not NULL.
#[pg_guard]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn snowflake_nextval_support(fcinfo: pg_sys::FunctionCallInfo) -> pg_sys::Datum {
    // SAFETY: by this function's contract.
    let request = unsafe { (*(*fcinfo).args.as_ptr()).value.cast_mut_ptr() };
    // SAFETY: as above.
    let twin = match unsafe { call_in_default_of_copy(request) } {
        Some(original) if function::may_execute(original) => call_of_twin(),
        _ => None,
    };
    pg_sys::Datum::from(twin.unwrap_or(std::ptr::null_mut()))
}

/// The function that is called, if `COPY FROM` is having a default planned.
///
/// # Safety
/// `request` points to a node.
unsafe fn call_in_default_of_copy(request: *mut pg_sys::Node) -> Option<pg_sys::Oid> {
    // SAFETY: a node has the type that its tag says. There always is a current memory context, and each has a
    // name.
    unsafe {
        if !pgrx::is_a(request, pg_sys::NodeTag::T_SupportRequestSimplify) {
            return None;
        }
        let request = request.cast::<pg_sys::SupportRequestSimplify>();
        let context = CStr::from_ptr((*pg_sys::CurrentMemoryContext).name);
        ((*request).root.is_null() && context == c"COPY").then(|| (*(*request).fcall).funcid)
    }
}

/// A call of the twin, if the current user may call it.
fn call_of_twin() -> Option<*mut pg_sys::FuncExpr> {
    // SAFETY: a lookup in the catalog; the name is a C string.
    let schema = unsafe { pg_sys::get_namespace_oid(c"snowflake_internal".as_ptr(), true) };
    let twin = function::function_in(schema, c"snowflake_nextval_in_copy", pg_sys::INTERNALOID);
    if twin == pg_sys::Oid::INVALID || !function::may_execute(twin) || !is_too_dear_to_repeat() {
        return None;
    }
    // SAFETY: makes nodes, in the memory context in which the planner expects them. The argument, whose value
    // nobody reads, is as wide as a Datum, as values of type internal are.
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

/// Whether the planner leaves the twin where it is. An SQL function that uses its argument twice it replaces
/// by its body, with two copies of the argument, unless that is volatile, which the twin is not, or costs
/// more than ten operators. The same goes for a number compared with a range. With a `cpu_operator_cost` of
/// 0, or one so large that all costs are infinite, nothing costs more.
fn is_too_dear_to_repeat() -> bool {
    // SAFETY: a setting, read by the process that it belongs to.
    let operator = unsafe { pg_sys::cpu_operator_cost };
    COST_IN_OPERATORS * operator > 10.0 * operator
}
