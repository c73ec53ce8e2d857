-- Takes the lock, checks for lost commits, and returns the resulting settings. A caller that knows whether the tokens
-- prove a loss says so, because reading them takes time.
CREATE FUNCTION snowflake_registry.open_registry(
    is_alone boolean, tokens jsonb DEFAULT NULL, clocks_agree boolean DEFAULT false, lease_id uuid DEFAULT NULL,
    proves_loss boolean DEFAULT NULL
)
RETURNS snowflake_registry.settings
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    timeout CONSTANT text := current_setting('lock_timeout');
    loss record;
    proved text;
    is_due boolean;
    is_overdue boolean;
    opened snowflake_registry.settings;
BEGIN
    -- This check before the lock avoids a lock upgrade: two sessions that hold the weaker lock and request the
    -- stronger one would deadlock.
    IF NOT is_alone THEN
        SELECT * INTO loss FROM snowflake_registry.lost_commits();
        is_alone := loss.reason IS NOT NULL OR loss.has_moved
            OR coalesce(proves_loss, snowflake_registry.what_tokens_prove(tokens) IS NOT NULL);
        SELECT (settings.numbers_wait > '0' OR settings.waits > CASE WHEN clocks_agree THEN interval '0' ELSE '1 microsecond' END)
               AND (abs(extract(epoch FROM clock_timestamp() - settings.counted_at)) > 0.05
                    OR settings.witnesses AND NOT settings.is_witnessed
                       AND (settings.numbers_wait > '0' OR NOT settings.is_proved) AND tokens IS NOT NULL),
               clock_timestamp() - settings.counted_at > snowflake_registry.most_counted(settings)
        INTO is_due, is_overdue FROM snowflake_registry.settings AS settings;
        IF (loss.has_restarted OR is_due) AND NOT is_alone THEN
            -- After a start, all servers call at the same time. One of these calls updates the settings, and the other
            -- calls do not wait. If the time of a wait is no longer counted in full, a call waits for a short time, because
            -- one of many callers always holds the lock.
            BEGIN
                PERFORM set_config('lock_timeout', CASE WHEN is_overdue THEN '100ms' ELSE '1ms' END, true);
                LOCK TABLE snowflake_registry.settings IN EXCLUSIVE MODE;
                is_alone := true;
                PERFORM set_config('lock_timeout', timeout, true);
            EXCEPTION WHEN lock_not_available THEN
                -- If "synchronous" is set, the start must be recorded first: otherwise a renewal would make the data
                -- look recent, as if nothing had been lost.
                is_alone := loss.has_restarted AND (SELECT settings.synchronous FROM snowflake_registry.settings AS settings);
            END;
        END IF;
    END IF;
    IF is_alone THEN
        LOCK TABLE snowflake_registry.settings IN EXCLUSIVE MODE;
        -- Another session may have handled the loss in the meantime.
        SELECT * INTO loss FROM snowflake_registry.lost_commits();
        IF EXISTS (SELECT FROM snowflake_registry.guards_off()) THEN
            PERFORM snowflake_registry.switch_guards_on();
        END IF;
        proved := snowflake_registry.what_tokens_prove(tokens);
        IF proved IS NOT NULL THEN
            PERFORM snowflake_registry.learn_from_tokens(tokens, lease_id);
        END IF;
        IF coalesce(loss.reason, proved) IS NOT NULL THEN
            PERFORM snowflake_registry.enter_quarantine(coalesce(loss.reason, proved));
        ELSIF loss.has_moved OR loss.has_restarted THEN
            PERFORM snowflake_registry.note_restart();
        END IF;
        PERFORM snowflake_registry.count_wait(clocks_agree, tokens);
    ELSE
        LOCK TABLE snowflake_registry.settings IN ROW SHARE MODE;
    END IF;
    SELECT * INTO opened FROM snowflake_registry.settings;
    IF NOT FOUND AND EXISTS (SELECT FROM snowflake_registry.signing_key) THEN
        -- Without the row, a loss of commits cannot be detected.
        RAISE EXCEPTION 'the row of table "settings" of the registry is missing'
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  DETAIL = 'The registry has a signing key, which is created together with the row. A dump may have been restored in part.',
                  HINT = 'Drop the extension, create it in the version of the dump, and restore the dump with the option --exit-on-error. '
                         'Then run ALTER EXTENSION snowflake_id_registry UPDATE;';
    END IF;
    IF opened.server_started IS DISTINCT FROM pg_postmaster_start_time() THEN
        -- Other sessions held the lock, so the start was not recorded. This call behaves as if it had been recorded.
        opened := snowflake_registry.after_restart(opened);
    END IF;
    RETURN opened;
END
$$;
COMMENT ON FUNCTION snowflake_registry.open_registry(boolean, jsonb, boolean, uuid, boolean) IS
    'takes the lock, and checks whether commits were lost';

-- Creates the view that prevents DROP EXTENSION. Because the view is created after the extension, it depends on the
-- extension without being a member. The error message shows the name of the view.
CREATE FUNCTION snowflake_registry.guard_fleet() RETURNS void
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF to_regclass('snowflake_registry.the_fleet_is_in_use_call_end_fleet_first') IS NULL THEN
        CREATE VIEW snowflake_registry.the_fleet_is_in_use_call_end_fleet_first AS
            SELECT count(*) AS live_leases
            FROM snowflake_registry.lease WHERE coalesce(used_until, granted_until) > clock_timestamp();
        COMMENT ON VIEW snowflake_registry.the_fleet_is_in_use_call_end_fleet_first IS
            'prevents DROP EXTENSION while the fleet is in use; end_fleet() removes the view';
        REVOKE ALL ON snowflake_registry.the_fleet_is_in_use_call_end_fleet_first FROM PUBLIC;
    END IF;
END
$$;
COMMENT ON FUNCTION snowflake_registry.guard_fleet() IS 'makes DROP EXTENSION fail unless CASCADE is specified';

-- Fills in the common columns of an answer, and refuses servers in cases that can be detected without a lock. If the
-- server is not refused, outcome is NULL. The clock of a holder that releases its lease does not matter.
CREATE FUNCTION snowflake_registry.begin_answer(
    request jsonb, compares_clocks boolean,
    OUT answer snowflake_registry.answer, OUT protocol int, OUT clock_offset bigint
)
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    checked CONSTANT record := snowflake_registry.check_request(request);
    known snowflake_registry.settings;
    furthest CONSTANT bigint := 60000000;
BEGIN
    SELECT * INTO known FROM snowflake_registry.settings;
    answer.lowest_protocol := checked.lowest;
    answer.highest_protocol := checked.highest;
    answer.registry_id := known.registry_id;
    answer.registry_clock := snowflake_registry.microseconds(statement_timestamp());
    answer.lease := snowflake_registry.microseconds(known.lease);
    answer.outcome := checked.outcome;
    answer.detail := checked.detail;
    protocol := checked.protocol;
    IF answer.outcome IS NOT NULL THEN
        RETURN;
    ELSIF checked.registry_id IS NOT NULL AND checked.registry_id IS DISTINCT FROM known.registry_id THEN
        answer.outcome := 'foreign';
        answer.detail := format('this registry is %s, not %s', coalesce(known.registry_id::text, 'a new one'),
                                checked.registry_id);
        RETURN;
    ELSIF NOT compares_clocks THEN
        RETURN;
    END IF;
    -- The bounds prevent an overflow of the sum.
    clock_offset := greatest(least(snowflake_registry.number_of(request, 'clock'), 4611686018427387904),
                             -4611686018427387904)
        - answer.registry_clock
        + greatest(least(coalesce(snowflake_registry.number_of(request, 'round_trip'), 0), furthest), 0) / 2;
    IF request ->> 'clock' IS NULL OR abs(clock_offset) > furthest THEN
        answer.outcome := 'clock';
        answer.detail := CASE
            WHEN request ->> 'clock' IS NULL THEN 'the server did not report its clock'
            ELSE format('the clock of the server is %s s %s the clock of the registry, and at most %s s are '
                        'accepted', abs(clock_offset) / 1000000,
                        CASE WHEN clock_offset < 0 THEN 'behind' ELSE 'ahead of' END, furthest / 1000000)
        END;
    END IF;
END
$$;
COMMENT ON FUNCTION snowflake_registry.begin_answer(jsonb, boolean) IS
    'starts an answer: fills in the common columns, and refuses a server with another protocol, registry or clock';
