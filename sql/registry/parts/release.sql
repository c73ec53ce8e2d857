-- Release -----------------------------------------------------------------------------------------------

-- The holder has stopped and hands the rest of its range back. granted_until does not change, because tokens contain
-- it: only the start of the next range moves. A lost release does no harm, so it is not counted in serial.
CREATE FUNCTION snowflake_registry.release(request jsonb) RETURNS snowflake_registry.answer
VOLATILE PARALLEL UNSAFE SECURITY DEFINER LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
<<call>>
DECLARE
    answer snowflake_registry.answer;
    lease_id CONSTANT uuid := snowflake_registry.uuid_of(request, 'lease_id');
    last_nonce CONSTANT uuid := snowflake_registry.uuid_of(request, 'last_nonce');
    next_nonce CONSTANT uuid := snowflake_registry.uuid_of(request, 'next_nonce');
    used_until bigint;
    held snowflake_registry.lease;
    registry snowflake_registry.settings;
BEGIN
    PERFORM snowflake_registry.begin_call();
    answer := (snowflake_registry.begin_answer(request, false)).answer;
    IF answer.outcome IS NULL THEN
        IF lease_id IS NULL OR last_nonce IS NULL OR next_nonce IS NULL THEN
            RAISE EXCEPTION 'the values of keys "lease_id", "last_nonce" and "next_nonce" must be UUIDs'
                USING ERRCODE = 'invalid_parameter_value',
                      HINT = 'Send strings such as "11111111-1111-4111-8111-111111111111".';
        END IF;
        used_until := snowflake_registry.number_of(request, 'used_until');
    END IF;
    registry := snowflake_registry.open_registry(false, request -> 'tokens', false, call.lease_id);
    answer.renew_every := snowflake_registry.microseconds(snowflake_registry.call_every(registry));
    -- The tokens of a refused holder also count.
    IF answer.outcome IS NOT NULL THEN
        RETURN answer;
    END IF;
    SELECT * INTO held
    FROM snowflake_registry.lease AS lease WHERE lease.lease_id = call.lease_id FOR UPDATE;
    IF NOT FOUND THEN
        answer.outcome := 'unknown';
        answer.detail := 'no worker ID is held under this lease, so there is nothing to release';
        RETURN answer;
    ELSIF held.nonce IS NOT NULL
          AND NOT coalesce(held.nonce = call.last_nonce OR held.nonce = call.next_nonce, false) THEN
        answer.outcome := 'twin';
        answer.detail := format('worker ID %s was renewed under the same lease by another server, last at %s',
                                held.worker_id, snowflake_registry.in_words(held.renewed_at));
        RETURN answer;
    ELSIF held.used_until IS NULL
          AND (held.nonce IS NULL OR registry.server_started IS DISTINCT FROM pg_postmaster_start_time()) THEN
        answer.outcome := 'unknown';
        answer.detail := format('the registry cannot tell the holder of worker ID %s from a copy before the next '
                                'renewal, so the worker ID stays taken until the lease ends', held.worker_id);
        RETURN answer;
    ELSIF held.used_until IS NULL THEN
        -- The past is never handed back, even if the holder says that it used nothing: no later holder needs it. NULL
        -- means that the holder does not know what it has used. No two ranges of an identity have the same start.
        held.used_until := least(held.granted_until, greatest(held.granted_from + interval '1 microsecond', CASE
            WHEN call.used_until IS NULL THEN held.granted_until
            ELSE greatest(clock_timestamp(), snowflake_registry.instant(
                least(greatest(call.used_until, 0), snowflake_registry.microseconds(held.granted_until)))) END));
        UPDATE snowflake_registry.lease AS lease
        SET used_until = held.used_until, released_until = lease.granted_until
        WHERE lease.lease_id = call.lease_id;
        RAISE LOG 'snowflake_id_registry: worker ID % (datacenter %) was released by %',
            held.worker_id, held.datacenter_id,
            snowflake_registry.server_in_words(held.node_name, held.host, held.port)
            USING DETAIL = format('The next range starts at %s or later.',
                                  snowflake_registry.in_words(held.used_until));
    ELSE
        -- The answer to an earlier call may have been lost. The row is written again so that the holder waits for this
        -- commit.
        UPDATE snowflake_registry.lease AS lease
        SET used_until = held.used_until WHERE lease.lease_id = call.lease_id;
    END IF;
    answer.outcome := 'released';
    answer.datacenter_id := held.datacenter_id;
    answer.worker_id := held.worker_id;
    answer.free_from := snowflake_registry.microseconds(held.used_until);
    RETURN answer;
END
$$;
COMMENT ON FUNCTION snowflake_registry.release(jsonb) IS
    'releases the lease of a holder that has stopped, so that another server can get the rest of its range';
