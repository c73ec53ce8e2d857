-- snowflake_adopt_online() replaces columns of type int by new columns of type bigint, while other sessions read and write the
-- tables. It keeps the default: snowflake_adopt() switches it when no session takes numbers of the old sequence any more.
--
-- One foreign key at a time: the old one protects the rows until one short transaction drops it together with the old columns,
-- and adds it again, word for word, to the new ones, which are known to be equal. It is not valid at first, so the transaction
-- does not read rows, and new rows and actions are checked at once.
--
-- A procedure that commits cannot set search_path. Therefore, all names and operators in the procedure are qualified.
--
-- A step that needs a strong lock is executed only if the catalog rows of the tables are the same as before the checks. While
-- the procedure waits for strong locks, other sessions queue behind it. Therefore, it gives up after lock_wait, and leaves the
-- tables alone for ten times as long. The lock SHARE UPDATE EXCLUSIVE does not block writers. It is acquired first, because it
-- ends autovacuum, which only stops for a session that has waited for deadlock_timeout.

CREATE FUNCTION snowflake_internal.snowflake_adopt_online_plan(
    adopted_table regclass, adopted_column name, trusted_owner regrole, abandon boolean, recreates_views boolean,
    for_execution boolean, is_first boolean
)
RETURNS TABLE (
    title text, kind text, relations oid[], statements text[], page bigint, pages bigint, progress_target text
)
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp SET row_security = off SET standard_conforming_strings = on SET jit = off
SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    home CONSTANT text := snowflake_internal.home();
    caller CONSTANT regrole := quote_ident(current_user)::regrole;
    target record;
    lowest_to_come bigint;
    note record;
    -- Needed before the first step, and for the indexes.
    definitions jsonb;
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
        format('CALL %s.snowflake_adopt_online(%L, %L, dry_run => %s%s%s, owner => ', home, adopted_table, adopted_column,
               (NOT for_execution)::text, CASE WHEN abandon THEN ', abandon => true' END,
               CASE WHEN recreates_views THEN ', views => true' END)
    );

    IF abandon THEN
        RETURN QUERY
        SELECT step.title, step.kind, step.relations, step.statements, NULL::bigint, NULL::bigint, NULL::text
        FROM snowflake_internal.snowflake_adopt_steps_back(adopted_table, adopted_column) AS step;
        IF NOT FOUND AND is_first THEN
            RAISE NOTICE 'column "%" of % is not being adopted', adopted_column, target.description
                USING HINT = 'If the column has already been replaced, see "Going back" in the documentation.';
        END IF;
        RETURN;
    END IF;

    PERFORM snowflake_internal.snowflake_adopt_check_layout(is_first);
    IF is_first OR snowflake_internal.snowflake_adopt_is_proved(adopted_table, adopted_column) THEN
        SELECT coalesce(jsonb_agg(to_jsonb(definition)), '[]') INTO definitions
        FROM snowflake_internal.snowflake_adopt_definitions(adopted_table, adopted_column) AS definition;
    END IF;
    SELECT string_agg(obstacle, E'\n' ORDER BY obstacle COLLATE "C") AS obstacles,
           string_agg(DISTINCT remedy, E'\n') AS remedies
    INTO note
    FROM snowflake_internal.snowflake_adopt_online_obstacles(adopted_table, adopted_column, recreates_views, definitions);
    IF note.obstacles IS NOT NULL THEN
        RAISE EXCEPTION 'cannot adopt column "%" of %', adopted_column, target.description
            USING ERRCODE = 'feature_not_supported', DETAIL = note.obstacles, HINT = note.remedies;
    END IF;

    -- No value of the column and no value of its sequence that fits into the column is larger.
    lowest_to_come := snowflake_internal.lowest_new_id();
    IF lowest_to_come <= 2147483647 AND target.type IN ('smallint'::regtype, 'integer'::regtype) THEN
        RAISE EXCEPTION 'values of column "%" of % could exceed the next ID', adopted_column, target.description
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  DETAIL = format('In layout "%s", the first ID of the current tick is %s. The column can contain values up to '
                                  '2147483647.', current_setting('snowflake_id.layout'), lowest_to_come),
                  HINT = 'Set snowflake_id.layout to a layout with larger IDs, which has more bits below the time field or an '
                         'earlier epoch.';
    END IF;

    -- A call that continues does not repeat them.
    IF is_first AND (SELECT count(*) > 0 AND NOT (for_execution AND count(new_number) > 0)
                     FROM snowflake_internal.snowflake_adopt_pairs(adopted_table, adopted_column)) THEN
        FOR note IN SELECT * FROM snowflake_internal.snowflake_adopt_online_notes(adopted_table, adopted_column) LOOP
            IF note.is_warning THEN
                RAISE WARNING '%', note.message USING DETAIL = note.detail, HINT = note.hint;
            ELSE
                RAISE NOTICE '%', note.message USING DETAIL = note.detail, HINT = note.hint;
            END IF;
        END LOOP;
    END IF;

    RETURN QUERY
    SELECT step.title, step.kind, step.relations, step.statements, step.page, step.pages, step.progress_target
    FROM snowflake_internal.snowflake_adopt_steps(adopted_table, adopted_column, recreates_views, definitions) AS step
    -- Any role that may reference the table can give a constraint of its own the remark of this procedure.
    WHERE step.kind <> 'validate'
       OR NOT EXISTS (SELECT FROM pg_class AS class
                      WHERE class.oid = ANY (step.relations)
                        AND class.relowner <> ALL (ARRAY[caller, coalesce(trusted_owner, caller)]::oid[]))
    ORDER BY step."position", step.title COLLATE "C";
    IF FOUND THEN
        RETURN;
    END IF;
    -- Meanwhile, another session has checked the last column, so the definitions are needed now.
    IF definitions IS NULL AND EXISTS (SELECT FROM snowflake_internal.snowflake_adopt_pairs(adopted_table, adopted_column)) THEN
        RETURN QUERY
        SELECT * FROM snowflake_internal.snowflake_adopt_online_plan(
            adopted_table, adopted_column, trusted_owner, abandon, recreates_views, for_execution, true
        );
        RETURN;
    END IF;
    PERFORM FROM pg_attrdef AS expression
    JOIN pg_attribute AS attribute
      ON attribute.attrelid = expression.adrelid AND attribute.attnum = expression.adnum
    WHERE expression.adrelid = adopted_table AND attribute.attname = adopted_column
      AND pg_get_expr(expression.adbin, expression.adrelid) = ANY (snowflake_internal.snowflake_adopt_kept_defaults(NULL));
    IF FOUND THEN
        RAISE NOTICE 'column "%" of % has already been adopted', adopted_column, target.description;
    ELSE
        RAISE NOTICE 'column "%" of % and the columns that reference it are of type bigint', adopted_column, target.description
            USING DETAIL = 'Its default has not changed. Sessions that were connected before may fail at the first large ID.',
                  HINT = format('Reconnect all clients. When all of them leave the ID to the default of the column, switch the default: '
                                'SELECT %s.snowflake_adopt(%L, %L, dry_run => false);', home, adopted_table, adopted_column);
    END IF;
END
$$;
COMMENT ON FUNCTION snowflake_internal.snowflake_adopt_online_plan(regclass, name, regrole, boolean, boolean, boolean, boolean) IS
    'checks for snowflake_adopt_online(), and the steps that are not yet done';

CREATE PROCEDURE snowflake_adopt_online(
    table_name regclass, column_name name, dry_run boolean DEFAULT true, owner regrole DEFAULT NULL,
    abandon boolean DEFAULT false, batch_pages int DEFAULT 64, pause interval DEFAULT '50 ms',
    lock_wait interval DEFAULT '100 ms', views boolean DEFAULT false, INOUT next_command text DEFAULT NULL
)
LANGUAGE plpgsql AS $$
DECLARE
    -- After this many attempts, a step has failed.
    most_attempts CONSTANT pg_catalog.int4 := 60;
    attempts pg_catalog.int4 := 0;
    -- After this many attempts to fill the columns, a row cannot be filled.
    most_violations CONSTANT pg_catalog.int4 := 10;
    violations pg_catalog.int4 := 0;
    number pg_catalog.int4 := 0;
    last_title pg_catalog.text;
    step pg_catalog.record;
    version pg_catalog.text;
    relations pg_catalog.oid[];
    -- All tables and views whose catalog rows the plan depends on.
    watched pg_catalog.oid[];
    locked pg_catalog.oid;
    statement pg_catalog.text;
    page pg_catalog.int8;
    next_page pg_catalog.int8;
    first_skipped pg_catalog.int8;
    is_skipped pg_catalog.bool;
    is_complete pg_catalog.bool;
    -- Whether a lock was not granted.
    is_refused pg_catalog.bool := false;
    deadline pg_catalog.timestamptz;
    -- Transactions whose snapshots are older than the filling of the columns.
    old_snapshots pg_catalog.text[];
    -- The properties of tables and views before the columns are replaced.
    widened pg_catalog.text[];
    before pg_catalog.text[];
    recreated pg_catalog.text[];
    actions pg_catalog.jsonb;
BEGIN
    next_command := NULL;
    IF table_name IS NULL OR column_name IS NULL OR dry_run IS NULL OR abandon IS NULL OR batch_pages IS NULL
       OR pause IS NULL OR lock_wait IS NULL OR views IS NULL THEN
        RAISE EXCEPTION 'table_name, column_name, dry_run, abandon, batch_pages, pause, lock_wait and views must not be null'
            USING ERRCODE = 'null_value_not_allowed',
                  HINT = 'Specify a table and a column. Omit any other argument to use its default.';
    ELSIF batch_pages OPERATOR(pg_catalog.<) 1 OR pause OPERATOR(pg_catalog.<) '0'::pg_catalog.interval
          OR lock_wait OPERATOR(pg_catalog.<) '1 ms'::pg_catalog.interval
          OR lock_wait OPERATOR(pg_catalog.>) '10 s'::pg_catalog.interval THEN
        RAISE EXCEPTION 'batch_pages, pause or lock_wait is out of range'
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = 'batch_pages must be at least 1, pause must not be negative, and lock_wait must be between 1 ms and 10 s.';
    END IF;

    IF dry_run THEN
        FOR step IN
            SELECT * FROM snowflake_internal.snowflake_adopt_online_plan(table_name, column_name, owner, abandon, views, false, true)
        LOOP
            number := number OPERATOR(pg_catalog.+) 1;
            RAISE NOTICE 'step %: %', number, step.title USING DETAIL = pg_catalog.array_to_string(step.statements, E'\n');
        END LOOP;
        RETURN;
    END IF;

    -- The first step begins in a new transaction, without the snapshot and the lock_timeout of the old one. In a transaction
    -- block or a function, PostgreSQL refuses COMMIT.
    COMMIT;
    LOOP
        -- If only a lock was not granted, the plan is still valid, or the next attempt finds another version.
        IF NOT is_refused THEN
            -- Read before the plan, so that the plan is not older.
            relations := snowflake_internal.snowflake_adopt_locked(table_name, column_name);
            watched := relations OPERATOR(pg_catalog.||) ARRAY(
                SELECT relation FROM snowflake_internal.snowflake_adopt_columns(table_name, column_name, true)
                UNION ALL SELECT view FROM snowflake_internal.snowflake_adopt_views(table_name, column_name));
            version := snowflake_internal.snowflake_adopt_version(watched);
            SELECT * INTO step
            FROM snowflake_internal.snowflake_adopt_online_plan(
                table_name, column_name, owner, abandon, views, true, last_title IS NULL
            )
            LIMIT 1;
            EXIT WHEN NOT FOUND;
        END IF;
        is_refused := false;
        IF step.kind OPERATOR(pg_catalog.=) 'wait' THEN
            RAISE EXCEPTION 'another session is %', step.title
                USING ERRCODE = 'object_in_use', HINT = 'Repeat the CALL when the index has been created.';
        ELSIF step.kind OPERATOR(pg_catalog.=) 'manual' THEN
            next_command := step.statements[1];
            RAISE NOTICE 'an index has to be created or dropped outside of this procedure'
                USING HINT = pg_catalog.format('Execute next_command, and then repeat the CALL: %s', next_command);
            EXIT;
        END IF;
        IF last_title IS NULL OR step.title OPERATOR(pg_catalog.<>) last_title THEN
            RAISE NOTICE '%', step.title;
            attempts := 0;
        END IF;
        last_title := step.title;
        attempts := attempts OPERATOR(pg_catalog.+) 1;
        IF attempts OPERATOR(pg_catalog.>) most_attempts THEN
            RAISE EXCEPTION 'gave up after % attempts: %', most_attempts, step.title
                USING ERRCODE = 'lock_not_available',
                      DETAIL = pg_catalog.format('Other transactions hold locks on the tables, or on rows, for longer than lock_wait (%s).',
                                                 lock_wait),
                      HINT = 'End long transactions, which pg_stat_activity shows, and repeat the CALL. It continues with this step.';
        END IF;
        is_complete := true;

        IF step.kind OPERATOR(pg_catalog.=) 'fill' THEN
            old_snapshots := NULL;
            before := NULL;
            page := step.page;
            first_skipped := NULL;
            number := 0;
            IF page OPERATOR(pg_catalog.=) 0 THEN
                EXECUTE pg_catalog.concat('COMMENT', pg_catalog.format(' ON COLUMN %s IS %L', step.progress_target,
                    pg_catalog.format('snowflake_adopt_online: 0 of %s pages', step.pages)));
            END IF;
            COMMIT;
            WHILE page OPERATOR(pg_catalog.<) step.pages LOOP
                next_page := LEAST(page OPERATOR(pg_catalog.+) batch_pages, step.pages);
                -- Other triggers do not fire.
                IF pg_catalog.has_parameter_privilege('session_replication_role', 'SET') THEN
                    PERFORM pg_catalog.set_config('session_replication_role', 'replica', true);
                END IF;
                EXECUTE step.statements[1]
                    USING pg_catalog.format('(%s,0)', page)::pg_catalog.tid, pg_catalog.format('(%s,0)', next_page)::pg_catalog.tid;
                COMMIT;
                EXECUTE step.statements[2] INTO is_skipped
                    USING pg_catalog.format('(%s,0)', page)::pg_catalog.tid, pg_catalog.format('(%s,0)', next_page)::pg_catalog.tid;
                IF is_skipped AND first_skipped IS NULL THEN
                    first_skipped := page;
                END IF;
                -- COMMENT locks the table against autovacuum, so this is rare.
                number := number OPERATOR(pg_catalog.+) 1;
                IF (number OPERATOR(pg_catalog.%) 64) OPERATOR(pg_catalog.=) 0 OR next_page OPERATOR(pg_catalog.=) step.pages THEN
                    EXECUTE pg_catalog.concat('COMMENT', pg_catalog.format(' ON COLUMN %s IS %L', step.progress_target,
                        pg_catalog.format('snowflake_adopt_online: %s of %s pages', COALESCE(first_skipped, next_page), step.pages)));
                END IF;
                COMMIT;
                page := next_page;
                PERFORM pg_catalog.pg_sleep(EXTRACT(epoch FROM pause)::pg_catalog.float8);
            END LOOP;
            is_complete := first_skipped IS NULL;
        ELSIF step.kind OPERATOR(pg_catalog.=) ANY (ARRAY['sequence', 'exchange']) AND old_snapshots IS NULL THEN
            -- Also collects statistics of the indexes on expressions.
            FOREACH locked IN ARRAY relations LOOP
                IF EXISTS (SELECT FROM snowflake_internal.snowflake_adopt_new_columns() AS new WHERE new.relation OPERATOR(pg_catalog.=) locked) THEN
                    EXECUTE pg_catalog.format('ANALYZE %s', snowflake_internal.snowflake_adopt_names(ARRAY[locked]));
                END IF;
            END LOOP;
            COMMIT;
            -- A query with an older snapshot would find NULL in rows that were filled later.
            old_snapshots := snowflake_internal.snowflake_adopt_old_snapshots();
            COMMIT;
            number := 0;
            WHILE snowflake_internal.snowflake_adopt_holders(old_snapshots) IS NOT NULL LOOP
                IF number OPERATOR(pg_catalog.=) 20 THEN
                    RAISE NOTICE 'waiting for older snapshots'
                        USING DETAIL = pg_catalog.format('Process IDs: %s.', snowflake_internal.snowflake_adopt_holders(old_snapshots)),
                              HINT = 'These transactions or queries, for example of pg_dump, began before all rows had been filled. See pg_stat_activity.';
                END IF;
                number := number OPERATOR(pg_catalog.+) 1;
                COMMIT;
                PERFORM pg_catalog.pg_sleep(0.05);
            END LOOP;
            -- The wait can be long, so everything is checked once more.
            attempts := 0;
            COMMIT;
            CONTINUE;
        ELSE
            BEGIN
                IF step.kind OPERATOR(pg_catalog.=) ANY (ARRAY['lock', 'exchange']) THEN
                    EXECUTE pg_catalog.format('LOCK TABLE %s IN SHARE UPDATE EXCLUSIVE MODE', snowflake_internal.snowflake_adopt_names(step.relations));
                    deadline := pg_catalog.clock_timestamp() OPERATOR(pg_catalog.+) lock_wait;
                    IF step.kind OPERATOR(pg_catalog.=) 'exchange' THEN
                        FOR statement IN SELECT snowflake_internal.snowflake_adopt_first_locks(table_name, column_name, attempts) LOOP
                            PERFORM pg_catalog.set_config('lock_timeout', snowflake_internal.snowflake_adopt_time_left(deadline), true);
                            EXECUTE statement;
                        END LOOP;
                    END IF;
                    -- No order suits all writers, so it changes with each attempt.
                    FOREACH locked IN ARRAY snowflake_internal.snowflake_adopt_lock_order(step.relations, table_name, attempts) LOOP
                        PERFORM pg_catalog.set_config('lock_timeout', snowflake_internal.snowflake_adopt_time_left(deadline), true);
                        EXECUTE pg_catalog.format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', snowflake_internal.snowflake_adopt_names(ARRAY[locked]));
                    END LOOP;
                    is_complete := snowflake_internal.snowflake_adopt_version(watched) OPERATOR(pg_catalog.=) version
                                   AND (step.kind OPERATOR(pg_catalog.<>) 'exchange'
                                        OR step.relations OPERATOR(pg_catalog.=) relations
                                           AND snowflake_internal.snowflake_adopt_is_proved(table_name, column_name));
                ELSE
                    IF step.kind OPERATOR(pg_catalog.<>) 'sequence' THEN
                        EXECUTE pg_catalog.format('LOCK TABLE %s IN SHARE UPDATE EXCLUSIVE MODE',
                                                  snowflake_internal.snowflake_adopt_names(ARRAY[step.relations[1]]));
                    END IF;
                    PERFORM pg_catalog.set_config('lock_timeout', snowflake_internal.snowflake_adopt_time_left(
                        pg_catalog.clock_timestamp() OPERATOR(pg_catalog.+) lock_wait), true);
                END IF;
                IF is_complete AND step.kind OPERATOR(pg_catalog.=) 'exchange' THEN
                    SELECT facts.widened INTO widened
                    FROM snowflake_internal.snowflake_adopt_compared(table_name, column_name, true) AS facts;
                    recreated := ARRAY(SELECT name FROM snowflake_internal.snowflake_adopt_views(table_name, column_name));
                    before := ARRAY(SELECT snowflake_internal.snowflake_adopt_properties(relations, widened, '{}', false)
                                    UNION ALL SELECT snowflake_internal.snowflake_adopt_view_properties(recreated));
                    actions := (SELECT pg_catalog.jsonb_agg(pg_catalog.to_jsonb(action)) FROM snowflake_internal.snowflake_adopt_actions(relations) AS action);
                    -- The statements contain the texts of constraints and views, which were made with these settings. The functions
                    -- of event triggers see them, too.
                    PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
                    PERFORM pg_catalog.set_config('standard_conforming_strings', 'on', true);
                END IF;
                IF is_complete THEN
                    FOREACH statement IN ARRAY step.statements LOOP
                        EXECUTE statement;
                    END LOOP;
                END IF;
                IF is_complete AND step.kind OPERATOR(pg_catalog.=) 'exchange' THEN
                    PERFORM snowflake_internal.snowflake_adopt_restore_actions(relations, actions);
                    PERFORM snowflake_internal.snowflake_adopt_compare(
                        before, ARRAY(SELECT snowflake_internal.snowflake_adopt_properties(relations, widened, '{}', false)
                                      UNION ALL SELECT snowflake_internal.snowflake_adopt_view_properties(recreated)));
                END IF;
            EXCEPTION
                -- A deadlock is possible with CREATE INDEX CONCURRENTLY, which waits for all transactions.
                WHEN lock_not_available OR deadlock_detected THEN
                    is_complete := false;
                    is_refused := step.kind OPERATOR(pg_catalog.=) ANY (ARRAY['lock', 'exchange']);
                -- The functions in constraints CHECK can raise errors of their own.
                WHEN check_violation OR foreign_key_violation OR raise_exception THEN
                    IF step.kind OPERATOR(pg_catalog.=) 'check' THEN
                        violations := violations OPERATOR(pg_catalog.+) 1;
                        IF violations OPERATOR(pg_catalog.>) most_violations THEN
                            RAISE;
                        END IF;
                        is_complete := false;
                        -- VACUUM FULL moves rows to other pages, and there may be more of them now.
                        EXECUTE pg_catalog.concat('COMMENT', pg_catalog.format(' ON COLUMN %s IS NULL', step.progress_target));
                    ELSIF step.kind OPERATOR(pg_catalog.=) 'validate' THEN
                        RAISE WARNING '%', SQLERRM
                            USING DETAIL = 'The row violated the constraint before the columns were replaced. New rows are checked.',
                                  HINT = pg_catalog.format('Correct the row. Then run: %s', step.statements[1]);
                        -- Only the remark is removed.
                        EXECUTE step.statements[2];
                    ELSE
                        RAISE;
                    END IF;
            END;
        END IF;
        COMMIT;
        IF NOT is_complete THEN
            PERFORM pg_catalog.pg_sleep(EXTRACT(epoch FROM lock_wait OPERATOR(pg_catalog.*) 10::pg_catalog.float8)::pg_catalog.float8);
        END IF;
    END LOOP;
    IF last_title IS NOT NULL AND next_command IS NULL THEN
        RAISE NOTICE 'finished: %', last_title;
    END IF;
END
$$;
COMMENT ON PROCEDURE snowflake_adopt_online(regclass, name, boolean, regrole, boolean, int, interval, interval, boolean, text) IS
    'replaces a column of type int, and the foreign keys that reference it, by columns of type bigint, in steps that block other sessions only briefly; executes the steps only if dry_run is false';
