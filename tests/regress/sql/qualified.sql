-- A superuser runs the installation script with the schema of the extension on the search_path, and runs our functions
-- in databases that others own. So every operator is schema-qualified unless search_path is pinned, and no construct
-- implies an unqualified one.

-- The script without comments, strings, functions that pin search_path, and tokens that only look like operators.
CREATE FUNCTION unqualified(script text) RETURNS SETOF text LANGUAGE plpgsql AS $function$
BEGIN
    script := regexp_replace(script, '--[^\n]*', '', 'g');
    script := regexp_replace(script, '/\*.*?\*/', '', 'g');
    script := regexp_replace(script, $$'([^']|'')*'$$, $$''$$, 'g');
    script := regexp_replace(script, 'CREATE FUNCTION[^;$]*SET search_path = pg_catalog, pg_temp[^;$]*\$\$([^$]|\$[^$])*\$\$',
                             '', 'g');
    script := regexp_replace(script, 'OPERATOR\(pg_catalog\.[^)]*\)', '', 'g');
    script := regexp_replace(script, '@extschema@|=>|:=|\m(ERRCODE|DETAIL|HINT|search_path|SET (names|next_key|previous_key|\([\w, ]+\))|INPUT|OUTPUT|RECEIVE|SEND|LIKE|CATEGORY) =|\.\*|SELECT \*|\(\*\)|-(?=\d)', '', 'g');
    RETURN QUERY
        SELECT trim(line) FROM regexp_split_to_table(script, '\n') AS line
        WHERE line ~ '[-+*/<>=~!@#%^&|`?]'
           OR line ~* '\m(IN *\(|(BETWEEN|NULLIF|I?LIKE|SIMILAR|DISTINCT FROM|NATURAL)\M|CASE +(?!WHEN\M)|JOIN\M.*\mUSING\M)';
END
$function$;
SELECT unqualified(pg_read_file(directory.setting || '/extension/snowflake_id--' || extension.extversion || '.sql')) AS line
FROM pg_config AS directory, pg_extension AS extension
WHERE directory.name = 'SHAREDIR' AND extension.extname = 'snowflake_id';

-- The check finds exactly what it should.
SELECT unqualified($script$
    CREATE VIEW v AS SELECT a.*, count(*) FROM t WHERE a OPERATOR(pg_catalog.=) b; -- a = b
    DO $$BEGIN RAISE EXCEPTION 'a = b' USING HINT = 'c', DETAIL = f(x => -1); y := CASE WHEN a THEN b END; END$$;
    CREATE FUNCTION f() RETURNS int LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$BEGIN RETURN $1 = 2; END$$;
    SELECT 1 = 1;
    DO $$BEGIN PERFORM a <> b; END$$;
    SELECT CASE a WHEN 0 THEN 1 END;
    SELECT a IN (1), a NOT BETWEEN 1 AND 2;
    SELECT a IS DISTINCT FROM b, nullif(a, b), NULLIF(a, b);
    SELECT oid = ANY (ARRAY[1]);
    SELECT FROM a JOIN b USING (c);
    CREATE FUNCTION f() RETURNS int LANGUAGE plpgsql SET search_path = public AS $$BEGIN RETURN a || b; END$$;
    CREATE FUNCTION f() RETURNS int LANGUAGE sql RETURN a % 2;
$script$) AS line;
DROP FUNCTION unqualified;

-- The functions with text bodies that do not pin search_path, because they or their statements must run with the
-- caller's. In them, the names of types and functions are qualified too: the test hostile::database makes traps for all
-- names that they mention.
SELECT p.oid::regprocedure AS function
FROM pg_depend AS d
JOIN pg_extension AS e ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid AND e.extname = 'snowflake_id'
JOIN pg_proc AS p ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid
JOIN pg_language AS l ON l.oid = p.prolang
WHERE l.lanname IN ('sql', 'plpgsql') AND p.prosqlbody IS NULL
  AND NOT coalesce('search_path=pg_catalog, pg_temp' = ANY (p.proconfig), false)
ORDER BY p.proname;
