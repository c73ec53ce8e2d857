//! What this backend remembers between calls: the generator of its layout with its slot, and its last ID.
//!
//! All of it follows from the settings and from shared memory; it is made anew when they change.

use std::cell::Cell;
use std::num::NonZeroU64;
use std::time::Duration;

use parking_lot::Mutex;
use snowflake_id_core::{Gate, Generator, Reservation, Slot, Stall};

use crate::compat::BackendLocal;
use crate::error::Error;
use crate::{compat, config, shared};

/// All that one call of the generator needs.
pub struct Session {
    pub generator: Generator,
    gate: &'static Gate,
    slot: &'static Slot,
}

static SESSION: BackendLocal<Cell<Option<&Session>>> = BackendLocal::new(Cell::new(None));
/// Every session that this backend ever set up. They are never freed, so that the hot path needs no guard around the
/// current one (a `RefCell` costs 3 ns), but used again: settings change rarely, and between few values.
static SESSIONS: Mutex<Vec<&Session>> = Mutex::new(Vec::new());
static LAST_ID: BackendLocal<Cell<Option<i64>>> = BackendLocal::new(Cell::new(None));

/// Takes one ID, if the session is set up and nothing is in the way: the hot path.
#[inline]
pub fn try_next() -> Option<i64> {
    let session = SESSION.get()?;
    let reservation = session.reserve(NonZeroU64::MIN).ok()?;
    Some(session.generator.first_id(reservation))
}

/// The session, set up if need be.
pub fn current() -> Result<&'static Session, Error> {
    if let Some(session) = SESSION.get() {
        return Ok(session);
    }
    let made = Session::new()?;
    let mut sessions = SESSIONS.lock();
    let session = match sessions.iter().find(|known| known.generator == made.generator) {
        Some(known) => *known,
        None => {
            let session = &*Box::leak(Box::new(made));
            sessions.push(session);
            session
        }
    };
    SESSION.set(Some(session));
    Ok(session)
}

/// Has the next call set everything up anew, as settings have changed.
pub fn forget() {
    SESSION.set(None);
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
        let identity = shared.gate.identity().ok_or(Error::GateClosed)?;
        let max_drift_us = config::max_drift().as_micros() as u64;
        let generator = Generator::new(layout, identity, max_drift_us, config::sequence_spread())
            .map_err(|problem| Error::IdentityDoesNotFit { layout, problem })?;
        // A layout that has no ID to give is not worth a slot.
        match generator.wait_us(0, compat::clock_us(), NonZeroU64::MIN) {
            Err(Stall::Exhausted) => return Err(Error::Exhausted { layout }),
            Err(Stall::BeforeEpoch { wait_us }) => {
                return Err(Error::BeforeEpoch { layout, wait: Duration::from_micros(wait_us) });
            }
            _ => {}
        }
        Ok(Session { generator, gate: &shared.gate, slot: shared::slot(&layout)? })
    }

    /// Reserves up to `n` values.
    #[inline]
    pub fn reserve(&self, n: NonZeroU64) -> Result<Reservation, Stall> {
        self.slot.reserve(self.gate, &self.generator, compat::clock_us, n)
    }

    /// How many microseconds it takes until the last of `n` values is allowed.
    pub fn wait_us(&self, n: NonZeroU64) -> Result<u64, Stall> {
        self.generator.wait_us(self.slot.counter(), compat::clock_us(), n)
    }
}
