-- Several writers, from PostgreSQL 16 on: a server was lost, and another one takes its place. Here, alpha and beta
-- remain, gamma was lost, and gamma is also the name of the new server. To add a server, begin at step 4.


-- A server was lost
--
-- 1. Make sure that the lost server is not started again. Remove the subscriptions to it. Its slots on the other
--    servers keep WAL until you drop them. If a slot is still active, repeat the last statement after
--    wal_sender_timeout.

-- on server alpha, if gamma was lost
ALTER SUBSCRIPTION alpha_from_gamma DISABLE;
ALTER SUBSCRIPTION alpha_from_gamma SET (slot_name = NONE);
DROP SUBSCRIPTION alpha_from_gamma;
SELECT pg_drop_replication_slot('gamma_from_alpha');

-- on server beta, if gamma was lost
ALTER SUBSCRIPTION beta_from_gamma DISABLE;
ALTER SUBSCRIPTION beta_from_gamma SET (slot_name = NONE);
DROP SUBSCRIPTION beta_from_gamma;
SELECT pg_drop_replication_slot('gamma_from_beta');

-- 2. The other servers may have received different transactions of the lost server, and do not forward them. Compare
--    the rows of its worker ID, including changed rows.

-- on server alpha and on server beta
SELECT count(*), md5(string_agg(o::text, ',' ORDER BY id)) FROM orders AS o WHERE snowflake_worker(id) = $1; -- $1: the worker ID

-- 3. Insert missing rows with a replication origin, so that they are not sent to the other servers. $1 and $2 are the
--    values of the row. Rows that the lost server sent to no server are lost. Their IDs are not issued again.

-- on server beta, for a row that only alpha has
SELECT pg_replication_origin_create('repair');
SELECT pg_replication_origin_session_setup('repair');
INSERT INTO orders (id, item) VALUES ($1, $2);
SELECT pg_replication_origin_session_reset();
SELECT pg_replication_origin_drop('repair');


-- A new server
--
-- 4. UNTIL THE LAST STEP, ONLY alpha MAY INSERT, CHANGE OR DELETE ROWS. The new server copies the rows from alpha. A
--    row that beta inserts meanwhile could arrive twice, and "duplicate key value" would stop the subscription. Direct
--    the application to alpha, revoke the privileges on the other servers, and wait until their transactions have
--    ended.
-- 5. Set up gamma with a worker ID that no server has had, or with one that a registry leases. If you assign the worker
--    ID of the lost server yourself, call snowflake_raise_floor() before the first insert. Create the tables and the
--    publication, as on the other servers.
-- 6. Connect gamma to beta without a copy. When alpha has all rows of beta, connect gamma to alpha with a copy. In this
--    order, a late row of beta stops the subscription instead of being lost. PostgreSQL warns that alpha may have rows
--    of other origins: these have to be copied.

-- on server gamma, first
CREATE SUBSCRIPTION gamma_from_beta CONNECTION 'host=beta dbname=shop' PUBLICATION app WITH (origin = none, copy_data = false);

-- on server beta, the position that alpha has to reach
SELECT pg_current_wal_insert_lsn();

-- on server beta, until alpha has reached it
SELECT confirmed_flush_lsn >= $1 FROM pg_replication_slots WHERE slot_name = 'alpha_from_beta'; -- $1: the position

-- on server gamma, second
CREATE SUBSCRIPTION gamma_from_alpha CONNECTION 'host=alpha dbname=shop' PUBLICATION app WITH (origin = none, copy_data = true);

-- on server gamma, until the result is true
SELECT count(*) > 0 AND bool_and(srsubstate = 'r') FROM pg_subscription_rel;

-- 7. Connect the other servers to gamma. All servers may insert rows again.

-- on server alpha, when gamma is ready
CREATE SUBSCRIPTION alpha_from_gamma CONNECTION 'host=gamma dbname=shop' PUBLICATION app WITH (origin = none, copy_data = false);

-- on server beta, when gamma is ready
CREATE SUBSCRIPTION beta_from_gamma CONNECTION 'host=gamma dbname=shop' PUBLICATION app WITH (origin = none, copy_data = false);
