#![doc = include_str!("../README.md")]
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
