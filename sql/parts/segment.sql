-- Segments. As with sequences, the privilege to take numbers must be granted. See privileges.sql.

-- Declared here because its C function has no pgrx wrapper.
CREATE FUNCTION snowflake_segment_nextval(name text) RETURNS bigint
    STRICT VOLATILE PARALLEL SAFE LANGUAGE c SUPPORT snowflake_internal.snowflake_segment_nextval_support
    AS 'MODULE_PATHNAME', 'snowflake_segment_nextval';

-- See snowflake_next() in catalog.sql.
CREATE FUNCTION snowflake_segment_next(name text) RETURNS bigint
    STRICT VOLATILE PARALLEL SAFE LANGUAGE c SUPPORT snowflake_internal.snowflake_segment_nextval_support
    AS 'MODULE_PATHNAME', 'snowflake_segment_nextval';

CREATE VIEW snowflake_segment_status AS
    SELECT * FROM snowflake_internal.snowflake_segments_in_use();

COMMENT ON FUNCTION snowflake_segment_nextval(text) IS
    'next number of a segment';
COMMENT ON FUNCTION snowflake_segment_next(text) IS
    'next number of a segment; for tools that mistake a default with the word nextval for that of a sequence';
COMMENT ON FUNCTION snowflake_segment_batch(text, bigint) IS
    'next 1 to 1000000 numbers of a segment; a batch may have holes';
COMMENT ON FUNCTION snowflake_segment_ranges(text, bigint) IS
    'next 1 to 1000000 numbers of a segment, as ranges: first, first + increment, and so on, count numbers';
COMMENT ON FUNCTION snowflake_segment_prefetch(text) IS
    'waits until this server holds numbers of a segment, so that the next call need not wait';
COMMENT ON FUNCTION snowflake_segment_currval(text) IS
    'last number of a segment taken by this session';
COMMENT ON FUNCTION snowflake_internal.snowflake_segments_in_use() IS
    'segments in use on this server, for view snowflake_segment_status';

COMMENT ON VIEW snowflake_segment_status IS
    'segments that were used on this server since the server was started';
COMMENT ON COLUMN snowflake_segment_status.name IS 'name of the segment';
COMMENT ON COLUMN snowflake_segment_status.state IS 'state of the segment on this server: asked, open, unknown, dropped, lost, closed, exhausted, busy, ahead, invalid, no registry, permission denied, registry too old, server too old';
COMMENT ON COLUMN snowflake_segment_status.position IS 'next number; NULL if this server holds no numbers';
COMMENT ON COLUMN snowflake_segment_status.range_end IS 'last number of the current range';
COMMENT ON COLUMN snowflake_segment_status.next_range IS 'first number of the next range; NULL if this server holds no next range';
COMMENT ON COLUMN snowflake_segment_status.step IS 'size of the range that this server last took from the registry';
COMMENT ON COLUMN snowflake_segment_status.max_value IS 'highest number of the segment';
COMMENT ON COLUMN snowflake_segment_status.period_ends IS 'time at which the numbers of the range expire; NULL for a segment without a period';
COMMENT ON COLUMN snowflake_segment_status.taken_at IS 'time at which this server last took numbers from the registry';
COMMENT ON COLUMN snowflake_segment_status.numbers_issued IS 'number of numbers that calls have taken since the server was started';
COMMENT ON COLUMN snowflake_segment_status.calls_waited IS 'number of calls that had to wait for numbers since the server was started';
COMMENT ON COLUMN snowflake_segment_status.last_error IS 'reason why the registry grants no numbers or does not answer';

-- The highest numbers that this server has received from any registry. A row is written before any session gets a
-- number of the range. See src/segment/taken.rs. No column is NULL, so that a row can be overwritten in place. The
-- values -1 and the UUID of zeros stand for NULL.
CREATE MATERIALIZED VIEW snowflake_internal.segment_taken (
    format, name, until_value, registry_id, period_key, period_starts_us,
    next_until_value, next_registry_id, next_period_key, next_period_starts_us
) USING heap AS
    SELECT NULL::pg_catalog.int4, NULL::pg_catalog.bytea, NULL::pg_catalog.int8, NULL::pg_catalog.uuid, NULL::pg_catalog.int8, NULL::pg_catalog.int8,
           NULL::pg_catalog.int8, NULL::pg_catalog.uuid, NULL::pg_catalog.int8, NULL::pg_catalog.int8
    WHERE snowflake_internal.refuse_refresh();
COMMENT ON MATERIALIZED VIEW snowflake_internal.segment_taken IS
    'highest numbers of segments that this server has received; do not modify';
COMMENT ON COLUMN snowflake_internal.segment_taken.format IS 'format of the row; an older library uses no row of a newer format';
COMMENT ON COLUMN snowflake_internal.segment_taken.name IS 'name of the segment, in UTF-8';
COMMENT ON COLUMN snowflake_internal.segment_taken.until_value IS
    'highest number that this server has received in its current period; -1 if it has received no number';
COMMENT ON COLUMN snowflake_internal.segment_taken.registry_id IS 'registry that granted this number; zeros if not known';
COMMENT ON COLUMN snowflake_internal.segment_taken.period_key IS
    'prefix of the numbers of the current period, such as 20261121; -1 if there is no prefix';
COMMENT ON COLUMN snowflake_internal.segment_taken.period_starts_us IS
    'start of the current period, in microseconds of Unix time; -1 if there is no period';
COMMENT ON COLUMN snowflake_internal.segment_taken.next_until_value IS
    'same as until_value, for the next period';
COMMENT ON COLUMN snowflake_internal.segment_taken.next_registry_id IS 'same as registry_id, for the next period';
COMMENT ON COLUMN snowflake_internal.segment_taken.next_period_key IS 'same as period_key, for the next period';
COMMENT ON COLUMN snowflake_internal.segment_taken.next_period_starts_us IS 'same as period_starts_us, for the next period';
