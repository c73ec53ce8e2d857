//! Runs fleets of simulated servers, each from a seed, and checks every ID and number. See README.md.

mod action;
mod caller;
mod context;
mod disk;
mod keeper;
mod ledger;
mod mutation;
mod numbers;
mod random;
mod registry;
mod server;
mod setup;
mod shared;
mod shrink;
mod worker;
mod world;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::mutation::Broken;
use crate::setup::Setup;
use crate::world::run;

/// How many runs may be used to shorten a story.
const RUNS_TO_SHRINK: usize = 20_000;
/// The maximum number of printed lines of a story. The story of a server that is stuck has no end.
const MOST_LINES: usize = 60;

/// An argument "name=value".
fn variable(name: &str) -> Option<String> {
    let mut values = std::env::args().skip(1).filter_map(|argument| {
        let (known, value) = argument.split_once('=')?;
        (known == name && !value.is_empty()).then(|| value.to_owned())
    });
    values.next_back()
}

/// An argument with a numeric value.
fn number(name: &str) -> Result<Option<u64>, String> {
    let parse =
        |value: String| value.parse().map_err(|_| format!("{name} is not a non-negative integer: {value}"));
    variable(name).map(parse).transpose()
}

fn main() -> ExitCode {
    match simulate() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

/// Executes the arguments. Returns whether all checks succeeded.
fn simulate() -> Result<bool, String> {
    let (seed, base, seconds) = (number("SEED")?, number("BASE")?, number("SECONDS")?.unwrap_or(60));
    let find = |name: String| {
        let names = || mutation::ALL.map(|(_, name, _)| name).join(", ");
        mutation::find(&name).ok_or_else(|| format!("mutation {name} does not exist; mutations: {}", names()))
    };
    let broken = variable("MUTATION").map(find).transpose()?;
    Ok(match seed {
        _ if variable("MUTATIONS").is_some() => are_all_caught(seconds),
        Some(seed) => is_well(seed, broken),
        None => are_well(base, seconds, broken),
    })
}

/// Executes one run, and prints its whole story if requested.
fn is_well(seed: u64, broken: Broken) -> bool {
    let setup = Setup::of(seed);
    let outcome = run(&setup, &setup.schedule, broken, variable("VERBOSE").is_some());
    outcome.story.iter().for_each(|line| println!("{line}"));
    println!(
        "seed {seed}: {} servers, {} actions, {} of virtual time, {} IDs, {} numbers",
        setup.servers.len(),
        setup.schedule.len(),
        context::duration(outcome.lasted_us),
        outcome.ids,
        outcome.numbers
    );
    if outcome.failure.is_some() {
        tell(&setup, broken);
    }
    outcome.failure.is_none()
}

/// Reports a failure, with its seed and the shortest story that was found.
fn tell(setup: &Setup, broken: Broken) {
    let Some(failure) = run(setup, &setup.schedule, broken, false).failure else { return };
    println!("\nSEED={} FAILS, property violated: {}", setup.seed, failure.what);
    println!("{}", failure.text);
    let schedule = shrink::shrink(setup, broken, failure.what, RUNS_TO_SHRINK);
    println!("The shortest failing run has {} of {} actions:", schedule.len(), setup.schedule.len());
    let outcome = run(setup, &schedule, broken, true);
    let involved: Vec<_> = schedule.iter().map(|action| format!("S{}", action.server)).collect();
    let mut left = MOST_LINES;
    for (at, line) in outcome.story.iter().enumerate() {
        let is_silent = line.split_whitespace().find(|word| word.ends_with(':') && word.starts_with('S'));
        let is_of_others = is_silent.is_some_and(|name| {
            let name = name.trim_end_matches(':');
            let number: usize = name[1..].parse().unwrap_or(usize::MAX);
            number < setup.servers.len() && !involved.iter().any(|known| known == name)
        });
        let is_last = at + 10 > outcome.story.len();
        if (left > 0 || is_last) && !is_of_others {
            println!("    {line}");
            left = left.saturating_sub(1);
        }
    }
}

/// Executes runs with new seeds until the time is over.
fn are_well(base: Option<u64>, seconds: u64, broken: Broken) -> bool {
    let fresh = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64);
    let base = base.unwrap_or_else(fresh);
    let mut seeds = random::Random::new(base);
    let began = Instant::now();
    println!("Seeds are drawn from BASE={base}.");
    let (mut runs, mut ids, mut numbers, mut lasted_us) = (0u64, 0, 0, 0);
    let mut faults: BTreeMap<&str, u64> = BTreeMap::new();
    while began.elapsed() < Duration::from_secs(seconds) {
        let setup = Setup::of(seeds.bits() >> 16);
        let outcome = run(&setup, &setup.schedule, broken, false);
        runs += 1;
        if runs.is_multiple_of(100) {
            let again = run(&setup, &setup.schedule, broken, false);
            assert_eq!(
                (outcome.digest(), outcome.lasted_us),
                (again.digest(), again.lasted_us),
                "a seed must always give the same run"
            );
        }
        if outcome.failure.is_some() {
            println!("after {runs} runs, {:.1} s:", began.elapsed().as_secs_f64());
            tell(&setup, broken);
            return false;
        }
        ids += outcome.ids;
        numbers += outcome.numbers;
        lasted_us += outcome.lasted_us;
        for (fault, count) in outcome.faults {
            *faults.entry(fault).or_default() += count;
        }
    }
    let took = began.elapsed().as_secs_f64();
    println!("{runs} runs in {took:.0} s ({:.0}/s): no property violated", runs as f64 / took);
    println!(
        "{ids} IDs ({:.0}/s) and {numbers} numbers, in {} days of virtual time",
        ids as f64 / took,
        lasted_us / 86_400_000_000
    );
    println!("faults:");
    faults.iter().for_each(|(fault, count)| println!("    {count:>9}  {fault}"));
    true
}

/// Breaks the product in each way, and checks that each is detected.
fn are_all_caught(seconds: u64) -> bool {
    let mut is_well = true;
    for (mutation, name, what) in mutation::ALL {
        let began = Instant::now();
        let mut seed = 0;
        println!("\n{name}: {what}");
        loop {
            seed += 1;
            let setup = Setup::of(seed);
            if run(&setup, &setup.schedule, Some(mutation), false).failure.is_some() {
                println!("caught in run {seed}, after {:.1} s", began.elapsed().as_secs_f64());
                tell(&setup, Some(mutation));
                break;
            }
            if began.elapsed() > Duration::from_secs(seconds) {
                println!("NOT CAUGHT in {seed} runs");
                is_well = false;
                break;
            }
        }
    }
    is_well
}
