-- Objects beside the tables: views of the columns, and columns that refer to them without a foreign key.

CREATE FUNCTION snowflake_internal.snowflake_adopt_grants(privileges aclitem[], only_column name, target text) RETURNS SETOF text
STABLE PARALLEL SAFE LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT format('GRANT %s%s ON %s TO %s%s;', privilege_type, ' (' || quote_ident(only_column) || ')', target,
                  CASE WHEN grantee = 0 THEN 'PUBLIC' ELSE grantee::regrole::text END,
                  CASE WHEN is_grantable THEN ' WITH GRANT OPTION' END)
    FROM aclexplode(privileges) ORDER BY grantee, privilege_type;
$$;
COMMENT ON FUNCTION snowflake_internal.snowflake_adopt_grants(aclitem[], name, text) IS
    'statements that grant privileges on a relation, or on one of its columns, for snowflake_adopt_online()';

-- Privileges of the owner can have been revoked, too. ALTER DEFAULT PRIVILEGES can give the new relation others.
CREATE FUNCTION snowflake_internal.snowflake_adopt_privileges(relation oid, creator regrole, target text) RETURNS SETOF text
STABLE PARALLEL SAFE LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    WITH class AS (SELECT * FROM pg_class WHERE oid = relation),
    holder (name) AS (
        SELECT unnest(ARRAY['PUBLIC', relowner::regrole::text]) FROM class WHERE relacl IS NOT NULL
        UNION
        SELECT CASE WHEN acl.grantee = 0 THEN 'PUBLIC' ELSE acl.grantee::regrole::text END
        FROM class
        JOIN pg_default_acl AS preset
          ON preset.defaclobjtype = CASE WHEN class.relkind = 'S' THEN 'S' ELSE 'r' END AND preset.defaclrole = creator
         AND preset.defaclnamespace IN (0, class.relnamespace)
        CROSS JOIN LATERAL aclexplode(preset.defaclacl) AS acl
        WHERE acl.grantee <> class.relowner
    )
    SELECT format('REVOKE ALL ON %s FROM %s;', target, string_agg(name, ', ' ORDER BY name)) FROM holder HAVING count(*) > 0
    UNION ALL
    SELECT snowflake_internal.snowflake_adopt_grants(relacl, NULL, target) FROM class;
$$;
COMMENT ON FUNCTION snowflake_internal.snowflake_adopt_privileges(oid, regrole, text) IS
    'statements that give a relation that was created again the privileges of the old one, for snowflake_adopt_online()';

-- The views that depend on columns to be replaced, directly or through other views, with all that they have. `depth` is the
-- number of views below, so a view with a greater depth is dropped first.
CREATE FUNCTION snowflake_internal.snowflake_adopt_views(adopted_table regclass, adopted_column name)
RETURNS TABLE (depth int, view oid, name text, drop_statement text, create_statements text[], problem text)
STABLE PARALLEL SAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET jit = off
SET standard_conforming_strings = on SET extra_float_digits = 3 SET datestyle = 'ISO' SET intervalstyle = 'postgres' AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH RECURSIVE dependent (view, depth) AS (
        SELECT rule.ev_class, 1
        FROM snowflake_internal.snowflake_adopt_columns(adopted_table, adopted_column, true) AS involved
        JOIN pg_depend AS depend
          ON depend.refclassid = 'pg_class'::regclass AND depend.refobjid = involved.relation
         AND depend.refobjsubid = involved.column_number AND depend.classid = 'pg_rewrite'::regclass
        JOIN pg_rewrite AS rule ON rule.oid = depend.objid AND rule.ev_class <> involved.relation
        WHERE NOT involved.is_bigint
        UNION
        SELECT rule.ev_class, dependent.depth + 1
        FROM dependent
        JOIN pg_depend AS depend
          ON depend.refclassid = 'pg_class'::regclass AND depend.refobjid = dependent.view
         AND depend.classid = 'pg_rewrite'::regclass
        JOIN pg_rewrite AS rule ON rule.oid = depend.objid AND rule.ev_class <> dependent.view
        -- Rules can form a cycle.
        WHERE dependent.depth < 100
    ),
    deepest AS (
        SELECT view, max(depth) AS depth FROM dependent GROUP BY view
    ),
    -- Roles that the caller trusts: see snowflake_adopt_check_owners(). Parsing the definition of a view can run code, such as
    -- the constraints of domains.
    trusted (owner) AS (
        SELECT quote_ident(current_user)::regrole::oid
        UNION
        SELECT class.relowner
        FROM snowflake_internal.snowflake_adopt_columns(adopted_table, adopted_column, true) AS involved
        JOIN pg_class AS class ON class.oid = involved.relation
        WHERE NOT involved.is_bigint
    )
    SELECT deepest.depth, deepest.view, place.name, format('DROP VIEW %s;', place.name),
           array_remove(
               ARRAY[
                   format('CREATE VIEW %s (%s)%s AS %s', place.name,
                          (SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum)
                           FROM pg_attribute WHERE attrelid = class.oid AND attnum > 0),
                          (SELECT ' WITH (' || string_agg(format('%I = %L', split_part(option, '=', 1), substr(option, strpos(option, '=') + 1)), ', ')
                           || ')' FROM unnest(class.reloptions) AS option),
                          pg_get_viewdef(class.oid)),
                   CASE WHEN class.relowner <> quote_ident(current_user)::regrole
                        THEN format('ALTER VIEW %s OWNER TO %s;', place.name, class.relowner::regrole) END
               ]
               || ARRAY(SELECT format('ALTER VIEW %s ALTER COLUMN %I SET DEFAULT %s;', place.name, attribute.attname,
                                      pg_get_expr(expression.adbin, expression.adrelid))
                        FROM pg_attrdef AS expression
                        JOIN pg_attribute AS attribute
                          ON attribute.attrelid = expression.adrelid AND attribute.attnum = expression.adnum
                        WHERE expression.adrelid = class.oid ORDER BY attribute.attnum)
               || ARRAY(SELECT pg_get_triggerdef(trigger.oid) || ';' FROM pg_trigger AS trigger
                        WHERE trigger.tgrelid = class.oid ORDER BY trigger.oid)
               || ARRAY(SELECT pg_get_ruledef(rule.oid) FROM pg_rewrite AS rule
                        WHERE rule.ev_class = class.oid AND rule.rulename <> '_RETURN' ORDER BY rule.oid)
               || ARRAY(SELECT snowflake_internal.snowflake_adopt_privileges(class.oid, quote_ident(current_user)::regrole, place.name))
               || ARRAY(SELECT snowflake_internal.snowflake_adopt_grants(attribute.attacl, attribute.attname, place.name)
                        FROM pg_attribute AS attribute WHERE attribute.attrelid = class.oid ORDER BY attribute.attnum)
               || ARRAY(SELECT concat('COMMENT', format(
                                   ' ON %s IS %L;',
                                   CASE WHEN note.objsubid = 0 THEN 'VIEW ' || place.name
                                        ELSE format('COLUMN %s.%I', place.name, attribute.attname) END,
                                   note.description))
                        FROM pg_description AS note
                        LEFT JOIN pg_attribute AS attribute
                          ON attribute.attrelid = class.oid AND attribute.attnum = note.objsubid
                        WHERE note.classoid = 'pg_class'::regclass AND note.objoid = class.oid ORDER BY note.objsubid)
               || ARRAY(SELECT concat('COMMENT', format(' ON %s ON %s IS %L;', part.name, place.name, part.comment))
                        FROM (
                            SELECT format('TRIGGER %I', tgname), obj_description(oid, 'pg_trigger') FROM pg_trigger WHERE tgrelid = class.oid
                            UNION ALL
                            SELECT format('RULE %I', rulename), obj_description(oid, 'pg_rewrite') FROM pg_rewrite WHERE ev_class = class.oid
                        ) AS part (name, comment)
                        WHERE part.comment IS NOT NULL ORDER BY part.name),
               NULL),
           CASE WHEN class.relkind <> 'v' THEN 'no view'
                WHEN class.relpersistence = 't' THEN 'temporary'
                WHEN class.relowner NOT IN (SELECT owner FROM trusted) THEN 'another owner'
                WHEN NOT has_schema_privilege(class.relnamespace, 'CREATE') THEN 'in a schema without the privilege CREATE'
                WHEN deepest.depth >= 100 THEN 'rules that form a cycle'
                WHEN EXISTS (SELECT FROM aclexplode(class.relacl) AS acl WHERE acl.grantor <> class.relowner)
                THEN 'other grantors'
                WHEN EXISTS (SELECT FROM pg_seclabel AS label WHERE label.classoid = 'pg_class'::regclass AND label.objoid = class.oid)
                THEN 'a security label'
                WHEN EXISTS (SELECT FROM pg_depend AS member
                             WHERE member.classid = 'pg_class'::regclass AND member.objid = class.oid AND member.deptype = 'e')
                THEN 'part of an extension' END
    FROM deepest
    JOIN pg_class AS class ON class.oid = deepest.view
    CROSS JOIN LATERAL (SELECT class.oid::regclass::text) AS place (name);
END
$$;
COMMENT ON FUNCTION snowflake_internal.snowflake_adopt_views(regclass, name) IS
    'views of columns to be replaced, and the statements that drop and create them, for snowflake_adopt_online()';

-- The properties of views that are dropped and created again, for comparison. Types and casts may differ.
CREATE FUNCTION snowflake_internal.snowflake_adopt_view_properties(views text[]) RETURNS SETOF text
STABLE PARALLEL SAFE LANGUAGE sql SET search_path = pg_catalog, pg_temp SET jit = off
SET standard_conforming_strings = on SET extra_float_digits = 3 SET datestyle = 'ISO' SET intervalstyle = 'postgres' AS $$
    WITH view AS (
        SELECT class.*, class.oid AS view, named.name
        FROM unnest(views) AS named (name) JOIN pg_class AS class ON class.oid = to_regclass(named.name)
    )
    SELECT format('view %s: %s %s', name, relowner::regrole,
                  jsonb_build_object(
                      'definition', regexp_replace(pg_get_viewdef(view), '::(bigint|integer|smallint)|[()'']', '', 'g'),
                      'options', (SELECT array_agg(option ORDER BY option) FROM unnest(reloptions) AS option),
                      'comment', obj_description(view, 'pg_class'),
                      'privileges', (SELECT jsonb_agg(to_jsonb(acl) ORDER BY acl::text)
                                     FROM aclexplode(coalesce(relacl, acldefault('r', relowner))) AS acl)))
    FROM view
    UNION ALL
    SELECT format('column %s of view %s: %s', attribute.attname, view.name,
                  jsonb_build_object(
                      'number', attribute.attnum, 'default', pg_get_expr(expression.adbin, expression.adrelid),
                      'comment', col_description(view.view, attribute.attnum),
                      'privileges', (SELECT jsonb_agg(to_jsonb(acl) ORDER BY acl::text) FROM aclexplode(attribute.attacl) AS acl)))
    FROM view
    JOIN pg_attribute AS attribute ON attribute.attrelid = view.view AND attribute.attnum > 0
    LEFT JOIN pg_attrdef AS expression ON expression.adrelid = view.view AND expression.adnum = attribute.attnum
    UNION ALL
    SELECT format('rule %s of view %s: %s %s %s %s', rule.rulename, view.name, rule.ev_enabled, rule.ev_type,
                  CASE WHEN rule.rulename <> '_RETURN' THEN pg_get_ruledef(rule.oid) END, obj_description(rule.oid, 'pg_rewrite'))
    FROM view JOIN pg_rewrite AS rule ON rule.ev_class = view.view
    UNION ALL
    -- A call such as f(id) must not find another function.
    SELECT format('rule %s of view %s calls %s', rule.rulename, view.name, snowflake_internal.snowflake_adopt_calls('pg_rewrite', rule.oid))
    FROM view JOIN pg_rewrite AS rule ON rule.ev_class = view.view
    UNION ALL
    SELECT format('trigger %s of view %s: %s %s %s', trigger.tgname, view.name, pg_get_triggerdef(trigger.oid), trigger.tgenabled,
                  obj_description(trigger.oid, 'pg_trigger'))
    FROM view JOIN pg_trigger AS trigger ON trigger.tgrelid = view.view;
$$;
COMMENT ON FUNCTION snowflake_internal.snowflake_adopt_view_properties(text[]) IS
    'what the catalogs contain about views and must not change, for snowflake_adopt_online()';

-- Columns that refer to the adopted column by their names: the singular or plural of the table with _id or _ids, or a pair such
-- as likeable_type and likeable_id (Rails) or content_type_id and object_id (Django). Rows are not read.
CREATE FUNCTION snowflake_internal.snowflake_adopt_unlinked(adopted_table regclass, adopted_column name)
RETURNS TABLE (statement text)
STABLE PARALLEL SAFE LANGUAGE sql SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
    WITH adopted (name, key) AS (
        SELECT lower(relname::text), lower(adopted_column::text) FROM pg_class WHERE oid = adopted_table
    ),
    -- posts, app_posts, categories, addresses
    singular (name) AS (
        SELECT form.name
        FROM adopted
        CROSS JOIN LATERAL (VALUES (adopted.name), (regexp_replace(adopted.name, '^.*_', ''))) AS word (name)
        CROSS JOIN LATERAL (VALUES (word.name), (regexp_replace(word.name, 's$', '')), (regexp_replace(word.name, 'ies$', 'y')),
                                   (regexp_replace(word.name, '(ss|sh|ch|x|z|us)es$', '\1'))) AS form (name)
        WHERE form.name <> ''
    ),
    wanted (name) AS (
        SELECT replace(singular.name || part.name, '_', '')
        FROM singular, adopted CROSS JOIN LATERAL (VALUES (adopted.key), ('id')) AS part (name)
        UNION
        SELECT replace(key, '_', '') FROM adopted WHERE key NOT IN ('id', 'key', 'nr', 'no', 'number')
    )
    SELECT format('ALTER TABLE %s ALTER COLUMN %I TYPE %s;', class.oid::regclass, attribute.attname,
                  CASE WHEN type.is_array THEN 'bigint[]' ELSE 'bigint' END)
    FROM pg_attribute AS attribute
    JOIN pg_class AS class ON class.oid = attribute.attrelid AND class.relkind IN ('r', 'p') AND NOT class.relispartition
    JOIN pg_namespace AS namespace ON namespace.oid = class.relnamespace
    CROSS JOIN LATERAL (SELECT attribute.atttypid IN ('int[]'::regtype, 'smallint[]'::regtype)) AS type (is_array)
    CROSS JOIN LATERAL (SELECT lower(attribute.attname::text), replace(lower(attribute.attname::text), '_', '')) AS own (name, plain)
    WHERE attribute.attnum > 0 AND NOT attribute.attisdropped
      AND (type.is_array OR attribute.atttypid IN ('int'::regtype, 'smallint'::regtype))
      AND class.oid >= 16384 AND namespace.nspname !~ '^(pg_|information_schema$)' AND class.relpersistence <> 't'
      AND attribute.attname !~ '^snowflake_new_\d+$'
      AND (own.plain IN (SELECT name FROM wanted UNION ALL SELECT name || 's' FROM wanted)
           -- parent_post_id
           OR own.name ~ '_ids?$' AND EXISTS (SELECT FROM singular
                                              WHERE own.name LIKE '%\_' || replace(singular.name, '_', '\_') || '\_id%')
           OR own.name ~ 'id$' AND EXISTS (
               SELECT FROM pg_attribute AS kind
               WHERE kind.attrelid = class.oid AND NOT kind.attisdropped
                 AND (kind.atttypid IN ('text'::regtype, 'varchar'::regtype)
                      AND lower(kind.attname::text) = regexp_replace(own.name, 'id$', 'type')
                      OR own.name = 'object_id' AND kind.attname = 'content_type_id')))
      AND NOT EXISTS (SELECT FROM pg_constraint AS foreign_key
                      WHERE foreign_key.contype = 'f' AND foreign_key.conrelid = class.oid
                        AND attribute.attnum = ANY (foreign_key.conkey))
      AND (class.oid, attribute.attname) <> (adopted_table, adopted_column)
    ORDER BY 1;
$$;
COMMENT ON FUNCTION snowflake_internal.snowflake_adopt_unlinked(regclass, name) IS
    'statements for columns that refer to an adopted column by name, without a foreign key, for snowflake_adopt()';

-- `is_warning` decides between WARNING and NOTICE.
CREATE FUNCTION snowflake_internal.snowflake_adopt_common_notes(adopted_table regclass, adopted_column name)
RETURNS TABLE (is_warning boolean, message text, detail text, hint text)
STABLE PARALLEL SAFE LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT true,
           format('subscription "%s" writes to tables whose columns become bigint: %s', subscription.subname,
                  string_agg(DISTINCT widened.relation_name, ', ' ORDER BY widened.relation_name)),
           'The subscription uses the binary format, which fails if a column is narrower on the publisher.',
           format('To use the text format: ALTER SUBSCRIPTION %I SET (binary = false);', subscription.subname)
    FROM snowflake_internal.snowflake_adopt_columns(adopted_table, adopted_column, true) AS widened
    JOIN pg_subscription_rel AS membership ON membership.srrelid = widened.relation
    JOIN pg_subscription AS subscription ON subscription.oid = membership.srsubid AND subscription.subbinary
    WHERE NOT widened.is_bigint
    GROUP BY subscription.subname

    UNION ALL
    SELECT false, format('columns may reference column "%s" without a foreign key', adopted_column),
           'These columns are of type int, and are not changed.', string_agg(statement, ' ' ORDER BY statement)
    FROM snowflake_internal.snowflake_adopt_unlinked(adopted_table, adopted_column)
    HAVING count(*) > 0;
$$;
COMMENT ON FUNCTION snowflake_internal.snowflake_adopt_common_notes(regclass, name) IS
    'notices and warnings of both snowflake_adopt() and snowflake_adopt_online()';
