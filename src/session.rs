//! What this backend remembers between calls: the generator of its layout with its slot, and its last ID.
//!
//! All of it follows from the settings and from shared memory; it is made anew when they change.

use std::cell::{Cell, RefCell};
use std::num::NonZeroU64;
use std::time::{SystemTime, UNIX_EPOCH};

use snowflake_id_core::{Generator, Reservation, Slot, Stall};

use crate::error::Error;
use crate::{compat, config, shared};

/// All that one call of the generator needs.
#[derive(Clone, Copy)]
pub struct Session {
    pub generator: Generator,
    slot: &'static Slot,
}

thread_local! {
    static SESSION: RefCell<Option<Session>> = const { RefCell::new(None) };
    static LAST_ID: Cell<Option<i64>> = const { Cell::new(None) };
}

/// Takes one ID, if the session is set up and nothing is in the way: the hot path.
#[inline]
pub fn try_next() -> Option<i64> {
    SESSION.with_borrow(|session| {
        let session = session.as_ref()?;
        let reservation = session.reserve(NonZeroU64::MIN).ok()?;
        Some(session.generator.first_id(reservation))
    })
}

/// The session's generator, set up if need be.
pub fn current() -> Result<Session, Error> {
    if let Some(session) = SESSION.with_borrow(|session| *session) {
        return Ok(session);
    }
    let session = Session::new()?;
    SESSION.replace(Some(session));
    Ok(session)
}

/// Has the next call set everything up anew, as settings have changed.
pub fn forget() {
    SESSION.replace(None);
}

/// The last ID that this session took.
pub fn last_id() -> Option<i64> {
    LAST_ID.get()
}

/// Remembers the last ID that this session took.
#[inline]
pub fn set_last_id(id: i64) {
    LAST_ID.set(Some(id));
}

impl Session {
    fn new() -> Result<Session, Error> {
        let shared = shared::state()?;
        let layout = config::layout()?;
        if compat::is_in_recovery() {
            return Err(Error::InRecovery);
        }
        let identity = shared.gate.identity().ok_or(Error::NoWorkerId)?;
        let max_drift_us = config::max_drift().as_micros() as u64;
        let generator = Generator::new(layout, identity, max_drift_us, config::sequence_spread())
            .map_err(|problem| Error::IdentityDoesNotFit { layout, problem })?;
        Ok(Session { generator, slot: shared::slot(&layout)? })
    }

    /// Reserves up to `n` values.
    #[inline]
    pub fn reserve(&self, n: NonZeroU64) -> Result<Reservation, Stall> {
        self.slot.reserve(shared::gate(), &self.generator, clock_us, n)
    }

    /// How many microseconds it takes until the last of `n` values is allowed.
    pub fn wait_us(&self, n: NonZeroU64) -> Result<u64, Stall> {
        self.generator.wait_us(self.slot.counter(), clock_us(), n)
    }
}

/// The server's clock, in microseconds of Unix time.
#[inline]
pub fn clock_us() -> i64 {
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => (since.as_secs() * 1_000_000 + u64::from(since.subsec_micros())) as i64,
        Err(before) => -(before.duration().as_micros() as i64),
    }
}
