//! Helpers for servers with a clock sequence.

use std::time::{Duration, Instant};

use harness::*;

pub const HOUR: f64 = 3_600.0;

pub const BATCH: &str = "SELECT snowflake_batch(1000)";

/// A server with a layout and a clock that can be set.
pub fn server(layout: &str) -> Builder {
    Cluster::builder().worker(1).patient().set("snowflake_id.layout", layout).clock()
}

/// The value of the clock sequence in an ID of the session's layout.
pub fn value_of(client: &mut Client, id: i64) -> i32 {
    single(client, &format!("SELECT snowflake_clock_seq({id})"))
}

/// Takes IDs. Returns how long the first call took, and the value in the last ID.
pub fn take(client: &mut Client, all: &mut Vec<i64>) -> (Duration, i32) {
    let start = Instant::now();
    let taken = ids(client, BATCH);
    let time = start.elapsed();
    assert_increasing(&taken);
    all.extend(&taken);
    (time, value_of(client, taken[taken.len() - 1]))
}

/// Takes IDs, which must have this value. The first call must not wait for the clock.
pub fn expect_value(client: &mut Client, all: &mut Vec<i64>, value: i32) {
    let (time, found) = take(client, all);
    assert_eq!(found, value);
    assert_within(SLACK, time, "the first call");
}

/// Starts a server that knows its own history since a day ago. Before that, each value counts as used.
pub fn start_with_history(server: Builder) -> Cluster {
    let cluster = server.stopped();
    cluster.set_clock(-24.0 * HOUR);
    cluster.start_server();
    let mut client = cluster.connect();
    client.run("CREATE EXTENSION snowflake_id");
    wait_for_first_id(&mut client);
    cluster.stop_server("fast");
    cluster.set_clock(0.0);
    cluster.start_server();
    cluster
}

pub fn start_again(cluster: &Cluster, mode: &str) -> Client {
    match mode {
        "power" => kill_server(cluster),
        mode => cluster.stop_server(mode),
    }
    cluster.start_server();
    cluster.connect()
}
