//! `snowflake_nextval`, `snowflake_batch` and `snowflake_currval`.

use std::num::NonZeroU64;
use std::time::Duration;

use pgrx::prelude::*;
use snowflake_id_core::{Generator, Reservation};

use crate::error::{Error, OrReport};
use crate::session;
use crate::wait::Patience;

/// The most IDs that one `snowflake_batch` gives.
pub const MAX_BATCH: i32 = 1_000_000;

#[pg_extern(volatile, parallel_safe)]
fn snowflake_nextval() -> i64 {
    let id = match session::try_next() {
        Some(id) => id,
        None => next_slowly().or_report(),
    };
    session::set_last_id(id);
    id
}

/// Sets up the session, waits, or finds the error.
#[cold]
fn next_slowly() -> Result<i64, Error> {
    let (generator, reservation) = reserve(&Patience::new(), NonZeroU64::MIN)?;
    Ok(generator.first_id(reservation))
}

/// Reserves up to `n` values, and waits until there is at least one.
fn reserve(patience: &Patience, n: NonZeroU64) -> Result<(Generator, Reservation), Error> {
    loop {
        let session = session::current()?;
        match session.reserve(n) {
            Ok(reservation) => return Ok((session.generator, reservation)),
            Err(stall) => patience.wait_out(&session, stall)?,
        }
    }
}

#[pg_extern(volatile, parallel_safe)]
fn snowflake_batch(count: i32) -> SetOfIterator<'static, i64> {
    let taken = take_batch(count).or_report();
    SetOfIterator::new(taken.into_iter().flat_map(|(generator, reservation)| generator.ids(reservation)))
}

/// Takes `count` IDs, in one exchange where `max_drift` allows. All are taken before the first row is returned.
fn take_batch(count: i32) -> Result<Vec<(Generator, Reservation)>, Error> {
    let count = match u64::try_from(count).map(NonZeroU64::new) {
        Ok(Some(wanted)) if count <= MAX_BATCH => wanted,
        _ => return Err(Error::BatchCount(count)),
    };
    let patience = Patience::new();
    refuse_hopeless(&patience, count)?;

    let mut taken = Vec::new();
    let mut left = Some(count);
    while let Some(wanted) = left {
        let (generator, reservation) = reserve(&patience, wanted)?;
        left = NonZeroU64::new(wanted.get() - reservation.count());
        session::set_last_id(generator.last_id(reservation));
        taken.push((generator, reservation));
    }
    Ok(taken)
}

/// Fails before anything is taken if the whole batch cannot be had in time even when nobody else takes an ID.
fn refuse_hopeless(patience: &Patience, count: NonZeroU64) -> Result<(), Error> {
    let session = session::current()?;
    match session.wait_us(count) {
        Ok(wait_us) => patience.check(&session, Duration::from_micros(wait_us)),
        Err(stall) => patience.wait_out(&session, stall),
    }
}

#[pg_extern(volatile, parallel_restricted)]
fn snowflake_currval() -> i64 {
    session::last_id().ok_or(Error::NoCurrval).or_report()
}
