//! A superuser calls `snowflake_check()` in a database of somebody hostile: none of her code runs.

use harness::check::*;
use harness::*;

/// Functions in everything that a query of the tables would evaluate, and tables that are not what they seem.
const TRAPS: &str = "
    CREATE FUNCTION trap(n bigint) RETURNS bigint IMMUTABLE LANGUAGE plpgsql AS $$
    BEGIN
        RAISE WARNING 'trap as %', current_user;
        RETURN n;
    END
    $$;
    CREATE FUNCTION trap_of_policy(n bigint) RETURNS boolean IMMUTABLE LANGUAGE sql AS 'SELECT trap(n) > 0';
    CREATE TABLE orders (
        id bigint DEFAULT snowflake_nextval(), n bigint DEFAULT trap(1),
        doubled bigint GENERATED ALWAYS AS (trap(id)) STORED,
        CHECK (trap(7) > 0)
    );
    INSERT INTO orders VALUES (snowflake_encode(now(), 1, 1, 'twitter'));
    CREATE INDEX ON orders ((trap(3) + id));
    CREATE INDEX ON orders (id) WHERE trap(5) > 0;
    CREATE STATISTICS of_orders ON (trap(id)), (trap(9) + n) FROM orders;
    ALTER TABLE orders ENABLE ROW LEVEL SECURITY;
    ALTER TABLE orders FORCE ROW LEVEL SECURITY;
    CREATE POLICY hers ON orders USING (trap_of_policy(id));
    CREATE RULE also AS ON INSERT TO orders DO ALSO SELECT trap(2);
    CREATE VIEW seen AS SELECT trap(id) AS id FROM orders;
    ALTER VIEW seen ALTER COLUMN id SET DEFAULT snowflake_nextval();
    CREATE TABLE parts (id bigint DEFAULT snowflake_nextval()) PARTITION BY RANGE (trap(id));
    CREATE TABLE parts_1 PARTITION OF parts DEFAULT;
    CREATE DOMAIN order_id AS snowflake CHECK (trap(VALUE) > 0);
    CREATE TABLE of_domain (id order_id DEFAULT snowflake_nextval(), small int DEFAULT snowflake_nextval());
    INSERT INTO of_domain (id, small) VALUES (snowflake_encode(now(), 1, 1, 'twitter'), 1);
    CREATE SCHEMA snowflake_internal_2;
    CREATE TABLE pg_class (id int); CREATE TABLE pg_type (id int);
    CREATE FUNCTION format(text, text) RETURNS text LANGUAGE sql AS 'SELECT trap(1)::text';
    CREATE FUNCTION equal(oid, bigint) RETURNS boolean LANGUAGE sql AS 'SELECT trap(1) > 0';
    CREATE OPERATOR = (FUNCTION = equal, LEFTARG = oid, RIGHTARG = bigint);";

#[test]
fn nothing_of_hers_runs() {
    let cluster = Cluster::builder().worker(1).set("fsync", "on").set("wal_level", "logical").start();
    let mut client = cluster.connect();
    wait_for_first_id(&mut client);
    client.run("CREATE ROLE mallory");
    client.run("CREATE DATABASE hers OWNER mallory");
    cluster.connect_to("hers").run("CREATE EXTENSION snowflake_id; GRANT ALL ON SCHEMA public TO mallory");
    let mut mallory = cluster.connect_to("hers");
    mallory.run("SET SESSION AUTHORIZATION mallory; SET client_min_messages = error");
    mallory.run(TRAPS);
    mallory.run("CREATE PUBLICATION app FOR TABLE orders WHERE (n > 0); ALTER DATABASE hers SET search_path = public, pg_catalog");
    let mut superuser = cluster.connect_to("hers");
    // The traps work: even a plan evaluates them.
    superuser.run("SET row_security = on; EXPLAIN SELECT id FROM orders WHERE id > 5");
    assert!(cluster.log().contains("trap as test"), "{}", cluster.log());

    let from = cluster.log_length();
    let found: Vec<_> = problems(&mut superuser).into_iter().map(|row| row.problem).collect();
    assert_eq!(
        found,
        [
            "column small of table public.of_domain cannot hold IDs",
            "domain public.order_id prevents pg_upgrade",
            "column id of table public.orders contains IDs of another layout",
            "column id of table public.of_domain contains IDs of another layout",
        ]
    );
    assert!(!cluster.log_between(&(from..u64::MAX)).contains("trap as"), "{}", cluster.log());
}
