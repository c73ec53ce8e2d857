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
            WHERE granted_until > statement_timestamp()) AS live_leases,
           settings.lease, settings.longest_lease, settings.renew_every, settings.first_worker,
           settings.last_worker, settings.synchronous,
           current_setting('synchronous_standby_names') <> '' AS waits_for_standbys,
           settings.serial, settings.last_datacenter, settings.frozen_until,
           settings.timeline IS NOT NULL AS knows_timeline,
           -- As in guards_off(). Functions of ours would need rights of who looks.
           NOT EXISTS (
               SELECT FROM pg_trigger AS guard
               WHERE guard.tgrelid IN ('snowflake_registry.settings'::regclass, 'snowflake_registry.lease'::regclass,
                                       'snowflake_registry.segment'::regclass,
                                       'snowflake_registry.signing_key'::regclass)
                 AND guard.tgfoid IN ('snowflake_registry.keep_the_past()'::regprocedure,
                                      'snowflake_registry.leave_out()'::regprocedure)
                 AND guard.tgenabled <> 'A'
           ) AS is_guarded
    FROM (VALUES (true)) AS one LEFT JOIN snowflake_registry.settings AS settings ON true;
COMMENT ON VIEW snowflake_registry.status IS
    'the registry in one row: whether it gives out worker IDs, and its settings';
COMMENT ON COLUMN snowflake_registry.status.registry_id IS
    'which registry this is; NULL if it was never asked for anything';
COMMENT ON COLUMN snowflake_registry.status.quarantine_until IS
    'until when nobody new gets a worker ID; NULL outside of a quarantine';
COMMENT ON COLUMN snowflake_registry.status.live_leases IS 'how many leases have not ended';
COMMENT ON COLUMN snowflake_registry.status.lease IS 'how far ahead of the clock a range is granted';
COMMENT ON COLUMN snowflake_registry.status.longest_lease IS 'the longest lease there ever was';
COMMENT ON COLUMN snowflake_registry.status.renew_every IS 'how often servers are to renew';
COMMENT ON COLUMN snowflake_registry.status.first_worker IS 'the lowest worker ID to give';
COMMENT ON COLUMN snowflake_registry.status.last_worker IS
    'the highest worker ID to give; the layout of a server may set a lower limit';
COMMENT ON COLUMN snowflake_registry.status.serial IS 'counts grants and quarantines';
COMMENT ON COLUMN snowflake_registry.status.last_datacenter IS
    'the highest datacenter ID to give worker IDs for';
COMMENT ON COLUMN snowflake_registry.status.state IS
    'not started, ready, quarantine: renewals go on, but nobody gets another worker ID; or frozen: nor numbers, and renewals '
    'end';
COMMENT ON COLUMN snowflake_registry.status.frozen_until IS
    'frozen: no lease is extended beyond this; NULL: it is not frozen';
COMMENT ON COLUMN snowflake_registry.status.quarantine_reason IS
    'what makes the registry think that commits were lost';
COMMENT ON COLUMN snowflake_registry.status.synchronous IS
    'whether the administrator says that no failover loses commits';
COMMENT ON COLUMN snowflake_registry.status.waits_for_standbys IS
    'whether commits wait for standbys at this moment (synchronous_standby_names)';
COMMENT ON COLUMN snowflake_registry.status.knows_timeline IS
    'whether the server may tell its timeline; if not, each start counts as a promotion';
COMMENT ON COLUMN snowflake_registry.status.is_guarded IS
    'whether the triggers that keep the past are on in every session';

CREATE VIEW snowflake_registry.fleet AS
    SELECT lease.datacenter_id, lease.worker_id,
           CASE WHEN lease.granted_until > statement_timestamp()
                THEN CASE WHEN lease.lease_id IS NULL THEN 'ending' ELSE 'held' END
                WHEN lease.is_reserved THEN 'reserved'
                ELSE CASE WHEN lease.lease_id IS NULL THEN 'free' ELSE 'lapsed' END
           END AS state,
           lease.node_name, lease.host, lease.port, lease.layout, lease.version,
           lease.acquired_at, lease.renewed_at, lease.granted_from, lease.granted_until,
           greatest(lease.granted_until - statement_timestamp(), interval '0') AS time_left,
           lease.clock_offset, lease.grant_count,
           CASE WHEN NOT lease.is_reserved AND status.frozen_until IS NULL
                THEN greatest(lease.granted_until, status.quarantine_until) END AS free_from,
           status.quarantine_until, status.synchronous, status.waits_for_standbys
    FROM snowflake_registry.lease AS lease, snowflake_registry.status AS status
    ORDER BY lease.datacenter_id, lease.worker_id;
COMMENT ON VIEW snowflake_registry.fleet IS
    'the identities that were ever given: who holds them, or held them last';
COMMENT ON COLUMN snowflake_registry.fleet.datacenter_id IS 'the datacenter ID';
COMMENT ON COLUMN snowflake_registry.fleet.worker_id IS 'the worker ID';
COMMENT ON COLUMN snowflake_registry.fleet.host IS 'the host of the server';
COMMENT ON COLUMN snowflake_registry.fleet.port IS 'the port of the server';
COMMENT ON COLUMN snowflake_registry.fleet.layout IS 'the layout of the server';
COMMENT ON COLUMN snowflake_registry.fleet.version IS 'the version of snowflake_id on the server';
COMMENT ON COLUMN snowflake_registry.fleet.acquired_at IS 'when the server got it';
COMMENT ON COLUMN snowflake_registry.fleet.renewed_at IS 'when it was last renewed';
COMMENT ON COLUMN snowflake_registry.fleet.granted_from IS 'no ID of the server bears an earlier time';
COMMENT ON COLUMN snowflake_registry.fleet.granted_until IS
    'no ID of the server bears this time or a later one';
COMMENT ON COLUMN snowflake_registry.fleet.quarantine_until IS 'as in status';
COMMENT ON COLUMN snowflake_registry.fleet.synchronous IS 'as in status';
COMMENT ON COLUMN snowflake_registry.fleet.waits_for_standbys IS 'as in status';
COMMENT ON COLUMN snowflake_registry.fleet.state IS
    'held; ending: nobody''s, but whoever had it may go on until granted_until; lapsed: not renewed in '
    'time; reserved: never given again; free';
COMMENT ON COLUMN snowflake_registry.fleet.node_name IS
    'the server''s own word, as host, port, layout and version';
COMMENT ON COLUMN snowflake_registry.fleet.time_left IS
    'how long the server can go on if it does not reach the registry';
COMMENT ON COLUMN snowflake_registry.fleet.clock_offset IS
    'how far the server''s clock is ahead of the registry''s';
COMMENT ON COLUMN snowflake_registry.fleet.grant_count IS 'how often this identity was given';
COMMENT ON COLUMN snowflake_registry.fleet.free_from IS
    'from when on another server can get it, if it is not renewed; NULL: never';

CREATE VIEW snowflake_registry.segments AS
    SELECT segment.name,
           CASE WHEN segment.dropped_at IS NOT NULL THEN 'dropped'
                WHEN segment.closed_reason IS NOT NULL OR settings.frozen_until IS NOT NULL THEN 'closed'
                WHEN segment.next_value > segment.max_value THEN 'exhausted'
                -- Functions of ours would need rights of who looks.
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
                     -- More may have been given.
                     AND segment.closed_reason IS NULL AND coalesce(settings.waits <= '0', true)
                THEN greatest(segment.next_value, segment.ahead_value)::bigint END AS resume_at
    FROM snowflake_registry.segment AS segment LEFT JOIN snowflake_registry.settings AS settings ON true
    ORDER BY segment.name;
COMMENT ON VIEW snowflake_registry.segments IS 'the segments, and those that were dropped';
COMMENT ON COLUMN snowflake_registry.segments.name IS 'the name of the segment';
COMMENT ON COLUMN snowflake_registry.segments.increment IS 'the difference between two numbers';
COMMENT ON COLUMN snowflake_registry.segments.min_step IS
    'the fewest numbers that a server takes at once';
COMMENT ON COLUMN snowflake_registry.segments.max_step IS 'the most numbers that a server takes at once';
COMMENT ON COLUMN snowflake_registry.segments.max_value IS 'the last number to give';
COMMENT ON COLUMN snowflake_registry.segments.period IS
    'day, month or year; NULL: numbers without a date in front';
COMMENT ON COLUMN snowflake_registry.segments.digits IS 'how many digits follow the date';
COMMENT ON COLUMN snowflake_registry.segments.time_zone IS 'where days begin';
COMMENT ON COLUMN snowflake_registry.segments.taken_at IS 'when a range was taken last';
COMMENT ON COLUMN snowflake_registry.segments.state IS
    'open; closed: until resume_segment(), or unfreeze(); exhausted: max_value, or all numbers of this period; dropped';
COMMENT ON COLUMN snowflake_registry.segments.next_value IS
    'where the next range begins, unless a new period has begun since; NULL: above all that bigint holds';
COMMENT ON COLUMN snowflake_registry.segments.resume_at IS
    'no number from here on was given, of the next period either; NULL: above all that bigint holds, or not known, as '
    'commits may be lost';
COMMENT ON COLUMN snowflake_registry.segments.step IS
    'how many numbers were in the range that was taken last';
COMMENT ON COLUMN snowflake_registry.segments.taken_by IS 'the server''s own word';
COMMENT ON COLUMN snowflake_registry.segments.closed_reason IS
    'why nobody gets numbers';
COMMENT ON COLUMN snowflake_registry.segments.seen_until IS
    'the highest number that the registry''s own server reports since it was closed, or one with numbers of another registry';
