//! A script that creates SQL functions for generating the IDs of a layout on servers without the extension.
//!
//! The counter of an ID is the sum of two sequences. `snowflake_generator_counter` is only ever incremented.
//! `snowflake_generator_base` is raised, under a lock, when the sum is behind the clock. A call reads the base,
//! increments the counter, and reads the base again. If both readings are equal, the base had this value when the
//! counter was incremented, because the base never decreases. No sum is repeated, because the counter increases
//! with each call and the base does not decrease.
//!
//! `docs/design/generator.md` describes why this is safe. The script also creates the functions for reading IDs.

use crate::error::RangeError;
use crate::field::Field;
use crate::identity::Identity;
use crate::layout::{Layout, Parts};
use crate::message::instant;
use crate::reader_sql::{binary, shifted};

/// The maximum time by which the start of an ID's tick may be ahead of the clock, in microseconds. If a tick is
/// longer than this time, no ID is ahead of the clock.
const MAX_AHEAD_US: u64 = 1_000_000;
/// The maximum time that a call waits for the clock, in microseconds.
const MAX_WAIT_US: u64 = 5_000_000;
/// The time by which a session raises the base ahead of the clock if another session has just raised the base, in
/// microseconds.
const MAX_LEAD_US: u64 = 20_000;
/// The maximum number of IDs that one call of `snowflake_batch` returns.
const MAX_BATCH: u64 = 1_000_000;

impl Layout {
    /// Returns the script. The names of the new objects are not schema-qualified, so the objects are created in
    /// the first schema of the search path. The field `clock_seq` of the IDs is 0.
    ///
    /// # Errors
    /// Returns [`RangeError::Field`] if the identity does not fit the layout.
    pub fn generator_sql(&self, identity: Identity) -> Result<String, RangeError> {
        let fixed_fields = self.pack(&Parts {
            datacenter: identity.datacenter.into(),
            worker: identity.worker.into(),
            ..Parts::default()
        })?;
        let sequence_bits = self.bits(Field::Sequence);
        let ticks_ahead = MAX_AHEAD_US / self.unit_us();
        let ticks_waiting = ticks_ahead + MAX_WAIT_US / self.unit_us();
        let lead = (MAX_LEAD_US / self.unit_us()).min(self.ticks() - 1);
        let elapsed_us = binary("now_us", "-", &integer(self.epoch_us()));
        let tick = binary(&elapsed_us, "/", &self.unit_us().to_string());
        let values = [
            ("layout", self.to_string()),
            ("identity", identity.to_string()),
            ("start", self.start_of_sequences(identity).to_string()),
            ("epoch", instant(self.epoch_us())),
            ("end", instant(self.end_us())),
            ("ids_per_second", format!("{:.1}", self.ids_per_second())),
            ("time_bits", self.bits(Field::Time).to_string()),
            ("sequence_bits", sequence_bits.to_string()),
            ("unit_us", self.unit_us().to_string()),
            ("epoch_us", integer(self.epoch_us())),
            ("end_us", integer(self.end_us())),
            ("now_us", unix_us_sql("pg_catalog.clock_timestamp()")),
            ("floor_us", unix_us_sql("floor")),
            ("counter_at_clock", shifted(&tick, "<<", sequence_bits)),
            ("last", self.last_counter(self.ticks() - 1).to_string()),
            ("ticks_ahead", ticks_ahead.to_string()),
            ("most_ahead", self.last_counter(ticks_ahead).to_string()),
            ("taken_bits", (self.last_counter(ticks_waiting) + 1).ilog2().to_string()),
            ("lead", (lead << sequence_bits).to_string()),
            ("max_wait_us", MAX_WAIT_US.to_string()),
            ("most_batch", MAX_BATCH.min(self.last_counter(ticks_waiting) + 1).to_string()),
            ("id", self.id_of_counter_sql(fixed_fields)),
            ("reader", self.reader_functions_sql("CREATE OR REPLACE")),
        ];
        let mut script = include_str!("generator_sql.sql").to_owned();
        for (name, value) in values {
            script = script.replace(&format!("{{{name}}}"), &value);
        }
        Ok(script)
    }

    /// Returns the start value of both sequences. The script sets new sequences to 0, so the start value only
    /// distinguishes their definitions. The probability that two generators with different layouts or worker IDs
    /// have the same start value is 2^-32.
    ///
    /// Since PostgreSQL 19, logical replication can set a sequence of a subscriber to the value of the same
    /// sequence on the publisher. The subscriber could then repeat IDs. PostgreSQL does not set the sequence if
    /// the definitions differ.
    fn start_of_sequences(&self, identity: Identity) -> u32 {
        crc32fast::hash(format!("{self}, {identity}").as_bytes())
    }

    /// Returns the last counter of a tick, or the largest `bigint` if that is smaller.
    fn last_counter(&self, tick: u64) -> u64 {
        let next = (u128::from(tick) + 1) << self.bits(Field::Sequence);
        u64::try_from(next - 1).unwrap_or(u64::MAX).min(i64::MAX as u64)
    }

    /// Returns an SQL expression that converts the variable `counter` to an ID.
    fn id_of_counter_sql(&self, fixed_fields: i64) -> String {
        let sequence_bits = self.bits(Field::Sequence);
        let tick = shifted("counter", ">>", sequence_bits);
        let mut id = shifted(&tick, "<<", self.shift(Field::Time));
        if sequence_bits > 0 {
            let sequence = binary("counter", "&", &self.max(Field::Sequence).to_string());
            id = binary(&id, "|", &shifted(&sequence, "<<", self.shift(Field::Sequence)));
        }
        if fixed_fields > 0 {
            id = binary(&id, "|", &fixed_fields.to_string());
        }
        id
    }
}

/// Returns an SQL expression for a `timestamptz` in microseconds of Unix time. The result is exact until the year
/// 2255. After that, the result differs from the exact number by a few microseconds.
fn unix_us_sql(instant: &str) -> String {
    let us = binary(&format!("pg_catalog.date_part('epoch', {instant})"), "*", "1000000::pg_catalog.float8");
    format!("{us}::pg_catalog.int8")
}

/// Returns the SQL literal of an integer, which can be negative.
fn integer(number: i64) -> String {
    match number {
        ..0 => format!("({number})"),
        _ => number.to_string(),
    }
}
