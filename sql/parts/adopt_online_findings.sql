-- The facts that snowflake_adopt_online() needs in addition to those of snowflake_adopt(). All progress is stored in the
-- catalogs, as the objects that the steps create:
--
-- * a new column of type bigint beside each column of type int or smallint,
-- * trigger zz_snowflake_adopt, which keeps the new columns equal to the old ones; its arguments are pairs of names,
-- * a constraint CHECK for each new column, which is valid when the columns are known to be equal,
-- * a sequence whose value is the number of pages that are filled, and whose maximum is the number of pages to fill,
-- * indexes and foreign keys of the new columns.
--
-- The names are those of the old objects, followed by _snowflake.

CREATE FUNCTION snowflake_internal.snowflake_adopt_copy() RETURNS trigger
    VOLATILE PARALLEL UNSAFE LANGUAGE c AS 'MODULE_PATHNAME', 'snowflake_adopt_copy';
COMMENT ON FUNCTION snowflake_internal.snowflake_adopt_copy() IS
    'keeps new columns equal to the columns that they will replace; trigger function, for snowflake_adopt_online()';

-- A name has at most 63 bytes.
CREATE FUNCTION snowflake_internal.snowflake_adopt_new_name(old_name name) RETURNS name
IMMUTABLE STRICT PARALLEL SAFE LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT (left(old_name::text, max(length)) || '_snowflake')::name
    FROM generate_series(0, 53) AS length
    WHERE octet_length(left(old_name::text, length)) <= 53;
$$;
COMMENT ON FUNCTION snowflake_internal.snowflake_adopt_new_name(name) IS
    'name of the new object beside an old one, for snowflake_adopt_online()';

-- The columns to be replaced. `new_number` is NULL until the new column and its trigger exist.
CREATE FUNCTION snowflake_internal.snowflake_adopt_pairs(adopted_table regclass, adopted_column name)
RETURNS TABLE (
    relation oid, relation_name text, is_adopted boolean, old_number smallint, old_name name, is_not_null boolean,
    new_name name, new_number smallint
)
STABLE PARALLEL SAFE LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT involved.relation, involved.relation_name, involved.is_adopted, involved.column_number, involved.column_name,
           old.attnotnull, name.new, new.attnum
    FROM snowflake_internal.snowflake_adopt_columns(adopted_table, adopted_column, true) AS involved
    JOIN pg_attribute AS old ON old.attrelid = involved.relation AND old.attnum = involved.column_number
    CROSS JOIN LATERAL snowflake_internal.snowflake_adopt_new_name(involved.column_name) AS name (new)
    LEFT JOIN pg_trigger AS trigger
      ON trigger.tgrelid = involved.relation
     AND trigger.tgfoid = 'snowflake_internal.snowflake_adopt_copy()'::regprocedure
     -- Each argument is followed by a zero byte.
     AND position(decode('00', 'hex') || convert_to(involved.column_name::text, getdatabaseencoding()) || decode('00', 'hex')
                  || convert_to(name.new::text, getdatabaseencoding()) || decode('00', 'hex')
                  IN decode('00', 'hex') || trigger.tgargs) > 0
    LEFT JOIN pg_attribute AS new
      ON trigger.oid IS NOT NULL AND new.attrelid = involved.relation AND new.attname = name.new AND NOT new.attisdropped
    WHERE NOT involved.is_bigint;
$$;
COMMENT ON FUNCTION snowflake_internal.snowflake_adopt_pairs(regclass, name) IS
    'columns to be replaced, and their new columns, for snowflake_adopt_online()';

-- The foreign keys that contain a column to be replaced, on either side, with the numbers of the columns as they will be.
CREATE FUNCTION snowflake_internal.snowflake_adopt_foreign_keys(adopted_table regclass, adopted_column name)
RETURNS TABLE (
    foreign_key oid, relation oid, relation_name text, referenced oid, referenced_name text, name name, new_name name,
    new_key smallint[], new_referenced_key smallint[], definition text, is_valid boolean
)
STABLE PARALLEL SAFE LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    WITH pairs AS MATERIALIZED (
        SELECT * FROM snowflake_internal.snowflake_adopt_pairs(adopted_table, adopted_column)
    )
    SELECT foreign_key.oid, foreign_key.conrelid, format('%I.%I', namespace.nspname, class.relname),
           foreign_key.confrelid, format('%I.%I', referenced_namespace.nspname, referenced.relname),
           foreign_key.conname, snowflake_internal.snowflake_adopt_new_name(foreign_key.conname),
           key.numbers, referenced_key.numbers,
           concat(
               format('FOREIGN KEY (%s) REFERENCES %I.%I (%s)', key.names, referenced_namespace.nspname, referenced.relname,
                      referenced_key.names),
               CASE foreign_key.confmatchtype WHEN 'f' THEN ' MATCH FULL' END,
               ' ON UPDATE ' || CASE foreign_key.confupdtype
                   WHEN 'r' THEN 'RESTRICT' WHEN 'c' THEN 'CASCADE' WHEN 'n' THEN 'SET NULL' END,
               ' ON DELETE ' || CASE foreign_key.confdeltype
                   WHEN 'r' THEN 'RESTRICT' WHEN 'c' THEN 'CASCADE' WHEN 'n' THEN 'SET NULL' END,
               -- Only these columns are set to NULL.
               ' (' || emptied.names || ')',
               CASE WHEN foreign_key.condeferrable THEN ' DEFERRABLE' END,
               CASE WHEN foreign_key.condeferred THEN ' INITIALLY DEFERRED' END
           ),
           foreign_key.convalidated
    FROM pg_constraint AS foreign_key
    JOIN pg_class AS class ON class.oid = foreign_key.conrelid
    JOIN pg_namespace AS namespace ON namespace.oid = class.relnamespace
    JOIN pg_class AS referenced ON referenced.oid = foreign_key.confrelid
    JOIN pg_namespace AS referenced_namespace ON referenced_namespace.oid = referenced.relnamespace
    CROSS JOIN LATERAL (
        SELECT array_agg(CASE WHEN pair.relation IS NULL THEN attribute.attnum ELSE pair.new_number END ORDER BY key.position),
               string_agg(quote_ident(coalesce(pair.new_name, attribute.attname)), ', ' ORDER BY key.position)
        FROM unnest(foreign_key.conkey) WITH ORDINALITY AS key (number, position)
        JOIN pg_attribute AS attribute ON attribute.attrelid = foreign_key.conrelid AND attribute.attnum = key.number
        LEFT JOIN pairs AS pair ON pair.relation = foreign_key.conrelid AND pair.old_number = key.number
    ) AS key (numbers, names)
    CROSS JOIN LATERAL (
        SELECT array_agg(CASE WHEN pair.relation IS NULL THEN attribute.attnum ELSE pair.new_number END ORDER BY key.position),
               string_agg(quote_ident(coalesce(pair.new_name, attribute.attname)), ', ' ORDER BY key.position)
        FROM unnest(foreign_key.confkey) WITH ORDINALITY AS key (number, position)
        JOIN pg_attribute AS attribute ON attribute.attrelid = foreign_key.confrelid AND attribute.attnum = key.number
        LEFT JOIN pairs AS pair ON pair.relation = foreign_key.confrelid AND pair.old_number = key.number
    ) AS referenced_key (numbers, names)
    CROSS JOIN LATERAL (
        SELECT string_agg(quote_ident(coalesce(pair.new_name, attribute.attname)), ', ' ORDER BY key.position)
        FROM unnest(foreign_key.confdelsetcols) WITH ORDINALITY AS key (number, position)
        JOIN pg_attribute AS attribute ON attribute.attrelid = foreign_key.conrelid AND attribute.attnum = key.number
        LEFT JOIN pairs AS pair ON pair.relation = foreign_key.conrelid AND pair.old_number = key.number
    ) AS emptied (names)
    WHERE foreign_key.contype = 'f'
      AND EXISTS (
          SELECT FROM pairs
          WHERE pairs.relation = foreign_key.conrelid AND pairs.old_number = ANY (foreign_key.conkey)
             OR pairs.relation = foreign_key.confrelid AND pairs.old_number = ANY (foreign_key.confkey)
      );
$$;
COMMENT ON FUNCTION snowflake_internal.snowflake_adopt_foreign_keys(regclass, name) IS
    'foreign keys that contain a column to be replaced, for snowflake_adopt_online()';

-- The sequence that counts the filled pages of a table, which is owned by a new column of the table. A role that cannot
-- read the sequence sees no numbers.
CREATE FUNCTION snowflake_internal.snowflake_adopt_counter(relation oid, OUT sequence regclass, OUT pages_filled bigint, OUT pages bigint)
RETURNS SETOF record
VOLATILE PARALLEL UNSAFE LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT class.oid::regclass,
           CASE WHEN has_sequence_privilege(class.oid, 'SELECT, USAGE') THEN coalesce(pg_sequence_last_value(class.oid), 0) END,
           definition.seqmax
    FROM pg_trigger AS trigger
    JOIN pg_attribute AS attribute
      ON attribute.attrelid = trigger.tgrelid AND NOT attribute.attisdropped
     AND right(attribute.attname::text, 10) = '_snowflake'
     AND position(decode('00', 'hex') || convert_to(attribute.attname::text, getdatabaseencoding()) || decode('00', 'hex')
                  IN decode('00', 'hex') || trigger.tgargs) > 0
    JOIN pg_depend AS depend
      ON depend.classid = 'pg_class'::regclass AND depend.refclassid = 'pg_class'::regclass
     AND depend.refobjid = attribute.attrelid AND depend.refobjsubid = attribute.attnum AND depend.deptype = 'a'
    JOIN pg_class AS class ON class.oid = depend.objid AND class.relkind = 'S'
    JOIN pg_sequence AS definition ON definition.seqrelid = class.oid AND definition.seqmin = 0
    WHERE trigger.tgrelid = snowflake_adopt_counter.relation
      AND trigger.tgfoid = 'snowflake_internal.snowflake_adopt_copy()'::regprocedure;
$$;
COMMENT ON FUNCTION snowflake_internal.snowflake_adopt_counter(oid) IS
    'sequence that counts the filled pages of a table, for snowflake_adopt_online()';

CREATE VIEW snowflake_adopt_progress AS
    SELECT trigger.tgrelid::pg_catalog.regclass AS table_name, counter.pages_filled, counter.pages,
           NOT EXISTS (
               SELECT FROM pg_catalog.pg_constraint AS proof
               JOIN pg_catalog.pg_attribute AS new
                 ON new.attrelid OPERATOR(pg_catalog.=) proof.conrelid AND new.attname OPERATOR(pg_catalog.=) proof.conname
               WHERE proof.conrelid OPERATOR(pg_catalog.=) trigger.tgrelid
                 AND proof.contype OPERATOR(pg_catalog.=) 'c'::pg_catalog."char" AND NOT proof.convalidated
           ) AS is_checked
    FROM pg_catalog.pg_trigger AS trigger
    LEFT JOIN LATERAL snowflake_internal.snowflake_adopt_counter(trigger.tgrelid) AS counter ON true
    WHERE trigger.tgfoid OPERATOR(pg_catalog.=) 'snowflake_internal.snowflake_adopt_copy()'::pg_catalog.regprocedure;

GRANT SELECT ON snowflake_adopt_progress TO PUBLIC;

COMMENT ON VIEW snowflake_adopt_progress IS
    'tables of this database whose columns are being replaced by snowflake_adopt_online()';
COMMENT ON COLUMN snowflake_adopt_progress.table_name IS 'the table';
COMMENT ON COLUMN snowflake_adopt_progress.pages_filled IS
    'number of pages whose rows have values in the new columns; NULL if filling has not started, or if you cannot read the sequence that counts the pages';
COMMENT ON COLUMN snowflake_adopt_progress.pages IS 'number of pages to be filled; NULL if filling has not started';
COMMENT ON COLUMN snowflake_adopt_progress.is_checked IS
    'true if all rows were checked: the new columns are equal to the columns that they replace';

CREATE FUNCTION snowflake_internal.snowflake_adopt_online_obstacles(adopted_table regclass, adopted_column name)
RETURNS TABLE (obstacle text, remedy text)
STABLE PARALLEL SAFE LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    WITH pairs AS MATERIALIZED (
        SELECT *, pg_describe_object('pg_class'::regclass, relation, old_number) AS description
        FROM snowflake_internal.snowflake_adopt_pairs(adopted_table, adopted_column)
    ),
    foreign_keys AS MATERIALIZED (
        SELECT * FROM snowflake_internal.snowflake_adopt_foreign_keys(adopted_table, adopted_column)
    ),
    altered (relation) AS (
        SELECT pairs.relation FROM pairs
        UNION SELECT foreign_keys.relation FROM foreign_keys
        UNION SELECT foreign_keys.referenced FROM foreign_keys
    )

    SELECT obstacle, replace(replace(remedy, 'snowflake_adopt()', 'snowflake_adopt_online()'), ', all in one transaction', '')
    FROM snowflake_internal.snowflake_adopt_obstacles(adopted_table, adopted_column, true)

    UNION
    SELECT format('%s is partitioned, or has parents or children',
                  pg_describe_object('pg_class'::regclass, class.oid, 0)),
           'Use snowflake_adopt(), which rewrites the tables.'
    FROM altered
    JOIN pg_class AS class ON class.oid = altered.relation
    WHERE class.relkind <> 'r'
       OR EXISTS (SELECT FROM pg_inherits AS link WHERE altered.relation IN (link.inhrelid, link.inhparent))

    UNION
    SELECT format('%s is a temporary table', pg_describe_object('pg_class'::regclass, class.oid, 0)),
           'Use snowflake_adopt(), which rewrites the tables.'
    FROM altered
    JOIN pg_class AS class ON class.oid = altered.relation
    WHERE class.relpersistence = 't'

    UNION
    SELECT format('column "%s" of %s already exists', pairs.new_name,
                  pg_describe_object('pg_class'::regclass, pairs.relation, 0)),
           'Rename or drop these columns.'
    FROM pairs
    JOIN pg_attribute AS other
      ON other.attrelid = pairs.relation AND other.attname = pairs.new_name AND NOT other.attisdropped
    WHERE pairs.new_number IS NULL

    -- The columns of a table share the trigger, which is replaced and dropped as a whole.
    UNION
    SELECT format('%s also fills other columns', pg_describe_object('pg_trigger'::regclass, trigger.oid, 0)),
           'First finish or abandon the adoption of the other columns of these tables. If a foreign key was dropped, create it '
           'again, for example as NOT VALID.'
    FROM pairs
    JOIN pg_trigger AS trigger
      ON trigger.tgrelid = pairs.relation AND trigger.tgfoid = 'snowflake_internal.snowflake_adopt_copy()'::regprocedure
    GROUP BY trigger.oid, trigger.tgnargs
    HAVING trigger.tgnargs > 2 * count(pairs.new_number)

    -- A new foreign key has the definition that the foreign key had when the new one was added.
    UNION
    SELECT format('%s differs from %s', pg_describe_object('pg_constraint'::regclass, new.oid, 0),
                  pg_describe_object('pg_constraint'::regclass, old.oid, 0)),
           'Drop the constraints whose names end in _snowflake. They are created again.'
    FROM foreign_keys
    JOIN pg_constraint AS old ON old.oid = foreign_keys.foreign_key
    JOIN pg_constraint AS new
      ON new.contype = 'f' AND new.conrelid = old.conrelid AND new.conname = foreign_keys.new_name
    WHERE (new.confupdtype, new.confdeltype, new.confmatchtype, new.condeferrable, new.condeferred)
       <> (old.confupdtype, old.confdeltype, old.confmatchtype, old.condeferrable, old.condeferred)

    -- Filling updates every row, which checks these constraints.
    UNION
    SELECT format('%s is not valid', pg_describe_object('pg_constraint'::regclass, other.oid, 0)),
           'Validate or drop these constraints.'
    FROM (SELECT DISTINCT relation FROM pairs) AS filled
    JOIN pg_constraint AS other ON other.conrelid = filled.relation
    WHERE other.contype IN ('c', 'n') AND NOT other.convalidated
      -- Since PostgreSQL 18.
      AND to_jsonb(other) ->> 'conenforced' IS DISTINCT FROM 'false'
      AND NOT EXISTS (SELECT FROM pairs WHERE pairs.relation = other.conrelid AND pairs.new_number = ANY (other.conkey))

    -- Dropping the old column would drop the index.
    UNION
    SELECT format('%s depends on %s', pg_describe_object(depend.classid, depend.objid, depend.objsubid),
                  pg_describe_object('pg_class'::regclass, index.indexrelid, 0)),
           'Drop these objects, or the columns from the INCLUDE list of the index. Create them again when the columns have been '
           'replaced.'
    FROM pairs
    JOIN pg_index AS index ON index.indrelid = pairs.relation AND pairs.old_number = ANY (index.indkey::int2[])
    LEFT JOIN pg_constraint AS key ON key.conindid = index.indexrelid AND key.contype IN ('p', 'u')
    JOIN pg_depend AS depend
      ON depend.deptype = 'n'
     AND (depend.refclassid = 'pg_class'::regclass AND depend.refobjid = index.indexrelid
          OR depend.refclassid = 'pg_constraint'::regclass AND depend.refobjid = key.oid)
    WHERE NOT EXISTS (SELECT FROM foreign_keys
                      WHERE depend.classid = 'pg_constraint'::regclass AND depend.objid = foreign_keys.foreign_key)

    UNION
    SELECT format('%s depends on %s', pg_describe_object('pg_constraint'::regclass, other.oid, 0), pairs.description),
           'Drop these constraints, indexes and statistics. Create them again when the columns have been replaced.'
    FROM pairs
    JOIN pg_constraint AS other ON other.conrelid = pairs.relation AND pairs.old_number = ANY (other.conkey)
    WHERE (other.contype IN ('c', 'x')
           OR other.contype IN ('p', 'u') AND (other.condeferrable OR to_jsonb(other) ->> 'conperiod' = 'true'))
      -- Exclude the constraint that compares the columns.
      AND NOT coalesce(pairs.new_number = ANY (other.conkey), false)

    UNION
    SELECT format('%s depends on %s', pg_describe_object(depend.classid, depend.objid, 0), pairs.description),
           'Drop these constraints, indexes and statistics. Create them again when the columns have been replaced.'
    FROM pairs
    JOIN pg_depend AS depend
      ON depend.refclassid = 'pg_class'::regclass AND depend.refobjid = pairs.relation
     AND depend.refobjsubid = pairs.old_number
    LEFT JOIN pg_index AS index ON depend.classid = 'pg_class'::regclass AND index.indexrelid = depend.objid
    WHERE depend.classid = 'pg_statistic_ext'::regclass
       -- The column is used in an expression or in the predicate.
       OR position(format(':varattno %s ', pairs.old_number)
                   IN concat(index.indexprs::text, index.indpred::text)) > 0

    UNION
    SELECT format('%s has a security label', pairs.description), 'Remove the security labels of these columns.'
    FROM pairs
    JOIN pg_seclabel AS label
      ON label.classoid = 'pg_class'::regclass AND label.objoid = pairs.relation AND label.objsubid = pairs.old_number

    UNION
    SELECT format('%s is owned by %s', pg_describe_object('pg_class'::regclass, sequence.oid, 0), pairs.description),
           'Remove the owner (ALTER SEQUENCE ... OWNED BY NONE) or the identity (ALTER TABLE ... DROP IDENTITY).'
    FROM pairs
    JOIN pg_depend AS depend
      ON depend.classid = 'pg_class'::regclass AND depend.refclassid = 'pg_class'::regclass
     AND depend.refobjid = pairs.relation AND depend.refobjsubid = pairs.old_number
    JOIN pg_class AS sequence ON sequence.oid = depend.objid AND sequence.relkind = 'S'
    WHERE NOT pairs.is_adopted

    UNION
    SELECT format('%s does not allow you to create objects', pg_describe_object('pg_namespace'::regclass, class.relnamespace, 0)),
           'Grant the privilege: GRANT CREATE ON SCHEMA ... TO ...'
    FROM pairs
    JOIN pg_class AS class ON class.oid = pairs.relation
    WHERE NOT has_schema_privilege(class.relnamespace, 'CREATE')

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
    WHERE trigger.tgtype & 16 <> 0 AND trigger.tgfoid <> 'snowflake_internal.snowflake_adopt_copy()'::regprocedure
      AND trigger.tgenabled = ANY (CASE WHEN setting.fires_no_triggers THEN '{R,A}' ELSE '{O,A}' END::"char"[])

    -- Triggers of the same kind fire in the order of their names.
    UNION
    SELECT format('%s could change the row after trigger zz_snowflake_adopt',
                  pg_describe_object('pg_trigger'::regclass, trigger.oid, 0)),
           'Rename these triggers: ALTER TRIGGER ... RENAME TO ...'
    FROM pairs
    JOIN pg_trigger AS trigger ON trigger.tgrelid = pairs.relation AND NOT trigger.tgisinternal
    WHERE trigger.tgtype & 3 = 3 AND trigger.tgtype & 20 <> 0
      AND trigger.tgname::text COLLATE "C" >= 'zz_snowflake_adopt'
      AND trigger.tgfoid <> 'snowflake_internal.snowflake_adopt_copy()'::regprocedure

    UNION
    SELECT format('publication "%s" would publish the new columns of %s', publication.pubname,
                  pg_describe_object('pg_class'::regclass, pairs.relation, 0)),
           'Subscribers have no new columns. Remove the tables from the publications, or use snowflake_adopt().'
    FROM pairs
    JOIN pg_class AS class ON class.oid = pairs.relation
    JOIN pg_namespace AS namespace ON namespace.oid = class.relnamespace
    JOIN pg_publication_tables AS publication
      ON publication.schemaname = namespace.nspname AND publication.tablename = class.relname
     AND pairs.old_name = ANY (publication.attnames)

    -- Both foreign keys would change the row, one after the other.
    UNION
    SELECT format('%s cannot exist twice', pg_describe_object('pg_constraint'::regclass, definition.oid, 0)),
           'Change the action SET DEFAULT of these foreign keys, or use snowflake_adopt().'
    FROM foreign_keys
    JOIN pg_constraint AS definition ON definition.oid = foreign_keys.foreign_key
    WHERE 'd' IN (definition.confupdtype, definition.confdeltype)
       -- Since PostgreSQL 18.
       OR to_jsonb(definition) ->> 'conenforced' = 'false' OR to_jsonb(definition) ->> 'conperiod' = 'true'

    -- Validating NOT NULL relies on the constraint that was created together with the column.
    UNION
    SELECT format('%s became NOT NULL while it was being adopted', pairs.description),
           'Undo the change with ALTER TABLE ... ALTER COLUMN ... DROP NOT NULL.'
    FROM pairs
    JOIN pg_constraint AS proof
      ON proof.conrelid = pairs.relation AND proof.conname = pairs.new_name AND proof.contype = 'c'
    WHERE pairs.is_not_null AND pairs.new_number IS NOT NULL AND position('COALESCE' IN pg_get_constraintdef(proof.oid)) > 0;
$$;
COMMENT ON FUNCTION snowflake_internal.snowflake_adopt_online_obstacles(regclass, name) IS
    'obstacles to the steps, and the remedies, for snowflake_adopt_online()';
