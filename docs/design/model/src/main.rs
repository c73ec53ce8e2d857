//! Checks the protocol of the durable horizon, and that the check finds what is wrong with broken ones. See
//! README.md.

mod caller;
mod check;
mod mutation;
mod plan;
mod protocol;
mod state;
mod step;
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
    for property in found.into_keys() {
        println!("violated: {property}");
        let (run, _) = search(Protocol { names_callers: true, ..protocol }, property);
        run.iter().flatten().for_each(|line| println!("    {line}"));
    }
    is_well
}

/// Searches, shortest runs first, for one that violates a property. Also returns how many states that took.
fn search(protocol: Protocol, property: &'static str) -> (Option<Vec<String>>, usize) {
    let until = HasDiscoveries::AnyOf([property].into());
    let checker = protocol.checker().finish_when(until).spawn_bfs().join();
    (checker.discovery(property).map(|run| protocol.tell(run)), checker.unique_state_count())
}

/// Whether a run is found that violates what the mutation is expected to violate.
fn is_caught(mutation: Mutation) -> bool {
    let (name, what) = mutation.name();
    println!("\n{name}: {what}");
    let property = mutation.violates();
    let (run, states) = search(check::broken(mutation), property);
    match &run {
        Some(run) => {
            run.iter().for_each(|line| println!("    {line}"));
            println!("    caught: not true that {property} ({states} states)");
        }
        None => println!("    NOT CAUGHT in {states} states"),
    }
    run.is_some()
}
