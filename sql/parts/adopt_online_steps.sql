-- The statements that replace the old columns, in one transaction.
CREATE FUNCTION snowflake_internal.snowflake_adopt_exchange(adopted_table regclass, adopted_column name, recreates_views boolean)
RETURNS SETOF text
STABLE PARALLEL SAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET jit = off
SET standard_conforming_strings = on SET extra_float_digits = 3 SET datestyle = 'ISO' SET intervalstyle = 'postgres' AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH pairs AS MATERIALIZED (
        SELECT pairs.*, not_null.conname AS not_null_name, not_null.connoinherit AS not_null_stays, not_null.oid AS not_null_oid
        FROM snowflake_internal.snowflake_adopt_pairs(adopted_table, adopted_column) AS pairs
        -- Since PostgreSQL 18.
        LEFT JOIN pg_constraint AS not_null
          ON not_null.conrelid = pairs.relation AND not_null.contype = 'n' AND not_null.conkey = ARRAY[pairs.old_number]
    ),
    constraints AS MATERIALIZED (
        SELECT * FROM snowflake_internal.snowflake_adopt_constraints(adopted_table, adopted_column)
    ),
    indexes AS MATERIALIZED (
        SELECT indexes.*, definition.indisclustered, definition.indisreplident, definition.indnkeyatts, definition.indkey,
               key.conname AS constraint_name, key.contype AS constraint_type
        FROM snowflake_internal.snowflake_adopt_indexes(adopted_table, adopted_column) AS indexes
        JOIN pg_index AS definition ON definition.indexrelid = indexes.index
        LEFT JOIN pg_constraint AS key ON key.oid = indexes.constraint_oid
    ),
    views AS MATERIALIZED (
        SELECT * FROM snowflake_internal.snowflake_adopt_views(adopted_table, adopted_column) WHERE recreates_views
    ),
    identities AS MATERIALIZED (
        SELECT pairs.relation_name, pairs.new_name, pairs.old_name, pairs.owner, old.attidentity, definition.*, class.relname,
               sequences.sequence_name, format('%I.%I', namespace.nspname, 'snowflake_new_' || class.oid) AS new_sequence,
               obj_description(class.oid, 'pg_class') AS comment
        FROM snowflake_internal.snowflake_adopt_sequences(adopted_table, adopted_column, true) AS sequences
        JOIN pairs ON pairs.relation = sequences.relation AND pairs.is_adopted
        JOIN pg_attribute AS old ON old.attrelid = pairs.relation AND old.attnum = pairs.old_number
        JOIN pg_sequence AS definition ON definition.seqrelid = sequences.sequence
        JOIN pg_class AS class ON class.oid = sequences.sequence
        JOIN pg_namespace AS namespace ON namespace.oid = class.relnamespace
        WHERE sequences.is_identity
    ),
    steps (phase, place, statement) AS (
        SELECT 0, -depth::bigint, drop_statement FROM views
        UNION ALL
        SELECT 1, oid::bigint, format('ALTER TABLE %s DROP CONSTRAINT %I;', relation_name, name) FROM constraints
        UNION ALL
        SELECT 2, old_number, format('DROP TRIGGER zz_%s ON %s;', new_name, relation_name) FROM pairs
        UNION ALL
        SELECT 3, old_number, format('DROP FUNCTION %s;', trigger_function) FROM pairs
        UNION ALL
        -- The valid constraint CHECK makes it unnecessary to read the table.
        SELECT 4, old_number,
               CASE WHEN not_null_oid IS NULL THEN format('ALTER TABLE %s ALTER COLUMN %I SET NOT NULL;', relation_name, new_name)
                    ELSE format('ALTER TABLE %s ADD CONSTRAINT %I NOT NULL %I%s;', relation_name, new_name || '_not_null', new_name,
                                CASE WHEN not_null_stays THEN ' NO INHERIT' END) END
        FROM pairs WHERE is_not_null
        UNION ALL
        -- The new column continues the numbers of the identity. ALTER SEQUENCE locks the old one.
        SELECT 5, list.place, list.statement
        FROM identities
        CROSS JOIN LATERAL unnest(ARRAY[
            format('ALTER SEQUENCE %s INCREMENT BY %s;', sequence_name, seqincrement),
            format('ALTER TABLE %s ALTER COLUMN %I ADD GENERATED %s AS IDENTITY (SEQUENCE NAME %s START WITH %s INCREMENT BY %s '
                   'MINVALUE %s MAXVALUE %s CACHE %s%s);', relation_name, new_name,
                   CASE attidentity WHEN 'a' THEN 'ALWAYS' ELSE 'BY DEFAULT' END, new_sequence, seqstart, seqincrement, seqmin, seqmax, seqcache,
                   CASE WHEN seqcycle THEN ' CYCLE' END),
            format('SELECT pg_catalog.setval(%L::pg_catalog.regclass, last_value, is_called) FROM %s;', new_sequence, sequence_name)
        ]) WITH ORDINALITY AS list (statement, place)
        UNION ALL
        SELECT 6, old_number, format('ALTER TABLE %s DROP COLUMN %I;', relation_name, old_name) FROM pairs
        UNION ALL
        SELECT 7, list.place, list.statement
        FROM identities
        CROSS JOIN LATERAL unnest(
            ARRAY[format('ALTER SEQUENCE %s RENAME TO %I;', new_sequence, relname)]
            || ARRAY(SELECT snowflake_internal.snowflake_adopt_privileges(seqrelid, owner, 'SEQUENCE ' || sequence_name))
            || ARRAY(SELECT concat('COMMENT', format(' ON SEQUENCE %s IS %L;', sequence_name, comment)) WHERE comment IS NOT NULL)
        ) WITH ORDINALITY AS list (statement, place)
        UNION ALL
        SELECT 8, old_number, format('ALTER TABLE %s DROP CONSTRAINT %I;', relation_name, new_name || '_some') FROM pairs WHERE has_some
        UNION ALL
        SELECT 9, old_number, format('ALTER TABLE %s RENAME COLUMN %I TO %I;', relation_name, new_name, old_name) FROM pairs
        UNION ALL
        SELECT 9, 100000 + old_number, format('ALTER TABLE %s RENAME CONSTRAINT %I TO %I;', relation_name, new_name || '_not_null', not_null_name)
        FROM pairs WHERE not_null_oid IS NOT NULL
        UNION ALL
        SELECT 10, index::bigint * 10 + kind, statement
        FROM (
            SELECT index, 0, format('ALTER INDEX %I.snowflake_new_%s RENAME TO %I;', schema, index, name) FROM indexes
            UNION ALL
            SELECT index, 1, format('ALTER TABLE %s ADD CONSTRAINT %I %s USING INDEX %I;', relation_name, constraint_name,
                                    CASE constraint_type WHEN 'p' THEN 'PRIMARY KEY' ELSE 'UNIQUE' END, name)
            FROM indexes WHERE constraint_name IS NOT NULL
            UNION ALL
            SELECT index, 2, format('ALTER TABLE %s CLUSTER ON %I;', relation_name, name) FROM indexes WHERE indisclustered
            UNION ALL
            SELECT index, 3, format('ALTER TABLE %s REPLICA IDENTITY USING INDEX %I;', relation_name, name) FROM indexes WHERE indisreplident
            UNION ALL
            SELECT index, 4, format('ALTER INDEX %I.%I ALTER COLUMN %s SET STATISTICS %s;', schema, name, attribute.attnum, attribute.attstattarget)
            FROM indexes
            JOIN pg_attribute AS attribute ON attribute.attrelid = indexes.index AND attribute.attstattarget >= 0
            -- Only expressions have a target of their own.
            WHERE attribute.attnum <= indexes.indnkeyatts AND indexes.indkey[attribute.attnum - 1] = 0
            UNION ALL
            -- The columns of an index keep the names that those of the table had when it was created.
            SELECT indexes.index, 5, format('ALTER TABLE %I.%I RENAME COLUMN %I TO %I;', indexes.schema, name, new.attname, old.attname)
            FROM indexes
            JOIN pg_class AS class ON class.relname = 'snowflake_new_' || indexes.index
            JOIN pg_index AS definition ON definition.indexrelid = class.oid AND definition.indrelid = indexes.relation
            JOIN pg_attribute AS new ON new.attrelid = class.oid
            JOIN pg_attribute AS old ON old.attrelid = indexes.index AND old.attnum = new.attnum AND old.attname <> new.attname
        ) AS of_index (index, kind, statement)
        UNION ALL
        -- Settings that have changed since the new column was added.
        SELECT 11, pairs.old_number, format('ALTER TABLE %s ALTER COLUMN %I %s;', pairs.relation_name, pairs.old_name, setting.text)
        FROM pairs
        JOIN pg_attribute AS old ON old.attrelid = pairs.relation AND old.attnum = pairs.old_number
        JOIN pg_attribute AS new ON new.attrelid = pairs.relation AND new.attnum = pairs.new_number
        CROSS JOIN LATERAL (
            SELECT format('SET STATISTICS %s', coalesce(old.attstattarget, -1)) WHERE old.attstattarget IS DISTINCT FROM new.attstattarget
            UNION ALL
            SELECT format('RESET (%s)', split_part(option, '=', 1)) FROM unnest(new.attoptions) AS option
            WHERE NOT starts_with(option, 'pg_') AND option <> ALL (coalesce(old.attoptions, '{}'))
            UNION ALL
            SELECT format('SET (%s)', option) FROM unnest(old.attoptions) AS option
            WHERE NOT starts_with(option, 'pg_') AND option <> ALL (coalesce(new.attoptions, '{}'))
        ) AS setting (text)
        UNION ALL
        SELECT 11, pairs.old_number, format('ALTER TABLE %s ALTER COLUMN %I SET DEFAULT %s;', pairs.relation_name, pairs.old_name,
                                           pg_get_expr(expression.adbin, expression.adrelid))
        FROM pairs JOIN pg_attrdef AS expression ON expression.adrelid = pairs.relation AND expression.adnum = pairs.old_number
        UNION ALL
        SELECT 12, old_number, snowflake_internal.snowflake_adopt_grants(old.attacl, old_name, relation_name)
        FROM pairs JOIN pg_attribute AS old ON old.attrelid = relation AND old.attnum = old_number
        UNION ALL
        SELECT 13, oid::bigint * 2, format('ALTER TABLE %s ADD CONSTRAINT %I %s%s;', relation_name, name, definition,
                                           CASE WHEN definition !~ ' NOT ENFORCED$' THEN ' NOT VALID' END)
        FROM constraints
        UNION ALL
        SELECT 13, oid::bigint * 2 + 1, concat('COMMENT', format(' ON CONSTRAINT %I ON %s IS %L;', name, relation_name,
                   concat_ws(E'\n', CASE WHEN is_valid THEN 'snowflake_adopt_online: not yet checked.' END, comment)))
        FROM constraints WHERE is_valid OR comment IS NOT NULL
        UNION ALL
        SELECT 14, 0, concat('COMMENT', format(' ON %s IS %L;', note.target, note.text))
        FROM (
            -- Also without a comment, because the new column has one.
            SELECT format('COLUMN %s.%I', relation_name, old_name), col_description(relation, old_number), true FROM pairs
            UNION ALL
            SELECT format('INDEX %I.%I', schema, name), obj_description(index, 'pg_class'), false FROM indexes
            UNION ALL
            SELECT format('CONSTRAINT %I ON %s', constraint_name, relation_name), obj_description(constraint_oid, 'pg_constraint'), false
            FROM indexes WHERE constraint_oid IS NOT NULL
            UNION ALL
            SELECT format('CONSTRAINT %I ON %s', not_null_name, relation_name), obj_description(not_null_oid, 'pg_constraint'), false
            FROM pairs WHERE not_null_oid IS NOT NULL
        ) AS note (target, text, is_ours)
        WHERE note.text IS NOT NULL OR note.is_ours
        UNION ALL
        SELECT 15, views.depth::bigint * 1000 + list.place, list.statement
        FROM views CROSS JOIN LATERAL unnest(views.create_statements) WITH ORDINALITY AS list (statement, place)
    )
    SELECT statement FROM steps ORDER BY phase, place, statement COLLATE "C";
END
$$;
COMMENT ON FUNCTION snowflake_internal.snowflake_adopt_exchange(regclass, name, boolean) IS
    'statements that replace columns of type int by those of type bigint, for snowflake_adopt_online()';

-- The steps of snowflake_adopt_online(), computed from the catalogs. A step that is done has left its objects there. Therefore,
-- the procedure can stop anywhere, and goes on with the first step that is not done.
--
-- The columns of the result:
--
-- * `kind`: how the procedure executes the statements:
--     lock      executes them in one transaction, with the tables locked
--     fill      executes the statement for one range of pages after the other
--     check     executes them in one transaction; if a row violates a constraint, all pages are filled once more
--     execute   executes them in one transaction
--     sequence  the same, when there are no older snapshots any more
--     validate  the same, but only warns if a row violates a constraint
--     manual    returns the statement to the caller, who must execute it
--     wait      raises an error, because another session executes the statement
--     exchange  executes them in one transaction, with all tables locked, and compares the catalogs before and after
-- * `relations`: the tables that are locked.
-- * `page` and `pages`: the first page to fill, and the number of pages; `progress_target`: the column whose comment contains them.
-- `definitions` is the result of snowflake_adopt_definitions(). If it is NULL, the steps end with the checks of the new columns.
CREATE FUNCTION snowflake_internal.snowflake_adopt_steps(
    adopted_table regclass, adopted_column name, recreates_views boolean, definitions jsonb
)
RETURNS TABLE (
    "position" int, title text, kind text, relations oid[], statements text[], page bigint, pages bigint, progress_target text
)
STABLE PARALLEL RESTRICTED LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on SET jit = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH pairs AS MATERIALIZED (
        SELECT * FROM snowflake_internal.snowflake_adopt_pairs(adopted_table, adopted_column)
    ),
    tables AS MATERIALIZED (
        SELECT relation, relation_name,
               bool_and(new_number IS NOT NULL) AS has_columns, bool_and(coalesce(is_proved, false)) AS is_proved,
               -- Only one of the new columns has the comment. Another one can come later.
               (array_agg(pages_filled ORDER BY new_name::text COLLATE "C"))[1] AS pages_filled,
               (array_agg(pages ORDER BY new_name::text COLLATE "C"))[1] AS pages,
               pg_relation_size(relation) / current_setting('block_size')::int + 1 AS pages_now,
               format('%s.%I', relation_name, min(new_name::text COLLATE "C")) AS progress_target,
               string_agg(format('%I = %I', new_name, old_name), ', ' ORDER BY old_number) AS assignments,
               string_agg(format('%I IS NULL AND %I IS NOT NULL', new_name, old_name), ' OR ' ORDER BY old_number) AS is_unfilled,
               string_agg(format('VALIDATE CONSTRAINT %I', new_name), ', ' ORDER BY old_number) AS validations
        FROM pairs GROUP BY relation, relation_name
    ),
    definitions AS MATERIALIZED (
        SELECT *
        FROM jsonb_to_recordset(definitions)
            AS known (relation oid, index oid, description text, is_unique boolean, command text, new_index oid, is_built boolean)
        WHERE index IS NOT NULL
    )

    SELECT 1, format('adding new columns to %s', tables.relation_name), 'lock', ARRAY[tables.relation],
           ARRAY(
               SELECT statement
               FROM pairs
               JOIN pg_attribute AS old ON old.attrelid = pairs.relation AND old.attnum = pairs.old_number
               CROSS JOIN LATERAL unnest(
                   ARRAY[format('ALTER TABLE %1$s ADD COLUMN %2$I bigint, ADD CONSTRAINT %2$I '
                                'CHECK (coalesce(%2$I OPERATOR(pg_catalog.=) %3$I, %2$I IS NULL AND %3$I IS NULL)) NOT VALID;',
                                pairs.relation_name, pairs.new_name, pairs.old_name),
                         format('CREATE FUNCTION %s RETURNS trigger LANGUAGE plpgsql AS %L;', pairs.trigger_function,
                                snowflake_internal.snowflake_adopt_copy_body(pairs.new_name, pairs.old_name)),
                         CASE WHEN pairs.owner <> quote_ident(current_user)::regrole
                              THEN format('ALTER FUNCTION %s OWNER TO %s;', pairs.trigger_function, pairs.owner) END,
                         format('CREATE TRIGGER zz_%s BEFORE INSERT OR UPDATE ON %s FOR EACH ROW EXECUTE FUNCTION %s;',
                                pairs.new_name, pairs.relation_name, pairs.trigger_function),
                         format('ALTER TABLE %s ENABLE ALWAYS TRIGGER zz_%s;', pairs.relation_name, pairs.new_name)]
                   -- ANALYZE uses them before the columns are replaced.
                   || ARRAY(SELECT format('ALTER TABLE %s ALTER COLUMN %I %s;', pairs.relation_name, pairs.new_name, setting.text)
                            FROM (SELECT format('SET STATISTICS %s', old.attstattarget) WHERE old.attstattarget >= 0
                                  UNION ALL
                                  SELECT format('SET (%s)', option) FROM unnest(old.attoptions) AS option
                                  WHERE NOT starts_with(option, 'pg_')) AS setting (text))
               ) WITH ORDINALITY AS list (statement, place)
               WHERE pairs.relation = tables.relation AND pairs.new_number IS NULL AND statement IS NOT NULL
               ORDER BY pairs.old_number, list.place),
           NULL::bigint, NULL::bigint, NULL
    FROM tables WHERE NOT has_columns

    UNION ALL
    -- The trigger fills all rows that are written from now on. So only these pages can contain rows to be filled. Rows that
    -- another transaction has locked are skipped: the statement never waits for a row, and cannot cause a deadlock.
    SELECT 2, format('filling the new columns of %s', relation_name), 'fill', ARRAY[relation],
           ARRAY[format('UPDATE %1$s SET %2$s WHERE ctid OPERATOR(pg_catalog.=) ANY (ARRAY(SELECT ctid FROM %1$s '
                        'WHERE ctid OPERATOR(pg_catalog.>=) $1 AND ctid OPERATOR(pg_catalog.<) $2 AND (%3$s) '
                        'FOR NO KEY UPDATE SKIP LOCKED))', relation_name, assignments, is_unfilled),
                 format('SELECT EXISTS (SELECT FROM %s WHERE ctid OPERATOR(pg_catalog.>=) $1 AND ctid OPERATOR(pg_catalog.<) $2 AND (%s))',
                        relation_name, is_unfilled)],
           coalesce(pages_filled, 0), coalesce(pages, pages_now), progress_target
    FROM tables WHERE NOT is_proved AND (pages_filled < pages) IS NOT FALSE

    UNION ALL
    SELECT 3, format('checking the new columns of %s', relation_name), 'check', ARRAY[relation],
           ARRAY[format('ALTER TABLE %s %s;', relation_name, validations)], NULL, NULL, progress_target
    FROM tables WHERE NOT is_proved

    UNION ALL
    -- A column may have become NOT NULL meanwhile. Adding the constraint needs another lock than checking it.
    SELECT 4, format('requiring values in column %s of %s', new_name, relation_name), 'lock', ARRAY[relation],
           ARRAY[format('ALTER TABLE %s ADD CONSTRAINT %I CHECK (%I IS NOT NULL) NOT VALID;', relation_name, new_name || '_some', new_name)],
           NULL, NULL, NULL
    FROM pairs WHERE is_not_null AND NOT coalesce(has_some, false)

    UNION ALL
    SELECT 5, format('checking values in column %s of %s', new_name, relation_name), 'execute', ARRAY[relation],
           ARRAY[format('ALTER TABLE %s VALIDATE CONSTRAINT %I;', relation_name, new_name || '_some')], NULL, NULL, NULL
    FROM pairs WHERE is_not_null AND NOT coalesce(is_some, false)

    UNION ALL
    -- An index that is not valid, is no longer needed, or has another definition.
    SELECT 6, format(CASE WHEN work.pid IS NULL THEN 'dropping index %s' ELSE 'creating index %s' END, class.oid::regclass),
           CASE WHEN work.pid IS NULL THEN 'manual' ELSE 'wait' END,
           ARRAY[index.indrelid], ARRAY[format('DROP INDEX CONCURRENTLY %I.%I;', namespace.nspname, class.relname)], NULL, NULL, NULL
    FROM pg_index AS index
    JOIN pg_class AS class ON class.oid = index.indexrelid AND class.relname ~ '^snowflake_new_\d+$'
    JOIN pg_namespace AS namespace ON namespace.oid = class.relnamespace
    LEFT JOIN pg_stat_progress_create_index AS work ON work.index_relid = class.oid
    WHERE definitions IS NOT NULL AND index.indrelid IN (SELECT relation FROM tables)
      AND NOT EXISTS (SELECT FROM definitions WHERE definitions.new_index = index.indexrelid AND definitions.is_built)

    UNION ALL
    -- Unique indexes come last: while two of them exist, INSERT .. ON CONFLICT can fail.
    SELECT CASE WHEN is_unique THEN 8 ELSE 7 END, format('creating the index that will replace %s', description),
           'manual', ARRAY[relation], ARRAY[command], NULL, NULL, NULL
    FROM definitions WHERE new_index IS NULL

    UNION ALL
    -- Otherwise, it would be dropped with the old column. Transactions that have called nextval() hold a lock on the sequence, so
    -- this is a transaction of its own. Until the columns are replaced, pg_get_serial_sequence() does not find the sequence, so all
    -- long waits come before.
    SELECT 9, format('moving sequence %s to column %s', sequences.sequence_name, pairs.new_name), 'sequence', ARRAY[pairs.relation],
           ARRAY[format('ALTER SEQUENCE %s OWNED BY %s.%I;', sequences.sequence_name, pairs.relation_name, pairs.new_name)],
           NULL, NULL, NULL
    FROM snowflake_internal.snowflake_adopt_sequences(adopted_table, adopted_column, true) AS sequences
    JOIN pairs ON pairs.relation = sequences.relation AND pairs.is_adopted
    WHERE NOT sequences.is_identity AND definitions IS NOT NULL

    UNION ALL
    SELECT 10, format('replacing the columns of %s', (SELECT string_agg(relation_name, ', ' ORDER BY relation_name) FROM tables)),
           'exchange', snowflake_internal.snowflake_adopt_locked(adopted_table, adopted_column),
           ARRAY(SELECT snowflake_internal.snowflake_adopt_exchange(adopted_table, adopted_column, recreates_views)),
           NULL, NULL, NULL
    WHERE EXISTS (SELECT FROM tables) AND definitions IS NOT NULL

    UNION ALL
    -- The exchange leaves the checks of the rows to this step. New rows are checked from the beginning.
    SELECT 11, format('checking constraint %I of %s', constraint_row.conname, constraint_row.conrelid::regclass), 'validate',
           array_remove(ARRAY[constraint_row.conrelid, constraint_row.confrelid], 0::oid),
           ARRAY[format('ALTER TABLE %s VALIDATE CONSTRAINT %I;', constraint_row.conrelid::regclass, constraint_row.conname),
                 concat('COMMENT', format(' ON CONSTRAINT %I ON %s IS %L;', constraint_row.conname, constraint_row.conrelid::regclass,
                                          snowflake_internal.snowflake_adopt_old_comment(note.description)))],
           NULL, NULL, NULL
    FROM pg_constraint AS constraint_row
    JOIN pg_description AS note
      ON note.classoid = 'pg_constraint'::regclass AND note.objoid = constraint_row.oid
     AND starts_with(note.description, 'snowflake_adopt_online: not yet checked.')
    WHERE EXISTS (SELECT FROM snowflake_internal.snowflake_adopt_columns(adopted_table, adopted_column, true) AS involved
                  WHERE involved.relation IN (constraint_row.conrelid, constraint_row.confrelid));
END
$$;
COMMENT ON FUNCTION snowflake_internal.snowflake_adopt_steps(regclass, name, boolean, jsonb) IS
    'steps from a column of type int to type bigint, for snowflake_adopt_online()';

-- Statements that change nothing, but lock views, and then, in every second attempt, the sequences of identities. A reader of a
-- view locks it before the tables, and LOCK TABLE would also lock other tables of the view. Writers call nextval() before they
-- lock the table, or while they insert into it.
CREATE FUNCTION snowflake_internal.snowflake_adopt_first_locks(adopted_table regclass, adopted_column name, attempt int)
RETURNS SETOF text
STABLE PARALLEL SAFE LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    (SELECT format('ALTER VIEW %s OWNER TO %s', class.oid::regclass, class.relowner::regrole)
     FROM snowflake_internal.snowflake_adopt_views(adopted_table, adopted_column) AS views
     JOIN pg_class AS class ON class.oid = views.view
     ORDER BY views.depth DESC)
    UNION ALL
    SELECT format('ALTER SEQUENCE %s OWNER TO %s', sequences.sequence_name, class.relowner::regrole)
    FROM snowflake_internal.snowflake_adopt_sequences(adopted_table, adopted_column, true) AS sequences
    JOIN pg_class AS class ON class.oid = sequences.sequence
    WHERE sequences.is_identity AND attempt % 2 = 0;
$$;
COMMENT ON FUNCTION snowflake_internal.snowflake_adopt_first_locks(regclass, name, int) IS
    'statements that lock views, and sequences of identities, before the tables, for snowflake_adopt_online()';

-- The steps that take everything back. A sequence returns to its column before the new column is dropped.
CREATE FUNCTION snowflake_internal.snowflake_adopt_steps_back(adopted_table regclass, adopted_column name)
RETURNS TABLE (title text, kind text, relations oid[], statements text[])
STABLE PARALLEL SAFE LANGUAGE sql SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
    -- Meanwhile, the old columns can have become bigint.
    WITH pairs AS MATERIALIZED (
        SELECT involved.relation, involved.relation_name, class.relowner AS owner, involved.column_name AS old_name,
               new.old_number, new.new_number, new.new_name
        FROM snowflake_internal.snowflake_adopt_columns(adopted_table, adopted_column, true) AS involved
        JOIN pg_class AS class ON class.oid = involved.relation
        JOIN snowflake_internal.snowflake_adopt_new_columns() AS new
          ON new.relation = involved.relation AND new.old_number = involved.column_number
        -- These owners are checked.
        WHERE involved.is_adopted OR NOT involved.is_bigint
           OR class.relowner = (SELECT adopted.relowner FROM pg_class AS adopted WHERE adopted.oid = adopted_table)
    )
    (SELECT format('moving sequence %s to column %s', class.oid::regclass, pairs.old_name), 'execute', ARRAY[pairs.relation],
            ARRAY[format('ALTER SEQUENCE %s OWNED BY %s.%I;', class.oid::regclass, pairs.relation_name, pairs.old_name)]
     FROM pairs
     JOIN pg_depend AS depend
       ON depend.refclassid = 'pg_class'::regclass AND depend.refobjid = pairs.relation
      AND depend.refobjsubid = pairs.new_number AND depend.classid = 'pg_class'::regclass AND depend.deptype = 'a'
     JOIN pg_class AS class ON class.oid = depend.objid AND class.relkind = 'S'
     ORDER BY class.oid)

    UNION ALL
    (SELECT format('dropping the new columns of %s', pairs.relation_name), 'lock', ARRAY[pairs.relation],
           array_agg(list.statement ORDER BY pairs.old_number, list.place)
    FROM pairs
    LEFT JOIN pg_trigger AS trigger
      ON trigger.tgrelid = pairs.relation AND trigger.tgname = 'zz_' || pairs.new_name AND NOT trigger.tgisinternal
    LEFT JOIN pg_proc AS code
      ON code.oid = trigger.tgfoid AND code.proowner IN (pairs.owner, quote_ident(current_user)::regrole) AND code.proname ~ '^snowflake_new_\d+_\d+$'
     -- The owner of the table may have let the trigger call a function of another role.
     AND code.prosrc ~ '^BEGIN NEW\.snowflake_new_\d+ := NEW\.".*"; RETURN NEW; END$'
    CROSS JOIN LATERAL unnest(ARRAY[
        CASE WHEN trigger.oid IS NOT NULL THEN format('DROP TRIGGER zz_%s ON %s;', pairs.new_name, pairs.relation_name) END,
        CASE WHEN code.oid IS NOT NULL THEN format('DROP FUNCTION %s;', code.oid::regprocedure) END,
        -- The constraints and the indexes depend on the column.
        format('ALTER TABLE %s DROP COLUMN %I;', pairs.relation_name, pairs.new_name)
    ]) WITH ORDINALITY AS list (statement, place)
    WHERE list.statement IS NOT NULL
    GROUP BY pairs.relation, pairs.relation_name
    ORDER BY pairs.relation_name);
$$;
COMMENT ON FUNCTION snowflake_internal.snowflake_adopt_steps_back(regclass, name) IS
    'steps that abandon an adoption, for snowflake_adopt_online()';
