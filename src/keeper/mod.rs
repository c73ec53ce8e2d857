//! The keeper: the background worker that writes the horizon ahead, knows the identity, and opens and closes
//! the gate.
//!
//! What it decides is a pure function of what it sees: [`snowflake_id_core::keeper_plan`]. Here is how that
//! is carried out:
//!
//! 1. It locks what is stored, looks at everything, and makes a plan.
//! 2. It notes in shared memory which horizon it is about to store.
//! 3. It stores the plan's records and horizon, and **commits first**.
//! 4. It publishes the horizon, and does to the gate what the plan says.
//!
//! It publishes only a horizon that it wrote and committed itself, without an error in between. What
//! happens when it dies: before the commit, nothing has changed; between commit and publication, the stored
//! horizon is higher than need be; after it, calls go on up to the published horizon, by then there is a new
//! keeper or they wait.

mod announce;
mod clock_sequence;
mod cycle;
mod gate;
mod identity;
mod process;
mod reset;
mod setup;
pub mod store;
mod transaction;
mod watch_clock;

pub use process::register;
