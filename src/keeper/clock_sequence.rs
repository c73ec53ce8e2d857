//! Switches to another clock sequence value. After the clock has been set back, layouts with the field
//! `clock_seq` use another value instead of waiting. [`snowflake_id_core::clock_sequence`] decides when to
//! switch and which value to use.
//!
//! The keeper switches only when a call has requested another value. If the process dies, the resulting state
//! depends on the last completed step:
//!
//! 1. Promise the new value in shared memory. No session uses it yet.
//! 2. Store the high-water mark of the current value, then the new value and its horizon. Both writes may
//!    become durable before the commit, but the second is never durable without the first. After a restart,
//!    the server may therefore start with the new value, which is still unused. If only the keeper restarts,
//!    the new keeper continues with the old value, and records its high-water mark again before the next
//!    switch.
//! 3. Commit. Both writes are now certain to be durable. This is the only difference from the state after
//!    step 2.
//! 4. Publish the new value. Sessions then switch to it.

use snowflake_id_core::clock_sequence::{Asked, next_value};
use snowflake_id_core::left::Left;

use super::store::Store;
use super::transaction::transaction;
use crate::background::stop::is_stopping;
use crate::background::transaction::Problem;
use crate::shared::memory::State;

/// Switches to another value if [`next_value`] finds one. Returns whether the value has changed.
pub fn open_next(shared: &State, asked: &Asked) -> Result<bool, Problem> {
    let history = &shared.server_status.history;
    let next = transaction(|| {
        let store = Store::lock_or_report()?;
        let stored = store.read(history);
        let tracks = shared.tracks(stored.horizons);
        let next = next_value(&tracks, &stored.uses, asked)
            .filter(|_| !stored.is_elsewhere && !tracks[1].is_changed());
        if let Some(next) = &next {
            history.promise(1, next.horizon);
            store.write(&next.closing, &Left::default(), [None, Some(next.horizon)]);
        }
        Ok(next)
    })?;
    // If shutdown interrupts the wait for a standby, the commit still reports success.
    let Some(next) = next.filter(|_| !is_stopping()) else { return Ok(false) };
    shared.open_value(next.floor_us, next.horizon);
    pgrx::log!(
        "snowflake_id: the clock was set back: layouts with a clock sequence continue with value {}",
        next.horizon.value()
    );
    Ok(true)
}
