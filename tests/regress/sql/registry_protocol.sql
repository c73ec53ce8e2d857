-- The number of the protocol in requests to the registry. A request of another protocol is refused, and changes nothing.
CREATE EXTENSION snowflake_id_registry;
SELECT snowflake_registry.start_fleet();
SELECT snowflake_registry.create_segment('orders');
CREATE ROLE regress_snowflake_taker;
GRANT EXECUTE ON FUNCTION snowflake_registry.take TO regress_snowflake_taker;
CREATE FUNCTION clock() RETURNS bigint LANGUAGE sql AS 'SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint';
CREATE FUNCTION lease_id(n int) RETURNS uuid LANGUAGE sql AS $$SELECT ('5a0c3e0e-0d2f-4b7e-9a55-' || lpad(n::text, 12, '0'))::uuid$$;
CREATE FUNCTION acquire(n int, facts jsonb) RETURNS snowflake_registry.answer LANGUAGE sql AS $$
    SELECT snowflake_registry.acquire(NULL, clock(), 0, lease_id(n), lease_id(n), facts, 0, NULL, 1024, NULL)
$$;
CREATE FUNCTION renew(n int, facts jsonb) RETURNS snowflake_registry.answer LANGUAGE sql AS $$
    SELECT snowflake_registry.renew(NULL, clock(), 0, lease_id(n), lease_id(n), lease_id(n), facts)
$$;
CREATE FUNCTION release(n int, facts jsonb) RETURNS snowflake_registry.answer LANGUAGE sql AS $$
    SELECT snowflake_registry.release(NULL, lease_id(n), lease_id(n), lease_id(n), clock(), facts)
$$;

-- A request without a number has protocol 1. Any value may arrive.
SELECT facts, (acquire(row_number() OVER ()::int, facts)).outcome FROM (VALUES
    (NULL::jsonb), ('{}'), ('[]'), ('"protocol"'), ('{"protocol": null}'), ('{"protocol": 1}')) AS f (facts);
SELECT left(facts::text, 40) AS facts, outcome, detail, worker_id, registry_clock > 0 AS clock, lease, token
FROM (VALUES ('{"protocol": 0}'::jsonb), ('{"protocol": 2}'), ('{"protocol": -1}'), ('{"protocol": 1.5}'), ('{"protocol": 1e20}'),
    ('{"protocol": 999999999999}'), ('{"protocol": "1"}'), ('{"protocol": [1]}'), ('{"protocol": true}'),
    (jsonb_build_object('protocol', repeat('1', 100000)))) AS f (facts),
    LATERAL acquire(100, facts);

-- A request of another protocol neither takes nor renews nor releases anything, whatever else is wrong with it.
CREATE TABLE before AS SELECT * FROM snowflake_registry.lease;
SELECT (renew(1, '{"protocol": 2}')).outcome, (release(1, '{"protocol": 2}')).outcome AS release,
       (snowflake_registry.acquire('5a0c3e0e-0d2f-4b7e-9a55-000000000000', 0, 0, lease_id(100), lease_id(100),
                                   '{"protocol": 2}', 0, NULL, 1024, NULL)).outcome AS acquire;
SELECT count(*) AS changed FROM (TABLE before EXCEPT TABLE snowflake_registry.lease) AS difference;
SELECT (renew(1, '{"protocol": 1}')).outcome, (release(1, '{"protocol": 1}')).outcome AS release;

-- One request of another protocol refuses the whole call, because the reply has one protocol.
SELECT request, name, outcome, detail, first, token, registry_id IS NOT NULL AS registry
FROM snowflake_registry.take(NULL, '[{"protocol": 1, "name": "orders"}, {"protocol": 2, "items": ["orders"]}]', 'server');
SELECT outcome FROM snowflake_registry.take_local(NULL, '[{"protocol": 0, "name": "orders"}]', 'server');
SELECT outcome FROM snowflake_registry.take('5a0c3e0e-0d2f-4b7e-9a55-000000000000', '[{"protocol": {}, "name": "orders"}]', 'server');
SELECT name, outcome, first FROM snowflake_registry.take(NULL, '[{"protocol": 1, "name": "orders"}, {"name": "orders"}]', 'server');

-- A token of a newer version proves that the registry was set back. It proves this once. What this registry has not signed
-- proves nothing.
SELECT outcome FROM renew(2, '{"tokens": ["lease2:0:1:2:3.00", "word", ""]}');
SELECT state FROM snowflake_registry.status;
SELECT outcome FROM renew(2, jsonb_build_object('tokens', jsonb_build_array(
    snowflake_registry.signed('lease2:0:1:2:3'), snowflake_registry.signed('word'), snowflake_registry.signed(''))));
SELECT state, quarantine_reason FROM snowflake_registry.status;
SELECT requests FROM snowflake_registry.settings;
SELECT snowflake_registry.what_tokens_prove(jsonb_build_array(snowflake_registry.signed('lease2:0:1:2:3')));

-- Without its row, a registry that had one does nothing.
\set VERBOSITY terse
SET session_replication_role = replica;
BEGIN;
ALTER TABLE snowflake_registry.settings DISABLE TRIGGER USER;
DELETE FROM snowflake_registry.settings;
SAVEPOINT without_the_row;
SELECT snowflake_registry.start_fleet();
ROLLBACK TO without_the_row;
SELECT * FROM snowflake_registry.take(NULL, '[{"name": "orders"}]', 'server');
ROLLBACK;
RESET session_replication_role;

-- Rows of another format are not accepted: see docs/design/versions.md.
UPDATE snowflake_registry.settings SET format = 2;

DROP FUNCTION acquire, renew, release, lease_id, clock;
DROP TABLE before;
REVOKE ALL ON FUNCTION snowflake_registry.take FROM regress_snowflake_taker;
DROP ROLE regress_snowflake_taker;
DROP EXTENSION snowflake_id_registry CASCADE;
