//! Runs a model: visits all of its states, or searches for what is wrong with a broken one.

use std::fmt::Debug;
use std::hash::Hash;
use std::time::Instant;

use stateright::{Checker, HasDiscoveries, Model, Path};

/// A model that can tell a run in words.
pub trait Tale:
    Model<State: Clone + Debug + PartialEq + Hash + Send + Sync, Action: Clone + Debug + PartialEq>
    + Copy
    + Send
    + Sync
    + 'static
{
    /// The same model, with everybody told apart whom the search need not tell apart.
    fn for_a_tale(self) -> Self;
    fn tell(&self, run: Path<Self::State, Self::Action>) -> Vec<String>;
}

/// Whether a protocol holds within all bounds, each with its name; and each broken one violates its property: with its name,
/// and what is wrong with it. Of those that are asked for.
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

/// Whether a run is found that violates this property. Prints it.
fn is_caught<M: Tale>(name: &str, what: &str, model: M, property: &'static str) -> bool {
    println!("\n{name}: {what}");
    let (run, states) = search(model.for_a_tale(), property);
    match &run {
        Some(run) => {
            run.iter().for_each(|line| println!("    {line}"));
            println!("    caught: not true that {property} ({states} states)");
        }
        None => println!("    NOT CAUGHT in {states} states"),
    }
    run.is_some()
}

/// Searches, shortest runs first, for one that violates a property. Also returns how many states that took.
fn search<M: Tale>(model: M, property: &'static str) -> (Option<Vec<String>>, usize) {
    let until = HasDiscoveries::AnyOf([property].into());
    let checker = model.checker().finish_when(until).spawn_bfs().join();
    (checker.discovery(property).map(|run| model.tell(run)), checker.unique_state_count())
}

/// Puts steps into lines: who does them, and what he does until another one's turn comes.
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
