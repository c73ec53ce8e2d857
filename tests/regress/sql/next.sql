-- snowflake_next() and snowflake_segment_next(), the names without the word nextval, do what the other names do.

\set SHOW_CONTEXT never
CREATE EXTENSION snowflake_id_registry;
SELECT snowflake_registry.create_segment('orders'), snowflake_registry.create_segment('closed');

-- IDs and numbers increase across both names, and the last one of the session is known whatever the name.
SELECT snowflake_nextval() AS first \gset
SELECT snowflake_next() AS second \gset
SELECT snowflake_nextval() AS third \gset
SELECT :first < :second AND :second < :third AS ids_increase, snowflake_currval() = :third AS currval;
SELECT snowflake_next() = snowflake_currval() AS currval;
SELECT next > nextval AS numbers_increase, currval = next AS currval
FROM (SELECT snowflake_segment_nextval('orders') AS nextval, snowflake_segment_next('orders') AS next,
             snowflake_segment_currval('orders') AS currval) AS numbers;
SELECT snowflake_segment_next(NULL) IS NULL AS "null";
SELECT snowflake_segment_next('nothing');

-- COPY inserts in bulk, as in copy.sql. A domain, and both names in one table.
CREATE FUNCTION none_is_in(relation oid) RETURNS boolean LANGUAGE sql
    AS 'SELECT pg_stat_get_xact_tuples_inserted(relation) = 0';
CREATE DOMAIN next_id AS bigint DEFAULT snowflake_next();
CREATE TABLE in_bulk (
    id bigint PRIMARY KEY DEFAULT snowflake_next(), other bigint DEFAULT snowflake_nextval(), of_domain next_id,
    number bigint DEFAULT snowflake_segment_next('orders'), place int, CHECK (none_is_in(tableoid))
);
COPY in_bulk (place) FROM PROGRAM 'seq 1000';
SELECT count(*), count(DISTINCT id) AS ids, count(DISTINCT number) AS numbers,
       (SELECT count(DISTINCT any_id) FROM in_bulk, unnest(ARRAY[id, other, of_domain]) AS any_id) AS ids_of_both_names
FROM in_bulk;

-- Outside of COPY the function is volatile: each row has its own ID.
ALTER TABLE in_bulk ADD added bigint DEFAULT snowflake_next();
SELECT count(DISTINCT added) FROM in_bulk;
DROP TABLE in_bulk;

-- A role needs only the privilege to insert rows, if the table's owner may take numbers of the segment.
CREATE ROLE next_owner;
CREATE ROLE next_clerk;
GRANT EXECUTE ON FUNCTION snowflake_segment_next(text) TO next_owner;
SELECT snowflake_segment_grant('orders', 'next_owner');
CREATE TABLE bills (id bigint DEFAULT snowflake_segment_next('orders'), place int);
ALTER TABLE bills OWNER TO next_owner;
GRANT INSERT, SELECT ON bills TO next_clerk;
EXPLAIN (VERBOSE, COSTS OFF) INSERT INTO bills DEFAULT VALUES;
SET ROLE next_clerk;
INSERT INTO bills VALUES (DEFAULT, 1) RETURNING id > 0 AS inserted;
SELECT snowflake_segment_next('orders');
RESET ROLE;
-- The segments of a role are the same for both names.
SET ROLE next_owner;
SELECT snowflake_segment_next('closed');
SELECT snowflake_segment_nextval('orders');
RESET ROLE;
-- Without the privilege, the error and its HINT name the function of the default, and the command in the HINT helps.
REVOKE EXECUTE ON FUNCTION snowflake_segment_next(text) FROM next_owner;
GRANT EXECUTE ON FUNCTION snowflake_segment_nextval(text) TO next_owner;
SET ROLE next_clerk;
INSERT INTO bills VALUES (DEFAULT, 2);
RESET ROLE;
GRANT EXECUTE ON FUNCTION snowflake_segment_next(text) TO next_owner;
SET ROLE next_clerk;
INSERT INTO bills VALUES (DEFAULT, 2) RETURNING id > 0 AS inserted;
RESET ROLE;
DROP TABLE bills;

-- A role that may not take IDs may not take them by the other name either, if both were revoked.
REVOKE EXECUTE ON FUNCTION snowflake_nextval(), snowflake_next() FROM PUBLIC;
SET ROLE next_clerk;
SELECT code, message FROM sqlstate_of('SELECT snowflake_nextval()') UNION ALL
SELECT code, message FROM sqlstate_of('SELECT snowflake_next()');
RESET ROLE;
GRANT EXECUTE ON FUNCTION snowflake_nextval(), snowflake_next() TO PUBLIC;

-- The trigger accepts IDs of both names.
CREATE TABLE events (id bigint PRIMARY KEY DEFAULT snowflake_next());
CREATE TRIGGER own_id AFTER INSERT ON events FOR EACH ROW EXECUTE FUNCTION snowflake_require_own_id('id');
INSERT INTO events DEFAULT VALUES;
INSERT INTO events VALUES (snowflake_nextval());
SELECT code FROM sqlstate_of('INSERT INTO events VALUES (' || :first || ')');
DROP TABLE events;

-- Adoption keeps both names, and sets the one without nextval.
CREATE TABLE old_name (id bigint PRIMARY KEY DEFAULT snowflake_nextval());
CREATE TABLE new_name (id bigint PRIMARY KEY DEFAULT snowflake_next());
CREATE TABLE old_segment (id bigint PRIMARY KEY DEFAULT snowflake_segment_nextval('orders'));
CREATE TABLE new_segment (id bigint PRIMARY KEY DEFAULT snowflake_segment_next('orders'));
CREATE TABLE serial (id bigserial PRIMARY KEY);
CREATE TABLE serial_of_segment (id bigserial PRIMARY KEY);
SELECT snowflake_adopt('old_name', 'id', dry_run => false);
SELECT snowflake_adopt('new_name', 'id', dry_run => false);
SELECT snowflake_adopt('old_segment', 'id', dry_run => false, generator => 'segment:orders');
SELECT snowflake_adopt('new_segment', 'id', dry_run => false, generator => 'segment:orders');
CALL snowflake_adopt_online('old_name', 'id');
CALL snowflake_adopt_online('new_name', 'id');
SELECT snowflake_adopt('serial', 'id', dry_run => false);
SELECT snowflake_adopt('serial', 'id', dry_run => false);
SELECT snowflake_adopt('serial_of_segment', 'id', dry_run => false, generator => 'segment:orders');
SELECT snowflake_adopt('serial_of_segment', 'id', dry_run => false, generator => 'segment:orders');

DROP TABLE old_name, new_name, old_segment, new_segment, serial, serial_of_segment;
DROP DOMAIN next_id;
DROP FUNCTION none_is_in;
DROP OWNED BY next_owner, next_clerk;
DROP ROLE next_owner, next_clerk;
SELECT count(snowflake_registry.drop_segment(name)) FROM snowflake_registry.segments WHERE state <> 'dropped';
DROP EXTENSION snowflake_id_registry;
