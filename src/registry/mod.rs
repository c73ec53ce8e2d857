//! The registry worker: the background worker that leases this server's identity from a registry, which the whole
//! fleet shares.
//!
//! A lease is a range of ID time: see [`snowflake_id_core::lease`]. What the server knows of its leases, and its
//! steps with the registry, are in [`snowflake_id_core::lease_state`]; here they are carried out:
//!
//! 1. What is going to be asked is in the file ([`lease_file`]), and only then goes to the registry ([`crate::background::link`]).
//! 2. What is granted is in the file, and only then told to the keeper ([`crate::shared::lease`]).
//! 3. The keeper stores a horizon, fences, lets slots be used up to the end of the lease, and opens the gate.
//!
//! What happens when the process dies: before the registry has committed, nothing. After that, the same is asked for
//! again and granted again. Once it is in the file, whoever comes next goes on with it.
//!
//! It runs only where `snowflake_id.registry` is set: the keeper starts it. It never waits for the keeper, nor the
//! keeper for it.

mod answer;
mod dialogue;
mod hand;
mod lease_file;
mod needs;
mod process;
mod report;
mod worker;

pub use process::start_if_needed;
