//! The keeper is the background worker that writes the horizon ahead of the IDs, determines the identity of
//! the server, and opens and closes the gate. The horizon is the time up to which IDs may be issued.
//!
//! The decisions of the keeper are a pure function of what it reads: [`snowflake_id_core::keeper_plan`]. This
//! module carries them out. In each cycle, the keeper:
//!
//! 1. locks and reads the stored state, reads the clock and the settings, and makes a plan;
//! 2. records in shared memory which horizon it is about to store;
//! 3. stores the records and the horizon of the plan, and **commits**;
//! 4. publishes the horizon, and opens or closes the gate according to the plan.
//!
//! The keeper publishes a horizon only if it wrote and committed the horizon itself, without an error in
//! between. If the keeper dies:
//!
//! - before the commit, nothing has changed;
//! - between the commit and the publication, the stored horizon is higher than necessary;
//! - after the publication, calls continue to issue IDs up to the published horizon, and then wait for a new
//!   keeper.

mod announce;
mod clock_sequence;
mod cycle;
mod gate;
mod identity;
mod identity_file;
mod process;
mod reset;
mod setup;
pub mod store;
mod transaction;
mod watch_clock;

pub use announce::standby_warning;
pub use process::register;
