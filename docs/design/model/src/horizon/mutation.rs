//! The protocol with one thing broken. Each shows what a rule of the protocol is there for.

use crate::horizon::check::{DESK, NO_REPEAT, ORDER};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    PublishFirst,
    GateBeforeCounter,
    LateSlotAtClock,
    PublishRead,
    SealUnclosed,
    SealUnfenced,
    EndWithoutFloor,
    UnusedTooLow,
    OpenUnfenced,
    PromiseAfterCommit,
    PastForgotten,
    ScriptOwnOnly,
    AbsenceIsUnused,
    ResetInUse,
    ResetUnfenced,
    ResetSameSlots,
    ResetLowersHighest,
    ResetKeepsLast,
    RecordAfterOpen,
    ClaimLate,
}

impl Mutation {
    pub const ALL: [Mutation; 20] = [
        Mutation::PublishFirst,
        Mutation::GateBeforeCounter,
        Mutation::LateSlotAtClock,
        Mutation::PublishRead,
        Mutation::SealUnclosed,
        Mutation::SealUnfenced,
        Mutation::EndWithoutFloor,
        Mutation::UnusedTooLow,
        Mutation::OpenUnfenced,
        Mutation::PromiseAfterCommit,
        Mutation::PastForgotten,
        Mutation::ScriptOwnOnly,
        Mutation::AbsenceIsUnused,
        Mutation::ResetInUse,
        Mutation::ResetUnfenced,
        Mutation::ResetSameSlots,
        Mutation::ResetLowersHighest,
        Mutation::ResetKeepsLast,
        Mutation::RecordAfterOpen,
        Mutation::ClaimLate,
    ];

    /// The name on the command line, and what is broken.
    pub fn name(self) -> (&'static str, &'static str) {
        match self {
            Mutation::PublishFirst => ("publish-first", "the horizon is published before its commit"),
            Mutation::GateBeforeCounter => ("gate-first", "a caller loads gate and limit before the counter"),
            Mutation::LateSlotAtClock => {
                ("late-slot-at-clock", "a late slot starts at the clock, not at the floor")
            }
            Mutation::PublishRead => ("publish-read", "a horizon that was merely read is published"),
            Mutation::SealUnclosed => {
                ("seal-unclosed", "a seal raises the counters and leaves the gate open")
            }
            Mutation::SealUnfenced => ("seal-unfenced", "a seal stores the end before it fences"),
            Mutation::EndWithoutFloor => {
                ("end-without-floor", "the end that a seal stores leaves out the floor")
            }
            Mutation::UnusedTooLow => {
                ("unused-too-low", "a slot that was raised by a fence counts as one that was never used")
            }
            Mutation::OpenUnfenced => {
                ("open-unfenced", "the gate is opened for another identity than before without a fence")
            }
            Mutation::PromiseAfterCommit => {
                ("promise-after-commit", "a horizon is noted in shared memory after it was committed")
            }
            Mutation::PastForgotten => {
                ("past-forgotten", "a crash of a backend takes what the server knows of its past")
            }
            Mutation::ScriptOwnOnly => (
                "script-own-only",
                "CREATE EXTENSION, or a keeper that finds a loss, records the last identity alone",
            ),
            Mutation::AbsenceIsUnused => {
                ("absence-is-unused", "records that are gone are taken for identities that were never used")
            }
            Mutation::ResetInUse => {
                ("reset-in-use", "everything begins anew, and who was used before is not shut out")
            }
            Mutation::ResetUnfenced => {
                ("reset-unfenced", "an identity that was used before begins anew with everything else")
            }
            Mutation::ResetSameSlots => {
                ("reset-same-slots", "when everything begins anew, slots are set back and used again")
            }
            Mutation::ResetLowersHighest => {
                ("reset-lowers-highest", "when everything begins anew, so does the highest horizon ever")
            }
            Mutation::ResetKeepsLast => (
                "reset-keeps-last",
                "when everything begins anew, the promise made to the last identity shrinks with it",
            ),
            Mutation::RecordAfterOpen => {
                ("record-after-open", "the use of an identity is recorded after the gate was opened for it")
            }
            Mutation::ClaimLate => ("claim-late", "an order is claimed after the first durable step"),
        }
    }

    /// The property that it violates.
    pub fn violates(self) -> &'static str {
        match self {
            Mutation::OpenUnfenced => ORDER,
            Mutation::ClaimLate => DESK,
            _ => NO_REPEAT,
        }
    }
}
