-- Several writers with pglogical on PostgreSQL 15 (package postgresql-15-pglogical of Debian). With an empty
-- forward_origins, pglogical sends only the rows of its own server.
--
-- Set these parameters on each server, and restart it. Minor releases before 15.20 may not have the last parameter, and
-- refuse to start with it: omit it there.
--
--     shared_preload_libraries = 'pglogical, snowflake_id'
--     wal_level = logical
--     max_replication_slots = 20
--     max_wal_senders = 20
--     max_worker_processes = 40
--     output_plugin_libraries = 'pgoutput, pglogical_output'
--
-- EACH SERVER MUST HAVE A WORKER ID OF ITS OWN. By default, pglogical resolves conflicts: if two servers insert rows
-- with the same ID, one row silently replaces the other. With pglogical.conflict_resolution = error, the subscription
-- stops instead. The tables must be empty, and no rows may be inserted until all subscriptions are ready. Do not add
-- the tables of the extension to a replication set.

-- on server alpha, with its own name on each server
CREATE EXTENSION pglogical;
SELECT pglogical.create_node('alpha', 'host=alpha dbname=shop');
CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), item text);
SELECT pglogical.replication_set_add_table('default', 'orders');

-- on server alpha, for each other server
SELECT pglogical.create_subscription('alpha_from_beta', 'host=beta dbname=shop',
    synchronize_structure => false, synchronize_data => false, forward_origins => '{}');

-- on server alpha, until the result is true
SELECT status = 'replicating' FROM pglogical.show_subscription_status('alpha_from_beta');
