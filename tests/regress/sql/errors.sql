-- Every error that this server can raise, with SQLSTATE, message, detail and hint. The session continues after each.
\pset format unaligned
\x on

-- A new session has no last ID.
\c
SELECT * FROM sqlstate_of('SELECT snowflake_currval()');

-- Invalid counts of a batch.
SELECT * FROM sqlstate_of('SELECT snowflake_batch(0)');
SELECT * FROM sqlstate_of('SELECT snowflake_batch(1000001)');

-- A worker ID that does not fit the layout is not truncated: 2 bits hold 3 at most, and a missing field holds only 0.
SELECT * FROM sqlstate_of($$
    SET snowflake_id.layout = 'time:41 worker:2 sequence:12';
    SELECT snowflake_nextval()$$);
SELECT * FROM sqlstate_of($$
    SET snowflake_id.layout = 'time:41 datacenter:10 sequence:12';
    SELECT snowflake_nextval()$$);
SELECT * FROM sqlstate_of($$
    SET snowflake_id.layout = 'time:41 sequence:22';
    SELECT snowflake_batch(10)$$);

-- Layouts that have ended.
SELECT * FROM sqlstate_of($$SET snowflake_id.layout = 'baidu'; SELECT snowflake_nextval()$$);
SELECT * FROM sqlstate_of($$SET snowflake_id.layout = 'baidu'; SELECT snowflake_batch(10)$$);
SELECT * FROM sqlstate_of($$
    SET snowflake_id.layout = 'time:20 worker:3 unit=1ms epoch=2024-01-01T00:00:00Z';
    SELECT snowflake_nextval()$$);

-- A layout that has not begun. The remaining time depends on the clock.
SELECT code, message, regexp_replace(detail, '\d+ (ms|days)', 'N \1') AS detail, hint FROM sqlstate_of($$
    SET snowflake_id.layout = 'standard epoch=9000-01-01T00:00:00Z';
    SELECT snowflake_nextval()$$);
SELECT code, message, regexp_replace(detail, '\d+ (ms|days)', 'N \1') AS detail, hint FROM sqlstate_of($$
    SET snowflake_id.layout = 'standard epoch=9000-01-01T00:00:00Z';
    SELECT snowflake_batch(10)$$);

-- More IDs than are available: each tick of 10 s has two, and the first tick begins now. max_ahead allows the next tick
-- one second before it begins, in 8 to 9 seconds. Until then every further call has to wait.
SELECT set_config('snowflake_id.layout', format('time:39 worker:10 sequence:1 unit=10s epoch=%s',
    to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')), false) IS NOT NULL AS is_set;
SELECT count(*) FROM snowflake_batch(2);
SET snowflake_id.max_wait = 0;
SELECT code, message, regexp_replace(detail, '\d+ (ms|days)', 'N \1') AS detail, hint
FROM sqlstate_of('SELECT snowflake_nextval()');
SELECT code, message, regexp_replace(detail, '\d+ (ms|days)', 'N \1') AS detail, hint
FROM sqlstate_of('SELECT snowflake_batch(2)');

-- A wait that would be too long fails at once, not at the end of max_wait.
SET snowflake_id.max_wait = '2s';
SELECT clock_timestamp() AS time_before \gset
SELECT code, message FROM sqlstate_of('SELECT snowflake_nextval()');
SELECT clock_timestamp() < timestamptz :'time_before' + interval '1 s' AS at_once;

-- A permitted wait can be ended early by statement_timeout. Nothing is lost by that: the last ID does not change.
SET snowflake_id.max_wait = '1d';
SELECT snowflake_currval() AS last_id \gset
SET statement_timeout = '100ms';
SELECT * FROM sqlstate_of('SELECT snowflake_nextval()');
SELECT snowflake_nextval();
SELECT * FROM sqlstate_of('SELECT snowflake_batch(1000)');
RESET statement_timeout;
SELECT snowflake_currval() = :last_id AS is_still_last;
RESET snowflake_id.max_wait;
RESET snowflake_id.layout;

-- The session continues: the same backend issues and decodes IDs, and has caught every error so far.
SELECT snowflake_worker(snowflake_nextval());
SELECT snowflake_currval() <> :last_id AS has_new_last;

-- IDs of no layout, and values that do not fit one.
SELECT * FROM sqlstate_of('SELECT snowflake_decode(-1)');
SELECT * FROM sqlstate_of($$SELECT snowflake_timestamp(4503599627370496, 'js53')$$);
SELECT * FROM sqlstate_of($$SELECT snowflake_encode('2024-01-01T00:00:00Z', 1024, 0)$$);
SELECT * FROM sqlstate_of($$SELECT snowflake_encode('2024-01-01T00:00:00Z', 0, -1)$$);
SELECT * FROM sqlstate_of($$SELECT snowflake_encode('2024-01-01T00:00:00Z', 0, 0, 'standard', 1)$$);
SELECT * FROM sqlstate_of($$SELECT snowflake_encode('2000-01-01T00:00:00Z', 0, 0)$$);
SELECT * FROM sqlstate_of($$SELECT snowflake_encode('infinity', 0, 0)$$);

-- An invalid layout, as an argument and as a setting. A long one and one with control characters are truncated.
SELECT * FROM sqlstate_of($$SELECT snowflake_decode(1, 'time:41 worker:10 sequence:13')$$);
SELECT * FROM sqlstate_of($$SELECT snowflake_describe_layout('')$$);
SELECT * FROM sqlstate_of(format('SELECT snowflake_decode(1, %L)', repeat('x', 100)));
SELECT * FROM sqlstate_of($$SELECT snowflake_decode(1, E'time:41\nworker\b')$$);
SELECT * FROM sqlstate_of($$SET snowflake_id.layout = 'time:41 worker:10 sequence:13'$$);

-- An error in a statement undoes the statement, but the session continues, and its transaction can continue after a
-- savepoint.
\x off
\pset format aligned
CREATE TABLE orders (id bigint DEFAULT snowflake_nextval(), made timestamptz);
BEGIN;
INSERT INTO orders DEFAULT VALUES;
SAVEPOINT before_error;
SET LOCAL snowflake_id.layout = 'baidu';
INSERT INTO orders DEFAULT VALUES;
ROLLBACK TO before_error;
INSERT INTO orders DEFAULT VALUES;
COMMIT;
SELECT count(*), count(DISTINCT id) FROM orders;
DROP TABLE orders;

-- A session can fail a thousand times.
DO $$
BEGIN
    FOR round IN 1..1000 LOOP
        BEGIN
            PERFORM snowflake_decode(-round);
        EXCEPTION WHEN numeric_value_out_of_range THEN
            NULL;
        END;
    END LOOP;
END
$$;
SELECT snowflake_worker(snowflake_nextval());

-- A server can use 16 layouts. The next one is refused, and those in use are not affected. (This uses the remaining
-- slots until the server is restarted, so later topics use the layouts of earlier ones.)
SET snowflake_id.layout = 'twitter';
SELECT snowflake_worker(snowflake_nextval());
RESET snowflake_id.layout;
\pset format unaligned
\x on
SELECT refusal.*
FROM generate_series(2001, 2017) AS year,
     LATERAL sqlstate_of(format(
        $$SET LOCAL snowflake_id.layout = 'standard epoch=%s-01-01T00:00:00Z'; SELECT snowflake_nextval()$$,
        year)) AS refusal
WHERE refusal.code <> '00000'
ORDER BY year DESC LIMIT 1;
\x off
\pset format aligned
SELECT snowflake_worker(snowflake_nextval());
SET snowflake_id.layout = 'twitter';
SELECT snowflake_worker(snowflake_nextval());
RESET snowflake_id.layout;
