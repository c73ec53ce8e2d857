//! `snowflake_nextval`, `snowflake_batch`, `snowflake_block` and `snowflake_currval`.

use std::num::NonZeroU64;

use pgrx::prelude::*;
use snowflake_id_core::{Field, Generator, Reservation, Stall};

use super::session::{self, Session};
use super::wait::WaitBudget;
use crate::error::{Error, OrReport};
use crate::pg::function::declare_c_function;

/// The maximum number of IDs that one call of `snowflake_batch` returns.
const MAX_BATCH: i64 = 1_000_000;

declare_c_function!(snowflake_nextval);

/// The function `snowflake_nextval()` does not use pgrx's function wrapper, which takes 4 to 5 ns. Without
/// the wrapper, nothing handles panics and errors, so the fast path calls no function that could cause them.
/// [`next_slowly`] calls such functions.
///
/// Three quarters of the remaining time are spent on reading the clock with `gettimeofday`, as PostgreSQL's
/// `clock_timestamp()` does. `clock_gettime` takes 1 ns longer, and `std::time::SystemTime` 6 ns longer.
/// `CLOCK_REALTIME_COARSE` would save 11 ns, but lags by up to a timer tick (1 to 10 ms). The time in an ID
/// could then be earlier than the call that issued the ID.
///
/// # Safety
/// Only PostgreSQL may call this function. The function takes no arguments and does not dereference the
/// pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn snowflake_nextval(_fcinfo: pg_sys::FunctionCallInfo) -> pg_sys::Datum {
    let id = match session::try_next() {
        Some(id) => id,
        // SAFETY: PostgreSQL calls this function, so a guarded function may be called here.
        None => unsafe { next_slowly() },
    };
    session::set_last_id(id);
    pg_sys::Datum::from(id)
}

/// Takes an ID in the cases that the fast path cannot handle: for the first ID of a transaction, or if the
/// call must set up the session or wait.
#[cold]
#[pg_guard]
unsafe extern "C-unwind" fn next_slowly() -> i64 {
    if let Some(id) = session::try_first() {
        return id;
    }
    let (generator, reservation) = reserve(&WaitBudget::new(), NonZeroU64::MIN).or_report();
    generator.first_id(reservation)
}

/// Waits until at least one value is available, and reserves up to `n` values.
fn reserve(budget: &WaitBudget, n: NonZeroU64) -> Result<(Generator, Reservation), Error> {
    loop {
        let session = session::current(budget)?;
        match session.reserve(n) {
            Ok(reservation) => return Ok((session.generator, reservation)),
            Err(stall) => wait_out(budget, session, stall)?,
        }
    }
}

/// Waits until another attempt may succeed. Returns an error if no attempt can succeed.
fn wait_out(budget: &WaitBudget, session: &Session, stall: Stall) -> Result<(), Error> {
    let layout = session.generator.layout();
    match stall {
        Stall::Ahead { .. } | Stall::Exhausted if moves_on(budget, session, Err(stall))? => Ok(()),
        Stall::Ahead { wait_us } => budget.wait_for_clock(layout, wait_us),
        Stall::Horizon if session.has_moved_on() => {
            session::forget();
            Ok(())
        }
        Stall::Horizon => budget.wait_for_horizon(session.track()),
        // Set up the session again in the next attempt. The identity may have changed, or the gate may have
        // been opened.
        Stall::Identity(_) => {
            session::forget();
            Ok(())
        }
        Stall::Exhausted | Stall::BeforeEpoch { .. } => Error::unless_it_passes(layout, stall),
    }
}

/// Returns whether the layout switches to another clock sequence value instead of waiting for the clock.
fn moves_on(budget: &WaitBudget, session: &Session, wait: Result<u64, Stall>) -> Result<bool, Error> {
    let layout = session.generator.layout();
    let moves_on =
        session.has_moved_on() || budget.has_another_value(layout, session::ahead_us(layout, wait))?;
    if moves_on {
        session::forget();
    }
    Ok(moves_on)
}

#[pg_extern(volatile, parallel_safe)]
fn snowflake_batch(count: i64) -> SetOfIterator<'static, i64> {
    SetOfIterator::new(take_batch(count).or_report())
}

/// Takes `count` IDs before the first row is returned. A single atomic exchange is sufficient if `max_ahead`
/// permits the whole batch.
///
/// The function returns individual IDs rather than reservations, because each ID may need a reservation of
/// its own if few IDs fit in a tick.
fn take_batch(count: i64) -> Result<Vec<i64>, Error> {
    let count = match u64::try_from(count).map(NonZeroU64::new) {
        Ok(Some(wanted)) if count <= MAX_BATCH => wanted,
        _ => return Err(Error::BatchCount { count, most: MAX_BATCH }),
    };
    let budget = WaitBudget::new();
    refuse_hopeless(&budget, count)?;

    let mut ids = room_for(count)?;
    let mut left = Some(count);
    while let Some(wanted) = left {
        let (generator, reservation) = reserve(&budget, wanted)?;
        left = NonZeroU64::new(wanted.get() - reservation.count());
        ids.extend(generator.ids(reservation));
    }
    if let Some(last) = ids.last() {
        session::set_last_id(*last);
    }
    Ok(ids)
}

/// Returns an empty list with capacity for `count` IDs. The list must never grow, because a failed allocation
/// would abort the backend. The postmaster would then restart all backends, and the IDs would be lost.
fn room_for(count: NonZeroU64) -> Result<Vec<i64>, Error> {
    let count = count.get() as usize; // At most MAX_BATCH.
    let mut ids = Vec::new();
    ids.try_reserve_exact(count).map_err(|_| Error::OutOfMemory { bytes: count * size_of::<i64>() })?;
    Ok(ids)
}

/// Returns an error if the batch could not be completed in time even if no other call took IDs. This function
/// runs before the batch takes its first ID.
fn refuse_hopeless(budget: &WaitBudget, count: NonZeroU64) -> Result<(), Error> {
    let mut session = session::current(budget)?;
    while moves_on(budget, session, session.wait_us(NonZeroU64::MIN))? {
        session = session::current(budget)?;
    }
    match session.wait_us(count) {
        Ok(wait_us) => budget.check(session.generator.layout(), wait_us),
        Err(stall) => wait_out(budget, session, stall),
    }
}

#[pg_extern(volatile, parallel_safe)]
fn snowflake_block(count: i64) -> i64 {
    take_block(count).or_report()
}

/// Takes `count` consecutive IDs, and returns the first. The IDs of a tick are consecutive if the sequence is
/// the lowest field of the layout. Otherwise, a block has only one ID.
fn take_block(count: i64) -> Result<i64, Error> {
    let budget = WaitBudget::new();
    loop {
        let session = session::current(&budget)?;
        let layout = session.generator.layout();
        let most = match layout.shift(Field::Sequence) {
            0 => layout.max(Field::Sequence) + 1,
            _ => 1,
        };
        let wanted = match u64::try_from(count).map(NonZeroU64::new) {
            Ok(Some(wanted)) if wanted.get() <= most => wanted,
            _ => return Err(Error::BlockCount { count, most, layout: *layout }),
        };
        match session.reserve_block(wanted) {
            Ok(reservation) => {
                let first = session.generator.first_id(reservation);
                session::set_last_id(first + count - 1);
                return Ok(first);
            }
            Err(stall) => wait_out(&budget, session, stall)?,
        }
    }
}

#[pg_extern(volatile, parallel_restricted)]
fn snowflake_currval() -> i64 {
    session::last_id().ok_or(Error::NoCurrval).or_report()
}
