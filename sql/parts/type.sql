-- Type snowflake: a bigint that JSON functions return as a string, because they quote all types without a cast to json
-- that are not numbers of PostgreSQL itself.
--
-- The type has no operators and no operator class. Its values are converted to bigint implicitly, without a function, so
-- that indexes, foreign keys, partitions and the planner's estimates are those of bigint. This is why no function of the
-- extension may be declared for both types: a call with an untyped constant would be ambiguous.
--
-- The category is that of numbers. Otherwise UNION, COALESCE, CASE and JOIN .. USING could not combine the type with
-- bigint. LIKE copies the size and the alignment of bigint, but not its category.

CREATE TYPE snowflake;
CREATE FUNCTION snowflake_internal.snowflake_in(cstring) RETURNS snowflake
    IMMUTABLE STRICT PARALLEL SAFE LANGUAGE internal AS 'int8in';
CREATE FUNCTION snowflake_internal.snowflake_out(snowflake) RETURNS cstring
    IMMUTABLE STRICT PARALLEL SAFE LANGUAGE internal AS 'int8out';
CREATE FUNCTION snowflake_internal.snowflake_recv(internal) RETURNS snowflake
    IMMUTABLE STRICT PARALLEL SAFE LANGUAGE internal AS 'int8recv';
CREATE FUNCTION snowflake_internal.snowflake_send(snowflake) RETURNS bytea
    IMMUTABLE STRICT PARALLEL SAFE LANGUAGE internal AS 'int8send';
CREATE TYPE snowflake (
    INPUT = snowflake_internal.snowflake_in,
    OUTPUT = snowflake_internal.snowflake_out,
    RECEIVE = snowflake_internal.snowflake_recv,
    SEND = snowflake_internal.snowflake_send,
    LIKE = pg_catalog.int8,
    CATEGORY = 'N'
);
COMMENT ON TYPE snowflake IS 'snowflake ID: a bigint that JSON represents as a string';
COMMENT ON FUNCTION snowflake_internal.snowflake_in(cstring) IS 'I/O';
COMMENT ON FUNCTION snowflake_internal.snowflake_out(snowflake) IS 'I/O';
COMMENT ON FUNCTION snowflake_internal.snowflake_recv(internal) IS 'I/O';
COMMENT ON FUNCTION snowflake_internal.snowflake_send(snowflake) IS 'I/O';

-- The conversion to bigint is the only implicit one: with a second one, to numeric, operators would be ambiguous.
CREATE CAST (snowflake AS bigint) WITHOUT FUNCTION AS IMPLICIT;
COMMENT ON CAST (snowflake AS bigint) IS 'same value; implicit';
CREATE CAST (bigint AS snowflake) WITHOUT FUNCTION AS ASSIGNMENT;
COMMENT ON CAST (bigint AS snowflake) IS 'same value; in assignments';

CREATE FUNCTION snowflake_internal.snowflake_to_numeric(snowflake) RETURNS numeric
    IMMUTABLE STRICT PARALLEL SAFE LANGUAGE internal AS 'int8_numeric';
COMMENT ON FUNCTION snowflake_internal.snowflake_to_numeric(snowflake) IS 'cast; internal';
CREATE FUNCTION snowflake_internal.snowflake_to_float8(snowflake) RETURNS double precision
    IMMUTABLE STRICT PARALLEL SAFE LANGUAGE internal AS 'i8tod';
COMMENT ON FUNCTION snowflake_internal.snowflake_to_float8(snowflake) IS 'cast; internal';
CREATE FUNCTION snowflake_internal.snowflake_to_int4(snowflake) RETURNS int
    IMMUTABLE STRICT PARALLEL SAFE LANGUAGE internal AS 'int84';
COMMENT ON FUNCTION snowflake_internal.snowflake_to_int4(snowflake) IS 'cast; internal';
CREATE CAST (snowflake AS numeric)
    WITH FUNCTION snowflake_internal.snowflake_to_numeric(snowflake) AS ASSIGNMENT;
COMMENT ON CAST (snowflake AS numeric) IS 'same value; in assignments';
CREATE CAST (snowflake AS double precision)
    WITH FUNCTION snowflake_internal.snowflake_to_float8(snowflake) AS ASSIGNMENT;
COMMENT ON CAST (snowflake AS double precision) IS 'nearest value; in assignments';
CREATE CAST (snowflake AS int)
    WITH FUNCTION snowflake_internal.snowflake_to_int4(snowflake) AS ASSIGNMENT;
COMMENT ON CAST (snowflake AS int) IS 'same value, if it is in range; in assignments';

-- Without these conversions, expressions such as id IN (1, 2, 3) and coalesce(id, 0) would fail.
CREATE FUNCTION snowflake_internal.int4_to_snowflake(int) RETURNS snowflake
    IMMUTABLE STRICT PARALLEL SAFE LANGUAGE internal AS 'int48';
COMMENT ON FUNCTION snowflake_internal.int4_to_snowflake(int) IS 'cast; internal';
CREATE FUNCTION snowflake_internal.int2_to_snowflake(smallint) RETURNS snowflake
    IMMUTABLE STRICT PARALLEL SAFE LANGUAGE internal AS 'int28';
COMMENT ON FUNCTION snowflake_internal.int2_to_snowflake(smallint) IS 'cast; internal';
CREATE CAST (int AS snowflake) WITH FUNCTION snowflake_internal.int4_to_snowflake(int) AS IMPLICIT;
COMMENT ON CAST (int AS snowflake) IS 'same value; implicit';
CREATE CAST (smallint AS snowflake) WITH FUNCTION snowflake_internal.int2_to_snowflake(smallint) AS IMPLICIT;
COMMENT ON CAST (smallint AS snowflake) IS 'same value; implicit';

-- The grant is explicit, because ALTER DEFAULT PRIVILEGES may have revoked the default.
GRANT USAGE ON TYPE snowflake TO PUBLIC;
