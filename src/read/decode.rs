//! Defines the functions that decode and encode IDs: `snowflake_decode`, the accessors, and `snowflake_encode`.
//!
//! Each function has two forms. The first form uses the layout in setting `snowflake_id.layout`, and is STABLE because
//! the setting may change. The second form has a layout as an argument, and is IMMUTABLE. The accessors are declared in
//! `sql/parts/decode.sql`.

use pgrx::IntoDatum;
use pgrx::prelude::*;
use snowflake_id_core::{Field, Layout, Parts, RangeError};

use crate::config;
use crate::error::{Error, OrReport};
use crate::pg::row::Row;
use crate::pg::timestamp::{POSTGRES_EPOCH_US, timestamptz, unix_us};
use crate::read::direct::direct;
use crate::read::layout_argument::LayoutArgument;

fn decode(fcinfo: pg_sys::FunctionCallInfo, layout: &Layout, id: i64) -> Result<Row, Error> {
    let decoded = layout.decode(id)?;
    // An identity field has at most 31 bits, and a sequence at most 62 bits.
    let integer = |value: Option<u32>| value.and_then(|value| (value as i32).into_datum());
    Ok(Row::new(
        fcinfo,
        [
            timestamptz(decoded.generated_at).into_datum(),
            integer(decoded.datacenter_id),
            integer(decoded.worker_id),
            integer(decoded.clock_seq),
            decoded.sequence.and_then(|value| (value as i64).into_datum()),
        ],
    ))
}

/// The fields of an ID in SQL, except for the time.
struct Fields {
    worker_id: i32,
    sequence: i64,
    datacenter_id: i32,
    clock_seq: i32,
}

fn encode(layout: &Layout, generated_at: TimestampWithTimeZone, fields: &Fields) -> Result<i64, Error> {
    let value = |field: Field, value: i64| {
        u64::try_from(value).map_err(|_| RangeError::Field {
            field,
            value: value.into(),
            max: layout.max(field),
        })
    };
    let parts = Parts {
        tick: layout.tick_at(unix_us(generated_at.into_inner()))?,
        datacenter: value(Field::Datacenter, fields.datacenter_id.into())?,
        worker: value(Field::Worker, fields.worker_id.into())?,
        clock_seq: value(Field::ClockSeq, fields.clock_seq.into())?,
        sequence: value(Field::Sequence, fields.sequence)?,
    };
    Ok(layout.pack(&parts)?)
}

#[pg_extern(
    name = "snowflake_decode",
    stable,
    parallel_safe,
    sql = "
CREATE FUNCTION snowflake_decode(
    id bigint,
    OUT generated_at timestamptz, OUT datacenter_id int, OUT worker_id int, OUT clock_seq int, OUT sequence bigint
) STRICT STABLE PARALLEL SAFE LANGUAGE c AS 'MODULE_PATHNAME', '@FUNCTION_NAME@';
"
)]
fn snowflake_decode(id: i64, fcinfo: pg_sys::FunctionCallInfo) -> Row {
    config::layout().and_then(|layout| decode(fcinfo, &layout, id)).or_report()
}

#[pg_extern(
    name = "snowflake_decode",
    immutable,
    parallel_safe,
    sql = "
CREATE FUNCTION snowflake_decode(
    id bigint, layout text,
    OUT generated_at timestamptz, OUT datacenter_id int, OUT worker_id int, OUT clock_seq int, OUT sequence bigint
) STRICT IMMUTABLE PARALLEL SAFE LANGUAGE c AS 'MODULE_PATHNAME', '@FUNCTION_NAME@';
"
)]
fn snowflake_decode_as(id: i64, layout: LayoutArgument, fcinfo: pg_sys::FunctionCallInfo) -> Row {
    decode(fcinfo, &layout.0, id).or_report()
}

direct! {
    snowflake_timestamp: Setting, timestamp;
    snowflake_timestamp_as: Argument, timestamp;
    snowflake_datacenter: Setting, datacenter;
    snowflake_datacenter_as: Argument, datacenter;
    snowflake_worker: Setting, worker;
    snowflake_worker_as: Argument, worker;
    snowflake_clock_seq: Setting, clock_seq;
    snowflake_clock_seq_as: Argument, clock_seq;
    snowflake_sequence: Setting, sequence;
    snowflake_sequence_as: Argument, sequence;
}

#[inline]
fn timestamp(layout: &Layout, id: i64) -> Result<Option<i64>, RangeError> {
    Ok(Some(layout.time_of(id)? - POSTGRES_EPOCH_US))
}

#[inline]
fn datacenter(layout: &Layout, id: i64) -> Result<Option<i64>, RangeError> {
    field(layout, Field::Datacenter, id)
}

#[inline]
fn worker(layout: &Layout, id: i64) -> Result<Option<i64>, RangeError> {
    field(layout, Field::Worker, id)
}

#[inline]
fn clock_seq(layout: &Layout, id: i64) -> Result<Option<i64>, RangeError> {
    field(layout, Field::ClockSeq, id)
}

#[inline]
fn sequence(layout: &Layout, id: i64) -> Result<Option<i64>, RangeError> {
    field(layout, Field::Sequence, id)
}

#[inline]
fn field(layout: &Layout, field: Field, id: i64) -> Result<Option<i64>, RangeError> {
    // An identity field has at most 31 bits, so it fits in an `int`. A sequence has at most 62 bits.
    Ok(layout.field_of(field, id)?.map(|value| value as i64))
}

#[pg_extern(name = "snowflake_encode", stable, parallel_safe)]
fn snowflake_encode(
    generated_at: TimestampWithTimeZone,
    worker_id: i32,
    sequence: i64,
    datacenter_id: default!(i32, 0),
    clock_seq: default!(i32, 0),
) -> i64 {
    let fields = Fields { worker_id, sequence, datacenter_id, clock_seq };
    config::layout().and_then(|layout| encode(&layout, generated_at, &fields)).or_report()
}

#[pg_extern(name = "snowflake_encode", immutable, parallel_safe)]
fn snowflake_encode_as(
    generated_at: TimestampWithTimeZone,
    worker_id: i32,
    sequence: i64,
    layout: LayoutArgument,
    datacenter_id: default!(i32, 0),
    clock_seq: default!(i32, 0),
) -> i64 {
    let fields = Fields { worker_id, sequence, datacenter_id, clock_seq };
    encode(&layout.0, generated_at, &fields).or_report()
}
