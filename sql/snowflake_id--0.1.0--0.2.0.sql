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

CREATE FUNCTION "snowflake_guess_layout"(
	"id" bigint
) RETURNS TABLE (
	"layout" TEXT, 
	"generated_at" timestamp with time zone, 
	"datacenter_id" INT, 
	"worker_id" INT, 
	"clock_seq" INT, 
	"sequence" bigint 
)
STRICT STABLE PARALLEL SAFE
LANGUAGE c
AS 'MODULE_PATHNAME', 'snowflake_guess_layout_wrapper';

CREATE FUNCTION "snowflake_max_id"(
	"instant" timestamp with time zone
) RETURNS bigint
STRICT STABLE PARALLEL SAFE 
LANGUAGE c
AS 'MODULE_PATHNAME', 'snowflake_max_id_wrapper';

CREATE FUNCTION "snowflake_max_id"(
	"instant" timestamp with time zone,
	"layout" text
) RETURNS bigint
IMMUTABLE STRICT PARALLEL SAFE 
LANGUAGE c
AS 'MODULE_PATHNAME', 'snowflake_max_id_as_wrapper';

CREATE FUNCTION "snowflake_min_id"(
	"instant" timestamp with time zone
) RETURNS bigint
STRICT STABLE PARALLEL SAFE 
LANGUAGE c
AS 'MODULE_PATHNAME', 'snowflake_min_id_wrapper';

CREATE FUNCTION "snowflake_min_id"(
	"instant" timestamp with time zone,
	"layout" text
) RETURNS bigint
IMMUTABLE STRICT PARALLEL SAFE 
LANGUAGE c
AS 'MODULE_PATHNAME', 'snowflake_min_id_as_wrapper';

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

-- Conditions on the time of an ID that the planner sees through: each is replaced by a comparison of the ID itself, which an
-- index on it answers and by which partitions are pruned.
--
-- That takes functions in SQL that are not STRICT, as AND may be true or false where one side is NULL. Their bodies are
-- bound here and now, so that search_path does not matter later.

COMMENT ON FUNCTION snowflake_min_id(timestamptz) IS
    'the smallest snowflake ID whose time is at or after an instant';
COMMENT ON FUNCTION snowflake_min_id(timestamptz, text) IS
    'the smallest snowflake ID of the given layout whose time is at or after an instant';
COMMENT ON FUNCTION snowflake_max_id(timestamptz) IS
    'the largest snowflake ID whose time is at or before an instant';
COMMENT ON FUNCTION snowflake_max_id(timestamptz, text) IS
    'the largest snowflake ID of the given layout whose time is at or before an instant';

CREATE FUNCTION snowflake_since(id bigint, since timestamptz) RETURNS boolean
    STABLE PARALLEL SAFE LANGUAGE sql
    RETURN id OPERATOR(pg_catalog.>=) @extschema@.snowflake_min_id(since);
COMMENT ON FUNCTION snowflake_since(bigint, timestamptz) IS
    'whether a snowflake ID was made at or after an instant';

CREATE FUNCTION snowflake_since(id bigint, since timestamptz, layout text) RETURNS boolean
    IMMUTABLE PARALLEL SAFE LANGUAGE sql
    RETURN id OPERATOR(pg_catalog.>=) @extschema@.snowflake_min_id(since, layout);
COMMENT ON FUNCTION snowflake_since(bigint, timestamptz, text) IS
    'whether a snowflake ID of the given layout was made at or after an instant';

CREATE FUNCTION snowflake_before(id bigint, before timestamptz) RETURNS boolean
    STABLE PARALLEL SAFE LANGUAGE sql
    RETURN id OPERATOR(pg_catalog.<) @extschema@.snowflake_min_id(before);
COMMENT ON FUNCTION snowflake_before(bigint, timestamptz) IS
    'whether a snowflake ID was made before an instant';

CREATE FUNCTION snowflake_before(id bigint, before timestamptz, layout text) RETURNS boolean
    IMMUTABLE PARALLEL SAFE LANGUAGE sql
    RETURN id OPERATOR(pg_catalog.<) @extschema@.snowflake_min_id(before, layout);
COMMENT ON FUNCTION snowflake_before(bigint, timestamptz, text) IS
    'whether a snowflake ID of the given layout was made before an instant';

CREATE FUNCTION snowflake_between(id bigint, since timestamptz, before timestamptz) RETURNS boolean
    STABLE PARALLEL SAFE LANGUAGE sql
    RETURN id OPERATOR(pg_catalog.>=) @extschema@.snowflake_min_id(since)
       AND id OPERATOR(pg_catalog.<) @extschema@.snowflake_min_id(before);
COMMENT ON FUNCTION snowflake_between(bigint, timestamptz, timestamptz) IS
    'whether a snowflake ID was made at or after one instant and before another';

CREATE FUNCTION snowflake_between(id bigint, since timestamptz, before timestamptz, layout text) RETURNS boolean
    IMMUTABLE PARALLEL SAFE LANGUAGE sql
    RETURN id OPERATOR(pg_catalog.>=) @extschema@.snowflake_min_id(since, layout)
       AND id OPERATOR(pg_catalog.<) @extschema@.snowflake_min_id(before, layout);
COMMENT ON FUNCTION snowflake_between(bigint, timestamptz, timestamptz, text) IS
    'whether a snowflake ID of the given layout was made at or after one instant and before another';

-- Partitions by the time of the ID.

-- Runs with the rights of its caller, who has to own the table. It counts time in UTC, so that the same call gives the same
-- bounds in every session.
CREATE FUNCTION snowflake_create_partitions(
    parent regclass, start timestamptz, stop timestamptz, step interval,
    layout text DEFAULT NULL, dry_run boolean DEFAULT false
) RETURNS TABLE (
    partition text, since timestamptz, before timestamptz, from_id bigint, to_id bigint, created boolean, statement text
) VOLATILE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    most_partitions CONSTANT int := 10000;
    name_bytes CONSTANT int := current_setting('max_identifier_length');
    place name;
    table_name name;
    problem text;
    epoch timestamptz;
    exhausted_at timestamptz;
    next_bound timestamptz;
    bounds timestamptz[];
    suffix text;
    part_name text;
    planned record;
BEGIN
    IF parent IS NULL OR start IS NULL OR stop IS NULL OR step IS NULL OR dry_run IS NULL THEN
        RAISE EXCEPTION 'an argument is NULL'
            USING ERRCODE = 'null_value_not_allowed',
                  DETAIL = 'Only the layout may be NULL, which stands for that of the session.',
                  HINT = 'Give a table, a start, a stop and a step.';
    END IF;

    SELECT n.nspname, c.relname, CASE
               WHEN p.partrelid IS NULL THEN 'It is not partitioned.'
               WHEN p.partstrat = 'l' THEN 'It is partitioned by LIST.'
               WHEN p.partstrat = 'h' THEN 'It is partitioned by HASH.'
               WHEN p.partnatts > 1 THEN format('Its partition key has %s columns.', p.partnatts)
               WHEN a.attname IS NULL THEN 'Its partition key is an expression.'
               WHEN a.atttypid <> 'bigint'::regtype
                   THEN format('Its partition key "%s" is of type %s.', a.attname, format_type(a.atttypid, a.atttypmod))
           END
    INTO place, table_name, problem
    FROM pg_class AS c
    JOIN pg_namespace AS n ON n.oid = c.relnamespace
    LEFT JOIN pg_partitioned_table AS p ON p.partrelid = c.oid
    LEFT JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum = p.partattrs[0] AND a.attnum > 0
    WHERE c.oid = parent;
    IF table_name IS NULL THEN
        RAISE EXCEPTION 'table with OID % does not exist', parent::oid
            USING ERRCODE = 'undefined_table', HINT = 'Give the name of a table.';
    ELSIF problem IS NOT NULL THEN
        RAISE EXCEPTION 'table "%" is not partitioned by ranges of a bigint', table_name
            USING ERRCODE = 'wrong_object_type', DETAIL = problem,
                  HINT = 'Create it with PARTITION BY RANGE (id), where id is a bigint column.';
    END IF;

    IF layout IS NULL THEN
        -- Loads the library if need be, and fails if the setting is no layout.
        PERFORM @extschema@.snowflake_min_id(start);
        layout := current_setting('snowflake_id.layout');
    END IF;
    SELECT facts.epoch, facts.exhausted_at INTO epoch, exhausted_at
    FROM @extschema@.snowflake_describe_layout(layout) AS facts;
    IF step < interval '1 second' THEN
        RAISE EXCEPTION 'a step of % is too short', step
            USING ERRCODE = 'invalid_parameter_value',
                  DETAIL = 'The shortest step is a second.',
                  HINT = 'Use a longer one, such as interval ''1 month''.';
    ELSIF stop <= start THEN
        RAISE EXCEPTION 'the stop does not lie after the start'
            USING ERRCODE = 'invalid_parameter_value',
                  DETAIL = format('The start is %s, the stop %s.', start, stop),
                  HINT = 'Use a stop after the start.';
    ELSIF start < epoch OR stop > exhausted_at THEN
        RAISE EXCEPTION 'the range from start to stop does not lie within the layout'
            USING ERRCODE = 'invalid_parameter_value',
                  DETAIL = format('The range is from %s to %s; the layout reaches from %s to %s.',
                                  start, stop, epoch, exhausted_at),
                  HINT = 'Use a range within that, or name another layout.';
    END IF;

    -- Each bound is reckoned from the start, so that months that begin on a 31st do not slip to the 28th for good.
    WHILE bounds IS NULL OR bounds[cardinality(bounds)] < stop LOOP
        IF cardinality(bounds) > most_partitions THEN
            RAISE EXCEPTION 'too many partitions'
                USING ERRCODE = 'invalid_parameter_value',
                      DETAIL = format('Steps of %s from %s to %s give more than %s.', step, start, stop, most_partitions),
                      HINT = 'Use a longer step, or several calls.';
        END IF;
        next_bound := (start AT TIME ZONE 'UTC' + coalesce(cardinality(bounds), 0) * step) AT TIME ZONE 'UTC';
        IF next_bound <= bounds[cardinality(bounds)] THEN
            RAISE EXCEPTION 'steps of % do not lead ahead', step
                USING ERRCODE = 'invalid_parameter_value',
                      DETAIL = format('One leads from %s to %s.', bounds[cardinality(bounds)], next_bound),
                      HINT = 'Use a step without negative parts, such as interval ''1 month''.';
        END IF;
        bounds := bounds || next_bound;
    END LOOP;
    suffix := '_pYYYYMMDD';
    IF extract(epoch FROM start) % 86400 <> 0
       OR extract(epoch FROM step - date_trunc('day', step)) % 86400 <> 0 THEN
        suffix := '_pYYYYMMDD_HH24MISS';
    END IF;
    IF NOT dry_run THEN
        -- As CREATE TABLE will: so that of two calls at the same time the second one finds what the first one made.
        EXECUTE format('LOCK TABLE ONLY %I.%I IN SHARE UPDATE EXCLUSIVE MODE', place, table_name);
    END IF;

    FOR planned IN
        WITH present AS MATERIALIZED (
            SELECT c.oid, n.nspname, c.relname,
                   CASE bound[1] WHEN 'MINVALUE' THEN -9223372036854775808 ELSE trim('''' FROM bound[1])::bigint END AS from_id,
                   CASE bound[2] WHEN 'MAXVALUE' THEN 9223372036854775807 ELSE trim('''' FROM bound[2])::bigint END AS to_id
            FROM pg_inherits AS i
            JOIN pg_class AS c ON c.oid = i.inhrelid
            JOIN pg_namespace AS n ON n.oid = c.relnamespace
            -- A default partition has no bounds.
            CROSS JOIN regexp_match(pg_get_expr(c.relpartbound, c.oid), 'FROM \((.*)\) TO \((.*)\)') AS bound
            WHERE i.inhparent = parent AND bound IS NOT NULL
        ), wanted AS (
            SELECT step.*, @extschema@.snowflake_min_id(step.since, layout) AS from_id,
                   @extschema@.snowflake_min_id(step.before, layout) AS to_id
            FROM unnest(bounds[:cardinality(bounds) - 1], bounds[2:]) WITH ORDINALITY AS step (since, before, position)
        )
        SELECT wanted.*, found.nspname, found.relname, found.from_id AS found_from, found.to_id AS found_to
        FROM wanted LEFT JOIN LATERAL (
            SELECT * FROM present
            WHERE present.from_id < wanted.to_id AND present.to_id > wanted.from_id
            ORDER BY present.from_id LIMIT 1
        ) AS found ON true
        ORDER BY wanted.position
    LOOP
        since := planned.since;
        before := planned.before;
        from_id := planned.from_id;
        to_id := planned.to_id;
        IF to_id <= from_id THEN
            RAISE EXCEPTION 'a step of % is too short', step
                USING ERRCODE = 'invalid_parameter_value',
                      DETAIL = format('No ID of the layout lies between %s and %s.', since, before),
                      HINT = 'Use a longer one, such as interval ''1 month''.';
        ELSIF planned.found_from = from_id AND planned.found_to = to_id THEN
            partition := format('%I.%I', planned.nspname, planned.relname);
            created := false;
            statement := NULL;
        ELSIF planned.relname IS NOT NULL THEN
            RAISE EXCEPTION 'partition "%" overlaps the range from % to %', planned.relname, since, before
                USING ERRCODE = 'invalid_object_definition',
                      DETAIL = format('It holds IDs from %s to %s, the range is from %s to %s.',
                                      planned.found_from, planned.found_to, from_id, to_id),
                      HINT = 'Use a start and a step with which the bounds are those of the partitions that exist.';
        ELSE
            part_name := table_name || to_char(since AT TIME ZONE 'UTC', suffix);
            IF octet_length(part_name) > name_bytes THEN
                RAISE EXCEPTION 'the name "%" is too long', part_name
                    USING ERRCODE = 'name_too_long',
                          DETAIL = format('It has %s bytes, and %s are the most.', octet_length(part_name), name_bytes),
                          HINT = format('Give the table a name of at most %s bytes.',
                                        name_bytes - octet_length(part_name) + octet_length(table_name));
            ELSIF to_regclass(format('%I.%I', place, part_name)) IS NOT NULL THEN
                RAISE EXCEPTION 'the name "%" is taken', part_name
                    USING ERRCODE = 'duplicate_table',
                          DETAIL = format('What bears it in schema "%s" is no partition of "%s" from %s to %s.',
                                          place, table_name, since, before),
                          HINT = 'Rename or drop that.';
            END IF;
            partition := format('%I.%I', place, part_name);
            created := NOT dry_run;
            statement := format('CREATE TABLE %s PARTITION OF %I.%I FOR VALUES FROM (%s) TO (%s)',
                                partition, place, table_name, from_id, to_id);
            IF created THEN
                EXECUTE statement;
            END IF;
        END IF;
        RETURN NEXT;
    END LOOP;
END
$$;
COMMENT ON FUNCTION snowflake_create_partitions(regclass, timestamptz, timestamptz, interval, text, boolean) IS
    'creates the partitions of a table by the time of its snowflake IDs, where they do not exist';

-- Which layout an ID may be of.

COMMENT ON FUNCTION snowflake_guess_layout(bigint) IS
    'the presets that a snowflake ID may be of, the most likely first';
