//! The registry worker: the background worker that leases this server's identity from a registry, which the
//! whole fleet shares.
//!
//! A lease is a range of ID time: see [`snowflake_id_core::lease`]. [`snowflake_id_core::lease_state`]
//! contains the state of the leases and decides on the steps of the protocol. This module carries out the
//! steps:
//!
//! 1. The worker writes a request to the lease file ([`lease_file`]) before it sends the request to the
//!    registry ([`crate::background::connection`]).
//! 2. The worker writes a granted lease to the lease file before it publishes the lease to the keeper
//!    ([`crate::shared::lease`]).
//! 3. The keeper stores a horizon, fences, lets slots be used up to the end of the lease, and opens the gate.
//!
//! If the process dies before the registry has committed, nothing has changed. If the process dies after the
//! commit, the next process repeats the same request, and the registry grants the same lease. Once the lease
//! is in the lease file, the next process uses that lease.
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
