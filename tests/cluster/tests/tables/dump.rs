//! A database that uses every feature of the extension is dumped and restored elsewhere.

use harness::*;

/// The extension is in a schema of its own, which is not on any search_path.
const SHOP: &str = r#"
    CREATE SCHEMA ids;
    CREATE EXTENSION snowflake_id SCHEMA ids;
    GRANT USAGE ON SCHEMA ids TO clerk;
    GRANT EXECUTE ON FUNCTION ids.snowflake_mask_named(bigint, text) TO clerk;
    REVOKE EXECUTE ON FUNCTION ids.snowflake_batch(bigint) FROM PUBLIC;

    INSERT INTO ids.snowflake_mask_keys (name, key)
        VALUES ('orders', '\x0123456712345678234567893456789a'), ('prepared', uuid_send(gen_random_uuid())),
               ('switched', uuid_send(gen_random_uuid()));
    SELECT ids.snowflake_prepare_mask_key('prepared'), ids.snowflake_prepare_mask_key('switched');
    SELECT ids.snowflake_switch_mask_key('switched');
    CREATE TABLE orders (
        id bigint PRIMARY KEY DEFAULT ids.snowflake_nextval(),
        made_at timestamptz GENERATED ALWAYS AS (ids.snowflake_timestamp(id, 'wide')) STORED,
        worker int GENERATED ALWAYS AS (ids.snowflake_worker(id, 'wide')) STORED,
        code text GENERATED ALWAYS AS (ids.snowflake_to_text(id, 'crockford32')) STORED,
        shown bigint GENERATED ALWAYS AS (ids.snowflake_mask(id, '\x000102030405060708090a0b0c0d0e0f')) STORED,
        public_id text GENERATED ALWAYS AS (ids.snowflake_to_public(id, 'ord')) STORED UNIQUE,
        uuid uuid GENERATED ALWAYS AS (ids.snowflake_to_uuid(id, '\x000102030405060708090a0b0c0d0e0f', 'ord')) STORED UNIQUE,
        reference text CHECK (ids.snowflake_from_text(reference, 'base58') > 0),
        CHECK (ids.snowflake_since(id, '2024-01-01 00:00Z', 'wide'))
    );
    INSERT INTO orders (reference) SELECT ids.snowflake_to_text(n, 'base58') FROM generate_series(1, 1000) AS n;
    INSERT INTO orders (id)
        SELECT ids.snowflake_encode('2025-06-15 12:00Z'::timestamptz + n * interval '1 day', 3, n, 'wide')
        FROM generate_series(1, 100) AS n;
    CREATE INDEX orders_by_time ON orders (ids.snowflake_timestamp(id, 'wide'));
    CREATE INDEX orders_of_summer ON orders (reference)
        WHERE ids.snowflake_between(id, '2025-06-21 00:00Z', '2025-09-22 00:00Z', 'wide');

    CREATE TABLE events (id bigint PRIMARY KEY DEFAULT ids.snowflake_nextval()) PARTITION BY RANGE (id);
    SELECT ids.snowflake_create_partitions(
        'events', '2025-01-01 00:00Z', '2026-01-01 00:00Z', '1 month', 'wide');
    INSERT INTO events
        SELECT ids.snowflake_encode('2025-01-01 00:00Z'::timestamptz + n * interval '1 day', 3, n, 'wide')
        FROM generate_series(1, 364) AS n;

    CREATE TABLE customers (id serial PRIMARY KEY, name text);
    CREATE TABLE addresses (customer int REFERENCES customers, city text);
    INSERT INTO customers (name) SELECT 'customer ' || n FROM generate_series(1, 100) AS n;
    INSERT INTO addresses SELECT n, 'city ' || n FROM generate_series(1, 100) AS n;
    SELECT ids.snowflake_adopt('customers', 'id', dry_run => false);
    INSERT INTO customers (name) VALUES ('new');

    CREATE VIEW summer AS
        SELECT o.id, d.*, ids.snowflake_timestamp(o.id) AS by_setting
        FROM orders AS o, ids.snowflake_decode(o.id, 'wide') AS d
        WHERE ids.snowflake_between(o.id, '2025-06-21 00:00Z', '2025-09-22 00:00Z');
    CREATE MATERIALIZED VIEW bounds AS
        SELECT ids.snowflake_min_id(day, 'wide') AS first, ids.snowflake_max_id(day) AS last_by_setting
        FROM generate_series('2025-01-01 00:00Z', '2025-12-31 00:00Z', interval '1 day') AS day;
    CREATE FUNCTION recent(since timestamptz) RETURNS SETOF orders STABLE LANGUAGE sql
        BEGIN ATOMIC SELECT * FROM orders WHERE ids.snowflake_since(id, since) AND ids.snowflake_before(id, 'infinity'); END;
    CREATE VIEW layouts AS SELECT * FROM ids.snowflake_presets;
    CREATE VIEW guesses AS SELECT o.id, g.layout FROM orders AS o, ids.snowflake_guess_layout(o.id) AS g;
    CREATE VIEW masked AS
        SELECT id, ids.snowflake_mask_named(id, 'orders') AS masked, ids.snowflake_to_public_named(id, 'ord', 'orders') AS public_id
        FROM orders;
    GRANT SELECT ON orders TO clerk;
"#;

/// Queries whose results must be the same before and after.
const QUESTIONS: &[&str] = &[
    "SHOW snowflake_id.layout",
    "SELECT string_agg(o::text, E'\\n' ORDER BY o.id) FROM orders AS o",
    "SELECT string_agg(tableoid::regclass || ' ' || e::text, E'\\n' ORDER BY e.id) FROM events AS e",
    "SELECT string_agg(c::text || a::text, E'\\n' ORDER BY c.id, a.city)
     FROM customers AS c LEFT JOIN addresses AS a ON a.customer = c.id",
    "SELECT string_agg(s::text, E'\\n' ORDER BY s.id) FROM summer AS s",
    "SELECT string_agg(b::text, E'\\n' ORDER BY b.first) FROM bounds AS b",
    "SELECT string_agg(r::text, E'\\n' ORDER BY r.id) FROM recent('2025-07-01 00:00Z') AS r",
    "SELECT string_agg(l::text, E'\\n' ORDER BY l.name) FROM layouts AS l",
    "SELECT string_agg(g::text, E'\\n' ORDER BY g.id, g.layout) FROM guesses AS g",
    "SELECT string_agg(m::text, E'\\n' ORDER BY m.id) FROM masked AS m",
    "SELECT count(*)::text FROM orders WHERE ids.snowflake_timestamp(id, 'wide') < '2025-07-01 00:00Z'",
    // The definitions, and the privileges granted and revoked on objects of the extension.
    "SELECT string_agg(pg_get_indexdef(indexrelid), E'\\n' ORDER BY indexrelid::regclass::text)
     FROM pg_index WHERE indrelid = 'orders'::regclass",
    "SELECT string_agg(pg_get_expr(adbin, adrelid), E'\\n' ORDER BY adrelid::regclass::text, adnum)
     FROM pg_attrdef",
    "SELECT string_agg(oid::regprocedure || ' ' || p.proacl::text, E'\\n' ORDER BY oid::regprocedure::text)
     FROM pg_proc AS p WHERE proname LIKE 'snowflake\\_%'",
    "SELECT string_agg(k::text, E'\\n' ORDER BY k.name) FROM ids.snowflake_mask_keys AS k",
];

#[test]
fn a_database_that_uses_all_of_it_is_dumped_and_restored() {
    let old = Cluster::builder().worker(1).start();
    wait_for_first_id(&mut old.connect());
    for command in
        ["CREATE ROLE clerk", "CREATE DATABASE shop", "ALTER DATABASE shop SET snowflake_id.layout = 'wide'"]
    {
        old.connect().run(command);
    }
    let mut shop = old.connect_to("shop");
    shop.run(SHOP);
    let answers = answers(&mut shop);
    let dump = old.host().join("dump");
    successful(
        old.client_program("pg_dump")
            .args(["--format=custom", "--create", "--dbname=shop", "--file"])
            .arg(&dump),
    );

    let new = Cluster::builder().worker(2).start();
    wait_for_first_id(&mut new.connect());
    new.connect().run("CREATE ROLE clerk");
    successful(
        new.client_program("pg_restore")
            .args(["--exit-on-error", "--create", "--dbname=postgres", "--jobs=2"])
            .arg(dump),
    );
    let mut shop = new.connect_to("shop");
    for ((question, before), after) in QUESTIONS.iter().zip(answers).zip(self::answers(&mut shop)) {
        assert!(!before.is_empty(), "{question}");
        assert_eq!(before, after, "{question}");
    }

    let last: i64 = single(&mut shop, "SELECT max(id) FROM orders");
    let made = ids(&mut shop, "INSERT INTO orders (reference) VALUES ('zzz') RETURNING id");
    assert!(made[0] > last, "{} is not above {last}", made[0]);
    assert_eq!(single::<i32>(&mut shop, &format!("SELECT ids.snowflake_worker({})", made[0])), 2);
    shop.run("INSERT INTO customers (name) VALUES ('newer')");
}

fn answers(client: &mut Client) -> Vec<String> {
    QUESTIONS.iter().map(|question| single(client, question)).collect()
}
