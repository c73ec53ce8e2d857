-- Tables ------------------------------------------------------------------------------------------------

-- The row is made by start_fleet(). A script that made it would be in the way of the row of a restored dump.
CREATE TABLE snowflake_registry.settings (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    registry_id uuid NOT NULL DEFAULT gen_random_uuid(),
    lease interval NOT NULL DEFAULT '10 minutes',
    longest_lease interval NOT NULL DEFAULT '10 minutes',
    renew_every interval NOT NULL DEFAULT '1 minute',
    first_worker int NOT NULL DEFAULT 0 CHECK (first_worker >= 0),
    last_worker int NOT NULL DEFAULT 2147483647,
    last_datacenter int NOT NULL DEFAULT 2147483647 CHECK (last_datacenter >= 0),
    synchronous boolean NOT NULL DEFAULT false,
    system_identifier bigint,
    database_oid oid,
    timeline int,
    server_started timestamptz,
    serial bigint NOT NULL DEFAULT 0,
    written_by xid8,
    is_started boolean NOT NULL DEFAULT false,
    nothing_before timestamptz NOT NULL DEFAULT '-infinity',
    waits interval NOT NULL DEFAULT '0',
    counted_at timestamptz,
    is_proved boolean NOT NULL DEFAULT false,
    is_witnessed boolean NOT NULL DEFAULT false,
    is_restarted boolean NOT NULL DEFAULT false,
    witnesses boolean NOT NULL DEFAULT true,
    quarantine_reason text,
    frozen_until timestamptz,
    orders text[] NOT NULL DEFAULT '{}',
    -- Servers refuse what is longer. A day may have 25 hours.
    CHECK (lease BETWEEN '1 second' AND '24 hours' AND extract(day FROM lease) = 0
           AND extract(month FROM lease) = 0),
    CHECK (longest_lease BETWEEN lease AND '24 hours' AND extract(day FROM longest_lease) = 0
           AND extract(month FROM longest_lease) = 0),
    CHECK (renew_every BETWEEN '100 milliseconds' AND '12 hours'),
    CHECK (last_worker >= first_worker)
-- xmin of the row has to be what it is in heap.
) USING heap;
COMMENT ON TABLE snowflake_registry.settings IS
    'settings and state of the registry, in one row; to be changed by configure(), as any other change '
    'looks like a restored dump';
COMMENT ON COLUMN snowflake_registry.settings.registry_id IS 'which registry this is; a dump keeps it';
COMMENT ON COLUMN snowflake_registry.settings.lease IS 'how far ahead of the clock a range is granted';
COMMENT ON COLUMN snowflake_registry.settings.longest_lease IS 'the longest lease there ever was';
COMMENT ON COLUMN snowflake_registry.settings.renew_every IS 'how often servers are to renew';
COMMENT ON COLUMN snowflake_registry.settings.first_worker IS 'the lowest worker ID to give';
COMMENT ON COLUMN snowflake_registry.settings.last_worker IS
    'the highest worker ID to give; the layout of a server may set a lower limit';
COMMENT ON COLUMN snowflake_registry.settings.last_datacenter IS
    'the highest datacenter ID to give worker IDs for';
COMMENT ON COLUMN snowflake_registry.settings.synchronous IS
    'whether the administrator says that no failover loses commits';
COMMENT ON COLUMN snowflake_registry.settings.system_identifier IS
    'the database cluster in which the row was written';
COMMENT ON COLUMN snowflake_registry.settings.database_oid IS
    'the database in which the row was written; one made by CREATE DATABASE .. TEMPLATE is another';
COMMENT ON COLUMN snowflake_registry.settings.timeline IS 'the timeline on which the row was written';
COMMENT ON COLUMN snowflake_registry.settings.server_started IS
    'when the server was started that wrote the row; a disk that is set back takes a start';
COMMENT ON COLUMN snowflake_registry.settings.serial IS 'counts grants and quarantines';
COMMENT ON COLUMN snowflake_registry.settings.written_by IS
    'the transaction that wrote the row; in a restored row it is another';
COMMENT ON COLUMN snowflake_registry.settings.is_started IS 'whether worker IDs are given out';
COMMENT ON COLUMN snowflake_registry.settings.nothing_before IS
    'no range begins earlier; it never falls';
COMMENT ON COLUMN snowflake_registry.settings.waits IS
    'how much of a quarantine is left, counted from call to call; 0: there is none';
COMMENT ON COLUMN snowflake_registry.settings.counted_at IS 'the clock when that was counted last';
COMMENT ON COLUMN snowflake_registry.settings.is_proved IS
    'in quarantine: commits are lost, or may be, and no witness shortens it';
COMMENT ON COLUMN snowflake_registry.settings.is_witnessed IS 'in quarantine: a server has shown a token';
COMMENT ON COLUMN snowflake_registry.settings.is_restarted IS
    'in quarantine: the server was started since it began, so that open segments wait as well';
COMMENT ON COLUMN snowflake_registry.settings.witnesses IS
    'whether a witness shortens the quarantine after a start';
COMMENT ON COLUMN snowflake_registry.settings.quarantine_reason IS 'why there is or was a quarantine';
COMMENT ON COLUMN snowflake_registry.settings.frozen_until IS
    'frozen: nothing new is given, and no lease is extended beyond this; NULL: it is not frozen';
COMMENT ON COLUMN snowflake_registry.settings.orders IS
    'a random name of each call of freeze(), unfreeze() and reserve(); servers tell the last one to a registry that has '
    'forgotten it';

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
    clock_offset interval,
    acquired_at timestamptz NOT NULL,
    renewed_at timestamptz NOT NULL,
    grant_count bigint NOT NULL,
    is_reserved boolean NOT NULL DEFAULT false,
    PRIMARY KEY (datacenter_id, worker_id),
    CHECK (granted_from <= granted_until)
-- Renewals find room on the page, and touch no index.
) USING heap WITH (fillfactor = 40);
COMMENT ON TABLE snowflake_registry.lease IS
    'the identities that were ever given, and the end of what was granted of each; rows stay for ever';
COMMENT ON COLUMN snowflake_registry.lease.granted_from IS 'begin of the range that was granted last';
COMMENT ON COLUMN snowflake_registry.lease.granted_until IS 'its end; it never decreases';
COMMENT ON COLUMN snowflake_registry.lease.lease_id IS
    'the secret of who holds it; NULL if nobody does, or nobody knows who';
COMMENT ON COLUMN snowflake_registry.lease.nonce IS
    'changes with each renewal, so that a copy of a server is found out; NULL: not known any more';
COMMENT ON COLUMN snowflake_registry.lease.node_name IS 'the server''s own word, as all up to clock_offset';
COMMENT ON COLUMN snowflake_registry.lease.clock_offset IS
    'how far the server''s clock is ahead of the registry''s';
COMMENT ON COLUMN snowflake_registry.lease.grant_count IS 'how often it was given';
COMMENT ON COLUMN snowflake_registry.lease.is_reserved IS
    'whether nobody gets it any more, as a server has it for good';

CREATE TABLE snowflake_registry.segment (
    name text COLLATE "C" PRIMARY KEY,
    -- One more digit than bigint has: past the last number of all.
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
    CHECK (num_nulls(period, digits, time_zone, period_key) = CASE WHEN period IS NULL THEN 4 ELSE 0 END),
    CHECK (num_nulls(ahead_key, ahead_value) <> 1)
) USING heap WITH (fillfactor = 40);
COMMENT ON TABLE snowflake_registry.segment IS
    'numbers without time, which servers take in ranges; a name that was dropped keeps its row';
COMMENT ON COLUMN snowflake_registry.segment.next_value IS
    'no number from here on was given, of this period or a later one, but those ahead; it never decreases';
COMMENT ON COLUMN snowflake_registry.segment.start IS
    'the first number; with a period: the first of each period, without its prefix';
COMMENT ON COLUMN snowflake_registry.segment.increment IS 'the difference between two numbers';
COMMENT ON COLUMN snowflake_registry.segment.step IS 'how many numbers were in the range that was taken last';
COMMENT ON COLUMN snowflake_registry.segment.period IS 'day, month, year; NULL: numbers without a prefix';
COMMENT ON COLUMN snowflake_registry.segment.digits IS 'how many digits follow the prefix';
COMMENT ON COLUMN snowflake_registry.segment.time_zone IS 'where days begin';
COMMENT ON COLUMN snowflake_registry.segment.period_key IS
    'the prefix of the period in which numbers are taken now, such as 20261121';
COMMENT ON COLUMN snowflake_registry.segment.ahead_key IS
    'the prefix of the period after it, if numbers of that were taken already';
COMMENT ON COLUMN snowflake_registry.segment.ahead_value IS 'as next_value, for the period after this one';
COMMENT ON COLUMN snowflake_registry.segment.has_left IS
    'whether a server has taken from it whose rows do not depend on the WAL of the registry';
COMMENT ON COLUMN snowflake_registry.segment.closed_reason IS
    'why nobody gets numbers before resume_segment(); NULL: it is open';
COMMENT ON COLUMN snowflake_registry.segment.seen_until IS
    'the highest number that the registry''s own server reports since it was closed, or one with numbers of another registry';

-- As old as the registry, and never replaced: what was signed in commits that are lost is to be verified, too.
CREATE TABLE snowflake_registry.signing_key (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    inner_pad bytea NOT NULL CHECK (length(inner_pad) = 64),
    outer_pad bytea NOT NULL CHECK (length(outer_pad) = 64)
) USING heap;
COMMENT ON TABLE snowflake_registry.signing_key IS
    'the secret by which the registry knows what it has said; who has it can stop the fleet, not make it repeat IDs';
COMMENT ON COLUMN snowflake_registry.signing_key.inner_pad IS 'the key of HMAC-SHA256, padded, xor 0x36';
COMMENT ON COLUMN snowflake_registry.signing_key.outer_pad IS 'the same, xor 0x5c';
