//! The procedures of docs/tables/from-other-generators.md, each in a database of its own.

use harness::book::{of_test, sections};
use harness::examples::{block_at, blocks, run_block};
use harness::*;
use std::sync::LazyLock;

static PAGE: LazyLock<String> = LazyLock::new(|| of_test("functions_in_postgresql"));

/// A stand-in for pgEdge's extension, which takes the place of the next value.
const PGEDGE: &str = "
    CREATE SCHEMA snowflake;
    CREATE FUNCTION snowflake.nextval(regclass) RETURNS bigint LANGUAGE sql AS 'SELECT 1 + nextval($1)';";

/// In each section, the first block creates the table, the second sets the layout, and the third is run in a new session.
/// Before, the sessions with the old layout are ended.
#[test]
fn procedures() {
    let server = Cluster::builder().worker(1).set("snowflake_id.max_wait", "1min").start();
    wait_for_first_id(&mut server.connect());
    let sections: Vec<_> = sections(&PAGE).filter(|(heading, _)| heading.starts_with("From ")).collect();
    assert_eq!(sections.len(), 3);
    for (number, (_, section)) in sections.iter().enumerate() {
        let database = format!("shop{number}");
        server.connect().run(&format!("CREATE DATABASE {database}"));
        let mut client = server.connect_to(&database);
        client.run(PGEDGE);
        client.run("CREATE EXTENSION snowflake_id");
        let [table, layout, steps] = blocks(section).collect::<Vec<_>>()[..] else { panic!("{section}") };
        run_block(&mut client, table);
        client.run(&layout.replace("DATABASE shop ", &format!("DATABASE {database} ")));
        assert_eq!(single::<String>(&mut client, "SHOW snowflake_id.layout"), "standard");
        let mut session = server.connect_to(&database);
        session.run(block_at(&PAGE, "after ALTER DATABASE"));
        eventually("the end of the old session", || client.simple_query("SELECT 1").is_err());
        assert!(run_block(&mut session, steps) >= 2, "{section}");
    }
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
