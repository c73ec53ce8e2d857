-- The view of layouts, and comments on the functions that the library declares.

-- Declared here because its C function has no pgrx wrapper.
CREATE FUNCTION snowflake_nextval() RETURNS bigint
    STRICT VOLATILE PARALLEL SAFE LANGUAGE c SUPPORT snowflake_internal.snowflake_nextval_support
    AS 'MODULE_PATHNAME', 'snowflake_nextval';

-- Names are resolved when the view is created, so that search_path does not matter later. They are qualified
-- nevertheless: a function unnest(text[]) in the extension's schema would be a better match than that of
-- pg_catalog.
CREATE VIEW snowflake_layouts AS
    SELECT preset.name, facts.*
    FROM pg_catalog.unnest(@extschema@.snowflake_preset_names()) WITH ORDINALITY AS preset (name, position),
         LATERAL @extschema@.snowflake_describe_layout(preset.name) AS facts
    ORDER BY preset.position;

GRANT SELECT ON snowflake_layouts TO PUBLIC;

COMMENT ON VIEW snowflake_layouts IS
    'named layouts, with their fields and limits';
COMMENT ON COLUMN snowflake_layouts.name IS 'name of the layout, as used in snowflake_id.layout';
COMMENT ON COLUMN snowflake_layouts.layout IS 'full definition of the layout';
COMMENT ON COLUMN snowflake_layouts.time_bits IS 'number of bits of the time field';
COMMENT ON COLUMN snowflake_layouts.datacenter_bits IS 'number of bits of the datacenter field, 0 if there is none';
COMMENT ON COLUMN snowflake_layouts.worker_bits IS 'number of bits of the worker field, 0 if there is none';
COMMENT ON COLUMN snowflake_layouts.clock_seq_bits IS 'number of bits of the clock_seq field, 0 if there is none';
COMMENT ON COLUMN snowflake_layouts.sequence_bits IS 'number of bits of the sequence field, 0 if there is none';
COMMENT ON COLUMN snowflake_layouts.unit IS 'length of a tick; IDs of the same tick contain the same time';
COMMENT ON COLUMN snowflake_layouts.epoch IS 'start of the time of the layout';
COMMENT ON COLUMN snowflake_layouts.workers IS 'number of servers that can issue IDs at the same time';
COMMENT ON COLUMN snowflake_layouts.ids_per_second IS 'sustained number of IDs per second that one server can issue';
COMMENT ON COLUMN snowflake_layouts.exhausted_at IS 'end of the time of the layout';
COMMENT ON COLUMN snowflake_layouts.fits_in_53_bits IS 'whether a JavaScript number holds every ID exactly';
COMMENT ON COLUMN snowflake_layouts.as_json IS 'the layout in JSON format';

COMMENT ON FUNCTION snowflake_nextval() IS
    'the next snowflake ID of this server';
COMMENT ON FUNCTION snowflake_batch(int) IS
    'the next 1 to 1000000 snowflake IDs of this server';
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
    'for view snowflake_layouts: the names of the presets';
