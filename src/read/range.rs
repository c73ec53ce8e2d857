//! Defines `snowflake_min_id` and `snowflake_max_id`, which convert a range of time to a range of IDs. A query can then
//! use an index on the ID. `sql/parts/range.sql` declares these functions, and defines predicates that call the
//! functions. The predicates are written in SQL, so that the planner can inline them.

use snowflake_id_core::{Layout, RangeError};

use crate::pg::timestamp::unix_us;
use crate::read::direct::direct;

direct! {
    snowflake_min_id: Setting, min_id;
    snowflake_min_id_as: Argument, min_id;
    snowflake_max_id: Setting, max_id;
    snowflake_max_id_as: Argument, max_id;
}

#[inline]
fn min_id(layout: &Layout, instant: i64) -> Result<Option<i64>, RangeError> {
    Ok(Some(layout.min_id(unix_us(instant))))
}

#[inline]
fn max_id(layout: &Layout, instant: i64) -> Result<Option<i64>, RangeError> {
    Ok(Some(layout.max_id(unix_us(instant))))
}
