-- Numbers of a segment in the default of a column: as for an identity column, the privilege to insert rows is enough.
-- COPY inserts in bulk.

\set SHOW_CONTEXT never
CREATE EXTENSION snowflake_id_registry;
SELECT snowflake_registry.create_segment(name, min_step => 10000, max_step => 10000)
FROM unnest(ARRAY['sales', 'goods', 'hidden']) AS name;
CREATE ROLE regress_owner;
CREATE ROLE regress_writer;
CREATE ROLE regress_hostile;
GRANT CREATE ON SCHEMA public TO regress_owner, regress_hostile;
GRANT pg_execute_server_program TO regress_writer, regress_hostile;
GRANT EXECUTE ON FUNCTION snowflake_segment_nextval(text) TO regress_owner;
SET ROLE regress_owner;
CREATE TABLE orders (
    id bigint DEFAULT snowflake_segment_nextval('sales'),
    item int DEFAULT snowflake_segment_nextval('goods'),
    code text DEFAULT 'B-' || snowflake_segment_nextval('sales'),
    place int
);
GRANT SELECT, INSERT, UPDATE ON orders TO regress_writer;
RESET ROLE;
-- How a command ends if the current role runs it.
CREATE FUNCTION ends(command text) RETURNS text LANGUAGE sql
    AS $$SELECT coalesce(nullif(code, '00000') || ' ' || message, 'done') FROM sqlstate_of(command)$$;

-- All forms of INSERT, and MERGE.
SET ROLE regress_writer;
SELECT ends('SELECT snowflake_segment_nextval(''sales'')');
INSERT INTO orders DEFAULT VALUES RETURNING id > 0 AS id, item > 0 AS item, code ~ '^B-[0-9]+$' AS code;
INSERT INTO orders (place) VALUES (1), (2), (3);
INSERT INTO orders (id, place) VALUES (DEFAULT, 4), (-5, 5), (DEFAULT, 6);
INSERT INTO orders (id, item, code, place) VALUES (DEFAULT, DEFAULT, DEFAULT, 7);
INSERT INTO orders (place) SELECT generate_series(8, 1000);
INSERT INTO orders (place) SELECT generate_series(1001, 1010) UNION ALL SELECT generate_series(1011, 1020);
WITH added AS (INSERT INTO orders (place) VALUES (1021), (1022) RETURNING id) SELECT count(DISTINCT id) FROM added;
MERGE INTO orders USING (VALUES (1022), (1023)) AS new (place) ON orders.place = new.place
    WHEN MATCHED THEN DO NOTHING WHEN NOT MATCHED THEN INSERT (place) VALUES (new.place);
DO $$BEGIN FOR place IN 1024 .. 1040 LOOP INSERT INTO orders (place) VALUES (place); END LOOP; END$$;
RESET ROLE;
SELECT count(*), count(DISTINCT id) AS ids, count(DISTINCT item) AS items, count(DISTINCT code) AS codes FROM orders;
CREATE UNIQUE INDEX ON orders (place);
SET ROLE regress_writer;
INSERT INTO orders (place) VALUES (1), (2) ON CONFLICT DO NOTHING;
INSERT INTO orders (place) VALUES (1), (1041) ON CONFLICT (place) DO UPDATE SET code = 'again';
SELECT code FROM orders WHERE place = 1;

-- A call that is not in the default is checked for the current user: in a query, in an UPDATE, in a subquery of an
-- INSERT, with another name, in a function, and in an INSERT into another table.
RESET ROLE;
CREATE TABLE others (id bigint, place int DEFAULT 1);
CREATE FUNCTION next_order() RETURNS bigint LANGUAGE plpgsql
    AS $$BEGIN RETURN public.snowflake_segment_nextval('sales'); END$$;
GRANT ALL ON others TO regress_writer;
SET ROLE regress_writer;
SELECT ends(command) FROM unnest(ARRAY[
    'SELECT snowflake_segment_nextval(''sales'')',
    'UPDATE orders SET id = DEFAULT WHERE place = 1',
    'UPDATE orders SET id = snowflake_segment_nextval(''sales'') WHERE place = 1',
    'INSERT INTO orders (id) SELECT snowflake_segment_nextval(''sales'')',
    'INSERT INTO orders (id) VALUES ((SELECT snowflake_segment_nextval(''sales'')))',
    'INSERT INTO orders (id) VALUES (snowflake_segment_nextval(''hidden''))',
    'INSERT INTO orders (id) VALUES (snowflake_segment_nextval(concat(''sa'', ''les'')))',
    'INSERT INTO orders (id) VALUES (next_order())',
    'INSERT INTO others (id) VALUES (snowflake_segment_nextval(''sales''))',
    'WITH taken AS (SELECT snowflake_segment_nextval(''sales'') AS id) INSERT INTO orders (id) SELECT id FROM taken',
    'MERGE INTO orders USING (VALUES (1)) AS new (place) ON orders.place = new.place
        WHEN MATCHED THEN UPDATE SET id = snowflake_segment_nextval(''sales'')'
]) AS command;
-- The privilege to insert rows is checked first.
RESET ROLE;
REVOKE INSERT ON orders FROM regress_writer;
SET ROLE regress_writer;
SELECT ends('INSERT INTO orders DEFAULT VALUES');
SELECT ends('INSERT INTO orders (place) VALUES (0) RETURNING snowflake_segment_nextval(''sales'')');
RESET ROLE;
GRANT INSERT (place) ON orders TO regress_writer;
SET ROLE regress_writer;
SELECT ends('INSERT INTO orders (place) VALUES (1042)');
SELECT ends('INSERT INTO orders (id) VALUES (snowflake_segment_nextval(''sales''))');
RESET ROLE;
GRANT INSERT ON orders TO regress_writer;

-- A role that creates such a table takes nothing that it may not take.
SET ROLE regress_hostile;
CREATE TABLE stolen (id bigint DEFAULT snowflake_segment_nextval('hidden'), place int);
SELECT ends('INSERT INTO stolen DEFAULT VALUES');
SELECT ends('COPY stolen (place) FROM PROGRAM ''echo 1''');
INSERT INTO stolen DEFAULT VALUES;
RESET ROLE;
SELECT snowflake_segment_grant('sales', 'regress_owner'), snowflake_segment_grant('goods', 'regress_owner');
ALTER TABLE orders ADD secret bigint, ALTER secret SET DEFAULT snowflake_segment_nextval('hidden');
SET ROLE regress_writer;
SELECT ends('INSERT INTO orders (place) VALUES (1043)');
INSERT INTO orders (place) VALUES (1043);
RESET ROLE;
ALTER TABLE orders DROP secret;
SET ROLE regress_writer;
SELECT ends('INSERT INTO orders (place) VALUES (1043)');
-- A role that may take numbers by itself may do so in any table. The message is about that role.
RESET ROLE;
GRANT EXECUTE ON FUNCTION snowflake_segment_nextval(text) TO regress_writer;
GRANT INSERT ON stolen TO regress_writer;
SET ROLE regress_writer;
SELECT ends('INSERT INTO stolen DEFAULT VALUES');
RESET ROLE;
SELECT snowflake_segment_grant('goods', 'regress_writer');
SET ROLE regress_writer;
SELECT ends('INSERT INTO stolen DEFAULT VALUES'), ends('INSERT INTO orders (place) VALUES (1044)');
RESET ROLE;
SELECT snowflake_segment_grant_all('regress_writer');
REVOKE EXECUTE ON FUNCTION snowflake_segment_nextval(text) FROM regress_writer;

-- A cached plan is checked again in each execution, for the role that executes it: after SET ROLE, REVOKE, a change of
-- the owner, and a change of the default.
SET plan_cache_mode = force_generic_plan;
PREPARE add(int) AS INSERT INTO orders (place) VALUES ($1);
SET ROLE regress_writer;
EXECUTE add(1045);
SET ROLE regress_hostile;
SELECT ends('EXECUTE add(1046)');
RESET ROLE;
SELECT snowflake_segment_revoke('goods', 'regress_owner');
SELECT code, message FROM unnest(ARRAY['grant(NULL, 1260)', 'revoke(NULL, 1260)', 'revoke(''goods'', NULL)',
    'grant_all(NULL)']) AS call, sqlstate_of('SELECT snowflake_segment_' || call);
SET ROLE regress_writer;
SELECT ends('EXECUTE add(1046)');
RESET ROLE;
SELECT snowflake_segment_grant('goods', 'regress_owner');
SET ROLE regress_writer;
SELECT ends('EXECUTE add(1046)');
RESET ROLE;
REVOKE EXECUTE ON FUNCTION snowflake_segment_nextval(text) FROM regress_owner;
SET ROLE regress_writer;
SELECT ends('EXECUTE add(1047)');
RESET ROLE;
GRANT EXECUTE ON FUNCTION snowflake_segment_nextval(text) TO regress_owner;
ALTER TABLE orders OWNER TO regress_hostile;
SET ROLE regress_writer;
SELECT ends('EXECUTE add(1047)');
RESET ROLE;
ALTER TABLE orders OWNER TO regress_owner;
GRANT INSERT ON orders TO regress_writer;
SET ROLE regress_writer;
SELECT ends('EXECUTE add(1047)');
RESET ROLE;
ALTER TABLE orders ALTER item SET DEFAULT 7;
PREPARE add_item(int) AS INSERT INTO orders (place, item) VALUES ($1, snowflake_segment_nextval('goods'));
SET ROLE regress_writer;
SELECT ends('EXECUTE add(1048)'), ends('EXECUTE add_item(1049)');
SELECT item FROM orders WHERE place = 1048;
RESET ROLE;
ALTER TABLE orders ALTER item SET DEFAULT snowflake_segment_nextval('goods');
SET ROLE regress_writer;
SELECT ends('EXECUTE add_item(1049)');
RESET ROLE;
DEALLOCATE ALL;
RESET plan_cache_mode;

-- EXPLAIN shows the call with its table. No definition contains it.
EXPLAIN (VERBOSE, COSTS OFF) INSERT INTO orders (place) VALUES (1050);
SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = 'orders'::regclass ORDER BY adnum;
-- The reasons depend on the version of PostgreSQL.
SELECT twin, argument, ends(format('SELECT snowflake_internal.snowflake_segment_nextval_in_%s(
        ''snowflake_segment_nextval(text)''::regprocedure, ''sales'', ''orders''::regclass, %s)', twin, argument))
    ~ '^(0A000|42883|42846) ' AS is_refused
FROM unnest(ARRAY['default', 'copy']) AS twin, unnest(ARRAY['NULL', 'NULL::internal', '1', '1::bigint::internal']) AS argument;

-- Partitions, inheritance, views, rules, triggers and foreign keys: the relation that the command names, or the relation
-- behind a view, has the default.
SET ROLE regress_owner;
CREATE TABLE parted (id bigint DEFAULT snowflake_segment_nextval('sales'), place int) PARTITION BY RANGE (place);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (10);
CREATE TABLE parted_2 PARTITION OF parted FOR VALUES FROM (10) TO (20);
CREATE VIEW view_of_orders AS SELECT * FROM orders WHERE place > 0;
CREATE VIEW view_with_default AS SELECT * FROM others;
ALTER VIEW view_with_default ALTER id SET DEFAULT snowflake_segment_nextval('sales');
CREATE VIEW view_with_trigger AS SELECT id, place FROM orders;
ALTER VIEW view_with_trigger ALTER id SET DEFAULT snowflake_segment_nextval('sales');
CREATE FUNCTION store() RETURNS trigger LANGUAGE plpgsql
    AS 'BEGIN INSERT INTO orders (id, place) VALUES (-NEW.id, NEW.place); RETURN NEW; END';
CREATE TRIGGER store INSTEAD OF INSERT ON view_with_trigger FOR EACH ROW EXECUTE FUNCTION store();
CREATE TABLE logged (place int);
CREATE RULE log AS ON INSERT TO logged DO ALSO INSERT INTO orders (place) VALUES (NEW.place);
GRANT ALL ON parted, view_of_orders, view_with_default, view_with_trigger, logged TO regress_writer;
RESET ROLE;
GRANT INSERT, SELECT ON others TO regress_owner;
SET ROLE regress_writer;
INSERT INTO parted (place) VALUES (1), (11);
INSERT INTO view_of_orders (place) VALUES (1051);
SELECT ends('INSERT INTO view_with_default (place) VALUES (1)');
INSERT INTO view_with_trigger (place) VALUES (1052);
INSERT INTO logged VALUES (1053);
SELECT count(DISTINCT id) FROM parted;
SELECT place, id > 0 AS id FROM orders WHERE place > 1050 ORDER BY place;
SELECT ends('INSERT INTO parted_1 (place) VALUES (2)'), ends('INSERT INTO parted_2 (place, id) VALUES (12, DEFAULT)');
RESET ROLE;
-- The default of a domain is that of the domain's owner, not of the table's.
CREATE DOMAIN order_id AS bigint DEFAULT snowflake_segment_nextval('sales');
CREATE TABLE of_domain (id order_id, place int);
ALTER TABLE of_domain OWNER TO regress_owner;
GRANT INSERT ON of_domain TO regress_writer;
SET ROLE regress_writer;
SELECT ends('INSERT INTO of_domain (place) VALUES (1)');
RESET ROLE;
DROP TABLE of_domain;
DROP DOMAIN order_id;

-- ADD COLUMN gives each row its own number.
CREATE TABLE lines AS SELECT generate_series(1, 100) AS place;
ALTER TABLE lines ADD id bigint DEFAULT snowflake_segment_nextval('sales');
SELECT count(DISTINCT id) FROM lines;
DROP TABLE lines;

-- COPY inserts in bulk. As in topic copy, a table with this constraint accepts 1000 rows in bulk, but not one by one.
CREATE FUNCTION none_is_in(relation oid) RETURNS boolean LANGUAGE sql
    AS 'SELECT pg_stat_get_xact_tuples_inserted(relation) = 0';
SET ROLE regress_owner;
CREATE TABLE in_bulk (
    id bigint DEFAULT snowflake_segment_nextval('sales'),
    code text DEFAULT 'B-' || snowflake_segment_nextval('sales'),
    place int,
    CHECK (none_is_in(tableoid))
);
GRANT SELECT, INSERT ON in_bulk TO regress_writer;
RESET ROLE;
COPY in_bulk (place) FROM PROGRAM 'seq 1000';
SELECT count(*), count(DISTINCT id) AS ids, count(DISTINCT code) AS codes, bool_and(id > id_before) AS rising
FROM (SELECT id, code, lag(id) OVER (ORDER BY place) AS id_before FROM in_bulk) AS pair;
SET ROLE regress_owner;
CREATE TABLE by_writer (LIKE in_bulk INCLUDING ALL);
CREATE TABLE by_column (LIKE in_bulk INCLUDING ALL);
CREATE TABLE by_function (LIKE in_bulk INCLUDING ALL);
GRANT SELECT, INSERT ON by_writer, by_function TO regress_writer;
GRANT SELECT, INSERT (place) ON by_column TO regress_writer;
SET ROLE regress_writer;
COPY by_writer (place) FROM PROGRAM 'seq 1000';
COPY public.by_column (place) FROM PROGRAM 'seq 2000' WHERE place % 2 = 0;
SELECT count(*), count(DISTINCT id), min(place) FROM by_column;
-- In a function, the current user needs the privileges, because the table is not known.
CREATE FUNCTION pg_temp.copy_in() RETURNS void LANGUAGE plpgsql
    AS $$BEGIN COPY by_function (place) FROM PROGRAM 'seq 1000'; END$$;
SELECT ends('SELECT pg_temp.copy_in()');
RESET ROLE;
GRANT EXECUTE ON FUNCTION snowflake_segment_nextval(text) TO regress_writer;
SET ROLE regress_writer;
SELECT pg_temp.copy_in();
SELECT count(DISTINCT id) FROM by_function;
RESET ROLE;
SELECT snowflake_segment_grant('goods', 'regress_writer');
SET ROLE regress_writer;
SELECT ends('SELECT pg_temp.copy_in()');
RESET ROLE;
SELECT snowflake_segment_grant_all('regress_writer');
REVOKE EXECUTE ON FUNCTION snowflake_segment_nextval(text) FROM regress_writer;
-- Neither a name nor a table that only looks like the right one helps.
CREATE SCHEMA AUTHORIZATION regress_hostile;
SET ROLE regress_hostile;
CREATE TABLE regress_hostile.in_bulk (id bigint DEFAULT snowflake_segment_nextval('sales'), place int);
SET search_path = regress_hostile, public;
COPY in_bulk (place) FROM PROGRAM 'seq 10';
RESET search_path;
COPY public.in_bulk (place) FROM PROGRAM 'seq 10';
RESET ROLE;
SELECT count(*) FROM regress_hostile.in_bulk;
DROP TABLE regress_hostile.in_bulk;
DROP SCHEMA regress_hostile;
-- A COPY in a trigger during a COPY.
SET ROLE regress_owner;
CREATE TABLE inner_table (LIKE in_bulk INCLUDING DEFAULTS);
CREATE TABLE outer_table (LIKE in_bulk INCLUDING DEFAULTS);
GRANT SELECT, INSERT ON inner_table, outer_table TO regress_writer;
CREATE FUNCTION copy_again() RETURNS trigger LANGUAGE plpgsql
    AS $$BEGIN COPY inner_table (place) FROM PROGRAM 'seq 10'; RETURN NULL; END$$;
CREATE TRIGGER copy_again AFTER INSERT ON outer_table EXECUTE FUNCTION copy_again();
SET ROLE regress_writer;
COPY outer_table (place) FROM PROGRAM 'seq 10';
SELECT count(DISTINCT id) FROM inner_table;
RESET ROLE;
-- A function that uses its argument twice gets one number, whatever the planner estimates for its cost.
CREATE FUNCTION twice(bigint) RETURNS bigint[] LANGUAGE sql AS 'SELECT ARRAY[$1, $1]';
CREATE TABLE pairs (pair bigint[] DEFAULT twice(snowflake_segment_nextval('sales')), place int);
COPY pairs (place) FROM PROGRAM 'seq 100';
SET cpu_operator_cost = 0;
COPY pairs (place) FROM PROGRAM 'seq 100';
RESET cpu_operator_cost;
SELECT count(DISTINCT pair), bool_and(pair[1] = pair[2]) AS equal FROM pairs;

-- A prefix. The rights of the table's owner count for a call inside an expression as well.
CREATE TABLE prefixed (number text PRIMARY KEY DEFAULT 'BIZ-' || lpad(snowflake_segment_nextval('sales')::text, 12, '0'), place int);
ALTER TABLE prefixed OWNER TO regress_owner;
GRANT INSERT ON prefixed TO regress_writer;
SET ROLE regress_writer;
INSERT INTO prefixed (place) SELECT generate_series(1, 10);
COPY prefixed (place) FROM PROGRAM 'seq 90';
RESET ROLE;
SELECT count(*), bool_and(number ~ '^BIZ-[0-9]{12}$') AS all_have_it FROM prefixed;

SET client_min_messages = warning;
DROP TABLE orders, others, stolen, parted, logged, in_bulk, by_writer, by_column, by_function, inner_table,
    outer_table, pairs, prefixed CASCADE;
DROP FUNCTION ends, next_order, store, none_is_in, copy_again, twice;
SELECT snowflake_segment_grant_all('regress_owner');
DROP OWNED BY regress_owner, regress_writer, regress_hostile;
DROP ROLE regress_owner, regress_writer, regress_hostile;
SELECT snowflake_registry.drop_segment(name) FROM unnest(ARRAY['sales', 'goods', 'hidden']) AS name;
DROP EXTENSION snowflake_id_registry;
