-- Numbers in ranges. Who may use them is said in privileges.sql: as with a sequence, it has to be granted.

-- Bound by hand, as its C function has no wrapper of pgrx around it.
CREATE FUNCTION snowflake_segment_nextval(name text) RETURNS bigint
    STRICT VOLATILE PARALLEL SAFE LANGUAGE c AS 'MODULE_PATHNAME', 'snowflake_segment_nextval';

CREATE VIEW snowflake_segments AS
    SELECT * FROM @extschema@.snowflake_segments_in_use();

COMMENT ON FUNCTION snowflake_segment_nextval(text) IS
    'the next number of a segment';
COMMENT ON FUNCTION snowflake_segment_batch(text, int) IS
    'the next numbers of a segment, 1 to 1000000 of them';
COMMENT ON FUNCTION snowflake_segment_currval(text) IS
    'the last number of a segment that this session took';
COMMENT ON FUNCTION snowflake_segments_in_use() IS
    'for view snowflake_segments: the segments in use on this server';

COMMENT ON VIEW snowflake_segments IS
    'the segments of which this server has taken numbers since it was started';
COMMENT ON COLUMN snowflake_segments.name IS 'the name of the segment';
COMMENT ON COLUMN snowflake_segments.state IS 'what the registry says, in a word: asked, open, unknown, dropped, lost, closed, exhausted, busy, ahead, invalid, no registry, permission denied';
COMMENT ON COLUMN snowflake_segments.position IS 'the number that comes next; NULL if none is in hand';
COMMENT ON COLUMN snowflake_segments.range_end IS 'the last number of the range in use';
COMMENT ON COLUMN snowflake_segments.next_range IS 'the first number of the next range, if that is in hand';
COMMENT ON COLUMN snowflake_segments.step IS 'how many numbers were taken from the registry last';
COMMENT ON COLUMN snowflake_segments.max_value IS 'the last number that the segment can give';
COMMENT ON COLUMN snowflake_segments.period_ends IS 'when the numbers in hand end, if they begin with a date';
COMMENT ON COLUMN snowflake_segments.taken_at IS 'when numbers were taken from the registry last';
COMMENT ON COLUMN snowflake_segments.calls_waited IS 'how many calls had to wait for numbers, since the server was started';
COMMENT ON COLUMN snowflake_segments.problem IS 'what the registry says if it gives no numbers, or why it does not answer';

-- Up to where this server has had numbers, of whichever registry, noted before anybody gets one. See
-- src/segment/taken.rs. Nothing is NULL, so that a row can be overwritten in place; -1, or an ID of zeros, says that there
-- is none.
CREATE MATERIALIZED VIEW snowflake_internal.segment_taken (
    name, until_value, registry_id, period_key, period_starts_us,
    next_until_value, next_registry_id, next_period_key, next_period_starts_us
) USING heap AS
    SELECT NULL::pg_catalog.bytea, NULL::pg_catalog.int8, NULL::pg_catalog.uuid, NULL::pg_catalog.int8, NULL::pg_catalog.int8,
           NULL::pg_catalog.int8, NULL::pg_catalog.uuid, NULL::pg_catalog.int8, NULL::pg_catalog.int8
    WHERE snowflake_internal.refuse_refresh();
COMMENT ON MATERIALIZED VIEW snowflake_internal.segment_taken IS
    'up to where this server has had numbers of segments; do not touch';
COMMENT ON COLUMN snowflake_internal.segment_taken.name IS 'the name of the segment, in UTF-8';
COMMENT ON COLUMN snowflake_internal.segment_taken.until_value IS
    'the highest number that the server had, in the period in which it is; -1: none';
COMMENT ON COLUMN snowflake_internal.segment_taken.registry_id IS 'the registry that gave it; zeros: not known';
COMMENT ON COLUMN snowflake_internal.segment_taken.period_key IS
    'the prefix of the numbers of that period, such as 20261121; -1: it has none';
COMMENT ON COLUMN snowflake_internal.segment_taken.period_starts_us IS
    'when that period begins, in microseconds of Unix time; -1: there is none';
COMMENT ON COLUMN snowflake_internal.segment_taken.next_until_value IS
    'as until_value, for the period after it, whose numbers are not in use yet';
COMMENT ON COLUMN snowflake_internal.segment_taken.next_registry_id IS 'as registry_id';
COMMENT ON COLUMN snowflake_internal.segment_taken.next_period_key IS 'as period_key';
COMMENT ON COLUMN snowflake_internal.segment_taken.next_period_starts_us IS 'as period_starts_us';
