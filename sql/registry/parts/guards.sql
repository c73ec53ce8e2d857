CREATE FUNCTION snowflake_registry.keep_the_past() RETURNS trigger
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'the registry must not forget what it has granted'
        USING ERRCODE = 'restrict_violation',
              DETAIL = format('After %s on table %I.%I, %s.', TG_OP, TG_TABLE_SCHEMA, TG_TABLE_NAME,
                              CASE WHEN TG_TABLE_NAME = 'segment_privilege' THEN 'no role would be limited to segments'
                                   ELSE 'the registry could grant a range twice' END),
              HINT = CASE
                  WHEN TG_TABLE_NAME = 'segment_privilege'
                  THEN 'To end the limits of a role: SELECT snowflake_registry.grant_all_segments(role);'
                  WHEN TG_TABLE_NAME = 'settings'
                  THEN 'To change settings: SELECT snowflake_registry.configure(...);'
                  WHEN TG_TABLE_NAME = 'segment'
                  THEN 'To drop a segment: SELECT snowflake_registry.drop_segment(name);'
                  ELSE 'Rows of worker IDs that no server holds need not be removed. To revoke the lease of a server: '
                       'SELECT snowflake_registry.revoke_lease(worker_id, datacenter_id);'
              END;
END
$$;
COMMENT ON FUNCTION snowflake_registry.keep_the_past() IS 'trigger function: rejects the change';
CREATE TRIGGER keep_the_end BEFORE UPDATE ON snowflake_registry.lease FOR EACH ROW
    WHEN (NEW.granted_until < OLD.granted_until OR NEW.worker_id <> OLD.worker_id
          OR NEW.datacenter_id <> OLD.datacenter_id
          -- A reservation for use by hand is permanent.
          OR OLD.is_reserved AND OLD.reserved_for IS NULL AND (NOT NEW.is_reserved OR NEW.reserved_for IS NOT NULL)
          OR NEW.used_until < OLD.used_until AND NEW.grant_count = OLD.grant_count
          OR NEW.released_until < OLD.released_until OR OLD.released_until IS NOT NULL AND NEW.released_until IS NULL)
    EXECUTE FUNCTION snowflake_registry.keep_the_past();
CREATE TRIGGER keep_the_row BEFORE DELETE ON snowflake_registry.lease FOR EACH ROW
    EXECUTE FUNCTION snowflake_registry.keep_the_past();
CREATE TRIGGER keep_the_table BEFORE TRUNCATE ON snowflake_registry.lease
    EXECUTE FUNCTION snowflake_registry.keep_the_past();
CREATE TRIGGER keep_the_end BEFORE UPDATE ON snowflake_registry.segment FOR EACH ROW
    WHEN (NEW.next_value < OLD.next_value OR OLD.ahead_value > greatest(NEW.next_value, NEW.ahead_value)
          OR NEW.name <> OLD.name)
    EXECUTE FUNCTION snowflake_registry.keep_the_past();
CREATE TRIGGER keep_the_row BEFORE DELETE ON snowflake_registry.segment FOR EACH ROW
    EXECUTE FUNCTION snowflake_registry.keep_the_past();
CREATE TRIGGER keep_the_table BEFORE TRUNCATE ON snowflake_registry.segment
    EXECUTE FUNCTION snowflake_registry.keep_the_past();
CREATE TRIGGER keep_the_row BEFORE UPDATE OR DELETE ON snowflake_registry.signing_key FOR EACH ROW
    EXECUTE FUNCTION snowflake_registry.keep_the_past();
CREATE TRIGGER keep_the_table BEFORE TRUNCATE ON snowflake_registry.signing_key
    EXECUTE FUNCTION snowflake_registry.keep_the_past();
CREATE TRIGGER keep_the_table BEFORE TRUNCATE ON snowflake_registry.segment_privilege
    EXECUTE FUNCTION snowflake_registry.keep_the_past();
CREATE TRIGGER keep_longest_lease BEFORE UPDATE ON snowflake_registry.settings FOR EACH ROW
    WHEN (NEW.longest_lease < OLD.longest_lease)
    EXECUTE FUNCTION snowflake_registry.keep_the_past();
CREATE TRIGGER keep_the_row BEFORE DELETE ON snowflake_registry.settings FOR EACH ROW
    EXECUTE FUNCTION snowflake_registry.keep_the_past();
CREATE TRIGGER keep_the_table BEFORE TRUNCATE ON snowflake_registry.settings
    EXECUTE FUNCTION snowflake_registry.keep_the_past();

-- The rows of another registry must not be stored here. They can arrive through a publication FOR ALL TABLES, and apply
-- workers do not fire ordinary triggers. The triggers skip these rows instead of raising an error, because an error
-- would also stop the replication of the other tables of the subscription.
CREATE FUNCTION snowflake_registry.leave_out() RETURNS trigger
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE WARNING 'skipping row of another registry'
        USING DETAIL = format('The row arrived by %s on table %I.%I while session_replication_role was replica, as in a subscription.',
                              TG_OP, TG_TABLE_SCHEMA, TG_TABLE_NAME),
              HINT = 'Exclude the tables of schema snowflake_registry from the publication.';
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION snowflake_registry.leave_out() IS 'trigger function: skips the row';
-- The names of these triggers sort before the names of the other triggers, so that these triggers fire first.
CREATE TRIGGER from_elsewhere BEFORE INSERT OR UPDATE OR DELETE ON snowflake_registry.settings FOR EACH ROW
    WHEN (pg_catalog.current_setting('session_replication_role') = 'replica')
    EXECUTE FUNCTION snowflake_registry.leave_out();
CREATE TRIGGER from_elsewhere BEFORE INSERT OR UPDATE OR DELETE ON snowflake_registry.lease FOR EACH ROW
    WHEN (pg_catalog.current_setting('session_replication_role') = 'replica')
    EXECUTE FUNCTION snowflake_registry.leave_out();
CREATE TRIGGER from_elsewhere BEFORE INSERT OR UPDATE OR DELETE ON snowflake_registry.segment FOR EACH ROW
    WHEN (pg_catalog.current_setting('session_replication_role') = 'replica')
    EXECUTE FUNCTION snowflake_registry.leave_out();
CREATE TRIGGER from_elsewhere BEFORE INSERT OR UPDATE OR DELETE ON snowflake_registry.signing_key FOR EACH ROW
    WHEN (pg_catalog.current_setting('session_replication_role') = 'replica')
    EXECUTE FUNCTION snowflake_registry.leave_out();
CREATE TRIGGER from_elsewhere BEFORE INSERT OR UPDATE OR DELETE ON snowflake_registry.segment_privilege FOR EACH ROW
    WHEN (pg_catalog.current_setting('session_replication_role') = 'replica')
    EXECUTE FUNCTION snowflake_registry.leave_out();

-- The triggers above are enabled with ENABLE ALWAYS, so that they also fire in apply workers. After a data-only restore
-- with --disable-triggers, all triggers are enabled as ordinary triggers.
CREATE FUNCTION snowflake_registry.guards_off(OUT relation regclass, OUT name name) RETURNS SETOF record
STABLE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN QUERY
        SELECT guard.tgrelid::regclass, guard.tgname
        FROM pg_trigger AS guard
        WHERE guard.tgrelid IN ('snowflake_registry.settings'::regclass, 'snowflake_registry.lease'::regclass,
                                'snowflake_registry.segment'::regclass, 'snowflake_registry.signing_key'::regclass,
                                'snowflake_registry.segment_privilege'::regclass)
          AND guard.tgfoid IN ('snowflake_registry.keep_the_past()'::regprocedure,
                               'snowflake_registry.leave_out()'::regprocedure)
          AND guard.tgenabled <> 'A';
END
$$;
COMMENT ON FUNCTION snowflake_registry.guards_off() IS
    'guard triggers that are not enabled with ENABLE ALWAYS';

-- If another session holds a conflicting lock, this function does nothing, and a later call enables the triggers.
-- Therefore, renewals never wait for such a session.
CREATE FUNCTION snowflake_registry.switch_guards_on() RETURNS void
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    guard record;
BEGIN
    LOCK TABLE snowflake_registry.settings, snowflake_registry.lease, snowflake_registry.segment,
               snowflake_registry.signing_key, snowflake_registry.segment_privilege IN SHARE ROW EXCLUSIVE MODE NOWAIT;
    FOR guard IN SELECT * FROM snowflake_registry.guards_off() LOOP
        EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER %I', guard.relation, guard.name);
    END LOOP;
EXCEPTION WHEN lock_not_available OR object_in_use THEN
    NULL;
END
$$;
COMMENT ON FUNCTION snowflake_registry.switch_guards_on() IS 'enables the guard triggers with ENABLE ALWAYS';
PERFORM snowflake_registry.switch_guards_on();

-- DROP EXTENSION fails while a fleet or segments are in use, because views depend on the tables. PostgreSQL then
-- suggests CASCADE, which would drop the records of all grants. The event trigger raises a better error first. Only a
-- superuser can create an event trigger. Without the event trigger, PostgreSQL's error contains the name of the view,
-- which contains the name of the function to call. The event trigger does not prevent DROP ... CASCADE.
CREATE FUNCTION snowflake_registry.explain_drop() RETURNS event_trigger
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    -- The event trigger handles only a single statement that drops the extension, without CASCADE.
    is_meant CONSTANT boolean := current_query() ~* (
        '^[[:space:]]*drop[[:space:]]+extension[[:space:]]+(if[[:space:]]+exists[[:space:]]+)?([a-z0-9_"]+[[:space:]]*,[[:space:]]*)*'
        '"?snowflake_id_registry"?([[:space:]]*,[[:space:]]*[a-z0-9_"]+)*([[:space:]]+restrict)?[[:space:]]*;?[[:space:]]*$');
    guards name[];
BEGIN
    IF NOT is_meant THEN
        RETURN;
    END IF;
    SELECT array_agg(class.relname) INTO guards
    FROM pg_class AS class JOIN pg_namespace AS namespace ON namespace.oid = class.relnamespace
    WHERE namespace.nspname = 'snowflake_registry' AND class.relname IN (
        'the_fleet_is_in_use_call_end_fleet_first', 'segments_are_in_use_call_drop_segment_first');
    IF 'the_fleet_is_in_use_call_end_fleet_first' = ANY (guards) THEN
        RAISE EXCEPTION 'cannot drop the registry while its fleet is in use'
            USING ERRCODE = 'dependent_objects_still_exist',
                  DETAIL = 'The record of granted worker IDs would be lost. A new registry could grant the same worker IDs '
                           'again, and IDs would repeat.',
                  HINT = 'Stop the servers of the fleet, or revoke their leases: SELECT '
                         'snowflake_registry.revoke_lease(worker_id, datacenter_id); When view snowflake_registry.fleet shows '
                         'that all leases have ended: SELECT snowflake_registry.end_fleet(); Then drop the registry.';
    ELSIF guards IS NOT NULL THEN
        RAISE EXCEPTION 'cannot drop the registry while it has segments'
            USING ERRCODE = 'dependent_objects_still_exist',
                  DETAIL = 'The record of granted numbers would be lost. A new registry could grant the same numbers again.',
                  HINT = 'If the segments are no longer needed, drop them first: SELECT '
                         'snowflake_registry.drop_segment(name) FROM snowflake_registry.segments '
                         'WHERE state <> ''dropped'';';
    END IF;
END
$$;
COMMENT ON FUNCTION snowflake_registry.explain_drop() IS
    'event trigger function: raises an error with instructions if the registry is dropped while it is in use';
IF (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN
    CREATE EVENT TRIGGER snowflake_registry_in_use ON ddl_command_start
        WHEN TAG IN ('DROP EXTENSION') EXECUTE FUNCTION snowflake_registry.explain_drop();
    COMMENT ON EVENT TRIGGER snowflake_registry_in_use IS
        'raises an error with instructions if the registry is dropped while it is in use';
END IF;
