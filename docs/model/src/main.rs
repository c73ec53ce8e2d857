//! Checks the protocol of the durable horizon, and that the check finds what is wrong with broken ones. See README.md.

mod check;
mod mutation;
mod plan;
mod protocol;
mod state;
mod story;

use std::process::ExitCode;
use std::time::Instant;

use stateright::{Checker, HasDiscoveries, Model};

use crate::mutation::Mutation;
use crate::protocol::Protocol;

fn main() -> ExitCode {
    let asked: Vec<String> = std::env::args().skip(1).collect();
    let bounds = check::CORRECT.map(|(name, ..)| name);
    let known = || bounds.into_iter().chain(Mutation::ALL.map(|mutation| mutation.name().0));
    if let Some(wrong) = asked.iter().find(|&name| known().all(|known| known != name)) {
        eprintln!("unknown: {wrong}; known: {}", known().collect::<Vec<_>>().join(" "));
        return ExitCode::FAILURE;
    }
    let is_asked = |name| asked.is_empty() || asked.iter().any(|asked| asked == name);
    let mut is_well = true;
    for (name, bounds, protocol) in check::CORRECT {
        if is_asked(name) {
            is_well &= holds(name, bounds, protocol);
        }
    }
    for mutation in Mutation::ALL {
        if is_asked(mutation.name().0) {
            is_well &= is_caught(mutation);
        }
    }
    if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Visits every state within the bounds.
fn holds(name: &str, bounds: &str, protocol: Protocol) -> bool {
    let began = Instant::now();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let checker =
        protocol.checker().threads(threads).finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let found = checker.discoveries();
    println!(
        "{name} ({bounds}): {} states, {} steps at most, {:.0?}: {}",
        checker.unique_state_count(),
        checker.max_depth(),
        began.elapsed(),
        if found.is_empty() { "all properties hold" } else { "VIOLATED" },
    );
    let is_well = found.is_empty();
    for (property, run) in found {
        println!("violated: {property}");
        protocol.tell(run).iter().for_each(|line| println!("    {line}"));
    }
    is_well
}

/// Searches, shortest runs first, for one that violates what the mutation is expected to violate.
fn is_caught(mutation: Mutation) -> bool {
    let (name, what) = mutation.name();
    let violates = mutation.violates();
    let protocol = check::broken(mutation);
    let until = HasDiscoveries::AnyOf([violates].into());
    let checker = protocol.checker().finish_when(until).spawn_bfs().join();
    println!("\n{name}: {what}");
    let Some(run) = checker.discovery(violates) else {
        println!("    NOT CAUGHT in {} states", checker.unique_state_count());
        return false;
    };
    protocol.tell(run).iter().for_each(|line| println!("    {line}"));
    println!("    caught: not true that {violates} ({} states)", checker.unique_state_count());
    true
}
