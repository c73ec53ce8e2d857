-- The plan of snowflake_adopt_online() for one table. Since version 18, NOT NULL has a constraint of its own.
CREATE SCHEMA shop;
SET search_path = shop, public;
CREATE TABLE small (id smallserial PRIMARY KEY);
CALL snowflake_adopt_online('small', 'id');
DROP SCHEMA shop CASCADE;
