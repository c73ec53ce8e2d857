//! A script that creates SQL functions for reading the IDs of a layout on servers without the extension.
//!
//! The functions have the same names and results as the functions of the extension. All names in the function
//! bodies are schema-qualified, so the search path of the caller does not matter. Each body is a single
//! immutable expression, and no function is STRICT. The planner can therefore inline the functions, and
//! conditions on time can use an index on the ID.
//!
//! As in the extension, an ID that is negative or too large for the layout raises an error. The functions
//! multiply such an ID by the smallest `bigint`, which fails with "bigint out of range" (22003).

use crate::field::Field;
use crate::layout::Layout;
use crate::message::instant;

const US_PER_DAY: u64 = 86_400_000_000;
const US_PER_SECOND: u64 = 1_000_000;

impl Layout {
    /// Returns the script. The names of the new functions are not schema-qualified, so the functions are
    /// created in the first schema of the search path.
    pub fn reader_sql(&self) -> String {
        format!(
            "-- Reads snowflake IDs of one layout, on a server without the extension snowflake_id:\n\
             --     {self}\n\
             -- The functions are made in the first schema of search_path. There can be one layout in a schema.\n{}",
            self.reader_functions_sql("CREATE")
        )
    }

    /// Returns the functions of the script. `create` is `CREATE` or `CREATE OR REPLACE`.
    pub(crate) fn reader_functions_sql(&self, create: &str) -> String {
        let int4 = "pg_catalog.int4";
        let int8 = "pg_catalog.int8";
        let timestamptz = "pg_catalog.timestamptz";
        let id = format!("id {int8}");
        let (generated_at, datacenter, worker, clock_seq, sequence) = (
            self.time_sql(),
            self.field_sql(Field::Datacenter, int4),
            self.field_sql(Field::Worker, int4),
            self.field_sql(Field::ClockSeq, int4),
            self.field_sql(Field::Sequence, int8),
        );
        let at_or_after = |instant: &str| binary("id", ">=", &self.min_id_sql(instant));
        let before = |instant: &str| binary("id", "<", &self.min_id_sql(instant));

        let row = format!(
            "TABLE (generated_at {timestamptz}, datacenter_id {int4}, worker_id {int4}, clock_seq {int4}, sequence {int8})"
        );
        let columns = format!(
            "{generated_at},\n       {datacenter},\n       {worker},\n       {clock_seq},\n       {sequence}"
        );
        let functions = [
            ("snowflake_decode", id.clone(), row, columns, "what is in a snowflake ID"),
            (
                "snowflake_timestamp",
                id.clone(),
                timestamptz.into(),
                generated_at,
                "when a snowflake ID was made",
            ),
            (
                "snowflake_datacenter",
                id.clone(),
                int4.into(),
                datacenter,
                "the datacenter ID in a snowflake ID",
            ),
            ("snowflake_worker", id.clone(), int4.into(), worker, "the worker ID in a snowflake ID"),
            ("snowflake_sequence", id.clone(), int8.into(), sequence, "the sequence in a snowflake ID"),
            (
                "snowflake_min_id",
                format!("instant {timestamptz}"),
                int8.into(),
                self.min_id_sql("instant"),
                "the smallest snowflake ID whose time is at or after an instant",
            ),
            (
                "snowflake_max_id",
                format!("instant {timestamptz}"),
                int8.into(),
                self.max_id_sql("instant"),
                "the largest snowflake ID whose time is at or before an instant",
            ),
            (
                "snowflake_since",
                format!("{id}, since {timestamptz}"),
                "pg_catalog.bool".into(),
                at_or_after("since"),
                "whether a snowflake ID was made at or after an instant",
            ),
            (
                "snowflake_before",
                format!("{id}, before {timestamptz}"),
                "pg_catalog.bool".into(),
                before("before"),
                "whether a snowflake ID was made before an instant",
            ),
            (
                "snowflake_between",
                format!("{id}, since {timestamptz}, before {timestamptz}"),
                "pg_catalog.bool".into(),
                format!("{}\nAND {}", at_or_after("since"), before("before")),
                "whether a snowflake ID was made at or after one instant and before another",
            ),
        ];

        let mut script = String::new();
        for (name, parameters, returns, expression, comment) in functions {
            let types: Vec<_> =
                parameters.split(", ").filter_map(|parameter| parameter.split(' ').nth(1)).collect();
            let types = types.join(", ");
            script += &format!(
                "\n{create} FUNCTION {name}({parameters}) RETURNS {returns}\n    \
                 LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$\n\
                 SELECT {expression}\n\
                 $$;\n\
                 COMMENT ON FUNCTION {name}({types}) IS '{comment}, layout {self}';\n"
            );
        }
        script
    }

    /// Returns an SQL expression that evaluates `expression` on an ID, and raises an error if the ID is
    /// invalid in the layout. The result is NULL if the ID is NULL.
    fn checked_sql(&self, expression: &str) -> String {
        let mut condition = binary("id", ">=", "0");
        if self.total_bits() < u64::BITS - 1 {
            condition += &format!(" AND {}", binary("id", "<=", &self.max_id(i64::MAX).to_string()));
        }
        let error = binary("id", "*", &format!("'{}'::pg_catalog.int8", i64::MIN));
        format!("CASE WHEN {condition} THEN {expression} ELSE {error} END")
    }

    /// Returns an SQL expression for one field of the ID. The result is NULL if the layout does not have the
    /// field.
    fn field_sql(&self, field: Field, sql_type: &str) -> String {
        let value = match self.bits(field) {
            0 => "NULL::pg_catalog.int8".into(),
            _ => binary(&shifted("id", ">>", self.shift(field)), "&", &self.max(field).to_string()),
        };
        format!("({})::{sql_type}", self.checked_sql(&value))
    }

    /// Returns an SQL expression for the time of the ID. Intervals store days and microseconds as separate
    /// integers, so multiplying an interval is exact. The interval is added to a `timestamp` rather than a
    /// `timestamptz`, because a day of a `timestamp` always has 24 hours.
    fn time_sql(&self) -> String {
        let base_tick = self.base_tick();
        let base = instant(self.scale().start_us(base_tick));
        let mut tick = self.checked_sql(&shifted("id", ">>", self.shift(Field::Time)));
        if base_tick > 0 {
            tick = binary(&format!("({tick})"), "-", &base_tick.to_string());
        }
        let us = binary(&format!("({tick})"), "*", &self.unit_us().to_string());
        let day = US_PER_DAY.to_string();
        let days = binary(&binary(&us, "/", &day), "*", "INTERVAL '1 day'");
        let rest = binary(&binary(&us, "%", &day), "*", "INTERVAL '1 microsecond'");
        let time =
            binary(&binary(&format!("TIMESTAMP '{}'", base.trim_end_matches('Z')), "+", &days), "+", &rest);
        format!("pg_catalog.timezone('UTC', {time})")
    }

    /// Returns the tick from which the script counts microseconds. The result is tick 0 if the number of
    /// microseconds from the epoch to the end of the layout fits in a `bigint`. Otherwise, the result is the
    /// first tick that starts in 1970 or later. (In this case, the epoch is before 1970.)
    fn base_tick(&self) -> u64 {
        match i64::try_from(u128::from(self.ticks()) * u128::from(self.unit_us())) {
            Ok(_) => 0,
            Err(_) => self.scale().first_tick_from(0),
        }
    }

    /// Returns SQL for [`Layout::min_id`].
    fn min_id_sql(&self, instant: &str) -> String {
        let tick = self.tick_sql(instant, self.unit_us() - 1);
        self.bound_sql(
            instant,
            ("<=", "0"),
            (">", self.min_id(i64::MAX)),
            &shifted(&tick, "<<", self.shift(Field::Time)),
        )
    }

    /// Returns SQL for [`Layout::max_id`].
    fn max_id_sql(&self, instant: &str) -> String {
        let next = binary(&self.tick_sql(instant, 0), "+", "1");
        let id = binary(&shifted(&next, "<<", self.shift(Field::Time)), "-", "1");
        self.bound_sql(instant, ("<", "-1"), (">=", self.max_id(i64::MAX)), &id)
    }

    /// Returns an SQL expression with separate results for times before the epoch, times after the start of
    /// the last tick, and times in between.
    fn bound_sql(
        &self,
        instant_sql: &str,
        first: (&str, &str),
        last: (&str, i64),
        otherwise: &str,
    ) -> String {
        let utc = utc(instant_sql);
        let epoch = instant(self.epoch_us());
        let epoch = format!("TIMESTAMP '{}'", epoch.trim_end_matches('Z'));
        // The start of the last tick may be in a year with more than four digits.
        let last_us = (u128::from(self.ticks() - 1) * u128::from(self.unit_us())) as u64;
        let (days, rest) = (last_us / US_PER_DAY, last_us % US_PER_DAY);
        let (seconds, us) = (rest / US_PER_SECOND, rest % US_PER_SECOND);
        let last_start = binary(&epoch, "+", &format!("INTERVAL '{days} days {seconds}.{us:06} seconds'"));
        format!(
            "CASE\n    WHEN {} THEN {}\n    WHEN {} THEN {}\n    ELSE {otherwise}\nEND",
            binary(&utc, first.0, &epoch),
            first.1,
            binary(&utc, last.0, &last_start),
            last.1
        )
    }

    /// Returns an SQL expression for the tick of a time within the layout. `added_us` microseconds are added
    /// to the time. The calculation is exact, because `EXTRACT` returns a `numeric` and `div` takes one.
    fn tick_sql(&self, instant: &str, added_us: u64) -> String {
        let us = binary(&format!("EXTRACT(EPOCH FROM {})", utc(instant)), "*", &US_PER_SECOND.to_string());
        let offset = i128::from(added_us) - i128::from(self.epoch_us());
        let elapsed = binary(&us, "+", &format!("({offset})"));
        format!("pg_catalog.div({elapsed}, {})::pg_catalog.int8", self.unit_us())
    }
}

fn utc(instant: &str) -> String {
    format!("pg_catalog.timezone('UTC', {instant})")
}

/// All schema-qualified operators have the same precedence in SQL, so parentheses are required.
pub(crate) fn binary(left: &str, operator: &str, right: &str) -> String {
    format!("({left} OPERATOR(pg_catalog.{operator}) {right})")
}

pub(crate) fn shifted(number: &str, operator: &str, bits: u32) -> String {
    match bits {
        0 => number.into(),
        _ => binary(number, operator, &bits.to_string()),
    }
}
