-- snowflake_check(), which lists the problems that this server can see. Each of the other functions checks one thing.
--
-- A superuser runs the function in databases that others own. The functions read the catalogs, the objects of the
-- extension, and rows of tables by snowflake_internal.sampled_ids(). They run no code of the owners of these tables: no
-- query reads a table or a view of a user.
--
-- Names of PostgreSQL objects are not schema-qualified in the bodies, because each function sets search_path, which starts
-- with pg_catalog. Each hint says what to type after "run:".

-- The table is in the schema of the extension, whose name can change. The body is resolved when the function is created.
CREATE FUNCTION snowflake_internal.worker_rows() RETURNS TABLE (node_name text, datacenter_id int, worker_id int)
STABLE PARALLEL SAFE LANGUAGE sql
BEGIN ATOMIC
    SELECT w.node_name, w.datacenter_id, w.worker_id FROM @extschema@.snowflake_workers AS w;
END;
COMMENT ON FUNCTION snowflake_internal.worker_rows() IS
    'rows of snowflake_workers, for snowflake_check()';

-- The worker IDs that the configuration sets by hand, first that of this server. Other databases have no rows for the keeper.
CREATE FUNCTION snowflake_internal.workers_by_hand() RETURNS int[]
STABLE PARALLEL SAFE LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT array(
        SELECT by_hand.worker_id
        FROM (
            SELECT 1, current_setting('snowflake_id.worker_id')::int
            UNION ALL
            SELECT CASE WHEN r.node_name = status.node_name THEN 2 ELSE 3 END, r.worker_id
            FROM snowflake_internal.worker_rows() AS r, snowflake_internal.snowflake_server_status() AS status
            WHERE current_setting('snowflake_id.database') = current_database()
              AND r.datacenter_id = current_setting('snowflake_id.datacenter_id')::int
        ) AS by_hand (place, worker_id)
        WHERE by_hand.worker_id >= 0
        GROUP BY by_hand.worker_id
        ORDER BY min(by_hand.place), by_hand.worker_id
    );
$$;
COMMENT ON FUNCTION snowflake_internal.workers_by_hand() IS
    'worker IDs that the configuration of this server sets by hand, for snowflake_check()';

COMMENT ON FUNCTION snowflake_internal.is_preloaded() IS
    'whether the library was preloaded, for snowflake_check()';
COMMENT ON FUNCTION snowflake_internal.sampled_ids(oid, smallint) IS
    'some IDs of a column, for snowflake_check()';
COMMENT ON FUNCTION snowflake_internal.check_registry(int[]) IS
    'problems of the connection to the registry and problems that the registry sees, for snowflake_check()';

CREATE FUNCTION snowflake_internal.check_preloading() RETURNS TABLE (problem text, detail text, hint text)
STABLE PARALLEL SAFE LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    WITH listed AS (
        SELECT coalesce(array_agg(trim(' "' FROM library)) FILTER (WHERE trim(library) <> ''), '{}') AS libraries
        FROM string_to_table(current_setting('shared_preload_libraries'), ',') AS library
    )
    SELECT 'snowflake_id is not in shared_preload_libraries',
           'The server cannot issue IDs. The registry was not checked either.',
           format('Restart the server after you have run: ALTER SYSTEM SET shared_preload_libraries = %s;',
                  (SELECT string_agg(quote_literal(library), ', ' ORDER BY position)
                   FROM unnest(listed.libraries || 'snowflake_id'::text) WITH ORDINALITY AS all_of (library, position)))
    FROM listed
    WHERE NOT snowflake_internal.is_preloaded();
$$;
COMMENT ON FUNCTION snowflake_internal.check_preloading() IS
    'whether the library is preloaded, for snowflake_check()';

CREATE FUNCTION snowflake_internal.check_settings() RETURNS TABLE (problem text, detail text, hint text)
VOLATILE PARALLEL RESTRICTED LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT format('setting %s takes effect when the server is restarted', name),
           'The configuration files contain another value than the server uses.',
           'Restart the server.'
    FROM pg_settings
    WHERE pending_restart AND (name LIKE 'snowflake\_id.%' OR name = 'shared_preload_libraries')
    UNION ALL
    -- The value is not shown, because a connection string could contain a password.
    SELECT format('setting %s in the configuration files is not valid', name),
           format('File "%s", line %s: %s.', sourcefile, sourceline, error),
           CASE WHEN name = ANY (known.names) THEN ''
                ELSE format('The settings are %s. ', array_to_string(known.names, ', ')) END
           || 'Correct this line of the file, and run: SELECT pg_reload_conf();'
    FROM pg_file_settings
    CROSS JOIN (SELECT array_agg(name ORDER BY name) FROM pg_settings WHERE name LIKE 'snowflake\_id.%') AS known (names)
    WHERE name LIKE 'snowflake\_id.%' AND error IS NOT NULL
      AND name NOT IN (SELECT name FROM pg_settings WHERE pending_restart)
    UNION ALL
    SELECT 'fsync is off',
           'A crash of the operating system can lose the horizon. IDs could then be repeated.',
           'Run: ALTER SYSTEM SET fsync = on; SELECT pg_reload_conf();'
    WHERE current_setting('fsync') = 'off';
$$;
COMMENT ON FUNCTION snowflake_internal.check_settings() IS
    'settings, for snowflake_check()';

-- `is_explained`: the registry was asked, and its problems can explain a missing lease. They do not explain every state of
-- the registry: the others are shown as well.
CREATE FUNCTION snowflake_internal.check_state(is_explained boolean) RETURNS TABLE (problem text, detail text, hint text)
VOLATILE PARALLEL RESTRICTED LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    WITH status AS MATERIALIZED (
        SELECT s.*, is_explained AND s.registry_state IN (
                   'starting', 'unreachable', 'no such database', 'login refused', 'no registry', 'permission denied', 'not started',
                   'all taken', 'quarantine', 'clock differs') AS is_known
        FROM snowflake_internal.snowflake_server_status() AS s
    ),
    remedy (state, hint) AS (
        VALUES ('starting', 'Wait a few seconds. If the state remains, solve the problem that DETAIL describes.'),
               ('no worker id',
                'If the fleet has a registry, call snowflake_registry.add_server() there. Otherwise, choose a worker ID that no '
                'other server has or ever had, and with this number instead of N, run: '
                'ALTER SYSTEM SET snowflake_id.worker_id = N; SELECT pg_reload_conf();'),
               ('worker id refused',
                CASE WHEN current_setting('snowflake_id.registry') <> '' THEN 'Wait until the time in DETAIL.'
                ELSE 'Set snowflake_id.registry if this server or its primary has joined a registry. Otherwise, choose a '
                     'worker ID that no server has had and no registry may lease.' END),
               ('worker id too large',
                'Choose a smaller worker ID that no server has had and no registry may lease, or a layout with more worker bits. '
                'With this number instead of N, run: ALTER SYSTEM SET snowflake_id.worker_id = N; SELECT pg_reload_conf();'),
               ('datacenter id too large',
                'Choose a smaller datacenter ID, or a layout with more datacenter bits. With this number instead of N, run: '
                'ALTER SYSTEM SET snowflake_id.datacenter_id = N; SELECT pg_reload_conf();'),
               ('clock before epoch', 'Correct the clock, or use a layout with an earlier epoch.'),
               ('layout exhausted', 'Correct the clock, or use a layout with a later epoch or more time bits.'),
               ('no lease', 'Wait a few seconds. If the state remains, solve the problem that DETAIL describes.'),
               ('lease ended',
                'Solve the problem that DETAIL describes. If this takes too long, the server can leave the registry with its '
                'spare worker ID, which add_server() printed: follow section "A server that leaves" of page run/registry of the manual.'),
               ('clock behind', 'Correct the clock. If it is right, wait until the time in DETAIL.'),
               ('clock jumped',
                format('Correct the clock. If it is right now, run: SELECT %s.snowflake_accept_clock();',
                       snowflake_internal.home())),
               ('horizon stalled',
                'Solve the problem that DETAIL describes. The keeper may wait for a lock or for a synchronous standby.'),
               ('no keeper', 'Solve the problem that DETAIL describes, or read the log of the server. The number of worker '
                'processes may be too small (max_worker_processes).')
    )
    SELECT format('this server issues no IDs: %s', status.state),
           CASE status.state
           WHEN 'no worker id' THEN format('snowflake_id.worker_id is not set, and table snowflake_workers in database "%s" has '
                                           'no row for node "%s".', current_setting('snowflake_id.database'), status.node_name)
           WHEN 'clock behind' THEN format('IDs can be issued again at %s.', status.resumes_at)
           WHEN 'clock jumped' THEN format('The clock has jumped ahead by %s.', status.clock_jump)
           WHEN 'lease ended' THEN concat_ws(': ', format('The lease ended at %s', status.lease_until), status.last_error)
           ELSE status.last_error
           END,
           coalesce(remedy.hint, 'Solve the problem that DETAIL describes.')
    FROM status LEFT JOIN remedy ON remedy.state = status.state
    -- The registry's problems explain why there is no lease yet. They do not say that the server has stopped.
    WHERE status.state NOT IN ('ready', 'recovery') AND NOT (status.is_known AND status.state = 'no lease')
    UNION ALL
    SELECT format('the registry grants no lease: %s', status.registry_state), status.last_error,
           'Solve the problem that DETAIL describes. Page run/when-it-fails of the manual describes each state of the registry.'
    FROM status
    WHERE NOT status.is_known AND status.registry_state NOT IN ('granted', 'starting')
      AND status.state NOT IN ('recovery', 'no lease', 'lease ended')
    UNION ALL
    SELECT CASE WHEN of_hand.is_unused THEN 'a worker ID is set by hand, but the server uses a lease'
                ELSE 'the server reports a warning' END,
           status.warning,
           CASE WHEN of_hand.is_unused
                THEN 'Remove the row of this server from snowflake_workers if there is one, and run: '
                     'ALTER SYSTEM SET snowflake_id.worker_id = -1; SELECT pg_reload_conf();'
                ELSE 'Page reference/errors of the manual describes this warning.' END
    FROM status CROSS JOIN LATERAL (SELECT status.warning ~ '^this server does not use worker ID') AS of_hand (is_unused)
    WHERE status.warning IS NOT NULL AND status.warning !~ '^this standby'
      AND NOT (status.is_known AND status.warning ~ '^(the clocks of this server|the lease of this server)')
    UNION ALL
    SELECT 'the horizon is beyond the end of the lease',
           format('The horizon is %s, and the lease ends at %s. The clock was ahead when the horizon was stored. The server cannot '
                  'use a lease that ends before its horizon.', status.horizon, status.lease_until),
           format('Wait until the clock is less than the length of a lease before the horizon, or use longer leases. In the '
                  'database of the registry, run: SELECT snowflake_registry.configure(lease => %L);',
                  justify_hours(date_trunc('hour', status.horizon - clock_timestamp()) + '1 hour'))
    FROM status
    WHERE status.horizon > status.lease_until;
$$;
COMMENT ON FUNCTION snowflake_internal.check_state(boolean) IS
    'state of this server, for snowflake_check()';

-- On a standby: what the primary has stored is compared with the settings that will count after a promotion. Primaries may
-- set them in files that are not replicated.
CREATE FUNCTION snowflake_internal.check_standby() RETURNS TABLE (problem text, detail text, hint text)
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    last record;
    own record;
    warning CONSTANT text := (SELECT status.warning FROM snowflake_internal.snowflake_server_status() AS status);
BEGIN
    IF warning ~ '^this standby' THEN
        problem := 'this standby would issue no IDs after a promotion';
        detail := warning;
        hint := 'Set snowflake_id.registry as on the primary.';
        RETURN NEXT;
        RETURN;
    END IF;
    -- Only the keeper's database has the records. After REFRESH .. WITH NO DATA, a query fails.
    IF current_setting('snowflake_id.database') <> current_database()
       OR NOT (SELECT relispopulated FROM pg_class WHERE oid = 'snowflake_internal.used_identity'::regclass) THEN
        RETURN;
    END IF;
    SELECT u.datacenter_id, u.worker_id, u.is_leased, bool_or(u.is_leased) OVER () AS has_leased,
           min(u.worker_id) OVER () = max(u.worker_id) OVER () AND min(u.datacenter_id) OVER () = max(u.datacenter_id) OVER ()
           AS is_only
    INTO last
    FROM (
        SELECT *, coalesce(to_jsonb(all_of) ->> 'registry_id' ~ '[1-9a-f]', false) AS is_leased
        FROM snowflake_internal.used_identity AS all_of
    ) AS u
    WHERE u.worker_id >= 0
    ORDER BY u.noted_at DESC, u.is_leased DESC, u.used_until_us = 0 DESC, u.datacenter_id, u.worker_id LIMIT 1;
    IF NOT FOUND OR current_setting('snowflake_id.registry') <> '' THEN
        RETURN;
    END IF;
    SELECT by_hand.is_row, by_hand.datacenter_id, by_hand.worker_id INTO own
    FROM (
        SELECT false, current_setting('snowflake_id.datacenter_id')::int, current_setting('snowflake_id.worker_id')::int
        UNION ALL
        SELECT true, r.datacenter_id, r.worker_id
        FROM snowflake_internal.worker_rows() AS r JOIN snowflake_internal.snowflake_server_status() AS status
          ON status.node_name = r.node_name
    ) AS by_hand (is_row, datacenter_id, worker_id)
    WHERE by_hand.worker_id >= 0
    ORDER BY by_hand.is_row LIMIT 1;
    -- Which worker ID the primary uses now is not known, because each is recorded only once. The primary has the rows of
    -- snowflake_workers as well, so a row with another worker ID is intended.
    IF NOT last.is_leased AND own.worker_id IS NOT NULL AND (own.is_row OR EXISTS (
        SELECT FROM snowflake_internal.used_identity AS u
        WHERE u.datacenter_id = own.datacenter_id AND u.worker_id = own.worker_id
          AND NOT coalesce(to_jsonb(u) ->> 'registry_id' ~ '[1-9a-f]', false))) THEN
        RETURN;
    END IF;
    -- A leased worker ID must not be set by hand, so it is not shown.
    detail := CASE WHEN last.is_leased THEN 'The primary has leased its last worker ID from a registry.'
                   ELSE format('The last worker ID that the primary recorded is %s of datacenter %s.', last.worker_id,
                               last.datacenter_id) END;
    IF own.worker_id IS NULL THEN
        problem := 'this standby has no worker ID for a promotion';
        detail := detail || ' On this standby, snowflake_id.worker_id and snowflake_id.registry are not set, and '
                            'snowflake_workers has no row for it.';
    ELSE
        problem := 'this standby has another worker ID than the primary';
        detail := format('%s After a promotion, this server would use worker ID %s of datacenter %s.', detail, own.worker_id,
                         own.datacenter_id);
    END IF;
    hint := CASE WHEN last.has_leased THEN 'Set snowflake_id.registry as on the primary.'
                 WHEN NOT last.is_only THEN 'Set snowflake_id.registry, snowflake_id.datacenter_id and snowflake_id.worker_id as on '
                                            'the primary.'
                 ELSE format('If the primary uses a registry, set snowflake_id.registry as on the primary. Otherwise, run: ALTER '
                             'SYSTEM SET snowflake_id.datacenter_id = %s; ALTER SYSTEM SET snowflake_id.worker_id = %s; '
                             'SELECT pg_reload_conf();', last.datacenter_id, last.worker_id) END;
    RETURN NEXT;
END
$$;
COMMENT ON FUNCTION snowflake_internal.check_standby() IS
    'settings of a standby, for snowflake_check()';

-- The type below all domains.
CREATE FUNCTION snowflake_internal.base_type(of_type oid) RETURNS oid
STABLE PARALLEL SAFE LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    WITH RECURSIVE below (type, next) AS (
        SELECT oid, typbasetype FROM pg_type WHERE oid = of_type
        UNION ALL
        SELECT t.oid, t.typbasetype FROM below JOIN pg_type AS t ON t.oid = below.next
    )
    SELECT type FROM below WHERE next = 0;
$$;
COMMENT ON FUNCTION snowflake_internal.base_type(oid) IS
    'type below all domains, for snowflake_check()';

-- Columns whose default takes an ID. `root` is the table with which a change of the type begins.
CREATE FUNCTION snowflake_internal.id_columns()
RETURNS TABLE (relation oid, root oid, relation_kind "char", pages int, column_number smallint, column_name name, type oid)
STABLE PARALLEL SAFE LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT c.oid, coalesce(pg_partition_root(c.oid), c.oid), c.relkind, c.relpages, a.attnum, a.attname,
           CASE WHEN t.typbasetype = 0 THEN t.oid ELSE snowflake_internal.base_type(t.oid) END
    FROM pg_depend AS d
    JOIN pg_attrdef AS expression ON expression.oid = d.objid
    JOIN pg_attribute AS a ON a.attrelid = expression.adrelid AND a.attnum = expression.adnum
    JOIN pg_type AS t ON t.oid = a.atttypid
    JOIN pg_class AS c ON c.oid = a.attrelid AND c.relkind IN ('r', 'p')
    WHERE d.classid = 'pg_attrdef'::regclass AND d.refclassid = 'pg_proc'::regclass
      -- The other functions take numbers of segments, which may be small.
      AND d.refobjid = ANY ((snowflake_internal.default_functions())[1:2]::oid[])
$$;
COMMENT ON FUNCTION snowflake_internal.id_columns() IS
    'columns whose default takes an ID, for snowflake_check()';

-- Columns that cannot represent all IDs, although their default takes IDs or a foreign key leads to a column with IDs.
CREATE FUNCTION snowflake_internal.check_columns() RETURNS TABLE (problem text, detail text, hint text)
STABLE PARALLEL SAFE LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    WITH RECURSIVE holder (relation, column_number, is_adopted) AS (
        SELECT relation, column_number, true FROM snowflake_internal.id_columns()
        UNION
        SELECT foreign_key.conrelid, pair.referencing, false
        FROM holder
        JOIN pg_constraint AS foreign_key ON foreign_key.contype = 'f' AND foreign_key.confrelid = holder.relation
        CROSS JOIN LATERAL unnest(foreign_key.conkey, foreign_key.confkey) AS pair (referencing, referenced)
        WHERE pair.referenced = holder.column_number
    ),
    narrow AS (
        SELECT root.oid, a.attname, min(format_type(a.atttypid, a.atttypmod)) AS type, bool_or(holder.is_adopted) AS is_adopted,
               bool_or(base.type = ANY ('{float4,float8}'::regtype[]::oid[])) AS is_float
        FROM holder
        JOIN pg_attribute AS a ON a.attrelid = holder.relation AND a.attnum = holder.column_number
        JOIN pg_type AS t ON t.oid = a.atttypid
        CROSS JOIN LATERAL (
            SELECT CASE WHEN t.typbasetype = 0 THEN t.oid ELSE snowflake_internal.base_type(t.oid) END
        ) AS base (type)
        JOIN pg_class AS root ON root.oid = coalesce(pg_partition_root(holder.relation), holder.relation)
        WHERE base.type = ANY ('{int2,int4,float4,float8}'::regtype[]::oid[])
        GROUP BY root.oid, a.attname
    )
    SELECT format('column %I of table %s cannot hold IDs', narrow.attname, place.name),
           format(CASE WHEN narrow.is_float THEN 'Type %s rounds IDs.' ELSE 'Type %s is too small.' END, narrow.type)
           || CASE WHEN narrow.is_adopted THEN ' The default of the column takes an ID.'
                   ELSE ' A foreign key leads to a column with IDs.' END,
           format('Run: ALTER TABLE %s ALTER COLUMN %I TYPE bigint;', place.name, narrow.attname)
    FROM narrow
    JOIN pg_class AS c ON c.oid = narrow.oid AND c.relpersistence <> 't'
    JOIN pg_namespace AS n ON n.oid = c.relnamespace
    CROSS JOIN LATERAL format('%I.%I', n.nspname, c.relname) AS place (name)
    ORDER BY narrow.is_adopted DESC, place.name, narrow.attname;
$$;
COMMENT ON FUNCTION snowflake_internal.check_columns() IS
    'types of columns with IDs, for snowflake_check()';

CREATE FUNCTION snowflake_internal.check_adoption() RETURNS TABLE (problem text, detail text, hint text)
STABLE PARALLEL SAFE LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT 'snowflake_adopt_online() has not finished',
           format('Tables: %s. The procedure is running, or was interrupted.', string_agg(DISTINCT unfinished.relation::regclass::text, ', ')),
           'If it is not running, repeat the CALL with the same table and column; with abandon => true, the new columns are dropped.'
    FROM (
        SELECT relation FROM snowflake_internal.snowflake_adopt_new_columns()
        UNION
        SELECT constraint_row.conrelid
        FROM pg_description AS note
        JOIN pg_constraint AS constraint_row ON constraint_row.oid = note.objoid AND constraint_row.conrelid <> 0
        WHERE note.classoid = 'pg_constraint'::regclass AND starts_with(note.description, 'snowflake_adopt_online: not yet checked.')
    ) AS unfinished
    HAVING count(*) > 0;
$$;
COMMENT ON FUNCTION snowflake_internal.check_adoption() IS
    'unfinished adoptions, for snowflake_check()';

-- pg_upgrade creates domains and range types before casts, and pg_upgrade --check does not notice that these need casts of
-- type snowflake. The expressions are searched for such a conversion. Constraints that are NOT VALID are created later.
CREATE FUNCTION snowflake_internal.check_types() RETURNS TABLE (problem text, detail text, hint text)
STABLE PARALLEL SAFE LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    WITH RECURSIVE derived (type, typtype) AS (
        SELECT snowflake_internal.id_type()::oid, 'b'::"char"
        UNION
        SELECT t.oid, t.typtype FROM derived JOIN pg_type AS t ON t.typbasetype = derived.type AND t.typtype = 'd'
    ),
    id_types AS MATERIALIZED (
        SELECT derived.type FROM derived
        UNION
        SELECT t.typarray FROM derived JOIN pg_type AS t ON t.oid = derived.type
    ),
    pattern AS MATERIALIZED (
        SELECT 'type(Id)?\s(' || (SELECT string_agg(type::text, '|') FROM id_types) || ')[ }]' AS mentions,
               format(':resulttype (20|%s) :resulttypmod -1 :resultcollid 0 :relabelformat|:funcid (%s) ', snowflake_internal.id_type()::oid,
                      (SELECT string_agg(castfunc::oid::text, '|') FROM pg_cast
                       WHERE snowflake_internal.id_type()::oid IN (castsource, casttarget) AND castfunc <> 0)) AS converts
    ),
    -- Step 1 is the default of a domain, step 2 a constraint.
    of_domain AS (
        SELECT t.oid AS type, 1 AS step, ''::name AS part, t.typdefaultbin AS expression,
               'pg_type'::regclass AS class, t.oid AS object
        FROM pg_type AS t WHERE t.typtype = 'd'
        UNION ALL
        SELECT c.contypid, 2, c.conname, c.conbin, 'pg_constraint'::regclass, c.oid
        FROM pg_constraint AS c WHERE c.contypid <> 0 AND c.contype = 'c' AND c.convalidated
    ),
    -- Functions whose bodies pg_upgrade parses before the domain is created.
    called (class, object, function) AS (
        SELECT d.classid, d.objid, d.refobjid
        FROM of_domain JOIN pg_depend AS d ON d.classid = of_domain.class AND d.objid = of_domain.object
        WHERE d.refclassid = 'pg_proc'::regclass
        UNION
        SELECT called.class, called.object, d.refobjid
        FROM called JOIN pg_depend AS d ON d.classid = 'pg_proc'::regclass AND d.objid = called.function
        WHERE d.refclassid = 'pg_proc'::regclass
    ),
    searched AS (
        SELECT of_domain.*, concat(expression, (
                   SELECT string_agg(concat(p.prosqlbody, p.proargdefaults), '')
                   FROM called JOIN pg_proc AS p ON p.oid = called.function
                   WHERE called.class = of_domain.class AND called.object = of_domain.object
               )) AS text
        FROM of_domain WHERE expression IS NOT NULL
    ),
    in_domain AS MATERIALIZED (
        SELECT searched.*, format('%I.%I', n.nspname, t.typname) AS name
        FROM pattern CROSS JOIN searched
        JOIN pg_type AS t ON t.oid = searched.type
        JOIN pg_namespace AS n ON n.oid = t.typnamespace
        WHERE searched.text ~ pattern.converts
          AND (searched.text ~ pattern.mentions OR searched.type IN (SELECT type FROM derived))
    ),
    of_range AS MATERIALIZED (
        SELECT range.rngtypid AS type, range.rngmultitypid AS multirange, format('%I.%I', n.nspname, t.typname) AS name
        FROM derived
        JOIN pg_range AS range ON range.rngsubtype = derived.type
        JOIN pg_type AS t ON t.oid = range.rngtypid
        JOIN pg_namespace AS n ON n.oid = t.typnamespace
    ),
    -- ONLY keeps the defaults that children and partitions have themselves. A change of type includes the inherited columns.
    statement (is_domain, name, step, part, text) AS (
        SELECT true, d.name, 1, format('%s.%s', a.attrelid, a.attnum),
               format('ALTER TABLE ONLY %I.%I ALTER COLUMN %I SET DEFAULT %s', n.nspname, c.relname, a.attname,
                      pg_get_expr(d.expression, 0))
        FROM in_domain AS d
        JOIN pg_attribute AS a ON a.atttypid = d.type AND NOT a.attisdropped AND NOT a.atthasdef
        JOIN pg_class AS c ON c.oid = a.attrelid AND c.relkind IN ('r', 'p', 'f')
        JOIN pg_namespace AS n ON n.oid = c.relnamespace
        WHERE d.step = 1
        UNION ALL
        SELECT true, d.name, 2, '', format('ALTER DOMAIN %s DROP DEFAULT', d.name)
        FROM in_domain AS d WHERE d.step = 1
        UNION ALL
        SELECT true, d.name, 3, d.part::text,
               format('ALTER DOMAIN %1$s DROP CONSTRAINT %2$I; ALTER DOMAIN %1$s ADD CONSTRAINT %2$I %3$s NOT VALID',
                      d.name, d.part, pg_get_constraintdef(c.oid))
        FROM in_domain AS d JOIN pg_constraint AS c ON c.contypid = d.type AND c.conname = d.part
        WHERE d.step = 2
        UNION ALL
        SELECT false, r.name, 1, format('%s.%s', a.attrelid, a.attnum),
               format('ALTER TABLE %I.%I ALTER COLUMN %I TYPE %s USING %3$I::text::%4$s', n.nspname, c.relname, a.attname,
                      CASE WHEN a.atttypid = r.type THEN 'int8range' ELSE 'int8multirange' END)
        FROM of_range AS r
        JOIN pg_attribute AS a ON a.atttypid IN (r.type, r.multirange) AND NOT a.attisdropped AND a.attinhcount = 0
        JOIN pg_class AS c ON c.oid = a.attrelid AND c.relkind IN ('r', 'p')
        JOIN pg_namespace AS n ON n.oid = c.relnamespace
        UNION ALL
        SELECT false, r.name, 2, '', format('DROP TYPE %s', r.name) FROM of_range AS r
    )
    SELECT format(CASE WHEN is_domain THEN 'domain %s prevents pg_upgrade' ELSE 'range type %s prevents pg_upgrade' END, name),
           CASE WHEN is_domain THEN 'The DEFAULT or a CHECK of the domain needs a cast of type snowflake. '
                ELSE 'The range type needs a cast of type snowflake. ' END
           || 'pg_upgrade creates the type before the cast, and fails. pg_upgrade --check does not detect this.',
           -- The change of a column's type can run a cast of the range's owner.
           format(CASE WHEN is_domain THEN 'Before the upgrade, run: %s;'
                  ELSE 'Before the upgrade, as the owner of the tables, run: %s;' END, string_agg(text, '; ' ORDER BY step, part))
    FROM statement
    GROUP BY is_domain, name
    ORDER BY is_domain DESC, name;
$$;
COMMENT ON FUNCTION snowflake_internal.check_types() IS
    'types that prevent pg_upgrade, for snowflake_check()';

-- The rows of these tables belong to one server. Subscribers skip them with a warning for each row.
-- pg_get_publication_tables() is not used: it opens each table, and would wait for locks.
CREATE FUNCTION snowflake_internal.check_publications() RETURNS TABLE (problem text, detail text, hint text)
STABLE PARALLEL SAFE LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    WITH publishable AS (
        -- The first OID of an object that initdb has not created is 16384.
        SELECT c.oid, c.relnamespace, c.relispartition, format('%I.%I', n.nspname, c.relname) AS name,
               EXISTS (SELECT FROM pg_depend AS d JOIN pg_extension AS e ON e.oid = d.refobjid
                       WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e'
                         AND d.refclassid = 'pg_extension'::regclass
                         AND e.extname IN ('snowflake_id', 'snowflake_id_registry')) AS is_ours
        FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
        WHERE c.relkind IN ('r', 'p') AND c.relpersistence = 'p' AND c.oid >= 16384
          AND EXISTS (SELECT FROM pg_publication)
    ),
    -- From PostgreSQL 19 on, a publication of all tables can except some.
    listed AS (
        SELECT r.prpubid, r.prrelid, coalesce((to_jsonb(r) ->> 'prexcept')::boolean, false) AS is_excepted
        FROM pg_publication_rel AS r
    ),
    published AS (
        SELECT p.oid, p.pubname, p.puballtables, t.name, t.is_ours, listed.prrelid IS NOT NULL AS is_listed,
               row_number() OVER (PARTITION BY p.oid, t.is_ours ORDER BY t.name) AS position
        FROM pg_publication AS p
        CROSS JOIN publishable AS t
        LEFT JOIN pg_publication_namespace AS of_schema ON of_schema.pnpubid = p.oid AND of_schema.pnnspid = t.relnamespace
        LEFT JOIN listed ON listed.prpubid = p.oid AND listed.prrelid = t.oid
        WHERE NOT coalesce(listed.is_excepted, false)
          AND (p.puballtables AND NOT t.relispartition OR of_schema.oid IS NOT NULL OR listed.prrelid IS NOT NULL)
    ),
    of_publication AS (
        SELECT oid, pubname, puballtables,
               string_agg(name, ', ' ORDER BY name) FILTER (WHERE is_ours) AS ours,
               -- A long list is cut off, and then is not a statement that could be executed.
               string_agg(CASE WHEN position > 50 THEN '...' ELSE name END, ', ' ORDER BY position)
               FILTER (WHERE NOT is_ours AND position <= 51) AS others,
               bool_and(is_listed AND NOT puballtables) FILTER (WHERE is_ours) AS are_listed
        FROM published
        GROUP BY oid, pubname, puballtables
        HAVING bool_or(is_ours)
    )
    SELECT format('publication %I contains tables of the extension', pubname),
           format('Tables: %s. Their rows belong to this server. Subscribers skip them with warnings, or stop.', ours),
           CASE WHEN are_listed THEN format('Run: ALTER PUBLICATION %I DROP TABLE %s;', pubname, ours)
                WHEN puballtables THEN format('Create the publication for your tables only. With its other options, run: DROP PUBLICATION '
                                              '%1$I; CREATE PUBLICATION %1$I%2$s;', pubname, ' FOR TABLE ' || others)
                ELSE format('Publish your tables instead of their schema, run: ALTER PUBLICATION %I SET TABLE %s;', pubname,
                            coalesce(others, '...')) END
    FROM of_publication
    ORDER BY pubname;
$$;
COMMENT ON FUNCTION snowflake_internal.check_publications() IS
    'publications of tables of the extension, for snowflake_check()';

-- Looks at some rows of the largest tables whose defaults take IDs.
CREATE FUNCTION snowflake_internal.check_ids() RETURNS TABLE (problem text, detail text, hint text)
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    most_tables CONSTANT int := 100;
    until CONSTANT timestamptz := clock_timestamp() + '1 second';
    sampled CONSTANT text := 'Only rows in the first and the last pages of a table were read.';
    is_preloaded CONSTANT boolean := snowflake_internal.is_preloaded();
    max_ahead CONSTANT interval := current_setting('snowflake_id.max_ahead')::interval;
    place text;
    own record;
    id_column record;
    sample record;
    roots oid[] := '{}';
BEGIN
    -- A floor that was raised is also above old IDs of this server. After the clock was set back, its last ID is.
    SELECT NULL::int AS worker_id, NULL::int AS datacenter_id, NULL::timestamptz AS floor, NULL::timestamptz AS last_id_time
    INTO own;
    IF is_preloaded THEN
        SELECT status.worker_id, status.datacenter_id, status.floor,
               (SELECT coalesce(max(used.last_id_time), '-infinity') FROM snowflake_internal.snowflake_layouts_in_use() AS used
                WHERE used.layout = current_setting('snowflake_id.layout')) AS last_id_time
        INTO own
        FROM snowflake_internal.snowflake_server_status() AS status;
    END IF;
    FOR id_column IN
        SELECT * FROM snowflake_internal.id_columns() AS c
        WHERE c.relation_kind = 'r' AND c.type = ANY (ARRAY['bigint'::regtype, snowflake_internal.id_type()]::oid[])
        ORDER BY c.pages DESC, c.relation LIMIT most_tables
    LOOP
        EXIT WHEN clock_timestamp() > until;
        CONTINUE WHEN id_column.root = ANY (roots); -- One partition with a problem is enough.
        SELECT count(*) AS number, count(s.other_layout) AS others,
               (array_agg(s.id ORDER BY s.id) FILTER (WHERE s.other_layout IS NOT NULL))[1] AS example,
               mode() WITHIN GROUP (ORDER BY s.other_layout) AS other_layout,
               max(s.id) FILTER (WHERE s.is_ahead) AS ahead, max(s.generated_at) FILTER (WHERE s.is_ahead) AS ahead_at,
               bool_or(s.is_ahead AND s.is_own) AS are_own
        INTO sample
        FROM (
            SELECT id.*, own.worker_id = id.worker_id AND own.datacenter_id = coalesce(id.datacenter_id, 0) AS is_own,
                   id.other_layout IS NULL AND id.generated_at > clock_timestamp() + max_ahead + '1 minute'
                   AND (own.worker_id IS DISTINCT FROM id.worker_id
                        OR own.datacenter_id IS DISTINCT FROM coalesce(id.datacenter_id, 0)
                        OR id.generated_at >= own.floor AND id.generated_at > own.last_id_time) AS is_ahead
            FROM snowflake_internal.sampled_ids(id_column.relation, id_column.column_number) AS id
        ) AS s;
        CONTINUE WHEN sample.others = 0 AND sample.ahead IS NULL;
        roots := roots || id_column.root;
        SELECT format('%I.%I', n.nspname, c.relname) INTO place
        FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE c.oid = id_column.relation;
        IF sample.others > 0 THEN
            problem := format('column %I of table %s contains IDs of another layout', id_column.column_name, place);
            detail := format('Of %s sampled IDs, %s do not look like IDs of layout %s, but of layout %s. An example is %s. %s',
                             sample.number, sample.others, current_setting('snowflake_id.layout'), sample.other_layout,
                             sample.example, sampled);
            hint := format('Times and worker IDs of these IDs are not right in this layout, and two layouts in one column can repeat '
                           'IDs. Give the rows new IDs. If all IDs have the other layout, run: ALTER SYSTEM SET '
                           'snowflake_id.layout = %L; SELECT pg_reload_conf();', sample.other_layout);
            RETURN NEXT;
        END IF;
        IF sample.ahead IS NOT NULL THEN
            problem := format('column %I of table %s contains IDs that are ahead of the clock', id_column.column_name, place);
            detail := format('The time of ID %s is %s. %s', sample.ahead, sample.ahead_at, sampled);
            hint := CASE WHEN sample.are_own AND sample.ahead_at < clock_timestamp() + '1 day' AND NOT pg_is_in_recovery()
                         THEN format('Correct the clock. If it is right, this server could repeat these IDs: give the rows new IDs. Or '
                                     'stop IDs until then, run: SELECT %s.snowflake_raise_floor(%L);',
                                     snowflake_internal.home(), sample.ahead_at + '1 second')
                         ELSE 'Correct the clock of this server, or of the server whose worker ID is in these IDs.' END;
            RETURN NEXT;
        END IF;
    END LOOP;
END
$$;
COMMENT ON FUNCTION snowflake_internal.check_ids() IS
    'a sample of the IDs in tables, for snowflake_check()';

CREATE FUNCTION snowflake_check() RETURNS TABLE (problem text, detail text, hint text)
VOLATILE PARALLEL UNSAFE SECURITY DEFINER LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    is_explained boolean := false;
BEGIN
    RETURN QUERY SELECT * FROM snowflake_internal.check_preloading();
    IF snowflake_internal.is_preloaded() THEN
        FOR problem, detail, hint IN
            SELECT r.problem, r.detail, r.hint FROM snowflake_internal.check_registry(snowflake_internal.workers_by_hand()) AS r
        LOOP
            RETURN NEXT;
            -- These problems leave a server its lease.
            is_explained := is_explained OR problem !~ '^(worker ID |the registry was not checked|role .* may not take )';
        END LOOP;
        RETURN QUERY SELECT * FROM snowflake_internal.check_state(is_explained);
        IF pg_is_in_recovery() THEN
            RETURN QUERY SELECT * FROM snowflake_internal.check_standby();
        END IF;
    END IF;
    RETURN QUERY SELECT * FROM snowflake_internal.check_settings();
    RETURN QUERY SELECT * FROM snowflake_internal.check_columns();
    RETURN QUERY SELECT * FROM snowflake_internal.check_adoption();
    RETURN QUERY SELECT * FROM snowflake_internal.check_types();
    RETURN QUERY SELECT * FROM snowflake_internal.check_publications();
    RETURN QUERY SELECT * FROM snowflake_internal.check_ids();
END
$$;
COMMENT ON FUNCTION snowflake_check() IS
    'problems that this server can see, each with what to do; no rows if there are none';
