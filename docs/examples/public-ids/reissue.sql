-- Re-issues the public IDs that a table stores, after the switch of a key and before the drop. Wait first until all
-- transactions that are older than the switch have ended. Each transaction changes a thousand rows. If the command is
-- interrupted, run it again: rows that are already changed are skipped.
--
-- DO takes no parameters. If the application keeps the key, pass it with SELECT set_config('shop.key', $1, false), and
-- use snowflake_to_public(c.id, 'cus', current_setting('shop.key')::bytea) in the same session.
DO $$
DECLARE
    last_id bigint := -1;
BEGIN
    LOOP
        WITH batch AS (
            SELECT id FROM customers WHERE id > last_id ORDER BY id LIMIT 1000
        ), changed AS (
            UPDATE customers AS c SET public_id = snowflake_to_public_named(c.id, 'cus', 'customers')
            FROM batch
            WHERE c.id = batch.id AND c.public_id <> snowflake_to_public_named(c.id, 'cus', 'customers')
        )
        SELECT max(id) INTO last_id FROM batch;
        COMMIT;
        EXIT WHEN last_id IS NULL;
    END LOOP;
END
$$;

-- If the result is not 0, transactions that are older than the switch have inserted rows since. Wait until they have
-- ended, and run the command again.
SELECT count(*) FROM customers WHERE public_id <> snowflake_to_public_named(id, 'cus', 'customers'); -- 0
