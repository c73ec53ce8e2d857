//! `make rehearsal`: a fleet that is installed from the package, set up and watched as the book says, and in use all
//! the time. Once a minute something breaks, drawn from what the book names. The rehearsal waits for the alert, opens
//! its runbook, and does what the runbook says. Everything that clients were given is compared at the end.
//!
//! | variable | meaning |
//! | --- | --- |
//! | `MINUTES` | for how long faults begin; default: 60. If the durations are shorter, a fault begins three times a minute |
//! | `SCALE` | how many times shorter the durations are; default: 20 in less than an hour, and otherwise 1 |
//! | `SEED` | the order of the faults; default: at random |
//! | `ONLY` | only faults whose names contain this text |
//! | `SNOWFLAKE_ID_PACKAGE` | the root of the file system in which the package is installed |
//! | `SNOWFLAKE_ID_REPORT` | the directory of the report |

mod alerts;
mod faults;
mod ledger;
mod pages;
mod picture;
mod report;
mod scene;
mod schedule;
mod site;

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

#[cfg(test)]
use snowflake_id_cluster_tests::book::{files, folded, read};
use snowflake_id_cluster_tests::installation::{major, pg_config};
use snowflake_id_cluster_tests::{Cluster, beside, new_dir};

use crate::alerts::{Scale, Watch};
use crate::ledger::{Flow, Kind, Taken, compare, insert};
use crate::pages::Pages;
use crate::report::Report;
use crate::scene::{IDS, NUMBERS, Stage};
use crate::schedule::Schedule;
use crate::site::{SERVERS, Site};

fn option<T: std::str::FromStr>(name: &str, default: T) -> T {
    match std::env::var(name) {
        Ok(text) if !text.is_empty() => {
            text.parse().unwrap_or_else(|_| panic!("invalid value for {name}: \"{text}\""))
        }
        _ => default,
    }
}

fn main() {
    let minutes: u32 = option("MINUTES", 60);
    let seed = option("SEED", u64::from(std::process::id()));
    let only = option("ONLY", String::new());
    let scale = Scale(option("SCALE", if minutes < 60 { 20 } else { 1 }));
    println!("MINUTES={minutes} SEED={seed}, durations of alerts and leases: 1/{}", scale.0);

    let root: PathBuf = option("SNOWFLAKE_ID_PACKAGE", String::new()).into();
    let documentation = format!("/usr/share/doc/postgresql-{}-snowflake-id", major(&pg_config()));
    let pages = Pages::new(root, documentation);
    faults::check_table(&pages);
    let dir = new_dir("monitoring.");
    let site = Site::set_up(pages, scale, dir.path());
    let began = Instant::now();
    let flows = || [Flow::new(began), Flow::new(began)];
    let stage = Stage {
        site,
        scale,
        began,
        watch: Watch::new(began),
        flows: [flows(), flows(), flows()],
        taken: Mutex::default(),
    };
    println!("The fleet is set up. Clients insert rows on {SERVERS} servers.");

    let schedule = Schedule {
        interval: Duration::from_secs(if scale.0 > 1 { 20 } else { 60 }),
        minutes,
        seed,
        only: &only,
    };
    let watch = |stop: &AtomicBool| stage.watch.run(&stage.site.prometheus, stop);
    let (mut taken, mut records) = beside(clients(&stage), || beside([watch], || schedule.run(&stage)).1);
    records.sort_by(|one, other| one.record.from.total_cmp(&other.record.from));
    taken.append(&mut stage.taken.lock().unwrap());
    let clusters: Vec<&Cluster> = stage.site.servers.iter().map(|server| &server.cluster).collect();
    let comparison = compare(&taken, &clusters);
    let report = Report { stage: &stage, records, comparison, minutes, seed };
    let to: PathBuf = option("SNOWFLAKE_ID_REPORT", "target/rehearsal".to_owned()).into();
    report.write(Path::new(&to));
    if !report.is_good() {
        std::process::exit(1);
    }
}

/// The clients of all servers: two that take IDs, and one that takes numbers.
fn clients(stage: &Stage) -> impl Iterator<Item = impl FnOnce(&AtomicBool) -> Taken + Send> {
    stage.site.servers.iter().enumerate().flat_map(move |(at, server)| {
        [Kind::Ids, Kind::Ids, Kind::Numbers].map(move |kind| {
            let flow = &stage.flows[at][if kind == Kind::Numbers { NUMBERS } else { IDS }];
            move |stop: &AtomicBool| insert(&server.cluster, at, kind, flow, stop)
        })
    })
}

#[cfg(test)]
fn pages_of_the_repository() -> Pages {
    Pages::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."), "/".into())
}

#[test]
fn the_book_names_each_fault() {
    faults::check_table(&pages_of_the_repository());
}

/// The words by which the faults find their steps, tables and rows are on the pages, and those of the section of an alert
/// in this section.
#[test]
fn the_book_contains_each_quotation() {
    let pages = pages_of_the_repository();
    let book = folded(&pages.all());
    let page = pages.page(pages::FAILS);
    let (mut quotations, mut of_alerts) = (0, 0);
    for file in files("tests/cluster/examples/rehearsal/faults", ".rs") {
        let source = read(&file);
        for call in ["step_saying(", "says(", "ends(", "row(", "row_of(", "follow("] {
            for rest in source.split(call).skip(1) {
                let arguments = rest.split(';').next().unwrap().split("||").next().unwrap();
                for words in arguments.split('"').skip(1).step_by(2) {
                    assert!(book.contains(words), "no page says \"{words}\"");
                    quotations += 1;
                }
            }
        }
        for (at, found) in source.match_indices("scene.alert(\"") {
            let (name, rest) = source[at + found.len()..].split_once("\")").unwrap();
            let section = pages::section(&page, &name.to_lowercase()).expect("a section for the alert");
            let chained = rest.trim_start().strip_prefix(".step_saying(\"");
            // The variable with the section, up to the end of the function.
            let before = source[..at].trim_end().strip_suffix('=').filter(|_| rest.starts_with(';'));
            let variable = before.and_then(|text| text.rsplit("let ").next()).map(str::trim);
            let call = variable.map(|name| format!("{name}.step_saying(\""));
            let function = rest.split("\n}\n").next().unwrap().split("\n        },\n").next().unwrap();
            let later = call.iter().flat_map(|call| function.split(call.as_str()).skip(1));
            for words in chained.into_iter().chain(later) {
                section.step_saying(words.split('"').next().unwrap());
                of_alerts += 1;
            }
        }
    }
    assert!(quotations > 60 && of_alerts > 30, "only {quotations} quotations, {of_alerts} of alerts");
}
