-- The registry that replaces this one ---------------------------------------------------------------------

CREATE FUNCTION snowflake_registry.exact(instant timestamptz) RETURNS text
STABLE PARALLEL SAFE LANGUAGE sql
RETURN to_char(instant AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US') || '+00';
COMMENT ON FUNCTION snowflake_registry.exact(timestamptz) IS 'formats a time in UTC with all digits, as input of timestamptz';

-- Returns statements that create a segment with the settings of this one, and that continue its numbers.
CREATE FUNCTION snowflake_registry.script_for_segment(stored snowflake_registry.segment) RETURNS SETOF text
STABLE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    segment CONSTANT snowflake_registry.segment := snowflake_registry.segment_at(stored, clock_timestamp());
    -- No number is left above the largest bigint. alter_segment() cannot express this, unless max_value is lower.
    continues CONSTANT bigint := least(segment.next_value, 9223372036854775807);
    -- least() would ignore NULL.
    ahead CONSTANT bigint := CASE WHEN segment.ahead_value <= 9223372036854775807 THEN segment.ahead_value
                                  WHEN segment.ahead_value IS NOT NULL THEN 9223372036854775807 END;
    highest CONSTANT bigint := CASE WHEN greatest(segment.next_value, segment.ahead_value) > 9223372036854775807 THEN least(segment.max_value, 9223372036854775806)
                                    ELSE segment.max_value END;
    -- Otherwise, the other registry would have to set max_value below the numbers of its period.
    is_over CONSTANT boolean := segment.period IS NOT NULL AND segment.next_value > segment.max_value;
BEGIN
    RETURN NEXT format(
        'SELECT snowflake_registry.create_segment(%L, start => %s, increment => %s, min_step => %s, max_step => %s%s%s);',
        segment.name, segment.start, segment.increment, segment.min_step, segment.max_step,
        CASE WHEN segment.period IS NULL THEN ''
             ELSE format(', period => %L, digits => %s, time_zone => %L', segment.period, segment.digits, segment.time_zone) END,
        CASE WHEN segment.description IS NULL THEN '' ELSE format(', description => %L', segment.description) END);
    -- In a later period, the new segment already starts above all numbers of this one.
    RETURN NEXT format(
        'SELECT snowflake_registry.alter_segment(name, next_value => %s) FROM snowflake_registry.segments '
        'WHERE name = %L AND next_value < %s;', continues, segment.name, continues);
    IF ahead IS NOT NULL THEN
        -- The other registry skips numbers of the next period that another registry has granted. If it does not, for example
        -- because its clock shows an earlier period, the segment continues in that period.
        RETURN NEXT format(
            'SELECT name, outcome FROM snowflake_registry.take_local(%L);',
            jsonb_build_object('protocol', (snowflake_registry.protocols()).lowest, 'registry', NULL, 'tokens', '[]'::jsonb,
                               'requests', jsonb_build_array(jsonb_build_object(
                                   'name', segment.name, 'report', true, 'registry_id', NULL, 'had_until', ahead - 1))));
        RETURN NEXT format(
            'SELECT snowflake_registry.alter_segment(name, next_value => %s) FROM snowflake_registry.segments '
            'WHERE name = %L AND coalesce(resume_at, 0) < %s;', ahead, segment.name, ahead);
    END IF;
    IF is_over THEN
        RETURN NEXT '-- All periods up to max_value have ended, so that the segment is dropped.';
    ELSIF highest < 9223372036854775807 THEN
        RETURN NEXT format('SELECT snowflake_registry.alter_segment(%L, max_value => %s);', segment.name, highest);
    END IF;
    IF segment.dropped_at IS NOT NULL OR is_over THEN
        RETURN NEXT format('SELECT snowflake_registry.drop_segment(%L);', segment.name);
    END IF;
END
$$;
COMMENT ON FUNCTION snowflake_registry.script_for_segment(snowflake_registry.segment) IS
    'statements for another registry that continue a segment';

-- The privileges of this registry that were granted to roles, with the statement that grants each.
CREATE FUNCTION snowflake_registry.script_for_privileges(OUT grantee oid, OUT statement text) RETURNS SETOF record
STABLE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN QUERY
        SELECT acl.grantee,
               format('GRANT %s ON %s %s TO %s%s;', acl.privilege_type, object.kind, object.name,
                      CASE WHEN acl.grantee = 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(acl.grantee)) END,
                      CASE WHEN acl.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END)
        FROM (
            SELECT 1, 'SCHEMA', nspname::text, nspowner, nspacl
            FROM pg_namespace WHERE nspname = 'snowflake_registry'
            UNION ALL
            SELECT 2, 'TABLE', oid::regclass::text, relowner, relacl
            FROM pg_class WHERE relnamespace = 'snowflake_registry'::regnamespace AND relkind IN ('r', 'v')
            UNION ALL
            SELECT 3, 'FUNCTION', oid::regprocedure::text, proowner, proacl
            FROM pg_proc WHERE pronamespace = 'snowflake_registry'::regnamespace
        ) AS object (position, kind, name, owner, privileges),
        LATERAL aclexplode(object.privileges) AS acl
        -- Each registry grants privileges to pg_monitor.
        WHERE acl.grantee NOT IN (object.owner, 'pg_monitor'::regrole)
        ORDER BY pg_get_userbyid(acl.grantee)::text COLLATE "C", object.position, object.name COLLATE "C", acl.privilege_type;
END
$$;
COMMENT ON FUNCTION snowflake_registry.script_for_privileges() IS
    'privileges of this registry, each with the statement for another registry that grants it';

-- The script is one transaction, so that half of it changes nothing. If it is run again, it fails if there are segments, or if
-- the new registry has leased a worker ID. Otherwise, it only starts a new quarantine, and adds reports.
CREATE FUNCTION snowflake_registry.script_for_another_registry() RETURNS SETOF text
VOLATILE PARALLEL UNSAFE SECURITY DEFINER LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    registry CONSTANT snowflake_registry.settings := snowflake_registry.begin_request();
    furthest CONSTANT timestamptz := statement_timestamp() + interval '24 hours';
    -- Roles that add_server() creates.
    servers CONSTANT oid[] := ARRAY(
        SELECT role.oid
        FROM pg_proc AS function, LATERAL aclexplode(function.proacl) AS acl, pg_roles AS role
        WHERE function.oid = 'snowflake_registry.check_server(jsonb)'::regprocedure
          AND role.oid = acl.grantee AND role.oid <> function.proowner AND role.rolcanlogin AND NOT role.rolsuper);
    others text;
    closed text;
    last_end timestamptz;
    stored snowflake_registry.segment;
BEGIN
    SELECT string_agg(snowflake_registry.name_in_words(segment.name), ', ') INTO closed
    FROM (SELECT name FROM snowflake_registry.segment WHERE closed_reason IS NOT NULL ORDER BY name LIMIT 5) AS segment;
    IF NOT coalesce(isfinite(registry.frozen_until), false) OR registry.waits > '0' OR closed IS NOT NULL THEN
        RAISE EXCEPTION 'another registry cannot continue this registry yet'
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  DETAIL = CASE
                      WHEN registry.waits > '0' THEN snowflake_registry.quarantine_detail(registry)
                      WHEN closed IS NOT NULL
                      THEN format('It is not known which numbers of closed segments were granted: %s.', closed)
                      ELSE 'This registry is not frozen until a time, and may still grant worker IDs and numbers.' END,
                  HINT = CASE
                      WHEN registry.waits > '0' THEN snowflake_registry.hint_of_quarantine()
                      WHEN closed IS NOT NULL
                      THEN 'To open a segment: SELECT snowflake_registry.resume_segment(name, next_value); To open a segment that was '
                           'dropped, create it again first. If no commits were lost: SELECT snowflake_registry.resume_segments();'
                      ELSE 'Specify the time by which the move will have ended: '
                           'SELECT snowflake_registry.freeze(until);' END;
    END IF;
    SELECT greatest(max(lease.granted_until), registry.frozen_until) INTO last_end
    FROM snowflake_registry.lease AS lease WHERE lease.grant_count > 0;
    IF registry.is_started AND last_end > furthest THEN
        RAISE EXCEPTION 'another registry cannot continue this registry yet'
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  DETAIL = format('The last lease may end at %s. start_fleet() accepts a time at most 24 hours ahead.',
                                  snowflake_registry.in_words(last_end)),
                  HINT = CASE
                      WHEN registry.frozen_until > furthest
                      THEN 'Freeze the registry until an earlier time: SELECT snowflake_registry.freeze(until);'
                      ELSE 'Wait until the time is less than 24 hours ahead.' END;
    END IF;

    RETURN NEXT format('-- Registry %s, which extends no lease beyond %s.', registry.registry_id,
                       snowflake_registry.exact(registry.frozen_until));
    RETURN NEXT '-- Run this script with psql in the database of the other registry, as the owner of that registry.';
    SELECT string_agg(snowflake_registry.name_in_words(role.rolname), ', ' ORDER BY role.rolname) INTO others
    FROM pg_roles AS role
    WHERE role.oid <> ALL (servers)
      AND (role.oid IN (SELECT granted.grantee FROM snowflake_registry.script_for_privileges() AS granted)
           OR role.oid IN (SELECT limited.role FROM snowflake_registry.segment_privilege AS limited)
           OR role.rolname IN (SELECT lease.reserved_for FROM snowflake_registry.lease AS lease));
    IF others IS NOT NULL THEN
        RETURN NEXT '-- The script does not create these roles, which must exist: ' || others;
    END IF;
    RETURN NEXT 'BEGIN;';
    -- Quarantines last as long as the longest lease that was ever configured.
    RETURN NEXT format('SELECT snowflake_registry.configure(lease => ''%s s'');', extract(epoch FROM registry.longest_lease));
    RETURN NEXT format('SELECT snowflake_registry.configure(lease => ''%s s'', renew_every => ''%s s'', last_datacenter => %s, '
                       'witnesses => %s%s);', extract(epoch FROM registry.lease), extract(epoch FROM registry.renew_every),
                       registry.last_datacenter, registry.witnesses::text,
                       CASE WHEN registry.first_worker IS NULL THEN ''
                            ELSE format(', first_worker => %s, last_worker => %s', registry.first_worker, registry.last_worker) END);
    IF registry.synchronous THEN
        RETURN NEXT '-- This registry has a synchronous standby. If the other one has, too: configure(synchronous => true).';
    END IF;
    RETURN QUERY
        SELECT CASE WHEN lease.reserved_for IS NOT NULL THEN '-- The role for which this worker ID was reserved does not exist.'
                    || chr(10) ELSE '' END
            || format('SELECT snowflake_registry.reserve(%s, %s%s);', lease.worker_id, lease.datacenter_id,
                      CASE WHEN lease.note IS NULL THEN '' ELSE ', note => ' || quote_literal(lease.note) END)
        FROM snowflake_registry.lease AS lease
        WHERE lease.is_reserved AND NOT EXISTS (SELECT FROM pg_roles WHERE rolname = lease.reserved_for)
        ORDER BY lease.datacenter_id, lease.worker_id;
    RETURN QUERY
        SELECT format('SELECT snowflake_registry.mark_leased(%L, %s);', array_agg(lease.worker_id ORDER BY lease.worker_id),
                      lease.datacenter_id)
        FROM snowflake_registry.lease AS lease WHERE lease.grant_count > 0 OR lease.was_leased
        GROUP BY lease.datacenter_id ORDER BY lease.datacenter_id;
    RETURN QUERY
        SELECT CASE WHEN lease.is_reserved OR lease.grant_count > 0 OR lease.was_leased THEN ''
                    ELSE '-- A server has reported that it sets this worker ID by hand. If none does now, remove the next line.'
                        || chr(10) END
            || format('SELECT snowflake_registry.mark_by_hand(%s, %s, %L);', lease.worker_id, lease.datacenter_id,
                      lease.said_by_hand)
        FROM snowflake_registry.lease AS lease WHERE lease.said_by_hand IS NOT NULL
        ORDER BY lease.datacenter_id, lease.worker_id;

    FOR stored IN SELECT * FROM snowflake_registry.segment ORDER BY name LOOP
        RETURN QUERY SELECT * FROM snowflake_registry.script_for_segment(stored);
    END LOOP;
    IF registry.is_started THEN
        RETURN NEXT format('-- This grants worker IDs after a wait of %s minutes. If you run it after %s, servers without a lease '
                           'wait for longer than until the end of the freeze.',
                           ceil(extract(epoch FROM registry.longest_lease + interval '2 minutes') / 60),
                           snowflake_registry.in_words(registry.frozen_until - registry.longest_lease - interval '2 minutes'));
        RETURN NEXT '-- You can reduce the pool, but it must contain no worker ID that is outside the pool of this registry.';
        RETURN NEXT format('SELECT snowflake_registry.start_fleet(first_worker => %s, last_worker => %s, not_before => %L);',
                           registry.first_worker, registry.last_worker, snowflake_registry.exact(last_end));
    END IF;
    -- After start_fleet(), the time from which a new spare can be used is not before the end of all leases.
    RETURN QUERY
        SELECT format('SELECT snowflake_registry.add_server(%L, takes_numbers => %s, connection_limit => %s) '
                      'WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = %L);',
                      role.rolname, has_function_privilege(role.oid, 'snowflake_registry.take(jsonb)', 'EXECUTE')::text,
                      role.rolconnlimit, role.rolname)
        FROM pg_roles AS role WHERE role.oid = ANY (servers)
        ORDER BY role.rolname::text COLLATE "C";
    RETURN QUERY
        SELECT format('SELECT snowflake_registry.reserve(%s, %s, used_by => %L%s);', lease.worker_id, lease.datacenter_id,
                      quote_ident(lease.reserved_for),
                      CASE WHEN lease.note IS NULL THEN '' ELSE ', note => ' || quote_literal(lease.note) END)
        FROM snowflake_registry.lease AS lease
        WHERE lease.is_reserved AND EXISTS (SELECT FROM pg_roles WHERE rolname = lease.reserved_for)
        ORDER BY lease.datacenter_id, lease.worker_id;
    -- A role that is limited to no segment at all gets one, and loses it.
    RETURN QUERY
        SELECT format('SELECT snowflake_registry.%s(%L, %L);', call.function, coalesce(granted.name, '-'), limited.role)
        FROM snowflake_registry.segment_privilege AS limited
             JOIN pg_roles ON pg_roles.oid = limited.role
             LEFT JOIN snowflake_registry.segment_privilege AS granted
                 ON granted.role = limited.role AND granted.name <> ''
             JOIN (VALUES ('grant_segment'), ('revoke_segment')) AS call (function)
                 ON call.function = 'grant_segment' OR granted.name IS NULL
        WHERE limited.name = ''
        ORDER BY limited.role::text COLLATE "C", granted.name, call.function;
    RETURN QUERY SELECT granted.statement FROM snowflake_registry.script_for_privileges() AS granted;
    RETURN NEXT 'COMMIT;';
    RETURN NEXT '-- Then set snowflake_id.registry of each server and of its standbys to the other registry. When the freeze has '
        'ended, call end_fleet() on this registry.';
END
$$;
COMMENT ON FUNCTION snowflake_registry.script_for_another_registry() IS
    'script for another registry that replaces this frozen registry: continues its settings, worker IDs and segments';
