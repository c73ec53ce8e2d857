-- Encoding IDs: round trips in every preset, defaults, both forms, and values that do not fit.
SET timezone = 'UTC';
SET datestyle = 'ISO';

-- The inverse of snowflake_decode, with IDs of other systems.
SELECT snowflake_encode('2022-06-28 16:07:40.105Z', 26, 0, 'twitter', 11) = 1541815603606036480 AS tweet,
       snowflake_encode('2016-04-30 11:18:25.796Z', 0, 7, 'discord', 1) = 175928847299117063 AS discord,
       snowflake_encode('2015-03-13 02:00:00Z', 53, 4, 'redis') = 5981966696448054276 AS redis,
       snowflake_encode('2024-04-15 12:07:30.175Z', 1, 0, 'pgedge') = 170505378935607296 AS pgedge;

-- In every preset, the first and the last tick with the least and the greatest value of each field survive a round
-- trip. The first ID is 0, and the last one has all bits of the layout set.
CREATE TABLE trip AS
    SELECT name, generated_at, time_bits, top.*,
           snowflake_encode(generated_at, worker_id, sequence, name, datacenter_id, clock_seq) AS id,
           time_bits + datacenter_bits + worker_bits + clock_seq_bits + sequence_bits AS bits,
           datacenter_bits > 0 AS has_datacenter, worker_bits > 0 AS has_worker,
           clock_seq_bits > 0 AS has_clock_seq, sequence_bits > 0 AS has_sequence
    FROM snowflake_presets AS l,
         (VALUES (0), (1)) AS least_or_greatest (factor),
         LATERAL (VALUES (l.epoch), (l.exhausted_at - l.unit)) AS tick (generated_at),
         LATERAL (SELECT factor * ((1::bigint << datacenter_bits) - 1)::int AS datacenter_id,
                         factor * ((1::bigint << worker_bits) - 1)::int AS worker_id,
                         factor * ((1::bigint << clock_seq_bits) - 1)::int AS clock_seq,
                         factor * ((1::bigint << sequence_bits) - 1) AS sequence) AS top;
SELECT count(*) FROM trip;
SELECT trip.name, trip.id, fields.*
FROM trip, snowflake_decode(id, name) AS fields
WHERE fields IS DISTINCT FROM ROW(
    trip.generated_at,
    CASE WHEN has_datacenter THEN trip.datacenter_id END,
    CASE WHEN has_worker THEN trip.worker_id END,
    CASE WHEN has_clock_seq THEN trip.clock_seq END,
    CASE WHEN has_sequence THEN trip.sequence END);
SELECT name, min(id) AS first_id, max(id) AS last_id, max(id) = (2 ^ max(bits)::numeric) - 1 AS all_bits_set
FROM trip GROUP BY name ORDER BY name COLLATE "C";
DROP TABLE trip;

-- The session's layout.
SELECT snowflake_encode('2024-01-01 00:00:01Z', 7, 3) AS id;
SELECT * FROM snowflake_decode(snowflake_encode('2024-01-01 00:00:01Z', 7, 3));
SET snowflake_id.layout = 'rollback3';
SELECT * FROM snowflake_decode(snowflake_encode('2024-01-01 00:00:01Z', 7, 3, 0, 5));
SET snowflake_id.layout = 'twitter';
SELECT * FROM snowflake_decode(snowflake_encode('2024-01-01 00:00:01Z', 7, 3, 9));
RESET snowflake_id.layout;

-- Named arguments. Omitted fields are 0.
SELECT * FROM snowflake_decode(
    snowflake_encode(generated_at => '2024-01-01Z', worker_id => 7, sequence => 3,
                     layout => 'rollback3', clock_seq => 5),
    'rollback3');
SELECT * FROM snowflake_decode(snowflake_encode('2024-01-01Z', 7, 3, 'twitter'), 'twitter');
SELECT snowflake_encode('2024-01-01Z', 7, 3, datacenter_id => 0) = snowflake_encode('2024-01-01Z', 7, 3) AS same;

-- A quoted fourth argument is a layout, a number a datacenter.
SELECT snowflake_encode('2024-01-01Z', 7, 3, 'standard') = snowflake_encode('2024-01-01Z', 7, 3, 0) AS same;
SELECT snowflake_encode('2024-01-01Z', 7, 3, '0');
SELECT snowflake_encode('2024-01-01Z', 7, 3, 1);

-- A time within a tick counts as the start of the tick: it is rounded down, never up.
SELECT moment, snowflake_timestamp(snowflake_encode(moment, 0, 0, 'standard'), 'standard') AS in_standard,
       snowflake_timestamp(snowflake_encode(moment, 0, 0, 'sonyflake'), 'sonyflake') AS in_sonyflake,
       snowflake_timestamp(snowflake_encode(moment, 0, 0, 'js53'), 'js53') AS in_js53
FROM (VALUES (timestamptz '2024-06-01 12:00:00.999Z'),
             (timestamptz '2024-06-01 12:00:00.999001Z'),
             (timestamptz '2024-06-01 12:00:00.999999Z'),
             (timestamptz '2024-06-01 12:00:01Z')) AS of (moment);

-- Values that are too large by one, or negative.
SELECT snowflake_encode('2024-01-01Z', 1024, 0);
SELECT snowflake_encode('2024-01-01Z', -1, 0);
SELECT snowflake_encode('2024-01-01Z', 2147483647, 0);
SELECT snowflake_encode('2024-01-01Z', 0, 4096);
SELECT snowflake_encode('2024-01-01Z', 0, -1);
SELECT snowflake_encode('2024-01-01Z', 0, 9223372036854775807);
SELECT snowflake_encode('2024-01-01Z', 0, 0, 'twitter', 32);
SELECT snowflake_encode('2024-01-01Z', 0, 0, 'twitter', -1);
SELECT snowflake_encode('2024-01-01Z', 0, 0, 'rollback2', clock_seq => 4);
SELECT snowflake_encode('2024-01-01Z', 0, 0, 'rollback2', clock_seq => -2147483648);

-- A field that the layout lacks accepts only 0.
SELECT snowflake_encode('2024-01-01Z', 0, 0, 'standard', 0, 0);
SELECT snowflake_encode('2024-01-01Z', 0, 0, 'standard', 1);
SELECT snowflake_encode('2024-01-01Z', 0, 0, 'standard', clock_seq => 1);
SELECT snowflake_encode('2024-01-01Z', 1, 0, 'time:41 datacenter:10 sequence:12');
SELECT snowflake_encode('2024-01-01Z', 0, 1, 'time:41 worker:10');
SELECT snowflake_encode('2024-01-01Z', 0, -1, 'time:41 worker:10');

-- Times before the epoch, and at or after the end of the layout.
SELECT snowflake_encode('2024-01-01 00:00:00Z', 0, 0);
SELECT snowflake_encode('2023-12-31 23:59:59.999999Z', 0, 0);
SELECT snowflake_encode('4713-01-01 00:00:00Z BC', 0, 0);
SELECT snowflake_encode('-infinity', 0, 0);
SELECT snowflake_timestamp(snowflake_encode('2093-09-06 15:47:35.551999Z', 0, 0)) AS last_tick;
SELECT snowflake_encode('2093-09-06 15:47:35.552Z', 0, 0);
SELECT snowflake_encode('294276-12-31 23:59:59.999999Z', 0, 0);
SELECT snowflake_encode('infinity', 0, 0);
SELECT snowflake_encode('infinity', 0, 0, 'time:62 unit=1us epoch=1970-01-01T00:00:00Z');

-- The longest possible layouts: from the year 1, and to the last microsecond of Unix time in 64 bits.
SELECT snowflake_encode('0001-01-01Z', 0, 0, 'time:63 unit=1us epoch=0001-01-01T00:00:00Z') AS first_id;
SELECT layout, snowflake_timestamp(9223372036854775807, layout) AS last_tick,
       snowflake_encode(snowflake_timestamp(9223372036854775807, layout), 0, 0, layout) AS last_id
FROM (VALUES ('time:63 unit=1us epoch=0001-01-01T00:00:00Z'),
             ('time:63 unit=1us epoch=1969-12-31T23:59:59.999999Z')) AS own (layout);
SELECT snowflake_encode('294247-01-10 04:00:54.775807Z', 0, 0, 'time:63 unit=1us epoch=1969-12-31T23:59:59.999999Z');
SELECT snowflake_encode('infinity', 0, 0, 'time:63 unit=1us epoch=1969-12-31T23:59:59.999999Z');

-- NULL in any argument gives NULL.
SELECT snowflake_encode(NULL, 0, 0) IS NULL AND snowflake_encode('2024-01-01Z', NULL, 0) IS NULL
   AND snowflake_encode('2024-01-01Z', 0, NULL) IS NULL AND snowflake_encode('2024-01-01Z', 0, 0, NULL::text) IS NULL
   AND snowflake_encode('2024-01-01Z', 0, 0, NULL::int) IS NULL
   AND snowflake_encode('2024-01-01Z', 0, 0, 'twitter', NULL) IS NULL
   AND snowflake_encode('2024-01-01Z', 0, 0, 'twitter', 0, NULL) IS NULL AS all_null;
