-- The durable horizon, the keeper's tables, and the status.


-- Nobody but the owner, a superuser, has rights in this schema.
CREATE SCHEMA snowflake_internal;
COMMENT ON SCHEMA snowflake_internal IS 'what the keeper of snowflake_id stores; not for users';

-- In microseconds of Unix time: no ID whose time lies at or after it may be made.
CREATE SEQUENCE snowflake_internal.horizon MINVALUE 0 START 0;
COMMENT ON SEQUENCE snowflake_internal.horizon IS 'durable horizon of snowflake IDs; do not touch';

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
REVOKE ALL ON FUNCTION snowflake_worker_check() FROM PUBLIC;

CREATE TRIGGER snowflake_worker_check BEFORE INSERT OR UPDATE ON snowflake_worker
    FOR EACH ROW EXECUTE FUNCTION snowflake_worker_check();

CREATE FUNCTION "snowflake_server_status"() RETURNS TABLE (
	"state" TEXT, 
	"datacenter_id" INT, 
	"worker_id" INT, 
	"identity_source" TEXT, 
	"node_name" TEXT, 
	"horizon" timestamp with time zone, 
	"floor" timestamp with time zone, 
	"resumes_at" timestamp with time zone, 
	"clock_jump" interval, 
	"keeper_pid" INT, 
	"last_error" TEXT, 
	"last_error_at" timestamp with time zone 
)
STRICT VOLATILE PARALLEL SAFE
LANGUAGE c
AS 'MODULE_PATHNAME', 'snowflake_server_status_wrapper';

CREATE FUNCTION "snowflake_slots"() RETURNS TABLE (
	"layout" TEXT, 
	"last_id_time" timestamp with time zone, 
	"drift" interval 
)
STRICT VOLATILE PARALLEL SAFE
LANGUAGE c
AS 'MODULE_PATHNAME', 'snowflake_slots_wrapper';

CREATE FUNCTION "snowflake_accept_clock"() RETURNS void
STRICT VOLATILE PARALLEL UNSAFE
LANGUAGE c
AS 'MODULE_PATHNAME', 'snowflake_accept_clock_wrapper';

CREATE FUNCTION "snowflake_advance"(
	"floor" timestamp with time zone
) RETURNS void
STRICT VOLATILE PARALLEL UNSAFE
LANGUAGE c
AS 'MODULE_PATHNAME', 'snowflake_advance_wrapper';

CREATE VIEW snowflake_status AS
    SELECT server.*, slot.*
    FROM @extschema@.snowflake_server_status() AS server LEFT JOIN @extschema@.snowflake_slots() AS slot ON true;
COMMENT ON VIEW snowflake_status IS
    'whether this server can make snowflake IDs, and each layout in use';

COMMENT ON FUNCTION snowflake_server_status() IS
    'for view snowflake_status: the server''s own facts';
COMMENT ON FUNCTION snowflake_slots() IS
    'for view snowflake_status: the layouts in use';
COMMENT ON FUNCTION snowflake_accept_clock() IS
    'follow a clock that jumped ahead';
COMMENT ON FUNCTION snowflake_advance(timestamptz) IS
    'make no more IDs whose time is earlier';

REVOKE ALL ON FUNCTION snowflake_server_status(), snowflake_slots() FROM PUBLIC;
REVOKE ALL ON FUNCTION snowflake_accept_clock(), snowflake_advance(timestamptz) FROM PUBLIC;
-- A view checks EXECUTE on its functions as the caller.
GRANT EXECUTE ON FUNCTION snowflake_server_status(), snowflake_slots() TO pg_monitor;
GRANT SELECT ON snowflake_status TO pg_monitor;
