-- Numbers in ranges, with the registry in the keeper's own database. Midnights, accidents, standbys and fleets are in
-- tests/cluster/tests/segments/numbers.rs and by_date.rs.

\set SHOW_CONTEXT never
-- Without a registry.
SELECT snowflake_segment_nextval('orders');
CREATE EXTENSION snowflake_id_registry;

-- A name that nobody has made; and as soon as it is there.
SELECT snowflake_segment_nextval('orders');
SELECT snowflake_registry.create_segment('orders', start => 100, increment => 5, min_step => 10, max_step => 10);
SELECT snowflake_segment_currval('orders');
SELECT snowflake_segment_nextval('orders');
SELECT snowflake_segment_nextval('orders');
SELECT snowflake_segment_currval('orders');
SELECT snowflake_segment_batch('orders', 3);
SELECT snowflake_segment_currval('orders');
-- Over the ends of ranges, rising.
SELECT array_agg(number) = array_agg(number ORDER BY number) AS rising, count(DISTINCT number), min(number), max(number)
FROM snowflake_segment_batch('orders', 100) AS number;
SELECT snowflake_segment_currval('orders');

-- NULL, and names and counts that cannot be.
SELECT snowflake_segment_nextval(NULL) IS NULL AS "null";
SELECT snowflake_segment_nextval('');
SELECT snowflake_segment_nextval(repeat('x', 64));
SELECT snowflake_segment_nextval(repeat('long', 1000));
SELECT snowflake_segment_currval('nothing');
SELECT snowflake_segment_batch('orders', 0);
SELECT snowflake_segment_batch('orders', 1000001);
SELECT snowflake_registry.create_segment('Łódź ''und'' "mehr" \');
SELECT snowflake_segment_nextval('Łódź ''und'' "mehr" \'), snowflake_segment_currval('Łódź ''und'' "mehr" \');
-- A long text that is compressed or lies elsewhere, and one that is not a constant.
CREATE TEMPORARY TABLE names (name text);
INSERT INTO names VALUES ('orders'), (repeat('x', 10000));
SELECT snowflake_segment_nextval(name) > 600 AS above FROM names WHERE name = 'orders';
SELECT snowflake_segment_nextval(name) FROM names WHERE name <> 'orders';

-- Two names at a time, as column defaults; also of an int column.
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

-- Too many for the digits; numbers of a period have it in front. (The day may end between two statements.)
SELECT snowflake_registry.create_segment('bills', period => 'year', digits => 1);
SELECT number / 10 BETWEEN 2025 AND 9999 AS year, number % 10 AS serial FROM snowflake_segment_batch('bills', 9) AS number;
\set VERBOSITY sqlstate
SELECT snowflake_segment_nextval('bills');
\set VERBOSITY default

-- Moving a column over. Its type stays.
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
-- What a server knows of the end comes with the next range.
SELECT count(*) FROM snowflake_segment_batch('moved', 3000);
SELECT snowflake_adopt('moved', 'id', dry_run => false, generator => 'segment:moved');
SELECT snowflake_adopt('moved', 'id', generator => 'segment:moved');
INSERT INTO moved (note) VALUES ('three') RETURNING id > 3000 AS above, pg_typeof(id);
-- Values that lie above.
CREATE TABLE high (id int PRIMARY KEY);
INSERT INTO high VALUES (1000000);
\set VERBOSITY terse
SELECT snowflake_adopt('high', 'id', dry_run => false, generator => 'segment:orders');
SELECT snowflake_adopt('high', 'id', dry_run => false, generator => 'segment:items');
\set VERBOSITY default
-- A name that the catalog writes in another way than quote_literal(), and one that is too long.
CREATE TABLE quoted (id bigint PRIMARY KEY);
SELECT snowflake_registry.create_segment($$it's a\b$$);
SELECT snowflake_adopt('quoted', 'id', dry_run => false, generator => $$segment:it's a\b$$);
SELECT snowflake_adopt('quoted', 'id', generator => $$segment:it's a\b$$);
SELECT snowflake_adopt('quoted', 'id', generator => 'segment:' || repeat('x', 64));
SELECT snowflake_registry.drop_segment($$it's a\b$$);
DROP TABLE moved, pointing, high, quoted;

-- A closed one.
SELECT snowflake_registry.create_segment('closed');
UPDATE snowflake_registry.segment SET closed_reason = 'a test' WHERE name = 'closed';
SELECT snowflake_segment_nextval('closed');
SELECT snowflake_registry.resume_segment('closed', 1000);
SELECT snowflake_segment_nextval('closed');

-- The view.
SELECT name, state, position IS NOT NULL AS position, range_end >= position AS range_end, step > 0 AS step, max_value,
       period_ends > now() AS period_ends, taken_at <= clock_timestamp() AS taken_at, calls_waited > 0 AS waited, problem
FROM snowflake_segments WHERE name = ANY (ARRAY['few', 'items', 'closed', 'bills']) ORDER BY name COLLATE "C";

-- Rights: none by default.
CREATE ROLE clerk;
GRANT SELECT, INSERT ON orders TO clerk;
SET ROLE clerk;
SELECT snowflake_segment_nextval('orders');
SELECT snowflake_segment_batch('orders', 1);
SELECT snowflake_segment_currval('orders');
SELECT * FROM snowflake_segments;
INSERT INTO orders DEFAULT VALUES;
RESET ROLE;
GRANT EXECUTE ON FUNCTION snowflake_segment_nextval(text), snowflake_segment_currval(text) TO clerk;
GRANT pg_monitor TO clerk;
SET ROLE clerk;
INSERT INTO orders DEFAULT VALUES RETURNING id > 0 AS id;
SELECT snowflake_segment_currval('orders') > 0 AS last;
SELECT count(*) > 0 AS seen FROM snowflake_segments;
SELECT snowflake_segment_batch('orders', 1);
RESET ROLE;

-- In a read-only transaction, in a function, in parallel.
BEGIN READ ONLY;
SELECT snowflake_segment_nextval('orders') > 0 AS number;
COMMIT;
SELECT provolatile, proparallel, proisstrict FROM pg_proc WHERE proname LIKE 'snowflake\_segment\_%' ORDER BY proname;

DROP TABLE orders;
DROP OWNED BY clerk;
DROP ROLE clerk;
SELECT count(snowflake_registry.drop_segment(name)) FROM snowflake_registry.segments WHERE state <> 'dropped';
DROP EXTENSION snowflake_id_registry;
SELECT snowflake_segment_nextval('nobody');
