-- The segments of roles. See src/segment/privilege.rs.

-- One row for each role that is limited to some segments. A single row, rather than one row for each segment, is able
-- to represent a role that may use no segment.
CREATE TABLE snowflake_internal.segment_grant (
    role pg_catalog.regrole PRIMARY KEY,
    names pg_catalog.text[] NOT NULL
        CONSTRAINT segment_grant_names_are_not_null CHECK (pg_catalog.array_position(names, NULL) IS NULL)
);
COMMENT ON TABLE snowflake_internal.segment_grant IS
    'roles that are limited to some segments; use snowflake_segment_grant() to change the table';
COMMENT ON COLUMN snowflake_internal.segment_grant.role IS 'role that is limited';
COMMENT ON COLUMN snowflake_internal.segment_grant.names IS 'names of the segments that the role may use';
-- A dump contains the names of the roles. Rows of dropped roles would be restored with their OIDs, which may belong to other
-- roles.
SELECT pg_catalog.pg_extension_config_dump(
    'snowflake_internal.segment_grant',
    'WHERE EXISTS (SELECT FROM pg_catalog.pg_roles WHERE pg_roles.oid OPERATOR(pg_catalog.=) segment_grant.role)');

CREATE FUNCTION snowflake_internal.segment_grant_changed() RETURNS trigger
    VOLATILE PARALLEL UNSAFE LANGUAGE c AS 'MODULE_PATHNAME', 'snowflake_segment_grant_changed';
COMMENT ON FUNCTION snowflake_internal.segment_grant_changed() IS
    'makes all sessions read table segment_grant again; internal';
-- Changes by sessions that do not fire ordinary triggers must be noticed as well.
-- TRUNCATE needs no trigger, because it changes the definition of the table.
CREATE TRIGGER changed AFTER INSERT OR UPDATE OR DELETE ON snowflake_internal.segment_grant
    FOR EACH ROW EXECUTE FUNCTION snowflake_internal.segment_grant_changed();
ALTER TABLE snowflake_internal.segment_grant ENABLE ALWAYS TRIGGER changed;
COMMENT ON TRIGGER changed ON snowflake_internal.segment_grant IS
    'makes all sessions read the table again';

-- An administrator who is not a superuser needs only EXECUTE on these functions. They run with the privileges of their
-- owner, a superuser, so all names in them are qualified.
CREATE FUNCTION snowflake_segment_grant(name text, role regrole) RETURNS void
    VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    -- Servers send names in UTF8.
    bytes CONSTANT pg_catalog.int4 := pg_catalog.octet_length(pg_catalog.convert_to(snowflake_segment_grant.name, 'UTF8'));
BEGIN
    IF snowflake_segment_grant.name IS NULL OR snowflake_segment_grant.role IS NULL THEN
        RAISE EXCEPTION 'name and role must not be null'
            USING ERRCODE = 'null_value_not_allowed',
                  HINT = 'Specify a segment and a role, for example: SELECT snowflake_segment_grant(''orders'', ''shop'');';
    ELSIF bytes OPERATOR(pg_catalog.<) 1 OR bytes OPERATOR(pg_catalog.>) 255 THEN
        RAISE EXCEPTION 'invalid length of segment name'
            USING ERRCODE = 'invalid_parameter_value',
                  DETAIL = pg_catalog.format('The name has %s bytes. It must have 1 to 255 bytes.', bytes);
    END IF;
    -- The row of a dropped role has no effect.
    DELETE FROM snowflake_internal.segment_grant AS g
    WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_roles AS r WHERE r.oid OPERATOR(pg_catalog.=) g.role);
    INSERT INTO snowflake_internal.segment_grant AS g (role, names)
    VALUES (snowflake_segment_grant.role, ARRAY[snowflake_segment_grant.name])
    ON CONFLICT (role) DO UPDATE SET names = g.names OPERATOR(pg_catalog.||) excluded.names
    WHERE NOT g.names OPERATOR(pg_catalog.@>) excluded.names;
END
$$;
COMMENT ON FUNCTION snowflake_segment_grant(text, regrole) IS
    'allows a role to take numbers of a segment, and limits the role to the segments that were granted to it';

CREATE FUNCTION snowflake_segment_revoke(name text, role regrole) RETURNS void
    VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp LANGUAGE plpgsql AS $$
BEGIN
    IF snowflake_segment_revoke.name IS NULL OR snowflake_segment_revoke.role IS NULL THEN
        RAISE EXCEPTION 'name and role must not be null'
            USING ERRCODE = 'null_value_not_allowed',
                  HINT = 'Specify a segment and a role, for example: SELECT snowflake_segment_revoke(''orders'', ''shop'');';
    END IF;
    UPDATE snowflake_internal.segment_grant AS g
    SET names = pg_catalog.array_remove(g.names, snowflake_segment_revoke.name)
    WHERE g.role OPERATOR(pg_catalog.=) snowflake_segment_revoke.role;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'role "%" is not limited to segments', pg_catalog.pg_get_userbyid(snowflake_segment_revoke.role)
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  DETAIL = 'A role can take numbers of all segments until a segment is granted to it.',
                  HINT = 'Grant the segments that the role may use with snowflake_segment_grant(), or revoke EXECUTE on the functions.';
    END IF;
END
$$;
COMMENT ON FUNCTION snowflake_segment_revoke(text, regrole) IS
    'takes a segment back from a role; the role stays limited to its other segments';

CREATE FUNCTION snowflake_segment_grant_all(role regrole) RETURNS void
    VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp LANGUAGE plpgsql AS $$
BEGIN
    IF snowflake_segment_grant_all.role IS NULL THEN
        RAISE EXCEPTION 'role must not be null'
            USING ERRCODE = 'null_value_not_allowed',
                  HINT = 'Specify a role, for example: SELECT snowflake_segment_grant_all(''shop'');';
    END IF;
    DELETE FROM snowflake_internal.segment_grant AS g
    WHERE g.role OPERATOR(pg_catalog.=) snowflake_segment_grant_all.role;
END
$$;
COMMENT ON FUNCTION snowflake_segment_grant_all(regrole) IS
    'allows a role to take numbers of all segments again, as by default';
