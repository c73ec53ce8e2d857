-- View snowflake_presets, and comments on the functions that the library declares.

-- Declared here because its C function has no pgrx wrapper.
CREATE FUNCTION snowflake_nextval() RETURNS bigint
    STRICT VOLATILE PARALLEL SAFE LANGUAGE c SUPPORT snowflake_internal.snowflake_nextval_support
    AS 'MODULE_PATHNAME', 'snowflake_nextval';

-- The same function under another name: some tools mistake a default that contains the word nextval for that of a sequence.
-- A wrapper in SQL would need privileges on both functions.
CREATE FUNCTION snowflake_next() RETURNS bigint
    STRICT VOLATILE PARALLEL SAFE LANGUAGE c SUPPORT snowflake_internal.snowflake_nextval_support
    AS 'MODULE_PATHNAME', 'snowflake_nextval';

-- Names are resolved when the view is created, so that search_path does not matter later. They are qualified
-- nevertheless: a function unnest(text[]) in the extension's schema would be a better match than that of
-- pg_catalog.
CREATE VIEW snowflake_presets AS
    SELECT preset.name, facts.*
    FROM pg_catalog.unnest(snowflake_internal.snowflake_preset_names()) WITH ORDINALITY AS preset (name, position),
         LATERAL @extschema@.snowflake_describe_layout(preset.name) AS facts
    ORDER BY preset.position;

GRANT SELECT ON snowflake_presets TO PUBLIC;

COMMENT ON VIEW snowflake_presets IS
    'named layouts, with their fields and limits';
COMMENT ON COLUMN snowflake_presets.name IS 'name of the layout, as used in snowflake_id.layout';
COMMENT ON COLUMN snowflake_presets.layout IS 'full definition of the layout';
COMMENT ON COLUMN snowflake_presets.time_bits IS 'number of bits of the time field';
COMMENT ON COLUMN snowflake_presets.datacenter_bits IS 'number of bits of the datacenter field; 0 if the layout has no such field';
COMMENT ON COLUMN snowflake_presets.worker_bits IS 'number of bits of the worker field; 0 if the layout has no such field';
COMMENT ON COLUMN snowflake_presets.clock_seq_bits IS 'number of bits of the clock_seq field; 0 if the layout has no such field';
COMMENT ON COLUMN snowflake_presets.sequence_bits IS 'number of bits of the sequence field; 0 if the layout has no such field';
COMMENT ON COLUMN snowflake_presets.unit IS 'length of a tick; IDs of the same tick contain the same time';
COMMENT ON COLUMN snowflake_presets.epoch IS 'earliest time that an ID can contain';
COMMENT ON COLUMN snowflake_presets.workers IS 'maximum number of servers that can issue IDs at the same time';
COMMENT ON COLUMN snowflake_presets.ids_per_second IS 'sustained number of IDs per second that one server can issue';
COMMENT ON COLUMN snowflake_presets.exhausted_at IS 'time at which the layout is exhausted';
COMMENT ON COLUMN snowflake_presets.fits_in_53_bits IS 'true if a JavaScript number can represent every ID exactly';
COMMENT ON COLUMN snowflake_presets.as_json IS 'definition of the layout in JSON format';

COMMENT ON FUNCTION snowflake_nextval() IS
    'next snowflake ID of this server';
COMMENT ON FUNCTION snowflake_next() IS
    'next snowflake ID of this server; for tools that mistake a default with the word nextval for that of a sequence';
COMMENT ON FUNCTION snowflake_batch(bigint) IS
    'next 1 to 1000000 snowflake IDs of this server';
COMMENT ON FUNCTION snowflake_block(bigint) IS
    'first of several consecutive snowflake IDs of this server';
COMMENT ON FUNCTION snowflake_currval() IS
    'last snowflake ID taken by this session';
COMMENT ON FUNCTION snowflake_decode(bigint) IS
    'fields of a snowflake ID';
COMMENT ON FUNCTION snowflake_decode(bigint, text) IS
    'fields of a snowflake ID of the given layout';
COMMENT ON FUNCTION snowflake_encode(timestamptz, int, bigint, int, int) IS
    'snowflake ID with the given field values';
COMMENT ON FUNCTION snowflake_encode(timestamptz, int, bigint, text, int, int) IS
    'snowflake ID of the given layout with the given field values';
COMMENT ON FUNCTION snowflake_describe_layout(text) IS
    'fields and limits of a layout';
COMMENT ON FUNCTION snowflake_internal.snowflake_preset_names() IS
    'names of the presets, for view snowflake_presets';
