//! Segments: `snowflake_segment_nextval`, and the background worker that fetches ranges of numbers.
//!
//! The registry grants ranges of small ascending numbers that are unique in the fleet. The registry is the one that
//! `snowflake_id.registry` names, or an extension in the keeper's own database. Each range goes through these steps,
//! in this order:
//!
//! 1. The worker requests a range ([`fetch`]), either through libpq or by a function call in its own database
//!    ([`local_registry`]). The request contains the server's high-water mark. The worker uses the answer only after
//!    the registry has committed.
//! 2. The worker refuses the range unless it is above the server's high-water mark ([`range_file`]).
//! 3. The worker stores the end of the range in a file and in the keeper's database ([`taken`]). Both writes are
//!    durable before a call gets a number.
//! 4. The worker publishes the range in shared memory ([`crate::shared::segments`]), and backends take numbers from
//!    it ([`numbers`]).
//!
//! A crash between two of these steps loses numbers, but repeats none: the registry never grants them again, and the
//! stored marks would reject them. Another registry is told all marks before it is asked for a range.
//!
//! A range that belongs to a period is published when the period has started, and is not used after the period has
//! ended. Ranges are never withdrawn, so a server never returns to an earlier period, no matter how its clock is set.
//!
//! The keeper starts the worker when the first number is requested, or at once if the server has been granted numbers
//! before.

mod answer;
mod fetch;
mod had;
mod local_registry;
mod numbers;
mod process;
mod range_file;
mod session;
mod signed;
mod taken;
mod view;
mod wait;
mod worker;

pub use process::{find_ranges, start_if_needed};
