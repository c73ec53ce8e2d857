//! Opening another value of the clock sequence, so that layouts with the field need not wait for a clock that was set
//! back. When and which: [`snowflake_id_core::clock_sequence`].
//!
//! It is done only when a call asks for it, and in this order. What is there if the process dies after a step:
//!
//! 1. The new value is promised, in shared memory. Nobody uses it.
//! 2. The end of the value in use is stored, then the new value and its horizon. They may be durable from here on,
//!    committed or not, and the first is if the second is. A start may begin with the new value, which nobody has used. A
//!    keeper of the same server goes on with the old one; its end is recorded again when it is left.
//! 3. They are committed: the same.
//! 4. They are published. Sessions move on by themselves.

use snowflake_id_core::clock_sequence::{Asked, next_value};

use super::store::Store;
use super::transaction::transaction;
use crate::background::stop::is_stopping;
use crate::background::transaction::Problem;
use crate::shared::memory::State;

/// Opens another value if that is called for. Returns whether it was.
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
            store.write(&next.closing, [None, Some(next.horizon)]);
        }
        Ok(next)
    })?;
    // A wait for a standby that was cut short ends like one that was successful.
    let Some(next) = next.filter(|_| !is_stopping()) else { return Ok(false) };
    shared.open_value(next.floor_us, next.horizon);
    pgrx::log!(
        "snowflake_id: the clock was set back: layouts with a clock sequence continue with value {}",
        next.horizon.value()
    );
    Ok(true)
}
