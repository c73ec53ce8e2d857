-- The script that decodes IDs where the extension is not installed: it gives the answers of the extension, in a
-- database without it.
SET timezone = 'UTC';
SET datestyle = 'ISO';

-- The script for one layout.
\pset tuples_only on
\pset format unaligned
SELECT snowflake_reader_sql('js53');
SELECT snowflake_reader_sql(NULL) IS NULL;
\pset tuples_only off
SELECT code, message FROM sqlstate_of($$SELECT snowflake_reader_sql('twiter')$$);
-- It does not depend on the search path: without comments, strings and qualified operators, no operators are left.
SELECT name, line
FROM snowflake_presets, regexp_split_to_table(snowflake_reader_sql(name), '\n') AS line
WHERE line !~ '^-- |^COMMENT'
  AND regexp_replace(line, '''[^'']*''|OPERATOR\(pg_catalog\.[^)]*\)|\(-\d+\)|THEN -1', '', 'g') ~ '[-+*/<>=~!@#%^&|`?]';
\pset format aligned

-- For each layout, the script, and a checksum of the extension's answers for 100,000 IDs and as many instants.
CREATE TABLE layouts (schema text, layout text, last bigint, script text, answers text, edges text);
INSERT INTO layouts (schema, layout, last, script)
    SELECT 'layout_' || position, layout, snowflake_max_id('infinity', layout), snowflake_reader_sql(layout)
    FROM unnest(ARRAY['standard', 'twitter', 'sonyflake', 'js53', 'baidu', 'rollback3', 'tsid', 'time:20',
                      'time:40 sequence:5 unit=7us epoch=1969-12-31T23:59:59.999993Z',
                      'time:62 worker:1 unit=1us epoch=0001-01-01T00:00:00Z',
                      'time:40 datacenter:10 worker:13 unit=8400000us epoch=0001-01-01T00:00:00Z']) WITH ORDINALITY AS l (layout, position);
-- IDs from all over the layout, and instants at or near the start of ticks. %2$s stands for the layout as an argument.
CREATE TABLE questions AS SELECT $$
    SELECT md5(string_agg(md5(ROW(n, d, %1$s.snowflake_timestamp(id%2$s), %1$s.snowflake_datacenter(id%2$s),
                                  %1$s.snowflake_worker(id%2$s), %1$s.snowflake_sequence(id%2$s),
                                  %1$s.snowflake_min_id(t%2$s), %1$s.snowflake_max_id(t%2$s),
                                  %1$s.snowflake_since(id, t%2$s), %1$s.snowflake_before(id, t%2$s),
                                  %1$s.snowflake_between(id, t, other%2$s))::text), '' ORDER BY n))
    FROM generate_series(1, 100000) AS n,
         LATERAL (SELECT (hashint8extended(n, 1) & 9223372036854775807) %% %3$s, (hashint8extended(n, 2) & 9223372036854775807) %% %3$s OFFSET 0) AS ids (id, other_id),
         LATERAL %1$s.snowflake_decode(id%2$s) AS d,
         LATERAL (SELECT %1$s.snowflake_timestamp(other_id%2$s) + (n %% 5 - 2) * interval '1 us',
                         %1$s.snowflake_timestamp(id%2$s) + (n %% 3) * interval '1 us' OFFSET 0) AS ts (t, other)
$$ AS many, $$
    SELECT string_agg(ROW(t, %1$s.snowflake_min_id(t%2$s), %1$s.snowflake_max_id(t%2$s), %1$s.snowflake_since(1, t%2$s),
                          %1$s.snowflake_before(1, t%2$s), %1$s.snowflake_between(NULL, t, t%2$s))::text, ' ' ORDER BY t)
    FROM (VALUES ('-infinity'::timestamptz), ('4713-01-01 BC'), ('0001-01-01'), ('1970-01-01'), ('2024-01-01'), ('294276-12-31 23:59:59.999999'),
                 ('infinity'), (NULL)) AS far (away),
         LATERAL (SELECT away UNION ALL
                  SELECT edge + step * interval '1 us'
                  FROM unnest(ARRAY[%1$s.snowflake_timestamp(0%2$s), %1$s.snowflake_timestamp(%3$s%2$s)]) AS edge, generate_series(-1, 1) AS step
                 ) AS ts (t)
$$ AS few;
-- %1$s: the schema of the functions, %2$s: the layout as an argument, %3$s: the largest ID. OFFSET prevents the IDs
-- from being computed again for each use.
CREATE FUNCTION ask(question text, functions text, argument text, last bigint, OUT answer text) LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format(question, functions, argument, last) INTO answer;
END
$$;
UPDATE layouts SET answers = ask(many, 'public', ', ' || quote_literal(layout), last),
                   edges = ask(few, 'public', ', ' || quote_literal(layout), last) FROM questions;
SELECT layout, last, length(answers) AS answers, length(edges) > 1000 AS edges FROM layouts ORDER BY schema;
SELECT json_agg(l) AS layouts FROM layouts AS l \gset
SELECT many, few FROM questions \gset
SELECT pg_get_functiondef('ask(text, text, text, bigint)'::regprocedure) AS ask \gset

SELECT :'DBNAME' AS database \gset
CREATE DATABASE regression_reader TEMPLATE template0;
\c regression_reader
SET timezone = 'UTC';
SET datestyle = 'ISO';
SELECT count(*) FROM pg_extension WHERE extname = 'snowflake_id';
:ask;
CREATE TABLE layouts AS SELECT * FROM json_to_recordset(:'layouts') AS l (schema text, layout text, last bigint, script text, answers text, edges text);
DO $$
DECLARE
    wanted layouts;
BEGIN
    FOR wanted IN SELECT * FROM layouts LOOP
        EXECUTE format('CREATE SCHEMA %I', wanted.schema);
        PERFORM set_config('search_path', wanted.schema, true);
        EXECUTE wanted.script;
        SET LOCAL search_path = public;
    END LOOP;
END
$$;
SELECT layout, ask(:'many', schema, '', last) = answers AS same_answers, ask(:'few', schema, '', last) = edges AS same_at_edges
FROM layouts ORDER BY schema;

-- Values outside the layout raise an error with the same SQLSTATE, including those between the last ID and 2^63 - 1.
CREATE FUNCTION sqlstate_of(commands text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE commands;
    RETURN '00000';
EXCEPTION WHEN OTHERS THEN
    RETURN SQLSTATE || ' ' || SQLERRM;
END
$$;
SELECT layout, array_agg(DISTINCT sqlstate_of(format(command, schema, id))) AS errors, count(*)
FROM layouts, unnest(ARRAY['snowflake_timestamp', 'snowflake_worker', 'snowflake_datacenter', 'snowflake_sequence']) AS name,
     unnest(ARRAY['SELECT %I.' || name || '(%s)', 'SELECT * FROM %I.snowflake_decode(%s)',
                  'SELECT ' || replace(name, 'snowflake_timestamp', 'generated_at') || ' FROM %I.snowflake_decode(%s)']) AS command,
     unnest(ARRAY['-1', '-2', '-9223372036854775808'] || CASE WHEN last < 9223372036854775807 THEN ARRAY[(last + 1)::text, '9223372036854775807'] END) AS id
WHERE command !~ 'snowflake_\w+ FROM'
GROUP BY schema, layout ORDER BY schema;
SELECT layout_1.snowflake_worker(NULL) IS NULL AND layout_1.snowflake_timestamp(NULL) IS NULL AS null_stays_null,
       (SELECT d IS NULL FROM layout_1.snowflake_decode(NULL) AS d) AS also_in_a_row;

-- The planner inlines them: an index is used, and no function call is left.
CREATE TABLE orders (id bigint PRIMARY KEY, amount int);
INSERT INTO orders SELECT n::bigint << 40, n FROM generate_series(1, 10000) AS n;
ANALYZE orders;
SET search_path = public, layout_1;
EXPLAIN (COSTS OFF) SELECT * FROM orders WHERE snowflake_between(id, '2024-01-01 01:00', '2024-01-01 02:00');
EXPLAIN (COSTS OFF) SELECT * FROM orders WHERE snowflake_since(id, '2024-01-31');
SELECT count(*) FROM orders WHERE snowflake_since(id, '2024-01-01 01:00') AND snowflake_before(id, '2024-01-01 02:00');
SELECT count(*) FROM orders WHERE snowflake_timestamp(id) >= '2024-01-01 01:00' AND snowflake_timestamp(id) < '2024-01-01 02:00';
EXPLAIN (COSTS OFF, VERBOSE) SELECT o.id, d.worker_id FROM orders AS o, snowflake_decode(o.id) AS d;
-- They can be used in an index.
CREATE INDEX ON orders (snowflake_timestamp(id));

-- A second layout in the same schema is refused.
SELECT sqlstate_of('SET search_path = layout_1; ' || script) FROM layouts WHERE schema = 'layout_2';
\c :database
DROP DATABASE regression_reader;
DROP FUNCTION ask(text, text, text, bigint);
DROP TABLE layouts, questions;
