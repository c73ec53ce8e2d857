-- The planner replaces calls of snowflake_nextval() and snowflake_segment_nextval() in defaults of columns with these
-- functions. See src/defaults/. Users cannot call these functions, because no SQL value has type internal. Therefore,
-- EXECUTE can be granted to PUBLIC. The functions are not STRICT, because the value of that argument is NULL. COST is the
-- value of COST_IN_OPERATORS in copy.rs.
CREATE FUNCTION snowflake_internal.snowflake_nextval_in_copy(internal) RETURNS bigint
    STABLE PARALLEL SAFE COST 1000 LANGUAGE c AS 'MODULE_PATHNAME', 'snowflake_nextval';
COMMENT ON FUNCTION snowflake_internal.snowflake_nextval_in_copy(internal) IS
    'snowflake_nextval() during COPY; internal';

CREATE FUNCTION snowflake_internal.snowflake_segment_nextval_in_default(regprocedure, text, regclass, internal) RETURNS bigint
    VOLATILE PARALLEL SAFE LANGUAGE c AS 'MODULE_PATHNAME', 'snowflake_segment_nextval_in_default';
COMMENT ON FUNCTION snowflake_internal.snowflake_segment_nextval_in_default(regprocedure, text, regclass, internal) IS
    'snowflake_segment_nextval() in the default of a column; internal';

CREATE FUNCTION snowflake_internal.snowflake_segment_nextval_in_copy(regprocedure, text, regclass, internal) RETURNS bigint
    STABLE PARALLEL SAFE COST 1000 LANGUAGE c AS 'MODULE_PATHNAME', 'snowflake_segment_nextval_in_default';
COMMENT ON FUNCTION snowflake_internal.snowflake_segment_nextval_in_copy(regprocedure, text, regclass, internal) IS
    'snowflake_segment_nextval() during COPY; internal';

CREATE FUNCTION snowflake_internal.snowflake_nextval_support(internal) RETURNS internal
    STRICT IMMUTABLE PARALLEL SAFE LANGUAGE c AS 'MODULE_PATHNAME', 'snowflake_nextval_support';
COMMENT ON FUNCTION snowflake_internal.snowflake_nextval_support(internal) IS
    'planner support: replaces snowflake_nextval() during COPY; internal';

CREATE FUNCTION snowflake_internal.snowflake_segment_nextval_support(internal) RETURNS internal
    STRICT IMMUTABLE PARALLEL SAFE LANGUAGE c AS 'MODULE_PATHNAME', 'snowflake_segment_nextval_support';
COMMENT ON FUNCTION snowflake_internal.snowflake_segment_nextval_support(internal) IS
    'planner support: replaces snowflake_segment_nextval() in defaults of columns; internal';
