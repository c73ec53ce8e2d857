//! The protocol with one thing broken.

use crate::clock_sequence::check::NO_REPEAT;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    ReusedEarly,
    ZeroAgain,
    KeyWithoutValue,
    OpenedFirst,
    ClosedTogether,
    LossForgets,
}

impl Mutation {
    pub const ALL: [Mutation; 6] = [
        Mutation::ReusedEarly,
        Mutation::ZeroAgain,
        Mutation::KeyWithoutValue,
        Mutation::OpenedFirst,
        Mutation::ClosedTogether,
        Mutation::LossForgets,
    ];

    /// The name on the command line, and what is broken.
    pub fn name(self) -> (&'static str, &'static str) {
        match self {
            Mutation::ReusedEarly => ("reused-early", "a value is opened before the end of its use"),
            Mutation::ZeroAgain => ("zero-again", "value 0 is left and opened again like any other"),
            Mutation::KeyWithoutValue => {
                ("key-without-value", "the value is not part of a slot's key: all values share one slot")
            }
            Mutation::OpenedFirst => ("opened-first", "a value is opened before that is durable"),
            Mutation::ClosedTogether => (
                "closed-together",
                "the end of the value in use is recorded in the transaction that stores the next one",
            ),
            Mutation::LossForgets => {
                ("loss-forgets", "after a loss values of which there is no record count as never used")
            }
        }
    }

    /// The property that it violates.
    pub fn violates(self) -> &'static str {
        NO_REPEAT
    }
}
