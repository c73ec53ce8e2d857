-- Ranges of time as ranges of IDs: bounds, predicates that the planner can simplify, indexes, partitions.
SET timezone = 'UTC';
SET datestyle = 'ISO';

-- The smallest ID at or after an instant, the largest at or before it. A tick of js53 is a second.
SELECT instant, snowflake_min_id(instant, 'js53') AS min_id, snowflake_max_id(instant, 'js53') AS max_id
FROM unnest(ARRAY['-infinity', '1970-01-01', '2020-01-01', '2020-01-01 00:00:00.000001', '2020-01-01 00:00:00.999999',
                  '2020-01-01 00:00:01', '2292-03-21 12:56:31', '2292-03-21 12:56:31.000001', '294276-12-31', 'infinity'
                  ]::timestamptz[]) AS instant;

-- A layout of all 63 bits has no number above its largest ID.
SELECT snowflake_min_id('-infinity') AS first, snowflake_max_id('-infinity') AS none,
       snowflake_min_id('infinity') AS min_id, snowflake_max_id('infinity') AS max_id;
SELECT snowflake_min_id('2024-01-02'), snowflake_max_id('2024-01-02');
SELECT snowflake_min_id(NULL) IS NULL AND snowflake_max_id(NULL) IS NULL
   AND snowflake_min_id(NULL, 'js53') IS NULL AND snowflake_max_id(NULL, 'js53') IS NULL
   AND snowflake_min_id('2024-01-02', NULL) IS NULL AND snowflake_max_id('2024-01-02', NULL) IS NULL AS all_null;
SELECT code, message FROM sqlstate_of($$SELECT snowflake_min_id('2024-01-02', 'twiter')$$);

-- The predicates, at the edges of a range: the start is included, the end is not.
SELECT at, snowflake_since(id, '2024-01-02 00:00') AS since, snowflake_before(id, '2024-01-02 01:00') AS before,
       snowflake_between(id, '2024-01-02 00:00', '2024-01-02 01:00') AS between
FROM unnest(ARRAY['2024-01-01 23:59:59.999', '2024-01-02 00:00', '2024-01-02 00:59:59.999', '2024-01-02 01:00'
                  ]::timestamptz[]) AS at, snowflake_encode(at, 1023, 4095) AS id;
SELECT snowflake_since(1, '2024-01-01', 'js53') AS since, snowflake_before(1, '2024-01-01', 'js53') AS before,
       snowflake_between(1, '2020-01-01', '2024-01-01', 'js53') AS between;

-- NULL and empty ranges give the same results as the comparison.
SELECT snowflake_since(1, NULL) IS NULL AS since, snowflake_before(NULL, '2024-01-02') IS NULL AS before,
       snowflake_between(1, NULL, '2023-01-01') AS null_to_past, snowflake_between(1, NULL, '2025-01-01') IS NULL AS null_on,
       snowflake_between(1, '2025-01-01', NULL, 'standard') AS from_future,
       snowflake_between(1, '2024-01-01', '2024-01-02', NULL) IS NULL AS no_layout,
       snowflake_between(1, '2024-01-02', '2024-01-01') AS empty;

-- A million rows, one for each second of eleven and a half days.
CREATE TABLE events (id bigint PRIMARY KEY, place int);
INSERT INTO events
    SELECT snowflake_encode(timestamptz '2024-01-01' + n * interval '1 s', n % 1024, n % 4096), n
    FROM generate_series(0, 999999) AS n;
VACUUM (ANALYZE) events;
SET enable_bitmapscan = off;

-- With constants and a named layout the planner knows the numbers. With the session's layout they are computed at the
-- start of execution.
EXPLAIN (COSTS OFF) SELECT * FROM events
    WHERE snowflake_between(id, '2024-01-03 10:00', '2024-01-03 11:00', 'standard');
EXPLAIN (COSTS OFF) SELECT * FROM events WHERE snowflake_between(id, '2024-01-03 10:00', '2024-01-03 11:00');
EXPLAIN (COSTS OFF) SELECT * FROM events WHERE snowflake_since(id, now() - interval '1 hour');
EXPLAIN (COSTS OFF) SELECT * FROM events WHERE snowflake_between(id, now() - interval '1 hour', now());
EXPLAIN (COSTS OFF) SELECT * FROM events
    WHERE snowflake_since(id, '2024-01-03 10:00') AND snowflake_before(id, '2024-01-03 11:00') AND place > 5;
EXPLAIN (COSTS OFF) SELECT count(*) FROM events
    WHERE snowflake_between(id, '2024-01-03 10:00', '2024-01-03 11:00', 'standard');
SELECT count(*), min(place), max(place) FROM events WHERE snowflake_between(id, '2024-01-03 10:00', '2024-01-03 11:00');
SELECT count(*), min(place), max(place) FROM events
    WHERE snowflake_timestamp(id) >= '2024-01-03 10:00' AND snowflake_timestamp(id) < '2024-01-03 11:00';

-- Parameters, with a plan for all values.
SET plan_cache_mode = force_generic_plan;
PREPARE range_of (timestamptz, timestamptz) AS
    SELECT count(*), min(place), max(place) FROM events WHERE snowflake_between(id, $1, $2);
PREPARE range_as (timestamptz, timestamptz, text) AS
    SELECT count(*), min(place), max(place) FROM events WHERE snowflake_between(id, $1, $2, $3);
EXPLAIN (COSTS OFF) EXECUTE range_of('2024-01-03 10:00', '2024-01-03 11:00');
EXPLAIN (COSTS OFF) EXECUTE range_as('2024-01-03 10:00', '2024-01-03 11:00', 'standard');
EXECUTE range_of('2024-01-03 10:00', '2024-01-03 11:00');
EXECUTE range_of('2024-01-03 10:00', '2024-01-03 09:00');
EXECUTE range_as('2024-01-03 10:00', '2024-01-03 11:00', 'standard');
-- Existing plans follow a changed setting: the same IDs have other times in pgedge.
SET snowflake_id.layout = 'pgedge';
EXECUTE range_of('2024-01-03 10:00', '2024-01-03 11:00');
EXECUTE range_of('2023-01-03 10:00', '2023-01-03 11:00');
RESET snowflake_id.layout;
EXECUTE range_of('2024-01-03 10:00', '2024-01-03 11:00');
SET plan_cache_mode = force_custom_plan;
EXECUTE range_of('2024-01-03 10:00', '2024-01-03 11:00');
SET snowflake_id.layout = 'pgedge';
EXECUTE range_of('2023-01-03 10:00', '2023-01-03 11:00');
RESET snowflake_id.layout;
RESET plan_cache_mode;
DEALLOCATE ALL;
-- The planner never treats the setting as a constant.
EXPLAIN (VERBOSE, COSTS OFF) SELECT snowflake_min_id('2024-01-03 10:00');
EXPLAIN (COSTS OFF) SELECT FROM events WHERE snowflake_between(5, '2024-01-03 10:00', '2024-01-03 11:00');

-- A join in which each row of one side is a range.
CREATE TABLE shifts (name text PRIMARY KEY, begins timestamptz, ends timestamptz);
INSERT INTO shifts VALUES ('early', '2024-01-03 06:00', '2024-01-03 14:00'), ('late', '2024-01-03 14:00', '2024-01-03 22:00');
ANALYZE shifts;
EXPLAIN (COSTS OFF) SELECT name, place FROM shifts JOIN events ON snowflake_between(id, begins, ends);
SELECT name, count(*) FROM shifts JOIN events ON snowflake_between(id, begins, ends) GROUP BY name ORDER BY name;

-- An index on the time itself works as well.
CREATE INDEX events_time ON events (snowflake_timestamp(id, 'standard'));
ANALYZE events;
EXPLAIN (COSTS OFF) SELECT * FROM events
    WHERE snowflake_timestamp(id, 'standard') >= '2024-01-03 10:00' AND snowflake_timestamp(id, 'standard') < '2024-01-03 11:00';
SELECT count(*), min(place), max(place) FROM events
    WHERE snowflake_timestamp(id, 'standard') >= '2024-01-03 10:00' AND snowflake_timestamp(id, 'standard') < '2024-01-03 11:00';
DROP INDEX events_time;
RESET enable_bitmapscan;

-- Twelve partitions, one for each month.
CREATE TABLE orders (id bigint PRIMARY KEY, place int) PARTITION BY RANGE (id);
SELECT format('CREATE TABLE orders_%s PARTITION OF orders FOR VALUES FROM (%s) TO (%s)', to_char(month, 'MM'),
              snowflake_min_id(month, 'standard'), snowflake_min_id(month + interval '1 month', 'standard'))
FROM generate_series(timestamptz '2024-01-01', '2024-12-01', '1 month') AS month \gexec
INSERT INTO orders
    SELECT snowflake_encode(timestamptz '2024-01-01' + n * interval '1 hour', 1, 0), n FROM generate_series(0, 8783) AS n;
VACUUM (ANALYZE) orders;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
-- With constants and a named layout, only the right partitions are planned ...
EXPLAIN (COSTS OFF) SELECT * FROM orders WHERE snowflake_between(id, '2024-03-15', '2024-04-15', 'standard');
EXPLAIN (COSTS OFF) SELECT * FROM orders WHERE snowflake_since(id, '2024-12-24', 'standard');
EXPLAIN (COSTS OFF) SELECT * FROM orders WHERE snowflake_before(id, '2024-01-01 00:00:01', 'standard');
-- ... and with values known at the start, only the right ones are executed: the session's layout, now() (long after all
-- of them).
EXPLAIN (COSTS OFF) SELECT * FROM orders WHERE snowflake_between(id, '2024-03-15', '2024-04-15');
EXPLAIN (COSTS OFF) SELECT * FROM orders
    WHERE snowflake_between(id, now() - (now() - '2024-03-15'), now() - (now() - '2024-04-15'), 'standard');
EXPLAIN (COSTS OFF) SELECT * FROM orders WHERE snowflake_since(id, now());
SET plan_cache_mode = force_generic_plan;
PREPARE month_of (timestamptz, timestamptz) AS SELECT count(*) FROM orders WHERE snowflake_between(id, $1, $2);
EXPLAIN (COSTS OFF) EXECUTE month_of('2024-03-15', '2024-04-15');
EXECUTE month_of('2024-03-15', '2024-04-15');
SET snowflake_id.layout = 'pgedge';
EXPLAIN (COSTS OFF) EXECUTE month_of('2023-03-15', '2023-04-15');
EXECUTE month_of('2023-03-15', '2023-04-15');
RESET snowflake_id.layout;
DEALLOCATE month_of;
RESET plan_cache_mode;
RESET enable_seqscan;
RESET enable_bitmapscan;
SELECT count(*) FROM orders WHERE snowflake_timestamp(id) >= '2024-03-15' AND snowflake_timestamp(id) < '2024-04-15';

-- No plan may call a predicate for each row: all of them must be inlined. (The plans above show it too. This states
-- it.)
CREATE FUNCTION plan_of(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY EXECUTE 'EXPLAIN (VERBOSE, COSTS OFF) ' || query;
END
$$;
SELECT predicate,
       bool_or(line ~ 'snowflake_(since|before|between)') AS is_called,
       bool_or(line ~ 'Index Cond: .*events\.id (>=|<) ') AS is_index_condition
FROM unnest(ARRAY[
        $$snowflake_since(id, '2024-01-12')$$, $$snowflake_since(id, '2024-01-12', 'standard')$$,
        $$snowflake_since(id, now())$$, $$snowflake_since(id, now(), 'standard')$$,
        $$snowflake_before(id, '2024-01-02')$$, $$snowflake_before(id, '2024-01-02', 'standard')$$,
        $$snowflake_before(id, now() - interval '99 years')$$, $$snowflake_before(id, now() - interval '99 years', 'standard')$$,
        $$snowflake_between(id, '2024-01-03', '2024-01-04')$$, $$snowflake_between(id, '2024-01-03', '2024-01-04', 'standard')$$,
        $$snowflake_between(id, now(), now() + interval '1 hour')$$,
        $$snowflake_between(id, now(), now() + interval '1 hour', 'standard')$$]) WITH ORDINALITY AS p (predicate, position),
     LATERAL plan_of('SELECT FROM events WHERE ' || predicate) AS line
GROUP BY predicate, position ORDER BY position;
DROP FUNCTION plan_of;

-- Random ranges find the rows that a comparison of the times finds, in layouts of all kinds. IDs and ranges are close
-- to each other, within an hour, so that ranges hit the edges of ticks. Some ranges are empty, reversed or without an
-- end.
SELECT setseed(0.5);
CREATE TABLE samples AS
    SELECT layout, snowflake_encode(timestamptz '2025-06-01' + random() * interval '1 hour', (random() * 10)::int,
                                    (random() * 60)::int, layout) AS id
    FROM unnest(ARRAY['standard', 'twitter', 'sonyflake2', 'js53', 'time:39 sequence:6 worker:4 unit=10s']) AS layout,
         generate_series(1, 500);
CREATE INDEX ON samples (id);
CREATE TABLE ranges AS
    SELECT n, CASE n % 25 WHEN 0 THEN '-infinity' ELSE date_trunc(unit, start + random() * interval '1 hour') END AS since,
           CASE n % 20 WHEN 0 THEN 'infinity' ELSE date_trunc(unit, start + random() * interval '1 hour') END AS before
    FROM generate_series(1, 300) AS n, (VALUES (timestamptz '2025-06-01')) AS hour (start),
         LATERAL (SELECT (ARRAY['minute', 'second', 'milliseconds', 'microseconds'])[1 + n % 4] AS unit) AS u;
-- The start of a range is often the time of an ID.
UPDATE ranges SET since = (SELECT snowflake_timestamp(id, layout) FROM samples OFFSET n LIMIT 1) WHERE n % 3 = 0;
SELECT count(*) AS ranges, sum(found) > 50000 AS finds_many, count(*) FILTER (WHERE found = 0) > 50 AS some_are_empty,
       count(*) FILTER (WHERE found <> expected) AS wrong
FROM ranges, LATERAL (
    SELECT count(*) FILTER (WHERE snowflake_between(id, since, before, layout)) AS found,
           count(*) FILTER (WHERE made_at >= since AND made_at < before) AS expected
    FROM samples, snowflake_timestamp(id, layout) AS made_at) AS counts;
-- With the session's layout, through the index.
DELETE FROM samples WHERE layout <> 'js53';
ANALYZE samples;
SET snowflake_id.layout = 'js53';
SET enable_seqscan = off;
SELECT count(*) AS ranges, sum(found) > 10000 AS finds_many, count(*) FILTER (WHERE found <> expected) AS wrong
FROM ranges,
     LATERAL (SELECT count(*) AS found FROM samples WHERE snowflake_between(id, since, before)) AS by_index,
     LATERAL (SELECT count(*) AS expected FROM samples
              WHERE snowflake_timestamp(id) >= since AND snowflake_timestamp(id) < before) AS by_time;
SELECT count(*) FILTER (WHERE snowflake_since(id, since) <> (snowflake_timestamp(id) >= since)) AS wrong_since,
       count(*) FILTER (WHERE snowflake_before(id, before) <> (snowflake_timestamp(id) < before)) AS wrong_before,
       count(*) FILTER (WHERE (id <= snowflake_max_id(since)) <> (snowflake_timestamp(id) <= since)) AS wrong_max_id
FROM ranges, samples;
RESET enable_seqscan;
RESET snowflake_id.layout;

-- Objects with the same names in an earlier schema are not used.
CREATE SCHEMA hostile;
CREATE FUNCTION hostile.snowflake_min_id(timestamptz) RETURNS bigint LANGUAGE sql AS 'SELECT -1 / 0';
CREATE FUNCTION hostile.snowflake_min_id(timestamptz, text) RETURNS bigint LANGUAGE sql AS 'SELECT -1 / 0';
CREATE FUNCTION hostile.trap(bigint, bigint) RETURNS boolean LANGUAGE sql AS 'SELECT 1 / 0 = 1';
CREATE OPERATOR hostile.>= (FUNCTION = hostile.trap, LEFTARG = bigint, RIGHTARG = bigint);
CREATE OPERATOR hostile.< (FUNCTION = hostile.trap, LEFTARG = bigint, RIGHTARG = bigint);
SET search_path = hostile, pg_catalog, public;
SELECT 1::bigint < 2::bigint;
SELECT count(*) FROM public.events WHERE snowflake_between(id, '2024-01-03 10:00', '2024-01-03 11:00');
SELECT count(*) FROM public.events
    WHERE snowflake_since(id, '2024-01-12', 'standard') AND snowflake_before(id, '2024-01-13', 'standard');
RESET search_path;
SET client_min_messages = warning;
DROP SCHEMA hostile CASCADE;
RESET client_min_messages;
DROP TABLE events, shifts, orders, samples, ranges;
