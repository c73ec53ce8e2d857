-- Many IDs in one call: their number and order, and when a batch is refused as a whole.

-- One, a few, and the maximum: all different, in increasing order, from this worker.
SELECT count(*), count(DISTINCT id), bool_and(id > id_before) AS increases,
       min(snowflake_worker(id)) AS least_worker, max(snowflake_worker(id)) AS most_worker
FROM (SELECT id, lag(id) OVER () AS id_before FROM snowflake_batch(1) AS id) AS pair;
SELECT count(*), count(DISTINCT id), bool_and(id > id_before) AS increases,
       min(snowflake_worker(id)) AS least_worker, max(snowflake_worker(id)) AS most_worker
FROM (SELECT id, lag(id) OVER () AS id_before FROM snowflake_batch(10) AS id) AS pair;
SELECT count(*), count(DISTINCT id), bool_and(id > id_before) AS increases,
       min(snowflake_worker(id)) AS least_worker, max(snowflake_worker(id)) AS most_worker
FROM (SELECT id, lag(id) OVER () AS id_before FROM snowflake_batch(1000000) AS id) AS pair;

-- A batch leaves no gaps: without the worker's ten bits between time and sequence, the IDs are consecutive numbers.
SELECT max(counter) - min(counter) AS distance
FROM (SELECT (id >> 22 << 12) + (id & 4095) AS counter FROM snowflake_batch(10000) AS id) AS taken;

-- Batches and single IDs share one order.
SELECT snowflake_nextval() AS id_before \gset
SELECT min(id) AS first_id, max(id) AS last_id FROM snowflake_batch(100) AS id \gset
SELECT :id_before < :first_id AS before, snowflake_nextval() > :last_id AS after;

-- Invalid counts. NULL gives no rows, as with every strict function.
SELECT count, code, message, detail
FROM unnest(ARRAY[0, -1, -2147483648, 1000001, 2147483647]) WITH ORDINALITY AS wrong (count, place),
LATERAL sqlstate_of(format('SELECT * FROM snowflake_batch(%s)', count))
ORDER BY place;
SELECT code FROM sqlstate_of('SELECT * FROM snowflake_batch(3000000000)');
SELECT count(*) FROM snowflake_batch(NULL);

-- In the select list, as rows of a table, and for each row of another table.
SELECT count(*), count(DISTINCT id) FROM (SELECT snowflake_batch(3) AS id) AS taken;
CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), place int);
INSERT INTO orders SELECT id, place FROM snowflake_batch(1000) WITH ORDINALITY AS taken (id, place);
SELECT count(*), bool_and(id > id_before) AS increases
FROM (SELECT id, lag(id) OVER (ORDER BY place) AS id_before FROM orders) AS pair;
DROP TABLE orders;
SELECT n, count(*), count(DISTINCT id) FROM generate_series(1, 4) AS n, LATERAL snowflake_batch(n) AS id
GROUP BY n ORDER BY n;

-- All IDs are taken before the first row is returned: LIMIT does not save any, and an ID taken meanwhile is larger.
SELECT max(id) AS last_shown FROM (SELECT snowflake_batch(10) AS id LIMIT 3) AS taken \gset
SELECT snowflake_currval() > :last_shown AS took_more_than_shown;
BEGIN;
DECLARE taken NO SCROLL CURSOR FOR SELECT snowflake_batch(3) AS id;
FETCH 1 FROM taken \gset first_
SELECT snowflake_nextval() AS drawn_between \gset
FETCH 1 FROM taken \gset second_
FETCH 1 FROM taken \gset third_
SELECT :first_id < :second_id AND :second_id < :third_id AS increases, :third_id < :drawn_between AS lies_above;
COMMIT;

-- A batch that is not available within max_wait is refused at once, and takes nothing: the next ID is not ahead of the
-- clock. The layout sonyflake allows 25600 IDs per second, and one second of them ahead of the clock.
SET snowflake_id.layout = 'sonyflake';
SELECT snowflake_nextval() AS last_id \gset
SET snowflake_id.max_wait = 0;
SELECT code, message FROM sqlstate_of('SELECT snowflake_batch(1000000)');
SET snowflake_id.max_wait = '30s';
SELECT clock_timestamp() AS time_before \gset
SELECT code, message FROM sqlstate_of('SELECT snowflake_batch(1000000)');
SELECT clock_timestamp() < timestamptz :'time_before' + interval '20 s' AS at_once;
SELECT snowflake_currval() = :last_id AS is_still_last;
SELECT snowflake_nextval() AS next_id \gset
SELECT :next_id > :last_id AS increases, snowflake_timestamp(:next_id) <= clock_timestamp() AS nothing_was_taken;

-- A batch that takes a little longer than max_ahead allows waits, if waiting is permitted.
SET snowflake_id.max_wait = 0;
SELECT code, message FROM sqlstate_of('SELECT snowflake_batch(30000)');
RESET snowflake_id.max_wait;
SELECT count(*), count(DISTINCT id), bool_and(id > id_before) AS increases,
       max(snowflake_timestamp(id)) <= clock_timestamp() + interval '1 s' AS not_too_late
FROM (SELECT id, lag(id) OVER () AS id_before FROM snowflake_batch(30000) AS id) AS pair;
RESET snowflake_id.layout;
