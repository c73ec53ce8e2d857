//! The state in shared memory: the gate, the slots, and the board on which processes tell each other things.
//!
//! Who writes what:
//!
//! * `gate` (one word): opened by the keeper alone, closed by the keeper, and by the registry worker when a lease is
//!   withdrawn; read by every attempt.
//! * the slots and the directory of them: see [`slots`] and [`tracks`].
//! * the board: see [`board`]; one type for each writer.
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

pub mod bell;
pub mod board;
mod carry_over;
mod clock_sequence;
pub mod keeper_words;
pub mod lease;
mod line;
pub mod memory;
pub mod order_desk;
pub mod past;
mod places;
pub mod report;
pub mod segments;
pub mod slots;
pub mod stuck;
mod tracks;
pub mod wait;

/// Asks for the shared memory. Called by the postmaster while it loads the library.
pub fn request() {
    memory::request();
    report::request();
    lease::request();
    segments::request();
    stuck::request();
    carry_over::request();
}
