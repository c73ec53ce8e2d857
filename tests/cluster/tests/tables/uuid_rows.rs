//! Rows with UUIDs get IDs of the time at which they were created, with the SQL of the page, even if many rows have the
//! same time.

use harness::book::read;
use harness::examples::{blocks, run_block};
use harness::*;
use std::sync::LazyLock;

static PAGE: LazyLock<String> = LazyLock::new(|| read("docs/tables/from-other-generators.md"));

/// The blocks of the page that make the IDs and copy them, for a table with a column of the creation time. The IDs are
/// kept for comparison.
fn backfill() -> impl Iterator<Item = String> {
    let mine = blocks(&PAGE)
        .filter(|block| ["ADD COLUMN number", "order_numbers"].iter().any(|part| block.contains(part)));
    // The result is that of the page's rows.
    let changes = [
        ("time_of(id)", "created_at"),
        ("; -- tea rice salt pepper", ";"),
        ("DROP TABLE order_numbers;", ""),
    ];
    mine.map(move |block| {
        changes.iter().fold(block.to_owned(), |block, (page, here)| block.replace(page, here))
    })
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
    assert_eq!(backfill().count(), 3);
    backfill().for_each(|block| {
        run_block(&mut client, &block);
    });

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
