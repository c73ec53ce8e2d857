-- Every error that this server can give, with SQLSTATE, message, detail and hint; and that the session goes on.
\pset format unaligned
\x on

-- In a new session there is no last ID.
\c
SELECT * FROM sqlstate_of('SELECT snowflake_currval()');

-- Counts of a batch.
SELECT * FROM sqlstate_of('SELECT snowflake_batch(0)');
SELECT * FROM sqlstate_of('SELECT snowflake_batch(1000001)');

-- A worker ID that does not fit the layout is not cut down: 2 bits hold 3 at most, a lacking field nothing.
SELECT * FROM sqlstate_of($$
    SET snowflake_id.layout = 'time:41 worker:2 sequence:12';
    SELECT snowflake_nextval()$$);
SELECT * FROM sqlstate_of($$
    SET snowflake_id.layout = 'time:41 datacenter:10 sequence:12';
    SELECT snowflake_nextval()$$);
SELECT * FROM sqlstate_of($$
    SET snowflake_id.layout = 'time:41 sequence:22';
    SELECT snowflake_batch(10)$$);

-- Layouts that are past their end.
SELECT * FROM sqlstate_of($$SET snowflake_id.layout = 'baidu'; SELECT snowflake_nextval()$$);
SELECT * FROM sqlstate_of($$SET snowflake_id.layout = 'baidu'; SELECT snowflake_batch(10)$$);
SELECT * FROM sqlstate_of($$
    SET snowflake_id.layout = 'time:20 worker:3 unit=1ms epoch=2024-01-01T00:00:00Z';
    SELECT snowflake_nextval()$$);

-- A layout that has not begun. How long that takes depends on the clock.
SELECT code, message, regexp_replace(detail, '\d+ (ms|days)', 'N \1') AS detail, hint FROM sqlstate_of($$
    SET snowflake_id.layout = 'standard epoch=9000-01-01T00:00:00Z';
    SELECT snowflake_nextval()$$);
SELECT code, message, regexp_replace(detail, '\d+ (ms|days)', 'N \1') AS detail, hint FROM sqlstate_of($$
    SET snowflake_id.layout = 'standard epoch=9000-01-01T00:00:00Z';
    SELECT snowflake_batch(10)$$);

-- More IDs than there are: two in each tick of 10 s, of which the first begins now. max_ahead allows the next tick one
-- second before it begins, in 8 to 9 seconds, so that until then every further call has to wait.
SELECT set_config('snowflake_id.layout', format('time:39 worker:10 sequence:1 unit=10s epoch=%s',
    to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')), false) IS NOT NULL AS is_set;
SELECT count(*) FROM snowflake_batch(2);
SET snowflake_id.max_wait = 0;
SELECT code, message, regexp_replace(detail, '\d+ (ms|days)', 'N \1') AS detail, hint
FROM sqlstate_of('SELECT snowflake_nextval()');
SELECT code, message, regexp_replace(detail, '\d+ (ms|days)', 'N \1') AS detail, hint
FROM sqlstate_of('SELECT snowflake_batch(2)');

-- A wait that is known to be too long fails at once, not at the end of max_wait.
SET snowflake_id.max_wait = '2s';
SELECT clock_timestamp() AS time_before \gset
SELECT code, message FROM sqlstate_of('SELECT snowflake_nextval()');
SELECT clock_timestamp() < timestamptz :'time_before' + interval '1 s' AS at_once;

-- One that is allowed can be cut short by statement_timeout. Nothing is lost by that: the last ID is as before.
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

-- The session goes on: the same backend makes IDs, reads them, and has caught every error so far.
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

-- A text that is no layout, as an argument and as a setting; a long one, and one with control characters, are cut down.
SELECT * FROM sqlstate_of($$SELECT snowflake_decode(1, 'time:41 worker:10 sequence:13')$$);
SELECT * FROM sqlstate_of($$SELECT snowflake_describe_layout('')$$);
SELECT * FROM sqlstate_of(format('SELECT snowflake_decode(1, %L)', repeat('x', 100)));
SELECT * FROM sqlstate_of($$SELECT snowflake_decode(1, E'time:41\nworker\b')$$);
SELECT * FROM sqlstate_of($$SET snowflake_id.layout = 'time:41 worker:10 sequence:13'$$);

-- An error within a statement undoes the statement, not the session; its transaction can go on after a savepoint.
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

-- 16 layouts can be in use on a server. The next one is refused; those in use are not affected. (This takes the places
-- that are left until the server is restarted: later topics have to do with the layouts of earlier ones.)
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
