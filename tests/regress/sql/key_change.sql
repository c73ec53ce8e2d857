-- A named key is changed in three steps. Meanwhile public IDs and UUIDs of both keys are read.
\set key '\\x0123456712345678234567893456789A'
\set new_key '\\x00112233445566778899AABBCCDDEEFF'
INSERT INTO snowflake_mask_keys (name, key) VALUES ('customers', :'key'), ('other', :'key');
CREATE FUNCTION keys() RETURNS TABLE (has_next boolean, has_previous boolean, switched boolean) LANGUAGE sql
    AS 'SELECT next_key IS NOT NULL, previous_key IS NOT NULL, switched_at IS NOT NULL FROM snowflake_mask_keys WHERE name = ''customers''';
-- How an ID is read from a text and a UUID of each key, and with which key it is made.
CREATE FUNCTION answers(key bytea, new_key bytea)
RETURNS TABLE (old_text text, old_uuid text, new_text text, new_uuid text, made text) LANGUAGE sql AS $$
    SELECT (sqlstate_of(format(read_text, snowflake_to_public(42, 'cus', key)))).code,
           (sqlstate_of(format(read_uuid, snowflake_to_uuid(42, key, 'cus')))).code,
           (sqlstate_of(format(read_text, snowflake_to_public(42, 'cus', new_key)))).code,
           (sqlstate_of(format(read_uuid, snowflake_to_uuid(42, new_key, 'cus')))).code,
           CASE (snowflake_to_public_named(42, 'cus', 'customers'), snowflake_to_uuid_named(42, 'customers', 'cus'), snowflake_mask_named(42, 'customers'))
               WHEN (snowflake_to_public(42, 'cus', key), snowflake_to_uuid(42, key, 'cus'), snowflake_mask(42, key)) THEN 'old'
               WHEN (snowflake_to_public(42, 'cus', new_key), snowflake_to_uuid(42, new_key, 'cus'), snowflake_mask(42, new_key)) THEN 'new'
           END
    FROM (VALUES ('SELECT 1 / (snowflake_from_public_named(%L, ''cus'', ''customers'') = 42)::int',
                  'SELECT 1 / (snowflake_from_uuid_named(%L, ''customers'', ''cus'') = 42)::int')) AS v (read_text, read_uuid)
$$;

SELECT * FROM keys(), answers(:'key', :'new_key');
SELECT snowflake_prepare_mask_key('customers', :'new_key');
SELECT * FROM keys(), answers(:'key', :'new_key');
SELECT snowflake_switch_mask_key('customers');
SELECT * FROM keys(), answers(:'key', :'new_key');
-- The result of making a text again shows whether it was made with the previous key.
SELECT snowflake_to_public_named(snowflake_from_public_named(text, 'cus', 'customers'), 'cus', 'customers') <> text AS of_previous_key
FROM (VALUES (snowflake_to_public(42, 'cus', :'key')), (snowflake_to_public(42, 'cus', :'new_key'))) AS v (text);
SELECT snowflake_drop_previous_mask_key('customers');
SELECT * FROM keys(), answers(:'key', :'new_key');
-- Other keys are left as they are.
SELECT name, key = :'key' AS is_old_key, num_nulls(next_key, previous_key, switched_at) AS nulls FROM snowflake_mask_keys ORDER BY name;

-- In the same query, each row is read with the key that made it.
UPDATE snowflake_mask_keys SET key = :'key' WHERE name = 'customers';
SELECT snowflake_prepare_mask_key('customers', :'new_key');
SELECT count(*), bool_and(snowflake_from_public_named(snowflake_to_public(id, 'cus', key), 'cus', 'customers') = id) AS text,
       bool_and(snowflake_from_uuid_named(snowflake_to_uuid(id, key), 'customers') = id) AS uuid
FROM generate_series(1, 1000) AS id, unnest(ARRAY[:'key'::bytea, :'new_key'::bytea]) AS key;

-- Masked numbers have no tag, so they are not unmasked while there are two keys.
\pset format unaligned
\x on
SELECT * FROM sqlstate_of($$SELECT snowflake_unmask_named(221274310923782015, 'customers')$$);
SELECT code FROM sqlstate_of($$SELECT snowflake_unmask_named(1, 'customers', 10)$$);
SELECT code FROM sqlstate_of($$SELECT snowflake_unmask_named(1, 'customers', 'js53')$$);
-- The HINT can be executed as it is.
SELECT substring(hint FROM 'UPDATE [^;]*') AS hint FROM sqlstate_of($$SELECT snowflake_unmask_named(1, 'customers')$$) \gset
:hint;
SELECT snowflake_unmask_named(221274310923782015, 'customers');

-- Each step is taken once, in order. The error says what is next, and shows no key.
SELECT * FROM sqlstate_of($$SELECT snowflake_switch_mask_key('customers')$$);
SELECT * FROM sqlstate_of($$SELECT snowflake_drop_previous_mask_key('customers')$$);
SELECT * FROM sqlstate_of($$SELECT snowflake_prepare_mask_key('customers', '\x0123456712345678234567893456789A')$$);
SELECT snowflake_prepare_mask_key('customers');
SELECT * FROM sqlstate_of($$SELECT snowflake_prepare_mask_key('customers', '\x00112233445566778899AABBCCDDEEFF')$$);
SELECT * FROM sqlstate_of($$SELECT snowflake_drop_previous_mask_key('customers')$$);
SELECT snowflake_switch_mask_key('customers');
SELECT * FROM sqlstate_of($$SELECT snowflake_switch_mask_key('customers')$$);
SELECT * FROM sqlstate_of($$SELECT snowflake_prepare_mask_key('customers')$$);
SELECT snowflake_drop_previous_mask_key('customers');
SELECT * FROM sqlstate_of($$SELECT snowflake_prepare_mask_key('nobody')$$);
SELECT code, message FROM sqlstate_of($$SELECT snowflake_switch_mask_key('nobody')$$);
SELECT code, message FROM sqlstate_of($$SELECT snowflake_drop_previous_mask_key('\x00112233445566778899AABBCCDDEEFF')$$);
SELECT * FROM sqlstate_of($$SELECT snowflake_prepare_mask_key('customers', '\x00')$$);
SELECT * FROM sqlstate_of($$SELECT snowflake_prepare_mask_key('customers', NULL)$$);
SELECT code, message FROM sqlstate_of($$SELECT snowflake_prepare_mask_key(NULL)$$);
SELECT code, message FROM sqlstate_of($$SELECT snowflake_switch_mask_key(NULL)$$);
SELECT code, message FROM sqlstate_of($$SELECT snowflake_drop_previous_mask_key(NULL)$$);
\x off
\pset format aligned

-- Generated keys are different ones, of 16 bytes.
DO $$
BEGIN
    FOR round IN 1..5 LOOP
        PERFORM snowflake_prepare_mask_key('customers');
        PERFORM snowflake_switch_mask_key('customers');
        INSERT INTO snowflake_mask_keys (name, key) SELECT 'round ' || round, key FROM snowflake_mask_keys WHERE name = 'customers';
        PERFORM snowflake_drop_previous_mask_key('customers');
    END LOOP;
END
$$;
SELECT count(DISTINCT key), min(octet_length(key)), max(octet_length(key)) FROM snowflake_mask_keys WHERE name LIKE 'round %';

-- A step that is rolled back was not taken, and a step takes effect in the same transaction.
UPDATE snowflake_mask_keys SET key = :'key' WHERE name = 'customers';
BEGIN;
SELECT snowflake_prepare_mask_key('customers', :'new_key'), snowflake_switch_mask_key('customers');
SELECT * FROM answers(:'key', :'new_key');
ROLLBACK;
SELECT * FROM answers(:'key', :'new_key');

-- A role that may change keys sees none.
CREATE ROLE regress_snowflake_clerk;
SET ROLE regress_snowflake_clerk;
SELECT code, message
FROM unnest(ARRAY[$$SELECT snowflake_prepare_mask_key('customers')$$, $$SELECT snowflake_switch_mask_key('customers')$$,
                  $$SELECT snowflake_drop_previous_mask_key('customers')$$, $$SELECT snowflake_internal.snowflake_mask_key_state('customers', '')$$,
                  $$SELECT snowflake_internal.snowflake_mask_key_step('switch', 'customers', '', 'prepared')$$]) AS commands,
     sqlstate_of(commands);
RESET ROLE;
GRANT EXECUTE ON FUNCTION snowflake_prepare_mask_key(text), snowflake_switch_mask_key(text), snowflake_drop_previous_mask_key(text)
    TO regress_snowflake_clerk;
CREATE SCHEMA AUTHORIZATION regress_snowflake_clerk;
SET ROLE regress_snowflake_clerk;
-- Objects of the role do not replace those that the functions use.
CREATE TEMPORARY TABLE snowflake_mask_keys (name text, key bytea, next_key bytea, previous_key bytea, switched_at timestamptz);
CREATE FUNCTION regress_snowflake_clerk.snowflake_mask_key_state(text, bytea) RETURNS text LANGUAGE sql AS 'SELECT ''prepared''';
CREATE FUNCTION regress_snowflake_clerk.same(text, text) RETURNS bool LANGUAGE sql AS 'SELECT true';
CREATE OPERATOR regress_snowflake_clerk.= (LEFTARG = text, RIGHTARG = text, FUNCTION = regress_snowflake_clerk.same);
SET search_path = regress_snowflake_clerk, pg_temp, public, pg_catalog;
SELECT code FROM public.sqlstate_of('SELECT public.snowflake_switch_mask_key(''customers'')');
SELECT public.snowflake_prepare_mask_key('customers'), public.snowflake_switch_mask_key('customers');
SELECT code, message FROM public.sqlstate_of('SELECT previous_key FROM public.snowflake_mask_keys');
RESET search_path;
RESET ROLE;
DROP TABLE pg_temp.snowflake_mask_keys;
SELECT * FROM keys();
SELECT count(*) FROM snowflake_mask_keys WHERE previous_key IS NOT NULL;
SELECT has_previous, old_text, old_uuid, new_text FROM keys(), answers(:'key', :'new_key');

-- Nothing but a row with a key and one other key can be stored.
SELECT code, message FROM sqlstate_of($$UPDATE snowflake_mask_keys SET next_key = key WHERE name = 'customers'$$);
SELECT code, message FROM sqlstate_of($$UPDATE snowflake_mask_keys SET previous_key = '\x00' WHERE name = 'customers'$$);
SELECT code, message FROM sqlstate_of($$UPDATE snowflake_mask_keys SET next_key = '\x00' WHERE name = 'other'$$);

DELETE FROM snowflake_mask_keys;
DROP FUNCTION keys();
DROP FUNCTION answers(bytea, bytea);
SET client_min_messages = warning;
DROP SCHEMA regress_snowflake_clerk CASCADE;
RESET client_min_messages;
DROP OWNED BY regress_snowflake_clerk;
DROP ROLE regress_snowflake_clerk;
