-- Servers of the fleet ----------------------------------------------------------------------------------

-- As in read_facts(), bodies contain no backslashes.
CREATE FUNCTION snowflake_registry.connection_value(value text) RETURNS text
IMMUTABLE PARALLEL SAFE LANGUAGE sql
RETURN CASE WHEN value COLLATE "C" ~ '^[A-Za-z0-9_.-]+$' THEN value
            ELSE '''' || replace(replace(value, chr(92), repeat(chr(92), 2)), '''', chr(92) || '''') || '''' END;
COMMENT ON FUNCTION snowflake_registry.connection_value(text) IS 'quotes a value for a connection string of libpq';

-- A role of the fleet has a privilege for the functions of servers, and no other task: the settings of a server's role would
-- interrupt the sessions of other roles.
CREATE FUNCTION snowflake_registry.check_role(name text) RETURNS void
STABLE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    role record;
BEGIN
    SELECT known.oid, known.rolcanlogin AS can_login,
           known.rolsuper OR known.rolcreaterole OR known.rolcreatedb OR known.rolreplication OR known.rolbypassrls
               OR EXISTS (SELECT FROM pg_shdepend AS owned
                          WHERE owned.refclassid = 'pg_authid'::regclass AND owned.refobjid = known.oid
                            AND owned.deptype = 'o')
               OR pg_has_role(known.oid, function.proowner, 'MEMBER') AS does_more,
           EXISTS (SELECT FROM pg_proc AS granted, LATERAL aclexplode(granted.proacl) AS acl
                   WHERE granted.oid IN (function.oid, 'snowflake_registry.take(jsonb)'::regprocedure)
                     AND acl.grantee NOT IN (0, granted.proowner)
                     AND pg_has_role(known.oid, acl.grantee, 'USAGE')) AS is_in_fleet
    INTO role
    FROM pg_roles AS known, pg_proc AS function
    WHERE known.rolname = check_role.name AND function.oid = 'snowflake_registry.acquire(jsonb)'::regprocedure;
    IF role.does_more OR NOT role.is_in_fleet THEN
        RAISE EXCEPTION 'role % is not the role of a server', quote_ident(check_role.name)
            USING ERRCODE = 'duplicate_object',
                  DETAIL = CASE
                      WHEN role.does_more
                      THEN 'The role is a superuser, owns objects, is a member of the owner of the registry, or has a '
                           'privilege such as CREATEROLE. The timeouts of a server''s role would apply to all its sessions.'
                      ELSE 'The role exists, and may not call acquire(). The timeouts of a server''s role would apply to all '
                           'its sessions.' END,
                  HINT = 'Use another name.' || CASE
                      WHEN role.does_more THEN ''
                      ELSE format(' If only a server of the fleet uses the role, grant the privilege first: GRANT EXECUTE ON '
                                  'FUNCTION snowflake_registry.acquire TO %I;', check_role.name) END;
    ELSIF NOT role.can_login THEN
        RAISE EXCEPTION 'role % cannot log in', quote_ident(check_role.name)
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  DETAIL = 'The role is a group, or the server was locked out.',
                  HINT = format('If it is the role of a server that may connect again: ALTER ROLE %I LOGIN;', check_role.name);
    END IF;
END
$$;
COMMENT ON FUNCTION snowflake_registry.check_role(text) IS
    'raises an error if a role exists that is not the login role of a server';

-- Only the worker IDs of the pool are known not to be used by hand. Servers get the lowest ones. A worker ID with a row was
-- granted, is reserved, or is used by hand. The pool may exceed the layouts of the servers: worker IDs of the default layout
-- come first.
CREATE FUNCTION snowflake_registry.free_spare(datacenter_id int, worker_limit bigint) RETURNS int
STABLE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    RETURN (
        SELECT candidate.worker_id
        FROM snowflake_registry.status AS status,
             LATERAL (
                 SELECT status.last_worker::bigint
                 UNION VALUES (free_spare.worker_limit - 1), (1023)
                 UNION SELECT known.worker_id::bigint - 1
                 FROM snowflake_registry.fleet AS known WHERE known.datacenter_id = free_spare.datacenter_id
             ) AS candidate (worker_id)
        WHERE candidate.worker_id BETWEEN status.first_worker AND status.last_worker
          AND candidate.worker_id < free_spare.worker_limit
          AND NOT EXISTS (SELECT FROM snowflake_registry.fleet AS known
                          WHERE known.datacenter_id = free_spare.datacenter_id AND known.worker_id = candidate.worker_id)
        ORDER BY candidate.worker_id < 1024 DESC, candidate.worker_id DESC LIMIT 1
    );
END
$$;
COMMENT ON FUNCTION snowflake_registry.free_spare(int, bigint) IS
    'worker ID that add_server() reserves for use without the registry; NULL if there is none';

-- The function has the privileges of the caller, who must be allowed to create roles.
CREATE FUNCTION snowflake_registry.add_server(
    name text, takes_numbers boolean DEFAULT NULL, connection_limit int DEFAULT NULL, datacenter_id int DEFAULT 0
)
RETURNS SETOF text
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    spare_note CONSTANT text := 'spare of ' || add_server.name;
    connection text;
    idle numeric;
    timeout CONSTANT text := current_setting('lock_timeout');
    setting text[];
    worker_limit bigint;
    spare int;
    former text;
    no_spare text;
    leased_in int;
    usable_from timestamptz;
BEGIN
    IF NOT pg_has_role((SELECT relowner FROM pg_class WHERE oid = 'snowflake_registry.settings'::regclass), 'USAGE') THEN
        RAISE EXCEPTION 'must be owner of the registry'
            USING ERRCODE = 'insufficient_privilege',
                  HINT = 'Repeat the call as a superuser, or as the role that created extension snowflake_id_registry.';
    ELSIF num_nulls(add_server.name, add_server.datacenter_id) > 0 THEN
        RAISE EXCEPTION 'name and datacenter_id must not be null'
            USING ERRCODE = 'null_value_not_allowed',
                  HINT = 'Specify a name. Omit datacenter_id if the layout has no datacenter field.';
    ELSIF add_server.name = '' OR add_server.name <> add_server.name::name::text
          OR add_server.name || current_database() COLLATE "C" ~ '[[:cntrl:]]' THEN
        RAISE EXCEPTION 'invalid name of a role or of the database: %', snowflake_registry.name_in_words(add_server.name)
            USING ERRCODE = 'invalid_parameter_value',
                  DETAIL = 'A name of a role has 1 to 63 bytes, and neither name may contain control characters, which a '
                           'connection string cannot contain.';
    END IF;
    -- Two sessions must not choose the same spare, and cannot grant privileges for the same functions at the same time.
    PERFORM set_config('lock_timeout', '2s', true);
    LOCK TABLE snowflake_registry.settings IN EXCLUSIVE MODE;
    PERFORM snowflake_registry.check_role(add_server.name);
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = add_server.name) THEN
        EXECUTE format('CREATE ROLE %I LOGIN', add_server.name);
        takes_numbers := coalesce(takes_numbers, true);
        connection_limit := coalesce(connection_limit, 10);
    END IF;
    IF connection_limit IS NOT NULL THEN
        EXECUTE format('ALTER ROLE %I CONNECTION LIMIT %s', add_server.name, connection_limit);
    END IF;
    IF NOT has_database_privilege(add_server.name, current_database(), 'CONNECT') THEN
        EXECUTE format('GRANT CONNECT ON DATABASE %I TO %I', current_database(), add_server.name);
    END IF;
    EXECUTE format('GRANT USAGE ON SCHEMA snowflake_registry TO %I', add_server.name);
    EXECUTE format('GRANT EXECUTE ON FUNCTION snowflake_registry.acquire, snowflake_registry.renew, '
                   'snowflake_registry.check_server TO %I', add_server.name);
    IF takes_numbers THEN
        EXECUTE format('GRANT EXECUTE ON FUNCTION snowflake_registry.take TO %I', add_server.name);
    ELSIF NOT takes_numbers THEN
        EXECUTE format('REVOKE EXECUTE ON FUNCTION snowflake_registry.take FROM %I', add_server.name);
        IF has_function_privilege(add_server.name, 'snowflake_registry.take(jsonb)', 'EXECUTE') THEN
            RETURN NEXT '-- The role can still take numbers: PUBLIC or a group of the role has the privilege, or a role other '
                'than the owner of the registry granted it.';
        END IF;
    END IF;
    -- Sessions of servers are idle for at most the time between two renewals.
    SELECT ceil(2 * greatest(extract(epoch FROM status.renew_every), 300)) INTO idle FROM snowflake_registry.status AS status;
    FOREACH setting SLICE 1 IN ARRAY ARRAY[
        ['statement_timeout', '10s'], ['idle_in_transaction_session_timeout', '5s'],
        ['idle_session_timeout', coalesce(idle, 600) || 's'],
        ['default_transaction_isolation', 'read committed'], ['default_transaction_read_only', 'off']
    ] LOOP
        EXECUTE format('ALTER ROLE %I SET %I = %L', add_server.name, setting[1], setting[2]);
    END LOOP;

    -- A spare that the server has used is used up. The layout of the server is known from its last lease.
    SELECT lease.worker_limit INTO worker_limit
    FROM snowflake_registry.lease AS lease
    WHERE lease.role = add_server.name AND lease.datacenter_id = add_server.datacenter_id AND lease.worker_limit IS NOT NULL
    ORDER BY lease.renewed_at DESC LIMIT 1;
    worker_limit := coalesce(worker_limit, 2147483648);
    SELECT (array_agg(known.worker_id ORDER BY known.acquired_at DESC) FILTER (
                WHERE known.note = spare_note AND known.said_by_hand_at IS NULL AND known.worker_id < worker_limit))[1],
           string_agg(known.worker_id || ' (reported by '
                      || (SELECT string_agg(snowflake_registry.name_in_words(said.role), ', ')
                          FROM unnest(known.said_by_hand_by) AS said (role)) || ')', ', ' ORDER BY known.worker_id)
               FILTER (WHERE known.said_by_hand_at IS NOT NULL)
    INTO spare, former
    FROM snowflake_registry.fleet AS known
    WHERE known.note = spare_note AND known.datacenter_id = add_server.datacenter_id AND known.state = 'reserved'
      AND known.reserved_for IS NULL;
    spare := coalesce(spare, snowflake_registry.free_spare(add_server.datacenter_id, worker_limit));
    IF spare IS NULL THEN
        no_spare := 'the registry has no pool yet, or no worker ID of the pool is left';
    ELSE
        BEGIN
            usable_from := snowflake_registry.reserve(spare, add_server.datacenter_id, note => spare_note);
        EXCEPTION WHEN object_not_in_prerequisite_state THEN
            no_spare := SQLERRM;
        END;
    END IF;

    -- reserve() has changed it until the end of the transaction.
    PERFORM set_config('lock_timeout', timeout, true);

    connection := concat_ws(
        ' ', 'host=REGISTRY', 'port=' || current_setting('port'),
        'dbname=' || snowflake_registry.connection_value(current_database()),
        'user=' || snowflake_registry.connection_value(add_server.name), 'passfile=PASSFILE', 'target_session_attrs=read-write');
    RETURN NEXT '-- On the registry, in psql: set the password of the role.';
    RETURN NEXT format('%spassword %I', chr(92), add_server.name);
    RETURN NEXT '# On the host of the server, as the user that runs PostgreSQL: write the password to a file with mode 0600.';
    RETURN NEXT '# Replace REGISTRY and PASSFILE in this command, and run it. It must return no rows.';
    RETURN NEXT format(
        'psql %s -c "SELECT * FROM snowflake_registry.check_server(jsonb_build_object(''clock'', $(date +%%s)000000, '
        '''datacenter'', %s))"',
        '''' || replace(connection, '''', '''' || chr(92) || '''''') || '''', add_server.datacenter_id);
    RETURN NEXT '-- On the server, in psql, as a superuser. Repeat both lines on each standby of the server.';
    RETURN NEXT format('ALTER SYSTEM SET snowflake_id.registry = %L;', connection);
    RETURN NEXT 'SELECT pg_reload_conf();';
    IF former IS NOT NULL THEN
        RETURN NEXT format('-- Used up as spares, never to be used by hand again: %s.', former);
    END IF;
    IF no_spare IS NOT NULL THEN
        RETURN NEXT format('-- No spare worker ID was reserved: %s. Call add_server() again later.',
                           snowflake_registry.printable(no_spare));
    ELSE
        RETURN NEXT format('-- Write down the spare worker ID of the server: %s, for datacenter ID %s, from %s. It can be used once.',
                           spare, add_server.datacenter_id, snowflake_registry.in_words(usable_from));
        RETURN NEXT '-- Only if the lease of the server ends while the registry is unreachable, run on the server:';
        -- Another server may lease the same worker ID for another datacenter ID.
        RETURN NEXT format('-- ALTER SYSTEM SET snowflake_id.datacenter_id = %s;', add_server.datacenter_id);
        RETURN NEXT format('-- ALTER SYSTEM SET snowflake_id.worker_id = %s;', spare);
        RETURN NEXT '-- ALTER SYSTEM SET snowflake_id.registry = '''';';
        RETURN NEXT '-- SELECT pg_reload_conf();';
    END IF;
    SELECT lease.datacenter_id INTO leased_in
    FROM snowflake_registry.lease AS lease
    WHERE lease.role = add_server.name AND lease.grant_count > 0 ORDER BY lease.renewed_at DESC LIMIT 1;
    IF leased_in <> add_server.datacenter_id THEN
        RETURN NEXT format('-- The server last had a lease for datacenter ID %s. For a spare with this datacenter ID:', leased_in);
        RETURN NEXT format('-- SELECT snowflake_registry.add_server(%L, datacenter_id => %s);', add_server.name, leased_in);
    END IF;
END
$$;
COMMENT ON FUNCTION snowflake_registry.add_server(text, boolean, int, int) IS
    'creates or completes the login role of a server, reserves a spare worker ID for it, and returns the commands to run';
