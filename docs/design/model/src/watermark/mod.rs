//! The watermark: transactions that mark slots and take IDs, and readers that continue after the last ID that they have
//! read.

mod border;
mod check;
mod mutation;
mod protocol;
mod reader;
mod state;
mod story;
mod writer;

use mutation::Mutation;

use crate::run;

/// The names that are accepted on the command line.
pub fn names() -> Vec<&'static str> {
    let bounds = check::CORRECT.iter().map(|(name, ..)| *name);
    bounds.chain(Mutation::ALL.map(|mutation| mutation.name().0)).collect()
}

/// Whether the protocol holds, and each mutation is caught.
pub fn is_well(is_asked: impl Fn(&str) -> bool) -> bool {
    let broken = Mutation::ALL.map(|mutation| {
        let (name, what) = mutation.name();
        (name, what, check::broken(mutation), check::NO_SKIP)
    });
    run::is_well(check::CORRECT, broken, is_asked)
}
