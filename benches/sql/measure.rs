//! Measurement of times.

use std::time::Instant;

use postgres::Client;

use crate::servers::{SERVERS, Servers};

/// The number of rows of a query that is timed, and of a table that is filled.
pub const ROWS: u32 = 1_000_000;

/// Returns the time that an action takes, in seconds.
pub fn seconds(action: impl FnOnce()) -> f64 {
    let start = Instant::now();
    action();
    start.elapsed().as_secs_f64()
}

pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Returns the net time per call of each expression, in nanoseconds: its time over 1,000,000 rows minus that
/// of the expression paired with it. The repetitions alternate between the servers.
pub fn net_ns(servers: &mut Servers, repetitions: usize, pairs: &[(&str, &str)]) -> Vec<f64> {
    let clients = servers.all();
    let client_of = |at: usize| at * SERVERS / repetitions;
    let runs: Vec<_> = (0..repetitions).map(|at| net_ns_once(&mut clients[client_of(at)], pairs)).collect();
    (0..pairs.len()).map(|at| median(runs.iter().map(|run| run[at]).collect())).collect()
}

pub fn net_ns_once(client: &mut Client, pairs: &[(&str, &str)]) -> Vec<f64> {
    let mut time = |expression: &str| {
        let query = format!("SELECT count({expression}) FROM generate_series(1::bigint, {ROWS}) AS n");
        seconds(|| client.batch_execute(&query).unwrap())
    };
    // A process that has not run for a while is slow at first.
    time(pairs[0].1);
    let net = pairs.iter().map(|(expression, base)| {
        let base = time(base);
        (time(expression) - base) * 1e9 / f64::from(ROWS)
    });
    net.collect()
}
