-- From the first version to the newest: the same objects as in a database that began with the newest.
CREATE VIEW members AS
    SELECT pg_describe_object(d.classid, d.objid, d.objsubid) COLLATE "C" AS object,
           obj_description(d.objid, d.classid::regclass::name) AS comment,
           coalesce(p.proacl, c.relacl, n.nspacl)::text AS privileges,
           p.provolatile, p.proparallel, p.proisstrict, coalesce(pg_get_function_sqlbody(p.oid), p.prosrc) AS body, pg_get_function_result(p.oid) AS result
    FROM pg_depend AS d
    JOIN pg_extension AS e ON e.oid = d.refobjid
    LEFT JOIN pg_proc AS p ON p.oid = d.objid AND d.classid = 'pg_proc'::regclass
    LEFT JOIN pg_class AS c ON c.oid = d.objid AND d.classid = 'pg_class'::regclass
    LEFT JOIN pg_namespace AS n ON n.oid = d.objid AND d.classid = 'pg_namespace'::regclass
    WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
      AND d.classid <> 'pg_type'::regclass AND e.extname = 'snowflake_id';
CREATE TABLE fresh AS SELECT * FROM members;
DROP EXTENSION snowflake_id;
CREATE EXTENSION snowflake_id VERSION '0.1.0';
CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), place int);
ALTER EXTENSION snowflake_id UPDATE;
INSERT INTO orders (place) SELECT generate_series(1, 10);
SELECT count(DISTINCT id) FROM orders;
(TABLE fresh EXCEPT TABLE members) UNION ALL (TABLE members EXCEPT TABLE fresh);
DROP TABLE orders, fresh;
DROP VIEW members;
