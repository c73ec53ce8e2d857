-- The durable horizon, and the workers of the fleet.

CREATE SCHEMA snowflake_internal;
COMMENT ON SCHEMA snowflake_internal IS 'what the keeper of snowflake_id stores; not for users';

-- In the query of each materialized view that the server writes itself. No row comes out of it, which is right once:
-- when this script creates them. From then on it is an error, so that REFRESH, which would empty them, fails: see
-- refuse_refresh.sql.
CREATE FUNCTION snowflake_internal.refuse_refresh() RETURNS boolean VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql AS $$
BEGIN
    RETURN false;
END
$$;
COMMENT ON FUNCTION snowflake_internal.refuse_refresh() IS
    'has REFRESH fail for what only snowflake_id itself writes';

-- A row for each track, as soon as there is a horizon. The server overwrites them in place: see src/pg/rows.rs.
CREATE MATERIALIZED VIEW snowflake_internal.horizon (track, clock_seq, horizon_us) USING heap AS
    SELECT NULL::pg_catalog.int4, NULL::pg_catalog.int4, NULL::pg_catalog.int8
    WHERE snowflake_internal.refuse_refresh();
COMMENT ON MATERIALIZED VIEW snowflake_internal.horizon IS 'durable horizons of snowflake IDs; do not touch';
COMMENT ON COLUMN snowflake_internal.horizon.track IS
    '0: of all layouts; 1: of those with a clock sequence, since the clock was set back';
COMMENT ON COLUMN snowflake_internal.horizon.clock_seq IS 'the value of the clock sequence on this track';
COMMENT ON COLUMN snowflake_internal.horizon.horizon_us IS
    'no ID may be made whose time (microseconds of Unix time) lies at or after it; 0: none was stored yet';

-- Under which identities this server has made IDs, noted by the keeper before the first one is made. See
-- src/keeper/store.rs for why this is no table, and core/src/used.rs for what the rows say.
CREATE MATERIALIZED VIEW snowflake_internal.used_identity (datacenter_id, worker_id, clock_seq, used_until_us, noted_at) USING heap AS
    SELECT NULL::pg_catalog.int4, NULL::pg_catalog.int4, NULL::pg_catalog.int4, NULL::pg_catalog.int8,
           NULL::pg_catalog.timestamptz
    WHERE snowflake_internal.refuse_refresh();
COMMENT ON MATERIALIZED VIEW snowflake_internal.used_identity IS
    'under which identities this server has made snowflake IDs; do not touch';
COMMENT ON COLUMN snowflake_internal.used_identity.datacenter_id IS '-1: every identity without a row of its own';
COMMENT ON COLUMN snowflake_internal.used_identity.worker_id IS '-1: every identity without a row of its own';
COMMENT ON COLUMN snowflake_internal.used_identity.clock_seq IS
    'with this value of the clock sequence, 0 also for layouts without one; -1: with every other one without a row of its own';
COMMENT ON COLUMN snowflake_internal.used_identity.used_until_us IS
    'up to when (microseconds of Unix time); 0 with value 0 as long as only the stored horizon limits it, with another one not at all';
COMMENT ON COLUMN snowflake_internal.used_identity.noted_at IS 'when this was noted';

CREATE TABLE snowflake_worker (
    node_name text PRIMARY KEY CHECK (node_name OPERATOR(pg_catalog.<>) ''),
    datacenter_id int NOT NULL DEFAULT 0 CHECK (datacenter_id OPERATOR(pg_catalog.>=) 0),
    worker_id int NOT NULL CHECK (worker_id OPERATOR(pg_catalog.>=) 0),
    created_at timestamptz NOT NULL DEFAULT pg_catalog.now(),
    UNIQUE (datacenter_id, worker_id)
);
COMMENT ON TABLE snowflake_worker IS 'the worker IDs of the fleet; each server takes the row with its node_name';
COMMENT ON COLUMN snowflake_worker.node_name IS 'the server, by its setting snowflake_id.node_name';
COMMENT ON COLUMN snowflake_worker.datacenter_id IS 'the datacenter ID of its IDs; 0 with layouts that have none';
COMMENT ON COLUMN snowflake_worker.worker_id IS 'the worker ID of its IDs';
COMMENT ON COLUMN snowflake_worker.created_at IS 'when the row was inserted';
SELECT pg_catalog.pg_extension_config_dump('@extschema@.snowflake_worker', '');

-- A row elsewhere than in the keeper's database would be waited for in vain.
CREATE FUNCTION snowflake_worker_check() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF pg_catalog.current_setting('snowflake_id.database', true) OPERATOR(pg_catalog.<>) pg_catalog.current_database() THEN
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

CREATE FUNCTION snowflake_internal.store_history() RETURNS void LANGUAGE c AS 'MODULE_PATHNAME', 'store_history_wrapper';
COMMENT ON FUNCTION snowflake_internal.store_history() IS
    'for CREATE EXTENSION: stores again what the server knows of its past; warns if it cannot make IDs';
