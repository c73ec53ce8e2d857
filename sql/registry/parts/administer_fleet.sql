-- What administrators call ------------------------------------------------------------------------------

-- Takes the lock, and makes the row of the settings if it is not there yet.
CREATE FUNCTION snowflake_registry.begin_order() RETURNS snowflake_registry.settings
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    opened snowflake_registry.settings;
BEGIN
    PERFORM snowflake_registry.begin_call();
    opened := snowflake_registry.open_registry(true);
    IF opened.registry_id IS NULL THEN
        INSERT INTO snowflake_registry.settings DEFAULT VALUES RETURNING * INTO opened;
        PERFORM snowflake_registry.sign_settings();
        PERFORM snowflake_registry.make_key();
    END IF;
    RETURN opened;
END
$$;
COMMENT ON FUNCTION snowflake_registry.begin_order() IS 'for the functions of administrators: takes the lock';

-- What administrators are told of an end, they tell other registries. In a quarantine more may have been granted than the
-- tables know of. A witness shortens the quarantine, not the leases.
CREATE FUNCTION snowflake_registry.end_with_forgotten(known timestamptz, settings snowflake_registry.settings)
RETURNS timestamptz
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN CASE
        WHEN settings.waits > '0'
        THEN greatest(known, settings.counted_at + settings.waits,
                      clock_timestamp() + settings.longest_lease + interval '2 minutes')
        ELSE known
    END;
END
$$;
COMMENT ON FUNCTION snowflake_registry.end_with_forgotten(timestamptz, snowflake_registry.settings) IS
    'an end that the registry knows, or, in a quarantine, that of what it may have forgotten';

CREATE FUNCTION snowflake_registry.start_fleet(not_before timestamptz DEFAULT NULL) RETURNS void
VOLATILE PARALLEL UNSAFE SECURITY DEFINER LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    furthest CONSTANT timestamptz := clock_timestamp() + interval '24 hours';
    registry snowflake_registry.settings;
    given bigint;
BEGIN
    IF start_fleet.not_before > furthest THEN
        -- No lease reaches further, and the floor cannot be lowered.
        RAISE EXCEPTION 'not_before cannot be %', start_fleet.not_before
            USING ERRCODE = 'invalid_parameter_value',
                  DETAIL = 'It is at most 24 hours ahead of the clock.',
                  HINT = 'Freeze the other registry up to an earlier time.';
    END IF;
    registry := snowflake_registry.begin_order();
    -- What is only reserved was never given.
    SELECT count(*) INTO given FROM snowflake_registry.lease WHERE grant_count > 0;
    IF given > 0 THEN
        RAISE EXCEPTION 'there is a fleet already'
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  DETAIL = format('Worker IDs that this registry has given: %s.', given),
                  HINT = CASE WHEN registry.is_started
                      THEN 'If it is in quarantine and nothing was lost: SELECT snowflake_registry.end_quarantine();'
                      ELSE 'To go on with it: SELECT snowflake_registry.quarantine();' END;
    END IF;
    UPDATE snowflake_registry.settings
    -- A quarantine goes on, and the floor never falls.
    SET nothing_before = greatest(nothing_before, clock_timestamp(), start_fleet.not_before),
        is_started = true;
    PERFORM snowflake_registry.sign_settings();
    PERFORM snowflake_registry.guard_fleet();
END
$$;
COMMENT ON FUNCTION snowflake_registry.start_fleet(timestamptz) IS
    'begins to give out worker IDs, for times from an instant on; says that no server has one from another registry for '
    'such times';

CREATE FUNCTION snowflake_registry.end_fleet() RETURNS void
VOLATILE PARALLEL UNSAFE SECURITY DEFINER LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    registry CONSTANT snowflake_registry.settings := snowflake_registry.begin_order();
    live record;
BEGIN
    IF registry.waits > '0' THEN
        RAISE EXCEPTION 'servers may still make IDs with worker IDs of this registry'
            USING ERRCODE = 'object_in_use',
                  DETAIL = format('It may have forgotten ranges that it granted. Quarantine until %s: %s.',
                                  snowflake_registry.in_words(registry.counted_at + registry.waits),
                                  registry.quarantine_reason),
                  HINT = 'If nothing was lost, or no server makes IDs with them any more: '
                         'SELECT snowflake_registry.end_quarantine();';
    END IF;
    SELECT count(*) AS leases, max(granted_until) AS until INTO live
    FROM snowflake_registry.lease WHERE granted_until > clock_timestamp();
    IF live.leases > 0 THEN
        RAISE EXCEPTION 'servers may still make IDs with worker IDs of this registry'
            USING ERRCODE = 'object_in_use',
                  DETAIL = format('Ranges that have not ended: %s, the last of them at %s.', live.leases,
                                  snowflake_registry.in_words(live.until)),
                  HINT = 'Stop the servers, or take their worker IDs away (snowflake_registry.revoke_lease()), '
                         'and wait until then.';
    END IF;
    UPDATE snowflake_registry.settings SET is_started = false;
    PERFORM snowflake_registry.sign_settings();
    DROP VIEW IF EXISTS snowflake_registry.the_fleet_is_in_use_call_end_fleet_first;
END
$$;
COMMENT ON FUNCTION snowflake_registry.end_fleet() IS
    'gives out no more worker IDs, and lets DROP EXTENSION work; fails while any is in use';

CREATE FUNCTION snowflake_registry.revoke_lease(worker_id int, datacenter_id int DEFAULT 0) RETURNS timestamptz
VOLATILE PARALLEL UNSAFE SECURITY DEFINER LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    registry CONSTANT snowflake_registry.settings := snowflake_registry.begin_order();
    taken record;
    last_end timestamptz;
BEGIN
    UPDATE snowflake_registry.lease AS lease SET lease_id = NULL, nonce = NULL
    WHERE lease.worker_id = revoke_lease.worker_id AND lease.datacenter_id = revoke_lease.datacenter_id
      AND lease.lease_id IS NOT NULL
    RETURNING * INTO taken;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'nobody holds worker ID % of datacenter %',
            revoke_lease.worker_id, revoke_lease.datacenter_id
            USING ERRCODE = 'no_data_found', HINT = 'SELECT * FROM snowflake_registry.fleet;';
    END IF;
    last_end := snowflake_registry.end_with_forgotten(taken.granted_until, registry);
    RAISE LOG 'snowflake_id_registry: worker ID % (datacenter %) is taken from %',
        taken.worker_id, taken.datacenter_id,
        snowflake_registry.server_in_words(taken.node_name, taken.host, taken.port)
        USING DETAIL = format('Its range ends at %s.', snowflake_registry.in_words(last_end));
    RETURN last_end;
END
$$;
COMMENT ON FUNCTION snowflake_registry.revoke_lease(int, int) IS
    'has the server that holds this worker ID get another; returns when its range ends, as it may go on '
    'until then';

CREATE FUNCTION snowflake_registry.note_order() RETURNS void
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE snowflake_registry.settings
    SET serial = serial + 1, orders = array_append(orders, left(gen_random_uuid()::text, 8));
    PERFORM snowflake_registry.sign_settings();
END
$$;
COMMENT ON FUNCTION snowflake_registry.note_order() IS
    'for freeze(), unfreeze() and reserve(): names the call, so that servers find out if it is lost';

-- Who holds it goes on until its lease ends, and has it for good by its settings.
CREATE FUNCTION snowflake_registry.reserve(worker_id int, datacenter_id int DEFAULT 0) RETURNS void
VOLATILE PARALLEL UNSAFE SECURITY DEFINER LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    moment CONSTANT timestamptz := clock_timestamp();
BEGIN
    IF coalesce(reserve.worker_id < 0 OR reserve.datacenter_id < 0, true) THEN
        RAISE EXCEPTION 'worker ID and datacenter ID cannot be negative or NULL'
            USING ERRCODE = 'invalid_parameter_value',
                  DETAIL = format('They are %s and %s.', coalesce(reserve.worker_id::text, 'NULL'),
                                  coalesce(reserve.datacenter_id::text, 'NULL')),
                  HINT = 'Those that were given: SELECT * FROM snowflake_registry.fleet;';
    END IF;
    PERFORM snowflake_registry.begin_order();
    INSERT INTO snowflake_registry.lease (
        datacenter_id, worker_id, granted_from, granted_until, acquired_at, renewed_at, grant_count, is_reserved
    )
    VALUES (reserve.datacenter_id, reserve.worker_id, moment, moment, moment, moment, 0, true)
    ON CONFLICT (datacenter_id, worker_id) DO UPDATE SET is_reserved = true;
    PERFORM snowflake_registry.note_order();
    RAISE LOG 'snowflake_id_registry: worker ID % (datacenter %) was reserved by %',
        reserve.worker_id, reserve.datacenter_id, session_user;
END
$$;
COMMENT ON FUNCTION snowflake_registry.reserve(int, int) IS
    'never gives this worker ID to anybody again; for a server that keeps it without the registry';

-- Before servers go over to another registry, or do without one: whatever this one gave they could be given there as well.
CREATE FUNCTION snowflake_registry.freeze(until timestamptz DEFAULT 'infinity') RETURNS timestamptz
VOLATILE PARALLEL UNSAFE SECURITY DEFINER LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    registry snowflake_registry.settings;
    last_end timestamptz;
BEGIN
    IF until IS NULL THEN
        RAISE EXCEPTION 'until cannot be NULL'
            USING ERRCODE = 'null_value_not_allowed',
                  HINT = 'To extend leases without end: SELECT snowflake_registry.freeze();';
    END IF;
    registry := snowflake_registry.begin_order();
    -- Tokens hold microseconds of Unix time. What lies further away is as good as without end, or over.
    until := CASE WHEN until >= '10000-01-01 00:00:00+00' THEN 'infinity'
                  ELSE greatest(until, '1970-01-01 00:00:00+00') END;
    IF until > registry.frozen_until THEN
        RAISE EXCEPTION 'the registry is frozen up to an earlier time already'
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  DETAIL = format('It is frozen up to %s, where another registry may begin.', registry.frozen_until),
                  HINT = 'If none does: SELECT snowflake_registry.unfreeze();';
    END IF;
    UPDATE snowflake_registry.settings SET frozen_until = until;
    PERFORM snowflake_registry.note_order();
    SELECT snowflake_registry.end_with_forgotten(greatest(max(lease.granted_until), until), registry) INTO last_end
    FROM snowflake_registry.lease AS lease;
    RAISE LOG 'snowflake_id_registry: frozen by %', session_user
        USING DETAIL = format('No lease ends later than %s.', CASE
            WHEN isfinite(last_end) THEN snowflake_registry.in_words(last_end) ELSE 'it is renewed' END);
    RETURN last_end;
END
$$;
COMMENT ON FUNCTION snowflake_registry.freeze(timestamptz) IS
    'gives no more worker IDs and numbers, and extends no lease beyond an instant; returns when the last lease will have '
    'ended, if it is renewed';

CREATE FUNCTION snowflake_registry.unfreeze() RETURNS void
VOLATILE PARALLEL UNSAFE SECURITY DEFINER LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    registry CONSTANT snowflake_registry.settings := snowflake_registry.begin_order();
BEGIN
    IF registry.frozen_until IS NULL THEN
        RAISE EXCEPTION 'the registry is not frozen' USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    UPDATE snowflake_registry.settings SET frozen_until = NULL;
    PERFORM snowflake_registry.note_order();
    RAISE LOG 'snowflake_id_registry: the freeze was ended by %', session_user;
END
$$;
COMMENT ON FUNCTION snowflake_registry.unfreeze() IS
    'goes on after freeze(); says that no other registry and no setting has given what this one may give';

CREATE FUNCTION snowflake_registry.quarantine() RETURNS timestamptz
VOLATILE PARALLEL UNSAFE SECURITY DEFINER LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM snowflake_registry.begin_order();
    -- Whoever does not know what was before may begin like this.
    UPDATE snowflake_registry.settings
    SET is_started = true, nothing_before = greatest(nothing_before, clock_timestamp())
    WHERE NOT is_started;
    PERFORM snowflake_registry.enter_quarantine('its administrator called quarantine()');
    PERFORM snowflake_registry.guard_fleet();
    RETURN (SELECT counted_at + waits FROM snowflake_registry.settings);
END
$$;
COMMENT ON FUNCTION snowflake_registry.quarantine() IS
    'gives out no worker IDs until all that may have been granted has ended, and returns when that is; '
    'renewals go on';

CREATE FUNCTION snowflake_registry.end_quarantine() RETURNS void
VOLATILE PARALLEL UNSAFE SECURITY DEFINER LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    registry CONSTANT snowflake_registry.settings := snowflake_registry.begin_order();
BEGIN
    IF NOT registry.is_started AND registry.waits <= '0' THEN
        RAISE EXCEPTION 'the registry has not been started'
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  HINT = 'If no server has had a worker ID from a registry before: '
                         'SELECT snowflake_registry.start_fleet(); if you are not sure: '
                         'SELECT snowflake_registry.quarantine();';
    END IF;
    UPDATE snowflake_registry.settings
    SET waits = '0', is_proved = false, is_witnessed = false, quarantine_reason = NULL;
    PERFORM snowflake_registry.sign_settings();
    IF registry.is_started THEN
        PERFORM snowflake_registry.guard_fleet();
    END IF;
    RAISE LOG 'snowflake_id_registry: quarantine ended by %', session_user;
END
$$;
COMMENT ON FUNCTION snowflake_registry.end_quarantine() IS
    'gives out worker IDs again; says that no commits of the registry were lost';

CREATE FUNCTION snowflake_registry.configure(
    lease interval DEFAULT NULL, renew_every interval DEFAULT NULL, first_worker int DEFAULT NULL,
    last_worker int DEFAULT NULL, synchronous boolean DEFAULT NULL, last_datacenter int DEFAULT NULL,
    witnesses boolean DEFAULT NULL
)
RETURNS void
VOLATILE PARALLEL UNSAFE SECURITY DEFINER LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    messages CONSTANT text := current_setting('client_min_messages');
    registry CONSTANT snowflake_registry.settings := snowflake_registry.begin_order();
    -- A day is not always as long as another: spans are kept in seconds.
    new_lease CONSTANT interval :=
        coalesce(make_interval(secs => extract(epoch FROM configure.lease)::float8), registry.lease);
    new_renewal CONSTANT interval :=
        coalesce(make_interval(secs => extract(epoch FROM configure.renew_every)::float8),
                 registry.renew_every);
    new_first CONSTANT int := coalesce(configure.first_worker, registry.first_worker);
    new_last CONSTANT int := coalesce(configure.last_worker, registry.last_worker);
BEGIN
    IF new_lease NOT BETWEEN '1 second' AND '24 hours' THEN
        RAISE EXCEPTION 'a lease of % is not possible', configure.lease
            USING ERRCODE = 'invalid_parameter_value',
                  DETAIL = 'It lies between 1 second and 24 hours.',
                  HINT = 'It is how long a server goes on without the registry, and how long the worker ID '
                         'of one that died is taken.';
    ELSIF new_renewal < '100 milliseconds' OR new_renewal * 2 > new_lease THEN
        RAISE EXCEPTION 'renewal every % does not go with a lease of %', new_renewal, new_lease
            USING ERRCODE = 'invalid_parameter_value',
                  DETAIL = 'It lies between 100 milliseconds and half of the lease.',
                  HINT = 'Give both: SELECT snowflake_registry.configure(lease => ''10 minutes'', '
                         'renew_every => ''1 minute'');';
    ELSIF new_first < 0 OR new_last < new_first THEN
        RAISE EXCEPTION 'there are no worker IDs from % to %', new_first, new_last
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = 'Give both: '
                         'SELECT snowflake_registry.configure(first_worker => 0, last_worker => 1023);';
    END IF;
    IF configure.last_datacenter < 0 THEN
        RAISE EXCEPTION 'last_datacenter cannot be %', configure.last_datacenter
            USING ERRCODE = 'invalid_parameter_value', DETAIL = 'It is 0 or higher.';
    END IF;
    UPDATE snowflake_registry.settings
    SET lease = new_lease,
        -- Quarantine has to last as long as any lease that was ever given.
        longest_lease = greatest(longest_lease, new_lease),
        renew_every = new_renewal,
        first_worker = new_first,
        last_worker = new_last,
        last_datacenter = coalesce(configure.last_datacenter, last_datacenter),
        synchronous = coalesce(configure.synchronous, synchronous),
        witnesses = coalesce(configure.witnesses, witnesses);
    PERFORM snowflake_registry.sign_settings();
    IF new_lease <= '2 minutes' AND configure.lease IS NOT NULL THEN
        PERFORM set_config('client_min_messages', messages, true);
        RAISE NOTICE 'a lease of % does not outlive a quarantine', new_lease
            USING DETAIL = 'What ends within 2 minutes is nobody''s when a quarantine begins: each server '
                           'then stops at the end of its lease, and gets no other before the quarantine '
                           'ends.',
                  HINT = 'SELECT snowflake_registry.configure(lease => ''10 minutes'');';
    END IF;
END
$$;
COMMENT ON FUNCTION snowflake_registry.configure(interval, interval, int, int, boolean, int, boolean) IS
    'changes those settings of the registry that are given; servers learn of them when they renew';
