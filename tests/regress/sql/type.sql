-- Type snowflake: in SQL as a bigint, in JSON a string.
SET timezone = 'UTC';

CREATE TABLE orders (id snowflake PRIMARY KEY DEFAULT snowflake_nextval(), place int);
INSERT INTO orders (place) SELECT generate_series(1, 1000);
SELECT snowflake_nextval() > max(id) AS increases, count(DISTINCT id), pg_typeof(max(id)) FROM orders;
INSERT INTO orders (id, place) VALUES (1541815603606036481, 2001), (1541815603606036482, 2002), (1541815603606036483, 2003);

-- In JSON: three IDs that a JavaScript number cannot tell apart.
SELECT json_agg(id ORDER BY id) AS as_type, json_agg(id::bigint ORDER BY id) AS as_bigint,
       array_agg(id::float8 ORDER BY id) AS in_javascript
FROM orders WHERE place > 2000;
SELECT to_json(o) AS to_json, to_jsonb(o) AS to_jsonb, row_to_json(o) AS row_to_json,
       json_build_object('id', o.id) AS built, json_object_agg(o.place, o.id) AS aggregated, jsonb_agg(o.id) AS jsonb_agg
FROM orders AS o WHERE place = 2001 GROUP BY o.*, o.id;
-- From JSON: a string, a number, and a record.
SELECT id, pg_typeof(id), place FROM json_populate_record(NULL::orders, '{"id": "1541815603606036481", "place": 1}');
SELECT id FROM jsonb_to_record('{"id": 1541815603606036481}') AS r (id snowflake);
SELECT to_jsonb(ARRAY[1541815603606036481]::snowflake[]) AS array;

-- Input and output, also binary.
SELECT ' 42 '::snowflake, '-9223372036854775808'::snowflake, (2::bigint ^ 62)::bigint::snowflake;
SELECT snowflake_internal.snowflake_send('1') AS sent, octet_length(snowflake_internal.snowflake_send('1')), pg_column_size('1'::snowflake);
SELECT code, message FROM sqlstate_of($$SELECT 'one'::snowflake$$);
SELECT code, message FROM sqlstate_of($$SELECT '9223372036854775808'::snowflake$$);
COPY (SELECT id FROM orders WHERE place = 2001) TO PROGRAM 'cat >copied.snowflake' (FORMAT binary);
CREATE TABLE copied (id snowflake);
COPY copied FROM PROGRAM 'cat copied.snowflake; rm copied.snowflake' (FORMAT binary);
SELECT * FROM copied;
DROP TABLE copied;

-- With constants, with parameters, and with the other integers.
SELECT place FROM orders WHERE id = 1541815603606036481;
SELECT place FROM orders WHERE id IN (1, 2, 1541815603606036481);
SELECT place FROM orders WHERE id = '1541815603606036481';
SELECT count(*) FROM orders WHERE id IN (1, 2, 3);
SELECT count(*) FROM orders WHERE id = ANY (ARRAY[1541815603606036481, 2]) OR id = ANY ('{1541815603606036482}'::snowflake[]);
SELECT count(*) FROM orders WHERE id BETWEEN 1541815603606036481 AND 1541815603606036482;
SELECT count(*) FROM orders WHERE id > 0 AND id <> 5;
-- Only a comparison with a type other than an integer requires a conversion.
SELECT code, message FROM sqlstate_of('SELECT FROM orders WHERE id = 1::numeric');
SELECT count(*) FROM orders WHERE id::bigint = 1541815603606036481::numeric;
PREPARE by_id (snowflake) AS SELECT place FROM orders WHERE id = $1;
EXECUTE by_id (1541815603606036481);
PREPARE by_bigint (bigint) AS SELECT place FROM orders WHERE id = $1;
EXECUTE by_bigint (1541815603606036481);
DEALLOCATE ALL;
SELECT coalesce(NULL::snowflake, 0) AS coalesced, pg_typeof(coalesce(NULL::snowflake, 0::bigint)),
       CASE WHEN true THEN '7'::snowflake ELSE 0::bigint END, greatest('7'::snowflake, 8), nullif('7'::snowflake, 7);
SELECT pg_typeof('7'::snowflake + 1), '7'::snowflake + 1 AS sum, '7'::snowflake % 4 AS remainder, '7'::snowflake::text AS text;
SELECT '7'::snowflake AS id UNION ALL SELECT 8::bigint UNION ALL SELECT 9 ORDER BY id;
SELECT array_agg(id ORDER BY id) AS ids, pg_typeof(array_agg(id)), pg_typeof(min(id)) FROM orders WHERE place > 2001;
SELECT sum(id) > 0 AS sum, count(DISTINCT id) AS ids, min(id) > 0 AS min FROM orders;
SELECT '7'::snowflake::numeric, '7'::snowflake::float8, '7'::snowflake::int, 7::smallint::snowflake, 7::int::snowflake;
SELECT code, message FROM sqlstate_of($$SELECT '3000000000'::snowflake::int$$);
CREATE TABLE assigned (n numeric, f float8, i int, b bigint, s snowflake);
INSERT INTO assigned SELECT s, s, s, s, s FROM (SELECT '7'::snowflake) AS one (s);
INSERT INTO assigned (s) VALUES (7), (7::bigint), (7::smallint), ('7');
SELECT * FROM assigned;
DROP TABLE assigned;

-- Expressions that are numbers again in JSON, because the other operand is a bigint, or because the function returns one.
CREATE TABLE others (id bigint PRIMARY KEY, ids bigint[]);
INSERT INTO others VALUES (1541815603606036481, '{1541815603606036481}');
CREATE VIEW pairs AS SELECT o.id AS id, b.id AS other FROM orders AS o FULL JOIN others AS b ON b.id = o.id WHERE b.id = 1541815603606036481;
SELECT to_json(coalesce(id, other)) AS coalesce, to_json(coalesce(other, id)) AS reversed, to_json(coalesce(id, 3000000000)) AS big,
       to_json(CASE WHEN id > 0 THEN id ELSE other END) AS case, to_json(greatest(id, other)) AS greatest, to_json(nullif(id, 0)) AS nullif,
       to_json(ARRAY[id, other]) AS array
FROM pairs;
SELECT json_agg(id) AS union FROM (SELECT id FROM pairs UNION SELECT other FROM pairs) AS both_of_them;
SELECT json_agg(id) AS values FROM (VALUES ('1541815603606036481'::snowflake), (1541815603606036481)) AS ids (id);
SELECT json_agg(id) AS using FROM orders JOIN others USING (id);
SELECT to_json(max(id)) AS max, to_json(max(id) + 1) AS sum, to_json(abs(max(id))) AS abs FROM pairs;
SELECT to_json(array_agg(id) || 1541815603606036482) AS concatenated FROM pairs;
-- Expressions that stay strings.
SELECT to_json(coalesce(id, 0)) AS coalesce, to_json(coalesce(id, other::snowflake)) AS converted, to_json(greatest(id, 1)) AS greatest,
       to_json(ARRAY[id, 1]) AS array, to_json(first_value(id) OVER ()) AS first, to_json(lag(id, 1, id) OVER ()) AS lag
FROM pairs;
SELECT to_json(mode() WITHIN GROUP (ORDER BY id)) AS mode, to_json(max(id)::snowflake) AS max FROM pairs;
DROP VIEW pairs;

-- Arrays of both types are converted, but not compared.
SELECT ARRAY['7'::snowflake] || ARRAY[8::bigint] AS both, '7'::snowflake = ANY (ARRAY[7::bigint]) AS any,
       ARRAY['7'::snowflake] @> '{7}' AS contains, ARRAY['7'::snowflake]::bigint[] = ARRAY[7::bigint] AS converted;
SELECT code, message FROM sqlstate_of('SELECT ARRAY[$$7$$::snowflake] = ARRAY[7::bigint]');
SELECT code, message FROM sqlstate_of('SELECT ARRAY[$$7$$::snowflake] && ARRAY[7::bigint]');
SELECT code, message FROM sqlstate_of('SELECT FROM others WHERE ids @> ARRAY[$$7$$::snowflake]');

-- Functions in PL/pgSQL whose queries return the other type. Functions in SQL convert.
CREATE FUNCTION newest() RETURNS TABLE (id snowflake) LANGUAGE plpgsql AS $$ BEGIN RETURN QUERY SELECT max(o.id) FROM orders AS o; END $$;
SELECT code, message FROM sqlstate_of('SELECT newest()');
CREATE OR REPLACE FUNCTION newest() RETURNS TABLE (id snowflake) LANGUAGE plpgsql
    AS $$ BEGIN RETURN QUERY SELECT max(o.id)::snowflake FROM orders AS o; END $$;
SELECT newest() > 0 AS newest;
DROP FUNCTION newest;
CREATE FUNCTION newest() RETURNS snowflake LANGUAGE sql AS 'SELECT max(o.id) FROM orders AS o';
SELECT newest() > 0 AS newest;
DROP FUNCTION newest;
CREATE FUNCTION of_order(snowflake) RETURNS int LANGUAGE sql AS 'SELECT 1';
SELECT code, message FROM sqlstate_of('SELECT of_order(7::bigint)');
SELECT of_order(7), of_order(7::bigint::snowflake);
DROP FUNCTION of_order;

-- Recursive queries whose second part returns a bigint.
SELECT code, message FROM sqlstate_of('WITH RECURSIVE t AS (SELECT id FROM orders UNION ALL SELECT o.id FROM others AS o JOIN t ON t.id < o.id) SELECT FROM t');
SELECT code, message FROM sqlstate_of('WITH RECURSIVE t (id) AS (SELECT $$0$$::snowflake UNION ALL SELECT id + 1 FROM t WHERE id < 3) SELECT FROM t');
WITH RECURSIVE t (id) AS (SELECT '0'::snowflake UNION ALL SELECT (id + 1)::snowflake FROM t WHERE id < 3) SELECT count(*) FROM t;

-- UNION ALL of both types uses no index. With a conversion in one part, it does.
CREATE FUNCTION uses_index(query text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE line text;
BEGIN
    FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
        IF line LIKE '%Index Cond%' THEN RETURN true; END IF;
    END LOOP;
    RETURN false;
END $$;
SET enable_seqscan = off;
SELECT uses_index('SELECT FROM (SELECT id FROM orders UNION ALL SELECT id FROM others) AS u WHERE id = 7') AS both_types,
       uses_index('SELECT FROM (SELECT id::bigint FROM orders UNION ALL SELECT id FROM others) AS u WHERE id = 7') AS converted;
RESET enable_seqscan;
DROP FUNCTION uses_index;

-- Row filters of publications refuse columns of a type that is not PostgreSQL's own. Column lists do not.
SELECT code, message FROM sqlstate_of('CREATE PUBLICATION p FOR TABLE orders WHERE (id > 7)');
SELECT code, message FROM sqlstate_of('CREATE PUBLICATION p FOR TABLE orders WHERE (id::bigint > 7)');
SELECT code, message FROM sqlstate_of('CREATE PUBLICATION p FOR TABLE orders WHERE (id IS NOT NULL)');
SET client_min_messages = error;
CREATE PUBLICATION p FOR TABLE orders (id), others WHERE (id > 7);
RESET client_min_messages;
SELECT code, message FROM sqlstate_of('ALTER TABLE others ALTER id TYPE snowflake');
DROP PUBLICATION p;

-- Conversions that need bigint between.
SELECT type, code, message, of_bigint
FROM unnest('{smallint,real,oid,bit(64),numeric,float8,jsonb}'::text[]) WITH ORDINALITY AS types (type, place),
     sqlstate_of(format('SELECT $$7$$::snowflake::%s', type)),
     LATERAL (SELECT code AS of_bigint FROM sqlstate_of(format('SELECT $$7$$::snowflake::bigint::%s', type))) AS b ORDER BY place;
SELECT type, code, message, of_bigint
FROM unnest('{real,oid,numeric,float8,jsonb}'::text[]) WITH ORDINALITY AS types (type, place),
     sqlstate_of(format('SELECT $$7$$::%s::snowflake', type)),
     LATERAL (SELECT code AS of_bigint FROM sqlstate_of(format('SELECT $$7$$::%s::bigint::snowflake', type))) AS b ORDER BY place;
SELECT code, message FROM sqlstate_of('SELECT round($$7$$::snowflake)');
SELECT code, message FROM sqlstate_of('SELECT $$7$$::snowflake <@ int8range(1, 9)');
SELECT code, message FROM sqlstate_of('SELECT coalesce($$7$$::snowflake, 0.5)');
SELECT code, message FROM sqlstate_of('INSERT INTO orders (id) VALUES (7.0)');
SELECT round('7'::snowflake::bigint), '7'::snowflake::bigint <@ int8range(1, 9) AS in_range;

-- An array is written again when its type changes.
SELECT relfilenode AS before FROM pg_class WHERE relname = 'others' \gset
ALTER TABLE others ALTER id TYPE snowflake;
SELECT relfilenode = :before AS same_file FROM pg_class WHERE relname = 'others';
ALTER TABLE others ALTER ids TYPE snowflake[];
SELECT relfilenode = :before AS same_file FROM pg_class WHERE relname = 'others';
DROP TABLE others;

-- The functions of the extension.
SELECT snowflake_worker(id), snowflake_to_text(1541815603606036481::snowflake, 'base58'), (snowflake_decode(id)).worker_id
FROM orders WHERE place = 1;
SELECT count(*) FROM orders WHERE snowflake_since(id, now() - interval '1 hour');
SELECT snowflake_from_text('4aaW4SzAyQK', 'base58')::snowflake;

-- Joins and foreign keys in both directions.
CREATE TABLE lines (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), order_id bigint REFERENCES orders);
CREATE TABLE notes (id snowflake PRIMARY KEY DEFAULT snowflake_nextval(), line_id snowflake REFERENCES lines,
                    order_id snowflake REFERENCES orders ON DELETE CASCADE);
INSERT INTO lines (order_id) SELECT id FROM orders;
INSERT INTO notes (line_id, order_id) SELECT id, order_id FROM lines;
SELECT count(*) FROM orders AS o JOIN lines AS l ON l.order_id = o.id JOIN notes AS n ON n.line_id = l.id AND n.order_id = o.id;
SELECT count(*) FROM (SELECT id FROM orders) AS o JOIN (SELECT order_id AS id FROM lines) AS l USING (id);
SELECT code, message FROM sqlstate_of('INSERT INTO notes (order_id) VALUES (1)');
SELECT code, message FROM sqlstate_of('INSERT INTO lines (order_id) VALUES (1)');
INSERT INTO orders VALUES (1541815603606036481, 1) ON CONFLICT (id) DO UPDATE SET place = 3001 RETURNING id, place;
DROP TABLE notes, lines;

-- The plans of bigint: indexes, and partitions by time.
ANALYZE orders;
SET enable_seqscan = off;
EXPLAIN (COSTS OFF) SELECT * FROM orders WHERE id = 1541815603606036481;
EXPLAIN (COSTS OFF) SELECT * FROM orders WHERE id IN (1, 2);
EXPLAIN (COSTS OFF) SELECT * FROM orders WHERE snowflake_since(id, '2030-01-01 00:00Z', 'standard');
EXPLAIN (COSTS OFF) SELECT * FROM orders ORDER BY id LIMIT 1;
RESET enable_seqscan;
CREATE TABLE events (id snowflake PRIMARY KEY DEFAULT snowflake_nextval(), place int) PARTITION BY RANGE (id);
SELECT count(*), bool_and(created) FROM snowflake_create_partitions('events', '2027-01-01 00:00Z', '2027-03-01 00:00Z', interval '1 month');
SELECT count(*), bool_or(created) FROM snowflake_create_partitions('events', '2027-01-01 00:00Z', '2027-03-01 00:00Z', interval '1 month');
INSERT INTO events (id) VALUES (snowflake_min_id('2027-01-15 00:00Z'));
SELECT tableoid::regclass, snowflake_timestamp(id) FROM events;
EXPLAIN (COSTS OFF) SELECT * FROM events WHERE snowflake_between(id, '2027-01-10 00:00Z', '2027-01-20 00:00Z', 'standard');
DROP TABLE events;

-- COPY inserts in bulk, as with a bigint. PostgreSQL checks all rows of a batch before it inserts the first of them.
CREATE FUNCTION none_is_in(relation oid) RETURNS boolean LANGUAGE sql
    AS 'SELECT pg_stat_get_xact_tuples_inserted(relation) = 0';
CREATE TABLE filled (id snowflake PRIMARY KEY DEFAULT snowflake_nextval(), place int, CHECK (none_is_in(tableoid)));
COPY filled (place) FROM PROGRAM 'seq 1000';
SELECT count(DISTINCT id) FROM filled;
DROP TABLE filled;
DROP FUNCTION none_is_in;

-- snowflake_adopt() accepts the type.
CREATE TABLE adopted (id snowflake PRIMARY KEY, place int);
SELECT snowflake_adopt('adopted', 'id', dry_run => false);
INSERT INTO adopted (place) VALUES (1) RETURNING snowflake_worker(id);
DROP TABLE adopted;

-- Changing the type of a column does not rewrite the table or its indexes, and does not check foreign keys again.
CREATE TABLE items (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), place int);
CREATE TABLE parts (item_id bigint REFERENCES items);
CREATE INDEX ON items USING brin (id);
INSERT INTO items (place) SELECT generate_series(1, 1000);
INSERT INTO parts SELECT id FROM items;
CREATE TEMPORARY TABLE files_before AS
    SELECT relname, relfilenode FROM pg_class WHERE relname IN ('items', 'parts', 'items_pkey', 'items_id_idx');
ALTER TABLE items ALTER id TYPE snowflake;
ALTER TABLE parts ALTER item_id TYPE snowflake;
SELECT before.relname, before.relfilenode = now.relfilenode AS same_file
FROM files_before AS before JOIN pg_class AS now USING (relname) ORDER BY 1;
SELECT pg_get_constraintdef(oid), convalidated FROM pg_constraint WHERE conrelid = 'parts'::regclass;
INSERT INTO items (place) VALUES (1001);
SELECT code FROM sqlstate_of('INSERT INTO parts VALUES (1)');
ALTER TABLE items ALTER id TYPE bigint;
ALTER TABLE parts ALTER item_id TYPE bigint;
SELECT before.relname, before.relfilenode = now.relfilenode AS same_file
FROM files_before AS before JOIN pg_class AS now USING (relname) ORDER BY 1;

-- What PostgreSQL rebuilds: partial indexes and indexes on expressions. What it forgets: the statistics of the column.
CREATE INDEX items_partial ON items (place) WHERE id > 5;
CREATE INDEX items_expression ON items (snowflake_worker(id, 'standard'));
ANALYZE items;
CREATE TEMPORARY TABLE indexes_before AS
    SELECT relname, relfilenode FROM pg_class WHERE relname IN ('items_partial', 'items_expression');
ALTER TABLE items ALTER id TYPE snowflake;
SELECT count(*) AS rebuilt
FROM indexes_before AS before JOIN pg_class AS now USING (relname) WHERE before.relfilenode <> now.relfilenode;
SELECT count(*) AS statistics FROM pg_stats WHERE tablename = 'items' AND attname = 'id';
ANALYZE items;
SELECT count(*) AS statistics FROM pg_stats WHERE tablename = 'items' AND attname = 'id';
-- What it refuses: columns of views and of partition keys, generated columns, and identity. Prepared statements fail once.
CREATE VIEW item_view AS SELECT id FROM items;
SELECT code FROM sqlstate_of('ALTER TABLE items ALTER id TYPE bigint');
DROP VIEW item_view;
PREPARE cached AS SELECT * FROM items WHERE place = 1;
EXECUTE cached \gset
ALTER TABLE items ALTER id TYPE bigint;
EXECUTE cached;
DEALLOCATE cached;
ALTER TABLE items ADD worker int GENERATED ALWAYS AS (snowflake_worker(id, 'standard')) STORED;
SELECT code FROM sqlstate_of('ALTER TABLE items ALTER id TYPE snowflake');
DROP TABLE items, parts;
CREATE TABLE counted (id bigint GENERATED ALWAYS AS IDENTITY);
SELECT code FROM sqlstate_of('ALTER TABLE counted ALTER id TYPE snowflake');
DROP TABLE counted;
CREATE TABLE logged (id bigint PRIMARY KEY DEFAULT snowflake_nextval()) PARTITION BY RANGE (id);
SELECT code FROM sqlstate_of('ALTER TABLE logged ALTER id TYPE snowflake');
DROP TABLE logged;

-- Domains, arrays, composite types, hash and merge joins, DISTINCT and GROUP BY.
CREATE DOMAIN order_id AS snowflake CHECK (VALUE > 0);
SELECT to_json('7'::order_id) AS json, 7::order_id + 1 AS sum;
SELECT code, message FROM sqlstate_of($$SELECT '-7'::order_id$$);
DROP DOMAIN order_id;
SELECT count(*) FROM (SELECT DISTINCT id FROM orders GROUP BY id) AS ids;
SET enable_mergejoin = off; SET enable_nestloop = off;
SELECT count(*) FROM orders AS a JOIN orders AS b USING (id);
RESET enable_mergejoin; SET enable_hashjoin = off;
SELECT count(*) FROM orders AS a JOIN orders AS b USING (id);
RESET enable_hashjoin; RESET enable_nestloop;
CREATE TABLE hashed (id snowflake, place int) PARTITION BY HASH (id);
CREATE TABLE hashed_0 PARTITION OF hashed FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE hashed_1 PARTITION OF hashed FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO hashed SELECT * FROM orders;
SELECT count(*) FROM hashed WHERE id = 1541815603606036481;
DROP TABLE hashed;

-- The watermark, and the trigger that refuses the IDs of other transactions.
CREATE TRIGGER own_id BEFORE INSERT ON orders FOR EACH ROW EXECUTE FUNCTION snowflake_require_own_id('id');
INSERT INTO orders (place) VALUES (4001);
SELECT code, message FROM sqlstate_of('INSERT INTO orders VALUES (1541815603606036484, 4002)');
SELECT count(*) FROM orders WHERE id < (SELECT snowflake_watermark()) AND place = 4001;
DROP TABLE orders;

-- Every role can use the type, even if default privileges deny it.
SELECT has_type_privilege('public', 'snowflake', 'USAGE');
