-- snowflake_adopt() moves existing tables to snowflake IDs. adopt_findings.sql collects the facts that it needs.
--
-- snowflake_adopt_plan() makes the checks and creates the statements, and snowflake_adopt() executes them. Both
-- functions run with the privileges of the caller. Only snowflake_adopt_plan() sets search_path. The statements run
-- with the caller's search_path, because they may call functions in indexes, constraints and event triggers. These
-- functions must see the same search_path as if the caller had typed the statements.
--
-- These functions also run with the privileges of the caller. Therefore, all tables whose definitions contain such
-- functions must belong to the caller, or to a role that the caller names as trusted. Membership in the role that owns
-- a table does not mean that the caller trusts the other members. A constraint of a trusted owner may call a function
-- of another role. As elsewhere in PostgreSQL, that is the owner's decision.

-- Raises an error if this column cannot be adopted at all. Otherwise, returns a description of the table, and the type
-- of the column.
CREATE FUNCTION snowflake_internal.snowflake_adopt_target(
    adopted_table regclass, adopted_column name, widens boolean, OUT description text, OUT type oid
)
STABLE PARALLEL SAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    facts record;
    note record;
BEGIN
    SELECT class.relkind, class.relnamespace, attribute.attnum, attribute.attgenerated,
           coalesce(nullif(type.typbasetype, 0), type.oid) AS type,
           pg_describe_object('pg_class'::regclass, class.oid, 0) AS description
    INTO facts
    FROM pg_class AS class
    LEFT JOIN pg_attribute AS attribute
      ON attribute.attrelid = class.oid AND attribute.attname = adopted_column AND NOT attribute.attisdropped
    LEFT JOIN pg_type AS type ON type.oid = attribute.atttypid
    WHERE class.oid = adopted_table;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'table with OID % does not exist', adopted_table::oid
            USING ERRCODE = 'undefined_table', HINT = 'Specify the name of a table.';
    ELSIF facts.relkind NOT IN ('r', 'p') THEN
        RAISE EXCEPTION '% is not a table', facts.description
            USING ERRCODE = 'wrong_object_type', HINT = 'Specify the table that contains the rows.';
    ELSIF adopted_table::oid < 16384 THEN
        RAISE EXCEPTION '% is a system table', facts.description
            USING ERRCODE = 'wrong_object_type', HINT = 'Specify a table that was created by a user.';
    ELSIF pg_is_other_temp_schema(facts.relnamespace) THEN
        RAISE EXCEPTION '% is a temporary table of another session', facts.description
            USING ERRCODE = 'wrong_object_type', HINT = 'Repeat the call in the session that created the table.';
    ELSIF facts.attnum IS NULL THEN
        RAISE EXCEPTION 'column "%" of % does not exist', adopted_column, facts.description
            USING ERRCODE = 'undefined_column',
                  HINT = 'Specify the name of the column as pg_attribute contains it: in its case, and without double quotes.';
    ELSIF facts.attnum < 0 THEN
        RAISE EXCEPTION 'column "%" of % is a system column', adopted_column, facts.description
            USING ERRCODE = 'feature_not_supported', HINT = 'Specify a column that was created by a user.';
    ELSIF facts.attgenerated <> '' THEN
        RAISE EXCEPTION 'column "%" of % is a generated column', adopted_column, facts.description
            USING ERRCODE = 'feature_not_supported', HINT = 'Adopt the column from which the values are computed.';
    ELSIF facts.type NOT IN ('smallint'::regtype, 'integer'::regtype, 'bigint'::regtype,
                             snowflake_internal.id_type()) THEN
        RAISE EXCEPTION 'column "%" of % is of type %, not an integer', adopted_column, facts.description,
            format_type(facts.type, NULL)
            USING ERRCODE = 'datatype_mismatch',
                  HINT = CASE
                      WHEN facts.type = 'numeric'::regtype
                      THEN format('If all values are integers: ALTER TABLE %s ALTER COLUMN %I TYPE bigint;',
                                  adopted_table, adopted_column)
                      ELSE format('Add a column for a new key: ALTER TABLE %s ADD COLUMN new_id bigint; Then assign IDs to '
                                  'the rows, change the references and the primary key, and drop column %I. For all steps, '
                                  'see "From other generators" in the documentation.',
                                  adopted_table, adopted_column)
                  END;
    END IF;

    SELECT string_agg(relation_name, ' and ' ORDER BY relation_name) AS tables,
           string_agg(format('SELECT %s.snowflake_adopt(%L, %L);', snowflake_internal.home(), relation_name, column_name), ' '
                      ORDER BY relation_name) AS commands
    INTO note
    FROM snowflake_internal.snowflake_adopt_columns(adopted_table, adopted_column, widens)
    WHERE is_adopted AND is_root
    HAVING NOT bool_or(relation = adopted_table);
    IF FOUND THEN
        RAISE EXCEPTION 'column "%" of % is inherited', adopted_column, facts.description
            USING ERRCODE = 'wrong_object_type',
                  DETAIL = format('The column can be altered only together with the column of %s.', note.tables),
                  HINT = 'Adopt the inherited column instead: ' || note.commands;
    END IF;
    description := facts.description;
    type := facts.type;
END
$$;
COMMENT ON FUNCTION snowflake_internal.snowflake_adopt_target(regclass, name, boolean) IS
    'description of the table and type of the column, for snowflake_adopt(); an error if the column cannot be adopted';

-- Raises an error if code of roles that the caller does not trust could run with the privileges of the caller.
-- `trusting_call` is the call in which the caller names an owner as trusted, up to the name.
CREATE FUNCTION snowflake_internal.snowflake_adopt_check_owners(
    adopted_table regclass, adopted_column name, widens boolean, trusted_owner regrole, trusting_call text
) RETURNS void
STABLE PARALLEL SAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    caller CONSTANT regrole := quote_ident(current_user)::regrole;
    names text;
    note record;
BEGIN
    SELECT string_agg(DISTINCT relation_name, ', ') INTO names
    FROM snowflake_internal.snowflake_adopt_columns(adopted_table, adopted_column, widens)
    WHERE NOT is_owned AND (is_adopted OR NOT is_bigint);
    IF names IS NOT NULL THEN
        RAISE EXCEPTION 'must be owner of %', names
            USING ERRCODE = 'insufficient_privilege',
                  DETAIL = 'The tables whose foreign keys reference the column, and their partitions, are altered as well.',
                  HINT = 'Repeat the call as the role that owns all these tables.';
    END IF;

    -- The owners are checked before any table is queried, because planning a query evaluates index expressions.
    SELECT string_agg(format('%s (%s)', description, owner), ', ' ORDER BY description COLLATE "C")
               FILTER (WHERE is_strange) AS tables,
           CASE WHEN count(DISTINCT owner) = 1 THEN
                    format('Connect as %s and call the function again. Alternatively, if you trust the code in the tables of %1$s:',
                           min(owner::text))
                WHEN count(DISTINCT owner) FILTER (WHERE is_strange) = 1 THEN
                    format('Drop the foreign keys between the tables. Alternatively, if you trust the code in the tables of %s:',
                           min(owner::text) FILTER (WHERE is_strange))
           END AS choices,
           min(owner::text) FILTER (WHERE is_strange) AS stranger
    INTO note
    FROM (
        SELECT *, owner NOT IN (caller, coalesce(trusted_owner, caller)) AS is_strange
        FROM snowflake_internal.snowflake_adopt_owners(adopted_table, adopted_column, widens)
    ) AS concerned;
    IF note.tables IS NOT NULL THEN
        RAISE EXCEPTION 'not all affected tables belong to role %', caller
            USING ERRCODE = 'feature_not_supported',
                  DETAIL = format('Tables of other roles: %s. Code in their constraints, indexes and defaults would run with '
                                  'the privileges of %s.', note.tables, caller),
                  HINT = coalesce(
                      note.choices || ' ' || trusting_call || quote_literal(note.stranger) || ');',
                      'Change the owners so that all tables have the same owner (ALTER TABLE ... OWNER TO ...), or drop the '
                      'foreign keys between the tables.');
    END IF;
    -- The statements and the query for the highest value refer to tables by name. Before they run, the owner of a
    -- schema can replace a table by another table or a view, whose code would run with the privileges of a
    -- superuser.
    SELECT string_agg(DISTINCT format('%s (%s)', pg_describe_object('pg_namespace'::regclass, place.oid, 0),
                                      place.owner), ', ')
    INTO names
    FROM (
        SELECT namespace.oid, CASE WHEN namespace.nspowner = 'pg_database_owner'::regrole THEN database.datdba
                                   ELSE namespace.nspowner END::regrole AS owner
        FROM snowflake_internal.snowflake_adopt_columns(adopted_table, adopted_column, widens) AS involved
        JOIN pg_class AS class ON class.oid = involved.relation
        JOIN pg_namespace AS namespace ON namespace.oid = class.relnamespace
        JOIN pg_database AS database ON database.datname = current_database()
    ) AS place
    JOIN pg_roles AS owner ON owner.oid = place.owner AND NOT owner.rolsuper
    JOIN pg_roles AS superuser ON superuser.oid = caller AND superuser.rolsuper
    WHERE place.owner <> coalesce(trusted_owner, caller);
    IF names IS NOT NULL THEN
        RAISE EXCEPTION 'not all schemas of the affected tables belong to superusers'
            USING ERRCODE = 'feature_not_supported',
                  DETAIL = format('Schemas of other roles: %s. The owner of a schema can replace a table while the '
                                  'statements run with the privileges of %s.', names, caller),
                  HINT = 'Connect as the owner of the tables, or temporarily change the owner of the schemas to a '
                         'superuser: ALTER SCHEMA ... OWNER TO ...;';
    END IF;
END
$$;
COMMENT ON FUNCTION snowflake_internal.snowflake_adopt_check_owners(regclass, name, boolean, regrole, text) IS
    'refuses tables and schemas of roles that the caller does not trust, for snowflake_adopt()';

CREATE FUNCTION snowflake_internal.snowflake_adopt_plan(
    adopted_table regclass, adopted_column name, for_execution boolean, trusted_owner regrole, generator text
)
RETURNS TABLE (statement text, notice text)
-- max() must see all rows.
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp SET row_security = off SET standard_conforming_strings = on AS $$
DECLARE
    -- NULL for snowflake IDs.
    segment CONSTANT text := CASE WHEN starts_with(generator, 'segment:') THEN substr(generator, 9) END;
    widens CONSTANT boolean := segment IS NULL;
    home CONSTANT text := snowflake_internal.home();
    new_default CONSTANT text := CASE
        WHEN segment IS NULL THEN home || '.snowflake_next()'
        ELSE format('%s.snowflake_segment_next(%L)', home, segment)
    END;
    kept_defaults CONSTANT text[] := snowflake_internal.snowflake_adopt_kept_defaults(segment);
    target record;
    caller CONSTANT regrole := quote_ident(current_user)::regrole;
    names text;
    locked text;
    highest bigint;
    lowest_to_come bigint;
    sets_default boolean;
    drops_sequences boolean;
    note record;
BEGIN
    IF segment IS NULL AND generator <> 'snowflake' OR octet_length(segment) NOT BETWEEN 1 AND 255 THEN
        RAISE EXCEPTION 'unrecognized generator: "%"', left(generator, 100)
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = 'Use ''snowflake'', or ''segment:'' followed by the name of a segment, which has 1 to 255 bytes.';
    END IF;

    target := snowflake_internal.snowflake_adopt_target(adopted_table, adopted_column, widens);
    IF widens THEN
        PERFORM snowflake_internal.snowflake_adopt_check_layout(true);
    END IF;

    -- Check that new rows will get IDs. A call for an ID may wait, so the check is made before the locks are acquired.
    IF for_execution AND current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        RAISE EXCEPTION 'cannot adopt a column at isolation level %', current_setting('transaction_isolation')
            USING ERRCODE = 'feature_not_supported',
                  DETAIL = 'Changes that other sessions commit before the tables are locked would not be visible.',
                  HINT = 'Start the transaction with BEGIN ISOLATION LEVEL READ COMMITTED.';
    ELSIF for_execution AND segment IS NULL THEN
        PERFORM snowflake_internal.next_id();
    ELSIF for_execution THEN
        lowest_to_come := snowflake_internal.next_number(segment);
    ELSIF current_setting('snowflake_id.database', true) IS NULL THEN
        RAISE WARNING 'snowflake_id is not in shared_preload_libraries'
            USING DETAIL = 'After the statements have been executed, inserting a row without an explicit ID would fail on this server.',
                  HINT = 'Add snowflake_id to shared_preload_libraries, and restart the server. SHOW shared_preload_libraries returns the libraries to keep.';
    END IF;

    -- Check whether max_value of the segment fits into the column, if the caller is allowed to see max_value.
    IF NOT widens AND current_setting('snowflake_id.database', true) IS NOT NULL
       AND has_function_privilege('snowflake_internal.snowflake_segments_in_use()', 'EXECUTE') THEN
        SELECT max_value, position INTO note FROM snowflake_internal.snowflake_segments_in_use() WHERE name = segment;
        IF FOUND THEN
            lowest_to_come := coalesce(lowest_to_come, note.position);
            highest := note.max_value;
        END IF;
        IF (highest > CASE target.type WHEN 'smallint'::regtype THEN 32767
                                       WHEN 'integer'::regtype THEN 2147483647 END) THEN
            RAISE EXCEPTION 'numbers of segment "%" do not fit into column "%" of %', left(segment, 100), adopted_column,
                target.description
                USING ERRCODE = 'numeric_value_out_of_range',
                      DETAIL = format('The last number of the segment is %s, and the column is of type %s.', highest,
                                      format_type(target.type, NULL)),
                      HINT = format('Change the type of the column to bigint, or reduce max_value of the segment: '
                                    'SELECT snowflake_registry.alter_segment(%L, max_value => %s);', segment,
                                    CASE target.type WHEN 'smallint'::regtype THEN 32767 ELSE 2147483647 END);
        END IF;
    END IF;

    -- Before a table is locked, other sessions can add foreign keys or children, or change the owner. Therefore, the
    -- last iteration repeats all checks while all locks are held.
    LOOP
        PERFORM snowflake_internal.snowflake_adopt_check_owners(
            adopted_table, adopted_column, widens, trusted_owner,
            format('SELECT %s.snowflake_adopt(%L, %L, dry_run => %s%s, owner => ', home, adopted_table, adopted_column,
                   (NOT for_execution)::text, ', generator => ' || quote_literal('segment:' || segment))
        );
        EXIT WHEN NOT for_execution;

        -- The adopted table comes last, because an INSERT locks the referencing table before the referenced
        -- table.
        SELECT string_agg(relation_name, ', ' ORDER BY is_adopted, relation_name) INTO names
        FROM (
            SELECT relation_name, bool_or(is_adopted) AS is_adopted
            FROM snowflake_internal.snowflake_adopt_columns(adopted_table, adopted_column, widens)
            WHERE is_root AND (is_adopted OR NOT is_bigint)
            GROUP BY relation_name
        ) AS altered;
        EXIT WHEN names IS NOT DISTINCT FROM locked;
        EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', names);
        locked := names;
    END LOOP;

    SELECT string_agg(obstacle, E'\n' ORDER BY obstacle COLLATE "C") AS obstacles,
           string_agg(DISTINCT remedy, E'\n') AS remedies
    INTO note
    FROM snowflake_internal.snowflake_adopt_obstacles(adopted_table, adopted_column, widens);
    IF note.obstacles IS NOT NULL THEN
        RAISE EXCEPTION 'cannot adopt column "%" of %', adopted_column, target.description
            USING ERRCODE = 'feature_not_supported', DETAIL = note.obstacles, HINT = note.remedies;
    END IF;

    -- If only the default changes, the sequence is kept.
    drops_sequences := NOT widens OR EXISTS (SELECT FROM snowflake_internal.snowflake_adopt_columns(adopted_table, adopted_column, true)
                                             WHERE NOT is_bigint);

    -- Check that new IDs differ from existing values. No new ID is lower than the first ID of the current tick.
    SELECT bool_or((pg_get_expr(expression.adbin, expression.adrelid) = ANY (kept_defaults)) IS NOT TRUE)
    INTO sets_default
    FROM snowflake_internal.snowflake_adopt_columns(adopted_table, adopted_column, widens) AS involved
    LEFT JOIN pg_attrdef AS expression
      ON expression.adrelid = involved.relation AND expression.adnum = involved.column_number
    WHERE involved.is_adopted;
    IF sets_default THEN
        EXECUTE format('SELECT max(%I) FROM %s', adopted_column,
                       (SELECT involved.relation_name
                        FROM snowflake_internal.snowflake_adopt_columns(adopted_table, adopted_column, widens) AS involved
                        WHERE involved.relation = adopted_table AND involved.is_adopted))
        INTO highest;
        FOR note IN SELECT * FROM snowflake_internal.snowflake_adopt_given(adopted_table, adopted_column, widens) LOOP
            IF NOT note.is_readable THEN
                RAISE EXCEPTION 'permission denied for sequence %', note.sequence_name
                    USING ERRCODE = 'insufficient_privilege',
                          DETAIL = 'snowflake_adopt() reads the last value of the sequence.',
                          HINT = format('To grant the privilege: GRANT SELECT ON SEQUENCE %s TO %s;', note.sequence_name, caller);
            ELSIF for_execution AND note.is_ours AND drops_sequences THEN
                -- The statement changes nothing, but prevents other sessions from taking values until this transaction
                -- ends. If the sequence is kept, a transaction that has called nextval() before it writes to the table would
                -- cause a deadlock.
                EXECUTE format('ALTER SEQUENCE %s INCREMENT BY %s', note.sequence_name, note.increment);
            END IF;
        END LOOP;
        SELECT greatest(highest, max(given.highest_given)) INTO highest
        FROM snowflake_internal.snowflake_adopt_given(adopted_table, adopted_column, widens) AS given;
        IF widens THEN
            -- A sequence that is kept can return more values.
            lowest_to_come := snowflake_internal.lowest_new_id() - CASE WHEN drops_sequences THEN 0 ELSE 1000000 END;
        ELSIF highest >= lowest_to_come THEN
            RAISE EXCEPTION 'values of column "%" of % are not below the next number', adopted_column, target.description
                USING ERRCODE = 'object_not_in_prerequisite_state',
                      DETAIL = format('The highest value in the table or returned by a sequence is %s. The next number of segment '
                                      '"%s" is %s.', highest, left(segment, 100), lowest_to_come),
                      HINT = format('Skip numbers of the segment: SELECT snowflake_registry.alter_segment(%L, next_value => %s); '
                                    'Then restart this server, so that it requests a new range.', segment, highest + 1);
        END IF;
        IF highest >= lowest_to_come THEN
            RAISE EXCEPTION 'values of column "%" of % are not below the next ID', adopted_column, target.description
                USING ERRCODE = 'object_not_in_prerequisite_state',
                      DETAIL = format('The highest value in the table or returned by a sequence is %s. In layout "%s", the '
                                      'first ID of the current tick is %s.',
                                      highest, current_setting('snowflake_id.layout'), lowest_to_come),
                      HINT = 'Change these values, or set snowflake_id.layout to a layout with larger IDs, which has more bits '
                             'below the time field or an earlier epoch.';
        END IF;
    END IF;

    RETURN QUERY
    WITH RECURSIVE involved AS MATERIALIZED (
        SELECT * FROM snowflake_internal.snowflake_adopt_columns(adopted_table, adopted_column, widens)
    ),
    sequences AS MATERIALIZED (
        SELECT * FROM snowflake_internal.snowflake_adopt_sequences(adopted_table, adopted_column, widens)
    ),
    -- All columns of a table are changed in one statement, so that the table is rewritten only once.
    rewritten AS (
        SELECT relation, relation_name,
               string_agg(format('ALTER COLUMN %I TYPE bigint', column_name), ', ' ORDER BY column_number) AS changes,
               row_number() OVER (ORDER BY bool_or(is_adopted) DESC, relation_name) AS position,
               count(*) OVER () AS tables
        FROM involved WHERE is_root AND NOT is_bigint
        GROUP BY relation, relation_name
    ),
    -- The rewritten tables with their partitions and children.
    tree (root, relation) AS (
        SELECT relation, relation FROM rewritten
        UNION
        SELECT tree.root, child.inhrelid FROM tree JOIN pg_inherits AS child ON child.inhparent = tree.relation
    ),
    step (phase, position, name, statement, notice) AS (
        SELECT 1, 0, relation_name, format('ALTER TABLE %s ALTER COLUMN %I DROP IDENTITY;', relation_name, adopted_column),
               NULL
        FROM sequences WHERE is_identity
        UNION ALL
        SELECT 2, position, relation_name, format('ALTER TABLE %s %s;', relation_name, changes),
               format('table %s of %s: rewriting %s, %s with its indexes', position, tables, relation_name,
                      (SELECT pg_size_pretty(sum(pg_total_relation_size(tree.relation)))
                       FROM tree WHERE tree.root = rewritten.relation))
        FROM rewritten
        UNION ALL
        SELECT 3, 0, relation_name,
               format('ALTER TABLE %s ALTER COLUMN %I SET DEFAULT %s;', relation_name, column_name, new_default), NULL
        FROM involved WHERE relation = adopted_table AND is_adopted AND sets_default
        UNION ALL
        SELECT 4, 0, sequence_name, format('DROP SEQUENCE %s;', sequence_name), NULL
        FROM sequences WHERE NOT is_identity AND used_by IS NULL AND drops_sequences
        UNION ALL
        -- ALTER TYPE creates the indexes again, without the targets of their expressions.
        SELECT 2, 1000000, format('%s.%s', index.indexrelid, attribute.attnum),
               format('ALTER INDEX %s ALTER COLUMN %s SET STATISTICS %s;', index.indexrelid::regclass, attribute.attnum, attribute.attstattarget), NULL
        FROM tree
        JOIN pg_index AS index ON index.indrelid = tree.relation
        JOIN pg_attribute AS attribute ON attribute.attrelid = index.indexrelid AND attribute.attstattarget >= 0
        WHERE attribute.attnum <= index.indnkeyatts AND index.indkey[attribute.attnum - 1] = 0
        UNION ALL
        -- The same for extended statistics, which can get another owner, too.
        SELECT 2, 1000001, place.name, format('ALTER STATISTICS %s %s;', place.name, setting.text), NULL
        FROM tree
        JOIN pg_statistic_ext AS statistics ON statistics.stxrelid = tree.relation
        CROSS JOIN LATERAL (SELECT format('%s.%I', statistics.stxnamespace::regnamespace, statistics.stxname)) AS place (name)
        CROSS JOIN LATERAL (
            SELECT format('SET STATISTICS %s', statistics.stxstattarget) WHERE statistics.stxstattarget >= 0
            UNION ALL
            SELECT format('OWNER TO %s', statistics.stxowner::regrole) WHERE statistics.stxowner <> caller
        ) AS setting (text)
        WHERE pg_has_role(statistics.stxowner, 'USAGE')
    )
    SELECT step.statement, step.notice FROM step ORDER BY phase, position, name;

    IF NOT FOUND THEN
        RAISE NOTICE 'column "%" of % has already been adopted', adopted_column, target.description;
        RETURN;
    END IF;
    FOR note IN
        SELECT * FROM snowflake_internal.snowflake_adopt_notes(adopted_table, adopted_column, widens, kept_defaults, drops_sequences)
    LOOP
        IF note.is_warning THEN
            RAISE WARNING '%', note.message USING DETAIL = note.detail, HINT = note.hint;
        ELSE
            RAISE NOTICE '%', note.message USING DETAIL = note.detail, HINT = note.hint;
        END IF;
    END LOOP;
END
$$;
COMMENT ON FUNCTION snowflake_internal.snowflake_adopt_plan(regclass, name, boolean, regrole, text) IS
    'checks and locks tables for snowflake_adopt(), and returns the statements to execute';

-- The statements contain the name of the schema of the extension. Before they run, the owner of the schema can rename it and
-- create another one with the old name.
CREATE FUNCTION snowflake_internal.snowflake_adopt_check_defaults(adopted_table regclass, adopted_column name, widens boolean)
RETURNS void
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    strange record;
BEGIN
    SELECT involved.relation_name, pg_get_expr(expression.adbin, expression.adrelid) AS expression INTO strange
    FROM snowflake_internal.snowflake_adopt_columns(adopted_table, adopted_column, widens) AS involved
    JOIN pg_attrdef AS expression
      ON expression.adrelid = involved.relation AND expression.adnum = involved.column_number
    WHERE involved.is_adopted AND involved.is_bigint
      AND NOT EXISTS (
          SELECT FROM pg_depend AS dependency
          WHERE dependency.classid = 'pg_attrdef'::regclass AND dependency.objid = expression.oid
            AND dependency.refclassid = 'pg_proc'::regclass
            AND dependency.refobjid = ANY (snowflake_internal.default_functions()::oid[]));
    IF FOUND THEN
        RAISE EXCEPTION 'default of column "%" of % does not call a function of the extension', adopted_column, strange.relation_name
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  DETAIL = format('The default is %s. The schema of the extension was replaced while the statements ran.',
                                  strange.expression),
                  HINT = 'Find out who has replaced the schema. Then repeat the call.';
    END IF;
END
$$;
COMMENT ON FUNCTION snowflake_internal.snowflake_adopt_check_defaults(regclass, name, boolean) IS
    'raises an error if the default of an adopted column calls a function that is not of the extension; internal';

CREATE FUNCTION snowflake_adopt(
    table_name regclass, column_name name, dry_run boolean DEFAULT true, owner regrole DEFAULT NULL,
    generator text DEFAULT 'snowflake'
) RETURNS SETOF text
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql AS $$
DECLARE
    widens CONSTANT pg_catalog.bool := generator OPERATOR(pg_catalog.=) 'snowflake'::pg_catalog.text;
    step pg_catalog.record;
    relations pg_catalog.oid[];
    widened pg_catalog.text[];
    new_defaults pg_catalog.text[];
    before pg_catalog.text[];
    actions pg_catalog.jsonb;
BEGIN
    IF table_name IS NULL OR column_name IS NULL OR dry_run IS NULL OR generator IS NULL THEN
        RAISE EXCEPTION 'table_name, column_name, dry_run and generator must not be null'
            USING ERRCODE = 'null_value_not_allowed',
                  HINT = 'Specify a table and a column. Omit dry_run or generator to use its default.';
    END IF;
    -- The plan is complete before the first statement runs.
    FOR step IN SELECT * FROM snowflake_internal.snowflake_adopt_plan(table_name, column_name, NOT dry_run, owner, generator) LOOP
        IF NOT dry_run THEN
            IF before IS NULL THEN
                -- The tables are locked now.
                SELECT facts.* INTO relations, widened, new_defaults
                FROM snowflake_internal.snowflake_adopt_compared(table_name, column_name, widens) AS facts;
                before := ARRAY(SELECT snowflake_internal.snowflake_adopt_properties(relations, widened, new_defaults, true));
                actions := (SELECT pg_catalog.jsonb_agg(pg_catalog.to_jsonb(action)) FROM snowflake_internal.snowflake_adopt_actions(relations) AS action);
            END IF;
            -- Rewriting a table can take a long time, and no pg_stat_progress view shows the progress.
            IF step.notice IS NOT NULL THEN
                RAISE NOTICE '%', step.notice;
            END IF;
            EXECUTE step.statement;
        END IF;
        RETURN NEXT step.statement;
    END LOOP;
    IF before IS NOT NULL THEN
        -- Foreign keys were created again.
        PERFORM snowflake_internal.snowflake_adopt_restore_actions(relations, actions);
        PERFORM snowflake_internal.snowflake_adopt_compare(
            before, ARRAY(SELECT snowflake_internal.snowflake_adopt_properties(relations, widened, new_defaults, true)));
        PERFORM snowflake_internal.snowflake_adopt_check_defaults(table_name, column_name, widens);
    END IF;
END
$$;
COMMENT ON FUNCTION snowflake_adopt(regclass, name, boolean, regrole, text) IS
    'changes a column, and the foreign keys that reference it, to snowflake IDs or numbers of a segment; executes the statements only if dry_run is false';
