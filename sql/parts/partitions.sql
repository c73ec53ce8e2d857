-- Partitions by the time of the ID.

-- snowflake_create_partitions_plan() makes the checks and writes the statements,
-- snowflake_create_partitions() executes them. Both have the rights of the caller. search_path is pinned in
-- the former only: what the statements set off, such as event triggers, has to find the caller's search_path,
-- as it would if they were typed.
--
-- The caller has to be the owner of the table, and not merely a superuser or a member of the owning role. To
-- make a partition evaluates what is constant in the table's indexes and in the constraints of its default
-- partition, with the rights of the caller. And the partition is the caller's own: autovacuum runs the
-- functions in its indexes, which come from the table, with the rights of its owner for as long as it exists.
-- Triggers, defaults and generated columns are copied, not run.

-- Time is counted in UTC, so that the same call gives the same bounds in every session.
CREATE FUNCTION snowflake_create_partitions_plan(
    parent regclass, start timestamptz, stop timestamptz, step interval, layout text, for_execution boolean
) RETURNS TABLE (
    partition text, since timestamptz, before timestamptz, from_id bigint, to_id bigint, statement text
) VOLATILE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    most_partitions CONSTANT int := 10000;
    name_bytes CONSTANT int := current_setting('max_identifier_length');
    place name;
    table_name name;
    problem text;
    strange record;
    caller CONSTANT regrole := quote_ident(current_user)::regrole;
    epoch timestamptz;
    exhausted_at timestamptz;
    next_bound timestamptz;
    bounds timestamptz[];
    suffix text;
    part_name text;
    planned record;
BEGIN
    IF parent IS NULL OR start IS NULL OR stop IS NULL OR step IS NULL OR for_execution IS NULL THEN
        RAISE EXCEPTION 'an argument is NULL'
            USING ERRCODE = 'null_value_not_allowed',
                  DETAIL = 'Only the layout may be NULL, which stands for that of the session.',
                  HINT = 'Give a table, a start, a stop and a step.';
    ELSIF for_execution AND current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        RAISE EXCEPTION 'snowflake_create_partitions() cannot create partitions at isolation level %',
            current_setting('transaction_isolation')
            USING ERRCODE = 'feature_not_supported',
                  DETAIL = 'Partitions that others have just made would not be seen.',
                  HINT = 'Call it in a transaction that was begun with BEGIN ISOLATION LEVEL READ COMMITTED.';
    END IF;

    SELECT n.nspname, c.relname, CASE
               WHEN p.partrelid IS NULL THEN 'It is not partitioned.'
               WHEN p.partstrat = 'l' THEN 'It is partitioned by LIST.'
               WHEN p.partstrat = 'h' THEN 'It is partitioned by HASH.'
               WHEN p.partnatts > 1 THEN format('Its partition key has %s columns.', p.partnatts)
               WHEN a.attname IS NULL THEN 'Its partition key is an expression.'
               WHEN a.atttypid <> 'bigint'::regtype
                   THEN format('Its partition key "%s" is of type %s.', a.attname, format_type(a.atttypid, a.atttypmod))
           END
    INTO place, table_name, problem
    FROM pg_class AS c
    JOIN pg_namespace AS n ON n.oid = c.relnamespace
    LEFT JOIN pg_partitioned_table AS p ON p.partrelid = c.oid
    LEFT JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum = p.partattrs[0] AND a.attnum > 0
    WHERE c.oid = parent;
    IF table_name IS NULL THEN
        RAISE EXCEPTION 'table with OID % does not exist', parent::oid
            USING ERRCODE = 'undefined_table', HINT = 'Give the name of a table.';
    ELSIF problem IS NOT NULL THEN
        RAISE EXCEPTION 'table "%" is not partitioned by ranges of a bigint', table_name
            USING ERRCODE = 'wrong_object_type', DETAIL = problem,
                  HINT = 'Create it with PARTITION BY RANGE (id), where id is a bigint column.';
    END IF;

    IF layout IS NULL THEN
        -- Loads the library if need be, and fails if the setting is no layout.
        PERFORM @extschema@.snowflake_min_id(start);
        layout := current_setting('snowflake_id.layout');
    END IF;
    SELECT facts.epoch, facts.exhausted_at INTO epoch, exhausted_at
    FROM @extschema@.snowflake_describe_layout(layout) AS facts;
    IF step < interval '1 second' THEN
        RAISE EXCEPTION 'a step of % is too short', step
            USING ERRCODE = 'invalid_parameter_value',
                  DETAIL = 'The shortest step is a second.',
                  HINT = 'Use a longer one, such as interval ''1 month''.';
    ELSIF stop <= start THEN
        RAISE EXCEPTION 'the stop does not lie after the start'
            USING ERRCODE = 'invalid_parameter_value',
                  DETAIL = format('The start is %s, the stop %s.', start, stop),
                  HINT = 'Use a stop after the start.';
    ELSIF start < epoch OR stop > exhausted_at THEN
        RAISE EXCEPTION 'the range from start to stop does not lie within the layout'
            USING ERRCODE = 'invalid_parameter_value',
                  DETAIL = format('The range is from %s to %s; the layout reaches from %s to %s.',
                                  start, stop, epoch, exhausted_at),
                  HINT = 'Use a range within that, or name another layout.';
    END IF;

    -- Each bound is reckoned from the start, so that months that begin on a 31st do not slip to the 28th for
    -- good.
    WHILE bounds IS NULL OR bounds[cardinality(bounds)] < stop LOOP
        IF cardinality(bounds) > most_partitions THEN
            RAISE EXCEPTION 'too many partitions'
                USING ERRCODE = 'invalid_parameter_value',
                      DETAIL = format('Steps of %s from %s to %s give more than %s.', step, start, stop, most_partitions),
                      HINT = 'Use a longer step, or several calls.';
        END IF;
        next_bound := (start AT TIME ZONE 'UTC' + coalesce(cardinality(bounds), 0) * step) AT TIME ZONE 'UTC';
        IF next_bound <= bounds[cardinality(bounds)] THEN
            RAISE EXCEPTION 'steps of % do not lead ahead', step
                USING ERRCODE = 'invalid_parameter_value',
                      DETAIL = format('One leads from %s to %s.', bounds[cardinality(bounds)], next_bound),
                      HINT = 'Use a step without negative parts, such as interval ''1 month''.';
        END IF;
        bounds := bounds || next_bound;
    END LOOP;
    suffix := '_pYYYYMMDD';
    IF extract(epoch FROM start) % 86400 <> 0
       OR extract(epoch FROM step - date_trunc('day', step)) % 86400 <> 0 THEN
        suffix := '_pYYYYMMDD_HH24MISS';
    END IF;
    IF for_execution THEN
        SELECT string_agg(format('%s (%s)', pg_describe_object('pg_class'::regclass, c.oid, 0), c.relowner::regrole), ', '
                          ORDER BY c.oid <> parent, c.relname) AS tables,
               min(c.relowner::regrole::text) FILTER (WHERE c.oid = parent) AS owner
        INTO strange
        FROM pg_class AS c
        WHERE c.relowner <> caller
          AND (c.oid = parent OR c.oid IN (
              SELECT part.relid
              FROM pg_partitioned_table AS p CROSS JOIN LATERAL pg_partition_tree(p.partdefid) AS part
              WHERE p.partrelid = parent));
        -- Whoever has no rights to the table is told so by PostgreSQL.
        IF strange.tables IS NOT NULL AND (strange.owner IS NULL OR pg_has_role(strange.owner::regrole, 'USAGE')) THEN
            RAISE EXCEPTION 'not all tables concerned belong to %', caller
                USING ERRCODE = 'feature_not_supported',
                      DETAIL = format('These do not: %s. What their owners have written into constraints and indexes would '
                                      'run with the rights of %s.', strange.tables, caller),
                      HINT = CASE WHEN strange.owner IS NULL
                                  THEN format('Give the default partition the owner of the table: ALTER TABLE ... OWNER TO %s;',
                                              caller)
                                  ELSE format('Connect as %s to run it. Or, if all that %1$s has written into the tables may '
                                              'have your rights: SET ROLE %1$s;', strange.owner) END;
        END IF;
        -- The statements name the table. Who owns its schema can put another one in its place until they run.
        SELECT schema.owner::text AS owner
        INTO strange
        FROM (
            SELECT CASE WHEN n.nspowner = 'pg_database_owner'::regrole THEN d.datdba ELSE n.nspowner END::regrole AS owner
            FROM pg_namespace AS n
            JOIN pg_database AS d ON d.datname = current_database()
            WHERE n.nspname = place
        ) AS schema
        JOIN pg_roles AS owner ON owner.oid = schema.owner AND NOT owner.rolsuper
        JOIN pg_roles AS superuser ON superuser.oid = caller AND superuser.rolsuper;
        IF FOUND THEN
            RAISE EXCEPTION 'schema "%" does not belong to a superuser', place
                USING ERRCODE = 'feature_not_supported',
                      DETAIL = format('It belongs to %s, who can put another table in the place of "%s" while the statements '
                                      'run with the rights of %s.', strange.owner, table_name, caller),
                      HINT = 'Give the table to the owner of the schema and connect as that role, or give the schema to a '
                             'superuser.';
        END IF;
        -- As CREATE TABLE will: so that of two calls at the same time the second one finds what the first one
        -- made.
        EXECUTE format('LOCK TABLE ONLY %I.%I IN SHARE UPDATE EXCLUSIVE MODE', place, table_name);
    END IF;

    FOR planned IN
        WITH present AS MATERIALIZED (
            SELECT c.oid, n.nspname, c.relname,
                   CASE bound[1] WHEN 'MINVALUE' THEN -9223372036854775808 ELSE trim('''' FROM bound[1])::bigint END AS from_id,
                   CASE bound[2] WHEN 'MAXVALUE' THEN 9223372036854775807 ELSE trim('''' FROM bound[2])::bigint END AS to_id
            FROM pg_inherits AS i
            JOIN pg_class AS c ON c.oid = i.inhrelid
            JOIN pg_namespace AS n ON n.oid = c.relnamespace
            -- A default partition has no bounds. No backslashes: standard_conforming_strings = off would take
            -- them away.
            CROSS JOIN regexp_match(pg_get_expr(c.relpartbound, c.oid), 'FROM [(](.*)[)] TO [(](.*)[)]') AS bound
            WHERE i.inhparent = parent AND bound IS NOT NULL
        ), wanted AS (
            SELECT step.*, @extschema@.snowflake_min_id(step.since, layout) AS from_id,
                   @extschema@.snowflake_min_id(step.before, layout) AS to_id
            FROM unnest(bounds[:cardinality(bounds) - 1], bounds[2:]) WITH ORDINALITY AS step (since, before, position)
        )
        SELECT wanted.*, found.nspname, found.relname, found.from_id AS found_from, found.to_id AS found_to
        FROM wanted LEFT JOIN LATERAL (
            SELECT * FROM present
            WHERE present.from_id < wanted.to_id AND present.to_id > wanted.from_id
            ORDER BY present.from_id LIMIT 1
        ) AS found ON true
        ORDER BY wanted.position
    LOOP
        since := planned.since;
        before := planned.before;
        from_id := planned.from_id;
        to_id := planned.to_id;
        IF to_id <= from_id THEN
            RAISE EXCEPTION 'a step of % is too short', step
                USING ERRCODE = 'invalid_parameter_value',
                      DETAIL = format('No ID of the layout lies between %s and %s.', since, before),
                      HINT = 'Use a longer one, such as interval ''1 month''.';
        ELSIF planned.found_from = from_id AND planned.found_to = to_id THEN
            partition := format('%I.%I', planned.nspname, planned.relname);
            statement := NULL;
        ELSIF planned.relname IS NOT NULL THEN
            RAISE EXCEPTION 'partition "%" overlaps the range from % to %', planned.relname, since, before
                USING ERRCODE = 'invalid_object_definition',
                      DETAIL = format('It holds IDs from %s to %s, the range is from %s to %s.',
                                      planned.found_from, planned.found_to, from_id, to_id),
                      HINT = 'Use a start and a step with which the bounds are those of the partitions that exist.';
        ELSE
            part_name := table_name || to_char(since AT TIME ZONE 'UTC', suffix);
            IF octet_length(part_name) > name_bytes THEN
                RAISE EXCEPTION 'the name "%" is too long', part_name
                    USING ERRCODE = 'name_too_long',
                          DETAIL = format('It has %s bytes, and %s are the most.', octet_length(part_name), name_bytes),
                          HINT = format('Give the table a name of at most %s bytes.',
                                        name_bytes - octet_length(part_name) + octet_length(table_name));
            ELSIF to_regclass(format('%I.%I', place, part_name)) IS NOT NULL THEN
                RAISE EXCEPTION 'the name "%" is taken', part_name
                    USING ERRCODE = 'duplicate_table',
                          DETAIL = format('What bears it in schema "%s" is no partition of "%s" from %s to %s.',
                                          place, table_name, since, before),
                          HINT = 'Rename or drop that.';
            END IF;
            partition := format('%I.%I', place, part_name);
            statement := format('CREATE TABLE %s PARTITION OF %I.%I FOR VALUES FROM (%s) TO (%s)',
                                partition, place, table_name, from_id, to_id);
        END IF;
        RETURN NEXT;
    END LOOP;
END
$$;
COMMENT ON FUNCTION snowflake_create_partitions_plan(regclass, timestamptz, timestamptz, interval, text, boolean) IS
    'for snowflake_create_partitions(): checks, takes the lock if partitions are to be created, and returns the statements';

CREATE FUNCTION snowflake_create_partitions(
    parent regclass, start timestamptz, stop timestamptz, step interval,
    layout text DEFAULT NULL, dry_run boolean DEFAULT false
) RETURNS TABLE (
    partition text, since timestamptz, before timestamptz, from_id bigint, to_id bigint, created boolean, statement text
) VOLATILE LANGUAGE plpgsql AS $$
BEGIN
    FOR partition, since, before, from_id, to_id, statement IN
        SELECT * FROM @extschema@.snowflake_create_partitions_plan(parent, start, stop, step, layout, NOT dry_run)
    LOOP
        created := NOT dry_run AND statement IS NOT NULL;
        IF created THEN
            EXECUTE statement;
        END IF;
        RETURN NEXT;
    END LOOP;
END
$$;
COMMENT ON FUNCTION snowflake_create_partitions(regclass, timestamptz, timestamptz, interval, text, boolean) IS
    'creates the partitions of a table by the time of its snowflake IDs, where they do not exist';
