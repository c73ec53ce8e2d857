//! Thousands of names on one server: each gets numbers, and the cost of a call and the memory stay small.

use std::time::{Duration, Instant};

use harness::segments::*;
use harness::*;

/// The number of names. `make soak` uses 50,000.
fn names() -> u64 {
    std::env::var("SNOWFLAKE_ID_NAMES").map_or(2_000, |names| names.parse().expect("a number of names"))
}

/// Every name is used, before and after a clean stop without the registry. A name is found by its hash, so that calls for many
/// names cost little more than calls for one name.
#[test]
fn a_server_with_thousands_of_names() {
    let names = names();
    let registry = registry_of(Cluster::builder().set("max_locks_per_transaction", 200));
    let began = Instant::now();
    registry.connect().run(&format!(
        "SELECT count(snowflake_registry.create_segment('a segment with number ' || n)) FROM generate_series(1, {names}) AS n"
    ));
    println!("{names} segments created in {:?}", began.elapsed());
    let server = server_of(&registry).set("snowflake_id.max_segments", 65_536).start();
    let mut client = server.connect();
    let take_all = |client: &mut Client| {
        client.run(&format!(
            "INSERT INTO taken SELECT n, snowflake_segment_nextval('a segment with number ' || n) FROM generate_series(1, {names}) AS n"
        ));
    };
    client.run("CREATE TABLE taken (name int, number bigint)");
    let began = Instant::now();
    // Sessions request names in parallel, so that one round of the worker answers several calls.
    std::thread::scope(|scope| {
        for part in 0..8 {
            let server = &server;
            scope.spawn(move || {
                server.connect().run(&format!(
                    "INSERT INTO taken SELECT n, snowflake_segment_nextval('a segment with number ' || n)
                     FROM generate_series(1, {names}) AS n WHERE n % 8 = {part}"
                ));
            });
        }
    });
    println!("first numbers of {names} segments in {:?}", began.elapsed());
    let in_use: i64 = single(&mut client, "SELECT count(*) FROM snowflake_segments WHERE state = 'open'");
    assert_eq!(in_use, names as i64);

    // The second number of each name needs no registry, also after a restart.
    registry.stop_server("immediate");
    take_all(&mut client);
    let began = Instant::now();
    drop(client);
    server.restart("fast");
    println!("restarted in {:?}", began.elapsed());
    let mut client = server.connect();
    let began = Instant::now();
    take_all(&mut client);
    println!("first numbers after the restart in {:?}", began.elapsed());
    take_all(&mut client);
    let wrong: i64 = single(
        &mut client,
        "SELECT count(*) FROM (SELECT FROM taken GROUP BY name HAVING array_agg(number ORDER BY number) <> '{1,2,3,4}') AS wrong",
    );
    assert_eq!(wrong, 0);

    // The cost of a call, for one name and for all names in turn.
    let time = |client: &mut Client, call: &str| -> Duration {
        let one = |client: &mut Client| {
            let began = Instant::now();
            client.run(&format!("SELECT count({call}) FROM generate_series(1, {names}) AS n"));
            began.elapsed()
        };
        (0..5).map(|_| one(client)).min().unwrap() / names as u32
    };
    let base = time(&mut client, "'a segment with number ' || n");
    let one = time(
        &mut client,
        "('a segment with number ' || n, snowflake_segment_nextval('a segment with number 1'))",
    );
    let all = time(&mut client, "snowflake_segment_nextval('a segment with number ' || n)");
    println!(
        "a call: {:?} for one name, {:?} for {names} names in turn",
        one.saturating_sub(base),
        all.saturating_sub(base)
    );
    assert!(all < base + Duration::from_micros(20), "{all:?}");
}
