-- Numbers without time, which the registry grants in ranges: what a single session can test. The tests in
-- tests/cluster/tests/registry cover the rest.
CREATE EXTENSION snowflake_id_registry;
CREATE FUNCTION request(requests jsonb, node text DEFAULT NULL, registry_id uuid DEFAULT NULL, tokens text[] DEFAULT '{}')
RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_build_object('protocol', 1, 'registry', registry_id, 'tokens', tokens, 'requests', requests,
                              'facts', jsonb_build_object('node_name', node))
$$;
-- A taker that needs no grant would not be counted.
SELECT * FROM snowflake_registry.take(request('[]'));
GRANT EXECUTE ON FUNCTION snowflake_registry.take(jsonb) TO pg_monitor;

-- A server's call, without parts of the reply that vary between runs.
CREATE FUNCTION taken(requests jsonb, is_ours boolean DEFAULT false, node text DEFAULT 'alpha', tokens text[] DEFAULT '{}')
RETURNS TABLE (request int, name text, outcome text, first bigint, count bigint, step bigint, detail text)
LANGUAGE sql AS $$
    SELECT t.request, t.name, t.outcome, t.first, t.count, t.step,
           regexp_replace(t.detail, '\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ', '(time)', 'g')
    FROM snowflake_registry.take(request(
        requests, node, CASE WHEN is_ours THEN (SELECT registry_id FROM snowflake_registry.status) END, tokens)) AS t
$$;
-- The registry's own server.
CREATE FUNCTION taken_here(requests jsonb) RETURNS TABLE (request int, outcome text) LANGUAGE sql AS $$
    SELECT t.request, t.outcome FROM snowflake_registry.take_local(
        request(requests, 'here', (SELECT registry_id FROM snowflake_registry.status))) AS t
$$;

-- No fleet has to be started. Without a request there is still one row.
SELECT t.name, t.outcome, t.detail, t.registry_clock BETWEEN 1700000000000000 AND 9000000000000000 AS has_clock
FROM snowflake_registry.take(request('[]')) AS t;
SELECT snowflake_registry.create_segment('orders');
SELECT state, live_leases FROM snowflake_registry.status;
SELECT t.name, t.outcome, t.first, t.increment, t.count, t.period_key, t.period_ends, t.step, t.max_value, t.detail,
       t.registry_id = s.registry_id AS is_this_one
FROM snowflake_registry.status AS s, snowflake_registry.take(request('[{"name": "orders"}]', 'alpha', s.registry_id)) AS t;

-- One row for each request, in the order of names. Unknown names do not affect the rest.
SELECT snowflake_registry.create_segment('Zebra', min_step => 5, max_step => 20);
SELECT snowflake_registry.create_segment(E'\n''"; ü', min_step => 7, max_step => 7);
SELECT snowflake_registry.create_segment(repeat('x', 255), start => 100, description => 'the longest name');
SELECT * FROM taken('[{"name": "orders"}, {"name": "nothing"}, {"name": "Zebra"}, {"name": "ORDERS"}, {"name": "orders"}]');
SELECT name, outcome FROM taken('[]');
SELECT * FROM taken(jsonb_build_array(jsonb_build_object('name', E'\n''"; ü')));
SELECT left(name, 20) AS name, state, next_value, increment, step, min_step, max_step, max_value, period, digits, time_zone, taken_by,
       taken_at > now() - interval '1 minute' AS was_taken
FROM snowflake_registry.segments;

-- A report without a number shows whether a segment exists. It locks no row and writes nothing.
BEGIN;
SELECT name, outcome, first, detail FROM taken('[{"name": "orders", "report": true}, {"name": "nothing", "report": true}]');
SELECT pg_current_xact_id_if_assigned() IS NULL AS wrote_nothing;
COMMIT;

-- The longest token is read.
SELECT octet_length(token) AS bytes, (SELECT length(name) FROM snowflake_registry.read_tokens(jsonb_build_array(token)))
FROM snowflake_registry.signed(concat('segment:', encode(repeat('x', 255)::bytea, 'hex'), ':', repeat('9', 20), ':', repeat('9', 20),
    ':9223372036854775807:', gen_random_uuid(), ':1795000000000000')) AS token;

-- Leaf's rule: 15 to 30 minutes, within the bounds. A server that reports how many numbers it used has its own step.
SELECT s.request, t.step, t.count
FROM (VALUES (1, '{"lasted": 899.9}'::jsonb), (2, '{"lasted": 10}'), (3, '{"lasted": 0}'), (4, '{"lasted": 900}'),
             (5, '{"lasted": 1800}'), (6, '{"lasted": 1800.1}'), (7, '{"lasted": 86400}'), (8, '{"lasted": 1e15}'),
             (9, '{"lasted": null}'), (10, '{"lasted": 1, "count": 9}'), (11, '{"lasted": 1900, "count": 16}'),
             (12, '{"lasted": 1000, "count": 13}'), (13, '{"lasted": 1, "count": 1000000000}'), (14, '{"lasted": 9000, "count": 0}'))
         AS s (request, said),
     LATERAL taken(jsonb_build_array('{"name": "Zebra"}' || s.said)) AS t
ORDER BY s.request;

-- The registry continues above numbers that a server had elsewhere. Unknown numbers of its own are a different case:
-- see below.
SELECT snowflake_registry.create_segment('moved', start => 10, increment => 7, min_step => 3, max_step => 3);
SELECT * FROM taken('[{"name": "moved"}]');
SELECT * FROM taken('[{"name": "moved", "had_until": 24}]');
SELECT * FROM taken('[{"name": "moved", "had_until": 1000}]');
SELECT * FROM taken('[{"name": "moved", "had_until": 2000, "registry_id": "00000000-0000-0000-0000-000000000001"}]', true);
SELECT * FROM taken('[{"name": "moved", "had_until": 3000, "registry_id": null}]', true);
-- Reporting them is enough. The registry knows its own grants.
SELECT request, outcome FROM taken('[{"name": "moved", "report": true, "had_until": 3500, "registry_id": null},
    {"name": "moved", "report": true, "had_until": 3400, "registry_id": null}, {"name": "moved", "report": true, "had_until": 4000},
    {"name": "unheard of", "report": true, "had_until": 5, "registry_id": null}]', true);
SELECT next_value FROM snowflake_registry.segments WHERE name = 'moved';
SELECT bool_and((first - 10) % 7 = 0) AS keeps_its_remainder FROM taken('[{"name": "moved"}, {"name": "moved"}]');
SELECT state FROM snowflake_registry.segments WHERE name = 'moved';

-- Two servers that share the numbers as a MySQL auto-increment pair does.
SELECT snowflake_registry.create_segment('odd', start => 1, increment => 2, min_step => 4, max_step => 4),
       snowflake_registry.create_segment('even', start => 2, increment => 2, min_step => 4, max_step => 4);
SELECT name, array_agg(first + k * 2 ORDER BY request, k) AS numbers
FROM taken('[{"name": "odd"}, {"name": "even"}, {"name": "odd"}, {"name": "even"}]') AS t, generate_series(0, t.count - 1) AS k
GROUP BY name;

-- Numbers are counted, not the distance between them.
SELECT name, next_value, numbers_granted FROM snowflake_registry.segments WHERE name = ANY ('{orders,even,moved}');

-- The end: the last range is shorter, and nothing overflows.
SELECT snowflake_registry.create_segment('last', start => 9223372036854775800, increment => 2, min_step => 3, max_step => 3),
       snowflake_registry.create_segment('very last', start => 9223372036854775807),
       snowflake_registry.create_segment('int4', start => 2147483640, increment => 3, max_value => 2147483647);
SELECT * FROM taken('[{"name": "last"}, {"name": "last"}, {"name": "last"}, {"name": "very last"}, {"name": "very last"}, {"name": "int4"},
                      {"name": "int4"}]');
SELECT * FROM taken('[{"name": "very last", "had_until": 9223372036854775807}]');
SELECT name, state, next_value FROM snowflake_registry.segments WHERE state <> 'open';
SELECT snowflake_registry.alter_segment('int4', max_value => 9223372036854775807);
SELECT * FROM taken('[{"name": "int4"}]');

-- A server's report may contain anything.
SELECT code, message, detail FROM sqlstate_of($$SELECT taken('{}')$$);
SELECT code, message, detail FROM sqlstate_of($$SELECT taken(NULL)$$);
SELECT code, message, detail FROM sqlstate_of($$SELECT taken((SELECT jsonb_agg('{"name": "a"}'::jsonb) FROM generate_series(1, 65)))$$);
SELECT count(*) FILTER (WHERE outcome = 'granted') AS granted
FROM taken((SELECT jsonb_agg('{"name": "orders"}'::jsonb) FROM generate_series(1, 64)));
SELECT said, code, message FROM (VALUES ('[7]'), ('[{"name": 7}]'), ('[{}]'), ('[null]'), ('[{"name": "orders"}, []]')) AS asked (said),
    LATERAL sqlstate_of(format('SELECT taken(%L)', said));
SELECT request, outcome, detail FROM taken('[{"name": "orders", "had_until": -1}, {"name": "orders", "had_until": "7"}, {"name": "orders", "had_until": 1.5},
    {"name": "orders", "had_until": 9223372036854775808}, {"name": "orders", "had_until": 1e300}, {"name": "orders", "lasted": -1},
    {"name": "orders", "lasted": []}, {"name": "orders", "count": 1e10}, {"name": "orders", "period_key": true}, {"name": "", "had_until": 1},
    {"name": "orders", "next": "yes", "registry_id": {"a": 1}, "unheard_of": 1}]');
SELECT outcome FROM taken('[{"name": "Zebra"}]', node => E'e\nv\x1bil ' || repeat('x', 300));
SELECT left(taken_by, 9) AS taken_by, length(taken_by) FROM snowflake_registry.segments WHERE name = 'Zebra';
SELECT name, outcome, regexp_replace(detail, 'registry is [^,]*', 'registry is (this one)') AS detail
FROM snowflake_registry.take(request('[{"name": "orders"}]', registry_id => '00000000-0000-0000-0000-000000000001'));

-- The changes of a transaction are counted once, because they can only be lost together. What was rolled back is not counted.
SELECT serial AS serial_before FROM snowflake_registry.status \gset
SELECT count(snowflake_registry.create_segment('counted ' || n)) FROM generate_series(1, 100) AS n;
SELECT serial - :serial_before AS counted FROM snowflake_registry.status;
BEGIN;
SAVEPOINT before;
SELECT snowflake_registry.create_segment('counted 101');
ROLLBACK TO before;
SELECT snowflake_registry.create_segment('counted 102'), snowflake_registry.drop_segment('counted 1');
COMMIT;
SELECT serial - :serial_before AS counted FROM snowflake_registry.status;
SELECT snowflake_registry.drop_segment('counted 2');
SELECT serial - :serial_before AS counted FROM snowflake_registry.status;
SELECT count(snowflake_registry.drop_segment(name)) FROM snowflake_registry.segments WHERE name LIKE 'counted%' AND state <> 'dropped';

-- A notice says once that servers may need another setting.
BEGIN;
INSERT INTO snowflake_registry.segment SELECT made.*
FROM snowflake_registry.segment AS segment,
     generate_series(1, 3276 - (SELECT count(*)::int FROM snowflake_registry.segments WHERE state <> 'dropped')) AS n,
     jsonb_populate_record(segment, jsonb_build_object('name', 'many ' || n)) AS made
WHERE segment.name = 'Zebra';
SELECT snowflake_registry.create_segment('the 3277th');
SELECT snowflake_registry.create_segment('the 3278th');
ROLLBACK;

-- Arguments of administrators.
SELECT snowflake_registry.create_segment(name => 'cheap', min_step => 1, max_step => 1);
SELECT n, code, message, detail, hint FROM (VALUES
    (1, $$'orders'$$), (2, $$''$$), (3, $$repeat('ü', 128)$$), (4, $$NULL$$), (5, $$'a', start => -1$$), (6, $$'a', start => 8, max_value => 7$$),
    (7, $$'a', increment => 0$$), (8, $$'a', increment => 1000000001$$), (9, $$'a', min_step => 0$$), (10, $$'a', min_step => 2000000$$),
    (11, $$'a', max_step => 1000000001$$), (12, $$'a', max_step => NULL$$), (13, $$'a', start => NULL$$), (14, $$'a', digits => 6$$),
    (15, $$'a', time_zone => 'Europe/Berlin'$$), (16, $$'a', period => 'week', digits => 6$$), (17, $$'a', period => 'day'$$),
    (18, $$'a', period => 'day', digits => 12$$), (19, $$'a', period => 'month', digits => 14$$), (20, $$'a', period => 'year', digits => 16$$),
    (21, $$'a', period => 'day', digits => 0$$), (22, $$'a', period => 'day', digits => 2, start => 100$$),
    (23, $$'a', period => 'month', digits => 1, start => 10$$), (24, $$'a', period => 'day', digits => 2, time_zone => 'Europe/Berlyn'$$),
    (25, $$'a', period => 'day', digits => 2, time_zone => '+05:30'$$), (26, $$'a', period => 'day', digits => 2, time_zone => NULL$$),
    (27, $$'a', period => 'year', digits => 2, max_value => 200001$$), (28, $$'a', description => repeat('ü', 513)$$)) AS made (n, arguments),
    LATERAL sqlstate_of(format('SELECT snowflake_registry.create_segment(%s)', arguments))
ORDER BY n;
SELECT n, code, message, detail, hint FROM (VALUES
    (1, $$'nothing', min_step => 1$$), (2, $$'cheap', min_step => 2$$), (3, $$'cheap', max_step => 0$$), (4, $$'orders', max_value => 1$$),
    (5, $$'orders', next_value => 1$$), (6, $$NULL$$)) AS altered (n, arguments),
    LATERAL sqlstate_of(format('SELECT snowflake_registry.alter_segment(%s)', arguments))
ORDER BY n;
SELECT code, message, hint FROM sqlstate_of($$SELECT snowflake_registry.drop_segment('nothing')$$);
SELECT code, message, hint FROM sqlstate_of($$SELECT snowflake_registry.resume_segment('orders', 1000000)$$);
SELECT code, message, hint FROM sqlstate_of($$SELECT snowflake_registry.resume_segment('orders', NULL)$$);

-- Properties that may change.
SELECT snowflake_registry.alter_segment('cheap', min_step => 10, max_step => 100);
SELECT name, first, count FROM taken('[{"name": "cheap", "lasted": 1}]');
SELECT snowflake_registry.alter_segment('cheap', min_step => 2, max_step => 3);
SELECT snowflake_registry.alter_segment('cheap', next_value => 500);
SELECT name, first, count FROM taken('[{"name": "cheap"}]');
SELECT code, detail FROM sqlstate_of($$SELECT snowflake_registry.alter_segment('cheap', max_value => 501)$$);
SELECT snowflake_registry.alter_segment('cheap', max_value => 502);
SELECT outcome, detail FROM taken('[{"name": "cheap"}]');
SELECT snowflake_registry.alter_segment('moved', next_value => 5000);
SELECT first, (first - 10) % 7 AS remainder FROM taken('[{"name": "moved"}]');

SELECT snowflake_registry.alter_segment('cheap', description => 'ein Spaß');
SELECT snowflake_registry.alter_segment('cheap', max_step => 4);
SELECT description, max_step FROM snowflake_registry.segments WHERE name = 'cheap';
SELECT snowflake_registry.alter_segment('cheap', description => '');
SELECT description IS NULL AS has_none FROM snowflake_registry.segments WHERE name = 'cheap';

-- Dropped and created again: the numbers continue above, whatever the new definition.
SELECT snowflake_registry.drop_segment('orders');
SELECT * FROM taken('[{"name": "orders"}]');
SELECT name, state, next_value FROM snowflake_registry.segments WHERE name = 'orders';
SELECT code, message FROM sqlstate_of($$SELECT snowflake_registry.drop_segment('orders')$$);
SELECT snowflake_registry.create_segment('orders');
SELECT name, outcome, first FROM taken('[{"name": "orders"}]');
SELECT snowflake_registry.drop_segment('orders');
SELECT snowflake_registry.create_segment('orders', start => 3, increment => 1000, min_step => 2, max_step => 2);
SELECT name, outcome, first FROM taken('[{"name": "orders"}]');
SELECT snowflake_registry.drop_segment('orders');
SELECT code, message, detail FROM sqlstate_of($$SELECT snowflake_registry.create_segment('orders', max_value => 70000)$$);
SELECT snowflake_registry.create_segment('orders', start => 1000000);
SELECT name, outcome, first FROM taken('[{"name": "orders"}]');
SELECT next_value, numbers_granted FROM snowflake_registry.segments WHERE name = 'orders';

-- Grants cannot be deleted, even by the owner.
SELECT code, message, detail, hint FROM sqlstate_of($$UPDATE snowflake_registry.segment SET next_value = next_value - 1$$);
SELECT code, detail FROM sqlstate_of($$UPDATE snowflake_registry.segment SET name = name || 'a' WHERE name = 'cheap'$$);
SELECT code, detail FROM sqlstate_of($$DELETE FROM snowflake_registry.segment$$);
SELECT code, detail FROM sqlstate_of($$TRUNCATE snowflake_registry.segment$$);

-- Numbers by date. The server's clock cannot be set here, so values that depend on it are calculated.
CREATE FUNCTION today(form text DEFAULT 'YYYYMMDD', zone text DEFAULT 'UTC') RETURNS bigint LANGUAGE sql AS
    $$SELECT to_char(clock_timestamp() AT TIME ZONE zone, form)::bigint$$;
CREATE FUNCTION microseconds(instant timestamptz) RETURNS bigint LANGUAGE sql AS
    $$SELECT (extract(epoch FROM instant) * 1000000)::bigint$$;
SELECT snowflake_registry.create_segment('by day', period => 'day', digits => 6, min_step => 10, max_step => 10),
       snowflake_registry.create_segment('by month', period => 'month', digits => 1, start => 2, increment => 3, time_zone => 'asia/kathmandu'),
       snowflake_registry.create_segment('by year', period => 'year', digits => 15, time_zone => 'Pacific/Kiritimati'),
       snowflake_registry.create_segment('int4 by year', period => 'year', digits => 5, max_value => 2147483647);
SELECT name, period, digits, time_zone FROM snowflake_registry.segments WHERE period IS NOT NULL;
SELECT t.name, t.outcome, t.first - today() * 1000000 AS serial, t.count, t.period_key - today() AS key,
       t.period_starts - microseconds(date_trunc('day', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC') AS starts,
       (t.period_ends - t.period_starts) / 3600000000.0 AS hours
FROM snowflake_registry.take(request('[{"name": "by day"}, {"name": "by day"}]', 'alpha')) AS t;
SELECT t.first - today('YYYYMM', 'Asia/Kathmandu') * 10 AS serial, t.increment, t.count,
       to_char(to_timestamp(t.period_ends / 1000000) AT TIME ZONE 'Asia/Kathmandu', 'DD HH24:MI:SS') AS ends
FROM snowflake_registry.take(request('[{"name": "by month"}]', 'alpha')) AS t;
SELECT outcome, regexp_replace(detail, '\d{6}', '(month)') AS detail FROM taken('[{"name": "by month"}]');
SELECT state, numbers_granted FROM snowflake_registry.segments WHERE name = 'by month';
SELECT t.first - today('YYYY', 'Pacific/Kiritimati') * 1000000000000000 AS serial,
       to_char(to_timestamp(t.period_ends / 1000000) AT TIME ZONE 'Pacific/Kiritimati', 'MM-DD HH24:MI:SS') AS ends
FROM snowflake_registry.take(request('[{"name": "by year"}]', 'alpha')) AS t;
-- The next period beside this one: each has its own serial numbers.
SELECT t.request, t.first % 1000000 AS serial, t.period_key = today() AS is_today, t.period_starts > microseconds(now()) AS is_later
FROM snowflake_registry.take(request(jsonb_build_array(
    jsonb_build_object('name', 'by day', 'next', true), jsonb_build_object('name', 'by day', 'had_until', today() * 1000000 + 20),
    jsonb_build_object('name', 'by day', 'next', true, 'period_key', today()),
    -- A server whose day has ended meanwhile is given numbers of today.
    jsonb_build_object('name', 'by day', 'next', true, 'period_key', today() - 1)))) AS t;
SELECT numbers_granted FROM snowflake_registry.segments WHERE name = 'by day';
-- A server with numbers of the next day stays there, and continues above them. A server with numbers of another month
-- is refused.
SELECT t.request, t.outcome, t.first % 1000000 AS serial, t.period_key > today() AS is_later
FROM (SELECT key_after AS tomorrow FROM snowflake_registry.key_after('day', today())) AS day,
     LATERAL snowflake_registry.take(request(jsonb_build_array(
    jsonb_build_object('name', 'by day', 'had_until', tomorrow * 1000000 + 99, 'period_key', tomorrow),
    jsonb_build_object('name', 'by day', 'period_key', tomorrow),
    jsonb_build_object('name', 'by day', 'period_key', tomorrow + 200),
    jsonb_build_object('name', 'by day', 'had_until', 42, 'period_key', today())))) AS t;
-- The first serial may be 0.
SELECT snowflake_registry.create_segment('from 0', period => 'year', digits => 1, start => 0, min_step => 4, max_step => 4);
SELECT outcome, t.first - today('YYYY') * 10 AS serial, count FROM taken((SELECT jsonb_agg('{"name": "from 0"}'::jsonb) FROM generate_series(1, 4))) AS t;
SELECT t.outcome, t.first % 10 AS serial, t.period_key - today('YYYY') AS key
FROM snowflake_registry.take(request('[{"name": "from 0", "next": true}]', 'alpha')) AS t;
SELECT state FROM snowflake_registry.segments WHERE name = 'from 0';
-- Days, months and years as they are.
SELECT zone, key, snowflake_registry.period_begins('day', zone, key) AT TIME ZONE 'UTC' AS begins,
       snowflake_registry.period_begins('day', zone, snowflake_registry.key_after('day', key))
           - snowflake_registry.period_begins('day', zone, key) AS lasts
FROM (VALUES ('Europe/Berlin', 20251026::bigint), ('Europe/Berlin', 20250330), ('America/Havana', 20251101), ('America/Havana', 20251102),
             ('Atlantic/Azores', 20251025), ('America/St_Johns', 20101106), ('America/Sao_Paulo', 20181104), ('America/Sao_Paulo', 20180217),
             ('Australia/Lord_Howe', 20250406), ('Asia/Kathmandu', 20240229), ('Pacific/Apia', 20111229), ('UTC', 20241231)) AS day (zone, key);
SELECT period, key, snowflake_registry.key_after(period, key)
FROM (VALUES ('day', 20261231::bigint), ('day', 20240228), ('day', 20230228), ('month', 202612), ('month', 202601), ('year', 2026)) AS period (period, key);
-- An unknown time zone affects no other segment.
UPDATE snowflake_registry.segment SET time_zone = 'Europe/Atlantis' WHERE name = 'by year';
SELECT request, name, outcome, detail FROM taken('[{"name": "by year"}, {"name": "moved"}]');
UPDATE snowflake_registry.segment SET time_zone = 'UTC' WHERE name = 'by year';
-- Dropped and created again: the same periods continue, other periods only above them.
SELECT snowflake_registry.drop_segment('by day');
SELECT snowflake_registry.create_segment('by day', period => 'day', digits => 6, start => 4, increment => 100);
SELECT t.first - today() * 1000000 AS serial FROM taken('[{"name": "by day"}]') AS t;
SELECT t.first % 1000000 AS serial FROM taken('[{"name": "by day", "next": true}]') AS t;
SELECT snowflake_registry.drop_segment('by day');
SELECT code, message, hint FROM sqlstate_of($$SELECT snowflake_registry.create_segment('by day', period => 'month', digits => 6)$$);
SELECT snowflake_registry.create_segment('by day', period => 'month', digits => 9);
SELECT outcome, t.first - today('YYYYMM') * 1000000000 AS serial FROM taken('[{"name": "by day"}]') AS t;

-- A number that no loss can explain is invalid: nothing is closed, and no numbers are skipped.
SELECT snowflake_registry.create_segment('made up'), snowflake_registry.create_segment('made-up day', period => 'day', digits => 6);
SELECT outcome FROM taken('[{"name": "made up"}, {"name": "made-up day"}]', true);
SELECT outcome, detail FROM taken('[{"name": "made up", "had_until": 9000000000000000000}]', true);
SELECT outcome FROM taken('[{"name": "made-up day", "had_until": 99991231000001}]', true);
SELECT name, state, next_value < 10000 AS has_numbers FROM snowflake_registry.segments WHERE name = 'made up' ;
SELECT count(*) FROM snowflake_registry.segments WHERE state = 'closed';

-- A server was granted more than the registry knows, so commits were lost. All segments are closed, and new leases
-- wait.
SELECT snowflake_registry.create_segment('lost');
SELECT outcome, first FROM taken('[{"name": "lost"}]', true);
SELECT outcome, first FROM taken('[{"name": "lost", "had_until": 1000}]', true);
-- A server's report proves nothing unless the registry has signed it.
SELECT name, outcome, detail FROM taken('[{"name": "lost", "had_until": 2001}]', true);
SELECT name, outcome, detail FROM taken('[{"name": "even"}, {"name": "lost"}]',
                                        tokens => ARRAY['segment:6c6f7374:9999::0.00', snowflake_registry.signed('segment:6c6f7374:2002::0')]);
SELECT state, count(*), min(seen_until) AS seen_until FROM snowflake_registry.segments GROUP BY state ORDER BY state;
-- For unknown names it can report no more.
SELECT name, outcome, detail FROM taken('[{"name": "forgotten", "had_until": 7}]', true);
-- Dropped and created again, its earlier numbers are still not known.
SELECT snowflake_registry.drop_segment('even'), snowflake_registry.create_segment('even', increment => 2);
SELECT outcome FROM taken('[{"name": "even"}]');
SELECT code, message, hint FROM sqlstate_of($$SELECT snowflake_registry.alter_segment('lost', next_value => 5000)$$);
-- Reports of the registry's own server are kept meanwhile, but no others.
SELECT outcome FROM taken_here('[{"name": "lost", "had_until": 3000}]');
SELECT outcome FROM taken_here('[{"name": "lost", "had_until": 1500}]');
SELECT outcome FROM taken('[{"name": "lost", "had_until": 9000}]', true);
SELECT outcome FROM taken('[{"name": "lost", "had_until": 9000}]', false);
-- Except for an invalid number, after which the segment could never be opened again.
SELECT outcome FROM taken_here('[{"name": "lost", "had_until": 9223372036854775807}, {"name": "made-up day", "had_until": 99991231000001}]');
SELECT state, next_value, seen_until FROM snowflake_registry.segments WHERE name = 'lost';
SELECT seen_until FROM snowflake_registry.segments WHERE name = 'made-up day';
SELECT code, message, detail FROM sqlstate_of($$SELECT snowflake_registry.resume_segment('lost', 3000)$$);
SELECT snowflake_registry.resume_segments() > 10 AS all_but_one;
SELECT name, closed_reason FROM snowflake_registry.segments WHERE state = 'closed';
SELECT snowflake_registry.resume_segment('lost', 3001);
SELECT outcome, first FROM taken('[{"name": "lost", "had_until": 3000}]', true);
SELECT outcome, first FROM taken('[{"name": "even"}]');
SELECT count(*) FROM snowflake_registry.segments WHERE state = 'closed';
-- The same for a day's numbers: the reported number includes the days before, and is a date.
SELECT snowflake_registry.create_segment('lost day', period => 'day', digits => 6);
SELECT outcome FROM taken('[{"name": "lost day"}]', true);
SELECT t.name, t.outcome FROM taken('[{"name": "lost day"}]', tokens => ARRAY[
    snowflake_registry.signed(concat('segment:6c6f737420646179:', today() * 1000000 + 1, ':',
                                     snowflake_registry.key_after('day', today()) * 1000000 + 6, ':0'))]) AS t;
SELECT code, replace(message, today()::text, 'YYYYMMDD') AS message
FROM sqlstate_of(format($$SELECT snowflake_registry.resume_segment('lost day', %s)$$, today() * 1000000 + 5000));
SELECT code, message FROM sqlstate_of($$SELECT snowflake_registry.resume_segment('lost day', 99991399000001)$$);
-- The notice would contain today's date.
SET client_min_messages = warning;
SELECT snowflake_registry.resume_segment('lost day', snowflake_registry.key_after('day', today()) * 1000000 + 6);
RESET client_min_messages;
SELECT t.outcome, t.first % 1000000 AS serial, t.period_key > today() AS is_tomorrow
FROM snowflake_registry.take(request('[{"name": "lost day"}]')) AS t;
SELECT snowflake_registry.resume_segments() > 10 AS all_others;
-- The administrator knows better. Settings that were changed by hand.
SELECT snowflake_registry.quarantine() IS NOT NULL AS waits;
SELECT outcome, detail FROM taken('[{"name": "odd"}]');
SELECT snowflake_registry.end_quarantine();
SELECT outcome FROM taken('[{"name": "odd"}]');
SELECT snowflake_registry.resume_segments() > 10 AS all_of_them;
UPDATE snowflake_registry.settings SET last_datacenter = 500;
SELECT outcome, detail FROM taken('[{"name": "odd"}]');
SELECT snowflake_registry.resume_segments() > 10 AS all_of_them;
SELECT outcome FROM taken('[{"name": "odd"}]');

-- The registry's own server is not blocked while it is the only one that takes.
REVOKE EXECUTE ON FUNCTION snowflake_registry.take(jsonb) FROM pg_monitor;
SELECT snowflake_registry.create_segment('home');
SELECT outcome, first FROM snowflake_registry.take_local(request('[{"name": "home"}]', 'here'));
SELECT snowflake_registry.quarantine() IS NOT NULL AS waits;
SELECT t.name, t.outcome, t.first FROM snowflake_registry.status AS s,
    snowflake_registry.take_local(request('[{"name": "home", "had_until": 7000}, {"name": "odd"}]', 'here', s.registry_id)) AS t;
SELECT state FROM snowflake_registry.segments WHERE name = 'home';
SELECT snowflake_registry.end_quarantine(), snowflake_registry.resume_segments() > 10 AS all_others;
-- A segment from which others took numbers, although they no longer may.
GRANT EXECUTE ON FUNCTION snowflake_registry.take(jsonb) TO pg_monitor;
SELECT outcome, first FROM taken('[{"name": "home"}]');
REVOKE EXECUTE ON FUNCTION snowflake_registry.take(jsonb) FROM pg_monitor;
SELECT snowflake_registry.quarantine() IS NOT NULL AS waits;
SELECT outcome FROM snowflake_registry.take_local(request('[{"name": "home"}]', 'here'));
SELECT snowflake_registry.end_quarantine(), snowflake_registry.resume_segments() > 10 AS all_of_them;
-- A segment from which others may take: perhaps they did.
SELECT snowflake_registry.create_segment('open house');
CREATE ROLE regress_fleet;
GRANT USAGE ON SCHEMA snowflake_registry TO regress_fleet;
GRANT EXECUTE ON FUNCTION snowflake_registry.take(jsonb) TO regress_fleet;
SELECT snowflake_registry.quarantine() IS NOT NULL AS waits;
SELECT outcome FROM snowflake_registry.take_local(request('[{"name": "open house"}]', 'here'));
SELECT snowflake_registry.end_quarantine(), snowflake_registry.resume_segments() > 10 AS all_of_them;

-- A server's role can take, and cannot be exploited.
CREATE SCHEMA trap AUTHORIZATION regress_fleet;
SET ROLE regress_fleet;
CREATE FUNCTION trap.sprung(numeric, numeric) RETURNS boolean LANGUAGE plpgsql AS $$BEGIN RAISE EXCEPTION 'sprung as %', current_user; END$$;
CREATE FUNCTION trap.sprung(text, text) RETURNS boolean LANGUAGE plpgsql AS $$BEGIN RAISE EXCEPTION 'sprung as %', current_user; END$$;
CREATE FUNCTION trap.clock_timestamp() RETURNS timestamptz LANGUAGE plpgsql AS $$BEGIN RAISE EXCEPTION 'sprung as %', current_user; END$$;
CREATE OPERATOR trap.= (LEFTARG = text, RIGHTARG = text, FUNCTION = trap.sprung);
CREATE OPERATOR trap.<= (LEFTARG = numeric, RIGHTARG = numeric, FUNCTION = trap.sprung);
CREATE OPERATOR trap.> (LEFTARG = numeric, RIGHTARG = numeric, FUNCTION = trap.sprung);
CREATE TEMPORARY TABLE segment (name text);
SELECT current_setting('server_version_num')::int < 190000 AS has_old_strings \gset
SET search_path = trap, pg_temp, pg_catalog;
\if :has_old_strings
SET standard_conforming_strings = off;
\endif
SET TimeZone = 'Pacific/Kiritimati';
SET DateStyle = 'Postgres, DMY';
SET extra_float_digits = -15;
SELECT name, outcome, first FROM snowflake_registry.take(
    '{"protocol": 1, "registry": null, "tokens": ["a"], "requests": [{"name": "home"}, {"name": "int4 by year"}], "facts": {"node_name": "mallory"}}')
WHERE name OPERATOR(pg_catalog.=) 'home';
RESET search_path;
RESET standard_conforming_strings;
RESET TimeZone;
RESET DateStyle;
RESET extra_float_digits;
DROP TABLE pg_temp.segment;
SELECT statement, code, message FROM (VALUES ($$SELECT * FROM snowflake_registry.segment$$), ($$SELECT * FROM snowflake_registry.segments$$),
    ($$SELECT snowflake_registry.take_local('{}')$$), ($$SELECT snowflake_registry.take_ranges('{}', true)$$),
    ($$SELECT snowflake_registry.create_segment('a')$$), ($$SELECT snowflake_registry.alter_segment('home', next_value => 90000)$$),
    ($$SELECT snowflake_registry.drop_segment('home')$$), ($$SELECT snowflake_registry.resume_segment('home', 90000)$$),
    ($$SELECT snowflake_registry.resume_segments()$$)) AS tried (statement), LATERAL sqlstate_of(statement);
RESET ROLE;
SET ROLE pg_monitor;
SELECT count(*) > 10 AS sees, count(*) FILTER (WHERE state = 'exhausted') AS exhausted FROM snowflake_registry.segments;
SELECT code, message FROM sqlstate_of('SELECT * FROM snowflake_registry.segment');
RESET ROLE;
SET client_min_messages = warning;
DROP OWNED BY regress_fleet CASCADE;
RESET client_min_messages;
DROP ROLE regress_fleet;
GRANT EXECUTE ON FUNCTION snowflake_registry.take(jsonb) TO pg_monitor;

-- A snapshot older than the locks would not see what others took.
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT code, message FROM sqlstate_of($$SELECT taken('[]')$$);
ROLLBACK;

-- The extension cannot be dropped by mistake while there are segments.
DROP EXTENSION snowflake_id_registry;
DO $$
DECLARE
    open_one text;
BEGIN
    FOR open_one IN SELECT name FROM snowflake_registry.segments WHERE state <> 'dropped' LOOP
        PERFORM snowflake_registry.drop_segment(open_one);
    END LOOP;
END
$$;
SELECT name, outcome FROM taken('[]');
DROP EXTENSION snowflake_id_registry;
DROP FUNCTION taken, taken_here, request, today, microseconds;
