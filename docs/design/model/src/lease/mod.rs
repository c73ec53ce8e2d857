//! The lease of the registry: one identity, one server at a time.

mod border;
mod check;
mod mutation;
mod names;
mod protocol;
mod registry;
mod round;
mod shell;
mod state;
mod step;
mod story;

use mutation::Mutation;

use crate::run;

/// The names that are accepted on the command line.
pub fn names() -> Vec<&'static str> {
    let bounds = check::CORRECT.iter().map(|(name, ..)| *name);
    bounds.chain(Mutation::ALL.map(|mutation| mutation.name().0)).collect()
}

/// Whether the model's server takes the steps of the product, the protocol holds, and each mutation is caught.
pub fn is_well(is_asked: impl Fn(&str) -> bool) -> bool {
    if names().into_iter().any(&is_asked) {
        println!("lease: as LeaseRound in {} cases", round::compare());
    }
    let broken = Mutation::ALL.map(|mutation| {
        let (name, what) = mutation.name();
        (name, what, check::broken(mutation), mutation.violates())
    });
    run::is_well(check::CORRECT, broken, is_asked)
}
