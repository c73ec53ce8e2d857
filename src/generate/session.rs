//! The state of a backend between calls: the generator of the layout, the slot, and the last ID.
//!
//! The backend derives the generator and the slot from the settings and from shared memory, and sets up the state again
//! when the settings or the shared memory change. The backend adds its own count of IDs to the shared counter when the
//! horizon has moved since the last addition, and when the backend exits. (While IDs are being issued, the horizon
//! moves at least once per `horizon_margin`.) If a backend is killed, its last count is lost.

use std::cell::Cell;
use std::num::NonZeroU64;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;
use snowflake_id_core::{Gate, Generator, Layout, Reservation, Stall};

use super::wait::WaitBudget;
use crate::config;
use crate::error::Error;
use crate::pg::backend_local::BackendLocal;
use crate::pg::{clock, process, server};
use crate::shared::marks;
use crate::shared::memory;
use crate::shared::slots::{self, SlotInUse};

/// The generator, the gate and the slot that calls use to issue IDs.
pub struct Session {
    pub generator: Generator,
    gate: &'static Gate,
    slot_in_use: SlotInUse,
    /// The number of IDs that have not been added to the shared counter yet.
    uncounted: BackendLocal<Cell<u64>>,
    /// The horizon at the time of the last addition to the shared counter.
    counted_at: BackendLocal<Cell<u64>>,
}

/// The session that matches the settings.
static SESSION: BackendLocal<Cell<Option<&Session>>> = BackendLocal::new(Cell::new(None));
/// The session whose slot the current transaction has marked (see [`snowflake_id_core::marks`]), if any. IDs may be
/// taken only from this session.
static MARKED: BackendLocal<Cell<Option<&Session>>> = BackendLocal::new(Cell::new(None));
/// All sessions that this backend has set up. They are never freed, so the hot path needs no guard around the current
/// session (a `RefCell` costs 3 ns). Few sessions exist, because they are reused and settings rarely change.
static SESSIONS: Mutex<Vec<&Session>> = Mutex::new(Vec::new());
static LAST_ID: BackendLocal<Cell<Option<i64>>> = BackendLocal::new(Cell::new(None));

/// Takes one ID if the current transaction has marked a slot and the slot permits another ID. This is the hot path.
#[inline]
pub fn try_next() -> Option<i64> {
    next_of(MARKED.get()?)
}

/// Marks the slot for the current transaction. Then takes one ID if a session exists and the slot permits another ID.
/// `snowflake_nextval()` calls this function for the first ID of a transaction.
pub fn try_first() -> Option<i64> {
    let session = SESSION.get()?;
    session.mark();
    next_of(session)
}

#[inline(always)] // The hot path must not call a function.
fn next_of(session: &Session) -> Option<i64> {
    let reservation = session.reserve(NonZeroU64::MIN).ok()?;
    Some(session.generator.first_id(reservation))
}

/// Forgets that the slot is marked, and clears the marks. Must be called after each transaction.
pub fn end_transaction() {
    MARKED.set(None);
    marks::clear_own();
}

/// Returns the current session, and marks its slot. If no session exists, waits until the gate is open, and then sets
/// up a session.
pub fn current(budget: &WaitBudget) -> Result<&'static Session, Error> {
    let session = unmarked(budget)?;
    session.mark();
    Ok(session)
}

fn unmarked(budget: &WaitBudget) -> Result<&'static Session, Error> {
    if let Some(session) = SESSION.get()
        && !session.is_retired()
    {
        return Ok(session);
    }
    let made = loop {
        match Session::new(budget) {
            Err(Error::GateClosed) => budget.wait_for_gate()?,
            made => break made?,
        }
    };
    let mut sessions = SESSIONS.lock();
    let session = match sessions.iter().find(|known| known.is_as(&made)) {
        Some(known) => *known,
        None => {
            if sessions.is_empty() {
                process::at_exit(count_at_exit);
            }
            let session = &*Box::leak(Box::new(made));
            sessions.push(session);
            session
        }
    };
    SESSION.set(Some(session));
    Ok(session)
}

/// Makes the next call set up the session again. Called when settings have changed, or when the session is out of date.
pub fn forget() {
    SESSION.set(None);
    MARKED.set(None);
}

/// Adds the uncounted IDs of all sessions to the shared counters.
fn count_at_exit() {
    if let Some(sessions) = SESSIONS.try_lock() {
        sessions.iter().for_each(|session| session.count_up());
    }
}

/// Returns the last ID that this backend took.
pub fn last_id() -> Option<i64> {
    LAST_ID.get()
}

/// Stores the last ID that this backend took.
#[inline]
pub fn set_last_id(id: i64) {
    LAST_ID.set(Some(id));
}

/// Returns how far a layout is ahead of the clock, in microseconds, based on the time that the layout would have to
/// wait. For an exhausted layout, returns the time from now to the end of the layout. Waiting does not help such a
/// layout, but another value of the clock sequence may.
pub fn ahead_us(layout: &Layout, wait: Result<u64, Stall>) -> u64 {
    match wait {
        Ok(wait_us) | Err(Stall::Ahead { wait_us }) => wait_us,
        Err(Stall::Exhausted) => layout.end_us().saturating_sub(clock::clock_us()).max(0) as u64,
        Err(_) => 0,
    }
}

impl Session {
    fn new(budget: &WaitBudget) -> Result<Session, Error> {
        let shared = memory::state()?;
        let layout = config::layout()?;
        if server::is_in_recovery() {
            return Err(Error::InRecovery);
        }
        let identity = shared.gate.identity().ok_or(Error::GateClosed)?;
        let max_ahead_us = config::max_ahead().as_micros() as u64;
        let generator = Generator::new(layout, identity, max_ahead_us, config::sequence_spread())
            .map_err(|problem| Error::IdentityDoesNotFit { layout, problem })?;
        let slot_in_use = match slots::find(&layout)? {
            Some(slot_in_use) => slot_in_use,
            None => {
                // Do not assign a slot if the call will fail.
                let first = shared.first_counter(&shared.key_of(&layout));
                let wait = generator.wait_us(first, clock::clock_us(), NonZeroU64::MIN);
                if budget.has_another_value(&layout, ahead_us(&layout, wait))? {
                    return Session::new(budget);
                }
                match wait {
                    Ok(wait_us) => budget.check(&layout, wait_us)?,
                    Err(stall) => Error::unless_it_passes(&layout, stall)?,
                }
                slots::find_or_assign(&layout)?
            }
        };
        slots::name_after(&layout)?;
        Ok(Session {
            generator: generator.with_clock_seq(slot_in_use.clock_seq),
            gate: &shared.gate,
            slot_in_use,
            uncounted: BackendLocal::default(),
            counted_at: BackendLocal::default(),
        })
    }

    /// Marks the slot for the current transaction. Must be called before the transaction takes an ID.
    fn mark(&'static self) {
        marks::set_own(self.slot_in_use.index, self.slot_in_use.slot);
        MARKED.set(Some(self));
    }

    /// Returns whether the horizon was reset. After a reset, the layout gets another slot.
    fn is_retired(&self) -> bool {
        // Horizon 0 can also mean that the layout must not be used yet.
        let has_no_horizon = self.slot_in_use.slot.horizon() == 0;
        has_no_horizon
            && slots::find(self.generator.layout())
                .is_ok_and(|found| found.is_none_or(|found| !std::ptr::eq(found.slot, self.slot_in_use.slot)))
    }

    /// Returns whether the layout has switched to another value of the clock sequence since this session was set up.
    pub fn has_moved_on(&self) -> bool {
        let current = memory::state().map_or(0, |shared| shared.server_status.value());
        self.generator.layout().clock_seq_at(current) != self.slot_in_use.clock_seq
    }

    /// Returns the track of the slot.
    pub fn track(&self) -> usize {
        usize::from(self.slot_in_use.clock_seq > 0)
    }

    fn is_as(&self, other: &Session) -> bool {
        self.generator == other.generator && std::ptr::eq(self.slot_in_use.slot, other.slot_in_use.slot)
    }

    /// Reserves up to `n` values.
    #[inline(always)] // The reason is the same as for Slot::reserve.
    pub fn reserve(&self, n: NonZeroU64) -> Result<Reservation, Stall> {
        Ok(self.counted(self.slot_in_use.slot.reserve(self.gate, &self.generator, clock::clock_us, n)?))
    }

    /// Reserves `n` values of the same tick.
    pub fn reserve_block(&self, n: NonZeroU64) -> Result<Reservation, Stall> {
        Ok(self.counted(self.slot_in_use.slot.reserve_block(
            self.gate,
            &self.generator,
            clock::clock_us,
            n,
        )?))
    }

    #[inline(always)] // The reason is the same as for Slot::reserve.
    fn counted(&self, reservation: Reservation) -> Reservation {
        self.uncounted.set(self.uncounted.get() + reservation.count());
        if self.slot_in_use.slot.horizon() != self.counted_at.get() {
            self.count_up();
        }
        reservation
    }

    #[cold]
    fn count_up(&self) {
        self.counted_at.set(self.slot_in_use.slot.horizon());
        self.slot_in_use.issued.fetch_add(self.uncounted.take(), Ordering::Relaxed);
        if self.has_moved_on() {
            forget(); // The next call uses the slot of the current value, even if this slot can still issue IDs.
        }
    }

    /// Returns the time until the last of `n` values may be used, in microseconds.
    pub fn wait_us(&self, n: NonZeroU64) -> Result<u64, Stall> {
        let counter = self.generator.counter_of(self.slot_in_use.slot.word());
        self.generator.wait_us(counter, clock::clock_us(), n)
    }
}
