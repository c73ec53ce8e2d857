-- Functions that return one field of an ID. src/read/direct.rs explains why pgrx does not declare these functions.

CREATE FUNCTION snowflake_timestamp(id bigint) RETURNS timestamptz
    STABLE STRICT PARALLEL SAFE LANGUAGE c AS 'MODULE_PATHNAME', 'snowflake_timestamp';
COMMENT ON FUNCTION snowflake_timestamp(bigint) IS
    'time at which a snowflake ID was generated';

CREATE FUNCTION snowflake_timestamp(id bigint, layout text) RETURNS timestamptz
    IMMUTABLE STRICT PARALLEL SAFE LANGUAGE c AS 'MODULE_PATHNAME', 'snowflake_timestamp_as';
COMMENT ON FUNCTION snowflake_timestamp(bigint, text) IS
    'time at which a snowflake ID of the given layout was generated';

CREATE FUNCTION snowflake_datacenter(id bigint) RETURNS int
    STABLE STRICT PARALLEL SAFE LANGUAGE c AS 'MODULE_PATHNAME', 'snowflake_datacenter';
COMMENT ON FUNCTION snowflake_datacenter(bigint) IS
    'datacenter ID in a snowflake ID; NULL if the layout has no such field';

CREATE FUNCTION snowflake_datacenter(id bigint, layout text) RETURNS int
    IMMUTABLE STRICT PARALLEL SAFE LANGUAGE c AS 'MODULE_PATHNAME', 'snowflake_datacenter_as';
COMMENT ON FUNCTION snowflake_datacenter(bigint, text) IS
    'datacenter ID in a snowflake ID of the given layout; NULL if the layout has no such field';

CREATE FUNCTION snowflake_worker(id bigint) RETURNS int
    STABLE STRICT PARALLEL SAFE LANGUAGE c AS 'MODULE_PATHNAME', 'snowflake_worker';
COMMENT ON FUNCTION snowflake_worker(bigint) IS
    'worker ID in a snowflake ID; NULL if the layout has no such field';

CREATE FUNCTION snowflake_worker(id bigint, layout text) RETURNS int
    IMMUTABLE STRICT PARALLEL SAFE LANGUAGE c AS 'MODULE_PATHNAME', 'snowflake_worker_as';
COMMENT ON FUNCTION snowflake_worker(bigint, text) IS
    'worker ID in a snowflake ID of the given layout; NULL if the layout has no such field';

CREATE FUNCTION snowflake_clock_seq(id bigint) RETURNS int
    STABLE STRICT PARALLEL SAFE LANGUAGE c AS 'MODULE_PATHNAME', 'snowflake_clock_seq';
COMMENT ON FUNCTION snowflake_clock_seq(bigint) IS
    'value of the clock sequence in a snowflake ID; NULL if the layout has no such field';

CREATE FUNCTION snowflake_clock_seq(id bigint, layout text) RETURNS int
    IMMUTABLE STRICT PARALLEL SAFE LANGUAGE c AS 'MODULE_PATHNAME', 'snowflake_clock_seq_as';
COMMENT ON FUNCTION snowflake_clock_seq(bigint, text) IS
    'value of the clock sequence in a snowflake ID of the given layout; NULL if the layout has no such field';

CREATE FUNCTION snowflake_sequence(id bigint) RETURNS bigint
    STABLE STRICT PARALLEL SAFE LANGUAGE c AS 'MODULE_PATHNAME', 'snowflake_sequence';
COMMENT ON FUNCTION snowflake_sequence(bigint) IS
    'sequence in a snowflake ID; NULL if the layout has no such field';

CREATE FUNCTION snowflake_sequence(id bigint, layout text) RETURNS bigint
    IMMUTABLE STRICT PARALLEL SAFE LANGUAGE c AS 'MODULE_PATHNAME', 'snowflake_sequence_as';
COMMENT ON FUNCTION snowflake_sequence(bigint, text) IS
    'sequence in a snowflake ID of the given layout; NULL if the layout has no such field';
