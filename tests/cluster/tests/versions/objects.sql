-- The members of an extension with definition, comment, owner and privileges. Relations are described by their columns,
-- constraints, indexes, triggers and options. Nothing depends on OIDs or on the order of creation.
WITH member AS (
    SELECT classid, objid
    FROM pg_depend
    WHERE refclassid = 'pg_extension'::regclass AND deptype = 'e'
      AND refobjid = (SELECT oid FROM pg_extension WHERE extname = $1::text)
),
described AS (
    SELECT pg_describe_object(classid, objid, 0) AS object, obj_description(objid, classid::regclass::text::name) AS comment,
           classid, objid
    FROM member
),
privileges (classid, objid, acl) AS (
    SELECT 'pg_proc'::regclass::oid, oid, coalesce(proacl, acldefault('f', proowner)) FROM pg_proc
    UNION ALL
    SELECT 'pg_class'::regclass::oid, oid, coalesce(relacl, acldefault(CASE relkind WHEN 'S' THEN 's' ELSE 'r' END::"char", relowner))
    FROM pg_class
    UNION ALL
    SELECT 'pg_namespace'::regclass::oid, oid, coalesce(nspacl, acldefault('n', nspowner)) FROM pg_namespace
    UNION ALL
    SELECT 'pg_type'::regclass::oid, oid, coalesce(typacl, acldefault('T', typowner)) FROM pg_type
)
SELECT concat_ws(E'\n  ', object, 'comment: ' || comment,
    CASE WHEN classid = 'pg_proc'::regclass THEN pg_get_functiondef(objid) END,
    (SELECT string_agg(concat_ws(' ', acl.grantor::regrole, acl.grantee::regrole, acl.privilege_type), ', '
                       ORDER BY acl.grantee::regrole::text, acl.privilege_type)
     FROM privileges, LATERAL aclexplode(privileges.acl) AS acl
     WHERE (privileges.classid, privileges.objid) = (described.classid, described.objid)),
    CASE WHEN classid = 'pg_class'::regclass THEN concat_ws(E'\n  ',
        (SELECT concat_ws(' ', relkind, relpersistence, reloptions, pg_get_viewdef(objid)) FROM pg_class WHERE oid = objid),
        (SELECT string_agg(concat_ws(' ', attnum, attname, format_type(atttypid, atttypmod), attcollation::regcollation,
                                     attnotnull, pg_get_expr(adbin, adrelid), col_description(objid, attnum)), E'\n  ' ORDER BY attnum)
         FROM pg_attribute LEFT JOIN pg_attrdef ON (adrelid, adnum) = (attrelid, attnum)
         WHERE attrelid = objid AND attnum > 0 AND NOT attisdropped),
        (SELECT string_agg(conname || ' ' || pg_get_constraintdef(oid), E'\n  ' ORDER BY conname)
         FROM pg_constraint WHERE conrelid = objid),
        (SELECT string_agg(pg_get_indexdef(indexrelid), E'\n  ' ORDER BY indexrelid::regclass::text)
         FROM pg_index WHERE indrelid = objid),
        (SELECT string_agg(tgenabled::text || ' ' || pg_get_triggerdef(oid), E'\n  ' ORDER BY tgname)
         FROM pg_trigger WHERE tgrelid = objid AND NOT tgisinternal),
        (SELECT 'dumped ' || condition
         FROM pg_extension, unnest(extconfig, extcondition) AS dumped (relation, condition)
         WHERE extname = $1::text AND relation = objid)) END,
    CASE WHEN classid = 'pg_type'::regclass THEN (
        SELECT string_agg(concat_ws(' ', attname, format_type(atttypid, atttypmod)), ', ' ORDER BY attnum)
        FROM pg_type JOIN pg_attribute ON attrelid = typrelid
        WHERE pg_type.oid = objid AND attnum > 0 AND NOT attisdropped) END)
FROM described
ORDER BY 1
