-- The script that generates IDs where the library is not loaded. Here it runs beside the library, which decodes the IDs.
SET timezone = 'UTC';
SET datestyle = 'ISO';
SELECT :'DBNAME' AS database \gset

-- The script for one layout, without the functions for reading, which are those of snowflake_reader_sql().
\pset tuples_only on
\pset format unaligned
SELECT split_part(snowflake_generator_sql('js53', 3), 'CREATE OR REPLACE FUNCTION snowflake_decode', 1);
SELECT replace(split_part(snowflake_generator_sql('js53', 3), '$reader$', 2), 'OR REPLACE ', '')
     = split_part(snowflake_reader_sql('js53'), E'in a schema.\n', 2) AS same_readers;
SELECT snowflake_generator_sql(NULL, 3) IS NULL, snowflake_generator_sql('js53', NULL) IS NULL;
\pset tuples_only off
SELECT code, message, detail, hint
FROM unnest(ARRAY['''twiter'', 3', '''js53'', -1', '''twitter'', 32', '''js53'', 3, 1', '''standard'', 1024']) AS arguments,
     sqlstate_of(format('SELECT snowflake_generator_sql(%s)', arguments));
-- It does not depend on the search path: without comments, strings and qualified operators, no operators are left.
CREATE FUNCTION code(script text) RETURNS text LANGUAGE sql AS $$
    SELECT regexp_replace(script, '--[^\n]*|''([^'']|'''')*''|OPERATOR\(pg_catalog\.[^)]*\)|%\d\$[sL]|:=|\m(ERRCODE|MESSAGE|DETAIL|HINT|search_path) =|\(-\d+\)|THEN -1', '', 'g')
$$;
SELECT DISTINCT line
FROM snowflake_presets, regexp_split_to_table(code(snowflake_generator_sql(name, 0)), '\n') AS line
WHERE line ~ '[-+*/<>=~!@#%^&|`?]';
-- Nor are there functions without a schema, except those that the last part creates.
SELECT DISTINCT word[1] AS word
FROM snowflake_presets, regexp_matches(code(snowflake_generator_sql(name, 0)), '(?<![.\w])([a-z_0-9]+)\(', 'g') AS word
ORDER BY word;
DROP FUNCTION code(text);
\pset format aligned

-- An ordinary role runs the scripts of several layouts.
CREATE ROLE regress_generator;
CREATE ROLE regress_app;
GRANT CREATE ON DATABASE :"database" TO regress_generator;
CREATE TABLE layouts (schema text, layout text, worker int);
INSERT INTO layouts
    SELECT 'layout ' || position, layout, worker
    FROM unnest(
        ARRAY['standard', 'twitter', 'wide', 'sonyflake', 'js53', 'rollback3', 'time:50 worker:3 sequence:10 unit=1us',
              'time:50 worker:10 unit=1us', 'time:41 sequence:12 worker:10', 'time:41 clock_seq:3 sequence:10 worker:5 datacenter:4',
              'time:41 sequence:22', 'time:43 worker:4 sequence:16 unit=7us epoch=2026-01-01T00:00:00.000003Z',
              'time:58 worker:2 unit=10us epoch=0001-01-01T00:00:00Z'],
        ARRAY[1023, 31, 5, 65535, 3, 1, 0, 9, 1023, 31, 0, 2, 1]
    ) WITH ORDINALITY AS l (layout, worker, position);
GRANT SELECT ON layouts TO regress_generator;
CREATE FUNCTION install(schema text, layout text, worker int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('search_path', quote_ident(schema), true);
    EXECUTE public.snowflake_generator_sql(layout, worker);
    SET LOCAL search_path = public;
END
$$;
SET ROLE regress_generator;
CREATE SCHEMA work;
SELECT count(*) FROM layouts, sqlstate_of(format('CREATE SCHEMA %I', schema)) AS done WHERE done.code = '00000';
SELECT count(install(schema, layout, worker)) FROM layouts;

-- The library and the script decode the IDs in the same way. The times are those of the calls, and the IDs increase.
CREATE FUNCTION work.take(schema text, n int) RETURNS SETOF bigint LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY EXECUTE format('SELECT %1$I.snowflake_nextval() FROM generate_series(1, %2$s)
                                 UNION ALL SELECT %1$I.snowflake_batch(%2$s)', schema, n);
END
$$;
CREATE FUNCTION work.decoded(schema text, id bigint) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    decoded text;
BEGIN
    EXECUTE format('SELECT d::text FROM %I.snowflake_decode(%s) AS d', schema, id) INTO decoded;
    RETURN decoded;
END
$$;
CREATE TABLE work.taken (schema text, begun timestamptz, id bigint, ended timestamptz, n bigint GENERATED ALWAYS AS IDENTITY);
DO $$
DECLARE
    l layouts;
    begun timestamptz;
BEGIN
    FOR l IN SELECT * FROM layouts LOOP
        begun := clock_timestamp();
        INSERT INTO work.taken (schema, begun, id) SELECT l.schema, begun, work.take(l.schema, 500);
        UPDATE work.taken SET ended = clock_timestamp() WHERE schema = l.schema;
    END LOOP;
END
$$;
SELECT l.layout, count(*) AS taken, count(DISTINCT t.id) AS different,
       bool_and(work.decoded(l.schema, t.id) = d::text) AS same,
       bool_and(t.id > t.before) AS in_order,
       bool_and(d.generated_at BETWEEN t.begun - s.unit AND t.ended + interval '1 s') AS in_time,
       bool_and(coalesce(d.worker_id, 0) = l.worker AND coalesce(d.datacenter_id, 0) = 0 AND coalesce(d.clock_seq, 0) = 0) AS identity
FROM layouts AS l
JOIN (SELECT *, lag(id) OVER (PARTITION BY schema ORDER BY n) AS before FROM work.taken) AS t USING (schema)
CROSS JOIN LATERAL snowflake_decode(t.id, l.layout) AS d
CROSS JOIN LATERAL snowflake_describe_layout(l.layout) AS s
GROUP BY l.schema, l.layout ORDER BY min(t.n);

-- All has a comment, and belongs to the role. Nothing that changes state is granted.
\pset format unaligned
SELECT n.nspname AS schema, p.proname AS name, obj_description(p.oid, 'pg_proc') AS comment
FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = p.pronamespace
WHERE n.nspname = 'layout 2' AND (p.proname ~ 'next|batch|floor|generator')
UNION ALL
SELECT n.nspname, c.relname, obj_description(c.oid, 'pg_class')
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = 'layout 2'
ORDER BY name;
\pset format aligned
SELECT count(*) FROM pg_proc AS p
WHERE pronamespace = '"layout 2"'::regnamespace AND (obj_description(oid, 'pg_proc') IS NULL OR proowner <> 'regress_generator'::regrole
      OR provolatile = 'v' AND (has_function_privilege('regress_app', oid, 'EXECUTE') OR proparallel <> 'u'));

-- The script can be run again for another worker ID. The rights that were granted are kept. The start values, with which
-- logical replication tells the sequences of several servers apart, change.
GRANT USAGE ON SCHEMA "layout 1" TO regress_app;
GRANT EXECUTE ON FUNCTION "layout 1".snowflake_nextval() TO regress_app;
SELECT "layout 1".snowflake_nextval() AS last_id \gset
SELECT seqstart AS last_start FROM pg_sequence WHERE seqrelid = '"layout 1".snowflake_generator_base'::regclass \gset
SELECT install('layout 1', 'standard', 6);
SELECT count(*), count(DISTINCT seqstart), bool_and(seqstart <> :last_start) AS different
FROM pg_sequence WHERE seqrelid::regclass::text IN ('"layout 1".snowflake_generator_base', '"layout 1".snowflake_generator_counter');
RESET ROLE;
SET ROLE regress_app;
SELECT id > :last_id AS increases, "layout 1".snowflake_worker(id) AS worker FROM "layout 1".snowflake_nextval() AS id;
-- The role can take IDs, and nothing else.
SELECT code, message FROM unnest(ARRAY['SELECT "layout 1".snowflake_batch(1)', 'SELECT "layout 1".snowflake_raise_floor(now())',
    'SELECT "layout 1".snowflake_generator_raise(1)', 'SELECT "layout 1".snowflake_generator_wait(1)',
    'SELECT nextval(''"layout 1".snowflake_generator_counter'')', 'SELECT setval(''"layout 1".snowflake_generator_base'', 1)',
    'LOCK TABLE "layout 1".snowflake_generator_lock', 'LOCK TABLE "layout 1".snowflake_generator_lock IN ACCESS SHARE MODE',
    'SELECT FROM "layout 1".snowflake_generator_lock']) AS command, sqlstate_of(command);
-- What it puts before pg_catalog is not called by the functions, which have the rights of their owner.
RESET ROLE;
CREATE SCHEMA trap AUTHORIZATION regress_app;
SET ROLE regress_app;
SET search_path = trap, pg_catalog, public;
CREATE FUNCTION trap.trapped(bigint, bigint) RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''trapped by %'', current_user; END';
CREATE FUNCTION trap.trapped_bool(bigint, bigint) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''trapped by %'', current_user; END';
DO $$
DECLARE
    operator text;
BEGIN
    FOREACH operator IN ARRAY ARRAY['+', '-', '*', '/', '|', '&'] LOOP
        EXECUTE format('CREATE OPERATOR trap.%s (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = trap.trapped)', operator);
    END LOOP;
    FOREACH operator IN ARRAY ARRAY['<', '>', '<=', '>=', '='] LOOP
        EXECUTE format('CREATE OPERATOR trap.%s (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = trap.trapped_bool)', operator);
    END LOOP;
END
$$;
SELECT 1::bigint + 1::bigint;
CREATE FUNCTION trap.nextval(regclass) RETURNS bigint LANGUAGE sql AS 'SELECT 1 / 0::bigint';
CREATE FUNCTION trap.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS 'SELECT ''2000-01-01''::timestamptz';
DISCARD PLANS;
SELECT "layout 1".snowflake_worker(id) AS worker FROM "layout 1".snowflake_nextval() AS id;
RESET search_path;
RESET ROLE;
DROP OWNED BY regress_app CASCADE;

-- Another layout needs another schema. The schema of the extension is no other schema, and a script that fails replaces nothing.
SET ROLE regress_generator;
SELECT code, message, detail, hint FROM sqlstate_of($$SELECT install('layout 1', 'twitter', 6)$$);
SELECT snowflake_generator_sql('twitter', 6) AS script \gset
SET search_path = "layout 1";
:script
SELECT snowflake_worker(1541815603606036480) AS standard;
SET search_path = public;
RESET ROLE;
:script
SET ROLE regress_generator;
RESET search_path;
-- In the schema, other roles may neither own nor create objects.
SELECT code, message, detail, hint FROM sqlstate_of($$SELECT install('no schema', 'standard', 6)$$);
SELECT code, message, detail FROM sqlstate_of($$SELECT install('pg_temp', 'standard', 6)$$);
RESET ROLE;
CREATE SCHEMA its AUTHORIZATION regress_app;
GRANT ALL ON SCHEMA its TO regress_generator;
SELECT code, message, detail, hint FROM sqlstate_of($$SELECT install('its', 'standard', 6)$$);
SET ROLE regress_generator;
SELECT code, message, detail FROM sqlstate_of($$SELECT install('its', 'standard', 6)$$);
CREATE SCHEMA ours;
GRANT CREATE ON SCHEMA ours TO PUBLIC;
SELECT code, message, detail FROM sqlstate_of($$SELECT install('ours', 'standard', 6)$$);
REVOKE CREATE ON SCHEMA ours FROM PUBLIC;
GRANT CREATE, USAGE ON SCHEMA ours TO regress_app;
SELECT code, message, detail FROM sqlstate_of($$SELECT install('ours', 'standard', 6)$$);
SET SESSION AUTHORIZATION regress_app;
CREATE FUNCTION ours.snowflake_generator_wait(bigint) RETURNS void LANGUAGE sql AS 'SELECT';
RESET SESSION AUTHORIZATION;
SET ROLE regress_generator;
REVOKE CREATE ON SCHEMA ours FROM regress_app;
SELECT code, message, detail, hint FROM sqlstate_of($$SELECT install('ours', 'standard', 6)$$);
RESET ROLE;
DROP FUNCTION ours.snowflake_generator_wait(bigint);
-- A schema of a superuser, or of the database's owner, is as good as one's own.
ALTER SCHEMA ours OWNER TO CURRENT_USER;
GRANT ALL ON SCHEMA ours TO regress_generator;
SET ROLE regress_generator;
SELECT code, message FROM sqlstate_of($$SELECT install('ours', 'standard', 6)$$);
RESET ROLE;
ALTER SCHEMA ours OWNER TO pg_database_owner;
SET ROLE regress_generator;
SELECT code, message FROM sqlstate_of($$SELECT install('ours', 'standard', 6)$$);

-- Rights that default privileges grant are revoked. A schema may have any name.
ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO regress_app, PUBLIC;
ALTER DEFAULT PRIVILEGES GRANT ALL ON SEQUENCES TO regress_app;
ALTER DEFAULT PRIVILEGES GRANT ALL ON FUNCTIONS TO regress_app;
CREATE SCHEMA "O'Brien $function$ %s \";
SELECT install($$O'Brien $function$ %s \$$, 'standard', 1);
SELECT count(take), count(DISTINCT take) FROM work.take($$O'Brien $function$ %s \$$, 10);
SELECT count(*) > 10 AS objects, array_agg(DISTINCT acl.grantee::regrole) AS grantees
FROM (SELECT relnamespace, relacl FROM pg_class UNION ALL SELECT pronamespace, proacl FROM pg_proc WHERE provolatile = 'v') AS object (namespace, privileges)
JOIN pg_namespace AS n ON n.oid = object.namespace AND n.nspname ~ 'Brien', aclexplode(object.privileges) AS acl;
-- Also those on functions that an earlier version of the script has not created. What was granted later is kept.
DROP FUNCTION "O'Brien $function$ %s \".snowflake_next();
GRANT EXECUTE ON FUNCTION "O'Brien $function$ %s \".snowflake_nextval() TO regress_app;
SELECT install($$O'Brien $function$ %s \$$, 'standard', 1);
SELECT p.proname, acl.grantee::regrole
FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = p.pronamespace AND n.nspname ~ 'Brien',
     aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) AS acl
WHERE p.proname ~ '^snowflake_next' ORDER BY p.proname, acl.grantee::regrole::text;
SET client_min_messages = warning;
DROP SCHEMA "O'Brien $function$ %s \" CASCADE;
RESET client_min_messages;

-- IDs continue at the floor, at most one second ahead of the clock.
CREATE SCHEMA floor;
SELECT install('floor', 'standard', 1);
SELECT now() + interval '800 ms' AS floor \gset
SELECT floor.snowflake_raise_floor(:'floor');
SELECT floor.snowflake_timestamp(floor.snowflake_nextval()) - :'floor' BETWEEN '0' AND '20 ms' AS at_the_floor;
SELECT floor.snowflake_raise_floor('-infinity'), floor.snowflake_raise_floor('2023-12-31'), floor.snowflake_raise_floor(NULL);
SELECT floor.snowflake_timestamp(floor.snowflake_nextval()) >= :'floor' AS still;
SELECT clock_timestamp() + interval '2 s' AS floor \gset
SELECT floor.snowflake_raise_floor(:'floor');
SELECT floor.snowflake_timestamp(id) >= :'floor' AS at_the_floor, clock_timestamp() >= :'floor'::timestamptz - interval '1 s' AS waited
FROM floor.snowflake_nextval() AS id;
SELECT floor.snowflake_raise_floor(now() + interval '1 hour');
SELECT code, message, regexp_replace(detail, '\d{7}', '3599...') AS detail, hint FROM sqlstate_of('SELECT floor.snowflake_nextval()');
-- Calls that cannot succeed take no numbers.
SELECT last_value AS counter FROM floor.snowflake_generator_counter \gset
SELECT code, count(*) FROM generate_series(1, 10), sqlstate_of('SELECT floor.snowflake_nextval()') GROUP BY code;
SELECT last_value = :counter AS unchanged FROM floor.snowflake_generator_counter;
SELECT code, message, detail, hint FROM unnest(ARRAY['25 hours', 'infinity']) AS ahead, sqlstate_of(format('SELECT floor.snowflake_raise_floor(%L)', CASE ahead WHEN 'infinity' THEN 'infinity' ELSE now() + ahead::interval END));
SELECT code, message, detail, hint FROM unnest(ARRAY[-1, 0, 1000001]) AS count, sqlstate_of(format('SELECT floor.snowflake_batch(%s)', count));
SELECT code, message FROM sqlstate_of('SET TRANSACTION READ ONLY; SELECT "layout 3".snowflake_nextval()');

-- A layout that has ended, one that begins later, and ones with few IDs.
CREATE SCHEMA ended;
SELECT install('ended', 'time:20 worker:4 sequence:4 unit=1ms epoch=2020-01-01T00:00:00Z', 1);
SELECT code, message, detail, hint FROM sqlstate_of('SELECT ended.snowflake_nextval()');
SELECT code, message, detail FROM sqlstate_of($$SELECT ended.snowflake_raise_floor('2021-01-01')$$);
CREATE SCHEMA "full";
SELECT install('full', 'time:41 sequence:22 unit=1us', 0);
SELECT code, message, detail FROM sqlstate_of('SELECT "full".snowflake_nextval()');
CREATE SCHEMA later;
SELECT install('later', 'time:31 worker:10 sequence:12 unit=1ms epoch=9000-01-01T00:00:00Z', 1);
SELECT code, message, detail, hint FROM sqlstate_of('SELECT later.snowflake_nextval()');
CREATE SCHEMA slow;
SELECT install('slow', 'time:33 worker:10 unit=10s', 1);
SELECT slow.snowflake_timestamp(id) <= clock_timestamp() AS one_id FROM slow.snowflake_nextval() AS id;
SELECT code FROM sqlstate_of('SELECT slow.snowflake_batch(1)') WHERE code NOT IN ('00000', '55P03');
SELECT code, detail FROM sqlstate_of('SELECT slow.snowflake_batch(2)');

-- The sequences have no values, as after a restore of only the schema, and every role may call the functions.
ALTER SEQUENCE floor.snowflake_generator_base RESTART;
ALTER SEQUENCE floor.snowflake_generator_counter RESTART;
GRANT EXECUTE ON FUNCTION floor.snowflake_raise_floor(timestamptz) TO PUBLIC;
SELECT code, message, hint FROM sqlstate_of('SELECT floor.snowflake_nextval()');
SELECT code, message FROM sqlstate_of('SELECT floor.snowflake_raise_floor(now())');
SELECT code, message FROM sqlstate_of('SELECT ended.snowflake_nextval()');
SELECT obj_description('floor.snowflake_generator_counter'::regclass) LIKE '%of layout %' AS has_layout,
       regexp_replace(obj_description('floor.snowflake_generator_counter'::regclass), '.* of layout ', '') AS layout \gset
SELECT install('floor', :'layout', 1);
SELECT floor.snowflake_nextval() > 0 AS works, has_function_privilege('public', 'floor.snowflake_raise_floor(timestamptz)', 'EXECUTE') AS public;

RESET ROLE;
SET client_min_messages = warning;
DROP OWNED BY regress_app CASCADE;
DROP OWNED BY regress_generator CASCADE;
DROP SCHEMA ours CASCADE;
RESET client_min_messages;
DROP ROLE regress_generator, regress_app;
DROP TABLE layouts;
DROP FUNCTION install(text, text, int);
