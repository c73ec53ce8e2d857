-- What snowflake_nextval() becomes while COPY fills a table: see src/generate/copy.rs. Nothing that a user
-- writes ever names it, and nobody can call it, as no value of SQL has type internal; so everybody may. It
-- costs as much as COST_IN_OPERATORS there says.
CREATE FUNCTION snowflake_internal.snowflake_nextval_in_copy(internal) RETURNS bigint
    STRICT STABLE PARALLEL SAFE COST 1000 LANGUAGE c AS 'MODULE_PATHNAME', 'snowflake_nextval';
COMMENT ON FUNCTION snowflake_internal.snowflake_nextval_in_copy(internal) IS
    'snowflake_nextval() while COPY fills a table; not for users';
-- Not left to ALTER DEFAULT PRIVILEGES.
GRANT EXECUTE ON FUNCTION snowflake_internal.snowflake_nextval_in_copy(internal) TO PUBLIC;

CREATE FUNCTION snowflake_internal.snowflake_nextval_support(internal) RETURNS internal
    STRICT IMMUTABLE PARALLEL SAFE LANGUAGE c AS 'MODULE_PATHNAME', 'snowflake_nextval_support';
COMMENT ON FUNCTION snowflake_internal.snowflake_nextval_support(internal) IS
    'tells the planner what to call while COPY fills a table; not for users';
