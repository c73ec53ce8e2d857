-- A managed server may refuse to say; then it refuses always, and nothing has changed.
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
        -- pg_control_checkpoint() would know of a promotion only after the next checkpoint.
        timeline := ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int;
    EXCEPTION WHEN insufficient_privilege OR feature_not_supported OR undefined_function THEN
        NULL;
    END;
END
$$;
COMMENT ON FUNCTION snowflake_registry.place() IS 'the database cluster, the database and the timeline';

-- Every call begins here.
CREATE FUNCTION snowflake_registry.begin_call() RETURNS void
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF pg_is_in_recovery() THEN
        RAISE EXCEPTION 'this server is a standby of the registry'
            USING ERRCODE = 'read_only_sql_transaction',
                  DETAIL = 'Only the primary gives and renews identities.',
                  HINT = 'Name all servers of the registry in the connection string, and add '
                         'target_session_attrs=read-write.';
    ELSIF current_setting('transaction_read_only') = 'on' THEN
        RAISE EXCEPTION 'the registry was called in a read-only transaction'
            USING ERRCODE = 'read_only_sql_transaction',
                  HINT = format('ALTER ROLE %I SET default_transaction_read_only = off;', session_user);
    ELSIF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        RAISE EXCEPTION 'the registry was called at isolation level %',
            current_setting('transaction_isolation')
            USING ERRCODE = 'feature_not_supported',
                  DETAIL = 'What others did before it had its locks would not be seen.',
                  HINT = format('ALTER ROLE %I SET default_transaction_isolation = ''read committed'';',
                                session_user);
    END IF;
    -- Until the transaction ends: options of the function would be undone before the commit.
    IF current_setting('synchronous_commit') IN ('off', 'local', 'remote_write') THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    PERFORM set_config('client_min_messages', 'warning', true),
            set_config('lock_timeout', '2s', true),
            set_config('idle_in_transaction_session_timeout', '5s', true);
END
$$;
COMMENT ON FUNCTION snowflake_registry.begin_call() IS
    'for each function that changes something: is this a transaction for it?';

-- The last thing that is done to the settings in a transaction. The row as it is written bears the ID of this
-- (sub)transaction. A copy of the row bears that of whoever copied it.
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
    -- A savepoint has an ID of its own, a little higher.
    writer := transaction_id + mod(writer - mod(transaction_id, 4294967296) + 4294967296, 4294967296);
    UPDATE snowflake_registry.settings SET written_by = writer::text::xid8;
END
$$;
COMMENT ON FUNCTION snowflake_registry.sign_settings() IS
    'notes where and by which transaction the settings were written';

-- Reads tables that only grow, and for which an index would cost each renewal more: to be asked when
-- something is suspected.
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
    'whether the last renewal, or the last range, is as young as it is when nothing has failed';

-- Signs that what had been committed is gone, but for what tokens show.
CREATE FUNCTION snowflake_registry.lost_commits(
    OUT reason text, OUT has_moved boolean, OUT has_restarted boolean
)
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    known record;
    here record;
BEGIN
    SELECT settings.*, settings.xmin AS writer INTO known FROM snowflake_registry.settings AS settings;
    IF NOT FOUND THEN
        has_moved := false;
        has_restarted := false;
        RETURN;
    END IF;
    SELECT * INTO here FROM snowflake_registry.place();
    has_restarted := pg_postmaster_start_time() IS DISTINCT FROM known.server_started;
    -- Where the timeline is not to be had, each start may be a promotion.
    has_moved := here.timeline IS DISTINCT FROM known.timeline OR has_restarted AND here.timeline IS NULL;
    IF here.system_identifier IS DISTINCT FROM known.system_identifier THEN
        reason := format('it is in another database cluster now (system identifier %s, before %s)',
                         coalesce(here.system_identifier::text, 'unknown'),
                         coalesce(known.system_identifier::text, 'unknown'));
    ELSIF known.writer IS DISTINCT FROM known.written_by::xid THEN
        reason := 'its tables were restored from a dump, or the settings were changed by hand';
    ELSIF here.database_oid IS DISTINCT FROM known.database_oid THEN
        reason := format('it is in another database now (OID %s, before %s): a copy by CREATE DATABASE?',
                         here.database_oid, coalesce(known.database_oid::text, 'unknown'));
    ELSIF has_moved AND NOT (known.synchronous AND snowflake_registry.is_fresh(known.renew_every)) THEN
        reason := CASE
            WHEN here.timeline IS NULL AND known.timeline IS NULL
            THEN 'the server was started, and may not tell its timeline: a standby may have been promoted'
            ELSE format('a standby was promoted, or a backup restored (timeline %s, before %s)',
                        coalesce(here.timeline::text, 'unknown'), coalesce(known.timeline::text, 'unknown'))
        END;
    ELSIF EXISTS (SELECT FROM snowflake_registry.guards_off()) THEN
        reason := 'its guards were switched off, so that its tables may have been changed';
    END IF;
END
$$;
COMMENT ON FUNCTION snowflake_registry.lost_commits() IS
    'signs that what had been committed is gone';
