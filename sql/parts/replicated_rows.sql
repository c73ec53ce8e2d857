-- What belongs to one server must not be replicated to another one. Publications FOR ALL TABLES contain the tables of the
-- extension, and apply workers do not fire ordinary triggers. The triggers skip the rows of other servers instead of
-- raising an error, because an error would also stop the replication of the other tables of the subscription. TRUNCATE
-- cannot be skipped, and would remove the rows of this server.
--
-- A restore may also set session_replication_role. Only the workers of a subscription have a replication origin. By
-- default, only superusers may ask for it, so the function runs with the privileges of its owner.
CREATE FUNCTION snowflake_internal.leave_out() RETURNS trigger
    VOLATILE PARALLEL UNSAFE SECURITY DEFINER LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT pg_replication_origin_session_is_setup() THEN
        IF TG_OP = 'DELETE' THEN
            RETURN OLD;
        END IF;
        RETURN NEW;
    END IF;
    IF TG_OP = 'TRUNCATE' THEN
        RAISE EXCEPTION 'cannot truncate table "%" by replication', TG_TABLE_NAME
            USING ERRCODE = 'restrict_violation',
                  DETAIL = 'The rows belong to this server, and the command arrived in a subscription.',
                  HINT = 'Exclude the table from the publication, and then refresh the subscription on this server: '
                         'ALTER SUBSCRIPTION ... REFRESH PUBLICATION;';
    END IF;
    RAISE WARNING 'skipping row of another server'
        USING DETAIL = format('The row arrived in a subscription, by %s on table %I.%I.', TG_OP, TG_TABLE_SCHEMA, TG_TABLE_NAME),
              HINT = format('Exclude table %I.%I from the publication.', TG_TABLE_SCHEMA, TG_TABLE_NAME);
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION snowflake_internal.leave_out() IS
    'trigger function: skips rows that arrive in a subscription; internal';

-- Triggers for the same event fire in the order of their names. These fire first.
CREATE TRIGGER a_row_of_another_server BEFORE INSERT OR UPDATE OR DELETE ON snowflake_workers FOR EACH ROW
    WHEN (pg_catalog.current_setting('session_replication_role') OPERATOR(pg_catalog.=) 'replica')
    EXECUTE FUNCTION snowflake_internal.leave_out();
CREATE TRIGGER a_row_of_another_server BEFORE INSERT OR UPDATE OR DELETE ON snowflake_mask_keys FOR EACH ROW
    WHEN (pg_catalog.current_setting('session_replication_role') OPERATOR(pg_catalog.=) 'replica')
    EXECUTE FUNCTION snowflake_internal.leave_out();
CREATE TRIGGER a_row_of_another_server BEFORE INSERT OR UPDATE OR DELETE ON snowflake_internal.segment_grant FOR EACH ROW
    WHEN (pg_catalog.current_setting('session_replication_role') OPERATOR(pg_catalog.=) 'replica')
    EXECUTE FUNCTION snowflake_internal.leave_out();
CREATE TRIGGER another_server BEFORE TRUNCATE ON snowflake_workers
    WHEN (pg_catalog.current_setting('session_replication_role') OPERATOR(pg_catalog.=) 'replica')
    EXECUTE FUNCTION snowflake_internal.leave_out();
CREATE TRIGGER another_server BEFORE TRUNCATE ON snowflake_mask_keys
    WHEN (pg_catalog.current_setting('session_replication_role') OPERATOR(pg_catalog.=) 'replica')
    EXECUTE FUNCTION snowflake_internal.leave_out();
CREATE TRIGGER another_server BEFORE TRUNCATE ON snowflake_internal.segment_grant
    WHEN (pg_catalog.current_setting('session_replication_role') OPERATOR(pg_catalog.=) 'replica')
    EXECUTE FUNCTION snowflake_internal.leave_out();
ALTER TABLE snowflake_workers
    ENABLE ALWAYS TRIGGER a_row_of_another_server, ENABLE ALWAYS TRIGGER another_server;
ALTER TABLE snowflake_mask_keys
    ENABLE ALWAYS TRIGGER a_row_of_another_server, ENABLE ALWAYS TRIGGER another_server;
ALTER TABLE snowflake_internal.segment_grant
    ENABLE ALWAYS TRIGGER a_row_of_another_server, ENABLE ALWAYS TRIGGER another_server;
