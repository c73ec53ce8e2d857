//! `make bench`: the cost of IDs in SQL, compared with that of PostgreSQL's own features. Prints Markdown.
//!
//! Values that are compared are measured in the same run, in turn, repetition by repetition. If the machine
//! is busy for a while, both sides slow down. Figures are medians over the repetitions. Single calls are
//! measured on several servers, because the memory locations that the system happens to choose make a
//! difference of some nanoseconds per call for as long as a server runs.
//!
//! The arguments are the names of the tables to print. Without arguments, all tables are printed. Environment
//! variables:
//!
//! | variable | meaning |
//! | --- | --- |
//! | `FIGURES` | a directory into which the figures are also written, one CSV file for each table |
//! | `BASELINE_PG_CONFIG` | `pg_config` of a PostgreSQL installation with another build, to compare this one with |

mod calls;
mod figures;
mod filling;
mod horizon;
mod latency;
mod lease;
mod measure;
mod numbers;
mod program;
mod reading;
mod registry;
mod servers;
mod throughput;
mod watermark;

use figures::Figures;
use servers::Servers;

/// Prints a table.
type Table = fn(&mut Servers, &Figures);

/// The names of the tables, in the order in which they are printed.
const TABLES: [(&str, Table); 13] = [
    ("calls", calls::print),
    ("baseline", calls::print_baseline),
    ("reading", reading::print),
    ("showing", reading::print_showing),
    ("filling", filling::print),
    ("throughput", throughput::print),
    ("saturation", throughput::print_saturation),
    ("latency", latency::print),
    ("program", program::print),
    ("horizon", horizon::print),
    ("lease", lease::print),
    ("registry", registry::print),
    ("watermark", watermark::print),
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
