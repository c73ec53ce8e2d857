-- From 0.1.0 to 0.2.0. Released scripts are frozen: what stands here stands in the other files as it was then.
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

CREATE FUNCTION "snowflake_from_text"(
	"text" text,
	"encoding" text
) RETURNS bigint
IMMUTABLE STRICT PARALLEL SAFE
LANGUAGE c
AS 'MODULE_PATHNAME', 'snowflake_from_text_wrapper';

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

CREATE FUNCTION "snowflake_mask"(
	"id" bigint,
	"key" bytea
) RETURNS bigint
IMMUTABLE STRICT PARALLEL SAFE
LANGUAGE c
AS 'MODULE_PATHNAME', 'snowflake_mask_wrapper';

CREATE FUNCTION "snowflake_mask_named"(
	"id" bigint,
	"key_name" text
) RETURNS bigint
STRICT STABLE PARALLEL SAFE
LANGUAGE c
AS 'MODULE_PATHNAME', 'snowflake_mask_named_wrapper';

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

CREATE FUNCTION "snowflake_to_text"(
	"id" bigint,
	"encoding" text
) RETURNS text
IMMUTABLE STRICT PARALLEL SAFE
LANGUAGE c
AS 'MODULE_PATHNAME', 'snowflake_to_text_wrapper';

CREATE FUNCTION "snowflake_unmask"(
	"masked" bigint,
	"key" bytea
) RETURNS bigint
IMMUTABLE STRICT PARALLEL SAFE
LANGUAGE c
AS 'MODULE_PATHNAME', 'snowflake_unmask_wrapper';

CREATE FUNCTION "snowflake_unmask_named"(
	"masked" bigint,
	"key_name" text
) RETURNS bigint
STRICT STABLE PARALLEL SAFE
LANGUAGE c
AS 'MODULE_PATHNAME', 'snowflake_unmask_named_wrapper';

-- What is stored goes with the extension when that is dropped, while the server goes on under the horizon that it has
-- promised, and the worker ID that it has. Created again, the extension stores both with everything else: the keeper would do so
-- at its next look only, and a crash before that would leave a past that nobody knows.
DO $$
BEGIN
    IF pg_catalog.current_setting('snowflake_id.database', true)
        OPERATOR(pg_catalog.=) pg_catalog.current_database()
    THEN
        PERFORM pg_catalog.setval('snowflake_internal.horizon',
                                  (extract(epoch FROM greatest(horizon, floor)) OPERATOR(pg_catalog.*) 1000000)::pg_catalog.int8)
        FROM @extschema@.snowflake_server_status()
        WHERE horizon IS NOT NULL OR floor IS NOT NULL;
        INSERT INTO snowflake_internal.used_identity (datacenter_id, worker_id)
        SELECT datacenter_id, worker_id
        FROM @extschema@.snowflake_server_status()
        WHERE worker_id IS NOT NULL;
    END IF;
EXCEPTION WHEN object_not_in_prerequisite_state THEN
    NULL; -- The library is not preloaded.
END
$$;

-- View snowflake_status, and the functions with which an administrator orders the keeper about.

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

-- Ranges of time as ranges of IDs.

CREATE FUNCTION snowflake_min_id(instant timestamptz) RETURNS bigint
    STABLE STRICT PARALLEL SAFE LANGUAGE c AS 'MODULE_PATHNAME', 'snowflake_min_id';
COMMENT ON FUNCTION snowflake_min_id(timestamptz) IS
    'the smallest snowflake ID whose time is at or after an instant';

CREATE FUNCTION snowflake_min_id(instant timestamptz, layout text) RETURNS bigint
    IMMUTABLE STRICT PARALLEL SAFE LANGUAGE c AS 'MODULE_PATHNAME', 'snowflake_min_id_as';
COMMENT ON FUNCTION snowflake_min_id(timestamptz, text) IS
    'the smallest snowflake ID of the given layout whose time is at or after an instant';

CREATE FUNCTION snowflake_max_id(instant timestamptz) RETURNS bigint
    STABLE STRICT PARALLEL SAFE LANGUAGE c AS 'MODULE_PATHNAME', 'snowflake_max_id';
COMMENT ON FUNCTION snowflake_max_id(timestamptz) IS
    'the largest snowflake ID whose time is at or before an instant';

CREATE FUNCTION snowflake_max_id(instant timestamptz, layout text) RETURNS bigint
    IMMUTABLE STRICT PARALLEL SAFE LANGUAGE c AS 'MODULE_PATHNAME', 'snowflake_max_id_as';
COMMENT ON FUNCTION snowflake_max_id(timestamptz, text) IS
    'the largest snowflake ID of the given layout whose time is at or before an instant';

-- Conditions on the time of an ID that the planner sees through: each is replaced by a comparison of the ID itself, which an
-- index on it answers and by which partitions are pruned.
--
-- That takes functions in SQL that are not STRICT, as AND may be true or false where one side is NULL. Their bodies are
-- bound here and now, so that search_path does not matter later.

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

-- snowflake_create_partitions_plan() makes the checks and writes the statements, snowflake_create_partitions() executes them. Both
-- run with the rights of the caller, who has to own the table. search_path is pinned in the former only: what the statements
-- set off, such as event triggers, has to find the caller's search_path, as it would if they were typed.

-- Time is counted in UTC, so that the same call gives the same bounds in every session.
CREATE FUNCTION snowflake_create_partitions_plan(
    parent regclass, start timestamptz, stop timestamptz, step interval, layout text, for_execution boolean
) RETURNS TABLE (
    partition text, since timestamptz, before timestamptz, from_id bigint, to_id bigint, statement text
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
    IF parent IS NULL OR start IS NULL OR stop IS NULL OR step IS NULL OR for_execution IS NULL THEN
        RAISE EXCEPTION 'an argument is NULL'
            USING ERRCODE = 'null_value_not_allowed',
                  DETAIL = 'Only the layout may be NULL, which stands for that of the session.',
                  HINT = 'Give a table, a start, a stop and a step.';
    ELSIF for_execution AND current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        RAISE EXCEPTION 'snowflake_create_partitions() cannot create partitions at isolation level %',
            current_setting('transaction_isolation')
            USING ERRCODE = 'feature_not_supported',
                  DETAIL = 'Partitions that others have just made would not be seen.',
                  HINT = 'Call it in a transaction that was begun with BEGIN ISOLATION LEVEL READ COMMITTED.';
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
    IF for_execution THEN
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
            statement := format('CREATE TABLE %s PARTITION OF %I.%I FOR VALUES FROM (%s) TO (%s)',
                                partition, place, table_name, from_id, to_id);
        END IF;
        RETURN NEXT;
    END LOOP;
END
$$;
COMMENT ON FUNCTION snowflake_create_partitions_plan(regclass, timestamptz, timestamptz, interval, text, boolean) IS
    'for snowflake_create_partitions(): checks, takes the lock if partitions are to be created, and returns the statements';

CREATE FUNCTION snowflake_create_partitions(
    parent regclass, start timestamptz, stop timestamptz, step interval,
    layout text DEFAULT NULL, dry_run boolean DEFAULT false
) RETURNS TABLE (
    partition text, since timestamptz, before timestamptz, from_id bigint, to_id bigint, created boolean, statement text
) VOLATILE LANGUAGE plpgsql AS $$
BEGIN
    FOR partition, since, before, from_id, to_id, statement IN
        SELECT * FROM @extschema@.snowflake_create_partitions_plan(parent, start, stop, step, layout, NOT dry_run)
    LOOP
        created := NOT dry_run AND statement IS NOT NULL;
        IF created THEN
            EXECUTE statement;
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

-- IDs as text.

COMMENT ON FUNCTION snowflake_to_text(bigint, text) IS
    'a snowflake ID as text: crockford32, base36, base58, base62, base64url, decimal or hex';
COMMENT ON FUNCTION snowflake_from_text(text, text) IS
    'the snowflake ID that a text stands for';

-- Masked IDs: the keys that have names, and the functions that use them without showing them.

COMMENT ON FUNCTION snowflake_mask(bigint, bytea) IS
    'the number that stands for a snowflake ID under a key of 16 bytes';
COMMENT ON FUNCTION snowflake_unmask(bigint, bytea) IS
    'the snowflake ID for which a number stands under a key of 16 bytes';

-- No name may look like a key. In place of a key one of 16 characters would be taken for it, silently, and such a key is
-- no secret; and what looks like a key is not to be shown when there is no such name.
CREATE TABLE snowflake_mask_key (
    name text PRIMARY KEY
        CONSTRAINT snowflake_mask_key_name_is_not_empty CHECK (name OPERATOR(pg_catalog.<>) '')
        CONSTRAINT snowflake_mask_key_name_is_no_key CHECK (
            pg_catalog.char_length(name) OPERATOR(pg_catalog.<>) 16 AND NOT pg_catalog.starts_with(name, E'\\x')
        ),
    key bytea NOT NULL
        CONSTRAINT snowflake_mask_key_has_16_bytes CHECK (pg_catalog.octet_length(key) OPERATOR(pg_catalog.=) 16),
    created_at timestamptz NOT NULL DEFAULT pg_catalog.now()
);
COMMENT ON TABLE snowflake_mask_key IS
    'secret keys of masked snowflake IDs; they are part of every dump and backup of the database';
COMMENT ON COLUMN snowflake_mask_key.name IS 'what snowflake_mask_named() and snowflake_unmask_named() are given';
COMMENT ON COLUMN snowflake_mask_key.key IS '16 random bytes; masked IDs can be read only as long as their key is kept';
COMMENT ON COLUMN snowflake_mask_key.created_at IS 'when the key was stored';
SELECT pg_catalog.pg_extension_config_dump('@extschema@.snowflake_mask_key', '');

-- Who may mask with a key need not be able to read it: snowflake_mask_named() calls this for everybody, nobody else may.
CREATE FUNCTION snowflake_mask_key_of(key_name text) RETURNS bytea
    STABLE STRICT PARALLEL SAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    LANGUAGE sql
    RETURN coalesce((SELECT k.key FROM @extschema@.snowflake_mask_key AS k
                     WHERE k.name OPERATOR(pg_catalog.=) snowflake_mask_key_of.key_name), '');
COMMENT ON FUNCTION snowflake_mask_key_of(text) IS 'a key of table snowflake_mask_key, empty if there is none; not for users';

-- They are not called snowflake_mask and snowflake_unmask: for a literal without a type PostgreSQL prefers text to bytea, and
-- would take a key for a name.
COMMENT ON FUNCTION snowflake_mask_named(bigint, text) IS
    'the number that stands for a snowflake ID under a key of table snowflake_mask_key';
COMMENT ON FUNCTION snowflake_unmask_named(bigint, text) IS
    'the snowflake ID for which a number stands under a key of table snowflake_mask_key';

-- What snowflake_adopt() has to know about a table before it touches it: the columns and sequences concerned, what stands
-- in the way, what the caller has to be told. All of it is read from the catalogs, with the rights of the caller.
--
-- Names of PostgreSQL stand without their schema here, as search_path is pinned and nothing can come before pg_catalog.

-- Columns are found by their names rather than numbers, in which partitions and children may differ from their parents.
CREATE FUNCTION snowflake_adopt_columns(adopted_table regclass, adopted_column name)
RETURNS TABLE (
    relation oid, relation_name text, relation_kind "char", column_number smallint, column_name name, type oid,
    is_bigint boolean, is_adopted boolean, is_root boolean, is_owned boolean
)
STABLE PARALLEL SAFE LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    WITH RECURSIVE found (relation, column_name, is_adopted) AS (
        SELECT adopted_table::oid, adopted_column, true
        UNION
        SELECT step.*
        FROM found CROSS JOIN LATERAL (
            SELECT child.inhrelid, found.column_name, found.is_adopted
            FROM pg_inherits AS child
            WHERE child.inhparent = found.relation
            UNION ALL
            SELECT parent.inhparent, found.column_name, found.is_adopted
            FROM pg_inherits AS parent
            WHERE parent.inhrelid = found.relation
            UNION ALL
            SELECT foreign_key.conrelid, referencing.attname, false
            FROM pg_constraint AS foreign_key
            CROSS JOIN LATERAL unnest(foreign_key.conkey, foreign_key.confkey) AS pair (referencing, referenced)
            JOIN pg_attribute AS referencing
              ON referencing.attrelid = foreign_key.conrelid AND referencing.attnum = pair.referencing
            JOIN pg_attribute AS referenced
              ON referenced.attrelid = foreign_key.confrelid AND referenced.attnum = pair.referenced
            WHERE foreign_key.contype = 'f' AND foreign_key.confrelid = found.relation
              AND referenced.attname = found.column_name
        ) AS step (relation, column_name, is_adopted)
        -- A parent need not have the column.
        WHERE EXISTS (
            SELECT FROM pg_attribute AS attribute
            WHERE attribute.attrelid = step.relation AND attribute.attname = step.column_name
        )
    )
    SELECT found.relation,
           format('%I.%I',
                  CASE WHEN class.relnamespace = pg_my_temp_schema() THEN 'pg_temp' ELSE namespace.nspname END,
                  class.relname),
           class.relkind, attribute.attnum, attribute.attname, attribute.atttypid,
           'bigint'::regtype IN (type.oid, type.typbasetype),
           bool_or(found.is_adopted),
           attribute.attinhcount = 0,
           pg_has_role(class.relowner, 'USAGE')
    FROM found
    JOIN pg_class AS class ON class.oid = found.relation
    JOIN pg_namespace AS namespace ON namespace.oid = class.relnamespace
    JOIN pg_attribute AS attribute
      ON attribute.attrelid = found.relation AND attribute.attname = found.column_name
    JOIN pg_type AS type ON type.oid = attribute.atttypid
    GROUP BY found.relation, class.oid, namespace.oid, attribute.attrelid, attribute.attnum, type.oid;
$$;
COMMENT ON FUNCTION snowflake_adopt_columns(regclass, name) IS
    'for snowflake_adopt(): a column and the foreign-key columns that point at it, in every partition and child';

CREATE FUNCTION snowflake_adopt_sequences(adopted_table regclass, adopted_column name)
RETURNS TABLE (sequence oid, sequence_name text, relation oid, relation_name text, is_identity boolean, used_by text)
STABLE PARALLEL SAFE LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    WITH adopted AS MATERIALIZED (
        SELECT * FROM @extschema@.snowflake_adopt_columns(adopted_table, adopted_column) WHERE is_adopted
    )
    SELECT class.oid,
           format('%I.%I',
                  CASE WHEN class.relnamespace = pg_my_temp_schema() THEN 'pg_temp' ELSE namespace.nspname END,
                  class.relname),
           adopted.relation, adopted.relation_name, depend.deptype = 'i',
           (
               SELECT string_agg(pg_describe_object(use.classid, use.objid, use.objsubid), ', ' ORDER BY use.objid)
               FROM pg_depend AS use
               LEFT JOIN pg_attrdef AS expression
                 ON use.classid = 'pg_attrdef'::regclass AND expression.oid = use.objid
               WHERE use.refclassid = 'pg_class'::regclass AND use.refobjid = class.oid AND use.deptype = 'n'
                 -- The defaults that are going to be replaced do not count.
                 AND NOT EXISTS (
                     SELECT FROM adopted AS own
                     WHERE own.relation = expression.adrelid AND own.column_number = expression.adnum
                 )
           )
    FROM adopted
    JOIN pg_depend AS depend
      ON depend.refclassid = 'pg_class'::regclass AND depend.refobjid = adopted.relation
     AND depend.refobjsubid = adopted.column_number AND depend.classid = 'pg_class'::regclass
    JOIN pg_class AS class ON class.oid = depend.objid AND class.relkind = 'S'
    JOIN pg_namespace AS namespace ON namespace.oid = class.relnamespace;
$$;
COMMENT ON FUNCTION snowflake_adopt_sequences(regclass, name) IS
    'for snowflake_adopt(): the sequences that belong to the column, in every partition and child, and who else uses them';

CREATE FUNCTION snowflake_adopt_obstacles(adopted_table regclass, adopted_column name)
RETURNS TABLE (obstacle text, remedy text)
STABLE PARALLEL SAFE LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    WITH RECURSIVE involved AS MATERIALIZED (
        SELECT *, pg_describe_object('pg_class'::regclass, relation, column_number) AS description
        FROM @extschema@.snowflake_adopt_columns(adopted_table, adopted_column)
    ),
    widened AS (SELECT * FROM involved WHERE NOT is_bigint),

    -- The row types of the tables, and the types that are made of them.
    row_type (relation, type) AS (
        SELECT widened.relation, class.reltype FROM widened JOIN pg_class AS class ON class.oid = widened.relation
        UNION
        SELECT row_type.relation, coalesce(class.reltype, depend.objid)
        FROM row_type
        JOIN pg_depend AS depend ON depend.refclassid = 'pg_type'::regclass AND depend.refobjid = row_type.type
        LEFT JOIN pg_class AS class
          ON depend.classid = 'pg_class'::regclass AND class.oid = depend.objid AND depend.objsubid > 0
        WHERE depend.classid = 'pg_type'::regclass OR class.relkind NOT IN ('r', 'p', 'm')
    )

    SELECT format('%s depends on %s',
                  CASE WHEN view.oid IS NOT NULL THEN pg_describe_object('pg_class'::regclass, view.oid, 0)
                       WHEN generated.attrelid IS NOT NULL THEN
                           pg_describe_object('pg_class'::regclass, generated.attrelid, generated.attnum)
                       ELSE pg_describe_object(depend.classid, depend.objid, depend.objsubid) END,
                  widened.description),
           'Drop what depends on the columns, call snowflake_adopt(), and create it again, all in one transaction.'
    FROM widened
    JOIN pg_depend AS depend
      ON depend.refclassid = 'pg_class'::regclass AND depend.refobjid = widened.relation
     AND depend.refobjsubid = widened.column_number
    LEFT JOIN pg_rewrite AS rule ON depend.classid = 'pg_rewrite'::regclass AND rule.oid = depend.objid
    LEFT JOIN pg_class AS view ON view.oid = rule.ev_class AND view.relkind IN ('v', 'm')
    LEFT JOIN pg_trigger AS trigger ON depend.classid = 'pg_trigger'::regclass AND trigger.oid = depend.objid
    LEFT JOIN pg_attrdef AS expression ON depend.classid = 'pg_attrdef'::regclass AND expression.oid = depend.objid
    LEFT JOIN pg_attribute AS generated
      ON generated.attrelid = expression.adrelid AND generated.attnum = expression.adnum
    WHERE depend.classid IN ('pg_rewrite'::regclass, 'pg_trigger'::regclass, 'pg_attrdef'::regclass,
                             'pg_policy'::regclass, 'pg_proc'::regclass, 'pg_publication_rel'::regclass)
      -- A default depends on its own column. What partitions and children have from their parents is named there.
      AND (expression.adrelid, expression.adnum) IS DISTINCT FROM (widened.relation, widened.column_number)
      AND coalesce(generated.attinhcount, 0) = 0 AND coalesce(trigger.tgparentid, 0) = 0

    UNION
    SELECT format('%s uses the row type of %s',
                  pg_describe_object('pg_class'::regclass, depend.objid, depend.objsubid),
                  pg_describe_object('pg_class'::regclass, row_type.relation, 0)),
           'Drop these columns, or give them another type, such as jsonb.'
    FROM row_type
    JOIN pg_depend AS depend
      ON depend.refclassid = 'pg_type'::regclass AND depend.refobjid = row_type.type
     AND depend.classid = 'pg_class'::regclass AND depend.objsubid > 0
    JOIN pg_class AS class ON class.oid = depend.objid AND class.relkind IN ('r', 'p', 'm')

    UNION
    SELECT format('%s is part of the partition key', widened.description),
           'A partition key keeps its type: make a new partitioned table with bigint and copy the rows.'
    FROM widened
    JOIN pg_depend AS depend
      ON depend.classid = 'pg_class'::regclass AND depend.objid = widened.relation
     AND depend.objsubid = widened.column_number
     AND depend.refclassid = 'pg_class'::regclass AND depend.refobjid = widened.relation
     AND depend.refobjsubid = 0 AND depend.deptype = 'i'

    UNION
    SELECT format('%s is of type %s', widened.description, format_type(widened.type, NULL)),
           'Give these columns the type bigint first (ALTER TABLE ... ALTER COLUMN ... TYPE bigint), without a domain.'
    FROM widened
    WHERE widened.is_root AND widened.type NOT IN ('smallint'::regtype, 'integer'::regtype)

    UNION
    SELECT format('%s is a typed table', pg_describe_object('pg_class'::regclass, widened.relation, 0)),
           format('Widen the type first: ALTER TYPE %s ALTER ATTRIBUTE %I TYPE bigint CASCADE.',
                  class.reloftype::regtype, widened.column_name)
    FROM widened JOIN pg_class AS class ON class.oid = widened.relation
    WHERE class.reloftype <> 0

    UNION
    SELECT format('%s has its rows on another server', pg_describe_object('pg_class'::regclass, widened.relation, 0)),
           'Detach the foreign tables (or end their inheritance), and widen their columns on both servers by hand.'
    FROM widened
    WHERE widened.relation_kind = 'f'

    UNION
    SELECT format('%s is inherited from %s', involved.description,
                  string_agg(parent.description, ' and ' ORDER BY parent.description)),
           'End all but one inheritance of it (ALTER TABLE ... NO INHERIT ...).'
    FROM involved
    JOIN pg_inherits AS inherits ON inherits.inhrelid = involved.relation
    JOIN involved AS parent ON parent.relation = inherits.inhparent AND parent.column_name = involved.column_name
    WHERE involved.is_adopted OR NOT involved.is_bigint
    GROUP BY involved.description
    HAVING count(*) > 1

    UNION
    SELECT format('%s uses operator class %s, which bigint does not have',
                  pg_describe_object('pg_class'::regclass, index.oid, 0), class.opcname),
           'Drop these indexes, call snowflake_adopt(), and create them again with an operator class for bigint.'
    FROM widened
    JOIN pg_index AS definition ON definition.indrelid = widened.relation
    JOIN pg_class AS index ON index.oid = definition.indexrelid AND NOT index.relispartition
    CROSS JOIN LATERAL unnest(definition.indkey, definition.indclass) AS key (column_number, class)
    JOIN pg_opclass AS class ON class.oid = key.class AND NOT class.opcdefault AND class.opcintype = widened.type
    WHERE key.column_number = widened.column_number

    UNION
    SELECT format('%s is itself a foreign key and points at %s', involved.description,
                  pg_describe_object('pg_class'::regclass, foreign_key.confrelid, 0)),
           'Its values come from there: adopt the column that it points at.'
    FROM involved
    JOIN pg_constraint AS foreign_key
      ON foreign_key.conrelid = involved.relation AND foreign_key.contype = 'f' AND foreign_key.conparentid = 0
     AND involved.column_number = ANY (foreign_key.conkey)
    WHERE involved.is_adopted

    UNION
    SELECT format('%s has row-level security that applies to you',
                  pg_describe_object('pg_class'::regclass, involved.relation, 0)),
           'Its highest value has to be known: call snowflake_adopt() as a superuser or as a role with BYPASSRLS.'
    FROM involved
    WHERE involved.relation = adopted_table AND involved.is_adopted AND row_security_active(involved.relation)

    UNION
    SELECT format('%s uses sequence %s, which goes with the identity', used_by, sequence_name),
           'Give what uses the sequence another one.'
    FROM @extschema@.snowflake_adopt_sequences(adopted_table, adopted_column)
    WHERE is_identity AND used_by IS NOT NULL;
$$;
COMMENT ON FUNCTION snowflake_adopt_obstacles(regclass, name) IS
    'for snowflake_adopt(): why the statements would fail, or what they would break, and what to do';

CREATE FUNCTION snowflake_adopt_notes(adopted_table regclass, adopted_column name)
RETURNS TABLE (is_warning boolean, message text, detail text, hint text)
STABLE PARALLEL SAFE LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    WITH involved AS MATERIALIZED (
        SELECT *, pg_describe_object('pg_class'::regclass, relation, column_number) AS description
        FROM @extschema@.snowflake_adopt_columns(adopted_table, adopted_column)
    ),
    widened AS (
        SELECT relation, relation_name, bool_or(is_root) AS is_root, array_agg(column_name) AS column_names
        FROM involved WHERE NOT is_bigint GROUP BY relation, relation_name
    )

    SELECT false,
           format('tables to be rewritten: %s (%s with their indexes)',
                  string_agg(relation_name, ', ' ORDER BY relation_name) FILTER (WHERE is_root),
                  pg_size_pretty(sum(pg_total_relation_size(relation)))),
           'Until the transaction ends nobody else can read or write them, and they take as much disk space once more.',
           'Set lock_timeout, so that others do not queue behind a lock that is waited for. Run ANALYZE on the tables '
           'afterwards.'
    FROM widened
    HAVING count(*) > 0

    UNION ALL
    SELECT true,
           format('publication "%s" has tables whose columns become bigint: %s', publication.pubname,
                  string_agg(widened.relation_name, ', ' ORDER BY widened.relation_name)),
           'A subscriber whose column is smaller stops at the first row with a new ID.',
           'Widen the columns on all subscribers first. A subscription with binary = true needs binary = false until then.'
    FROM widened
    JOIN pg_class AS class ON class.oid = widened.relation
    JOIN pg_namespace AS namespace ON namespace.oid = class.relnamespace
    JOIN pg_publication_tables AS publication
      ON publication.schemaname = namespace.nspname AND publication.tablename = class.relname
     AND publication.attnames && widened.column_names
    GROUP BY publication.pubname

    UNION ALL
    SELECT true,
           format('subscription "%s" writes to tables whose columns become bigint: %s', subscription.subname,
                  string_agg(widened.relation_name, ', ' ORDER BY widened.relation_name)),
           'It is in binary format, which fails where a column is smaller on the publisher.',
           format('ALTER SUBSCRIPTION %I SET (binary = false);', subscription.subname)
    FROM widened
    JOIN pg_subscription_rel AS membership ON membership.srrelid = widened.relation
    JOIN pg_subscription AS subscription ON subscription.oid = membership.srsubid AND subscription.subbinary
    GROUP BY subscription.subname

    UNION ALL
    SELECT false,
           format('%s, GENERATED ALWAYS until now, takes explicit values from now on', involved.description),
           'OVERRIDING SYSTEM VALUE in an INSERT is still accepted and no longer needed; OVERRIDING USER VALUE no longer '
           'has an effect.',
           'To keep explicit values out, revoke INSERT on the table and grant INSERT on its other columns.'
    FROM involved
    JOIN pg_attribute AS attribute
      ON attribute.attrelid = involved.relation AND attribute.attnum = involved.column_number
    WHERE involved.relation = adopted_table AND involved.is_adopted AND attribute.attidentity = 'a'

    UNION ALL
    SELECT false,
           format('the default of %s is replaced', involved.description),
           format('It is %s.', pg_get_expr(expression.adbin, expression.adrelid)),
           format('To go back: ALTER TABLE %s ALTER COLUMN %I SET DEFAULT %s;', involved.relation_name,
                  involved.column_name, pg_get_expr(expression.adbin, expression.adrelid))
    FROM involved
    JOIN pg_attrdef AS expression
      ON expression.adrelid = involved.relation AND expression.adnum = involved.column_number
    WHERE involved.relation = adopted_table AND involved.is_adopted
      AND pg_get_expr(expression.adbin, expression.adrelid) <> to_regprocedure('@extschema@.snowflake_nextval()')::text
      -- There is no way back to a sequence that is dropped.
      AND NOT EXISTS (
          SELECT FROM @extschema@.snowflake_adopt_sequences(adopted_table, adopted_column) AS dropped
          JOIN pg_depend AS use ON use.refclassid = 'pg_class'::regclass AND use.refobjid = dropped.sequence
          WHERE use.classid = 'pg_attrdef'::regclass AND use.objid = expression.oid AND dropped.used_by IS NULL
      )

    UNION ALL
    SELECT false,
           format('sequence %s is kept', sequence_name),
           format('It is used by %s.', used_by),
           format('When nothing uses it any more: DROP SEQUENCE %s;', sequence_name)
    FROM @extschema@.snowflake_adopt_sequences(adopted_table, adopted_column)
    WHERE NOT is_identity AND used_by IS NOT NULL;
$$;
COMMENT ON FUNCTION snowflake_adopt_notes(regclass, name) IS
    'for snowflake_adopt(): what the caller has to know about the statements';

-- Moving existing tables over to snowflake IDs: snowflake_adopt(). See adopt_findings.sql for what it knows.
--
-- snowflake_adopt_plan() makes the checks and writes the statements, snowflake_adopt() executes them. Both have the rights of
-- the caller. search_path is pinned in the former only: what the statements set off (functions in indexes and constraints,
-- event triggers) has to find the caller's search_path, as it would if the statements were typed.

CREATE FUNCTION snowflake_adopt_plan(adopted_table regclass, adopted_column name, for_execution boolean)
RETURNS text[]
-- max() has to see all rows.
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
DECLARE
    new_default CONSTANT text := '@extschema@.snowflake_nextval()';
    target record;
    names text;
    locked text;
    highest bigint;
    lowest_to_come bigint;
    sets_default boolean;
    statements text[];
    note record;
BEGIN
    -- Is this a column that can be adopted at all?
    SELECT class.relkind, class.relnamespace, attribute.attnum, attribute.attgenerated,
           coalesce(nullif(type.typbasetype, 0), type.oid) AS type,
           pg_describe_object('pg_class'::regclass, class.oid, 0) AS description
    INTO target
    FROM pg_class AS class
    LEFT JOIN pg_attribute AS attribute
      ON attribute.attrelid = class.oid AND attribute.attname = adopted_column AND NOT attribute.attisdropped
    LEFT JOIN pg_type AS type ON type.oid = attribute.atttypid
    WHERE class.oid = adopted_table;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'table with OID % does not exist', adopted_table::oid USING ERRCODE = 'undefined_table';
    ELSIF target.relkind NOT IN ('r', 'p') THEN
        RAISE EXCEPTION '% is not a table', target.description
            USING ERRCODE = 'wrong_object_type', HINT = 'Name the table that holds the rows.';
    ELSIF adopted_table::oid < 16384 THEN
        RAISE EXCEPTION '% belongs to the system', target.description USING ERRCODE = 'wrong_object_type';
    ELSIF pg_is_other_temp_schema(target.relnamespace) THEN
        RAISE EXCEPTION '% is a temporary table of another session', target.description
            USING ERRCODE = 'wrong_object_type';
    ELSIF target.attnum IS NULL THEN
        RAISE EXCEPTION 'column "%" of % does not exist', adopted_column, target.description
            USING ERRCODE = 'undefined_column';
    ELSIF target.attnum < 0 THEN
        RAISE EXCEPTION 'column "%" of % is a system column', adopted_column, target.description
            USING ERRCODE = 'feature_not_supported';
    ELSIF target.attgenerated <> '' THEN
        RAISE EXCEPTION 'column "%" of % is a generated column', adopted_column, target.description
            USING ERRCODE = 'feature_not_supported', HINT = 'Adopt the column from which it is computed.';
    ELSIF target.type NOT IN ('smallint'::regtype, 'integer'::regtype, 'bigint'::regtype) THEN
        RAISE EXCEPTION 'column "%" of % is of type %, not an integer', adopted_column, target.description,
            format_type(target.type, NULL)
            USING ERRCODE = 'datatype_mismatch',
                  HINT = 'Give it the type bigint first (ALTER TABLE ... ALTER COLUMN ... TYPE bigint USING ...).';
    END IF;

    SELECT string_agg(relation_name, ' and ' ORDER BY relation_name) AS tables,
           string_agg(format('SELECT @extschema@.snowflake_adopt(%L, %L);', relation_name, column_name), ' '
                      ORDER BY relation_name) AS commands
    INTO note
    FROM @extschema@.snowflake_adopt_columns(adopted_table, adopted_column)
    WHERE is_adopted AND is_root
    HAVING NOT bool_or(relation = adopted_table);
    IF FOUND THEN
        RAISE EXCEPTION 'column "%" of % is inherited', adopted_column, target.description
            USING ERRCODE = 'wrong_object_type',
                  DETAIL = format('It cannot be altered apart from %s.', note.tables),
                  HINT = note.commands;
    END IF;

    -- May the caller alter the tables, and are new rows going to get IDs? Drawing one may take a wait: not under the locks.
    SELECT string_agg(DISTINCT relation_name, ', ') INTO names
    FROM @extschema@.snowflake_adopt_columns(adopted_table, adopted_column)
    WHERE NOT is_owned AND (is_adopted OR NOT is_bigint);
    IF names IS NOT NULL THEN
        RAISE EXCEPTION 'must be owner of %', names
            USING ERRCODE = 'insufficient_privilege',
                  DETAIL = 'All tables whose foreign keys point at the column, and their partitions, are altered with it.',
                  HINT = 'Call it as a role that is a member of all their owners, or as a superuser.';
    END IF;
    IF for_execution AND current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        RAISE EXCEPTION 'snowflake_adopt() cannot alter tables at isolation level %', current_setting('transaction_isolation')
            USING ERRCODE = 'feature_not_supported',
                  DETAIL = 'What others did before it had its locks would not be seen.',
                  HINT = 'Call it in a transaction that was begun with BEGIN ISOLATION LEVEL READ COMMITTED.';
    ELSIF for_execution THEN
        PERFORM @extschema@.snowflake_nextval();
    ELSIF current_setting('snowflake_id.database', true) IS NULL THEN
        RAISE WARNING 'snowflake_id is not in shared_preload_libraries'
            USING DETAIL = 'Once the statements have been run, rows without an explicit ID cannot be inserted on this server.',
                  HINT = 'Add snowflake_id to shared_preload_libraries in postgresql.conf and restart the server.';
    END IF;

    -- A table that is locked gets no more foreign keys or children; until it is, it may. The table itself comes last, as
    -- an INSERT locks the table with the foreign key before the one that it points at.
    WHILE for_execution LOOP
        SELECT string_agg(relation_name, ', ' ORDER BY is_adopted, relation_name) INTO names
        FROM (
            SELECT relation_name, bool_or(is_adopted) AS is_adopted
            FROM @extschema@.snowflake_adopt_columns(adopted_table, adopted_column)
            WHERE is_root AND (is_adopted OR NOT is_bigint)
            GROUP BY relation_name
        ) AS altered;
        EXIT WHEN names IS NOT DISTINCT FROM locked;
        EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', names);
        locked := names;
    END LOOP;

    SELECT string_agg(obstacle, E'\n' ORDER BY obstacle COLLATE "C") AS obstacles,
           string_agg(DISTINCT remedy, E'\n') AS remedies
    INTO note
    FROM @extschema@.snowflake_adopt_obstacles(adopted_table, adopted_column);
    IF note.obstacles IS NOT NULL THEN
        RAISE EXCEPTION 'cannot adopt column "%" of %', adopted_column, target.description
            USING ERRCODE = 'feature_not_supported', DETAIL = note.obstacles, HINT = note.remedies;
    END IF;

    -- Would new IDs meet old ones? None of those to come lies below the first of the present.
    SELECT bool_or(pg_get_expr(expression.adbin, expression.adrelid) IS DISTINCT FROM to_regprocedure(new_default)::text)
    INTO sets_default
    FROM @extschema@.snowflake_adopt_columns(adopted_table, adopted_column) AS involved
    LEFT JOIN pg_attrdef AS expression
      ON expression.adrelid = involved.relation AND expression.adnum = involved.column_number
    WHERE involved.is_adopted;
    IF sets_default THEN
        EXECUTE format('SELECT max(%I) FROM %s', adopted_column,
                       (SELECT involved.relation_name
                        FROM @extschema@.snowflake_adopt_columns(adopted_table, adopted_column) AS involved
                        WHERE involved.relation = adopted_table AND involved.is_adopted))
        INTO highest;
        -- Exactly the types of the parameters, and all of them: no function that somebody else made in the same schema
        -- can fit better.
        lowest_to_come := @extschema@.snowflake_encode(clock_timestamp(), 0, 0::bigint, 0, 0);
        IF highest >= lowest_to_come THEN
            RAISE EXCEPTION 'values of column "%" of % lie above the IDs to come', adopted_column, target.description
                USING ERRCODE = 'object_not_in_prerequisite_state',
                      DETAIL = format('The highest value is %s. In the layout "%s" the first ID of the present is %s.',
                                      highest, current_setting('snowflake_id.layout'), lowest_to_come),
                      HINT = 'Give these rows other values, or choose a layout with larger IDs: snowflake_id.layout with more '
                             'bits below the time, or an earlier epoch.';
        END IF;
    END IF;

    WITH involved AS MATERIALIZED (
        SELECT * FROM @extschema@.snowflake_adopt_columns(adopted_table, adopted_column)
    ),
    sequences AS MATERIALIZED (
        SELECT * FROM @extschema@.snowflake_adopt_sequences(adopted_table, adopted_column)
    )
    SELECT ARRAY(
            SELECT format('ALTER TABLE %s ALTER COLUMN %I DROP IDENTITY;', relation_name, adopted_column)
            FROM sequences WHERE is_identity
            ORDER BY relation_name
        ) || ARRAY(
            -- One statement for all columns of a table, so that it is rewritten once.
            SELECT format('ALTER TABLE %s %s;', relation_name,
                          string_agg(format('ALTER COLUMN %I TYPE bigint', column_name), ', ' ORDER BY column_number))
            FROM involved WHERE is_root AND NOT is_bigint
            GROUP BY relation_name ORDER BY bool_or(is_adopted) DESC, relation_name
        ) || ARRAY(
            SELECT format('ALTER TABLE %s ALTER COLUMN %I SET DEFAULT %s;', relation_name, column_name, new_default)
            FROM involved WHERE relation = adopted_table AND is_adopted AND sets_default
        ) || ARRAY(
            SELECT format('DROP SEQUENCE %s;', sequence_name)
            FROM sequences WHERE NOT is_identity AND used_by IS NULL
            ORDER BY sequence_name
        )
    INTO statements;

    IF cardinality(statements) = 0 THEN
        RAISE NOTICE 'column "%" of % has been adopted already', adopted_column, target.description;
        RETURN statements;
    END IF;
    FOR note IN SELECT * FROM @extschema@.snowflake_adopt_notes(adopted_table, adopted_column) LOOP
        IF note.is_warning THEN
            RAISE WARNING '%', note.message USING DETAIL = note.detail, HINT = note.hint;
        ELSE
            RAISE NOTICE '%', note.message USING DETAIL = note.detail, HINT = note.hint;
        END IF;
    END LOOP;
    RETURN statements;
END
$$;
COMMENT ON FUNCTION snowflake_adopt_plan(regclass, name, boolean) IS
    'for snowflake_adopt(): checks, takes the locks if the statements are to be executed, and returns the statements';

CREATE FUNCTION snowflake_adopt(table_name regclass, column_name name, dry_run boolean DEFAULT true) RETURNS SETOF text
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql AS $$
DECLARE
    statement text;
BEGIN
    IF table_name IS NULL OR column_name IS NULL OR dry_run IS NULL THEN
        RAISE EXCEPTION 'table_name, column_name and dry_run must not be null' USING ERRCODE = 'null_value_not_allowed';
    END IF;
    FOREACH statement IN ARRAY @extschema@.snowflake_adopt_plan(table_name, column_name, NOT dry_run) LOOP
        IF NOT dry_run THEN
            EXECUTE statement;
        END IF;
        RETURN NEXT statement;
    END LOOP;
END
$$;
COMMENT ON FUNCTION snowflake_adopt(regclass, name, boolean) IS
    'moves a column to snowflake IDs, with the foreign keys that point at it; without dry_run => false it only says how';

-- Who may do what. Only the owner, a superuser, may use what is listed here: what changes the state of the server or of the fleet,
-- what shows it, and keys. It is taken from PUBLIC, which may call any new function, and from those whom ALTER DEFAULT
-- PRIVILEGES gives rights to new objects.
DO $$
DECLARE
    revocation text;
BEGIN
    FOR revocation IN
        SELECT pg_catalog.format('REVOKE ALL ON %s %s FROM %s', object.kind, object.name,
                                 CASE acl.grantee WHEN 0 THEN 'PUBLIC' ELSE acl.grantee::pg_catalog.regrole::text END)
        FROM (
            SELECT 'SCHEMA', 'snowflake_internal', n.nspowner, coalesce(n.nspacl, pg_catalog.acldefault('n', n.nspowner))
            FROM pg_catalog.pg_namespace AS n
            WHERE n.nspname OPERATOR(pg_catalog.=) 'snowflake_internal'
            UNION ALL
            -- GRANT and REVOKE take a view or a sequence for a table.
            SELECT 'TABLE', c.oid::pg_catalog.regclass::text, c.relowner,
                   coalesce(c.relacl, pg_catalog.acldefault('r', c.relowner))
            FROM pg_catalog.pg_class AS c
            WHERE c.oid = ANY (ARRAY[
                'snowflake_internal.horizon',
                'snowflake_internal.used_identity',
                '@extschema@.snowflake_worker',
                '@extschema@.snowflake_mask_key',
                '@extschema@.snowflake_status'
            ]::pg_catalog.regclass[])
            UNION ALL
            SELECT 'FUNCTION', p.oid::pg_catalog.regprocedure::text, p.proowner,
                   coalesce(p.proacl, pg_catalog.acldefault('f', p.proowner))
            FROM pg_catalog.pg_proc AS p
            WHERE p.oid = ANY (ARRAY[
                '@extschema@.snowflake_worker_check()',
                '@extschema@.snowflake_server_status()',
                '@extschema@.snowflake_slots()',
                '@extschema@.snowflake_accept_clock()',
                '@extschema@.snowflake_advance(timestamptz)',
                '@extschema@.snowflake_reset_horizon(int, int)',
                '@extschema@.snowflake_mask_key_of(text)',
                '@extschema@.snowflake_mask_named(bigint, text)',
                '@extschema@.snowflake_unmask_named(bigint, text)'
            ]::pg_catalog.regprocedure[])
        ) AS object (kind, name, owner, privileges),
        LATERAL pg_catalog.aclexplode(object.privileges) AS acl
        WHERE acl.grantee <> object.owner
    LOOP
        EXECUTE revocation;
    END LOOP;
END
$$;

-- A view checks EXECUTE on its functions as the caller.
GRANT EXECUTE ON FUNCTION snowflake_server_status(), snowflake_slots() TO pg_monitor;
GRANT SELECT ON snowflake_status TO pg_monitor;
