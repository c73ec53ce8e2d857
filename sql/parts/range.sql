-- Ranges of time as ranges of IDs.

CREATE FUNCTION snowflake_min_id(instant timestamptz) RETURNS bigint
    STABLE STRICT PARALLEL SAFE LANGUAGE c AS 'MODULE_PATHNAME', 'snowflake_min_id';
COMMENT ON FUNCTION snowflake_min_id(timestamptz) IS
    'the smallest snowflake ID whose time is at or after an instant';

CREATE FUNCTION snowflake_min_id(instant timestamptz, layout text) RETURNS bigint
    IMMUTABLE STRICT PARALLEL SAFE LANGUAGE c AS 'MODULE_PATHNAME', 'snowflake_min_id_as';
COMMENT ON FUNCTION snowflake_min_id(timestamptz, text) IS
    'the smallest snowflake ID of the given layout whose time is at or after an instant';

CREATE FUNCTION snowflake_max_id(instant timestamptz) RETURNS bigint
    STABLE STRICT PARALLEL SAFE LANGUAGE c AS 'MODULE_PATHNAME', 'snowflake_max_id';
COMMENT ON FUNCTION snowflake_max_id(timestamptz) IS
    'the largest snowflake ID whose time is at or before an instant';

CREATE FUNCTION snowflake_max_id(instant timestamptz, layout text) RETURNS bigint
    IMMUTABLE STRICT PARALLEL SAFE LANGUAGE c AS 'MODULE_PATHNAME', 'snowflake_max_id_as';
COMMENT ON FUNCTION snowflake_max_id(timestamptz, text) IS
    'the largest snowflake ID of the given layout whose time is at or before an instant';

-- Conditions on the time of an ID that the planner sees through: each is replaced by a comparison of the ID
-- itself, which an index on it answers and by which partitions are pruned.
--
-- That takes functions in SQL that are not STRICT, as AND may be true or false where one side is NULL. They
-- become part of the query of whoever calls them, with that role's rights. So their bodies are bound here and
-- now, and search_path does not matter later; and the arguments have exactly the types of the parameters, so
-- that nothing else in the schema fits better.

CREATE FUNCTION snowflake_since(id bigint, since timestamptz) RETURNS boolean
    STABLE PARALLEL SAFE LANGUAGE sql
    RETURN id OPERATOR(pg_catalog.>=) @extschema@.snowflake_min_id(since);
COMMENT ON FUNCTION snowflake_since(bigint, timestamptz) IS
    'whether a snowflake ID was made at or after an instant';

CREATE FUNCTION snowflake_since(id bigint, since timestamptz, layout text) RETURNS boolean
    IMMUTABLE PARALLEL SAFE LANGUAGE sql
    RETURN id OPERATOR(pg_catalog.>=) @extschema@.snowflake_min_id(since, layout);
COMMENT ON FUNCTION snowflake_since(bigint, timestamptz, text) IS
    'whether a snowflake ID of the given layout was made at or after an instant';

CREATE FUNCTION snowflake_before(id bigint, before timestamptz) RETURNS boolean
    STABLE PARALLEL SAFE LANGUAGE sql
    RETURN id OPERATOR(pg_catalog.<) @extschema@.snowflake_min_id(before);
COMMENT ON FUNCTION snowflake_before(bigint, timestamptz) IS
    'whether a snowflake ID was made before an instant';

CREATE FUNCTION snowflake_before(id bigint, before timestamptz, layout text) RETURNS boolean
    IMMUTABLE PARALLEL SAFE LANGUAGE sql
    RETURN id OPERATOR(pg_catalog.<) @extschema@.snowflake_min_id(before, layout);
COMMENT ON FUNCTION snowflake_before(bigint, timestamptz, text) IS
    'whether a snowflake ID of the given layout was made before an instant';

CREATE FUNCTION snowflake_between(id bigint, since timestamptz, before timestamptz) RETURNS boolean
    STABLE PARALLEL SAFE LANGUAGE sql
    RETURN id OPERATOR(pg_catalog.>=) @extschema@.snowflake_min_id(since)
       AND id OPERATOR(pg_catalog.<) @extschema@.snowflake_min_id(before);
COMMENT ON FUNCTION snowflake_between(bigint, timestamptz, timestamptz) IS
    'whether a snowflake ID was made at or after one instant and before another';

CREATE FUNCTION snowflake_between(id bigint, since timestamptz, before timestamptz, layout text) RETURNS boolean
    IMMUTABLE PARALLEL SAFE LANGUAGE sql
    RETURN id OPERATOR(pg_catalog.>=) @extschema@.snowflake_min_id(since, layout)
       AND id OPERATOR(pg_catalog.<) @extschema@.snowflake_min_id(before, layout);
COMMENT ON FUNCTION snowflake_between(bigint, timestamptz, timestamptz, text) IS
    'whether a snowflake ID of the given layout was made at or after one instant and before another';
