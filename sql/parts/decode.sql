-- Functions that return one part of an ID. See src/read/direct.rs for why pgrx does not declare them.

CREATE FUNCTION snowflake_timestamp(id bigint) RETURNS timestamptz
    STABLE STRICT PARALLEL SAFE LANGUAGE c AS 'MODULE_PATHNAME', 'snowflake_timestamp';
COMMENT ON FUNCTION snowflake_timestamp(bigint) IS
    'when a snowflake ID was made';

CREATE FUNCTION snowflake_timestamp(id bigint, layout text) RETURNS timestamptz
    IMMUTABLE STRICT PARALLEL SAFE LANGUAGE c AS 'MODULE_PATHNAME', 'snowflake_timestamp_as';
COMMENT ON FUNCTION snowflake_timestamp(bigint, text) IS
    'when a snowflake ID of the given layout was made';

CREATE FUNCTION snowflake_datacenter(id bigint) RETURNS int
    STABLE STRICT PARALLEL SAFE LANGUAGE c AS 'MODULE_PATHNAME', 'snowflake_datacenter';
COMMENT ON FUNCTION snowflake_datacenter(bigint) IS
    'the datacenter ID in a snowflake ID; NULL if the layout has none';

CREATE FUNCTION snowflake_datacenter(id bigint, layout text) RETURNS int
    IMMUTABLE STRICT PARALLEL SAFE LANGUAGE c AS 'MODULE_PATHNAME', 'snowflake_datacenter_as';
COMMENT ON FUNCTION snowflake_datacenter(bigint, text) IS
    'the datacenter ID in a snowflake ID of the given layout; NULL if it has none';

CREATE FUNCTION snowflake_worker(id bigint) RETURNS int
    STABLE STRICT PARALLEL SAFE LANGUAGE c AS 'MODULE_PATHNAME', 'snowflake_worker';
COMMENT ON FUNCTION snowflake_worker(bigint) IS
    'the worker ID in a snowflake ID; NULL if the layout has none';

CREATE FUNCTION snowflake_worker(id bigint, layout text) RETURNS int
    IMMUTABLE STRICT PARALLEL SAFE LANGUAGE c AS 'MODULE_PATHNAME', 'snowflake_worker_as';
COMMENT ON FUNCTION snowflake_worker(bigint, text) IS
    'the worker ID in a snowflake ID of the given layout; NULL if it has none';

CREATE FUNCTION snowflake_clock_seq(id bigint) RETURNS int
    STABLE STRICT PARALLEL SAFE LANGUAGE c AS 'MODULE_PATHNAME', 'snowflake_clock_seq';
COMMENT ON FUNCTION snowflake_clock_seq(bigint) IS
    'the value of the clock sequence in a snowflake ID; NULL if the layout has none';

CREATE FUNCTION snowflake_clock_seq(id bigint, layout text) RETURNS int
    IMMUTABLE STRICT PARALLEL SAFE LANGUAGE c AS 'MODULE_PATHNAME', 'snowflake_clock_seq_as';
COMMENT ON FUNCTION snowflake_clock_seq(bigint, text) IS
    'the value of the clock sequence in a snowflake ID of the given layout; NULL if it has none';

CREATE FUNCTION snowflake_sequence(id bigint) RETURNS bigint
    STABLE STRICT PARALLEL SAFE LANGUAGE c AS 'MODULE_PATHNAME', 'snowflake_sequence';
COMMENT ON FUNCTION snowflake_sequence(bigint) IS
    'the sequence in a snowflake ID; NULL if the layout has none';

CREATE FUNCTION snowflake_sequence(id bigint, layout text) RETURNS bigint
    IMMUTABLE STRICT PARALLEL SAFE LANGUAGE c AS 'MODULE_PATHNAME', 'snowflake_sequence_as';
COMMENT ON FUNCTION snowflake_sequence(bigint, text) IS
    'the sequence in a snowflake ID of the given layout; NULL if it has none';
