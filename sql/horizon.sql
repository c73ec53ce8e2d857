-- The durable horizon, and the workers of the fleet.

CREATE SCHEMA snowflake_internal;
COMMENT ON SCHEMA snowflake_internal IS 'what the keeper of snowflake_id stores; not for users';

-- In microseconds of Unix time: no ID whose time lies at or after it may be made.
CREATE SEQUENCE snowflake_internal.horizon MINVALUE 0 START 0;
COMMENT ON SEQUENCE snowflake_internal.horizon IS 'durable horizon of snowflake IDs; do not touch';

-- Under which identities this server has made IDs, noted before the first one is made. Once snowflake_reset_horizon() has been
-- called, up to when each of them may have been used (microseconds of Unix time). Without a key: a subscription that
-- receives the rows of another server must not fail.
CREATE TABLE snowflake_internal.used_identity (
    datacenter_id int NOT NULL,
    worker_id int NOT NULL,
    used_until_us bigint NOT NULL DEFAULT 0,
    noted_at timestamptz NOT NULL DEFAULT pg_catalog.now()
);
COMMENT ON TABLE snowflake_internal.used_identity IS 'under which identities this server has made snowflake IDs; do not touch';

CREATE TABLE snowflake_worker (
    node_name text PRIMARY KEY CHECK (node_name <> ''),
    datacenter_id int NOT NULL DEFAULT 0 CHECK (datacenter_id >= 0),
    worker_id int NOT NULL CHECK (worker_id >= 0),
    created_at timestamptz NOT NULL DEFAULT pg_catalog.now(),
    UNIQUE (datacenter_id, worker_id)
);
COMMENT ON TABLE snowflake_worker IS 'the worker IDs of the fleet; each server takes the row with its node_name';
SELECT pg_catalog.pg_extension_config_dump('@extschema@.snowflake_worker', '');

-- A row elsewhere than in the keeper's database would be waited for in vain.
CREATE FUNCTION snowflake_worker_check() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF pg_catalog.current_setting('snowflake_id.database', true) <> pg_catalog.current_database() THEN
        RAISE EXCEPTION 'the workers of this server are not kept in database "%"', pg_catalog.current_database()
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  HINT = pg_catalog.format('Connect to database "%s" (snowflake_id.database).',
                                           pg_catalog.current_setting('snowflake_id.database'));
    END IF;
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION snowflake_worker_check() IS 'keeps rows of snowflake_worker to the keeper''s database';

CREATE TRIGGER snowflake_worker_check BEFORE INSERT OR UPDATE ON snowflake_worker
    FOR EACH ROW EXECUTE FUNCTION snowflake_worker_check();
