-- The settings: who may change them, and valid and invalid layouts by every method of setting one.

-- The definitions.
SELECT name, setting, unit, context, vartype, min_val, max_val, boot_val
FROM pg_settings WHERE name LIKE 'snowflake\_id.%' AND context <> 'internal' ORDER BY name COLLATE "C";
SELECT name, short_desc, extra_desc FROM pg_settings WHERE name LIKE 'snowflake\_id.%' ORDER BY name COLLATE "C";

-- The version of the library, which depends on the commit.
SELECT current_setting('snowflake_id.version') ~ '^\d+\.\d+\.\d+(-rc\.\d+)?(\+(dirty|(\d+\.)?g[0-9a-f]{10}(\.dirty)?))?$' AS is_version;
SET snowflake_id.version = '1.0';
ALTER SYSTEM SET snowflake_id.version = '1.0';

-- Every form of a layout can be set, and is kept as it was written.
SET snowflake_id.layout = 'twitter epoch=2024-01-01T00:00:00Z';
SHOW snowflake_id.layout;
SET snowflake_id.layout = '  time:41   worker:10 sequence:12 ';
SHOW snowflake_id.layout;
SET snowflake_id.layout TO DEFAULT;
SHOW snowflake_id.layout;

-- An invalid layout is refused, with the error and the valid forms. The old layout stays.
SET snowflake_id.layout = 'js53';
\pset format unaligned
\x on
SELECT text, refusal.*
FROM unnest(ARRAY[
    '', E' \n', 'twiter', 'Standard', 'nonsense', 'standard twitter', 'twitter sequence', 'time=41', 'time:41,worker:10', 'twitter time:41',
    'time:41 wroker:10', 'time:41 workers', 'time:41 seq:12', 'time:41 node=3', 'time:41 unit=1ms worker:10',
    'worker:10 time:41 sequence:12', 'unit=1ms', 'time:41 worker:10 worker:10', 'time:41 time:10',
    'time:41 worker:10 sequence:13', 'time:63 sequence:1', 'time:4294967295 worker:4294967295',
    'time:0 worker:10', 'time:64', 'time:41 worker:32', 'time:1 sequence:63', 'time: worker:10', 'time:+41',
    'time:-1', 'time:41.0', 'time:99999999999999999999',
    'standard unit=', 'standard unit=1', 'standard unit=0ms', 'standard unit=1.5ms', 'standard unit=11s',
    'standard unit=10000001us', 'standard unit=1ns', 'standard unit=99999999999999999999s',
    'standard unit=1ms unit=1ms', 'standard epoch=2024-01-01T00:00:00Z epoch=2025-01-01T00:00:00Z',
    'standard epoch=', 'standard epoch=2024', 'standard epoch=2024-01-01', 'standard epoch=2024-01-01T00:00:00',
    'standard epoch=2024-01-01 00:00:00Z', 'standard epoch=2024-02-30T00:00:00Z',
    'standard epoch=2024-01-01T00:00:00.0000001Z', 'standard epoch=0000-12-31T23:59:59Z',
    'standard epoch=9999-01-01T00:00:00Z', 'standard epoch=infinity',
    'time:63 unit=1us epoch=1970-01-01T00:00:00Z', 'time:63 unit=10s', 'time:54', repeat('x', 100)
]) WITH ORDINALITY AS bad (text, place),
LATERAL sqlstate_of(format('SET snowflake_id.layout = %L', text)) AS refusal
ORDER BY place;
\x off
\pset format aligned
SHOW snowflake_id.layout;
SELECT snowflake_nextval() < 2 ^ 53 AS still_js53;
RESET snowflake_id.layout;

-- set_config() and ALTER SYSTEM refuse it too.
SELECT set_config('snowflake_id.layout', 'nonsense', false);
ALTER SYSTEM SET snowflake_id.layout = 'nonsense';

-- SET LOCAL lasts to the end of the transaction or of the savepoint. IDs follow it, not only SHOW.
BEGIN;
SET LOCAL snowflake_id.layout = 'js53';
SELECT snowflake_nextval() < 2 ^ 53 AS is_js53;
SAVEPOINT inner_one;
SET LOCAL snowflake_id.layout = 'redis';
SELECT snowflake_nextval() > 2 ^ 53 AS is_redis;
ROLLBACK TO inner_one;
SELECT snowflake_nextval() < 2 ^ 53 AS is_js53_again;
COMMIT;
SHOW snowflake_id.layout;
SELECT snowflake_nextval() > 2 ^ 53 AS is_standard_again;

-- After a rolled back SET, the old layout is used for taking and for decoding IDs.
BEGIN;
SET snowflake_id.layout = 'js53';
ROLLBACK;
SHOW snowflake_id.layout;
SELECT snowflake_timestamp(0) = '2024-01-01T00:00:00Z' AND snowflake_nextval() > 2 ^ 53 AS is_standard;

-- A function with a layout of its own can be the default of a table.
CREATE FUNCTION js_id() RETURNS bigint LANGUAGE sql SET snowflake_id.layout = 'js53'
    AS 'SELECT public.snowflake_nextval()';
CREATE TABLE for_browsers (id bigint DEFAULT js_id(), other_id bigint DEFAULT snowflake_nextval());
INSERT INTO for_browsers DEFAULT VALUES;
INSERT INTO for_browsers DEFAULT VALUES;
SELECT count(DISTINCT id), bool_and(id < 2 ^ 53) AS js53, bool_and(other_id > 2 ^ 53) AS standard FROM for_browsers;
DROP TABLE for_browsers;
DROP FUNCTION js_id;
CREATE FUNCTION js_id() RETURNS bigint LANGUAGE sql SET snowflake_id.layout = 'nonsense'
    AS 'SELECT public.snowflake_nextval()';

-- max_wait: anyone can set it, from 0 to a day. (The error message depends on PostgreSQL's version.)
SET snowflake_id.max_wait = '24h';
SHOW snowflake_id.max_wait;
SET snowflake_id.max_wait = 250;
SHOW snowflake_id.max_wait;
SELECT value, code
FROM unnest(ARRAY['0', '1d', '-1', '86400001', '25h', 'never']) WITH ORDINALITY AS given (value, place),
LATERAL sqlstate_of(format('SET snowflake_id.max_wait = %L', value))
ORDER BY place;
RESET snowflake_id.max_wait;
SHOW snowflake_id.max_wait;

-- Settings of the server cannot be set in a session.
SELECT name, code, message
FROM unnest(ARRAY['worker_id', 'datacenter_id', 'max_ahead', 'sequence_spread'])
     WITH ORDINALITY AS server_wide (name, place),
LATERAL sqlstate_of(format('SET snowflake_id.%s = 3', name))
ORDER BY place;

-- A misspelled setting is refused, because the prefix is reserved.
SET snowflake_id.worker = 3;
SET snowflake_id.layuot = 'twitter';
SHOW snowflake_id.layuot;

-- The layout of a database takes effect in the next session.
SELECT :'DBNAME' AS database, :'USER' AS superuser \gset
ALTER DATABASE :"database" SET snowflake_id.layout = 'js53';
SHOW snowflake_id.layout;
\c
SHOW snowflake_id.layout;
SELECT snowflake_nextval() < 2 ^ 53 AS is_js53;
SELECT source FROM pg_settings WHERE name = 'snowflake_id.layout';

-- RESET and DISCARD restore it, not the built-in default.
SET snowflake_id.layout = 'twitter';
RESET snowflake_id.layout;
SHOW snowflake_id.layout;
SET snowflake_id.layout = 'twitter';
DISCARD ALL;
SHOW snowflake_id.layout;
SELECT snowflake_nextval() < 2 ^ 53 AS is_js53;

-- The layout of a role takes precedence, even for a role that may not set it.
CREATE ROLE regress_snowflake_reader LOGIN;
ALTER ROLE regress_snowflake_reader SET snowflake_id.layout = 'instagram';
\c - regress_snowflake_reader
SHOW snowflake_id.layout;
SELECT snowflake_worker(snowflake_nextval()), snowflake_sequence(1023);
SET snowflake_id.layout = 'js53';
\c - :superuser
ALTER ROLE regress_snowflake_reader IN DATABASE :"database" SET snowflake_id.layout = 'pgedge';
\c - regress_snowflake_reader
SHOW snowflake_id.layout;
\c - :superuser

-- Invalid layouts are refused here too, and the earlier setting stays.
ALTER DATABASE :"database" SET snowflake_id.layout = 'nonsense';
ALTER ROLE regress_snowflake_reader SET snowflake_id.layout = 'time:41 worker:23';
SELECT setdatabase <> 0 AS in_database, setconfig FROM pg_db_role_setting
WHERE setrole = 'regress_snowflake_reader'::regrole ORDER BY setconfig;
ALTER ROLE regress_snowflake_reader IN DATABASE :"database" RESET snowflake_id.layout;
ALTER ROLE regress_snowflake_reader RESET snowflake_id.layout;
ALTER DATABASE :"database" RESET snowflake_id.layout;
\c - regress_snowflake_reader
SHOW snowflake_id.layout;
\c - :superuser

-- An invalid layout can be stored while the library is not loaded. Here it is written directly to the catalog. The
-- session then has no layout at all, neither for taking nor for decoding IDs. It does not fall back to another one.
CREATE ROLE regress_snowflake_admin LOGIN SUPERUSER;
INSERT INTO pg_db_role_setting
    SELECT 0, oid, ARRAY['snowflake_id.layout=time:41 wroker:10']
    FROM pg_roles WHERE rolname LIKE 'regress\_snowflake\_%';
\c - regress_snowflake_reader
SHOW snowflake_id.layout;
SELECT snowflake_nextval();
SELECT * FROM snowflake_batch(3);
SELECT snowflake_decode(1);
SELECT snowflake_timestamp(1);
SELECT snowflake_encode('2024-01-01T00:00:00Z', 0, 0);

-- Calls that name their layout do not need the setting.
SELECT snowflake_worker(4096, 'standard');

-- A role that may set the layout can do so. After RESET it has none again.
\c - regress_snowflake_admin
SET snowflake_id.layout = 'standard';
SELECT snowflake_worker(snowflake_nextval());
RESET snowflake_id.layout;
SELECT snowflake_nextval();
\c - :superuser
DROP ROLE regress_snowflake_reader, regress_snowflake_admin;

-- A layout given when connecting: a valid one is used. With an invalid one the connection fails.
SELECT setting AS bindir FROM pg_config WHERE name = 'BINDIR' \gset
\set path :bindir ':' `echo "$PATH"`
\setenv PATH :path
\setenv PGOPTIONS '-c snowflake_id.layout=js53'
\! psql -X -A -t -c 'SHOW snowflake_id.layout' -c 'SELECT snowflake_nextval() < 2 ^ 53' regression
\setenv PGOPTIONS '-c snowflake_id.layout=nonsense'
\! psql -X -c 'SHOW snowflake_id.layout' regression 2>&1 | sed 's/.*FATAL/FATAL/'
\setenv PGOPTIONS

-- The connection to the registry. PostgreSQL itself would log a password at a reload.
ALTER SYSTEM SET snowflake_id.registry = 'host=registry user=fleet password=secret';
ALTER SYSTEM SET snowflake_id.registry = 'postgresql://fleet:secret@registry/postgres';
ALTER SYSTEM SET snowflake_id.registry = 'host=registry users=fleet';
ALTER SYSTEM SET snowflake_id.registry = 'postgresql://fleet@registry1,registry2/postgres?target_session_attrs=read-write';
ALTER SYSTEM RESET snowflake_id.registry;
CREATE ROLE regress_snowflake_asker;
SET ROLE regress_snowflake_asker;
SELECT code FROM sqlstate_of('SHOW snowflake_id.registry');
RESET ROLE;
DROP ROLE regress_snowflake_asker;
