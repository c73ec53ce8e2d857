-- The facts that snowflake_adopt_online() needs in addition to those of snowflake_adopt(). All progress is in the catalogs.
-- Beside a column of type int or smallint with number 3, the procedure creates
--
-- * column snowflake_new_3 of type bigint, whose comment contains the number of pages that are filled,
-- * trigger zz_snowflake_new_3, which keeps the columns equal, with a function in the schema of the table,
-- * constraint snowflake_new_3, a CHECK that they are equal, and snowflake_new_3_some, that the new one is not null,
-- * indexes snowflake_new_*, each with the OID of the old index.
--
-- These names cannot collide, and no name is too long. If the tables are restored from a dump, numbers and OIDs can differ.
-- The constraint CHECK refers to both columns, so they are still found. The objects belong to the owner of the table, and do not
-- depend on the extension.

-- The body of the trigger function. PL/pgSQL has keywords of its own, so the name of the column is always quoted.
CREATE FUNCTION snowflake_internal.snowflake_adopt_copy_body(new_name name, old_name name) RETURNS text
IMMUTABLE PARALLEL SAFE LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT format('BEGIN NEW.%s := NEW."%s"; RETURN NEW; END', new_name, replace(old_name::text, '"', '""'));
$$;
COMMENT ON FUNCTION snowflake_internal.snowflake_adopt_copy_body(name, name) IS
    'body of the function that keeps a new column equal to the old one, for snowflake_adopt_online()';

-- The new columns of this database. `is_kept` is true if the trigger and its function are as the procedure has created them,
-- `has_proof` if the constraint CHECK is, and `is_proved` if the columns are known to be equal.
CREATE FUNCTION snowflake_internal.snowflake_adopt_new_columns()
RETURNS TABLE (
    relation oid, old_number smallint, new_number smallint, new_name name, trigger_function regprocedure,
    is_kept boolean, has_proof boolean, is_proved boolean, has_some boolean, is_some boolean, pages_filled bigint, pages bigint
)
STABLE PARALLEL SAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT proof.conrelid, old.attnum, new.attnum, new.attname, code.oid::regprocedure,
           coalesce(trigger.tgenabled = 'A'
                    -- BEFORE INSERT OR UPDATE FOR EACH ROW, of any columns, without a condition.
                    AND trigger.tgtype = 23 AND trigger.tgattr = '' AND trigger.tgqual IS NULL AND code.prosrc = snowflake_internal.snowflake_adopt_copy_body(new.attname, old.attname)
                    AND code.proowner = class.relowner AND language.lanname = 'plpgsql', false),
           equal.is_expressed,
           equal.is_expressed AND proof.convalidated AND to_jsonb(proof) ->> 'conenforced' IS DISTINCT FROM 'false',
           non_null.oid IS NOT NULL,
           coalesce(non_null.convalidated AND to_jsonb(non_null) ->> 'conenforced' IS DISTINCT FROM 'false'
                    AND pg_get_constraintdef(non_null.oid) = format('CHECK ((%I IS NOT NULL))', new.attname), false),
           (progress.match)[1]::bigint, (progress.match)[2]::bigint
    FROM pg_constraint AS proof
    JOIN pg_class AS class ON class.oid = proof.conrelid
    JOIN pg_attribute AS new
      ON new.attrelid = proof.conrelid AND new.attname = proof.conname AND new.attnum = ANY (proof.conkey)
     AND new.atttypid = 'bigint'::regtype
    JOIN pg_attribute AS old
      ON old.attrelid = proof.conrelid AND old.attnum = ANY (proof.conkey) AND old.attnum <> new.attnum
    LEFT JOIN pg_constraint AS non_null
      ON non_null.conrelid = proof.conrelid AND non_null.contype = 'c' AND non_null.conname = proof.conname || '_some'
    LEFT JOIN pg_trigger AS trigger
      ON trigger.tgrelid = proof.conrelid AND trigger.tgname = 'zz_' || proof.conname AND NOT trigger.tgisinternal
    LEFT JOIN pg_proc AS code ON code.oid = trigger.tgfoid
    LEFT JOIN pg_language AS language ON language.oid = code.prolang
    CROSS JOIN LATERAL (
        SELECT regexp_replace(pg_get_constraintdef(proof.oid), ' NOT VALID$', '')
               = format('CHECK (COALESCE((%1$I = %2$I), ((%1$I IS NULL) AND (%2$I IS NULL))))', new.attname, old.attname)
    ) AS equal (is_expressed)
    CROSS JOIN LATERAL (
        SELECT regexp_match(col_description(proof.conrelid, new.attnum), '^snowflake_adopt_online: (\d{1,18}) of (\d{1,18}) pages')
    ) AS progress (match)
    WHERE proof.contype = 'c' AND proof.conname ~ '^snowflake_new_\d+$';
END
$$;
COMMENT ON FUNCTION snowflake_internal.snowflake_adopt_new_columns() IS
    'new columns of all tables that are being adopted, for snowflake_adopt_online()';

CREATE VIEW snowflake_adopt_progress AS
    SELECT new.relation::pg_catalog.regclass AS table_name, pg_catalog.max(new.pages_filled) AS pages_filled,
           pg_catalog.max(new.pages) AS pages, pg_catalog.bool_and(new.is_proved) AS is_checked
    FROM snowflake_internal.snowflake_adopt_new_columns() AS new
    GROUP BY new.relation;

GRANT SELECT ON snowflake_adopt_progress TO PUBLIC;

COMMENT ON VIEW snowflake_adopt_progress IS
    'tables of this database whose columns are being replaced by snowflake_adopt_online()';
COMMENT ON COLUMN snowflake_adopt_progress.table_name IS 'the table';
COMMENT ON COLUMN snowflake_adopt_progress.pages_filled IS
    'number of pages whose rows have values in the new columns; NULL if filling has not started; counted after every 64 batches';
COMMENT ON COLUMN snowflake_adopt_progress.pages IS 'number of pages to be filled; NULL if filling has not started';
COMMENT ON COLUMN snowflake_adopt_progress.is_checked IS
    'true if all rows were checked: the new columns are equal to the columns that they replace';

-- The columns to be replaced. `new_number` is NULL until the new column exists, and `trigger_function` is then the name that the
-- function will have.
CREATE FUNCTION snowflake_internal.snowflake_adopt_pairs(adopted_table regclass, adopted_column name)
RETURNS TABLE (
    relation oid, relation_name text, schema name, owner regrole, is_adopted boolean, old_number smallint, old_name name,
    is_not_null boolean, new_name name, new_number smallint, trigger_function text, is_kept boolean, has_proof boolean,
    is_proved boolean, has_some boolean, is_some boolean, pages_filled bigint, pages bigint
)
STABLE PARALLEL SAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT involved.relation, involved.relation_name, namespace.nspname, class.relowner::regrole, involved.is_adopted,
           involved.column_number, involved.column_name, old.attnotnull,
           coalesce(new.new_name, format('snowflake_new_%s', involved.column_number)::name), new.new_number,
           coalesce(new.trigger_function::text,
                    format('%I.snowflake_new_%s_%s()', namespace.nspname, involved.relation, involved.column_number)),
           new.is_kept, new.has_proof, new.is_proved, new.has_some, new.is_some, new.pages_filled, new.pages
    FROM snowflake_internal.snowflake_adopt_columns(adopted_table, adopted_column, true) AS involved
    JOIN pg_class AS class ON class.oid = involved.relation
    JOIN pg_namespace AS namespace ON namespace.oid = class.relnamespace
    JOIN pg_attribute AS old ON old.attrelid = involved.relation AND old.attnum = involved.column_number
    LEFT JOIN snowflake_internal.snowflake_adopt_new_columns() AS new
      ON new.relation = involved.relation AND new.old_number = involved.column_number
    WHERE NOT involved.is_bigint;
END
$$;
COMMENT ON FUNCTION snowflake_internal.snowflake_adopt_pairs(regclass, name) IS
    'columns to be replaced, and their new columns, for snowflake_adopt_online()';

-- The indexes that contain a column to be replaced: as a key, in INCLUDE, in an expression or in the predicate.
CREATE FUNCTION snowflake_internal.snowflake_adopt_indexes(adopted_table regclass, adopted_column name)
RETURNS TABLE (relation oid, relation_name text, index oid, schema name, name name, constraint_oid oid)
STABLE PARALLEL SAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT DISTINCT pairs.relation, pairs.relation_name, class.oid, namespace.nspname, class.relname, key.oid
    FROM snowflake_internal.snowflake_adopt_pairs(adopted_table, adopted_column) AS pairs
    JOIN pg_index AS definition ON definition.indrelid = pairs.relation
    JOIN pg_class AS class ON class.oid = definition.indexrelid AND class.relname !~ '^snowflake_new_\d+$'
    JOIN pg_namespace AS namespace ON namespace.oid = class.relnamespace
    LEFT JOIN pg_constraint AS key ON key.conindid = class.oid AND key.contype IN ('p', 'u', 'x')
    WHERE definition.indisvalid
      AND (pairs.old_number = ANY (definition.indkey::int2[])
           OR EXISTS (SELECT FROM pg_depend AS depend
                      WHERE depend.classid = 'pg_class'::regclass AND depend.objid = class.oid
                        AND depend.refclassid = 'pg_class'::regclass AND depend.refobjid = pairs.relation
                        AND depend.refobjsubid = pairs.old_number));
END
$$;
COMMENT ON FUNCTION snowflake_internal.snowflake_adopt_indexes(regclass, name) IS
    'indexes that contain a column to be replaced, for snowflake_adopt_online()';

-- The constraints FOREIGN KEY and CHECK that are dropped with a column, or with an index, and added again.
CREATE FUNCTION snowflake_internal.snowflake_adopt_constraints(adopted_table regclass, adopted_column name)
RETURNS TABLE (
    oid oid, relation oid, relation_name text, referenced oid, name name, type "char", definition text, is_valid boolean,
    comment text
)
STABLE PARALLEL SAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
SET standard_conforming_strings = on SET extra_float_digits = 3 SET datestyle = 'ISO' SET intervalstyle = 'postgres' AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH pairs AS MATERIALIZED (
        SELECT * FROM snowflake_internal.snowflake_adopt_pairs(adopted_table, adopted_column)
    )
    SELECT constraint_row.oid, constraint_row.conrelid, constraint_row.conrelid::regclass::text,
           nullif(constraint_row.confrelid, 0), constraint_row.conname, constraint_row.contype,
           regexp_replace(pg_get_constraintdef(constraint_row.oid), ' NOT VALID$', ''), constraint_row.convalidated,
           obj_description(constraint_row.oid, 'pg_constraint')
    FROM pg_constraint AS constraint_row
    WHERE constraint_row.contype IN ('f', 'c') AND constraint_row.conparentid = 0
      AND (EXISTS (SELECT FROM pairs
                   WHERE constraint_row.conrelid = pairs.relation AND pairs.old_number = ANY (constraint_row.conkey)
                      OR constraint_row.confrelid = pairs.relation AND pairs.old_number = ANY (constraint_row.confkey))
           OR constraint_row.contype = 'f'
              AND constraint_row.conindid IN (SELECT index FROM snowflake_internal.snowflake_adopt_indexes(adopted_table, adopted_column)))
      AND NOT EXISTS (SELECT FROM pairs
                      WHERE constraint_row.conrelid = pairs.relation AND pairs.new_number = ANY (constraint_row.conkey));
END
$$;
COMMENT ON FUNCTION snowflake_internal.snowflake_adopt_constraints(regclass, name) IS
    'constraints that contain a column to be replaced, or need an index that contains it, for snowflake_adopt_online()';

-- All tables that the exchange locks.
CREATE FUNCTION snowflake_internal.snowflake_adopt_locked(adopted_table regclass, adopted_column name) RETURNS oid[]
STABLE PARALLEL SAFE LANGUAGE sql SET search_path = pg_catalog, pg_temp SET jit = off AS $$
    SELECT array_agg(DISTINCT relation ORDER BY relation)
    FROM (
        SELECT relation FROM snowflake_internal.snowflake_adopt_pairs(adopted_table, adopted_column)
        UNION ALL
        SELECT unnest(ARRAY[relation, referenced]) FROM snowflake_internal.snowflake_adopt_constraints(adopted_table, adopted_column)
    ) AS involved
    WHERE relation IS NOT NULL;
$$;
COMMENT ON FUNCTION snowflake_internal.snowflake_adopt_locked(regclass, name) IS
    'tables that are locked while columns are replaced, for snowflake_adopt_online()';

-- A digest of all catalog rows of the tables and views. A row that was written again has another xmin. Computing the plan again while
-- the tables are locked would take longer.
CREATE FUNCTION snowflake_internal.snowflake_adopt_version(relations oid[]) RETURNS text
STABLE PARALLEL SAFE LANGUAGE sql SET search_path = pg_catalog, pg_temp SET jit = off AS $$
    SELECT md5(string_agg(entry, ' ' ORDER BY entry COLLATE "C"))
    FROM (
        SELECT concat_ws(' ', 'class', oid, xmin) FROM pg_class WHERE oid = ANY (relations)
        UNION ALL
        SELECT concat_ws(' ', 'attribute', attrelid, attnum, xmin) FROM pg_attribute WHERE attrelid = ANY (relations)
        UNION ALL
        SELECT concat_ws(' ', 'constraint', oid, xmin) FROM pg_constraint
        WHERE conrelid = ANY (relations) OR confrelid = ANY (relations)
        UNION ALL
        SELECT concat_ws(' ', 'index', definition.indexrelid, definition.xmin, class.xmin,
                         (SELECT string_agg(attribute.xmin::text, ' ' ORDER BY attribute.attnum)
                          FROM pg_attribute AS attribute WHERE attribute.attrelid = definition.indexrelid))
        FROM pg_index AS definition JOIN pg_class AS class ON class.oid = definition.indexrelid
        WHERE definition.indrelid = ANY (relations)
        UNION ALL
        SELECT concat_ws(' ', 'rule', oid, xmin) FROM pg_rewrite WHERE ev_class = ANY (relations)
        UNION ALL
        SELECT concat_ws(' ', 'sequence', class.oid, class.xmin, definition.xmin, note.xmin)
        FROM pg_depend AS depend
        JOIN pg_class AS class ON class.oid = depend.objid AND class.relkind = 'S'
        JOIN pg_sequence AS definition ON definition.seqrelid = class.oid
        LEFT JOIN pg_description AS note ON note.classoid = 'pg_class'::regclass AND note.objoid = class.oid
        WHERE depend.refclassid = 'pg_class'::regclass AND depend.refobjid = ANY (relations)
          AND depend.classid = 'pg_class'::regclass
        UNION ALL
        SELECT concat_ws(' ', 'schema', oid, xmin) FROM pg_namespace
        WHERE oid IN (SELECT relnamespace FROM pg_class WHERE oid = ANY (relations))
        UNION ALL
        SELECT concat_ws(' ', 'row type', depend.classid, depend.objid, depend.objsubid, depend.xmin)
        FROM pg_class AS class
        JOIN pg_depend AS depend ON depend.refclassid = 'pg_type'::regclass AND depend.refobjid = class.reltype
        WHERE class.oid = ANY (relations)
        UNION ALL
        SELECT concat_ws(' ', 'trigger', oid, xmin) FROM pg_trigger WHERE tgrelid = ANY (relations)
        UNION ALL
        SELECT concat_ws(' ', 'depend', classid, objid, objsubid, refobjsubid, xmin) FROM pg_depend
        WHERE refclassid = 'pg_class'::regclass AND refobjid = ANY (relations)
        UNION ALL
        SELECT concat_ws(' ', 'inherits', inhrelid, inhparent, xmin) FROM pg_inherits
        WHERE inhrelid = ANY (relations) OR inhparent = ANY (relations)
        UNION ALL
        SELECT concat_ws(' ', 'comment', objoid, objsubid, xmin) FROM pg_description
        WHERE classoid = 'pg_class'::regclass
          AND objoid IN (SELECT unnest(relations) UNION ALL SELECT indexrelid FROM pg_index WHERE indrelid = ANY (relations))
        UNION ALL
        SELECT concat_ws(' ', 'comment on constraint', objoid, xmin) FROM pg_description
        WHERE classoid = 'pg_constraint'::regclass
          AND objoid IN (SELECT oid FROM pg_constraint WHERE conrelid = ANY (relations) OR confrelid = ANY (relations))
    ) AS entries (entry);
$$;
COMMENT ON FUNCTION snowflake_internal.snowflake_adopt_version(oid[]) IS
    'digest of the catalog rows of tables, for snowflake_adopt_online()';

-- How the new indexes must look, by PostgreSQL itself: the definition of each index is executed, as it is, on an empty copy of
-- the table whose columns are of type bigint. Then the columns get their new names, and PostgreSQL shows the definition. An
-- index or a CHECK that would get another definition is an obstacle.
CREATE FUNCTION snowflake_internal.snowflake_adopt_definitions(adopted_table regclass, adopted_column name)
RETURNS TABLE (
    relation oid, index oid, description text, is_unique boolean, command text, obstacle text, new_index oid, is_built boolean
)
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp SET client_min_messages = error SET jit = off
SET standard_conforming_strings = on SET extra_float_digits = 3 SET datestyle = 'ISO' SET intervalstyle = 'postgres' AS $$
DECLARE
    -- Read once, because PostgreSQL plans the queries again in each call.
    all_pairs CONSTANT jsonb := (SELECT jsonb_agg(to_jsonb(pairs) ORDER BY pairs.old_number)
                                 FROM snowflake_internal.snowflake_adopt_pairs(adopted_table, adopted_column) AS pairs);
    all_checks CONSTANT jsonb := (SELECT jsonb_agg(to_jsonb(known) ORDER BY known.oid)
                                  FROM snowflake_internal.snowflake_adopt_constraints(adopted_table, adopted_column) AS known
                                  WHERE known.type = 'c');
    all_indexes CONSTANT jsonb := (SELECT jsonb_agg(to_jsonb(known) ORDER BY known.name)
                                   FROM snowflake_internal.snowflake_adopt_indexes(adopted_table, adopted_column) AS known);
    filled record;
    pair record;
    old record;
    built record;
    scratch CONSTANT text := 'pg_temp.snowflake_scratch';
    found jsonb := '[]';
    head text;
    rest text;
    text_now text;
    copied regclass;
    calls text;
    problem text;
BEGIN
    IF NOT has_database_privilege(current_database(), 'TEMPORARY') THEN
        RETURN; -- This is an obstacle of its own.
    END IF;
    FOR filled IN
        SELECT DISTINCT pairs.relation, pairs.relation_name
        FROM jsonb_to_recordset(all_pairs) AS pairs (relation oid, relation_name text) ORDER BY pairs.relation_name
    LOOP
        found := '[]';
        -- The subtransaction always ends with an error. Variables keep their values.
        BEGIN
            EXECUTE format('CREATE TEMP TABLE snowflake_scratch (LIKE %s)', filled.relation_name);
            FOR pair IN
                SELECT * FROM jsonb_to_recordset(all_pairs) AS pairs (relation oid, old_name text, new_name text)
                WHERE pairs.relation = filled.relation
            LOOP
                EXECUTE format('ALTER TABLE %s DROP COLUMN IF EXISTS %I', scratch, pair.new_name);
                -- ALTER TYPE would rewrite the copy, which an event trigger may refuse.
                EXECUTE format('ALTER TABLE %s DROP COLUMN %I', scratch, pair.old_name);
                EXECUTE format('ALTER TABLE %s ADD COLUMN %I bigint', scratch, pair.old_name);
            END LOOP;
            FOR old IN
                SELECT constraint_row.name, constraint_row.definition, constraint_row.oid
                FROM jsonb_to_recordset(all_checks) AS constraint_row (relation oid, name text, definition text, oid oid)
                WHERE constraint_row.relation = filled.relation
            LOOP
                BEGIN
                    EXECUTE format('ALTER TABLE %s ADD CONSTRAINT %I %s', scratch, old.name, old.definition);
                    SELECT pg_get_constraintdef(oid), snowflake_internal.snowflake_adopt_calls('pg_constraint', oid) INTO text_now, calls
                    FROM pg_constraint WHERE conrelid = to_regclass(scratch) AND conname = old.name;
                    problem := CASE WHEN text_now <> old.definition THEN 'would become ' || text_now
                                    WHEN calls IS DISTINCT FROM snowflake_internal.snowflake_adopt_calls('pg_constraint', old.oid)
                                    THEN 'would call ' || calls END;
                EXCEPTION
                    WHEN query_canceled THEN RAISE;
                    WHEN OTHERS THEN problem := 'cannot be created for type bigint: ' || SQLERRM;
                END;
                IF problem IS NOT NULL THEN
                    found := found || jsonb_build_object('description', pg_describe_object('pg_constraint'::regclass, old.oid, 0),
                                                         'obstacle', problem);
                END IF;
            END LOOP;
            FOR old IN
                SELECT indexes.index, indexes.name, CASE WHEN definition.indisunique THEN 'UNIQUE INDEX' ELSE 'INDEX' END AS kind
                FROM jsonb_to_recordset(all_indexes) AS indexes (relation oid, index oid, name text)
                JOIN pg_index AS definition ON definition.indexrelid = indexes.index
                WHERE indexes.relation = filled.relation
                ORDER BY indexes.name
            LOOP
                head := format('CREATE %s %I ON %s USING ', old.kind, old.name, filled.relation_name);
                text_now := pg_get_indexdef(old.index);
                rest := CASE WHEN starts_with(text_now, head) THEN substr(text_now, length(head) + 1) END;
                IF rest IS NULL THEN
                    problem := 'has an unexpected definition: ' || text_now;
                ELSE
                    BEGIN
                        EXECUTE format('CREATE %s snowflake_new_%s ON %s USING %s', old.kind, old.index, scratch, rest);
                        copied := format('pg_temp.snowflake_new_%s', old.index)::regclass;
                        text_now := pg_get_indexdef(copied);
                        calls := snowflake_internal.snowflake_adopt_calls('pg_class', copied);
                        problem := CASE WHEN substr(text_now, strpos(text_now, ' USING ') + 7) <> rest
                                        THEN 'would become ' || substr(text_now, strpos(text_now, ' USING ') + 1)
                                        WHEN calls IS DISTINCT FROM snowflake_internal.snowflake_adopt_calls('pg_class', old.index)
                                        THEN 'would call ' || calls END;
                    EXCEPTION
                        WHEN query_canceled THEN RAISE;
                        WHEN OTHERS THEN problem := 'cannot be created for type bigint: ' || SQLERRM;
                    END;
                END IF;
                found := found || jsonb_build_object(
                    'index', old.index, 'description', pg_describe_object('pg_class'::regclass, old.index, 0),
                    'kind', old.kind, 'copied', copied::oid, 'obstacle', problem);
            END LOOP;
            FOR pair IN
                SELECT * FROM jsonb_to_recordset(all_pairs) AS pairs (relation oid, old_name text, new_name text)
                WHERE pairs.relation = filled.relation
            LOOP
                EXECUTE format('ALTER TABLE %s RENAME COLUMN %I TO %I', scratch, pair.old_name, pair.new_name);
            END LOOP;
            FOR old IN
                SELECT * FROM jsonb_to_recordset(found)
                    AS known (index oid, description text, kind text, copied oid, obstacle text)
            LOOP
                relation := filled.relation;
                index := old.index;
                description := old.description;
                is_unique := old.kind = 'UNIQUE INDEX';
                obstacle := old.obstacle;
                command := NULL;
                new_index := NULL;
                is_built := NULL;
                IF old.index IS NOT NULL AND old.obstacle IS NULL THEN
                    SELECT substr(pg_get_indexdef(definition.indexrelid), strpos(pg_get_indexdef(definition.indexrelid), ' USING ')) AS rest,
                           ' WHERE ' || pg_get_expr(definition.indpred, definition.indrelid) AS predicate, space.spcname
                    INTO built
                    FROM pg_index AS definition
                    JOIN pg_class AS old_class ON old_class.oid = old.index
                    JOIN pg_database AS database ON database.datname = current_database()
                    JOIN pg_tablespace AS space ON space.oid = coalesce(nullif(old_class.reltablespace, 0), database.dattablespace)
                    WHERE definition.indexrelid = old.copied;
                    IF right(built.rest, length(built.predicate)) <> built.predicate THEN
                        obstacle := 'has an unexpected predicate: ' || built.rest;
                    ELSE
                        -- TABLESPACE precedes WHERE.
                        command := format('CREATE %s CONCURRENTLY snowflake_new_%s ON %s%s TABLESPACE %I%s;',
                                          old.kind, old.index, filled.relation_name,
                                          left(built.rest, length(built.rest) - coalesce(length(built.predicate), 0)),
                                          built.spcname, built.predicate);
                    END IF;
                    -- Names of tables can contain anything.
                    SELECT class.oid,
                           definition.indisvalid
                           AND pg_get_indexdef(class.oid)
                               = format('CREATE %s %I ON %s%s', old.kind, class.relname, filled.relation_name, built.rest)
                    INTO new_index, is_built
                    FROM pg_index AS definition JOIN pg_class AS class ON class.oid = definition.indexrelid
                    WHERE definition.indrelid = filled.relation AND class.relname = format('snowflake_new_%s', old.index);
                END IF;
                RETURN NEXT;
            END LOOP;
            RAISE EXCEPTION USING ERRCODE = 'SNOW1';
        EXCEPTION WHEN SQLSTATE 'SNOW1' THEN
            NULL;
        END;
    END LOOP;
END
$$;
COMMENT ON FUNCTION snowflake_internal.snowflake_adopt_definitions(regclass, name) IS
    'definitions of the new indexes, and constraints and indexes whose definitions would change, for snowflake_adopt_online()';

CREATE FUNCTION snowflake_internal.snowflake_adopt_names(relations oid[]) RETURNS text
STABLE PARALLEL SAFE LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT string_agg(relation::regclass::text, ', ' ORDER BY relation) FROM unnest(relations) AS relation;
$$;
COMMENT ON FUNCTION snowflake_internal.snowflake_adopt_names(oid[]) IS
    'qualified names of tables, for snowflake_adopt_online()';

-- Most transactions write the referenced row first, and others the referencing row. If the tables are locked in another order,
-- each attempt can fail.
CREATE FUNCTION snowflake_internal.snowflake_adopt_lock_order(relations oid[], adopted_table regclass, attempt int) RETURNS oid[]
VOLATILE PARALLEL RESTRICTED LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT array_agg(relation ORDER BY CASE attempt % 3 WHEN 1 THEN (relation = adopted_table)::int
                                                        WHEN 2 THEN (relation <> adopted_table)::int ELSE 0 END, random())
    FROM unnest(relations) AS relation;
$$;
COMMENT ON FUNCTION snowflake_internal.snowflake_adopt_lock_order(oid[], regclass, int) IS
    'order in which tables are locked, for snowflake_adopt_online()';

CREATE FUNCTION snowflake_internal.snowflake_adopt_time_left(deadline timestamptz) RETURNS text
VOLATILE PARALLEL SAFE LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    -- 0 would mean no limit.
    SELECT greatest(ceil(extract(epoch FROM deadline - clock_timestamp()) * 1000), 1)::int::text;
$$;
COMMENT ON FUNCTION snowflake_internal.snowflake_adopt_time_left(timestamptz) IS
    'time until an instant in milliseconds, as a value of lock_timeout, for snowflake_adopt_online()';

CREATE FUNCTION snowflake_internal.snowflake_adopt_is_proved(adopted_table regclass, adopted_column name) RETURNS boolean
STABLE PARALLEL SAFE LANGUAGE sql SET search_path = pg_catalog, pg_temp SET jit = off AS $$
    SELECT bool_and((is_kept AND is_proved AND (is_some OR NOT is_not_null)) IS TRUE)
    FROM snowflake_internal.snowflake_adopt_pairs(adopted_table, adopted_column);
$$;
COMMENT ON FUNCTION snowflake_internal.snowflake_adopt_is_proved(regclass, name) IS
    'whether all new columns are known to be equal to the old ones, for snowflake_adopt_online()';

-- Transactions of this database that have a snapshot. Every role can see them. Autovacuum workers have no user. Their type is
-- not used, because a role without pg_read_all_stats cannot see the types of the processes of other roles.
CREATE FUNCTION snowflake_internal.snowflake_adopt_old_snapshots() RETURNS text[]
VOLATILE PARALLEL RESTRICTED LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(array_agg(held.virtualtransaction), '{}')
    FROM pg_stat_activity AS activity
    JOIN pg_locks AS held ON held.pid = activity.pid AND held.locktype = 'virtualxid' AND held.mode = 'ExclusiveLock'
    WHERE activity.datname = current_database() AND activity.backend_xmin IS NOT NULL AND activity.pid <> pg_backend_pid()
      AND activity.usesysid IS NOT NULL;
$$;
COMMENT ON FUNCTION snowflake_internal.snowflake_adopt_old_snapshots() IS
    'transactions of this database that have a snapshot, for snowflake_adopt_online()';

CREATE FUNCTION snowflake_internal.snowflake_adopt_holders(transactions text[]) RETURNS text
VOLATILE PARALLEL RESTRICTED LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT string_agg(held.pid::text, ', ' ORDER BY held.pid)
    FROM pg_locks AS held
    WHERE held.locktype = 'virtualxid' AND held.mode = 'ExclusiveLock' AND held.virtualtransaction = ANY (transactions);
$$;
COMMENT ON FUNCTION snowflake_internal.snowflake_adopt_holders(text[]) IS
    'processes whose transactions are among these and have not ended; otherwise NULL; for snowflake_adopt_online()';
