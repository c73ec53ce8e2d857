//! The registry worker is the background worker that leases the identity of this server from the registry of
//! the fleet.
//!
//! A lease is a range of time for IDs (see [`snowflake_id_core::lease`]). [`snowflake_id_core::lease_round`]
//! determines the next step of the protocol. This module carries out the steps:
//!
//! 1. The worker writes a request to the lease file ([`lease_file`]) before it sends the request to the
//!    registry ([`crate::background::connection`]).
//! 2. The worker writes a granted lease to the lease file before it publishes the lease to the keeper
//!    ([`crate::shared::lease`]).
//! 3. The keeper stores a horizon and fences the slots. Then the keeper allows the slots to be used until the
//!    end of the lease, and opens the gate.
//!
//! If the worker process dies before the registry has committed, nothing has changed. If it dies after the
//! commit, the next process repeats the request and receives the same lease. Once the lease is in the lease
//! file, the next process uses that lease.
//!
//! The worker runs only if the setting `snowflake_id.registry` is not empty. The keeper starts the worker.
//! The keeper and the worker never wait for each other.

pub mod lease_file;
mod needs;
mod process;
mod report;
mod worker;

pub use process::start_if_needed;
