-- Assembled by "make sql" from sql/registry/parts/: do not edit.
--
-- The registry of a fleet: grants each server a worker ID for a range of time, never the same to two servers.
--
-- As an extension:       CREATE EXTENSION snowflake_id_registry;
-- Without extension support, run this file with psql. The role needs only CREATE on the database.
-- In both cases, all objects are created or none: the script is a single statement for every client.
--
-- Then specify the pool, from which the registry grants worker IDs. Worker IDs that are set by hand anywhere must be
-- outside the pool:
--                       SELECT snowflake_registry.start_fleet(first_worker => 512, last_worker => 1023);
--
-- For segments, which are numbers without time, given out in ranges:
--                       SELECT snowflake_registry.create_segment('orders');
--
-- Each server has a login role of its own, because a role can change its own password and settings. add_server() creates
-- the role, with the privileges to acquire and renew identities and to take numbers. The role needs none on tables.
--
--                       SELECT snowflake_registry.add_server('shard1');
--
-- Programs that generate IDs themselves also need release(), with which a program hands its worker ID back when it
-- ends.
--
-- A role with EXECUTE on acquire() can take identities until none is left, and can block other servers by leaving
-- transactions open. A transaction that is prepared after a call keeps its lock until ROLLBACK PREPARED. Grant this
-- privilege only to servers and programs of the fleet. The pool and configure(last_datacenter => ..) limit the number of
-- identities. Their rows are never removed.
--
-- How uniqueness is guaranteed: the ranges granted for one identity never overlap. A row of table lease is never
-- removed, its granted_until never decreases, and a new range starts at or after the end of the last one. Every
-- operation that gives an identity to another server runs alone (it locks table settings in EXCLUSIVE mode).
-- Renewals run concurrently (ROW SHARE mode). These are locks of the table, not of its row, because the lock queue
-- of a table is fair. A shared row lock is granted even while another session waits for an exclusive lock, so
-- renewals with slow commits could block acquire() forever.
--
-- The same holds for segments. The row of a segment is never removed, its next_value never decreases, and each
-- range starts at next_value. Servers take numbers concurrently (ROW SHARE mode), except from the same segment:
-- then they wait for the lock of its row.
--
-- Only committed grants count. A caller sends a single statement and trusts the answer if the statement ends
-- without an error or a warning. A row that is rolled back later was never granted.

DO LANGUAGE plpgsql $registry$
DECLARE
    -- The types are schema-qualified, because they are resolved before search_path is set.
    statement pg_catalog.text;
    search_path_before CONSTANT pg_catalog.text := pg_catalog.current_setting('search_path');
BEGIN
PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);

-- SECURITY DEFINER functions look up other objects by name. Therefore, this script creates the schema, so that the
-- owner of the registry also owns the schema. In an existing schema, the owner of the schema may have created objects
-- in a transaction that has not committed yet. A function that matches a call better than the function of the registry
-- would run with the privileges of the owner of the registry.
IF EXISTS (SELECT FROM pg_namespace WHERE nspname = 'snowflake_registry') THEN
    RAISE EXCEPTION 'schema "snowflake_registry" already exists'
        USING ERRCODE = 'duplicate_schema',
              DETAIL = 'The installation creates this schema.',
              HINT = 'If the schema contains no registry: DROP SCHEMA snowflake_registry;';
END IF;
CREATE SCHEMA snowflake_registry;
COMMENT ON SCHEMA snowflake_registry IS 'registry of a fleet of servers that issue snowflake IDs';
