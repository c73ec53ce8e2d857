//! `make bench`: what IDs cost in SQL, beside what PostgreSQL itself offers. Prints Markdown.
//!
//! All that is compared is measured in one run, in turn, repetition by repetition, so that a machine that is
//! busy for a while slows down both sides. Figures are medians over the repetitions. Those of single calls go
//! round several servers: where the system happens to put things in memory makes a difference of some
//! nanoseconds per call, for as long as a server runs.
//!
//! Arguments are the tables to print, all without any. The environment:
//!
//! | variable | meaning |
//! | --- | --- |
//! | `FIGURES` | a directory into which the figures are written as well, a CSV file for each table |
//! | `BASELINE_PG_CONFIG` | a PostgreSQL into which another build is installed, to compare this one with |

mod calls;
mod figures;
mod filling;
mod horizon;
mod latency;
mod lease;
mod measure;
mod numbers;
mod reading;
mod servers;
mod throughput;

use figures::Figures;
use servers::Servers;

/// Prints a table.
type Table = fn(&mut Servers, &Figures);

/// Each table's name, in the order in which they are printed.
const TABLES: [(&str, Table); 10] = [
    ("calls", calls::print),
    ("baseline", calls::print_baseline),
    ("reading", reading::print),
    ("showing", reading::print_showing),
    ("filling", filling::print),
    ("throughput", throughput::print),
    ("saturation", throughput::print_saturation),
    ("latency", latency::print),
    ("horizon", horizon::print),
    ("lease", lease::print),
];

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let known = TABLES.map(|(name, _)| name);
    if let Some(unknown) = wanted.iter().find(|name| !known.contains(&name.as_str())) {
        eprintln!("there is no table {unknown}: {}, core", known.join(", "));
        std::process::exit(2);
    }
    let figures = Figures::from_environment();
    let mut servers = Servers::default();
    figures.print_machine(servers.first());
    for (name, print) in TABLES {
        if wanted.is_empty() || wanted.iter().any(|wanted| wanted == name) {
            print(&mut servers, &figures);
        }
    }
}
