-- Masked IDs: with a key, with a named key, the required privileges, and secrecy of the keys.
\set key '\\x0123456712345678234567893456789A'

-- The masks of the first version, which never change.
SELECT id, snowflake_mask(id, :'key'), snowflake_unmask(snowflake_mask(id, :'key'), :'key') = id AS back
FROM (VALUES (0), (1), (2), (1541815603606036480), (9223372036854775807)) AS v (id);
SELECT count(DISTINCT masked), bool_and(masked >= 0) AS never_negative, bool_and(snowflake_unmask(masked, :'key') = id) AS back
FROM generate_series(1, 10000) AS id, snowflake_mask(id, :'key') AS masked;

-- More keys than a backend caches, in turn, each several times.
SELECT count(*), count(DISTINCT masked), bool_and(snowflake_unmask(masked, key) = 42) AS back
FROM generate_series(1, 3) AS round, generate_series(1, 10) AS number, decode(lpad(to_hex(number), 32, '0'), 'hex') AS key,
     snowflake_mask(42, key) AS masked;

SELECT snowflake_mask(NULL, :'key') IS NULL AS id, snowflake_mask(1, NULL) IS NULL AS key,
       snowflake_unmask(NULL, :'key') IS NULL AS masked;
CREATE TABLE orders (id bigint, masked bigint GENERATED ALWAYS AS (snowflake_mask(id, '\x0123456712345678234567893456789A')) STORED);
INSERT INTO orders VALUES (1) RETURNING *;
DROP TABLE orders;

\pset format unaligned
\x on
SELECT * FROM sqlstate_of($$SELECT snowflake_mask(-1, '\x0123456712345678234567893456789A')$$);
SELECT * FROM sqlstate_of($$SELECT snowflake_unmask(-1, '\x0123456712345678234567893456789A')$$);
SELECT * FROM sqlstate_of($$SELECT snowflake_mask(1, '\x0123')$$);
SELECT * FROM sqlstate_of($$SELECT snowflake_unmask(1, '\x0123456712345678234567893456789ABC')$$);
SELECT * FROM sqlstate_of($$SELECT snowflake_mask(1, '')$$);

-- The name of a key is not used as a key, nor a key as a name.
SELECT * FROM sqlstate_of($$SELECT snowflake_mask(1, 'orders')$$);
SELECT code, message FROM sqlstate_of($$SELECT snowflake_mask(1, 'orders'::text)$$);
SELECT code, message FROM sqlstate_of($$SELECT snowflake_mask_named(1, '\x0123456712345678234567893456789A'::bytea)$$);
SELECT * FROM sqlstate_of($$SELECT snowflake_mask_named(1, '\x0123456712345678234567893456789A')$$);
SELECT * FROM sqlstate_of($$SELECT snowflake_unmask_named(1, 'sixteen_letters_')$$);
SELECT code, message FROM sqlstate_of($$INSERT INTO snowflake_mask_keys (name, key) VALUES ('sixteen_letters_', '\x0123456712345678234567893456789A')$$);
SELECT code, message FROM sqlstate_of($$INSERT INTO snowflake_mask_keys (name, key) VALUES ('\x00', '\x0123456712345678234567893456789A')$$);
-- 16 bytes as a key, though not 16 characters.
SELECT code, message FROM sqlstate_of($$INSERT INTO snowflake_mask_keys (name, key) VALUES (repeat(U&'\00E9', 8), '\x0123456712345678234567893456789A')$$);
SELECT code, message FROM sqlstate_of($$INSERT INTO snowflake_mask_keys (name, key) VALUES ('abcdefghijklmn\\o', '\x0123456712345678234567893456789A')$$);
SELECT code, message FROM sqlstate_of($$SELECT snowflake_mask_named(1, 'abcdefghijklmn\\o')$$);

-- Named keys. The HINT can be executed as it is.
SELECT * FROM sqlstate_of($$SELECT snowflake_mask_named(1, 'o''clock')$$);
SELECT * FROM sqlstate_of($$SELECT snowflake_unmask_named(1, 'é')$$);
SELECT substring(hint FROM 'INSERT.*\)') AS hint FROM sqlstate_of($$SELECT snowflake_mask_named(1, 'o''clock')$$) \gset
:hint;
\x off
\pset format aligned
SELECT name, octet_length(key), created_at <= now() AS has_time FROM snowflake_mask_keys;
SELECT snowflake_unmask_named(snowflake_mask_named(1541815603606036480, 'o''clock'), 'o''clock');
SELECT snowflake_mask_named(NULL, 'orders') IS NULL AS id, snowflake_mask_named(1, NULL) IS NULL AS name;
INSERT INTO snowflake_mask_keys (name, key) VALUES ('orders', :'key');
SELECT snowflake_mask_named(1541815603606036480, 'orders') AS masked, snowflake_unmask_named(221274310923782015, 'orders') AS id;
-- The next call uses a new key.
UPDATE snowflake_mask_keys SET key = '\x00000000000000000000000000000000' WHERE name = 'orders';
SELECT snowflake_mask_named(0, 'orders');
UPDATE snowflake_mask_keys SET key = :'key' WHERE name = 'orders';
SELECT snowflake_mask_named(0, 'orders');
-- A different name in each row, and in each round of a loop.
INSERT INTO snowflake_mask_keys (name, key) VALUES ('zeros', '\x00000000000000000000000000000000');
SELECT name, snowflake_mask_named(0, name) AS masked, snowflake_unmask_named(snowflake_mask_named(0, name), name) AS id
FROM unnest(ARRAY['orders', 'zeros', 'zeros', 'orders']) AS name;
DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['orders', 'zeros', 'orders'] LOOP
        RAISE NOTICE '%: %', name, snowflake_mask_named(0, name);
    END LOOP;
END
$$;
DELETE FROM snowflake_mask_keys WHERE name = 'zeros';
SELECT code, message FROM sqlstate_of($$INSERT INTO snowflake_mask_keys (name, key) VALUES ('short', '\x00')$$);
SELECT code, message FROM sqlstate_of($$INSERT INTO snowflake_mask_keys (name, key) VALUES ('', '\x0123456712345678234567893456789A')$$);

-- In parallel queries, including with a named key.
CREATE TABLE orders AS SELECT id::bigint FROM generate_series(1, 10000) AS id;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
EXPLAIN (COSTS OFF) SELECT count(*), max(snowflake_mask_named(id, 'orders')) FROM orders WHERE snowflake_mask_named(id, 'orders') > 0;
SELECT count(*), max(snowflake_mask_named(id, 'orders')) FROM orders WHERE snowflake_mask_named(id, 'orders') > 0;
RESET parallel_setup_cost;
RESET parallel_tuple_cost;
RESET min_parallel_table_scan_size;
SELECT count(*), max(snowflake_mask(id, :'key')) FROM orders;
DROP TABLE orders;

-- An ordinary role can use keys that it knows, but can neither read named keys nor use them without the privilege.
CREATE ROLE regress_snowflake_clerk;
SET ROLE regress_snowflake_clerk;
SELECT snowflake_mask(1541815603606036480, :'key');
SELECT code, message FROM sqlstate_of('SELECT * FROM snowflake_mask_keys');
SELECT code, message FROM sqlstate_of($$DELETE FROM snowflake_mask_keys$$);
SELECT code, message FROM sqlstate_of($$SELECT snowflake_mask_named(1, 'orders')$$);
SELECT code, message FROM sqlstate_of($$SELECT snowflake_unmask_named(1, 'orders')$$);
SELECT code, message FROM sqlstate_of($$SELECT snowflake_internal.snowflake_mask_key_of('orders')$$);
RESET ROLE;
GRANT EXECUTE ON FUNCTION snowflake_mask_named(bigint, text) TO regress_snowflake_clerk;
CREATE SCHEMA AUTHORIZATION regress_snowflake_clerk;
SET ROLE regress_snowflake_clerk;
SELECT snowflake_mask_named(1541815603606036480, 'orders');
SELECT code, message FROM sqlstate_of($$SELECT snowflake_unmask_named(1, 'orders')$$);
SELECT code, message FROM sqlstate_of('SELECT * FROM snowflake_mask_keys');
-- Objects of the role do not replace those that the function uses.
CREATE TABLE regress_snowflake_clerk.snowflake_mask_keys (name text, key bytea);
CREATE TEMPORARY TABLE snowflake_mask_keys (name text, key bytea);
INSERT INTO pg_temp.snowflake_mask_keys VALUES ('orders', '\x00000000000000000000000000000000');
CREATE FUNCTION regress_snowflake_clerk.snowflake_mask(bigint, bytea) RETURNS bigint LANGUAGE sql AS 'SELECT -1::bigint';
CREATE FUNCTION regress_snowflake_clerk.same(text, text) RETURNS bool LANGUAGE sql AS 'SELECT true';
CREATE OPERATOR regress_snowflake_clerk.= (LEFTARG = text, RIGHTARG = text, FUNCTION = regress_snowflake_clerk.same);
SET search_path = regress_snowflake_clerk, pg_temp, public, pg_catalog;
SELECT public.snowflake_mask_named(1541815603606036480, 'orders');
RESET search_path;
RESET ROLE;

-- No error shows the key in its message, DETAIL, HINT or CONTEXT.
CREATE FUNCTION all_of_the_error(commands text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    message text; detail text; hint text; context text;
BEGIN
    EXECUTE commands;
    RETURN 'no error';
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT,
                            context = PG_EXCEPTION_CONTEXT;
    -- The last two lines are from this function's own EXECUTE.
    RETURN concat_ws(' ', message, detail, hint, nullif(regexp_replace(context, E'(\n|^)SQL statement .*', ''), ''));
END
$$;
DROP TABLE pg_temp.snowflake_mask_keys;
\pset format unaligned
SELECT error, error ~* '0123456712345678' AS shows_key
FROM unnest(ARRAY[$$SELECT snowflake_mask_named(-1, 'orders')$$, $$SELECT snowflake_unmask_named(-1, 'orders')$$,
                  $$SELECT snowflake_mask_named(1, 'order')$$,
                  $$SELECT snowflake_mask_named(1, '\x0123456712345678234567893456789A')$$]) AS commands,
     all_of_the_error(commands) AS error;
\x on
SELECT * FROM sqlstate_of($$INSERT INTO snowflake_mask_keys (name, key) VALUES ('orders', '\x0123456712345678234567893456789A')$$);
\x off
\pset format aligned
EXPLAIN (VERBOSE, COSTS OFF) SELECT snowflake_mask_named(1, 'orders');
DROP FUNCTION all_of_the_error(text);

-- A dump contains the keys, because masked IDs could not be unmasked after a restore without them.
SELECT setting AS bindir FROM pg_config WHERE name = 'BINDIR' \gset
\set path :bindir ':' `echo "$PATH"`
\setenv PATH :path
\setenv dumped_database :DBNAME
\! pg_dump --table=snowflake_mask_keys --data-only "$dumped_database" | grep -o 'orders.*3456789a'
\! pg_dump "$dumped_database" --extension=snowflake_id | grep -c 'COPY public.snowflake_mask_keys'
DELETE FROM snowflake_mask_keys;
SET client_min_messages = warning;
DROP SCHEMA regress_snowflake_clerk CASCADE;
RESET client_min_messages;
REVOKE EXECUTE ON FUNCTION snowflake_mask_named(bigint, text) FROM regress_snowflake_clerk;
DROP ROLE regress_snowflake_clerk;
