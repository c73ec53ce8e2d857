-- These functions collect the facts that snowflake_adopt() needs before it changes a table: the columns and sequences
-- involved, the obstacles, and the notices for the caller. The functions only read the catalogs, with the privileges of
-- the caller, so that no code of the owners of the tables is run.
--
-- Names of PostgreSQL objects are not schema-qualified here, because each function sets search_path, which starts with
-- pg_catalog.
--
-- The functions that a plan calls many times are in PL/pgSQL, which plans their queries only once in a session.

-- Numbers of a segment do not require wider columns. If `widens` is false, all columns are treated as bigint. So
-- are columns of type snowflake.
--
-- Columns are identified by name. Their numbers can differ between a parent and its partitions or children.
--
-- PL/pgSQL keeps the plan of the query. A function in SQL would be planned in each of the many calls.
CREATE FUNCTION snowflake_internal.snowflake_adopt_columns(adopted_table regclass, adopted_column name, widens boolean)
RETURNS TABLE (
    relation oid, relation_name text, relation_kind "char", column_number smallint, column_name name, type oid,
    is_bigint boolean, is_adopted boolean, is_root boolean, is_owned boolean
)
STABLE PARALLEL SAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH RECURSIVE
    -- From a table to its children, to its parents, and to the tables that reference it. PostgreSQL has no index for the last.
    edge (source, target, referenced, referencing) AS MATERIALIZED (
        SELECT inhparent, inhrelid, NULL::smallint[], NULL::smallint[] FROM pg_inherits
        UNION ALL
        SELECT inhrelid, inhparent, NULL, NULL FROM pg_inherits
        UNION ALL
        SELECT confrelid, conrelid, confkey, conkey FROM pg_constraint WHERE contype = 'f'
    ),
    found (relation, column_name, is_adopted) AS (
        SELECT adopted_table::oid, adopted_column, true
        UNION
        -- A parent may lack the column.
        SELECT edge.target, next.attname, found.is_adopted AND edge.referenced IS NULL
        FROM found
        JOIN edge ON edge.source = found.relation
        JOIN pg_attribute AS own ON own.attrelid = found.relation AND own.attname = found.column_name
        JOIN pg_attribute AS next
          ON next.attrelid = edge.target
         AND CASE WHEN edge.referenced IS NULL THEN next.attname = found.column_name
                  ELSE next.attnum = edge.referencing[array_position(edge.referenced, own.attnum)] END
    )
    SELECT found.relation,
           format('%I.%I',
                  CASE WHEN class.relnamespace = pg_my_temp_schema() THEN 'pg_temp' ELSE namespace.nspname END,
                  class.relname),
           class.relkind, attribute.attnum, attribute.attname, attribute.atttypid,
           NOT widens OR coalesce(nullif(type.typbasetype, 0), type.oid)
               IN ('bigint'::regtype, snowflake_internal.id_type()),
           bool_or(found.is_adopted),
           attribute.attinhcount = 0,
           pg_has_role(class.relowner, 'USAGE')
    FROM found
    JOIN pg_class AS class ON class.oid = found.relation
    JOIN pg_namespace AS namespace ON namespace.oid = class.relnamespace
    JOIN pg_attribute AS attribute
      ON attribute.attrelid = found.relation AND attribute.attname = found.column_name
    JOIN pg_type AS type ON type.oid = attribute.atttypid
    GROUP BY found.relation, class.oid, namespace.oid, attribute.attrelid, attribute.attnum, type.oid;
END
$$;
COMMENT ON FUNCTION snowflake_internal.snowflake_adopt_columns(regclass, name, boolean) IS
    'column and the foreign key columns that reference it, in all partitions and children, for snowflake_adopt()';

-- Returns the owners of the tables whose definitions contain code that the statements run, and of their partitions. Widening
-- a column evaluates the constraints and indexes of its table.
CREATE FUNCTION snowflake_internal.snowflake_adopt_owners(adopted_table regclass, adopted_column name, widens boolean)
RETURNS TABLE (description text, owner regrole)
STABLE PARALLEL SAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH concerned (relation) AS MATERIALIZED (
        SELECT unnest(relations) FROM snowflake_internal.snowflake_adopt_compared(adopted_table, adopted_column, widens)
    )
    SELECT pg_describe_object('pg_class'::regclass, class.oid, 0), class.relowner::regrole
    FROM (
        SELECT relation FROM concerned
        UNION
        SELECT partition.relid FROM concerned CROSS JOIN LATERAL pg_partition_tree(concerned.relation) AS partition
    ) AS concerned_with_partitions
    JOIN pg_class AS class ON class.oid = concerned_with_partitions.relation;
END
$$;
COMMENT ON FUNCTION snowflake_internal.snowflake_adopt_owners(regclass, name, boolean) IS
    'tables whose definitions contain code that the statements run, and their owners, for snowflake_adopt()';

CREATE FUNCTION snowflake_internal.snowflake_adopt_sequences(adopted_table regclass, adopted_column name, widens boolean)
RETURNS TABLE (sequence oid, sequence_name text, relation oid, relation_name text, is_identity boolean, used_by text)
STABLE PARALLEL SAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH adopted AS MATERIALIZED (
        SELECT * FROM snowflake_internal.snowflake_adopt_columns(adopted_table, adopted_column, widens) WHERE is_adopted
    )
    SELECT class.oid,
           format('%I.%I',
                  CASE WHEN class.relnamespace = pg_my_temp_schema() THEN 'pg_temp' ELSE namespace.nspname END,
                  class.relname),
           adopted.relation, adopted.relation_name, depend.deptype = 'i' AND attribute.attidentity <> '',
           nullif(concat_ws(', ',
               -- pgEdge's extension turns an identity column into an ordinary one, but the column still requires the sequence.
               CASE WHEN depend.deptype = 'i' AND attribute.attidentity = ''
                    THEN pg_describe_object('pg_class'::regclass, adopted.relation, adopted.column_number) END,
               (
                   SELECT string_agg(pg_describe_object(use.classid, use.objid, use.objsubid), ', ' ORDER BY use.objid)
                   FROM pg_depend AS use
                   LEFT JOIN pg_attrdef AS expression
                     ON use.classid = 'pg_attrdef'::regclass AND expression.oid = use.objid
                   WHERE use.refclassid = 'pg_class'::regclass AND use.refobjid = class.oid AND use.deptype = 'n'
                     -- Exclude defaults that will be replaced.
                     AND NOT EXISTS (
                         SELECT FROM adopted AS own
                         WHERE own.relation = expression.adrelid AND own.column_number = expression.adnum
                     )
               )
           ), '')
    FROM adopted
    JOIN pg_depend AS depend
      ON depend.refclassid = 'pg_class'::regclass AND depend.refobjid = adopted.relation
     AND depend.refobjsubid = adopted.column_number AND depend.classid = 'pg_class'::regclass
    JOIN pg_attribute AS attribute
      ON attribute.attrelid = adopted.relation AND attribute.attnum = adopted.column_number
    JOIN pg_class AS class ON class.oid = depend.objid AND class.relkind = 'S'
    JOIN pg_namespace AS namespace ON namespace.oid = class.relnamespace;
END
$$;
COMMENT ON FUNCTION snowflake_internal.snowflake_adopt_sequences(regclass, name, boolean) IS
    'sequences owned by the column, in all partitions and children, and other objects that use them, for snowflake_adopt()';

-- The default expressions that are kept, in the form in which PostgreSQL shows them. Without a segment, they return IDs.
-- standard_conforming_strings = on prevents E''.
CREATE FUNCTION snowflake_internal.snowflake_adopt_kept_defaults(segment text) RETURNS text[]
STABLE PARALLEL SAFE LANGUAGE sql SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
    SELECT CASE
        WHEN segment IS NULL THEN (snowflake_internal.default_functions())[1:2]::text[]
        ELSE ARRAY(SELECT format('%s(''%s''::text)', function::oid::regproc, replace(segment, '''', ''''''))
                   FROM unnest((snowflake_internal.default_functions())[3:4]) AS function)
    END;
$$;
COMMENT ON FUNCTION snowflake_internal.snowflake_adopt_kept_defaults(text) IS
    'defaults that are kept, for snowflake_adopt() and snowflake_adopt_online()';

-- A number that a sequence has returned may be in use even if no row contains the number, because the row was deleted
-- or rolled back, or because a program took numbers in advance. The function covers the sequences that are owned by the
-- column or used in its default.
CREATE FUNCTION snowflake_internal.snowflake_adopt_given(adopted_table regclass, adopted_column name, widens boolean)
RETURNS TABLE (sequence oid, sequence_name text, increment bigint, is_ours boolean, is_readable boolean, highest_given bigint)
VOLATILE PARALLEL UNSAFE LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT class.oid, class.oid::regclass::text, definition.seqincrement,
           pg_has_role(class.relowner, 'USAGE'),
           has_sequence_privilege(class.oid, 'SELECT, USAGE'),
           CASE WHEN NOT has_sequence_privilege(class.oid, 'SELECT, USAGE') THEN NULL
                WHEN definition.seqcycle AND pg_sequence_last_value(class.oid) IS NOT NULL THEN definition.seqmax
                WHEN definition.seqincrement > 0 THEN pg_sequence_last_value(class.oid)
                WHEN pg_sequence_last_value(class.oid) IS NOT NULL
                THEN greatest(definition.seqstart, pg_sequence_last_value(class.oid))
           END
    FROM (
        SELECT sequence FROM snowflake_internal.snowflake_adopt_sequences(adopted_table, adopted_column, widens)
        UNION
        SELECT use.refobjid
        FROM snowflake_internal.snowflake_adopt_columns(adopted_table, adopted_column, widens) AS involved
        JOIN pg_attrdef AS expression
          ON expression.adrelid = involved.relation AND expression.adnum = involved.column_number
        JOIN pg_depend AS use
          ON use.classid = 'pg_attrdef'::regclass AND use.objid = expression.oid
         AND use.refclassid = 'pg_class'::regclass
        WHERE involved.is_adopted
    ) AS used
    JOIN pg_class AS class ON class.oid = used.sequence AND class.relkind = 'S'
    JOIN pg_sequence AS definition ON definition.seqrelid = class.oid;
$$;
COMMENT ON FUNCTION snowflake_internal.snowflake_adopt_given(regclass, name, boolean) IS
    'sequences of the column, and the highest value that each sequence has returned, for snowflake_adopt()';

-- Values of a row type are not rewritten when a column of the table is.
CREATE FUNCTION snowflake_internal.snowflake_adopt_row_types(relations oid[])
RETURNS TABLE (obstacle text, remedy text)
STABLE PARALLEL SAFE LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    WITH RECURSIVE
    -- The row types of the tables, and the types that contain them.
    row_type (relation, type) AS (
        SELECT class.oid, class.reltype FROM pg_class AS class WHERE class.oid = ANY (relations)
        UNION
        SELECT row_type.relation, coalesce(class.reltype, depend.objid)
        FROM row_type
        JOIN pg_depend AS depend ON depend.refclassid = 'pg_type'::regclass AND depend.refobjid = row_type.type
        LEFT JOIN pg_class AS class
          ON depend.classid = 'pg_class'::regclass AND class.oid = depend.objid AND depend.objsubid > 0
        WHERE depend.classid = 'pg_type'::regclass OR class.relkind NOT IN ('r', 'p', 'm')
    )
    SELECT format('%s uses the row type of %s',
                  pg_describe_object('pg_class'::regclass, depend.objid, depend.objsubid),
                  pg_describe_object('pg_class'::regclass, row_type.relation, 0)),
           'Drop these columns, or change their type, for example to jsonb.'
    FROM row_type
    JOIN pg_depend AS depend
      ON depend.refclassid = 'pg_type'::regclass AND depend.refobjid = row_type.type
     AND depend.classid = 'pg_class'::regclass AND depend.objsubid > 0
    JOIN pg_class AS class ON class.oid = depend.objid AND class.relkind IN ('r', 'p', 'm');
$$;
COMMENT ON FUNCTION snowflake_internal.snowflake_adopt_row_types(oid[]) IS
    'columns that store whole rows of tables, for snowflake_adopt() and snowflake_adopt_online()';

CREATE FUNCTION snowflake_internal.snowflake_adopt_obstacles(adopted_table regclass, adopted_column name, widens boolean)
RETURNS TABLE (obstacle text, remedy text)
STABLE PARALLEL SAFE LANGUAGE sql SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
    WITH involved AS MATERIALIZED (
        SELECT *, pg_describe_object('pg_class'::regclass, relation, column_number) AS description
        FROM snowflake_internal.snowflake_adopt_columns(adopted_table, adopted_column, widens)
    ),
    widened AS (SELECT * FROM involved WHERE NOT is_bigint)

    SELECT format('%s depends on %s',
                  CASE WHEN view.oid IS NOT NULL THEN pg_describe_object('pg_class'::regclass, view.oid, 0)
                       WHEN generated.attrelid IS NOT NULL THEN
                           pg_describe_object('pg_class'::regclass, generated.attrelid, generated.attnum)
                       ELSE pg_describe_object(depend.classid, depend.objid, depend.objsubid) END,
                  widened.description),
           'Drop the objects that depend on the columns, call snowflake_adopt(), and create the objects again, all in one transaction.'
    FROM widened
    JOIN pg_depend AS depend
      ON depend.refclassid = 'pg_class'::regclass AND depend.refobjid = widened.relation
     AND depend.refobjsubid = widened.column_number
    LEFT JOIN pg_rewrite AS rule ON depend.classid = 'pg_rewrite'::regclass AND rule.oid = depend.objid
    LEFT JOIN pg_class AS view ON view.oid = rule.ev_class AND view.relkind IN ('v', 'm')
    LEFT JOIN pg_trigger AS trigger ON depend.classid = 'pg_trigger'::regclass AND trigger.oid = depend.objid
    LEFT JOIN pg_attrdef AS expression ON depend.classid = 'pg_attrdef'::regclass AND expression.oid = depend.objid
    LEFT JOIN pg_attribute AS generated
      ON generated.attrelid = expression.adrelid AND generated.attnum = expression.adnum
    WHERE depend.classid IN ('pg_rewrite'::regclass, 'pg_trigger'::regclass, 'pg_attrdef'::regclass,
                             'pg_policy'::regclass, 'pg_proc'::regclass, 'pg_publication_rel'::regclass)
      -- Exclude the dependency of a default on its own column. Objects that partitions and children inherit are
      -- reported for the parent.
      AND (expression.adrelid, expression.adnum) IS DISTINCT FROM (widened.relation, widened.column_number)
      AND coalesce(generated.attinhcount, 0) = 0 AND coalesce(trigger.tgparentid, 0) = 0

    UNION
    SELECT users.obstacle, users.remedy
    FROM snowflake_internal.snowflake_adopt_row_types(ARRAY(SELECT relation FROM widened)) AS users

    UNION
    SELECT format('%s is being replaced by snowflake_adopt_online()', widened.description),
           format('Let that procedure finish, or: CALL %s.snowflake_adopt_online(%L, %L, dry_run => false, abandon => true);',
                  snowflake_internal.home(), widened.relation_name, widened.column_name)
    FROM widened
    JOIN pg_constraint AS proof
      ON proof.conrelid = widened.relation AND proof.contype = 'c' AND proof.conname ~ '^snowflake_new_\d+$'
     AND widened.column_number = ANY (proof.conkey)

    UNION
    SELECT format('%s is part of the partition key', widened.description),
           'The type of a partition key cannot be changed. Create a new partitioned table with bigint and copy the rows.'
    FROM widened
    JOIN pg_depend AS depend
      ON depend.classid = 'pg_class'::regclass AND depend.objid = widened.relation
     AND depend.objsubid = widened.column_number
     AND depend.refclassid = 'pg_class'::regclass AND depend.refobjid = widened.relation
     AND depend.refobjsubid = 0 AND depend.deptype = 'i'

    UNION
    SELECT format('%s is of type %s', widened.description, format_type(widened.type, NULL)),
           'First change the type of these columns from the domain to bigint (ALTER TABLE ... ALTER COLUMN ... TYPE bigint).'
    FROM widened
    WHERE widened.is_root AND widened.type NOT IN ('smallint'::regtype, 'integer'::regtype)

    UNION
    SELECT format('%s is a typed table', pg_describe_object('pg_class'::regclass, widened.relation, 0)),
           format('First widen the type: ALTER TYPE %s ALTER ATTRIBUTE %I TYPE bigint CASCADE.',
                  class.reloftype::regtype, widened.column_name)
    FROM widened JOIN pg_class AS class ON class.oid = widened.relation
    WHERE class.reloftype <> 0

    UNION
    SELECT format('%s stores its rows on another server', pg_describe_object('pg_class'::regclass, widened.relation, 0)),
           'Detach the foreign tables, or remove their inheritance. Then change the type of their columns on both servers.'
    FROM widened
    WHERE widened.relation_kind = 'f'

    UNION
    SELECT format('%s is inherited from %s', involved.description,
                  string_agg(parent.description, ' and ' ORDER BY parent.description)),
           'Remove all parents except one (ALTER TABLE ... NO INHERIT ...).'
    FROM involved
    JOIN pg_inherits AS inherits ON inherits.inhrelid = involved.relation
    JOIN involved AS parent ON parent.relation = inherits.inhparent AND parent.column_name = involved.column_name
    WHERE involved.is_adopted OR NOT involved.is_bigint
    GROUP BY involved.description
    HAVING count(*) > 1

    UNION
    SELECT format('%s uses operator class %s, which bigint does not have',
                  pg_describe_object('pg_class'::regclass, index.oid, 0), class.opcname),
           'Drop these indexes, call snowflake_adopt(), and create them again with an operator class for bigint.'
    FROM widened
    JOIN pg_index AS definition ON definition.indrelid = widened.relation
    JOIN pg_class AS index ON index.oid = definition.indexrelid AND NOT index.relispartition
    CROSS JOIN LATERAL unnest(definition.indkey, definition.indclass) AS key (column_number, class)
    JOIN pg_opclass AS class ON class.oid = key.class AND NOT class.opcdefault AND class.opcintype = widened.type
    WHERE key.column_number = widened.column_number

    UNION
    SELECT format('%s is itself a foreign key that references %s', involved.description,
                  pg_describe_object('pg_class'::regclass, foreign_key.confrelid, 0)),
           'Adopt the referenced column instead.'
    FROM involved
    JOIN pg_constraint AS foreign_key
      ON foreign_key.conrelid = involved.relation AND foreign_key.contype = 'f' AND foreign_key.conparentid = 0
     AND involved.column_number = ANY (foreign_key.conkey)
    WHERE involved.is_adopted

    UNION
    SELECT format('%s has row-level security that applies to you',
                  pg_describe_object('pg_class'::regclass, involved.relation, 0)),
           'Call snowflake_adopt() as a superuser or as a role with BYPASSRLS, because the function reads the highest value.'
    FROM involved
    WHERE involved.relation = adopted_table AND involved.is_adopted AND row_security_active(involved.relation)

    UNION
    SELECT format('%s uses sequence %s, which is dropped with the identity', used_by, sequence_name),
           'Change the objects that use the sequence, so that they use another sequence.'
    FROM snowflake_internal.snowflake_adopt_sequences(adopted_table, adopted_column, widens)
    WHERE is_identity AND used_by IS NOT NULL;
$$;
COMMENT ON FUNCTION snowflake_internal.snowflake_adopt_obstacles(regclass, name, boolean) IS
    'obstacles to the statements, and the remedies, for snowflake_adopt()';

-- `drops_sequences` is true if the statements drop the sequences of the column that nothing else uses.
CREATE FUNCTION snowflake_internal.snowflake_adopt_notes(
    adopted_table regclass, adopted_column name, widens boolean, kept_defaults text[], drops_sequences boolean
)
RETURNS TABLE (is_warning boolean, message text, detail text, hint text)
STABLE PARALLEL SAFE LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    WITH involved AS MATERIALIZED (
        SELECT *, pg_describe_object('pg_class'::regclass, relation, column_number) AS description
        FROM snowflake_internal.snowflake_adopt_columns(adopted_table, adopted_column, widens)
    ),
    widened AS (
        SELECT relation, relation_name, bool_or(is_root) AS is_root, array_agg(column_name) AS column_names
        FROM involved WHERE NOT is_bigint GROUP BY relation, relation_name
    )

    SELECT false,
           format('tables to be rewritten: %s (%s with their indexes)',
                  string_agg(relation_name, ', ' ORDER BY relation_name) FILTER (WHERE is_root),
                  pg_size_pretty(sum(pg_total_relation_size(relation)))),
           'Until the transaction ends, no other session can read or write these tables, and they need twice the disk space.',
           'Set lock_timeout, so that other sessions do not queue behind a waiting lock request. Afterwards, run ANALYZE on '
           'the tables.'
    FROM widened
    HAVING count(*) > 0

    UNION ALL
    SELECT true,
           format('publication "%s" contains tables whose columns become bigint: %s', publication.pubname,
                  string_agg(widened.relation_name, ', ' ORDER BY widened.relation_name)),
           'Replication to a subscriber with a narrower column stops at the first row with a new ID.',
           'First change the columns to bigint on all subscribers. If a subscription uses the binary format, set binary = false '
           'before that.'
    FROM widened
    JOIN pg_class AS class ON class.oid = widened.relation
    JOIN pg_namespace AS namespace ON namespace.oid = class.relnamespace
    JOIN pg_publication_tables AS publication
      ON publication.schemaname = namespace.nspname AND publication.tablename = class.relname
     AND publication.attnames && widened.column_names
    GROUP BY publication.pubname

    UNION ALL
    SELECT false,
           format('%s will no longer be GENERATED ALWAYS and will accept explicit values', involved.description),
           'In an INSERT, OVERRIDING SYSTEM VALUE is still accepted but no longer needed, and OVERRIDING USER VALUE no '
           'longer has an effect.',
           'To prevent explicit values, revoke INSERT on the table and grant INSERT on its other columns.'
    FROM involved
    JOIN pg_attribute AS attribute
      ON attribute.attrelid = involved.relation AND attribute.attnum = involved.column_number
    WHERE involved.relation = adopted_table AND involved.is_adopted AND attribute.attidentity = 'a'

    UNION ALL
    SELECT false,
           format('the default of %s will be replaced', involved.description),
           format('The current default is %s.', pg_get_expr(expression.adbin, expression.adrelid)),
           format('To restore the default: ALTER TABLE %s ALTER COLUMN %I SET DEFAULT %s;', involved.relation_name,
                  involved.column_name, pg_get_expr(expression.adbin, expression.adrelid))
    FROM involved
    JOIN pg_attrdef AS expression
      ON expression.adrelid = involved.relation AND expression.adnum = involved.column_number
    WHERE involved.relation = adopted_table AND involved.is_adopted
      AND pg_get_expr(expression.adbin, expression.adrelid) <> ALL (kept_defaults)
      -- Exclude defaults that use a dropped sequence, because they cannot be restored.
      AND NOT (drops_sequences AND EXISTS (
          SELECT FROM snowflake_internal.snowflake_adopt_sequences(adopted_table, adopted_column, widens) AS dropped
          JOIN pg_depend AS use ON use.refclassid = 'pg_class'::regclass AND use.refobjid = dropped.sequence
          WHERE use.classid = 'pg_attrdef'::regclass AND use.objid = expression.oid AND dropped.used_by IS NULL
      ))

    UNION ALL
    SELECT false,
           format('sequence %s will be kept', sequence_name),
           coalesce('The sequence is used by ' || used_by || '.', 'Other sessions may still take values of the sequence.'),
           format('When the sequence is no longer used: DROP SEQUENCE %s;', sequence_name)
    FROM snowflake_internal.snowflake_adopt_sequences(adopted_table, adopted_column, widens)
    WHERE NOT is_identity AND (used_by IS NOT NULL OR NOT drops_sequences)

    UNION ALL
    SELECT false, format('sequence %s will be dropped', sequence_name), 'The sequence belongs to the identity of the column.',
           'Other sessions that call nextval() for the sequence will fail. Let them use the default of the column.'
    FROM snowflake_internal.snowflake_adopt_sequences(adopted_table, adopted_column, widens)
    WHERE is_identity

    UNION ALL
    SELECT * FROM snowflake_internal.snowflake_adopt_common_notes(adopted_table, adopted_column) WHERE widens;
$$;
COMMENT ON FUNCTION snowflake_internal.snowflake_adopt_notes(regclass, name, boolean, text[], boolean) IS
    'notices and warnings about the statements, for snowflake_adopt()';

-- The layout decides which IDs are stored for years, but the setting of a session ends with the session.
CREATE FUNCTION snowflake_internal.snowflake_adopt_check_layout(is_first boolean) RETURNS void
STABLE PARALLEL SAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    setting record;
BEGIN
    SELECT source, quote_literal(current_setting('snowflake_id.layout', true)) AS value INTO setting
    FROM pg_settings WHERE name = 'snowflake_id.layout';
    IF setting.source IN ('session', 'client') THEN
        RAISE EXCEPTION 'snowflake_id.layout is set only in this session'
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  DETAIL = 'New rows get IDs in the layouts of the sessions that insert them.',
                  HINT = format('Set the layout for all sessions, and connect again: ALTER DATABASE %I SET snowflake_id.layout = %s;',
                                current_database(), setting.value);
    ELSIF is_first AND setting.source IN ('user', 'database user') THEN
        RAISE WARNING 'snowflake_id.layout is set for role %', quote_ident(current_user)
            USING DETAIL = 'Other roles that insert rows may use another layout.',
                  HINT = format('To set the layout for all roles: ALTER DATABASE %I SET snowflake_id.layout = %s;',
                                current_database(), setting.value);
    END IF;
END
$$;
COMMENT ON FUNCTION snowflake_internal.snowflake_adopt_check_layout(boolean) IS
    'refuses a layout that only the session has, for snowflake_adopt() and snowflake_adopt_online()';
