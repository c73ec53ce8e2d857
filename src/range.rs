//! Ranges of time as ranges of IDs, which the index on the ID answers: `snowflake_min_id` and `snowflake_max_id`. The
//! predicates on top of them are SQL (`sql/range.sql`), so that the planner sees through them.

use pgrx::prelude::*;

use crate::config;
use crate::convert::LayoutArgument;
use crate::decode::unix_us;
use crate::error::OrReport;

#[pg_extern(name = "snowflake_min_id", stable, parallel_safe)]
fn snowflake_min_id(instant: TimestampWithTimeZone) -> i64 {
    config::layout().or_report().min_id(unix_us(instant))
}

#[pg_extern(name = "snowflake_min_id", immutable, parallel_safe)]
fn snowflake_min_id_as(instant: TimestampWithTimeZone, layout: LayoutArgument) -> i64 {
    layout.0.min_id(unix_us(instant))
}

#[pg_extern(name = "snowflake_max_id", stable, parallel_safe)]
fn snowflake_max_id(instant: TimestampWithTimeZone) -> i64 {
    config::layout().or_report().max_id(unix_us(instant))
}

#[pg_extern(name = "snowflake_max_id", immutable, parallel_safe)]
fn snowflake_max_id_as(instant: TimestampWithTimeZone, layout: LayoutArgument) -> i64 {
    layout.0.max_id(unix_us(instant))
}
