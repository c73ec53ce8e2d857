-- The planner replaces snowflake_nextval() with this function while COPY fills a table. See src/generate/copy.rs.
-- Users cannot call this function, because no SQL value has type internal. Therefore, EXECUTE can be granted to PUBLIC.
-- COST is the value of COST_IN_OPERATORS in copy.rs.
CREATE FUNCTION snowflake_internal.snowflake_nextval_in_copy(internal) RETURNS bigint
    STRICT STABLE PARALLEL SAFE COST 1000 LANGUAGE c AS 'MODULE_PATHNAME', 'snowflake_nextval';
COMMENT ON FUNCTION snowflake_internal.snowflake_nextval_in_copy(internal) IS
    'snowflake_nextval() during COPY; internal';
-- The grant is explicit, because ALTER DEFAULT PRIVILEGES may have revoked the default.
GRANT EXECUTE ON FUNCTION snowflake_internal.snowflake_nextval_in_copy(internal) TO PUBLIC;

CREATE FUNCTION snowflake_internal.snowflake_nextval_support(internal) RETURNS internal
    STRICT IMMUTABLE PARALLEL SAFE LANGUAGE c AS 'MODULE_PATHNAME', 'snowflake_nextval_support';
COMMENT ON FUNCTION snowflake_internal.snowflake_nextval_support(internal) IS
    'planner support: replaces snowflake_nextval() during COPY; internal';
