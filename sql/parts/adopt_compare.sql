-- snowflake_adopt() and snowflake_adopt_online() compare all that the catalogs contain about the tables, before and after. The
-- lists below name the properties that may change. All others are compared, including those that a later version of
-- PostgreSQL adds.

-- snowflake_adopt_online() puts a remark in front of the comment of each constraint that is not checked again yet.
CREATE FUNCTION snowflake_internal.snowflake_adopt_old_comment(comment text) RETURNS text
IMMUTABLE PARALLEL SAFE LANGUAGE sql SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
    SELECT nullif(regexp_replace(comment, '^snowflake_adopt_online: not yet checked\.\n?', ''), '');
$$;
COMMENT ON FUNCTION snowflake_internal.snowflake_adopt_old_comment(text) IS
    'comment of a constraint without the remark of snowflake_adopt_online()';

-- Internal triggers on the referenced tables execute the actions of foreign keys, in the order of their names, which contain
-- OIDs. Only the owner of a table can rename its triggers.
CREATE FUNCTION snowflake_internal.snowflake_adopt_actions(relations oid[])
RETURNS TABLE (referenced oid, referencing oid, name name, function regproc, type smallint, trigger name)
STABLE PARALLEL SAFE LANGUAGE sql SET search_path = pg_catalog, pg_temp SET jit = off AS $$
    SELECT trigger.tgrelid, definition.conrelid, definition.conname, trigger.tgfoid, trigger.tgtype, trigger.tgname
    FROM pg_trigger AS trigger
    JOIN pg_constraint AS definition ON definition.oid = trigger.tgconstraint AND definition.contype = 'f'
    JOIN pg_class AS class ON class.oid = trigger.tgrelid
    JOIN pg_proc AS code ON code.oid = trigger.tgfoid
    -- Not the triggers on the referencing tables, which only check rows.
    WHERE code.proname !~ '^RI_FKey_check_'
      -- PostgreSQL refuses other names for the triggers of partitions.
      AND trigger.tgisinternal AND trigger.tgparentid = 0 AND trigger.tgrelid = ANY (relations)
      AND pg_has_role(class.relowner, 'USAGE');
$$;
COMMENT ON FUNCTION snowflake_internal.snowflake_adopt_actions(oid[]) IS
    'triggers that execute the actions of foreign keys, for snowflake_adopt() and snowflake_adopt_online()';

-- Gives the triggers of foreign keys that were created again the names that they had.
CREATE FUNCTION snowflake_internal.snowflake_adopt_restore_actions(relations oid[], former jsonb) RETURNS void
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql
-- Renaming the triggers of partitions raises notices.
SET search_path = pg_catalog, pg_temp SET client_min_messages = warning AS $$
DECLARE
    statement text;
BEGIN
    FOR statement IN
        SELECT format('ALTER TRIGGER %I ON %s RENAME TO %I', now.trigger, now.referenced::regclass, before.trigger)
        FROM snowflake_internal.snowflake_adopt_actions(relations) AS now
        JOIN jsonb_to_recordset(former)
            AS before (referenced oid, referencing oid, name name, function regproc, type smallint, trigger name)
            USING (referenced, referencing, name, function, type)
        WHERE now.trigger <> before.trigger
        ORDER BY now.referenced, before.trigger
    LOOP
        EXECUTE statement;
    END LOOP;
END
$$;
COMMENT ON FUNCTION snowflake_internal.snowflake_adopt_restore_actions(oid[], jsonb) IS
    'restores the order of the actions of foreign keys, for snowflake_adopt() and snowflake_adopt_online()';

-- A call such as f(id) can find another function when the type of the column changes, perhaps of another role. The functions
-- of pg_catalog are not listed, because nothing depends on them.
CREATE FUNCTION snowflake_internal.snowflake_adopt_calls(catalog regclass, object oid) RETURNS text
STABLE PARALLEL SAFE LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT string_agg(DISTINCT pg_describe_object(refclassid, refobjid, 0), ', ')
    FROM pg_depend
    WHERE classid = catalog AND objid = object AND refclassid IN ('pg_proc'::regclass, 'pg_operator'::regclass) AND deptype = 'n';
$$;
COMMENT ON FUNCTION snowflake_internal.snowflake_adopt_calls(regclass, oid) IS
    'functions and operators in the definition of an object, for snowflake_adopt_online()';

-- `widened` and `new_defaults` are columns, as OID of the table, a period, and name. If `casts_may_change`, the expressions in
-- indexes and constraints may contain other casts, because PostgreSQL parses them again for columns of type bigint.
CREATE FUNCTION snowflake_internal.snowflake_adopt_properties(
    relations oid[], widened text[], new_defaults text[], casts_may_change boolean
) RETURNS SETOF text
STABLE PARALLEL SAFE LANGUAGE sql SET search_path = pg_catalog, pg_temp SET jit = off
SET standard_conforming_strings = on SET extra_float_digits = 3 SET datestyle = 'ISO' SET intervalstyle = 'postgres' AS $$
    WITH casts (pattern) AS (
        SELECT CASE WHEN casts_may_change THEN '::(bigint|integer|smallint)|[()'']' ELSE '$^' END
    )
    SELECT format('table %s: %s', class.oid::regclass,
                  to_jsonb(class) - '{oid,reltype,relfilenode,relpages,reltuples,relallvisible,relallfrozen,relnatts,relchecks,
                                      relhasindex,relhastriggers,relhasrules,relfrozenxid,relminmxid,relrewrite,relacl,
                                      reltoastrelid}'::text[]
                  || jsonb_build_object(
                      'toast options', (SELECT toast.reloptions FROM pg_class AS toast WHERE toast.oid = class.reltoastrelid),
                      'privileges', (SELECT jsonb_agg(to_jsonb(acl) ORDER BY acl::text) FROM aclexplode(class.relacl) AS acl),
                      'comment', obj_description(class.oid, 'pg_class')))
    FROM pg_class AS class
    WHERE class.oid = ANY (relations)

    UNION ALL
    SELECT format('column %s.%s: %s', attribute.attrelid::regclass, attribute.attname,
                  to_jsonb(attribute)
                  - '{attrelid,attnum,attcacheoff,atthasmissing,attmissingval,attacl,attoptions}'::text[]
                  - CASE WHEN place.name = ANY (widened) THEN '{atttypid,attlen,attbyval,attalign}'::text[] ELSE '{}' END
                  - CASE WHEN place.name = ANY (new_defaults) THEN '{attidentity,atthasdef}'::text[] ELSE '{}' END
                  || jsonb_build_object(
                      'default', CASE WHEN place.name <> ALL (new_defaults) THEN pg_get_expr(expression.adbin, expression.adrelid) END,
                      'privileges', (SELECT jsonb_agg(to_jsonb(acl) ORDER BY acl::text) FROM aclexplode(attribute.attacl) AS acl),
                      'comment', col_description(attribute.attrelid, attribute.attnum),
                      -- ANALYZE of some versions stores an option of its own.
                      'options', (SELECT array_agg(option ORDER BY option) FROM unnest(attribute.attoptions) AS option
                                  WHERE NOT starts_with(option, 'pg_')),
                      'labels', (SELECT jsonb_agg(to_jsonb(label) - 'objsubid' ORDER BY label.provider)
                                 FROM pg_seclabel AS label
                                 WHERE label.classoid = 'pg_class'::regclass AND label.objoid = attribute.attrelid
                                   AND label.objsubid = attribute.attnum)))
    FROM pg_attribute AS attribute
    CROSS JOIN LATERAL concat(attribute.attrelid, '.', attribute.attname) AS place (name)
    LEFT JOIN pg_attrdef AS expression
      ON expression.adrelid = attribute.attrelid AND expression.adnum = attribute.attnum
    WHERE attribute.attrelid = ANY (relations) AND attribute.attnum > 0 AND NOT attribute.attisdropped
      AND attribute.attname !~ '^snowflake_new_\d+$'

    UNION ALL
    -- A foreign key that is not checked again yet has a comment that says so.
    SELECT format('constraint %s of %s: %s', kept.name, definition.conrelid::regclass,
                  to_jsonb(definition) - CASE WHEN kept.name IS NULL THEN 'conname' ELSE '' END
                  - '{oid,conrelid,confrelid,conindid,conparentid,conkey,confkey,conpfeqop,conppeqop,conffeqop,confdelsetcols,
                      conexclop,conbin,convalidated}'::text[]
                  || jsonb_build_object(
                      'definition', regexp_replace(regexp_replace(pg_get_constraintdef(definition.oid), ' NOT VALID$', ''),
                                                   casts.pattern, '', 'g'),
                      'calls', CASE WHEN NOT casts_may_change AND definition.contype = 'c'
                                    THEN snowflake_internal.snowflake_adopt_calls('pg_constraint', definition.oid) END,
                      'comment', snowflake_internal.snowflake_adopt_old_comment(note.text),
                      'is_valid', definition.convalidated OR coalesce(starts_with(note.text, 'snowflake_adopt_online: '), false)))
    FROM casts, pg_constraint AS definition
    CROSS JOIN LATERAL obj_description(definition.oid, 'pg_constraint') AS note (text)
    -- Since PostgreSQL 18, NOT NULL is a constraint. If a partition inherits it, ALTER TYPE gives it the name that it has in the
    -- parent.
    CROSS JOIN LATERAL (SELECT CASE WHEN definition.contype <> 'n' OR definition.conislocal THEN definition.conname END) AS kept (name)
    WHERE (definition.conrelid = ANY (relations) OR definition.confrelid = ANY (relations))
      AND definition.conname !~ '^snowflake_new_\d+(_some)?$'

    UNION ALL
    -- The triggers of constraints. The actions of foreign keys are in the order in which they are executed. Those of partitions
    -- have no order of their own.
    SELECT format('triggers of constraints of %s: %s', trigger.tgrelid::regclass,
                  jsonb_agg(jsonb_build_array(place.name, trigger.tgfoid::regproc, trigger.tgtype, trigger.tgenabled,
                                              trigger.tgdeferrable, trigger.tginitdeferred)
                            ORDER BY action.trigger::text COLLATE "C", place.name COLLATE "C", trigger.tgfoid, trigger.tgtype))
    FROM pg_trigger AS trigger
    JOIN pg_constraint AS definition ON definition.oid = trigger.tgconstraint
    CROSS JOIN LATERAL concat(definition.conrelid::regclass, '.', definition.conname) AS place (name)
    LEFT JOIN snowflake_internal.snowflake_adopt_actions(relations) AS action
      ON action.referenced = trigger.tgrelid AND action.trigger = trigger.tgname
    WHERE trigger.tgisinternal AND trigger.tgparentid = 0 AND trigger.tgrelid = ANY (relations)
    GROUP BY trigger.tgrelid

    UNION ALL
    SELECT format('trigger %s of %s: %s %s %s', trigger.tgname, trigger.tgrelid::regclass, pg_get_triggerdef(trigger.oid),
                  trigger.tgenabled, obj_description(trigger.oid, 'pg_trigger'))
    FROM pg_trigger AS trigger
    WHERE trigger.tgrelid = ANY (relations) AND NOT trigger.tgisinternal AND trigger.tgname !~ '^zz_snowflake_new_\d+$'

    UNION ALL
    SELECT format('index %s: %s %s %s', class.oid::regclass,
                  regexp_replace(pg_get_indexdef(class.oid), casts.pattern, '', 'g'),
                  to_jsonb(definition) - '{indexrelid,indrelid,indkey,indclass,indexprs,indpred,indcheckxmin}'::text[],
                  to_jsonb(class) - '{oid,relfilenode,relpages,reltuples,relallvisible,relallfrozen,relrewrite}'::text[]
                  || jsonb_build_object(
                      'calls', CASE WHEN NOT casts_may_change AND (definition.indexprs IS NOT NULL OR definition.indpred IS NOT NULL)
                                    THEN snowflake_internal.snowflake_adopt_calls('pg_class', class.oid) END,
                      'comment', obj_description(class.oid, 'pg_class'),
                      'columns', (SELECT jsonb_agg(jsonb_build_array(
                                      CASE WHEN NOT casts_may_change THEN attribute.attname END, attribute.attoptions, attribute.attstattarget,
                                                                     attribute.attcollation) ORDER BY attribute.attnum)
                                  FROM pg_attribute AS attribute WHERE attribute.attrelid = class.oid)))
    FROM casts, pg_index AS definition
    JOIN pg_class AS class ON class.oid = definition.indexrelid
    WHERE definition.indrelid = ANY (relations) AND class.relname !~ '^snowflake_new_\d+$'

    UNION ALL
    -- snowflake_adopt() drops the sequences of the columns that get another default.
    SELECT format('sequence %s: %s %s', class.oid::regclass, to_jsonb(definition) - '{seqrelid,seqtypid}'::text[],
                  to_jsonb(class) - '{oid,reltype,relfilenode,relpages,reltuples,relallvisible,relallfrozen,relrewrite,relacl}'::text[]
                  || jsonb_build_object(
                      'privileges', (SELECT jsonb_agg(to_jsonb(acl) ORDER BY acl::text)
                                     FROM aclexplode(coalesce(class.relacl, acldefault('s', class.relowner))) AS acl),
                      'comment', obj_description(class.oid, 'pg_class')))
    FROM pg_depend AS depend
    JOIN pg_class AS class ON class.oid = depend.objid AND class.relkind = 'S'
    JOIN pg_sequence AS definition ON definition.seqrelid = class.oid
    JOIN pg_attribute AS attribute ON attribute.attrelid = depend.refobjid AND attribute.attnum = depend.refobjsubid
    WHERE depend.classid = 'pg_class'::regclass AND depend.refclassid = 'pg_class'::regclass AND depend.refobjid = ANY (relations)
      AND concat(attribute.attrelid, '.', attribute.attname) <> ALL (new_defaults)

    UNION ALL
    SELECT format('statistics %s: %s', regexp_replace(pg_get_statisticsobjdef(statistics.oid), casts.pattern, '', 'g'),
                  to_jsonb(statistics) - '{oid,stxkeys,stxexprs}'::text[]
                  || jsonb_build_object('comment', obj_description(statistics.oid, 'pg_statistic_ext')))
    FROM casts, pg_statistic_ext AS statistics WHERE statistics.stxrelid = ANY (relations)
    UNION ALL
    SELECT format('rule %s', pg_get_ruledef(oid)) FROM pg_rewrite WHERE ev_class = ANY (relations)
    UNION ALL
    SELECT format('policy %s: %s %s', to_jsonb(policy) - '{oid,polqual,polwithcheck}'::text[],
                  pg_get_expr(policy.polqual, policy.polrelid), pg_get_expr(policy.polwithcheck, policy.polrelid))
    FROM pg_policy AS policy WHERE policy.polrelid = ANY (relations);
$$;
COMMENT ON FUNCTION snowflake_internal.snowflake_adopt_properties(oid[], text[], text[], boolean) IS
    'what the catalogs contain about tables and must not change, for snowflake_adopt() and snowflake_adopt_online()';

CREATE FUNCTION snowflake_internal.snowflake_adopt_compare(before text[], after text[]) RETURNS void
STABLE PARALLEL SAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    differences text;
BEGIN
    SELECT string_agg(sign || line, E'\n' ORDER BY line COLLATE "C", sign DESC) INTO differences
    FROM (
        SELECT '- ' AS sign, line FROM (SELECT unnest(before) EXCEPT SELECT unnest(after)) AS gone (line)
        UNION ALL
        SELECT '+ ', line FROM (SELECT unnest(after) EXCEPT SELECT unnest(before)) AS come (line)
    ) AS difference;
    IF differences IS NOT NULL THEN
        RAISE EXCEPTION 'the statements would change more than types and defaults'
            USING ERRCODE = 'feature_not_supported', DETAIL = differences,
                  HINT = 'Nothing was changed. Remove the property that DETAIL shows, repeat the call, and restore it.';
    END IF;
END
$$;
COMMENT ON FUNCTION snowflake_internal.snowflake_adopt_compare(text[], text[]) IS
    'raises an error if properties of tables differ, for snowflake_adopt() and snowflake_adopt_online()';

-- The tables that snowflake_adopt() changes or reads, and the columns whose types and defaults change. Widening a column also
-- recreates and rechecks its foreign keys, which concerns both the referencing and the referenced table, even if one of the
-- columns is already a bigint.
CREATE FUNCTION snowflake_internal.snowflake_adopt_compared(
    adopted_table regclass, adopted_column name, widens boolean, OUT relations oid[], OUT widened text[], OUT new_defaults text[]
)
STABLE PARALLEL SAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    WITH involved AS MATERIALIZED (
        SELECT *, concat(relation, '.', column_name) AS place
        FROM snowflake_internal.snowflake_adopt_columns(adopted_table, adopted_column, widens)
    ),
    concerned (relation) AS (
        SELECT relation FROM involved WHERE is_adopted OR NOT is_bigint
        UNION
        SELECT unnest(ARRAY[foreign_key.conrelid, foreign_key.confrelid])
        FROM involved
        JOIN pg_constraint AS foreign_key
          ON foreign_key.contype = 'f'
         AND (foreign_key.conrelid = involved.relation AND involved.column_number = ANY (foreign_key.conkey)
              OR foreign_key.confrelid = involved.relation AND involved.column_number = ANY (foreign_key.confkey))
        WHERE NOT involved.is_bigint
    )
    SELECT ARRAY(SELECT relation FROM concerned),
           ARRAY(SELECT place FROM involved WHERE NOT is_bigint),
           ARRAY(SELECT place FROM involved WHERE is_adopted)
    INTO relations, widened, new_defaults;
END
$$;
COMMENT ON FUNCTION snowflake_internal.snowflake_adopt_compared(regclass, name, boolean) IS
    'tables, and columns whose types and defaults change, for snowflake_adopt() and snowflake_adopt_online()';
