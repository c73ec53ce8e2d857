//! The registry's SQL in lockstep with the stand-in on which simulated fleets run (`tests/stand-in`). Each call goes to
//! both, and answers, tokens and tables are compared. `make lockstep` runs these tests.
//!
//! Everything happens in one session after another, so the tests do not see locks, concurrent calls, and errors that both
//! have. Tests in `registry` cover these.

mod compared;
mod lines;
mod mutations;
mod replaced_clock;
mod schedule;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use harness::{Cluster, Random, Run};

use compared::Compared;
use mutations::{CONTROL, MUTATIONS};

/// For how long a mutation may stay undetected. On a busy machine, the number of calls decides.
const MOST_OF_A_MUTATION: Duration = Duration::from_secs(60);
const MOST_CALLS: u64 = 10_000;

/// A server without background work, whose databases get a registry each.
fn server() -> Cluster {
    // A lock of autovacuum can prevent a renewal from counting the wait.
    let settings = [
        ("autovacuum", "off"),
        ("jit", "off"),
        ("full_page_writes", "off"),
        ("log_min_messages", "fatal"),
        ("log_min_error_statement", "panic"),
    ];
    let server = Cluster::builder().settings(&settings).extensions(&[]).start();
    server.connect().run("CREATE ROLE fleet LOGIN; CREATE ROLE other LOGIN");
    server
}

fn create(server: &Cluster, database: &str, script: &str) {
    server.connect().run(&format!("CREATE DATABASE {database}"));
    replaced_clock::install(&mut server.connect_to(database), script);
}

/// Runs schedules until one fails, or until the time is over and so many calls were compared.
fn run_schedules(
    compared: &mut Compared,
    random: &mut Random,
    time: Duration,
    least_calls: u64,
    counts: &mut BTreeMap<String, u64>,
) -> Result<(), String> {
    let began = Instant::now();
    while began.elapsed() < time || compared.calls < least_calls {
        schedule::run(compared, random.below(u64::MAX), counts)?;
    }
    Ok(())
}

/// SQL and stand-in agree. `SNOWFLAKE_ID_LOCKSTEP_SECONDS` sets the time, and `SNOWFLAKE_ID_LOCKSTEP_SCHEDULE` names a
/// single schedule.
#[test]
#[ignore = "make lockstep"]
fn sql_and_stand_in_agree() {
    let server = server();
    let script = replaced_clock::script();
    if let Ok(seed) = std::env::var("SNOWFLAKE_ID_LOCKSTEP_SCHEDULE") {
        create(&server, "one", &script);
        let seed = seed.parse().expect("a number");
        let result = schedule::run(&mut Compared::new(&server, "one"), seed, &mut BTreeMap::new());
        return result.unwrap_or_else(|difference| panic!("{difference}"));
    }
    let seconds =
        std::env::var("SNOWFLAKE_ID_LOCKSTEP_SECONDS").map_or(60, |text| text.parse().expect("seconds"));
    let mut seeds = Random::seeded();
    let all = Mutex::new((0, BTreeMap::new()));
    let began = Instant::now();
    let results: Vec<Result<(), String>> = thread::scope(|scope| {
        let workers: Vec<_> = (0..thread::available_parallelism().map_or(1, usize::from))
            .map(|worker| {
                let (server, script, all) = (&server, &script, &all);
                let mut random = Random::of(seeds.below(u64::MAX));
                scope.spawn(move || {
                    let database = format!("lockstep{worker}");
                    create(server, &database, script);
                    let mut compared = Compared::new(server, &database);
                    let mut counts = BTreeMap::new();
                    let result = run_schedules(
                        &mut compared,
                        &mut random,
                        Duration::from_secs(seconds),
                        0,
                        &mut counts,
                    );
                    let mut all = all.lock().unwrap();
                    all.0 += compared.calls;
                    for (what, count) in counts {
                        *all.1.entry(what).or_default() += count;
                    }
                    result
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().expect("a worker")).collect()
    });
    let (calls, counts): (u64, BTreeMap<String, u64>) = all.into_inner().unwrap();
    for (what, count) in counts {
        println!("{count:>8} {what}");
    }
    println!("{calls} calls compared, {:.0} per second", calls as f64 / began.elapsed().as_secs_f64());
    assert!(calls > 0, "nothing was compared");
    if let Some(difference) = results.into_iter().find_map(Result::err) {
        panic!("{difference}");
    }
}

/// The comparison finds each of these faults of the SQL, and nothing in the script without a fault.
#[test]
#[ignore = "make lockstep MUTATIONS=1"]
fn mutations_are_found() {
    let server = server();
    let script = replaced_clock::script();
    let only = std::env::var("SNOWFLAKE_ID_LOCKSTEP_MUTATION").unwrap_or_default();
    let chosen: Vec<_> = MUTATIONS.iter().filter(|mutation| mutation.name.contains(&only)).collect();
    assert!(!chosen.is_empty(), "there is no mutation {only}");
    let mut seeds = Random::seeded();
    let seeds: Vec<_> = chosen.iter().map(|_| seeds.below(u64::MAX)).collect();
    let todo = Mutex::new(chosen.iter().zip(seeds).enumerate());
    let wrong = Mutex::new(vec![]);
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let Some((at, (mutation, seed))) = todo.lock().unwrap().next() else { return };
                    let database = format!("mutation{at}");
                    create(&server, &database, &mutation.applied_to(&script));
                    let began = Instant::now();
                    let mut compared = Compared::new(&server, &database);
                    let found = run_schedules(
                        &mut compared,
                        &mut Random::of(seed),
                        MOST_OF_A_MUTATION,
                        MOST_CALLS,
                        &mut BTreeMap::new(),
                    );
                    let seconds = began.elapsed().as_secs_f64();
                    if found.is_ok() != (mutation.name == CONTROL) {
                        wrong.lock().unwrap().push(mutation.name);
                    }
                    match found {
                        // Such an error is no fault that this test could find in another script.
                        Err(difference) if difference.contains("ERROR 42") => {
                            panic!("{}: {difference}", mutation.name)
                        }
                        Err(difference) => {
                            let last = difference.lines().last().unwrap_or_default();
                            let last: String = last.chars().take(100).collect();
                            println!(
                                "{:<28} {seconds:5.1} s, {:>6} calls: {last}",
                                mutation.name, compared.calls
                            );
                        }
                        Ok(()) => {
                            println!("{:<28} not found, {} calls", mutation.name, compared.calls);
                        }
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "not found, or found without a fault: {wrong:?}");
}
