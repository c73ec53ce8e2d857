-- Tables with a sequence that Citus has distributed already. snowflake_adopt() would check that the column is of type
-- bigint, and that its values are lower than new IDs: check both yourself.

-- A column that is not the distribution column.
ALTER TABLE notes ALTER COLUMN id SET DEFAULT snowflake_nextval();
DROP SEQUENCE notes_id_seq;

-- The distribution column, whose default Citus cannot change. Citus copies all rows to the coordinator and back, and
-- blocks writes in the meantime.
BEGIN;
SELECT undistribute_table('customers');
ALTER TABLE customers ALTER COLUMN id SET DEFAULT snowflake_nextval();
DROP SEQUENCE customers_id_seq;
SELECT create_distributed_table('customers', 'id');
COMMIT;
