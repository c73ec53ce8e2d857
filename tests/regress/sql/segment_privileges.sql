-- The segments of roles. Crashes, standbys and dumps are in tests/cluster/tests/segments/privileges.rs.

\set SHOW_CONTEXT never
CREATE EXTENSION snowflake_id_registry;
SELECT snowflake_registry.create_segment(name, min_step => 1000, max_step => 1000)
FROM unnest(ARRAY['open', 'ours', 'theirs', 'Kraków']) AS name;
CREATE ROLE regress_clerk;
CREATE ROLE regress_cashier;
CREATE ROLE "regress Team";
GRANT EXECUTE ON FUNCTION snowflake_segment_nextval(text), snowflake_segment_batch(text, bigint) TO PUBLIC;
-- Whether the current role may take numbers of a segment, by each of the functions.
CREATE FUNCTION may(segment text, OUT nextval text, OUT batch text) LANGUAGE sql AS $$
    SELECT (SELECT code FROM sqlstate_of(format('SELECT snowflake_segment_nextval(%L)', segment))),
           (SELECT code FROM sqlstate_of(format('SELECT snowflake_segment_batch(%L, 2)', segment)))
$$;

-- By default, a role that may call the functions can use all segments.
SET ROLE regress_clerk;
SELECT may('ours'), may('theirs'), may('missing');
RESET ROLE;

-- A role that was granted a segment is limited to it. Whether another segment exists is not visible.
SELECT snowflake_segment_grant('ours', 'regress_clerk');
SELECT snowflake_segment_grant('ours', 'regress_clerk');
SELECT snowflake_segment_grant('later', 'regress_clerk');
SELECT snowflake_segment_grant('Kraków', 'regress_clerk');
TABLE snowflake_internal.segment_grant;
SET ROLE regress_clerk;
SELECT may('ours'), may('Kraków'), may('later'), may('theirs'), may('secret'), may(''), may(repeat('x', 5000));
SELECT snowflake_segment_nextval('theirs');
SELECT snowflake_segment_batch('secret', 1);
SELECT snowflake_segment_nextval(NULL) IS NULL AS "null";
RESET ROLE;
SELECT name FROM snowflake_segment_status WHERE name = 'secret';
SELECT may('theirs') AS superuser;
SET ROLE regress_cashier;
SELECT may('theirs') AS other_role;
RESET ROLE;
-- A name may be granted before it exists.
SELECT snowflake_registry.create_segment('later');
SET ROLE regress_clerk;
SELECT may('later');
RESET ROLE;

-- A call that reads the table does not keep a lock on it.
SELECT snowflake_segment_grant('open', 'regress_clerk');
BEGIN;
SET LOCAL ROLE regress_clerk;
SELECT snowflake_segment_nextval('open') > 0 AS open;
RESET ROLE;
SELECT count(*) FROM pg_locks WHERE relation = 'snowflake_internal.segment_grant'::regclass;
COMMIT;
SELECT snowflake_segment_revoke('open', 'regress_clerk');

-- A role stays limited when its last segment is gone.
SELECT snowflake_segment_revoke(name, 'regress_clerk') FROM unnest(ARRAY['ours', 'later', 'Kraków', 'never granted']) AS name;
SET ROLE regress_clerk;
SELECT may('ours'), may('theirs');
RESET ROLE;
SELECT snowflake_segment_grant_all('regress_clerk');
SELECT snowflake_segment_grant_all('regress_clerk');
SET ROLE regress_clerk;
SELECT may('ours'), may('theirs');
RESET ROLE;

-- Invalid arguments are errors, because a limit that is silently missing would be dangerous.
SELECT snowflake_segment_revoke('ours', 'regress_clerk');
SELECT snowflake_segment_grant('ours', 'regress_nobody');
\set VERBOSITY terse
SELECT snowflake_segment_grant('ours', NULL);
SELECT snowflake_segment_grant(NULL, 'regress_clerk');
SELECT snowflake_segment_grant('', 'regress_clerk');
SELECT snowflake_segment_grant(repeat('x', 256), 'regress_clerk');
SELECT snowflake_segment_revoke('ours', NULL);
\set VERBOSITY default

-- In the transaction of the change, at once. A rollback undoes the effect, also to a savepoint.
BEGIN;
SELECT snowflake_segment_grant('ours', 'regress_clerk');
SET LOCAL ROLE regress_clerk;
SELECT may('ours'), may('theirs');
RESET ROLE;
SAVEPOINT before_grant;
SELECT snowflake_segment_grant('theirs', 'regress_clerk');
SET LOCAL ROLE regress_clerk;
SELECT may('ours'), may('theirs');
ROLLBACK TO before_grant;
SET LOCAL ROLE regress_clerk;
SELECT may('ours'), may('theirs');
ROLLBACK;
SET ROLE regress_clerk;
SELECT may('ours'), may('theirs');
RESET ROLE;

-- Rows of all roles whose privileges a role inherits count together. A membership takes effect at once.
SELECT snowflake_segment_grant('ours', 'regress_clerk');
SELECT snowflake_segment_grant('theirs', '"regress Team"');
SET ROLE regress_clerk;
SELECT may('ours'), may('theirs');
RESET ROLE;
GRANT "regress Team" TO regress_clerk, regress_cashier;
SET ROLE regress_clerk;
SELECT may('ours'), may('theirs'), may('open');
SET ROLE regress_cashier;
SELECT may('ours'), may('theirs');
SET ROLE "regress Team";
SELECT snowflake_segment_nextval('ours');
RESET ROLE;
REVOKE "regress Team" FROM regress_clerk, regress_cashier;
SET ROLE regress_clerk;
SELECT may('ours'), may('theirs');
SET ROLE regress_cashier;
SELECT may('ours'), may('theirs');
RESET ROLE;
ALTER ROLE regress_clerk SUPERUSER;
SET ROLE regress_clerk;
SELECT may('theirs');
RESET ROLE;
ALTER ROLE regress_clerk NOSUPERUSER;

-- A renamed role keeps its limits.
ALTER ROLE regress_clerk RENAME TO regress_agent;
SET ROLE regress_agent;
SELECT may('ours'), may('theirs');
RESET ROLE;
ALTER ROLE regress_agent RENAME TO regress_clerk;

-- The rights of the role that runs the code count: in a function with the rights of its owner, those of the owner.
CREATE FUNCTION next_of_theirs() RETURNS bigint LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$SELECT public.snowflake_segment_nextval('theirs')$$;
CREATE FUNCTION next_as_caller() RETURNS bigint LANGUAGE plpgsql
    AS $$BEGIN RETURN public.snowflake_segment_nextval('theirs'); END$$;
CREATE FUNCTION taken() RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    RETURN format('%s %s', next_of_theirs() > 0, (SELECT code FROM sqlstate_of('SELECT next_as_caller()')));
END
$$;
CREATE FUNCTION taken_as_cashier() RETURNS text LANGUAGE sql SECURITY DEFINER AS 'SELECT taken()';
ALTER FUNCTION taken_as_cashier() OWNER TO regress_cashier;
SET ROLE regress_clerk;
SELECT taken(), taken_as_cashier(), taken();
RESET ROLE;
-- A prepared statement is checked for the role that executes it.
PREPARE next_of_ours AS SELECT snowflake_segment_nextval('ours') > 0 AS ours;
PREPARE next_of AS SELECT snowflake_segment_nextval($1) > 0 AS taken;
SET plan_cache_mode = force_generic_plan;
EXECUTE next_of('theirs');
SET ROLE regress_clerk;
EXECUTE next_of_ours;
EXECUTE next_of('ours');
EXECUTE next_of('theirs');
RESET ROLE;
SELECT snowflake_segment_revoke('ours', 'regress_clerk');
SET ROLE regress_clerk;
EXECUTE next_of_ours;
RESET ROLE;
RESET plan_cache_mode;
DEALLOCATE ALL;

-- Parallel workers check, too.
SELECT snowflake_segment_grant('ours', 'regress_clerk');
CREATE TABLE places AS SELECT generate_series(1, 10000) AS place;
GRANT SELECT ON places TO regress_clerk;
SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;
SET parallel_leader_participation = off;
SET ROLE regress_clerk;
EXPLAIN (COSTS OFF) SELECT count(snowflake_segment_nextval('ours')) FROM places;
SELECT count(snowflake_segment_nextval('ours')) FROM places;
\set VERBOSITY terse
SELECT count(snowflake_segment_nextval('theirs')) FROM places;
\set VERBOSITY default
RESET ROLE;
RESET parallel_setup_cost; RESET parallel_tuple_cost; RESET min_parallel_table_scan_size; RESET parallel_leader_participation;
DROP TABLE places;

-- Only superusers can change grants, unless EXECUTE is granted. Other roles cannot read or change the table.
SET ROLE regress_cashier;
SELECT snowflake_segment_grant('theirs', 'regress_cashier');
SELECT snowflake_segment_revoke('theirs', 'regress_cashier');
SELECT snowflake_segment_grant_all('regress_clerk');
SELECT snowflake_internal.segment_grant_changed();
DELETE FROM snowflake_internal.segment_grant;
RESET ROLE;
GRANT EXECUTE ON FUNCTION snowflake_segment_grant(text, regrole) TO regress_cashier;
SET ROLE regress_cashier;
SET search_path = pg_temp, public;
CREATE TEMPORARY TABLE segment_grant (role regrole, names text[]);
SELECT snowflake_segment_grant('theirs', 'regress_clerk');
RESET search_path;
SET ROLE regress_clerk;
SELECT may('ours'), may('theirs');
RESET ROLE;
TABLE segment_grant;
DROP TABLE segment_grant;
REVOKE EXECUTE ON FUNCTION snowflake_segment_grant(text, regrole) FROM regress_cashier;

-- Superusers may also change the table itself. If the table cannot be understood, only superusers take numbers.
UPDATE snowflake_internal.segment_grant SET names = '{open}' WHERE role = 'regress_clerk'::regrole;
SET ROLE regress_clerk;
SELECT may('ours'), may('open');
RESET ROLE;
BEGIN;
ALTER TABLE snowflake_internal.segment_grant RENAME names TO segments;
SELECT may('open') AS superuser;
SET LOCAL ROLE regress_clerk;
SELECT snowflake_segment_nextval('open');
ROLLBACK;
BEGIN;
TRUNCATE snowflake_internal.segment_grant;
SET LOCAL ROLE regress_clerk;
SELECT may('ours'), may('open');
ROLLBACK;
SET ROLE regress_clerk;
SELECT may('ours'), may('open');
RESET ROLE;

-- The row of a role that was dropped has no effect, and is removed.
DROP ROLE "regress Team";
SELECT count(*) FROM snowflake_internal.segment_grant;
SELECT snowflake_segment_grant('ours', 'regress_cashier');
SELECT role FROM snowflake_internal.segment_grant ORDER BY role::text COLLATE "C";
SELECT snowflake_segment_grant_all(role) FROM snowflake_internal.segment_grant;
TABLE snowflake_internal.segment_grant;

REVOKE EXECUTE ON FUNCTION snowflake_segment_nextval(text), snowflake_segment_batch(text, bigint) FROM PUBLIC;
DROP FUNCTION may, next_of_theirs, next_as_caller, taken, taken_as_cashier;
DROP ROLE regress_clerk, regress_cashier;
SELECT snowflake_registry.drop_segment(name) FROM unnest(ARRAY['open', 'ours', 'theirs', 'later', 'Kraków']) AS name;
DROP EXTENSION snowflake_id_registry;
