-- Relations that store the durable horizon, and table snowflake_workers.

-- The queries of the materialized views that the server itself writes call this function. While this script creates the
-- views, the function returns false and the views are empty. Later, the function raises an error, so that REFRESH,
-- which would empty the views, fails. See refuse_refresh.sql.
CREATE FUNCTION snowflake_internal.refuse_refresh() RETURNS boolean VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql AS $$
BEGIN
    RETURN false;
END
$$;
COMMENT ON FUNCTION snowflake_internal.refuse_refresh() IS
    'makes REFRESH fail for materialized views that only snowflake_id writes';

-- The horizon of each track, one row for each track that has a horizon. The server overwrites the rows in place. See
-- src/pg/rows.rs.
CREATE MATERIALIZED VIEW snowflake_internal.horizon (format, database_oid, track, clock_seq, horizon_us) USING heap AS
    SELECT NULL::pg_catalog.int4, NULL::pg_catalog.oid, NULL::pg_catalog.int4, NULL::pg_catalog.int4,
           NULL::pg_catalog.int8
    WHERE snowflake_internal.refuse_refresh();
COMMENT ON MATERIALIZED VIEW snowflake_internal.horizon IS 'durable horizons of snowflake IDs; do not modify';
COMMENT ON COLUMN snowflake_internal.horizon.format IS 'format of the row; an older library uses no row of a newer format';
COMMENT ON COLUMN snowflake_internal.horizon.database_oid IS
    'OID of the database in which the row was stored; the rows in a copy of the database do not count';
COMMENT ON COLUMN snowflake_internal.horizon.track IS
    'track: 0 for all layouts; 1 for layouts with a clock sequence, after the clock was set back';
COMMENT ON COLUMN snowflake_internal.horizon.clock_seq IS 'value of the clock sequence on this track';
COMMENT ON COLUMN snowflake_internal.horizon.horizon_us IS
    'horizon in microseconds of Unix time: the times of all IDs are before the horizon; 0 if no horizon has been stored yet';

-- The identities under which this server has issued IDs. The keeper writes the row of an identity before the server
-- issues the first ID under this identity. src/keeper/store.rs explains why this relation is not a table.
-- core/src/used.rs describes the meaning of the rows.
CREATE MATERIALIZED VIEW snowflake_internal.used_identity (
    format, datacenter_id, worker_id, clock_seq, used_until_us, noted_at, registry_id, registry_since_us
) USING heap AS
    SELECT NULL::pg_catalog.int4, NULL::pg_catalog.int4, NULL::pg_catalog.int4, NULL::pg_catalog.int4,
           NULL::pg_catalog.int8, NULL::pg_catalog.timestamptz, NULL::pg_catalog.uuid, NULL::pg_catalog.int8
    WHERE snowflake_internal.refuse_refresh();
COMMENT ON MATERIALIZED VIEW snowflake_internal.used_identity IS
    'identities under which this server has issued snowflake IDs; do not modify';
COMMENT ON COLUMN snowflake_internal.used_identity.format IS 'format of the row; an older library uses no row of a newer format';
COMMENT ON COLUMN snowflake_internal.used_identity.datacenter_id IS 'datacenter ID; -1 in the row for all identities without their own row';
COMMENT ON COLUMN snowflake_internal.used_identity.worker_id IS 'worker ID; -1 in the row for all identities without their own row';
COMMENT ON COLUMN snowflake_internal.used_identity.clock_seq IS
    'value of the clock sequence; 0 for layouts without a clock sequence; -1 in the row for all values without their own row';
COMMENT ON COLUMN snowflake_internal.used_identity.used_until_us IS
    'time until which the identity may have been used, in microseconds of Unix time; 0 if only the stored horizon limits the use (clock_seq 0), or if the value was never used (other values)';
COMMENT ON COLUMN snowflake_internal.used_identity.noted_at IS 'time at which the row was written';
COMMENT ON COLUMN snowflake_internal.used_identity.registry_id IS
    'registry from which the identity was leased, or to which it was left; all zeros if it was only set by hand';
COMMENT ON COLUMN snowflake_internal.used_identity.registry_since_us IS
    'time since which the identity belongs to the registry, in microseconds of Unix time; 0 if it was only set by hand';

CREATE TABLE snowflake_workers (
    node_name text PRIMARY KEY CHECK (node_name OPERATOR(pg_catalog.<>) ''),
    datacenter_id int NOT NULL DEFAULT 0 CHECK (datacenter_id OPERATOR(pg_catalog.>=) 0),
    worker_id int NOT NULL CHECK (worker_id OPERATOR(pg_catalog.>=) 0),
    created_at timestamptz NOT NULL DEFAULT pg_catalog.now(),
    UNIQUE (datacenter_id, worker_id)
);
COMMENT ON TABLE snowflake_workers IS 'worker IDs of the fleet; each server uses the row with its node_name';
COMMENT ON COLUMN snowflake_workers.node_name IS 'name of the server, as in setting snowflake_id.node_name';
COMMENT ON COLUMN snowflake_workers.datacenter_id IS 'datacenter ID in the IDs of the server; must be 0 for layouts without a datacenter field';
COMMENT ON COLUMN snowflake_workers.worker_id IS 'worker ID in the IDs of the server';
COMMENT ON COLUMN snowflake_workers.created_at IS 'time at which the row was inserted';
SELECT pg_catalog.pg_extension_config_dump('@extschema@.snowflake_workers', '');

-- The keeper reads only the rows in its own database.
CREATE FUNCTION snowflake_internal.snowflake_worker_check() RETURNS trigger
    VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql AS $$
BEGIN
    IF pg_catalog.current_setting('snowflake_id.database', true) OPERATOR(pg_catalog.<>) pg_catalog.current_database() THEN
        RAISE EXCEPTION 'the worker IDs of this server are not stored in database "%"', pg_catalog.current_database()
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  HINT = pg_catalog.format('Connect to database "%s" (snowflake_id.database).',
                                           pg_catalog.current_setting('snowflake_id.database'));
    END IF;
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION snowflake_internal.snowflake_worker_check() IS 'rejects rows of snowflake_workers outside the keeper''s database';

CREATE TRIGGER snowflake_worker_check BEFORE INSERT OR UPDATE ON snowflake_workers
    FOR EACH ROW EXECUTE FUNCTION snowflake_internal.snowflake_worker_check();

CREATE FUNCTION snowflake_internal.store_history() RETURNS void
    VOLATILE PARALLEL UNSAFE LANGUAGE c AS 'MODULE_PATHNAME', 'store_history_wrapper';
COMMENT ON FUNCTION snowflake_internal.store_history() IS
    'stores the history that the server still has in memory; warns if the server cannot issue IDs; called by CREATE EXTENSION';
