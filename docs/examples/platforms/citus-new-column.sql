-- Adds a column with IDs to a reference table. ALTER TABLE .. ADD COLUMN .. DEFAULT snowflake_nextval() would compute
-- the values on each node, so that the copies of the table differ.
BEGIN;
ALTER TABLE kinds ADD COLUMN public_id bigint;
CREATE TABLE new_ids (id bigint PRIMARY KEY, public_id bigint);
SELECT create_reference_table('new_ids');
INSERT INTO new_ids SELECT id, snowflake_nextval() FROM kinds;
UPDATE kinds SET public_id = new_ids.public_id FROM new_ids WHERE new_ids.id = kinds.id;
ALTER TABLE kinds ALTER COLUMN public_id SET DEFAULT snowflake_nextval();
DROP TABLE new_ids;
COMMIT;
