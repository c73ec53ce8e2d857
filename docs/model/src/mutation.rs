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
}

impl Mutation {
    pub const ALL: [Mutation; 8] = [
        Mutation::PublishFirst,
        Mutation::GateBeforeCounter,
        Mutation::LateSlotAtClock,
        Mutation::PublishRead,
        Mutation::StopUnclosed,
        Mutation::OpenAtOnce,
        Mutation::EndWithoutFloor,
        Mutation::OpenUnfenced,
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
        }
    }

    /// The property that it violates.
    pub fn violates(self) -> &'static str {
        if self == Mutation::OpenUnfenced { ORDER } else { NO_REPEAT }
    }
}
