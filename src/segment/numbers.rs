//! The functions that take numbers of a segment.

use std::num::NonZeroU64;

use pgrx::pg_sys::panic::pgrx_extern_c_guard;
use pgrx::prelude::*;
use snowflake_id_core::message::shown;
use snowflake_id_core::segment::Taken;

use super::privilege;
use super::session;
use super::wait::{prefetch, take};
use crate::error::{Error, OrReport};
use crate::pg::call::Call;
use crate::pg::function::declare_c_function;
use crate::pg::varlena::{TextBytes, bytes, plain_bytes};
use crate::shared::segment_table;
use crate::shared::segments::segments;

/// The maximum number of values that one call of `snowflake_segment_batch` returns.
const MAX_BATCH: i64 = 1_000_000;

declare_c_function!(snowflake_segment_nextval);

/// The function `snowflake_segment_nextval(text)` has no pgrx wrapper, for the same reason as
/// [`crate::generate::nextval`]. The fast path calls no functions that could panic or raise an error. [`next_slowly`]
/// calls such functions.
///
/// # Safety
/// Only PostgreSQL may call this function. The SQL declaration must be STRICT, with an argument of type text.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn snowflake_segment_nextval(fcinfo: pg_sys::FunctionCallInfo) -> pg_sys::Datum {
    // SAFETY: guaranteed by this function's contract. The text remains valid until the call ends.
    let (call, name) = unsafe {
        let call = Call::new(fcinfo);
        (call, plain_bytes(call.argument(0).cast_mut_ptr()))
    };
    let name = name.filter(|name| privilege::is_known_to_be_allowed(name));
    if let Some(number) = name.and_then(try_next) {
        return pg_sys::Datum::from(number);
    }
    // SAFETY: as above. PostgreSQL calls this function directly, as the guard requires.
    unsafe { pgrx_extern_c_guard(|| next_slowly(bytes(call.argument(0).cast_mut_ptr()))) }
}

/// Takes one number without waiting. Returns `None` if this session does not know the segment, or if no number is
/// available. This is the hot path.
#[inline]
pub fn try_next(name: &[u8]) -> Option<i64> {
    let known = session::find(name)?;
    let (place, slot) = known.place();
    let taken = place.take(slot, registry_clock_us, NonZeroU64::MIN).ok()?;
    if taken.is_next_wanted {
        request_next_range(place.at);
    }
    known.set_last(taken.first);
    Some(taken.first)
}

/// Returns the registry's clock, in microseconds of Unix time. This clock determines when a range has ended. The
/// default value is never used, because ranges exist only in shared memory.
fn registry_clock_us() -> i64 {
    segments().map_or(i64::MAX, |segments| segments.registry_clock_us())
}

#[cold]
fn request_next_range(at: usize) {
    if let Ok(segments) = segments() {
        segment_table::need(at);
        segments.request_worker();
    }
}

/// Takes one number, after checking the privileges of the current user.
#[cold]
fn next_slowly(name: &[u8]) -> pg_sys::Datum {
    privilege::check(name).or_report();
    take_one(name)
}

/// Takes one number. Waits if no number is available.
#[cold]
pub fn take_one(name: &[u8]) -> pg_sys::Datum {
    let (place, taken) = take(name, NonZeroU64::MIN).or_report();
    session::remember(name, place).set_last(taken.first);
    pg_sys::Datum::from(taken.first)
}

#[pg_extern(volatile, parallel_safe)]
fn snowflake_segment_batch(name: TextBytes, count: i64) -> SetOfIterator<'static, i64> {
    SetOfIterator::new(take_batch(name.0, count).or_report())
}

/// Takes `count` numbers before the first row is returned. If the call fails, the numbers that were already taken are
/// lost.
fn take_batch(name: &[u8], count: i64) -> Result<Vec<i64>, Error> {
    let mut numbers = Vec::new();
    // The count is at most MAX_BATCH. The list must not grow later, because a failed allocation would abort the
    // process.
    let room = checked_count(count)?.get() as usize;
    numbers.try_reserve_exact(room).map_err(|_| Error::OutOfMemory { bytes: room * size_of::<i64>() })?;
    take_all(name, count, |taken| {
        numbers.extend(taken.numbers());
        Ok(())
    })?;
    Ok(numbers)
}

/// Takes `count` numbers, and returns them as ranges of consecutive numbers of the segment.
#[pg_extern(volatile, parallel_safe)]
fn snowflake_segment_ranges(
    name: TextBytes,
    count: i64,
) -> TableIterator<'static, (name!(first, i64), name!(increment, i64), name!(count, i64))> {
    // The number of rows depends on the sizes of the ranges that the registry grants. At most `count` rows are
    // possible, as each row has at least one number.
    let mut ranges: Vec<Taken> = Vec::new();
    let follows = |last: &Taken, taken: &Taken| {
        last.increment == taken.increment && last.last() + last.increment == taken.first
    };
    take_all(name.0, count, |taken| {
        match ranges.last_mut().filter(|last| follows(last, &taken)) {
            Some(last) => last.count += taken.count,
            None => {
                // Reserve the memory first, because a failed allocation in `push` would abort the process.
                let bytes = 2 * (ranges.len() + 1) * size_of::<Taken>();
                ranges.try_reserve(1).map_err(|_| Error::OutOfMemory { bytes })?;
                ranges.push(taken);
            }
        }
        Ok(())
    })
    .or_report();
    let row = |taken: Taken| (taken.first, taken.increment, taken.count as i64);
    TableIterator::new(ranges.into_iter().map(row))
}

/// Takes `count` numbers of a segment, and passes them to the closure `action` in ascending order.
fn take_all(
    name: &[u8],
    count: i64,
    mut action: impl FnMut(Taken) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut left = Some(checked_count(count)?);
    privilege::check(name)?;
    while let Some(wanted) = left {
        let (place, taken) = take(name, wanted)?;
        session::remember(name, place).set_last(taken.last());
        action(taken)?;
        left = NonZeroU64::new(wanted.get() - taken.count);
    }
    Ok(())
}

fn checked_count(count: i64) -> Result<NonZeroU64, Error> {
    let checked = u64::try_from(count).ok().and_then(NonZeroU64::new);
    checked
        .filter(|count| count.get() <= MAX_BATCH as u64)
        .ok_or(Error::SegmentBatchCount { count, most: MAX_BATCH })
}

#[pg_extern(volatile, parallel_safe)]
fn snowflake_segment_prefetch(name: TextBytes) {
    privilege::check(name.0).and_then(|()| prefetch(name.0)).or_report();
}

#[pg_extern(volatile, parallel_restricted)]
fn snowflake_segment_currval(name: TextBytes) -> i64 {
    let known = session::find(name.0).ok_or_else(|| Error::SegmentNoCurrval { name: shown(name.0) });
    known.or_report().last()
}
