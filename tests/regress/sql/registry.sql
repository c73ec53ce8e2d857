-- The registry of a fleet: what a single session can test. The tests in tests/cluster/tests/registry cover the rest.
CREATE EXTENSION snowflake_id_registry;

SELECT e.extnamespace::regnamespace AS schema, e.extrelocatable,
       ARRAY(SELECT dumped::regclass::text COLLATE "C" FROM unnest(e.extconfig) AS dumped ORDER BY 1) AS dumped,
       e.extversion = a.default_version AS is_default_version, a.comment
FROM pg_extension AS e JOIN pg_available_extensions AS a ON a.name = e.extname
WHERE e.extname = 'snowflake_id_registry';

-- Functions for servers and administrators run with the rights of the owner, and nothing in them is looked up through
-- the caller's search_path.
SELECT p.proname COLLATE "C" AS function, p.prosecdef AS definer,
       CASE p.provolatile WHEN 'i' THEN 'immutable' WHEN 's' THEN 'stable' ELSE 'volatile' END AS volatility,
       p.prosqlbody IS NOT NULL OR 'search_path=pg_catalog, pg_temp' = ANY (p.proconfig) AS is_bound,
       -- A caller's standard_conforming_strings determines the meaning of a backslash.
       p.prosrc ~ '\\' AS has_backslash
FROM pg_proc AS p WHERE p.pronamespace = 'snowflake_registry'::regnamespace
ORDER BY 1, p.oid::regprocedure::text COLLATE "C";

-- Only the owner has privileges, except for pg_monitor on the views.
SELECT pg_describe_object(object.classid, object.oid, 0) COLLATE "C" AS object, acl.privilege_type,
       CASE WHEN acl.grantee = 0 THEN 'PUBLIC' ELSE acl.grantee::regrole::text END AS grantee
FROM (
    SELECT 'pg_proc'::regclass, oid, proowner, coalesce(proacl, acldefault('f', proowner))
    FROM pg_proc WHERE pronamespace = 'snowflake_registry'::regnamespace
    UNION ALL
    SELECT 'pg_class'::regclass, oid, relowner, coalesce(relacl, acldefault('r', relowner))
    FROM pg_class WHERE relnamespace = 'snowflake_registry'::regnamespace
    UNION ALL
    SELECT 'pg_namespace'::regclass, oid, nspowner, coalesce(nspacl, acldefault('n', nspowner))
    FROM pg_namespace WHERE nspname = 'snowflake_registry'
) AS object (classid, oid, owner, privileges), LATERAL aclexplode(object.privileges) AS acl
WHERE acl.grantee <> object.owner
ORDER BY 1, 2;

-- Every object has a comment, and every column of the views too.
SELECT pg_describe_object(d.classid, d.objid, 0) AS object
FROM pg_depend AS d JOIN pg_extension AS e ON e.oid = d.refobjid AND e.extname = 'snowflake_id_registry'
WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
  AND d.classid IN ('pg_class'::regclass, 'pg_proc'::regclass) AND obj_description(d.objid, d.classid::regclass::name) IS NULL
ORDER BY 1;
SELECT attrelid::regclass, attname
FROM pg_attribute JOIN pg_class AS c ON c.oid = attrelid
WHERE relnamespace = 'snowflake_registry'::regnamespace AND relkind = 'v' AND col_description(attrelid, attnum) IS NULL
ORDER BY 1, attnum;

-- The calls of servers, with numbers in place of UUIDs, and the reply without parts that vary between runs.
CREATE FUNCTION uuid_of(number int) RETURNS uuid IMMUTABLE LANGUAGE sql AS
    $$SELECT lpad(number::text, 32, '0')::uuid$$;
CREATE FUNCTION clock_us() RETURNS bigint VOLATILE LANGUAGE sql AS
    $$SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint$$;
CREATE FUNCTION shown(answer snowflake_registry.answer, OUT outcome text, OUT worker_id int, OUT minutes numeric,
                      OUT free_in numeric, OUT detail text)
LANGUAGE sql AS $$
    SELECT answer.outcome, answer.worker_id,
           round((answer.granted_until - clock_us()) / 60000000.0), round((answer.free_from - clock_us()) / 60000000.0),
           regexp_replace(answer.detail, '\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ', '(time)', 'g')
$$;
CREATE FUNCTION request(keys jsonb) RETURNS jsonb VOLATILE LANGUAGE sql AS $$
    SELECT jsonb_build_object('protocol', 1, 'registry', NULL, 'tokens', jsonb_build_array(), 'clock', clock_us(), 'round_trip', 0)
        || keys
$$;
CREATE FUNCTION needs(datacenter int DEFAULT 0, pin int DEFAULT NULL, worker_limit bigint DEFAULT 1024,
                      unwanted int[] DEFAULT '{}') RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_build_object('datacenter', datacenter, 'pin', pin, 'worker_limit', worker_limit, 'unwanted', unwanted)
$$;
CREATE FUNCTION acquire(lease int, nonce int, node text DEFAULT NULL, pin int DEFAULT NULL, worker_limit int DEFAULT 1024,
                        unwanted int[] DEFAULT '{}', registry_id uuid DEFAULT NULL,
                        ahead bigint DEFAULT 0, datacenter_id int DEFAULT 0)
RETURNS snowflake_registry.answer LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    answer snowflake_registry.answer;
BEGIN
    -- A pinned worker ID must be reserved for the role.
    IF pin >= 0 THEN
        INSERT INTO snowflake_registry.lease AS lease (
            datacenter_id, worker_id, granted_from, granted_until, acquired_at, renewed_at, grant_count, is_reserved, reserved_for
        )
        SELECT acquire.datacenter_id, pin, moment, moment, moment, moment, 0, true, session_user FROM clock_timestamp() AS moment WHERE pin >= 0
        ON CONFLICT (datacenter_id, worker_id) DO UPDATE SET is_reserved = true, reserved_for = session_user;
    END IF;
    answer := snowflake_registry.acquire(request(jsonb_build_object(
        'registry', registry_id, 'clock', clock_us() + ahead, 'lease_id', uuid_of(lease), 'nonce', uuid_of(nonce),
        'facts', jsonb_build_object('node_name', node), 'needs', needs(datacenter_id, pin, worker_limit, unwanted))));
    IF pin >= 0 THEN
        PERFORM snowflake_registry.give_up_reservation(pin, datacenter_id);
    END IF;
    RETURN answer;
END
$$;
CREATE FUNCTION nonces(lease int, last int, next int) RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_build_object('lease_id', uuid_of(lease), 'last_nonce', uuid_of(last), 'next_nonce', uuid_of(next))
$$;
CREATE FUNCTION renew(lease int, last int, next int, registry_id uuid DEFAULT NULL,
                      ahead bigint DEFAULT 0, round_trip bigint DEFAULT 0)
RETURNS snowflake_registry.answer LANGUAGE sql AS $$
    SELECT snowflake_registry.renew(request(nonces(lease, last, next) || jsonb_build_object(
        'registry', registry_id, 'clock', clock_us() + ahead, 'round_trip', round_trip)))
$$;
-- Lets time pass.
CREATE FUNCTION pass(span interval, worker int DEFAULT NULL) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    ALTER TABLE snowflake_registry.lease DISABLE TRIGGER keep_the_end;
    UPDATE snowflake_registry.lease
    SET granted_from = granted_from - span, granted_until = granted_until - span, renewed_at = renewed_at - span
    WHERE worker_id = coalesce(worker, worker_id);
    ALTER TABLE snowflake_registry.lease ENABLE ALWAYS TRIGGER keep_the_end;
    UPDATE snowflake_registry.settings
    SET nothing_before = nothing_before - span WHERE nothing_before < clock_timestamp();
    PERFORM snowflake_registry.sign_settings();
END
$$;

-- Nothing is granted before the administrator says that there was no fleet.
SELECT state, live_leases FROM snowflake_registry.status;
SELECT (shown(acquire(1, 1, 'alpha'))).*;
SELECT (shown(renew(1, 1, 2))).*;
SELECT code, message, hint FROM sqlstate_of('SELECT snowflake_registry.end_quarantine()');
SELECT snowflake_registry.start_fleet(0, 1023, first_start => true) <= clock_timestamp() AS is_started;
SELECT state, live_leases, lease, renew_every, synchronous FROM snowflake_registry.status;

-- The lowest free worker ID is granted. A repeated call gets the same reply.
SELECT (shown(acquire(1, 1, 'alpha'))).*;
SELECT (shown(acquire(2, 1, 'beta'))).*;
SELECT a.granted_from = b.granted_from AND a.granted_until = b.granted_until AND a.worker_id = b.worker_id AS is_the_same,
       a.outcome
FROM acquire(3, 1, 'gamma') AS a, LATERAL acquire(3, 1, 'gamma', ahead => a.registry_clock - a.registry_clock) AS b;
-- The lease has been renewed since, so this call has an old nonce.
SELECT (shown(renew(3, 1, 2))).*;
SELECT (shown(acquire(3, 1, 'gamma'))).*;
-- The server has an identity that no longer fits. It gets another one, and the rest of the first lease is granted to no
-- other server.
SELECT (shown(acquire(2, 1, 'beta', unwanted => '{1}'))).*;
SELECT (shown(renew(2, 1, 2))).*;
SELECT worker_id, state, node_name, grant_count FROM snowflake_registry.fleet;
-- Another datacenter has its own worker IDs.
SELECT a.datacenter_id, a.worker_id FROM acquire(4, 1, 'delta', datacenter_id => 7) AS a;

-- A pinned worker ID is granted or none. It must fit.
SELECT (shown(acquire(5, 1, 'epsilon', pin => 40))).*;
SELECT (shown(acquire(6, 1, 'zeta', pin => 40))).*;
SELECT outcome, replace(detail, session_user, 'me') AS detail FROM acquire(6, 1, 'zeta', pin => 1024);
SELECT outcome, replace(detail, session_user, 'me') AS detail FROM acquire(6, 1, 'zeta', pin => 5, unwanted => '{5}');
SELECT (shown(acquire(6, 1, 'zeta', worker_limit => 4))).*;
SELECT (shown(acquire(6, 1, 'zeta', worker_limit => 0))).*;
SELECT (shown(acquire(6, 1, 'zeta', unwanted => '{4, 5, 7}'))).*;

-- Renewals: the nonce is the last one, or the next one if the reply was lost. Any other nonce is a twin's.
SELECT (shown(renew(1, 1, 2))).*;
SELECT (shown(renew(1, 1, 2))).*;
SELECT (shown(renew(1, 2, 3))).*;
SELECT (shown(renew(1, 1, 4))).*;
SELECT (shown(renew(1, 98, 3))).*;
SELECT (shown(renew(1, 98, 5))).*;
SELECT (shown(renew(99, 1, 2))).*;
SELECT b.granted_from = a.granted_from AND b.granted_until > a.granted_until AS goes_on
FROM renew(1, 3, 4) AS a, LATERAL renew(1, 4, 5, ahead => a.registry_clock - a.registry_clock) AS b;

-- The lease has ended, but no other server has taken the identity: it continues.
SELECT pass('15 minutes', 0);
SELECT worker_id, state, time_left FROM snowflake_registry.fleet WHERE worker_id = 0 AND datacenter_id = 0;
SELECT (shown(renew(1, 5, 6))).*;
-- If another server takes it, its range begins where the earlier one ended.
SELECT pass('15 minutes', 0);
CREATE TEMPORARY TABLE ended AS SELECT granted_until FROM snowflake_registry.lease WHERE worker_id = 0 AND datacenter_id = 0;
SELECT a.outcome, a.worker_id, a.granted_from = snowflake_registry.microseconds(ended.granted_until) AS begins_at_the_end
FROM ended, acquire(7, 1, 'eta') AS a;
SELECT (shown(renew(1, 6, 7))).*;
-- The server that had a worker ID last gets it again.
SELECT pass('15 minutes');
SELECT (shown(acquire(8, 1, 'epsilon'))).*;
SELECT (shown(acquire(9, 1, 'a stranger'))).*;
-- A lease that has ended without a renewal is replaced by a new one with the same ID.
UPDATE snowflake_registry.lease SET is_renewed = false WHERE worker_id = 2;
SELECT (shown(acquire(3, 2, 'gamma'))).*;

-- Grants cannot be deleted, even by the owner.
SELECT code, message, detail FROM sqlstate_of($$UPDATE snowflake_registry.lease SET granted_until = granted_until - interval '1 hour'$$);
SELECT code, detail FROM sqlstate_of($$UPDATE snowflake_registry.lease SET worker_id = 900 WHERE worker_id = 0$$);
SELECT code, detail FROM sqlstate_of($$DELETE FROM snowflake_registry.lease$$);
SELECT code, detail FROM sqlstate_of($$TRUNCATE snowflake_registry.lease$$);
SELECT code, detail FROM sqlstate_of($$DELETE FROM snowflake_registry.settings$$);
SELECT code, detail FROM sqlstate_of($$UPDATE snowflake_registry.settings SET longest_lease = lease / 2, lease = lease / 2$$);

-- A server whose clock is far off is told so. Half of the round trip is assumed to be the time of the message.
SELECT (shown(acquire(20, 1, 'late', ahead => -75500000))).*;
SELECT (shown(renew(8, 1, 2, ahead => 75500000))).*;
SELECT (shown(renew(8, 1, 2, ahead => -75500000, round_trip => 40000000))).outcome;
SELECT (shown(renew(8, 1, 2, ahead => -75500000, round_trip => 9223372036854775807))).outcome;
SELECT outcome, detail FROM snowflake_registry.renew(request(nonces(1, 1, 1) || '{"clock": null, "round_trip": null}'));
SELECT outcome, detail FROM snowflake_registry.renew(request(nonces(1, 1, 1)) - '{clock,round_trip}'::text[]);
-- A round trip that is not reported counts as none.
SELECT (shown(snowflake_registry.renew(request(nonces(8, 1, 2) || jsonb_build_object('clock', clock_us() - 75500000)) - 'round_trip'))).*;
SELECT (shown(snowflake_registry.renew(request(nonces(8, 1, 2) || jsonb_build_object('clock', clock_us() + 45500000, 'round_trip', NULL))))).outcome;
SELECT outcome FROM snowflake_registry.renew(request(nonces(1, 1, 1) || '{"clock": 9223372036854775807, "round_trip": 9223372036854775807}'));
SELECT outcome FROM snowflake_registry.renew(request(nonces(1, 1, 1) || '{"clock": -9223372036854775808, "round_trip": -9223372036854775808}'));
-- So is a server that belongs to another registry.
SELECT outcome, regexp_replace(detail, 'registry is [^,]*', 'registry is (this one)') FROM renew(8, 1, 2, registry_id => uuid_of(5));
SELECT outcome FROM acquire(20, 1, registry_id => uuid_of(5));

-- The role of this test holds the leases of several servers, for which reserve() would refuse to reserve.
CREATE FUNCTION reserve_for_me(number int) RETURNS boolean LANGUAGE sql AS $$
    INSERT INTO snowflake_registry.lease (
        datacenter_id, worker_id, granted_from, granted_until, acquired_at, renewed_at, grant_count, is_reserved, reserved_for
    )
    SELECT 0, number, moment, moment, moment, moment, 0, true, session_user FROM clock_timestamp() AS moment
    ON CONFLICT (datacenter_id, worker_id) DO UPDATE SET is_reserved = true, reserved_for = session_user
    RETURNING is_reserved
$$;
-- Invalid facts from a server do no harm.
SELECT reserve_for_me(500) AS is_reserved;
SELECT outcome FROM snowflake_registry.acquire(request(jsonb_build_object(
    'lease_id', uuid_of(30), 'nonce', uuid_of(1), 'needs', needs(pin => 500, unwanted => NULL), 'facts', jsonb_build_object(
        'node_name', E'evil\n\x1b[2J' || repeat('x', 300), 'host', '["a"]'::jsonb, 'port', 1e300, 'layout', 7, 'version', E'\t',
        'clock_offset', 1e99))));
SELECT snowflake_registry.give_up_reservation(500);
SELECT left(node_name, 12) AS node_name, length(node_name), host, port, layout, version, clock_offset BETWEEN '-1 minute' AND '1 minute' AS is_ours
FROM snowflake_registry.fleet WHERE worker_id = 500;
SELECT outcome FROM snowflake_registry.renew(request(nonces(30, 1, 2) ||
    '{"facts": {"host": "db7", "port": "5433", "layout": "standard", "version": "0.1.0", "clock_offset": -2500000}}'));
SELECT host, port, layout, version, clock_offset FROM snowflake_registry.fleet WHERE worker_id = 500;
SELECT said.facts, outcome FROM (VALUES ('[]'::jsonb), ('7'), ('null'), (NULL), ('{"port": -1, "clock_offset": "a"}'), ('{"port": 70000}'))
    AS said (facts), snowflake_registry.renew(request(nonces(30, 2, 2) || coalesce(jsonb_build_object('facts', said.facts), '{}')));
SELECT outcome FROM snowflake_registry.renew(request(nonces(30, 2, 2)));
SELECT outcome FROM snowflake_registry.renew(request(nonces(30, 2, 2) || jsonb_build_object('facts', jsonb_build_object(
    'host', (SELECT string_agg(md5(n::text), '') FROM generate_series(1, 9000) AS n)))));
SELECT host, port FROM snowflake_registry.fleet WHERE worker_id = 500;
-- Other values must be valid.
SELECT called, code, message, detail FROM (VALUES ('acquire(NULL, 1)'), ('acquire(40, NULL)'), ('acquire(40, 1, datacenter_id => NULL)'),
    ('acquire(40, 1, datacenter_id => -1)'), ('acquire(40, 1, worker_limit => NULL)'), ('acquire(40, 1, worker_limit => -1)'),
    ('acquire(40, 1, pin => -1)'), ('acquire(40, 1, unwanted => ''{1, NULL}'')'), ('acquire(40, 1, unwanted => ''{1, -1}'')'),
    ('acquire(40, 1, unwanted => ARRAY(SELECT generate_series(1, 10001)))'),
    ('renew(NULL, 1, 2)'), ('renew(1, NULL, 2)'), ('renew(1, 2, NULL)')) AS c (called), LATERAL sqlstate_of('SELECT ' || called);
SELECT outcome FROM acquire(40, 1, pin => 20000, unwanted => ARRAY(SELECT generate_series(1, 10000)));

-- The clock was years ahead, and servers refuse such an end. The server gets another worker ID, and no server gets the
-- first before that end.
BEGIN;
UPDATE snowflake_registry.lease SET granted_until = granted_until + interval '2 years' WHERE worker_id = 500;
SELECT (shown(renew(30, 2, 2))).outcome;
UPDATE snowflake_registry.lease SET is_renewed = false WHERE worker_id = 500;
SELECT a.outcome, a.worker_id FROM acquire(30, 2) AS a;
SELECT a.outcome, a.free_from > clock_us() + 63000000000000 AS after_years FROM acquire(31, 1, pin => 500) AS a;
ROLLBACK;
-- Instants can be anything that fits timestamptz, and leases anything that servers accept: a day may have 25 hours.
SELECT snowflake_registry.microseconds('294276-12-31 23:59:59.999999+00'::timestamptz), snowflake_registry.microseconds('4714-11-24 00:00:00+00 BC'::timestamptz),
       snowflake_registry.microseconds('infinity'::timestamptz), snowflake_registry.microseconds('-infinity'::timestamptz);
SELECT said, code FROM (VALUES ($$lease = '24 hours 1 second', longest_lease = '25 hours'$$), ($$lease = '0', longest_lease = '1 hour'$$), ($$lease = '1 day -1 hour', longest_lease = '24 hours'$$),
    ($$longest_lease = '1 mon -29 days'$$), ($$renew_every = '13 hours'$$), ($$renew_every = '-1 minute'$$)) AS changed (said),
    LATERAL sqlstate_of('UPDATE snowflake_registry.settings SET ' || said);
-- Texts are truncated.
BEGIN;
UPDATE snowflake_registry.settings SET quarantine_reason = repeat('x', 5000), nothing_before = clock_timestamp() + interval '1 minute';
SELECT snowflake_registry.sign_settings();
SELECT length(detail) < 300 AS is_short FROM acquire(31, 1);
ROLLBACK;

-- The administrator revokes a lease. The worker ID is not granted again before the range ends.
SELECT snowflake_registry.revoke_lease(500) > clock_timestamp() AS goes_on;
SELECT (shown(renew(30, 2, 3))).*;
SELECT worker_id, state FROM snowflake_registry.fleet WHERE worker_id = 500;
SELECT outcome, round((free_from - clock_us()) / 60000000.0) AS free_in FROM acquire(31, 1, pin => 500);
SELECT code, message, hint FROM sqlstate_of('SELECT snowflake_registry.revoke_lease(500)');

-- Settings.
SELECT snowflake_registry.configure(lease => '1 minute', renew_every => '5 seconds', last_worker => 1023, synchronous => true);
SELECT lease, longest_lease, renew_every, first_worker, last_worker, synchronous FROM snowflake_registry.status;
-- A smaller pool: worker IDs that were leased are never used by hand.
SELECT snowflake_registry.configure(first_worker => 2);
SELECT snowflake_registry.configure(first_worker => 2);
SELECT snowflake_registry.configure(first_worker => 0, none_by_hand => true);
SELECT (shown(acquire(32, 1, pin => 600))).*;
-- Existing grants keep their length.
SELECT (shown(renew(8, 1, 2))).*;
SELECT snowflake_registry.configure(lease => '10 minutes', renew_every => '1 minute', synchronous => false);
-- A lease that is too short for a quarantine causes a notice, but no warning, which servers would take for a doubt
-- about the commit.
SELECT snowflake_registry.configure(lease => '2 minutes 1 second');
SELECT snowflake_registry.configure(lease => '2 minutes');
SELECT snowflake_registry.configure(renew_every => '30 seconds');
SET client_min_messages = warning;
SELECT snowflake_registry.configure(lease => '2 minutes');
RESET client_min_messages;
SELECT snowflake_registry.configure(lease => '10 minutes', renew_every => '1 minute');
SELECT code, message, detail FROM sqlstate_of($$SELECT snowflake_registry.configure(lease => '1 day 1 second')$$);
SELECT code, message, detail FROM sqlstate_of($$SELECT snowflake_registry.configure(lease => '0')$$);
SELECT code, message, detail FROM sqlstate_of($$SELECT snowflake_registry.configure(renew_every => '301 seconds')$$);
SELECT code, message, hint FROM sqlstate_of($$SELECT snowflake_registry.configure(first_worker => 1024)$$);
SELECT state FROM snowflake_registry.status;
-- Each datacenter has as many worker IDs of its own.
SELECT snowflake_registry.configure(last_datacenter => 7);
SELECT last_datacenter FROM snowflake_registry.status;
SELECT (shown(acquire(36, 1, datacenter_id => 8))).*;
SELECT (shown(acquire(36, 1, datacenter_id => 7))).*;
SELECT code, message, detail FROM sqlstate_of($$SELECT snowflake_registry.configure(last_datacenter => -1)$$);

-- A late call or changed settings: a lease ID is in only one row, even over datacenters.
SELECT (shown(acquire(81, 1, pin => 801))).*;
SELECT (shown(acquire(81, 1, pin => 801, datacenter_id => 3))).*;
SELECT a.outcome, a.datacenter_id, a.worker_id FROM acquire(81, 1, pin => 802, datacenter_id => 3) AS a;
SELECT a.outcome, a.datacenter_id, a.worker_id FROM renew(81, 1, 2) AS a;
SELECT a.outcome, a.datacenter_id, a.worker_id FROM acquire(81, 1, pin => 801) AS a;
SELECT datacenter_id, worker_id, state FROM snowflake_registry.fleet WHERE worker_id IN (801, 802);
SELECT (shown(acquire(82, 1, pin => 803))).outcome;
SELECT (shown(renew(82, 1, 2))).outcome;
SELECT (shown(acquire(83, 1, pin => 804))).outcome;

-- Quarantine: only renewals of live leases are granted. A nonce may have been lost, so one renewal with any nonce does
-- not count as a twin's.
SELECT round(extract(epoch FROM snowflake_registry.quarantine() - clock_timestamp()) / 60) AS minutes;
SELECT state, quarantine_reason FROM snowflake_registry.status;
SELECT (shown(renew(8, 70, 71))).*;
SELECT (shown(renew(8, 70, 72))).*;
SELECT (shown(acquire(33, 1, 'theta'))).*;
SELECT code, message, hint FROM sqlstate_of('SELECT snowflake_registry.start_fleet()');
-- A lease that was about to end: another server may have it.
SELECT (shown(renew(32, 1, 2))).*;
-- A late call from before the quarantine is not taken for the last call of its server.
SELECT (shown(acquire(82, 1))).outcome;
SELECT (shown(renew(82, 2, 3))).outcome;
SELECT (shown(acquire(83, 1))).outcome;
SELECT (shown(acquire(83, 1))).outcome;
SELECT (shown(renew(83, 4, 5))).outcome;
-- A lease that ends during the quarantine can be renewed afterwards.
SELECT pass('15 minutes', 40);
SELECT (shown(renew(8, 71, 72))).*;
SELECT snowflake_registry.end_quarantine();
SELECT (shown(renew(8, 71, 72))).*;
SELECT state, quarantine_reason FROM snowflake_registry.status;

-- A token proves more than the registry knows, so commits were lost. Unsigned facts prove nothing.
CREATE FUNCTION renew_and_show(lease int, last int, next int, token text) RETURNS text LANGUAGE sql AS $$
    SELECT outcome FROM snowflake_registry.renew(
        request(nonces(lease, last, next) || jsonb_build_object('tokens', jsonb_build_array(token))))
$$;
SELECT (shown(renew(8, 72, 73, registry_id => (SELECT registry_id FROM snowflake_registry.status)))).outcome;
SELECT renew_and_show(8, 73, 74, 'lease:0:700:1:1000000:2000000:1000.');
SELECT state FROM snowflake_registry.status;
SELECT renew_and_show(8, 74, 75, snowflake_registry.signed('lease:0:700:1:1000000:2000000:1000:'));
SELECT state, quarantine_reason, serial FROM snowflake_registry.status;
SELECT state, granted_from, granted_until FROM snowflake_registry.fleet WHERE worker_id = 700;
-- It is known now.
SELECT snowflake_registry.end_quarantine();
SELECT renew_and_show(8, 75, 76, snowflake_registry.signed('lease:0:700:1:1000000:2000000:1000:'));
SELECT state FROM snowflake_registry.status;
-- The lease was renewed. Then its worker ID was granted to two others and is no longer held, and then it was granted
-- once more.
SELECT renew_and_show(8, 76, 77, snowflake_registry.signed('lease:0:700:1:1000000:3000000:1000:'));
SELECT renew_and_show(8, 77, 78, snowflake_registry.signed('lease:0:700:1:2500000:4000000:1000:'));
SELECT grant_count, granted_from, granted_until FROM snowflake_registry.lease WHERE worker_id = 700;
SELECT renew_and_show(8, 78, 79, snowflake_registry.signed('lease:0:700:3:4000000:5000000:1000:'));
SELECT grant_count, granted_from, granted_until FROM snowflake_registry.lease WHERE worker_id = 700;
SELECT snowflake_registry.end_quarantine();
-- Earlier tokens are known too.
SELECT renew_and_show(8, 79, 80, snowflake_registry.signed('lease:0:700:1:2500000:4000000:1000:'));
SELECT state FROM snowflake_registry.status;
DROP FUNCTION renew_and_show;

-- A row written under a savepoint is recognized, and VACUUM and FREEZE change nothing. A row changed by hand looks like
-- a restored dump.
BEGIN;
SAVEPOINT a;
SELECT (shown(acquire(35, 1, pin => 700))).outcome;
RELEASE a;
COMMIT;
VACUUM (FREEZE) snowflake_registry.settings;
VACUUM FULL snowflake_registry.settings;
SELECT (shown(renew(35, 1, 2))).outcome;
SELECT state FROM snowflake_registry.status;
UPDATE snowflake_registry.settings SET last_worker = 500;
SELECT (shown(renew(35, 2, 3))).outcome;
SELECT state, last_worker, quarantine_reason FROM snowflake_registry.status;
SELECT snowflake_registry.end_quarantine();

-- A snapshot older than the locks would not see the changes of other sessions.
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT code, message, hint ~ 'ALTER ROLE .* SET default_transaction_isolation = ''read committed'';' AS hints FROM sqlstate_of('SELECT renew(35, 3, 4)');
ROLLBACK;
BEGIN READ ONLY;
SELECT code, message, hint ~ 'ALTER ROLE .* SET default_transaction_read_only = off;' AS hints FROM sqlstate_of('SELECT renew(35, 3, 4)');
ROLLBACK;

-- Rows are never deleted, so frequent calls must not scan all of them.
DISCARD PLANS;
SELECT pg_stat_force_next_flush();
BEGIN;
SET LOCAL enable_seqscan = off;
SELECT answer.outcome FROM snowflake_registry.lease, snowflake_registry.status AS s, snowflake_registry.renew(request(
    nonces(35, 3, 3) || jsonb_build_object(
        'registry', s.registry_id, 'tokens', jsonb_build_array(snowflake_registry.signed((snowflake_registry.statement_of_lease(uuid_of(35))).statement))))) AS answer
WHERE lease.lease_id = uuid_of(35);
SELECT relname COLLATE "C" AS read_whole FROM pg_stat_xact_all_tables
WHERE schemaname = 'snowflake_registry' AND relname IN ('lease', 'segment') AND seq_scan > 0 ORDER BY 1;
COMMIT;
DISCARD PLANS;

-- Settings made by the functions last only until the commit.
BEGIN;
SET LOCAL synchronous_commit = off;
SELECT (shown(renew(35, 3, 4))).outcome;
SELECT current_setting('synchronous_commit') AS synchronous_commit, current_setting('client_min_messages') AS messages,
       current_setting('lock_timeout') AS lock_timeout;
COMMIT;
BEGIN;
SET LOCAL synchronous_commit = remote_apply;
SELECT (shown(renew(35, 4, 5))).outcome;
SHOW synchronous_commit;
COMMIT;
SHOW client_min_messages;

-- A server's role can make a server's calls, and cannot be exploited.
CREATE ROLE regress_fleet;
GRANT USAGE ON SCHEMA snowflake_registry TO regress_fleet;
GRANT EXECUTE ON FUNCTION
    snowflake_registry.acquire(jsonb), snowflake_registry.renew(jsonb) TO regress_fleet;
SELECT reserve_for_me(300) AS is_reserved;
CREATE SCHEMA trap AUTHORIZATION regress_fleet;
SET ROLE regress_fleet;
CREATE FUNCTION trap.sprung(int, int) RETURNS boolean LANGUAGE plpgsql AS $$BEGIN RAISE EXCEPTION 'sprung as %', current_user; END$$;
CREATE FUNCTION trap.sprung(timestamptz, timestamptz) RETURNS boolean LANGUAGE plpgsql AS $$BEGIN RAISE EXCEPTION 'sprung as %', current_user; END$$;
CREATE FUNCTION trap.clock_timestamp() RETURNS timestamptz LANGUAGE plpgsql AS $$BEGIN RAISE EXCEPTION 'sprung as %', current_user; END$$;
CREATE OPERATOR trap.= (LEFTARG = int, RIGHTARG = int, FUNCTION = trap.sprung);
CREATE OPERATOR trap.<= (LEFTARG = timestamptz, RIGHTARG = timestamptz, FUNCTION = trap.sprung);
CREATE OPERATOR trap.> (LEFTARG = timestamptz, RIGHTARG = timestamptz, FUNCTION = trap.sprung);
CREATE DOMAIN trap.bigint AS int CHECK (VALUE < 0);
CREATE TEMPORARY TABLE settings (registry_id uuid);
CREATE TEMPORARY TABLE lease (lease_id uuid);
SELECT current_setting('server_version_num')::int < 190000 AS has_old_strings \gset
SET search_path = trap, pg_temp, pg_catalog;
SET row_security = off;
\if :has_old_strings
SET standard_conforming_strings = off;
\endif
SET TimeZone = 'Pacific/Kiritimati';
SET DateStyle = 'Postgres, DMY';
SET IntervalStyle = 'sql_standard';
SELECT outcome, worker_id FROM snowflake_registry.acquire(jsonb_build_object(
    'clock', (extract(epoch FROM pg_catalog.clock_timestamp()) * 1000000)::pg_catalog.int8) ||
    '{"protocol": 1, "registry": null, "tokens": [], "round_trip": 0, "lease_id": "00000000-0000-0000-0000-000000000050",
      "nonce": "00000000-0000-0000-0000-000000000001", "facts": {"node_name": "iota", "by_hand": [300]},
      "needs": {"datacenter": 0, "pin": 300, "worker_limit": 1024, "unwanted": [301, 302]}}');
SELECT outcome, worker_id FROM snowflake_registry.renew(jsonb_build_object(
    'clock', (extract(epoch FROM pg_catalog.clock_timestamp()) * 1000000)::pg_catalog.int8) ||
    '{"protocol": 1, "registry": null, "tokens": ["a"], "round_trip": 0, "lease_id": "00000000-0000-0000-0000-000000000050",
      "last_nonce": "00000000-0000-0000-0000-000000000001", "next_nonce": "00000000-0000-0000-0000-000000000002"}');
RESET search_path;
RESET row_security;
RESET standard_conforming_strings;
RESET TimeZone;
RESET DateStyle;
RESET IntervalStyle;
DROP TABLE pg_temp.settings, pg_temp.lease;
SELECT code, message FROM sqlstate_of('SELECT * FROM snowflake_registry.lease');
SELECT code, message FROM sqlstate_of('SELECT * FROM snowflake_registry.fleet');
SELECT code, message FROM sqlstate_of('SELECT * FROM snowflake_registry.settings');
SELECT code, message FROM sqlstate_of('SELECT snowflake_registry.revoke_lease(0)');
SELECT code, message FROM sqlstate_of('SELECT snowflake_registry.start_fleet()');
SELECT code, message FROM sqlstate_of('SELECT snowflake_registry.end_quarantine()');
SELECT code, message FROM sqlstate_of('SELECT snowflake_registry.sign_settings()');
SELECT code, message FROM sqlstate_of('SELECT snowflake_registry.open_registry(true)');
RESET ROLE;
SELECT snowflake_registry.give_up_reservation(300);
SET ROLE pg_monitor;
SELECT worker_id, state, node_name FROM snowflake_registry.fleet WHERE worker_id = 300;
SELECT state FROM snowflake_registry.status;
SELECT code, message FROM sqlstate_of('SELECT * FROM snowflake_registry.lease');
RESET ROLE;
SET client_min_messages = warning;
DROP OWNED BY regress_fleet CASCADE;
RESET client_min_messages;
DROP ROLE regress_fleet;

-- The extension cannot be dropped by mistake.
DROP EXTENSION snowflake_id_registry;
SELECT code, message, regexp_replace(detail, '\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ', '(time)') AS detail FROM sqlstate_of('SELECT snowflake_registry.end_fleet()');
SELECT pass('1 day');
SELECT snowflake_registry.end_fleet();
SELECT state FROM snowflake_registry.status;
SELECT (shown(acquire(60, 1))).outcome;
BEGIN;
DROP FUNCTION shown, acquire, renew;
DROP EXTENSION snowflake_id_registry;
ROLLBACK;
SELECT snowflake_registry.quarantine() IS NOT NULL AS has_guard_again;
SELECT code FROM sqlstate_of('DROP EXTENSION snowflake_id_registry');
SET client_min_messages = warning;
DROP EXTENSION snowflake_id_registry CASCADE;
RESET client_min_messages;
DROP FUNCTION uuid_of, clock_us, pass, request, needs, nonces;

-- It cannot be created in an existing schema, whose owner may have objects in it that are not visible yet.
CREATE ROLE regress_owner;
DO $$BEGIN EXECUTE format('GRANT CREATE ON DATABASE %I TO regress_owner', current_database()); END$$;
CREATE SCHEMA snowflake_registry AUTHORIZATION regress_owner;
SELECT code, message, detail, hint FROM sqlstate_of('CREATE EXTENSION snowflake_id_registry');
SET ROLE regress_owner;
SELECT code FROM sqlstate_of('CREATE EXTENSION snowflake_id_registry');
DROP SCHEMA snowflake_registry;
RESET ROLE;
-- The owner of a registry does not have to be a superuser.
SET ROLE regress_owner;
CREATE EXTENSION snowflake_id_registry;
SELECT snowflake_registry.start_fleet(0, 1023, first_start => true) <= clock_timestamp() AS is_started;
SELECT outcome FROM snowflake_registry.acquire(jsonb_build_object(
    'protocol', 1, 'registry', NULL, 'tokens', '[]'::jsonb, 'clock', (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
    'lease_id', gen_random_uuid(), 'nonce', gen_random_uuid(), 'needs', '{"datacenter": 0, "worker_limit": 1024}'::jsonb));
RESET ROLE;
SET client_min_messages = warning;
DROP EXTENSION snowflake_id_registry CASCADE;
DROP OWNED BY regress_owner;
RESET client_min_messages;
DROP ROLE regress_owner;
