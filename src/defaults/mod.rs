//! Calls of `snowflake_nextval()` and `snowflake_segment_nextval()` in defaults of columns.
//!
//! A planner support function replaces such a call with a call of a twin. The twin does the same as the original
//! function, with two differences:
//!
//! * **`COPY` inserts rows in bulk**, as with a default that calls `nextval()`. PostgreSQL inserts in bulk only if no
//!   default is volatile, because a volatile function might read the table that is being filled, and would miss the
//!   buffered rows. PostgreSQL makes an exception only for `nextval()`. Our functions do not read such a table either,
//!   so the twin in [`copy`] is declared STABLE. `COPY` evaluates a default for every row, even if the function is
//!   STABLE.
//! * **The privilege to insert rows is sufficient** for a default that takes numbers of a segment, as for an identity
//!   column ([`segment`]). The twin checks the privileges of the table's owner.
//!
//! Users cannot write a call of a twin, because its last argument is of type `internal`. Such calls occur only in
//! plans, and never in definitions or dumps.

mod copy;
mod nextval;
mod segment;
