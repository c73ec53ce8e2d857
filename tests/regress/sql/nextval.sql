-- Single IDs: their order and content, transactions, parallel plans, currval, other layouts.
SET timezone = 'UTC';
SET datestyle = 'ISO';

-- As a column default, every row gets its own ID, larger than the one before, from the only worker.
CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), place int);
INSERT INTO orders (place) SELECT generate_series(1, 10000);
SELECT count(*), count(DISTINCT id), bool_and(id > id_before) AS increases, min(id) > 0 AS positive
FROM (SELECT id, lag(id) OVER (ORDER BY place) AS id_before FROM orders) AS pair;
SELECT DISTINCT snowflake_worker(id) AS worker, snowflake_datacenter(id) AS datacenter FROM orders;

-- Several rows of VALUES, COPY and UPDATE take an ID for each row too.
INSERT INTO orders (place) VALUES (10001), (10002);
COPY orders (place) FROM stdin;
10003
10004
\.
SELECT count(*), count(DISTINCT id), bool_and(id > id_before) AS increases
FROM (SELECT id, lag(id) OVER (ORDER BY place) AS id_before FROM orders) AS pair;
SELECT max(id) AS last_id FROM orders \gset
UPDATE orders SET id = snowflake_nextval();
SELECT count(*), count(DISTINCT id), min(id) > :last_id AS all_new FROM orders;

-- The time in an ID is that of its millisecond, and at most max_ahead ahead of the clock.
SELECT clock_timestamp() AS time_before \gset
SELECT snowflake_nextval() AS id \gset
SELECT snowflake_timestamp(:id) > timestamptz :'time_before' - interval '1 ms' AS not_too_early,
       snowflake_timestamp(:id) <= clock_timestamp() + interval '1 s' AS not_too_late;

-- IDs of a transaction that was rolled back are not issued again.
BEGIN;
INSERT INTO orders (place) VALUES (0) RETURNING id AS rolled_back \gset
SAVEPOINT inner_one;
SELECT snowflake_nextval() AS rolled_back_to \gset
ROLLBACK TO inner_one;
SELECT snowflake_nextval() > :rolled_back_to AS after_savepoint;
ROLLBACK;
SELECT snowflake_nextval() > :rolled_back_to AS after_rollback, :rolled_back_to > :rolled_back AS inside;

-- Each call in an expression is evaluated separately.
SELECT count(*) FROM generate_series(1, 1000) WHERE snowflake_nextval() >= snowflake_nextval();

-- Each round of a loop is too.
DO $$
DECLARE
    last_id bigint := 0;
    next_id bigint;
BEGIN
    FOR round IN 1..10000 LOOP
        next_id := snowflake_nextval();
        ASSERT next_id > last_id, format('%s does not follow %s', next_id, last_id);
        last_id := next_id;
    END LOOP;
END
$$;

-- A new session has no last ID until it takes one. It keeps the last ID even if the transaction is rolled back.
\c
SELECT code FROM sqlstate_of('SELECT snowflake_currval()');
BEGIN;
SELECT snowflake_nextval() AS id \gset
ROLLBACK;
SELECT snowflake_currval() = :id AS is_last_nextval, snowflake_currval() = :id AS still_is;
SELECT max(id) AS last_of_batch FROM snowflake_batch(10) AS id \gset
SELECT snowflake_currval() = :last_of_batch AS is_last_of_batch;

-- Parallel workers take IDs too. The leader does not participate here, so its session still has no last ID.
\c
SET parallel_leader_participation = off;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET max_parallel_workers_per_gather = 2;
ALTER TABLE orders SET (parallel_workers = 2);
ANALYZE orders;
EXPLAIN (COSTS OFF) CREATE TABLE copies AS SELECT snowflake_nextval() AS id, place FROM orders;
CREATE TABLE copies AS SELECT snowflake_nextval() AS id, place FROM orders;
SELECT code FROM sqlstate_of('SELECT snowflake_currval()');
SELECT count(*), count(DISTINCT id), min(id) > (SELECT max(id) FROM orders) AS all_new FROM copies;
SELECT DISTINCT snowflake_worker(id) AS worker FROM copies;
DROP TABLE copies, orders;

-- Where the sequences of ticks start is a setting of the server, not of a session.
SELECT code, message FROM sqlstate_of('SET snowflake_id.sequence_spread = 3');

-- A superuser can choose another layout for a session.
\c
SET snowflake_id.layout = 'twitter';
SELECT snowflake_nextval() AS twitter_id \gset
SELECT datacenter_id, worker_id, clock_seq FROM snowflake_decode(:twitter_id);
SET snowflake_id.layout = 'js53';
SELECT snowflake_nextval() AS js53_id \gset
SELECT datacenter_id, worker_id, clock_seq, :js53_id < 2 ^ 53 AS fits FROM snowflake_decode(:js53_id);

-- Each layout has its own order, and continues where it was.
SET snowflake_id.layout = 'twitter';
SELECT snowflake_nextval() > :twitter_id AS increases;
SET snowflake_id.layout = 'js53';
SELECT snowflake_nextval() > :js53_id AS increases;
RESET snowflake_id.layout;

-- In presets that have a worker and have not ended, IDs increase, and contain worker 7 and the time at which they were
-- issued. Those that differ from standard only in the epoch are left out, because a server has places for 16 layouts.
CREATE FUNCTION draw(layout text, unit interval, OUT increases boolean, OUT workers int[], OUT is_on_time boolean)
LANGUAGE plpgsql AS $$
DECLARE
    time_before timestamptz := clock_timestamp();
    ids bigint[] := '{}';
BEGIN
    PERFORM set_config('snowflake_id.layout', layout, true);
    FOR round IN 1..50 LOOP
        ids := ids || snowflake_nextval();
    END LOOP;
    increases := ids = ARRAY(SELECT DISTINCT id FROM unnest(ids) AS id ORDER BY id);
    workers := ARRAY(SELECT DISTINCT snowflake_worker(id) FROM unnest(ids) AS id);
    is_on_time := snowflake_timestamp(ids[1]) > time_before - unit
              AND snowflake_timestamp(ids[50]) <= clock_timestamp() + interval '1 s';
END
$$;
SELECT l.name, d.* FROM snowflake_presets AS l, draw(l.name, l.unit) AS d
WHERE l.name NOT IN ('baidu', 'pgedge', 'tsid', 'shardingsphere', 'cosid') AND l.worker_bits > 0;
DROP FUNCTION draw;
-- Presets without a worker are for a server with worker ID 0.
SELECT name, code, message, detail FROM snowflake_presets, sqlstate_of(format('SET LOCAL snowflake_id.layout = %L; SELECT snowflake_nextval()', name))
WHERE worker_bits = 0;

-- The preset that has ended issues no IDs.
SELECT code, message FROM sqlstate_of($$SET snowflake_id.layout = 'baidu'; SELECT snowflake_nextval()$$);

-- Layouts that would issue the same numbers share one counter: twitter and leaf differ only in the names of their bits.
DO $$
DECLARE
    last_id bigint := 0;
    next_id bigint;
BEGIN
    FOR round IN 1..100 LOOP
        PERFORM set_config('snowflake_id.layout', CASE round % 2 WHEN 0 THEN 'twitter' ELSE 'leaf' END, true);
        next_id := snowflake_nextval();
        ASSERT next_id > last_id, format('%s does not follow %s', next_id, last_id);
        last_id := next_id;
    END LOOP;
END
$$;
SHOW snowflake_id.layout;
