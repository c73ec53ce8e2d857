//! Snowflake IDs and numbers of segments that a program generates itself, beside the servers of a fleet.
//!
//! A [`Client`] leases a worker ID from the registry of a `snowflake_id` fleet, as a server does. Within
//! the leased range of time, [`Client::next_id`] generates IDs without any I/O. The IDs never repeat an ID
//! of a server or of another program, whatever the clocks and the network do.
//!
//! ```no_run
//! use snowflake_id_client::{Client, Error, Options};
//!
//! # async fn example() -> Result<(), Error> {
//! let registry = "host=registry1,registry2 dbname=postgres user=billing target_session_attrs=read-write";
//! let client = Client::start(Options::new(registry).name("billing")).await?;
//! let id: i64 = client.next_id()?;
//! let order: i64 = client.segment("orders").next_number().await?;
//! client.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! The lease is in memory only. A program that is restarted gets a new lease. [`Client::close`] hands the
//! worker ID back, so that another program can have it at once. Without `close()`, the worker ID stays
//! taken until the lease ends.
//!
//! A copy of a process has the same lease. Do not use a client after `fork()`, and start no process from a
//! snapshot of the memory of a process that has a client.
//!
//! | module | contents |
//! | --- | --- |
//! | [`options`] | [`Options`]: what a program chooses |
//! | [`client`] | [`Client`]: the handle of a program |
//! | `shared` | what the handle and the tasks share |
//! | `leased` | the generator under one lease |
//! | `leases` | the task that holds the lease |
//! | [`numbers`] | [`Segment`]: numbers of a segment |
//! | `ranges` | the task that takes ranges of numbers |
//! | `hosts` | the hosts of a connection string, and what is refused in one |
//! | `connection`, `stream` | connections to the registry |
//! | [`error`] | [`Error`] |

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod client;
mod connection;
pub mod error;
mod hosts;
mod leased;
mod leases;
pub mod numbers;
pub mod options;
mod pauses;
mod ranges;
mod shared;
mod stream;

pub use client::Client;
pub use error::Error;
pub use numbers::{Numbers, Segment};
pub use options::Options;
pub use snowflake_id_core::{Identity, Layout};
pub use stream::Stream;

/// The page of the crate on crates.io.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
