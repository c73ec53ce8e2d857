-- The steps of snowflake_adopt_online() for one table. Since version 18, NOT NULL has a constraint of its own.
CREATE SCHEMA shop;
SET search_path = shop, public;
CREATE TABLE small (id smallserial PRIMARY KEY, n int);
\set VERBOSITY terse
CALL snowflake_adopt_online('small', 'id');
\pset format unaligned
-- OIDs are parts of names.
SELECT title, regexp_replace(array_to_string(statements, E'\n'), 'snowflake_new_\d{4,}', 'snowflake_new_OID', 'g') AS statements
FROM snowflake_internal.snowflake_adopt_steps('small', 'id', false, (
    SELECT jsonb_agg(to_jsonb(known)) FROM snowflake_internal.snowflake_adopt_definitions('small', 'id') AS known
)) ORDER BY position, title COLLATE "C";
DROP SCHEMA shop CASCADE;
