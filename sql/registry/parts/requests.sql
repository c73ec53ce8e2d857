-- Requests ----------------------------------------------------------------------------------------------

-- acquire(), renew(), release() and take() have one argument, a JSON object, so that their signatures and therefore the
-- GRANTs for them never change. Keys that are not known are ignored, because later versions of servers may send more,
-- except inside "needs": an identity that does not fit the needs of a server must not be granted. A misspelled key must
-- not change what a request means, so keys must be present if their absence would be dangerous.

-- The lowest and the highest protocol that the registry knows. A version that changes the meaning of requests or answers
-- raises the highest. It raises the lowest only if it can no longer serve the older callers, and its update script then
-- calls require_protocol(), so that no holder of a lease is left behind. Others get no numbers until they are updated.
CREATE FUNCTION snowflake_registry.protocols(OUT lowest int, OUT highest int)
IMMUTABLE PARALLEL SAFE LANGUAGE sql
RETURN (1, 1);
COMMENT ON FUNCTION snowflake_registry.protocols() IS 'lowest and highest protocol that the registry knows';

-- Checks the keys that have the same meaning in each protocol. If the registry does not know the protocol, the function
-- returns the outcome of the answer, and the caller must read no other key than "tokens" and "lease_id".
CREATE FUNCTION snowflake_registry.check_request(
    request jsonb, OUT registry_id uuid, OUT protocol int, OUT lowest int, OUT highest int, OUT outcome text, OUT detail text
)
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    -- The result of an operator is not compressed, as a value from a table may be.
    size CONSTANT int := pg_column_size(CASE WHEN jsonb_typeof(request) = 'object' THEN request || '{}' END);
    said CONSTANT text := nullif(request -> 'protocol', 'null')::text;
BEGIN
    IF jsonb_typeof(request) IS DISTINCT FROM 'object' THEN
        RAISE EXCEPTION 'request must be a JSON object'
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = 'Pass a value of type jsonb with keys "protocol", "registry" and "tokens".';
    ELSIF size > 1048576 THEN
        RAISE EXCEPTION 'request is too large'
            USING ERRCODE = 'program_limit_exceeded',
                  DETAIL = format('The request has %s bytes, and the maximum is 1048576.', size);
    ELSIF said IS NULL OR NOT request ? 'registry' OR jsonb_typeof(request -> 'tokens') IS DISTINCT FROM 'array' THEN
        RAISE EXCEPTION 'request must have keys "protocol", "registry" and "tokens"'
            USING ERRCODE = 'invalid_parameter_value',
                  DETAIL = 'The value of "registry" is the ID of a registry or null, and the value of "tokens" is an array.';
    ELSIF jsonb_array_length(request -> 'tokens') > 128 THEN
        -- The number is limited, in all protocols, because other servers wait while tokens are read. A request for numbers of
        -- 64 segments contains up to 128 tokens.
        RAISE EXCEPTION 'too many tokens'
            USING ERRCODE = 'invalid_parameter_value',
                  DETAIL = format('The array has %s elements, and the maximum is 128.',
                                  jsonb_array_length(request -> 'tokens'));
    END IF;
    SELECT known.lowest, known.highest INTO lowest, highest FROM snowflake_registry.protocols() AS known;
    -- A value that is not a natural number can only be that of a later version. A string is quoted here.
    protocol := CASE WHEN said COLLATE "C" ~ '^[0-9]{1,9}$' THEN said::int ELSE 2147483647 END;
    registry_id := snowflake_registry.uuid_of(request, 'registry');
    IF protocol NOT BETWEEN lowest AND highest THEN
        outcome := CASE WHEN protocol > highest THEN 'registry too old' ELSE 'caller too old' END;
        detail := format('the request has protocol %s, and the registry knows protocols %s to %s',
                         left(snowflake_registry.printable(said), 20), lowest, highest);
    ELSIF registry_id IS NULL AND request ->> 'registry' IS NOT NULL THEN
        RAISE EXCEPTION 'the value of key "registry" must be a UUID or null'
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = 'Send the registry_id of the last reply, and null in the first request.';
    END IF;
END
$$;
COMMENT ON FUNCTION snowflake_registry.check_request(jsonb) IS
    'checks the keys that each request has, and tests whether the registry knows the protocol of the request';

-- JSON has numbers of any size, and PostgreSQL rounds fractions silently.
CREATE FUNCTION snowflake_registry.number_of(
    object jsonb, key text, lowest bigint DEFAULT -9223372036854775808, highest bigint DEFAULT 9223372036854775807
)
RETURNS bigint
IMMUTABLE PARALLEL SAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    value CONSTANT jsonb := nullif(object -> key, 'null');
    number CONSTANT numeric := CASE WHEN jsonb_typeof(value) = 'number' THEN value::numeric END;
BEGIN
    IF value IS NULL OR number = trunc(number) AND number BETWEEN lowest AND highest THEN
        RETURN number;
    END IF;
    RAISE EXCEPTION 'invalid value for key "%": %', key, left(snowflake_registry.printable(value::text), 40)
        USING ERRCODE = 'invalid_parameter_value',
              DETAIL = format('The value must be an integer from %s to %s.', lowest, highest);
END
$$;
COMMENT ON FUNCTION snowflake_registry.number_of(jsonb, text, bigint, bigint) IS
    'integer with this key; NULL if the key is missing or null';

CREATE FUNCTION snowflake_registry.uuid_of(object jsonb, key text) RETURNS uuid
IMMUTABLE PARALLEL SAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN CASE WHEN object ->> key COLLATE "C" ~ '^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$'
                THEN (object ->> key)::uuid END;
END
$$;
COMMENT ON FUNCTION snowflake_registry.uuid_of(jsonb, text) IS 'UUID with this key; NULL if there is none';

-- What a server needs of an identity. If a key is not known, "unknown" is its name.
CREATE FUNCTION snowflake_registry.read_needs(
    needs jsonb, OUT datacenter int, OUT pin int, OUT worker_limit bigint, OUT unwanted int[], OUT unknown text
)
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    listed CONSTANT jsonb := coalesce(nullif(needs -> 'unwanted', 'null'), '[]');
BEGIN
    IF jsonb_typeof(needs) IS DISTINCT FROM 'object' THEN
        RAISE EXCEPTION 'the value of key "needs" must be a JSON object'
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Send an object such as {"datacenter": 0, "worker_limit": 1024}.';
    END IF;
    SELECT min(key) INTO unknown
    FROM jsonb_object_keys(needs) AS key WHERE key <> ALL ('{datacenter,pin,worker_limit,unwanted}');
    IF unknown IS NOT NULL THEN
        RETURN;
    END IF;
    datacenter := snowflake_registry.number_of(needs, 'datacenter', 0, 2147483647);
    pin := snowflake_registry.number_of(needs, 'pin', 0, 2147483647);
    worker_limit := snowflake_registry.number_of(needs, 'worker_limit', 0, 2147483648);
    IF datacenter IS NULL OR worker_limit IS NULL THEN
        RAISE EXCEPTION 'keys "datacenter" and "worker_limit" of "needs" must not be null'
            USING ERRCODE = 'null_value_not_allowed',
                  HINT = 'Send an object such as {"datacenter": 0, "worker_limit": 1024}.';
    ELSIF jsonb_typeof(listed) <> 'array' THEN
        RAISE EXCEPTION 'the value of key "unwanted" must be an array'
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Send an array of worker IDs such as [5, 7], or omit the key.';
    ELSIF jsonb_array_length(listed) > 10000 THEN
        -- The length is limited because other servers wait while the list is searched.
        RAISE EXCEPTION 'too many unwanted worker IDs'
            USING ERRCODE = 'invalid_parameter_value',
                  DETAIL = format('The array has %s elements, and the maximum is 10000.', jsonb_array_length(listed));
    END IF;
    SELECT coalesce(array_agg(
               snowflake_registry.number_of(jsonb_build_object('unwanted', element), 'unwanted', 0, 2147483647)), '{}')
    INTO unwanted FROM jsonb_array_elements(listed) AS element;
    IF array_position(unwanted, NULL) IS NOT NULL THEN
        RAISE EXCEPTION 'worker IDs of key "unwanted" must not be null'
            USING ERRCODE = 'null_value_not_allowed', HINT = 'Send an array of worker IDs such as [5, 7], or omit the key.';
    END IF;
END
$$;
COMMENT ON FUNCTION snowflake_registry.read_needs(jsonb) IS 'what a server needs of an identity';
