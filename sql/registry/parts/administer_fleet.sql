-- Functions for administrators ---------------------------------------------------------------------------

-- Takes the lock, and inserts the row of table settings if it does not exist.
CREATE FUNCTION snowflake_registry.begin_request() RETURNS snowflake_registry.settings
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
COMMENT ON FUNCTION snowflake_registry.begin_request() IS 'starts a function for administrators: takes the lock';

-- Administrators pass the result to start_fleet() of other registries. In a quarantine, the registry may have granted
-- ranges that the tables do not contain. A witness shortens the quarantine, but not the leases.
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
    'given end, or, in a quarantine, the latest end of ranges that may have been granted in lost commits';

CREATE FUNCTION snowflake_registry.check_pool(first_worker int, last_worker int) RETURNS void
IMMUTABLE PARALLEL SAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF num_nulls(first_worker, last_worker) = 2 THEN
        RAISE EXCEPTION 'the pool of worker IDs has not been specified'
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  DETAIL = 'The registry grants all worker IDs of its pool. Worker IDs that are set by hand must be outside the '
                           'pool: in snowflake_id.worker_id, also on standbys, in table snowflake_workers, in programs and '
                           'scripts, and at other sites. A worker ID that was leased once is never used by hand, even if it is '
                           'outside the pool later.',
                  HINT = 'If none of these is 512 or higher: '
                         'SELECT snowflake_registry.configure(first_worker => 512, last_worker => 1023); '
                         'Then repeat the call.';
    ELSIF NOT coalesce(first_worker >= 0 AND last_worker >= first_worker, false) THEN
        RAISE EXCEPTION 'invalid range of worker IDs: % to %', coalesce(first_worker::text, 'NULL'),
            coalesce(last_worker::text, 'NULL')
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = 'Set both parameters: '
                         'SELECT snowflake_registry.configure(first_worker => 512, last_worker => 1023);';
    END IF;
END
$$;
COMMENT ON FUNCTION snowflake_registry.check_pool(int, int) IS 'raises an error if these are not the bounds of a pool';

-- Since the pool was specified, servers may have been numbered by hand outside it.
CREATE FUNCTION snowflake_registry.check_growth(
    settings snowflake_registry.settings, first_worker int, last_worker int
)
RETURNS void
IMMUTABLE PARALLEL SAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    below CONSTANT bigint := least(check_growth.last_worker, settings.first_worker - 1);
    above CONSTANT bigint := greatest(check_growth.first_worker, settings.last_worker + 1::bigint);
BEGIN
    IF check_growth.first_worker < settings.first_worker OR check_growth.last_worker > settings.last_worker THEN
        RAISE EXCEPTION 'worker IDs % were not in the pool so far', concat_ws(
            ' and ',
            CASE WHEN check_growth.first_worker <= below THEN format('%s to %s', check_growth.first_worker, below) END,
            CASE WHEN above <= check_growth.last_worker THEN format('%s to %s', above, check_growth.last_worker) END)
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  DETAIL = format('The pool is %s to %s. Worker IDs outside may be set by hand: in snowflake_id.worker_id, also on '
                                  'standbys, in table snowflake_workers, in programs and scripts, and at other sites.',
                                  settings.first_worker, settings.last_worker),
                  HINT = format('If none of them is used by hand: SELECT snowflake_registry.configure(first_worker => %s, '
                                'last_worker => %s, none_by_hand => true);',
                                check_growth.first_worker, check_growth.last_worker);
    END IF;
END
$$;
COMMENT ON FUNCTION snowflake_registry.check_growth(snowflake_registry.settings, int, int) IS
    'raises an error if these bounds add worker IDs to the pool';

-- Without first_start, the fleet starts with a quarantine: this registry may have been set back to a state before its first
-- start, in which it knows neither its grants nor the key of its tokens.
CREATE FUNCTION snowflake_registry.start_fleet(
    first_worker int DEFAULT NULL, last_worker int DEFAULT NULL, not_before timestamptz DEFAULT NULL,
    first_start boolean DEFAULT false
)
RETURNS timestamptz
VOLATILE PARALLEL UNSAFE SECURITY DEFINER LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    furthest CONSTANT timestamptz := clock_timestamp() + interval '24 hours';
    moment timestamptz;
    registry snowflake_registry.settings;
    new_first int;
    new_last int;
    given bigint;
    starts timestamptz;
BEGIN
    IF start_fleet.not_before > furthest THEN
        -- No lease is longer, and the floor can never be lowered.
        RAISE EXCEPTION 'not_before % is too far in the future', start_fleet.not_before
            USING ERRCODE = 'invalid_parameter_value',
                  DETAIL = 'The maximum is 24 hours ahead of the clock.',
                  HINT = 'Freeze the other registry until an earlier time: SELECT snowflake_registry.freeze(until);';
    END IF;
    registry := snowflake_registry.begin_request();
    moment := clock_timestamp();
    -- Identities that were reserved but never granted do not count.
    SELECT count(*) INTO given FROM snowflake_registry.lease WHERE grant_count > 0;
    IF given > 0 THEN
        RAISE EXCEPTION 'the registry already has a fleet'
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  DETAIL = format('Number of worker IDs that this registry has granted: %s.', given),
                  HINT = CASE WHEN registry.frozen_until IS NOT NULL
                      THEN 'The registry is frozen. If another registry replaces it, start the fleet there.'
                      WHEN NOT registry.is_started
                      THEN 'To continue with this fleet: SELECT snowflake_registry.quarantine();'
                      WHEN registry.waits > '0'
                      THEN 'The fleet is started, and in quarantine. ' || snowflake_registry.hint_of_quarantine()
                      ELSE 'The fleet is started. To add a server: SELECT snowflake_registry.add_server(name);' END;
    END IF;
    new_first := coalesce(start_fleet.first_worker, registry.first_worker);
    new_last := coalesce(start_fleet.last_worker, registry.last_worker);
    PERFORM snowflake_registry.check_pool(new_first, new_last);
    PERFORM snowflake_registry.check_growth(registry, new_first, new_last);
    UPDATE snowflake_registry.settings
    -- A quarantine continues. The floor never decreases.
    SET first_worker = new_first, last_worker = new_last,
        nothing_before = greatest(nothing_before, moment, start_fleet.not_before),
        is_started = true;
    IF NOT coalesce(start_fleet.first_start, false) THEN
        -- Nothing shows that commits were lost.
        PERFORM snowflake_registry.enter_quarantine(
            'the fleet was started, and servers may have worker IDs from before', closes_segments => false);
    END IF;
    PERFORM snowflake_registry.note_request();
    PERFORM snowflake_registry.guard_fleet();
    SELECT greatest(nothing_before, CASE WHEN waits > '0' THEN counted_at + waits END) INTO starts
    FROM snowflake_registry.settings;
    RAISE LOG 'snowflake_id_registry: fleet was started by %, with worker IDs % to %',
        snowflake_registry.name_in_words(session_user), new_first, new_last
        USING DETAIL = format('No server gets a worker ID before %s.', snowflake_registry.in_words(starts));
    RETURN starts;
END
$$;
COMMENT ON FUNCTION snowflake_registry.start_fleet(int, int, timestamptz, boolean) IS
    'starts granting the worker IDs of a pool, after a quarantine, and returns the time from which it grants them; with '
    'first_start there is no quarantine, and the caller asserts that no server has a worker ID from this or another registry '
    'for times from not_before on';

CREATE FUNCTION snowflake_registry.quarantine_detail(settings snowflake_registry.settings) RETURNS text
STABLE PARALLEL SAFE LANGUAGE sql
RETURN format('The registry is in quarantine until %s: %s.',
              snowflake_registry.in_words(settings.counted_at + settings.waits), settings.quarantine_reason);
COMMENT ON FUNCTION snowflake_registry.quarantine_detail(snowflake_registry.settings) IS
    'formats the present quarantine for messages';

CREATE FUNCTION snowflake_registry.hint_of_quarantine() RETURNS text
IMMUTABLE PARALLEL SAFE LANGUAGE sql
RETURN 'If no commits were lost, and no server has a worker ID of another or an earlier registry: '
       'SELECT snowflake_registry.end_quarantine();';
COMMENT ON FUNCTION snowflake_registry.hint_of_quarantine() IS 'hint of all messages about a quarantine';

CREATE FUNCTION snowflake_registry.end_fleet() RETURNS void
VOLATILE PARALLEL UNSAFE SECURITY DEFINER LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    registry CONSTANT snowflake_registry.settings := snowflake_registry.begin_request();
    live record;
BEGIN
    IF registry.waits > '0' THEN
        RAISE EXCEPTION 'servers may still issue IDs with worker IDs of this registry'
            USING ERRCODE = 'object_in_use',
                  DETAIL = snowflake_registry.quarantine_detail(registry),
                  HINT = snowflake_registry.hint_of_quarantine();
    END IF;
    SELECT count(*) AS leases, max(coalesce(used_until, granted_until)) AS until INTO live
    FROM snowflake_registry.lease WHERE coalesce(used_until, granted_until) > clock_timestamp();
    IF live.leases > 0 THEN
        RAISE EXCEPTION 'servers may still issue IDs with worker IDs of this registry'
            USING ERRCODE = 'object_in_use',
                  DETAIL = format('Number of ranges that have not ended: %s. The last one ends at %s.', live.leases,
                                  snowflake_registry.in_words(live.until)),
                  HINT = 'Stop the servers, or revoke their leases: SELECT snowflake_registry.revoke_lease(worker_id, datacenter_id); '
                         'Then wait until that time.';
    END IF;
    UPDATE snowflake_registry.settings SET is_started = false;
    PERFORM snowflake_registry.sign_settings();
    DROP VIEW IF EXISTS snowflake_registry.the_fleet_is_in_use_call_end_fleet_first;
END
$$;
COMMENT ON FUNCTION snowflake_registry.end_fleet() IS
    'stops granting worker IDs, and allows DROP EXTENSION; fails while any worker ID is in use';

CREATE FUNCTION snowflake_registry.revoke_lease(worker_id int, datacenter_id int DEFAULT 0) RETURNS timestamptz
VOLATILE PARALLEL UNSAFE SECURITY DEFINER LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    registry CONSTANT snowflake_registry.settings := snowflake_registry.begin_request();
    taken record;
    last_end timestamptz;
BEGIN
    IF revoke_lease.worker_id IS NULL OR revoke_lease.datacenter_id IS NULL THEN
        RAISE EXCEPTION 'worker_id and datacenter_id must not be null'
            USING ERRCODE = 'null_value_not_allowed',
                  HINT = 'Specify the worker ID. Omit datacenter_id if the layout has no datacenter field.';
    END IF;
    UPDATE snowflake_registry.lease AS lease SET lease_id = NULL, nonce = NULL
    WHERE lease.worker_id = revoke_lease.worker_id AND lease.datacenter_id = revoke_lease.datacenter_id
      AND lease.lease_id IS NOT NULL AND lease.used_until IS NULL
    RETURNING * INTO taken;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no server holds worker ID % of datacenter %',
            revoke_lease.worker_id, revoke_lease.datacenter_id
            USING ERRCODE = 'no_data_found', HINT = 'To list worker IDs: SELECT * FROM snowflake_registry.fleet;';
    END IF;
    last_end := snowflake_registry.end_with_forgotten(taken.granted_until, registry);
    RAISE LOG 'snowflake_id_registry: revoked worker ID % (datacenter %) from %',
        taken.worker_id, taken.datacenter_id,
        snowflake_registry.server_in_words(taken.node_name, taken.host, taken.port)
        USING DETAIL = format('The range of the server ends at %s.', snowflake_registry.in_words(last_end));
    RETURN last_end;
END
$$;
COMMENT ON FUNCTION snowflake_registry.revoke_lease(int, int) IS
    'revokes the lease of a worker ID, so that the server requests another worker ID; returns the time until which the '
    'server may still use the revoked worker ID';

CREATE FUNCTION snowflake_registry.note_request() RETURNS void
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE snowflake_registry.settings
    SET serial = serial + 1, requests = array_append(requests, left(gen_random_uuid()::text, 8));
    PERFORM snowflake_registry.sign_settings();
END
$$;
COMMENT ON FUNCTION snowflake_registry.note_request() IS
    'assigns a name to a call of an administrator on which others rely, so that servers can prove that the call was lost';

CREATE FUNCTION snowflake_registry.reserved_in_words(role text) RETURNS text
IMMUTABLE PARALLEL SAFE LANGUAGE sql
RETURN CASE WHEN role IS NULL THEN 'use by hand' ELSE 'role ' || snowflake_registry.name_in_words(role) END;
COMMENT ON FUNCTION snowflake_registry.reserved_in_words(text) IS 'formats what a worker ID is reserved for, for messages';

-- A worker ID that is used by hand has no floor, so no server may have had it from the registry before. The server may use it
-- when the tokens of live servers name this call: if the registry is set back after that, it learns that the call was lost.
CREATE FUNCTION snowflake_registry.reserve(
    worker_id int, datacenter_id int DEFAULT 0, used_by regrole DEFAULT NULL, note text DEFAULT NULL,
    none_by_hand boolean DEFAULT false
)
RETURNS timestamptz
VOLATILE PARALLEL UNSAFE SECURITY DEFINER LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    -- The text of a regrole is quoted.
    for_role CONSTANT text := (SELECT known.rolname FROM pg_roles AS known WHERE known.oid = reserve.used_by);
    moment timestamptz;
    registry snowflake_registry.settings;
    held snowflake_registry.lease;
    is_live boolean;
    servers record;
    by_hand record;
BEGIN
    IF coalesce(reserve.worker_id < 0 OR reserve.datacenter_id < 0, true) THEN
        RAISE EXCEPTION 'worker ID and datacenter ID must not be negative or null'
            USING ERRCODE = 'invalid_parameter_value',
                  DETAIL = format('The worker ID is %s, and the datacenter ID is %s.', coalesce(reserve.worker_id::text, 'NULL'),
                                  coalesce(reserve.datacenter_id::text, 'NULL')),
                  HINT = 'To list worker IDs: SELECT * FROM snowflake_registry.fleet;';
    ELSIF reserve.used_by IS NOT NULL AND for_role IS NULL THEN
        RAISE EXCEPTION 'role with OID % does not exist', reserve.used_by::oid
            USING ERRCODE = 'undefined_object', HINT = 'Specify the name of a role.';
    ELSIF EXISTS (SELECT FROM pg_roles AS known WHERE known.rolname = for_role AND NOT known.rolcanlogin) THEN
        RAISE EXCEPTION 'role % is not permitted to log in', snowflake_registry.name_in_words(for_role)
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Specify the login role of the server.';
    END IF;
    registry := snowflake_registry.begin_request();
    moment := clock_timestamp();
    SELECT * INTO held
    FROM snowflake_registry.lease AS lease
    WHERE lease.datacenter_id = reserve.datacenter_id AND lease.worker_id = reserve.worker_id;
    is_live := coalesce(held.lease_id IS NOT NULL AND held.used_until IS NULL AND held.granted_until > moment, false);
    IF held.is_reserved AND held.reserved_for IS DISTINCT FROM for_role THEN
        RAISE EXCEPTION 'worker ID % (datacenter %) is reserved for %', reserve.worker_id, reserve.datacenter_id,
            snowflake_registry.reserved_in_words(held.reserved_for)
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  HINT = CASE
                      WHEN held.reserved_for IS NULL THEN 'Use another worker ID. A worker ID that is used by hand is never leased.'
                      ELSE format('Use another worker ID. If the role no longer needs this one: '
                                  'SELECT snowflake_registry.give_up_reservation(%s, %s);',
                                  reserve.worker_id, reserve.datacenter_id) END;
    ELSIF held.is_reserved AND for_role IS NULL AND held.note IS DISTINCT FROM reserve.note THEN
        RAISE EXCEPTION 'worker ID % (datacenter %) is reserved with another note', reserve.worker_id, reserve.datacenter_id
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  DETAIL = CASE WHEN held.note IS NULL THEN 'It is reserved without a note.'
                                ELSE format('Its note is: %s', snowflake_registry.printable(held.note)) END,
                  HINT = 'Use another worker ID. If you want the time from which this one can be used, specify the same note.';
    ELSIF is_live AND (for_role IS NULL OR held.role IS DISTINCT FROM for_role) THEN
        RAISE EXCEPTION 'worker ID % (datacenter %) is leased by %', reserve.worker_id, reserve.datacenter_id,
            snowflake_registry.server_in_words(held.node_name, held.host, held.port)
            USING ERRCODE = 'object_in_use',
                  DETAIL = format('The lease ends at %s, unless the server renews it.',
                                  snowflake_registry.in_words(held.granted_until)),
                  HINT = CASE
                      WHEN for_role IS NULL THEN 'Use another worker ID by hand, outside the pool.'
                      ELSE format('Use another worker ID, or revoke the lease first: '
                                  'SELECT snowflake_registry.revoke_lease(%s, %s);',
                                  reserve.worker_id, reserve.datacenter_id) END;
    ELSIF for_role IS NULL AND (held.grant_count > 0 OR held.was_leased) THEN
        RAISE EXCEPTION 'worker ID % (datacenter %) was leased before', reserve.worker_id, reserve.datacenter_id
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  DETAIL = 'A worker ID that was leased once is never used by hand.',
                  HINT = 'Use another worker ID by hand, outside the pool.';
    ELSIF for_role IS NULL AND registry.waits > '0' AND NOT coalesce(held.is_reserved, false) THEN
        RAISE EXCEPTION 'cannot reserve a worker ID for use by hand during a quarantine'
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  DETAIL = snowflake_registry.quarantine_detail(registry),
                  HINT = snowflake_registry.hint_of_quarantine();
    ELSIF for_role IS NULL AND registry.frozen_until IS NOT NULL AND NOT coalesce(held.is_reserved, false) THEN
        RAISE EXCEPTION 'cannot reserve a worker ID for use by hand in a freeze'
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  DETAIL = 'Another registry may lease the worker ID.',
                  -- Between two transactions, a server could lease the worker ID.
                  HINT = format('Reserve it on the other registry. If no other registry replaces this one: BEGIN; '
                                'SELECT snowflake_registry.unfreeze(); SELECT snowflake_registry.reserve(%s, %s, note => %L); '
                                'COMMIT;', reserve.worker_id, reserve.datacenter_id, reserve.note);
    ELSIF for_role IS NOT NULL AND NOT coalesce(held.is_reserved, false) THEN
        SELECT count(*) FILTER (WHERE lease.role = for_role AND lease.lease_id IS NOT NULL AND lease.used_until IS NULL
                                      AND lease.granted_until > moment) AS leases,
               count(*) FILTER (WHERE lease.reserved_for = for_role) + 1 AS reserved
        INTO servers
        FROM snowflake_registry.lease AS lease WHERE lease.datacenter_id = reserve.datacenter_id;
        SELECT said.role, snowflake_registry.instant(said.at::bigint) AS at INTO by_hand
        FROM jsonb_each_text(held.said_by_hand) AS said (role, at)
        WHERE said.role <> for_role ORDER BY said.at::bigint DESC, said.role COLLATE "C" LIMIT 1;
        IF FOUND AND NOT coalesce(reserve.none_by_hand, false) THEN
            RAISE EXCEPTION 'worker ID % (datacenter %) was reported as set by hand by a server with another role',
                reserve.worker_id, reserve.datacenter_id
                USING ERRCODE = 'object_in_use',
                      DETAIL = format('A server with role %s reported this at %s.', snowflake_registry.name_in_words(by_hand.role),
                                      snowflake_registry.in_words(by_hand.at)),
                      HINT = format('Use another worker ID. If no server, standby or program uses this one by hand: '
                                    'SELECT snowflake_registry.reserve(%s, %s, used_by => %L, none_by_hand => true);',
                                    reserve.worker_id, reserve.datacenter_id, quote_ident(for_role));
        END IF;
        IF servers.leases > servers.reserved THEN
            RAISE EXCEPTION 'role % is used by several servers', snowflake_registry.name_in_words(for_role)
                USING ERRCODE = 'object_in_use',
                      DETAIL = format('The role holds %s leases, and %s worker IDs would be reserved for it. It would get no others.',
                                      servers.leases, servers.reserved),
                      HINT = 'Give each server a role of its own: SELECT snowflake_registry.add_server(name);';
        END IF;
    END IF;
    IF NOT coalesce(held.is_reserved, false) THEN
        INSERT INTO snowflake_registry.lease AS lease (
            datacenter_id, worker_id, granted_from, granted_until, acquired_at, renewed_at, grant_count, is_reserved,
            reserved_for, note
        )
        VALUES (
            reserve.datacenter_id, reserve.worker_id, moment, moment, moment, moment, 0, true, for_role, reserve.note
        )
        ON CONFLICT (datacenter_id, worker_id) DO UPDATE
        SET is_reserved = true, reserved_for = excluded.reserved_for, note = excluded.note,
            acquired_at = CASE WHEN lease.grant_count = 0 THEN excluded.acquired_at ELSE lease.acquired_at END
        RETURNING lease.* INTO held;
        PERFORM snowflake_registry.note_request();
        RAISE LOG 'snowflake_id_registry: worker ID % (datacenter %) was reserved for % by %', reserve.worker_id,
            reserve.datacenter_id, snowflake_registry.reserved_in_words(for_role),
            snowflake_registry.name_in_words(session_user);
    END IF;
    RETURN CASE
        WHEN for_role IS NULL THEN greatest(held.acquired_at + 2 * registry.longest_renewal, registry.nothing_before)
        ELSE snowflake_registry.end_with_forgotten(
            greatest(held.granted_until, held.acquired_at, registry.nothing_before), registry) END;
END
$$;
COMMENT ON FUNCTION snowflake_registry.reserve(int, int, regrole, text, boolean) IS
    'reserves a worker ID permanently: for use without the registry, or, if used_by is specified, for leases of this login '
    'role; returns the time from which the worker ID can be used';

-- Without these rows, this registry would allow to use a worker ID by hand that the registry before it has leased.
CREATE FUNCTION snowflake_registry.mark_leased(worker_ids int[], datacenter_id int DEFAULT 0) RETURNS void
VOLATILE PARALLEL UNSAFE SECURITY DEFINER LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM snowflake_registry.begin_request();
    INSERT INTO snowflake_registry.lease AS lease (
        datacenter_id, worker_id, granted_from, granted_until, acquired_at, renewed_at, grant_count, was_leased
    )
    SELECT mark_leased.datacenter_id, number, moment, moment, moment, moment, 0, true
    FROM unnest(mark_leased.worker_ids) AS number, clock_timestamp() AS moment
    ON CONFLICT (datacenter_id, worker_id) DO UPDATE SET was_leased = true;
    PERFORM snowflake_registry.sign_settings();
END
$$;
COMMENT ON FUNCTION snowflake_registry.mark_leased(int[], int) IS
    'records that an earlier registry has leased these worker IDs, so that they are never reserved for use by hand';

-- A server may use the worker ID, so this registry neither grants it nor chooses it as a spare. A spare is used up.
CREATE FUNCTION snowflake_registry.mark_by_hand(worker_id int, datacenter_id int, reports jsonb) RETURNS void
VOLATILE PARALLEL UNSAFE SECURITY DEFINER LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM snowflake_registry.begin_request();
    INSERT INTO snowflake_registry.lease AS lease (
        datacenter_id, worker_id, granted_from, granted_until, acquired_at, renewed_at, grant_count, is_reserved, note,
        said_by_hand
    )
    SELECT mark_by_hand.datacenter_id, mark_by_hand.worker_id, moment, moment, moment, moment, 0, true,
           'reported as set by hand', jsonb_object_agg(said.role, snowflake_registry.number_of(
               mark_by_hand.reports, said.role, 0, snowflake_registry.microseconds(timestamptz '9999-01-01Z')))
    FROM clock_timestamp() AS moment, jsonb_object_keys(mark_by_hand.reports) AS said (role)
    GROUP BY moment
    ON CONFLICT (datacenter_id, worker_id) DO UPDATE
    SET is_reserved = lease.is_reserved OR lease.grant_count = 0 AND NOT lease.was_leased,
        note = CASE WHEN lease.is_reserved OR lease.grant_count > 0 OR lease.was_leased THEN lease.note ELSE excluded.note END,
        said_by_hand = excluded.said_by_hand || coalesce(lease.said_by_hand, '{}');
    PERFORM snowflake_registry.sign_settings();
END
$$;
COMMENT ON FUNCTION snowflake_registry.mark_by_hand(int, int, jsonb) IS
    'records that servers reported to an earlier registry that they set this worker ID by hand: for each role, the time in '
    'microseconds of Unix time; reserves the worker ID for use by hand, unless it is reserved or was leased';

CREATE FUNCTION snowflake_registry.give_up_reservation(worker_id int, datacenter_id int DEFAULT 0) RETURNS void
VOLATILE PARALLEL UNSAFE SECURITY DEFINER LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM snowflake_registry.begin_request();
    -- If this call is lost, the worker ID is still reserved, which repeats no ID.
    UPDATE snowflake_registry.lease AS lease SET is_reserved = false, reserved_for = NULL, note = NULL
    WHERE lease.worker_id = give_up_reservation.worker_id AND lease.datacenter_id = give_up_reservation.datacenter_id
      AND lease.reserved_for IS NOT NULL;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'worker ID % of datacenter % is not reserved for a role', give_up_reservation.worker_id,
            give_up_reservation.datacenter_id
            USING ERRCODE = 'no_data_found',
                  DETAIL = 'A reservation for use by hand is permanent.',
                  HINT = 'To list worker IDs: SELECT * FROM snowflake_registry.fleet;';
    END IF;
    RAISE LOG 'snowflake_id_registry: reservation of worker ID % (datacenter %) was given up by %',
        give_up_reservation.worker_id, give_up_reservation.datacenter_id, snowflake_registry.name_in_words(session_user);
END
$$;
COMMENT ON FUNCTION snowflake_registry.give_up_reservation(int, int) IS
    'ends the reservation of a worker ID for a role; if the worker ID is in the pool, any server can lease it again';

-- Administrators call this function before servers leave the registry. Otherwise another registry could grant the same
-- worker IDs and numbers.
CREATE FUNCTION snowflake_registry.freeze(until timestamptz DEFAULT 'infinity') RETURNS timestamptz
VOLATILE PARALLEL UNSAFE SECURITY DEFINER LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    registry snowflake_registry.settings;
    last_end timestamptz;
BEGIN
    IF until IS NULL THEN
        RAISE EXCEPTION 'until must not be null'
            USING ERRCODE = 'null_value_not_allowed',
                  HINT = 'To freeze without limiting the leases: SELECT snowflake_registry.freeze();';
    END IF;
    registry := snowflake_registry.begin_request();
    -- Tokens contain microseconds of Unix time. Later times are stored as infinity, and earlier times as the start of
    -- Unix time.
    until := CASE WHEN until >= '10000-01-01 00:00:00+00' THEN 'infinity'
                  ELSE greatest(until, '1970-01-01 00:00:00+00') END;
    IF until > registry.frozen_until THEN
        RAISE EXCEPTION 'the registry is already frozen until an earlier time'
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  DETAIL = format('The registry is frozen until %s. Another registry may start at that time.',
                                  snowflake_registry.in_words(registry.frozen_until)),
                  HINT = 'If no other registry starts then: SELECT snowflake_registry.unfreeze();';
    END IF;
    UPDATE snowflake_registry.settings SET frozen_until = until;
    PERFORM snowflake_registry.note_request();
    SELECT snowflake_registry.end_with_forgotten(greatest(max(lease.granted_until), until), registry) INTO last_end
    FROM snowflake_registry.lease AS lease;
    RAISE LOG 'snowflake_id_registry: frozen by %', snowflake_registry.name_in_words(session_user)
        USING DETAIL = CASE
            WHEN isfinite(last_end) THEN format('No lease ends later than %s.', snowflake_registry.in_words(last_end))
            ELSE 'Leases are renewed without a limit.' END;
    RETURN last_end;
END
$$;
COMMENT ON FUNCTION snowflake_registry.freeze(timestamptz) IS
    'stops granting worker IDs and numbers, and extends no lease beyond the given time; returns the time at which all leases '
    'will have ended';

CREATE FUNCTION snowflake_registry.unfreeze() RETURNS void
VOLATILE PARALLEL UNSAFE SECURITY DEFINER LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    registry CONSTANT snowflake_registry.settings := snowflake_registry.begin_request();
BEGIN
    IF registry.frozen_until IS NULL THEN
        RAISE EXCEPTION 'the registry is not frozen'
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  HINT = 'To see the state of the registry: SELECT state FROM snowflake_registry.status;';
    END IF;
    UPDATE snowflake_registry.settings SET frozen_until = NULL;
    PERFORM snowflake_registry.note_request();
    RAISE LOG 'snowflake_id_registry: unfrozen by %', snowflake_registry.name_in_words(session_user);
END
$$;
COMMENT ON FUNCTION snowflake_registry.unfreeze() IS
    'ends the effect of freeze(); the caller asserts that no other registry and no setting has assigned worker IDs '
    'or numbers that this registry may grant';

CREATE FUNCTION snowflake_registry.quarantine() RETURNS timestamptz
VOLATILE PARALLEL UNSAFE SECURITY DEFINER LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    messages CONSTANT text := current_setting('client_min_messages');
    registry CONSTANT snowflake_registry.settings := snowflake_registry.begin_request();
BEGIN
    -- If the history of the fleet is not known, calling quarantine() is also a safe way to start the fleet. A registry that
    -- only has segments has no fleet.
    IF NOT EXISTS (SELECT FROM snowflake_registry.segment) THEN
        PERFORM snowflake_registry.check_pool(registry.first_worker, registry.last_worker);
    END IF;
    UPDATE snowflake_registry.settings
    SET is_started = true, nothing_before = greatest(nothing_before, clock_timestamp())
    WHERE NOT is_started AND first_worker IS NOT NULL;
    PERFORM snowflake_registry.enter_quarantine('its administrator called quarantine()');
    IF registry.first_worker IS NOT NULL THEN
        PERFORM snowflake_registry.guard_fleet();
    ELSE
        PERFORM set_config('client_min_messages', messages, true);
        RAISE NOTICE 'the quarantine does not start a fleet'
            USING DETAIL = 'The pool of worker IDs has not been specified. The quarantine only stops numbers of segments.';
    END IF;
    RETURN (SELECT counted_at + waits FROM snowflake_registry.settings);
END
$$;
COMMENT ON FUNCTION snowflake_registry.quarantine() IS
    'stops granting worker IDs until all ranges that may have been granted have ended, and returns that time; '
    'leases are still renewed';

CREATE FUNCTION snowflake_registry.end_quarantine() RETURNS void
VOLATILE PARALLEL UNSAFE SECURITY DEFINER LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    registry CONSTANT snowflake_registry.settings := snowflake_registry.begin_request();
BEGIN
    IF NOT registry.is_started AND registry.waits <= '0' THEN
        RAISE EXCEPTION 'the registry has not been started'
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  HINT = 'To start it: SELECT snowflake_registry.start_fleet(first_worker, last_worker);';
    END IF;
    UPDATE snowflake_registry.settings
    SET waits = '0', numbers_wait = '0', is_proved = false, is_witnessed = false, quarantine_reason = NULL;
    PERFORM snowflake_registry.sign_settings();
    IF registry.is_started THEN
        PERFORM snowflake_registry.guard_fleet();
    END IF;
    RAISE LOG 'snowflake_id_registry: quarantine was ended by %', snowflake_registry.name_in_words(session_user);
END
$$;
COMMENT ON FUNCTION snowflake_registry.end_quarantine() IS
    'ends a quarantine; the caller asserts that the registry has lost no commits, and that no server has a worker ID of '
    'another or an earlier registry';

CREATE FUNCTION snowflake_registry.configure(
    lease interval DEFAULT NULL, renew_every interval DEFAULT NULL, first_worker int DEFAULT NULL,
    last_worker int DEFAULT NULL, synchronous boolean DEFAULT NULL, last_datacenter int DEFAULT NULL,
    witnesses boolean DEFAULT NULL, none_by_hand boolean DEFAULT false
)
RETURNS void
VOLATILE PARALLEL UNSAFE SECURITY DEFINER LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    messages CONSTANT text := current_setting('client_min_messages');
    registry CONSTANT snowflake_registry.settings := snowflake_registry.begin_request();
    outside bigint;
    -- Intervals are stored in seconds, because the length of a day varies.
    new_lease CONSTANT interval :=
        coalesce(make_interval(secs => extract(epoch FROM configure.lease)::float8), registry.lease);
    new_renewal CONSTANT interval :=
        coalesce(make_interval(secs => extract(epoch FROM configure.renew_every)::float8),
                 registry.renew_every);
    new_first CONSTANT int := coalesce(configure.first_worker, registry.first_worker);
    new_last CONSTANT int := coalesce(configure.last_worker, registry.last_worker);
    changed snowflake_registry.settings;
BEGIN
    IF new_lease NOT BETWEEN '1 second' AND '24 hours' THEN
        RAISE EXCEPTION 'invalid lease: %', configure.lease
            USING ERRCODE = 'invalid_parameter_value',
                  DETAIL = 'A lease must be between 1 second and 24 hours.',
                  HINT = 'A server can issue IDs without the registry for the duration of its lease. The worker ID of a failed '
                         'server remains taken for the same time.';
    ELSIF new_renewal < '100 milliseconds' OR new_renewal * 2 > new_lease THEN
        RAISE EXCEPTION 'invalid renew_every for a lease of %: %', new_lease, new_renewal
            USING ERRCODE = 'invalid_parameter_value',
                  DETAIL = 'The minimum is 100 milliseconds, and the maximum is half of the lease.',
                  HINT = 'Set both parameters: SELECT snowflake_registry.configure(lease => ''10 minutes'', '
                         'renew_every => ''1 minute'');';
    END IF;
    IF num_nonnulls(new_first, new_last) > 0 THEN
        PERFORM snowflake_registry.check_pool(new_first, new_last);
    END IF;
    IF NOT coalesce(configure.none_by_hand, false) THEN
        PERFORM snowflake_registry.check_growth(registry, new_first, new_last);
    END IF;
    IF configure.last_datacenter < 0 THEN
        RAISE EXCEPTION 'invalid last_datacenter: %', configure.last_datacenter
            USING ERRCODE = 'invalid_parameter_value', DETAIL = 'The minimum is 0.';
    END IF;
    UPDATE snowflake_registry.settings
    SET lease = new_lease,
        -- A quarantine must last as long as any lease that was ever granted. The value never decreases, even if no lease was
        -- granted yet: the registry may be set back to this state after a later call of this function and its grants.
        longest_lease = greatest(longest_lease, new_lease),
        renew_every = new_renewal,
        -- Holders of leases and of numbers may still follow the longest value that they were told. Without any, there is
        -- nobody to wait for.
        longest_renewal = CASE
            WHEN waits > '0' OR EXISTS (SELECT FROM snowflake_registry.lease WHERE grant_count > 0)
                 OR EXISTS (SELECT FROM snowflake_registry.segment WHERE has_left)
            THEN greatest(longest_renewal, new_renewal) ELSE new_renewal END,
        first_worker = new_first,
        last_worker = new_last,
        last_datacenter = coalesce(configure.last_datacenter, last_datacenter),
        synchronous = coalesce(configure.synchronous, synchronous),
        witnesses = coalesce(configure.witnesses, witnesses)
    RETURNING * INTO changed;
    IF (changed.lease, changed.renew_every, changed.first_worker, changed.last_worker, changed.last_datacenter,
        changed.synchronous, changed.witnesses)
       IS DISTINCT FROM (registry.lease, registry.renew_every, registry.first_worker, registry.last_worker,
                         registry.last_datacenter, registry.synchronous, registry.witnesses) THEN
        PERFORM snowflake_registry.note_request();
    ELSE
        PERFORM snowflake_registry.sign_settings();
    END IF;
    PERFORM set_config('client_min_messages', messages, true);
    SELECT count(*) INTO outside
    FROM snowflake_registry.lease AS lease
    WHERE (lease.grant_count > 0 OR lease.was_leased)
      AND lease.worker_id BETWEEN registry.first_worker AND registry.last_worker
      AND lease.worker_id NOT BETWEEN new_first AND new_last;
    IF outside > 0 THEN
        RAISE NOTICE 'number of worker IDs outside the new pool that were leased before: %', outside
            USING DETAIL = 'A worker ID that was leased once is never used by hand, even if it is outside the pool. Servers '
                           'that hold one of these worker IDs keep it.',
                  HINT = 'To list worker IDs: SELECT * FROM snowflake_registry.fleet;';
    END IF;
    IF new_lease <= '2 minutes' AND configure.lease IS NOT NULL THEN
        RAISE NOTICE 'a lease of % is too short to survive a quarantine', new_lease
            USING DETAIL = 'When a quarantine starts, leases that end within 2 minutes are released. Each server '
                           'stops issuing IDs when its lease ends, and gets no new lease before the quarantine '
                           'ends.',
                  HINT = 'Use a longer lease: SELECT snowflake_registry.configure(lease => ''10 minutes'');';
    END IF;
END
$$;
COMMENT ON FUNCTION snowflake_registry.configure(interval, interval, int, int, boolean, int, boolean, boolean) IS
    'changes the specified settings of the registry; servers receive them with their next renewal';

-- A version that no longer knows a protocol calls this function in its update script, before it changes anything else.
CREATE FUNCTION snowflake_registry.require_protocol(lowest int) RETURNS void
VOLATILE PARALLEL UNSAFE SECURITY DEFINER LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    registry snowflake_registry.settings;
    older record;
BEGIN
    IF require_protocol.lowest IS NULL THEN
        RAISE EXCEPTION 'lowest must not be null'
            USING ERRCODE = 'null_value_not_allowed',
                  HINT = 'Specify the lowest protocol that all servers of the fleet know, for example: '
                         'SELECT snowflake_registry.require_protocol(1);';
    END IF;
    PERFORM snowflake_registry.begin_call();
    registry := snowflake_registry.open_registry(true);
    -- Without a fleet, there are no leases.
    IF registry.waits > '0' AND registry.is_started
       AND require_protocol.lowest > (snowflake_registry.protocols()).lowest THEN
        RAISE EXCEPTION 'servers of the fleet may still use a protocol below %', require_protocol.lowest
            USING ERRCODE = 'object_in_use',
                  DETAIL = snowflake_registry.quarantine_detail(registry),
                  HINT = 'Wait until the quarantine has ended. Its time counts only while servers call the registry. '
                         || snowflake_registry.hint_of_quarantine();
    END IF;
    SELECT count(*) AS leases, max(coalesce(used_until, granted_until)) AS until INTO older
    FROM snowflake_registry.lease
    WHERE protocol < require_protocol.lowest AND coalesce(used_until, granted_until) > clock_timestamp();
    IF older.leases > 0 THEN
        RAISE EXCEPTION 'servers of the fleet still use a protocol below %', require_protocol.lowest
            USING ERRCODE = 'object_in_use',
                  DETAIL = format('Number of leases that have not ended: %s. The last one ends at %s.', older.leases,
                                  snowflake_registry.in_words(older.until)),
                  HINT = format('To list them: SELECT node_name, host, version FROM snowflake_registry.fleet '
                                'WHERE protocol < %s AND time_left > ''0''; Install the newer version of snowflake_id there first.',
                                require_protocol.lowest);
    END IF;
END
$$;
COMMENT ON FUNCTION snowflake_registry.require_protocol(int) IS
    'raises an error if the holder of a lease may still use a lower protocol';
