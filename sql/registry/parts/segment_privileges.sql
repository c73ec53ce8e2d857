-- Segments: privileges ----------------------------------------------------------------------------------

-- By default, a role that may call take() may take numbers of all segments. A role with rows in table segment_privilege
-- is limited to the segments in these rows.

-- SET ROLE does not change session_user. Limits of all roles of which the session is a member count, because a member
-- that does not inherit the privileges of a limited role could otherwise avoid the limit by SET ROLE.
--
-- The functions are VOLATILE, so that each query takes its snapshot after it has locked the table. A snapshot from before
-- the end of a command that rewrites the table, such as REPACK (CONCURRENTLY), would show the table empty.
CREATE FUNCTION snowflake_registry.is_limited() RETURNS boolean
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- take() runs as the owner of the registry. Superusers have the privileges of all roles.
    RETURN NOT pg_has_role(session_user, current_user, 'USAGE')
       AND EXISTS (
           SELECT FROM snowflake_registry.segment_privilege AS limited
           WHERE limited.name = '' AND pg_has_role(session_user, limited.role, 'MEMBER')
       );
END
$$;
COMMENT ON FUNCTION snowflake_registry.is_limited() IS
    'tests whether the session may take numbers only of the segments that were granted to its roles';

CREATE FUNCTION snowflake_registry.is_granted(name text) RETURNS boolean
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    RETURN EXISTS (
        SELECT FROM snowflake_registry.segment_privilege AS granted
        WHERE granted.name = is_granted.name AND pg_has_role(session_user, granted.role, 'USAGE')
    );
END
$$;
COMMENT ON FUNCTION snowflake_registry.is_granted(text) IS
    'tests whether a segment was granted to a role whose privileges the session has';

-- The reason may contain the name and numbers of a segment.
CREATE FUNCTION snowflake_registry.shown_reason(quarantine_reason text) RETURNS text
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN CASE WHEN quarantine_reason IS NULL THEN NULL
                WHEN snowflake_registry.is_limited() THEN 'commits may have been lost'
                ELSE left(quarantine_reason, 200) END;
END
$$;
COMMENT ON FUNCTION snowflake_registry.shown_reason(text) IS
    'reason for a quarantine, as the session may see it';

-- The rows of a dropped role limit no other role, unless PostgreSQL assigns the OID again after all OIDs have been used.
CREATE FUNCTION snowflake_registry.begin_privilege(name text, role regrole) RETURNS void
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM snowflake_registry.begin_call();
    IF name IS NULL OR role IS NULL THEN
        RAISE EXCEPTION 'name and role must not be null'
            USING ERRCODE = 'null_value_not_allowed',
                  HINT = 'Specify a segment and a role, for example: '
                         'SELECT snowflake_registry.grant_segment(''orders'', ''shop'');';
    ELSIF NOT EXISTS (SELECT FROM pg_roles WHERE oid = begin_privilege.role) THEN
        RAISE EXCEPTION 'role with OID % does not exist', role::oid
            USING ERRCODE = 'undefined_object', HINT = 'Specify the name of a role.';
    END IF;
    PERFORM snowflake_registry.check_name(name);
    DELETE FROM snowflake_registry.segment_privilege AS granted
    WHERE NOT EXISTS (SELECT FROM pg_roles WHERE pg_roles.oid = granted.role);
END
$$;
COMMENT ON FUNCTION snowflake_registry.begin_privilege(text, regrole) IS
    'starts a function that changes privileges: checks the arguments, and removes rows of dropped roles';

CREATE FUNCTION snowflake_registry.grant_segment(name text, role regrole) RETURNS void
VOLATILE PARALLEL UNSAFE SECURITY DEFINER LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM snowflake_registry.begin_privilege(grant_segment.name, grant_segment.role);
    INSERT INTO snowflake_registry.segment_privilege (name, role)
    VALUES ('', grant_segment.role), (grant_segment.name, grant_segment.role)
    ON CONFLICT DO NOTHING;
END
$$;
COMMENT ON FUNCTION snowflake_registry.grant_segment(text, regrole) IS
    'limits a role to the segments that were granted to it, and grants it a segment, which need not exist yet';

CREATE FUNCTION snowflake_registry.revoke_segment(name text, role regrole) RETURNS void
VOLATILE PARALLEL UNSAFE SECURITY DEFINER LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM snowflake_registry.begin_privilege(revoke_segment.name, revoke_segment.role);
    IF NOT EXISTS (
        SELECT FROM snowflake_registry.segment_privilege AS limited
        WHERE limited.name = '' AND limited.role = revoke_segment.role
    ) THEN
        RAISE EXCEPTION 'role % is not limited to segments', revoke_segment.role
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  DETAIL = 'grant_segment() was not called for this role.',
                  HINT = 'To limit the role, grant the segments that it may use: '
                         'SELECT snowflake_registry.grant_segment(name, role);';
    END IF;
    DELETE FROM snowflake_registry.segment_privilege AS granted
    WHERE granted.name = revoke_segment.name AND granted.role = revoke_segment.role;
END
$$;
COMMENT ON FUNCTION snowflake_registry.revoke_segment(text, regrole) IS
    'revokes a segment from a role, which stays limited to its other segments, even if there are none';

CREATE FUNCTION snowflake_registry.grant_all_segments(role regrole) RETURNS void
VOLATILE PARALLEL UNSAFE SECURITY DEFINER LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM snowflake_registry.begin_call();
    IF role IS NULL THEN
        RAISE EXCEPTION 'role must not be null'
            USING ERRCODE = 'null_value_not_allowed',
                  HINT = 'Specify a role, for example: SELECT snowflake_registry.grant_all_segments(''shop'');';
    END IF;
    DELETE FROM snowflake_registry.segment_privilege AS granted WHERE granted.role = grant_all_segments.role;
END
$$;
COMMENT ON FUNCTION snowflake_registry.grant_all_segments(regrole) IS
    'ends the limits of a role, which may then take numbers of all segments if it may call take()';
