-- Functions that convert ranges of time to ranges of IDs.

CREATE FUNCTION snowflake_min_id(instant timestamptz) RETURNS bigint
    STABLE STRICT PARALLEL SAFE LANGUAGE c AS 'MODULE_PATHNAME', 'snowflake_min_id';
COMMENT ON FUNCTION snowflake_min_id(timestamptz) IS
    'smallest snowflake ID whose time is at or after an instant';

CREATE FUNCTION snowflake_min_id(instant timestamptz, layout text) RETURNS bigint
    IMMUTABLE STRICT PARALLEL SAFE LANGUAGE c AS 'MODULE_PATHNAME', 'snowflake_min_id_as';
COMMENT ON FUNCTION snowflake_min_id(timestamptz, text) IS
    'smallest snowflake ID of the given layout whose time is at or after an instant';

CREATE FUNCTION snowflake_max_id(instant timestamptz) RETURNS bigint
    STABLE STRICT PARALLEL SAFE LANGUAGE c AS 'MODULE_PATHNAME', 'snowflake_max_id';
COMMENT ON FUNCTION snowflake_max_id(timestamptz) IS
    'largest snowflake ID whose time is at or before an instant';

CREATE FUNCTION snowflake_max_id(instant timestamptz, layout text) RETURNS bigint
    IMMUTABLE STRICT PARALLEL SAFE LANGUAGE c AS 'MODULE_PATHNAME', 'snowflake_max_id_as';
COMMENT ON FUNCTION snowflake_max_id(timestamptz, text) IS
    'largest snowflake ID of the given layout whose time is at or before an instant';

-- Conditions on the time of an ID. The planner inlines these functions: each call becomes a comparison of the ID
-- itself, which can use an index on the ID and prune partitions.
--
-- The planner inlines only SQL functions that are not STRICT, because AND can be false even if one operand is NULL. The
-- inlined body runs with the privileges of the calling role. Therefore the bodies are resolved when the functions
-- are created, so that search_path does not matter later. The arguments have exactly the types of the parameters,
-- so that no other function in the schema is a better match.

CREATE FUNCTION snowflake_since(id bigint, since timestamptz) RETURNS boolean
    STABLE PARALLEL SAFE LANGUAGE sql
    RETURN id OPERATOR(pg_catalog.>=) @extschema@.snowflake_min_id(since);
COMMENT ON FUNCTION snowflake_since(bigint, timestamptz) IS
    'tests whether a snowflake ID was generated at or after an instant';

CREATE FUNCTION snowflake_since(id bigint, since timestamptz, layout text) RETURNS boolean
    IMMUTABLE PARALLEL SAFE LANGUAGE sql
    RETURN id OPERATOR(pg_catalog.>=) @extschema@.snowflake_min_id(since, layout);
COMMENT ON FUNCTION snowflake_since(bigint, timestamptz, text) IS
    'tests whether a snowflake ID of the given layout was generated at or after an instant';

CREATE FUNCTION snowflake_before(id bigint, before timestamptz) RETURNS boolean
    STABLE PARALLEL SAFE LANGUAGE sql
    RETURN id OPERATOR(pg_catalog.<) @extschema@.snowflake_min_id(before);
COMMENT ON FUNCTION snowflake_before(bigint, timestamptz) IS
    'tests whether a snowflake ID was generated before an instant';

CREATE FUNCTION snowflake_before(id bigint, before timestamptz, layout text) RETURNS boolean
    IMMUTABLE PARALLEL SAFE LANGUAGE sql
    RETURN id OPERATOR(pg_catalog.<) @extschema@.snowflake_min_id(before, layout);
COMMENT ON FUNCTION snowflake_before(bigint, timestamptz, text) IS
    'tests whether a snowflake ID of the given layout was generated before an instant';

CREATE FUNCTION snowflake_between(id bigint, since timestamptz, before timestamptz) RETURNS boolean
    STABLE PARALLEL SAFE LANGUAGE sql
    RETURN id OPERATOR(pg_catalog.>=) @extschema@.snowflake_min_id(since)
       AND id OPERATOR(pg_catalog.<) @extschema@.snowflake_min_id(before);
COMMENT ON FUNCTION snowflake_between(bigint, timestamptz, timestamptz) IS
    'tests whether a snowflake ID was generated at or after one instant and before another';

CREATE FUNCTION snowflake_between(id bigint, since timestamptz, before timestamptz, layout text) RETURNS boolean
    IMMUTABLE PARALLEL SAFE LANGUAGE sql
    RETURN id OPERATOR(pg_catalog.>=) @extschema@.snowflake_min_id(since, layout)
       AND id OPERATOR(pg_catalog.<) @extschema@.snowflake_min_id(before, layout);
COMMENT ON FUNCTION snowflake_between(bigint, timestamptz, timestamptz, text) IS
    'tests whether a snowflake ID of the given layout was generated at or after one instant and before another';
