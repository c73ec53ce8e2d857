-- Reports problems ----------------------------------------------------------------------------------------

-- Changes nothing, and takes no lock of table settings, so that calls do not disturb other servers. Besides the names of
-- roles, which all sessions can read, the rows contain nothing that an answer of acquire() does not contain.
CREATE FUNCTION snowflake_registry.check_server(request jsonb DEFAULT '{}')
RETURNS TABLE (problem text, detail text, hint text)
VOLATILE PARALLEL UNSAFE SECURITY DEFINER LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
<<call>>
DECLARE
    moment CONSTANT timestamptz := clock_timestamp();
    registry snowflake_registry.settings;
    protocols record;
    protocol bigint;
    clock bigint;
    datacenter int;
    worker_limit bigint;
    by_hand CONSTANT int[] := (
        SELECT said.by_hand FROM snowflake_registry.read_facts(
            jsonb_build_object('by_hand', request -> 'by_hand')) AS said);
    -- In the text of a regrole, the name is quoted if necessary.
    name CONSTANT text := quote_ident(session_user);
    lost record;
    starts timestamptz;
    away numeric;
    hand int;
    known record;
    reserved int[];
    leases int;
    is_holder boolean;
    is_free boolean;
    was_ended boolean;
BEGIN
    IF jsonb_typeof(request) IS DISTINCT FROM 'object' THEN
        RAISE EXCEPTION 'request must be a JSON object'
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = 'Pass a value of type jsonb, such as jsonb_build_object(''datacenter'', 0).';
    END IF;
    protocol := snowflake_registry.number_of(request, 'protocol', 0);
    clock := snowflake_registry.number_of(request, 'clock');
    datacenter := coalesce(snowflake_registry.number_of(request, 'datacenter', 0, 2147483647), 0);
    worker_limit := coalesce(snowflake_registry.number_of(request, 'worker_limit', 0, 2147483648), 2147483648);

    SELECT * INTO protocols FROM snowflake_registry.protocols();
    -- These are the conditions of begin_call().
    IF pg_is_in_recovery() THEN
        RETURN QUERY SELECT 'the connection leads to a standby of the registry',
            'Only the primary grants worker IDs and numbers.',
            'Specify all servers of the registry in the connection string, and add target_session_attrs=read-write.';
        RETURN;
    ELSIF current_setting('transaction_read_only') = 'on' THEN
        RETURN QUERY SELECT 'transactions are read-only', 'Functions of the registry change tables.',
            format('ALTER ROLE %s SET default_transaction_read_only = off;', name);
    ELSIF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        RETURN QUERY SELECT format('the isolation level is %s', current_setting('transaction_isolation')),
            'Functions of the registry require isolation level read committed.',
            format('ALTER ROLE %s SET default_transaction_isolation = ''read committed'';', name);
    END IF;
    IF protocol NOT BETWEEN protocols.lowest AND protocols.highest THEN
        RETURN QUERY SELECT format('the registry does not know protocol %s', protocol),
            format('The registry knows protocols %s to %s.', protocols.lowest, protocols.highest),
            CASE WHEN protocol > protocols.highest
                 THEN 'Update the registry: ALTER EXTENSION snowflake_id_registry UPDATE;'
                 ELSE 'Install a newer version of snowflake_id on the server.' END;
    END IF;
    IF NOT (has_function_privilege(session_user, 'snowflake_registry.acquire(jsonb)', 'EXECUTE')
            AND has_function_privilege(session_user, 'snowflake_registry.renew(jsonb)', 'EXECUTE')) THEN
        RETURN QUERY SELECT format('role %s may not acquire and renew a lease', name), NULL::text,
            format('GRANT EXECUTE ON FUNCTION snowflake_registry.acquire, snowflake_registry.renew TO %s;', name);
    END IF;
    IF NOT has_function_privilege(session_user, 'snowflake_registry.take(jsonb)', 'EXECUTE')
       AND EXISTS (SELECT FROM snowflake_registry.segment WHERE dropped_at IS NULL) THEN
        RETURN QUERY SELECT format('role %s may not take numbers of segments', name),
            'The registry has segments. Servers that use no segment do not need the privilege.',
            format('GRANT EXECUTE ON FUNCTION snowflake_registry.take TO %s;', name);
    END IF;
    away := trunc(abs(clock - extract(epoch FROM moment) * 1000000) / 1000000);
    -- begin_answer() has the same limit.
    IF away >= 60 THEN
        RETURN QUERY SELECT format('the clock of the server is %s s %s the clock of the registry', away,
                                   CASE WHEN clock < extract(epoch FROM moment) * 1000000 THEN 'behind' ELSE 'ahead of' END),
            'At most 60 s are accepted.', 'Correct the clock that is wrong, for example with chrony.';
    END IF;

    SELECT * INTO registry FROM snowflake_registry.settings;
    IF registry.frozen_until IS NOT NULL THEN
        RETURN QUERY SELECT 'the registry is frozen',
            format('It grants no worker IDs and no numbers, and extends no lease beyond %s.',
                   CASE WHEN isfinite(registry.frozen_until) THEN snowflake_registry.in_words(registry.frozen_until)
                        ELSE 'the normal duration' END),
            'If no other registry replaces this one: SELECT snowflake_registry.unfreeze();';
    END IF;
    IF registry.is_started IS NOT TRUE THEN
        was_ended := EXISTS (SELECT FROM snowflake_registry.lease WHERE grant_count > 0);
        RETURN QUERY SELECT CASE WHEN was_ended THEN 'the registry grants no worker IDs, because its fleet was ended'
                                 ELSE 'the registry grants no worker IDs, because its fleet was not started' END,
            CASE WHEN NOT was_ended
                 THEN 'If an earlier registry had leases of more than 10 minutes, call snowflake_registry.configure(lease => ...) '
                      'with the longest first.' END,
            CASE WHEN was_ended THEN 'To continue the fleet: SELECT snowflake_registry.quarantine();'
                 WHEN registry.first_worker IS NULL
                 THEN 'If no worker ID from 512 on is set by hand anywhere: '
                      'SELECT snowflake_registry.start_fleet(first_worker => 512, last_worker => 1023);'
                 ELSE 'SELECT snowflake_registry.start_fleet();' END
        WHERE registry.frozen_until IS NULL;
        RETURN;
    END IF;
    SELECT count(*) INTO leases
    FROM snowflake_registry.lease AS lease
    WHERE lease.role = session_user AND lease.lease_id IS NOT NULL AND lease.used_until IS NULL AND lease.granted_until > moment;
    is_holder := leases > 0;
    -- A holder renews its lease meanwhile.
    IF NOT is_holder THEN
        SELECT * INTO lost FROM snowflake_registry.lost_commits();
        IF lost.has_restarted THEN
            registry := snowflake_registry.after_restart(registry);
        END IF;
        starts := greatest(registry.nothing_before,
                           CASE WHEN registry.waits > '0' THEN registry.counted_at + registry.waits END,
                           CASE WHEN lost.reason IS NOT NULL THEN moment + registry.longest_lease + interval '2 minutes' END);
        IF starts > moment THEN
            RETURN QUERY SELECT format('the registry grants no worker IDs before %s', snowflake_registry.in_words(starts)),
                'Reason: ' || coalesce(snowflake_registry.shown_reason(coalesce(lost.reason, registry.quarantine_reason)),
                                       'it was started with this time') || '.',
                'Wait. ' || snowflake_registry.hint_of_quarantine();
        END IF;
    END IF;
    IF datacenter > registry.last_datacenter THEN
        RETURN QUERY SELECT format('the registry grants no worker IDs for datacenter %s', datacenter),
            format('The highest datacenter ID is %s.', registry.last_datacenter),
            format('SELECT snowflake_registry.configure(last_datacenter => %s);', datacenter);
        RETURN;
    END IF;

    -- With another datacenter ID, the same worker ID may be leased to another server.
    RETURN QUERY
    SELECT format('the spare worker ID of the server is for datacenter ID %s', min(spare.datacenter_id)),
           format('The server has datacenter ID %s.', datacenter),
           format('SELECT snowflake_registry.add_server(%L, datacenter_id => %s);', session_user, datacenter)
    FROM snowflake_registry.lease AS spare
    WHERE spare.note = 'spare of ' || session_user AND spare.said_by_hand IS NULL AND request ? 'datacenter'
    HAVING bool_and(spare.datacenter_id <> datacenter);

    reserved := ARRAY(SELECT lease.worker_id FROM snowflake_registry.lease AS lease
                      WHERE lease.datacenter_id = call.datacenter AND lease.reserved_for = session_user);
    FOREACH hand IN ARRAY by_hand LOOP
        SELECT lease.is_reserved, lease.reserved_for, lease.grant_count > 0 OR lease.was_leased AS was_granted,
               coalesce(lease.used_until, lease.granted_until) > moment AND lease.grant_count > 0 AS is_live,
               lease.role IS NOT DISTINCT FROM session_user AS is_own, lease.said_by_hand
        INTO known
        FROM snowflake_registry.lease AS lease WHERE lease.datacenter_id = call.datacenter AND lease.worker_id = hand;
        -- A server that is connected reports a reserved worker ID every hour.
        RETURN QUERY
        SELECT format('worker ID %s is set by hand, and a server with another role has reported the same', hand),
               format('A server with role %s reported this at %s.', snowflake_registry.name_in_words(said.role),
                      snowflake_registry.in_words(snowflake_registry.instant(said.at::bigint))),
               'If the other server uses the worker ID, set another one by hand, or none. Otherwise, wait: after 24 hours, a '
               'report is no longer shown.'
        FROM jsonb_each_text(known.said_by_hand) AS said (role, at)
        WHERE said.role <> session_user AND said.at::bigint > snowflake_registry.microseconds(moment - interval '24 hours')
        ORDER BY said.at::bigint DESC, said.role COLLATE "C" LIMIT 1;
        -- A role that several servers share may have one lease of this server, and others.
        IF hand = ANY (reserved) OR known.is_live AND known.is_own AND leases = 1
           OR known.is_reserved AND known.reserved_for IS NULL AND NOT known.was_granted THEN
            CONTINUE;
        ELSIF known.is_live THEN
            RETURN QUERY SELECT format('worker ID %s is set by hand, and is leased to %s', hand,
                                       CASE WHEN known.is_own THEN 'a server with the same role' ELSE 'another role' END),
                CASE WHEN known.is_own THEN format('Role %s holds %s leases.', name, leases) END,
                'Set another worker ID by hand, one outside the pool that was never leased, or none.';
        ELSIF known.is_reserved AND NOT known.was_granted THEN
            RETURN QUERY SELECT format('worker ID %s is set by hand, and is reserved for another role', hand), NULL::text,
                'Set another worker ID by hand, one outside the pool that was never leased, or none.';
        ELSIF hand BETWEEN registry.first_worker AND registry.last_worker OR known.was_granted THEN
            RETURN QUERY SELECT
                format('worker ID %s is set by hand, and the registry %s', hand,
                       CASE WHEN known.was_granted THEN 'has leased it before' ELSE 'may lease it to another server' END),
                format('The registry grants worker IDs %s to %s.', registry.first_worker, registry.last_worker),
                CASE WHEN known.was_granted
                     THEN 'Set another worker ID by hand, one outside the pool that was never leased, or none.'
                     ELSE format('If the worker ID stays set by hand: SELECT snowflake_registry.reserve(%s, %s);', hand,
                                 datacenter) END;
        END IF;
    END LOOP;

    IF NOT is_holder THEN
        -- A time before which no worker ID is granted was reported above.
        SELECT chosen.reserved, coalesce(chosen.free_from <= greatest(moment, registry.nothing_before), false)
        INTO reserved, is_free
        FROM snowflake_registry.choose_worker(registry, moment, datacenter, worker_limit, NULL, '{}', by_hand, NULL) AS chosen;
        IF NOT is_free THEN
            RETURN QUERY SELECT 'no worker ID is free for the server',
                format('The registry grants worker IDs %s%s.',
                       CASE WHEN cardinality(reserved) > 0
                            THEN format('%s to role %s', array_to_string(reserved, ', '), name)
                            ELSE format('%s to %s', registry.first_worker, registry.last_worker) END,
                       CASE WHEN worker_limit < 2147483648
                            THEN format(', and worker IDs below %s fit the layout of the server', worker_limit) ELSE '' END),
                CASE WHEN cardinality(reserved) > 0
                     THEN 'Wait until the lease of the role has ended, or reserve another worker ID for the role.'
                     ELSE 'Stop servers that are no longer needed, or enlarge the pool: '
                          'SELECT snowflake_registry.configure(last_worker => ..., none_by_hand => true);' END;
        END IF;
    END IF;
END
$$;
COMMENT ON FUNCTION snowflake_registry.check_server(jsonb) IS
    'returns a row for each problem that prevents a server with this login role from having a worker ID; changes nothing';
