-- Layouts: the presets and their properties, custom layouts, and the canonical text.
SET timezone = 'UTC';
SET datestyle = 'ISO';
SET intervalstyle = 'postgres';

-- Every preset. Existing tables depend on them, so a released preset never changes.
\x on
SELECT * FROM snowflake_presets;
\x off

-- The properties of a preset follow from its fields.
SELECT name FROM snowflake_presets
WHERE time_bits + datacenter_bits + worker_bits + clock_seq_bits + sequence_bits NOT BETWEEN 1 AND 63
   OR workers <> 2 ^ (datacenter_bits + worker_bits)
   OR abs(ids_per_second - 2 ^ sequence_bits / extract(epoch FROM unit)::float8) > 0.001
   OR exhausted_at <> epoch + (2 ^ time_bits)::float8 * unit
   OR fits_in_53_bits <> (time_bits + datacenter_bits + worker_bits + clock_seq_bits + sequence_bits <= 53);

-- The text of a preset describes the same layout as its name, and is its own canonical form.
SELECT l.name FROM snowflake_presets AS l, snowflake_describe_layout(l.layout) AS own
WHERE own IS DISTINCT FROM (SELECT named FROM snowflake_describe_layout(l.name) AS named);

-- The list of names is in the order of the view, without duplicates.
SELECT array_agg(name) = snowflake_internal.snowflake_preset_names() AS same_order FROM snowflake_presets;
SELECT count(*), count(DISTINCT name) FROM snowflake_presets;

-- Custom layouts. Without options they have the unit and the epoch of standard.
\x on
SELECT * FROM snowflake_describe_layout('time:41 worker:10 sequence:12');
SELECT * FROM snowflake_describe_layout('time:39 clock_seq:2 datacenter:3 sequence:9 worker:10 unit=10ms');
SELECT * FROM snowflake_describe_layout('time:63 unit=1us epoch=0001-01-01T00:00:00Z');
SELECT * FROM snowflake_describe_layout('time:1 sequence:62 unit=10s epoch=9998-12-30T21:59:59.999999Z');
SELECT * FROM snowflake_describe_layout('time:1 datacenter:31 worker:31');
\x off

-- One layout has many texts and one canonical form.
SELECT layout FROM (VALUES
    (1, 'standard'),
    (2, 'time:41 worker:10 sequence:12 unit=1ms epoch=2024-01-01T00:00:00Z'),
    (3, 'time:41 worker:10 sequence:12 epoch=2024-01-01T00:00:00Z unit=1ms'),
    (4, E'  time:41\tworker:10\n sequence:12  '),
    (5, 'standard unit=1000us'),
    (6, 'leaf epoch=2024-01-01T08:00:00+08:00'),
    (7, 'standard epoch=2024-01-01T00:00:00.000000Z'),
    (8, 'time:041 worker:010 sequence:012')) AS text (place, written),
    LATERAL snowflake_describe_layout(written)
ORDER BY place;

-- A preset with another epoch or unit.
SELECT layout, exhausted_at FROM snowflake_describe_layout('twitter epoch=2024-01-01T00:00:00Z');
SELECT layout, ids_per_second, exhausted_at FROM snowflake_describe_layout('twitter unit=10ms');
SELECT layout FROM snowflake_describe_layout('js53 unit=1500ms epoch=2000-02-29T12:34:56.789012-03:30');

-- A layout ends when its last tick does, at the latest when the microseconds since 1970 no longer fit 64 bits.
SELECT exhausted_at, exhausted_at - unit = snowflake_timestamp(9223372036854775807, layout) AS ends_after_last_id
FROM snowflake_describe_layout('time:63 unit=1us epoch=1969-12-31T23:59:59.999999Z');
SELECT * FROM snowflake_describe_layout('time:63 unit=1us epoch=1970-01-01T00:00:00Z');

-- NULL is not a layout, and gives no row.
SELECT count(*) FROM snowflake_describe_layout(NULL);

-- Other invalid layouts are in topic settings.
SELECT * FROM snowflake_describe_layout('time:41 worker:10 sequence:13');
