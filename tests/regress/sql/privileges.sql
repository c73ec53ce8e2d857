-- Privileges: an ordinary role, and objects that it cannot influence.
CREATE ROLE regress_snowflake_user;
CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), place int);
GRANT SELECT, INSERT ON orders TO regress_snowflake_user;

-- Everyone can take, decode and encode IDs, and list the layouts.
SET ROLE regress_snowflake_user;
INSERT INTO orders (place) VALUES (1), (2);
SELECT count(*), count(DISTINCT id) FROM orders;
SELECT snowflake_worker(snowflake_nextval());
SELECT count(*) FROM snowflake_batch(10);
SELECT snowflake_worker(snowflake_currval());
SELECT worker_id FROM snowflake_decode(snowflake_encode('2024-01-01T00:00:00Z', 9, 0));
SELECT count(*) FROM snowflake_presets;
SELECT layout FROM snowflake_describe_layout('js53');
-- The type and its casts too. The conversions need EXECUTE when the expressions are planned, not when rows are read.
SELECT '5'::text::snowflake, 5::snowflake::text, '6'::snowflake, 7::int::snowflake::int, 8::smallint::snowflake::numeric,
       9::bigint::snowflake::float8;
SELECT array_to_json(ARRAY[5::snowflake]), snowflake_internal.snowflake_send(5);

-- Only a superuser chooses the layout. Each session chooses how long to wait. The server determines how far IDs may run
-- ahead of the clock.
SELECT code, message FROM sqlstate_of($$SET snowflake_id.layout = 'js53'$$);
SELECT code, message FROM sqlstate_of($$SET snowflake_id.layout = 'nonsense'$$);
SELECT code, message FROM sqlstate_of($$SELECT set_config('snowflake_id.layout', 'js53', true)$$);
SELECT code, message FROM sqlstate_of($$ALTER ROLE regress_snowflake_user SET snowflake_id.layout = 'js53'$$);
SELECT code, message FROM sqlstate_of('SET snowflake_id.max_ahead = 5');
SELECT code, message FROM sqlstate_of('SET snowflake_id.worker_id = 5');
SET snowflake_id.max_wait = '1s';
SHOW snowflake_id.max_wait;
RESET snowflake_id.max_wait;

-- A function with a setting of its own does not have more privileges than its owner. A function that runs as a
-- superuser can set the layout.
RESET ROLE;
CREATE SCHEMA AUTHORIZATION regress_snowflake_user;
SET ROLE regress_snowflake_user;
CREATE FUNCTION regress_snowflake_user.js_id() RETURNS bigint LANGUAGE sql SET snowflake_id.layout = 'js53'
    AS 'SELECT public.snowflake_nextval()';
RESET ROLE;
CREATE FUNCTION js_id_as_caller() RETURNS bigint LANGUAGE sql SET snowflake_id.layout = 'js53'
    AS 'SELECT public.snowflake_nextval()';
CREATE FUNCTION js_id_as_owner() RETURNS bigint LANGUAGE sql SECURITY DEFINER SET snowflake_id.layout = 'js53'
    AS 'SELECT public.snowflake_nextval()';
SET ROLE regress_snowflake_user;
SELECT js_id_as_caller();
SELECT js_id_as_owner() < 2 ^ 53 AS is_js53, snowflake_nextval() > 2 ^ 53 AS is_standard;
RESET ROLE;
DROP FUNCTION js_id_as_caller, js_id_as_owner;

-- The privilege to choose the layout can be granted.
GRANT SET ON PARAMETER snowflake_id.layout TO regress_snowflake_user;
SET ROLE regress_snowflake_user;
SET snowflake_id.layout = 'js53';
SELECT snowflake_nextval() < 2 ^ 53 AS is_js53;
RESET snowflake_id.layout;
RESET ROLE;
REVOKE SET ON PARAMETER snowflake_id.layout FROM regress_snowflake_user;

-- The privilege to take IDs can be revoked. Decoding IDs and existing rows are not affected.
BEGIN;
REVOKE EXECUTE ON FUNCTION snowflake_nextval(), snowflake_batch(bigint) FROM PUBLIC;
SET LOCAL ROLE regress_snowflake_user;
SELECT code, message FROM sqlstate_of('SELECT snowflake_nextval()');
SELECT code, message FROM sqlstate_of('SELECT snowflake_batch(10)');
SELECT code, message FROM sqlstate_of('INSERT INTO orders (place) VALUES (3)');
SELECT count(*), bool_and(snowflake_worker(id) = 7) AS readable FROM orders;
RESET ROLE;
GRANT EXECUTE ON FUNCTION snowflake_nextval() TO regress_snowflake_user;
SET LOCAL ROLE regress_snowflake_user;
SELECT snowflake_worker(snowflake_nextval());
ROLLBACK;

-- The privileges of PUBLIC. Only volatile functions have effects: those that take IDs, ask for the last ID, or alter
-- tables of the caller. Nothing can be written, and no function that runs with the rights of its owner can be called.
SELECT p.oid::regprocedure::text COLLATE "C" AS volatile_function, p.prosecdef AS definer,
       has_function_privilege('regress_snowflake_user', p.oid, 'EXECUTE') AS executable
FROM pg_depend AS d
JOIN pg_extension AS e ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid AND e.extname = 'snowflake_id'
JOIN pg_proc AS p ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid
WHERE p.provolatile = 'v' OR p.prosecdef
ORDER BY 1;
-- Of the internal objects, everyone can use only those that functions and views for everyone need.
SELECT has_schema_privilege('regress_snowflake_user', 'snowflake_internal', 'USAGE') AS usage,
       has_schema_privilege('regress_snowflake_user', 'snowflake_internal', 'CREATE') AS "create";
SELECT p.oid::regprocedure::text COLLATE "C" AS executable
FROM pg_proc AS p
WHERE p.pronamespace = 'snowflake_internal'::regnamespace AND has_function_privilege('regress_snowflake_user', p.oid, 'EXECUTE')
ORDER BY 1;
SELECT c.oid::regclass AS usable FROM pg_class AS c
WHERE c.relnamespace = 'snowflake_internal'::regnamespace AND c.relkind <> 'i'
  AND has_table_privilege('regress_snowflake_user', c.oid, 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER');
SELECT c.oid::regclass::text COLLATE "C" AS relation, c.relkind, acl.grantee = 0 AS to_public, acl.privilege_type, acl.is_grantable
FROM pg_depend AS d
JOIN pg_extension AS e ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid AND e.extname = 'snowflake_id'
JOIN pg_class AS c ON d.classid = 'pg_class'::regclass AND d.objid = c.oid
CROSS JOIN aclexplode(c.relacl) AS acl
WHERE acl.grantee <> c.relowner
ORDER BY 1, 4;
SET ROLE regress_snowflake_user;
SELECT code, message FROM sqlstate_of($$DROP VIEW snowflake_presets$$);
SELECT code, message FROM sqlstate_of($$CREATE OR REPLACE VIEW public.snowflake_presets AS SELECT 1$$);
SELECT code, message FROM sqlstate_of($$COMMENT ON FUNCTION snowflake_nextval() IS 'mine'$$);
SELECT code, message FROM sqlstate_of($$DROP EXTENSION snowflake_id CASCADE$$);
RESET ROLE;

-- Objects with the same names in an earlier schema do not change the results of the view and the functions. All of
-- these objects would raise an error.
CREATE SCHEMA hostile;
SET search_path = hostile, pg_catalog, public;
CREATE FUNCTION hostile.trap(what text) RETURNS text LANGUAGE plpgsql
    AS $$ BEGIN RAISE EXCEPTION 'the trap % was called', what; END $$;
CREATE FUNCTION hostile.snowflake_preset_names() RETURNS text[] LANGUAGE sql
    AS $$SELECT ARRAY[hostile.trap('snowflake_preset_names')]$$;
CREATE FUNCTION hostile.snowflake_describe_layout(text) RETURNS text LANGUAGE sql
    AS $$SELECT hostile.trap('snowflake_describe_layout')$$;
CREATE FUNCTION hostile.snowflake_nextval() RETURNS bigint LANGUAGE sql
    AS $$SELECT hostile.trap('snowflake_nextval')::bigint$$;
CREATE FUNCTION hostile.unnest(text[]) RETURNS SETOF text LANGUAGE sql
    AS $$SELECT hostile.trap('unnest')$$;
CREATE FUNCTION hostile.equal(bigint, bigint) RETURNS boolean LANGUAGE sql
    AS $$SELECT hostile.trap('equal')::boolean$$;
CREATE OPERATOR hostile.= (FUNCTION = hostile.equal, LEFTARG = bigint, RIGHTARG = bigint);
CREATE VIEW hostile.snowflake_presets AS SELECT hostile.trap('snowflake_presets') AS name;
SELECT name FROM snowflake_presets;
SELECT 1::bigint = 1::bigint;
SELECT snowflake_nextval();
SELECT count(*), min(layout COLLATE "C") AS first_layout FROM public.snowflake_presets;
SELECT public.snowflake_worker(public.snowflake_nextval());
INSERT INTO public.orders (place) VALUES (4);
SELECT count(*) FROM public.orders;
RESET search_path;
SET client_min_messages = warning;
DROP SCHEMA hostile CASCADE;
RESET client_min_messages;

DROP TABLE orders;
DROP SCHEMA regress_snowflake_user;
DROP ROLE regress_snowflake_user;
