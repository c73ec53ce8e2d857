-- Assembled by "make sql" from sql/registry/parts/: do not edit.
--
-- The registry of a fleet: gives each server a worker ID, for a range of time, and no two servers the same.
--
-- It is an extension:   CREATE EXTENSION snowflake_id_registry;
-- The same file serves where no extension can be installed. The role needs CREATE on the database, no more:
--                       psql -f snowflake_id_registry--0.1.0.sql
-- Either way all of it is made or nothing: it is one statement, whatever client sends it.
--
-- Then, if no server of the fleet has made IDs with worker IDs from a registry before:
--                       SELECT snowflake_registry.start_fleet();
--
-- Numbers without time, in ranges:
--                       SELECT snowflake_registry.create_segment('orders');
--
-- What servers may do: ask for identities, renew them, and take numbers. They see no table.
--
--     CREATE ROLE fleet;
--     GRANT USAGE ON SCHEMA snowflake_registry TO fleet;
--     GRANT EXECUTE ON FUNCTION
--         snowflake_registry.acquire(uuid, bigint, bigint, uuid, uuid, jsonb, int, int, int, int[]),
--         snowflake_registry.renew(uuid, bigint, bigint, uuid, uuid, uuid, jsonb),
--         snowflake_registry.take(uuid, jsonb, text) TO fleet;
--
-- For each server a login role of its own, as a role can change its own password and settings:
--
--     CREATE ROLE shard1 LOGIN PASSWORD '...' CONNECTION LIMIT 10 IN ROLE fleet;
--     ALTER ROLE shard1 SET statement_timeout = '10s';
--     ALTER ROLE shard1 SET idle_in_transaction_session_timeout = '5s';
--     ALTER ROLE shard1 SET idle_session_timeout = '10min';
--     ALTER ROLE shard1 SET default_transaction_isolation = 'read committed';
--     ALTER ROLE shard1 SET default_transaction_read_only = off;
--
-- A role with EXECUTE on acquire() can take identities until none is left, and hold up the others by leaving
-- its transactions open: it belongs to servers of the fleet alone. How many there are to take is up to
-- configure(last_worker => .., last_datacenter => ..), and their rows stay for ever.
--
-- What the promise rests on. The ranges that are ever given for one identity do not overlap: a row of table
-- lease is never removed, its granted_until never decreases, and a new range begins where the last one ended,
-- or later. All that gives an identity to somebody else runs alone (table settings locked in EXCLUSIVE mode).
-- Renewals run side by side (ROW SHARE mode). These are locks of the table and not of its row, because the
-- queue for a table is fair: shared locks of a row are granted past those who wait for an exclusive one, and
-- renewals whose commits are slow would keep every acquire() waiting for good.
--
-- Of numbers without time the same holds: the row of a segment is never removed, its next_value never
-- decreases, and each range begins there. Servers that take numbers run side by side too (ROW SHARE mode),
-- and one after the other where they want the same name: then they wait for the row.
--
-- Only what is committed counts. A caller sends one statement by itself and believes the answer when the
-- statement has ended without an error or a warning. A row that is rolled back later was never granted.

DO LANGUAGE plpgsql $registry$
DECLARE
    -- Resolved before search_path is pinned: hence with their schemas.
    statement pg_catalog.text;
    search_path_before CONSTANT pg_catalog.text := pg_catalog.current_setting('search_path');
BEGIN
PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);

-- Functions with the rights of their owner find what they use by name. So the schema is made here and now, by the
-- role that is to own the registry. In a schema that was there before, its owner may have created objects that
-- cannot be seen until he commits: a function that fits a call better than ours would run with our rights.
IF EXISTS (SELECT FROM pg_namespace WHERE nspname = 'snowflake_registry') THEN
    RAISE EXCEPTION 'schema "snowflake_registry" already exists'
        USING ERRCODE = 'duplicate_schema',
              DETAIL = 'The registry has to be installed into a schema of its own, which it creates itself.',
              HINT = 'If there is no registry in it: DROP SCHEMA snowflake_registry;';
END IF;
CREATE SCHEMA snowflake_registry;
COMMENT ON SCHEMA snowflake_registry IS 'the registry of a fleet of servers that make snowflake IDs';
