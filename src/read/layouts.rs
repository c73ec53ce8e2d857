//! Descriptions of layouts: view `snowflake_presets`, and `snowflake_describe_layout`.

use pgrx::JsonB;
use pgrx::prelude::*;
use snowflake_id_core::Field;
use snowflake_id_core::layout::presets::PRESETS;

use crate::pg::timestamp::{interval, timestamptz};
use crate::read::layout_argument::LayoutArgument;

/// Returns the names of the presets for view `snowflake_presets`.
#[pg_extern(schema = "snowflake_internal", immutable, parallel_safe)]
fn snowflake_preset_names() -> Vec<&'static str> {
    PRESETS.iter().map(|preset| preset.name).collect()
}

/// Returns one row with the properties of a layout.
#[pg_extern(immutable, parallel_safe)]
#[allow(clippy::type_complexity)] // pgrx reads the columns from the type itself.
fn snowflake_describe_layout(
    layout: LayoutArgument,
) -> TableIterator<
    'static,
    (
        name!(layout, String),
        name!(time_bits, i32),
        name!(datacenter_bits, i32),
        name!(worker_bits, i32),
        name!(clock_seq_bits, i32),
        name!(sequence_bits, i32),
        name!(unit, Interval),
        name!(epoch, TimestampWithTimeZone),
        name!(workers, i64),
        name!(ids_per_second, f64),
        name!(exhausted_at, TimestampWithTimeZone),
        name!(fits_in_53_bits, bool),
        name!(as_json, JsonB),
    ),
> {
    let LayoutArgument(layout) = layout;
    let bits = |field: Field| layout.bits(field) as i32;
    TableIterator::once((
        layout.to_string(),
        bits(Field::Time),
        bits(Field::Datacenter),
        bits(Field::Worker),
        bits(Field::ClockSeq),
        bits(Field::Sequence),
        interval(layout.unit_us() as i64),
        timestamptz(layout.epoch_us()),
        layout.workers() as i64,
        layout.ids_per_second(),
        timestamptz(layout.end_us()),
        layout.fits_in_53_bits(),
        JsonB(serde_json::to_value(layout).expect("bug: a layout cannot be written as JSON")),
    ))
}
