-- Decoding IDs: real ones, both forms of each function, NULLs, IDs of no layout, indexes.
SET timezone = 'UTC';
SET datestyle = 'ISO';

-- IDs of other systems: a tweet, a message on Discord, and the examples of two other generators.
CREATE TABLE known (layout text, id bigint);
INSERT INTO known VALUES
    ('twitter', 1541815603606036480),
    ('discord', 175928847299117063),
    ('redis', 5981966696448054276),
    ('pgedge', 170505378935607296);
SELECT known.*, fields.* FROM known, snowflake_decode(id, layout) AS fields ORDER BY id DESC;

-- The accessors agree, and return NULL for a field that the layout lacks.
SELECT layout, snowflake_timestamp(id, layout), snowflake_datacenter(id, layout) AS datacenter,
       snowflake_worker(id, layout) AS worker, snowflake_sequence(id, layout) AS sequence
FROM known ORDER BY id DESC;
SELECT * FROM snowflake_decode(1541815603606036480, 'time:63 unit=1us epoch=1900-01-01T00:00:00Z');
SELECT snowflake_datacenter(1, 'time:63 unit=1us epoch=1900-01-01T00:00:00Z') IS NULL AS no_datacenter,
       snowflake_worker(1, 'time:63 unit=1us epoch=1900-01-01T00:00:00Z') IS NULL AS no_worker,
       snowflake_sequence(1, 'time:63 unit=1us epoch=1900-01-01T00:00:00Z') IS NULL AS no_sequence;

-- A clock sequence is decoded too.
SELECT * FROM snowflake_decode(((5::bigint << 3 | 6) << 7 | 99) << 12 | 4095, 'rollback3');

-- The default layout is that of the session.
SELECT * FROM snowflake_decode(0);
SET snowflake_id.layout = 'twitter';
SELECT * FROM snowflake_decode(1541815603606036480);
SELECT snowflake_timestamp(1541815603606036480), snowflake_datacenter(1541815603606036480) AS datacenter,
       snowflake_worker(1541815603606036480) AS worker, snowflake_sequence(1541815603606036480) AS sequence;

-- A prepared statement follows the setting.
PREPARE time_of AS SELECT snowflake_timestamp(175928847299117063);
EXECUTE time_of;
SET snowflake_id.layout = 'discord';
EXECUTE time_of;
DEALLOCATE time_of;
RESET snowflake_id.layout;

-- A different layout in each row, twice, and more layouts than a session caches.
SELECT name, snowflake_timestamp(0, name) = epoch AS starts_at_epoch, snowflake_timestamp(0, name) AS tick_0
FROM generate_series(1, 2) AS round, snowflake_presets
ORDER BY round, array_position(snowflake_internal.snowflake_preset_names(), name);

-- A different layout in each round of a loop that evaluates the same expression, and as a parameter of a prepared
-- statement.
DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['twitter', 'discord', 'twitter'] LOOP
        RAISE NOTICE '%: % %', name, snowflake_timestamp(0, name), snowflake_max_id('2020-01-01 00:00Z', name);
    END LOOP;
END
$$;
SET plan_cache_mode = force_generic_plan;
PREPARE time_in (text) AS SELECT snowflake_timestamp(0, $1), snowflake_worker(1541815603606036480, $1);
EXECUTE time_in ('twitter');
EXECUTE time_in ('discord');
DEALLOCATE time_in;
RESET plan_cache_mode;

-- A layout stored with a short header, compressed or out of line.
CREATE TABLE stored (short text, compressed text, apart text, filler text) WITH (toast_tuple_target = 128);
ALTER TABLE stored ALTER apart SET STORAGE EXTERNAL, ALTER filler SET STORAGE PLAIN;
INSERT INTO stored VALUES ('twitter', 'twitter' || repeat(' ', 900), repeat(' ', 900) || 'twitter', repeat('x', 3000));
SELECT pg_column_size(short) AS short, pg_column_size(compressed) < 100 AS is_compressed,
       pg_relation_size(reltoastrelid) > 0 AS is_apart
FROM stored, pg_class WHERE pg_class.oid = 'stored'::regclass;
SELECT snowflake_worker(1541815603606036480, short) AS short, snowflake_worker(1541815603606036480, compressed) AS compressed,
       snowflake_worker(1541815603606036480, apart) AS apart, snowflake_worker(1541815603606036480, short) AS short_again
FROM stored;
DROP TABLE stored;

-- By name, as part of a row, and in a generated column.
SELECT (snowflake_decode(id => 175928847299117063, layout => 'discord')).worker_id;
CREATE TABLE tweets (
    id bigint,
    tweeted_at timestamptz GENERATED ALWAYS AS (snowflake_timestamp(id, 'twitter')) STORED
);
INSERT INTO tweets VALUES (1541815603606036480), (NULL);
TABLE tweets;
DROP TABLE tweets;

-- NULL gives a row of NULLs, so that a row with a NULL ID is not lost in a join.
SELECT * FROM snowflake_decode(NULL);
SELECT * FROM snowflake_decode(1, NULL);
SELECT * FROM snowflake_decode(NULL, 'twitter');
SELECT place, id, fields.*
FROM (VALUES (1, 175928847299117063), (2, NULL), (3, 0)) AS message (place, id),
     snowflake_decode(id, 'discord') AS fields;
SELECT snowflake_timestamp(NULL) IS NULL AND snowflake_timestamp(NULL, 'twitter') IS NULL
   AND snowflake_datacenter(NULL) IS NULL AND snowflake_datacenter(NULL, 'twitter') IS NULL
   AND snowflake_worker(NULL) IS NULL AND snowflake_worker(NULL, 'twitter') IS NULL
   AND snowflake_sequence(NULL) IS NULL AND snowflake_sequence(NULL, 'twitter') IS NULL AS all_null;

-- The ends of the range: the largest bigint is the last ID of a layout with 63 bits.
SELECT * FROM snowflake_decode(0, 'twitter');
SELECT * FROM snowflake_decode(9223372036854775807, 'twitter');
SELECT * FROM snowflake_decode(4503599627370495, 'js53');
SELECT * FROM snowflake_decode(4503599627370496, 'js53');
SELECT * FROM snowflake_decode(9223372036854775807, 'js53');
SELECT snowflake_timestamp(4503599627370496, 'js53');
SELECT snowflake_datacenter(4503599627370496, 'js53');
SELECT snowflake_worker(4503599627370496, 'js53');
SELECT snowflake_sequence(4503599627370496, 'js53');

-- No layout gives negative IDs.
SELECT * FROM snowflake_decode(-1);
SELECT * FROM snowflake_decode(-9223372036854775808, 'twitter');
SELECT snowflake_timestamp(-1);
SELECT snowflake_worker(-1, 'twitter');

-- An invalid layout.
SELECT * FROM snowflake_decode(1, 'twiter');
SELECT snowflake_timestamp(1, '');

-- An index on a part of an ID needs the form with a layout, because the other form depends on a setting.
CREATE TABLE tweets (id bigint);
INSERT INTO tweets SELECT 1541815603606036480 + (n << 22) FROM generate_series(0, 9999::bigint) AS n;
SELECT code, message FROM sqlstate_of('CREATE INDEX ON tweets (snowflake_timestamp(id))');
SELECT code, message FROM sqlstate_of('CREATE INDEX ON tweets (snowflake_worker(id))');
SELECT code, message FROM sqlstate_of('CREATE INDEX ON tweets (((snowflake_decode(id)).worker_id))');
CREATE INDEX tweets_time ON tweets (snowflake_timestamp(id, 'twitter'));
ANALYZE tweets;
SET enable_seqscan = off;
EXPLAIN (COSTS OFF) SELECT id FROM tweets WHERE snowflake_timestamp(id, 'twitter') < '2022-06-28 16:07:40.108Z';
SELECT id FROM tweets WHERE snowflake_timestamp(id, 'twitter') < '2022-06-28 16:07:40.108Z' ORDER BY id;
RESET enable_seqscan;
DROP TABLE tweets, known;
-- A text much longer than any layout is refused before memory is allocated for it.
SELECT snowflake_worker(1, repeat('time:1 ', 10000000));
SELECT snowflake_worker(1, repeat(' ', 10000000) || 'twitter');
