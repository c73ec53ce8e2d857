-- The planner replaces snowflake_nextval() with this function while COPY fills a table: see src/generate/copy.rs.
-- Users cannot call it, because no SQL value has type internal, so granting EXECUTE to PUBLIC is safe. COST is the
-- value of COST_IN_OPERATORS in that file.
CREATE FUNCTION snowflake_internal.snowflake_nextval_in_copy(internal) RETURNS bigint
    STRICT STABLE PARALLEL SAFE COST 1000 LANGUAGE c AS 'MODULE_PATHNAME', 'snowflake_nextval';
COMMENT ON FUNCTION snowflake_internal.snowflake_nextval_in_copy(internal) IS
    'snowflake_nextval() during COPY; internal';
-- Explicit, so that ALTER DEFAULT PRIVILEGES has no influence.
GRANT EXECUTE ON FUNCTION snowflake_internal.snowflake_nextval_in_copy(internal) TO PUBLIC;

CREATE FUNCTION snowflake_internal.snowflake_nextval_support(internal) RETURNS internal
    STRICT IMMUTABLE PARALLEL SAFE LANGUAGE c AS 'MODULE_PATHNAME', 'snowflake_nextval_support';
COMMENT ON FUNCTION snowflake_internal.snowflake_nextval_support(internal) IS
    'planner support: replaces snowflake_nextval() during COPY; internal';
