-- The extension is created twice, dropped, created again, created in another schema, dumped and restored.
SELECT :'DBNAME' AS database \gset

-- A database can have it only once.
CREATE EXTENSION snowflake_id;
CREATE EXTENSION IF NOT EXISTS snowflake_id;

-- Refreshing all materialized views does not empty the records of the server.
REFRESH MATERIALIZED VIEW snowflake_internal.horizon;
REFRESH MATERIALIZED VIEW snowflake_internal.used_identity;

-- It cannot be relocated, and it cannot be dropped while a table uses it.
CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), place int);
INSERT INTO orders (place) VALUES (1), (2);
ALTER EXTENSION snowflake_id SET SCHEMA pg_catalog;
DROP EXTENSION snowflake_id;
DROP FUNCTION snowflake_nextval();
INSERT INTO orders (place) VALUES (3);

-- CASCADE drops the default but keeps the rows. It also keeps the settings, which belong to the library.
SELECT max(id) AS last_id FROM orders \gset
DROP EXTENSION snowflake_id CASCADE;
SELECT count(*), count(column_default) AS defaults
FROM orders, information_schema.columns WHERE table_name = 'orders' AND column_name = 'id';
SELECT code, message FROM sqlstate_of('SELECT snowflake_nextval()');
SHOW snowflake_id.layout;
SELECT proname FROM pg_proc WHERE proname LIKE 'snowflake%';

-- When it is created again, IDs continue above the old ones.
CREATE EXTENSION snowflake_id;
ALTER TABLE orders ALTER id SET DEFAULT snowflake_nextval();
INSERT INTO orders (place) VALUES (4) RETURNING id > :last_id AS increases;
DROP TABLE orders;
DROP EXTENSION snowflake_id;

-- Only a superuser can create it.
CREATE ROLE regress_snowflake_owner;
GRANT CREATE ON DATABASE :"database" TO regress_snowflake_owner;
SET ROLE regress_snowflake_owner;
CREATE EXTENSION snowflake_id;
RESET ROLE;
REVOKE CREATE ON DATABASE :"database" FROM regress_snowflake_owner;
DROP ROLE regress_snowflake_owner;

-- Existing objects in the schema do not become part of the view, even if they match better than PostgreSQL's own.
CREATE FUNCTION public.unnest(text[]) RETURNS SETOF text LANGUAGE sql AS $$SELECT 'js53'$$;
CREATE EXTENSION snowflake_id;
SELECT count(*) FROM snowflake_presets;
DROP EXTENSION snowflake_id;
DROP FUNCTION public.unnest(text[]);

-- Default privileges do not grant access to objects that only the owner may use.
CREATE ROLE regress_snowflake_reader;
ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO regress_snowflake_reader, PUBLIC;
ALTER DEFAULT PRIVILEGES GRANT ALL ON SEQUENCES TO regress_snowflake_reader, PUBLIC;
ALTER DEFAULT PRIVILEGES GRANT ALL ON FUNCTIONS TO regress_snowflake_reader;
ALTER DEFAULT PRIVILEGES GRANT ALL ON SCHEMAS TO regress_snowflake_reader, PUBLIC;
CREATE SCHEMA "od d";
CREATE EXTENSION snowflake_id SCHEMA "od d";
SELECT pg_describe_object(d.classid, d.objid, d.objsubid) COLLATE "C" AS object, acl.grantee::regrole, acl.privilege_type
FROM pg_depend AS d
LEFT JOIN pg_proc AS p ON p.oid = d.objid AND d.classid = 'pg_proc'::regclass
LEFT JOIN pg_class AS c ON c.oid = d.objid AND d.classid = 'pg_class'::regclass
LEFT JOIN pg_namespace AS n ON n.oid = d.objid AND d.classid = 'pg_namespace'::regclass,
     LATERAL aclexplode(coalesce(p.proacl, c.relacl, n.nspacl)) AS acl
WHERE d.deptype = 'e' AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'snowflake_id')
  AND acl.grantee NOT IN (0, current_user::regrole)
  -- The privileges that PUBLIC has by default.
  AND NOT (p.proname IS NOT NULL AND has_function_privilege(0::oid, p.oid, 'EXECUTE'))
  AND coalesce(c.relname NOT IN ('snowflake_presets', 'snowflake_adopt_progress'), true)
ORDER BY 1, 2, 3;
SELECT count(*) AS open_to_public
FROM pg_class AS c, aclexplode(c.relacl) AS acl
WHERE (c.relname LIKE 'snowflake\_%' OR c.relnamespace = 'snowflake_internal'::regnamespace)
  AND c.relname NOT IN ('snowflake_presets', 'snowflake_adopt_progress') AND acl.grantee = 0;
DROP EXTENSION snowflake_id;
DROP SCHEMA "od d";
ALTER DEFAULT PRIVILEGES REVOKE ALL ON TABLES FROM regress_snowflake_reader, PUBLIC;
ALTER DEFAULT PRIVILEGES REVOKE ALL ON SEQUENCES FROM regress_snowflake_reader, PUBLIC;
ALTER DEFAULT PRIVILEGES REVOKE ALL ON FUNCTIONS FROM regress_snowflake_reader;
ALTER DEFAULT PRIVILEGES REVOKE ALL ON SCHEMAS FROM regress_snowflake_reader, PUBLIC;

-- Default privileges that deny access do not keep COPY from inserting in bulk: everyone may execute the function that
-- replaces the call.
ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC;
CREATE EXTENSION snowflake_id;
SELECT has_function_privilege('regress_snowflake_reader', 'snowflake_nextval()', 'EXECUTE') AS original,
       has_function_privilege('regress_snowflake_reader', 'snowflake_internal.snowflake_nextval_in_copy(internal)', 'EXECUTE') AS twin;
DROP EXTENSION snowflake_id;
ALTER DEFAULT PRIVILEGES GRANT EXECUTE ON FUNCTIONS TO PUBLIC;
DROP ROLE regress_snowflake_reader;

-- In a schema of its own, which does not have to be on the search_path. All objects are in it.
CREATE SCHEMA ids;
CREATE EXTENSION snowflake_id SCHEMA ids;
SELECT pg_describe_object(d.classid, d.objid, d.objsubid) COLLATE "C" AS object
FROM pg_depend AS d JOIN pg_extension AS e ON e.oid = d.refobjid
WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
  AND d.classid <> 'pg_type'::regclass AND e.extname = 'snowflake_id'
ORDER BY object;
SELECT code, message FROM sqlstate_of('SELECT snowflake_nextval()');
CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT ids.snowflake_nextval(), place int);
INSERT INTO orders (place) VALUES (1), (2);
SELECT count(*), bool_and((ids.snowflake_decode(id)).worker_id = 7) AS readable FROM orders;
SELECT count(*) FROM ids.snowflake_presets;
SELECT code, message FROM sqlstate_of('DROP SCHEMA ids');
DROP TABLE orders;
DROP EXTENSION snowflake_id;
DROP SCHEMA ids;
CREATE EXTENSION snowflake_id;

-- Dumped and restored into another database: the extension, the rows, the default, an index on parts of the IDs, and
-- the privileges to take IDs.
SELECT setting AS bindir FROM pg_config WHERE name = 'BINDIR' \gset
\set path :bindir ':' `echo "$PATH"`
\setenv PATH :path
CREATE ROLE regress_snowflake_writer;
CREATE DATABASE regression_dumped;
CREATE DATABASE regression_restored;
\c regression_dumped
CREATE SCHEMA ids;
CREATE EXTENSION snowflake_id SCHEMA ids;
CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT ids.snowflake_nextval(), place int);
INSERT INTO orders (place) SELECT generate_series(1, 1000);
CREATE INDEX orders_time ON orders (ids.snowflake_timestamp(id, 'standard'));
CREATE VIEW own_layouts AS SELECT name, epoch FROM ids.snowflake_presets WHERE name = 'standard';
REVOKE EXECUTE ON FUNCTION ids.snowflake_batch(bigint) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION ids.snowflake_batch(bigint) TO regress_snowflake_writer;
SELECT count(*), md5(string_agg(id || ':' || place, ',' ORDER BY place)) AS rows, max(id) AS last_id
FROM orders \gset dumped_
\! pg_dump regression_dumped | psql -X -q -v ON_ERROR_STOP=1 regression_restored >/dev/null && echo restored
\c regression_restored
SELECT count(*) = :dumped_count AS all_rows,
       md5(string_agg(id || ':' || place, ',' ORDER BY place)) = :'dumped_rows' AS same_rows FROM orders;
INSERT INTO orders (place) VALUES (1001) RETURNING id > :dumped_last_id AS increases;
SELECT extnamespace::regnamespace AS schema FROM pg_extension WHERE extname = 'snowflake_id';
SELECT pg_get_indexdef('orders_time'::regclass);
SELECT name FROM own_layouts;
SELECT has_function_privilege('regress_snowflake_writer', 'ids.snowflake_batch(bigint)', 'EXECUTE') AS writer,
       has_function_privilege('pg_monitor', 'ids.snowflake_batch(bigint)', 'EXECUTE') AS others;

-- Without the new row, a dump of the restored database is the same, except for its five objects. (Lines with \restrict
-- contain a random word.)
DELETE FROM orders WHERE place = 1001;
\! dump() { pg_dump regression_$1 | grep -v restrict; }; test "$(dump dumped)" = "$(dump restored)" && dump restored | grep -c '^CREATE'
\c :database
DROP DATABASE regression_dumped;
DROP DATABASE regression_restored;
DROP ROLE regress_snowflake_writer;
