//! Between `timestamptz` and microseconds of Unix time.

use pgrx::prelude::*;

/// PostgreSQL counts time from 2000-01-01, in microseconds.
pub const POSTGRES_EPOCH_US: i64 = 946_684_800_000_000;

/// An instant within a layout as PostgreSQL writes it.
pub fn timestamptz(unix_us: i64) -> TimestampWithTimeZone {
    TimestampWithTimeZone::try_from(unix_us - POSTGRES_EPOCH_US)
        // The years 1 to 294247.
        .expect("bug: a layout reaches beyond timestamptz")
}

/// Microseconds of Unix time of a timestamptz as it is stored. The infinities, and the last thirty years of
/// timestamptz, become the ends of the range, which lie outside every layout.
#[inline]
pub fn unix_us(stored: i64) -> i64 {
    stored.saturating_add(POSTGRES_EPOCH_US)
}
