//! Conversion between `timestamptz` and microseconds of Unix time, and from microseconds to `interval`.

use pgrx::prelude::*;

/// The epoch of PostgreSQL's timestamps, 2000-01-01, in microseconds of Unix time.
pub const POSTGRES_EPOCH_US: i64 = 946_684_800_000_000;

/// Converts a time from microseconds of Unix time to a `timestamptz`. The time must be within the range of a
/// layout.
pub fn timestamptz(unix_us: i64) -> TimestampWithTimeZone {
    TimestampWithTimeZone::try_from(unix_us - POSTGRES_EPOCH_US)
        // Layouts cover the years 1 to 294247.
        .expect("bug: a layout reaches beyond timestamptz")
}

/// Converts any number of microseconds to an `interval`. (`Interval::from_micros` calls `make_interval`, which raises
/// an error for the highest values since PostgreSQL 17. If a registry's clock were wrong by that much, every query of
/// `snowflake_status` would fail.)
pub fn interval(us: i64) -> Interval {
    Interval::new(0, 0, us).expect("bug: a single field has no mismatched signs")
}

/// Converts a stored `timestamptz` to microseconds of Unix time. `infinity` and the last thirty years of `timestamptz`
/// become `i64::MAX`. Neither `i64::MAX` nor the result for `-infinity` can be the time of an ID.
#[inline]
pub fn unix_us(stored: i64) -> i64 {
    stored.saturating_add(POSTGRES_EPOCH_US)
}
