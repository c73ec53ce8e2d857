//! Rows with UUIDs get IDs of the time at which they were created, with the SQL of the example, even if many rows have
//! the same time.

use harness::book::read;
use harness::examples::run_block;
use harness::*;
use std::sync::LazyLock;

static EXAMPLE: LazyLock<String> = LazyLock::new(|| read("docs/examples/from-other-generators/uuid.sql"));

/// The steps that make the IDs and copy them, for a table with a column of the creation time. The IDs are kept for
/// comparison.
fn backfill() -> String {
    let (_, steps) = EXAMPLE.split_once("-- Step 1:").unwrap();
    let (steps, _) = steps.split_once("-- Step 4:").unwrap();
    // The row and the result are those of the example.
    let changes = [
        ("time_of(id)", "created_at"),
        ("INSERT INTO orders (id, item) VALUES ('019ad000-0000-7333-8333-333333333333', 'pepper');", ""),
        ("; -- tea rice salt pepper", ";"),
        ("DROP TABLE order_numbers;", ""),
    ];
    changes.iter().fold(format!("--{steps}"), |steps, (there, here)| {
        assert!(steps.contains(there), "{there}");
        steps.replace(there, here)
    })
}

/// The tables of the example.
#[test]
fn the_example() {
    let cluster = Cluster::builder().worker(1).start();
    let mut client = cluster.connect();
    wait_for_first_id(&mut client);
    assert_eq!(run_block(&mut client, &EXAMPLE), 5);
}

/// Fills a table with as many rows as named for each time, in milliseconds, and checks the IDs. Returns the longest
/// delay of an ID in milliseconds.
fn backfilled(rows: &[(i64, i64)]) -> i64 {
    let cluster = Cluster::builder().worker(1).start();
    let mut client = cluster.connect();
    wait_for_first_id(&mut client);
    client.run(
        "CREATE TABLE orders (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), created_at timestamptz, item text)",
    );
    for (millisecond, count) in rows {
        client.run(&format!(
            "INSERT INTO orders (created_at, item)
             SELECT '2026-01-01 00:00Z'::timestamptz + interval '{millisecond} ms 300 us', 'tea'
             FROM generate_series(1, {count})"
        ));
    }
    run_block(&mut client, &backfill());

    let total: i64 = rows.iter().map(|(_, count)| count).sum();
    assert_eq!(single::<i64>(&mut client, "SELECT count(DISTINCT number) FROM orders"), total);
    let batches = single::<i64>(&mut client, "SELECT count(DISTINCT batch) FROM order_numbers");
    assert_eq!(batches, total / 10000 + 1);
    let disorder = "SELECT count(*) FROM (
                        SELECT created_at < lag(created_at) OVER (ORDER BY number) AS is_wrong FROM orders
                    ) AS sorted WHERE is_wrong";
    assert_eq!(single::<i64>(&mut client, disorder), 0);
    let late = "SELECT snowflake_timestamp(number, 'standard epoch=2020-01-01T00:00:00Z')
                       - date_trunc('milliseconds', created_at) AS late FROM orders";
    assert_eq!(
        single::<i64>(&mut client, &format!("SELECT count(*) FROM ({late}) AS t WHERE late < '0'")),
        0
    );
    single(&mut client, &format!("SELECT (extract(epoch FROM max(late)) * 1000)::bigint FROM ({late}) AS t"))
}

#[test]
fn five_thousand_rows_of_one_instant() {
    assert_eq!(backfilled(&[(0, 5000)]), 1);
}

/// The rest of a full millisecond precedes the rows of the next one. Later rows have their own time again.
#[test]
fn full_milliseconds_in_several_batches() {
    assert_eq!(backfilled(&[(0, 5000), (1, 5000), (11, 3), (12, 4096), (13, 1)]), 1);
    assert_eq!(backfilled(&[(0, 3 * 4096), (10, 4096)]), 2);
}
