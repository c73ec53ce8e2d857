-- The registry does not know which numbers were granted in lost commits. If only the registry's own server takes
-- numbers, segments stay open: as with a sequence, the WAL of a range precedes the WAL of all rows with numbers of the
-- range. If a lost commit granted the first range of another server, the registry does not know that server. Therefore,
-- segments are closed if any other server is allowed to take numbers. The caller must hold the EXCLUSIVE lock.
CREATE FUNCTION snowflake_registry.close_segments(reason text) RETURNS void
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    closed bigint;
BEGIN
    UPDATE snowflake_registry.segment AS segment
    SET closed_reason = left('commits of the registry may have been lost: ' || close_segments.reason, 200), seen_until = NULL,
        updated_at = clock_timestamp()
    WHERE segment.closed_reason IS NULL AND (segment.has_left OR snowflake_registry.serves_others());
    GET DIAGNOSTICS closed = ROW_COUNT;
    IF closed > 0 THEN
        RAISE LOG 'snowflake_id_registry: closed % segments until they are resumed', closed
            USING DETAIL = format('Commits may have been lost: %s.', reason),
                  HINT = 'To open a segment: SELECT snowflake_registry.resume_segment(name, next_value); If no commits were '
                         'lost: SELECT snowflake_registry.resume_segments();';
    END IF;
END
$$;
COMMENT ON FUNCTION snowflake_registry.close_segments(text) IS
    'closes segments until the administrator specifies where they continue';

-- When a quarantine ends, all ranges that may have been granted in lost commits have ended. The allowance of two
-- minutes covers the difference between the clocks of two servers. A server may hold a longer lease than all leases
-- that the registry knows. The caller must hold the EXCLUSIVE lock.
CREATE FUNCTION snowflake_registry.enter_quarantine(reason text, closes_segments boolean DEFAULT true) RETURNS void
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    allowance CONSTANT interval := '2 minutes';
    moment CONSTANT timestamptz := clock_timestamp();
    -- This includes grants that the registry has learned from tokens. If the clock was ahead, a granted range may extend
    -- further into the future than the duration of a lease. Ranges that servers reject, as renew() does, do not count: their
    -- limit is 1 minute, by a clock that may be 2 minutes ahead of this one.
    longest CONSTANT interval := coalesce(
        (SELECT max(granted_until) FROM snowflake_registry.lease
         WHERE granted_until <= moment + interval '24 hours 3 minutes') - moment, '0');
    until timestamptz;
BEGIN
    UPDATE snowflake_registry.settings AS settings
    SET waits = greatest(waits, greatest(longest_lease, longest) + allowance),
        counted_at = moment,
        is_proved = true,
        is_witnessed = false,
        -- All affected segments are closed, and open segments need not wait.
        numbers_wait = CASE WHEN closes_segments THEN '0' ELSE numbers_wait END,
        quarantine_reason = left(enter_quarantine.reason, 200),
        serial = serial + 1,
        -- In a restored dump, this may be the ID of a later transaction of this server.
        counted_by = NULL
    RETURNING counted_at + waits INTO until;
    -- If the lease of an identity had ended, or was about to end, a lost commit may have granted the identity to
    -- another server. If the last renewal of a server was lost, the stored nonce is out of date. The nonce is removed,
    -- because otherwise the server would be treated as a copy and would stop issuing IDs.
    UPDATE snowflake_registry.lease
    SET lease_id = CASE WHEN granted_until > moment + allowance THEN lease_id END,
        nonce = NULL
    WHERE lease_id IS NOT NULL;
    IF closes_segments THEN
        PERFORM snowflake_registry.close_segments(reason);
    END IF;
    PERFORM snowflake_registry.sign_settings();
    RAISE LOG 'snowflake_id_registry: quarantine: no server gets a new worker ID before %',
        snowflake_registry.in_words(until)
        USING DETAIL = format('%s: %s.', CASE WHEN closes_segments THEN 'Commits may have been lost' ELSE 'Reason' END, reason),
              HINT = snowflake_registry.hint_of_quarantine();
END
$$;
COMMENT ON FUNCTION snowflake_registry.enter_quarantine(text, boolean) IS
    'starts a quarantine, which lasts until all ranges granted in lost commits have ended';

-- The registry cannot detect that its disk was restored to an earlier state, because the server and the timeline are
-- the same. However, the server must have been started, and the servers that hold leases and numbers know about later
-- grants. These servers call once per renew_every, even while the registry is down. Therefore, they are served first,
-- and unrecognized servers wait. If "synchronous" is set and the data of the registry are recent, unrecognized servers
-- do not wait.
CREATE FUNCTION snowflake_registry.after_restart(settings snowflake_registry.settings)
RETURNS snowflake_registry.settings
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT (settings.synchronous AND snowflake_registry.is_fresh(settings.renew_every)) THEN
        -- If a quarantine is already in progress, its reason is kept.
        IF settings.waits <= '0' OR NOT settings.is_proved THEN
            settings.quarantine_reason := format(
                'the server of the registry was started at %s, and servers that hold leases are served first',
                snowflake_registry.in_words(pg_postmaster_start_time()));
            settings.is_proved := false;
        END IF;
        settings.numbers_wait := settings.longest_lease + interval '2 minutes';
        settings.waits := greatest(settings.waits, settings.numbers_wait);
        settings.counted_at := clock_timestamp();
        settings.is_witnessed := false;
        settings.was_alone := NOT snowflake_registry.serves_others();
    END IF;
    RETURN settings;
END
$$;
COMMENT ON FUNCTION snowflake_registry.after_restart(snowflake_registry.settings) IS
    'returns the settings after a start of the server, with a quarantine if one is needed';

-- The caller must hold the EXCLUSIVE lock.
CREATE FUNCTION snowflake_registry.note_restart() RETURNS void
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    before snowflake_registry.settings;
    after snowflake_registry.settings;
BEGIN
    SELECT * INTO before FROM snowflake_registry.settings;
    after := snowflake_registry.after_restart(before);
    IF after IS DISTINCT FROM before THEN
        UPDATE snowflake_registry.settings
        SET waits = after.waits, counted_at = after.counted_at, is_proved = after.is_proved,
            is_witnessed = after.is_witnessed, numbers_wait = after.numbers_wait, was_alone = after.was_alone,
            quarantine_reason = after.quarantine_reason;
        RAISE LOG 'snowflake_id_registry: no server gets a new worker ID before %, unless a witness shortens the quarantine',
            snowflake_registry.in_words(after.counted_at + after.waits)
            USING DETAIL = format('Reason: %s.', after.quarantine_reason),
                  HINT = snowflake_registry.hint_of_quarantine();
    END IF;
    -- As in enter_quarantine(), stored nonces may be out of date.
    UPDATE snowflake_registry.lease SET nonce = NULL WHERE nonce IS NOT NULL;
    PERFORM snowflake_registry.sign_settings();
END
$$;
COMMENT ON FUNCTION snowflake_registry.note_restart() IS
    'records a start of the server, so that servers that hold leases are served first';

-- The longest time between two calls that counts. A single step of the clock takes away at most a fifth of a wait, because
-- the shortest wait lasts for two and a half renewals.
CREATE FUNCTION snowflake_registry.most_counted(settings snowflake_registry.settings) RETURNS interval
IMMUTABLE PARALLEL SAFE LANGUAGE sql
RETURN least(interval '1 minute', greatest(settings.renew_every, interval '1 second') / 2);
COMMENT ON FUNCTION snowflake_registry.most_counted(snowflake_registry.settings) IS
    'maximum time between two calls that counts as time of a wait';

-- During a wait, servers call so often that all of the time counts, even if there is only one server.
CREATE FUNCTION snowflake_registry.call_every(settings snowflake_registry.settings) RETURNS interval
STABLE PARALLEL SAFE LANGUAGE sql
RETURN CASE
    WHEN settings.waits > '1 microsecond' OR settings.server_started <> pg_postmaster_start_time()
    THEN least(settings.renew_every, snowflake_registry.most_counted(settings))
    ELSE settings.renew_every END;
COMMENT ON FUNCTION snowflake_registry.call_every(snowflake_registry.settings) IS
    'interval at which servers are told to call: renew_every, or a shorter interval during a wait';

-- The registry counts the time of a wait from call to call, because the clock may be set. A backward step counts as zero. A
-- witness proves that servers reach the registry, and the other servers call as often as the witness. The wait for numbers
-- simply ends. The end of a quarantine raises the floor, which can never be lowered. Therefore, a quarantine ends only in a
-- call of a server whose clock agrees with the clock of the registry. The caller must hold the EXCLUSIVE lock.
CREATE FUNCTION snowflake_registry.count_wait(clocks_agree boolean, tokens jsonb) RETURNS void
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    moment CONSTANT timestamptz := clock_timestamp();
    known snowflake_registry.settings;
    passed interval;
    -- A refused server waits for at least half a second before its next request, and may have to connect first.
    short interval;
BEGIN
    SELECT * INTO known FROM snowflake_registry.settings;
    IF NOT FOUND OR known.waits <= '0' THEN
        RETURN;
    END IF;
    passed := greatest(least(moment - known.counted_at, snowflake_registry.most_counted(known)), '0');
    known.waits := known.waits - passed;
    known.numbers_wait := greatest(known.numbers_wait - passed, '0');
    IF known.witnesses AND NOT known.is_witnessed AND (known.numbers_wait > '0' OR NOT known.is_proved)
       AND EXISTS (SELECT FROM snowflake_registry.read_tokens(tokens) AS shown WHERE shown.serial IS NOT NULL) THEN
        known.is_witnessed := true;
        short := 2.5 * greatest(known.longest_renewal, '1 second');
        known.numbers_wait := least(known.numbers_wait, short);
        IF NOT known.is_proved THEN
            known.waits := least(known.waits, short);
        END IF;
    END IF;
    IF known.waits <= '1 microsecond' AND clocks_agree THEN
        UPDATE snowflake_registry.settings
        SET waits = '0', numbers_wait = '0', is_proved = false, is_witnessed = false, quarantine_reason = NULL,
            nothing_before = CASE WHEN is_started THEN greatest(nothing_before, moment) ELSE nothing_before END;
    ELSE
        UPDATE snowflake_registry.settings
        SET waits = greatest(known.waits, '1 microsecond'), numbers_wait = known.numbers_wait,
            is_witnessed = known.is_witnessed, counted_at = moment;
    END IF;
    PERFORM snowflake_registry.sign_settings();
END
$$;
COMMENT ON FUNCTION snowflake_registry.count_wait(boolean, jsonb) IS 'updates the remaining time of the waits, and ends the quarantine when no time remains';
