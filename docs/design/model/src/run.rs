//! Runs a model: visits all of its states, or searches for the error in a broken one.

use std::fmt::Debug;
use std::hash::Hash;
use std::time::Instant;

use stateright::{Checker, HasDiscoveries, Model, Path};

/// A model that can describe a run in words.
pub trait Tale:
    Model<State: Clone + Debug + PartialEq + Hash + Send + Sync, Action: Clone + Debug + PartialEq>
    + Copy
    + Send
    + Sync
    + 'static
{
    /// The same model with all processes distinguished, which the search does not need.
    fn for_a_tale(self) -> Self;
    fn tell(&self, run: Path<Self::State, Self::Action>) -> Vec<String>;
}

/// Whether the protocol holds within all bounds, each with its name, and each broken protocol violates its property. A
/// broken protocol has a name and a description. Only those whose name is requested are checked.
pub fn is_well<M: Tale>(
    correct: impl IntoIterator<Item = (&'static str, &'static str, M)>,
    broken: impl IntoIterator<Item = (&'static str, &'static str, M, &'static str)>,
    is_asked: impl Fn(&str) -> bool,
) -> bool {
    let mut is_well = true;
    for (name, bounds, model) in correct.into_iter().filter(|(name, ..)| is_asked(name)) {
        is_well &= holds(name, bounds, model);
    }
    for (name, what, model, property) in broken.into_iter().filter(|(name, ..)| is_asked(name)) {
        is_well &= is_caught(name, what, model, property);
    }
    is_well
}

/// Visits every state within the bounds. Returns whether all properties hold.
fn holds<M: Tale>(name: &str, bounds: &str, model: M) -> bool {
    let began = Instant::now();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let checker =
        model.checker().threads(threads).finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
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
        let (run, _) = search(model.for_a_tale(), property);
        run.iter().flatten().for_each(|line| println!("    {line}"));
    }
    is_well
}

/// Searches for a run that violates this property, and prints it. Returns whether there is one.
fn is_caught<M: Tale>(name: &str, what: &str, model: M, property: &'static str) -> bool {
    println!("\n{name}: {what}");
    let (run, states) = search(model.for_a_tale(), property);
    match &run {
        Some(run) => {
            run.iter().for_each(|line| println!("    {line}"));
            println!("    caught, property violated: {property} ({states} states)");
        }
        None => println!("    NOT CAUGHT in {states} states"),
    }
    run.is_some()
}

/// Searches for a run that violates a property, shortest runs first. Returns it, and the number of states visited.
fn search<M: Tale>(model: M, property: &'static str) -> (Option<Vec<String>>, usize) {
    let until = HasDiscoveries::AnyOf([property].into());
    let checker = model.checker().finish_when(until).spawn_bfs().join();
    (checker.discovery(property).map(|run| model.tell(run)), checker.unique_state_count())
}

/// Combines steps into lines, with the actor first. Consecutive steps of an actor share a line.
pub fn story(steps: impl Iterator<Item = (String, String)>) -> Vec<String> {
    let mut lines = Vec::new();
    let mut last = None;
    for (who, what) in steps {
        match lines.last_mut() {
            Some(line) if last.as_ref() == Some(&who) => *line = format!("{line}; {what}"),
            _ => lines.push(format!("{who}: {what}")),
        }
        last = Some(who);
    }
    lines
}
