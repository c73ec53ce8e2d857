//! The cost of a call on a server that takes numbers of many segments.

use std::time::{Duration, Instant};

use harness::segments::*;
use harness::*;

const NAMES: u32 = 1_000;

/// The time of a call, without the time of the same statement without a call. The lowest of five measurements.
fn cost(client: &mut Client, name: &str, calls: u32) -> Duration {
    let mut time = |expression: &str| {
        let query = format!("SELECT count({expression}) FROM generate_series(1, {calls}) AS n");
        let mut one = || {
            let began = Instant::now();
            client.run(&query);
            began.elapsed()
        };
        (0..5).map(|_| one()).min().unwrap()
    };
    time(&format!("snowflake_segment_nextval({name})")).saturating_sub(time(name)) / calls
}

/// A call takes no longer if there are many names, whether it is for one of them or for all in turn.
#[test]
fn a_call_for_a_thousand_names() {
    let registry = registry();
    create_numbered(&registry, NAMES);
    let server = server_of(&registry).set("snowflake_id.max_segments", 2_000).start();
    let mut client = server.connect();
    client.run("SET statement_timeout = 0");
    cost(&mut client, "'segment number ' || n", NAMES); // The session gets to know all names.
    let one = cost(&mut client, "'segment number ' || (n * 0 + 1)", 150);
    let all = cost(&mut client, "'segment number ' || n", NAMES);
    println!("a call: {one:?} for one name, {all:?} for {NAMES} names in turn");
    assert_within(one + Duration::from_micros(20), all, "a call");
}
