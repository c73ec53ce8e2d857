-- The steps of snowflake_adopt_online(), computed from the catalogs. A step is done if its objects exist. Therefore, the
-- procedure can stop anywhere, and go on later with the first step that is not done.
--
-- The statements run with the search_path of the caller, so all names and operators in them are schema-qualified.

-- The columns of the result:
--
-- * `position`: the order of the steps,
-- * `title`: what the step does,
-- * `tables` and `lock_mode`: the tables that must be locked before the statements are executed; NULL if the statements
--   acquire only locks that do not block writers,
-- * `statements`: executed in one transaction,
-- * `after_commit`: a statement that is executed when this transaction has been committed,
-- * `on_violation`: a statement that is executed if a row violates a constraint,
-- * `is_manual`: the caller must execute the statement, which is NULL while another session executes it,
-- * `is_done`.
CREATE FUNCTION snowflake_internal.snowflake_adopt_steps(adopted_table regclass, adopted_column name, batch_pages int)
RETURNS TABLE (
    "position" text, title text, tables text, lock_mode text, statements text[], after_commit text,
    on_violation text, is_manual boolean, is_done boolean
)
-- Compiling the query would take longer than executing it.
VOLATILE PARALLEL UNSAFE LANGUAGE sql
SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on SET jit = off AS $$
    WITH pairs AS MATERIALIZED (
        SELECT * FROM snowflake_internal.snowflake_adopt_pairs(adopted_table, adopted_column)
    ),
    -- The tables with columns to be replaced.
    filled AS MATERIALIZED (
        SELECT pairs.relation, pairs.relation_name, bool_or(pairs.is_adopted) AS is_adopted,
               format('%I.%I', namespace.nspname, snowflake_internal.snowflake_adopt_new_name(class.relname)) AS new_sequence,
               min(pairs.new_name::text) AS first_column, class.relowner::regrole AS owner,
               pg_relation_size(pairs.relation) / current_setting('block_size')::int + 1 AS pages_now,
               bool_and(pairs.new_number IS NOT NULL) AS has_columns,
               bool_and(coalesce(proof.convalidated, false)) AS is_checked,
               string_agg(format('ADD COLUMN %I bigint', new_name), ', ' ORDER BY old_number)
                   FILTER (WHERE new_number IS NULL) AS new_columns,
               string_agg(format(CASE WHEN is_not_null
                                      THEN 'ADD CONSTRAINT %1$I CHECK (%1$I IS NOT NULL AND %1$I OPERATOR(pg_catalog.=) %2$I) NOT VALID'
                                      ELSE 'ADD CONSTRAINT %1$I CHECK (coalesce(%1$I OPERATOR(pg_catalog.=) %2$I, '
                                           '%1$I IS NULL AND %2$I IS NULL)) NOT VALID' END, new_name, old_name),
                          ', ' ORDER BY old_number)
                   FILTER (WHERE new_number IS NULL) AS new_constraints,
               string_agg(format('%L, %L', old_name, new_name), ', ' ORDER BY old_number) AS trigger_arguments,
               string_agg(format('%I = %I', new_name, old_name), ', ' ORDER BY old_number) AS assignments,
               string_agg(format('%I IS NULL AND %I IS NOT NULL', new_name, old_name), ' OR ' ORDER BY old_number) AS is_unfilled,
               string_agg(format('VALIDATE CONSTRAINT %I', new_name), ', ' ORDER BY old_number) AS validations,
               string_agg(quote_ident(new_name), ', ' ORDER BY old_number) AS columns
        FROM pairs
        JOIN pg_class AS class ON class.oid = pairs.relation
        JOIN pg_namespace AS namespace ON namespace.oid = class.relnamespace
        LEFT JOIN pg_constraint AS proof
          ON proof.conrelid = pairs.relation AND proof.conname = pairs.new_name AND proof.contype = 'c'
        GROUP BY pairs.relation, pairs.relation_name, class.oid, namespace.oid
    ),
    batch AS (
        SELECT filled.*, counter.sequence, counter.pages_filled, counter.pages,
               least(coalesce(counter.pages_filled, 0) + batch_pages, coalesce(counter.pages, pages_now)) AS next_page,
               format('ctid OPERATOR(pg_catalog.>=) ''(%s,0)''::pg_catalog.tid AND ctid OPERATOR(pg_catalog.<) '
                      '''(%s,0)''::pg_catalog.tid AND (%s)',
                      coalesce(counter.pages_filled, 0),
                      least(coalesce(counter.pages_filled, 0) + batch_pages, coalesce(counter.pages, pages_now)),
                      filled.is_unfilled) AS condition
        FROM filled
        LEFT JOIN LATERAL snowflake_internal.snowflake_adopt_counter(filled.relation) AS counter ON true
    ),
    foreign_keys AS MATERIALIZED (
        SELECT foreign_keys.*, new.oid AS new_foreign_key, coalesce(new.convalidated, false) AS is_checked
        FROM snowflake_internal.snowflake_adopt_foreign_keys(adopted_table, adopted_column) AS foreign_keys
        LEFT JOIN pg_constraint AS new
          ON new.contype = 'f' AND new.conrelid = foreign_keys.relation AND new.conname = foreign_keys.new_name
         AND new.confrelid = foreign_keys.referenced
         AND new.conkey = foreign_keys.new_key AND new.confkey = foreign_keys.new_referenced_key
    ),
    -- The indexes that contain a column to be replaced.
    indexes AS MATERIALIZED (
        SELECT filled.relation, filled.relation_name, namespace.nspname AS schema, class.oid, class.relname AS name,
               snowflake_internal.snowflake_adopt_new_name(class.relname) AS new_name,
               index.indisclustered AS is_clustered, index.indisreplident AS is_replica_identity,
               owner.conname AS constraint_name, owner.contype AS constraint_type, owner.oid AS constraint_oid,
               new.indexrelid IS NOT NULL AS exists, coalesce(
                   new.indisvalid
                   -- Otherwise, the index was created again with other properties.
                   AND (new.indisunique, new.indnullsnotdistinct, new.indnkeyatts, new.indoption::text)
                       = (index.indisunique, index.indnullsnotdistinct, index.indnkeyatts, index.indoption::text)
                   AND pg_get_expr(new.indpred, new.indrelid) IS NOT DISTINCT FROM pg_get_expr(index.indpred, index.indrelid)
                   AND pg_get_expr(new.indexprs, new.indrelid) IS NOT DISTINCT FROM pg_get_expr(index.indexprs, index.indrelid),
                   false
               ) AS is_valid,
               EXISTS (SELECT FROM pg_stat_progress_create_index AS progress WHERE progress.index_relid = new.indexrelid)
                   AS is_in_progress,
               concat('CREATE ', CASE WHEN index.indisunique THEN 'UNIQUE ' END,
                      format('INDEX CONCURRENTLY %I ON %s USING %I (%s)', snowflake_internal.snowflake_adopt_new_name(class.relname),
                             filled.relation_name, method.amname, key.keys),
                      ' INCLUDE (' || key.included || ')',
                      CASE WHEN index.indnullsnotdistinct THEN ' NULLS NOT DISTINCT' END,
                      ' WITH (' || (
                          SELECT string_agg(format('%I = %L', split_part(option, '=', 1), substr(option, strpos(option, '=') + 1)), ', ')
                          FROM unnest(class.reloptions) AS option
                      ) || ')',
                      ' TABLESPACE ' || quote_ident(space.spcname),
                      ' WHERE ' || pg_get_expr(index.indpred, index.indrelid), ';') AS definition
        FROM filled
        JOIN pg_index AS index ON index.indrelid = filled.relation AND index.indisvalid
        JOIN pg_class AS class ON class.oid = index.indexrelid
        JOIN pg_namespace AS namespace ON namespace.oid = class.relnamespace
        JOIN pg_am AS method ON method.oid = class.relam
        LEFT JOIN pg_tablespace AS space ON space.oid = class.reltablespace
        LEFT JOIN pg_constraint AS owner ON owner.conindid = class.oid AND owner.contype IN ('p', 'u')
        CROSS JOIN LATERAL (
            SELECT array_agg(CASE WHEN pair.relation IS NULL THEN key.number ELSE pair.new_number END ORDER BY key.position),
                   string_agg(
                       CASE WHEN pair.relation IS NULL
                            THEN concat(pg_get_indexdef(class.oid, key.position::int, true),
                                        ' COLLATE ' || quote_ident(collation_schema.nspname) || '.' || quote_ident(collating.collname),
                                        ' ' || quote_ident(class_schema.nspname) || '.' || quote_ident(operator_class.opcname))
                            ELSE quote_ident(pair.new_name) END
                       || CASE WHEN NOT pg_indexam_has_property(method.oid, 'can_order') THEN ''
                               ELSE CASE WHEN key.option & 1 <> 0 THEN ' DESC' ELSE ' ASC' END
                                    || CASE WHEN key.option & 2 <> 0 THEN ' NULLS FIRST' ELSE ' NULLS LAST' END END,
                       ', ' ORDER BY key.position) FILTER (WHERE key.position <= index.indnkeyatts),
                   string_agg(coalesce(quote_ident(pair.new_name), pg_get_indexdef(class.oid, key.position::int, true)), ', '
                              ORDER BY key.position) FILTER (WHERE key.position > index.indnkeyatts),
                   count(pair.relation)
            FROM unnest(index.indkey::int2[], index.indclass::oid[], index.indcollation::oid[], index.indoption::int2[])
                     WITH ORDINALITY AS key (number, operator_class, collating, option, position)
            LEFT JOIN pairs AS pair ON pair.relation = filled.relation AND pair.old_number = key.number
            LEFT JOIN pg_opclass AS operator_class ON operator_class.oid = key.operator_class
            LEFT JOIN pg_namespace AS class_schema ON class_schema.oid = operator_class.opcnamespace
            LEFT JOIN pg_collation AS collating ON collating.oid = key.collating
            LEFT JOIN pg_namespace AS collation_schema ON collation_schema.oid = collating.collnamespace
        ) AS key (numbers, keys, included, replaced)
        LEFT JOIN (pg_index AS new JOIN pg_class AS new_class ON new_class.oid = new.indexrelid)
          ON new.indrelid = filled.relation AND new_class.relname = snowflake_internal.snowflake_adopt_new_name(class.relname)
         AND string_to_array(new.indkey::text, ' ')::int2[] = key.numbers
        WHERE key.replaced > 0
    ),
    -- The tables that are locked for the replacement. The adopted table comes last, because an INSERT locks the
    -- referencing table before the referenced table.
    locked (tables) AS (
        SELECT string_agg(relation_name, ', ' ORDER BY is_adopted, relation_name)
        FROM (
            SELECT relation_name, bool_or(is_adopted) AS is_adopted
            FROM (
                SELECT relation_name, is_adopted FROM filled
                UNION ALL SELECT relation_name, false FROM foreign_keys
                UNION ALL SELECT referenced_name, false FROM foreign_keys
            ) AS tables
            GROUP BY relation_name
        ) AS names
    ),
    replacement ("position", statement) AS (
        SELECT '1' || relation_name, format('DROP TRIGGER zz_snowflake_adopt ON %s;', relation_name) FROM filled
        UNION ALL
        -- The valid constraint CHECK makes it unnecessary to read the table.
        SELECT '2' || relation_name,
               format('ALTER TABLE %s %s;', relation_name,
                      string_agg(CASE WHEN not_null.oid IS NULL THEN format('ALTER COLUMN %I SET NOT NULL', pairs.new_name)
                                      ELSE format('ADD CONSTRAINT %I NOT NULL %I',
                                                  snowflake_internal.snowflake_adopt_new_name(not_null.conname), pairs.new_name) END,
                                 ', ' ORDER BY old_number))
        FROM pairs
        -- Since PostgreSQL 18.
        LEFT JOIN pg_constraint AS not_null
          ON not_null.conrelid = pairs.relation AND not_null.contype = 'n' AND not_null.conkey = ARRAY[pairs.old_number]
        WHERE is_not_null
        GROUP BY relation_name
        UNION ALL
        SELECT '3' || relation_name || name, format('ALTER TABLE %s DROP CONSTRAINT %I;', relation_name, name) FROM foreign_keys
        UNION ALL
        SELECT '4' || sequence_name, format('ALTER SEQUENCE %s OWNED BY NONE;', sequence_name)
        FROM snowflake_internal.snowflake_adopt_sequences(adopted_table, adopted_column, true)
        WHERE NOT is_identity AND used_by IS NOT NULL
        UNION ALL
        SELECT '5' || relation_name,
               format('ALTER TABLE %s %s;', relation_name, string_agg(format('DROP COLUMN %I', old_name), ', ' ORDER BY old_number))
        FROM pairs GROUP BY relation_name
        UNION ALL
        SELECT '6' || relation_name || old_number, format('ALTER TABLE %s RENAME COLUMN %I TO %I;', relation_name, new_name, old_name)
        FROM pairs
        UNION ALL
        SELECT '7' || relation_name, format('DROP SEQUENCE %s;', coalesce(sequence::text, new_sequence)) FROM batch
        UNION ALL
        SELECT '8' || relation_name || name, format('ALTER TABLE %s RENAME CONSTRAINT %I TO %I;', relation_name, new_name, name)
        FROM foreign_keys
        UNION ALL
        SELECT '8' || pairs.relation_name || not_null.conname,
               format('ALTER TABLE %s RENAME CONSTRAINT %I TO %I;', pairs.relation_name,
                      snowflake_internal.snowflake_adopt_new_name(not_null.conname), not_null.conname)
        FROM pairs
        JOIN pg_constraint AS not_null
          ON not_null.conrelid = pairs.relation AND not_null.contype = 'n' AND not_null.conkey = ARRAY[pairs.old_number]
        UNION ALL
        SELECT '9' || relation_name || name || kind, statement
        FROM (
            SELECT relation_name, name, 1, format('ALTER INDEX %I.%I RENAME TO %I;', schema, new_name, name)
            FROM indexes
            UNION ALL
            SELECT relation_name, name, 2,
                   format('ALTER TABLE %s ADD CONSTRAINT %I %s USING INDEX %I;', relation_name, constraint_name,
                          CASE constraint_type WHEN 'p' THEN 'PRIMARY KEY' ELSE 'UNIQUE' END, name)
            FROM indexes WHERE constraint_name IS NOT NULL
            UNION ALL
            SELECT relation_name, name, 3, format('ALTER TABLE %s CLUSTER ON %I;', relation_name, name)
            FROM indexes WHERE is_clustered
            UNION ALL
            SELECT relation_name, name, 4, format('ALTER TABLE %s REPLICA IDENTITY USING INDEX %I;', relation_name, name)
            FROM indexes WHERE is_replica_identity
        ) AS index_statement (relation_name, name, kind, statement)
        UNION ALL
        SELECT 'a' || pairs.relation_name || pairs.old_number,
               format('ALTER TABLE %s ALTER COLUMN %I SET DEFAULT %s;', pairs.relation_name, pairs.old_name,
                      CASE WHEN pairs.is_adopted THEN snowflake_internal.home() || '.snowflake_next()'
                           ELSE pg_get_expr(expression.adbin, expression.adrelid) END)
        FROM pairs
        LEFT JOIN pg_attrdef AS expression ON expression.adrelid = pairs.relation AND expression.adnum = pairs.old_number
        WHERE pairs.relation = adopted_table AND pairs.is_adopted OR NOT pairs.is_adopted AND expression.oid IS NOT NULL
        UNION ALL
        SELECT 'b' || pairs.relation_name || pairs.old_number || setting.text,
               format('ALTER TABLE %s ALTER COLUMN %I %s;', pairs.relation_name, pairs.old_name, setting.text)
        FROM pairs
        JOIN pg_attribute AS old ON old.attrelid = pairs.relation AND old.attnum = pairs.old_number
        CROSS JOIN LATERAL (
            SELECT format('SET STATISTICS %s', old.attstattarget) WHERE old.attstattarget >= 0
            UNION ALL
            SELECT format('SET (%s)', option) FROM unnest(old.attoptions) AS option WHERE starts_with(option, 'n_distinct')
        ) AS setting (text)
        UNION ALL
        SELECT 'c' || pairs.relation_name || pairs.old_number || acl.privilege_type || acl.grantee,
               format('GRANT %s (%I) ON TABLE %s TO %s%s;', acl.privilege_type, pairs.old_name, pairs.relation_name,
                      CASE WHEN acl.grantee = 0 THEN 'PUBLIC' ELSE acl.grantee::regrole::text END,
                      CASE WHEN acl.is_grantable THEN ' WITH GRANT OPTION' END)
        FROM pairs
        JOIN pg_attribute AS old ON old.attrelid = pairs.relation AND old.attnum = pairs.old_number
        CROSS JOIN LATERAL aclexplode(old.attacl) AS acl
        UNION ALL
        SELECT 'd' || comment.target, concat('COMMENT', format(' ON %s IS %L;', comment.target, comment.text))
        FROM (
            SELECT format('COLUMN %s.%I', relation_name, old_name), col_description(relation, old_number) FROM pairs
            UNION ALL
            SELECT format('CONSTRAINT %I ON %s', name, relation_name), obj_description(foreign_key, 'pg_constraint')
            FROM foreign_keys
            UNION ALL
            SELECT format('INDEX %I.%I', schema, name), obj_description(oid, 'pg_class') FROM indexes
            UNION ALL
            SELECT format('CONSTRAINT %I ON %s', constraint_name, relation_name), obj_description(constraint_oid, 'pg_constraint')
            FROM indexes WHERE constraint_oid IS NOT NULL
        ) AS comment (target, text)
        WHERE comment.text IS NOT NULL
    )

    SELECT '1' || CASE WHEN is_adopted THEN '0' ELSE '1' END || relation_name, format('adding new columns to %s', relation_name),
           relation_name, 'ACCESS EXCLUSIVE',
           array_remove(ARRAY[
               'DROP SEQUENCE ' || sequence::text || ';',
               format('ALTER TABLE %s %s, %s;', relation_name, new_columns, new_constraints),
               format('CREATE OR REPLACE TRIGGER zz_snowflake_adopt BEFORE INSERT OR UPDATE ON %s FOR EACH ROW '
                      'EXECUTE FUNCTION snowflake_internal.snowflake_adopt_copy(%s);', relation_name, trigger_arguments),
               format('ALTER TABLE %s ENABLE ALWAYS TRIGGER zz_snowflake_adopt;', relation_name)
           ], NULL),
           NULL, NULL, false, has_columns
    FROM batch

    -- The trigger fills all rows that are written from now on. So only these pages can contain rows to be filled.
    UNION ALL
    SELECT '2' || CASE WHEN is_adopted THEN '0' ELSE '1' END || relation_name || '1', format('counting the pages of %s', relation_name),
           NULL, NULL,
           array_remove(ARRAY[
               format('CREATE SEQUENCE %s AS bigint MINVALUE 0 MAXVALUE %s START WITH 0;', new_sequence, pages_now),
               CASE WHEN owner <> quote_ident(current_user)::regrole
                    THEN format('ALTER SEQUENCE %s OWNER TO %s;', new_sequence, owner) END,
               format('ALTER SEQUENCE %s OWNED BY %s.%I;', new_sequence, relation_name, first_column)
           ], NULL),
           NULL, NULL, false, sequence IS NOT NULL
    FROM batch

    -- Rows that another transaction has locked are skipped, so the batch never waits for a row, and cannot cause a
    -- deadlock. The pages are counted only when no row was skipped, and not before the batch is committed.
    UNION ALL
    SELECT '2' || CASE WHEN is_adopted THEN '0' ELSE '1' END || relation_name || '2', format('filling the new columns of %s', relation_name),
           NULL, NULL,
           array_remove(ARRAY[
               -- Other triggers do not fire.
               CASE WHEN has_parameter_privilege('session_replication_role', 'SET') THEN 'SET LOCAL session_replication_role = replica;' END,
               format('UPDATE %1$s SET %2$s WHERE ctid OPERATOR(pg_catalog.=) ANY (ARRAY(SELECT ctid FROM %1$s WHERE %3$s '
                      'FOR NO KEY UPDATE SKIP LOCKED));', relation_name, assignments, condition)
           ], NULL),
           format('SELECT pg_catalog.setval(%L::pg_catalog.regclass, %s) WHERE NOT EXISTS (SELECT FROM %s WHERE %s);',
                  coalesce(sequence::text, new_sequence), next_page, relation_name, condition),
           NULL, false, coalesce(pages_filled >= pages, false)
    FROM batch

    -- VACUUM FULL moves rows to other pages. If rows have been missed because of this, all pages are read once more.
    UNION ALL
    SELECT '3' || CASE WHEN is_adopted THEN '0' ELSE '1' END || relation_name, format('checking the new columns of %s', relation_name),
           NULL, NULL,
           ARRAY[format('ALTER TABLE %s %s;', relation_name, validations), format('ANALYZE %s (%s);', relation_name, columns)],
           -- The pages are counted again, because there may be more of them.
           NULL, format('DROP SEQUENCE %s;', coalesce(sequence::text, new_sequence)),
           false, is_checked
    FROM batch

    UNION ALL
    SELECT '4' || relation_name || name, format('creating index %s', new_name), NULL, NULL,
           ARRAY[CASE WHEN is_in_progress THEN NULL
                      WHEN exists THEN format('DROP INDEX CONCURRENTLY %I.%I;', schema, new_name)
                      ELSE definition END],
           NULL, NULL, true, is_valid
    FROM indexes

    UNION ALL
    SELECT '5' || relation_name || new_name || '1', format('adding foreign key %s to %s', new_name, relation_name),
           CASE WHEN relation_name = referenced_name THEN relation_name ELSE relation_name || ', ' || referenced_name END,
           'SHARE ROW EXCLUSIVE',
           ARRAY[format('ALTER TABLE %s ADD CONSTRAINT %I %s NOT VALID;', relation_name, new_name, definition)],
           NULL, NULL, false, new_foreign_key IS NOT NULL
    FROM foreign_keys

    UNION ALL
    SELECT '5' || relation_name || new_name || '2', format('checking foreign key %s of %s', new_name, relation_name),
           NULL, NULL, ARRAY[format('ALTER TABLE %s VALIDATE CONSTRAINT %I;', relation_name, new_name)],
           NULL, NULL, false, is_checked
    FROM foreign_keys
    WHERE is_valid

    UNION ALL
    SELECT '6', format('replacing the columns of %s', (SELECT string_agg(relation_name, ', ' ORDER BY relation_name) FROM filled)),
           (SELECT tables FROM locked), 'ACCESS EXCLUSIVE',
           array_agg(replacement.statement ORDER BY replacement."position" COLLATE "C"), NULL, NULL, false, false
    FROM replacement
    HAVING count(*) > 0;
$$;
COMMENT ON FUNCTION snowflake_internal.snowflake_adopt_steps(regclass, name, int) IS
    'steps from a column of type int to snowflake IDs, for snowflake_adopt_online()';

-- The steps that take everything back.
CREATE FUNCTION snowflake_internal.snowflake_adopt_steps_back(adopted_table regclass, adopted_column name)
RETURNS TABLE ("position" text, title text, tables text, lock_mode text, statements text[])
STABLE PARALLEL SAFE LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    -- All new columns of the tables, because they share the trigger. The trigger knows new columns even if a foreign key was
    -- dropped. A constraint CHECK has the name of each new column.
    WITH pairs AS MATERIALIZED (
        SELECT DISTINCT involved.relation, involved.relation_name, new.attnum AS new_number, new.attname AS new_name
        FROM snowflake_internal.snowflake_adopt_columns(adopted_table, adopted_column, true) AS involved
        JOIN pg_trigger AS trigger
          ON trigger.tgrelid = involved.relation AND trigger.tgfoid = 'snowflake_internal.snowflake_adopt_copy()'::regprocedure
        JOIN pg_attribute AS new
          ON new.attrelid = involved.relation AND NOT new.attisdropped AND new.atttypid = 'bigint'::regtype
         AND position(decode('00', 'hex') || convert_to(new.attname::text, getdatabaseencoding()) || decode('00', 'hex')
                      IN decode('00', 'hex') || trigger.tgargs) > 0
        JOIN pg_constraint AS proof
          ON proof.conrelid = involved.relation AND proof.contype = 'c' AND proof.conname = new.attname
         AND new.attnum = ANY (proof.conkey)
    )
    SELECT '1' || class.relname || foreign_key.conname,
           format('dropping foreign key %s of %I.%I', foreign_key.conname, namespace.nspname, class.relname),
           CASE WHEN foreign_key.conrelid = foreign_key.confrelid THEN '' ELSE format('%I.%I, ', namespace.nspname, class.relname) END
           || format('%I.%I', referenced_namespace.nspname, referenced.relname),
           'ACCESS EXCLUSIVE',
           ARRAY[format('ALTER TABLE %I.%I DROP CONSTRAINT %I;', namespace.nspname, class.relname, foreign_key.conname)]
    FROM pg_constraint AS foreign_key
    JOIN pg_class AS class ON class.oid = foreign_key.conrelid
    JOIN pg_namespace AS namespace ON namespace.oid = class.relnamespace
    JOIN pg_class AS referenced ON referenced.oid = foreign_key.confrelid
    JOIN pg_namespace AS referenced_namespace ON referenced_namespace.oid = referenced.relnamespace
    WHERE foreign_key.contype = 'f'
      AND EXISTS (
          SELECT FROM pairs
          WHERE pairs.relation = foreign_key.conrelid AND pairs.new_number = ANY (foreign_key.conkey)
             OR pairs.relation = foreign_key.confrelid AND pairs.new_number = ANY (foreign_key.confkey)
      )

    -- The constraints CHECK, the indexes and the sequence depend on the columns.
    UNION ALL
    SELECT '2' || relation_name, format('dropping the new columns of %s', relation_name), relation_name, 'ACCESS EXCLUSIVE',
           ARRAY[format('DROP TRIGGER zz_snowflake_adopt ON %s;', relation_name),
                 format('ALTER TABLE %s %s;', relation_name,
                        string_agg(format('DROP COLUMN %I', new_name), ', ' ORDER BY new_number))]
    FROM pairs
    GROUP BY relation_name;
$$;
COMMENT ON FUNCTION snowflake_internal.snowflake_adopt_steps_back(regclass, name) IS
    'steps that abandon an adoption, for snowflake_adopt_online()';
