//! The function `snowflake_guess_layout` returns the presets with which an ID may have been created.

use pgrx::datum::datetime_support::now;
use pgrx::prelude::*;
use snowflake_id_core::guess::guess;

use crate::pg::timestamp::{timestamptz, unix_us};

/// Returns a row for each preset with which the ID may have been created, starting with the most likely
/// preset. The time of the ID may be at most one minute after `now()`.
#[pg_extern(stable, parallel_safe)]
#[allow(clippy::type_complexity)] // pgrx reads the columns from the type itself.
fn snowflake_guess_layout(
    id: i64,
) -> TableIterator<
    'static,
    (
        name!(layout, &'static str),
        name!(generated_at, TimestampWithTimeZone),
        name!(datacenter_id, Option<i32>),
        name!(worker_id, Option<i32>),
        name!(clock_seq, Option<i32>),
        name!(sequence, Option<i64>),
    ),
> {
    // An identity field has at most 31 bits, and a sequence at most 62 bits.
    let integer = |value: Option<u32>| value.map(|value| value as i32);
    TableIterator::new(guess(id, unix_us(now().into_inner())).into_iter().map(move |guess| {
        let decoded = guess.decoded;
        (
            guess.preset.name,
            timestamptz(decoded.generated_at),
            integer(decoded.datacenter_id),
            integer(decoded.worker_id),
            integer(decoded.clock_seq),
            decoded.sequence.map(|value| value as i64),
        )
    }))
}
