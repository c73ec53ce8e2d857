-- Numbers in ranges, with the registry in the keeper's own database. Midnights, accidents, standbys and fleets are
-- covered in tests/cluster/tests/segments/numbers.rs and by_date.rs.

\set SHOW_CONTEXT never
-- Without a registry.
SELECT snowflake_segment_nextval('orders');
CREATE EXTENSION snowflake_id_registry;

-- A name that does not exist. It works as soon as it is created.
SELECT snowflake_segment_nextval('orders');
SELECT snowflake_registry.create_segment('orders', start => 100, increment => 5, min_step => 10, max_step => 10);
SELECT snowflake_segment_currval('orders');
SELECT snowflake_segment_nextval('orders');
SELECT snowflake_segment_nextval('orders');
SELECT snowflake_segment_currval('orders');
SELECT snowflake_segment_batch('orders', 3);
SELECT snowflake_segment_currval('orders');
-- Numbers increase across the ends of ranges.
SELECT array_agg(number) = array_agg(number ORDER BY number) AS rising, count(DISTINCT number), min(number), max(number)
FROM snowflake_segment_batch('orders', 100) AS number;
SELECT snowflake_segment_currval('orders');

-- NULL, and invalid names and counts.
SELECT snowflake_segment_nextval(NULL) IS NULL AS "null";
SELECT snowflake_segment_nextval('');
SELECT snowflake_segment_nextval(repeat('x', 256));
SELECT snowflake_segment_nextval(repeat('long', 1000));
SELECT snowflake_segment_currval('nothing');
SELECT snowflake_segment_batch('orders', 0);
SELECT snowflake_segment_batch('orders', 1000001);
SELECT * FROM snowflake_segment_ranges('orders', 0);
SELECT * FROM snowflake_segment_ranges('nothing', 1);
SELECT snowflake_segment_prefetch('nothing');

-- Ranges in which a program may count. A range of the registry has ten numbers, but they are adjacent here.
SELECT snowflake_registry.create_segment('counted', start => 7, increment => 3, min_step => 10, max_step => 10);
SELECT snowflake_segment_prefetch('counted');
SELECT state, position, numbers_issued FROM snowflake_segment_status WHERE name = 'counted';
SELECT * FROM snowflake_segment_ranges('counted', 25);
SELECT snowflake_segment_currval('counted'), snowflake_segment_nextval('counted');
SELECT numbers_issued FROM snowflake_segment_status WHERE name = 'counted';
-- Names of 255 bytes.
SELECT snowflake_registry.create_segment(repeat('x', 255));
SELECT snowflake_segment_nextval(repeat('x', 255));
SELECT snowflake_registry.create_segment('Łódź ''und'' "mehr" \');
SELECT snowflake_segment_nextval('Łódź ''und'' "mehr" \'), snowflake_segment_currval('Łódź ''und'' "mehr" \');
-- A long text that is compressed or stored out of line, and one that is not a constant.
CREATE TEMPORARY TABLE names (name text);
INSERT INTO names VALUES ('orders'), (repeat('x', 10000));
SELECT snowflake_segment_nextval(name) > 600 AS above FROM names WHERE name = 'orders';
SELECT snowflake_segment_nextval(name) FROM names WHERE name <> 'orders';

-- Two names at a time, as column defaults, including an int column.
SELECT snowflake_registry.create_segment('items', max_value => 2147483647);
CREATE TABLE orders (
    id bigint PRIMARY KEY DEFAULT snowflake_segment_nextval('orders'),
    item int NOT NULL DEFAULT snowflake_segment_nextval('items')
);
INSERT INTO orders SELECT FROM generate_series(1, 200);
SELECT count(*), count(DISTINCT item), min(item), max(item), bool_and(id % 5 = 0) AS of_orders FROM orders;
INSERT INTO orders DEFAULT VALUES RETURNING item;
COPY orders (id) FROM stdin;
7
8
\.
SELECT item FROM orders WHERE id IN (7, 8) ORDER BY id;

-- max_value is the end.
SELECT snowflake_registry.create_segment('few', max_value => 3);
SELECT snowflake_segment_batch('few', 3);
SELECT snowflake_segment_nextval('few');
SELECT snowflake_registry.alter_segment('few', max_value => 4);
SELECT snowflake_segment_nextval('few');
SELECT snowflake_segment_batch('few', 2);

-- Too many for the digits. Numbers of a period begin with it. (The day may end between two statements.)
SELECT snowflake_registry.create_segment('bills', period => 'year', digits => 1);
SELECT number / 10 BETWEEN 2025 AND 9999 AS year, number % 10 AS serial FROM snowflake_segment_batch('bills', 9) AS number;
\set VERBOSITY sqlstate
SELECT snowflake_segment_nextval('bills');
\set VERBOSITY default

-- Moving an existing column. Its type does not change.
CREATE TABLE moved (id serial PRIMARY KEY, note text);
INSERT INTO moved (note) VALUES ('one'), ('two');
CREATE TABLE pointing (id int REFERENCES moved);
SELECT snowflake_registry.create_segment('moved');
SELECT snowflake_adopt('moved', 'id', generator => 'segment:moved');
SELECT snowflake_adopt('moved', 'id', generator => 'segment:');
SELECT snowflake_adopt('moved', 'id', generator => 'sequence');
SELECT snowflake_adopt('moved', 'id', generator => NULL);
SELECT snowflake_adopt('moved', 'id', dry_run => false, generator => 'segment:nobody');
SELECT snowflake_adopt('moved', 'id', dry_run => false, generator => 'segment:moved');
SELECT snowflake_registry.alter_segment('moved', max_value => 2147483647);
-- A server learns a new end with the next range.
SELECT count(*) FROM snowflake_segment_batch('moved', 3000);
SELECT snowflake_adopt('moved', 'id', dry_run => false, generator => 'segment:moved');
SELECT snowflake_adopt('moved', 'id', generator => 'segment:moved');
INSERT INTO moved (note) VALUES ('three') RETURNING id > 3000 AS above, pg_typeof(id);
-- Larger values.
CREATE TABLE high (id int PRIMARY KEY);
INSERT INTO high VALUES (1000000);
\set VERBOSITY terse
SELECT snowflake_adopt('high', 'id', dry_run => false, generator => 'segment:orders');
SELECT snowflake_adopt('high', 'id', dry_run => false, generator => 'segment:items');
\set VERBOSITY default
-- Numbers that a sequence has given count even if no row has them any more: an identity, one that the default names,
-- one that counts down.
CREATE TABLE given_identity (id bigint GENERATED BY DEFAULT AS IDENTITY (START 5000) PRIMARY KEY);
CREATE SEQUENCE of_many START 6000;
CREATE TABLE given_default (id bigint PRIMARY KEY DEFAULT nextval('of_many') + 0);
CREATE TABLE given_downwards (id serial PRIMARY KEY);
ALTER SEQUENCE given_downwards_id_seq INCREMENT BY -1 MAXVALUE 7000 START 7000 RESTART;
INSERT INTO given_identity DEFAULT VALUES;
INSERT INTO given_default DEFAULT VALUES;
INSERT INTO given_downwards DEFAULT VALUES;
INSERT INTO given_downwards DEFAULT VALUES;
TRUNCATE given_identity, given_default, given_downwards;
SELECT name, code, detail FROM (VALUES ('given_identity'), ('given_default'), ('given_downwards')) AS tables (name),
    sqlstate_of(format($$SELECT snowflake_adopt(%L, 'id', dry_run => false, generator => 'segment:moved')$$, name));
-- No number was given, so nothing prevents it.
CREATE TABLE given_nothing (id int GENERATED ALWAYS AS IDENTITY (START 8000) PRIMARY KEY);
SELECT snowflake_adopt('given_nothing', 'id', dry_run => false, generator => 'segment:moved');
DROP TABLE given_identity, given_default, given_downwards, given_nothing;
DROP SEQUENCE of_many;

-- A name that the catalog spells differently from quote_literal(), and one that is too long.
CREATE TABLE quoted (id bigint PRIMARY KEY);
SELECT snowflake_registry.create_segment($$it's a\b$$);
SELECT snowflake_adopt('quoted', 'id', dry_run => false, generator => $$segment:it's a\b$$);
SELECT snowflake_adopt('quoted', 'id', generator => $$segment:it's a\b$$);
SELECT snowflake_adopt('quoted', 'id', generator => 'segment:' || repeat('x', 64));
SELECT snowflake_registry.drop_segment($$it's a\b$$);
DROP TABLE moved, pointing, high, quoted;

-- A closed segment.
SELECT snowflake_registry.create_segment('closed');
UPDATE snowflake_registry.segment SET closed_reason = 'a test' WHERE name = 'closed';
SELECT snowflake_segment_nextval('closed');
SELECT snowflake_registry.resume_segment('closed', 1000);
SELECT snowflake_segment_nextval('closed');

-- The view.
SELECT name, state, position IS NOT NULL AS position, range_end >= position AS range_end, step > 0 AS step, max_value,
       period_ends > now() AS period_ends, taken_at <= clock_timestamp() AS taken_at, calls_waited > 0 AS waited, last_error
FROM snowflake_segment_status WHERE name = ANY (ARRAY['few', 'items', 'closed', 'bills']) ORDER BY name COLLATE "C";

-- Privileges: none by default, except to insert rows into tables of a role that has the privilege.
CREATE ROLE clerk;
GRANT SELECT, INSERT ON orders TO clerk;
SET ROLE clerk;
SELECT snowflake_segment_nextval('orders');
SELECT snowflake_segment_batch('orders', 1);
SELECT snowflake_segment_currval('orders');
SELECT * FROM snowflake_segment_status;
INSERT INTO orders DEFAULT VALUES;
RESET ROLE;
GRANT EXECUTE ON FUNCTION snowflake_segment_nextval(text), snowflake_segment_currval(text) TO clerk;
GRANT pg_monitor TO clerk;
SET ROLE clerk;
INSERT INTO orders DEFAULT VALUES RETURNING id > 0 AS id;
SELECT snowflake_segment_currval('orders') > 0 AS last;
SELECT count(*) > 0 AS seen FROM snowflake_segment_status;
SELECT snowflake_segment_batch('orders', 1);
RESET ROLE;

-- In a read-only transaction, in a function, in parallel.
BEGIN READ ONLY;
SELECT snowflake_segment_nextval('orders') > 0 AS number;
COMMIT;
SELECT proname, provolatile, proparallel, proisstrict FROM pg_proc WHERE proname LIKE 'snowflake\_segment\_%' AND pronamespace = 'public'::regnamespace ORDER BY proname;

DROP TABLE orders;
DROP OWNED BY clerk;
DROP ROLE clerk;
SELECT count(snowflake_registry.drop_segment(name)) FROM snowflake_registry.segments WHERE state <> 'dropped';
DROP EXTENSION snowflake_id_registry;
SELECT snowflake_segment_nextval('nobody');
