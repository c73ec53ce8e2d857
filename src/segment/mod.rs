//! Numbers in ranges: `snowflake_segment_nextval`, and the background worker that fetches the ranges.
//!
//! The registry hands out ranges of small rising numbers, unique over the fleet. It is the one of
//! `snowflake_id.registry`, or an extension in the keeper's own database. What is done with a range, and why in this
//! order:
//!
//! 1. The worker asks for it ([`fetch`]), by libpq or by a call in its own database ([`here`]), and says up to where it
//!    has had numbers. The registry has committed when the answer counts.
//! 2. A range that does not lie above all that this server had is refused ([`past`]).
//! 3. Its end goes into a file and into the keeper's database ([`taken`]). Both are durable before anybody gets a
//!    number.
//! 4. The range is published in shared memory ([`crate::shared::segments`]), and backends take from it ([`numbers`]).
//!
//! Whoever dies in between loses numbers, and repeats none: the registry never gives them again, and what is noted says
//! so a second time. Another registry is told all that was noted before it is asked for anything.
//!
//! A range of a period is published when the period has begun, and never taken from after it has ended. So a server
//! never goes back to an earlier period, whatever its clock does: what was published stays.
//!
//! The keeper starts the worker as soon as a number is asked for.

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

pub use process::{look_for_ranges, start_if_needed};
