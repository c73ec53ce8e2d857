//! The registry worker: the background worker that leases this server's identity from a registry, which the
//! whole fleet shares.
//!
//! A lease is a range of ID time: see [`snowflake_id_core::lease`]. The state of the leases and the steps of
//! the protocol are in [`snowflake_id_core::lease_state`]. This module carries them out:
//!
//! 1. The worker writes a request to the file ([`lease_file`]), and only then sends it to the registry
//!    ([`crate::background::connection`]).
//! 2. It writes a granted lease to the file, and only then publishes it to the keeper
//!    ([`crate::shared::lease`]).
//! 3. The keeper stores a horizon, fences, lets slots be used up to the end of the lease, and opens the gate.
//!
//! If the process dies before the registry has committed, nothing has changed. If it dies after that, the
//! next process repeats the same request, and the registry grants the same lease. Once the lease is in the
//! file, the next process uses it.
//!
//! The worker runs only if `snowflake_id.registry` is set. The keeper starts it. Neither ever waits for the
//! other.

mod answer;
mod dialogue;
mod hand;
mod lease_file;
mod needs;
mod process;
mod report;
mod worker;

pub use process::start_if_needed;
