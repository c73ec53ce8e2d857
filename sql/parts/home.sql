-- Functions with which PL/pgSQL functions reach objects in the schema of the extension. PL/pgSQL looks up names when it
-- runs. Another role may own the schema, and may rename it and create another schema of the same name. The bodies here are
-- resolved when the functions are created.

CREATE FUNCTION snowflake_internal.home() RETURNS text STABLE PARALLEL SAFE LANGUAGE sql
BEGIN ATOMIC
    SELECT pg_catalog.quote_ident(n.nspname)
    FROM pg_catalog.pg_proc AS p JOIN pg_catalog.pg_namespace AS n ON n.oid OPERATOR(pg_catalog.=) p.pronamespace
    WHERE p.oid OPERATOR(pg_catalog.=) '@extschema@.snowflake_next()'::pg_catalog.regprocedure;
END;
COMMENT ON FUNCTION snowflake_internal.home() IS
    'name of the schema of the extension, as an SQL identifier; internal';

CREATE FUNCTION snowflake_internal.default_functions() RETURNS regprocedure[] IMMUTABLE PARALLEL SAFE LANGUAGE sql
BEGIN ATOMIC
    SELECT ARRAY['@extschema@.snowflake_next()', '@extschema@.snowflake_nextval()',
                 '@extschema@.snowflake_segment_next(text)', '@extschema@.snowflake_segment_nextval(text)'
           ]::pg_catalog.regprocedure[];
END;
COMMENT ON FUNCTION snowflake_internal.default_functions() IS
    'functions that defaults of adopted columns call; internal';

CREATE FUNCTION snowflake_internal.id_type() RETURNS regtype IMMUTABLE PARALLEL SAFE LANGUAGE sql
BEGIN ATOMIC
    SELECT '@extschema@.snowflake'::pg_catalog.regtype;
END;
COMMENT ON FUNCTION snowflake_internal.id_type() IS
    'type snowflake; internal';

CREATE FUNCTION snowflake_internal.next_id() RETURNS bigint VOLATILE PARALLEL SAFE LANGUAGE sql
BEGIN ATOMIC
    SELECT @extschema@.snowflake_next();
END;
COMMENT ON FUNCTION snowflake_internal.next_id() IS
    'snowflake_next(); internal';

CREATE FUNCTION snowflake_internal.next_number(segment text) RETURNS bigint VOLATILE PARALLEL SAFE LANGUAGE sql
BEGIN ATOMIC
    SELECT @extschema@.snowflake_segment_next(next_number.segment);
END;
COMMENT ON FUNCTION snowflake_internal.next_number(text) IS
    'snowflake_segment_next(); internal';

-- No new ID is lower than the first ID of the current tick.
CREATE FUNCTION snowflake_internal.lowest_new_id() RETURNS bigint VOLATILE PARALLEL SAFE LANGUAGE sql
BEGIN ATOMIC
    SELECT @extschema@.snowflake_encode(pg_catalog.clock_timestamp(), 0, 0::pg_catalog.int8, 0, 0);
END;
COMMENT ON FUNCTION snowflake_internal.lowest_new_id() IS
    'first ID of the current tick, in the layout of the session; internal';

CREATE FUNCTION snowflake_internal.bound(instant timestamptz) RETURNS bigint STABLE PARALLEL SAFE LANGUAGE sql
BEGIN ATOMIC
    SELECT @extschema@.snowflake_min_id(bound.instant);
END;
COMMENT ON FUNCTION snowflake_internal.bound(timestamptz) IS
    'snowflake_min_id() in the layout of the session; internal';

CREATE FUNCTION snowflake_internal.bound(instant timestamptz, layout text) RETURNS bigint
    IMMUTABLE PARALLEL SAFE LANGUAGE sql
BEGIN ATOMIC
    SELECT @extschema@.snowflake_min_id(bound.instant, bound.layout);
END;
COMMENT ON FUNCTION snowflake_internal.bound(timestamptz, text) IS
    'snowflake_min_id(); internal';

CREATE FUNCTION snowflake_internal.limits(layout text, OUT epoch timestamptz, OUT exhausted_at timestamptz)
    IMMUTABLE PARALLEL SAFE LANGUAGE sql
BEGIN ATOMIC
    SELECT facts.epoch, facts.exhausted_at FROM @extschema@.snowflake_describe_layout(limits.layout) AS facts;
END;
COMMENT ON FUNCTION snowflake_internal.limits(text) IS
    'the times that a layout covers; internal';
