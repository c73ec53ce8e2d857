-- Nobody can know what was taken in commits that are lost. Where none but the server of the registry itself
-- takes, nothing has to be closed: the WAL of a range precedes that of all rows with its numbers, as with a
-- sequence. Of a server whose first range is in a lost commit nothing is known: so all count that may take.
-- Needs the EXCLUSIVE lock.
CREATE FUNCTION snowflake_registry.close_segments(reason text) RETURNS void
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    closed bigint;
BEGIN
    UPDATE snowflake_registry.segment AS segment
    SET closed_reason = left('commits of the registry may be lost: ' || close_segments.reason, 200), seen_until = NULL,
        updated_at = clock_timestamp()
    WHERE segment.closed_reason IS NULL AND (segment.has_left OR snowflake_registry.serves_others());
    GET DIAGNOSTICS closed = ROW_COUNT;
    IF closed > 0 THEN
        RAISE LOG 'snowflake_id_registry: nobody gets numbers of % segments until they are resumed', closed
            USING DETAIL = format('Commits may be lost: %s.', reason),
                  HINT = 'SELECT snowflake_registry.resume_segment(name, next_value), or, if nothing was '
                         'lost: SELECT snowflake_registry.resume_segments();';
    END IF;
END
$$;
COMMENT ON FUNCTION snowflake_registry.close_segments(text) IS
    'gives out no numbers until the administrator says which were not given';

-- What may have been granted in commits that are lost has ended when a quarantine ends. Two minutes are for
-- the difference between the clocks of two servers. A server may have a lease that is longer than any the
-- registry knows of. Needs the EXCLUSIVE lock.
CREATE FUNCTION snowflake_registry.enter_quarantine(reason text) RETURNS void
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    allowance CONSTANT interval := '2 minutes';
    moment CONSTANT timestamptz := clock_timestamp();
    -- Also of what tokens have shown. A clock that was wrong may have granted more than a lease.
    longest CONSTANT interval := least('24 hours', coalesce(
        (SELECT max(granted_until) FROM snowflake_registry.lease) - moment, '0'));
    until timestamptz;
BEGIN
    UPDATE snowflake_registry.settings AS settings
    SET waits = greatest(waits, greatest(longest_lease, longest) + allowance),
        counted_at = moment,
        is_proved = true,
        is_witnessed = false,
        is_restarted = false,
        quarantine_reason = left(enter_quarantine.reason, 200),
        serial = serial + 1
    RETURNING counted_at + waits INTO until;
    -- Somebody else may have taken what had ended or was about to. And a server may have renewed in a commit
    -- that is lost: its nonce is not known any more. To take it for a twin would stop a sound server.
    UPDATE snowflake_registry.lease
    SET lease_id = CASE WHEN granted_until > moment + allowance THEN lease_id END,
        nonce = NULL
    WHERE lease_id IS NOT NULL;
    PERFORM snowflake_registry.close_segments(reason);
    PERFORM snowflake_registry.sign_settings();
    RAISE LOG 'snowflake_id_registry: quarantine: no server gets another worker ID before %',
        snowflake_registry.in_words(until)
        USING DETAIL = format('Commits may be lost: %s.', reason),
              HINT = 'If nothing was lost: SELECT snowflake_registry.end_quarantine();';
END
$$;
COMMENT ON FUNCTION snowflake_registry.enter_quarantine(text) IS
    'gives out nothing until lost grants have ended';

-- A disk that was set back shows nothing: it is the same server with the same timeline. But the server was
-- started, and those who have leases and numbers know better. They call each renew_every, also while it is away.
-- So they come first, and strangers wait for them; not with "synchronous", if nothing can be old.
CREATE FUNCTION snowflake_registry.after_restart(settings snowflake_registry.settings)
RETURNS snowflake_registry.settings
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT (settings.synchronous AND snowflake_registry.is_fresh(settings.renew_every)) THEN
        -- What began a quarantine is no less true.
        IF settings.waits <= '0' OR NOT settings.is_proved THEN
            settings.quarantine_reason := format(
                'the server of the registry was started at %s, and servers that hold leases come first',
                snowflake_registry.in_words(pg_postmaster_start_time()));
            settings.is_proved := false;
        END IF;
        settings.waits := greatest(settings.waits, settings.longest_lease + interval '2 minutes');
        settings.counted_at := clock_timestamp();
        settings.is_witnessed := false;
        settings.is_restarted := true;
    END IF;
    RETURN settings;
END
$$;
COMMENT ON FUNCTION snowflake_registry.after_restart(snowflake_registry.settings) IS
    'the settings when the server has just been started: nobody gets anything new';

-- Needs the EXCLUSIVE lock.
CREATE FUNCTION snowflake_registry.note_restart() RETURNS void
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    before snowflake_registry.settings;
    after snowflake_registry.settings;
BEGIN
    SELECT * INTO before FROM snowflake_registry.settings;
    after := snowflake_registry.after_restart(before);
    IF after.counted_at IS DISTINCT FROM before.counted_at THEN
        UPDATE snowflake_registry.settings
        SET waits = after.waits, counted_at = after.counted_at, is_proved = after.is_proved,
            is_witnessed = after.is_witnessed, is_restarted = after.is_restarted,
            quarantine_reason = after.quarantine_reason;
        RAISE LOG 'snowflake_id_registry: no server gets another worker ID before %, if no witness comes',
            snowflake_registry.in_words(after.counted_at + after.waits)
            USING DETAIL = format('Reason: %s.', after.quarantine_reason);
    END IF;
    -- A renewal may be in a commit that is lost: its nonce is not known. To take it for a twin would stop a sound server.
    UPDATE snowflake_registry.lease SET nonce = NULL WHERE nonce IS NOT NULL;
    PERFORM snowflake_registry.sign_settings();
END
$$;
COMMENT ON FUNCTION snowflake_registry.note_restart() IS
    'notes that the server has been started, and has those who know better come first';

-- Counted, and not read off a clock that may be set: the clock's advances from call to call, each with a minute at most.
-- A step back counts nothing. A witness has shown that servers reach the registry. The others renew as often as it does.
-- The end raises the floor. So it comes only with a server whose clock shows the same: a floor cannot be lowered.
-- Needs the EXCLUSIVE lock.
CREATE FUNCTION snowflake_registry.count_wait(clocks_agree boolean, tokens jsonb) RETURNS void
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    moment CONSTANT timestamptz := clock_timestamp();
    known snowflake_registry.settings;
BEGIN
    SELECT * INTO known FROM snowflake_registry.settings;
    IF NOT FOUND OR known.waits <= '0' THEN
        RETURN;
    END IF;
    IF clocks_agree THEN
        known.waits := known.waits - greatest(least(moment - known.counted_at, '1 minute'), '0');
    END IF;
    IF known.witnesses AND NOT known.is_proved AND NOT known.is_witnessed
       AND EXISTS (SELECT FROM snowflake_registry.read_tokens(tokens)) THEN
        known.is_witnessed := true;
        -- Who was refused asks again after half a second at the earliest, and may have to connect.
        known.waits := greatest(least(known.waits, 2.5 * greatest(known.renew_every, '1 second')), '1 microsecond');
    END IF;
    IF known.waits <= '0' THEN
        UPDATE snowflake_registry.settings
        SET waits = '0', is_proved = false, is_witnessed = false, quarantine_reason = NULL,
            nothing_before = CASE WHEN is_started THEN greatest(nothing_before, moment) ELSE nothing_before END;
    ELSE
        UPDATE snowflake_registry.settings
        SET waits = known.waits, is_witnessed = known.is_witnessed,
            counted_at = CASE WHEN clocks_agree OR known.counted_at > moment THEN moment ELSE counted_at END;
    END IF;
    PERFORM snowflake_registry.sign_settings();
END
$$;
COMMENT ON FUNCTION snowflake_registry.count_wait(boolean, jsonb) IS 'counts what is left of a quarantine, and ends it';
