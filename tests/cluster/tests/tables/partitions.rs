//! Two sessions create partitions at the same time.

use std::thread;

use harness::*;

#[test]
fn two_sessions_make_the_same_partitions() {
    let cluster = Cluster::builder().worker(1).start();
    let (mut first, mut second, mut observer) = (cluster.connect(), cluster.connect(), cluster.connect());
    first.run("CREATE TABLE orders (id bigint PRIMARY KEY) PARTITION BY RANGE (id)");
    first.run("BEGIN");
    assert_eq!(made(&mut first), 12);
    let waiting = thread::spawn(move || made(&mut second));
    eventually("the second session to wait for the first", || {
        let waiting: i64 = single(&mut observer, "SELECT count(*) FROM pg_locks WHERE NOT granted");
        waiting == 1
    });
    first.run("COMMIT");
    assert_eq!(waiting.join().unwrap(), 0);
    let count = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'orders'::regclass";
    assert_eq!(single::<i64>(&mut first, count), 12);
}

/// Creates the partitions of a year. Returns how many were created.
fn made(client: &mut Client) -> i64 {
    let query = "SELECT count(*) FILTER (WHERE created)
                 FROM snowflake_create_partitions('orders', '2026-01-01Z', '2027-01-01Z', '1 month')";
    client.query_one(query, &[]).unwrap_or_else(|error| panic!("{}", text(&error))).get(0)
}
