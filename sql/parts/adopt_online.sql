-- snowflake_adopt_online() moves big tables to snowflake IDs, while other sessions read and write them. It replaces
-- columns of type int by new columns of type bigint.
--
-- A procedure that commits cannot set search_path. Therefore, all names and operators in the procedure are qualified. The
-- function snowflake_adopt_online_plan() makes the checks and returns the steps. It is called again before each step,
-- because other sessions can change the tables between two transactions.
--
-- A step that needs a strong lock is computed again when the lock has been acquired, and is executed only if nothing has
-- changed. While the procedure waits for a strong lock, other sessions queue behind it. Therefore, it gives up after
-- lock_wait, and leaves the tables alone for ten times as long. The lock SHARE UPDATE EXCLUSIVE does not block writers.
-- It is acquired first, because it ends autovacuum, which only stops for a session that has waited for deadlock_timeout.

CREATE FUNCTION snowflake_internal.snowflake_adopt_online_plan(
    adopted_table regclass, adopted_column name, trusted_owner regrole, abandon boolean, batch_pages int,
    for_execution boolean, is_first boolean
)
RETURNS TABLE (
    title text, tables text, lock_mode text, statements text[], after_commit text, on_violation text, is_manual boolean
)
-- The plan is made while tables are locked. Compiling its queries would take longer than executing them.
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp SET row_security = off SET standard_conforming_strings = on SET jit = off AS $$
DECLARE
    home CONSTANT text := snowflake_internal.home();
    kept_defaults CONSTANT text[] := ARRAY[to_regprocedure(home || '.snowflake_next()')::text,
                                          to_regprocedure(home || '.snowflake_nextval()')::text];
    target record;
    lowest_to_come bigint;
    note record;
BEGIN
    target := snowflake_internal.snowflake_adopt_target(adopted_table, adopted_column, true);
    IF for_execution AND current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        RAISE EXCEPTION 'cannot adopt a column at isolation level %', current_setting('transaction_isolation')
            USING ERRCODE = 'feature_not_supported',
                  DETAIL = 'Changes that other sessions commit would not be visible.',
                  HINT = 'SET default_transaction_isolation = ''read committed'';';
    END IF;
    PERFORM snowflake_internal.snowflake_adopt_check_owners(
        adopted_table, adopted_column, true, trusted_owner,
        format('CALL %s.snowflake_adopt_online(%L, %L, dry_run => %s, owner => ', home, adopted_table,
               adopted_column, (NOT for_execution)::text)
    );

    IF abandon THEN
        RETURN QUERY
        SELECT step.title, step.tables, step.lock_mode, step.statements, NULL::text, NULL::text, false
        FROM snowflake_internal.snowflake_adopt_steps_back(adopted_table, adopted_column) AS step
        ORDER BY step."position" COLLATE "C";
        IF NOT FOUND AND is_first THEN
            RAISE NOTICE 'column "%" of % is not being adopted', adopted_column, target.description
                USING HINT = 'If the column has already been replaced, see "Going back" in the documentation.';
        END IF;
        RETURN;
    END IF;

    IF target.type NOT IN ('smallint'::regtype, 'integer'::regtype) THEN
        PERFORM FROM pg_attrdef AS expression
        JOIN pg_attribute AS attribute
          ON attribute.attrelid = expression.adrelid AND attribute.attnum = expression.adnum
        WHERE expression.adrelid = adopted_table AND attribute.attname = adopted_column
          AND pg_get_expr(expression.adbin, expression.adrelid) = ANY (kept_defaults);
        IF NOT FOUND THEN
            RAISE EXCEPTION 'column "%" of % is already of type %', adopted_column, target.description,
                format_type(target.type, NULL)
                USING ERRCODE = 'wrong_object_type',
                      HINT = format('Only its default has to be changed, which takes milliseconds: SELECT %s.snowflake_adopt(%L, %L, '
                                    'dry_run => false);', home, adopted_table, adopted_column);
        ELSIF is_first THEN
            RAISE NOTICE 'column "%" of % has already been adopted', adopted_column, target.description;
        END IF;
        RETURN;
    END IF;

    IF NOT is_first THEN
        NULL;
    ELSIF for_execution THEN
        -- Check that new rows will get IDs.
        PERFORM snowflake_internal.next_id();
    ELSIF current_setting('snowflake_id.database', true) IS NULL THEN
        RAISE WARNING 'snowflake_id is not in shared_preload_libraries'
            USING DETAIL = 'The procedure would fail on this server, because it cannot generate IDs.',
                  HINT = 'Add snowflake_id to shared_preload_libraries, and restart the server. SHOW shared_preload_libraries returns the libraries to keep.';
    END IF;

    SELECT string_agg(obstacle, E'\n' ORDER BY obstacle COLLATE "C") AS obstacles,
           string_agg(DISTINCT remedy, E'\n') AS remedies
    INTO note
    FROM snowflake_internal.snowflake_adopt_online_obstacles(adopted_table, adopted_column);
    IF note.obstacles IS NOT NULL THEN
        RAISE EXCEPTION 'cannot adopt column "%" of %', adopted_column, target.description
            USING ERRCODE = 'feature_not_supported', DETAIL = note.obstacles, HINT = note.remedies;
    END IF;

    -- No value of the column and no value of its sequence that fits into the column is larger.
    lowest_to_come := snowflake_internal.lowest_new_id();
    IF lowest_to_come <= 2147483647 THEN
        RAISE EXCEPTION 'values of column "%" of % may not be below the next ID', adopted_column, target.description
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  DETAIL = format('In layout "%s", the first ID of the current tick is %s. The column can contain values up to '
                                  '2147483647.', current_setting('snowflake_id.layout'), lowest_to_come),
                  HINT = 'Set snowflake_id.layout to a layout with larger IDs, which has more bits below the time field or an '
                         'earlier epoch.';
    END IF;

    IF is_first AND NOT (
        for_execution
        AND EXISTS (SELECT FROM snowflake_internal.snowflake_adopt_pairs(adopted_table, adopted_column) WHERE new_number IS NOT NULL)
    ) THEN
        SELECT string_agg(relation_name, ', ' ORDER BY relation_name) AS tables,
               pg_size_pretty(sum(pg_total_relation_size(relation))) AS size
        INTO note
        FROM (
            SELECT DISTINCT relation, relation_name FROM snowflake_internal.snowflake_adopt_pairs(adopted_table, adopted_column)
        ) AS filled;
        RAISE NOTICE 'tables whose rows will be updated: % (% with their indexes)', note.tables, note.size
            USING DETAIL = 'The tables and their indexes can grow to about twice their size. The replaced columns become the last '
                           'columns of their tables, also for SELECT * and for INSERT without a list of columns.',
                  HINT = 'To undo all steps before the columns are replaced, repeat the call with abandon => true.';
        FOR note IN
            SELECT * FROM snowflake_internal.snowflake_adopt_notes(adopted_table, adopted_column, true, kept_defaults, false)
        LOOP
            IF note.is_warning THEN
                RAISE WARNING '%', note.message USING DETAIL = note.detail, HINT = note.hint;
            ELSE
                RAISE NOTICE '%', note.message USING DETAIL = note.detail, HINT = note.hint;
            END IF;
        END LOOP;
    END IF;

    RETURN QUERY
    SELECT step.title, step.tables, step.lock_mode, step.statements, step.after_commit, step.on_violation,
           step.is_manual
    FROM snowflake_internal.snowflake_adopt_steps(adopted_table, adopted_column, batch_pages) AS step
    WHERE NOT step.is_done
    ORDER BY step."position" COLLATE "C";
END
$$;
COMMENT ON FUNCTION snowflake_internal.can_commit() IS
    'whether the calling procedure can commit, for snowflake_adopt_online(); internal';
COMMENT ON FUNCTION snowflake_internal.snowflake_adopt_online_plan(regclass, name, regrole, boolean, int, boolean, boolean) IS
    'checks for snowflake_adopt_online(), and the steps that are not yet done';

CREATE PROCEDURE snowflake_adopt_online(
    table_name regclass, column_name name, dry_run boolean DEFAULT true, owner regrole DEFAULT NULL,
    abandon boolean DEFAULT false, batch_pages int DEFAULT 64, pause interval DEFAULT '50 ms',
    lock_wait interval DEFAULT '100 ms', INOUT next_command text DEFAULT NULL
)
LANGUAGE plpgsql AS $$
DECLARE
    -- After so many attempts, a step has failed.
    most_attempts CONSTANT pg_catalog.int4 := 60;
    attempts pg_catalog.int4 := 0;
    -- After so many attempts to fill the columns, a row cannot be filled.
    most_violations CONSTANT pg_catalog.int4 := 10;
    violations pg_catalog.int4 := 0;
    number pg_catalog.int4 := 0;
    last_title pg_catalog.text;
    last_statements pg_catalog.text[];
    step pg_catalog.record;
    locked pg_catalog.record;
    statement pg_catalog.text;
    is_complete pg_catalog.bool;
BEGIN
    next_command := NULL;
    IF table_name IS NULL OR column_name IS NULL OR dry_run IS NULL OR abandon IS NULL OR batch_pages IS NULL
       OR pause IS NULL OR lock_wait IS NULL THEN
        RAISE EXCEPTION 'table_name, column_name, dry_run, abandon, batch_pages, pause and lock_wait must not be null'
            USING ERRCODE = 'null_value_not_allowed';
    ELSIF batch_pages OPERATOR(pg_catalog.<) 1 OR pause OPERATOR(pg_catalog.<) '0'::pg_catalog.interval
          OR lock_wait OPERATOR(pg_catalog.<) '1 ms'::pg_catalog.interval
          OR lock_wait OPERATOR(pg_catalog.>) '10 s'::pg_catalog.interval THEN
        RAISE EXCEPTION 'batch_pages, pause or lock_wait is out of range'
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = 'batch_pages must be at least 1, pause must not be negative, and lock_wait must be between 1 ms and 10 s.';
    ELSIF NOT dry_run AND NOT snowflake_internal.can_commit() THEN
        RAISE EXCEPTION 'snowflake_adopt_online() cannot run inside a transaction block or a function'
            USING ERRCODE = 'active_sql_transaction',
                  DETAIL = 'The procedure commits after each step.',
                  HINT = 'Turn on autocommit, and call the procedure by itself: not between BEGIN and COMMIT, in a function, or in a block with EXCEPTION.';
    END IF;

    IF dry_run THEN
        FOR step IN
            SELECT * FROM snowflake_internal.snowflake_adopt_online_plan(table_name, column_name, owner, abandon, batch_pages, false, true)
        LOOP
            number := number OPERATOR(pg_catalog.+) 1;
            RAISE NOTICE 'step %: %', number, step.title USING DETAIL = pg_catalog.array_to_string(step.statements, E'\n');
        END LOOP;
        RETURN;
    END IF;

    -- The first step begins in a transaction of its own, in which lock_timeout and what was read so far do not matter.
    COMMIT;
    LOOP
        SELECT * INTO step
        FROM snowflake_internal.snowflake_adopt_online_plan(
            table_name, column_name, owner, abandon, batch_pages, true, last_title IS NULL
        )
        LIMIT 1;
        IF NOT FOUND THEN
            IF last_title IS NOT NULL THEN
                RAISE NOTICE 'finished: %', last_title;
            END IF;
            EXIT;
        ELSIF step.is_manual THEN
            next_command := step.statements[1];
            IF next_command IS NULL THEN
                RAISE EXCEPTION 'another session is %', step.title
                    USING ERRCODE = 'object_in_use', HINT = 'Repeat the CALL when the index has been created.';
            END IF;
            RAISE NOTICE 'an index has to be created or dropped outside of this procedure'
                USING HINT = pg_catalog.format('Execute next_command, and then repeat the CALL: %s', next_command);
            EXIT;
        END IF;
        IF last_title IS NULL OR step.title OPERATOR(pg_catalog.<>) last_title THEN
            RAISE NOTICE '%', step.title;
        END IF;
        last_title := step.title;
        IF step.statements OPERATOR(pg_catalog.=) last_statements THEN
            attempts := attempts OPERATOR(pg_catalog.+) 1;
        ELSE
            attempts := 1;
        END IF;
        last_statements := step.statements;
        IF attempts OPERATOR(pg_catalog.>) most_attempts THEN
            RAISE EXCEPTION 'gave up after % attempts: %', most_attempts, step.title
                USING ERRCODE = 'lock_not_available',
                      DETAIL = pg_catalog.format('Other transactions hold locks on the tables, or on rows, for longer than lock_wait (%s).',
                                                 lock_wait),
                      HINT = 'End long transactions, which pg_stat_activity shows, and repeat the CALL. It continues with this step.';
        END IF;

        is_complete := true;
        BEGIN
            IF step.tables IS NOT NULL THEN
                EXECUTE pg_catalog.format('LOCK TABLE %s IN SHARE UPDATE EXCLUSIVE MODE', step.tables);
                PERFORM pg_catalog.set_config(
                    'lock_timeout',
                    pg_catalog.ceil(EXTRACT(epoch FROM lock_wait) OPERATOR(pg_catalog.*) 1000::pg_catalog.numeric)::pg_catalog.text,
                    true
                );
                EXECUTE pg_catalog.format('LOCK TABLE %s IN %s MODE', step.tables, step.lock_mode);
                SELECT * INTO locked
                FROM snowflake_internal.snowflake_adopt_online_plan(table_name, column_name, owner, abandon, batch_pages, true, false)
                LIMIT 1;
                is_complete := step.statements OPERATOR(pg_catalog.=) locked.statements
                    AND step.tables OPERATOR(pg_catalog.=) locked.tables;
            END IF;
            IF is_complete THEN
                FOREACH statement IN ARRAY step.statements LOOP
                    EXECUTE statement;
                END LOOP;
                PERFORM snowflake_internal.snowflake_adopt_check_defaults(table_name, column_name, true);
            END IF;
        EXCEPTION
            -- A deadlock is possible with CREATE INDEX CONCURRENTLY, which waits for all transactions.
            WHEN lock_not_available OR deadlock_detected THEN
                is_complete := false;
            WHEN check_violation THEN
                violations := violations OPERATOR(pg_catalog.+) 1;
                IF step.on_violation IS NULL OR violations OPERATOR(pg_catalog.>) most_violations THEN
                    RAISE;
                END IF;
                is_complete := false;
                EXECUTE step.on_violation;
        END;
        COMMIT;
        IF step.after_commit IS NOT NULL THEN
            EXECUTE step.after_commit;
            COMMIT;
        END IF;
        IF NOT coalesce(is_complete, false) OR step.after_commit IS NOT NULL AND attempts OPERATOR(pg_catalog.>) 1 THEN
            PERFORM pg_catalog.pg_sleep(EXTRACT(epoch FROM lock_wait OPERATOR(pg_catalog.*) 10::pg_catalog.float8)::pg_catalog.float8);
        ELSIF step.after_commit IS NOT NULL THEN
            PERFORM pg_catalog.pg_sleep(EXTRACT(epoch FROM pause)::pg_catalog.float8);
        END IF;
    END LOOP;
END
$$;
COMMENT ON PROCEDURE snowflake_adopt_online(regclass, name, boolean, regrole, boolean, int, interval, interval, text) IS
    'replaces a column of type int, and the foreign keys that reference it, by snowflake IDs, in steps that block other sessions only briefly; executes the steps only if dry_run is false';
