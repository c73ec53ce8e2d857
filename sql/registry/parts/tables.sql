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
