//! The cases in which a call in a default may be replaced by a call of the STABLE twin.
//!
//! Outside of `COPY`, a STABLE twin would be wrong. `ALTER TABLE .. ADD COLUMN` would give all rows the same ID, an
//! index condition would be looked up with one ID, and a cached plan would no longer check the privilege on the
//! function. Two facts show whether `COPY` is planning its defaults:
//!
//! * Queries are planned with a `PlannerInfo`, as are the expressions of PL/pgSQL and everything else in the plan
//!   cache.
//! * `COPY FROM` plans its defaults without a `PlannerInfo`, in a memory context of its own named `COPY`.
//!
//! All other code that plans an expression without a query uses a different context: `ALTER TABLE` and other commands
//! use the context of the statement. CHECK constraints, trigger conditions and generated columns use that of the
//! executor, and cached domain constraints use `Domain constraints`. Immutable expressions that are evaluated in
//! advance use the context of an expression. `COPY .. WHERE` is planned before the context `COPY` is created, and code
//! that runs while rows are read does not switch to it. `COPY TO` has such a context, too, but evaluates nothing that
//! was planned in it without a `PlannerInfo`. (Verified in PostgreSQL 15, 17 and 18. If the name ever changes, rows are
//! inserted one by one, and tests report it.)
//!
//! A hook that reports the current command could not replace these checks. It shows that a `COPY` is running, but not
//! whether the defaults or something that is cached is being planned.

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
/// than ten operators. The twin is not volatile, so only its cost prevents this. The planner applies the same rule to a
/// number that is compared with a range. If `cpu_operator_cost` is 0, or so large that all costs are infinite, all
/// costs are equal.
pub fn is_too_dear_to_repeat() -> bool {
    // SAFETY: reads a setting of this process.
    let operator = unsafe { pg_sys::cpu_operator_cost };
    COST_IN_OPERATORS * operator > 10.0 * operator
}
