-- A holder that ends hands the rest of its range back: what a single session can test. The tests in
-- tests/cluster/tests/registry/release.rs cover lost commits.
CREATE EXTENSION snowflake_id_registry;
SELECT snowflake_registry.start_fleet(0, 1023, first_start => true) <= clock_timestamp() AS is_started;
CREATE FUNCTION uuid_of(number int) RETURNS uuid IMMUTABLE LANGUAGE sql AS
    $$SELECT lpad(number::text, 32, '0')::uuid$$;
CREATE FUNCTION clock_us() RETURNS bigint VOLATILE LANGUAGE sql AS
    $$SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint$$;
CREATE FUNCTION request(token text, keys jsonb) RETURNS jsonb VOLATILE LANGUAGE sql AS $$
    SELECT jsonb_build_object('protocol', 1, 'registry', NULL, 'tokens', to_jsonb(array_remove(ARRAY[token], NULL)),
                              'clock', clock_us(), 'round_trip', 0, 'facts', '{"node_name": "program"}'::jsonb) || keys
$$;
CREATE FUNCTION nonces(lease int, last int, next int) RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_build_object('lease_id', uuid_of(lease), 'last_nonce', uuid_of(last), 'next_nonce', uuid_of(next))
$$;
CREATE FUNCTION acquire(lease int, nonce int, pin int DEFAULT NULL) RETURNS snowflake_registry.answer LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    answer snowflake_registry.answer;
BEGIN
    INSERT INTO snowflake_registry.lease AS lease (
            datacenter_id, worker_id, granted_from, granted_until, acquired_at, renewed_at, grant_count, is_reserved, reserved_for
        )
        SELECT 0, pin, moment, moment, moment, moment, 0, true, session_user FROM clock_timestamp() AS moment WHERE pin >= 0
        ON CONFLICT (datacenter_id, worker_id) DO UPDATE SET is_reserved = true, reserved_for = session_user;
    answer := snowflake_registry.acquire(request(NULL, jsonb_build_object(
        'lease_id', uuid_of(lease), 'nonce', uuid_of(nonce),
        'needs', jsonb_build_object('datacenter', 0, 'pin', pin, 'worker_limit', 1024, 'unwanted', NULL))));
    PERFORM snowflake_registry.give_up_reservation(pin) WHERE pin IS NOT NULL;
    RETURN answer;
END
$$;
CREATE FUNCTION renew(lease int, last int, next int, token text DEFAULT NULL) RETURNS snowflake_registry.answer LANGUAGE sql AS $$
    SELECT snowflake_registry.renew(request(token, nonces(lease, last, next)))
$$;
CREATE FUNCTION release(lease int, last int, next int, used bigint, token text DEFAULT NULL, registry_id uuid DEFAULT NULL)
RETURNS snowflake_registry.answer LANGUAGE sql AS $$
    SELECT snowflake_registry.release(request(token, nonces(lease, last, next)
        || jsonb_build_object('registry', registry_id, 'used_until', used)))
$$;
-- The outcome, and the start of the next range relative to the clock, in whole seconds.
CREATE FUNCTION shown(answer snowflake_registry.answer, OUT outcome text, OUT worker_id int, OUT free_in numeric, OUT detail text)
LANGUAGE sql AS $$
    SELECT answer.outcome, answer.worker_id, round((answer.free_from - clock_us()) / 1000000.0),
           regexp_replace(answer.detail, '\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ', '(time)', 'g')
$$;
CREATE TABLE token (lease int, token text);
SELECT outcome, worker_id FROM acquire(1, 1);
SELECT outcome FROM renew(1, 1, 2);
INSERT INTO token SELECT 1, token FROM renew(1, 2, 3);

-- A release by a twin, and of another registry. Without a lease there is nothing to release.
SELECT (shown(release(1, 7, 8, clock_us()))).*;
SELECT outcome FROM release(1, 3, 4, clock_us(), registry_id => uuid_of(5));
SELECT (shown(release(9, 1, 2, clock_us()))).*;
SELECT called, code, message FROM (VALUES ('release(NULL, 1, 2, clock_us())'), ('release(1, NULL, 2, clock_us())'),
    ('release(1, 2, NULL, clock_us())')) AS c (called), LATERAL sqlstate_of('SELECT ' || called);
SELECT used_until, code, message, detail FROM (VALUES ('"now"'::jsonb), ('1.5'), ('9223372036854775808'), ('[]')) AS u (used_until),
    LATERAL sqlstate_of(format('SELECT snowflake_registry.release(request(NULL, nonces(1, 3, 4) || %L))',
                               jsonb_build_object('used_until', used_until)));
SELECT state FROM snowflake_registry.fleet WHERE worker_id = 0;

-- The worker ID is taken up to the end of the used range, and free afterwards. A repeated call gets the same answer.
SELECT live_leases FROM snowflake_registry.status;
SELECT (shown(release(1, 3, 4, clock_us() + 3000000))).*;
SELECT state, node_name, round(extract(epoch FROM time_left)) AS time_left, round(extract(epoch FROM free_from - clock_timestamp())) AS free_in,
       granted_until > clock_timestamp() + interval '9 minutes' AS keeps_its_end
FROM snowflake_registry.fleet WHERE worker_id = 0;
SELECT a.free_from = b.free_from AS is_the_same, a.outcome
FROM release(1, 3, 4, clock_us() + 60000000) AS a, LATERAL release(1, 3, 4, a.registry_clock - a.registry_clock) AS b;
SELECT outcome, worker_id FROM acquire(2, 1);
SELECT pg_sleep(extract(epoch FROM free_from - clock_timestamp()) + 0.01) IS NOT NULL AS slept FROM snowflake_registry.fleet WHERE worker_id = 0;
SELECT live_leases FROM snowflake_registry.status;
SELECT state FROM snowflake_registry.fleet WHERE worker_id = 0;

-- Delayed calls of the former holder extend nothing, and get nothing.
SELECT (shown(renew(1, 3, 4, (SELECT token FROM token)))).*;
SELECT (shown(acquire(1, 3))).*;
SELECT code, message FROM sqlstate_of('SELECT snowflake_registry.revoke_lease(0)');

-- The next range starts where the former holder stopped. The old token proves no loss, whoever shows it.
CREATE TABLE stopped AS SELECT free_from FROM snowflake_registry.fleet WHERE worker_id = 0;
SELECT outcome, worker_id, granted_from = snowflake_registry.microseconds(stopped.free_from) AS starts_where_it_stopped,
       granted_until >= (SELECT split_part(token, ':', 6)::bigint FROM token) AS ends_later
FROM stopped, acquire(3, 1, 0);
SELECT (shown(renew(1, 3, 4, (SELECT token FROM token)))).*;
SELECT (shown(renew(1, 3, 4))).*;
SELECT (shown(release(1, 3, 4, 0, (SELECT token FROM token)))).*;
SELECT outcome FROM renew(3, 1, 2, (SELECT token FROM token));
INSERT INTO token SELECT 3, token FROM renew(3, 2, 3);
SELECT state FROM snowflake_registry.status;
SELECT worker_id, state, grant_count FROM snowflake_registry.fleet ORDER BY 1;
-- Nor does it after several releases.
SELECT outcome FROM release(3, 3, 4, 0, (SELECT token FROM token WHERE lease = 3));
SELECT outcome, worker_id FROM acquire(4, 1, 0);
SELECT outcome FROM renew(4, 1, 2, (SELECT token FROM token WHERE lease = 1));
SELECT outcome FROM renew(4, 2, 3, (SELECT token FROM token WHERE lease = 3));
SELECT state FROM snowflake_registry.status;

-- The past is not handed back, and neither is more than the range. NULL stands for all of it, and so does a missing key.
-- The clock does not matter.
SELECT (shown(release(4, 3, 4, -9223372036854775808))).*;
SELECT (acquire(5, 1, 5)).outcome, (acquire(6, 1, 6)).outcome, (acquire(7, 1, 7)).outcome, (acquire(8, 1, 8)).outcome;
SELECT (shown(release(5, 1, 1, 9223372036854775807))).*;
SELECT (shown(release(6, 1, 1, NULL))).*;
SELECT (shown(snowflake_registry.release(request(NULL, nonces(8, 1, 1)) - '{clock,round_trip,facts}'::text[]))).*;
-- The range of a lease that has ended is used up.
CREATE FUNCTION pass(span interval, worker int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    ALTER TABLE snowflake_registry.lease DISABLE TRIGGER keep_the_end;
    UPDATE snowflake_registry.lease
    SET granted_from = granted_from - span, granted_until = granted_until - span, renewed_at = renewed_at - span,
        used_until = used_until - span
    WHERE worker_id = worker;
    ALTER TABLE snowflake_registry.lease ENABLE ALWAYS TRIGGER keep_the_end;
END
$$;
SELECT pass('15 minutes', 7);
-- The end of the lease does not depend on the speed of the machine.
SELECT answer.outcome, answer.worker_id, to_timestamp(answer.free_from / 1000000) = date_trunc('second', lease.granted_until) AS is_its_end, answer.detail
FROM snowflake_registry.lease AS lease, release(7, 1, 1, clock_us()) AS answer WHERE lease.worker_id = 7;
SELECT worker_id, state FROM snowflake_registry.fleet WHERE worker_id BETWEEN 5 AND 8 ORDER BY 1;

-- A shorter lease: the end of a new range is not before an earlier end.
SELECT outcome FROM acquire(10, 1, 10);
SELECT outcome FROM release(10, 1, 1, 0);
SELECT snowflake_registry.configure(lease => '5 minutes');
SELECT (shown(acquire(11, 1, 10))).outcome, round(extract(epoch FROM free_from - clock_timestamp()) / 60) AS minutes
FROM snowflake_registry.fleet WHERE worker_id = 10;
SELECT snowflake_registry.configure(lease => '10 minutes');

-- During a freeze and a quarantine, leases can be released, but nothing is granted. A nonce that is not known could be
-- that of a copy.
SELECT (acquire(12, 1, 12)).outcome, (acquire(13, 1, 13)).outcome;
SELECT snowflake_registry.freeze();
SELECT outcome FROM release(12, 1, 1, 0);
SELECT outcome FROM acquire(14, 1, 12);
SELECT snowflake_registry.unfreeze();
SELECT snowflake_registry.quarantine() IS NOT NULL AS is_in_quarantine;
SELECT (shown(release(13, 1, 1, 0))).*;
SELECT outcome FROM renew(13, 1, 2);
SELECT outcome FROM release(13, 2, 3, 0);
SELECT outcome FROM acquire(15, 1, 13);
SELECT snowflake_registry.end_quarantine();
SELECT outcome FROM acquire(15, 1, 13);

-- What was released is recorded for good.
SELECT code FROM sqlstate_of($$UPDATE snowflake_registry.lease SET used_until = used_until - interval '1 second' WHERE worker_id = 10$$);
SELECT code FROM sqlstate_of($$UPDATE snowflake_registry.lease SET released_until = NULL WHERE worker_id = 10$$);
SELECT code FROM sqlstate_of($$UPDATE snowflake_registry.lease SET released_until = released_until - interval '1 second' WHERE worker_id = 10$$);

-- A release was lost, and the next holder proves it. Afterwards, the token of the former holder proves no loss.
SELECT (release(15, 1, 1, 0)).outcome, (acquire(20, 1, 20)).outcome, (renew(20, 1, 2)).outcome, (acquire(22, 1, 22)).outcome;
INSERT INTO token SELECT 20, token FROM renew(20, 2, 3);
CREATE TEMPORARY TABLE before AS SELECT * FROM snowflake_registry.lease WHERE worker_id = 20;
SELECT outcome FROM release(20, 3, 4, clock_us());
SELECT pg_sleep(0.1) IS NOT NULL AS slept;
SELECT (acquire(21, 1, 20)).outcome, (renew(21, 1, 2)).outcome;
INSERT INTO token SELECT 21, token FROM renew(21, 2, 3);
ALTER TABLE snowflake_registry.lease DISABLE TRIGGER ALL;
UPDATE snowflake_registry.lease AS lease
SET granted_from = before.granted_from, granted_until = before.granted_until, lease_id = before.lease_id,
    nonce = before.nonce, grant_count = before.grant_count, used_until = NULL, released_until = NULL
FROM before WHERE lease.worker_id = 20;
ALTER TABLE snowflake_registry.lease ENABLE TRIGGER ALL;
SELECT outcome FROM renew(21, 3, 4, (SELECT token FROM token WHERE lease = 21));
SELECT state FROM snowflake_registry.status;
SELECT snowflake_registry.end_quarantine();
SELECT outcome FROM renew(22, 1, 2, (SELECT token FROM token WHERE lease = 20));
SELECT state FROM snowflake_registry.status;
SELECT (release(22, 2, 3, 0)).outcome;

-- Programs have their own role.
CREATE ROLE regress_program;
GRANT USAGE ON SCHEMA snowflake_registry TO regress_program;
SET ROLE regress_program;
SELECT code, message FROM sqlstate_of('SELECT snowflake_registry.release(request(NULL, nonces(99, 1, 2)))');
RESET ROLE;
GRANT EXECUTE ON FUNCTION snowflake_registry.release(jsonb) TO regress_program;
SET ROLE regress_program;
SELECT outcome FROM snowflake_registry.release(request(NULL, nonces(99, 1, 2)));
RESET ROLE;
DROP OWNED BY regress_program;
DROP ROLE regress_program;

-- The fleet can end as soon as all have released.
SELECT outcome FROM renew(2, 1, 2);
SELECT (release(2, 2, 2, 0)).outcome;
SELECT worker_id, state FROM snowflake_registry.fleet WHERE state IN ('held', 'ending') ORDER BY 1;
SELECT pass('15 minutes', 5), pass('15 minutes', 6), pass('15 minutes', 8), pass('15 minutes', 20);
SELECT snowflake_registry.end_fleet();
DROP FUNCTION acquire, renew, release, shown, request, nonces, uuid_of, clock_us, pass;
DROP TABLE token, stopped;
DROP EXTENSION snowflake_id_registry CASCADE;
