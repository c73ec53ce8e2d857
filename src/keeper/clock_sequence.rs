//! Opening another value of the clock sequence, so that layouts with the field need not wait for a clock that was set
//! back. When and which: [`snowflake_id_core::clock_sequence`].
//!
//! It is done only when a call asks for it, and in this order. What is there if the process dies after a step:
//!
//! 1. The end of the value in use is recorded, and committed. That value goes on; its end is recorded again when it is
//!    left.
//! 2. The new value is promised, in shared memory. Nobody uses it.
//! 3. The new value and its horizon are stored. They may be durable from here on, committed or not: a start may begin
//!    with the new value, which nobody has used. A keeper of the same server goes on with the old one.
//! 4. They are committed: the same.
//! 5. They are published. Sessions move on by themselves.
//!
//! The first step is a commit of its own because of the third: what is written in place can be durable long before its commit, a
//! record cannot. The old value would look free.

use snowflake_id_core::clock_sequence::{Asked, NextValue, next_value};

use super::store::{New, Store};
use super::transaction::transaction;
use crate::background::stop::is_stopping;
use crate::background::transaction::Problem;
use crate::shared::memory::State;

/// How often the end of the value in use is recorded before this look gives up: more than once if the record is emptied
/// meanwhile.
const MOST_ATTEMPTS: u32 = 3;

enum Step {
    Nothing,
    Recorded,
    Stored(NextValue),
}

/// Opens another value if that is called for. Returns whether it was.
pub fn open_next(shared: &State, asked: &Asked) -> Result<bool, Problem> {
    let board = &shared.board;
    for _ in 0..MOST_ATTEMPTS {
        let step = transaction(|| {
            let store = Store::lock_or_report()?;
            let stored = store.read(&board.past);
            let seen = shared.seen_values(stored.value, stored.value_uses);
            let next = next_value(&seen, asked).filter(|_| !stored.is_elsewhere && !seen.is_changed());
            Ok(match next {
                None => Step::Nothing,
                Some(next) if next.closing.is_empty() => {
                    board.past.promise_value(next.horizon);
                    store.write(&New { value: Some(next.horizon), ..New::default() });
                    Step::Stored(next)
                }
                Some(next) => {
                    store.write(&New { value_records: &next.closing, ..New::default() });
                    Step::Recorded
                }
            })
        })?;
        match step {
            // A wait for a standby that was cut short ends like one that was successful.
            _ if is_stopping() => return Ok(false),
            Step::Nothing => return Ok(false),
            Step::Recorded => {}
            Step::Stored(next) => {
                shared.open_value(next.floor_us, next.horizon);
                pgrx::log!(
                    "snowflake_id: the clock was set back: layouts with a clock sequence go on with value {}",
                    next.horizon.value()
                );
                return Ok(true);
            }
        }
    }
    Ok(false)
}
