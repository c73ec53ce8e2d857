-- The view of layouts, and comments and grants for the functions that the library declares.

-- Bound by hand, as its C function has no wrapper of pgrx around it.
CREATE FUNCTION snowflake_nextval() RETURNS bigint
    STRICT VOLATILE PARALLEL SAFE LANGUAGE c SUPPORT snowflake_internal.snowflake_nextval_support
    AS 'MODULE_PATHNAME', 'snowflake_nextval';

-- The names are bound when the view is made, so that search_path does not matter later. They are qualified
-- all the same: a function unnest(text[]) in the extension's schema would fit better than the one of
-- pg_catalog.
CREATE VIEW snowflake_layouts AS
    SELECT preset.name, facts.*
    FROM pg_catalog.unnest(@extschema@.snowflake_preset_names()) WITH ORDINALITY AS preset (name, position),
         LATERAL @extschema@.snowflake_describe_layout(preset.name) AS facts
    ORDER BY preset.position;

GRANT SELECT ON snowflake_layouts TO PUBLIC;

COMMENT ON VIEW snowflake_layouts IS
    'the layouts that have names, with their fields and limits';
COMMENT ON COLUMN snowflake_layouts.name IS 'the name of the layout, as in snowflake_id.layout';
COMMENT ON COLUMN snowflake_layouts.layout IS 'the layout written out';
COMMENT ON COLUMN snowflake_layouts.time_bits IS 'bits of the field time';
COMMENT ON COLUMN snowflake_layouts.datacenter_bits IS 'bits of the field datacenter, 0 if there is none';
COMMENT ON COLUMN snowflake_layouts.worker_bits IS 'bits of the field worker, 0 if there is none';
COMMENT ON COLUMN snowflake_layouts.clock_seq_bits IS 'bits of the field clock_seq, 0 if there is none';
COMMENT ON COLUMN snowflake_layouts.sequence_bits IS 'bits of the field sequence, 0 if there is none';
COMMENT ON COLUMN snowflake_layouts.unit IS 'the length of a tick: two IDs of one tick bear the same time';
COMMENT ON COLUMN snowflake_layouts.epoch IS 'where the time of the layout begins';
COMMENT ON COLUMN snowflake_layouts.workers IS 'how many servers can make IDs side by side';
COMMENT ON COLUMN snowflake_layouts.ids_per_second IS 'how many IDs one server can make in a second, lastingly';
COMMENT ON COLUMN snowflake_layouts.exhausted_at IS 'where the time of the layout ends';
COMMENT ON COLUMN snowflake_layouts.fits_in_53_bits IS 'whether a JavaScript number holds every ID exactly';
COMMENT ON COLUMN snowflake_layouts.as_json IS 'the layout as JSON, for programs';

COMMENT ON FUNCTION snowflake_nextval() IS
    'the next snowflake ID of this server';
COMMENT ON FUNCTION snowflake_batch(int) IS
    'the next snowflake IDs of this server, 1 to 1000000 of them';
COMMENT ON FUNCTION snowflake_currval() IS
    'the last snowflake ID that this session took';
COMMENT ON FUNCTION snowflake_decode(bigint) IS
    'the fields of a snowflake ID';
COMMENT ON FUNCTION snowflake_decode(bigint, text) IS
    'the fields of a snowflake ID of the given layout';
COMMENT ON FUNCTION snowflake_encode(timestamptz, int, bigint, int, int) IS
    'the snowflake ID with these fields';
COMMENT ON FUNCTION snowflake_encode(timestamptz, int, bigint, text, int, int) IS
    'the snowflake ID with these fields in the given layout';
COMMENT ON FUNCTION snowflake_describe_layout(text) IS
    'the fields and limits of a layout';
COMMENT ON FUNCTION snowflake_preset_names() IS
    'for view snowflake_layouts: the names';
