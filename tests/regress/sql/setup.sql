-- The extension can be created, and has the expected contents.
CREATE EXTENSION snowflake_id;

-- It has the version and the comment of its control file, and tables whose rows are dumped.
SELECT e.extname, e.extnamespace::regnamespace AS schema, e.extrelocatable,
       ARRAY(SELECT dumped::regclass::text COLLATE "C" FROM unnest(e.extconfig) AS dumped ORDER BY 1) AS dumped,
       e.extversion = a.default_version AS is_default_version, a.comment
FROM pg_extension AS e JOIN pg_available_extensions AS a ON a.name = e.extname
WHERE e.extname = 'snowflake_id';

-- Its objects. Row types are omitted, because versions of PostgreSQL differ in whether they count them.
CREATE VIEW members AS
    SELECT d.classid, d.objid, d.objsubid,
           pg_describe_object(d.classid, d.objid, d.objsubid) COLLATE "C" AS object
    FROM pg_depend AS d JOIN pg_extension AS e ON e.oid = d.refobjid
    WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
      AND d.classid <> 'pg_type'::regclass AND e.extname = 'snowflake_id';
SELECT object FROM members ORDER BY object;

-- How the planner may use each function: forms with a named layout are immutable, forms with the session's layout
-- stable, functions that take IDs volatile. Functions that use a named key or grant segments run with the rights of their
-- owner.
SELECT p.oid::regprocedure::text COLLATE "C" AS function,
       CASE p.provolatile WHEN 'i' THEN 'immutable' WHEN 's' THEN 'stable' ELSE 'volatile' END AS volatility,
       CASE p.proparallel WHEN 's' THEN 'safe' WHEN 'r' THEN 'restricted' ELSE 'unsafe' END AS parallel,
       p.proisstrict AS strict, p.proretset AS set, p.prosecdef AS definer
FROM members AS m JOIN pg_proc AS p ON p.oid = m.objid AND m.classid = 'pg_proc'::regclass
ORDER BY 1;

-- The argument names, by which they can be called, and the results.
\pset format unaligned
SELECT format('%s(%s) -> %s', p.proname, pg_get_function_arguments(p.oid), pg_get_function_result(p.oid)) AS declaration
FROM members AS m JOIN pg_proc AS p ON p.oid = m.objid AND m.classid = 'pg_proc'::regclass
ORDER BY p.oid::regprocedure::text COLLATE "C";
\pset format aligned

-- Every object has a comment, and every column that users see too.
SELECT object FROM members WHERE obj_description(objid, classid::regclass::name) IS NULL ORDER BY object;
SELECT m.object, a.attname
FROM members AS m
JOIN pg_class AS c ON c.oid = m.objid AND m.classid = 'pg_class'::regclass AND c.relkind IN ('r', 'v')
JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0
WHERE col_description(c.oid, a.attnum) IS NULL
ORDER BY m.object, a.attnum;
DROP VIEW members;

-- Shared by the other topics: runs commands and reports how they ended. The effects of failed commands are undone.
CREATE FUNCTION sqlstate_of(commands text, OUT code text, OUT message text, OUT detail text, OUT hint text)
LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE commands;
    code := '00000';
EXCEPTION WHEN OTHERS OR query_canceled THEN
    GET STACKED DIAGNOSTICS code = RETURNED_SQLSTATE, message = MESSAGE_TEXT,
                            detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
END
$$;
SELECT code, message FROM sqlstate_of('SELECT 1');
SELECT code, message FROM sqlstate_of('SELECT 1 / 0');

-- The keeper finds the extension within seconds. Some tests use layouts that begin now. These need a floor later than
-- their epoch, which is a whole second.
DO $$
BEGIN
    WHILE (
        SELECT floor IS NULL OR floor > date_trunc('second', clock_timestamp()) OR state <> 'ready'
        FROM snowflake_status
    ) LOOP
        PERFORM pg_sleep(0.01);
    END LOOP;
END
$$;
