-- Partitions by time: which are created, which are left unchanged, and which requests are refused.
SET timezone = 'UTC';
SET datestyle = 'ISO';
CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), place int) PARTITION BY RANGE (id);

-- The plan lists the statements and changes nothing.
SELECT partition, since, before, from_id, to_id
FROM snowflake_plan_partitions('orders', '2026-01-01', '2026-03-15', '1 month');
SELECT statement FROM snowflake_plan_partitions('orders', '2026-01-01', '2026-03-15', '1 month');
SELECT count(*) FROM pg_inherits WHERE inhparent = 'orders'::regclass;

-- The call runs the same statements. The last partition is not truncated.
SELECT statement FROM snowflake_plan_partitions('orders', '2026-01-01', '2026-02-01', '1 month') \gexec
SELECT partition, created, statement
FROM snowflake_create_partitions('orders', '2026-01-01', '2026-03-15', '1 month', layout => 'standard');
SELECT c.oid::regclass AS partition, pg_get_expr(c.relpartbound, c.oid) AS bounds
FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid WHERE i.inhparent = 'orders'::regclass ORDER BY c.relname;

-- The bounds match the times: an ID of each end of February is in the right partition.
INSERT INTO orders SELECT snowflake_encode(at, 1, 0), row_number() OVER ()
FROM unnest(ARRAY['2026-01-31 23:59:59.999', '2026-02-01', '2026-02-28 23:59:59.999', '2026-03-01']::timestamptz[]) AS at;
SELECT tableoid::regclass AS partition, snowflake_timestamp(id) FROM orders ORDER BY id;

-- Months are months in UTC, whatever the session's time zone: everything exists.
SET timezone = 'America/New_York';
SELECT partition, since, before, created
FROM snowflake_create_partitions('orders', '2026-01-01Z', '2026-04-01Z', '1 month');
SET timezone = 'UTC';

-- A partition with the right bounds is left unchanged, whatever its name. A default partition or one outside the range
-- does not interfere.
ALTER TABLE orders_p20260201 RENAME TO "February's";
CREATE TABLE orders_old PARTITION OF orders FOR VALUES FROM (MINVALUE) TO (1000);
CREATE TABLE orders_rest PARTITION OF orders DEFAULT;
SELECT partition, created FROM snowflake_create_partitions('orders', '2026-02-01', '2026-05-01', '1 month');

-- Names include the time of day if the steps do.
CREATE SCHEMA "My Shop";
CREATE TABLE "My Shop"."Visits" (made_by int, id bigint) PARTITION BY RANGE (id);
SELECT partition, since, before, statement
FROM snowflake_create_partitions('"My Shop"."Visits"', '2026-01-01', '2026-01-01 12:00', '6 hours', 'js53');
SELECT partition FROM snowflake_create_partitions('"My Shop"."Visits"', '2026-02-01 12:00', '2026-02-02', '1 day', 'js53');
SELECT partition FROM snowflake_create_partitions('"My Shop"."Visits"', '2026-03-01', '2026-03-03', '24 hours', 'js53');
-- A month that begins on a 31st ends where the next one begins.
SELECT partition, before
FROM snowflake_plan_partitions('"My Shop"."Visits"', '2026-05-31', '2026-08-01', '1 month', 'js53');

-- Every error, with its hint. Nothing is left behind.
\pset format unaligned
\x on
CREATE FUNCTION refused(call text, OUT code text, OUT message text, OUT detail text, OUT hint text) LANGUAGE sql
    AS $$SELECT * FROM sqlstate_of('SELECT * FROM snowflake_create_partitions(' || call || ')')$$;
CREATE TABLE plain (id bigint);
CREATE TABLE listed (id bigint) PARTITION BY LIST (id);
CREATE TABLE hashed (id bigint) PARTITION BY HASH (id);
CREATE TABLE small (id int) PARTITION BY RANGE (id);
CREATE TABLE two (id bigint, place int) PARTITION BY RANGE (id, place);
CREATE TABLE computed (id bigint) PARTITION BY RANGE ((id % 1000));
SELECT * FROM refused($$'plain', '2026-01-01', '2026-02-01', '1 month'$$);
SELECT * FROM refused($$'listed', '2026-01-01', '2026-02-01', '1 month'$$);
SELECT * FROM refused($$'hashed', '2026-01-01', '2026-02-01', '1 month'$$);
SELECT * FROM refused($$'small', '2026-01-01', '2026-02-01', '1 month'$$);
SELECT * FROM refused($$'two', '2026-01-01', '2026-02-01', '1 month'$$);
SELECT * FROM refused($$'computed', '2026-01-01', '2026-02-01', '1 month'$$);
SELECT * FROM refused($$1::oid, '2026-01-01', '2026-02-01', '1 month'$$);
SELECT code, message FROM refused($$'nowhere', '2026-01-01', '2026-02-01', '1 month'$$);
SELECT * FROM refused($$NULL, '2026-01-01', '2026-02-01', '1 month'$$);
SELECT code, message FROM refused($$'orders', '2026-01-01', NULL, '1 month'$$);

-- Invalid ranges and steps.
SELECT * FROM refused($$'orders', '2027-01-01', '2027-01-01', '1 month'$$);
SELECT code, message FROM refused($$'orders', '2027-01-01', '2026-01-01', '1 month'$$);
SELECT * FROM refused($$'orders', '2027-01-01', '2028-01-01', '0'$$);
SELECT code, message FROM refused($$'orders', '2027-01-01', '2028-01-01', '-1 month'$$);
SELECT code, message FROM refused($$'orders', '2027-01-01', '2028-01-01', '1 ms'$$);
SELECT * FROM refused($$'orders', '2027-01-01', '2028-01-01', '1 hour -1 month +30 days'$$);
SELECT * FROM refused($$'orders', '2027-01-01', '2027-01-01 00:01', '1 s', 'time:38 unit=10s'$$);
SELECT * FROM refused($$'orders', '2027-01-01', '2028-01-01', '1 minute'$$);
SELECT * FROM refused($$'orders', '2023-01-01', '2027-01-01', '1 month'$$);
SELECT code, message FROM refused($$'orders', '-infinity', '2027-01-01', '1 month'$$);
SELECT * FROM refused($$'orders', '2090-01-01', '2094-01-01', '1 year'$$);
SELECT code, message FROM refused($$'orders', '2090-01-01', 'infinity', '1 year'$$);
SELECT code, message FROM refused($$'orders', '2027-01-01', '2028-01-01', '1 month', 'twiter'$$);

-- Existing objects: other bounds, an open end, a table of the same name.
SELECT * FROM refused($$'orders', '2026-03-15', '2026-07-01', '1 month'$$);
SELECT code, message, detail FROM refused($$'orders', '2026-01-01', '2026-07-01', '1 month', 'pgedge'$$);
CREATE TABLE orders_future PARTITION OF orders FOR VALUES FROM (1000000000000000000) TO (MAXVALUE);
SELECT code, message, detail FROM sqlstate_of($$SELECT snowflake_plan_partitions('orders', '2031-01-01', '2033-01-01', '1 month')$$);
CREATE VIEW orders_p20260601 AS SELECT;
SELECT * FROM refused($$'orders', '2026-05-01', '2026-07-01', '1 month'$$);
SELECT count(*) FROM pg_class WHERE relname = 'orders_p20260501';
-- A name of 53 bytes leaves room for the date, one of 54 does not.
SELECT repeat('ä', 26) || 's' AS fits, repeat('ä', 27) AS too_long \gset
CREATE TABLE :"fits" (id bigint) PARTITION BY RANGE (id);
CREATE TABLE :"too_long" (id bigint) PARTITION BY RANGE (id);
SELECT code, message FROM refused(format($$%L, '2026-01-01', '2026-02-01', '1 month'$$, :'fits'));
SELECT * FROM refused(format($$%L, '2026-01-01', '2026-02-01', '1 month'$$, :'too_long'));
-- PostgreSQL itself refuses a partition if the default partition contains rows that belong in it.
INSERT INTO orders VALUES (snowflake_encode('2026-12-24', 1, 0));
SELECT code, message FROM refused($$'orders', '2026-12-01', '2027-01-01', '1 month'$$);

-- Only the owner of the table can call it.
CREATE ROLE regress_snowflake_user;
GRANT SELECT, INSERT, UPDATE ON orders TO regress_snowflake_user;
GRANT CREATE ON SCHEMA public TO regress_snowflake_user;
SET ROLE regress_snowflake_user;
SELECT code, message FROM refused($$'orders', '2027-01-01', '2027-02-01', '1 month'$$);
SELECT code, message FROM sqlstate_of($$SELECT snowflake_plan_partitions('orders', '2027-01-01', '2027-02-01', '1 month')$$);
RESET ROLE;
-- A superuser or a member of the role that owns the table is not enough, because the partitions would belong to them.
CREATE TABLE visits (id bigint) PARTITION BY RANGE (id);
CREATE TABLE visits_rest PARTITION OF visits DEFAULT;
ALTER TABLE visits OWNER TO regress_snowflake_user;
ALTER TABLE visits_rest OWNER TO regress_snowflake_user;
SELECT current_user AS me \gset
SELECT code, replace(message, :'me', '...') AS message, replace(detail, :'me', '...') AS detail, hint
FROM refused($$'visits', '2027-01-01', '2027-02-01', '1 month'$$);
SELECT statement FROM snowflake_plan_partitions('visits', '2027-01-01', '2027-02-01', '1 month');
ALTER TABLE visits OWNER TO CURRENT_USER;
SELECT code, replace(hint, :'me', '...') AS hint FROM refused($$'visits', '2027-01-01', '2027-02-01', '1 month'$$);
ALTER TABLE visits OWNER TO regress_snowflake_user;
CREATE ROLE regress_snowflake_member IN ROLE regress_snowflake_user;
SET ROLE regress_snowflake_member;
SELECT code, message FROM refused($$'visits', '2027-01-01', '2027-02-01', '1 month'$$);
RESET ROLE;
DROP ROLE regress_snowflake_member;
SET ROLE regress_snowflake_user;
SELECT partition, created FROM snowflake_create_partitions('visits', '2027-01-01', '2027-02-01', '1 month');
RESET ROLE;
SELECT pg_get_userbyid(relowner) FROM pg_class WHERE relname = 'visits_p20270101';
DROP TABLE visits;
REVOKE CREATE ON SCHEMA public FROM regress_snowflake_user;
\x off
\pset format aligned

-- Objects with the same names in an earlier schema are not used.
CREATE SCHEMA hostile;
CREATE FUNCTION hostile.snowflake_min_id(timestamptz, text) RETURNS bigint LANGUAGE sql AS 'SELECT -1 / 0';
CREATE FUNCTION hostile.format(text, VARIADIC "any") RETURNS text LANGUAGE internal AS 'text_format_nv';
CREATE FUNCTION hostile.trap(bigint, bigint) RETURNS boolean LANGUAGE sql AS 'SELECT 1 / 0 = 1';
CREATE OPERATOR hostile.< (FUNCTION = hostile.trap, LEFTARG = bigint, RIGHTARG = bigint);
CREATE TABLE hostile.pg_class AS SELECT * FROM pg_class LIMIT 0;
SET search_path = hostile, pg_catalog, public;
SELECT partition, created FROM public.snowflake_create_partitions('public.orders', '2027-01-01', '2027-02-01', '1 month');
RESET search_path;
-- Code that the statements trigger runs with the caller's search_path.
SET search_path = "My Shop", public;
CREATE TABLE "My Shop".commands (tag text);
CREATE FUNCTION "My Shop".note() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO commands VALUES (tg_tag); END';
CREATE EVENT TRIGGER note_commands ON ddl_command_end EXECUTE FUNCTION "My Shop".note();
SELECT partition, created FROM snowflake_create_partitions('orders', '2027-02-01', '2027-03-01', '1 month');
DROP EVENT TRIGGER note_commands;
TABLE commands;
RESET search_path;

-- Up to PostgreSQL 18, backslashes in strings may have another meaning, even when an earlier plan is used again.
SELECT current_setting('server_version_num')::int < 190000 AS has_old_strings \gset
SELECT partition, created FROM snowflake_create_partitions('orders', '2027-02-01', '2027-03-01', '1 month');
\if :has_old_strings
SET standard_conforming_strings = off;
\endif
SELECT partition, created FROM snowflake_create_partitions('orders', '2027-02-01', '2027-03-01', '1 month');
\c
SET timezone = 'UTC';
SET datestyle = 'ISO';
\if :has_old_strings
SET standard_conforming_strings = off;
\endif
SELECT partition, created FROM snowflake_create_partitions('orders', '2027-02-01', '2027-03-01', '1 month');
RESET standard_conforming_strings;

-- Partitions created by other sessions must be visible.
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT * FROM refused($$'orders', '2027-03-01', '2027-04-01', '1 month'$$);
SELECT partition FROM snowflake_plan_partitions('orders', '2027-03-01', '2027-04-01', '1 month');
ROLLBACK;

SET client_min_messages = warning;
DROP SCHEMA hostile, "My Shop" CASCADE;
DROP TABLE orders, plain, listed, hashed, small, two, computed, :"fits", :"too_long";
DROP VIEW orders_p20260601;
DROP FUNCTION refused;
DROP ROLE regress_snowflake_user;
RESET client_min_messages;
