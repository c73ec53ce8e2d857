-- Segments. As with sequences, the privilege to take numbers must be granted: see privileges.sql.

-- Declared here because its C function has no pgrx wrapper.
CREATE FUNCTION snowflake_segment_nextval(name text) RETURNS bigint
    STRICT VOLATILE PARALLEL SAFE LANGUAGE c AS 'MODULE_PATHNAME', 'snowflake_segment_nextval';

CREATE VIEW snowflake_segments AS
    SELECT * FROM @extschema@.snowflake_segments_in_use();

COMMENT ON FUNCTION snowflake_segment_nextval(text) IS
    'the next number of a segment';
COMMENT ON FUNCTION snowflake_segment_batch(text, int) IS
    'the next 1 to 1000000 numbers of a segment; a batch may have holes';
COMMENT ON FUNCTION snowflake_segment_currval(text) IS
    'the last number of a segment that this session took';
COMMENT ON FUNCTION snowflake_segments_in_use() IS
    'for view snowflake_segments: the segments in use on this server';

COMMENT ON VIEW snowflake_segments IS
    'the segments from which this server has taken numbers since it was started';
COMMENT ON COLUMN snowflake_segments.name IS 'name of the segment';
COMMENT ON COLUMN snowflake_segments.state IS 'state of the segment on this server: asked, open, unknown, dropped, lost, closed, exhausted, busy, ahead, invalid, no registry, permission denied';
COMMENT ON COLUMN snowflake_segments.position IS 'next number; NULL if this server has no numbers in hand';
COMMENT ON COLUMN snowflake_segments.range_end IS 'last number of the range in use';
COMMENT ON COLUMN snowflake_segments.next_range IS 'first number of the next range, if this server already has one';
COMMENT ON COLUMN snowflake_segments.step IS 'number of numbers that were last taken from the registry';
COMMENT ON COLUMN snowflake_segments.max_value IS 'highest number of the segment';
COMMENT ON COLUMN snowflake_segments.period_ends IS 'end of the period of the numbers in hand, if numbers begin with a date';
COMMENT ON COLUMN snowflake_segments.taken_at IS 'time at which numbers were last taken from the registry';
COMMENT ON COLUMN snowflake_segments.calls_waited IS 'number of calls that had to wait for numbers since the server was started';
COMMENT ON COLUMN snowflake_segments.problem IS 'why the registry gives no numbers, or why it does not answer';

-- The highest numbers that this server has had, from any registry. A row is written before a session gets a number of
-- the range. See src/segment/taken.rs. No column is NULL, so that a row can be overwritten in place; -1, or a UUID of
-- zeros, means that there is no value.
CREATE MATERIALIZED VIEW snowflake_internal.segment_taken (
    name, until_value, registry_id, period_key, period_starts_us,
    next_until_value, next_registry_id, next_period_key, next_period_starts_us
) USING heap AS
    SELECT NULL::pg_catalog.bytea, NULL::pg_catalog.int8, NULL::pg_catalog.uuid, NULL::pg_catalog.int8, NULL::pg_catalog.int8,
           NULL::pg_catalog.int8, NULL::pg_catalog.uuid, NULL::pg_catalog.int8, NULL::pg_catalog.int8
    WHERE snowflake_internal.refuse_refresh();
COMMENT ON MATERIALIZED VIEW snowflake_internal.segment_taken IS
    'highest numbers of segments that this server has had; do not modify';
COMMENT ON COLUMN snowflake_internal.segment_taken.name IS 'name of the segment, in UTF-8';
COMMENT ON COLUMN snowflake_internal.segment_taken.until_value IS
    'highest number that the server has had in its current period; -1: none';
COMMENT ON COLUMN snowflake_internal.segment_taken.registry_id IS 'registry that gave this number; zeros: not known';
COMMENT ON COLUMN snowflake_internal.segment_taken.period_key IS
    'prefix of the numbers of that period, such as 20261121; -1: no prefix';
COMMENT ON COLUMN snowflake_internal.segment_taken.period_starts_us IS
    'start of that period, in microseconds of Unix time; -1: no period';
COMMENT ON COLUMN snowflake_internal.segment_taken.next_until_value IS
    'as until_value, for the next period, whose numbers are not yet in use';
COMMENT ON COLUMN snowflake_internal.segment_taken.next_registry_id IS 'as registry_id, for the next period';
COMMENT ON COLUMN snowflake_internal.segment_taken.next_period_key IS 'as period_key, for the next period';
COMMENT ON COLUMN snowflake_internal.segment_taken.next_period_starts_us IS 'as period_starts_us, for the next period';
