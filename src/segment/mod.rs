//! Implements `snowflake_segment_nextval` and the background worker that fetches ranges of numbers for segments.
//!
//! The registry grants ranges of small ascending numbers that are unique in the fleet. The setting
//! `snowflake_id.registry` names the registry. If the setting is empty, the registry is an extension in the keeper's
//! own database. For each range:
//!
//! 1. The worker requests a range ([`fetch`]), either through libpq or by a function call in its own database
//!    ([`local_registry`]). The request contains this server's high-water mark. The worker uses the range only after
//!    the registry has committed the grant.
//! 2. The worker refuses the range unless it is above the server's high-water mark ([`range_file`]).
//! 3. The worker stores the end of the range in a file and in the keeper's database ([`taken`]). Both writes are
//!    durable before a call gets a number.
//! 4. The worker publishes the range in shared memory ([`crate::shared::segments`]). Backends take numbers from the
//!    range ([`numbers`]).
//!
//! A crash between two steps loses numbers but repeats none. The registry never grants the lost numbers again. Once the
//! end of the range is stored, the worker would also refuse such a grant. After a change of the registry, the worker
//! reports all marks to the new registry before it requests a range.
//!
//! If a range belongs to a period, it is published when the period has started, and is not used after the period has
//! ended. The numbers of a later period are higher, and a new range must be above the mark. Therefore, a server never
//! returns to an earlier period, no matter how its clock is set.
//!
//! If the server was granted numbers before, the keeper starts the worker immediately. Otherwise, the keeper starts the
//! worker when a call requests the first number.

mod checked;
mod fetch;
mod in_default;
mod local_registry;
mod numbers;
mod privilege;
mod process;
mod range_file;
mod session;
mod taken;
mod ticket;
mod view;
mod wait;
mod worker;

pub use process::{find_ranges, start_if_needed};
