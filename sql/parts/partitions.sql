-- Functions that create partitions by the time of the ID.

-- snowflake_internal.snowflake_partition_steps() makes the checks and creates the statements, and
-- snowflake_internal.snowflake_add_partitions() executes them. Both functions run with the privileges of the caller. Only
-- the first one sets search_path. The statements run with the caller's search_path, because they may run event triggers,
-- which must see the same search_path as if the caller had typed the statements.
--
-- The caller must be the owner of the table. A superuser or a member of the owning role is rejected, because creating a
-- partition evaluates constant expressions in the table's indexes and in the constraints of its default partition, with
-- the privileges of the caller. Furthermore, the caller will own the partition, whose indexes are copied from the
-- table. Autovacuum runs the functions in these indexes with the privileges of the partition's owner. Triggers,
-- defaults and generated columns are copied but not run.

-- Times are computed in UTC, so that the same call produces the same bounds in every session.
CREATE FUNCTION snowflake_internal.snowflake_partition_steps(
    parent regclass, start timestamptz, stop timestamptz, step interval, layout text, for_execution boolean
) RETURNS TABLE (
    partition text, since timestamptz, before timestamptz, from_id bigint, to_id bigint, statement text
) VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
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
    IF parent IS NULL OR start IS NULL OR stop IS NULL OR step IS NULL THEN
        RAISE EXCEPTION 'parent, since, before and step must not be null'
            USING ERRCODE = 'null_value_not_allowed',
                  DETAIL = 'Only layout may be null. In that case, the layout of the session is used.',
                  HINT = 'Specify a table, a start, an end and a step.';
    ELSIF for_execution AND current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        RAISE EXCEPTION 'cannot create partitions at isolation level %',
            current_setting('transaction_isolation')
            USING ERRCODE = 'feature_not_supported',
                  DETAIL = 'Partitions that other sessions have just created would not be visible.',
                  HINT = 'Start the transaction with BEGIN ISOLATION LEVEL READ COMMITTED.';
    END IF;

    SELECT n.nspname, c.relname, CASE
               WHEN p.partrelid IS NULL THEN 'It is not partitioned.'
               WHEN p.partstrat = 'l' THEN 'It is partitioned by LIST.'
               WHEN p.partstrat = 'h' THEN 'It is partitioned by HASH.'
               WHEN p.partnatts > 1 THEN format('Its partition key has %s columns.', p.partnatts)
               WHEN a.attname IS NULL THEN 'Its partition key is an expression.'
               WHEN a.atttypid NOT IN ('bigint'::regtype, snowflake_internal.id_type())
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
            USING ERRCODE = 'undefined_table', HINT = 'Specify the name of a table.';
    ELSIF problem IS NOT NULL THEN
        RAISE EXCEPTION 'table "%" is not partitioned by ranges of a bigint', table_name
            USING ERRCODE = 'wrong_object_type', DETAIL = problem,
                  HINT = 'Create it with PARTITION BY RANGE (id), where id is a column of type bigint or snowflake.';
    END IF;

    IF layout IS NULL THEN
        -- This call loads the library if necessary, and fails if the setting is not a valid layout.
        PERFORM snowflake_internal.bound(start);
        layout := current_setting('snowflake_id.layout');
    END IF;
    SELECT facts.epoch, facts.exhausted_at INTO epoch, exhausted_at
    FROM snowflake_internal.limits(layout) AS facts;
    IF step < interval '1 second' THEN
        RAISE EXCEPTION 'a step of % is too short', step
            USING ERRCODE = 'invalid_parameter_value',
                  DETAIL = 'The shortest step is one second.',
                  HINT = 'Use a longer step, such as interval ''1 month''.';
    ELSIF stop <= start THEN
        RAISE EXCEPTION 'before must be later than since'
            USING ERRCODE = 'invalid_parameter_value',
                  DETAIL = format('Argument since is %s, and argument before is %s.', start, stop),
                  HINT = 'Specify a later value for before.';
    ELSIF start < epoch OR stop > exhausted_at THEN
        RAISE EXCEPTION 'the range from since to before is not within the layout'
            USING ERRCODE = 'invalid_parameter_value',
                  DETAIL = format('The range is from %s to %s. The layout covers times from %s to %s.',
                                  start, stop, epoch, exhausted_at),
                  HINT = 'Use a range within the layout, or specify another layout.';
    END IF;

    -- Each bound is computed from the start. If each bound were computed from the previous bound, months that begin on
    -- the 31st would begin on the 28th after the first February.
    WHILE bounds IS NULL OR bounds[cardinality(bounds)] < stop LOOP
        IF cardinality(bounds) > most_partitions THEN
            RAISE EXCEPTION 'too many partitions'
                USING ERRCODE = 'invalid_parameter_value',
                      DETAIL = format('Steps of %s from %s to %s result in more than %s partitions.', step, start, stop, most_partitions),
                      HINT = 'Use a longer step, or call the function several times.';
        END IF;
        next_bound := (start AT TIME ZONE 'UTC' + coalesce(cardinality(bounds), 0) * step) AT TIME ZONE 'UTC';
        IF next_bound <= bounds[cardinality(bounds)] THEN
            RAISE EXCEPTION 'a step of % does not lead to a later time', step
                USING ERRCODE = 'invalid_parameter_value',
                      DETAIL = format('One step leads from %s to %s.', bounds[cardinality(bounds)], next_bound),
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
        -- If the caller has no privileges on the table, LOCK TABLE raises an error.
        IF strange.tables IS NOT NULL AND (strange.owner IS NULL OR pg_has_role(strange.owner::regrole, 'USAGE')) THEN
            RAISE EXCEPTION 'not all affected tables belong to role %', caller
                USING ERRCODE = 'feature_not_supported',
                      DETAIL = format('Tables of other roles: %s. Code in their constraints and indexes would run with the '
                                      'privileges of %s.', strange.tables, caller),
                      HINT = CASE WHEN strange.owner IS NULL
                                  THEN format('Change the owner of the default partition: ALTER TABLE ... OWNER TO %s;',
                                              caller)
                                  ELSE format('Connect as %s and call the function again. Alternatively, if you trust the code in the tables '
                                              'of %1$s: SET ROLE %1$s;', strange.owner) END;
        END IF;
        -- The statements refer to the table by name. Before they run, the owner of the schema can replace the table.
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
                      DETAIL = format('The schema belongs to role %s, which can replace table "%s" while the statements run with '
                                      'the privileges of %s.', strange.owner, table_name, caller),
                      HINT = format('Change the owner of the schema to a superuser (ALTER SCHEMA %I OWNER TO ...), or change the '
                                    'owner of the table to %s (ALTER TABLE ... OWNER TO %2$s) and connect as %2$s.', place,
                                    strange.owner);
        END IF;
        -- This is the lock that CREATE TABLE acquires. The second of two concurrent calls sees the partitions that the
        -- first call has created.
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
            -- A default partition has no bounds. The pattern has no backslashes, because
            -- standard_conforming_strings = off would remove them.
            CROSS JOIN regexp_match(pg_get_expr(c.relpartbound, c.oid), 'FROM [(](.*)[)] TO [(](.*)[)]') AS bound
            WHERE i.inhparent = parent AND bound IS NOT NULL
        ), wanted AS (
            SELECT step.*, snowflake_internal.bound(step.since, layout) AS from_id,
                   snowflake_internal.bound(step.before, layout) AS to_id
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
                      DETAIL = format('The layout has no IDs with times between %s and %s.', since, before),
                      HINT = 'Use a longer step, such as interval ''1 month''.';
        ELSIF planned.found_from = from_id AND planned.found_to = to_id THEN
            partition := format('%I.%I', planned.nspname, planned.relname);
            statement := NULL;
        ELSIF planned.relname IS NOT NULL THEN
            RAISE EXCEPTION 'partition "%" overlaps the range from % to %', planned.relname, since, before
                USING ERRCODE = 'invalid_object_definition',
                      DETAIL = format('The partition contains IDs from %s to %s, and the range is from %s to %s.',
                                      planned.found_from, planned.found_to, from_id, to_id),
                      HINT = 'Use values of since and step that produce the bounds of the existing partitions.';
        ELSE
            part_name := table_name || to_char(since AT TIME ZONE 'UTC', suffix);
            IF octet_length(part_name) > name_bytes THEN
                RAISE EXCEPTION 'partition name "%" is too long', part_name
                    USING ERRCODE = 'name_too_long',
                          DETAIL = format('The name has %s bytes, and the maximum is %s.', octet_length(part_name), name_bytes),
                          HINT = format('Rename the table. The new name can have at most %s bytes.',
                                        name_bytes - octet_length(part_name) + octet_length(table_name));
            ELSIF to_regclass(format('%I.%I', place, part_name)) IS NOT NULL THEN
                RAISE EXCEPTION 'relation "%" already exists', part_name
                    USING ERRCODE = 'duplicate_table',
                          DETAIL = format('The relation in schema "%s" is not a partition of "%s" from %s to %s.',
                                          place, table_name, since, before),
                          HINT = 'Rename or drop the relation.';
            END IF;
            partition := format('%I.%I', place, part_name);
            statement := format('CREATE TABLE %s PARTITION OF %I.%I FOR VALUES FROM (%s) TO (%s)',
                                partition, place, table_name, from_id, to_id);
        END IF;
        RETURN NEXT;
    END LOOP;
END
$$;
COMMENT ON FUNCTION snowflake_internal.snowflake_partition_steps(regclass, timestamptz, timestamptz, interval, text, boolean) IS
    'checks and locks the table for snowflake_create_partitions(), and returns the statements to execute';

CREATE FUNCTION snowflake_internal.snowflake_add_partitions(
    parent regclass, start timestamptz, stop timestamptz, step interval, layout text
) RETURNS TABLE (
    partition text, since timestamptz, before timestamptz, from_id bigint, to_id bigint, created boolean, statement text
) VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql AS $$
BEGIN
    FOR partition, since, before, from_id, to_id, statement IN
        SELECT * FROM snowflake_internal.snowflake_partition_steps(parent, start, stop, step, layout, true)
    LOOP
        created := statement IS NOT NULL;
        IF created THEN
            EXECUTE statement;
        END IF;
        RETURN NEXT;
    END LOOP;
END
$$;
COMMENT ON FUNCTION snowflake_internal.snowflake_add_partitions(regclass, timestamptz, timestamptz, interval, text) IS
    'executes the statements of snowflake_partition_steps(), for snowflake_create_partitions()';

-- In PL/pgSQL, parameters and columns of the result could not have the same names.
CREATE FUNCTION snowflake_create_partitions(
    parent regclass, since timestamptz, before timestamptz, step interval, layout text DEFAULT NULL
) RETURNS TABLE (
    partition text, since timestamptz, before timestamptz, from_id bigint, to_id bigint, created boolean, statement text
) VOLATILE PARALLEL UNSAFE LANGUAGE sql
BEGIN ATOMIC
    SELECT * FROM snowflake_internal.snowflake_add_partitions($1, $2, $3, $4, $5);
END;
COMMENT ON FUNCTION snowflake_create_partitions(regclass, timestamptz, timestamptz, interval, text) IS
    'creates the missing partitions of a table that is partitioned by snowflake IDs';

CREATE FUNCTION snowflake_plan_partitions(
    parent regclass, since timestamptz, before timestamptz, step interval, layout text DEFAULT NULL
) RETURNS TABLE (
    partition text, since timestamptz, before timestamptz, from_id bigint, to_id bigint, statement text
) VOLATILE PARALLEL UNSAFE LANGUAGE sql
BEGIN ATOMIC
    SELECT * FROM snowflake_internal.snowflake_partition_steps($1, $2, $3, $4, $5, false);
END;
COMMENT ON FUNCTION snowflake_plan_partitions(regclass, timestamptz, timestamptz, interval, text) IS
    'statements that snowflake_create_partitions() would execute; NULL for partitions that exist';
