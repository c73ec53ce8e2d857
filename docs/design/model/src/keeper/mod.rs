//! The durable horizon of one server, its identities, and its clock sequence. The product's own functions make the
//! decisions of the keeper and of callers.

mod border;
mod caller;
mod check;
mod mutation;
mod protocol;
mod shell;
mod state;
mod step;
mod story;

use mutation::Mutation;

use crate::run;

/// The names that are accepted on the command line.
pub fn names() -> Vec<&'static str> {
    let bounds = check::correct().into_iter().map(|(name, ..)| name);
    bounds.chain(Mutation::ALL.iter().map(|mutation| mutation.name().0)).collect()
}

/// Whether the protocol holds, and each mutation is caught.
pub fn is_well(is_asked: impl Fn(&str) -> bool) -> bool {
    let broken = Mutation::ALL.iter().map(|&mutation| {
        let (name, what) = mutation.name();
        (name, what, check::broken(mutation), mutation.violates())
    });
    // The slow ones are visited only if they are named.
    let is_everything_asked = is_asked("");
    let correct = check::correct().into_iter();
    let correct = correct.filter(|(name, ..)| !is_everything_asked || !check::SLOW.contains(name));
    run::is_well(correct, broken, is_asked)
}
