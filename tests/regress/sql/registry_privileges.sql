-- Segments that roles may use: what a single session can test. The tests in tests/cluster/tests/registry/privileges.rs cover
-- the rest.
CREATE EXTENSION snowflake_id_registry;
CREATE ROLE regress_fleet;
GRANT USAGE ON SCHEMA snowflake_registry TO regress_fleet;
GRANT EXECUTE ON FUNCTION snowflake_registry.take(jsonb) TO regress_fleet;
CREATE FUNCTION request(requests jsonb, node text) RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_build_object('protocol', 1, 'registry', NULL, 'tokens', jsonb_build_array(), 'requests', requests,
                              'facts', jsonb_build_object('node_name', node))
$$;
CREATE FUNCTION taken(requests jsonb) RETURNS TABLE (name text, outcome text, first bigint, near text, detail text) LANGUAGE sql AS $$
    SELECT t.name, t.outcome, t.first, t.near, t.detail FROM snowflake_registry.take(request(requests, 'shop')) AS t
$$;

-- By default, a role may use all segments.
CREATE ROLE regress_shop IN ROLE regress_fleet;
CREATE ROLE "regress Lager" NOINHERIT IN ROLE regress_shop;
CREATE ROLE regress_admin IN ROLE regress_fleet;
SELECT snowflake_registry.create_segment('mine'), snowflake_registry.create_segment('MINE'), snowflake_registry.create_segment('theirs');
SET SESSION AUTHORIZATION regress_shop;
SELECT name, outcome FROM taken('[{"name": "mine"}, {"name": "theirs"}]');
RESET SESSION AUTHORIZATION;
-- A role that was granted a segment may use no other. The segment need not exist.
SELECT snowflake_registry.grant_segment('mine', 'regress_shop'), snowflake_registry.grant_segment('not yet', 'regress_shop');
SELECT snowflake_registry.grant_segment('mine', 'regress_shop');
SELECT role, name FROM snowflake_registry.segment_privilege ORDER BY role, name;
SET SESSION AUTHORIZATION regress_shop;
SELECT name, outcome, first, detail FROM taken('[{"name": "mine"}, {"name": "theirs"}, {"name": "nothing"}, {"name": "not yet"}, {"name": ""}]');
-- A denied name is neither read nor raised, and no token is signed for it. Nothing tells whether it exists.
SELECT t.name, t.outcome, t.first, t.step, t.max_value, t.near, t.token IS NULL AS has_no_token
FROM snowflake_registry.take(request('[{"name": "theirs", "report": true}, {"name": "theirs", "report": true, "had_until": 5000, "registry_id": null},
    {"name": "theirs", "had_until": -1}, {"name": "Mine", "report": true}, {"name": "made up", "next": true}]', NULL)) AS t;
-- A role cannot avoid its limits by another role of which it is a member.
SET ROLE regress_fleet;
SELECT name, outcome FROM taken('[{"name": "theirs"}]');
SET SESSION AUTHORIZATION "regress Lager";
SET ROLE regress_shop;
SELECT name, outcome, detail FROM taken('[{"name": "mine"}, {"name": "it''s theirs"}]');
RESET SESSION AUTHORIZATION;
SELECT snowflake_registry.grant_segment('theirs', '"regress Lager"');
SET SESSION AUTHORIZATION "regress Lager";
SET ROLE regress_shop;
SELECT name, outcome FROM taken('[{"name": "mine"}, {"name": "theirs"}]');
RESET SESSION AUTHORIZATION;
SELECT next_value FROM snowflake_registry.segments WHERE name = 'theirs';
-- The names of all roles count together. A name that differs in case is only suggested if it was granted.
SELECT snowflake_registry.grant_segment('theirs', 'regress_fleet'), snowflake_registry.grant_segment('Mine', 'regress_shop');
SET SESSION AUTHORIZATION regress_shop;
SELECT name, outcome, near FROM taken('[{"name": "mine"}, {"name": "theirs"}, {"name": "Mine"}]');
RESET SESSION AUTHORIZATION;
SELECT snowflake_registry.revoke_segment('theirs', 'regress_fleet'), snowflake_registry.drop_segment('MINE');
SET SESSION AUTHORIZATION regress_shop;
SELECT name, outcome, near FROM taken('[{"name": "theirs"}, {"name": "Mine"}]');
RESET SESSION AUTHORIZATION;
-- The other role has lost its last segment, and stays limited.
SET SESSION AUTHORIZATION regress_admin;
SELECT name, outcome FROM taken('[{"name": "theirs"}]');
RESET SESSION AUTHORIZATION;
-- A reason may name another segment.
SELECT snowflake_registry.configure(first_worker => 0, last_worker => 1023);
SELECT snowflake_registry.quarantine() IS NOT NULL AS waits;
UPDATE snowflake_registry.segment SET closed_reason = 'commits of the registry may have been lost: numbers of segment "theirs" were given'
WHERE name = 'mine';
SET SESSION AUTHORIZATION regress_shop;
SELECT outcome, detail FROM taken('[{"name": "mine"}]');
RESET SESSION AUTHORIZATION;
-- Nor does acquire() show the reason, which may contain the name of a segment.
GRANT EXECUTE ON FUNCTION snowflake_registry.acquire TO regress_shop;
SET SESSION AUTHORIZATION regress_shop;
SELECT outcome, split_part(detail, 'Z: ', 2) AS reason
FROM snowflake_registry.acquire(request(NULL, NULL) || jsonb_build_object(
    'clock', (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, 'lease_id', gen_random_uuid(), 'nonce', gen_random_uuid(),
    'needs', '{"datacenter": 0, "worker_limit": 1024}'::jsonb));
RESET SESSION AUTHORIZATION;
REVOKE EXECUTE ON FUNCTION snowflake_registry.acquire FROM regress_shop;
SET SESSION AUTHORIZATION regress_shop;
RESET SESSION AUTHORIZATION;
SELECT snowflake_registry.end_quarantine(), snowflake_registry.resume_segments() > 1 AS all_of_them;
-- The registry's own server, superusers and the owner are not limited.
SELECT t.outcome FROM snowflake_registry.take_local(request('[{"name": "theirs"}]', 'here')) AS t;
SELECT outcome FROM taken('[{"name": "theirs"}]');
SELECT n, code, message, detail, hint FROM (VALUES
    (1, $$grant_segment(NULL, 'regress_shop')$$), (2, $$grant_segment('mine', NULL)$$), (3, $$grant_segment('mine', '4294967295')$$),
    (4, $$grant_segment('', 'regress_shop')$$), (5, $$revoke_segment('', 'regress_shop')$$), (6, $$revoke_segment('mine', 'regress_admin')$$),
    (7, $$revoke_segment('theirs', 'regress_nobody')$$)) AS called (n, call), LATERAL sqlstate_of('SELECT snowflake_registry.' || call)
ORDER BY n;
SET SESSION AUTHORIZATION regress_shop;
SELECT call, code, message FROM (VALUES ($$grant_segment('theirs', 'regress_shop')$$), ($$grant_all_segments('regress_shop')$$),
    ($$revoke_segment('mine', 'regress_shop')$$)) AS called (call), LATERAL sqlstate_of('SELECT snowflake_registry.' || call);
SELECT code, message FROM sqlstate_of('SELECT * FROM snowflake_registry.segment_privilege');
RESET SESSION AUTHORIZATION;
SELECT call, code, message FROM unnest(ARRAY['grant_all_segments(NULL)', 'revoke_segment(''mine'', NULL)', 'revoke_lease(NULL)',
    'revoke_lease(1, NULL)']) AS call, sqlstate_of('SELECT snowflake_registry.' || call);
SELECT snowflake_registry.grant_all_segments('regress_fleet'), snowflake_registry.grant_all_segments('regress_shop');
SET SESSION AUTHORIZATION regress_shop;
SELECT name, outcome FROM taken('[{"name": "theirs"}]');
RESET SESSION AUTHORIZATION;
-- A dropped role limits no other role. The next change removes its rows.
SELECT snowflake_registry.grant_segment('mine', 'regress_shop');
DROP ROLE "regress Lager";
SELECT count(*) FROM snowflake_registry.segment_privilege;
SELECT snowflake_registry.revoke_segment('mine', 'regress_shop');
SELECT role, name FROM snowflake_registry.segment_privilege ORDER BY role, name;
SELECT count(snowflake_registry.drop_segment(name)) AS dropped FROM snowflake_registry.segments WHERE state <> 'dropped';
SELECT snowflake_registry.end_fleet();
DROP EXTENSION snowflake_id_registry;
DROP FUNCTION taken, request;
DROP ROLE regress_shop, regress_admin, regress_fleet;
