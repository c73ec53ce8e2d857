-- COPY inserts rows in bulk, as with a sequence, and every row gets its own ID. Other statements are planned as usual.

-- PostgreSQL checks all rows of a batch before it inserts the first of them. So a table with this constraint accepts up
-- to 1000 rows in bulk, but only one row if they are inserted one by one.
CREATE FUNCTION none_is_in(relation oid) RETURNS boolean LANGUAGE sql
    AS 'SELECT pg_stat_get_xact_tuples_inserted(relation) = 0';
CREATE TABLE in_bulk (CHECK (none_is_in(tableoid)));
CREATE TABLE with_sequence (LIKE in_bulk INCLUDING ALL, id bigserial, place int);
COPY with_sequence (place) FROM PROGRAM 'seq 1000';
CREATE TABLE with_clock (LIKE in_bulk INCLUDING ALL, at timestamptz DEFAULT clock_timestamp(), place int);
\set VERBOSITY terse
COPY with_clock (place) FROM PROGRAM 'seq 1000';
\set VERBOSITY default
DROP TABLE with_sequence, with_clock;

-- The numbers of rows and of IDs, and whether IDs increase from row to row.
CREATE FUNCTION ids_of(relation regclass, OUT rows int, OUT ids int, OUT increase boolean) LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('SELECT count(*), count(DISTINCT id), bool_and(id > id_before)
                    FROM (SELECT id, lag(id) OVER (ORDER BY place) AS id_before FROM %s) AS pair', relation)
        INTO rows, ids, increase;
END
$$;

-- A table with a key, one without in CSV, a temporary one, and a frozen one.
CREATE TABLE orders (LIKE in_bulk INCLUDING ALL, id bigint PRIMARY KEY DEFAULT snowflake_nextval(), place int);
COPY orders (place) FROM PROGRAM 'seq 1000';
SELECT * FROM ids_of('orders');
CREATE TABLE heap (LIKE orders INCLUDING DEFAULTS INCLUDING CONSTRAINTS);
COPY heap (place) FROM stdin (FORMAT csv, HEADER);
place
1
2
3
\.
SELECT * FROM ids_of('heap');
CREATE TEMPORARY TABLE fleeting (LIKE orders INCLUDING ALL);
COPY fleeting (place) FROM PROGRAM 'seq 1000';
SELECT * FROM ids_of('fleeting');
BEGIN;
CREATE TABLE frozen (LIKE orders INCLUDING ALL);
COPY frozen (place) FROM PROGRAM 'seq 1000' (FREEZE);
COMMIT;
SELECT * FROM ids_of('frozen');
DROP TABLE heap, fleeting, frozen;

-- A partitioned table, including one where the ID determines the partition. There is a batch for each partition.
CREATE TABLE by_place (LIKE orders INCLUDING DEFAULTS INCLUDING CONSTRAINTS) PARTITION BY LIST ((place / 501));
CREATE TABLE by_place_0 PARTITION OF by_place FOR VALUES IN (0);
CREATE TABLE by_place_1 PARTITION OF by_place FOR VALUES IN (1);
COPY by_place (place) FROM PROGRAM 'seq 1000';
SELECT * FROM ids_of('by_place');
CREATE TABLE by_id (LIKE orders INCLUDING DEFAULTS INCLUDING CONSTRAINTS) PARTITION BY RANGE (id);
CREATE TABLE by_id_past PARTITION OF by_id FOR VALUES FROM (MINVALUE) TO (0);
CREATE TABLE by_id_present PARTITION OF by_id FOR VALUES FROM (0) TO (MAXVALUE);
COPY by_id (place) FROM PROGRAM 'seq 1000';
SELECT tableoid::regclass, count(*) FROM by_id GROUP BY 1;
DROP TABLE by_place, by_id;

-- Rows with explicit IDs keep them. From PostgreSQL 16 on, a marker can stand for the default in each row.
CREATE TABLE given (LIKE orders INCLUDING ALL);
COPY given FROM PROGRAM $$printf '1\t1\n2\t2\n'$$;
SELECT id, place FROM given ORDER BY id;
CREATE TABLE chosen (LIKE orders INCLUDING ALL);
COPY chosen (place) FROM PROGRAM 'seq 1000' WHERE place % 2 = 0;
SELECT * FROM ids_of('chosen');
CREATE TABLE marked (LIKE orders INCLUDING ALL);
SELECT current_setting('server_version_num')::int >= 160000 AS has_marker \gset
\if :has_marker
COPY marked FROM PROGRAM $$printf '\\D\t1\n2\t2\n\\D\t3\n'$$ (DEFAULT '\D');
\else
COPY marked (place) FROM PROGRAM $$printf '1\n3\n'$$;
\endif
SELECT place, snowflake_worker(id) AS worker FROM marked WHERE id <> 2 ORDER BY place;
DROP TABLE given, chosen, marked;

-- PostgreSQL inserts one by one if a condition takes IDs itself. The rows are still correct.
CREATE TABLE conditional (id bigint DEFAULT snowflake_nextval(), place int);
COPY conditional (place) FROM PROGRAM 'seq 1000' WHERE snowflake_nextval() > 0;
SELECT * FROM ids_of('conditional');
DROP TABLE conditional;

-- The call as a part of the default, in two columns, within a function, in an identity of text, in a domain.
CREATE FUNCTION new_id() RETURNS bigint LANGUAGE sql AS 'SELECT public.snowflake_nextval()';
CREATE DOMAIN order_id AS bigint CHECK (VALUE <= snowflake_nextval());
CREATE TABLE various (
    LIKE in_bulk INCLUDING ALL,
    id bigint DEFAULT snowflake_nextval(),
    another bigint DEFAULT snowflake_nextval(),
    next bigint DEFAULT snowflake_nextval() + 1,
    code text DEFAULT 'order ' || snowflake_to_text(snowflake_nextval(), 'hex'),
    wrapped bigint DEFAULT new_id(),
    checked order_id DEFAULT snowflake_nextval(),
    place int
);
COPY various (place) FROM PROGRAM 'seq 1000';
SELECT count(DISTINCT drawn) AS ids
FROM various, unnest(ARRAY[id, another, next - 1, wrapped, checked,
                           snowflake_from_text(right(code, 16), 'hex')]) AS drawn;
SELECT bool_and(another > id) AS order_of_columns FROM various;

-- A function that uses its argument twice gets one ID, whatever the planner estimates for its cost.
CREATE FUNCTION twice(bigint) RETURNS bigint[] LANGUAGE sql AS 'SELECT ARRAY[$1, $1]';
CREATE TABLE pairs (
    pair bigint[] DEFAULT twice(snowflake_nextval()),
    next_pair bigint[] DEFAULT twice(snowflake_nextval() + 1),
    place int
);
COPY pairs (place) FROM PROGRAM 'seq 1000';
SET cpu_operator_cost = 0;
COPY pairs (place) FROM PROGRAM 'seq 1000';
SET cpu_operator_cost = '1e308';
COPY pairs (place) FROM PROGRAM 'seq 1000';
RESET cpu_operator_cost;
SELECT count(*), count(*) FILTER (WHERE pair[1] = pair[2] AND next_pair[1] = next_pair[2]) AS equal FROM pairs;
DROP TABLE various, pairs;

-- ADD COLUMN gives each row its own ID, even right after a COPY. A query does too, and the columns of a subquery are
-- equal.
BEGIN;
CREATE TABLE lines (id bigint DEFAULT snowflake_nextval(), place int);
COPY lines (place) FROM PROGRAM 'seq 1000';
ALTER TABLE lines ADD COLUMN line_id bigint DEFAULT snowflake_nextval();
COPY lines (place) FROM PROGRAM 'seq 1001 2000';
COMMIT;
SELECT count(DISTINCT id) AS ids, count(DISTINCT line_id) AS line_ids FROM lines;
SELECT count(DISTINCT a) AS ids, bool_and(a = b) AS equal
FROM (SELECT id AS a, id AS b FROM (SELECT snowflake_nextval() AS id FROM lines) AS s) AS pair;
\d lines

-- The query of a COPY TO is planned as usual: a condition that takes an ID is evaluated for every row.
CREATE FUNCTION seen(bigint) RETURNS boolean STABLE LANGUAGE plpgsql
    AS 'BEGIN RAISE NOTICE ''an ID''; RETURN true; END';
COPY (SELECT place FROM generate_series(1, 3) AS place WHERE seen(snowflake_nextval())) TO stdout;
DROP FUNCTION seen;

-- Triggers do the same during a COPY, and more: they plan queries and functions that are used again later, they run
-- COPY, and they fail and continue.
CREATE TABLE noted (id bigint DEFAULT snowflake_nextval(), place int);
CREATE FUNCTION with_default(place int, id bigint DEFAULT snowflake_nextval()) RETURNS bigint LANGUAGE plpgsql
    AS 'BEGIN RETURN id; END';
CREATE FUNCTION meanwhile() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    first_id bigint := snowflake_nextval();
    second_id bigint := snowflake_nextval();
BEGIN
    ASSERT second_id > first_id;
    ASSERT with_default(1) > second_id AND with_default(1) < with_default(2);
    ALTER TABLE lines DROP COLUMN line_id, ADD COLUMN line_id bigint DEFAULT snowflake_nextval();
    ASSERT (SELECT count(DISTINCT line_id) = 2000 FROM lines);
    ASSERT (SELECT count(DISTINCT id) = 2000 AND bool_and(id = same)
            FROM (SELECT s.id, s.id AS same FROM (SELECT snowflake_nextval() AS id FROM lines) AS s) AS pair);
    INSERT INTO noted (place) SELECT place FROM lines;
    COPY noted (place) FROM PROGRAM 'seq 2001 3000';
    INSERT INTO noted (place) VALUES (3001), (3002);
    BEGIN
        COPY noted (place) FROM PROGRAM 'echo 3003; echo none';
    EXCEPTION WHEN invalid_text_representation THEN
        INSERT INTO noted (place) VALUES (3003), (3004);
        ALTER TABLE noted ADD COLUMN further_id bigint DEFAULT snowflake_nextval();
    END;
    ASSERT (SELECT count(*) = 3004 AND count(DISTINCT id) = 3004 AND count(DISTINCT further_id) = 3004 FROM noted);
    ALTER TABLE noted DROP COLUMN further_id;
    TRUNCATE noted;
    RETURN NEW;
END
$$;
CREATE TABLE before_row (id bigint DEFAULT snowflake_nextval(), place int);
CREATE TABLE after_row (LIKE orders INCLUDING ALL);
CREATE TABLE after_statement (LIKE orders INCLUDING ALL);
CREATE TABLE source (id bigint, place int);
CREATE VIEW view_of_source AS SELECT * FROM source;
ALTER VIEW view_of_source ALTER id SET DEFAULT snowflake_nextval();
CREATE FUNCTION store() RETURNS trigger LANGUAGE plpgsql
    AS 'BEGIN INSERT INTO source VALUES (NEW.id, NEW.place); RETURN NEW; END';
CREATE TRIGGER store INSTEAD OF INSERT ON view_of_source FOR EACH ROW EXECUTE FUNCTION store();
CREATE TRIGGER meanwhile BEFORE INSERT ON before_row FOR EACH ROW
    WHEN (NEW.place IN (1, 3) AND NEW.id < snowflake_nextval()) EXECUTE FUNCTION meanwhile();
CREATE TRIGGER meanwhile AFTER INSERT ON after_row FOR EACH ROW
    WHEN (NEW.place IN (1, 3)) EXECUTE FUNCTION meanwhile();
CREATE TRIGGER meanwhile_before BEFORE INSERT ON after_statement EXECUTE FUNCTION meanwhile();
CREATE TRIGGER meanwhile_after AFTER INSERT ON after_statement EXECUTE FUNCTION meanwhile();
\c
COPY before_row (place) FROM PROGRAM 'seq 1000';
SELECT * FROM ids_of('before_row');
COPY after_row (place) FROM PROGRAM 'seq 1000';
SELECT * FROM ids_of('after_row');
COPY after_statement (place) FROM PROGRAM 'seq 1000';
SELECT * FROM ids_of('after_statement');
COPY view_of_source (place) FROM PROGRAM 'seq 1000';
SELECT * FROM ids_of('source');
INSERT INTO before_row (place) VALUES (1), (3);
DROP VIEW view_of_source;
DROP TABLE before_row, after_row, after_statement, source, noted;
DROP FUNCTION meanwhile, store, with_default;

-- COPY cannot be prepared. A prepared INSERT that is first planned in a trigger during a COPY continues to take IDs.
CREATE TABLE notes (id bigint DEFAULT snowflake_nextval(), place int);
CREATE TABLE notified (LIKE orders INCLUDING ALL);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql
    AS 'BEGIN EXECUTE format(''EXECUTE note(%s)'', NEW.place); RETURN NEW; END';
CREATE TRIGGER note AFTER INSERT ON notified FOR EACH ROW EXECUTE FUNCTION note();
PREPARE note(int) AS INSERT INTO notes (place) VALUES ($1), ($1);
COPY notified (place) FROM PROGRAM 'seq 100';
EXECUTE note(101);
SELECT count(*), count(DISTINCT id) FROM notes;
DEALLOCATE note;
DROP TABLE notes, notified;
DROP FUNCTION note;

-- A failed COPY has no effects: neither on rows nor on later plans.
CREATE TABLE failed (LIKE orders INCLUDING ALL);
COPY failed (place) FROM PROGRAM 'echo 1; echo 2; echo three';
ALTER TABLE lines DROP COLUMN line_id, ADD COLUMN line_id bigint DEFAULT snowflake_nextval();
SELECT count(DISTINCT line_id) FROM lines;
BEGIN;
SAVEPOINT before_failure;
COPY failed (place) FROM PROGRAM 'echo 1; echo 2; echo three';
ROLLBACK TO before_failure;
ALTER TABLE lines DROP COLUMN line_id, ADD COLUMN line_id bigint DEFAULT snowflake_nextval();
COPY failed (place) FROM PROGRAM 'seq 10';
COMMIT;
SELECT count(DISTINCT line_id) FROM lines;
SELECT * FROM ids_of('failed');
DROP TABLE failed, lines;

-- An ordinary role copies in bulk as well, and needs only the privilege on snowflake_nextval().
CREATE ROLE regress_snowflake_writer;
GRANT pg_execute_server_program TO regress_snowflake_writer;
CREATE TABLE granted (LIKE orders INCLUDING ALL);
CREATE TABLE checked (id order_id, place int);
GRANT INSERT ON granted, checked TO regress_snowflake_writer;
SET ROLE regress_snowflake_writer;
COPY granted (place) FROM PROGRAM 'seq 1000';
COPY checked FROM PROGRAM $$printf '1\t1\n'$$;
RESET ROLE;
SELECT * FROM ids_of('granted');
REVOKE EXECUTE ON FUNCTION snowflake_nextval() FROM PUBLIC;
SET ROLE regress_snowflake_writer;
COPY granted (place) FROM PROGRAM 'seq 1000';
-- The constraint of the domain fails too, although this session planned it while it had the privilege.
INSERT INTO checked VALUES (1);
RESET ROLE;
CREATE TABLE granted_again (LIKE orders INCLUDING ALL);
GRANT INSERT ON granted_again TO regress_snowflake_writer;
GRANT EXECUTE ON FUNCTION snowflake_nextval() TO regress_snowflake_writer;
SET ROLE regress_snowflake_writer;
COPY granted_again (place) FROM PROGRAM 'seq 1000';
RESET ROLE;
SELECT * FROM ids_of('granted_again');
REVOKE EXECUTE ON FUNCTION snowflake_nextval() FROM regress_snowflake_writer;
GRANT EXECUTE ON FUNCTION snowflake_nextval() TO PUBLIC;

-- The functions that replace calls cannot be called, even by a superuser: no SQL value has the type of their last
-- argument. If the privilege is revoked, rows are inserted one by one.
-- Which of the errors is raised depends on the minor version: there is no such function, no such cast, or no such value.
SELECT argument, code IN ('42883', '42846', '0A000') AS refused
FROM unnest(ARRAY['', 'NULL', 'NULL::internal', '''1''', '1::bigint', '1::bigint::internal']) AS argument,
     sqlstate_of(format('SELECT snowflake_internal.snowflake_nextval_in_copy(%s)', argument));
SELECT twin, argument, code IN ('42883', '42846', '0A000') AS refused
FROM unnest(ARRAY['default', 'copy']) AS twin, unnest(ARRAY['NULL', 'NULL::internal', '''1''']) AS argument,
     sqlstate_of(format($$SELECT snowflake_internal.snowflake_segment_nextval_in_%s(
                              'snowflake_segment_nextval(text)', 'orders', 'pg_class', %s)$$, twin, argument));
SET ROLE regress_snowflake_writer;
SELECT code IN ('42883', '42846', '0A000') AS refused
FROM sqlstate_of('SELECT snowflake_internal.snowflake_nextval_in_copy(NULL)');
RESET ROLE;
REVOKE EXECUTE ON FUNCTION snowflake_internal.snowflake_nextval_in_copy(internal) FROM PUBLIC;
CREATE TABLE one_by_one (id bigint DEFAULT snowflake_nextval(), place int);
GRANT INSERT ON one_by_one TO regress_snowflake_writer;
SET ROLE regress_snowflake_writer;
COPY one_by_one (place) FROM PROGRAM 'seq 1000';
RESET ROLE;
SELECT * FROM ids_of('one_by_one');
GRANT EXECUTE ON FUNCTION snowflake_internal.snowflake_nextval_in_copy(internal) TO PUBLIC;

-- It is in no definition and in no dump.
SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = 'granted'::regclass;
SELECT setting AS bindir FROM pg_config WHERE name = 'BINDIR' \gset
\set path :bindir ':' `echo "$PATH"`
\setenv PATH :path
\! pg_dump regression | grep -c 'DEFAULT public.snowflake_nextval()'
\! pg_dump regression | grep -c snowflake_internal.snowflake_

DROP TABLE orders, granted, granted_again, checked, one_by_one, in_bulk;
DROP DOMAIN order_id;
DROP FUNCTION ids_of, none_is_in, new_id, twice;
DROP OWNED BY regress_snowflake_writer;
DROP ROLE regress_snowflake_writer;
