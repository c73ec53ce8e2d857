-- Tables that snowflake_adopt_online() refuses. Filling updates every row, and replacing a column drops all that depends on it.

-- `definitions` is the result of snowflake_adopt_definitions().
CREATE FUNCTION snowflake_internal.snowflake_adopt_online_obstacles(
    adopted_table regclass, adopted_column name, recreates_views boolean, definitions jsonb
)
RETURNS TABLE (obstacle text, remedy text)
STABLE PARALLEL RESTRICTED LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH pairs AS MATERIALIZED (
        SELECT *, pg_describe_object('pg_class'::regclass, relation, old_number) AS description
        FROM snowflake_internal.snowflake_adopt_pairs(adopted_table, adopted_column)
    ),
    altered (relation) AS MATERIALIZED (
        SELECT unnest(snowflake_internal.snowflake_adopt_locked(adopted_table, adopted_column))
    ),
    views AS MATERIALIZED (
        SELECT * FROM snowflake_internal.snowflake_adopt_views(adopted_table, adopted_column)
    )

    -- Everything that depends on a column and that the procedure does not know is refused.
    SELECT format('%s depends on %s', pg_describe_object(depend.classid, depend.objid, depend.objsubid), pairs.description),
           'Drop these objects, and create them again when the columns have been replaced.'
    FROM pairs
    JOIN pg_depend AS depend
      ON depend.refclassid = 'pg_class'::regclass AND depend.refobjid = pairs.relation
     AND depend.refobjsubid = pairs.old_number
    LEFT JOIN pg_attrdef AS expression ON depend.classid = 'pg_attrdef'::regclass AND expression.oid = depend.objid
    LEFT JOIN pg_class AS class ON depend.classid = 'pg_class'::regclass AND class.oid = depend.objid
    LEFT JOIN pg_constraint AS constraint_row
      ON depend.classid = 'pg_constraint'::regclass AND constraint_row.oid = depend.objid
    LEFT JOIN pg_rewrite AS rule ON depend.classid = 'pg_rewrite'::regclass AND rule.oid = depend.objid
    WHERE NOT coalesce(
        (expression.adrelid, expression.adnum) = (pairs.relation, pairs.old_number)
        -- Sequences of other columns are refused below.
        OR class.relkind IN ('S', 'i')
        -- NOT NULL is a constraint since PostgreSQL 18.
        OR constraint_row.contype IN ('f', 'c', 'n')
        OR constraint_row.contype IN ('p', 'u') AND NOT constraint_row.condeferrable
           AND to_jsonb(constraint_row) ->> 'conperiod' IS DISTINCT FROM 'true'
        OR rule.ev_class IN (SELECT view FROM views), false)

    UNION
    SELECT format('%s depends on columns that are replaced', pg_describe_object('pg_class'::regclass, view, 0)),
           CASE WHEN problem IS NULL
                THEN 'To drop and create the views in the last step, add views => true. The dry run shows the statements.'
                ELSE 'Drop these objects, and create them again when the columns have been replaced.' END
    FROM views
    WHERE problem IS NOT NULL OR NOT recreates_views

    UNION
    SELECT format('%s depends on %s', pg_describe_object(depend.classid, depend.objid, depend.objsubid),
                  pg_describe_object('pg_class'::regclass, views.view, 0)),
           'Drop these objects, and create them again when the columns have been replaced.'
    FROM views
    JOIN pg_class AS class ON class.oid = views.view
    JOIN pg_depend AS depend
      ON depend.deptype = 'n'
     AND (depend.refclassid = 'pg_class'::regclass AND depend.refobjid = views.view
          OR depend.refclassid = 'pg_type'::regclass
             AND depend.refobjid IN (class.reltype, (SELECT typarray FROM pg_type WHERE oid = class.reltype)))
    LEFT JOIN pg_rewrite AS rule ON depend.classid = 'pg_rewrite'::regclass AND rule.oid = depend.objid
    LEFT JOIN pg_trigger AS trigger ON depend.classid = 'pg_trigger'::regclass AND trigger.oid = depend.objid
    WHERE coalesce(rule.ev_class, trigger.tgrelid, 0) NOT IN (SELECT view FROM views)

    -- Properties that the new column cannot have.
    UNION
    SELECT format('%s is generated, or an identity column', pairs.description),
           'Drop the expression or the identity (ALTER TABLE ... DROP EXPRESSION, or DROP IDENTITY). Adopt the referenced column first.'
    FROM pairs
    JOIN pg_attribute AS old ON old.attrelid = pairs.relation AND old.attnum = pairs.old_number
    WHERE old.attgenerated <> '' OR old.attidentity <> '' AND NOT pairs.is_adopted

    UNION
    SELECT format('%s is owned by %s', pg_describe_object('pg_class'::regclass, sequence.oid, 0), pairs.description),
           'Remove the owner: ALTER SEQUENCE ... OWNED BY NONE'
    FROM pairs
    JOIN pg_depend AS depend
      ON depend.classid = 'pg_class'::regclass AND depend.refclassid = 'pg_class'::regclass
     AND depend.refobjid = pairs.relation AND depend.refobjsubid = pairs.old_number
    JOIN pg_class AS sequence ON sequence.oid = depend.objid AND sequence.relkind = 'S'
    WHERE NOT pairs.is_adopted

    UNION
    SELECT format('%s uses sequence %s, which is dropped with the identity', sequences.used_by, sequences.sequence_name),
           'Change the objects that use the sequence, so that they use another sequence.'
    FROM snowflake_internal.snowflake_adopt_sequences(adopted_table, adopted_column, true) AS sequences
    JOIN pairs ON pairs.relation = sequences.relation AND pairs.is_adopted
    WHERE sequences.is_identity AND sequences.used_by IS NOT NULL

    -- A new grant would come from the owner.
    UNION
    SELECT format('privileges on %s were granted by %s', granted.description, acl.grantor::regrole),
           'Let the owner grant these privileges.'
    FROM (
        SELECT pairs.description, old.attacl, pairs.owner
        FROM pairs JOIN pg_attribute AS old ON old.attrelid = pairs.relation AND old.attnum = pairs.old_number
        UNION ALL
        SELECT pg_describe_object('pg_class'::regclass, sequences.sequence, 0), class.relacl, class.relowner
        FROM snowflake_internal.snowflake_adopt_sequences(adopted_table, adopted_column, true) AS sequences
        JOIN pairs ON pairs.relation = sequences.relation AND pairs.is_adopted
        JOIN pg_class AS class ON class.oid = sequences.sequence
        WHERE sequences.is_identity
    ) AS granted (description, privileges, owner)
    CROSS JOIN LATERAL aclexplode(granted.privileges) AS acl
    WHERE acl.grantor <> granted.owner

    UNION
    SELECT format('%s has a security label', pairs.description), 'Remove the security labels of these columns.'
    FROM pairs
    JOIN pg_seclabel AS label
      ON label.classoid = 'pg_class'::regclass AND label.objoid = pairs.relation AND label.objsubid = pairs.old_number

    UNION
    SELECT format('%s is of type %s', pairs.description, format_type(old.atttypid, NULL)),
           'First change the type of these columns from the domain to bigint (ALTER TABLE ... ALTER COLUMN ... TYPE bigint).'
    FROM pairs
    JOIN pg_attribute AS old ON old.attrelid = pairs.relation AND old.attnum = pairs.old_number
    WHERE old.atttypid NOT IN ('smallint'::regtype, 'integer'::regtype)

    UNION
    SELECT format('%s is itself a foreign key that references %s',
                  pg_describe_object('pg_class'::regclass, involved.relation, involved.column_number),
                  pg_describe_object('pg_class'::regclass, foreign_key.confrelid, 0)),
           'Adopt the referenced column instead.'
    -- The column can be of type bigint already.
    FROM snowflake_internal.snowflake_adopt_columns(adopted_table, adopted_column, true) AS involved
    JOIN pg_constraint AS foreign_key
      ON foreign_key.conrelid = involved.relation AND foreign_key.contype = 'f' AND involved.column_number = ANY (foreign_key.conkey)
    WHERE involved.is_adopted

    UNION
    SELECT format('%s %s', known.description, known.obstacle),
           'Drop these constraints and indexes, and create them again for type bigint when the columns have been replaced.'
    FROM jsonb_to_recordset(definitions) AS known (description text, obstacle text)
    WHERE known.obstacle IS NOT NULL

    -- The columns in an expression of EXCLUDE do not belong to the constraint.
    UNION
    SELECT format('%s cannot be created with another index', pg_describe_object('pg_constraint'::regclass, key.oid, 0)),
           'Drop these objects, and create them again when the columns have been replaced.'
    FROM snowflake_internal.snowflake_adopt_indexes(adopted_table, adopted_column) AS indexes
    JOIN pg_constraint AS key ON key.oid = indexes.constraint_oid
    WHERE key.contype = 'x'
      AND NOT EXISTS (SELECT FROM pairs WHERE pairs.relation = key.conrelid AND pairs.old_number = ANY (key.conkey))

    -- It would be dropped with the column. If it is being created, the last step waits.
    UNION
    SELECT format('%s is not valid', pg_describe_object('pg_class'::regclass, definition.indexrelid, 0)),
           'Drop these indexes, or build them again: REINDEX INDEX CONCURRENTLY ...'
    FROM pairs
    JOIN pg_index AS definition ON definition.indrelid = pairs.relation AND NOT definition.indisvalid
    JOIN pg_class AS class ON class.oid = definition.indexrelid AND class.relname !~ '^snowflake_new_\d+$'
    WHERE EXISTS (SELECT FROM pg_depend AS depend
                  WHERE depend.classid = 'pg_class'::regclass AND depend.objid = class.oid
                    AND depend.refclassid = 'pg_class'::regclass AND depend.refobjid = pairs.relation
                    AND depend.refobjsubid = pairs.old_number)
      AND NOT EXISTS (SELECT FROM pg_stat_progress_create_index AS work WHERE work.index_relid = class.oid)

    -- A key that other objects need, such as a materialized view that groups by it.
    UNION
    SELECT format('%s depends on %s', pg_describe_object(depend.classid, depend.objid, depend.objsubid),
                  pg_describe_object(depend.refclassid, depend.refobjid, 0)),
           'Drop these objects, and create them again when the columns have been replaced.'
    FROM snowflake_internal.snowflake_adopt_indexes(adopted_table, adopted_column) AS indexes
    JOIN pg_depend AS depend
      ON depend.deptype = 'n'
     AND (depend.refclassid = 'pg_class'::regclass AND depend.refobjid = indexes.index
          OR depend.refclassid = 'pg_constraint'::regclass AND depend.refobjid = indexes.constraint_oid)
    WHERE NOT EXISTS (SELECT FROM snowflake_internal.snowflake_adopt_constraints(adopted_table, adopted_column) AS known
                      WHERE depend.classid = 'pg_constraint'::regclass AND depend.objid = known.oid)
      AND NOT EXISTS (SELECT FROM pg_rewrite AS rule JOIN views ON views.view = rule.ev_class
                      WHERE depend.classid = 'pg_rewrite'::regclass AND depend.objid = rule.oid)

    -- The stored rows would lose the values of the columns.
    UNION
    SELECT users.obstacle, users.remedy
    FROM snowflake_internal.snowflake_adopt_row_types(ARRAY(SELECT relation FROM pairs)) AS users

    -- Such an index is not built again, although its expressions may depend on the order and the types of the columns.
    UNION
    SELECT format('%s contains whole rows', pg_describe_object('pg_class'::regclass, definition.indexrelid, 0)),
           'Drop these indexes, and create them again when the columns have been replaced.'
    FROM pairs
    JOIN pg_index AS definition ON definition.indrelid = pairs.relation
    WHERE concat(definition.indexprs, definition.indpred) ~ ':varattno 0 '

    -- Tables. A foreign key that does not contain the column may need an index that does, with INCLUDE.
    UNION
    SELECT format('%s belongs to role %s', pg_describe_object('pg_class'::regclass, class.oid, 0), class.relowner::regrole),
           'Drop the foreign keys between the tables.'
    FROM altered
    JOIN pg_class AS class ON class.oid = altered.relation
    WHERE class.relowner NOT IN (SELECT owner FROM snowflake_internal.snowflake_adopt_owners(adopted_table, adopted_column, true))

    UNION
    SELECT format('%s is partitioned, or has parents or children', pg_describe_object('pg_class'::regclass, class.oid, 0)),
           'Use snowflake_adopt(), which rewrites the tables.'
    FROM altered
    JOIN pg_class AS class ON class.oid = altered.relation
    WHERE class.relkind = 'p'
       OR EXISTS (SELECT FROM pg_inherits AS link WHERE altered.relation IN (link.inhrelid, link.inhparent))

    UNION
    SELECT format('%s is a temporary table', pg_describe_object('pg_class'::regclass, class.oid, 0)),
           'Use snowflake_adopt(), which rewrites the tables.'
    FROM altered
    JOIN pg_class AS class ON class.oid = altered.relation
    WHERE class.relpersistence = 't'

    UNION
    SELECT format('%s is a typed table', pg_describe_object('pg_class'::regclass, class.oid, 0)),
           'Use snowflake_adopt(), after the type was changed.'
    FROM pairs JOIN pg_class AS class ON class.oid = pairs.relation
    WHERE class.reloftype <> 0

    UNION
    SELECT format('%s does not allow you to create objects', pg_describe_object('pg_namespace'::regclass, class.relnamespace, 0)),
           'Grant the privilege: GRANT CREATE ON SCHEMA ... TO ...'
    FROM pairs JOIN pg_class AS class ON class.oid = pairs.relation
    WHERE NOT has_schema_privilege(class.relnamespace, 'CREATE')

    -- An owner can revoke them from himself.
    UNION
    SELECT format('you may not update %s', pg_describe_object('pg_class'::regclass, pairs.relation, 0)),
           'Grant the privileges: GRANT SELECT, UPDATE ON TABLE ... TO ...'
    FROM pairs
    WHERE NOT has_table_privilege(pairs.relation, 'SELECT') OR NOT has_table_privilege(pairs.relation, 'UPDATE')

    UNION
    SELECT format('%s has row-level security that applies to you', pg_describe_object('pg_class'::regclass, pairs.relation, 0)),
           'Repeat the call as a superuser or as a role with BYPASSRLS, because the procedure updates all rows.'
    FROM pairs
    WHERE row_security_active(pairs.relation)

    UNION
    SELECT format('%s has a rule for UPDATE', pg_describe_object('pg_class'::regclass, pairs.relation, 0)),
           'Drop these rules, and create them again when the columns have been replaced.'
    FROM pairs
    JOIN pg_rewrite AS rule ON rule.ev_class = pairs.relation AND rule.ev_type = '2'

    -- The procedure updates every row.
    UNION
    SELECT format('%s would fire for every row', pg_describe_object('pg_trigger'::regclass, trigger.oid, 0)),
           CASE WHEN setting.fires_no_triggers
                THEN 'Change these triggers so that they do not fire as replica triggers: ALTER TABLE ... ENABLE TRIGGER ...'
                ELSE 'Call the procedure as a role that may set session_replication_role, such as a superuser. To grant '
                     'the privilege: GRANT SET ON PARAMETER session_replication_role TO ...' END
    FROM pairs
    CROSS JOIN has_parameter_privilege('session_replication_role', 'SET') AS setting (fires_no_triggers)
    JOIN pg_trigger AS trigger ON trigger.tgrelid = pairs.relation AND NOT trigger.tgisinternal
    WHERE trigger.tgtype & 16 <> 0 AND trigger.tgname !~ '^zz_snowflake_new_\d+$'
      AND trigger.tgenabled = ANY (CASE WHEN setting.fires_no_triggers THEN '{R,A}' ELSE '{O,A}' END::"char"[])

    -- Triggers of the same kind fire in the order of their names.
    UNION
    SELECT format('%s could change the row after trigger zz_%s', pg_describe_object('pg_trigger'::regclass, trigger.oid, 0), pairs.new_name),
           'Rename these triggers: ALTER TRIGGER ... RENAME TO ...'
    FROM pairs
    JOIN pg_trigger AS trigger ON trigger.tgrelid = pairs.relation AND NOT trigger.tgisinternal
    WHERE trigger.tgtype & 3 = 3 AND trigger.tgtype & 20 <> 0
      AND trigger.tgname::text COLLATE "C" >= 'zz_snowflake_new' AND trigger.tgname !~ '^zz_snowflake_new_\d+$'

    -- Otherwise, the new foreign keys would be enforced, or rows that violate them would be found only at the end.
    UNION
    SELECT format('not all triggers of %s are enabled', pg_describe_object('pg_constraint'::regclass, constraint_row.oid, 0)),
           'Enable them: ALTER TABLE ... ENABLE TRIGGER ALL'
    FROM snowflake_internal.snowflake_adopt_constraints(adopted_table, adopted_column) AS constraint_row
    JOIN pg_trigger AS trigger ON trigger.tgconstraint = constraint_row.oid AND trigger.tgenabled <> 'O'

    UNION
    SELECT format('publication "%s" would publish the new columns of %s', publication.pubname,
                  pg_describe_object('pg_class'::regclass, pairs.relation, 0)),
           'Subscribers have no new columns. Use snowflake_adopt(), or remove the tables from the publications: see "Subscribers" in the documentation.'
    FROM pairs
    JOIN pg_class AS class ON class.oid = pairs.relation
    JOIN pg_publication_tables AS publication
      ON publication.schemaname = pairs.schema AND publication.tablename = class.relname
     AND pairs.old_name = ANY (publication.attnames)

    -- Filling updates every row, which checks these constraints.
    UNION
    SELECT format('%s is not valid', pg_describe_object('pg_constraint'::regclass, other.oid, 0)),
           'Validate or drop these constraints.'
    FROM (SELECT DISTINCT relation FROM pairs) AS filled
    JOIN pg_constraint AS other ON other.conrelid = filled.relation
    WHERE other.contype IN ('c', 'n') AND NOT other.convalidated
      -- Since PostgreSQL 18.
      AND to_jsonb(other) ->> 'conenforced' IS DISTINCT FROM 'false'
      AND other.conname !~ '^snowflake_new_\d+(_some)?$'

    -- The objects of the procedure.
    UNION
    SELECT format('%s already exists on %s', taken.name, pg_describe_object('pg_class'::regclass, pairs.relation, 0)),
           'Rename or drop these objects. If the procedure has created them: repeat the call with abandon => true.'
    FROM pairs
    JOIN (
        SELECT attrelid AS relation, attname AS name FROM pg_attribute WHERE NOT attisdropped
        UNION ALL SELECT conrelid, conname FROM pg_constraint
        UNION ALL SELECT tgrelid, tgname FROM pg_trigger
    ) AS taken
      ON taken.relation = pairs.relation
     AND taken.name IN (pairs.new_name, pairs.new_name || '_some', 'zz_' || pairs.new_name)
    WHERE pairs.new_number IS NULL

    UNION
    SELECT format('%s already exists', pg_describe_object('pg_proc'::regclass, code.oid, 0)),
           format('Drop this function: DROP FUNCTION %s;', code.oid::regprocedure)
    FROM pairs
    JOIN pg_proc AS code ON code.oid = to_regprocedure(pairs.trigger_function)
    WHERE pairs.new_number IS NULL

    UNION
    SELECT format('trigger zz_%s of %s was changed', pairs.new_name, pg_describe_object('pg_class'::regclass, pairs.relation, 0)),
           format('Undo the change, for example the new name of a column, or ALTER TABLE %s ENABLE ALWAYS TRIGGER zz_%s%s. Or '
                  'repeat the call with abandon => true.', pairs.relation_name, pairs.new_name,
                  (SELECT format(', or ALTER FUNCTION %s OWNER TO %s', pairs.trigger_function, pairs.owner)
                   FROM pg_proc AS code WHERE code.oid = to_regprocedure(pairs.trigger_function) AND code.proowner <> pairs.owner))
    FROM pairs
    WHERE pairs.new_number IS NOT NULL AND NOT pairs.is_kept

    UNION
    SELECT format('constraint %s of %s was changed', pairs.new_name, pg_describe_object('pg_class'::regclass, pairs.relation, 0)),
           'Repeat the call with abandon => true.'
    FROM pairs
    WHERE NOT pairs.has_proof

    -- An index or a constraint may contain columns of both.
    UNION
    -- Meanwhile, the other call may drop the column.
    SELECT format('column %I of table %s is being adopted by another call', attribute.attname, other.relation::regclass),
           format('Finish the adoption of the other column first, or abandon it: CALL %s.snowflake_adopt_online(%L, %L, dry_run => false, '
                  'abandon => true);', snowflake_internal.home(), other.relation::regclass, attribute.attname)
    FROM snowflake_internal.snowflake_adopt_new_columns() AS other
    JOIN pg_attribute AS attribute ON attribute.attrelid = other.relation AND attribute.attnum = other.old_number
    WHERE other.relation IN (SELECT relation FROM altered)
      AND NOT EXISTS (SELECT FROM pairs WHERE pairs.relation = other.relation AND pairs.new_number = other.new_number)

    UNION
    SELECT format('database %I does not allow you to create temporary tables', current_database()),
           'Grant the privilege: GRANT TEMPORARY ON DATABASE ... TO ...'
    WHERE NOT has_database_privilege(current_database(), 'TEMPORARY');
END
$$;
COMMENT ON FUNCTION snowflake_internal.snowflake_adopt_online_obstacles(regclass, name, boolean, jsonb) IS
    'obstacles to the steps, and the remedies, for snowflake_adopt_online()';

-- Notices and warnings before the first step.
CREATE FUNCTION snowflake_internal.snowflake_adopt_online_notes(adopted_table regclass, adopted_column name)
RETURNS TABLE (is_warning boolean, message text, detail text, hint text)
VOLATILE PARALLEL SAFE LANGUAGE sql SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
    WITH pairs AS MATERIALIZED (
        SELECT * FROM snowflake_internal.snowflake_adopt_pairs(adopted_table, adopted_column)
    ),
    tables AS MATERIALIZED (
        SELECT relation, relation_name, array_agg(old_number) AS numbers FROM pairs GROUP BY relation, relation_name
    ),
    functions AS (
        -- Functions that take or return rows of the tables, or copy a whole row in a trigger.
        SELECT DISTINCT code.oid::regprocedure::text AS name
        FROM tables
        JOIN pg_class AS class ON class.oid = tables.relation
        JOIN pg_depend AS depend
          ON depend.classid = 'pg_proc'::regclass AND depend.refclassid = 'pg_type'::regclass
         AND depend.refobjid IN (class.reltype, (SELECT typarray FROM pg_type WHERE oid = class.reltype))
        JOIN pg_proc AS code ON code.oid = depend.objid
        UNION
        SELECT trigger.tgfoid::regprocedure::text
        FROM tables
        JOIN pg_trigger AS trigger ON trigger.tgrelid = tables.relation AND NOT trigger.tgisinternal
        JOIN pg_proc AS code ON code.oid = trigger.tgfoid AND code.prosrc ~* '\m(old|new)\)?\.\*'
    )

    SELECT true,
           format('the order of columns will change: %s',
                  string_agg(format('%s (%s)', relation_name,
                                    (SELECT string_agg(quote_ident(attname), ', '
                                                       ORDER BY attnum = ANY (tables.numbers), attnum)
                                     FROM pg_attribute
                                     WHERE attrelid = tables.relation AND attnum > 0 AND NOT attisdropped
                                       AND attname !~ '^snowflake_new_\d+$')), ', ' ORDER BY relation_name)),
           'An INSERT without a list of columns stores values in other columns, perhaps without an error. SELECT *, RETURNING *, '
           'COPY TO without a list, and generated keys that a driver reads by position (JDBC, MyBatis) return other columns. From the '
           'first step on, COPY FROM without a list, INSERT .. SELECT *, and prepared statements that return * fail.'
           || coalesce(' Functions that use whole rows: ' || (SELECT string_agg(name, ', ' ORDER BY name) FROM functions) || '.', ''),
           'Before you go on, let all statements name their columns.'
    FROM tables
    WHERE EXISTS (SELECT FROM pg_attribute
                  WHERE attrelid = tables.relation AND attnum > ANY (tables.numbers) AND attnum <> ALL (tables.numbers)
                    AND NOT attisdropped AND attname !~ '^snowflake_new_\d+$')
    HAVING count(*) > 0

    UNION ALL
    SELECT false,
           format('tables whose rows will be updated: %s (%s with their indexes)', string_agg(relation_name, ', ' ORDER BY relation_name),
                  pg_size_pretty(sum(pg_total_relation_size(relation)))),
           'The tables and their indexes can grow to about twice their size.',
           'To undo all steps before the columns are replaced, repeat the call with abandon => true.'
    FROM tables
    HAVING count(*) > 0

    UNION ALL
    SELECT * FROM snowflake_internal.snowflake_adopt_common_notes(adopted_table, adopted_column)

    UNION ALL
    SELECT false, format('event triggers may refuse commands: %s', string_agg(quote_ident(evtname), ', ' ORDER BY evtname)),
           'In the last step, which drops columns, search_path is "pg_catalog, pg_temp".',
           'If they refuse a command, let a superuser disable them: ALTER EVENT TRIGGER ... DISABLE;'
    FROM pg_event_trigger WHERE evtenabled <> 'D'
    HAVING count(*) > 0

    UNION ALL
    SELECT false, format('%s will be dropped and created again', pg_describe_object('pg_class'::regclass, view, 0)),
           concat_ws(E'\n', drop_statement, array_to_string(create_statements, E'\n')),
           'With views => true, the last step executes the statements. Otherwise, execute them yourself.'
    FROM snowflake_internal.snowflake_adopt_views(adopted_table, adopted_column)
    WHERE problem IS NULL;
$$;
COMMENT ON FUNCTION snowflake_internal.snowflake_adopt_online_notes(regclass, name) IS
    'notices and warnings about the steps, for snowflake_adopt_online()';
