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
