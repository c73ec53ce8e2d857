-- Locks are acquired in this order: first table settings, then the rows of the segments in the order of their names.
CREATE FUNCTION snowflake_registry.take_ranges(request jsonb, is_local boolean)
RETURNS SETOF snowflake_registry.taken
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
<<call>>
DECLARE
    about snowflake_registry.taken;
    answer snowflake_registry.taken;
    checked record;
    asked snowflake_registry.request;
    requests CONSTANT jsonb := request -> 'requests';
    registry snowflake_registry.settings;
    loss text;
    said record;
    shown record;
    tokens jsonb;
    evidence CONSTANT jsonb := request -> 'tokens';
    proves_loss boolean;
    is_limited boolean;
    is_answered boolean := false;
BEGIN
    PERFORM snowflake_registry.begin_call();
    IF is_local THEN
        -- Unlike other callers, the background worker holds locks of its own. The timeout is less than
        -- deadlock_timeout, so that a deadlock with DROP EXTENSION ends this call rather than DROP EXTENSION.
        PERFORM set_config('lock_timeout', '500ms', true);
    END IF;
    -- Nothing is read before: see wal_position().
    SELECT * INTO shown FROM snowflake_registry.statements_of_segments(call.requests);
    -- The owner and superusers can call functions without a GRANT. Such calls are rejected, because serves_others()
    -- would not detect that other servers take numbers.
    IF NOT is_local AND NOT snowflake_registry.serves_others() THEN
        RAISE EXCEPTION 'permission denied for function take'
            USING ERRCODE = 'insufficient_privilege',
                  DETAIL = 'EXECUTE on this function has not been granted to any role. A registry that serves only its own '
                           'server does not wait for other servers when it may have lost commits.',
                  HINT = 'Create a role for the servers, and grant the privilege to the role: GRANT EXECUTE ON FUNCTION '
                         'snowflake_registry.take TO ...;';
    END IF;
    -- The registry's own server is not limited, because all its roles share its numbers.
    is_limited := NOT is_local AND snowflake_registry.is_limited();
    SELECT * INTO checked FROM snowflake_registry.check_request(request);
    about.lowest_protocol := checked.lowest;
    about.highest_protocol := checked.highest;
    SELECT settings.registry_id INTO about.registry_id FROM snowflake_registry.settings AS settings;
    about.registry_clock := snowflake_registry.microseconds(statement_timestamp());
    about.server_started := snowflake_registry.microseconds(pg_postmaster_start_time());
    about.outcome := checked.outcome;
    about.detail := checked.detail;
    IF about.outcome IS NULL THEN
        IF coalesce(jsonb_typeof(requests), 'null') <> 'array' THEN
            RAISE EXCEPTION 'the value of key "requests" must be an array'
                USING ERRCODE = 'invalid_parameter_value',
                      HINT = 'Send an array of objects such as {"name": "orders"}.';
        ELSIF jsonb_array_length(requests) > 64 THEN
            RAISE EXCEPTION 'too many requests'
                USING ERRCODE = 'invalid_parameter_value',
                      DETAIL = format('The array has %s elements, and the maximum is 64.', jsonb_array_length(requests));
        ELSIF checked.registry_id IS NOT NULL AND checked.registry_id IS DISTINCT FROM about.registry_id THEN
            about.outcome := 'foreign';
            about.detail := format('this registry is %s, not %s', coalesce(about.registry_id::text, 'a new one'),
                                   checked.registry_id);
        END IF;
    END IF;
    IF about.outcome IS NOT NULL THEN
        -- The tokens of a refused server also count.
        registry := snowflake_registry.open_registry(false, evidence);
        about.report_every := snowflake_registry.microseconds(snowflake_registry.call_every(registry));
        RETURN NEXT about;
        RETURN;
    END IF;

    -- As in renew(), a server that proves a loss gets no new tokens. The registry's own server needs none, because the
    -- WAL that contains the grants also contains its use of the numbers.
    proves_loss := snowflake_registry.what_tokens_prove(evidence) IS NOT NULL;
    IF NOT (proves_loss OR is_local) AND shown.statements IS NOT NULL
       AND snowflake_registry.becomes_durable(shown.seen) THEN
        SELECT jsonb_object_agg(one.key, snowflake_registry.signed(one.value)) INTO tokens
        FROM jsonb_each_text(shown.statements) AS one;
    END IF;

    -- As in open_registry(), this check before the lock avoids a lock upgrade.
    loss := snowflake_registry.lost_numbers(checked.registry_id, call.requests, is_local);
    registry := snowflake_registry.open_registry(
        loss IS NOT NULL, evidence,
        -- Without a fleet there is no floor, so the quarantine can end although the server does not report its clock.
        NOT (SELECT settings.is_started FROM snowflake_registry.settings AS settings),
        proves_loss => proves_loss);
    IF loss IS NOT NULL THEN
        loss := snowflake_registry.lost_numbers(checked.registry_id, call.requests, is_local);
    END IF;
    IF loss IS NOT NULL THEN
        PERFORM snowflake_registry.enter_quarantine(loss);
        SELECT * INTO registry FROM snowflake_registry.settings;
    END IF;
    about.report_every := snowflake_registry.microseconds(snowflake_registry.call_every(registry));
    SELECT * INTO said FROM snowflake_registry.read_facts(request -> 'facts');

    FOR asked IN
        SELECT one.*
        FROM jsonb_array_elements(call.requests) WITH ORDINALITY AS element (value, ordinal),
             LATERAL snowflake_registry.read_request(element.ordinal, element.value, checked.registry_id)
                 AS one
        ORDER BY one.name COLLATE "C", element.ordinal
    LOOP
        IF is_limited AND NOT snowflake_registry.is_granted(asked.name) THEN
            -- The reply is the same whether or not the segment exists, and contains no token.
            answer := NULL;
            answer.outcome := 'denied';
            answer.detail := format('role %I may not use this segment: the administrator of the registry must call '
                                    'snowflake_registry.grant_segment(%L, %L)', session_user, left(asked.name, 255),
                                    quote_ident(session_user));
        ELSE
            BEGIN
                answer := snowflake_registry.take_range(
                    asked, said.node_name, is_local,
                    CASE WHEN registry.numbers_wait > '0'
                         THEN format('quarantine until %s: %s',
                                     snowflake_registry.in_words(registry.counted_at + registry.numbers_wait),
                                     left(registry.quarantine_reason, 200)) END,
                    registry.was_alone);
            EXCEPTION
                WHEN lock_not_available THEN
                    answer := NULL;
                    answer.outcome := 'busy';
                    answer.detail := 'other sessions held a lock on the segment for too long';
                -- For example, the time zone of the segment is not known on this server.
                WHEN data_exception THEN
                    answer := NULL;
                    answer.outcome := 'invalid';
                    answer.detail := left(SQLERRM, 300);
            END;
            IF answer.outcome = 'busy' THEN
                -- The remaining requests wait for a shorter time.
                PERFORM set_config('lock_timeout', '100ms', true);
            END IF;
            answer.token := tokens ->> asked.name;
            IF is_limited THEN
                -- The reason of a quarantine follows a colon, and may contain the name and numbers of another segment.
                answer.detail := CASE WHEN answer.outcome = ANY ('{busy,closed}') THEN split_part(answer.detail, ': ', 1)
                                      ELSE answer.detail END;
                answer.near := CASE WHEN snowflake_registry.is_granted(answer.near) THEN answer.near END;
            END IF;
        END IF;
        answer.lowest_protocol := about.lowest_protocol;
        answer.highest_protocol := about.highest_protocol;
        answer.request := asked.request;
        answer.name := asked.name;
        answer.registry_id := about.registry_id;
        answer.registry_clock := about.registry_clock;
        answer.report_every := about.report_every;
        answer.server_started := about.server_started;
        RETURN NEXT answer;
        is_answered := true;
    END LOOP;

    -- The row contains the identity and the clock of the registry.
    IF NOT is_answered THEN
        about.outcome := 'empty';
        RETURN NEXT about;
    END IF;
    IF tokens IS NOT NULL THEN
        PERFORM snowflake_registry.flush_at_commit();
    END IF;
END
$$;
COMMENT ON FUNCTION snowflake_registry.take_ranges(jsonb, boolean) IS
    'common implementation of take() and take_local()';

CREATE FUNCTION snowflake_registry.take(request jsonb) RETURNS SETOF snowflake_registry.taken
VOLATILE PARALLEL UNSAFE SECURITY DEFINER LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN QUERY SELECT * FROM snowflake_registry.take_ranges(request, false);
END
$$;
COMMENT ON FUNCTION snowflake_registry.take(jsonb) IS
    'grants ranges of numbers to a server';

-- This is a separate function, because a server that connects can claim anything about itself. Never grant EXECUTE on
-- this function.
CREATE FUNCTION snowflake_registry.take_local(request jsonb) RETURNS SETOF snowflake_registry.taken
VOLATILE PARALLEL UNSAFE SECURITY DEFINER LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN QUERY SELECT * FROM snowflake_registry.take_ranges(request, true);
END
$$;
COMMENT ON FUNCTION snowflake_registry.take_local(jsonb) IS
    'same as take(), for the registry''s own server';

-- The registry does not know which server took numbers in a lost commit. Therefore, every server that is allowed to
-- take numbers counts.
CREATE FUNCTION snowflake_registry.serves_others() RETURNS boolean
STABLE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN EXISTS (
        SELECT
        FROM pg_proc AS function,
             LATERAL aclexplode(coalesce(function.proacl, acldefault('f', function.proowner))) AS acl
        WHERE function.oid = 'snowflake_registry.take(jsonb)'::regprocedure
          AND acl.grantee <> function.proowner
    );
END
$$;
COMMENT ON FUNCTION snowflake_registry.serves_others() IS 'tests whether EXECUTE on take() has been granted to any role';
