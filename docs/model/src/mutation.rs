//! The protocol with one thing broken. Each shows what a sentence of the design is there for.

use crate::check::{NO_REPEAT, ORDER};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    PublishFirst,
    GateBeforeCounter,
    LateSlotAtClock,
    PublishRead,
    StopUnclosed,
    OpenAtOnce,
    EndWithoutFloor,
    OpenUnfenced,
    ResetInUse,
    ResetUnfenced,
    ResetSameSlots,
}

impl Mutation {
    pub const ALL: [Mutation; 11] = [
        Mutation::PublishFirst,
        Mutation::GateBeforeCounter,
        Mutation::LateSlotAtClock,
        Mutation::PublishRead,
        Mutation::StopUnclosed,
        Mutation::OpenAtOnce,
        Mutation::EndWithoutFloor,
        Mutation::OpenUnfenced,
        Mutation::ResetInUse,
        Mutation::ResetUnfenced,
        Mutation::ResetSameSlots,
    ];

    /// Whether it is about beginning anew.
    pub fn needs_reset(self) -> bool {
        matches!(self, Mutation::ResetInUse | Mutation::ResetUnfenced | Mutation::ResetSameSlots)
    }

    /// The name on the command line, and what is broken.
    pub fn name(self) -> (&'static str, &'static str) {
        match self {
            Mutation::PublishFirst => ("publish-first", "the horizon is published before its commit"),
            Mutation::GateBeforeCounter => ("gate-first", "a caller loads gate and limit before the counter"),
            Mutation::LateSlotAtClock => {
                ("late-slot-at-clock", "a late slot starts at the clock, not at the floor")
            }
            Mutation::PublishRead => ("publish-read", "a horizon that was merely read is published"),
            Mutation::StopUnclosed => {
                ("stop-unclosed", "a clean stop stores the end and leaves the gate open")
            }
            Mutation::OpenAtOnce => {
                ("open-at-once", "a keeper opens the gate on the horizon that the one before it published")
            }
            Mutation::EndWithoutFloor => ("end-without-floor", "the exact end leaves out the floor"),
            Mutation::OpenUnfenced => {
                ("open-unfenced", "an identity that changed while no keeper ran is taken without a fence")
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
        }
    }

    /// The property that it violates.
    pub fn violates(self) -> &'static str {
        if self == Mutation::OpenUnfenced { ORDER } else { NO_REPEAT }
    }
}
