//! The cases in which a call in a default may be replaced by a call of the STABLE twin.
//!
//! Outside of `COPY`, a STABLE twin would be wrong. `ALTER TABLE .. ADD COLUMN` would give all rows the same ID, an
//! index scan would look up only one ID, and a cached plan would no longer check the privilege on the function. Two
//! facts show whether `COPY` is planning its defaults:
//!
//! * Queries are planned with a `PlannerInfo`, as are the expressions of PL/pgSQL and everything else in the plan
//!   cache.
//! * `COPY FROM` plans its defaults without a `PlannerInfo`, in a memory context of its own named `COPY`.
//!
//! All other code that plans expressions without a `PlannerInfo` can be told apart (verified in PostgreSQL 15, 17 and
//! 18):
//!
//! * `ALTER TABLE` and other commands use the context of the statement.
//! * CHECK constraints, trigger conditions and generated columns use the context of the executor.
//! * Cached domain constraints use the context `Domain constraints`.
//! * Immutable expressions that are evaluated in advance use the context of an expression.
//! * `COPY .. WHERE` is planned before the context `COPY` is created. Code that runs while rows are read does not
//!   switch to the context `COPY`.
//! * `COPY TO` creates a context of the same name, but evaluates nothing that was planned in this context without a
//!   `PlannerInfo`.
//!
//! If PostgreSQL ever changes the name of the context, `COPY` inserts rows one by one, and tests fail.
//!
//! A hook that reports the current command could not replace these checks. Such a hook shows that `COPY` is running,
//! but not whether `COPY` is planning its defaults. A cached plan, for example, may be planned while `COPY` is running.

use pgrx::pg_sys;

use crate::pg::planned_call::PlannedCall;
use crate::pg::running_copy;

/// The cost of a call of the STABLE twins, in operators, as declared in `sql/parts/defaults.sql`.
const COST_IN_OPERATORS: f64 = 1_000.0;

/// Returns whether `COPY FROM` is planning the default that contains the call.
pub fn is_planning(call: PlannedCall) -> bool {
    call.has_no_query() && running_copy::is_planning_defaults()
}

/// Returns whether a call of a STABLE twin is too expensive for the planner to duplicate. When the planner inlines an
/// SQL function that uses its argument twice, it duplicates the argument unless the argument is volatile or costs more
/// than ten operators. The twin is not volatile, so only the cost of the twin prevents the duplication. The planner
/// applies the same rule to a number when it simplifies a test whether a range contains the number. If
/// `cpu_operator_cost` is 0, or so large that all costs are infinite, all costs are equal, and this function returns
/// false.
pub fn is_too_dear_to_repeat() -> bool {
    // SAFETY: reads a setting of this process.
    let operator = unsafe { pg_sys::cpu_operator_cost };
    COST_IN_OPERATORS * operator > 10.0 * operator
}
