-- Assembled by "make sql" from sql/registry/parts/: do not edit.
--
-- The registry of a fleet: grants each server a worker ID for a range of time, never the same to two servers.
--
-- As an extension:       CREATE EXTENSION snowflake_id_registry;
-- Without extension support, run this file with psql. The role needs only CREATE on the database.
-- In both cases, all objects are created or none: the script is a single statement for every client.
--
-- Then specify the pool, from which the registry grants worker IDs. Worker IDs that are set by hand anywhere must be
-- outside the pool:
--                       SELECT snowflake_registry.start_fleet(first_worker => 512, last_worker => 1023);
--
-- For segments, which are numbers without time, given out in ranges:
--                       SELECT snowflake_registry.create_segment('orders');
--
-- Each server has a login role of its own, because a role can change its own password and settings. add_server() creates
-- the role, with the privileges to acquire and renew identities and to take numbers. The role needs none on tables.
--
--                       SELECT snowflake_registry.add_server('shard1');
--
-- Programs that generate IDs themselves also need release(), with which a program hands its worker ID back when it
-- ends.
--
-- A role with EXECUTE on acquire() can take identities until none is left, and can block other servers by leaving
-- transactions open. A transaction that is prepared after a call keeps its lock until ROLLBACK PREPARED. Grant this
-- privilege only to servers and programs of the fleet. The pool and configure(last_datacenter => ..) limit the number of
-- identities. Their rows are never removed.
--
-- How uniqueness is guaranteed: the ranges granted for one identity never overlap. A row of table lease is never
-- removed, its granted_until never decreases, and a new range starts at or after the end of the last one. Every
-- operation that gives an identity to another server runs alone (it locks table settings in EXCLUSIVE mode).
-- Renewals run concurrently (ROW SHARE mode). These are locks of the table, not of its row, because the lock queue
-- of a table is fair. A shared row lock is granted even while another session waits for an exclusive lock, so
-- renewals with slow commits could block acquire() forever.
--
-- The same holds for segments. The row of a segment is never removed, its next_value never decreases, and each
-- range starts at next_value. Servers take numbers concurrently (ROW SHARE mode), except from the same segment:
-- then they wait for the lock of its row.
--
-- Only committed grants count. A caller sends a single statement and trusts the answer if the statement ends
-- without an error or a warning. A row that is rolled back later was never granted.

DO LANGUAGE plpgsql $registry$
DECLARE
    -- The types are schema-qualified, because they are resolved before search_path is set.
    statement pg_catalog.text;
    search_path_before CONSTANT pg_catalog.text := pg_catalog.current_setting('search_path');
BEGIN
PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);

-- SECURITY DEFINER functions look up other objects by name. Therefore, this script creates the schema, so that the
-- owner of the registry also owns the schema. In an existing schema, the owner of the schema may have created objects
-- in a transaction that has not committed yet. A function that matches a call better than the function of the registry
-- would run with the privileges of the owner of the registry.
IF EXISTS (SELECT FROM pg_namespace WHERE nspname = 'snowflake_registry') THEN
    RAISE EXCEPTION 'schema "snowflake_registry" already exists'
        USING ERRCODE = 'duplicate_schema',
              DETAIL = 'The installation creates this schema.',
              HINT = 'If the schema contains no registry: DROP SCHEMA snowflake_registry;';
END IF;
CREATE SCHEMA snowflake_registry;
COMMENT ON SCHEMA snowflake_registry IS 'registry of a fleet of servers that issue snowflake IDs';

-- Tables ------------------------------------------------------------------------------------------------

-- start_fleet() inserts the row. If this script inserted a row, restoring a dump would fail, because a row would
-- already exist.
CREATE TABLE snowflake_registry.settings (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    registry_id uuid NOT NULL DEFAULT gen_random_uuid(),
    lease interval NOT NULL DEFAULT '10 minutes',
    longest_lease interval NOT NULL DEFAULT '10 minutes',
    renew_every interval NOT NULL DEFAULT '1 minute',
    longest_renewal interval NOT NULL DEFAULT '1 minute',
    -- There is no default, because only an administrator knows which worker IDs are used without the registry.
    first_worker int CHECK (first_worker >= 0),
    last_worker int,
    last_datacenter int NOT NULL DEFAULT 2147483647 CHECK (last_datacenter >= 0),
    synchronous boolean NOT NULL DEFAULT false,
    system_identifier bigint,
    database_oid oid,
    timeline int,
    server_started timestamptz,
    serial bigint NOT NULL DEFAULT 0,
    counted_by xid8,
    written_by xid8,
    is_started boolean NOT NULL DEFAULT false,
    nothing_before timestamptz NOT NULL DEFAULT '-infinity',
    waits interval NOT NULL DEFAULT '0',
    counted_at timestamptz,
    is_proved boolean NOT NULL DEFAULT false,
    is_witnessed boolean NOT NULL DEFAULT false,
    numbers_wait interval NOT NULL DEFAULT '0',
    was_alone boolean NOT NULL DEFAULT false,
    witnesses boolean NOT NULL DEFAULT true,
    quarantine_reason text,
    frozen_until timestamptz,
    requests text[] NOT NULL DEFAULT '{}',
    -- The format of all tables of the registry. If a dump of a newer version is restored, the error shows the name of the
    -- constraint.
    format int NOT NULL DEFAULT 1 CONSTRAINT these_rows_need_another_version_of_the_registry CHECK (format = 1),
    -- Servers reject longer leases. The interval must not contain days, because a day may have 25 hours.
    CHECK (lease BETWEEN '1 second' AND '24 hours' AND extract(day FROM lease) = 0
           AND extract(month FROM lease) = 0),
    CHECK (longest_lease BETWEEN lease AND '24 hours' AND extract(day FROM longest_lease) = 0
           AND extract(month FROM longest_lease) = 0),
    CHECK (renew_every BETWEEN '100 milliseconds' AND '12 hours'),
    CHECK (longest_renewal BETWEEN renew_every AND '12 hours'),
    CHECK (numbers_wait BETWEEN '0' AND waits),
    CHECK (last_worker >= first_worker),
    CHECK (num_nulls(first_worker, last_worker) <> 1),
    CHECK (NOT is_started OR first_worker IS NOT NULL)
-- The registry relies on the xmin that the heap access method stores in the row.
) USING heap;
COMMENT ON TABLE snowflake_registry.settings IS
    'settings and state of the registry, in one row; use configure() to change settings, because the registry treats any '
    'other change as a restored dump';
COMMENT ON COLUMN snowflake_registry.settings.registry_id IS 'identifier of the registry; preserved in dumps';
COMMENT ON COLUMN snowflake_registry.settings.lease IS 'duration of a lease: how far a granted range extends beyond the current time';
COMMENT ON COLUMN snowflake_registry.settings.longest_lease IS 'highest value that lease has ever had; at least 10 minutes';
COMMENT ON COLUMN snowflake_registry.settings.renew_every IS 'interval at which servers renew their leases';
COMMENT ON COLUMN snowflake_registry.settings.longest_renewal IS
    'highest value of renew_every that a holder of a lease or of numbers may still follow';
COMMENT ON COLUMN snowflake_registry.settings.first_worker IS
    'lowest worker ID of the pool, from which the registry grants worker IDs; NULL if the pool was never specified';
COMMENT ON COLUMN snowflake_registry.settings.last_worker IS
    'highest worker ID of the pool; the layout of a server may set a lower limit';
COMMENT ON COLUMN snowflake_registry.settings.last_datacenter IS
    'highest datacenter ID for which the registry grants worker IDs';
COMMENT ON COLUMN snowflake_registry.settings.synchronous IS
    'true if the administrator has declared that no failover loses commits';
COMMENT ON COLUMN snowflake_registry.settings.system_identifier IS
    'system identifier of the database cluster in which the row was written';
COMMENT ON COLUMN snowflake_registry.settings.database_oid IS
    'OID of the database in which the row was written; a copy made by CREATE DATABASE ... TEMPLATE has another OID';
COMMENT ON COLUMN snowflake_registry.settings.timeline IS 'timeline on which the row was written';
COMMENT ON COLUMN snowflake_registry.settings.server_started IS
    'start time of the server that wrote the row';
COMMENT ON COLUMN snowflake_registry.settings.serial IS 'number of grants and quarantines';
COMMENT ON COLUMN snowflake_registry.settings.counted_by IS
    'ID of the last transaction whose changes of segments were counted in serial';
COMMENT ON COLUMN snowflake_registry.settings.written_by IS
    'ID of the transaction that wrote the row; differs from xmin in a restored row';
COMMENT ON COLUMN snowflake_registry.settings.is_started IS 'true if the registry grants worker IDs';
COMMENT ON COLUMN snowflake_registry.settings.nothing_before IS
    'earliest start of a new range; never decreases';
COMMENT ON COLUMN snowflake_registry.settings.waits IS
    'remaining time of the quarantine, reduced by each call; 1 microsecond if only a call of a server with the same clock '
    'is missing; 0 if there is no quarantine';
COMMENT ON COLUMN snowflake_registry.settings.counted_at IS 'time at which waits and numbers_wait were last updated';
COMMENT ON COLUMN snowflake_registry.settings.is_proved IS
    'true if commits are assumed to be lost, so that no witness shortens the quarantine';
COMMENT ON COLUMN snowflake_registry.settings.is_witnessed IS 'true if a server has presented a token during the quarantine';
COMMENT ON COLUMN snowflake_registry.settings.numbers_wait IS
    'remaining time, after a start of the server, during which no numbers are granted; reduced by each call';
COMMENT ON COLUMN snowflake_registry.settings.was_alone IS
    'true if only the registry''s own server was allowed to take numbers when the server was started';
COMMENT ON COLUMN snowflake_registry.settings.witnesses IS
    'true if a witness shortens the quarantine after a start of the server';
COMMENT ON COLUMN snowflake_registry.settings.quarantine_reason IS 'reason for the quarantine';
COMMENT ON COLUMN snowflake_registry.settings.frozen_until IS
    'time beyond which a frozen registry extends no lease; NULL if the registry is not frozen';
COMMENT ON COLUMN snowflake_registry.settings.requests IS
    'random names of the calls of configure(), start_fleet(), reserve(), freeze() and unfreeze(); servers present the last '
    'name, so that the registry detects a lost call';
COMMENT ON COLUMN snowflake_registry.settings.format IS 'format of the tables of the registry';

CREATE TABLE snowflake_registry.lease (
    datacenter_id int NOT NULL CHECK (datacenter_id >= 0),
    worker_id int NOT NULL CHECK (worker_id >= 0),
    granted_from timestamptz NOT NULL,
    granted_until timestamptz NOT NULL,
    lease_id uuid UNIQUE,
    nonce uuid,
    node_name text,
    host text,
    port int,
    layout text,
    version text,
    protocol int NOT NULL DEFAULT 1,
    worker_limit bigint,
    clock_offset interval,
    -- The names of roles are stored as text, so that a dump can be restored where the roles do not exist.
    role text,
    acquired_at timestamptz NOT NULL,
    renewed_at timestamptz NOT NULL,
    is_renewed boolean NOT NULL DEFAULT true,
    grant_count bigint NOT NULL,
    is_reserved boolean NOT NULL DEFAULT false,
    reserved_for text,
    note text,
    said_by_hand jsonb,
    was_leased boolean NOT NULL DEFAULT false,
    used_until timestamptz,
    released_until timestamptz,
    unsigned_since timestamptz,
    PRIMARY KEY (datacenter_id, worker_id),
    CHECK (granted_from <= granted_until),
    CHECK (used_until BETWEEN granted_from AND granted_until),
    CHECK (is_reserved OR reserved_for IS NULL)
-- With this fillfactor, renewals are HOT updates.
) USING heap WITH (fillfactor = 40);
COMMENT ON TABLE snowflake_registry.lease IS
    'identities that were ever granted, also by an earlier registry, reserved, or reported as used by hand, with the last range '
    'of each; rows are never removed';
COMMENT ON COLUMN snowflake_registry.lease.granted_from IS 'start of the last granted range';
COMMENT ON COLUMN snowflake_registry.lease.granted_until IS 'end of the last granted range; never decreases';
COMMENT ON COLUMN snowflake_registry.lease.lease_id IS
    'secret of the server that holds the identity; NULL if no server holds the identity, or the holder is not known';
COMMENT ON COLUMN snowflake_registry.lease.nonce IS
    'value that changes with each renewal, so that a copy of the server is detected; NULL if not known';
COMMENT ON COLUMN snowflake_registry.lease.node_name IS 'name of the server; the server reports all columns from node_name to clock_offset';
COMMENT ON COLUMN snowflake_registry.lease.clock_offset IS
    'how far the server''s clock is ahead of the registry''s clock';
COMMENT ON COLUMN snowflake_registry.lease.role IS
    'login role of the holder, or, if the identity was never granted, of the server that reported it as used by hand';
COMMENT ON COLUMN snowflake_registry.lease.protocol IS
    'protocol of the last request of the holder that was granted';
COMMENT ON COLUMN snowflake_registry.lease.worker_limit IS
    'number of worker IDs in the layout of the last holder; NULL if the identity was never granted';
COMMENT ON COLUMN snowflake_registry.lease.is_renewed IS
    'true if the lease may have been renewed since the identity was granted: the holder has then received the grant';
COMMENT ON COLUMN snowflake_registry.lease.grant_count IS 'number of times that the identity was granted';
COMMENT ON COLUMN snowflake_registry.lease.is_reserved IS
    'true if the registry grants the identity only to role reserved_for, or to no server';
COMMENT ON COLUMN snowflake_registry.lease.reserved_for IS
    'login role to which alone a reserved identity is granted; NULL if the identity is reserved for use by hand';
COMMENT ON COLUMN snowflake_registry.lease.note IS 'text that the administrator passed to reserve()';
COMMENT ON COLUMN snowflake_registry.lease.said_by_hand IS
    'login roles of servers that reported that their configuration sets this worker ID by hand, each with the last time in '
    'microseconds; such a worker ID is granted last';
COMMENT ON COLUMN snowflake_registry.lease.was_leased IS
    'true if a registry that this registry replaced has leased the identity';
COMMENT ON COLUMN snowflake_registry.lease.used_until IS
    'if the holder has released the lease: time at which it stopped, and at which the next range may start; otherwise NULL';
COMMENT ON COLUMN snowflake_registry.lease.released_until IS
    'latest end of a range that was released: tokens up to this end may overlap later ranges without proving a loss';
COMMENT ON COLUMN snowflake_registry.lease.unsigned_since IS
    'time of the first of consecutive renewals that got no token, because commits did not become durable; otherwise NULL';

CREATE TABLE snowflake_registry.segment (
    name text COLLATE "C" PRIMARY KEY,
    -- The type has one digit more than bigint, because the value after the last number must fit.
    next_value numeric(20) NOT NULL CHECK (next_value >= 0),
    start bigint NOT NULL CHECK (start >= 0),
    increment bigint NOT NULL CHECK (increment > 0),
    min_step bigint NOT NULL CHECK (min_step > 0),
    max_step bigint NOT NULL CHECK (max_step >= min_step),
    step bigint NOT NULL CHECK (step BETWEEN min_step AND max_step),
    max_value bigint NOT NULL,
    period text,
    digits int,
    time_zone text,
    period_key bigint,
    ahead_key bigint,
    ahead_value numeric(20),
    has_left boolean NOT NULL DEFAULT false,
    closed_reason text,
    seen_until bigint,
    taken_at timestamptz,
    taken_by text,
    updated_at timestamptz NOT NULL,
    dropped_at timestamptz,
    was_lost boolean NOT NULL DEFAULT false,
    description text,
    -- The numbers of a segment are distinct, so the sum fits into bigint.
    numbers_granted bigint NOT NULL DEFAULT 0,
    CHECK (num_nulls(period, digits, time_zone, period_key) = CASE WHEN period IS NULL THEN 4 ELSE 0 END),
    CHECK (num_nulls(ahead_key, ahead_value) <> 1)
) USING heap WITH (fillfactor = 40);
COMMENT ON TABLE snowflake_registry.segment IS
    'segments, from which servers take ranges of numbers; the row of a dropped segment is kept';
COMMENT ON COLUMN snowflake_registry.segment.next_value IS
    'lowest value that was not granted; numbers of the next period may have been granted up to ahead_value; never decreases';
COMMENT ON COLUMN snowflake_registry.segment.start IS
    'first number of the segment, or first serial number of each period';
COMMENT ON COLUMN snowflake_registry.segment.increment IS 'difference between two consecutive numbers';
COMMENT ON COLUMN snowflake_registry.segment.step IS 'size of the range that was taken last';
COMMENT ON COLUMN snowflake_registry.segment.period IS 'day, month or year; NULL if numbers have no prefix';
COMMENT ON COLUMN snowflake_registry.segment.digits IS 'number of digits after the prefix';
COMMENT ON COLUMN snowflake_registry.segment.time_zone IS 'time zone that determines when days begin';
COMMENT ON COLUMN snowflake_registry.segment.period_key IS
    'prefix of the current period, such as 20261121';
COMMENT ON COLUMN snowflake_registry.segment.ahead_key IS
    'prefix of the next period, if numbers of the next period have already been taken';
COMMENT ON COLUMN snowflake_registry.segment.ahead_value IS 'lowest value of the next period that was not granted';
COMMENT ON COLUMN snowflake_registry.segment.has_left IS
    'true if a server other than the registry''s own server has taken numbers';
COMMENT ON COLUMN snowflake_registry.segment.closed_reason IS
    'reason why the segment is closed until resume_segment() is called; NULL if the segment is open';
COMMENT ON COLUMN snowflake_registry.segment.seen_until IS
    'highest number reported since the segment was closed, by the registry''s own server or by a server with numbers of '
    'another registry';

COMMENT ON COLUMN snowflake_registry.segment.was_lost IS
    'true if the creation of the segment was lost, and the row was created from a token of a server';
COMMENT ON COLUMN snowflake_registry.segment.numbers_granted IS
    'how many numbers were granted, in all periods; never decreases, and increments do not count';
COMMENT ON COLUMN snowflake_registry.segment.description IS 'text for administrators';
CREATE INDEX segment_lower_name ON snowflake_registry.segment (lower(name));
COMMENT ON INDEX snowflake_registry.segment_lower_name IS 'index for finding names that differ only in case';

CREATE TABLE snowflake_registry.segment_privilege (
    name text COLLATE "C",
    role regrole,
    PRIMARY KEY (name, role)
) USING heap;
COMMENT ON TABLE snowflake_registry.segment_privilege IS
    'segments of the roles that may not take numbers of all segments';
COMMENT ON COLUMN snowflake_registry.segment_privilege.name IS
    'name of a segment that the role may use; empty in the row of each limited role that makes the role limited';

-- The key is created with the registry and never replaced, so that signatures from lost commits can be verified.
CREATE TABLE snowflake_registry.signing_key (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    inner_pad bytea NOT NULL CHECK (length(inner_pad) = 64),
    outer_pad bytea NOT NULL CHECK (length(outer_pad) = 64)
) USING heap;
COMMENT ON TABLE snowflake_registry.signing_key IS
    'secret key that signs the tokens of the registry; anyone who knows the key can stop the fleet, but cannot cause '
    'repeated IDs';
COMMENT ON COLUMN snowflake_registry.signing_key.inner_pad IS 'key of HMAC-SHA256, padded, XOR 0x36';
COMMENT ON COLUMN snowflake_registry.signing_key.outer_pad IS 'key of HMAC-SHA256, padded, XOR 0x5c';

CREATE FUNCTION snowflake_registry.keep_the_past() RETURNS trigger
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'the registry must not forget what it has granted'
        USING ERRCODE = 'restrict_violation',
              DETAIL = format('After %s on table %I.%I, %s.', TG_OP, TG_TABLE_SCHEMA, TG_TABLE_NAME,
                              CASE WHEN TG_TABLE_NAME = 'segment_privilege' THEN 'no role would be limited to segments'
                                   ELSE 'the registry could grant a range twice' END),
              HINT = CASE
                  WHEN TG_TABLE_NAME = 'segment_privilege'
                  THEN 'To end the limits of a role: SELECT snowflake_registry.grant_all_segments(role);'
                  WHEN TG_TABLE_NAME = 'settings'
                  THEN 'To change settings: SELECT snowflake_registry.configure(...);'
                  WHEN TG_TABLE_NAME = 'segment'
                  THEN 'To drop a segment: SELECT snowflake_registry.drop_segment(name);'
                  ELSE 'Rows of worker IDs that no server holds need not be removed. To revoke the lease of a server: '
                       'SELECT snowflake_registry.revoke_lease(worker_id, datacenter_id);'
              END;
END
$$;
COMMENT ON FUNCTION snowflake_registry.keep_the_past() IS 'trigger function: rejects the change';
CREATE TRIGGER keep_the_end BEFORE UPDATE ON snowflake_registry.lease FOR EACH ROW
    WHEN (NEW.granted_until < OLD.granted_until OR NEW.worker_id <> OLD.worker_id
          OR NEW.datacenter_id <> OLD.datacenter_id
          -- A reservation for use by hand is permanent.
          OR OLD.is_reserved AND OLD.reserved_for IS NULL AND (NOT NEW.is_reserved OR NEW.reserved_for IS NOT NULL)
          OR NEW.used_until < OLD.used_until AND NEW.grant_count = OLD.grant_count
          OR NEW.released_until < OLD.released_until OR OLD.released_until IS NOT NULL AND NEW.released_until IS NULL)
    EXECUTE FUNCTION snowflake_registry.keep_the_past();
CREATE TRIGGER keep_the_row BEFORE DELETE ON snowflake_registry.lease FOR EACH ROW
    EXECUTE FUNCTION snowflake_registry.keep_the_past();
CREATE TRIGGER keep_the_table BEFORE TRUNCATE ON snowflake_registry.lease
    EXECUTE FUNCTION snowflake_registry.keep_the_past();
CREATE TRIGGER keep_the_end BEFORE UPDATE ON snowflake_registry.segment FOR EACH ROW
    WHEN (NEW.next_value < OLD.next_value OR OLD.ahead_value > greatest(NEW.next_value, NEW.ahead_value)
          OR NEW.name <> OLD.name)
    EXECUTE FUNCTION snowflake_registry.keep_the_past();
CREATE TRIGGER keep_the_row BEFORE DELETE ON snowflake_registry.segment FOR EACH ROW
    EXECUTE FUNCTION snowflake_registry.keep_the_past();
CREATE TRIGGER keep_the_table BEFORE TRUNCATE ON snowflake_registry.segment
    EXECUTE FUNCTION snowflake_registry.keep_the_past();
CREATE TRIGGER keep_the_row BEFORE UPDATE OR DELETE ON snowflake_registry.signing_key FOR EACH ROW
    EXECUTE FUNCTION snowflake_registry.keep_the_past();
CREATE TRIGGER keep_the_table BEFORE TRUNCATE ON snowflake_registry.signing_key
    EXECUTE FUNCTION snowflake_registry.keep_the_past();
CREATE TRIGGER keep_the_table BEFORE TRUNCATE ON snowflake_registry.segment_privilege
    EXECUTE FUNCTION snowflake_registry.keep_the_past();
CREATE TRIGGER keep_longest_lease BEFORE UPDATE ON snowflake_registry.settings FOR EACH ROW
    WHEN (NEW.longest_lease < OLD.longest_lease)
    EXECUTE FUNCTION snowflake_registry.keep_the_past();
CREATE TRIGGER keep_the_row BEFORE DELETE ON snowflake_registry.settings FOR EACH ROW
    EXECUTE FUNCTION snowflake_registry.keep_the_past();
CREATE TRIGGER keep_the_table BEFORE TRUNCATE ON snowflake_registry.settings
    EXECUTE FUNCTION snowflake_registry.keep_the_past();

-- The rows of another registry must not be stored here. They can arrive through a publication FOR ALL TABLES, and apply
-- workers do not fire ordinary triggers. The triggers skip these rows instead of raising an error, because an error
-- would also stop the replication of the other tables of the subscription.
CREATE FUNCTION snowflake_registry.leave_out() RETURNS trigger
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE WARNING 'skipping row of another registry'
        USING DETAIL = format('The row arrived by %s on table %I.%I while session_replication_role was replica, as in a subscription.',
                              TG_OP, TG_TABLE_SCHEMA, TG_TABLE_NAME),
              HINT = 'Exclude the tables of schema snowflake_registry from the publication.';
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION snowflake_registry.leave_out() IS 'trigger function: skips the row';
-- The names of these triggers sort before the names of the other triggers, so that these triggers fire first.
CREATE TRIGGER from_elsewhere BEFORE INSERT OR UPDATE OR DELETE ON snowflake_registry.settings FOR EACH ROW
    WHEN (pg_catalog.current_setting('session_replication_role') = 'replica')
    EXECUTE FUNCTION snowflake_registry.leave_out();
CREATE TRIGGER from_elsewhere BEFORE INSERT OR UPDATE OR DELETE ON snowflake_registry.lease FOR EACH ROW
    WHEN (pg_catalog.current_setting('session_replication_role') = 'replica')
    EXECUTE FUNCTION snowflake_registry.leave_out();
CREATE TRIGGER from_elsewhere BEFORE INSERT OR UPDATE OR DELETE ON snowflake_registry.segment FOR EACH ROW
    WHEN (pg_catalog.current_setting('session_replication_role') = 'replica')
    EXECUTE FUNCTION snowflake_registry.leave_out();
CREATE TRIGGER from_elsewhere BEFORE INSERT OR UPDATE OR DELETE ON snowflake_registry.signing_key FOR EACH ROW
    WHEN (pg_catalog.current_setting('session_replication_role') = 'replica')
    EXECUTE FUNCTION snowflake_registry.leave_out();
CREATE TRIGGER from_elsewhere BEFORE INSERT OR UPDATE OR DELETE ON snowflake_registry.segment_privilege FOR EACH ROW
    WHEN (pg_catalog.current_setting('session_replication_role') = 'replica')
    EXECUTE FUNCTION snowflake_registry.leave_out();

-- The triggers above are enabled with ENABLE ALWAYS, so that they also fire in apply workers. After a data-only restore
-- with --disable-triggers, all triggers are enabled as ordinary triggers.
CREATE FUNCTION snowflake_registry.guards_off(OUT relation regclass, OUT name name) RETURNS SETOF record
STABLE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN QUERY
        SELECT guard.tgrelid::regclass, guard.tgname
        FROM pg_trigger AS guard
        WHERE guard.tgrelid IN ('snowflake_registry.settings'::regclass, 'snowflake_registry.lease'::regclass,
                                'snowflake_registry.segment'::regclass, 'snowflake_registry.signing_key'::regclass,
                                'snowflake_registry.segment_privilege'::regclass)
          AND guard.tgfoid IN ('snowflake_registry.keep_the_past()'::regprocedure,
                               'snowflake_registry.leave_out()'::regprocedure)
          AND guard.tgenabled <> 'A';
END
$$;
COMMENT ON FUNCTION snowflake_registry.guards_off() IS
    'guard triggers that are not enabled with ENABLE ALWAYS';

-- If another session holds a conflicting lock, this function does nothing, and a later call enables the triggers.
-- Therefore, renewals never wait for such a session.
CREATE FUNCTION snowflake_registry.switch_guards_on() RETURNS void
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    guard record;
BEGIN
    LOCK TABLE snowflake_registry.settings, snowflake_registry.lease, snowflake_registry.segment,
               snowflake_registry.signing_key, snowflake_registry.segment_privilege IN SHARE ROW EXCLUSIVE MODE NOWAIT;
    FOR guard IN SELECT * FROM snowflake_registry.guards_off() LOOP
        EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER %I', guard.relation, guard.name);
    END LOOP;
EXCEPTION WHEN lock_not_available OR object_in_use THEN
    NULL;
END
$$;
COMMENT ON FUNCTION snowflake_registry.switch_guards_on() IS 'enables the guard triggers with ENABLE ALWAYS';
PERFORM snowflake_registry.switch_guards_on();

-- DROP EXTENSION fails while a fleet or segments are in use, because views depend on the tables. PostgreSQL then
-- suggests CASCADE, which would drop the records of all grants. The event trigger raises a better error first. Only a
-- superuser can create an event trigger. Without the event trigger, PostgreSQL's error contains the name of the view,
-- which contains the name of the function to call. The event trigger does not prevent DROP ... CASCADE.
CREATE FUNCTION snowflake_registry.explain_drop() RETURNS event_trigger
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    -- The event trigger handles only a single statement that drops the extension, without CASCADE.
    is_meant CONSTANT boolean := current_query() ~* (
        '^[[:space:]]*drop[[:space:]]+extension[[:space:]]+(if[[:space:]]+exists[[:space:]]+)?([a-z0-9_"]+[[:space:]]*,[[:space:]]*)*'
        '"?snowflake_id_registry"?([[:space:]]*,[[:space:]]*[a-z0-9_"]+)*([[:space:]]+restrict)?[[:space:]]*;?[[:space:]]*$');
    guards name[];
BEGIN
    IF NOT is_meant THEN
        RETURN;
    END IF;
    SELECT array_agg(class.relname) INTO guards
    FROM pg_class AS class JOIN pg_namespace AS namespace ON namespace.oid = class.relnamespace
    WHERE namespace.nspname = 'snowflake_registry' AND class.relname IN (
        'the_fleet_is_in_use_call_end_fleet_first', 'segments_are_in_use_call_drop_segment_first');
    IF 'the_fleet_is_in_use_call_end_fleet_first' = ANY (guards) THEN
        RAISE EXCEPTION 'cannot drop the registry while its fleet is in use'
            USING ERRCODE = 'dependent_objects_still_exist',
                  DETAIL = 'The record of granted worker IDs would be lost. A new registry could grant the same worker IDs '
                           'again, and IDs would repeat.',
                  HINT = 'Stop the servers of the fleet, or revoke their leases: SELECT '
                         'snowflake_registry.revoke_lease(worker_id, datacenter_id); When view snowflake_registry.fleet shows '
                         'that all leases have ended: SELECT snowflake_registry.end_fleet(); Then drop the registry.';
    ELSIF guards IS NOT NULL THEN
        RAISE EXCEPTION 'cannot drop the registry while it has segments'
            USING ERRCODE = 'dependent_objects_still_exist',
                  DETAIL = 'The record of granted numbers would be lost. A new registry could grant the same numbers again.',
                  HINT = 'If the segments are no longer needed, drop them first: SELECT '
                         'snowflake_registry.drop_segment(name) FROM snowflake_registry.segments '
                         'WHERE state <> ''dropped'';';
    END IF;
END
$$;
COMMENT ON FUNCTION snowflake_registry.explain_drop() IS
    'event trigger function: raises an error with instructions if the registry is dropped while it is in use';
IF (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN
    CREATE EVENT TRIGGER snowflake_registry_in_use ON ddl_command_start
        WHEN TAG IN ('DROP EXTENSION') EXECUTE FUNCTION snowflake_registry.explain_drop();
    COMMENT ON EVENT TRIGGER snowflake_registry_in_use IS
        'raises an error with instructions if the registry is dropped while it is in use';
END IF;

-- The result of acquire(), renew() and release(). Callers read the columns by name, so later versions can add columns.
CREATE TYPE snowflake_registry.answer AS (
    lowest_protocol int,
    highest_protocol int,
    outcome text,
    datacenter_id int,
    worker_id int,
    granted_from bigint,
    granted_until bigint,
    registry_id uuid,
    registry_clock bigint,
    lease bigint,
    renew_every bigint,
    free_from bigint,
    detail text,
    token text
);
COMMENT ON TYPE snowflake_registry.answer IS
    'result of acquire(), renew() and release(); times are in microseconds of Unix time, and intervals in microseconds';

-- One element of key "requests" of a request of take(). Invalid values are omitted.
CREATE TYPE snowflake_registry.request AS (
    request int,
    name text,
    had_until numeric,
    is_ours boolean,
    lasted numeric,
    count bigint,
    period_key bigint,
    is_next boolean,
    is_report boolean,
    problem text
);
COMMENT ON TYPE snowflake_registry.request IS 'request for numbers of one segment, in a call of take()';

CREATE TYPE snowflake_registry.taken AS (
    lowest_protocol int,
    highest_protocol int,
    request int,
    name text,
    outcome text,
    first bigint,
    increment bigint,
    count bigint,
    period_key bigint,
    period_starts bigint,
    period_ends bigint,
    step bigint,
    max_value bigint,
    registry_id uuid,
    registry_clock bigint,
    detail text,
    token text,
    report_every bigint,
    server_started bigint,
    near text
);
COMMENT ON TYPE snowflake_registry.taken IS
    'row of the result of take(), for one segment; times are in microseconds of Unix time';

-- Utilities ---------------------------------------------------------------------------------------------

CREATE FUNCTION snowflake_registry.microseconds(instant timestamptz) RETURNS bigint
IMMUTABLE PARALLEL SAFE LANGUAGE sql
-- timestamptz has a slightly larger range than bigint.
RETURN CASE WHEN isfinite(instant)
            THEN least(extract(epoch FROM instant) * 1000000, 9223372036854775807)::bigint END;
COMMENT ON FUNCTION snowflake_registry.microseconds(timestamptz) IS
    'converts a time to microseconds of Unix time; NULL for infinity';

-- Views do not call this function, because their readers have no privilege to do so.
CREATE FUNCTION snowflake_registry.instant(us bigint) RETURNS timestamptz
IMMUTABLE PARALLEL SAFE LANGUAGE sql
RETURN timestamptz '1970-01-01 00:00:00+00' + us * interval '1 microsecond';
COMMENT ON FUNCTION snowflake_registry.instant(bigint) IS 'converts microseconds of Unix time to a time';

CREATE FUNCTION snowflake_registry.microseconds(span interval) RETURNS bigint
IMMUTABLE PARALLEL SAFE LANGUAGE sql
RETURN (extract(epoch FROM span) * 1000000)::bigint;
COMMENT ON FUNCTION snowflake_registry.microseconds(interval) IS 'converts an interval to microseconds';

-- Formats a time to the second for messages, regardless of the caller's DateStyle and TimeZone.
CREATE FUNCTION snowflake_registry.in_words(instant timestamptz) RETURNS text
STABLE PARALLEL SAFE LANGUAGE sql
RETURN CASE WHEN isfinite(instant) THEN to_char(instant AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
            ELSE 'never' END;
COMMENT ON FUNCTION snowflake_registry.in_words(timestamptz) IS 'formats a time in UTC for messages';

CREATE FUNCTION snowflake_registry.server_in_words(node_name text, host text, port int) RETURNS text
IMMUTABLE PARALLEL SAFE LANGUAGE sql
RETURN CASE WHEN node_name IS NULL THEN 'a server without a name' ELSE '"' || node_name || '"' END
    || CASE WHEN host IS NULL THEN '' ELSE ' (' || host || coalesce(':' || port::text, '') || ')' END;
COMMENT ON FUNCTION snowflake_registry.server_in_words(text, text, int) IS 'formats the name and the address of a server for messages';

-- A control character must not start a new line in the log, or move the cursor of a terminal.
CREATE FUNCTION snowflake_registry.printable(said text) RETURNS text
IMMUTABLE PARALLEL SAFE LANGUAGE sql
RETURN regexp_replace(said COLLATE "C", '[[:cntrl:]]', '?', 'g');
COMMENT ON FUNCTION snowflake_registry.printable(text) IS 'replaces control characters of a text by question marks';

CREATE FUNCTION snowflake_registry.name_in_words(name text) RETURNS text
IMMUTABLE PARALLEL SAFE LANGUAGE sql
RETURN '"' || snowflake_registry.printable(name) || '"';
COMMENT ON FUNCTION snowflake_registry.name_in_words(text) IS 'formats the name of a segment for messages';

-- The facts that a server reports about itself are informational and may contain anything. Invalid values are omitted.
-- Bodies of SECURITY DEFINER functions contain no backslashes, because a caller can change the meaning of backslashes.
CREATE FUNCTION snowflake_registry.read_facts(
    facts jsonb, OUT node_name text, OUT host text, OUT port int, OUT layout text, OUT version text,
    OUT clock_offset interval, OUT by_hand int[]
)
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    keys CONSTANT text[] := ARRAY['node_name', 'host', 'layout', 'version'];
    lengths CONSTANT int[] := ARRAY[200, 255, 500, 64];
    texts text[];
BEGIN
    by_hand := '{}';
    IF facts IS NULL OR pg_column_size(facts) > 65536 OR jsonb_typeof(facts) <> 'object' THEN
        RETURN;
    END IF;
    FOR i IN 1 .. 4 LOOP
        IF jsonb_typeof(facts -> keys[i]) = 'string' THEN
            texts[i] := nullif(snowflake_registry.printable(left(facts ->> keys[i], lengths[i])), '');
        END IF;
    END LOOP;
    node_name := texts[1];
    host := texts[2];
    layout := texts[3];
    version := texts[4];
    IF facts ->> 'port' COLLATE "C" ~ '^[0-9]{1,5}$' THEN
        port := (facts ->> 'port')::int;
        IF port NOT BETWEEN 1 AND 65535 THEN
            port := NULL;
        END IF;
    END IF;
    IF facts ->> 'clock_offset' COLLATE "C" ~ '^-?[0-9]{1,15}$' THEN
        clock_offset := make_interval(secs => (facts ->> 'clock_offset')::float8 / 1000000);
    END IF;
    IF jsonb_typeof(facts -> 'by_hand') = 'array' THEN
        by_hand := ARRAY(
            SELECT DISTINCT said.number::text::int AS worker_id
            FROM jsonb_array_elements(facts -> 'by_hand') WITH ORDINALITY AS said (number, position)
            WHERE said.position <= 8
              AND CASE WHEN said.number::text COLLATE "C" ~ '^[0-9]{1,10}$'
                       THEN said.number::text::bigint <= 2147483647 ELSE false END
            ORDER BY worker_id);
    END IF;
END
$$;
COMMENT ON FUNCTION snowflake_registry.read_facts(jsonb) IS
    'extracts the facts that a server reports about itself; omits invalid values';

-- Requests ----------------------------------------------------------------------------------------------

-- acquire(), renew(), release() and take() have one argument, a JSON object, so that their signatures and therefore the
-- GRANTs for them never change. Keys that are not known are ignored, because later versions of servers may send more,
-- except inside "needs": an identity that does not fit the needs of a server must not be granted. A misspelled key must
-- not change what a request means, so keys must be present if their absence would be dangerous.

-- The lowest and the highest protocol that the registry knows. A version that changes the meaning of requests or answers
-- raises the highest. It raises the lowest only if it can no longer serve the older callers, and its update script then
-- calls require_protocol(), so that no holder of a lease is left behind. Others get no numbers until they are updated.
CREATE FUNCTION snowflake_registry.protocols(OUT lowest int, OUT highest int)
IMMUTABLE PARALLEL SAFE LANGUAGE sql
RETURN (1, 1);
COMMENT ON FUNCTION snowflake_registry.protocols() IS 'lowest and highest protocol that the registry knows';

-- Checks the keys that have the same meaning in each protocol. If the registry does not know the protocol, the function
-- returns the outcome of the answer, and the caller must read no other key than "tokens" and "lease_id".
CREATE FUNCTION snowflake_registry.check_request(
    request jsonb, OUT registry_id uuid, OUT protocol int, OUT lowest int, OUT highest int, OUT outcome text, OUT detail text
)
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    -- The result of an operator is not compressed, as a value from a table may be.
    size CONSTANT int := pg_column_size(CASE WHEN jsonb_typeof(request) = 'object' THEN request || '{}' END);
    said CONSTANT text := nullif(request -> 'protocol', 'null')::text;
BEGIN
    IF jsonb_typeof(request) IS DISTINCT FROM 'object' THEN
        RAISE EXCEPTION 'request must be a JSON object'
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = 'Pass a value of type jsonb with keys "protocol", "registry" and "tokens".';
    ELSIF size > 1048576 THEN
        RAISE EXCEPTION 'request is too large'
            USING ERRCODE = 'program_limit_exceeded',
                  DETAIL = format('The request has %s bytes, and the maximum is 1048576.', size);
    ELSIF said IS NULL OR NOT request ? 'registry' OR jsonb_typeof(request -> 'tokens') IS DISTINCT FROM 'array' THEN
        RAISE EXCEPTION 'request must have keys "protocol", "registry" and "tokens"'
            USING ERRCODE = 'invalid_parameter_value',
                  DETAIL = 'The value of "registry" is the ID of a registry or null, and the value of "tokens" is an array.';
    ELSIF jsonb_array_length(request -> 'tokens') > 128 THEN
        -- The number is limited, in all protocols, because other servers wait while tokens are read. A request for numbers of
        -- 64 segments contains up to 128 tokens.
        RAISE EXCEPTION 'too many tokens'
            USING ERRCODE = 'invalid_parameter_value',
                  DETAIL = format('The array has %s elements, and the maximum is 128.',
                                  jsonb_array_length(request -> 'tokens'));
    END IF;
    SELECT known.lowest, known.highest INTO lowest, highest FROM snowflake_registry.protocols() AS known;
    -- A value that is not a natural number can only be that of a later version. A string is quoted here.
    protocol := CASE WHEN said COLLATE "C" ~ '^[0-9]{1,9}$' THEN said::int ELSE 2147483647 END;
    registry_id := snowflake_registry.uuid_of(request, 'registry');
    IF protocol NOT BETWEEN lowest AND highest THEN
        outcome := CASE WHEN protocol > highest THEN 'registry too old' ELSE 'caller too old' END;
        detail := format('the request has protocol %s, and the registry knows protocols %s to %s',
                         left(snowflake_registry.printable(said), 20), lowest, highest);
    ELSIF registry_id IS NULL AND request ->> 'registry' IS NOT NULL THEN
        RAISE EXCEPTION 'the value of key "registry" must be a UUID or null'
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = 'Send the registry_id of the last reply, and null in the first request.';
    END IF;
END
$$;
COMMENT ON FUNCTION snowflake_registry.check_request(jsonb) IS
    'checks the keys that each request has, and tests whether the registry knows the protocol of the request';

-- JSON has numbers of any size, and PostgreSQL rounds fractions silently.
CREATE FUNCTION snowflake_registry.number_of(
    object jsonb, key text, lowest bigint DEFAULT -9223372036854775808, highest bigint DEFAULT 9223372036854775807
)
RETURNS bigint
IMMUTABLE PARALLEL SAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    value CONSTANT jsonb := nullif(object -> key, 'null');
    number CONSTANT numeric := CASE WHEN jsonb_typeof(value) = 'number' THEN value::numeric END;
BEGIN
    IF value IS NULL OR number = trunc(number) AND number BETWEEN lowest AND highest THEN
        RETURN number;
    END IF;
    RAISE EXCEPTION 'invalid value for key "%": %', key, left(snowflake_registry.printable(value::text), 40)
        USING ERRCODE = 'invalid_parameter_value',
              DETAIL = format('The value must be an integer from %s to %s.', lowest, highest);
END
$$;
COMMENT ON FUNCTION snowflake_registry.number_of(jsonb, text, bigint, bigint) IS
    'integer with this key; NULL if the key is missing or null';

CREATE FUNCTION snowflake_registry.uuid_of(object jsonb, key text) RETURNS uuid
IMMUTABLE PARALLEL SAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN CASE WHEN object ->> key COLLATE "C" ~ '^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$'
                THEN (object ->> key)::uuid END;
END
$$;
COMMENT ON FUNCTION snowflake_registry.uuid_of(jsonb, text) IS 'UUID with this key; NULL if there is none';

-- What a server needs of an identity. If a key is not known, "unknown" is its name.
CREATE FUNCTION snowflake_registry.read_needs(
    needs jsonb, OUT datacenter int, OUT pin int, OUT worker_limit bigint, OUT unwanted int[], OUT unknown text
)
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    listed CONSTANT jsonb := coalesce(nullif(needs -> 'unwanted', 'null'), '[]');
BEGIN
    IF jsonb_typeof(needs) IS DISTINCT FROM 'object' THEN
        RAISE EXCEPTION 'the value of key "needs" must be a JSON object'
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Send an object such as {"datacenter": 0, "worker_limit": 1024}.';
    END IF;
    SELECT min(key) INTO unknown
    FROM jsonb_object_keys(needs) AS key WHERE key <> ALL ('{datacenter,pin,worker_limit,unwanted}');
    IF unknown IS NOT NULL THEN
        RETURN;
    END IF;
    datacenter := snowflake_registry.number_of(needs, 'datacenter', 0, 2147483647);
    pin := snowflake_registry.number_of(needs, 'pin', 0, 2147483647);
    worker_limit := snowflake_registry.number_of(needs, 'worker_limit', 0, 2147483648);
    IF datacenter IS NULL OR worker_limit IS NULL THEN
        RAISE EXCEPTION 'keys "datacenter" and "worker_limit" of "needs" must not be null'
            USING ERRCODE = 'null_value_not_allowed',
                  HINT = 'Send an object such as {"datacenter": 0, "worker_limit": 1024}.';
    ELSIF jsonb_typeof(listed) <> 'array' THEN
        RAISE EXCEPTION 'the value of key "unwanted" must be an array'
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Send an array of worker IDs such as [5, 7], or omit the key.';
    ELSIF jsonb_array_length(listed) > 10000 THEN
        -- The length is limited because other servers wait while the list is searched.
        RAISE EXCEPTION 'too many unwanted worker IDs'
            USING ERRCODE = 'invalid_parameter_value',
                  DETAIL = format('The array has %s elements, and the maximum is 10000.', jsonb_array_length(listed));
    END IF;
    SELECT coalesce(array_agg(
               snowflake_registry.number_of(jsonb_build_object('unwanted', element), 'unwanted', 0, 2147483647)), '{}')
    INTO unwanted FROM jsonb_array_elements(listed) AS element;
    IF array_position(unwanted, NULL) IS NOT NULL THEN
        RAISE EXCEPTION 'worker IDs of key "unwanted" must not be null'
            USING ERRCODE = 'null_value_not_allowed', HINT = 'Send an array of worker IDs such as [5, 7], or omit the key.';
    END IF;
END
$$;
COMMENT ON FUNCTION snowflake_registry.read_needs(jsonb) IS 'what a server needs of an identity';

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

-- Evidence ----------------------------------------------------------------------------------------------

-- The registry signs its grants. Servers keep the signed tokens and present them in each call. If the registry was
-- restored to an earlier state, the tokens prove which grants were lost. All other reports of servers are unproven
-- claims.
--
-- The registry signs only grants that an earlier transaction has committed durably. Otherwise, a caller could roll back or
-- lose a signed grant, and the token would then seem to prove a loss.

CREATE TYPE snowflake_registry.evidence AS (
    datacenter_id int,
    worker_id int,
    grant_count bigint,
    granted_from timestamptz,
    granted_until timestamptz,
    lease_mark text,
    serial bigint,
    name text,
    next_value numeric,
    ahead_value numeric,
    last_request text,
    frozen_until timestamptz
);
COMMENT ON TYPE snowflake_registry.evidence IS
    'contents of a token: a lease or a segment, the total number of grants, and the last request of an administrator';

CREATE FUNCTION snowflake_registry.make_key() RETURNS void
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    -- Four times 122 random bits.
    key CONSTANT bytea := sha256(convert_to(
        concat(gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), gen_random_uuid()), 'UTF8'));
    pads bytea[] := '{}';
    pad bytea;
BEGIN
    FOR number IN 0 .. 1 LOOP
        pad := decode(repeat(CASE number WHEN 0 THEN '36' ELSE '5c' END, 64), 'hex');
        FOR i IN 0 .. 31 LOOP
            pad := set_byte(pad, i, get_byte(pad, i) # get_byte(key, i));
        END LOOP;
        pads := pads || pad;
    END LOOP;
    INSERT INTO snowflake_registry.signing_key (inner_pad, outer_pad) VALUES (pads[1], pads[2])
    ON CONFLICT DO NOTHING;
END
$$;
COMMENT ON FUNCTION snowflake_registry.make_key() IS 'creates the signing key of a new registry';

-- VOLATILE, so that the query takes its snapshot after it has locked the table: see is_limited().
CREATE FUNCTION snowflake_registry.signed(statement text) RETURNS text
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (
        SELECT statement || '.' || encode(
            sha256(key.outer_pad || sha256(key.inner_pad || convert_to(statement, 'UTF8'))), 'hex')
        FROM snowflake_registry.signing_key AS key
    );
END
$$;
COMMENT ON FUNCTION snowflake_registry.signed(text) IS 'appends the HMAC-SHA256 to a statement';

CREATE FUNCTION snowflake_registry.mark_of(lease_id uuid) RETURNS text
IMMUTABLE PARALLEL SAFE LANGUAGE sql
RETURN left(encode(sha256(lease_id::text::bytea), 'hex'), 16);
COMMENT ON FUNCTION snowflake_registry.mark_of(uuid) IS 'hash that identifies a lease without revealing the ID of the lease';

-- The last part of each token.
CREATE FUNCTION snowflake_registry.requests_in_token(settings snowflake_registry.settings) RETURNS text
IMMUTABLE PARALLEL SAFE LANGUAGE sql
RETURN coalesce(settings.requests[cardinality(settings.requests)], '') || ':' || CASE
    WHEN settings.frozen_until IS NULL THEN ''
    ELSE coalesce(snowflake_registry.microseconds(settings.frozen_until)::text, 'infinity') END;
COMMENT ON FUNCTION snowflake_registry.requests_in_token(snowflake_registry.settings) IS
    'last request of an administrator and the time until which the registry is frozen, as the last part of a token';

-- A visible grant is committed, but a crash or a failover may still lose its commit: the caller that made the grant may
-- have lowered synchronous_commit after the call, or may have canceled its wait for a standby. A token of such a grant
-- would then seem to prove a loss, although only an unacknowledged commit was lost. Therefore, the registry signs a grant
-- when its commit is durable on this server and, if commits wait for standbys, on as many standbys as they wait for.
--
-- A call of a server reads the position in WAL and the statements first, waits without a lock until the position is
-- durable, and then signs the statements. What it reads before would have to be flushed as well, because reading a page
-- may prune it, which writes WAL.

-- NULL if a managed service denies access to the position. The registry then signs all committed grants.
CREATE FUNCTION snowflake_registry.wal_position() RETURNS pg_lsn
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    inserted pg_lsn;
    size_of_header numeric;
BEGIN
    inserted := pg_current_wal_insert_lsn();
    -- If the last page is full, the position is behind the header of the next page, which is flushed only with a record.
    -- The first page of each segment has a longer header.
    size_of_header := CASE
        WHEN mod(inserted - pg_lsn '0/0', pg_size_bytes(current_setting('wal_segment_size'))) = 40 THEN 40
        WHEN mod(inserted - pg_lsn '0/0', current_setting('wal_block_size')::numeric) = 24 THEN 24
        ELSE 0 END;
    RETURN inserted - size_of_header;
EXCEPTION
    WHEN insufficient_privilege OR feature_not_supported OR undefined_function OR object_not_in_prerequisite_state THEN
        RETURN NULL;
END
$$;
COMMENT ON FUNCTION snowflake_registry.wal_position() IS 'position in WAL that the commits of all visible rows precede';

-- Without the privileges of pg_read_all_stats, the owner of the registry does not see the standbys.
CREATE FUNCTION snowflake_registry.durable_position() RETURNS pg_lsn
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    names CONSTANT text := current_setting('synchronous_standby_names');
    here pg_lsn;
    needed numeric;
BEGIN
    here := pg_current_wal_flush_lsn();
    IF names = '' OR current_setting('max_wal_senders') = '0' OR NOT pg_has_role('pg_read_all_stats', 'USAGE') THEN
        RETURN here;
    END IF;
    -- PostgreSQL has checked the syntax: FIRST n (...), ANY n (...), n (...), or a list, which means 1. Names that
    -- contain parentheses are quoted.
    needed := coalesce(
        (regexp_match(names COLLATE "C", '^[[:space:]]*((first|any)[[:space:]]+)?([0-9]+)[[:space:]]*[(]', 'i'))[3]::numeric,
        1);
    RETURN least(here, coalesce((
        SELECT sender.flush_lsn
        FROM (
            SELECT standby.flush_lsn, row_number() OVER (ORDER BY standby.flush_lsn DESC) AS place
            FROM pg_stat_get_wal_senders() AS standby
            WHERE standby.sync_state = ANY ('{sync,quorum}') AND standby.flush_lsn IS NOT NULL
        ) AS sender
        WHERE sender.place = needed
    ), '0/0'));
EXCEPTION
    WHEN insufficient_privilege OR feature_not_supported OR undefined_function OR object_not_in_prerequisite_state THEN
        RETURN NULL;
END
$$;
COMMENT ON FUNCTION snowflake_registry.durable_position() IS
    'position in WAL up to which commits are durable on this server and on the standbys that commits wait for';

-- The caller must hold no lock for which others wait. The pauses amount to 495 ms.
CREATE FUNCTION snowflake_registry.becomes_durable(seen pg_lsn) RETURNS boolean
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    started CONSTANT text := timeofday();
    durable pg_lsn;
BEGIN
    FOR pauses IN 0 .. 34 LOOP
        durable := snowflake_registry.durable_position();
        IF coalesce(durable >= seen, true) THEN
            RETURN true;
        END IF;
        -- pg_sleep() would wait without end for a clock that stands still, as in tests.
        EXIT WHEN pauses = 34 OR timeofday() = started;
        IF pauses = 3 AND current_setting('server_version_num')::int >= 170000 THEN
            -- Nothing else may flush WAL that no commit follows.
            BEGIN
                EXECUTE 'SELECT pg_logical_emit_message(false, ''snowflake_registry'', '''', true)';
            EXCEPTION WHEN insufficient_privilege OR feature_not_supported THEN
                NULL;
            END;
        END IF;
        PERFORM pg_sleep(least(2 ^ pauses, 16) / 1000);
    END LOOP;
    RAISE LOG 'snowflake_id_registry: signed no token, because the last commits are not durable yet'
        USING DETAIL = format('Commits are durable up to %s, and the token requires %s.', durable, seen),
              HINT = 'Check whether the standbys in synchronous_standby_names are connected.';
    RETURN false;
END
$$;
COMMENT ON FUNCTION snowflake_registry.becomes_durable(pg_lsn) IS
    'waits up to 495 ms until commits are durable up to a position; false if they are not durable yet';

-- A call that changes nothing may still write WAL, because reading a page may prune it. Nothing but the WAL writer would flush
-- this WAL, after wal_writer_delay, and the next call would wait for it. The message belongs to the transaction, so the
-- commit flushes it. The commit also waits for standbys, so the caller must have seen that they are connected.
CREATE FUNCTION snowflake_registry.flush_at_commit() RETURNS void
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF pg_current_xact_id_if_assigned() IS NULL AND snowflake_registry.wal_position() > pg_current_wal_flush_lsn() THEN
        PERFORM pg_logical_emit_message(true, 'snowflake_registry', '');
    END IF;
EXCEPTION
    WHEN insufficient_privilege OR feature_not_supported OR undefined_function OR object_not_in_prerequisite_state THEN
        RETURN;
END
$$;
COMMENT ON FUNCTION snowflake_registry.flush_at_commit() IS
    'lets the commit of a call that changed nothing flush the WAL that the call has left';

-- STABLE, so that all queries of the function use the snapshot of the calling query, which was taken before the position
-- is read. If the transaction has written anything, there is no statement, because it could be rolled back.
CREATE FUNCTION snowflake_registry.statement_of_lease(lease_id uuid, OUT statement text, OUT seen pg_lsn)
STABLE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    IF pg_current_xact_id_if_assigned() IS NOT NULL THEN
        RETURN;
    END IF;
    seen := snowflake_registry.wal_position();
    SELECT concat_ws(
        ':', 'lease', lease.datacenter_id, lease.worker_id, lease.grant_count,
        snowflake_registry.microseconds(lease.granted_from),
        snowflake_registry.microseconds(lease.granted_until), settings.serial,
        snowflake_registry.mark_of(lease.lease_id), snowflake_registry.requests_in_token(settings)) INTO statement
    FROM snowflake_registry.lease AS lease, snowflake_registry.settings AS settings
    WHERE lease.lease_id = statement_of_lease.lease_id;
END
$$;
COMMENT ON FUNCTION snowflake_registry.statement_of_lease(uuid) IS
    'token for a lease, before it is signed, and the position in WAL that must be durable first';

CREATE FUNCTION snowflake_registry.statements_of_segments(requests jsonb, OUT statements jsonb, OUT seen pg_lsn)
STABLE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF pg_current_xact_id_if_assigned() IS NOT NULL THEN
        RETURN;
    ELSIF jsonb_typeof(requests) IS DISTINCT FROM 'array' OR jsonb_array_length(requests) NOT BETWEEN 1 AND 64 THEN
        RETURN;
    END IF;
    seen := snowflake_registry.wal_position();
    SELECT jsonb_object_agg(segment.name, concat(
        'segment:', encode(convert_to(segment.name, 'UTF8'), 'hex'), ':', segment.next_value, ':',
        segment.ahead_value, ':', settings.serial, ':', snowflake_registry.requests_in_token(settings)))
    INTO statements
    FROM snowflake_registry.segment AS segment, snowflake_registry.settings AS settings
    WHERE segment.name = ANY (ARRAY(
        SELECT element ->> 'name' FROM jsonb_array_elements(statements_of_segments.requests) AS element
    ));
END
$$;
COMMENT ON FUNCTION snowflake_registry.statements_of_segments(jsonb) IS
    'tokens for the numbers that were granted of the requested segments, before they are signed, and the position in WAL '
    'that must be durable first';

-- Tokens without a valid signature of this registry are ignored.
CREATE FUNCTION snowflake_registry.read_tokens(tokens jsonb) RETURNS SETOF snowflake_registry.evidence
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    shown snowflake_registry.evidence;
    said text;
    parts text[];
BEGIN
    FOR said IN
        SELECT element #>> '{}' FROM jsonb_array_elements(tokens) AS element
        WHERE jsonb_typeof(element) = 'string'
    LOOP
        -- A token contains the name of its segment in hexadecimal.
        CONTINUE WHEN length(said) > 800
            OR said IS DISTINCT FROM snowflake_registry.signed(split_part(said, '.', 1));
        parts := string_to_array(split_part(said, '.', 1), ':');
        shown := NULL;
        IF parts[1] = 'lease' THEN
            shown.datacenter_id := parts[2];
            shown.worker_id := parts[3];
            shown.grant_count := parts[4];
            shown.granted_from := snowflake_registry.instant(parts[5]::bigint);
            shown.granted_until := snowflake_registry.instant(parts[6]::bigint);
            shown.serial := parts[7];
            shown.lease_mark := parts[8];
            parts := parts[9:];
        ELSIF parts[1] = 'segment' THEN
            shown.name := convert_from(decode(parts[2], 'hex'), 'UTF8');
            shown.next_value := parts[3];
            shown.ahead_value := nullif(parts[4], '');
            shown.serial := parts[5];
            parts := parts[6:];
        ELSE
            -- A newer version of this registry has signed the token, and the registry was set back since then. What was
            -- granted is not known, so the token counts as a lost request, after which an administrator has to check.
            parts := ARRAY['token ' || parts[1], NULL];
        END IF;
        shown.last_request := parts[1];
        shown.frozen_until := CASE WHEN parts[2] = 'infinity' THEN timestamptz 'infinity'
            ELSE snowflake_registry.instant(nullif(parts[2], '')::bigint) END;
        RETURN NEXT shown;
    END LOOP;
END
$$;
COMMENT ON FUNCTION snowflake_registry.read_tokens(jsonb) IS 'contents of the tokens that this registry has signed';

CREATE FUNCTION snowflake_registry.is_request_lost(
    shown snowflake_registry.evidence, settings snowflake_registry.settings
)
RETURNS boolean
IMMUTABLE PARALLEL SAFE LANGUAGE sql
RETURN shown.last_request <> '' AND shown.last_request <> ALL (settings.requests);
COMMENT ON FUNCTION snowflake_registry.is_request_lost(snowflake_registry.evidence, snowflake_registry.settings) IS
    'tests whether a token contains a request of an administrator that the registry has not recorded';

-- Every number of a later period is higher than all numbers of an earlier period.
CREATE FUNCTION snowflake_registry.what_tokens_prove(tokens jsonb) RETURNS text
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    shown snowflake_registry.evidence;
    registry snowflake_registry.settings;
    lease snowflake_registry.lease;
    segment snowflake_registry.segment;
BEGIN
    SELECT * INTO registry FROM snowflake_registry.settings;
    FOR shown IN SELECT * FROM snowflake_registry.read_tokens(tokens) LOOP
        IF shown.serial IS NULL AND snowflake_registry.is_request_lost(shown, registry) THEN
            RETURN 'a newer version of this registry has signed a token, and the registry was set back since then';
        ELSIF snowflake_registry.is_request_lost(shown, registry) THEN
            RETURN 'a server knows of a call of configure(), start_fleet(), reserve(), freeze() or unfreeze(), and the registry does not';
        ELSIF shown.serial > registry.serial THEN
            RETURN format('a server knows of %s grants, and the registry knows of %s', shown.serial, registry.serial);
        ELSIF shown.worker_id IS NOT NULL THEN
            SELECT * INTO lease FROM snowflake_registry.lease AS known
            WHERE known.datacenter_id = shown.datacenter_id AND known.worker_id = shown.worker_id;
            IF NOT FOUND OR shown.grant_count > lease.grant_count
               OR shown.grant_count = lease.grant_count AND shown.lease_mark <> snowflake_registry.mark_of(lease.lease_id)
               OR shown.granted_from = lease.granted_from AND shown.granted_until > lease.granted_until
               OR shown.granted_from <> lease.granted_from
                  AND shown.granted_until > greatest(lease.granted_from, lease.released_until) THEN
                RETURN format('a server was granted worker ID %s of datacenter %s from %s to %s, and the '
                              'registry does not know of this grant', shown.worker_id, shown.datacenter_id,
                              snowflake_registry.in_words(shown.granted_from),
                              snowflake_registry.in_words(shown.granted_until));
            END IF;
        ELSIF shown.name IS NOT NULL THEN
            SELECT * INTO segment FROM snowflake_registry.segment AS known WHERE known.name = shown.name;
            IF NOT FOUND OR shown.next_value > segment.next_value
               OR shown.ahead_value > greatest(segment.next_value, segment.ahead_value) THEN
                RETURN format('numbers of segment %s were given up to %s, and the registry does not know of '
                              'them', snowflake_registry.name_in_words(shown.name),
                              greatest(shown.next_value, shown.ahead_value) - 1);
            END IF;
        END IF;
    END LOOP;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION snowflake_registry.what_tokens_prove(jsonb) IS
    'reason to assume that commits were lost, if tokens prove grants that the registry has not recorded; otherwise NULL';

-- After a call of this function, the same tokens no longer prove a loss. The registry signs a lease when it is renewed, so
-- each lease of a token counts as renewed. The caller must hold the EXCLUSIVE lock.
CREATE FUNCTION snowflake_registry.learn_from_tokens(tokens jsonb, lease_id uuid) RETURNS void
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    moment CONSTANT timestamptz := clock_timestamp();
    shown snowflake_registry.evidence;
    lease snowflake_registry.lease;
    segment snowflake_registry.segment;
    holder uuid;
BEGIN
    FOR shown IN SELECT * FROM snowflake_registry.read_tokens(tokens) LOOP
        UPDATE snowflake_registry.settings SET serial = shown.serial WHERE serial < shown.serial;
        -- The registry does not know which request was lost, so an administrator has to check. If there are two ends of
        -- a freeze, the earlier end counts, because another registry may start at that time.
        UPDATE snowflake_registry.settings AS settings
        SET requests = array_append(settings.requests, shown.last_request),
            frozen_until = coalesce(least(shown.frozen_until, settings.frozen_until), 'infinity')
        WHERE snowflake_registry.is_request_lost(shown, settings);
        IF shown.worker_id IS NOT NULL THEN
            -- If the caller is the holder, the caller keeps the identity.
            holder := CASE
                WHEN shown.lease_mark = snowflake_registry.mark_of(learn_from_tokens.lease_id)
                     AND NOT EXISTS (SELECT FROM snowflake_registry.lease AS known
                                     WHERE known.lease_id = learn_from_tokens.lease_id)
                THEN learn_from_tokens.lease_id END;
            SELECT * INTO lease FROM snowflake_registry.lease AS known
            WHERE known.datacenter_id = shown.datacenter_id AND known.worker_id = shown.worker_id;
            IF NOT FOUND THEN
                INSERT INTO snowflake_registry.lease (
                    datacenter_id, worker_id, granted_from, granted_until, lease_id, acquired_at, renewed_at, grant_count
                )
                VALUES (
                    shown.datacenter_id, shown.worker_id, shown.granted_from, shown.granted_until, holder, moment,
                    moment, shown.grant_count
                );
            ELSIF shown.granted_from = lease.granted_from AND shown.grant_count <= lease.grant_count
                  AND NOT coalesce(shown.grant_count = lease.grant_count
                                   AND shown.lease_mark <> snowflake_registry.mark_of(lease.lease_id), false) THEN
                UPDATE snowflake_registry.lease AS known SET granted_until = shown.granted_until, is_renewed = true
                WHERE known.datacenter_id = shown.datacenter_id AND known.worker_id = shown.worker_id
                  AND known.granted_until < shown.granted_until;
            ELSIF shown.grant_count >= lease.grant_count
                  OR shown.granted_until > greatest(lease.granted_from, lease.released_until) THEN
                -- The holder recorded so far can use the identity until the end of its range.
                UPDATE snowflake_registry.lease AS known
                SET used_until = NULL,
                    -- A later grant that starts before the end of this one follows a release, which was lost.
                    released_until = CASE
                        WHEN shown.grant_count > lease.grant_count AND lease.grant_count > 0 AND shown.granted_from < lease.granted_until
                        THEN greatest(lease.released_until, shown.granted_until) ELSE lease.released_until END,
                    granted_from = CASE WHEN shown.grant_count > lease.grant_count THEN shown.granted_from
                                        ELSE greatest(lease.granted_until, shown.granted_until) END,
                    granted_until = greatest(lease.granted_until, shown.granted_until),
                    grant_count = greatest(lease.grant_count + 1, shown.grant_count), nonce = NULL,
                    is_renewed = true, protocol = DEFAULT,
                    lease_id = CASE WHEN shown.grant_count > lease.grant_count
                                         AND (lease.grant_count = 0
                                              OR coalesce(lease.used_until, lease.granted_until) <= shown.granted_from)
                                    THEN holder END
                WHERE known.datacenter_id = shown.datacenter_id AND known.worker_id = shown.worker_id;
            END IF;
        ELSIF shown.name IS NOT NULL THEN
            SELECT * INTO segment FROM snowflake_registry.segment AS known WHERE known.name = shown.name;
            IF shown.next_value > segment.next_value
               OR shown.ahead_value > greatest(segment.next_value, segment.ahead_value) THEN
                segment.next_value := greatest(segment.next_value, shown.next_value);
                segment.ahead_value := greatest(segment.ahead_value, shown.ahead_value);
                segment.period_key := snowflake_registry.key_of_number(segment.digits, segment.next_value - 1);
                segment.ahead_key := snowflake_registry.key_of_number(segment.digits, segment.ahead_value - 1);
                -- Either the next period has started, or the segment has no periods in this registry.
                IF coalesce(segment.ahead_key <= segment.period_key, segment.period IS NULL) THEN
                    segment.next_value := greatest(segment.next_value, segment.ahead_value);
                    segment.ahead_key := NULL;
                    segment.ahead_value := NULL;
                END IF;
                UPDATE snowflake_registry.segment AS known
                SET next_value = segment.next_value, period_key = segment.period_key, ahead_key = segment.ahead_key,
                    ahead_value = segment.ahead_value, has_left = true, updated_at = moment
                WHERE known.name = shown.name;
            END IF;
            -- If the creation of a segment was lost, the segment is treated as dropped. If the segment is created
            -- again, it continues above the numbers in the token.
            INSERT INTO snowflake_registry.segment (
                name, next_value, start, increment, min_step, max_step, step, max_value, has_left, updated_at,
                dropped_at, was_lost
            )
            VALUES (
                shown.name, greatest(shown.next_value, shown.ahead_value), 0, 1, 1000, 1000000, 1000,
                9223372036854775807, true, moment, moment, true
            )
            ON CONFLICT DO NOTHING;
        END IF;
    END LOOP;
END
$$;
COMMENT ON FUNCTION snowflake_registry.learn_from_tokens(jsonb, uuid) IS
    'records the grants that are proven by tokens';

-- The registry does not know which numbers were granted in lost commits. If only the registry's own server takes
-- numbers, segments stay open: as with a sequence, the WAL of a range precedes the WAL of all rows with numbers of the
-- range. If a lost commit granted the first range of another server, the registry does not know that server. Therefore,
-- segments are closed if any other server is allowed to take numbers. The caller must hold the EXCLUSIVE lock.
CREATE FUNCTION snowflake_registry.close_segments(reason text) RETURNS void
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    closed bigint;
BEGIN
    UPDATE snowflake_registry.segment AS segment
    SET closed_reason = left('commits of the registry may have been lost: ' || close_segments.reason, 200), seen_until = NULL,
        updated_at = clock_timestamp()
    WHERE segment.closed_reason IS NULL AND (segment.has_left OR snowflake_registry.serves_others());
    GET DIAGNOSTICS closed = ROW_COUNT;
    IF closed > 0 THEN
        RAISE LOG 'snowflake_id_registry: closed % segments until they are resumed', closed
            USING DETAIL = format('Commits may have been lost: %s.', reason),
                  HINT = 'To open a segment: SELECT snowflake_registry.resume_segment(name, next_value); If no commits were '
                         'lost: SELECT snowflake_registry.resume_segments();';
    END IF;
END
$$;
COMMENT ON FUNCTION snowflake_registry.close_segments(text) IS
    'closes segments until the administrator specifies where they continue';

-- When a quarantine ends, all ranges that may have been granted in lost commits have ended. The allowance of two
-- minutes covers the difference between the clocks of two servers. A server may hold a longer lease than all leases
-- that the registry knows. The caller must hold the EXCLUSIVE lock.
CREATE FUNCTION snowflake_registry.enter_quarantine(reason text, closes_segments boolean DEFAULT true) RETURNS void
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    allowance CONSTANT interval := '2 minutes';
    moment CONSTANT timestamptz := clock_timestamp();
    -- This includes grants that the registry has learned from tokens. If the clock was ahead, a granted range may extend
    -- further into the future than the duration of a lease. Ranges that servers reject, as renew() does, do not count: their
    -- limit is 1 minute, by a clock that may be 2 minutes ahead of this one.
    longest CONSTANT interval := coalesce(
        (SELECT max(granted_until) FROM snowflake_registry.lease
         WHERE granted_until <= moment + interval '24 hours 3 minutes') - moment, '0');
    until timestamptz;
BEGIN
    UPDATE snowflake_registry.settings AS settings
    SET waits = greatest(waits, greatest(longest_lease, longest) + allowance),
        counted_at = moment,
        is_proved = true,
        is_witnessed = false,
        -- All affected segments are closed, and open segments need not wait.
        numbers_wait = CASE WHEN closes_segments THEN '0' ELSE numbers_wait END,
        quarantine_reason = left(enter_quarantine.reason, 200),
        serial = serial + 1,
        -- In a restored dump, this may be the ID of a later transaction of this server.
        counted_by = NULL
    RETURNING counted_at + waits INTO until;
    -- If the lease of an identity had ended, or was about to end, a lost commit may have granted the identity to
    -- another server. If the last renewal of a server was lost, the stored nonce is out of date. The nonce is removed,
    -- because otherwise the server would be treated as a copy and would stop issuing IDs.
    UPDATE snowflake_registry.lease
    SET lease_id = CASE WHEN granted_until > moment + allowance THEN lease_id END,
        nonce = NULL
    WHERE lease_id IS NOT NULL;
    IF closes_segments THEN
        PERFORM snowflake_registry.close_segments(reason);
    END IF;
    PERFORM snowflake_registry.sign_settings();
    RAISE LOG 'snowflake_id_registry: quarantine: no server gets a new worker ID before %',
        snowflake_registry.in_words(until)
        USING DETAIL = format('%s: %s.', CASE WHEN closes_segments THEN 'Commits may have been lost' ELSE 'Reason' END, reason),
              HINT = snowflake_registry.hint_of_quarantine();
END
$$;
COMMENT ON FUNCTION snowflake_registry.enter_quarantine(text, boolean) IS
    'starts a quarantine, which lasts until all ranges granted in lost commits have ended';

-- The registry cannot detect that its disk was restored to an earlier state, because the server and the timeline are
-- the same. However, the server must have been started, and the servers that hold leases and numbers know about later
-- grants. These servers call once per renew_every, even while the registry is down. Therefore, they are served first,
-- and unrecognized servers wait. If "synchronous" is set and the data of the registry are recent, unrecognized servers
-- do not wait.
CREATE FUNCTION snowflake_registry.after_restart(settings snowflake_registry.settings)
RETURNS snowflake_registry.settings
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT (settings.synchronous AND snowflake_registry.is_fresh(settings.renew_every)) THEN
        -- If a quarantine is already in progress, its reason is kept.
        IF settings.waits <= '0' OR NOT settings.is_proved THEN
            settings.quarantine_reason := format(
                'the server of the registry was started at %s, and servers that hold leases are served first',
                snowflake_registry.in_words(pg_postmaster_start_time()));
            settings.is_proved := false;
        END IF;
        settings.numbers_wait := settings.longest_lease + interval '2 minutes';
        settings.waits := greatest(settings.waits, settings.numbers_wait);
        settings.counted_at := clock_timestamp();
        settings.is_witnessed := false;
        settings.was_alone := NOT snowflake_registry.serves_others();
    END IF;
    RETURN settings;
END
$$;
COMMENT ON FUNCTION snowflake_registry.after_restart(snowflake_registry.settings) IS
    'returns the settings after a start of the server, with a quarantine if one is needed';

-- The caller must hold the EXCLUSIVE lock.
CREATE FUNCTION snowflake_registry.note_restart() RETURNS void
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    before snowflake_registry.settings;
    after snowflake_registry.settings;
BEGIN
    SELECT * INTO before FROM snowflake_registry.settings;
    after := snowflake_registry.after_restart(before);
    IF after IS DISTINCT FROM before THEN
        UPDATE snowflake_registry.settings
        SET waits = after.waits, counted_at = after.counted_at, is_proved = after.is_proved,
            is_witnessed = after.is_witnessed, numbers_wait = after.numbers_wait, was_alone = after.was_alone,
            quarantine_reason = after.quarantine_reason;
        RAISE LOG 'snowflake_id_registry: no server gets a new worker ID before %, unless a witness shortens the quarantine',
            snowflake_registry.in_words(after.counted_at + after.waits)
            USING DETAIL = format('Reason: %s.', after.quarantine_reason),
                  HINT = snowflake_registry.hint_of_quarantine();
    END IF;
    -- As in enter_quarantine(), stored nonces may be out of date.
    UPDATE snowflake_registry.lease SET nonce = NULL WHERE nonce IS NOT NULL;
    PERFORM snowflake_registry.sign_settings();
END
$$;
COMMENT ON FUNCTION snowflake_registry.note_restart() IS
    'records a start of the server, so that servers that hold leases are served first';

-- The longest time between two calls that counts. A single step of the clock takes away at most a fifth of a wait, because
-- the shortest wait lasts for two and a half renewals.
CREATE FUNCTION snowflake_registry.most_counted(settings snowflake_registry.settings) RETURNS interval
IMMUTABLE PARALLEL SAFE LANGUAGE sql
RETURN least(interval '1 minute', greatest(settings.renew_every, interval '1 second') / 2);
COMMENT ON FUNCTION snowflake_registry.most_counted(snowflake_registry.settings) IS
    'maximum time between two calls that counts as time of a wait';

-- During a wait, servers call so often that all of the time counts, even if there is only one server.
CREATE FUNCTION snowflake_registry.call_every(settings snowflake_registry.settings) RETURNS interval
STABLE PARALLEL SAFE LANGUAGE sql
RETURN CASE
    WHEN settings.waits > '1 microsecond' OR settings.server_started <> pg_postmaster_start_time()
    THEN least(settings.renew_every, snowflake_registry.most_counted(settings))
    ELSE settings.renew_every END;
COMMENT ON FUNCTION snowflake_registry.call_every(snowflake_registry.settings) IS
    'interval at which servers are told to call: renew_every, or a shorter interval during a wait';

-- The registry counts the time of a wait from call to call, because the clock may be set. A backward step counts as zero. A
-- witness proves that servers reach the registry, and the other servers call as often as the witness. The wait for numbers
-- simply ends. The end of a quarantine raises the floor, which can never be lowered. Therefore, a quarantine ends only in a
-- call of a server whose clock agrees with the clock of the registry. The caller must hold the EXCLUSIVE lock.
CREATE FUNCTION snowflake_registry.count_wait(clocks_agree boolean, tokens jsonb) RETURNS void
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    moment CONSTANT timestamptz := clock_timestamp();
    known snowflake_registry.settings;
    passed interval;
    -- A refused server waits for at least half a second before its next request, and may have to connect first.
    short interval;
BEGIN
    SELECT * INTO known FROM snowflake_registry.settings;
    IF NOT FOUND OR known.waits <= '0' THEN
        RETURN;
    END IF;
    passed := greatest(least(moment - known.counted_at, snowflake_registry.most_counted(known)), '0');
    known.waits := known.waits - passed;
    known.numbers_wait := greatest(known.numbers_wait - passed, '0');
    IF known.witnesses AND NOT known.is_witnessed AND (known.numbers_wait > '0' OR NOT known.is_proved)
       AND EXISTS (SELECT FROM snowflake_registry.read_tokens(tokens) AS shown WHERE shown.serial IS NOT NULL) THEN
        known.is_witnessed := true;
        short := 2.5 * greatest(known.longest_renewal, '1 second');
        known.numbers_wait := least(known.numbers_wait, short);
        IF NOT known.is_proved THEN
            known.waits := least(known.waits, short);
        END IF;
    END IF;
    IF known.waits <= '1 microsecond' AND clocks_agree THEN
        UPDATE snowflake_registry.settings
        SET waits = '0', numbers_wait = '0', is_proved = false, is_witnessed = false, quarantine_reason = NULL,
            nothing_before = CASE WHEN is_started THEN greatest(nothing_before, moment) ELSE nothing_before END;
    ELSE
        UPDATE snowflake_registry.settings
        SET waits = greatest(known.waits, '1 microsecond'), numbers_wait = known.numbers_wait,
            is_witnessed = known.is_witnessed, counted_at = moment;
    END IF;
    PERFORM snowflake_registry.sign_settings();
END
$$;
COMMENT ON FUNCTION snowflake_registry.count_wait(boolean, jsonb) IS 'updates the remaining time of the waits, and ends the quarantine when no time remains';

-- Takes the lock, checks for lost commits, and returns the resulting settings. A caller that knows whether the tokens
-- prove a loss says so, because reading them takes time.
CREATE FUNCTION snowflake_registry.open_registry(
    is_alone boolean, tokens jsonb DEFAULT NULL, clocks_agree boolean DEFAULT false, lease_id uuid DEFAULT NULL,
    proves_loss boolean DEFAULT NULL
)
RETURNS snowflake_registry.settings
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    timeout CONSTANT text := current_setting('lock_timeout');
    loss record;
    proved text;
    is_due boolean;
    is_overdue boolean;
    opened snowflake_registry.settings;
BEGIN
    -- This check before the lock avoids a lock upgrade: two sessions that hold the weaker lock and request the
    -- stronger one would deadlock.
    IF NOT is_alone THEN
        SELECT * INTO loss FROM snowflake_registry.lost_commits();
        is_alone := loss.reason IS NOT NULL OR loss.has_moved
            OR coalesce(proves_loss, snowflake_registry.what_tokens_prove(tokens) IS NOT NULL);
        SELECT (settings.numbers_wait > '0' OR settings.waits > CASE WHEN clocks_agree THEN interval '0' ELSE '1 microsecond' END)
               AND (abs(extract(epoch FROM clock_timestamp() - settings.counted_at)) > 0.05
                    OR settings.witnesses AND NOT settings.is_witnessed
                       AND (settings.numbers_wait > '0' OR NOT settings.is_proved) AND tokens IS NOT NULL),
               clock_timestamp() - settings.counted_at > snowflake_registry.most_counted(settings)
        INTO is_due, is_overdue FROM snowflake_registry.settings AS settings;
        IF (loss.has_restarted OR is_due) AND NOT is_alone THEN
            -- After a start, all servers call at the same time. One of these calls updates the settings, and the other
            -- calls do not wait. If the time of a wait is no longer counted in full, a call waits for a short time, because
            -- one of many callers always holds the lock.
            BEGIN
                PERFORM set_config('lock_timeout', CASE WHEN is_overdue THEN '100ms' ELSE '1ms' END, true);
                LOCK TABLE snowflake_registry.settings IN EXCLUSIVE MODE;
                is_alone := true;
                PERFORM set_config('lock_timeout', timeout, true);
            EXCEPTION WHEN lock_not_available THEN
                -- If "synchronous" is set, the start must be recorded first: otherwise a renewal would make the data
                -- look recent, as if nothing had been lost.
                is_alone := loss.has_restarted AND (SELECT settings.synchronous FROM snowflake_registry.settings AS settings);
            END;
        END IF;
    END IF;
    IF is_alone THEN
        LOCK TABLE snowflake_registry.settings IN EXCLUSIVE MODE;
        -- Another session may have handled the loss in the meantime.
        SELECT * INTO loss FROM snowflake_registry.lost_commits();
        IF EXISTS (SELECT FROM snowflake_registry.guards_off()) THEN
            PERFORM snowflake_registry.switch_guards_on();
        END IF;
        proved := snowflake_registry.what_tokens_prove(tokens);
        IF proved IS NOT NULL THEN
            PERFORM snowflake_registry.learn_from_tokens(tokens, lease_id);
        END IF;
        IF coalesce(loss.reason, proved) IS NOT NULL THEN
            PERFORM snowflake_registry.enter_quarantine(coalesce(loss.reason, proved));
        ELSIF loss.has_moved OR loss.has_restarted THEN
            PERFORM snowflake_registry.note_restart();
        END IF;
        PERFORM snowflake_registry.count_wait(clocks_agree, tokens);
    ELSE
        LOCK TABLE snowflake_registry.settings IN ROW SHARE MODE;
    END IF;
    SELECT * INTO opened FROM snowflake_registry.settings;
    IF NOT FOUND AND EXISTS (SELECT FROM snowflake_registry.signing_key) THEN
        -- Without the row, a loss of commits cannot be detected.
        RAISE EXCEPTION 'the row of table "settings" of the registry is missing'
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  DETAIL = 'The registry has a signing key, which is created together with the row. A dump may have been restored in part.',
                  HINT = 'Drop the extension, create it in the version of the dump, and restore the dump with the option --exit-on-error. '
                         'Then run ALTER EXTENSION snowflake_id_registry UPDATE;';
    END IF;
    IF opened.server_started IS DISTINCT FROM pg_postmaster_start_time() THEN
        -- Other sessions held the lock, so the start was not recorded. This call behaves as if it had been recorded.
        opened := snowflake_registry.after_restart(opened);
    END IF;
    RETURN opened;
END
$$;
COMMENT ON FUNCTION snowflake_registry.open_registry(boolean, jsonb, boolean, uuid, boolean) IS
    'takes the lock, and checks whether commits were lost';

-- Creates the view that prevents DROP EXTENSION. Because the view is created after the extension, it depends on the
-- extension without being a member. The error message shows the name of the view.
CREATE FUNCTION snowflake_registry.guard_fleet() RETURNS void
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF to_regclass('snowflake_registry.the_fleet_is_in_use_call_end_fleet_first') IS NULL THEN
        CREATE VIEW snowflake_registry.the_fleet_is_in_use_call_end_fleet_first AS
            SELECT count(*) AS live_leases
            FROM snowflake_registry.lease WHERE coalesce(used_until, granted_until) > clock_timestamp();
        COMMENT ON VIEW snowflake_registry.the_fleet_is_in_use_call_end_fleet_first IS
            'prevents DROP EXTENSION while the fleet is in use; end_fleet() removes the view';
        REVOKE ALL ON snowflake_registry.the_fleet_is_in_use_call_end_fleet_first FROM PUBLIC;
    END IF;
END
$$;
COMMENT ON FUNCTION snowflake_registry.guard_fleet() IS 'makes DROP EXTENSION fail unless CASCADE is specified';

-- Fills in the common columns of an answer, and refuses servers in cases that can be detected without a lock. If the
-- server is not refused, outcome is NULL. The clock of a holder that releases its lease does not matter.
CREATE FUNCTION snowflake_registry.begin_answer(
    request jsonb, compares_clocks boolean,
    OUT answer snowflake_registry.answer, OUT protocol int, OUT clock_offset bigint
)
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    checked CONSTANT record := snowflake_registry.check_request(request);
    known snowflake_registry.settings;
    furthest CONSTANT bigint := 60000000;
BEGIN
    SELECT * INTO known FROM snowflake_registry.settings;
    answer.lowest_protocol := checked.lowest;
    answer.highest_protocol := checked.highest;
    answer.registry_id := known.registry_id;
    answer.registry_clock := snowflake_registry.microseconds(statement_timestamp());
    answer.lease := snowflake_registry.microseconds(known.lease);
    answer.outcome := checked.outcome;
    answer.detail := checked.detail;
    protocol := checked.protocol;
    IF answer.outcome IS NOT NULL THEN
        RETURN;
    ELSIF checked.registry_id IS NOT NULL AND checked.registry_id IS DISTINCT FROM known.registry_id THEN
        answer.outcome := 'foreign';
        answer.detail := format('this registry is %s, not %s', coalesce(known.registry_id::text, 'a new one'),
                                checked.registry_id);
        RETURN;
    ELSIF NOT compares_clocks THEN
        RETURN;
    END IF;
    -- The bounds prevent an overflow of the sum.
    clock_offset := greatest(least(snowflake_registry.number_of(request, 'clock'), 4611686018427387904),
                             -4611686018427387904)
        - answer.registry_clock
        + greatest(least(coalesce(snowflake_registry.number_of(request, 'round_trip'), 0), furthest), 0) / 2;
    IF request ->> 'clock' IS NULL OR abs(clock_offset) > furthest THEN
        answer.outcome := 'clock';
        answer.detail := CASE
            WHEN request ->> 'clock' IS NULL THEN 'the server did not report its clock'
            ELSE format('the clock of the server is %s s %s the clock of the registry, and at most %s s are '
                        'accepted', abs(clock_offset) / 1000000,
                        CASE WHEN clock_offset < 0 THEN 'behind' ELSE 'ahead of' END, furthest / 1000000)
        END;
    END IF;
END
$$;
COMMENT ON FUNCTION snowflake_registry.begin_answer(jsonb, boolean) IS
    'starts an answer: fills in the common columns, and refuses a server with another protocol, registry or clock';

-- Functions for servers -----------------------------------------------------------------------------------

-- Returns the identity that the caller gets, which is free from free_from, and the worker IDs that are reserved for its role.
-- Without reserved ones, a server with a pin gets none.
CREATE FUNCTION snowflake_registry.choose_worker(
    settings snowflake_registry.settings, moment timestamptz, datacenter_id int, worker_limit bigint, pin int, unwanted int[],
    by_hand int[], node_name text, OUT reserved int[], OUT worker_id int, OUT free_from timestamptz
)
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    named int[];
BEGIN
    reserved := ARRAY(SELECT lease.worker_id FROM snowflake_registry.lease AS lease
                      WHERE lease.datacenter_id = choose_worker.datacenter_id AND lease.reserved_for = session_user
                        AND lease.worker_id = coalesce(choose_worker.pin, lease.worker_id));
    IF choose_worker.pin IS NOT NULL AND cardinality(reserved) = 0 THEN
        RETURN;
    END IF;
    -- A worker ID that the server can never have does not keep it from the others.
    named := ARRAY(SELECT element FROM unnest(reserved) AS element
                   WHERE element = ANY (choose_worker.by_hand)
                     AND element < choose_worker.worker_limit AND element <> ALL (choose_worker.unwanted));
    IF cardinality(named) > 0 THEN
        reserved := named;
    END IF;

    -- Find a free identity, or otherwise the identity that becomes free first. Identities that the node held before are
    -- preferred. Identities that are said to be used by hand come last.
    WITH known AS (
        SELECT lease.worker_id,
               -- The end of a new range must not be before granted_until.
               greatest(CASE WHEN lease.used_until IS NULL THEN lease.granted_until
                             ELSE greatest(lease.used_until, lease.granted_until - settings.lease) END,
                        settings.nothing_before) AS free_from,
               lease.node_name = choose_worker.node_name AS was_its_own, lease.renewed_at, lease.is_reserved,
               lease.said_by_hand IS NOT NULL AS is_by_hand
        FROM snowflake_registry.lease AS lease
        WHERE lease.datacenter_id = choose_worker.datacenter_id
    ),
    -- NOT IN with a subquery builds a hash table once. A search of the array for each candidate would take a second for
    -- the longest list, while all other calls wait.
    --
    -- The lowest identity that was never granted is first_worker, or the successor of a known or refused identity.
    never_given AS (
        SELECT min(candidate.worker_id)::int AS worker_id,
               settings.nothing_before AS free_from,
               false AS was_its_own, NULL::timestamptz AS renewed_at, false AS is_reserved, false AS is_by_hand
        FROM (
            SELECT settings.first_worker::bigint AS worker_id
            UNION ALL SELECT known.worker_id::bigint + 1 FROM known
            UNION ALL SELECT element::bigint + 1 FROM unnest(choose_worker.unwanted) AS element
        ) AS candidate
        WHERE candidate.worker_id BETWEEN settings.first_worker AND settings.last_worker
          AND candidate.worker_id < choose_worker.worker_limit
          AND candidate.worker_id NOT IN (SELECT element FROM unnest(choose_worker.unwanted) AS element)
          AND candidate.worker_id NOT IN (SELECT known.worker_id FROM known)
    )
    SELECT candidate.worker_id, candidate.free_from INTO choose_worker.worker_id, choose_worker.free_from
    FROM (SELECT * FROM known UNION ALL SELECT * FROM never_given) AS candidate
    WHERE CASE WHEN cardinality(reserved) > 0 THEN candidate.worker_id = ANY (reserved)
               ELSE candidate.worker_id BETWEEN settings.first_worker AND settings.last_worker
                    AND NOT candidate.is_reserved END
      AND candidate.worker_id < choose_worker.worker_limit
      AND candidate.worker_id NOT IN (SELECT element FROM unnest(choose_worker.unwanted) AS element)
    ORDER BY CASE WHEN candidate.free_from > moment THEN candidate.free_from ELSE '-infinity' END,
             candidate.is_by_hand,
             coalesce(candidate.was_its_own, false) DESC,
             CASE WHEN candidate.was_its_own THEN candidate.renewed_at END DESC NULLS LAST,
             candidate.worker_id
    LIMIT 1;
END
$$;
COMMENT ON FUNCTION snowflake_registry.choose_worker(
    snowflake_registry.settings, timestamptz, int, bigint, int, int[], int[], text) IS
    'identity that is free for a server, or that will be free first';

-- A role cannot end the reports of other roles, and its own reports change the choice for others little.
CREATE FUNCTION snowflake_registry.note_hands(
    settings snowflake_registry.settings, moment timestamptz, datacenter_id int, by_hand int[]
)
RETURNS void
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    caller CONSTANT text := session_user;
    no_range CONSTANT timestamptz := least(settings.nothing_before, moment);
BEGIN
    IF (settings.is_started AND note_hands.datacenter_id <= settings.last_datacenter) IS NOT TRUE THEN
        RETURN;
    END IF;
    -- A role adds at most about 64 rows.
    INSERT INTO snowflake_registry.lease AS lease (
        datacenter_id, worker_id, granted_from, granted_until, role, acquired_at, renewed_at, grant_count, said_by_hand
    )
    SELECT note_hands.datacenter_id, hand.worker_id, no_range, no_range, caller, moment, moment, 0,
           jsonb_build_object(caller, snowflake_registry.microseconds(moment))
    FROM unnest(note_hands.by_hand) AS hand (worker_id)
    WHERE EXISTS (SELECT FROM snowflake_registry.lease AS known
                  WHERE known.datacenter_id = note_hands.datacenter_id AND known.worker_id = hand.worker_id)
       OR hand.worker_id BETWEEN settings.first_worker AND settings.last_worker
          AND (SELECT count(*) FROM snowflake_registry.lease AS known
               WHERE known.role = caller AND known.grant_count = 0) < 64
    ON CONFLICT (datacenter_id, worker_id) DO UPDATE
    SET said_by_hand = coalesce(lease.said_by_hand, '{}') || excluded.said_by_hand
    WHERE coalesce((lease.said_by_hand ->> caller)::bigint, 0)
          < snowflake_registry.microseconds(moment - interval '1 hour');
    -- The last reports of a role count. A spare stays used up.
    UPDATE snowflake_registry.lease AS lease
    SET said_by_hand = nullif(lease.said_by_hand - caller, '{}')
    FROM (SELECT known.datacenter_id, known.worker_id
          FROM snowflake_registry.lease AS known
          WHERE known.said_by_hand ? caller AND NOT (known.is_reserved AND known.reserved_for IS NULL)
          ORDER BY (known.said_by_hand ->> caller)::bigint DESC, known.datacenter_id, known.worker_id
          OFFSET 64) AS older
    WHERE lease.datacenter_id = older.datacenter_id AND lease.worker_id = older.worker_id;
END
$$;
COMMENT ON FUNCTION snowflake_registry.note_hands(snowflake_registry.settings, timestamptz, int, int[]) IS
    'records the worker IDs that the configuration of the caller sets by hand, and forgets all but the last 64 of its role';

CREATE FUNCTION snowflake_registry.other_by_hand(worker_id int, by_hand int[]) RETURNS text
STABLE PARALLEL SAFE LANGUAGE sql
RETURN CASE
    WHEN cardinality(by_hand) > 0 AND worker_id <> ALL (by_hand)
    THEN format('worker ID %s was granted, and the configuration of the server sets worker ID %s, which is not reserved for role %s',
                worker_id, array_to_string(by_hand, ', '), snowflake_registry.name_in_words(session_user)) END;
COMMENT ON FUNCTION snowflake_registry.other_by_hand(int, int[]) IS
    'detail of an answer that grants a worker ID other than those that are set by hand; otherwise NULL';

CREATE FUNCTION snowflake_registry.acquire(request jsonb) RETURNS snowflake_registry.answer
VOLATILE PARALLEL UNSAFE SECURITY DEFINER LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
<<call>>
DECLARE
    begun record;
    answer snowflake_registry.answer;
    said record;
    needs record;
    lease_id CONSTANT uuid := snowflake_registry.uuid_of(request, 'lease_id');
    nonce CONSTANT uuid := snowflake_registry.uuid_of(request, 'nonce');
    registry snowflake_registry.settings;
    moment timestamptz;
    held snowflake_registry.lease;
    -- The worker IDs that are reserved for the role of the caller, if there are any.
    reserved int[];
    free record;
    before record;
BEGIN
    PERFORM snowflake_registry.begin_call();
    SELECT * INTO begun FROM snowflake_registry.begin_answer(request, true);
    answer := begun.answer;
    IF answer.outcome IS NULL THEN
        IF lease_id IS NULL OR nonce IS NULL THEN
            RAISE EXCEPTION 'the values of keys "lease_id" and "nonce" must be UUIDs'
                USING ERRCODE = 'invalid_parameter_value',
                      HINT = 'Send strings such as "11111111-1111-4111-8111-111111111111".';
        END IF;
        SELECT * INTO needs FROM snowflake_registry.read_needs(request -> 'needs');
        IF needs.unknown IS NOT NULL THEN
            answer.outcome := 'registry too old';
            answer.detail := format('the request needs "%s", which this registry does not know',
                                    left(snowflake_registry.printable(needs.unknown), 40));
        END IF;
    END IF;
    -- In a request with another protocol, the key may have another meaning.
    SELECT * INTO said FROM snowflake_registry.read_facts(
        CASE WHEN begun.protocol BETWEEN answer.lowest_protocol AND answer.highest_protocol THEN request -> 'facts' END);
    -- The tokens of a refused server also count.
    registry := snowflake_registry.open_registry(answer.outcome IS NULL OR cardinality(said.by_hand) > 0, request -> 'tokens',
                                                 answer.outcome IS NULL);
    answer.renew_every := snowflake_registry.microseconds(snowflake_registry.call_every(registry));
    moment := clock_timestamp();

    -- A refused server continues with its worker ID. Other servers still get the worker ID if no other one is free.
    IF cardinality(said.by_hand) > 0 THEN
        PERFORM snowflake_registry.note_hands(
            registry, moment, snowflake_registry.number_of(request -> 'needs', 'datacenter', 0, 2147483647)::int, said.by_hand);
    END IF;
    IF answer.outcome IS NOT NULL THEN
        RETURN answer;
    END IF;
    said.clock_offset :=
        coalesce(said.clock_offset, make_interval(secs => begun.clock_offset::float8 / 1000000));

    -- The answer to an earlier call may have been lost. Therefore, a repeated request gets the same answer. The row is
    -- written again so that the server waits for this commit.
    SELECT * INTO held FROM snowflake_registry.lease AS lease WHERE lease.lease_id = call.lease_id;
    IF FOUND THEN
        -- A renewal shows that the holder has received the first answer, and so does a token, which only a renewal returns.
        -- The registry may have lost the renewal.
        IF held.used_until IS NOT NULL THEN
            answer.outcome := 'twin';
            answer.detail := format('worker ID %s was held under this lease, and the lease has been released',
                                    held.worker_id);
            RETURN answer;
        ELSIF held.is_renewed OR held.nonce <> call.nonce OR EXISTS (
            SELECT FROM snowflake_registry.read_tokens(request -> 'tokens') AS shown
            WHERE shown.lease_mark = snowflake_registry.mark_of(call.lease_id)
        ) THEN
            answer.outcome := 'twin';
            answer.detail := format('worker ID %s is held under this lease, and the lease has been renewed since',
                                    held.worker_id);
            RETURN answer;
        ELSIF held.granted_until > moment AND held.granted_until <= moment + interval '24 hours 1 minute'
              AND held.datacenter_id = needs.datacenter
              AND held.worker_id = coalesce(needs.pin, held.worker_id)
              AND NOT (held.is_reserved AND held.reserved_for IS DISTINCT FROM session_user)
              AND held.worker_id < needs.worker_limit
              AND held.worker_id <> ALL (needs.unwanted) THEN
            answer.outcome := 'granted';
            -- The lease still counts as not renewed. If the nonce is not known, it remains NULL, because the last renewal may
            -- have been lost.
            UPDATE snowflake_registry.lease AS lease
            SET nonce = held.nonce
            WHERE lease.lease_id = call.lease_id;
            answer.datacenter_id := held.datacenter_id;
            answer.worker_id := held.worker_id;
            answer.granted_from := snowflake_registry.microseconds(held.granted_from);
            answer.granted_until := snowflake_registry.microseconds(held.granted_until);
            answer.detail := snowflake_registry.other_by_hand(held.worker_id, said.by_hand);
            RETURN answer;
        END IF;
        -- The lease has ended, or does not match the request. No other server gets the rest of its range.
        UPDATE snowflake_registry.lease AS lease
        SET lease_id = NULL, nonce = NULL
        WHERE lease.lease_id = call.lease_id;
    END IF;

    IF registry.frozen_until IS NOT NULL THEN
        answer.outcome := 'taken';
        answer.detail := 'the registry is frozen: if another registry replaces it, move this server there; otherwise see section "Lost requests" '
                         'of page run/registry of the manual';
        RETURN answer;
    ELSIF registry.registry_id IS NULL OR NOT registry.is_started THEN
        answer.outcome := 'not started';
        answer.detail := CASE
            WHEN EXISTS (SELECT FROM snowflake_registry.lease WHERE grant_count > 0)
            THEN 'the fleet was ended: to continue it, its administrator must call snowflake_registry.quarantine()'
            ELSE 'its administrator must call snowflake_registry.start_fleet()' END;
        RETURN answer;
    ELSIF needs.datacenter > registry.last_datacenter THEN
        answer.outcome := 'taken';
        answer.detail := format('the registry grants worker IDs for datacenters 0 to %s, not for datacenter %s',
                                registry.last_datacenter, needs.datacenter);
        RETURN answer;
    END IF;

    IF registry.waits > '0' THEN
        answer.outcome := 'taken';
        answer.free_from := snowflake_registry.microseconds(registry.counted_at + registry.waits);
        answer.detail := format('quarantine until %s: %s',
                                snowflake_registry.in_words(registry.counted_at + registry.waits),
                                snowflake_registry.shown_reason(registry.quarantine_reason));
        RETURN answer;
    END IF;

    SELECT * INTO free FROM snowflake_registry.choose_worker(
        registry, moment, needs.datacenter, needs.worker_limit, needs.pin, needs.unwanted, said.by_hand, said.node_name);
    reserved := free.reserved;
    IF free.worker_id IS NULL THEN
        answer.outcome := 'taken';
        answer.detail := CASE
            WHEN needs.pin IS NOT NULL AND cardinality(reserved) = 0 THEN
                format('worker ID %s is not reserved for role %s', needs.pin, snowflake_registry.name_in_words(session_user))
            ELSE format(
                'there is no worker ID for this server: the registry grants %s, worker IDs below %s fit the layout of '
                'the server, and the server has excluded %s',
                CASE WHEN cardinality(reserved) > 0
                     THEN format('only worker IDs %s to role %s', array_to_string(reserved, ', '), snowflake_registry.name_in_words(session_user))
                     ELSE format('worker IDs %s to %s', registry.first_worker, registry.last_worker) END,
                needs.worker_limit, cardinality(needs.unwanted)) END;
        RETURN answer;
    ELSIF free.free_from > moment THEN
        answer.outcome := 'taken';
        answer.free_from := snowflake_registry.microseconds(free.free_from);
        answer.detail := CASE
            WHEN registry.nothing_before > moment THEN
                format('the registry grants no range that starts before %s, and its clock shows %s',
                       snowflake_registry.in_words(registry.nothing_before),
                       snowflake_registry.in_words(moment))
            WHEN cardinality(reserved) > 0 THEN
                format('worker ID %s is taken until %s', free.worker_id,
                       snowflake_registry.in_words(free.free_from))
            ELSE format('all worker IDs are taken, and worker ID %s will be free first, at %s', free.worker_id,
                        snowflake_registry.in_words(free.free_from))
        END;
        RETURN answer;
    END IF;

    SELECT lease.node_name, lease.host, lease.port INTO before
    FROM snowflake_registry.lease AS lease
    WHERE lease.datacenter_id = needs.datacenter AND lease.worker_id = free.worker_id;
    INSERT INTO snowflake_registry.lease AS lease (
        datacenter_id, worker_id, granted_from, granted_until, lease_id, nonce, node_name, host, port, layout,
        version, protocol, worker_limit, clock_offset, role, acquired_at, renewed_at, is_renewed, grant_count
    )
    VALUES (
        needs.datacenter, free.worker_id, free.free_from, moment + registry.lease, call.lease_id,
        call.nonce, said.node_name, said.host, said.port, said.layout, said.version, begun.protocol,
        needs.worker_limit, said.clock_offset, session_user, moment, moment, false, 1
    )
    ON CONFLICT (datacenter_id, worker_id) DO UPDATE
    SET granted_from = excluded.granted_from, granted_until = excluded.granted_until,
        lease_id = excluded.lease_id, nonce = excluded.nonce, node_name = excluded.node_name,
        host = excluded.host, port = excluded.port, layout = excluded.layout, version = excluded.version,
        protocol = excluded.protocol, worker_limit = excluded.worker_limit, clock_offset = excluded.clock_offset,
        role = excluded.role, acquired_at = excluded.acquired_at,
        renewed_at = excluded.renewed_at, is_renewed = false, grant_count = lease.grant_count + 1, used_until = NULL,
        unsigned_since = NULL;
    UPDATE snowflake_registry.settings SET serial = registry.serial + 1;
    PERFORM snowflake_registry.sign_settings();
    RAISE LOG 'snowflake_id_registry: granted worker ID % (datacenter %) to %, from % to %; the previous holder is %',
        free.worker_id, needs.datacenter,
        snowflake_registry.server_in_words(said.node_name, said.host, said.port),
        snowflake_registry.in_words(free.free_from), snowflake_registry.in_words(moment + registry.lease),
        CASE WHEN before IS NULL THEN 'not known'
             ELSE snowflake_registry.server_in_words(before.node_name, before.host, before.port) END;
    answer.outcome := 'granted';
    answer.datacenter_id := needs.datacenter;
    answer.worker_id := free.worker_id;
    answer.granted_from := snowflake_registry.microseconds(free.free_from);
    answer.granted_until := snowflake_registry.microseconds(moment + registry.lease);
    answer.detail := snowflake_registry.other_by_hand(free.worker_id, said.by_hand);
    RETURN answer;
END
$$;
COMMENT ON FUNCTION snowflake_registry.acquire(jsonb) IS
    'grants an identity that no other server holds, or returns the time at which an identity will be free';

-- A copy of the holder may be running that does not know of the release.
CREATE FUNCTION snowflake_registry.is_range_released(lease_id uuid, tokens jsonb) RETURNS boolean
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN EXISTS (
        SELECT
        FROM snowflake_registry.read_tokens(is_range_released.tokens) AS shown
             JOIN snowflake_registry.lease AS lease USING (datacenter_id, worker_id)
        WHERE shown.lease_mark = snowflake_registry.mark_of(is_range_released.lease_id)
          AND shown.granted_until <= lease.released_until
          AND (shown.grant_count < lease.grant_count AND shown.granted_until > lease.granted_from
               OR shown.grant_count = lease.grant_count AND shown.granted_until > lease.used_until)
    );
END
$$;
COMMENT ON FUNCTION snowflake_registry.is_range_released(uuid, jsonb) IS
    'tests whether a token of this lease belongs to a range that was released, and that overlaps the current range';

CREATE FUNCTION snowflake_registry.renew(request jsonb) RETURNS snowflake_registry.answer
VOLATILE PARALLEL UNSAFE SECURITY DEFINER LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
<<call>>
DECLARE
    begun record;
    answer snowflake_registry.answer;
    said record;
    lease_id CONSTANT uuid := snowflake_registry.uuid_of(request, 'lease_id');
    last_nonce CONSTANT uuid := snowflake_registry.uuid_of(request, 'last_nonce');
    next_nonce CONSTANT uuid := snowflake_registry.uuid_of(request, 'next_nonce');
    proves_loss boolean;
    shown record;
    is_durable boolean;
    registry snowflake_registry.settings;
    moment timestamptz;
    held snowflake_registry.lease;
BEGIN
    PERFORM snowflake_registry.begin_call();
    -- Nothing is read before: see wal_position().
    SELECT * INTO shown FROM snowflake_registry.statement_of_lease(call.lease_id);
    SELECT * INTO begun FROM snowflake_registry.begin_answer(request, true);
    answer := begun.answer;
    IF answer.outcome IS NULL AND (lease_id IS NULL OR last_nonce IS NULL OR next_nonce IS NULL) THEN
        RAISE EXCEPTION 'the values of keys "lease_id", "last_nonce" and "next_nonce" must be UUIDs'
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = 'Send strings such as "11111111-1111-4111-8111-111111111111".';
    END IF;

    -- If a server proves a loss, it gets no new token and keeps its old token. A new token would prove less, because
    -- the transaction has not yet committed what the old token proves.
    proves_loss := snowflake_registry.what_tokens_prove(request -> 'tokens') IS NOT NULL;
    IF NOT proves_loss AND shown.statement IS NOT NULL THEN
        is_durable := snowflake_registry.becomes_durable(shown.seen);
        answer.token := CASE WHEN is_durable THEN snowflake_registry.signed(shown.statement) END;
    END IF;
    registry := snowflake_registry.open_registry(false, request -> 'tokens', answer.outcome IS NULL,
                                                 call.lease_id, proves_loss);
    answer.renew_every := snowflake_registry.microseconds(snowflake_registry.call_every(registry));
    -- The tokens of a refused server also count.
    IF answer.outcome IS NOT NULL THEN
        RETURN answer;
    END IF;
    SELECT * INTO said FROM snowflake_registry.read_facts(request -> 'facts');
    said.clock_offset :=
        coalesce(said.clock_offset, make_interval(secs => begun.clock_offset::float8 / 1000000));
    -- Concurrent renewals of the same lease are serialized, and the second one sees the changes of the first one.
    SELECT * INTO held
    FROM snowflake_registry.lease AS lease WHERE lease.lease_id = call.lease_id FOR UPDATE;
    IF NOT FOUND THEN
        IF snowflake_registry.is_range_released(call.lease_id, request -> 'tokens') THEN
            -- The caller must not continue to the end of its lease, because the next range has started before that.
            answer.outcome := 'twin';
            answer.detail := 'another process has released this lease';
            RETURN answer;
        END IF;
        answer.outcome := 'unknown';
        answer.detail := 'no worker ID is held under this lease: the lease was revoked, the worker ID was granted '
                         'to another server, or commits were lost';
        RETURN answer;
    END IF;
    moment := clock_timestamp();
    IF held.used_until IS NOT NULL THEN
        answer.outcome := 'twin';
        answer.detail := 'another process has released this lease';
        RETURN answer;
    ELSIF held.nonce IS NOT NULL AND registry.server_started = pg_postmaster_start_time()
       AND NOT coalesce(held.nonce = call.last_nonce OR held.nonce = call.next_nonce, false) THEN
        RAISE LOG 'snowflake_id_registry: two servers hold worker ID % (datacenter %) under the same lease',
            held.worker_id, held.datacenter_id
            USING DETAIL = format('The registry refused a renewal by %s. One server may be a copy of the other.',
                                  snowflake_registry.server_in_words(said.node_name, said.host, said.port));
        answer.outcome := 'twin';
        answer.detail := format('worker ID %s was renewed under the same lease by another server, last at %s',
                                held.worker_id, snowflake_registry.in_words(held.renewed_at));
        RETURN answer;
    ELSIF held.is_reserved AND held.reserved_for IS DISTINCT FROM session_user AND registry.frozen_until IS NULL THEN
        -- A frozen registry grants no other worker ID.
        answer.outcome := 'unknown';
        answer.detail := format('worker ID %s is reserved for %s', held.worker_id,
                                snowflake_registry.reserved_in_words(held.reserved_for));
        RETURN answer;
    ELSIF held.granted_until > moment + interval '24 hours 1 minute' THEN
        -- The clock was wrong when this range was granted. Servers reject such a range, and can get other worker IDs.
        answer.outcome := 'unknown';
        answer.detail := format('worker ID %s was granted until %s by a clock that was ahead',
                                held.worker_id, snowflake_registry.in_words(held.granted_until));
        RETURN answer;
    ELSIF held.granted_until < registry.nothing_before AND registry.is_started AND registry.waits <= '0' THEN
        answer.outcome := 'unknown';
        answer.detail := format('the lease ended at %s, and it is not known which other servers had worker ID %s '
                                'before %s', snowflake_registry.in_words(held.granted_until), held.worker_id,
                                snowflake_registry.in_words(registry.nothing_before));
        RETURN answer;
    ELSIF held.granted_until <= moment AND registry.frozen_until IS NOT NULL THEN
        answer.outcome := 'quarantine';
        answer.detail := format('the lease ended at %s, and the registry is frozen',
                                snowflake_registry.in_words(held.granted_until));
        RETURN answer;
    ELSIF held.granted_until <= moment
          AND (registry.waits > '0' OR registry.nothing_before > moment OR NOT registry.is_started) THEN
        -- A renewal after the end of the lease is equivalent to a new grant.
        answer.outcome := 'quarantine';
        answer.free_from := snowflake_registry.microseconds(greatest(
            registry.counted_at + registry.waits, CASE WHEN registry.is_started THEN registry.nothing_before END));
        answer.detail := format('the lease ended at %s, and the registry is in quarantine until %s: %s',
                                snowflake_registry.in_words(held.granted_until),
                                snowflake_registry.in_words(CASE
                                    WHEN registry.waits > '0' THEN registry.counted_at + registry.waits
                                    WHEN registry.is_started THEN registry.nothing_before
                                    ELSE 'infinity' END),
                                coalesce(snowflake_registry.shown_reason(registry.quarantine_reason), 'the fleet was ended'));
        RETURN answer;
    END IF;
    UPDATE snowflake_registry.lease AS lease
    SET granted_until = greatest(lease.granted_until, least(moment + registry.lease, registry.frozen_until)),
        nonce = call.next_nonce,
        node_name = coalesce(said.node_name, lease.node_name),
        host = coalesce(said.host, lease.host),
        port = coalesce(said.port, lease.port),
        layout = coalesce(said.layout, lease.layout),
        version = coalesce(said.version, lease.version),
        protocol = begun.protocol,
        clock_offset = said.clock_offset,
        role = session_user,
        renewed_at = moment,
        is_renewed = true,
        unsigned_since = CASE WHEN is_durable THEN NULL WHEN NOT is_durable THEN coalesce(lease.unsigned_since, moment)
                              ELSE lease.unsigned_since END
    WHERE lease.lease_id = call.lease_id
    RETURNING lease.* INTO held;
    -- A server that returns may have used its spare. Callers can name any worker IDs, so nothing waits for a row.
    IF cardinality(said.by_hand) > 0 THEN
        UPDATE snowflake_registry.lease AS lease
        SET said_by_hand = coalesce(lease.said_by_hand, '{}')
                           || jsonb_build_object(session_user, snowflake_registry.microseconds(moment))
        FROM (SELECT known.datacenter_id, known.worker_id
              FROM snowflake_registry.lease AS known
              WHERE known.datacenter_id = held.datacenter_id AND known.worker_id = ANY (said.by_hand)
                AND known.is_reserved AND known.reserved_for IS NULL
                AND coalesce((known.said_by_hand ->> session_user::text)::bigint, 0)
                    < snowflake_registry.microseconds(moment - interval '1 hour')
              FOR UPDATE SKIP LOCKED) AS spare
        WHERE lease.datacenter_id = spare.datacenter_id AND lease.worker_id = spare.worker_id;
    END IF;
    answer.outcome := 'granted';
    IF isfinite(registry.frozen_until) THEN
        answer.detail := format('the registry is frozen, and extends no lease beyond %s',
                                snowflake_registry.in_words(registry.frozen_until));
    END IF;
    answer.datacenter_id := held.datacenter_id;
    answer.worker_id := held.worker_id;
    answer.granted_from := snowflake_registry.microseconds(held.granted_from);
    answer.granted_until := snowflake_registry.microseconds(held.granted_until);
    RETURN answer;
END
$$;
COMMENT ON FUNCTION snowflake_registry.renew(jsonb) IS
    'renews the lease of a server';

-- Release -----------------------------------------------------------------------------------------------

-- The holder has stopped and hands the rest of its range back. granted_until does not change, because tokens contain
-- it: only the start of the next range moves. A lost release does no harm, so it is not counted in serial.
CREATE FUNCTION snowflake_registry.release(request jsonb) RETURNS snowflake_registry.answer
VOLATILE PARALLEL UNSAFE SECURITY DEFINER LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
<<call>>
DECLARE
    answer snowflake_registry.answer;
    lease_id CONSTANT uuid := snowflake_registry.uuid_of(request, 'lease_id');
    last_nonce CONSTANT uuid := snowflake_registry.uuid_of(request, 'last_nonce');
    next_nonce CONSTANT uuid := snowflake_registry.uuid_of(request, 'next_nonce');
    used_until bigint;
    held snowflake_registry.lease;
    registry snowflake_registry.settings;
BEGIN
    PERFORM snowflake_registry.begin_call();
    answer := (snowflake_registry.begin_answer(request, false)).answer;
    IF answer.outcome IS NULL THEN
        IF lease_id IS NULL OR last_nonce IS NULL OR next_nonce IS NULL THEN
            RAISE EXCEPTION 'the values of keys "lease_id", "last_nonce" and "next_nonce" must be UUIDs'
                USING ERRCODE = 'invalid_parameter_value',
                      HINT = 'Send strings such as "11111111-1111-4111-8111-111111111111".';
        END IF;
        used_until := snowflake_registry.number_of(request, 'used_until');
    END IF;
    registry := snowflake_registry.open_registry(false, request -> 'tokens', false, call.lease_id);
    answer.renew_every := snowflake_registry.microseconds(snowflake_registry.call_every(registry));
    -- The tokens of a refused holder also count.
    IF answer.outcome IS NOT NULL THEN
        RETURN answer;
    END IF;
    SELECT * INTO held
    FROM snowflake_registry.lease AS lease WHERE lease.lease_id = call.lease_id FOR UPDATE;
    IF NOT FOUND THEN
        answer.outcome := 'unknown';
        answer.detail := 'no worker ID is held under this lease, so there is nothing to release';
        RETURN answer;
    ELSIF held.nonce IS NOT NULL
          AND NOT coalesce(held.nonce = call.last_nonce OR held.nonce = call.next_nonce, false) THEN
        answer.outcome := 'twin';
        answer.detail := format('worker ID %s was renewed under the same lease by another server, last at %s',
                                held.worker_id, snowflake_registry.in_words(held.renewed_at));
        RETURN answer;
    ELSIF held.used_until IS NULL
          AND (held.nonce IS NULL OR registry.server_started IS DISTINCT FROM pg_postmaster_start_time()) THEN
        answer.outcome := 'unknown';
        answer.detail := format('the registry cannot tell the holder of worker ID %s from a copy before the next '
                                'renewal, so the worker ID stays taken until the lease ends', held.worker_id);
        RETURN answer;
    ELSIF held.used_until IS NULL THEN
        -- The past is never handed back, even if the holder says that it used nothing: no later holder needs it. NULL
        -- means that the holder does not know what it has used. No two ranges of an identity have the same start.
        held.used_until := least(held.granted_until, greatest(held.granted_from + interval '1 microsecond', CASE
            WHEN call.used_until IS NULL THEN held.granted_until
            ELSE greatest(clock_timestamp(), snowflake_registry.instant(
                least(greatest(call.used_until, 0), snowflake_registry.microseconds(held.granted_until)))) END));
        UPDATE snowflake_registry.lease AS lease
        SET used_until = held.used_until, released_until = lease.granted_until
        WHERE lease.lease_id = call.lease_id;
        RAISE LOG 'snowflake_id_registry: worker ID % (datacenter %) was released by %',
            held.worker_id, held.datacenter_id,
            snowflake_registry.server_in_words(held.node_name, held.host, held.port)
            USING DETAIL = format('The next range starts at %s or later.',
                                  snowflake_registry.in_words(held.used_until));
    ELSE
        -- The answer to an earlier call may have been lost. The row is written again so that the holder waits for this
        -- commit.
        UPDATE snowflake_registry.lease AS lease
        SET used_until = held.used_until WHERE lease.lease_id = call.lease_id;
    END IF;
    answer.outcome := 'released';
    answer.datacenter_id := held.datacenter_id;
    answer.worker_id := held.worker_id;
    answer.free_from := snowflake_registry.microseconds(held.used_until);
    RETURN answer;
END
$$;
COMMENT ON FUNCTION snowflake_registry.release(jsonb) IS
    'releases the lease of a holder that has stopped, so that another server can get the rest of its range';

-- Segments: computation of numbers -----------------------------------------------------------------------

-- A number with a period consists of a prefix, such as 20261121, and the digits of a serial number. Therefore all
-- numbers of a later period are higher, and the numbers of a segment only increase. Sums are computed as numeric,
-- which cannot overflow.

CREATE FUNCTION snowflake_registry.at_or_above(start numeric, increment bigint, value numeric) RETURNS numeric
IMMUTABLE PARALLEL SAFE LANGUAGE sql
RETURN CASE WHEN value <= start THEN start
            ELSE value + mod(increment - mod(value - start, increment), increment) END;
COMMENT ON FUNCTION snowflake_registry.at_or_above(numeric, bigint, numeric) IS
    'lowest of start, start + increment, ... that is not below a value';

CREATE FUNCTION snowflake_registry.period_base(period_key bigint, digits int) RETURNS numeric
IMMUTABLE PARALLEL SAFE LANGUAGE sql
RETURN (period_key::text || repeat('0', digits))::numeric;
COMMENT ON FUNCTION snowflake_registry.period_base(bigint, int) IS 'prefix of a period followed by serial number 0';

CREATE FUNCTION snowflake_registry.in_period(period_key bigint, digits int, start bigint, increment bigint,
                                             value numeric) RETURNS numeric
IMMUTABLE PARALLEL SAFE LANGUAGE sql
RETURN least(
    snowflake_registry.at_or_above(snowflake_registry.period_base(period_key, digits) + start, increment,
                                   value),
    snowflake_registry.period_base(period_key, digits) + snowflake_registry.period_base(1, digits)
);
COMMENT ON FUNCTION snowflake_registry.in_period(bigint, int, bigint, bigint, numeric) IS
    'lowest number of a period that is not below a value; serial number 0 of the next prefix if the period has no such number';

CREATE FUNCTION snowflake_registry.key_of_number(digits int, value numeric) RETURNS bigint
IMMUTABLE PARALLEL SAFE LANGUAGE sql
RETURN div(value, snowflake_registry.period_base(1, digits))::bigint;
COMMENT ON FUNCTION snowflake_registry.key_of_number(int, numeric) IS 'prefix of a number';

CREATE FUNCTION snowflake_registry.key_of_date(period text, day timestamp) RETURNS bigint
IMMUTABLE PARALLEL SAFE LANGUAGE sql
RETURN CASE WHEN period = 'year' THEN extract(year FROM day)
            WHEN period = 'month' THEN extract(year FROM day) * 100 + extract(month FROM day)
            ELSE extract(year FROM day) * 10000 + extract(month FROM day) * 100 + extract(day FROM day)
       END::bigint;
COMMENT ON FUNCTION snowflake_registry.key_of_date(text, timestamp) IS 'prefix of the period that contains a date';

CREATE FUNCTION snowflake_registry.key_of_clock(period text, time_zone text, instant timestamptz)
RETURNS bigint
IMMUTABLE PARALLEL SAFE LANGUAGE sql
RETURN snowflake_registry.key_of_date(period, instant AT TIME ZONE time_zone);
COMMENT ON FUNCTION snowflake_registry.key_of_clock(text, text, timestamptz) IS
    'prefix of the period that contains a point in time';

CREATE FUNCTION snowflake_registry.first_day(period text, period_key bigint) RETURNS date
IMMUTABLE PARALLEL SAFE LANGUAGE sql
RETURN CASE WHEN period = 'year' THEN make_date(period_key::int, 1, 1)
            WHEN period = 'month' THEN make_date((period_key / 100)::int, (period_key % 100)::int, 1)
            ELSE make_date((period_key / 10000)::int, (period_key / 100 % 100)::int, (period_key % 100)::int)
       END;
COMMENT ON FUNCTION snowflake_registry.first_day(text, bigint) IS
    'first day of the period with this prefix; raises an error if there is no such period';

CREATE FUNCTION snowflake_registry.key_after(period text, period_key bigint) RETURNS bigint
IMMUTABLE PARALLEL SAFE LANGUAGE sql
RETURN snowflake_registry.key_of_date(
    period, snowflake_registry.first_day(period, period_key) + make_interval(
        years => (period = 'year')::int, months => (period = 'month')::int, days => (period = 'day')::int));
COMMENT ON FUNCTION snowflake_registry.key_after(text, bigint) IS 'prefix of the next period';

-- If clocks are set back at midnight or shortly after it, a day has two midnights, and AT TIME ZONE returns the
-- second midnight. The period starts at the first midnight, because a segment never returns to an earlier period.
CREATE FUNCTION snowflake_registry.period_begins(period text, time_zone text, period_key bigint)
RETURNS timestamptz
IMMUTABLE PARALLEL SAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    midnight CONSTANT timestamptz :=
        snowflake_registry.first_day(period, period_key)::timestamp AT TIME ZONE time_zone;
BEGIN
    RETURN coalesce(
        (SELECT min(candidate)
         FROM generate_series(midnight - interval '3 hours', midnight, interval '15 minutes') AS candidate
         WHERE snowflake_registry.key_of_clock(period, time_zone, candidate) >= period_key),
        midnight);
END
$$;
COMMENT ON FUNCTION snowflake_registry.period_begins(text, text, bigint) IS
    'start of the period with this prefix';

-- Returns the state of a segment at a point in time. If the clock was set back, the segment stays in its period.
CREATE FUNCTION snowflake_registry.segment_at(segment snowflake_registry.segment, moment timestamptz)
RETURNS snowflake_registry.segment
IMMUTABLE PARALLEL SAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    key bigint;
BEGIN
    IF segment.period IS NOT NULL THEN
        key := snowflake_registry.key_of_clock(segment.period, segment.time_zone, moment);
        IF key > segment.period_key THEN
            segment.period_key := key;
            segment.next_value := CASE
                WHEN segment.ahead_key = key THEN segment.ahead_value
                ELSE snowflake_registry.in_period(key, segment.digits, segment.start, segment.increment, 0)
            END;
            IF segment.ahead_key <= key THEN
                segment.ahead_key := NULL;
                segment.ahead_value := NULL;
            END IF;
        END IF;
    END IF;
    RETURN segment;
END
$$;
COMMENT ON FUNCTION snowflake_registry.segment_at(snowflake_registry.segment, timestamptz) IS
    'moves a segment to the period that contains a point in time';

-- The registry skips numbers that a server reports as taken from this or another registry. A server with a false report
-- could exhaust a segment. Therefore, a report can skip at most a thousand ranges, which the server could also take, or
-- all numbers until the end of the next period.
CREATE FUNCTION snowflake_registry.number_is_credible(
    segment snowflake_registry.segment, number numeric, moment timestamptz
)
RETURNS boolean
IMMUTABLE PARALLEL SAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF segment.period IS NULL THEN
        RETURN number < segment.next_value + 1000::numeric * greatest(segment.max_step, 1000000) * segment.increment;
    END IF;
    RETURN snowflake_registry.key_of_number(segment.digits, number)
        <= snowflake_registry.key_after(segment.period,
                                        (snowflake_registry.segment_at(segment, moment)).period_key);
EXCEPTION WHEN data_exception THEN
    -- For example, the time zone of the segment is not known on this server. Other segments must not be affected.
    RETURN true;
END
$$;
COMMENT ON FUNCTION snowflake_registry.number_is_credible(snowflake_registry.segment, numeric, timestamptz) IS
    'tests whether a server may have received this number';

-- Segments: functions for servers ------------------------------------------------------------------------

-- Parses a request. An invalid request does not affect other requests, unless it has no name.
CREATE FUNCTION snowflake_registry.read_request(ordinal bigint, element jsonb, registry_id uuid)
RETURNS snowflake_registry.request
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    asked snowflake_registry.request;
    keys CONSTANT text[] := ARRAY['had_until', 'count', 'period_key', 'lasted'];
    highest CONSTANT numeric[] := ARRAY[9223372036854775807, 1000000000, 9223372036854775807, 1e15];
    numbers numeric[];
    number numeric;
    flag text;
BEGIN
    IF jsonb_typeof(element) IS DISTINCT FROM 'object'
       OR jsonb_typeof(element -> 'name') IS DISTINCT FROM 'string' THEN
        RAISE EXCEPTION 'request % has no name', ordinal
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = 'An example of valid requests is [{"name": "orders", "had_until": 12345, "lasted": 840}].';
    END IF;
    asked.request := ordinal;
    asked.name := element ->> 'name';
    FOR i IN 1 .. 4 LOOP
        IF coalesce(jsonb_typeof(element -> keys[i]), 'null') <> 'null' THEN
            number := CASE WHEN jsonb_typeof(element -> keys[i]) = 'number'
                           THEN (element -> keys[i])::numeric END;
            IF number BETWEEN 0 AND highest[i] AND (number = trunc(number) OR keys[i] = 'lasted') THEN
                numbers[i] := number;
            ELSE
                asked.problem := format('%s is not a number from 0 to %s', keys[i], highest[i]);
            END IF;
        END IF;
    END LOOP;
    asked.had_until := numbers[1];
    asked.count := numbers[2];
    asked.period_key := numbers[3];
    asked.lasted := numbers[4];
    FOREACH flag IN ARRAY '{next,report}'::text[] LOOP
        IF jsonb_typeof(element -> flag) NOT IN ('boolean', 'null') THEN
            asked.problem := format('%s is neither true nor false', flag);
        END IF;
    END LOOP;
    asked.is_next := coalesce(element -> 'next' = 'true', false);
    asked.is_report := coalesce(element -> 'report' = 'true', false);
    -- A number of another registry proves no loss of this registry.
    asked.is_ours := CASE
        WHEN element ? 'registry_id'
        THEN coalesce(lower(element ->> 'registry_id') = (
            SELECT settings.registry_id::text FROM snowflake_registry.settings AS settings
        ), false)
        ELSE registry_id IS NOT NULL
    END;
    RETURN asked;
END
$$;
COMMENT ON FUNCTION snowflake_registry.read_request(bigint, jsonb, uuid) IS
    'parses a request for numbers of one segment';

CREATE FUNCTION snowflake_registry.lost_numbers(registry_id uuid, requests jsonb, is_local boolean)
RETURNS text
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    unknown record;
BEGIN
    SELECT segment.name, asked.had_until INTO unknown
    FROM jsonb_array_elements(lost_numbers.requests) WITH ORDINALITY AS element (value, ordinal),
         LATERAL snowflake_registry.read_request(element.ordinal, element.value, lost_numbers.registry_id)
             AS asked,
         snowflake_registry.segment AS segment
    WHERE segment.name = asked.name AND asked.is_ours AND segment.closed_reason IS NULL
      -- A claim of another server without a token proves nothing.
      AND lost_numbers.is_local AND (segment.has_left OR snowflake_registry.serves_others())
      AND CASE
              WHEN segment.period IS NULL THEN asked.had_until >= segment.next_value
              WHEN snowflake_registry.key_of_number(segment.digits, asked.had_until) = segment.ahead_key
              THEN asked.had_until >= segment.ahead_value
              -- A number of an earlier period is always lower.
              ELSE asked.had_until >= segment.next_value
          END
      AND snowflake_registry.number_is_credible(segment, asked.had_until, clock_timestamp())
    ORDER BY element.ordinal
    LIMIT 1;
    IF FOUND THEN
        RETURN format('a server was given numbers of segment %s up to %s, and the registry does not know '
                      'of them', snowflake_registry.name_in_words(unknown.name), unknown.had_until);
    END IF;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION snowflake_registry.lost_numbers(uuid, jsonb, boolean) IS
    'reason to assume that commits were lost, if a server has numbers that the registry has not granted; otherwise NULL';

-- The function finds only names that differ in case, because these can be found through an index. Servers request
-- unknown names repeatedly, and the call holds locks.
CREATE FUNCTION snowflake_registry.segment_like(name text) RETURNS text
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (
        SELECT segment.name
        FROM snowflake_registry.segment AS segment
        WHERE lower(segment.name) = lower(segment_like.name) AND segment.dropped_at IS NULL
        ORDER BY segment.name
        LIMIT 1
    );
END
$$;
COMMENT ON FUNCTION snowflake_registry.segment_like(text) IS
    'name of the segment that differs from a name only in case, or NULL';

-- Takes a range of one segment. The row is locked until the commit. A report that cannot change the row, because it
-- contains no number or a number of this registry, does not lock the row. Programs therefore can find out cheaply
-- whether a segment exists.
CREATE FUNCTION snowflake_registry.take_range(
    asked snowflake_registry.request, node_name text, is_local boolean, waits_for text, was_alone boolean
)
RETURNS snowflake_registry.taken
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    answer snowflake_registry.taken;
    stored snowflake_registry.segment;
    segment snowflake_registry.segment;
    is_only_read CONSTANT boolean := asked.is_report AND (asked.had_until IS NULL OR asked.is_ours AND NOT is_local);
    is_frozen boolean;
    moment timestamptz;
    had_key bigint;
    after_key bigint;
    basis bigint;
    first numeric;
    last numeric;
BEGIN
    IF is_only_read THEN
        SELECT * INTO stored FROM snowflake_registry.segment AS segment WHERE segment.name = asked.name;
    ELSE
        SELECT * INTO stored FROM snowflake_registry.segment AS segment WHERE segment.name = asked.name FOR UPDATE;
    END IF;
    IF NOT FOUND OR stored.dropped_at IS NOT NULL THEN
        IF stored.was_lost THEN
            answer.outcome := 'lost';
            answer.detail := 'the creation of the segment was lost';
        ELSIF stored.dropped_at IS NOT NULL THEN
            answer.outcome := 'dropped';
            answer.detail := format('the segment was dropped at %s',
                                    snowflake_registry.in_words(stored.dropped_at));
        ELSIF asked.is_ours AND asked.had_until IS NOT NULL THEN
            answer.outcome := 'lost';
            answer.detail := format('the segment no longer exists, although this registry has granted numbers '
                                    'up to %s: commits were lost', asked.had_until);
        ELSE
            answer.outcome := 'unknown';
            answer.detail := 'there is no such segment';
            answer.near := snowflake_registry.segment_like(asked.name);
        END IF;
        RETURN answer;
    END IF;
    answer.increment := stored.increment;
    answer.max_value := stored.max_value;
    answer.step := stored.step;
    IF asked.problem IS NOT NULL THEN
        answer.outcome := 'invalid';
        answer.detail := asked.problem;
        RETURN answer;
    END IF;
    -- The freeze is checked here for all segments, so that it also applies to segments that are created or resumed
    -- during the freeze.
    is_frozen := (SELECT settings.frozen_until FROM snowflake_registry.settings AS settings) IS NOT NULL;
    IF stored.closed_reason IS NOT NULL OR is_frozen THEN
        -- If other servers have proved that they hold higher numbers of this registry, next_value was already raised.
        IF stored.closed_reason IS NOT NULL
           AND (asked.is_ours AND is_local OR NOT asked.is_ours AND asked.is_report)
           AND asked.had_until > coalesce(stored.seen_until, -1)
           AND snowflake_registry.number_is_credible(stored, asked.had_until, clock_timestamp()) THEN
            UPDATE snowflake_registry.segment AS segment
            SET seen_until = asked.had_until WHERE segment.name = asked.name;
        END IF;
        answer.outcome := 'closed';
        answer.detail := coalesce(left(stored.closed_reason, 200), 'the registry is frozen');
        RETURN answer;
    END IF;

    IF asked.is_report AND (asked.is_ours OR asked.had_until IS NULL) THEN
        answer.outcome := 'noted';
        RETURN answer;
    ELSIF waits_for IS NOT NULL AND NOT asked.is_report
          AND NOT (is_local AND NOT stored.has_left AND was_alone) THEN
        -- Servers that may prove a loss are served first. If only the registry's own server was able to take numbers, the
        -- registry's tables are as recent as the rows with these numbers, so this server does not wait.
        answer.outcome := 'busy';
        answer.detail := waits_for;
        RETURN answer;
    END IF;

    moment := clock_timestamp();
    segment := snowflake_registry.segment_at(stored, moment);
    answer.period_key := segment.period_key;
    IF segment.period IS NULL THEN
        IF asked.had_until >= segment.next_value
           AND (asked.is_ours AND NOT is_local
                OR NOT snowflake_registry.number_is_credible(segment, asked.had_until, moment)) THEN
            answer.outcome := 'invalid';
            answer.detail := CASE
                WHEN asked.is_ours THEN format('this registry has granted numbers below %s, not up to %s',
                                               segment.next_value, asked.had_until)
                ELSE format('the server has received numbers up to %s of another registry, and this registry would continue at %s: '
                            'its administrator must call snowflake_registry.alter_segment(%L, next_value => ...)',
                            asked.had_until, segment.next_value, asked.name) END;
            RETURN answer;
        ELSIF asked.had_until >= segment.next_value THEN
            segment.next_value :=
                snowflake_registry.at_or_above(segment.start, segment.increment, asked.had_until + 1);
        END IF;
        first := segment.next_value;
        last := segment.max_value;
    ELSE
        after_key := snowflake_registry.key_after(segment.period, segment.period_key);
        had_key := coalesce(snowflake_registry.key_of_number(segment.digits, asked.had_until),
                            asked.period_key);
        IF had_key = 0 AND asked.period_key > 0 THEN
            answer.outcome := 'invalid';
            answer.detail := format('number %s has no prefix and cannot be in period %s', asked.had_until,
                                    asked.period_key);
            RETURN answer;
        ELSIF had_key > after_key THEN
            -- If the registry followed this server, the whole fleet would enter a future period.
            answer.outcome := 'ahead';
            answer.detail := format('the server is in period %s, and the registry in period %s', had_key,
                                    segment.period_key);
            RETURN answer;
        END IF;
        IF had_key = segment.period_key AND asked.had_until >= segment.next_value THEN
            segment.next_value := snowflake_registry.in_period(had_key, segment.digits, segment.start,
                                                               segment.increment, asked.had_until + 1);
        ELSIF had_key = after_key AND asked.had_until >= coalesce(segment.ahead_value, 0) THEN
            segment.ahead_key := after_key;
            segment.ahead_value := snowflake_registry.in_period(after_key, segment.digits, segment.start,
                                                                segment.increment, asked.had_until + 1);
        END IF;
    END IF;
    IF asked.is_report THEN
        -- Another registry has granted these numbers. This registry skips them.
        UPDATE snowflake_registry.segment AS kept
        SET next_value = segment.next_value, period_key = segment.period_key, ahead_key = segment.ahead_key,
            ahead_value = segment.ahead_value, updated_at = moment
        WHERE kept.name = asked.name
          AND (kept.next_value, coalesce(kept.ahead_value, 0)) IS DISTINCT FROM
              (segment.next_value, coalesce(segment.ahead_value, 0));
        answer.outcome := 'noted';
        RETURN answer;
    END IF;
    IF segment.period IS NOT NULL THEN
        -- A server that already has numbers of the next period gets more numbers of that period. If the period that the
        -- server calls "next" has started in the meantime, it is the current period of the registry, and the server
        -- gets numbers of that period.
        IF had_key = after_key OR asked.is_next AND NOT coalesce(had_key < segment.period_key, false) THEN
            answer.period_key := after_key;
            segment.ahead_key := after_key;
            segment.ahead_value := coalesce(
                segment.ahead_value,
                snowflake_registry.in_period(after_key, segment.digits, segment.start, segment.increment, 0));
            first := segment.ahead_value;
        ELSE
            first := segment.next_value;
        END IF;
        last := least(segment.max_value, snowflake_registry.period_base(answer.period_key, segment.digits)
                                         + snowflake_registry.period_base(1, segment.digits) - 1);
        answer.period_starts := snowflake_registry.microseconds(snowflake_registry.period_begins(
            segment.period, segment.time_zone, answer.period_key));
        answer.period_ends := snowflake_registry.microseconds(snowflake_registry.period_begins(
            segment.period, segment.time_zone,
            snowflake_registry.key_after(segment.period, answer.period_key)));
    END IF;
    IF first > last THEN
        answer.outcome := 'exhausted';
        answer.detail := CASE
            WHEN last = segment.max_value THEN format('the numbers of the segment end at %s (max_value)', last)
            ELSE format('period %s has no more numbers with %s digits, and the next period starts at %s',
                        answer.period_key, segment.digits,
                        snowflake_registry.in_words(to_timestamp(answer.period_ends / 1000000)))
        END;
        RETURN answer;
    END IF;

    -- As in Leaf, a range should last between 15 and 30 minutes.
    basis := coalesce(asked.count, segment.step);
    answer.step := greatest(segment.min_step, least(segment.max_step, CASE
        WHEN asked.lasted < 900 THEN basis * 2
        WHEN asked.lasted > 1800 THEN basis / 2
        ELSE basis
    END));
    answer.outcome := 'granted';
    answer.first := first;
    answer.count := least(answer.step, div(last - first, segment.increment) + 1);
    first := first + answer.count::numeric * segment.increment;
    IF segment.period IS NULL THEN
        segment.next_value := first;
    ELSIF answer.period_key = segment.period_key THEN
        segment.next_value := snowflake_registry.in_period(answer.period_key, segment.digits, segment.start,
                                                           segment.increment, first);
    ELSE
        segment.ahead_value := snowflake_registry.in_period(answer.period_key, segment.digits, segment.start,
                                                            segment.increment, first);
    END IF;
    UPDATE snowflake_registry.segment AS kept
    SET next_value = segment.next_value, period_key = segment.period_key, ahead_key = segment.ahead_key,
        ahead_value = segment.ahead_value, step = answer.step, has_left = kept.has_left OR NOT is_local,
        taken_at = moment, taken_by = take_range.node_name, numbers_granted = kept.numbers_granted + answer.count,
        updated_at = moment
    WHERE kept.name = asked.name;
    RETURN answer;
END
$$;
COMMENT ON FUNCTION snowflake_registry.take_range(snowflake_registry.request, text, boolean, text, boolean) IS
    'takes a range of numbers of one segment';

-- Segments: privileges ----------------------------------------------------------------------------------

-- By default, a role that may call take() may take numbers of all segments. A role with rows in table segment_privilege
-- is limited to the segments in these rows.

-- SET ROLE does not change session_user. Limits of all roles of which the session is a member count, because a member
-- that does not inherit the privileges of a limited role could otherwise avoid the limit by SET ROLE.
--
-- The functions are VOLATILE, so that each query takes its snapshot after it has locked the table. A snapshot from before
-- the end of a command that rewrites the table, such as REPACK (CONCURRENTLY), would show the table empty.
CREATE FUNCTION snowflake_registry.is_limited() RETURNS boolean
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- take() runs as the owner of the registry. Superusers have the privileges of all roles.
    RETURN NOT pg_has_role(session_user, current_user, 'USAGE')
       AND EXISTS (
           SELECT FROM snowflake_registry.segment_privilege AS limited
           WHERE limited.name = '' AND pg_has_role(session_user, limited.role, 'MEMBER')
       );
END
$$;
COMMENT ON FUNCTION snowflake_registry.is_limited() IS
    'tests whether the session may take numbers only of the segments that were granted to its roles';

CREATE FUNCTION snowflake_registry.is_granted(name text) RETURNS boolean
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    RETURN EXISTS (
        SELECT FROM snowflake_registry.segment_privilege AS granted
        WHERE granted.name = is_granted.name AND pg_has_role(session_user, granted.role, 'USAGE')
    );
END
$$;
COMMENT ON FUNCTION snowflake_registry.is_granted(text) IS
    'tests whether a segment was granted to a role whose privileges the session has';

-- The reason may contain the name and numbers of a segment.
CREATE FUNCTION snowflake_registry.shown_reason(quarantine_reason text) RETURNS text
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN CASE WHEN quarantine_reason IS NULL THEN NULL
                WHEN snowflake_registry.is_limited() THEN 'commits may have been lost'
                ELSE left(quarantine_reason, 200) END;
END
$$;
COMMENT ON FUNCTION snowflake_registry.shown_reason(text) IS
    'reason for a quarantine, as the session may see it';

-- The rows of a dropped role limit no other role, unless PostgreSQL assigns the OID again after all OIDs have been used.
CREATE FUNCTION snowflake_registry.begin_privilege(name text, role regrole) RETURNS void
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM snowflake_registry.begin_call();
    IF name IS NULL OR role IS NULL THEN
        RAISE EXCEPTION 'name and role must not be null'
            USING ERRCODE = 'null_value_not_allowed',
                  HINT = 'Specify a segment and a role, for example: '
                         'SELECT snowflake_registry.grant_segment(''orders'', ''shop'');';
    ELSIF NOT EXISTS (SELECT FROM pg_roles WHERE oid = begin_privilege.role) THEN
        RAISE EXCEPTION 'role with OID % does not exist', role::oid
            USING ERRCODE = 'undefined_object', HINT = 'Specify the name of a role.';
    END IF;
    PERFORM snowflake_registry.check_name(name);
    DELETE FROM snowflake_registry.segment_privilege AS granted
    WHERE NOT EXISTS (SELECT FROM pg_roles WHERE pg_roles.oid = granted.role);
END
$$;
COMMENT ON FUNCTION snowflake_registry.begin_privilege(text, regrole) IS
    'starts a function that changes privileges: checks the arguments, and removes rows of dropped roles';

CREATE FUNCTION snowflake_registry.grant_segment(name text, role regrole) RETURNS void
VOLATILE PARALLEL UNSAFE SECURITY DEFINER LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM snowflake_registry.begin_privilege(grant_segment.name, grant_segment.role);
    INSERT INTO snowflake_registry.segment_privilege (name, role)
    VALUES ('', grant_segment.role), (grant_segment.name, grant_segment.role)
    ON CONFLICT DO NOTHING;
END
$$;
COMMENT ON FUNCTION snowflake_registry.grant_segment(text, regrole) IS
    'limits a role to the segments that were granted to it, and grants it a segment, which need not exist yet';

CREATE FUNCTION snowflake_registry.revoke_segment(name text, role regrole) RETURNS void
VOLATILE PARALLEL UNSAFE SECURITY DEFINER LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM snowflake_registry.begin_privilege(revoke_segment.name, revoke_segment.role);
    IF NOT EXISTS (
        SELECT FROM snowflake_registry.segment_privilege AS limited
        WHERE limited.name = '' AND limited.role = revoke_segment.role
    ) THEN
        RAISE EXCEPTION 'role % is not limited to segments', revoke_segment.role
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  DETAIL = 'grant_segment() was not called for this role.',
                  HINT = 'To limit the role, grant the segments that it may use: '
                         'SELECT snowflake_registry.grant_segment(name, role);';
    END IF;
    DELETE FROM snowflake_registry.segment_privilege AS granted
    WHERE granted.name = revoke_segment.name AND granted.role = revoke_segment.role;
END
$$;
COMMENT ON FUNCTION snowflake_registry.revoke_segment(text, regrole) IS
    'revokes a segment from a role, which stays limited to its other segments, even if there are none';

CREATE FUNCTION snowflake_registry.grant_all_segments(role regrole) RETURNS void
VOLATILE PARALLEL UNSAFE SECURITY DEFINER LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM snowflake_registry.begin_call();
    IF role IS NULL THEN
        RAISE EXCEPTION 'role must not be null'
            USING ERRCODE = 'null_value_not_allowed',
                  HINT = 'Specify a role, for example: SELECT snowflake_registry.grant_all_segments(''shop'');';
    END IF;
    DELETE FROM snowflake_registry.segment_privilege AS granted WHERE granted.role = grant_all_segments.role;
END
$$;
COMMENT ON FUNCTION snowflake_registry.grant_all_segments(regrole) IS
    'ends the limits of a role, which may then take numbers of all segments if it may call take()';

-- Locks are acquired in this order: first table settings, then the rows of the segments in the order of their names.
CREATE FUNCTION snowflake_registry.take_ranges(request jsonb, is_local boolean)
RETURNS SETOF snowflake_registry.taken
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
<<call>>
DECLARE
    about snowflake_registry.taken;
    answer snowflake_registry.taken;
    checked record;
    asked snowflake_registry.request;
    requests CONSTANT jsonb := request -> 'requests';
    registry snowflake_registry.settings;
    loss text;
    said record;
    shown record;
    tokens jsonb;
    evidence CONSTANT jsonb := request -> 'tokens';
    proves_loss boolean;
    is_limited boolean;
    is_answered boolean := false;
BEGIN
    PERFORM snowflake_registry.begin_call();
    IF is_local THEN
        -- Unlike other callers, the background worker holds locks of its own. The timeout is less than
        -- deadlock_timeout, so that a deadlock with DROP EXTENSION ends this call rather than DROP EXTENSION.
        PERFORM set_config('lock_timeout', '500ms', true);
    END IF;
    -- Nothing is read before: see wal_position().
    SELECT * INTO shown FROM snowflake_registry.statements_of_segments(call.requests);
    -- The owner and superusers can call functions without a GRANT. Such calls are rejected, because serves_others()
    -- would not detect that other servers take numbers.
    IF NOT is_local AND NOT snowflake_registry.serves_others() THEN
        RAISE EXCEPTION 'permission denied for function take'
            USING ERRCODE = 'insufficient_privilege',
                  DETAIL = 'EXECUTE on this function has not been granted to any role. A registry that serves only its own '
                           'server does not wait for other servers when it may have lost commits.',
                  HINT = 'Create a role for the servers, and grant the privilege to the role: GRANT EXECUTE ON FUNCTION '
                         'snowflake_registry.take TO ...;';
    END IF;
    -- The registry's own server is not limited, because all its roles share its numbers.
    is_limited := NOT is_local AND snowflake_registry.is_limited();
    SELECT * INTO checked FROM snowflake_registry.check_request(request);
    about.lowest_protocol := checked.lowest;
    about.highest_protocol := checked.highest;
    SELECT settings.registry_id INTO about.registry_id FROM snowflake_registry.settings AS settings;
    about.registry_clock := snowflake_registry.microseconds(statement_timestamp());
    about.server_started := snowflake_registry.microseconds(pg_postmaster_start_time());
    about.outcome := checked.outcome;
    about.detail := checked.detail;
    IF about.outcome IS NULL THEN
        IF coalesce(jsonb_typeof(requests), 'null') <> 'array' THEN
            RAISE EXCEPTION 'the value of key "requests" must be an array'
                USING ERRCODE = 'invalid_parameter_value',
                      HINT = 'Send an array of objects such as {"name": "orders"}.';
        ELSIF jsonb_array_length(requests) > 64 THEN
            RAISE EXCEPTION 'too many requests'
                USING ERRCODE = 'invalid_parameter_value',
                      DETAIL = format('The array has %s elements, and the maximum is 64.', jsonb_array_length(requests));
        ELSIF checked.registry_id IS NOT NULL AND checked.registry_id IS DISTINCT FROM about.registry_id THEN
            about.outcome := 'foreign';
            about.detail := format('this registry is %s, not %s', coalesce(about.registry_id::text, 'a new one'),
                                   checked.registry_id);
        END IF;
    END IF;
    IF about.outcome IS NOT NULL THEN
        -- The tokens of a refused server also count.
        registry := snowflake_registry.open_registry(false, evidence);
        about.report_every := snowflake_registry.microseconds(snowflake_registry.call_every(registry));
        RETURN NEXT about;
        RETURN;
    END IF;

    -- As in renew(), a server that proves a loss gets no new tokens. The registry's own server needs none, because the
    -- WAL that contains the grants also contains its use of the numbers.
    proves_loss := snowflake_registry.what_tokens_prove(evidence) IS NOT NULL;
    IF NOT (proves_loss OR is_local) AND shown.statements IS NOT NULL
       AND snowflake_registry.becomes_durable(shown.seen) THEN
        SELECT jsonb_object_agg(one.key, snowflake_registry.signed(one.value)) INTO tokens
        FROM jsonb_each_text(shown.statements) AS one;
    END IF;

    -- As in open_registry(), this check before the lock avoids a lock upgrade.
    loss := snowflake_registry.lost_numbers(checked.registry_id, call.requests, is_local);
    registry := snowflake_registry.open_registry(
        loss IS NOT NULL, evidence,
        -- Without a fleet there is no floor, so the quarantine can end although the server does not report its clock.
        NOT (SELECT settings.is_started FROM snowflake_registry.settings AS settings),
        proves_loss => proves_loss);
    IF loss IS NOT NULL THEN
        loss := snowflake_registry.lost_numbers(checked.registry_id, call.requests, is_local);
    END IF;
    IF loss IS NOT NULL THEN
        PERFORM snowflake_registry.enter_quarantine(loss);
        SELECT * INTO registry FROM snowflake_registry.settings;
    END IF;
    about.report_every := snowflake_registry.microseconds(snowflake_registry.call_every(registry));
    SELECT * INTO said FROM snowflake_registry.read_facts(request -> 'facts');

    FOR asked IN
        SELECT one.*
        FROM jsonb_array_elements(call.requests) WITH ORDINALITY AS element (value, ordinal),
             LATERAL snowflake_registry.read_request(element.ordinal, element.value, checked.registry_id)
                 AS one
        ORDER BY one.name COLLATE "C", element.ordinal
    LOOP
        IF is_limited AND NOT snowflake_registry.is_granted(asked.name) THEN
            -- The reply is the same whether or not the segment exists, and contains no token.
            answer := NULL;
            answer.outcome := 'denied';
            answer.detail := format('role %I may not use this segment: the administrator of the registry must call '
                                    'snowflake_registry.grant_segment(%L, %L)', session_user, left(asked.name, 255),
                                    quote_ident(session_user));
        ELSE
            BEGIN
                answer := snowflake_registry.take_range(
                    asked, said.node_name, is_local,
                    CASE WHEN registry.numbers_wait > '0'
                         THEN format('quarantine until %s: %s',
                                     snowflake_registry.in_words(registry.counted_at + registry.numbers_wait),
                                     left(registry.quarantine_reason, 200)) END,
                    registry.was_alone);
            EXCEPTION
                WHEN lock_not_available THEN
                    answer := NULL;
                    answer.outcome := 'busy';
                    answer.detail := 'other sessions held a lock on the segment for too long';
                -- For example, the time zone of the segment is not known on this server.
                WHEN data_exception THEN
                    answer := NULL;
                    answer.outcome := 'invalid';
                    answer.detail := left(SQLERRM, 300);
            END;
            IF answer.outcome = 'busy' THEN
                -- The remaining requests wait for a shorter time.
                PERFORM set_config('lock_timeout', '100ms', true);
            END IF;
            answer.token := tokens ->> asked.name;
            IF is_limited THEN
                -- The reason of a quarantine follows a colon, and may contain the name and numbers of another segment.
                answer.detail := CASE WHEN answer.outcome = ANY ('{busy,closed}') THEN split_part(answer.detail, ': ', 1)
                                      ELSE answer.detail END;
                answer.near := CASE WHEN snowflake_registry.is_granted(answer.near) THEN answer.near END;
            END IF;
        END IF;
        answer.lowest_protocol := about.lowest_protocol;
        answer.highest_protocol := about.highest_protocol;
        answer.request := asked.request;
        answer.name := asked.name;
        answer.registry_id := about.registry_id;
        answer.registry_clock := about.registry_clock;
        answer.report_every := about.report_every;
        answer.server_started := about.server_started;
        RETURN NEXT answer;
        is_answered := true;
    END LOOP;

    -- The row contains the identity and the clock of the registry.
    IF NOT is_answered THEN
        about.outcome := 'empty';
        RETURN NEXT about;
    END IF;
    IF tokens IS NOT NULL THEN
        PERFORM snowflake_registry.flush_at_commit();
    END IF;
END
$$;
COMMENT ON FUNCTION snowflake_registry.take_ranges(jsonb, boolean) IS
    'common implementation of take() and take_local()';

CREATE FUNCTION snowflake_registry.take(request jsonb) RETURNS SETOF snowflake_registry.taken
VOLATILE PARALLEL UNSAFE SECURITY DEFINER LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN QUERY SELECT * FROM snowflake_registry.take_ranges(request, false);
END
$$;
COMMENT ON FUNCTION snowflake_registry.take(jsonb) IS
    'grants ranges of numbers to a server';

-- This is a separate function, because a server that connects can claim anything about itself. Never grant EXECUTE on
-- this function.
CREATE FUNCTION snowflake_registry.take_local(request jsonb) RETURNS SETOF snowflake_registry.taken
VOLATILE PARALLEL UNSAFE SECURITY DEFINER LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN QUERY SELECT * FROM snowflake_registry.take_ranges(request, true);
END
$$;
COMMENT ON FUNCTION snowflake_registry.take_local(jsonb) IS
    'same as take(), for the registry''s own server';

-- The registry does not know which server took numbers in a lost commit. Therefore, every server that is allowed to
-- take numbers counts.
CREATE FUNCTION snowflake_registry.serves_others() RETURNS boolean
STABLE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN EXISTS (
        SELECT
        FROM pg_proc AS function,
             LATERAL aclexplode(coalesce(function.proacl, acldefault('f', function.proowner))) AS acl
        WHERE function.oid = 'snowflake_registry.take(jsonb)'::regprocedure
          AND acl.grantee <> function.proowner
    );
END
$$;
COMMENT ON FUNCTION snowflake_registry.serves_others() IS 'tests whether EXECUTE on take() has been granted to any role';

-- Functions for administrators ---------------------------------------------------------------------------

-- Takes the lock, and inserts the row of table settings if it does not exist.
CREATE FUNCTION snowflake_registry.begin_request() RETURNS snowflake_registry.settings
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    opened snowflake_registry.settings;
BEGIN
    PERFORM snowflake_registry.begin_call();
    opened := snowflake_registry.open_registry(true);
    IF opened.registry_id IS NULL THEN
        INSERT INTO snowflake_registry.settings DEFAULT VALUES RETURNING * INTO opened;
        PERFORM snowflake_registry.sign_settings();
        PERFORM snowflake_registry.make_key();
    END IF;
    RETURN opened;
END
$$;
COMMENT ON FUNCTION snowflake_registry.begin_request() IS 'starts a function for administrators: takes the lock';

-- Administrators pass the result to start_fleet() of other registries. In a quarantine, the registry may have granted
-- ranges that the tables do not contain. A witness shortens the quarantine, but not the leases.
CREATE FUNCTION snowflake_registry.end_with_forgotten(known timestamptz, settings snowflake_registry.settings)
RETURNS timestamptz
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN CASE
        WHEN settings.waits > '0'
        THEN greatest(known, settings.counted_at + settings.waits,
                      clock_timestamp() + settings.longest_lease + interval '2 minutes')
        ELSE known
    END;
END
$$;
COMMENT ON FUNCTION snowflake_registry.end_with_forgotten(timestamptz, snowflake_registry.settings) IS
    'given end, or, in a quarantine, the latest end of ranges that may have been granted in lost commits';

CREATE FUNCTION snowflake_registry.check_pool(first_worker int, last_worker int) RETURNS void
IMMUTABLE PARALLEL SAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF num_nulls(first_worker, last_worker) = 2 THEN
        RAISE EXCEPTION 'the pool of worker IDs has not been specified'
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  DETAIL = 'The registry grants all worker IDs of its pool. Worker IDs that are set by hand must be outside the '
                           'pool: in snowflake_id.worker_id, also on standbys, in table snowflake_workers, in programs and '
                           'scripts, and at other sites. A worker ID that was leased once is never used by hand, even if it is '
                           'outside the pool later.',
                  HINT = 'If none of these is 512 or higher: '
                         'SELECT snowflake_registry.configure(first_worker => 512, last_worker => 1023); '
                         'Then repeat the call.';
    ELSIF NOT coalesce(first_worker >= 0 AND last_worker >= first_worker, false) THEN
        RAISE EXCEPTION 'invalid range of worker IDs: % to %', coalesce(first_worker::text, 'NULL'),
            coalesce(last_worker::text, 'NULL')
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = 'Set both parameters: '
                         'SELECT snowflake_registry.configure(first_worker => 512, last_worker => 1023);';
    END IF;
END
$$;
COMMENT ON FUNCTION snowflake_registry.check_pool(int, int) IS 'raises an error if these are not the bounds of a pool';

-- Since the pool was specified, servers may have been numbered by hand outside it.
CREATE FUNCTION snowflake_registry.check_growth(
    settings snowflake_registry.settings, first_worker int, last_worker int
)
RETURNS void
IMMUTABLE PARALLEL SAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    below CONSTANT bigint := least(check_growth.last_worker, settings.first_worker - 1);
    above CONSTANT bigint := greatest(check_growth.first_worker, settings.last_worker + 1::bigint);
BEGIN
    IF check_growth.first_worker < settings.first_worker OR check_growth.last_worker > settings.last_worker THEN
        RAISE EXCEPTION 'worker IDs % were not in the pool so far', concat_ws(
            ' and ',
            CASE WHEN check_growth.first_worker <= below THEN format('%s to %s', check_growth.first_worker, below) END,
            CASE WHEN above <= check_growth.last_worker THEN format('%s to %s', above, check_growth.last_worker) END)
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  DETAIL = format('The pool is %s to %s. Worker IDs outside may be set by hand: in snowflake_id.worker_id, also on '
                                  'standbys, in table snowflake_workers, in programs and scripts, and at other sites.',
                                  settings.first_worker, settings.last_worker),
                  HINT = format('If none of them is used by hand: SELECT snowflake_registry.configure(first_worker => %s, '
                                'last_worker => %s, none_by_hand => true);',
                                check_growth.first_worker, check_growth.last_worker);
    END IF;
END
$$;
COMMENT ON FUNCTION snowflake_registry.check_growth(snowflake_registry.settings, int, int) IS
    'raises an error if these bounds add worker IDs to the pool';

-- Without first_start, the fleet starts with a quarantine: this registry may have been set back to a state before its first
-- start, in which it knows neither its grants nor the key of its tokens.
CREATE FUNCTION snowflake_registry.start_fleet(
    first_worker int DEFAULT NULL, last_worker int DEFAULT NULL, not_before timestamptz DEFAULT NULL,
    first_start boolean DEFAULT false
)
RETURNS timestamptz
VOLATILE PARALLEL UNSAFE SECURITY DEFINER LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    furthest CONSTANT timestamptz := clock_timestamp() + interval '24 hours';
    moment timestamptz;
    registry snowflake_registry.settings;
    new_first int;
    new_last int;
    given bigint;
    starts timestamptz;
BEGIN
    IF start_fleet.not_before > furthest THEN
        -- No lease is longer, and the floor can never be lowered.
        RAISE EXCEPTION 'not_before % is too far in the future', start_fleet.not_before
            USING ERRCODE = 'invalid_parameter_value',
                  DETAIL = 'The maximum is 24 hours ahead of the clock.',
                  HINT = 'Freeze the other registry until an earlier time: SELECT snowflake_registry.freeze(until);';
    END IF;
    registry := snowflake_registry.begin_request();
    moment := clock_timestamp();
    -- Identities that were reserved but never granted do not count.
    SELECT count(*) INTO given FROM snowflake_registry.lease WHERE grant_count > 0;
    IF given > 0 THEN
        RAISE EXCEPTION 'the registry already has a fleet'
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  DETAIL = format('Number of worker IDs that this registry has granted: %s.', given),
                  HINT = CASE WHEN registry.frozen_until IS NOT NULL
                      THEN 'The registry is frozen. If another registry replaces it, start the fleet there.'
                      WHEN NOT registry.is_started
                      THEN 'To continue with this fleet: SELECT snowflake_registry.quarantine();'
                      WHEN registry.waits > '0'
                      THEN 'The fleet is started, and in quarantine. ' || snowflake_registry.hint_of_quarantine()
                      ELSE 'The fleet is started. To add a server: SELECT snowflake_registry.add_server(name);' END;
    END IF;
    new_first := coalesce(start_fleet.first_worker, registry.first_worker);
    new_last := coalesce(start_fleet.last_worker, registry.last_worker);
    PERFORM snowflake_registry.check_pool(new_first, new_last);
    PERFORM snowflake_registry.check_growth(registry, new_first, new_last);
    UPDATE snowflake_registry.settings
    -- A quarantine continues. The floor never decreases.
    SET first_worker = new_first, last_worker = new_last,
        nothing_before = greatest(nothing_before, moment, start_fleet.not_before),
        is_started = true;
    IF NOT coalesce(start_fleet.first_start, false) THEN
        -- Nothing shows that commits were lost.
        PERFORM snowflake_registry.enter_quarantine(
            'the fleet was started, and servers may have worker IDs from before', closes_segments => false);
    END IF;
    PERFORM snowflake_registry.note_request();
    PERFORM snowflake_registry.guard_fleet();
    SELECT greatest(nothing_before, CASE WHEN waits > '0' THEN counted_at + waits END) INTO starts
    FROM snowflake_registry.settings;
    RAISE LOG 'snowflake_id_registry: fleet was started by %, with worker IDs % to %',
        snowflake_registry.name_in_words(session_user), new_first, new_last
        USING DETAIL = format('No server gets a worker ID before %s.', snowflake_registry.in_words(starts));
    RETURN starts;
END
$$;
COMMENT ON FUNCTION snowflake_registry.start_fleet(int, int, timestamptz, boolean) IS
    'starts granting the worker IDs of a pool, after a quarantine, and returns the time from which it grants them; with '
    'first_start there is no quarantine, and the caller asserts that no server has a worker ID from this or another registry '
    'for times from not_before on';

CREATE FUNCTION snowflake_registry.quarantine_detail(settings snowflake_registry.settings) RETURNS text
STABLE PARALLEL SAFE LANGUAGE sql
RETURN format('The registry is in quarantine until %s: %s.',
              snowflake_registry.in_words(settings.counted_at + settings.waits), settings.quarantine_reason);
COMMENT ON FUNCTION snowflake_registry.quarantine_detail(snowflake_registry.settings) IS
    'formats the present quarantine for messages';

CREATE FUNCTION snowflake_registry.hint_of_quarantine() RETURNS text
IMMUTABLE PARALLEL SAFE LANGUAGE sql
RETURN 'If no commits were lost, and no server has a worker ID of another or an earlier registry: '
       'SELECT snowflake_registry.end_quarantine();';
COMMENT ON FUNCTION snowflake_registry.hint_of_quarantine() IS 'hint of all messages about a quarantine';

CREATE FUNCTION snowflake_registry.end_fleet() RETURNS void
VOLATILE PARALLEL UNSAFE SECURITY DEFINER LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    registry CONSTANT snowflake_registry.settings := snowflake_registry.begin_request();
    live record;
BEGIN
    IF registry.waits > '0' THEN
        RAISE EXCEPTION 'servers may still issue IDs with worker IDs of this registry'
            USING ERRCODE = 'object_in_use',
                  DETAIL = snowflake_registry.quarantine_detail(registry),
                  HINT = snowflake_registry.hint_of_quarantine();
    END IF;
    SELECT count(*) AS leases, max(coalesce(used_until, granted_until)) AS until INTO live
    FROM snowflake_registry.lease WHERE coalesce(used_until, granted_until) > clock_timestamp();
    IF live.leases > 0 THEN
        RAISE EXCEPTION 'servers may still issue IDs with worker IDs of this registry'
            USING ERRCODE = 'object_in_use',
                  DETAIL = format('Number of ranges that have not ended: %s. The last one ends at %s.', live.leases,
                                  snowflake_registry.in_words(live.until)),
                  HINT = 'Stop the servers, or revoke their leases: SELECT snowflake_registry.revoke_lease(worker_id, datacenter_id); '
                         'Then wait until that time.';
    END IF;
    UPDATE snowflake_registry.settings SET is_started = false;
    PERFORM snowflake_registry.sign_settings();
    DROP VIEW IF EXISTS snowflake_registry.the_fleet_is_in_use_call_end_fleet_first;
END
$$;
COMMENT ON FUNCTION snowflake_registry.end_fleet() IS
    'stops granting worker IDs, and allows DROP EXTENSION; fails while any worker ID is in use';

CREATE FUNCTION snowflake_registry.revoke_lease(worker_id int, datacenter_id int DEFAULT 0) RETURNS timestamptz
VOLATILE PARALLEL UNSAFE SECURITY DEFINER LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    registry CONSTANT snowflake_registry.settings := snowflake_registry.begin_request();
    taken record;
    last_end timestamptz;
BEGIN
    IF revoke_lease.worker_id IS NULL OR revoke_lease.datacenter_id IS NULL THEN
        RAISE EXCEPTION 'worker_id and datacenter_id must not be null'
            USING ERRCODE = 'null_value_not_allowed',
                  HINT = 'Specify the worker ID. Omit datacenter_id if the layout has no datacenter field.';
    END IF;
    UPDATE snowflake_registry.lease AS lease SET lease_id = NULL, nonce = NULL
    WHERE lease.worker_id = revoke_lease.worker_id AND lease.datacenter_id = revoke_lease.datacenter_id
      AND lease.lease_id IS NOT NULL AND lease.used_until IS NULL
    RETURNING * INTO taken;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no server holds worker ID % of datacenter %',
            revoke_lease.worker_id, revoke_lease.datacenter_id
            USING ERRCODE = 'no_data_found', HINT = 'To list worker IDs: SELECT * FROM snowflake_registry.fleet;';
    END IF;
    last_end := snowflake_registry.end_with_forgotten(taken.granted_until, registry);
    RAISE LOG 'snowflake_id_registry: revoked worker ID % (datacenter %) from %',
        taken.worker_id, taken.datacenter_id,
        snowflake_registry.server_in_words(taken.node_name, taken.host, taken.port)
        USING DETAIL = format('The range of the server ends at %s.', snowflake_registry.in_words(last_end));
    RETURN last_end;
END
$$;
COMMENT ON FUNCTION snowflake_registry.revoke_lease(int, int) IS
    'revokes the lease of a worker ID, so that the server requests another worker ID; returns the time until which the '
    'server may still use the revoked worker ID';

CREATE FUNCTION snowflake_registry.note_request() RETURNS void
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE snowflake_registry.settings
    SET serial = serial + 1, requests = array_append(requests, left(gen_random_uuid()::text, 8));
    PERFORM snowflake_registry.sign_settings();
END
$$;
COMMENT ON FUNCTION snowflake_registry.note_request() IS
    'assigns a name to a call of an administrator on which others rely, so that servers can prove that the call was lost';

CREATE FUNCTION snowflake_registry.reserved_in_words(role text) RETURNS text
IMMUTABLE PARALLEL SAFE LANGUAGE sql
RETURN CASE WHEN role IS NULL THEN 'use by hand' ELSE 'role ' || snowflake_registry.name_in_words(role) END;
COMMENT ON FUNCTION snowflake_registry.reserved_in_words(text) IS 'formats what a worker ID is reserved for, for messages';

-- A worker ID that is used by hand has no floor, so no server may have had it from the registry before. The server may use it
-- when the tokens of live servers name this call: if the registry is set back after that, it learns that the call was lost.
CREATE FUNCTION snowflake_registry.reserve(
    worker_id int, datacenter_id int DEFAULT 0, used_by regrole DEFAULT NULL, note text DEFAULT NULL,
    none_by_hand boolean DEFAULT false
)
RETURNS timestamptz
VOLATILE PARALLEL UNSAFE SECURITY DEFINER LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    -- The text of a regrole is quoted.
    for_role CONSTANT text := (SELECT known.rolname FROM pg_roles AS known WHERE known.oid = reserve.used_by);
    moment timestamptz;
    registry snowflake_registry.settings;
    held snowflake_registry.lease;
    is_live boolean;
    servers record;
    by_hand record;
BEGIN
    IF coalesce(reserve.worker_id < 0 OR reserve.datacenter_id < 0, true) THEN
        RAISE EXCEPTION 'worker ID and datacenter ID must not be negative or null'
            USING ERRCODE = 'invalid_parameter_value',
                  DETAIL = format('The worker ID is %s, and the datacenter ID is %s.', coalesce(reserve.worker_id::text, 'NULL'),
                                  coalesce(reserve.datacenter_id::text, 'NULL')),
                  HINT = 'To list worker IDs: SELECT * FROM snowflake_registry.fleet;';
    ELSIF reserve.used_by IS NOT NULL AND for_role IS NULL THEN
        RAISE EXCEPTION 'role with OID % does not exist', reserve.used_by::oid
            USING ERRCODE = 'undefined_object', HINT = 'Specify the name of a role.';
    ELSIF EXISTS (SELECT FROM pg_roles AS known WHERE known.rolname = for_role AND NOT known.rolcanlogin) THEN
        RAISE EXCEPTION 'role % is not permitted to log in', snowflake_registry.name_in_words(for_role)
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Specify the login role of the server.';
    END IF;
    registry := snowflake_registry.begin_request();
    moment := clock_timestamp();
    SELECT * INTO held
    FROM snowflake_registry.lease AS lease
    WHERE lease.datacenter_id = reserve.datacenter_id AND lease.worker_id = reserve.worker_id;
    is_live := coalesce(held.lease_id IS NOT NULL AND held.used_until IS NULL AND held.granted_until > moment, false);
    IF held.is_reserved AND held.reserved_for IS DISTINCT FROM for_role THEN
        RAISE EXCEPTION 'worker ID % (datacenter %) is reserved for %', reserve.worker_id, reserve.datacenter_id,
            snowflake_registry.reserved_in_words(held.reserved_for)
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  HINT = CASE
                      WHEN held.reserved_for IS NULL THEN 'Use another worker ID. A worker ID that is used by hand is never leased.'
                      ELSE format('Use another worker ID. If the role no longer needs this one: '
                                  'SELECT snowflake_registry.give_up_reservation(%s, %s);',
                                  reserve.worker_id, reserve.datacenter_id) END;
    ELSIF held.is_reserved AND for_role IS NULL AND held.note IS DISTINCT FROM reserve.note THEN
        RAISE EXCEPTION 'worker ID % (datacenter %) is reserved with another note', reserve.worker_id, reserve.datacenter_id
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  DETAIL = CASE WHEN held.note IS NULL THEN 'It is reserved without a note.'
                                ELSE format('Its note is: %s', snowflake_registry.printable(held.note)) END,
                  HINT = 'Use another worker ID. If you want the time from which this one can be used, specify the same note.';
    ELSIF is_live AND (for_role IS NULL OR held.role IS DISTINCT FROM for_role) THEN
        RAISE EXCEPTION 'worker ID % (datacenter %) is leased by %', reserve.worker_id, reserve.datacenter_id,
            snowflake_registry.server_in_words(held.node_name, held.host, held.port)
            USING ERRCODE = 'object_in_use',
                  DETAIL = format('The lease ends at %s, unless the server renews it.',
                                  snowflake_registry.in_words(held.granted_until)),
                  HINT = CASE
                      WHEN for_role IS NULL THEN 'Use another worker ID by hand, outside the pool.'
                      ELSE format('Use another worker ID, or revoke the lease first: '
                                  'SELECT snowflake_registry.revoke_lease(%s, %s);',
                                  reserve.worker_id, reserve.datacenter_id) END;
    ELSIF for_role IS NULL AND (held.grant_count > 0 OR held.was_leased) THEN
        RAISE EXCEPTION 'worker ID % (datacenter %) was leased before', reserve.worker_id, reserve.datacenter_id
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  DETAIL = 'A worker ID that was leased once is never used by hand.',
                  HINT = 'Use another worker ID by hand, outside the pool.';
    ELSIF for_role IS NULL AND registry.waits > '0' AND NOT coalesce(held.is_reserved, false) THEN
        RAISE EXCEPTION 'cannot reserve a worker ID for use by hand during a quarantine'
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  DETAIL = snowflake_registry.quarantine_detail(registry),
                  HINT = snowflake_registry.hint_of_quarantine();
    ELSIF for_role IS NULL AND registry.frozen_until IS NOT NULL AND NOT coalesce(held.is_reserved, false) THEN
        RAISE EXCEPTION 'cannot reserve a worker ID for use by hand in a freeze'
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  DETAIL = 'Another registry may lease the worker ID.',
                  -- Between two transactions, a server could lease the worker ID.
                  HINT = format('Reserve it on the other registry. If no other registry replaces this one: BEGIN; '
                                'SELECT snowflake_registry.unfreeze(); SELECT snowflake_registry.reserve(%s, %s, note => %L); '
                                'COMMIT;', reserve.worker_id, reserve.datacenter_id, reserve.note);
    ELSIF for_role IS NOT NULL AND NOT coalesce(held.is_reserved, false) THEN
        SELECT count(*) FILTER (WHERE lease.role = for_role AND lease.lease_id IS NOT NULL AND lease.used_until IS NULL
                                      AND lease.granted_until > moment) AS leases,
               count(*) FILTER (WHERE lease.reserved_for = for_role) + 1 AS reserved
        INTO servers
        FROM snowflake_registry.lease AS lease WHERE lease.datacenter_id = reserve.datacenter_id;
        SELECT said.role, snowflake_registry.instant(said.at::bigint) AS at INTO by_hand
        FROM jsonb_each_text(held.said_by_hand) AS said (role, at)
        WHERE said.role <> for_role ORDER BY said.at::bigint DESC, said.role COLLATE "C" LIMIT 1;
        IF FOUND AND NOT coalesce(reserve.none_by_hand, false) THEN
            RAISE EXCEPTION 'worker ID % (datacenter %) was reported as set by hand by a server with another role',
                reserve.worker_id, reserve.datacenter_id
                USING ERRCODE = 'object_in_use',
                      DETAIL = format('A server with role %s reported this at %s.', snowflake_registry.name_in_words(by_hand.role),
                                      snowflake_registry.in_words(by_hand.at)),
                      HINT = format('Use another worker ID. If no server, standby or program uses this one by hand: '
                                    'SELECT snowflake_registry.reserve(%s, %s, used_by => %L, none_by_hand => true);',
                                    reserve.worker_id, reserve.datacenter_id, quote_ident(for_role));
        END IF;
        IF servers.leases > servers.reserved THEN
            RAISE EXCEPTION 'role % is used by several servers', snowflake_registry.name_in_words(for_role)
                USING ERRCODE = 'object_in_use',
                      DETAIL = format('The role holds %s leases, and %s worker IDs would be reserved for it. It would get no others.',
                                      servers.leases, servers.reserved),
                      HINT = 'Give each server a role of its own: SELECT snowflake_registry.add_server(name);';
        END IF;
    END IF;
    IF NOT coalesce(held.is_reserved, false) THEN
        INSERT INTO snowflake_registry.lease AS lease (
            datacenter_id, worker_id, granted_from, granted_until, acquired_at, renewed_at, grant_count, is_reserved,
            reserved_for, note
        )
        VALUES (
            reserve.datacenter_id, reserve.worker_id, moment, moment, moment, moment, 0, true, for_role, reserve.note
        )
        ON CONFLICT (datacenter_id, worker_id) DO UPDATE
        SET is_reserved = true, reserved_for = excluded.reserved_for, note = excluded.note,
            acquired_at = CASE WHEN lease.grant_count = 0 THEN excluded.acquired_at ELSE lease.acquired_at END
        RETURNING lease.* INTO held;
        PERFORM snowflake_registry.note_request();
        RAISE LOG 'snowflake_id_registry: worker ID % (datacenter %) was reserved for % by %', reserve.worker_id,
            reserve.datacenter_id, snowflake_registry.reserved_in_words(for_role),
            snowflake_registry.name_in_words(session_user);
    END IF;
    RETURN CASE
        WHEN for_role IS NULL THEN greatest(held.acquired_at + 2 * registry.longest_renewal, registry.nothing_before)
        ELSE snowflake_registry.end_with_forgotten(
            greatest(held.granted_until, held.acquired_at, registry.nothing_before), registry) END;
END
$$;
COMMENT ON FUNCTION snowflake_registry.reserve(int, int, regrole, text, boolean) IS
    'reserves a worker ID permanently: for use without the registry, or, if used_by is specified, for leases of this login '
    'role; returns the time from which the worker ID can be used';

-- Without these rows, this registry would allow to use a worker ID by hand that the registry before it has leased.
CREATE FUNCTION snowflake_registry.mark_leased(worker_ids int[], datacenter_id int DEFAULT 0) RETURNS void
VOLATILE PARALLEL UNSAFE SECURITY DEFINER LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM snowflake_registry.begin_request();
    INSERT INTO snowflake_registry.lease AS lease (
        datacenter_id, worker_id, granted_from, granted_until, acquired_at, renewed_at, grant_count, was_leased
    )
    SELECT mark_leased.datacenter_id, number, moment, moment, moment, moment, 0, true
    FROM unnest(mark_leased.worker_ids) AS number, clock_timestamp() AS moment
    ON CONFLICT (datacenter_id, worker_id) DO UPDATE SET was_leased = true;
    PERFORM snowflake_registry.sign_settings();
END
$$;
COMMENT ON FUNCTION snowflake_registry.mark_leased(int[], int) IS
    'records that an earlier registry has leased these worker IDs, so that they are never reserved for use by hand';

-- A server may use the worker ID, so this registry neither grants it nor chooses it as a spare. A spare is used up.
CREATE FUNCTION snowflake_registry.mark_by_hand(worker_id int, datacenter_id int, reports jsonb) RETURNS void
VOLATILE PARALLEL UNSAFE SECURITY DEFINER LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM snowflake_registry.begin_request();
    INSERT INTO snowflake_registry.lease AS lease (
        datacenter_id, worker_id, granted_from, granted_until, acquired_at, renewed_at, grant_count, is_reserved, note,
        said_by_hand
    )
    SELECT mark_by_hand.datacenter_id, mark_by_hand.worker_id, moment, moment, moment, moment, 0, true,
           'reported as set by hand', jsonb_object_agg(said.role, snowflake_registry.number_of(
               mark_by_hand.reports, said.role, 0, snowflake_registry.microseconds(timestamptz '9999-01-01Z')))
    FROM clock_timestamp() AS moment, jsonb_object_keys(mark_by_hand.reports) AS said (role)
    GROUP BY moment
    ON CONFLICT (datacenter_id, worker_id) DO UPDATE
    SET is_reserved = lease.is_reserved OR lease.grant_count = 0 AND NOT lease.was_leased,
        note = CASE WHEN lease.is_reserved OR lease.grant_count > 0 OR lease.was_leased THEN lease.note ELSE excluded.note END,
        said_by_hand = excluded.said_by_hand || coalesce(lease.said_by_hand, '{}');
    PERFORM snowflake_registry.sign_settings();
END
$$;
COMMENT ON FUNCTION snowflake_registry.mark_by_hand(int, int, jsonb) IS
    'records that servers reported to an earlier registry that they set this worker ID by hand: for each role, the time in '
    'microseconds of Unix time; reserves the worker ID for use by hand, unless it is reserved or was leased';

CREATE FUNCTION snowflake_registry.give_up_reservation(worker_id int, datacenter_id int DEFAULT 0) RETURNS void
VOLATILE PARALLEL UNSAFE SECURITY DEFINER LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM snowflake_registry.begin_request();
    -- If this call is lost, the worker ID is still reserved, which repeats no ID.
    UPDATE snowflake_registry.lease AS lease SET is_reserved = false, reserved_for = NULL, note = NULL
    WHERE lease.worker_id = give_up_reservation.worker_id AND lease.datacenter_id = give_up_reservation.datacenter_id
      AND lease.reserved_for IS NOT NULL;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'worker ID % of datacenter % is not reserved for a role', give_up_reservation.worker_id,
            give_up_reservation.datacenter_id
            USING ERRCODE = 'no_data_found',
                  DETAIL = 'A reservation for use by hand is permanent.',
                  HINT = 'To list worker IDs: SELECT * FROM snowflake_registry.fleet;';
    END IF;
    RAISE LOG 'snowflake_id_registry: reservation of worker ID % (datacenter %) was given up by %',
        give_up_reservation.worker_id, give_up_reservation.datacenter_id, snowflake_registry.name_in_words(session_user);
END
$$;
COMMENT ON FUNCTION snowflake_registry.give_up_reservation(int, int) IS
    'ends the reservation of a worker ID for a role; if the worker ID is in the pool, any server can lease it again';

-- Administrators call this function before servers leave the registry. Otherwise another registry could grant the same
-- worker IDs and numbers.
CREATE FUNCTION snowflake_registry.freeze(until timestamptz DEFAULT 'infinity') RETURNS timestamptz
VOLATILE PARALLEL UNSAFE SECURITY DEFINER LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    registry snowflake_registry.settings;
    last_end timestamptz;
BEGIN
    IF until IS NULL THEN
        RAISE EXCEPTION 'until must not be null'
            USING ERRCODE = 'null_value_not_allowed',
                  HINT = 'To freeze without limiting the leases: SELECT snowflake_registry.freeze();';
    END IF;
    registry := snowflake_registry.begin_request();
    -- Tokens contain microseconds of Unix time. Later times are stored as infinity, and earlier times as the start of
    -- Unix time.
    until := CASE WHEN until >= '10000-01-01 00:00:00+00' THEN 'infinity'
                  ELSE greatest(until, '1970-01-01 00:00:00+00') END;
    IF until > registry.frozen_until THEN
        RAISE EXCEPTION 'the registry is already frozen until an earlier time'
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  DETAIL = format('The registry is frozen until %s. Another registry may start at that time.',
                                  snowflake_registry.in_words(registry.frozen_until)),
                  HINT = 'If no other registry starts then: SELECT snowflake_registry.unfreeze();';
    END IF;
    UPDATE snowflake_registry.settings SET frozen_until = until;
    PERFORM snowflake_registry.note_request();
    SELECT snowflake_registry.end_with_forgotten(greatest(max(lease.granted_until), until), registry) INTO last_end
    FROM snowflake_registry.lease AS lease;
    RAISE LOG 'snowflake_id_registry: frozen by %', snowflake_registry.name_in_words(session_user)
        USING DETAIL = CASE
            WHEN isfinite(last_end) THEN format('No lease ends later than %s.', snowflake_registry.in_words(last_end))
            ELSE 'Leases are renewed without a limit.' END;
    RETURN last_end;
END
$$;
COMMENT ON FUNCTION snowflake_registry.freeze(timestamptz) IS
    'stops granting worker IDs and numbers, and extends no lease beyond the given time; returns the time at which all leases '
    'will have ended';

CREATE FUNCTION snowflake_registry.unfreeze() RETURNS void
VOLATILE PARALLEL UNSAFE SECURITY DEFINER LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    registry CONSTANT snowflake_registry.settings := snowflake_registry.begin_request();
BEGIN
    IF registry.frozen_until IS NULL THEN
        RAISE EXCEPTION 'the registry is not frozen'
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  HINT = 'To see the state of the registry: SELECT state FROM snowflake_registry.status;';
    END IF;
    UPDATE snowflake_registry.settings SET frozen_until = NULL;
    PERFORM snowflake_registry.note_request();
    RAISE LOG 'snowflake_id_registry: unfrozen by %', snowflake_registry.name_in_words(session_user);
END
$$;
COMMENT ON FUNCTION snowflake_registry.unfreeze() IS
    'ends the effect of freeze(); the caller asserts that no other registry and no setting has assigned worker IDs '
    'or numbers that this registry may grant';

CREATE FUNCTION snowflake_registry.quarantine() RETURNS timestamptz
VOLATILE PARALLEL UNSAFE SECURITY DEFINER LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    messages CONSTANT text := current_setting('client_min_messages');
    registry CONSTANT snowflake_registry.settings := snowflake_registry.begin_request();
BEGIN
    -- If the history of the fleet is not known, calling quarantine() is also a safe way to start the fleet. A registry that
    -- only has segments has no fleet.
    IF NOT EXISTS (SELECT FROM snowflake_registry.segment) THEN
        PERFORM snowflake_registry.check_pool(registry.first_worker, registry.last_worker);
    END IF;
    UPDATE snowflake_registry.settings
    SET is_started = true, nothing_before = greatest(nothing_before, clock_timestamp())
    WHERE NOT is_started AND first_worker IS NOT NULL;
    PERFORM snowflake_registry.enter_quarantine('its administrator called quarantine()');
    IF registry.first_worker IS NOT NULL THEN
        PERFORM snowflake_registry.guard_fleet();
    ELSE
        PERFORM set_config('client_min_messages', messages, true);
        RAISE NOTICE 'the quarantine does not start a fleet'
            USING DETAIL = 'The pool of worker IDs has not been specified. The quarantine only stops numbers of segments.';
    END IF;
    RETURN (SELECT counted_at + waits FROM snowflake_registry.settings);
END
$$;
COMMENT ON FUNCTION snowflake_registry.quarantine() IS
    'stops granting worker IDs until all ranges that may have been granted have ended, and returns that time; '
    'leases are still renewed';

CREATE FUNCTION snowflake_registry.end_quarantine() RETURNS void
VOLATILE PARALLEL UNSAFE SECURITY DEFINER LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    registry CONSTANT snowflake_registry.settings := snowflake_registry.begin_request();
BEGIN
    IF NOT registry.is_started AND registry.waits <= '0' THEN
        RAISE EXCEPTION 'the registry has not been started'
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  HINT = 'To start it: SELECT snowflake_registry.start_fleet(first_worker, last_worker);';
    END IF;
    UPDATE snowflake_registry.settings
    SET waits = '0', numbers_wait = '0', is_proved = false, is_witnessed = false, quarantine_reason = NULL;
    PERFORM snowflake_registry.sign_settings();
    IF registry.is_started THEN
        PERFORM snowflake_registry.guard_fleet();
    END IF;
    RAISE LOG 'snowflake_id_registry: quarantine was ended by %', snowflake_registry.name_in_words(session_user);
END
$$;
COMMENT ON FUNCTION snowflake_registry.end_quarantine() IS
    'ends a quarantine; the caller asserts that the registry has lost no commits, and that no server has a worker ID of '
    'another or an earlier registry';

CREATE FUNCTION snowflake_registry.configure(
    lease interval DEFAULT NULL, renew_every interval DEFAULT NULL, first_worker int DEFAULT NULL,
    last_worker int DEFAULT NULL, synchronous boolean DEFAULT NULL, last_datacenter int DEFAULT NULL,
    witnesses boolean DEFAULT NULL, none_by_hand boolean DEFAULT false
)
RETURNS void
VOLATILE PARALLEL UNSAFE SECURITY DEFINER LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    messages CONSTANT text := current_setting('client_min_messages');
    registry CONSTANT snowflake_registry.settings := snowflake_registry.begin_request();
    outside bigint;
    -- Intervals are stored in seconds, because the length of a day varies.
    new_lease CONSTANT interval :=
        coalesce(make_interval(secs => extract(epoch FROM configure.lease)::float8), registry.lease);
    new_renewal CONSTANT interval :=
        coalesce(make_interval(secs => extract(epoch FROM configure.renew_every)::float8),
                 registry.renew_every);
    new_first CONSTANT int := coalesce(configure.first_worker, registry.first_worker);
    new_last CONSTANT int := coalesce(configure.last_worker, registry.last_worker);
    changed snowflake_registry.settings;
BEGIN
    IF new_lease NOT BETWEEN '1 second' AND '24 hours' THEN
        RAISE EXCEPTION 'invalid lease: %', configure.lease
            USING ERRCODE = 'invalid_parameter_value',
                  DETAIL = 'A lease must be between 1 second and 24 hours.',
                  HINT = 'A server can issue IDs without the registry for the duration of its lease. The worker ID of a failed '
                         'server remains taken for the same time.';
    ELSIF new_renewal < '100 milliseconds' OR new_renewal * 2 > new_lease THEN
        RAISE EXCEPTION 'invalid renew_every for a lease of %: %', new_lease, new_renewal
            USING ERRCODE = 'invalid_parameter_value',
                  DETAIL = 'The minimum is 100 milliseconds, and the maximum is half of the lease.',
                  HINT = 'Set both parameters: SELECT snowflake_registry.configure(lease => ''10 minutes'', '
                         'renew_every => ''1 minute'');';
    END IF;
    IF num_nonnulls(new_first, new_last) > 0 THEN
        PERFORM snowflake_registry.check_pool(new_first, new_last);
    END IF;
    IF NOT coalesce(configure.none_by_hand, false) THEN
        PERFORM snowflake_registry.check_growth(registry, new_first, new_last);
    END IF;
    IF configure.last_datacenter < 0 THEN
        RAISE EXCEPTION 'invalid last_datacenter: %', configure.last_datacenter
            USING ERRCODE = 'invalid_parameter_value', DETAIL = 'The minimum is 0.';
    END IF;
    UPDATE snowflake_registry.settings
    SET lease = new_lease,
        -- A quarantine must last as long as any lease that was ever granted. The value never decreases, even if no lease was
        -- granted yet: the registry may be set back to this state after a later call of this function and its grants.
        longest_lease = greatest(longest_lease, new_lease),
        renew_every = new_renewal,
        -- Holders of leases and of numbers may still follow the longest value that they were told. Without any, there is
        -- nobody to wait for.
        longest_renewal = CASE
            WHEN waits > '0' OR EXISTS (SELECT FROM snowflake_registry.lease WHERE grant_count > 0)
                 OR EXISTS (SELECT FROM snowflake_registry.segment WHERE has_left)
            THEN greatest(longest_renewal, new_renewal) ELSE new_renewal END,
        first_worker = new_first,
        last_worker = new_last,
        last_datacenter = coalesce(configure.last_datacenter, last_datacenter),
        synchronous = coalesce(configure.synchronous, synchronous),
        witnesses = coalesce(configure.witnesses, witnesses)
    RETURNING * INTO changed;
    IF (changed.lease, changed.renew_every, changed.first_worker, changed.last_worker, changed.last_datacenter,
        changed.synchronous, changed.witnesses)
       IS DISTINCT FROM (registry.lease, registry.renew_every, registry.first_worker, registry.last_worker,
                         registry.last_datacenter, registry.synchronous, registry.witnesses) THEN
        PERFORM snowflake_registry.note_request();
    ELSE
        PERFORM snowflake_registry.sign_settings();
    END IF;
    PERFORM set_config('client_min_messages', messages, true);
    SELECT count(*) INTO outside
    FROM snowflake_registry.lease AS lease
    WHERE (lease.grant_count > 0 OR lease.was_leased)
      AND lease.worker_id BETWEEN registry.first_worker AND registry.last_worker
      AND lease.worker_id NOT BETWEEN new_first AND new_last;
    IF outside > 0 THEN
        RAISE NOTICE 'number of worker IDs outside the new pool that were leased before: %', outside
            USING DETAIL = 'A worker ID that was leased once is never used by hand, even if it is outside the pool. Servers '
                           'that hold one of these worker IDs keep it.',
                  HINT = 'To list worker IDs: SELECT * FROM snowflake_registry.fleet;';
    END IF;
    IF new_lease <= '2 minutes' AND configure.lease IS NOT NULL THEN
        RAISE NOTICE 'a lease of % is too short to survive a quarantine', new_lease
            USING DETAIL = 'When a quarantine starts, leases that end within 2 minutes are released. Each server '
                           'stops issuing IDs when its lease ends, and gets no new lease before the quarantine '
                           'ends.',
                  HINT = 'Use a longer lease: SELECT snowflake_registry.configure(lease => ''10 minutes'');';
    END IF;
END
$$;
COMMENT ON FUNCTION snowflake_registry.configure(interval, interval, int, int, boolean, int, boolean, boolean) IS
    'changes the specified settings of the registry; servers receive them with their next renewal';

-- A version that no longer knows a protocol calls this function in its update script, before it changes anything else.
CREATE FUNCTION snowflake_registry.require_protocol(lowest int) RETURNS void
VOLATILE PARALLEL UNSAFE SECURITY DEFINER LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    registry snowflake_registry.settings;
    older record;
BEGIN
    IF require_protocol.lowest IS NULL THEN
        RAISE EXCEPTION 'lowest must not be null'
            USING ERRCODE = 'null_value_not_allowed',
                  HINT = 'Specify the lowest protocol that all servers of the fleet know, for example: '
                         'SELECT snowflake_registry.require_protocol(1);';
    END IF;
    PERFORM snowflake_registry.begin_call();
    registry := snowflake_registry.open_registry(true);
    -- Without a fleet, there are no leases.
    IF registry.waits > '0' AND registry.is_started
       AND require_protocol.lowest > (snowflake_registry.protocols()).lowest THEN
        RAISE EXCEPTION 'servers of the fleet may still use a protocol below %', require_protocol.lowest
            USING ERRCODE = 'object_in_use',
                  DETAIL = snowflake_registry.quarantine_detail(registry),
                  HINT = 'Wait until the quarantine has ended. Its time counts only while servers call the registry. '
                         || snowflake_registry.hint_of_quarantine();
    END IF;
    SELECT count(*) AS leases, max(coalesce(used_until, granted_until)) AS until INTO older
    FROM snowflake_registry.lease
    WHERE protocol < require_protocol.lowest AND coalesce(used_until, granted_until) > clock_timestamp();
    IF older.leases > 0 THEN
        RAISE EXCEPTION 'servers of the fleet still use a protocol below %', require_protocol.lowest
            USING ERRCODE = 'object_in_use',
                  DETAIL = format('Number of leases that have not ended: %s. The last one ends at %s.', older.leases,
                                  snowflake_registry.in_words(older.until)),
                  HINT = format('To list them: SELECT node_name, host, version FROM snowflake_registry.fleet '
                                'WHERE protocol < %s AND time_left > ''0''; Install the newer version of snowflake_id there first.',
                                require_protocol.lowest);
    END IF;
END
$$;
COMMENT ON FUNCTION snowflake_registry.require_protocol(int) IS
    'raises an error if the holder of a lease may still use a lower protocol';

-- Segments: functions for administrators -----------------------------------------------------------------

-- Counts the change, so that tokens of later grants prove the loss of this change. All changes of a transaction count once,
-- because they can only be lost together. Otherwise, each of many changes in a transaction would have to pass the versions
-- of the row that the earlier changes have left.
CREATE FUNCTION snowflake_registry.end_request() RETURNS void
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE snowflake_registry.settings SET serial = serial + 1, counted_by = pg_current_xact_id()
    WHERE counted_by IS DISTINCT FROM pg_current_xact_id();
    IF FOUND THEN
        PERFORM snowflake_registry.sign_settings();
    END IF;
    -- As in guard_fleet(), a view prevents DROP EXTENSION.
    IF NOT EXISTS (SELECT FROM snowflake_registry.segment WHERE dropped_at IS NULL) THEN
        DROP VIEW IF EXISTS snowflake_registry.segments_are_in_use_call_drop_segment_first;
    ELSIF to_regclass('snowflake_registry.segments_are_in_use_call_drop_segment_first') IS NULL THEN
        CREATE VIEW snowflake_registry.segments_are_in_use_call_drop_segment_first AS
            SELECT count(*) AS segments FROM snowflake_registry.segment WHERE dropped_at IS NULL;
        COMMENT ON VIEW snowflake_registry.segments_are_in_use_call_drop_segment_first IS
            'prevents DROP EXTENSION while there are segments; drop_segment() removes the view when it drops the last '
            'segment';
        REVOKE ALL ON snowflake_registry.segments_are_in_use_call_drop_segment_first FROM PUBLIC;
    END IF;
END
$$;
COMMENT ON FUNCTION snowflake_registry.end_request() IS
    'ends a function that changes segments: counts the change, and makes DROP EXTENSION fail unless CASCADE is specified';

CREATE FUNCTION snowflake_registry.segment_named(name text) RETURNS snowflake_registry.segment
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    segment snowflake_registry.segment;
BEGIN
    SELECT * INTO segment FROM snowflake_registry.segment AS segment
    WHERE segment.name = segment_named.name AND segment.dropped_at IS NULL;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'segment % does not exist', snowflake_registry.name_in_words(segment_named.name)
            USING ERRCODE = 'undefined_object',
                  HINT = coalesce('Perhaps you meant segment ' || snowflake_registry.name_in_words(
                                      snowflake_registry.segment_like(segment_named.name))
                                      || '; names are case-sensitive.',
                                  'To list segments: SELECT * FROM snowflake_registry.segments;');
    END IF;
    RETURN segment;
END
$$;
COMMENT ON FUNCTION snowflake_registry.segment_named(text) IS 'finds a segment by name; raises an error if the segment does not exist';

CREATE FUNCTION snowflake_registry.check_steps(min_step bigint, max_step bigint) RETURNS void
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF coalesce(min_step < 1 OR max_step < min_step OR max_step > 1000000000, true) THEN
        RAISE EXCEPTION 'invalid range of steps: % to %', min_step, max_step
            USING ERRCODE = 'invalid_parameter_value',
                  DETAIL = 'Both must be between 1 and 1000000000, and min_step must not be greater than max_step.',
                  HINT = 'Set both parameters, for example min_step => 1000, max_step => 1000000.';
    END IF;
END
$$;
COMMENT ON FUNCTION snowflake_registry.check_steps(bigint, bigint) IS 'raises an error if the steps are invalid';

CREATE FUNCTION snowflake_registry.check_name(name text) RETURNS void
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF octet_length(name) NOT BETWEEN 1 AND 255 THEN
        RAISE EXCEPTION 'invalid length of segment name'
            USING ERRCODE = 'invalid_parameter_value',
                  DETAIL = format('The name has %s bytes. It must have 1 to 255 bytes.', octet_length(name));
    END IF;
    -- Servers send names in UTF8. A database with encoding SQL_ASCII accepts names that are not valid UTF8.
    PERFORM convert_to(name, 'UTF8');
END
$$;
COMMENT ON FUNCTION snowflake_registry.check_name(text) IS 'raises an error if no segment can have this name';

CREATE FUNCTION snowflake_registry.check_description(description text) RETURNS void
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF octet_length(description) > 1024 THEN
        RAISE EXCEPTION 'description is too long'
            USING ERRCODE = 'invalid_parameter_value',
                  DETAIL = format('The description has %s bytes, and the maximum is 1024.', octet_length(description));
    END IF;
END
$$;
COMMENT ON FUNCTION snowflake_registry.check_description(text) IS 'raises an error if the description is too long';

CREATE FUNCTION snowflake_registry.create_segment(
    name text, start bigint DEFAULT 1, increment bigint DEFAULT 1, min_step bigint DEFAULT 1000,
    max_step bigint DEFAULT 1000000, max_value bigint DEFAULT 9223372036854775807, period text DEFAULT NULL,
    digits int DEFAULT NULL, time_zone text DEFAULT 'UTC', description text DEFAULT NULL
)
RETURNS void
VOLATILE PARALLEL UNSAFE SECURITY DEFINER LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    messages CONSTANT text := current_setting('client_min_messages');
    made snowflake_registry.segment;
    before snowflake_registry.segment;
    zone text;
    most_digits int;
    given_until numeric;
BEGIN
    IF create_segment.name IS NULL OR create_segment.start IS NULL OR create_segment.increment IS NULL
       OR create_segment.max_value IS NULL THEN
        RAISE EXCEPTION 'name, start, increment and max_value must not be null'
            USING ERRCODE = 'null_value_not_allowed',
                  HINT = 'Specify a name. Omit start, increment or max_value to use its default.';
    ELSIF create_segment.increment NOT BETWEEN 1 AND 1000000000 THEN
        RAISE EXCEPTION 'invalid increment: %', create_segment.increment
            USING ERRCODE = 'invalid_parameter_value', DETAIL = 'The increment must be between 1 and 1000000000.';
    ELSIF create_segment.start NOT BETWEEN 0 AND create_segment.max_value THEN
        RAISE EXCEPTION 'invalid start: %', create_segment.start
            USING ERRCODE = 'invalid_parameter_value',
                  DETAIL = format('The start must be between 0 and %s (max_value).', create_segment.max_value);
    END IF;
    PERFORM snowflake_registry.check_name(create_segment.name);
    PERFORM snowflake_registry.check_description(create_segment.description);
    PERFORM snowflake_registry.check_steps(create_segment.min_step, create_segment.max_step);
    IF create_segment.period IS NULL THEN
        IF create_segment.digits IS NOT NULL OR coalesce(create_segment.time_zone <> 'UTC', false) THEN
            RAISE EXCEPTION 'digits and time_zone require a period'
                USING ERRCODE = 'invalid_parameter_value',
                      HINT = 'Specify a period as well, such as period => ''day''.';
        END IF;
    ELSE
        -- With prefixes of years up to 9223, numbers fit into bigint.
        most_digits := CASE WHEN create_segment.period = 'day' THEN 11
                            WHEN create_segment.period = 'month' THEN 13
                            WHEN create_segment.period = 'year' THEN 15 END;
        IF most_digits IS NULL THEN
            RAISE EXCEPTION 'unrecognized period: %', snowflake_registry.name_in_words(create_segment.period)
                USING ERRCODE = 'invalid_parameter_value', HINT = 'Use day, month or year.';
        ELSIF coalesce(create_segment.digits NOT BETWEEN 1 AND most_digits, true) THEN
            RAISE EXCEPTION '%', CASE
                WHEN create_segment.digits IS NULL
                THEN format('digits must be specified for a segment with period "%s"', create_segment.period)
                ELSE format('a segment with period "%s" cannot have %s digits', create_segment.period,
                            create_segment.digits) END
                USING ERRCODE = 'invalid_parameter_value',
                      DETAIL = format('The number of digits after the prefix must be between 1 and %s, and cannot be '
                                      'changed later.', most_digits),
                      HINT = 'Specify the number of digits. For example, digits => 6 allows 999999 numbers in each period.';
        ELSIF create_segment.start NOT BETWEEN 0
              AND snowflake_registry.period_base(1, create_segment.digits) - 1 THEN
            RAISE EXCEPTION 'invalid start within a period: %', create_segment.start
                USING ERRCODE = 'invalid_parameter_value',
                      DETAIL = format('With %s digits, the start must be between 0 and %s.', create_segment.digits,
                                      snowflake_registry.period_base(1, create_segment.digits) - 1);
        END IF;
        -- Abbreviations and offsets are not accepted, because the sign of a POSIX offset is the opposite of the usual
        -- sign.
        SELECT known.name INTO zone FROM pg_timezone_names AS known
        WHERE lower(known.name) = lower(create_segment.time_zone);
        IF NOT FOUND THEN
            RAISE EXCEPTION 'time zone % not recognized',
                coalesce(snowflake_registry.name_in_words(create_segment.time_zone), 'NULL')
                USING ERRCODE = 'invalid_parameter_value', HINT = 'To list time zones: SELECT name FROM pg_timezone_names;';
        END IF;
    END IF;

    PERFORM snowflake_registry.begin_request();
    SELECT * INTO before FROM snowflake_registry.segment AS segment
    WHERE segment.name = create_segment.name;
    IF FOUND AND before.dropped_at IS NULL THEN
        RAISE EXCEPTION 'segment % already exists',
            snowflake_registry.name_in_words(create_segment.name)
            USING ERRCODE = 'duplicate_object',
                  HINT = 'To change the steps or max_value: SELECT snowflake_registry.alter_segment(name, ...);';
    END IF;
    given_until := greatest(before.next_value, before.ahead_value);

    made.start := create_segment.start;
    made.increment := create_segment.increment;
    made.period := create_segment.period;
    made.digits := create_segment.digits;
    made.time_zone := zone;
    IF made.period IS NULL THEN
        made.next_value := snowflake_registry.at_or_above(
            made.start, made.increment, coalesce(given_until, made.start));
    ELSIF before.period = made.period AND before.digits = made.digits THEN
        -- The periods are the same and continue where they were.
        made.period_key := before.period_key;
        made.next_value := snowflake_registry.in_period(made.period_key, made.digits, made.start,
                                                        made.increment, before.next_value);
        made.ahead_key := before.ahead_key;
        made.ahead_value := snowflake_registry.in_period(made.ahead_key, made.digits, made.start,
                                                         made.increment, before.ahead_value);
    ELSE
        made.period_key := snowflake_registry.key_of_clock(made.period, made.time_zone, clock_timestamp());
        made.next_value := snowflake_registry.in_period(made.period_key, made.digits, made.start,
                                                        made.increment, 0);
        IF made.next_value < given_until THEN
            RAISE EXCEPTION 'new numbers would be lower than numbers already granted under this name'
                USING ERRCODE = 'object_not_in_prerequisite_state',
                      DETAIL = format('A segment with this name was dropped. All its numbers are below %s, and '
                                      'the new numbers would start at %s.', given_until, made.next_value),
                      HINT = 'Use another name.';
        END IF;
    END IF;
    IF made.next_value > create_segment.max_value THEN
        RAISE EXCEPTION 'the segment would have no numbers'
            USING ERRCODE = 'invalid_parameter_value',
                  DETAIL = format('The segment would start at %s and end at %s (max_value).', made.next_value,
                                  create_segment.max_value),
                  HINT = 'Specify a lower start or a higher max_value.';
    END IF;
    INSERT INTO snowflake_registry.segment AS segment (
        name, next_value, start, increment, min_step, max_step, step, max_value, period, digits, time_zone,
        period_key, ahead_key, ahead_value, updated_at, description
    )
    VALUES (
        create_segment.name, made.next_value, made.start, made.increment, create_segment.min_step,
        create_segment.max_step, create_segment.min_step, create_segment.max_value, made.period, made.digits,
        made.time_zone, made.period_key, made.ahead_key, made.ahead_value, clock_timestamp(),
        nullif(create_segment.description, '')
    )
    -- A closed segment remains closed, because the registry does not know which numbers were granted.
    ON CONFLICT (name) DO UPDATE
    SET next_value = excluded.next_value, start = excluded.start, increment = excluded.increment,
        min_step = excluded.min_step, max_step = excluded.max_step, step = excluded.step,
        max_value = excluded.max_value, period = excluded.period, digits = excluded.digits,
        time_zone = excluded.time_zone, period_key = excluded.period_key, ahead_key = excluded.ahead_key,
        ahead_value = excluded.ahead_value, updated_at = excluded.updated_at, dropped_at = NULL, was_lost = false,
        description = excluded.description;
    PERFORM snowflake_registry.end_request();
    -- The next segment may be created in the same transaction.
    PERFORM set_config('client_min_messages', messages, true);
    -- Four fifths of the default of snowflake_id.max_segments. If many segments are created, the notice appears once.
    IF (SELECT count(*) FROM (SELECT FROM snowflake_registry.segment AS segment WHERE segment.dropped_at IS NULL
                              LIMIT 3278) AS counted) = 3277 THEN
        RAISE NOTICE 'the registry has 3277 segments'
            USING DETAIL = 'A server can use at most snowflake_id.max_segments segments: 4096 by default.',
                  HINT = 'On each server that will use more segments, increase snowflake_id.max_segments and restart the server.';
    END IF;
END
$$;
COMMENT ON FUNCTION snowflake_registry.create_segment(
    text, bigint, bigint, bigint, bigint, bigint, text, int, text, text
) IS
    'creates a segment; if a segment with this name was dropped, numbers start above all numbers already granted';

CREATE FUNCTION snowflake_registry.alter_segment(
    name text, min_step bigint DEFAULT NULL, max_step bigint DEFAULT NULL, max_value bigint DEFAULT NULL,
    next_value bigint DEFAULT NULL, description text DEFAULT NULL
)
RETURNS void
VOLATILE PARALLEL UNSAFE SECURITY DEFINER LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    segment snowflake_registry.segment;
    lowest numeric;
BEGIN
    PERFORM snowflake_registry.begin_request();
    segment := snowflake_registry.segment_named(alter_segment.name);
    segment.min_step := coalesce(alter_segment.min_step, segment.min_step);
    segment.max_step := coalesce(alter_segment.max_step, segment.max_step);
    PERFORM snowflake_registry.check_steps(segment.min_step, segment.max_step);
    PERFORM snowflake_registry.check_description(alter_segment.description);
    IF alter_segment.next_value IS NOT NULL THEN
        IF segment.closed_reason IS NOT NULL THEN
            RAISE EXCEPTION 'segment % is closed', snowflake_registry.name_in_words(segment.name)
                USING ERRCODE = 'object_not_in_prerequisite_state',
                      DETAIL = format('Reason: %s.', segment.closed_reason),
                      HINT = 'To open the segment: SELECT snowflake_registry.resume_segment(name, next_value);';
        END IF;
        segment := snowflake_registry.segment_from(segment, alter_segment.next_value);
    END IF;
    lowest := greatest(segment.next_value, segment.ahead_value) - segment.increment;
    IF alter_segment.max_value < lowest THEN
        RAISE EXCEPTION 'invalid max_value: %', alter_segment.max_value
            USING ERRCODE = 'invalid_parameter_value',
                  DETAIL = format('Numbers up to %s have already been granted.', lowest),
                  HINT = format('Specify a max_value of at least %s.', lowest);
    END IF;
    UPDATE snowflake_registry.segment AS kept
    SET min_step = segment.min_step, max_step = segment.max_step,
        step = greatest(segment.min_step, least(segment.max_step, kept.step)),
        max_value = coalesce(alter_segment.max_value, kept.max_value), next_value = segment.next_value,
        period_key = segment.period_key, ahead_key = segment.ahead_key, ahead_value = segment.ahead_value,
        -- An empty description removes the description.
        description = CASE WHEN alter_segment.description IS NULL THEN kept.description
                           ELSE nullif(alter_segment.description, '') END,
        updated_at = clock_timestamp()
    WHERE kept.name = segment.name;
    PERFORM snowflake_registry.end_request();
END
$$;
COMMENT ON FUNCTION snowflake_registry.alter_segment(text, bigint, bigint, bigint, bigint, text) IS
    'changes properties of a segment; numbers never decrease';

-- If the segment has a period, next_value also determines the period.
CREATE FUNCTION snowflake_registry.segment_from(segment snowflake_registry.segment, next_value bigint)
RETURNS snowflake_registry.segment
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    lowest CONSTANT numeric :=
        greatest(segment.next_value, segment.ahead_value, segment.seen_until + 1::numeric);
    key bigint;
BEGIN
    IF next_value < lowest THEN
        RAISE EXCEPTION 'segment % cannot continue at %',
            snowflake_registry.name_in_words(segment.name), next_value
            USING ERRCODE = 'invalid_parameter_value',
                  DETAIL = format('Numbers below %s may already have been granted.', lowest),
                  HINT = format('Specify a next_value of at least %s.', lowest);
    END IF;
    IF segment.period IS NULL THEN
        segment.next_value := snowflake_registry.at_or_above(segment.start, segment.increment, next_value);
        RETURN segment;
    END IF;
    key := snowflake_registry.key_of_number(segment.digits, next_value);
    BEGIN
        PERFORM snowflake_registry.first_day(segment.period, key);
    EXCEPTION WHEN data_exception THEN
        RAISE EXCEPTION '% does not start with the prefix of a period', next_value
            USING ERRCODE = 'invalid_parameter_value',
                  DETAIL = format('The segment has period "%s" and %s digits, and its next number is %s.', segment.period,
                                  segment.digits, segment.next_value),
                  HINT = format('Specify a date such as %s, followed by %s digits.', segment.period_key, segment.digits);
    END;
    segment.period_key := key;
    segment.next_value := snowflake_registry.in_period(key, segment.digits, segment.start, segment.increment,
                                                       next_value);
    segment.ahead_key := NULL;
    segment.ahead_value := NULL;
    RETURN segment;
END
$$;
COMMENT ON FUNCTION snowflake_registry.segment_from(snowflake_registry.segment, bigint) IS
    'sets the next number of a segment; raises an error if a number could be repeated';

CREATE FUNCTION snowflake_registry.drop_segment(name text) RETURNS void
VOLATILE PARALLEL UNSAFE SECURITY DEFINER LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM snowflake_registry.begin_request();
    PERFORM snowflake_registry.segment_named(drop_segment.name);
    UPDATE snowflake_registry.segment AS segment
    SET dropped_at = clock_timestamp(), updated_at = clock_timestamp()
    WHERE segment.name = drop_segment.name;
    PERFORM snowflake_registry.end_request();
    RAISE LOG 'snowflake_id_registry: segment % was dropped by %',
        snowflake_registry.name_in_words(drop_segment.name), snowflake_registry.name_in_words(session_user);
END
$$;
COMMENT ON FUNCTION snowflake_registry.drop_segment(text) IS
    'drops a segment; servers can still use the ranges that they hold';

CREATE FUNCTION snowflake_registry.resume_segment(name text, next_value bigint) RETURNS void
VOLATILE PARALLEL UNSAFE SECURITY DEFINER LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    messages CONSTANT text := current_setting('client_min_messages');
    registry snowflake_registry.settings;
    segment snowflake_registry.segment;
    generous bigint;
BEGIN
    IF resume_segment.next_value IS NULL THEN
        RAISE EXCEPTION 'next_value must not be null'
            USING ERRCODE = 'null_value_not_allowed',
                  HINT = 'If no commits were lost: SELECT snowflake_registry.resume_segments();';
    END IF;
    registry := snowflake_registry.begin_request();
    segment := snowflake_registry.segment_named(resume_segment.name);
    IF segment.closed_reason IS NULL THEN
        RAISE EXCEPTION 'segment % is not closed', snowflake_registry.name_in_words(segment.name)
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  HINT = CASE WHEN registry.frozen_until IS NOT NULL
                      THEN 'The registry is frozen. If no other registry has replaced it: '
                           'SELECT snowflake_registry.unfreeze();'
                      ELSE 'To skip numbers: SELECT snowflake_registry.alter_segment(name, next_value => ...);' END;
    END IF;
    segment := snowflake_registry.segment_from(segment, resume_segment.next_value);
    generous := (SELECT generous_resume_at FROM snowflake_registry.segments AS closed WHERE closed.name = segment.name);
    UPDATE snowflake_registry.segment AS kept
    SET next_value = segment.next_value, period_key = segment.period_key, ahead_key = segment.ahead_key,
        ahead_value = segment.ahead_value, closed_reason = NULL, seen_until = NULL,
        updated_at = clock_timestamp()
    WHERE kept.name = segment.name;
    PERFORM snowflake_registry.end_request();
    RAISE LOG 'snowflake_id_registry: segment % was resumed at % by %',
        snowflake_registry.name_in_words(segment.name), segment.next_value,
        snowflake_registry.name_in_words(session_user);
    IF segment.next_value < generous THEN
        PERFORM set_config('client_min_messages', messages, true);
        RAISE NOTICE 'segment % may repeat numbers if servers or tables were restored, too',
            snowflake_registry.name_in_words(segment.name)
            USING DETAIL = 'Numbers that were granted after the backup or the snapshot are then in no table of these servers.',
                  HINT = format('In this case, skip more numbers before servers connect: SELECT snowflake_registry.alter_segment(%L, '
                                'next_value => %s);', segment.name, generous);
    END IF;
END
$$;
COMMENT ON FUNCTION snowflake_registry.resume_segment(text, bigint) IS
    'opens a closed segment; the caller asserts that no number at or above next_value was ever granted';

CREATE FUNCTION snowflake_registry.resume_segments() RETURNS bigint
VOLATILE PARALLEL UNSAFE SECURITY DEFINER LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    resumed bigint;
BEGIN
    PERFORM snowflake_registry.begin_request();
    UPDATE snowflake_registry.segment
    SET closed_reason = NULL, seen_until = NULL, updated_at = clock_timestamp()
    WHERE closed_reason IS NOT NULL
      AND coalesce(seen_until < greatest(next_value, ahead_value), true);
    GET DIAGNOSTICS resumed = ROW_COUNT;
    PERFORM snowflake_registry.end_request();
    RAISE LOG 'snowflake_id_registry: % segments were resumed without a change of their numbers by %', resumed,
        snowflake_registry.name_in_words(session_user);
    RETURN resumed;
END
$$;
COMMENT ON FUNCTION snowflake_registry.resume_segments() IS
    'opens all closed segments, and returns how many were opened; the caller asserts that the registry has lost no '
    'commits; a segment remains closed if a server has reported a higher number';

-- Views -------------------------------------------------------------------------------------------------

CREATE VIEW snowflake_registry.status AS
    SELECT settings.registry_id,
           CASE WHEN settings.frozen_until IS NOT NULL THEN 'frozen'
                WHEN settings.registry_id IS NULL OR NOT settings.is_started THEN 'not started'
                WHEN settings.waits > '0' THEN 'quarantine'
                ELSE 'ready' END AS state,
           CASE WHEN settings.waits > '0'
                THEN greatest(settings.counted_at + settings.waits, statement_timestamp()) END AS quarantine_until,
           CASE WHEN settings.waits > '0' THEN settings.quarantine_reason END AS quarantine_reason,
           (SELECT count(*) FROM snowflake_registry.lease
            WHERE coalesce(used_until, granted_until) > statement_timestamp()) AS live_leases,
           settings.lease, settings.longest_lease, settings.renew_every, settings.first_worker,
           settings.last_worker, settings.synchronous,
           current_setting('synchronous_standby_names') <> '' AS waits_for_standbys,
           settings.serial, settings.last_datacenter, settings.frozen_until,
           settings.timeline IS NOT NULL AS knows_timeline,
           pg_has_role((SELECT relowner FROM pg_class WHERE oid = 'snowflake_registry.settings'::regclass),
                       'pg_read_all_stats', 'USAGE') AS sees_standbys,
           (SELECT min(unsigned_since) FROM snowflake_registry.lease
            WHERE coalesce(used_until, granted_until) > statement_timestamp()) AS unsigned_since,
           -- This condition repeats guards_off(), because a call of the function would require EXECUTE for the querying
           -- role.
           NOT EXISTS (
               SELECT FROM pg_trigger AS guard
               WHERE guard.tgrelid IN ('snowflake_registry.settings'::regclass, 'snowflake_registry.lease'::regclass,
                                       'snowflake_registry.segment'::regclass,
                                       'snowflake_registry.signing_key'::regclass,
                                       'snowflake_registry.segment_privilege'::regclass)
                 AND guard.tgfoid IN ('snowflake_registry.keep_the_past()'::regprocedure,
                                      'snowflake_registry.leave_out()'::regprocedure)
                 AND guard.tgenabled <> 'A'
           ) AS is_guarded,
           settings.longest_renewal,
           CASE WHEN settings.waits > '0' THEN settings.waits END AS quarantine_left,
           CASE WHEN settings.numbers_wait > '0' THEN settings.numbers_wait END AS numbers_left,
           CASE WHEN settings.waits <= '0' THEN NULL
                WHEN settings.waits <= '1 microsecond'
                THEN 'a server whose clock agrees with the clock of the registry, and that renews or requests a lease'
                -- A call of most_counted() would require EXECUTE for the querying role.
                ELSE format(
                    CASE WHEN NOT settings.witnesses OR settings.is_witnessed OR settings.is_proved AND settings.numbers_wait <= '0'
                         THEN 'calls of servers: at most %s between two calls counts'
                         WHEN settings.is_proved
                         THEN 'calls of servers: at most %s between two calls counts, and once a server has presented a proof, '
                              '%s of the wait for numbers is left'
                         ELSE 'calls of servers: at most %s between two calls counts, and once a server has presented a proof, '
                              '%s is left' END,
                    least(interval '1 minute', greatest(settings.renew_every, interval '1 second') / 2),
                    2.5 * greatest(settings.longest_renewal, interval '1 second')) END AS waits_for
    FROM (VALUES (true)) AS one LEFT JOIN snowflake_registry.settings AS settings ON true;
COMMENT ON VIEW snowflake_registry.status IS
    'state and settings of the registry, in one row';
COMMENT ON COLUMN snowflake_registry.status.registry_id IS
    'identifier of the registry; NULL if the registry was never used';
COMMENT ON COLUMN snowflake_registry.status.quarantine_until IS
    'end of the quarantine, before which no new worker ID is granted; NULL if there is no quarantine';
COMMENT ON COLUMN snowflake_registry.status.live_leases IS 'number of leases that have not ended and were not released';
COMMENT ON COLUMN snowflake_registry.status.lease IS 'duration of a lease: how far a granted range extends beyond the current time';
COMMENT ON COLUMN snowflake_registry.status.longest_lease IS 'highest value that lease has ever had; at least 10 minutes';
COMMENT ON COLUMN snowflake_registry.status.renew_every IS 'interval at which servers renew their leases';
COMMENT ON COLUMN snowflake_registry.status.first_worker IS
    'lowest worker ID of the pool, from which the registry grants worker IDs; NULL if the pool was never specified';
COMMENT ON COLUMN snowflake_registry.status.last_worker IS
    'highest worker ID of the pool; the layout of a server may set a lower limit';
COMMENT ON COLUMN snowflake_registry.status.serial IS 'number of grants and quarantines';
COMMENT ON COLUMN snowflake_registry.status.last_datacenter IS
    'highest datacenter ID for which the registry grants worker IDs';
COMMENT ON COLUMN snowflake_registry.status.state IS
    'state of the registry: not started, ready, quarantine (leases are renewed, but no new worker IDs are granted), or '
    'frozen (no new worker IDs and no numbers are granted, and leases end at frozen_until), as of the last request; the '
    'first request after a start, a failover or a restore may begin a quarantine';
COMMENT ON COLUMN snowflake_registry.status.frozen_until IS
    'time beyond which a frozen registry extends no lease; NULL if the registry is not frozen';
COMMENT ON COLUMN snowflake_registry.status.quarantine_reason IS
    'reason why the registry assumes that commits may have been lost';
COMMENT ON COLUMN snowflake_registry.status.synchronous IS
    'true if the administrator has declared that no failover loses commits';
COMMENT ON COLUMN snowflake_registry.status.waits_for_standbys IS
    'true if commits currently wait for standbys because of synchronous_standby_names';
COMMENT ON COLUMN snowflake_registry.status.knows_timeline IS
    'true if the registry can read the timeline of its server and positions in WAL; otherwise each start counts as a '
    'promotion, and the registry signs commits that may not be durable';
COMMENT ON COLUMN snowflake_registry.status.sees_standbys IS
    'true if the owner of the registry has the privileges of pg_read_all_stats; otherwise the registry signs commits before '
    'the standbys in synchronous_standby_names have received them';
COMMENT ON COLUMN snowflake_registry.status.unsigned_since IS
    'time since which the registry signs no token for a live lease, because commits do not become durable; NULL if it signs';
COMMENT ON COLUMN snowflake_registry.status.longest_renewal IS
    'highest value that renew_every has had since the first lease or number was granted';
COMMENT ON COLUMN snowflake_registry.status.quarantine_left IS
    'remaining time of the quarantine, as of the last call: the time counts only while servers call; NULL if there is no '
    'quarantine';
COMMENT ON COLUMN snowflake_registry.status.numbers_left IS
    'remaining time, after a start of the server, before numbers are granted, as of the last call; NULL if numbers are granted';
COMMENT ON COLUMN snowflake_registry.status.waits_for IS 'what the quarantine waits for; NULL if there is no quarantine';
COMMENT ON COLUMN snowflake_registry.status.is_guarded IS
    'true if the guard triggers fire in every session';

CREATE VIEW snowflake_registry.fleet AS
    SELECT lease.datacenter_id, lease.worker_id,
           CASE WHEN coalesce(lease.used_until, lease.granted_until) > statement_timestamp()
                THEN CASE WHEN lease.lease_id IS NULL OR lease.used_until IS NOT NULL THEN 'ending' ELSE 'held' END
                WHEN lease.is_reserved THEN 'reserved'
                ELSE CASE WHEN lease.lease_id IS NULL OR lease.used_until IS NOT NULL THEN 'free' ELSE 'lapsed' END
           END AS state,
           lease.node_name, lease.host, lease.port, lease.layout, lease.version, lease.protocol,
           lease.acquired_at, lease.renewed_at, lease.granted_from, lease.granted_until,
           greatest(coalesce(lease.used_until, lease.granted_until) - statement_timestamp(), interval '0') AS time_left,
           lease.clock_offset, lease.grant_count, lease.role, lease.reserved_for, lease.note,
           (SELECT max(timestamptz '1970-01-01 00:00:00+00' + said.at::bigint * interval '1 microsecond')
            FROM jsonb_each_text(lease.said_by_hand) AS said (role, at)) AS said_by_hand_at,
           CASE WHEN (NOT lease.is_reserved OR lease.reserved_for IS NOT NULL) AND status.frozen_until IS NULL
                THEN greatest(CASE WHEN lease.used_until IS NULL THEN lease.granted_until
                                   ELSE greatest(lease.used_until, lease.granted_until - status.lease) END,
                              status.quarantine_until) END AS free_from,
           status.quarantine_until, status.synchronous, status.waits_for_standbys,
           ARRAY(SELECT said.role FROM jsonb_object_keys(lease.said_by_hand) AS said (role)
                 ORDER BY said.role COLLATE "C") AS said_by_hand_by
    FROM snowflake_registry.lease AS lease, snowflake_registry.status AS status
    ORDER BY lease.datacenter_id, lease.worker_id;
COMMENT ON VIEW snowflake_registry.fleet IS
    'identities that were ever granted, reserved, or reported as used by hand, with the current or last holder of each';
COMMENT ON COLUMN snowflake_registry.fleet.datacenter_id IS 'datacenter ID';
COMMENT ON COLUMN snowflake_registry.fleet.worker_id IS 'worker ID';
COMMENT ON COLUMN snowflake_registry.fleet.host IS 'host of the server';
COMMENT ON COLUMN snowflake_registry.fleet.port IS 'port of the server';
COMMENT ON COLUMN snowflake_registry.fleet.layout IS 'layout of the server: the name of a preset, or the definition of the layout';
COMMENT ON COLUMN snowflake_registry.fleet.version IS 'version of snowflake_id on the server';
COMMENT ON COLUMN snowflake_registry.fleet.protocol IS 'protocol in which the server calls the registry';
COMMENT ON COLUMN snowflake_registry.fleet.acquired_at IS 'time at which the server acquired the identity';
COMMENT ON COLUMN snowflake_registry.fleet.renewed_at IS 'time of the last renewal';
COMMENT ON COLUMN snowflake_registry.fleet.granted_from IS 'start of the last granted range: the holder issues no ID with an earlier time';
COMMENT ON COLUMN snowflake_registry.fleet.granted_until IS
    'end of the last granted range: the times of all IDs of the holder are before this time';
COMMENT ON COLUMN snowflake_registry.fleet.quarantine_until IS 'same as in view status';
COMMENT ON COLUMN snowflake_registry.fleet.synchronous IS 'same as in view status';
COMMENT ON COLUMN snowflake_registry.fleet.waits_for_standbys IS 'same as in view status';
COMMENT ON COLUMN snowflake_registry.fleet.state IS
    'state of the identity: held, ending (revoked or released, but in use until granted_until or free_from), lapsed (not '
    'renewed in time), reserved (for use by hand, or for one role), or free';
COMMENT ON COLUMN snowflake_registry.fleet.node_name IS
    'name of the server; the server reports its name, host, port, layout and version';
COMMENT ON COLUMN snowflake_registry.fleet.time_left IS
    'time for which the server can issue IDs without the registry';
COMMENT ON COLUMN snowflake_registry.fleet.clock_offset IS
    'how far the server''s clock is ahead of the registry''s clock';
COMMENT ON COLUMN snowflake_registry.fleet.grant_count IS 'number of times that the identity was granted';
COMMENT ON COLUMN snowflake_registry.fleet.role IS
    'login role of the server, or, if the identity was never granted, of the server that reported it as used by hand';
COMMENT ON COLUMN snowflake_registry.fleet.reserved_for IS
    'login role to which alone a reserved identity is granted; NULL if the identity is reserved for use by hand';
COMMENT ON COLUMN snowflake_registry.fleet.note IS 'text that the administrator passed to reserve()';
COMMENT ON COLUMN snowflake_registry.fleet.said_by_hand_at IS
    'time at which a server last reported that its configuration sets this worker ID by hand; such a worker ID is granted last';
COMMENT ON COLUMN snowflake_registry.fleet.said_by_hand_by IS
    'login roles of the servers that reported that their configuration sets this worker ID by hand';
COMMENT ON COLUMN snowflake_registry.fleet.free_from IS
    'earliest time at which another server can get the identity if the lease is not renewed; NULL if the identity is '
    'reserved or the registry is frozen';

CREATE VIEW snowflake_registry.segments AS
    SELECT segment.name,
           CASE WHEN segment.dropped_at IS NOT NULL THEN 'dropped'
                WHEN segment.closed_reason IS NOT NULL OR settings.frozen_until IS NOT NULL THEN 'closed'
                WHEN segment.next_value > segment.max_value THEN 'exhausted'
                -- A call of period_base() would require EXECUTE for the querying role.
                WHEN div(segment.next_value, ('1' || repeat('0', segment.digits))::numeric)
                     > segment.period_key
                     AND segment.period_key >= to_char(
                         statement_timestamp() AT TIME ZONE segment.time_zone,
                         CASE WHEN segment.period = 'year' THEN 'YYYY'
                              WHEN segment.period = 'month' THEN 'YYYYMM'
                              ELSE 'YYYYMMDD' END
                     )::bigint THEN 'exhausted'
                ELSE 'open' END AS state,
           CASE WHEN segment.next_value <= 9223372036854775807 THEN segment.next_value::bigint
           END AS next_value,
           segment.increment, segment.step, segment.min_step, segment.max_step, segment.max_value,
           segment.period, segment.digits, segment.time_zone, segment.taken_at, segment.taken_by,
           CASE WHEN segment.dropped_at IS NULL AND settings.frozen_until IS NOT NULL
                THEN coalesce(segment.closed_reason, 'the registry is frozen')
                ELSE segment.closed_reason END AS closed_reason,
           segment.seen_until,
           CASE WHEN greatest(segment.next_value, segment.ahead_value) <= 9223372036854775807
                     -- Otherwise more numbers may have been granted.
                     AND segment.closed_reason IS NULL AND coalesce(settings.waits <= '0', true)
                THEN greatest(segment.next_value, segment.ahead_value)::bigint END AS resume_at,
           segment.description, segment.numbers_granted,
           CASE WHEN segment.closed_reason IS NULL OR segment.dropped_at IS NOT NULL THEN NULL
                WHEN div(basis.value + skipped.count, prefix.unit) > div(basis.value, prefix.unit)
                THEN (to_char(to_date(div(basis.value, prefix.unit)::text, prefix.format) + ('1 ' || segment.period)::interval,
                              prefix.format) || lpad(segment.start::text, segment.digits, '0'))::bigint
                WHEN basis.value + skipped.count <= 9223372036854775807 THEN (basis.value + skipped.count)::bigint
           END AS generous_resume_at
    FROM snowflake_registry.segment AS segment LEFT JOIN snowflake_registry.settings AS settings ON true,
         LATERAL (SELECT ('1' || repeat('0', segment.digits))::numeric,
                         CASE WHEN segment.period = 'year' THEN 'YYYY' WHEN segment.period = 'month' THEN 'YYYYMM'
                              ELSE 'YYYYMMDD' END) AS prefix (unit, format),
         -- Servers take the first range of a period at most 10 minutes before it starts.
         LATERAL (SELECT greatest(
             segment.next_value, segment.ahead_value, segment.seen_until + 1::numeric,
             to_char((statement_timestamp() + interval '15 minutes') AT TIME ZONE segment.time_zone, prefix.format)::numeric
                 * prefix.unit + segment.start)) AS basis (value),
         LATERAL (SELECT segment.numbers_granted::numeric * segment.increment) AS skipped (count)
    ORDER BY segment.name;
COMMENT ON VIEW snowflake_registry.segments IS 'all segments, including dropped ones';
COMMENT ON COLUMN snowflake_registry.segments.name IS 'name of the segment';
COMMENT ON COLUMN snowflake_registry.segments.increment IS 'difference between two consecutive numbers';
COMMENT ON COLUMN snowflake_registry.segments.min_step IS
    'minimum size of a range';
COMMENT ON COLUMN snowflake_registry.segments.max_step IS 'maximum size of a range';
COMMENT ON COLUMN snowflake_registry.segments.max_value IS 'highest number of the segment';
COMMENT ON COLUMN snowflake_registry.segments.period IS
    'day, month or year; NULL if numbers have no prefix';
COMMENT ON COLUMN snowflake_registry.segments.digits IS 'number of digits after the prefix';
COMMENT ON COLUMN snowflake_registry.segments.time_zone IS 'time zone that determines when days begin';
COMMENT ON COLUMN snowflake_registry.segments.taken_at IS 'time at which a range was last taken';
COMMENT ON COLUMN snowflake_registry.segments.state IS
    'state of the segment: open, closed (until resume_segment() or unfreeze() is called), exhausted (no numbers are left, or '
    'none in this period), or dropped';
COMMENT ON COLUMN snowflake_registry.segments.next_value IS
    'start of the next range, unless a new period has started in the meantime; NULL if beyond the range of bigint';
COMMENT ON COLUMN snowflake_registry.segments.resume_at IS
    'lowest value above all granted numbers; NULL if beyond the range of bigint, or if not known because commits may have '
    'been lost';
COMMENT ON COLUMN snowflake_registry.segments.generous_resume_at IS
    'for a closed segment: value for resume_segment() if servers or tables were also restored, so that they contain no trace of '
    'the last granted numbers; skips as many numbers as were ever granted, or continues with the next period';
COMMENT ON COLUMN snowflake_registry.segments.numbers_granted IS
    'how many numbers were granted, in all periods; increments do not count';
COMMENT ON COLUMN snowflake_registry.segments.description IS 'text for administrators';
COMMENT ON COLUMN snowflake_registry.segments.step IS
    'size of the range that was taken last';
COMMENT ON COLUMN snowflake_registry.segments.taken_by IS 'server that last took a range, as reported by the server';
COMMENT ON COLUMN snowflake_registry.segments.closed_reason IS
    'reason why the segment is closed';
COMMENT ON COLUMN snowflake_registry.segments.seen_until IS
    'highest number reported since the segment was closed, by the registry''s own server or by a server with numbers of '
    'another registry';

-- Servers of the fleet ----------------------------------------------------------------------------------

-- As in read_facts(), bodies contain no backslashes.
CREATE FUNCTION snowflake_registry.connection_value(value text) RETURNS text
IMMUTABLE PARALLEL SAFE LANGUAGE sql
RETURN CASE WHEN value COLLATE "C" ~ '^[A-Za-z0-9_.-]+$' THEN value
            ELSE '''' || replace(replace(value, chr(92), repeat(chr(92), 2)), '''', chr(92) || '''') || '''' END;
COMMENT ON FUNCTION snowflake_registry.connection_value(text) IS 'quotes a value for a connection string of libpq';

-- A role of the fleet has a privilege for the functions of servers, and no other task: the settings of a server's role would
-- interrupt the sessions of other roles.
CREATE FUNCTION snowflake_registry.check_role(name text) RETURNS void
STABLE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    role record;
BEGIN
    SELECT known.oid, known.rolcanlogin AS can_login,
           known.rolsuper OR known.rolcreaterole OR known.rolcreatedb OR known.rolreplication OR known.rolbypassrls
               OR EXISTS (SELECT FROM pg_shdepend AS owned
                          WHERE owned.refclassid = 'pg_authid'::regclass AND owned.refobjid = known.oid
                            AND owned.deptype = 'o')
               OR pg_has_role(known.oid, function.proowner, 'MEMBER') AS does_more,
           EXISTS (SELECT FROM pg_proc AS granted, LATERAL aclexplode(granted.proacl) AS acl
                   WHERE granted.oid IN (function.oid, 'snowflake_registry.take(jsonb)'::regprocedure)
                     AND acl.grantee NOT IN (0, granted.proowner)
                     AND pg_has_role(known.oid, acl.grantee, 'USAGE')) AS is_in_fleet
    INTO role
    FROM pg_roles AS known, pg_proc AS function
    WHERE known.rolname = check_role.name AND function.oid = 'snowflake_registry.acquire(jsonb)'::regprocedure;
    IF role.does_more OR NOT role.is_in_fleet THEN
        RAISE EXCEPTION 'role % is not the role of a server', quote_ident(check_role.name)
            USING ERRCODE = 'duplicate_object',
                  DETAIL = CASE
                      WHEN role.does_more
                      THEN 'The role is a superuser, owns objects, is a member of the owner of the registry, or has a '
                           'privilege such as CREATEROLE. The timeouts of a server''s role would apply to all its sessions.'
                      ELSE 'The role exists, and may not call acquire(). The timeouts of a server''s role would apply to all '
                           'its sessions.' END,
                  HINT = 'Use another name.' || CASE
                      WHEN role.does_more THEN ''
                      ELSE format(' If only a server of the fleet uses the role, grant the privilege first: GRANT EXECUTE ON '
                                  'FUNCTION snowflake_registry.acquire TO %I;', check_role.name) END;
    ELSIF NOT role.can_login THEN
        RAISE EXCEPTION 'role % cannot log in', quote_ident(check_role.name)
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  DETAIL = 'The role is a group, or the server was locked out.',
                  HINT = format('If it is the role of a server that may connect again: ALTER ROLE %I LOGIN;', check_role.name);
    END IF;
END
$$;
COMMENT ON FUNCTION snowflake_registry.check_role(text) IS
    'raises an error if a role exists that is not the login role of a server';

-- Only the worker IDs of the pool are known not to be used by hand. Servers get the lowest ones. A worker ID with a row was
-- granted, is reserved, or is used by hand. The pool may exceed the layouts of the servers: worker IDs of the default layout
-- come first.
CREATE FUNCTION snowflake_registry.free_spare(datacenter_id int, worker_limit bigint) RETURNS int
STABLE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    RETURN (
        SELECT candidate.worker_id
        FROM snowflake_registry.status AS status,
             LATERAL (
                 SELECT status.last_worker::bigint
                 UNION VALUES (free_spare.worker_limit - 1), (1023)
                 UNION SELECT known.worker_id::bigint - 1
                 FROM snowflake_registry.fleet AS known WHERE known.datacenter_id = free_spare.datacenter_id
             ) AS candidate (worker_id)
        WHERE candidate.worker_id BETWEEN status.first_worker AND status.last_worker
          AND candidate.worker_id < free_spare.worker_limit
          AND NOT EXISTS (SELECT FROM snowflake_registry.fleet AS known
                          WHERE known.datacenter_id = free_spare.datacenter_id AND known.worker_id = candidate.worker_id)
        ORDER BY candidate.worker_id < 1024 DESC, candidate.worker_id DESC LIMIT 1
    );
END
$$;
COMMENT ON FUNCTION snowflake_registry.free_spare(int, bigint) IS
    'worker ID that add_server() reserves for use without the registry; NULL if there is none';

-- The function has the privileges of the caller, who must be allowed to create roles.
CREATE FUNCTION snowflake_registry.add_server(
    name text, takes_numbers boolean DEFAULT NULL, connection_limit int DEFAULT NULL, datacenter_id int DEFAULT 0
)
RETURNS SETOF text
VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    spare_note CONSTANT text := 'spare of ' || add_server.name;
    connection text;
    idle numeric;
    timeout CONSTANT text := current_setting('lock_timeout');
    setting text[];
    worker_limit bigint;
    spare int;
    former text;
    no_spare text;
    leased_in int;
    usable_from timestamptz;
BEGIN
    IF NOT pg_has_role((SELECT relowner FROM pg_class WHERE oid = 'snowflake_registry.settings'::regclass), 'USAGE') THEN
        RAISE EXCEPTION 'must be owner of the registry'
            USING ERRCODE = 'insufficient_privilege',
                  HINT = 'Repeat the call as a superuser, or as the role that created extension snowflake_id_registry.';
    ELSIF num_nulls(add_server.name, add_server.datacenter_id) > 0 THEN
        RAISE EXCEPTION 'name and datacenter_id must not be null'
            USING ERRCODE = 'null_value_not_allowed',
                  HINT = 'Specify a name. Omit datacenter_id if the layout has no datacenter field.';
    ELSIF add_server.name = '' OR add_server.name <> add_server.name::name::text
          OR add_server.name || current_database() COLLATE "C" ~ '[[:cntrl:]]' THEN
        RAISE EXCEPTION 'invalid name of a role or of the database: %', snowflake_registry.name_in_words(add_server.name)
            USING ERRCODE = 'invalid_parameter_value',
                  DETAIL = 'A name of a role has 1 to 63 bytes, and neither name may contain control characters, which a '
                           'connection string cannot contain.';
    END IF;
    -- Two sessions must not choose the same spare, and cannot grant privileges for the same functions at the same time.
    PERFORM set_config('lock_timeout', '2s', true);
    LOCK TABLE snowflake_registry.settings IN EXCLUSIVE MODE;
    PERFORM snowflake_registry.check_role(add_server.name);
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = add_server.name) THEN
        EXECUTE format('CREATE ROLE %I LOGIN', add_server.name);
        takes_numbers := coalesce(takes_numbers, true);
        connection_limit := coalesce(connection_limit, 10);
    END IF;
    IF connection_limit IS NOT NULL THEN
        EXECUTE format('ALTER ROLE %I CONNECTION LIMIT %s', add_server.name, connection_limit);
    END IF;
    IF NOT has_database_privilege(add_server.name, current_database(), 'CONNECT') THEN
        EXECUTE format('GRANT CONNECT ON DATABASE %I TO %I', current_database(), add_server.name);
    END IF;
    EXECUTE format('GRANT USAGE ON SCHEMA snowflake_registry TO %I', add_server.name);
    EXECUTE format('GRANT EXECUTE ON FUNCTION snowflake_registry.acquire, snowflake_registry.renew, '
                   'snowflake_registry.check_server TO %I', add_server.name);
    IF takes_numbers THEN
        EXECUTE format('GRANT EXECUTE ON FUNCTION snowflake_registry.take TO %I', add_server.name);
    ELSIF NOT takes_numbers THEN
        EXECUTE format('REVOKE EXECUTE ON FUNCTION snowflake_registry.take FROM %I', add_server.name);
        IF has_function_privilege(add_server.name, 'snowflake_registry.take(jsonb)', 'EXECUTE') THEN
            RETURN NEXT '-- The role can still take numbers: PUBLIC or a group of the role has the privilege, or a role other '
                'than the owner of the registry granted it.';
        END IF;
    END IF;
    -- Sessions of servers are idle for at most the time between two renewals.
    SELECT ceil(2 * greatest(extract(epoch FROM status.renew_every), 300)) INTO idle FROM snowflake_registry.status AS status;
    FOREACH setting SLICE 1 IN ARRAY ARRAY[
        ['statement_timeout', '10s'], ['idle_in_transaction_session_timeout', '5s'],
        ['idle_session_timeout', coalesce(idle, 600) || 's'],
        ['default_transaction_isolation', 'read committed'], ['default_transaction_read_only', 'off']
    ] LOOP
        EXECUTE format('ALTER ROLE %I SET %I = %L', add_server.name, setting[1], setting[2]);
    END LOOP;

    -- A spare that the server has used is used up. The layout of the server is known from its last lease.
    SELECT lease.worker_limit INTO worker_limit
    FROM snowflake_registry.lease AS lease
    WHERE lease.role = add_server.name AND lease.datacenter_id = add_server.datacenter_id AND lease.worker_limit IS NOT NULL
    ORDER BY lease.renewed_at DESC LIMIT 1;
    worker_limit := coalesce(worker_limit, 2147483648);
    SELECT (array_agg(known.worker_id ORDER BY known.acquired_at DESC) FILTER (
                WHERE known.note = spare_note AND known.said_by_hand_at IS NULL AND known.worker_id < worker_limit))[1],
           string_agg(known.worker_id || ' (reported by '
                      || (SELECT string_agg(snowflake_registry.name_in_words(said.role), ', ')
                          FROM unnest(known.said_by_hand_by) AS said (role)) || ')', ', ' ORDER BY known.worker_id)
               FILTER (WHERE known.said_by_hand_at IS NOT NULL)
    INTO spare, former
    FROM snowflake_registry.fleet AS known
    WHERE known.note = spare_note AND known.datacenter_id = add_server.datacenter_id AND known.state = 'reserved'
      AND known.reserved_for IS NULL;
    spare := coalesce(spare, snowflake_registry.free_spare(add_server.datacenter_id, worker_limit));
    IF spare IS NULL THEN
        no_spare := 'the registry has no pool yet, or no worker ID of the pool is left';
    ELSE
        BEGIN
            usable_from := snowflake_registry.reserve(spare, add_server.datacenter_id, note => spare_note);
        EXCEPTION WHEN object_not_in_prerequisite_state THEN
            no_spare := SQLERRM;
        END;
    END IF;

    -- reserve() has changed it until the end of the transaction.
    PERFORM set_config('lock_timeout', timeout, true);

    connection := concat_ws(
        ' ', 'host=REGISTRY', 'port=' || current_setting('port'),
        'dbname=' || snowflake_registry.connection_value(current_database()),
        'user=' || snowflake_registry.connection_value(add_server.name), 'passfile=PASSFILE', 'target_session_attrs=read-write');
    RETURN NEXT '-- On the registry, in psql: set the password of the role.';
    RETURN NEXT format('%spassword %I', chr(92), add_server.name);
    RETURN NEXT '# On the host of the server, as the user that runs PostgreSQL: write the password to a file with mode 0600.';
    RETURN NEXT '# Replace REGISTRY and PASSFILE in this command, and run it. It must return no rows.';
    RETURN NEXT format(
        'psql %s -c "SELECT * FROM snowflake_registry.check_server(jsonb_build_object(''clock'', $(date +%%s)000000, '
        '''datacenter'', %s))"',
        '''' || replace(connection, '''', '''' || chr(92) || '''''') || '''', add_server.datacenter_id);
    RETURN NEXT '-- On the server, in psql, as a superuser. Repeat both lines on each standby of the server.';
    RETURN NEXT format('ALTER SYSTEM SET snowflake_id.registry = %L;', connection);
    RETURN NEXT 'SELECT pg_reload_conf();';
    IF former IS NOT NULL THEN
        RETURN NEXT format('-- Used up as spares, never to be used by hand again: %s.', former);
    END IF;
    IF no_spare IS NOT NULL THEN
        RETURN NEXT format('-- No spare worker ID was reserved: %s. Call add_server() again later.',
                           snowflake_registry.printable(no_spare));
    ELSE
        RETURN NEXT format('-- Write down the spare worker ID of the server: %s, for datacenter ID %s, from %s. It can be used once.',
                           spare, add_server.datacenter_id, snowflake_registry.in_words(usable_from));
        RETURN NEXT '-- Only if the lease of the server ends while the registry is unreachable, run on the server:';
        -- Another server may lease the same worker ID for another datacenter ID.
        RETURN NEXT format('-- ALTER SYSTEM SET snowflake_id.datacenter_id = %s;', add_server.datacenter_id);
        RETURN NEXT format('-- ALTER SYSTEM SET snowflake_id.worker_id = %s;', spare);
        RETURN NEXT '-- ALTER SYSTEM SET snowflake_id.registry = '''';';
        RETURN NEXT '-- SELECT pg_reload_conf();';
    END IF;
    SELECT lease.datacenter_id INTO leased_in
    FROM snowflake_registry.lease AS lease
    WHERE lease.role = add_server.name AND lease.grant_count > 0 ORDER BY lease.renewed_at DESC LIMIT 1;
    IF leased_in <> add_server.datacenter_id THEN
        RETURN NEXT format('-- The server last had a lease for datacenter ID %s. For a spare with this datacenter ID:', leased_in);
        RETURN NEXT format('-- SELECT snowflake_registry.add_server(%L, datacenter_id => %s);', add_server.name, leased_in);
    END IF;
END
$$;
COMMENT ON FUNCTION snowflake_registry.add_server(text, boolean, int, int) IS
    'creates or completes the login role of a server, reserves a spare worker ID for it, and returns the commands to run';

-- Reports problems ----------------------------------------------------------------------------------------

-- Changes nothing, and takes no lock of table settings, so that calls do not disturb other servers. Besides the names of
-- roles, which all sessions can read, the rows contain nothing that an answer of acquire() does not contain.
CREATE FUNCTION snowflake_registry.check_server(request jsonb DEFAULT '{}')
RETURNS TABLE (problem text, detail text, hint text)
VOLATILE PARALLEL UNSAFE SECURITY DEFINER LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
<<call>>
DECLARE
    moment CONSTANT timestamptz := clock_timestamp();
    registry snowflake_registry.settings;
    protocols record;
    protocol bigint;
    clock bigint;
    datacenter int;
    worker_limit bigint;
    by_hand CONSTANT int[] := (
        SELECT said.by_hand FROM snowflake_registry.read_facts(
            jsonb_build_object('by_hand', request -> 'by_hand')) AS said);
    -- In the text of a regrole, the name is quoted if necessary.
    name CONSTANT text := quote_ident(session_user);
    lost record;
    starts timestamptz;
    away numeric;
    hand int;
    known record;
    reserved int[];
    leases int;
    is_holder boolean;
    is_free boolean;
    was_ended boolean;
BEGIN
    IF jsonb_typeof(request) IS DISTINCT FROM 'object' THEN
        RAISE EXCEPTION 'request must be a JSON object'
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = 'Pass a value of type jsonb, such as jsonb_build_object(''datacenter'', 0).';
    END IF;
    protocol := snowflake_registry.number_of(request, 'protocol', 0);
    clock := snowflake_registry.number_of(request, 'clock');
    datacenter := coalesce(snowflake_registry.number_of(request, 'datacenter', 0, 2147483647), 0);
    worker_limit := coalesce(snowflake_registry.number_of(request, 'worker_limit', 0, 2147483648), 2147483648);

    SELECT * INTO protocols FROM snowflake_registry.protocols();
    -- These are the conditions of begin_call().
    IF pg_is_in_recovery() THEN
        RETURN QUERY SELECT 'the connection leads to a standby of the registry',
            'Only the primary grants worker IDs and numbers.',
            'Specify all servers of the registry in the connection string, and add target_session_attrs=read-write.';
        RETURN;
    ELSIF current_setting('transaction_read_only') = 'on' THEN
        RETURN QUERY SELECT 'transactions are read-only', 'Functions of the registry change tables.',
            format('ALTER ROLE %s SET default_transaction_read_only = off;', name);
    ELSIF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        RETURN QUERY SELECT format('the isolation level is %s', current_setting('transaction_isolation')),
            'Functions of the registry require isolation level read committed.',
            format('ALTER ROLE %s SET default_transaction_isolation = ''read committed'';', name);
    END IF;
    IF protocol NOT BETWEEN protocols.lowest AND protocols.highest THEN
        RETURN QUERY SELECT format('the registry does not know protocol %s', protocol),
            format('The registry knows protocols %s to %s.', protocols.lowest, protocols.highest),
            CASE WHEN protocol > protocols.highest
                 THEN 'Update the registry: ALTER EXTENSION snowflake_id_registry UPDATE;'
                 ELSE 'Install a newer version of snowflake_id on the server.' END;
    END IF;
    IF NOT (has_function_privilege(session_user, 'snowflake_registry.acquire(jsonb)', 'EXECUTE')
            AND has_function_privilege(session_user, 'snowflake_registry.renew(jsonb)', 'EXECUTE')) THEN
        RETURN QUERY SELECT format('role %s may not acquire and renew a lease', name), NULL::text,
            format('GRANT EXECUTE ON FUNCTION snowflake_registry.acquire, snowflake_registry.renew TO %s;', name);
    END IF;
    IF NOT has_function_privilege(session_user, 'snowflake_registry.take(jsonb)', 'EXECUTE')
       AND EXISTS (SELECT FROM snowflake_registry.segment WHERE dropped_at IS NULL) THEN
        RETURN QUERY SELECT format('role %s may not take numbers of segments', name),
            'The registry has segments. Servers that use no segment do not need the privilege.',
            format('GRANT EXECUTE ON FUNCTION snowflake_registry.take TO %s;', name);
    END IF;
    away := trunc(abs(clock - extract(epoch FROM moment) * 1000000) / 1000000);
    -- begin_answer() has the same limit.
    IF away >= 60 THEN
        RETURN QUERY SELECT format('the clock of the server is %s s %s the clock of the registry', away,
                                   CASE WHEN clock < extract(epoch FROM moment) * 1000000 THEN 'behind' ELSE 'ahead of' END),
            'At most 60 s are accepted.', 'Correct the clock that is wrong, for example with chrony.';
    END IF;

    SELECT * INTO registry FROM snowflake_registry.settings;
    IF registry.frozen_until IS NOT NULL THEN
        RETURN QUERY SELECT 'the registry is frozen',
            format('It grants no worker IDs and no numbers, and extends no lease beyond %s.',
                   CASE WHEN isfinite(registry.frozen_until) THEN snowflake_registry.in_words(registry.frozen_until)
                        ELSE 'the normal duration' END),
            'If no other registry replaces this one: SELECT snowflake_registry.unfreeze();';
    END IF;
    IF registry.is_started IS NOT TRUE THEN
        was_ended := EXISTS (SELECT FROM snowflake_registry.lease WHERE grant_count > 0);
        RETURN QUERY SELECT CASE WHEN was_ended THEN 'the registry grants no worker IDs, because its fleet was ended'
                                 ELSE 'the registry grants no worker IDs, because its fleet was not started' END,
            CASE WHEN NOT was_ended
                 THEN 'If an earlier registry had leases of more than 10 minutes, call snowflake_registry.configure(lease => ...) '
                      'with the longest first.' END,
            CASE WHEN was_ended THEN 'To continue the fleet: SELECT snowflake_registry.quarantine();'
                 WHEN registry.first_worker IS NULL
                 THEN 'If no worker ID from 512 on is set by hand anywhere: '
                      'SELECT snowflake_registry.start_fleet(first_worker => 512, last_worker => 1023);'
                 ELSE 'SELECT snowflake_registry.start_fleet();' END
        WHERE registry.frozen_until IS NULL;
        RETURN;
    END IF;
    SELECT count(*) INTO leases
    FROM snowflake_registry.lease AS lease
    WHERE lease.role = session_user AND lease.lease_id IS NOT NULL AND lease.used_until IS NULL AND lease.granted_until > moment;
    is_holder := leases > 0;
    -- A holder renews its lease meanwhile.
    IF NOT is_holder THEN
        SELECT * INTO lost FROM snowflake_registry.lost_commits();
        IF lost.has_restarted THEN
            registry := snowflake_registry.after_restart(registry);
        END IF;
        starts := greatest(registry.nothing_before,
                           CASE WHEN registry.waits > '0' THEN registry.counted_at + registry.waits END,
                           CASE WHEN lost.reason IS NOT NULL THEN moment + registry.longest_lease + interval '2 minutes' END);
        IF starts > moment THEN
            RETURN QUERY SELECT format('the registry grants no worker IDs before %s', snowflake_registry.in_words(starts)),
                'Reason: ' || coalesce(snowflake_registry.shown_reason(coalesce(lost.reason, registry.quarantine_reason)),
                                       'it was started with this time') || '.',
                'Wait. ' || snowflake_registry.hint_of_quarantine();
        END IF;
    END IF;
    IF datacenter > registry.last_datacenter THEN
        RETURN QUERY SELECT format('the registry grants no worker IDs for datacenter %s', datacenter),
            format('The highest datacenter ID is %s.', registry.last_datacenter),
            format('SELECT snowflake_registry.configure(last_datacenter => %s);', datacenter);
        RETURN;
    END IF;

    -- With another datacenter ID, the same worker ID may be leased to another server.
    RETURN QUERY
    SELECT format('the spare worker ID of the server is for datacenter ID %s', min(spare.datacenter_id)),
           format('The server has datacenter ID %s.', datacenter),
           format('SELECT snowflake_registry.add_server(%L, datacenter_id => %s);', session_user, datacenter)
    FROM snowflake_registry.lease AS spare
    WHERE spare.note = 'spare of ' || session_user AND spare.said_by_hand IS NULL AND request ? 'datacenter'
    HAVING bool_and(spare.datacenter_id <> datacenter);

    reserved := ARRAY(SELECT lease.worker_id FROM snowflake_registry.lease AS lease
                      WHERE lease.datacenter_id = call.datacenter AND lease.reserved_for = session_user);
    FOREACH hand IN ARRAY by_hand LOOP
        SELECT lease.is_reserved, lease.reserved_for, lease.grant_count > 0 OR lease.was_leased AS was_granted,
               coalesce(lease.used_until, lease.granted_until) > moment AND lease.grant_count > 0 AS is_live,
               lease.role IS NOT DISTINCT FROM session_user AS is_own, lease.said_by_hand
        INTO known
        FROM snowflake_registry.lease AS lease WHERE lease.datacenter_id = call.datacenter AND lease.worker_id = hand;
        -- A server that is connected reports a reserved worker ID every hour.
        RETURN QUERY
        SELECT format('worker ID %s is set by hand, and a server with another role has reported the same', hand),
               format('A server with role %s reported this at %s.', snowflake_registry.name_in_words(said.role),
                      snowflake_registry.in_words(snowflake_registry.instant(said.at::bigint))),
               'If the other server uses the worker ID, set another one by hand, or none. Otherwise, wait: after 24 hours, a '
               'report is no longer shown.'
        FROM jsonb_each_text(known.said_by_hand) AS said (role, at)
        WHERE said.role <> session_user AND said.at::bigint > snowflake_registry.microseconds(moment - interval '24 hours')
        ORDER BY said.at::bigint DESC, said.role COLLATE "C" LIMIT 1;
        -- A role that several servers share may have one lease of this server, and others.
        IF hand = ANY (reserved) OR known.is_live AND known.is_own AND leases = 1
           OR known.is_reserved AND known.reserved_for IS NULL AND NOT known.was_granted THEN
            CONTINUE;
        ELSIF known.is_live THEN
            RETURN QUERY SELECT format('worker ID %s is set by hand, and is leased to %s', hand,
                                       CASE WHEN known.is_own THEN 'a server with the same role' ELSE 'another role' END),
                CASE WHEN known.is_own THEN format('Role %s holds %s leases.', name, leases) END,
                'Set another worker ID by hand, one outside the pool that was never leased, or none.';
        ELSIF known.is_reserved AND NOT known.was_granted THEN
            RETURN QUERY SELECT format('worker ID %s is set by hand, and is reserved for another role', hand), NULL::text,
                'Set another worker ID by hand, one outside the pool that was never leased, or none.';
        ELSIF hand BETWEEN registry.first_worker AND registry.last_worker OR known.was_granted THEN
            RETURN QUERY SELECT
                format('worker ID %s is set by hand, and the registry %s', hand,
                       CASE WHEN known.was_granted THEN 'has leased it before' ELSE 'may lease it to another server' END),
                format('The registry grants worker IDs %s to %s.', registry.first_worker, registry.last_worker),
                CASE WHEN known.was_granted
                     THEN 'Set another worker ID by hand, one outside the pool that was never leased, or none.'
                     ELSE format('If the worker ID stays set by hand: SELECT snowflake_registry.reserve(%s, %s);', hand,
                                 datacenter) END;
        END IF;
    END LOOP;

    IF NOT is_holder THEN
        -- A time before which no worker ID is granted was reported above.
        SELECT chosen.reserved, coalesce(chosen.free_from <= greatest(moment, registry.nothing_before), false)
        INTO reserved, is_free
        FROM snowflake_registry.choose_worker(registry, moment, datacenter, worker_limit, NULL, '{}', by_hand, NULL) AS chosen;
        IF NOT is_free THEN
            RETURN QUERY SELECT 'no worker ID is free for the server',
                format('The registry grants worker IDs %s%s.',
                       CASE WHEN cardinality(reserved) > 0
                            THEN format('%s to role %s', array_to_string(reserved, ', '), name)
                            ELSE format('%s to %s', registry.first_worker, registry.last_worker) END,
                       CASE WHEN worker_limit < 2147483648
                            THEN format(', and worker IDs below %s fit the layout of the server', worker_limit) ELSE '' END),
                CASE WHEN cardinality(reserved) > 0
                     THEN 'Wait until the lease of the role has ended, or reserve another worker ID for the role.'
                     ELSE 'Stop servers that are no longer needed, or enlarge the pool: '
                          'SELECT snowflake_registry.configure(last_worker => ..., none_by_hand => true);' END;
        END IF;
    END IF;
END
$$;
COMMENT ON FUNCTION snowflake_registry.check_server(jsonb) IS
    'returns a row for each problem that prevents a server with this login role from having a worker ID; changes nothing';

-- The registry that replaces this one ---------------------------------------------------------------------

CREATE FUNCTION snowflake_registry.exact(instant timestamptz) RETURNS text
STABLE PARALLEL SAFE LANGUAGE sql
RETURN to_char(instant AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US') || '+00';
COMMENT ON FUNCTION snowflake_registry.exact(timestamptz) IS 'formats a time in UTC with all digits, as input of timestamptz';

-- Returns statements that create a segment with the settings of this one, and that continue its numbers.
CREATE FUNCTION snowflake_registry.script_for_segment(stored snowflake_registry.segment) RETURNS SETOF text
STABLE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    segment CONSTANT snowflake_registry.segment := snowflake_registry.segment_at(stored, clock_timestamp());
    -- No number is left above the largest bigint. alter_segment() cannot express this, unless max_value is lower.
    continues CONSTANT bigint := least(segment.next_value, 9223372036854775807);
    -- least() would ignore NULL.
    ahead CONSTANT bigint := CASE WHEN segment.ahead_value <= 9223372036854775807 THEN segment.ahead_value
                                  WHEN segment.ahead_value IS NOT NULL THEN 9223372036854775807 END;
    highest CONSTANT bigint := CASE WHEN greatest(segment.next_value, segment.ahead_value) > 9223372036854775807 THEN least(segment.max_value, 9223372036854775806)
                                    ELSE segment.max_value END;
    -- Otherwise, the other registry would have to set max_value below the numbers of its period.
    is_over CONSTANT boolean := segment.period IS NOT NULL AND segment.next_value > segment.max_value;
BEGIN
    RETURN NEXT format(
        'SELECT snowflake_registry.create_segment(%L, start => %s, increment => %s, min_step => %s, max_step => %s%s%s);',
        segment.name, segment.start, segment.increment, segment.min_step, segment.max_step,
        CASE WHEN segment.period IS NULL THEN ''
             ELSE format(', period => %L, digits => %s, time_zone => %L', segment.period, segment.digits, segment.time_zone) END,
        CASE WHEN segment.description IS NULL THEN '' ELSE format(', description => %L', segment.description) END);
    -- In a later period, the new segment already starts above all numbers of this one.
    RETURN NEXT format(
        'SELECT snowflake_registry.alter_segment(name, next_value => %s) FROM snowflake_registry.segments '
        'WHERE name = %L AND next_value < %s;', continues, segment.name, continues);
    IF ahead IS NOT NULL THEN
        -- The other registry skips numbers of the next period that another registry has granted. If it does not, for example
        -- because its clock shows an earlier period, the segment continues in that period.
        RETURN NEXT format(
            'SELECT name, outcome FROM snowflake_registry.take_local(%L);',
            jsonb_build_object('protocol', (snowflake_registry.protocols()).lowest, 'registry', NULL, 'tokens', '[]'::jsonb,
                               'requests', jsonb_build_array(jsonb_build_object(
                                   'name', segment.name, 'report', true, 'registry_id', NULL, 'had_until', ahead - 1))));
        RETURN NEXT format(
            'SELECT snowflake_registry.alter_segment(name, next_value => %s) FROM snowflake_registry.segments '
            'WHERE name = %L AND coalesce(resume_at, 0) < %s;', ahead, segment.name, ahead);
    END IF;
    IF is_over THEN
        RETURN NEXT '-- All periods up to max_value have ended, so that the segment is dropped.';
    ELSIF highest < 9223372036854775807 THEN
        RETURN NEXT format('SELECT snowflake_registry.alter_segment(%L, max_value => %s);', segment.name, highest);
    END IF;
    IF segment.dropped_at IS NOT NULL OR is_over THEN
        RETURN NEXT format('SELECT snowflake_registry.drop_segment(%L);', segment.name);
    END IF;
END
$$;
COMMENT ON FUNCTION snowflake_registry.script_for_segment(snowflake_registry.segment) IS
    'statements for another registry that continue a segment';

-- The privileges of this registry that were granted to roles, with the statement that grants each.
CREATE FUNCTION snowflake_registry.script_for_privileges(OUT grantee oid, OUT statement text) RETURNS SETOF record
STABLE PARALLEL UNSAFE LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN QUERY
        SELECT acl.grantee,
               format('GRANT %s ON %s %s TO %s%s;', acl.privilege_type, object.kind, object.name,
                      CASE WHEN acl.grantee = 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(acl.grantee)) END,
                      CASE WHEN acl.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END)
        FROM (
            SELECT 1, 'SCHEMA', nspname::text, nspowner, nspacl
            FROM pg_namespace WHERE nspname = 'snowflake_registry'
            UNION ALL
            SELECT 2, 'TABLE', oid::regclass::text, relowner, relacl
            FROM pg_class WHERE relnamespace = 'snowflake_registry'::regnamespace AND relkind IN ('r', 'v')
            UNION ALL
            SELECT 3, 'FUNCTION', oid::regprocedure::text, proowner, proacl
            FROM pg_proc WHERE pronamespace = 'snowflake_registry'::regnamespace
        ) AS object (position, kind, name, owner, privileges),
        LATERAL aclexplode(object.privileges) AS acl
        -- Each registry grants privileges to pg_monitor.
        WHERE acl.grantee NOT IN (object.owner, 'pg_monitor'::regrole)
        ORDER BY pg_get_userbyid(acl.grantee)::text COLLATE "C", object.position, object.name COLLATE "C", acl.privilege_type;
END
$$;
COMMENT ON FUNCTION snowflake_registry.script_for_privileges() IS
    'privileges of this registry, each with the statement for another registry that grants it';

-- The script is one transaction, so that half of it changes nothing. If it is run again, it fails if there are segments, or if
-- the new registry has leased a worker ID. Otherwise, it only starts a new quarantine, and adds reports.
CREATE FUNCTION snowflake_registry.script_for_another_registry() RETURNS SETOF text
VOLATILE PARALLEL UNSAFE SECURITY DEFINER LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    registry CONSTANT snowflake_registry.settings := snowflake_registry.begin_request();
    furthest CONSTANT timestamptz := statement_timestamp() + interval '24 hours';
    -- Roles that add_server() creates.
    servers CONSTANT oid[] := ARRAY(
        SELECT role.oid
        FROM pg_proc AS function, LATERAL aclexplode(function.proacl) AS acl, pg_roles AS role
        WHERE function.oid = 'snowflake_registry.check_server(jsonb)'::regprocedure
          AND role.oid = acl.grantee AND role.oid <> function.proowner AND role.rolcanlogin AND NOT role.rolsuper);
    others text;
    closed text;
    last_end timestamptz;
    stored snowflake_registry.segment;
BEGIN
    SELECT string_agg(snowflake_registry.name_in_words(segment.name), ', ') INTO closed
    FROM (SELECT name FROM snowflake_registry.segment WHERE closed_reason IS NOT NULL ORDER BY name LIMIT 5) AS segment;
    IF NOT coalesce(isfinite(registry.frozen_until), false) OR registry.waits > '0' OR closed IS NOT NULL THEN
        RAISE EXCEPTION 'another registry cannot continue this registry yet'
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  DETAIL = CASE
                      WHEN registry.waits > '0' THEN snowflake_registry.quarantine_detail(registry)
                      WHEN closed IS NOT NULL
                      THEN format('It is not known which numbers of closed segments were granted: %s.', closed)
                      ELSE 'This registry is not frozen until a time, and may still grant worker IDs and numbers.' END,
                  HINT = CASE
                      WHEN registry.waits > '0' THEN snowflake_registry.hint_of_quarantine()
                      WHEN closed IS NOT NULL
                      THEN 'To open a segment: SELECT snowflake_registry.resume_segment(name, next_value); To open a segment that was '
                           'dropped, create it again first. If no commits were lost: SELECT snowflake_registry.resume_segments();'
                      ELSE 'Specify the time by which the move will have ended: '
                           'SELECT snowflake_registry.freeze(until);' END;
    END IF;
    SELECT greatest(max(lease.granted_until), registry.frozen_until) INTO last_end
    FROM snowflake_registry.lease AS lease WHERE lease.grant_count > 0;
    IF registry.is_started AND last_end > furthest THEN
        RAISE EXCEPTION 'another registry cannot continue this registry yet'
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  DETAIL = format('The last lease may end at %s. start_fleet() accepts a time at most 24 hours ahead.',
                                  snowflake_registry.in_words(last_end)),
                  HINT = CASE
                      WHEN registry.frozen_until > furthest
                      THEN 'Freeze the registry until an earlier time: SELECT snowflake_registry.freeze(until);'
                      ELSE 'Wait until the time is less than 24 hours ahead.' END;
    END IF;

    RETURN NEXT format('-- Registry %s, which extends no lease beyond %s.', registry.registry_id,
                       snowflake_registry.exact(registry.frozen_until));
    RETURN NEXT '-- Run this script with psql in the database of the other registry, as the owner of that registry.';
    SELECT string_agg(snowflake_registry.name_in_words(role.rolname), ', ' ORDER BY role.rolname) INTO others
    FROM pg_roles AS role
    WHERE role.oid <> ALL (servers)
      AND (role.oid IN (SELECT granted.grantee FROM snowflake_registry.script_for_privileges() AS granted)
           OR role.oid IN (SELECT limited.role FROM snowflake_registry.segment_privilege AS limited)
           OR role.rolname IN (SELECT lease.reserved_for FROM snowflake_registry.lease AS lease));
    IF others IS NOT NULL THEN
        RETURN NEXT '-- The script does not create these roles, which must exist: ' || others;
    END IF;
    RETURN NEXT 'BEGIN;';
    -- Quarantines last as long as the longest lease that was ever configured.
    RETURN NEXT format('SELECT snowflake_registry.configure(lease => ''%s s'');', extract(epoch FROM registry.longest_lease));
    RETURN NEXT format('SELECT snowflake_registry.configure(lease => ''%s s'', renew_every => ''%s s'', last_datacenter => %s, '
                       'witnesses => %s%s);', extract(epoch FROM registry.lease), extract(epoch FROM registry.renew_every),
                       registry.last_datacenter, registry.witnesses::text,
                       CASE WHEN registry.first_worker IS NULL THEN ''
                            ELSE format(', first_worker => %s, last_worker => %s', registry.first_worker, registry.last_worker) END);
    IF registry.synchronous THEN
        RETURN NEXT '-- This registry has a synchronous standby. If the other one has, too: configure(synchronous => true).';
    END IF;
    RETURN QUERY
        SELECT CASE WHEN lease.reserved_for IS NOT NULL THEN '-- The role for which this worker ID was reserved does not exist.'
                    || chr(10) ELSE '' END
            || format('SELECT snowflake_registry.reserve(%s, %s%s);', lease.worker_id, lease.datacenter_id,
                      CASE WHEN lease.note IS NULL THEN '' ELSE ', note => ' || quote_literal(lease.note) END)
        FROM snowflake_registry.lease AS lease
        WHERE lease.is_reserved AND NOT EXISTS (SELECT FROM pg_roles WHERE rolname = lease.reserved_for)
        ORDER BY lease.datacenter_id, lease.worker_id;
    RETURN QUERY
        SELECT format('SELECT snowflake_registry.mark_leased(%L, %s);', array_agg(lease.worker_id ORDER BY lease.worker_id),
                      lease.datacenter_id)
        FROM snowflake_registry.lease AS lease WHERE lease.grant_count > 0 OR lease.was_leased
        GROUP BY lease.datacenter_id ORDER BY lease.datacenter_id;
    RETURN QUERY
        SELECT CASE WHEN lease.is_reserved OR lease.grant_count > 0 OR lease.was_leased THEN ''
                    ELSE '-- A server has reported that it sets this worker ID by hand. If none does now, remove the next line.'
                        || chr(10) END
            || format('SELECT snowflake_registry.mark_by_hand(%s, %s, %L);', lease.worker_id, lease.datacenter_id,
                      lease.said_by_hand)
        FROM snowflake_registry.lease AS lease WHERE lease.said_by_hand IS NOT NULL
        ORDER BY lease.datacenter_id, lease.worker_id;

    FOR stored IN SELECT * FROM snowflake_registry.segment ORDER BY name LOOP
        RETURN QUERY SELECT * FROM snowflake_registry.script_for_segment(stored);
    END LOOP;
    IF registry.is_started THEN
        RETURN NEXT format('-- This grants worker IDs after a wait of %s minutes. If you run it after %s, servers without a lease '
                           'wait for longer than until the end of the freeze.',
                           ceil(extract(epoch FROM registry.longest_lease + interval '2 minutes') / 60),
                           snowflake_registry.in_words(registry.frozen_until - registry.longest_lease - interval '2 minutes'));
        RETURN NEXT '-- You can reduce the pool, but it must contain no worker ID that is outside the pool of this registry.';
        RETURN NEXT format('SELECT snowflake_registry.start_fleet(first_worker => %s, last_worker => %s, not_before => %L);',
                           registry.first_worker, registry.last_worker, snowflake_registry.exact(last_end));
    END IF;
    -- After start_fleet(), the time from which a new spare can be used is not before the end of all leases.
    RETURN QUERY
        SELECT format('SELECT snowflake_registry.add_server(%L, takes_numbers => %s, connection_limit => %s) '
                      'WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = %L);',
                      role.rolname, has_function_privilege(role.oid, 'snowflake_registry.take(jsonb)', 'EXECUTE')::text,
                      role.rolconnlimit, role.rolname)
        FROM pg_roles AS role WHERE role.oid = ANY (servers)
        ORDER BY role.rolname::text COLLATE "C";
    RETURN QUERY
        SELECT format('SELECT snowflake_registry.reserve(%s, %s, used_by => %L%s);', lease.worker_id, lease.datacenter_id,
                      quote_ident(lease.reserved_for),
                      CASE WHEN lease.note IS NULL THEN '' ELSE ', note => ' || quote_literal(lease.note) END)
        FROM snowflake_registry.lease AS lease
        WHERE lease.is_reserved AND EXISTS (SELECT FROM pg_roles WHERE rolname = lease.reserved_for)
        ORDER BY lease.datacenter_id, lease.worker_id;
    -- A role that is limited to no segment at all gets one, and loses it.
    RETURN QUERY
        SELECT format('SELECT snowflake_registry.%s(%L, %L);', call.function, coalesce(granted.name, '-'), limited.role)
        FROM snowflake_registry.segment_privilege AS limited
             JOIN pg_roles ON pg_roles.oid = limited.role
             LEFT JOIN snowflake_registry.segment_privilege AS granted
                 ON granted.role = limited.role AND granted.name <> ''
             JOIN (VALUES ('grant_segment'), ('revoke_segment')) AS call (function)
                 ON call.function = 'grant_segment' OR granted.name IS NULL
        WHERE limited.name = ''
        ORDER BY limited.role::text COLLATE "C", granted.name, call.function;
    RETURN QUERY SELECT granted.statement FROM snowflake_registry.script_for_privileges() AS granted;
    RETURN NEXT 'COMMIT;';
    RETURN NEXT '-- Then set snowflake_id.registry of each server and of its standbys to the other registry. When the freeze has '
        'ended, call end_fleet() on this registry.';
END
$$;
COMMENT ON FUNCTION snowflake_registry.script_for_another_registry() IS
    'script for another registry that replaces this frozen registry: continues its settings, worker IDs and segments';

-- Privileges --------------------------------------------------------------------------------------------

-- Revoke all privileges, because ALTER DEFAULT PRIVILEGES may have granted privileges on new objects.
FOR statement IN
    SELECT format('REVOKE ALL ON %s %s FROM %s', object.kind, object.name,
                  CASE WHEN acl.grantee = 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(acl.grantee)) END)
    FROM (
        SELECT 'SCHEMA', nspname::text, nspowner, coalesce(nspacl, acldefault('n', nspowner))
        FROM pg_namespace WHERE nspname = 'snowflake_registry'
        UNION ALL
        SELECT 'TABLE', oid::regclass::text, relowner, coalesce(relacl, acldefault('r', relowner))
        FROM pg_class WHERE relnamespace = 'snowflake_registry'::regnamespace AND relkind IN ('r', 'v')
        UNION ALL
        SELECT 'FUNCTION', oid::regprocedure::text, proowner, coalesce(proacl, acldefault('f', proowner))
        FROM pg_proc WHERE pronamespace = 'snowflake_registry'::regnamespace
    ) AS object (kind, name, owner, privileges),
    LATERAL aclexplode(object.privileges) AS acl
    WHERE acl.grantee <> object.owner
LOOP
    EXECUTE statement;
END LOOP;
GRANT USAGE ON SCHEMA snowflake_registry TO pg_monitor;
GRANT SELECT ON snowflake_registry.fleet, snowflake_registry.segments, snowflake_registry.status
    TO pg_monitor;

-- If the script is run by CREATE EXTENSION, mark the tables as configuration tables, so that dumps contain all grants.
IF EXISTS (
    SELECT FROM pg_depend
    WHERE classid = 'pg_class'::regclass AND objid = 'snowflake_registry.lease'::regclass AND deptype = 'e'
) THEN
    PERFORM pg_extension_config_dump('snowflake_registry.settings', '');
    PERFORM pg_extension_config_dump('snowflake_registry.signing_key', '');
    PERFORM pg_extension_config_dump('snowflake_registry.lease', '');
    PERFORM pg_extension_config_dump('snowflake_registry.segment', '');
    -- In a dump, a role that was dropped would be a number, which another role may have where the dump is restored.
    PERFORM pg_extension_config_dump(
        'snowflake_registry.segment_privilege',
        'WHERE EXISTS (SELECT FROM pg_catalog.pg_roles AS known WHERE known.oid OPERATOR(pg_catalog.=) role)');
END IF;

PERFORM set_config('search_path', search_path_before, true);
END
$registry$;
