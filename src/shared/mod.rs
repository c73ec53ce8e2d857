//! The state in shared memory: the gate (which lets calls take IDs), the slots (with the counters and
//! horizons of layouts), `server_status` (in which processes publish their state), and more.
//!
//! Who writes what:
//!
//! * `gate` (one word): the keeper opens and closes the gate. The registry worker closes the gate when a
//!   lease is withdrawn. Every attempt to take an ID reads the gate.
//! * the slots and their directory: see [`slots`] and [`tracks`].
//! * `server_status`: see [`server_status`]. The comment on each part names the processes that write it.
//! * the statistics: any process adds to them, and nothing depends on them.
//! * the lease status, written by the registry worker: see [`lease`].
//! * the slots of segments: see [`segments`] and [`segment_table`].
//! * the hosts at which connection attempts got stuck: see [`stuck`].
//! * the marks of transactions in progress: see [`marks`].
//! * the samples of the watermarks: see [`samples`].
//! * the report (the keeper's current problem and warning): written by the keeper under the exclusive lock.
//!
//! [`snowflake_id_core::slot`] explains the orderings of the atomics and why they suffice.
//!
//! After a crash of a backend, the postmaster reinitializes this memory, but carries over the history of the
//! server ([`carry_over`]). State that must survive a restart is stored on disk ([`crate::keeper`]).

mod array;
mod bounded_text;
mod carry_over;
mod clock_sequence;
pub mod command_slot;
mod fair_lock;
pub mod history;
pub mod keeper_words;
pub mod lease;
pub mod marks;
pub mod memory;
pub mod report;
pub mod samples;
pub mod segment_record;
pub mod segment_table;
pub mod segments;
pub mod server_status;
mod slot_table;
pub mod slots;
pub mod stuck;
mod tracks;
pub mod wait;
pub mod wakeup;
pub mod watermark;

/// Requests the shared memory. Called by the postmaster while it loads the library.
pub fn request() {
    memory::request();
    report::request();
    lease::request();
    segments::request();
    stuck::request();
    marks::request();
    samples::request();
    carry_over::request();
}
