//! Calls of `snowflake_nextval()` and `snowflake_segment_nextval()` in defaults of columns.
//!
//! A planner support function replaces such a call by a call of a twin, which does the same, but differs in two ways:
//!
//! * **`COPY` inserts rows in bulk**, as it does with a sequence. PostgreSQL inserts in bulk only if no default is
//!   volatile: a volatile function might read the table that is being filled, and would miss the buffered rows.
//!   PostgreSQL's own `nextval()` is the only exception. Our functions read no table that is being filled either.
//!   Therefore, the twin in [`copy`] is declared STABLE. `COPY` evaluates a default for each row, whatever its
//!   volatility.
//! * **The privilege to insert rows is sufficient** for a default that takes numbers of a segment, as for an identity
//!   column ([`segment`]). The twin checks the privileges of the table's owner.
//!
//! Users cannot write a call of a twin, because its last argument is of type `internal`. No definition and no dump
//! contains such a call, because only plans do.

mod copy;
mod nextval;
mod segment;
