//! The state in shared memory: the gate, the slots, and the server_status on which processes tell each other things.
//!
//! Who writes what:
//!
//! * `gate` (one word): opened by the keeper alone, closed by the keeper, and by the registry worker when a lease is
//!   withdrawn; read by every attempt.
//! * the slots and the directory of them: see [`slots`] and [`tracks`].
//! * the server_status: see [`server_status`]; one type for each writer.
//! * the statistics: added to by whoever has something to add; nothing depends on them.
//! * the news of the registry worker: see [`lease`].
//! * the slots of segments: see [`segments`].
//! * where connections got stuck: see [`stuck`].
//! * the report (what is in the keeper's way): written by the keeper under the exclusive lock.
//!
//! The orderings of the atomics, and why they suffice, are explained in [`snowflake_id_core::slot`].
//!
//! After a crash of a backend the postmaster makes all of it anew. What the server knows of its past is
//! carried over (see [`carry_over`]); what has to outlive the server itself is stored (see [`crate::keeper`]).

mod bounded_text;
mod carry_over;
mod clock_sequence;
pub mod command_slot;
pub mod history;
pub mod keeper_words;
pub mod lease;
pub mod memory;
pub mod report;
pub mod segments;
pub mod server_status;
mod slot_table;
pub mod slots;
pub mod stuck;
mod tracks;
pub mod wait;
pub mod wakeup;

/// Asks for the shared memory. Called by the postmaster while it loads the library.
pub fn request() {
    memory::request();
    report::request();
    lease::request();
    segments::request();
    stuck::request();
    carry_over::request();
}
