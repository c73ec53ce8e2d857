-- From 0.1.0 to 0.2.0. Released scripts are frozen: what stands here stands in the other files as it was then.
-- The durable horizon, and the workers of the fleet.

-- Nobody but the owner, a superuser, has rights in this schema.
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
REVOKE ALL ON FUNCTION snowflake_worker_check() FROM PUBLIC;

CREATE TRIGGER snowflake_worker_check BEFORE INSERT OR UPDATE ON snowflake_worker
    FOR EACH ROW EXECUTE FUNCTION snowflake_worker_check();

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

CREATE FUNCTION "snowflake_reset_horizon"(
	"worker_id" INT,
	"datacenter_id" INT DEFAULT 0
) RETURNS void
STRICT VOLATILE PARALLEL UNSAFE
LANGUAGE c
AS 'MODULE_PATHNAME', 'snowflake_reset_horizon_wrapper';

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
	"last_error_at" timestamp with time zone, 
	"calls_waited" bigint, 
	"time_waited" interval, 
	"clock_steps_back" bigint, 
	"largest_clock_step_back" interval 
)
STRICT VOLATILE PARALLEL SAFE
LANGUAGE c
AS 'MODULE_PATHNAME', 'snowflake_server_status_wrapper';

CREATE FUNCTION "snowflake_slots"() RETURNS TABLE (
	"layout" TEXT, 
	"last_id_time" timestamp with time zone, 
	"drift" interval, 
	"ids_issued" bigint 
)
STRICT VOLATILE PARALLEL SAFE
LANGUAGE c
AS 'MODULE_PATHNAME', 'snowflake_slots_wrapper';

-- View snowflake_status, and who may order the keeper about.

CREATE VIEW snowflake_status AS
    SELECT server.*, slot.*
    FROM @extschema@.snowflake_server_status() AS server LEFT JOIN @extschema@.snowflake_slots() AS slot ON true;
COMMENT ON VIEW snowflake_status IS
    'whether this server can make snowflake IDs, and each layout in use';

COMMENT ON COLUMN snowflake_status.state IS 'in a word: ready, starting, recovery, no worker id, clock behind, clock jumped, horizon stalled, no keeper';
COMMENT ON COLUMN snowflake_status.datacenter_id IS 'the datacenter ID of new IDs';
COMMENT ON COLUMN snowflake_status.worker_id IS 'the worker ID of new IDs';
COMMENT ON COLUMN snowflake_status.identity_source IS 'where they come from: settings or snowflake_worker';
COMMENT ON COLUMN snowflake_status.node_name IS 'the key of this server in snowflake_worker';
COMMENT ON COLUMN snowflake_status.horizon IS 'the durable horizon: no ID bears this time or a later one';
COMMENT ON COLUMN snowflake_status.floor IS 'the horizon that was found at the start, or a later floor: no ID made since bears an earlier time';
COMMENT ON COLUMN snowflake_status.resumes_at IS 'when the clock is far enough for IDs in every layout in use';
COMMENT ON COLUMN snowflake_status.clock_jump IS 'how far the clock has jumped ahead, if it is not followed';
COMMENT ON COLUMN snowflake_status.keeper_pid IS 'the process of the keeper';
COMMENT ON COLUMN snowflake_status.last_error IS 'what keeps the keeper from its work';
COMMENT ON COLUMN snowflake_status.last_error_at IS 'when it last found so';
COMMENT ON COLUMN snowflake_status.calls_waited IS 'how many calls had to wait, since the server was started';
COMMENT ON COLUMN snowflake_status.time_waited IS 'how long they waited, all together';
COMMENT ON COLUMN snowflake_status.clock_steps_back IS 'how often the clock was set back, as seen by the keeper about once per lease';
COMMENT ON COLUMN snowflake_status.largest_clock_step_back IS 'the largest of these steps';
COMMENT ON COLUMN snowflake_status.layout IS 'a layout in use';
COMMENT ON COLUMN snowflake_status.last_id_time IS 'the time of the last ID in this layout, or of the floor';
COMMENT ON COLUMN snowflake_status.drift IS 'how far that is ahead of the clock';
COMMENT ON COLUMN snowflake_status.ids_issued IS 'how many IDs were taken in this layout since the server was started; the last lease may be missing';

COMMENT ON FUNCTION snowflake_server_status() IS
    'for view snowflake_status: the server''s own facts';
COMMENT ON FUNCTION snowflake_slots() IS
    'for view snowflake_status: the layouts in use';
COMMENT ON FUNCTION snowflake_accept_clock() IS
    'follow a clock that jumped ahead';
COMMENT ON FUNCTION snowflake_advance(timestamptz) IS
    'make no more IDs whose time is earlier';
COMMENT ON FUNCTION snowflake_reset_horizon(int, int) IS
    'begin anew now, under a worker ID that this server has never used, after its clock was far ahead';

REVOKE ALL ON FUNCTION snowflake_server_status(), snowflake_slots() FROM PUBLIC;
REVOKE ALL ON FUNCTION snowflake_accept_clock(), snowflake_advance(timestamptz), snowflake_reset_horizon(int, int)
    FROM PUBLIC;
-- A view checks EXECUTE on its functions as the caller.
GRANT EXECUTE ON FUNCTION snowflake_server_status(), snowflake_slots() TO pg_monitor;
GRANT SELECT ON snowflake_status TO pg_monitor;
