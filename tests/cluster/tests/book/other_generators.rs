//! The procedure of docs/tables/from-other-generators.md for IDs with a time, in each layout of its table.

use harness::book::{of_test, quoted, rows};
use harness::examples::{block_at, run_block};
use harness::*;

/// A stand-in for pgEdge's extension, which takes the place of the next value.
const PGEDGE: &str = "
    CREATE SCHEMA snowflake;
    CREATE FUNCTION snowflake.nextval(regclass) RETURNS bigint LANGUAGE sql AS 'SELECT 1 + nextval($1)';";

/// An ID that was made outside, its worker, the statements before the table, and the default of the column. In layouts
/// that are missing here, the old ID is the smallest of a time.
const OLD: [(&str, i64, i64, &str, &str); 8] = [
    ("twitter", 1541815603606036480, 26, "", ""),
    ("leaf", 1791385667490566186, 5, "", ""),
    ("sonyflake2", 19765238371387925, 2581, "", ""),
    ("time:29 worker:21 sequence:13 unit=1s epoch=2016-09-19T16:00:00Z", 180363646902239241, 4, "", ""),
    ("pgedge", 170505378935607296, 1, PGEDGE, "snowflake.nextval('orders_id_seq')"),
    (
        "instagram",
        2387095846912005121,
        5,
        "CREATE FUNCTION next_id() RETURNS bigint LANGUAGE sql AS $$
             SELECT ((extract(epoch FROM clock_timestamp()) * 1000)::bigint - 1314220021721) << 23
                    | (5 << 10) | (nextval('orders_id_seq') % 1024)
         $$;",
        "next_id()",
    ),
    // A part of Mastodon's sequence.
    (
        "time:47 worker:6 sequence:10 epoch=1970-01-01T00:00:00Z",
        103270115826048975,
        39,
        "CREATE FUNCTION timestamp_id(table_name text) RETURNS bigint LANGUAGE sql AS $$
             SELECT (extract(epoch FROM now()) * 1000)::bigint << 16 | (nextval(table_name || '_id_seq') & 65535)
         $$;",
        "timestamp_id('orders')",
    ),
    ("time:41 sequence:12 worker:10 epoch=2023-01-01T00:00:00Z", 170505378935607297, 1, "", ""),
];

/// Before the default is changed, the sessions with the old layout are ended.
#[test]
fn in_each_layout() {
    let page = of_test("other_generators");
    let server = Cluster::builder().worker(1).set("snowflake_id.max_wait", "1min").start();
    wait_for_first_id(&mut server.connect());
    let layouts: Vec<&str> = rows(&page)
        .skip_while(|row| row[0] != "generator")
        .skip(1)
        .take_while(|row| row[0] != "before")
        .flat_map(|row| quoted(row[1]).collect::<Vec<_>>())
        .collect();
    assert_eq!(layouts.len(), 12, "{layouts:?}");
    for (layout, ..) in OLD {
        assert!(layouts.contains(&layout), "{layout} is not on the page");
    }
    for (number, layout) in layouts.into_iter().enumerate() {
        println!("{layout}");
        let database = format!("shop{number}");
        server.connect().run(&format!("CREATE DATABASE {database}"));
        let mut client = server.connect_to(&database);
        client.run("CREATE EXTENSION snowflake_id; CREATE SEQUENCE orders_id_seq");
        let (old, worker, before, default) = match OLD.iter().find(|old| old.0 == layout) {
            Some(&(_, old, worker, before, default)) => (old, worker, before, default),
            None => {
                let query = format!("SELECT snowflake_min_id('2025-05-17 08:30Z', '{layout}')");
                (single(&mut client, &query), 0, "", "")
            }
        };
        let default = if default.is_empty() { String::new() } else { format!("DEFAULT {default}") };
        client.run(before);
        client.run(&format!("CREATE TABLE orders (id bigint PRIMARY KEY {default}, item text)"));
        client.run(&format!("INSERT INTO orders VALUES ({old}, 'old')"));

        let change = block_at(&page, "layout").replace("DATABASE shop ", &format!("DATABASE {database} "));
        client.run(&change.replace("'pgedge'", &format!("'{layout}'")));
        assert_eq!(single::<String>(&mut client, "SHOW snowflake_id.layout"), "standard");
        let mut session = server.connect_to(&database);
        session.run(block_at(&page, "new session"));
        eventually("the end of the old session", || client.simple_query("SELECT 1").is_err());
        assert_eq!(ids(&mut session, "SELECT snowflake_worker(id)::bigint FROM orders"), [worker]);
        assert_eq!(run_block(&mut session, block_at(&page, "default")), 1);
        session.run("DROP FUNCTION IF EXISTS next_id(), timestamp_id(text); DROP SEQUENCE orders_id_seq");
    }
}

/// The numbers on the page.
#[test]
fn limits() {
    let server = Cluster::builder().worker(1).start();
    let mut client = server.connect();
    for (layout, workers, ids_per_second) in
        [("sonyflake", 65_536, 25_600), ("sonyflake2", 65_536, 25_600), ("baidu_long", 8_388_608, 512)]
    {
        let limits = format!(
            "SELECT ARRAY[workers, ids_per_second]::bigint[] FROM snowflake_describe_layout('{layout}')"
        );
        assert_eq!(single::<Vec<i64>>(&mut client, &limits), [workers, ids_per_second], "{layout}");
    }
    let mastodon = "SELECT workers::bigint FROM snowflake_describe_layout('time:47 worker:6 sequence:10')";
    assert_eq!(single::<i64>(&mut client, mastodon), 64);
    let repeated = "SELECT extract(year FROM snowflake_timestamp(
                        snowflake_min_id('2026-01-01Z', 'sonyflake'), 'sonyflake2'))::bigint";
    assert_eq!(single::<i64>(&mut client, repeated), 2036);
}

/// Adopting refuses a layout whose IDs are smaller, and columns that pgEdge has converted are adopted.
#[test]
fn columns_that_pgedge_has_converted() {
    let server = Cluster::builder().worker(1).set("snowflake_id.max_wait", "1min").start();
    let mut client = server.connect();
    wait_for_first_id(&mut client);
    client.run(PGEDGE);
    // As convert_sequence_to_snowflake() of version 2.4 leaves the columns. The sequences have values beyond their end.
    for kind in ["bigserial", "bigint GENERATED ALWAYS AS IDENTITY"] {
        client.run(&format!(
            "DROP TABLE IF EXISTS lines, orders;
             CREATE TABLE orders (id {kind} PRIMARY KEY, item text);
             CREATE TABLE lines (order_id bigint REFERENCES orders);
             INSERT INTO orders (item) VALUES ('old');
             UPDATE pg_attribute SET attidentity = '' WHERE attrelid = 'orders'::regclass AND attname = 'id';
             ALTER TABLE orders ALTER COLUMN id SET DEFAULT snowflake.nextval('public.orders_id_seq'::regclass);
             SELECT setval('orders_id_seq', snowflake_min_id(now() - interval '1 min', 'pgedge') + 4096);
             UPDATE pg_sequence SET seqmax = 2 WHERE seqrelid = 'orders_id_seq'::regclass"
        ));
        let adopt = "SELECT snowflake_adopt('orders', 'id', dry_run => false)";
        let (code, message) = failure(&mut server.connect(), adopt);
        assert_eq!(code, "55000", "{message}");
        assert!(message.contains("are not below the next ID"), "{message}");

        server.change_for(&mut client, "snowflake_id.layout", "pgedge");
        let mut session = server.connect();
        session.run(adopt);
        let new = "INSERT INTO orders (item) VALUES ('new')
                   RETURNING snowflake_worker(id) = 1 AND id > (SELECT last_value FROM orders_id_seq)";
        assert!(single::<bool>(&mut session, new), "{kind}");
        let drop = "DROP SEQUENCE orders_id_seq";
        match kind {
            "bigserial" => session.run(drop),
            _ => assert_eq!(failure(&mut session, drop).0, "2BP01"),
        }
        server.change_for(&mut client, "snowflake_id.layout", "standard");
    }
}
