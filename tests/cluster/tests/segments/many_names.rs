//! Thousands of names on one server: each gets numbers, and a restart without the registry continues them all.

use std::thread;
use std::time::Instant;

use harness::segments::*;
use harness::*;

/// The number of names. `make soak` uses 50,000.
fn names() -> u32 {
    std::env::var("SNOWFLAKE_ID_NAMES").map_or(1_000, |names| names.parse().expect("a number of names"))
}

/// The numbers of names in each statement. A statement must not last too long.
const PART: usize = 200;

/// Takes a number of each name, in eight sessions. One round of the worker answers the calls of several sessions.
fn take_of_all(server: &Cluster, names: u32) {
    thread::scope(|scope| {
        for session in 0..8 {
            scope.spawn(move || {
                let mut client = server.connect();
                for first in (1 + session * PART as u32..=names).step_by(8 * PART) {
                    let last = names.min(first + PART as u32 - 1);
                    client.run(&format!(
                        "INSERT INTO taken SELECT n, snowflake_segment_nextval('segment number ' || n)
                         FROM generate_series({first}, {last}) AS n"
                    ));
                }
            });
        }
    });
}

/// A report after the first one contains only a part of very many names. When the registry's server was restarted, the
/// server reports all names at once, although no call asks for numbers.
#[test]
fn all_names_are_reported_after_a_start_of_the_registry() {
    const NAMES: u32 = 1_100;
    let registry = registry_of(Cluster::builder().set("track_functions", "pl"));
    create_numbered(&registry, NAMES);
    let server = server_of(&registry).set("snowflake_id.max_segments", 2_000).start();
    server.connect().run("CREATE TABLE taken (name int, number bigint)");
    take_of_all(&server, NAMES);
    administer(&registry, "configure(lease => '24h', renew_every => '2 s')");
    wait_for_report(&registry);
    registry.restart("immediate"); // This resets the statistics.
    // The next report is the last one for a long time.
    administer(&registry, "configure(renew_every => '1h')");
    let asked =
        "SELECT coalesce(sum(calls), 0)::bigint FROM pg_stat_user_functions WHERE funcname = 'take_range'";
    let mut client = registry.connect();
    eventually("all reports", || single::<i64>(&mut client, asked) > NAMES.into());
}

/// The registry's own server, which reports no names, asks about some of very many names in turn.
#[test]
fn many_segments_that_were_dropped_here_make_room() {
    const NAMES: u32 = 1_100;
    let server = single_server().set("snowflake_id.max_segments", NAMES as i32).start();
    create_numbered(&server, NAMES);
    let mut client = server.connect();
    client.run("CREATE TABLE taken (name int, number bigint)");
    take_of_all(&server, NAMES - 1);
    // The next reply tells the server the interval of reports, which delay the first calls.
    administer(&server, "configure(renew_every => '200ms')");
    next(&mut client, &format!("segment number {NAMES}"));
    let dropped = [1, NAMES].map(|n| format!("segment number {n}"));
    for name in &dropped {
        administer(&server, &format!("drop_segment('{name}')"));
    }
    for name in &dropped {
        eventually("the state", || segment_state(&mut client, name) == "dropped");
    }
}

#[test]
fn a_server_with_thousands_of_names() {
    let names = names();
    let registry = registry();
    let began = Instant::now();
    create_numbered(&registry, names);
    println!("{names} segments created in {:?}", began.elapsed());
    let server = server_of(&registry).set("snowflake_id.max_segments", 65_536).start();
    server.connect().run("CREATE TABLE taken (name int, number bigint)");
    let began = Instant::now();
    take_of_all(&server, names);
    println!("a number of each in {:?}", began.elapsed());
    let in_use = "SELECT count(*) FROM snowflake_segment_status WHERE state = 'open' AND numbers_issued = 1";
    assert_eq!(single::<i64>(&mut server.connect(), in_use), i64::from(names));

    registry.stop_server("immediate");
    take_of_all(&server, names);
    let began = Instant::now();
    server.stop_server("fast");
    println!("stopped in {:?}", began.elapsed());
    server.start_server();
    let began = Instant::now();
    take_of_all(&server, names);
    println!("a number of each after the restart, without the registry, in {:?}", began.elapsed());
    let mut client = server.connect();
    let wrong = "SELECT count(*) FROM (
        SELECT FROM taken GROUP BY name HAVING array_agg(number ORDER BY number) <> '{1,2,3}') AS wrong";
    assert_eq!(single::<i64>(&mut client, wrong), 0);

    let memory =
        "SELECT sum(allocated_size) FROM pg_shmem_allocations WHERE name LIKE 'snowflake_id segment %'";
    println!("shared memory: {} bytes", single::<String>(&mut client, &format!("SELECT (({memory}))::text")));
}
