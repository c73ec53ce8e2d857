-- The planner replaces calls of snowflake_next() and snowflake_segment_next(), under both of their names, in defaults of
-- columns with these functions. See src/defaults/. The functions are not STRICT, because the value of their last argument
-- is NULL. COST is the value of COST_IN_OPERATORS in copy.rs.
--
-- EXECUTE on these functions is granted to PUBLIC, because users cannot call them: no expression has type internal.
-- PostgreSQL refuses casts to the type, even of NULL, and only superusers can create functions that return it.
CREATE FUNCTION snowflake_internal.snowflake_nextval_in_copy(internal) RETURNS bigint
    STABLE PARALLEL SAFE COST 1000 LANGUAGE c AS 'MODULE_PATHNAME', 'snowflake_nextval';
COMMENT ON FUNCTION snowflake_internal.snowflake_nextval_in_copy(internal) IS
    'snowflake_nextval() and snowflake_next() during COPY; internal';

CREATE FUNCTION snowflake_internal.snowflake_segment_nextval_in_default(regprocedure, text, regclass, internal) RETURNS bigint
    VOLATILE PARALLEL SAFE LANGUAGE c AS 'MODULE_PATHNAME', 'snowflake_segment_nextval_in_default';
COMMENT ON FUNCTION snowflake_internal.snowflake_segment_nextval_in_default(regprocedure, text, regclass, internal) IS
    'snowflake_segment_nextval() or snowflake_segment_next() in the default of a column; internal';

CREATE FUNCTION snowflake_internal.snowflake_segment_nextval_in_copy(regprocedure, text, regclass, internal) RETURNS bigint
    STABLE PARALLEL SAFE COST 1000 LANGUAGE c AS 'MODULE_PATHNAME', 'snowflake_segment_nextval_in_default';
COMMENT ON FUNCTION snowflake_internal.snowflake_segment_nextval_in_copy(regprocedure, text, regclass, internal) IS
    'snowflake_segment_nextval() and snowflake_segment_next() during COPY; internal';

CREATE FUNCTION snowflake_internal.snowflake_nextval_support(internal) RETURNS internal
    STRICT IMMUTABLE PARALLEL SAFE LANGUAGE c AS 'MODULE_PATHNAME', 'snowflake_nextval_support';
COMMENT ON FUNCTION snowflake_internal.snowflake_nextval_support(internal) IS
    'planner support: replaces snowflake_nextval() and snowflake_next() during COPY; internal';

CREATE FUNCTION snowflake_internal.snowflake_segment_nextval_support(internal) RETURNS internal
    STRICT IMMUTABLE PARALLEL SAFE LANGUAGE c AS 'MODULE_PATHNAME', 'snowflake_segment_nextval_support';
COMMENT ON FUNCTION snowflake_internal.snowflake_segment_nextval_support(internal) IS
    'planner support: replaces snowflake_segment_nextval() and snowflake_segment_next() in defaults of columns; internal';
