-- A managed service may deny access to these facts. In this case, the values are always NULL.
CREATE FUNCTION snowflake_registry.place(
    OUT system_identifier bigint, OUT database_oid oid, OUT timeline int
)
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    BEGIN
        SELECT control.system_identifier INTO system_identifier FROM pg_control_system() AS control;
    EXCEPTION WHEN insufficient_privilege OR feature_not_supported OR undefined_function THEN
        NULL;
    END;
    SELECT oid INTO database_oid FROM pg_database WHERE datname = current_database();
    BEGIN
        -- pg_control_checkpoint() would show a promotion only after the next checkpoint.
        timeline := ('x' || left(pg_walfile_name(snowflake_registry.wal_position()), 8))::bit(32)::int;
    EXCEPTION WHEN insufficient_privilege OR feature_not_supported OR undefined_function THEN
        NULL;
    END;
END
$$;
COMMENT ON FUNCTION snowflake_registry.place() IS 'identifies the database cluster, the database and the timeline';

-- Every call starts with this function.
CREATE FUNCTION snowflake_registry.begin_call() RETURNS void
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF pg_is_in_recovery() THEN
        RAISE EXCEPTION 'cannot use the registry on a standby'
            USING ERRCODE = 'read_only_sql_transaction',
                  DETAIL = 'Only the primary grants worker IDs and numbers.',
                  HINT = 'Specify all servers of the registry in the connection string, and add '
                         'target_session_attrs=read-write.';
    ELSIF current_setting('transaction_read_only') = 'on' THEN
        RAISE EXCEPTION 'cannot use the registry in a read-only transaction'
            USING ERRCODE = 'read_only_sql_transaction',
                  HINT = format('ALTER ROLE %I SET default_transaction_read_only = off;', session_user);
    ELSIF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        RAISE EXCEPTION 'cannot use the registry at isolation level %',
            current_setting('transaction_isolation')
            USING ERRCODE = 'feature_not_supported',
                  DETAIL = 'Changes that other sessions commit before the function has acquired its locks would not be visible.',
                  HINT = format('ALTER ROLE %I SET default_transaction_isolation = ''read committed'';',
                                session_user);
    END IF;
    -- These settings are in effect until the transaction ends. SET options of the function would be reset before the
    -- commit.
    IF current_setting('synchronous_commit') IN ('off', 'local', 'remote_write') THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    PERFORM set_config('client_min_messages', 'warning', true),
            set_config('lock_timeout', '2s', true),
            set_config('idle_in_transaction_session_timeout', '5s', true);
END
$$;
COMMENT ON FUNCTION snowflake_registry.begin_call() IS
    'starts every function that changes tables of the registry: checks the transaction, and changes its settings';

-- Callers must call this function after all other changes of the row of table settings. The row contains the ID of the
-- transaction or subtransaction that wrote the row. In a copy of the row, xmin is the ID of the copying transaction.
CREATE FUNCTION snowflake_registry.sign_settings() RETURNS void
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    transaction_id CONSTANT numeric := pg_current_xact_id()::text::numeric;
    writer numeric;
BEGIN
    UPDATE snowflake_registry.settings
    SET (system_identifier, database_oid, timeline, server_started) = (
        SELECT here.system_identifier, here.database_oid, here.timeline, pg_postmaster_start_time()
        FROM snowflake_registry.place() AS here
    )
    RETURNING xmin::text::numeric INTO writer;
    -- The ID of a subtransaction is slightly higher than transaction_id.
    writer := transaction_id + mod(writer - mod(transaction_id, 4294967296) + 4294967296, 4294967296);
    UPDATE snowflake_registry.settings SET written_by = writer::text::xid8;
END
$$;
COMMENT ON FUNCTION snowflake_registry.sign_settings() IS
    'records where and by which transaction the settings were written';

-- Scans tables that only grow. An index would make each renewal more expensive. Therefore, the function is called only
-- if a loss is suspected.
CREATE FUNCTION snowflake_registry.is_fresh(renew_every interval) RETURNS boolean
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN coalesce(
        greatest((SELECT max(renewed_at) FROM snowflake_registry.lease),
                 (SELECT max(taken_at) FROM snowflake_registry.segment))
            BETWEEN clock_timestamp() - 3 * renew_every AND clock_timestamp() + interval '1 minute',
        false);
END
$$;
COMMENT ON FUNCTION snowflake_registry.is_fresh(interval) IS
    'tests whether the last renewal or the last grant of numbers is no older than three times renew_every';

-- Detects lost commits without tokens of servers.
CREATE FUNCTION snowflake_registry.lost_commits(
    OUT reason text, OUT has_moved boolean, OUT has_restarted boolean
)
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    known record;
    here snowflake_registry.settings;
BEGIN
    SELECT settings.*, settings.xmin AS writer INTO known FROM snowflake_registry.settings AS settings;
    IF NOT FOUND THEN
        has_moved := false;
        has_restarted := false;
        RETURN;
    END IF;
    has_restarted := pg_postmaster_start_time() IS DISTINCT FROM known.server_started;
    -- The cluster and the timeline only change between two starts. A standby that was promoted was started at another time
    -- than its primary.
    IF has_restarted THEN
        SELECT place.system_identifier, place.timeline INTO here.system_identifier, here.timeline
        FROM snowflake_registry.place() AS place;
    ELSE
        here.system_identifier := known.system_identifier;
        here.timeline := known.timeline;
    END IF;
    here.database_oid := (SELECT oid FROM pg_database WHERE datname = current_database());
    -- If the timeline is not available, each start may be a promotion.
    has_moved := here.timeline IS DISTINCT FROM known.timeline OR has_restarted AND here.timeline IS NULL;
    IF here.system_identifier IS DISTINCT FROM known.system_identifier THEN
        reason := format('the registry is now in another database cluster (system identifier %s, before %s)',
                         coalesce(here.system_identifier::text, 'unknown'),
                         coalesce(known.system_identifier::text, 'unknown'));
    ELSIF known.writer IS DISTINCT FROM known.written_by::xid THEN
        reason := 'the tables of the registry were restored from a dump, or its settings were changed manually';
    ELSIF here.database_oid IS DISTINCT FROM known.database_oid THEN
        reason := format('the registry is now in another database (OID %s, before %s), possibly a copy by CREATE DATABASE',
                         here.database_oid, coalesce(known.database_oid::text, 'unknown'));
    ELSIF has_moved AND NOT (known.synchronous AND snowflake_registry.is_fresh(known.renew_every)) THEN
        reason := CASE
            WHEN here.timeline IS NULL AND known.timeline IS NULL
            THEN 'the server was started, and its timeline is not available: a standby may have been promoted'
            ELSE format('a standby was promoted, or a backup was restored (timeline %s, before %s)',
                        coalesce(here.timeline::text, 'unknown'), coalesce(known.timeline::text, 'unknown'))
        END;
    ELSIF EXISTS (SELECT FROM snowflake_registry.guards_off()) THEN
        reason := 'the guards of the registry were switched off, so its tables may have been changed';
    END IF;
END
$$;
COMMENT ON FUNCTION snowflake_registry.lost_commits() IS
    'reason to assume that commits were lost, or NULL';
