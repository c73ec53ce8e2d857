//! Calls of `snowflake_nextval()` and `snowflake_segment_nextval()` in defaults of columns.
//!
//! A planner support function replaces such a call by a call of a twin. The twin does the same, except for two points:
//!
//! * **`COPY` inserts rows in bulk**, as it does with a sequence. PostgreSQL inserts in bulk only if no default is
//!   volatile, because a volatile function might read the table that is being filled, and would miss the buffered rows.
//!   PostgreSQL excepts only its own `nextval()`. Our functions do not read such a table either, so the twin in
//!   [`copy`] is declared STABLE. `COPY` evaluates a default for each row, whatever its volatility.
//! * **The privilege to insert rows is sufficient** for a default that takes numbers of a segment, as for an identity
//!   column ([`segment`]). The twin checks the privileges of the table's owner.
//!
//! Users cannot write a call of a twin, because its last argument is of type `internal`. Such calls occur only in
//! plans, and never in definitions or dumps.

mod copy;
mod nextval;
mod segment;
