//! `snowflake_check()` reports tables, types and publications that will cause problems with IDs, and says what to run.

use std::time::{Duration, Instant};

use harness::check::*;
use harness::*;

fn start() -> (Cluster, Client) {
    let cluster = Cluster::builder().worker(1).set("fsync", "on").set("wal_level", "logical").start();
    let mut client = cluster.connect();
    wait_for_first_id(&mut client);
    assert_healthy(&mut client);
    (cluster, client)
}

/// What is created, the problem that it causes, and what is dropped afterwards.
type Case = (&'static str, &'static str, &'static str);

const CASES: &[Case] = &[
    (
        "CREATE TABLE orders (id int PRIMARY KEY DEFAULT snowflake_nextval())",
        "column id of table public.orders cannot hold IDs",
        "DROP TABLE orders",
    ),
    (
        "CREATE TABLE \"Orders 1\" (\"Id\" smallint DEFAULT snowflake_next())",
        "column \"Id\" of table public.\"Orders 1\" cannot hold IDs",
        "DROP TABLE \"Orders 1\"",
    ),
    (
        "CREATE TABLE orders (id float8 DEFAULT snowflake_nextval())",
        "column id of table public.orders cannot hold IDs",
        "DROP TABLE orders",
    ),
    (
        "CREATE DOMAIN small AS int; CREATE TABLE orders (id small DEFAULT snowflake_nextval())",
        "column id of table public.orders cannot hold IDs",
        "DROP TABLE orders; DROP DOMAIN small",
    ),
    (
        "CREATE TABLE orders (id int DEFAULT snowflake_nextval(), day int) PARTITION BY LIST (day);
         CREATE TABLE orders_1 PARTITION OF orders FOR VALUES IN (1);
         CREATE TABLE orders_2 PARTITION OF orders FOR VALUES IN (2)",
        "column id of table public.orders cannot hold IDs",
        "DROP TABLE orders",
    ),
    (
        "CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval());
         CREATE TABLE items (order_id int REFERENCES orders)",
        "column order_id of table public.items cannot hold IDs",
        "DROP TABLE items, orders",
    ),
    (
        "CREATE TABLE orders (id snowflake PRIMARY KEY DEFAULT snowflake_nextval());
         CREATE TABLE invoices (id bigint PRIMARY KEY REFERENCES orders);
         CREATE TABLE items (invoice int REFERENCES invoices, day int) PARTITION BY LIST (day);
         CREATE TABLE items_1 PARTITION OF items FOR VALUES IN (1)",
        "column invoice of table public.items cannot hold IDs",
        "DROP TABLE items, invoices, orders",
    ),
    (
        "CREATE DOMAIN order_id AS snowflake CHECK (VALUE > 0);
         CREATE TABLE orders (id order_id DEFAULT snowflake_nextval()); INSERT INTO orders DEFAULT VALUES",
        "domain public.order_id prevents pg_upgrade",
        "INSERT INTO orders VALUES (snowflake_nextval()); DROP TABLE orders; DROP DOMAIN order_id",
    ),
    (
        "CREATE DOMAIN order_id AS snowflake DEFAULT snowflake_nextval();
         CREATE TABLE orders (id order_id, other order_id DEFAULT '7', note text)",
        "domain public.order_id prevents pg_upgrade",
        "INSERT INTO orders (note) VALUES ('tea');
         DO $$ BEGIN ASSERT (SELECT snowflake_worker(id) = 1 AND other = 7 FROM orders); END $$;
         DROP TABLE orders; DROP DOMAIN order_id",
    ),
    // Children and partitions keep their own defaults.
    (
        "CREATE DOMAIN number AS snowflake DEFAULT 7;
         CREATE TABLE orders (id number, note text);
         CREATE TABLE old_orders (id number DEFAULT 8) INHERITS (orders);
         CREATE TABLE events (id number, day int) PARTITION BY LIST (day);
         CREATE TABLE events_1 PARTITION OF events FOR VALUES IN (1);
         CREATE TABLE events_2 PARTITION OF events (id DEFAULT 9) FOR VALUES IN (2)",
        "domain public.number prevents pg_upgrade",
        "INSERT INTO orders (note) VALUES ('tea'); INSERT INTO old_orders (note) VALUES ('tea');
         INSERT INTO events (day) VALUES (1); INSERT INTO events_1 (day) VALUES (1); INSERT INTO events_2 (day) VALUES (2);
         DO $$ BEGIN
             ASSERT (SELECT array_agg(id ORDER BY id) = '{7,8}' FROM orders);
             ASSERT (SELECT array_agg(id ORDER BY id) = '{7,7,9}' FROM events);
         END $$;
         DROP TABLE orders, old_orders, events; DROP DOMAIN number",
    ),
    (
        "CREATE DOMAIN order_ids AS snowflake[] CHECK (VALUE[1] > 0)",
        "domain public.order_ids prevents pg_upgrade",
        "DROP DOMAIN order_ids",
    ),
    (
        "CREATE DOMAIN key AS bigint CHECK (VALUE::snowflake > 0)",
        "domain public.key prevents pg_upgrade",
        "DROP DOMAIN key",
    ),
    (
        "CREATE FUNCTION is_new(snowflake) RETURNS boolean RETURN $1 > 5;
         CREATE FUNCTION is_newest(snowflake) RETURNS boolean RETURN is_new($1);
         CREATE DOMAIN order_id AS snowflake CHECK (is_newest(VALUE))",
        "domain public.order_id prevents pg_upgrade",
        "DROP DOMAIN order_id; DROP FUNCTION is_newest; DROP FUNCTION is_new",
    ),
    (
        "CREATE TYPE ids AS RANGE (subtype = snowflake, multirange_type_name = ids_multirange);
         CREATE TABLE pages (ids ids, all_ids ids_multirange);
         CREATE TABLE old_pages () INHERITS (pages);
         CREATE TABLE lines (ids ids, day int) PARTITION BY LIST (day);
         CREATE TABLE lines_1 PARTITION OF lines FOR VALUES IN (1);
         INSERT INTO pages VALUES ('[1,5)', '{[1,5)}'); INSERT INTO old_pages VALUES ('[1,5)', '{[1,5)}')",
        "range type public.ids prevents pg_upgrade",
        "DROP TABLE pages, old_pages, lines",
    ),
    (
        "CREATE TABLE orders (id bigint PRIMARY KEY);
         CREATE PUBLICATION app FOR TABLE orders, snowflake_workers, snowflake_internal.segment_grant",
        "publication app contains tables of the extension",
        "DROP PUBLICATION app; DROP TABLE orders",
    ),
    (
        "CREATE TABLE orders (id bigint PRIMARY KEY); CREATE PUBLICATION app FOR TABLES IN SCHEMA public",
        "publication app contains tables of the extension",
        "DROP PUBLICATION app; DROP TABLE orders",
    ),
    (
        "CREATE TABLE orders (id bigint PRIMARY KEY); CREATE PUBLICATION app FOR ALL TABLES",
        "publication app contains tables of the extension",
        "DROP PUBLICATION app; DROP TABLE orders",
    ),
    (
        "CREATE PUBLICATION app FOR ALL TABLES",
        "publication app contains tables of the extension",
        "DROP PUBLICATION app",
    ),
];

#[test]
fn each_problem_has_one_row_and_a_hint_that_solves_it() {
    let (_cluster, mut client) = start();
    for (setup, expected, cleanup) in CASES {
        client.run(setup);
        let problem = only_problem(&mut client);
        assert_eq!(problem.problem, *expected);
        problem.follow_hint(&mut client);
        assert_healthy(&mut client);
        client.run(cleanup);
    }
}

/// Two columns with the same cause are two problems, and a type over another one is dropped before it.
#[test]
fn problems_of_several_objects() {
    let (_cluster, mut client) = start();
    client.run(
        "CREATE TABLE orders (id int PRIMARY KEY DEFAULT snowflake_nextval());
         CREATE TABLE items (id int PRIMARY KEY REFERENCES orders);
         CREATE TABLE notes (item int REFERENCES items, at int DEFAULT 5)",
    );
    let found = problems(&mut client);
    let columns = ["id of table public.orders", "id of table public.items", "item of table public.notes"];
    assert_eq!(
        found.iter().map(|problem| problem.problem.clone()).collect::<Vec<_>>(),
        columns.map(|column| format!("column {column} cannot hold IDs"))
    );
    assert!(found[0].detail.contains("default") && found[1].detail.contains("foreign key"), "{found:#?}");
    found.iter().for_each(|problem| problem.follow_hint(&mut client));
    assert_healthy(&mut client);
}

/// Numbers of a segment may be small, and other columns and types are none of our business.
#[test]
fn columns_without_ids() {
    let (_cluster, mut client) = start();
    client.run(
        "CREATE TABLE invoices (id int PRIMARY KEY DEFAULT snowflake_segment_nextval('invoices'));
         CREATE TABLE lines (invoice int REFERENCES invoices);
         CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), number int DEFAULT 1);
         CREATE TABLE items (order_id bigint REFERENCES orders);
         CREATE TABLE texts (id text DEFAULT snowflake_nextval(), number numeric DEFAULT snowflake_nextval());
         CREATE DOMAIN key AS bigint; CREATE DOMAIN other_key AS key CHECK (VALUE > 0);
         CREATE DOMAIN plain AS snowflake NOT NULL DEFAULT '7' CHECK (VALUE IS NOT NULL);
         CREATE DOMAIN later AS snowflake; ALTER DOMAIN later ADD CHECK (VALUE > 0) NOT VALID;
         CREATE PUBLICATION app FOR TABLE orders, items;
         CREATE TABLE imported (id bigint DEFAULT snowflake_nextval());
         INSERT INTO imported SELECT generate_series(1, 1000);
         INSERT INTO imported SELECT snowflake_nextval() FROM generate_series(1, 1000);
         INSERT INTO imported VALUES (-1), (NULL)",
    );
    assert_healthy(&mut client);
}

/// Rows of another layout are found at both ends of a large table, and one partition is enough.
#[test]
fn ids_of_another_layout() {
    let (_cluster, mut client) = start();
    client.run(
        "CREATE TABLE orders (id bigint DEFAULT snowflake_nextval(), filling text DEFAULT repeat('x', 500));
         INSERT INTO orders SELECT snowflake_nextval() FROM generate_series(1, 5000);
         INSERT INTO orders SELECT snowflake_encode(now() - interval '2 days', 3, n, 'twitter') FROM generate_series(1, 7) AS n",
    );
    let problem = only_problem(&mut client);
    assert_eq!(problem.problem, "column id of table public.orders contains IDs of another layout");
    assert!(
        problem.detail.contains(", 7 do not") && problem.detail.contains("but of layout twitter."),
        "{problem:?}"
    );
    // The rows get new IDs.
    client.run("UPDATE orders SET id = snowflake_nextval() WHERE snowflake_timestamp(id) > now() + interval '1 year'");
    assert_healthy(&mut client);
    // The first pages of the table, whose other rows are of the present.
    client.run("UPDATE orders SET id = snowflake_encode(now(), 3, 1, 'twitter') WHERE ctid < '(3,0)'; ");
    client.run("VACUUM orders");
    assert!(only_problem(&mut client).detail.contains("but of layout twitter."));
    client.run("DROP TABLE orders");
    // The setting is wrong, and the IDs are right.
    client.run(
        "CREATE TABLE posts (id bigint DEFAULT snowflake_nextval(), day int) PARTITION BY LIST (day);
         CREATE TABLE posts_1 PARTITION OF posts FOR VALUES IN (1); CREATE TABLE posts_2 PARTITION OF posts FOR VALUES IN (2);
         INSERT INTO posts SELECT snowflake_encode(now(), 3, n, 'twitter'), 1 + n % 2 FROM generate_series(1, 10) AS n",
    );
    let problem = only_problem(&mut client);
    problem.follow_hint(&mut client);
    eventually("the reload", || single::<String>(&mut client, "SHOW snowflake_id.layout") == "twitter");
    assert_healthy(&mut client);
    // Old times that are new ones in another layout.
    client.run("INSERT INTO posts SELECT snowflake_encode(now(), 3, n, 'standard'), 1 + n % 2 FROM generate_series(1, 10) AS n");
    assert!(only_problem(&mut client).detail.contains("but of layout standard."));
}

/// IDs of this server that it could repeat. Once the floor is above them, they are no problem, but no IDs come until then.
#[test]
fn own_ids_that_are_ahead() {
    let (_cluster, mut client) = start();
    client.run(
        "CREATE TABLE orders (id bigint DEFAULT snowflake_nextval());
         INSERT INTO orders SELECT snowflake_encode(now() + interval '3 hours', 1, n) FROM generate_series(1, 2000) AS n",
    );
    let problem = only_problem(&mut client);
    assert_eq!(problem.problem, "column id of table public.orders contains IDs that are ahead of the clock");
    problem.follow_hint(&mut client);
    assert_eq!(only_problem(&mut client).problem, "this server issues no IDs: clock behind");
}

/// After the clock is set back, the server continues above its last ID, so its rows are no problem.
#[test]
fn own_ids_after_the_clock_was_set_back() {
    let server = Cluster::builder().worker(1).set("fsync", "on").clock().start();
    let mut client = server.connect();
    wait_for_first_id(&mut client);
    client.run(
        "CREATE TABLE orders (id bigint DEFAULT snowflake_nextval(), n int);
         INSERT INTO orders (n) SELECT generate_series(1, 2000)",
    );
    server.set_clock(-600.0);
    eventually("the clock", || server_state(&mut client) == "clock behind");
    assert_eq!(only_problem(&mut client).problem, "this server issues no IDs: clock behind");
}

/// The IDs of another server cannot be repeated by this one, so its clock is to be corrected.
#[test]
fn ids_of_another_server_that_are_ahead() {
    let (_cluster, mut client) = start();
    client.run(
        "CREATE TABLE orders (id bigint DEFAULT snowflake_nextval());
         INSERT INTO orders VALUES (snowflake_encode(now() + interval '3 hours', 7, 0))",
    );
    let problem = only_problem(&mut client);
    assert_eq!(problem.problem, "column id of table public.orders contains IDs that are ahead of the clock");
    assert!(problem.hint.starts_with("Correct the clock"), "{problem:?}");
    assert!(!problem.hint.contains("raise_floor"), "{problem:?}");
    client.run("DELETE FROM orders");
    assert_healthy(&mut client);
}

/// A table that is locked is not read. The call neither waits nor fails.
#[test]
fn a_locked_table() {
    let (cluster, mut client) = start();
    client.run(
        "CREATE TABLE orders (id bigint DEFAULT snowflake_nextval());
         INSERT INTO orders VALUES (snowflake_encode(now() + interval '3 hours', 7, 0))",
    );
    let mut other = cluster.connect();
    other.run("BEGIN; LOCK TABLE orders");
    client.run("SET lock_timeout = '1s'");
    assert_healthy(&mut client);
    // Its publication is reported without a look at the table.
    client.run("CREATE PUBLICATION app FOR ALL TABLES");
    let problem = only_problem(&mut client);
    assert_eq!(problem.problem, "publication app contains tables of the extension");
    assert!(problem.hint.ends_with("FOR TABLE public.orders;"), "{problem:?}");
    client.run("DROP PUBLICATION app");
    other.run("ROLLBACK");
    only_problem(&mut client);
    // The function keeps no lock.
    client.run("BEGIN; SELECT snowflake_check()");
    other.run("SET lock_timeout = '1s'; ALTER TABLE orders ADD COLUMN filling text");
}

/// The time of a call is limited, and so is what it reads.
#[test]
fn many_tables() {
    let (_cluster, mut client) = start();
    for hundred in 0..5 {
        client.run(&format!(
            "DO $$ BEGIN FOR n IN 1..100 LOOP
                 EXECUTE format('CREATE TABLE orders_%s (id bigint DEFAULT snowflake_nextval())', 100 * {hundred} + n);
                 EXECUTE format('INSERT INTO orders_%s SELECT snowflake_nextval() FROM generate_series(1, 5000)', 100 * {hundred} + n);
                 COMMIT;
             END LOOP; END $$"
        ));
    }
    let start = Instant::now();
    assert_healthy(&mut client);
    println!("500 tables: {:?}", start.elapsed());
    assert_within(Duration::from_secs(2) + SLACK, start.elapsed(), "the call");
}

#[test]
fn an_unfinished_adoption() {
    let (_cluster, mut client) = start();
    client.run("SET client_min_messages = warning; CREATE TABLE orders (id serial PRIMARY KEY); INSERT INTO orders VALUES (1)");
    let call = "CALL snowflake_adopt_online('orders', 'id', dry_run => false)";
    let next: Option<String> = single(&mut client, call);
    let problem = only_problem(&mut client);
    assert_eq!(problem.problem, "snowflake_adopt_online() has not finished");
    assert!(problem.detail.contains("Tables: public.orders."), "{problem:?}");
    client.run(&next.expect("a command"));
    let next: Option<String> = single(&mut client, call);
    assert_eq!(next, None);
    assert_healthy(&mut client);
}
