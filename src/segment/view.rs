//! View `snowflake_segment_status`.

use std::sync::atomic::Ordering;

use pgrx::prelude::*;
use snowflake_id_core::segment::Range;
use snowflake_id_core::segment_answer::SegmentState;

use crate::error::OrReport;
use crate::pg::encoding::Shown;
use crate::pg::timestamp::timestamptz;
use crate::shared::segment_table;
use crate::shared::segments::{self, Trouble, segments};

/// Returns one row for each segment in use.
#[pg_extern(schema = "snowflake_internal", volatile, parallel_safe)]
#[allow(clippy::type_complexity)] // pgrx reads the columns from the type itself.
fn snowflake_segments_in_use() -> TableIterator<
    'static,
    (
        name!(name, Shown),
        name!(state, &'static str),
        name!(position, Option<i64>),
        name!(range_end, Option<i64>),
        name!(next_range, Option<i64>),
        name!(step, Option<i64>),
        name!(max_value, Option<i64>),
        name!(period_ends, Option<TimestampWithTimeZone>),
        name!(taken_at, Option<TimestampWithTimeZone>),
        name!(numbers_issued, i64),
        name!(calls_waited, i64),
        name!(last_error, Option<Shown>),
    ),
> {
    let segments = segments().or_report();
    let registry_problem = segments::registry_problem();
    let now_us = segments.registry_clock_us();
    let records = (0..segment_table::used()).map(|at| (segment_table::record(at), segment_table::slot(at)));
    let rows = records.filter(|(record, _)| !record.name().is_empty()).map(move |(record, slot)| {
        let standing = slot.segment.standing();
        // Skip the current range if it is exhausted or its period has ended. The position is NULL if no range is left.
        let current =
            standing.current.filter(|range| standing.offset < range.count && range.ends_us > now_us);
        let next = standing.next.filter(|range| range.ends_us > now_us);
        let (current, offset, next) = match current {
            Some(current) => (Some(current), standing.offset, next),
            None => (next, 0, None),
        };
        let position = current.map(|range| range.first + offset as i64 * range.increment);
        let state = match (&registry_problem, record.state) {
            (Some(problem), SegmentState::Asked | SegmentState::Open) => match problem.trouble {
                Trouble::Denied => "permission denied",
                Trouble::Mismatch(mismatch) => mismatch.state(),
                Trouble::Silence | Trouble::NoRegistry | Trouble::File => "no registry",
            },
            (_, state) => state.name(),
        };
        let instant = |us: i64| (us > 0).then(|| timestamptz(us));
        (
            record.name().to_owned().into(),
            state,
            position,
            current.as_ref().and_then(Range::last),
            next.map(|range| range.first),
            (record.step > 0).then_some(record.step),
            (record.max_value > 0).then_some(record.max_value),
            current.filter(|range| range.ends_us != i64::MAX).map(|range| timestamptz(range.ends_us)),
            instant(record.taken_at_us),
            slot.issued(&standing) as i64,
            slot.calls_waited.load(Ordering::Relaxed) as i64,
            registry_problem
                .as_ref()
                .map(|problem| problem.text.clone())
                .or_else(|| record.detail())
                .map(Shown::from),
        )
    });
    TableIterator::new(rows.collect::<Vec<_>>())
}
