//! The cost of a single call.

use snowflake_id_cluster_tests::Cluster;

use crate::figures::{Figures, table_of_calls};
use crate::measure::{median, net_ns, net_ns_once};
use crate::numbers::{CACHED_SEQUENCE, SEGMENT, SEQUENCE, SNOWFLAKE};
use crate::servers::{LAYOUT, SERVERS, SETTINGS, Servers};

/// Many repetitions are needed, because the costs of calls differ by a few nanoseconds only.
const REPETITIONS: usize = 27;
const BASE: &str = "42::bigint";

pub fn print(servers: &mut Servers, figures: &Figures) {
    let expressions = [
        (SNOWFLAKE.name, SNOWFLAKE.call),
        (SEGMENT.name, SEGMENT.call),
        (SEQUENCE.name, SEQUENCE.call),
        (CACHED_SEQUENCE.name, CACHED_SEQUENCE.call),
        ("`clock_timestamp()`", "clock_timestamp()"),
        ("`gen_random_uuid()`", "gen_random_uuid()"),
    ];
    let pairs = expressions.map(|(_, expression)| (expression, BASE));
    let ns = net_ns(servers, REPETITIONS, &pairs);
    println!("\n### One call, net: median of {REPETITIONS} repetitions on {SERVERS} servers\n");
    let calls: Vec<_> = expressions.iter().map(|(name, _)| *name).zip(ns).collect();
    figures.show_in_layout("calls", LAYOUT, &table_of_calls(&calls, 2));
    figures.write_calls("calls", &calls);
}

/// Compares this build with another one, if there is one.
pub fn print_baseline(servers: &mut Servers, _: &Figures) {
    let Ok(pg_config) = std::env::var("BASELINE_PG_CONFIG") else { return };
    let baselines: Vec<_> =
        (0..SERVERS).map(|_| Cluster::builder().of(pg_config.as_ref()).settings(SETTINGS).start()).collect();
    let mut others: Vec<_> = baselines.iter().map(Cluster::connect).collect();
    let mut net = [Vec::new(), Vec::new()];
    for at in 0..REPETITIONS * 2 {
        let server = at * SERVERS / (REPETITIONS * 2);
        let pair = [&mut servers.all()[server], &mut others[server]];
        for (client, net) in pair.into_iter().zip(&mut net) {
            // No other call leaves the clock time to catch up with the IDs.
            client.batch_execute("SET snowflake_id.layout = 'wide'").unwrap();
            net.extend(net_ns_once(client, &[(SNOWFLAKE.call, BASE)]));
            client.batch_execute("RESET snowflake_id.layout").unwrap();
        }
    }
    let [this, other] = net.map(median);
    println!("\n### This build and the baseline\n");
    let (ratio, difference) = (this / other, this - other);
    println!(
        "`snowflake_nextval()`: {this:.1} ns, baseline {other:.1} ns: {ratio:.2} x, {difference:+.1} ns"
    );
}
