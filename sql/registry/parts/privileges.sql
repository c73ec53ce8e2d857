-- Privileges --------------------------------------------------------------------------------------------

-- Revoke all privileges, because ALTER DEFAULT PRIVILEGES may have granted privileges on new objects.
FOR statement IN
    SELECT format('REVOKE ALL ON %s %s FROM %s', object.kind, object.name,
                  CASE WHEN acl.grantee = 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(acl.grantee)) END)
    FROM (
        SELECT 'SCHEMA', nspname::text, nspowner, coalesce(nspacl, acldefault('n', nspowner))
        FROM pg_namespace WHERE nspname = 'snowflake_registry'
        UNION ALL
        SELECT 'TABLE', oid::regclass::text, relowner, coalesce(relacl, acldefault('r', relowner))
        FROM pg_class WHERE relnamespace = 'snowflake_registry'::regnamespace AND relkind IN ('r', 'v')
        UNION ALL
        SELECT 'FUNCTION', oid::regprocedure::text, proowner, coalesce(proacl, acldefault('f', proowner))
        FROM pg_proc WHERE pronamespace = 'snowflake_registry'::regnamespace
    ) AS object (kind, name, owner, privileges),
    LATERAL aclexplode(object.privileges) AS acl
    WHERE acl.grantee <> object.owner
LOOP
    EXECUTE statement;
END LOOP;
GRANT USAGE ON SCHEMA snowflake_registry TO pg_monitor;
GRANT SELECT ON snowflake_registry.fleet, snowflake_registry.segments, snowflake_registry.status
    TO pg_monitor;
