-- Requests to the registry: their keys and values, and the number of their protocol. A request that is refused changes
-- nothing.
CREATE EXTENSION snowflake_id_registry;

CREATE FUNCTION clock() RETURNS bigint LANGUAGE sql AS 'SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint';
CREATE FUNCTION lease_id(n int) RETURNS uuid LANGUAGE sql AS $$SELECT ('5a0c3e0e-0d2f-4b7e-9a55-' || lpad(n::text, 12, '0'))::uuid$$;
-- A request that all functions accept, with other values for some keys.
CREATE FUNCTION request(n int, keys jsonb DEFAULT '{}') RETURNS jsonb LANGUAGE sql AS $$
    SELECT '{"protocol": 1, "registry": null, "tokens": [], "round_trip": 0, "needs": {"datacenter": 0, "worker_limit": 1024},
             "requests": [{"name": "orders"}]}'
        || jsonb_build_object('clock', clock(), 'lease_id', lease_id(n), 'nonce', lease_id(n), 'last_nonce', lease_id(n),
                              'next_nonce', lease_id(n), 'used_until', 0)
        || keys
$$;
-- Calls a function. If there is an error, it is shown in place of the answer.
CREATE TABLE seen (function text, outcome text, lowest_protocol int, highest_protocol int);
CREATE FUNCTION call(function text, request jsonb, OUT outcome text, OUT detail text) LANGUAGE plpgsql AS $$
DECLARE
    answer jsonb;
    message text;
BEGIN
    EXECUTE format('SELECT to_jsonb(answer) FROM snowflake_registry.%I($1) AS answer LIMIT 1', function) INTO answer USING request;
    outcome := answer ->> 'outcome';
    detail := answer ->> 'detail';
    INSERT INTO seen
    SELECT function, answer ->> 'outcome', (answer ->> 'lowest_protocol')::int, (answer ->> 'highest_protocol')::int;
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS outcome = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL;
    detail := concat_ws(' - ', message, nullif(detail, ''));
END
$$;
-- Calls all functions, and shows which of them answer alike.
CREATE FUNCTION call_all(request jsonb, OUT functions text, OUT outcome text, OUT detail text) RETURNS SETOF record
LANGUAGE sql AS $$
    SELECT CASE count(*) WHEN 5 THEN 'all' ELSE string_agg(function, ', ' ORDER BY function COLLATE "C") END, called.outcome, called.detail
    FROM unnest(ARRAY['acquire', 'renew', 'release', 'take', 'take_local']) AS function, LATERAL call(function, request) AS called
    GROUP BY called.outcome, called.detail ORDER BY min(function COLLATE "C")
$$;
-- Lets the range of a lease end.
CREATE FUNCTION pass(n int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    ALTER TABLE snowflake_registry.lease DISABLE TRIGGER keep_the_end;
    UPDATE snowflake_registry.lease
    SET granted_from = granted_from - interval '1 hour', granted_until = granted_until - interval '1 hour',
        used_until = used_until - interval '1 hour'
    WHERE lease_id = lease_id(n);
    ALTER TABLE snowflake_registry.lease ENABLE ALWAYS TRIGGER keep_the_end;
END
$$;

SELECT outcome FROM unnest(ARRAY['acquire', 'renew', 'release']) AS function, LATERAL call(function, request(1));

-- A quarantine lasts at least as long as a lease of the default duration, and two minutes more. A fleet that was started with
-- shorter leases may have been given longer ones in commits that were lost.
SET client_min_messages = warning; -- No notices about short leases.
BEGIN;
SELECT snowflake_registry.configure(lease => '1 minute', renew_every => '5 seconds');
SELECT snowflake_registry.start_fleet(0, 2147483647, first_start => true) <= clock_timestamp() AS is_started;
SELECT state, lease, longest_lease FROM snowflake_registry.status;
SELECT snowflake_registry.configure(lease => '30 seconds');
SELECT state, lease, longest_lease FROM snowflake_registry.status;
SELECT round(extract(epoch FROM snowflake_registry.quarantine() - clock_timestamp()) / 60) AS minutes;
ROLLBACK;
RESET client_min_messages;
SELECT snowflake_registry.start_fleet(0, 2147483647, first_start => true) <= clock_timestamp() AS is_started;
SELECT lease, longest_lease FROM snowflake_registry.status;
SELECT snowflake_registry.create_segment('orders');

-- No function has a second form, so a GRANT needs no types of arguments.
SELECT oid::regprocedure FROM pg_proc
WHERE pronamespace = 'snowflake_registry'::regnamespace AND proname IN ('acquire', 'renew', 'release', 'take', 'take_local')
ORDER BY proname COLLATE "C";
CREATE ROLE regress_snowflake_caller;
GRANT USAGE ON SCHEMA snowflake_registry TO regress_snowflake_caller;
GRANT EXECUTE ON FUNCTION snowflake_registry.acquire TO regress_snowflake_caller;
GRANT INSERT ON seen TO regress_snowflake_caller;
GRANT EXECUTE ON FUNCTION snowflake_registry.renew, snowflake_registry.release, snowflake_registry.take TO regress_snowflake_caller;

-- What is not a request.
SELECT request, c.* FROM (VALUES (NULL::jsonb), ('null'), ('[]'), ('"text"'), ('7'), ('true'),
    ('[{"protocol": 1, "registry": null, "tokens": []}]'), ('{}')) AS r (request), LATERAL call_all(request) AS c;
-- Keys that each request has. The ID of the registry may be null.
SELECT key, c.* FROM unnest(ARRAY['protocol', 'registry', 'tokens']) AS key, LATERAL call_all(request(1) - key) AS c;
SELECT keys, c.* FROM (VALUES ('{"protocol": null}'::jsonb), ('{"tokens": null}'), ('{"tokens": {}}'), ('{"tokens": {"a": "b"}}'),
    ('{"tokens": "token"}'), ('{"tokens": 5}')) AS k (keys), LATERAL call_all(request(1, keys)) AS c;
SELECT registry, c.* FROM (VALUES ('7'::jsonb), ('""'), ('"text"'), ('true'), ('{}'), ('[null]'), ('"5a0c3e0e0d2f4b7e9a55000000000001"'),
    ('"{5a0c3e0e-0d2f-4b7e-9a55-000000000001}"'), ('" 5a0c3e0e-0d2f-4b7e-9a55-000000000001"')) AS r (registry),
    LATERAL call_all(request(1, jsonb_build_object('registry', registry))) AS c;
SELECT functions, outcome, regexp_replace(detail, 'registry is [^,]*', 'registry is (this one)') AS detail
FROM call_all(request(1, '{"registry": "5A0C3E0E-0D2F-4B7E-9A55-000000000001"}'));
SELECT outcome FROM snowflake_registry.status, LATERAL call('renew', request(1, jsonb_build_object('registry', upper(registry_id::text))));
-- Keys of each function.
SELECT function, keys, c.* FROM (VALUES
    ('acquire', '{"lease_id": null}'::jsonb), ('acquire', '{"nonce": 7}'), ('acquire', '{"nonce": "5a0c3e0e0d2f4b7e9a55000000000001"}'),
    ('acquire', '{"needs": null}'), ('acquire', '{"needs": []}'), ('acquire', '{"needs": "text"}'), ('acquire', '{"needs": {}}'),
    ('acquire', '{"needs": {"datacenter": 0}}'), ('acquire', '{"needs": {"worker_limit": 1024}}'),
    ('acquire', '{"needs": {"datacenter": null, "worker_limit": 1024}}'), ('acquire', '{"needs": {"datacenter": 0, "worker_limit": null}}'),
    ('renew', '{"lease_id": {}}'), ('renew', '{"last_nonce": null}'), ('renew', '{"next_nonce": "text"}'),
    ('release', '{"lease_id": 1}'), ('release', '{"last_nonce": ""}'), ('release', '{"next_nonce": null}'),
    ('take', '{"requests": null}'), ('take', '{"requests": {}}'), ('take_local', '{"requests": "orders"}')) AS k (function, keys),
    LATERAL call(function, request(1, keys)) AS c;
SELECT key, function, c.* FROM (VALUES ('lease_id', 'acquire'), ('nonce', 'acquire'), ('needs', 'acquire'), ('lease_id', 'renew'),
    ('last_nonce', 'renew'), ('next_nonce', 'renew'), ('lease_id', 'release'), ('last_nonce', 'release'), ('next_nonce', 'release'),
    ('requests', 'take'), ('requests', 'take_local')) AS k (key, function), LATERAL call(function, request(1) - key) AS c;
SELECT count(*) FROM snowflake_registry.lease;

-- Numbers are integers that fit. JSON has others.
SELECT left(clock::text, 30) AS clock, c.* FROM (VALUES ('1.5'::jsonb), ('1e400'), ('-1e400'), ('9223372036854775808'), ('-9223372036854775809'),
    ('1e-1'), ('1e130000'), ('"NaN"'), ('"Infinity"'), ('"1"'), ('""'), (to_jsonb(E'\x1b[2J\n' || repeat('x', 100000))), ('true'), ('[]'), ('{}'))
    AS n (clock), LATERAL call('renew', request(1, jsonb_build_object('clock', clock))) AS c;
SELECT clock, outcome, detail ~ '^the clock of the server is \d+ s (ahead of|behind) the clock of the registry' AS is_detailed
FROM (VALUES ('9007199254740992'::jsonb), ('9007199254740993'), ('9223372036854775807'), ('-9223372036854775808'), ('1.0'), ('1e3'), ('-0'))
    AS n (clock), LATERAL call('renew', request(1, jsonb_build_object('clock', clock)));
SELECT number, snowflake_registry.number_of(jsonb_build_object('a', number), 'a') FROM (VALUES ('9007199254740992'::jsonb), ('9007199254740993'),
    ('-9007199254740993'), ('9223372036854775807'), ('-9223372036854775808'), ('7.000'), ('1e18'), ('-0'), ('null')) AS n (number);
SELECT left(round_trip::text, 20) AS round_trip, c.* FROM (VALUES ('0.5'::jsonb), ('1e400'), ('"0"'), ('9223372036854775807'), ('-9223372036854775808')) AS n (round_trip),
    LATERAL call('renew', request(1, jsonb_build_object('round_trip', round_trip))) AS c;
SELECT needs, c.* FROM (VALUES ('{"datacenter": 1.5}'::jsonb), ('{"datacenter": "0"}'), ('{"datacenter": -1}'), ('{"datacenter": 2147483648}'),
    ('{"datacenter": 1e99}'), ('{"worker_limit": 0.5}'), ('{"worker_limit": -1}'), ('{"worker_limit": 2147483649}'), ('{"worker_limit": "1024"}'),
    ('{"pin": 0.1}'), ('{"pin": -1}'), ('{"pin": 2147483648}'), ('{"pin": 9007199254740993}'), ('{"pin": "5"}'), ('{"pin": [5]}'),
    ('{"unwanted": 5}'), ('{"unwanted": {}}'), ('{"unwanted": "1"}'), ('{"unwanted": [null]}'), ('{"unwanted": [0, null]}'), ('{"unwanted": ["1"]}'),
    ('{"unwanted": [1.5]}'), ('{"unwanted": [-1]}'), ('{"unwanted": [2147483648]}'), ('{"unwanted": [[1]]}'), ('{"unwanted": [true]}')) AS n (needs),
    LATERAL call('acquire', request(1, jsonb_build_object('needs', '{"datacenter": 0, "worker_limit": 1024}' || needs))) AS c;
SELECT listed, element, c.* FROM (VALUES (10001, '7'), (10001, 'null'), (10000, '"x"')) AS n (listed, element),
    LATERAL call('acquire', request(1, jsonb_build_object('needs', jsonb_build_object('datacenter', 0, 'worker_limit', 1024,
        'unwanted', ('[' || repeat(element || ', ', listed - 1) || element || ']')::jsonb)))) AS c;
-- So far, nothing has been granted.
SELECT count(*) FROM snowflake_registry.lease;
-- The role of this test holds the leases of several servers, for which reserve() would refuse to reserve.
CREATE OR REPLACE FUNCTION reserve_for_me(number int) RETURNS boolean LANGUAGE sql AS $$
    INSERT INTO snowflake_registry.lease (
        datacenter_id, worker_id, granted_from, granted_until, acquired_at, renewed_at, grant_count, is_reserved, reserved_for
    )
    SELECT 0, number, moment, moment, moment, moment, 0, true, session_user FROM clock_timestamp() AS moment
    ON CONFLICT (datacenter_id, worker_id) DO UPDATE SET is_reserved = true, reserved_for = session_user
    RETURNING is_reserved
$$;
-- A pinned worker ID must be reserved for the role.
SELECT reserve_for_me(n) AS is_reserved FROM generate_series(0, 3) AS n;
SELECT n, c.* FROM (VALUES (1, '{"pin": 3}'::jsonb), (2, '{"pin": null, "unwanted": null}'), (3, '{"pin": 1.0, "worker_limit": 2147483648}'),
    (4, '{"pin": 2, "worker_limit": 3.0, "unwanted": [3, 3, 1e0]}')) AS n (n, needs),
    LATERAL call('acquire', request(n, jsonb_build_object('needs', '{"datacenter": 0, "worker_limit": 1024}' || needs))) AS c;
SELECT snowflake_registry.give_up_reservation(n) FROM generate_series(0, 3) AS n;
SELECT outcome FROM call('acquire', request(5, jsonb_build_object('needs', jsonb_build_object('datacenter', 0, 'worker_limit', 10001,
    'unwanted', (SELECT jsonb_agg(n) FROM generate_series(0, 9999) AS n)))));
SELECT worker_id, state, protocol, node_name FROM snowflake_registry.fleet ORDER BY worker_id;

-- The size of a request is limited, and so is the number of requests for numbers.
SELECT bytes, functions, outcome, regexp_replace(detail, '\d{7} bytes', '(number) bytes') AS detail
FROM (VALUES (1040000), (1048577)) AS b (bytes), LATERAL call_all(request(11, jsonb_build_object('other', repeat('x', bytes))));
CREATE TABLE compressed AS SELECT request(1, jsonb_build_object('other', repeat('x', 2000000))) AS request;
SELECT pg_column_size(compressed.request) < 100000 AS is_compressed, c.outcome, split_part(c.detail, ' - ', 1) AS message
FROM compressed, LATERAL call('acquire', compressed.request) AS c;
DROP TABLE compressed;
SELECT count, function, outcome, detail FROM unnest(ARRAY[0, 64, 65]) AS count, unnest(ARRAY['take', 'take_local']) AS function,
    LATERAL call(function, request(1, jsonb_build_object('requests', (
        SELECT coalesce(jsonb_agg('{"name": "orders", "report": true}'::jsonb), '[]') FROM generate_series(1, count)))));
SELECT code, message, detail FROM sqlstate_of($$SELECT snowflake_registry.take(request(1, jsonb_build_object('requests', (
    SELECT jsonb_agg('{"name": "orders"}'::jsonb) FROM generate_series(1, 65)))))$$);

-- Keys that are not known are ignored, because later versions may send more.
SELECT function, keys, c.outcome, c.detail FROM (VALUES ('acquire', '{"lease": 5, "pin": 900, "worker_limit": 1, "Needs": 7, "protocol2": 9}'::jsonb),
    ('renew', '{"lease": 5, "nonce": 5, "needs": {"unheard_of": 1}, "fact": 5, "": null}'),
    ('take', '{"request": [], "facts": {"unheard_of": []}, "node_name": 7}'),
    ('take', '{"requests": [{"name": "orders", "protocol": 2, "tokens": 5, "unheard_of": 1}]}')) AS k (function, keys),
    LATERAL call(function, request(6, keys)) AS c;
SELECT worker_id, state FROM snowflake_registry.fleet WHERE worker_id = 900;
-- The range of a holder whose "used_until" is misspelled is used up.
SELECT outcome, round((free_from - clock()) / 60000000.0) AS free_in
FROM snowflake_registry.release((request(6) - 'used_until') || '{"used_untill": 0, "Used_until": 0}');
-- An identity that does not fit the needs of a server must not be granted.
CREATE TABLE before AS SELECT * FROM snowflake_registry.lease;
SELECT left(needs::text, 50) AS needs, outcome, detail FROM (VALUES ('{"datacentre": 0}'::jsonb), ('{"Pin": 5}'), ('{"pin ": null}'), ('{"": 1}'),
    ('{"unwnated": [1, 2]}'), ('{"worker_limits": 5, "zone": "a"}'), ('{"zone": "a", "pin": "invalid"}'),
    (jsonb_build_object(E'a\n\x1b[2J"' || repeat('x', 1000), 1))) AS n (needs),
    LATERAL call('acquire', request(7, jsonb_build_object('needs', '{"datacenter": 0, "worker_limit": 1024}' || needs)));
SELECT outcome, detail FROM call('acquire', request(7, '{"needs": {"datacenter": 0, "worker_limt": 1024}}'));
SELECT count(*) AS changed FROM (TABLE snowflake_registry.lease EXCEPT TABLE before) AS difference;
DROP TABLE before;
-- If a key is repeated, the last one counts.
SELECT said, c.* FROM (VALUES (1, ('{"protocol": 2, "needs": {"zone": 1}, ' || substr(request(8)::text, 2))::jsonb),
    (2, (left(request(8)::text, -1) || ', "protocol": 2}')::jsonb), (3, (left(request(8)::text, -1) || ', "needs": {"zone": 1}}')::jsonb),
    (4, (left(request(8)::text, -1) || ', "tokens": {}}')::jsonb),
    (5, request(9, '{"needs": {"datacenter": 9, "worker_limit": 1, "pin": 1, "worker_limit": 1024, "pin": null, "datacenter": 0}}'))) AS d (said, request),
    LATERAL call('acquire', request) AS c;
SELECT worker_id, grant_count FROM snowflake_registry.fleet ORDER BY worker_id;

-- What is in a list of tokens and not a token is ignored. A list has at most 128 elements.
CREATE FUNCTION tokens(before int, filler jsonb) RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_build_object('tokens', jsonb_agg(filler) || to_jsonb(snowflake_registry.signed('lease:0:700:1:1000000:2000000:1000:')))
    FROM generate_series(1, before)
$$;
SELECT c.* FROM call_all(request(10, '{"tokens": [7, null, true, 1e400, {"a": "b"}, ["word"], "", "word", ".", "lease:.00", ":.:", "\n\u001b[2J"]}')) AS c;
SELECT state FROM snowflake_registry.status;
BEGIN;
SELECT outcome, detail FROM call('renew', request(1, tokens(128, '"word"')));
SELECT state FROM snowflake_registry.status;
SELECT outcome FROM call('renew', request(1, tokens(127, '"word"')));
SELECT state, quarantine_reason FROM snowflake_registry.status;
ROLLBACK;
BEGIN;
SELECT outcome FROM call('renew', request(1, tokens(300, 'null')));
SELECT state FROM snowflake_registry.status;
ROLLBACK;
-- The tokens of a refused caller count, whatever else is wrong.
BEGIN;
SELECT outcome FROM call('acquire', request(10, '{"protocol": 2, "registry": 7}' || tokens(1, '7')));
SELECT state FROM snowflake_registry.status;
ROLLBACK;
BEGIN;
SELECT outcome FROM call('acquire', request(10, '{"needs": {"zone": 1}}' || tokens(1, '7')));
SELECT state FROM snowflake_registry.status;
ROLLBACK;
BEGIN;
SELECT outcome FROM call('take', request(10, '{"registry": "5a0c3e0e-0d2f-4b7e-9a55-000000000001"}' || tokens(1, '7')));
SELECT state FROM snowflake_registry.status;
ROLLBACK;
DROP FUNCTION tokens;

-- The number of the protocol. Any value may arrive.
SELECT left(protocol::text, 20) AS protocol, c.* FROM (VALUES ('0'::jsonb), ('2'), ('-1'), ('-0'), ('1.0'), ('1.5'), ('1e0'), ('1e9'), ('999999999'), ('1e20'), ('1e400'),
    ('"1.0"'), ('"one"'), ('""'), ('true'), ('[1]'), ('{"lowest": 1}'), (to_jsonb(repeat('1', 100000))),
    (to_jsonb(E'1\n'::text)), (to_jsonb(E'\t\x01\x1b[2J\x7fäöü' || repeat('x', 100)))) AS p (protocol),
    LATERAL call_all(request(10, jsonb_build_object('protocol', protocol))) AS c;
SELECT protocol, functions, outcome FROM (VALUES ('"1"'::jsonb), ('"0"'), ('["1"]')) AS p (protocol),
    LATERAL call_all(request(10, jsonb_build_object('protocol', protocol)));
SELECT count(*) AS not_printable FROM (VALUES (E'\n'), (E'\r\x0b\x0c'), (E'\x1b]0;x\x07')) AS t (said),
    LATERAL call('take', request(10, jsonb_build_object('protocol', said))) AS c WHERE c.detail ~ '[[:cntrl:]]';

-- A request of another protocol neither takes nor renews nor releases anything, whatever else is wrong with it.
CREATE TABLE before AS SELECT * FROM snowflake_registry.lease;
SELECT outcome, worker_id, registry_clock > 0 AS clock, lease, renew_every, registry_id IS NOT NULL AS registry, granted_until, token
FROM snowflake_registry.acquire(request(10, '{"protocol": 2}'));
SELECT request, name, outcome, first, token, registry_id IS NOT NULL AS registry, registry_clock > 0 AS clock
FROM snowflake_registry.take(request(10, '{"protocol": 2}'));
SELECT c.* FROM call_all(request(1, '{"protocol": 2}')) AS c;
SELECT c.* FROM call_all(request(1, '{"protocol": 2, "registry": "5a0c3e0e-0d2f-4b7e-9a55-000000000001", "clock": 0}')) AS c;
SELECT c.* FROM call_all(request(1, '{"protocol": 2, "registry": 7, "clock": "now", "round_trip": 1.5, "lease_id": 5, "nonce": null, "last_nonce": [],
    "next_nonce": {}, "used_until": "now", "needs": 7, "requests": {}, "facts": []}')) AS c;
SELECT count(*) AS changed FROM (TABLE snowflake_registry.lease EXCEPT TABLE before) AS difference;
SELECT next_value FROM snowflake_registry.segments WHERE name = 'orders' \gset before_
SELECT outcome FROM call('take', request(1, '{"protocol": 2}'));
SELECT next_value - :before_next_value AS taken FROM snowflake_registry.segments WHERE name = 'orders';
SELECT outcome FROM call('take', request(1));
SELECT next_value - :before_next_value AS taken FROM snowflake_registry.segments WHERE name = 'orders';
DROP TABLE before;

-- The protocol of each holder is known. That of a refused request is not recorded.
UPDATE snowflake_registry.lease SET protocol = 7 WHERE worker_id IN (3, 1);
SELECT outcome FROM call('renew', request(1, '{"protocol": 2}'));
SELECT worker_id, protocol FROM snowflake_registry.fleet WHERE worker_id IN (3, 1) ORDER BY worker_id;
SELECT outcome FROM call('renew', request(1));
SELECT worker_id, protocol FROM snowflake_registry.fleet WHERE worker_id IN (3, 1) ORDER BY worker_id;

-- A role that was granted the functions can call them.
SET SESSION AUTHORIZATION regress_snowflake_caller;
SELECT (snowflake_registry.acquire(request(20))).outcome, (snowflake_registry.renew(request(20))).outcome AS renew,
       (snowflake_registry.release(request(20))).outcome AS release, (snowflake_registry.take(request(20))).outcome AS take;
SELECT code, message FROM sqlstate_of('SELECT snowflake_registry.take_local(request(20))');
SELECT function, code, message FROM unnest(ARRAY['require_protocol(1)', 'protocols()', 'check_request(''{}'')', 'read_needs(''{}'')',
    'number_of(''{}'', '''')', 'uuid_of(''{}'', '''')', 'printable('''')']) AS function, LATERAL sqlstate_of('SELECT snowflake_registry.' || function);
RESET SESSION AUTHORIZATION;
SELECT snowflake_registry.grant_segment('another', 'regress_snowflake_caller');
SET SESSION AUTHORIZATION regress_snowflake_caller;
SELECT outcome FROM call('take', request(20));
RESET SESSION AUTHORIZATION;

-- A repeated acquire(): the holder did not receive the first answer, or it is an old copy of a holder that did. After a
-- quarantine, the nonce is not known. A renewed lease counts as renewed whatever the clock showed.
SELECT outcome FROM unnest(ARRAY[30, 31, 32, 33]) AS n, LATERAL call('acquire', request(n));
SELECT outcome FROM unnest(ARRAY[30, 31]) AS n, LATERAL call('renew', request(n));
UPDATE snowflake_registry.lease SET renewed_at = acquired_at WHERE lease_id = lease_id(31);
UPDATE snowflake_registry.lease SET renewed_at = acquired_at + interval '1 second' WHERE lease_id = lease_id(33);
SELECT snowflake_registry.quarantine() IS NOT NULL AS waits;
SELECT lease_id, nonce, renewed_at > acquired_at AS is_later, is_renewed FROM snowflake_registry.lease
WHERE lease_id BETWEEN lease_id(30) AND lease_id(33) ORDER BY 1;
SELECT n, outcome, regexp_replace(detail, 'ID \d+', 'ID (number)') AS detail FROM unnest(ARRAY[30, 31, 32, 33]) AS n, LATERAL call('acquire', request(n));
SELECT a.outcome, a.worker_id = lease.worker_id AND a.granted_until = snowflake_registry.microseconds(lease.granted_until) AS is_the_same
FROM snowflake_registry.lease, LATERAL snowflake_registry.acquire(request(32)) AS a WHERE lease_id = lease_id(32);
-- Its first renewal shows that it has received an answer.
SELECT outcome FROM call('renew', request(32));
SELECT outcome FROM call('acquire', request(32, jsonb_build_object('nonce', lease_id(99))));
SELECT snowflake_registry.quarantine() IS NOT NULL AS waits;
SELECT outcome FROM call('acquire', request(32));
SELECT outcome FROM call('acquire', request(40));
SELECT pass(33);
SELECT outcome FROM call('renew', request(33));
SELECT outcome FROM call('take', request(33));
SELECT snowflake_registry.end_quarantine(), snowflake_registry.resume_segments();
-- A token shows it too, even if the call is refused.
SELECT (snowflake_registry.acquire(request(34))).outcome;
SELECT answer.outcome FROM snowflake_registry.lease, LATERAL snowflake_registry.renew(request(34, jsonb_build_object('clock', 0, 'tokens',
    jsonb_build_array(snowflake_registry.signed(concat_ws(':', 'lease', datacenter_id, worker_id, grant_count,
        snowflake_registry.microseconds(granted_from), snowflake_registry.microseconds(granted_until) + 1000000, 1,
        snowflake_registry.mark_of(lease_id), ':')))))) AS answer
WHERE lease_id = lease_id(34);
SELECT state FROM snowflake_registry.status;
SELECT outcome FROM call('acquire', request(34));
SELECT snowflake_registry.end_quarantine(), snowflake_registry.resume_segments();
-- The next lease of the identity is new.
SELECT (snowflake_registry.renew(request(32))).outcome, (snowflake_registry.release(request(32))).outcome AS release;
SELECT pg_sleep(0.01) IS NOT NULL AS slept;
SELECT reserve_for_me(worker_id) AS is_reserved
FROM snowflake_registry.lease WHERE lease_id = lease_id(32);
SELECT outcome FROM snowflake_registry.lease, LATERAL call('acquire', request(41, jsonb_build_object('needs', jsonb_build_object(
    'datacenter', 0, 'worker_limit', 1024, 'pin', worker_id)))) WHERE lease_id = lease_id(32);
SELECT snowflake_registry.give_up_reservation(worker_id) FROM snowflake_registry.lease WHERE reserved_for IS NOT NULL;
SELECT is_renewed, grant_count FROM snowflake_registry.lease WHERE lease_id = lease_id(41);
SELECT snowflake_registry.quarantine() IS NOT NULL AS waits;
SELECT outcome FROM call('acquire', request(41));
SELECT snowflake_registry.end_quarantine(), snowflake_registry.resume_segments();

-- Once a lease was granted, the longest lease is not forgotten.
SELECT snowflake_registry.configure(lease => '5 minutes', renew_every => '10 seconds');
SELECT lease, longest_lease FROM snowflake_registry.status;
SELECT snowflake_registry.configure(lease => '20 minutes');
SELECT lease, longest_lease FROM snowflake_registry.status;
SELECT snowflake_registry.configure(lease => '10 minutes');
SELECT lease, longest_lease FROM snowflake_registry.status;
SELECT code, message, detail, hint FROM sqlstate_of($$UPDATE snowflake_registry.settings SET longest_lease = '10 minutes'$$);
SELECT state, longest_lease FROM snowflake_registry.status;

-- An update to a version that no longer knows a protocol waits until the last lease of that protocol has ended.
SELECT snowflake_registry.require_protocol(1);
SELECT code, message, regexp_replace(detail, '\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ', '(time)') AS detail, hint
FROM sqlstate_of('SELECT snowflake_registry.require_protocol(2)');
-- First, the holders renew, because the nonces of some are not known after the quarantine.
CREATE VIEW held AS SELECT n FROM generate_series(1, 50) AS n
    WHERE EXISTS (SELECT FROM snowflake_registry.lease WHERE lease_id = lease_id(n) AND used_until IS NULL);
SELECT call.outcome, count(*) FROM held, LATERAL call('renew', request(n)) GROUP BY call.outcome;
SELECT call.outcome, count(*) FROM held, LATERAL call('release', request(n)) GROUP BY call.outcome;
SELECT worker_id, state, protocol FROM snowflake_registry.fleet WHERE state NOT IN ('free', 'reserved') ORDER BY worker_id;
SELECT code, message, regexp_replace(detail, '\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ', '(time)') AS detail
FROM sqlstate_of('SELECT snowflake_registry.require_protocol(2)');
SELECT pass(6);
SELECT snowflake_registry.require_protocol(2);
SELECT outcome FROM call('acquire', request(42));
SELECT code FROM sqlstate_of('SELECT snowflake_registry.require_protocol(2)');
UPDATE snowflake_registry.lease SET protocol = 2 WHERE lease_id = lease_id(42);
SELECT snowflake_registry.require_protocol(2);
SELECT code, message FROM sqlstate_of('SELECT snowflake_registry.require_protocol(3)');
SELECT outcome FROM call('renew', request(42));
SELECT code FROM sqlstate_of('SELECT snowflake_registry.require_protocol(2)');

-- A token of a newer version proves that the registry was set back. It proves this once. What this registry has not signed
-- proves nothing.
SELECT outcome FROM call('renew', request(42, '{"tokens": ["lease2:0:1:2:3.00", "word", ""]}'));
SELECT state FROM snowflake_registry.status;
SELECT outcome FROM call('renew', request(42, jsonb_build_object('tokens', jsonb_build_array(
    snowflake_registry.signed('lease2:0:1:2:3'), snowflake_registry.signed('word'), snowflake_registry.signed('')))));
SELECT state, quarantine_reason FROM snowflake_registry.status;
SELECT requests[cardinality(requests) - 1:] AS last_two FROM snowflake_registry.settings;
SELECT snowflake_registry.what_tokens_prove(jsonb_build_array(snowflake_registry.signed('lease2:0:1:2:3')));

-- Each answer contains the protocols that the registry knows.
SELECT function, outcome, min(lowest_protocol) AS lowest, max(highest_protocol) AS highest,
       count(*) - count(lowest_protocol) + count(*) - count(highest_protocol) AS without
FROM seen GROUP BY function, outcome ORDER BY function COLLATE "C", outcome COLLATE "C";

-- Without its row, a registry that had one does nothing.
\set VERBOSITY terse
SET session_replication_role = replica;
BEGIN;
ALTER TABLE snowflake_registry.settings DISABLE TRIGGER USER;
DELETE FROM snowflake_registry.settings;
SAVEPOINT without_the_row;
SELECT snowflake_registry.start_fleet(0, 2147483647, first_start => true) <= clock_timestamp() AS is_started;
ROLLBACK TO without_the_row;
SELECT * FROM snowflake_registry.take(request(1));
ROLLBACK;
RESET session_replication_role;

-- Rows of another format are not accepted: see docs/design/versions.md.
UPDATE snowflake_registry.settings SET format = 2;

DROP VIEW held;
DROP FUNCTION call_all, call, request, pass, lease_id, clock;
DROP TABLE seen;
SET client_min_messages = warning;
DROP EXTENSION snowflake_id_registry CASCADE;
RESET client_min_messages;
DROP ROLE regress_snowflake_caller;
