-- Records in the database when a link of the previous key was last used. Use it after the switch of a key. It writes at
-- most once a minute, because requests that update the same row wait for each other. A standby cannot run the query:
-- count old links in the metrics of the application there.
CREATE TABLE old_link (key_name text PRIMARY KEY, last_seen timestamptz NOT NULL DEFAULT now());

-- The query that reads a link.
WITH found AS (
    SELECT id, snowflake_to_public_named(id, 'cus', 'customers') <> 'cus_1RaoBzHuVr44yahB' AS is_old
    FROM snowflake_from_public_named('cus_1RaoBzHuVr44yahB', 'cus', 'customers') AS id
), noted AS (
    INSERT INTO old_link (key_name) SELECT 'customers' FROM found
    WHERE is_old AND NOT EXISTS (
        SELECT FROM old_link WHERE key_name = 'customers' AND last_seen > now() - interval '1 minute'
    )
    ON CONFLICT (key_name) DO UPDATE SET last_seen = now()
)
SELECT c.name FROM customers AS c JOIN found USING (id); -- Ada

-- Are old links still in use, and since when has the key been switched?
SELECT last_seen > now() - interval '1 day' FROM old_link WHERE key_name = 'customers'; -- t
SELECT switched_at, now() - switched_at AS age FROM snowflake_mask_keys WHERE name = 'customers';
