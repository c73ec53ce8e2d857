//! `COPY` into a table whose default is `snowflake_nextval()`: cases that need a clock that can be set, or a second
//! server.
//!
//! All other cases are in tests/regress/sql/copy.sql. As there, a table with the constraint `in_bulk` accepts only rows
//! that arrive in bulk.

use std::time::Instant;

use harness::*;

const ORDERS: &str = "
    CREATE FUNCTION none_is_in(relation oid) RETURNS boolean LANGUAGE sql
        AS 'SELECT pg_catalog.pg_stat_get_xact_tuples_inserted(relation) OPERATOR(pg_catalog.=) 0';
    CREATE TABLE orders (
        id bigint NOT NULL DEFAULT snowflake_nextval(),
        place int PRIMARY KEY,
        CONSTRAINT in_bulk CHECK (none_is_in(tableoid))
    )";

/// Copies so many rows, and returns their IDs in the order of the rows.
fn copy(client: &mut Client, rows: u32) -> Vec<i64> {
    client.run(&format!("TRUNCATE orders; COPY orders (place) FROM PROGRAM 'seq {rows}'"));
    ids(client, "SELECT id FROM orders ORDER BY place")
}

/// A batch that needs more IDs than are available waits for them, or fails as a whole.
#[test]
fn copy_waits_for_ids() {
    let cluster = Cluster::builder().worker(1).start();
    let mut client = cluster.connect();
    client.run(ORDERS);
    // The layout has one ID in 100 ms, and max_ahead allows eleven at once.
    client.run("SET snowflake_id.layout = 'time:40 worker:10 unit=100ms'");
    let start = Instant::now();
    let taken = copy(&mut client, 30);
    assert_eq!(taken.len(), 30);
    assert_increasing(&taken);
    assert!(start.elapsed().as_millis() >= 1_700, "{:?}", start.elapsed());

    let mut client = cluster.connect();
    client.run("SET snowflake_id.layout = 'time:40 worker:10 unit=100ms'");
    client.run("SET snowflake_id.max_wait = 0; TRUNCATE orders");
    let (state, message) = failure(&mut client, "COPY orders (place) FROM PROGRAM 'seq 30'");
    assert_eq!(state, "55P03", "{message}");
    assert_eq!(single::<i64>(&mut client, "SELECT count(*) FROM orders"), 0);
    client.run("SET snowflake_id.layout = 'standard'");
    let taken = copy(&mut cluster.connect(), 1_000);
    assert_eq!(taken.len(), 1_000);
}

/// While the clock is too far behind, `COPY` fails as every call does. Then it continues above the existing IDs.
#[test]
fn copy_with_a_clock_behind() {
    let cluster = Cluster::builder().worker(1).clock().start();
    cluster.connect().run(ORDERS);
    let before = copy(&mut cluster.connect(), 1_000);
    cluster.set_clock(-10.0);
    let (state, message) =
        failure(&mut cluster.connect(), "COPY orders (place) FROM PROGRAM 'seq 1001 2000'");
    assert_eq!(state, "55P03", "{message}");
    cluster.set_clock(-2.0);
    let after = copy(&mut cluster.connect(), 1_000);
    assert_increasing(&[before, after].concat());
}

/// Replicated rows take IDs from the subscriber for a column that the publisher does not have, both in the initial copy
/// and later.
#[test]
fn a_subscription_takes_ids() {
    let publisher = Cluster::builder().set("wal_level", "logical").start();
    let mut publishing = publisher.connect();
    publishing.run(
        "CREATE TABLE orders (place int PRIMARY KEY);
         INSERT INTO orders SELECT generate_series(1, 1000);
         CREATE PUBLICATION orders FOR TABLE orders",
    );
    let subscriber = Cluster::builder().worker(1).patient().start();
    let mut subscribing = subscriber.connect();
    subscribing.run(ORDERS);
    let subscription = format!(
        "CREATE SUBSCRIPTION orders CONNECTION 'host={} user=test dbname=postgres' PUBLICATION orders",
        publisher.host().display()
    );
    subscribing.run(&subscription);
    let mut arrived = |rows: usize| {
        all_arrive("the rows", || {
            let taken = ids(&mut subscribing, "SELECT id FROM orders ORDER BY place");
            (taken.len() == rows).then_some(taken)
        })
    };
    assert_increasing(&arrived(1_000));
    let mut subscriber_too = subscriber.connect();
    subscriber_too.run("ALTER TABLE orders DROP CONSTRAINT in_bulk");
    publishing.run("INSERT INTO orders SELECT generate_series(1001, 2000)");
    assert_increasing(&arrived(2_000));
}
