-- Consecutive IDs in one call: their number, their tick, and when a block is refused.

-- The IDs of a block increase by one, and are in one tick. 4096 IDs are a whole tick.
SELECT count, snowflake_timestamp(id) = snowflake_timestamp(id + count - 1) AS one_tick,
       snowflake_sequence(id + count - 1) - snowflake_sequence(id) + 1 = count AS consecutive,
       snowflake_worker(id) AS worker
FROM unnest(ARRAY[1, 2, 50, 4095, 4096]) AS count, LATERAL (SELECT snowflake_block(count) OFFSET 0) AS block (id);

-- Blocks, batches and single IDs share one order, and no ID is issued twice.
SELECT snowflake_nextval() AS before \gset
SELECT snowflake_block(10) AS block \gset
SELECT snowflake_currval() = :block + 9 AS is_last;
SELECT :before < :block AS before, snowflake_nextval() >= :block + 10 AS after,
       (SELECT min(id) >= :block + 10 FROM snowflake_batch(10) AS id) AS batch_after;
CREATE TABLE taken (id bigint PRIMARY KEY);
INSERT INTO taken
SELECT id + place
FROM generate_series(1, 300) AS n, LATERAL (SELECT snowflake_block(n % 100 + 1) OFFSET 0) AS block (id),
     generate_series(0, n % 100) AS place;
INSERT INTO taken SELECT snowflake_nextval() FROM generate_series(1, 1000);
SELECT count(*) FROM taken;

-- As a sequence with an increment for programs that count on by themselves: a column's default for each row.
TRUNCATE taken;
ALTER TABLE taken ALTER id SET DEFAULT snowflake_block(50), ADD place int;
INSERT INTO taken (place) SELECT generate_series(1, 100);
SELECT bool_and(id - id_before >= 50) AS increases_by_blocks
FROM (SELECT id, lag(id) OVER (ORDER BY place) AS id_before FROM taken) AS pair;
DROP TABLE taken;

-- Invalid counts. The largest count depends on the layout. NULL gives NULL, as with every strict function.
\pset format unaligned
SELECT layout, count, code, message, detail, hint
FROM (VALUES ('standard', 0), ('standard', -2147483648), ('standard', 4097), ('standard', 2147483647), ('wide', 65537), ('js53', 32769),
             ('sonyflake', 1), ('sonyflake', 2), ('time:50 worker:10', 1), ('time:50 worker:10', 2)) AS wrong (layout, count),
LATERAL (SELECT set_config('snowflake_id.layout', layout, false) OFFSET 0) AS layouts,
LATERAL sqlstate_of(format('SELECT snowflake_block(%s)', count));
\pset format aligned
RESET snowflake_id.layout;
SELECT snowflake_block(NULL) IS NULL AS no_block;
