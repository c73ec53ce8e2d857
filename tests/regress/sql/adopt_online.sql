-- Big tables are changed to snowflake IDs step by step: new columns beside the old ones, filled in batches, and exchanged
-- at the end. Notices with sizes are shown only in topic adopt_dry_run, because they may differ.
SET client_min_messages = warning;

-- A schema's columns, constraints and indexes, without the types of the columns that are replaced.
CREATE FUNCTION looks(schema name) RETURNS SETOF text LANGUAGE sql AS $$
    SELECT format('%s.%s %s%s%s%s%s%s%s', c.relname, a.attname, format_type(a.atttypid, a.atttypmod),
                  CASE WHEN a.attnotnull THEN ' not null' END, ' default ' || pg_get_expr(d.adbin, d.adrelid),
                  ' comment ' || col_description(c.oid, a.attnum), ' acl ' || a.attacl::text,
                  ' statistics ' || nullif(a.attstattarget, -1),
                  (SELECT ' ' || string_agg(o, ', ') FROM unnest(a.attoptions) AS o WHERE o LIKE 'n\_distinct%')) COLLATE "C"
    FROM pg_class AS c
    JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    LEFT JOIN pg_attrdef AS d ON d.adrelid = c.oid AND d.adnum = a.attnum
    WHERE c.relnamespace = looks.schema::regnamespace AND c.relkind = 'r'
    UNION ALL
    SELECT format('%s %s: %s, %s%s', c.relname, conname, pg_get_constraintdef(x.oid), convalidated,
                  ' comment ' || obj_description(x.oid, 'pg_constraint'))
    FROM pg_constraint AS x JOIN pg_class AS c ON c.oid = x.conrelid
    WHERE connamespace = looks.schema::regnamespace AND contype IN ('c', 'f', 'p', 'u')
    UNION ALL
    SELECT format('%s, replica identity %s, clustered %s%s', pg_get_indexdef(indexrelid), indisreplident, indisclustered,
                  ' comment ' || obj_description(indexrelid, 'pg_class'))
    FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
    WHERE c.relnamespace = looks.schema::regnamespace
    UNION ALL
    SELECT format('sequence %s', relname) FROM pg_class WHERE relnamespace = looks.schema::regnamespace AND relkind = 'S'
    UNION ALL
    SELECT format('trigger %s of %s', tgname, c.relname) FROM pg_trigger AS t JOIN pg_class AS c ON c.oid = t.tgrelid
    WHERE c.relnamespace = looks.schema::regnamespace AND NOT tgisinternal
    ORDER BY 1
$$;

CREATE ROLE regress_snowflake_clerk;
CREATE SCHEMA shop;
SET search_path = shop, public;
CREATE TABLE customers (id serial PRIMARY KEY, name text, referrer int, CONSTRAINT referred FOREIGN KEY (referrer) REFERENCES customers);
CREATE TABLE orders (
    number int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    customer_id int NOT NULL CONSTRAINT of_customer REFERENCES customers ON DELETE CASCADE ON UPDATE CASCADE,
    payer_id int DEFAULT 1 REFERENCES customers (id) ON DELETE SET NULL DEFERRABLE INITIALLY DEFERRED,
    place text, UNIQUE (place, customer_id) INCLUDE (payer_id)
);
CREATE INDEX orders_by_customer ON orders (customer_id DESC, place text_pattern_ops) WITH (fillfactor = 70) WHERE place <> '';
CREATE UNIQUE INDEX identity ON orders (customer_id, number);
ALTER TABLE orders REPLICA IDENTITY USING INDEX identity;
ALTER TABLE orders CLUSTER ON identity;
CREATE TABLE refunds (place text, customer_id bigint, FOREIGN KEY (place, customer_id) REFERENCES orders (place, customer_id) MATCH FULL);
CREATE TABLE visits (customer_id smallint REFERENCES customers, at date);
ALTER TABLE visits ADD FOREIGN KEY (customer_id) REFERENCES customers NOT VALID;
COMMENT ON COLUMN customers.id IS 'the customer''s number';
COMMENT ON CONSTRAINT of_customer ON orders IS 'who ordered';
COMMENT ON CONSTRAINT customers_pkey ON customers IS 'the key';
COMMENT ON INDEX orders_by_customer IS 'for reports';
GRANT SELECT (id, name), UPDATE (id) ON customers TO regress_snowflake_clerk;
ALTER TABLE customers ALTER id SET STATISTICS 500, ALTER referrer SET (n_distinct = 7);
INSERT INTO customers (name) SELECT 'customer ' || n FROM generate_series(1, 1000) AS n;
UPDATE customers SET referrer = id - 1 WHERE id % 3 = 0;
INSERT INTO orders (customer_id, payer_id, place) SELECT id, nullif(id % 7, 0), 'place' FROM customers;
INSERT INTO refunds SELECT place, customer_id FROM orders WHERE customer_id > 100;
INSERT INTO visits SELECT id FROM customers WHERE id > 100;
CREATE TEMP TABLE before AS SELECT looks('shop') AS line;
CREATE TEMP TABLE old_orders AS SELECT * FROM orders;
CREATE TEMP TABLE old_customers AS SELECT * FROM customers;

-- The dry run changes nothing.
CALL snowflake_adopt_online('customers', 'id');
SELECT line FROM before EXCEPT SELECT looks('shop');
\pset format unaligned
-- The topic "adopt_dry_run" shows the statements that differ between versions.
SELECT title, array_to_string(ARRAY(SELECT s FROM unnest(statements) WITH ORDINALITY AS u (s, n)
                                    WHERE s !~ 'SET NOT NULL|_not_null' ORDER BY n), E'\n') AS statements
FROM snowflake_internal.snowflake_adopt_steps('customers', 'id', 64) ORDER BY position COLLATE "C";
\pset format aligned

-- Each call goes on until an index is missing, and returns the command that creates it. Meanwhile, the table is used.
CALL snowflake_adopt_online('customers', 'id', dry_run => false, pause => '0') \gexec
SELECT * FROM snowflake_adopt_progress ORDER BY table_name::text COLLATE "C";
INSERT INTO customers (name, referrer) VALUES ('new', 5) RETURNING id, id_snowflake, referrer_snowflake;
UPDATE customers SET referrer = 1 WHERE name = 'new' RETURNING referrer_snowflake;
UPDATE customers SET id_snowflake = 7, referrer_snowflake = NULL WHERE name = 'new' RETURNING id_snowflake, referrer_snowflake;
UPDATE customers SET id = 5000 WHERE id = 10;
SELECT customer_id, customer_id_snowflake FROM orders WHERE customer_id = 5000;
DELETE FROM customers WHERE id = 4;
SELECT customer_id, customer_id_snowflake, payer_id, payer_id_snowflake FROM orders WHERE customer_id IN (4, 11);
-- Replication fires only such triggers.
SET session_replication_role = replica;
INSERT INTO customers (name) VALUES ('replica') RETURNING id_snowflake = id AS is_equal;
RESET session_replication_role;
-- A foreign key and an index that come late. An index that could not be created.
CREATE TABLE late (customer_id int REFERENCES customers);
INSERT INTO late VALUES (1), (NULL);
CREATE INDEX late_index ON customers (id, name);
UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'customers_pkey_snowflake'::regclass;
CALL snowflake_adopt_online('customers', 'id', dry_run => false, pause => '0') \gexec
CALL snowflake_adopt_online('customers', 'id', dry_run => false, pause => '0');
CALL snowflake_adopt_online('customers', 'id', dry_run => false, pause => '0') \gexec
CALL snowflake_adopt_online('customers', 'id', dry_run => false, pause => '0') \gexec
CALL snowflake_adopt_online('customers', 'id', dry_run => false, pause => '0') \gexec
CALL snowflake_adopt_online('customers', 'id', dry_run => false, pause => '0') \gexec
CALL snowflake_adopt_online('customers', 'id', dry_run => false, pause => '0') \gexec
CALL snowflake_adopt_online('customers', 'id', dry_run => false, pause => '0') \gexec
CALL snowflake_adopt_online('customers', 'id', dry_run => false, pause => '0');
-- Only types, default and sequences differ, and the objects that came late.
SELECT '-' AS sign, line FROM (SELECT line FROM before EXCEPT SELECT looks('shop')) AS gone
UNION ALL
SELECT '+', line FROM (SELECT looks('shop') AS line EXCEPT SELECT line FROM before) AS come
ORDER BY 2, 1;
TABLE snowflake_adopt_progress;
-- No row and no value is lost, and new rows get IDs.
DELETE FROM old_customers WHERE id = 4;
UPDATE old_customers SET id = 5000 WHERE id = 10;
DELETE FROM old_orders WHERE customer_id = 4;
UPDATE old_orders SET payer_id = NULL WHERE payer_id = 4;
UPDATE old_orders SET customer_id = 5000 WHERE customer_id = 10;
SELECT * FROM (SELECT id, name, referrer FROM old_customers EXCEPT SELECT id, name, referrer FROM customers) AS missing;
SELECT name FROM (SELECT id, name, referrer FROM customers EXCEPT SELECT id, name, referrer FROM old_customers) AS more ORDER BY 1;
SELECT * FROM (SELECT * FROM old_orders EXCEPT SELECT number, customer_id, payer_id, place FROM orders) AS missing;
SELECT count(*) FROM orders;
INSERT INTO customers (name) VALUES ('snow') RETURNING snowflake_worker(id);
SELECT attname, null_frac FROM pg_stats WHERE schemaname = 'shop' AND tablename = 'customers' ORDER BY 1;
SET client_min_messages = notice;
CALL snowflake_adopt_online('customers', 'id', dry_run => false);
CALL snowflake_adopt_online('customers', 'id', abandon => true);
SET client_min_messages = warning;

-- Another column of the same table, when a column was dropped. An identity becomes a default.
CALL snowflake_adopt_online('orders', 'number', dry_run => false) \gexec
CALL snowflake_adopt_online('orders', 'number', dry_run => false) \gexec
CALL snowflake_adopt_online('orders', 'number', dry_run => false);
INSERT INTO orders (customer_id, place) VALUES (1, 'snow') RETURNING snowflake_worker(number);
DROP SCHEMA shop CASCADE;

-- Abandoning takes everything back, whatever exists already.
CREATE SCHEMA shop;
CREATE TABLE orders (id serial PRIMARY KEY, n int);
CREATE TABLE lines (order_id int REFERENCES orders, n int);
INSERT INTO orders (n) SELECT generate_series(1, 100);
INSERT INTO lines SELECT id FROM orders;
TRUNCATE before;
INSERT INTO before SELECT looks('shop');
CALL snowflake_adopt_online('orders', 'id', dry_run => false) \gexec
SET client_min_messages = notice;
CALL snowflake_adopt_online('orders', 'id', dry_run => true, abandon => true);
SET client_min_messages = warning;
CALL snowflake_adopt_online('orders', 'id', dry_run => false, abandon => true);
SELECT line FROM before EXCEPT SELECT looks('shop');
SELECT looks('shop') EXCEPT SELECT line FROM before;
CALL snowflake_adopt_online('orders', 'id', dry_run => false) \gexec
-- The steps up to the last are executed by hand.
SELECT unnest(statements) FROM (
    SELECT * FROM snowflake_internal.snowflake_adopt_steps('orders', 'id', 64) WHERE NOT is_done AND position < '6' ORDER BY position COLLATE "C"
) AS steps \gexec
CALL snowflake_adopt_online('orders', 'id', dry_run => false, abandon => true);
SELECT line FROM before EXCEPT SELECT looks('shop');
SELECT looks('shop') EXCEPT SELECT line FROM before;

-- If a table no longer references the column, it is abandoned by itself.
CALL snowflake_adopt_online('orders', 'id', dry_run => false) \gexec
ALTER TABLE lines DROP CONSTRAINT lines_order_id_fkey;
CALL snowflake_adopt_online('orders', 'id', dry_run => false);
INSERT INTO orders (n) VALUES (1) RETURNING snowflake_worker(id);
SELECT table_name FROM snowflake_adopt_progress;
CALL snowflake_adopt_online('lines', 'order_id', dry_run => false, abandon => true);
SELECT table_name FROM snowflake_adopt_progress;
DROP TABLE orders, lines;

-- A column that is renamed meanwhile: the trigger reports it, and nothing is stored without the new column.
CREATE TABLE orders (id serial PRIMARY KEY, n int);
CALL snowflake_adopt_online('orders', 'id', dry_run => false) \gexec
ALTER TABLE orders RENAME id TO number;
\pset format unaligned
\pset expanded on
SELECT * FROM sqlstate_of('INSERT INTO orders (n) VALUES (1)');
ALTER TABLE orders RENAME number TO id;
ALTER TABLE orders DISABLE TRIGGER zz_snowflake_adopt;
SELECT code, message FROM sqlstate_of('INSERT INTO orders (n) VALUES (1)');
DROP TABLE orders;
CREATE TRIGGER wrong BEFORE INSERT ON before FOR EACH ROW EXECUTE FUNCTION snowflake_internal.snowflake_adopt_copy('line');
SELECT * FROM sqlstate_of($$INSERT INTO before VALUES ('a')$$);
DROP TRIGGER wrong ON before;

-- Rows that were missed, for example because VACUUM FULL has moved them to other pages, are found and filled.
\pset expanded off
CREATE TABLE orders (id serial PRIMARY KEY, n int);
INSERT INTO orders (n) SELECT generate_series(1, 10);
SELECT unnest(statements) FROM (
    SELECT * FROM snowflake_internal.snowflake_adopt_steps('orders', 'id', 64) WHERE position < '20shop.orders2' ORDER BY position COLLATE "C"
) AS steps \gexec
SELECT setval('orders_snowflake', pages) FROM snowflake_adopt_progress;
CALL snowflake_adopt_online('orders', 'id', dry_run => false);
SELECT count(*) FROM orders WHERE id_snowflake = id;
SELECT table_name, pages_filled, pages, is_checked FROM snowflake_adopt_progress;
DROP TABLE orders;
\pset expanded on

-- What cannot be recreated, or would not be safe, is refused by name.
CREATE TABLE orders (
    id int PRIMARY KEY CHECK (id > 0), place int, id_snowflake text, UNIQUE (id, place) DEFERRABLE,
    EXCLUDE USING btree (id WITH =)
);
CREATE INDEX low ON orders (place) WHERE id < 10;
CREATE INDEX sums ON orders (id, (id + place));
CREATE STATISTICS orders_statistics ON id, place FROM orders;
CREATE TABLE lines (order_id serial REFERENCES orders ON DELETE SET DEFAULT, n int);
CREATE TABLE parts (order_id int REFERENCES orders, n int) PARTITION BY LIST (n);
CREATE TABLE part PARTITION OF parts DEFAULT;
CREATE VIEW order_numbers AS SELECT id FROM orders;
CREATE RULE no_update AS ON UPDATE TO lines DO INSTEAD NOTHING;
CREATE FUNCTION do_nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
CREATE TRIGGER zzz BEFORE INSERT ON orders FOR EACH ROW EXECUTE FUNCTION do_nothing();
CREATE TRIGGER changed AFTER UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION do_nothing();
CREATE TRIGGER always AFTER UPDATE ON lines FOR EACH ROW EXECUTE FUNCTION do_nothing();
ALTER TABLE lines ENABLE ALWAYS TRIGGER always;
SET client_min_messages = error; -- about wal_level
CREATE PUBLICATION regress_snowflake_all FOR TABLE orders;
SET client_min_messages = warning;
CREATE TEMP TABLE basket (id int PRIMARY KEY);
SELECT * FROM sqlstate_of($$CALL snowflake_adopt_online('orders', 'id')$$);
SELECT * FROM sqlstate_of($$CALL snowflake_adopt_online('basket', 'id')$$);
DROP TABLE orders, lines, parts CASCADE;
DROP TABLE basket;

-- Arguments.
CREATE TABLE orders (id int PRIMARY KEY, big bigint, t text);
SELECT * FROM sqlstate_of($$CALL snowflake_adopt_online('orders', 'id', NULL)$$);
SELECT * FROM sqlstate_of($$CALL snowflake_adopt_online('orders', 'id', pause => '-1 s')$$);
SELECT * FROM sqlstate_of($$CALL snowflake_adopt_online('orders', 'id', batch_pages => 0)$$);
SELECT * FROM sqlstate_of($$CALL snowflake_adopt_online('orders', 'id', lock_wait => '1 min')$$);
SELECT * FROM sqlstate_of($$CALL snowflake_adopt_online('orders', 'big')$$);
SELECT * FROM sqlstate_of($$CALL snowflake_adopt_online('orders', 'no')$$);
SELECT code, message FROM sqlstate_of($$CALL snowflake_adopt_online('orders', 't')$$);
-- In a transaction block, in a function, and with a layout whose IDs are small.
BEGIN;
CALL snowflake_adopt_online('orders', 'id', dry_run => false);
ROLLBACK;
CREATE FUNCTION adopt_orders() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    next_command text;
BEGIN
    CALL snowflake_adopt_online('orders', 'id', dry_run => false, next_command => next_command);
    RETURN next_command;
END
$$;
SELECT * FROM sqlstate_of('SELECT adopt_orders()');
DROP FUNCTION adopt_orders;
SET default_transaction_isolation = serializable;
CALL snowflake_adopt_online('orders', 'id', dry_run => false);
RESET default_transaction_isolation;
SELECT format('time:31 worker:8 sequence:1 unit=1s epoch=%sT00:00:00Z', to_char(now() AT TIME ZONE 'UTC' - interval '1 day', 'YYYY-MM-DD')) AS layout \gset
SET snowflake_id.layout = :'layout';
SELECT code, message, split_part(hint, ',', 1) AS hint FROM sqlstate_of($$CALL snowflake_adopt_online('orders', 'id')$$);
RESET snowflake_id.layout;
DROP TABLE orders;

-- Ownership, as for snowflake_adopt(). An owner who is no superuser cannot prevent triggers from firing.
CREATE ROLE regress_snowflake_owner;
GRANT CREATE, USAGE ON SCHEMA shop TO regress_snowflake_owner;
CREATE TABLE orders (id serial PRIMARY KEY, n int);
ALTER TABLE orders OWNER TO regress_snowflake_owner;
INSERT INTO orders (n) SELECT generate_series(1, 10);
CREATE TRIGGER changed AFTER UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION do_nothing();
SELECT current_user AS me \gset
SELECT code, replace(message, :'me', '...') AS message, replace(detail, :'me', '...') AS detail, hint
FROM sqlstate_of($$CALL snowflake_adopt_online('orders', 'id')$$);
SELECT * FROM sqlstate_of($$CALL snowflake_adopt_online('orders', 'id', owner => 'regress_snowflake_owner')$$);
SET ROLE regress_snowflake_owner;
SELECT * FROM sqlstate_of($$CALL snowflake_adopt_online('orders', 'id')$$);
RESET ROLE;
REVOKE CREATE ON SCHEMA shop FROM regress_snowflake_owner;
SET ROLE regress_snowflake_owner;
SELECT detail FROM sqlstate_of($$CALL snowflake_adopt_online('orders', 'id')$$);
RESET ROLE;
GRANT CREATE ON SCHEMA shop TO regress_snowflake_owner;
\pset expanded off
-- A superuser who trusts the owner begins, and the owner goes on.
CALL snowflake_adopt_online('orders', 'id', dry_run => false, owner => 'regress_snowflake_owner') \gexec
DROP TRIGGER changed ON orders;
SET ROLE regress_snowflake_owner;
SELECT pages_filled > 0 AS sees_progress FROM snowflake_adopt_progress;
CALL snowflake_adopt_online('orders', 'id', dry_run => false);
INSERT INTO orders (n) VALUES (1) RETURNING snowflake_worker(id);
RESET ROLE;
RESET ROLE;

-- Two adoptions that need the same table, one after the other. A foreign key that is dropped while its column is adopted.
CREATE TABLE sellers (id int PRIMARY KEY);
CREATE TABLE buyers (id int PRIMARY KEY);
CREATE TABLE deals (seller_id int REFERENCES sellers, buyer_id int REFERENCES buyers, payer_id int REFERENCES buyers);
INSERT INTO sellers VALUES (1);
INSERT INTO buyers VALUES (1), (2);
INSERT INTO deals VALUES (1, 1, 2);
CALL snowflake_adopt_online('buyers', 'id', dry_run => false) \gexec
\pset expanded on
SELECT code, detail, hint FROM sqlstate_of($$CALL snowflake_adopt_online('sellers', 'id')$$);
INSERT INTO deals VALUES (1, 2, 1);
ALTER TABLE deals DROP CONSTRAINT deals_payer_id_fkey;
SELECT code, detail FROM sqlstate_of($$CALL snowflake_adopt_online('buyers', 'id')$$);
\pset expanded off
INSERT INTO deals VALUES (1, 2, 2);
CALL snowflake_adopt_online('buyers', 'id', dry_run => false, abandon => true);
SELECT count(*) FROM pg_attribute WHERE attrelid IN ('deals'::regclass, 'buyers'::regclass) AND attname ~ 'snowflake' AND NOT attisdropped;
SELECT count(*) FROM pg_trigger WHERE tgname = 'zz_snowflake_adopt';
INSERT INTO deals VALUES (1, 1, 1);
CALL snowflake_adopt_online('buyers', 'id', dry_run => false) \gexec
CALL snowflake_adopt_online('buyers', 'id', dry_run => false) \gexec
CALL snowflake_adopt_online('sellers', 'id', dry_run => false) \gexec
CALL snowflake_adopt_online('sellers', 'id', dry_run => false) \gexec
\d deals
SELECT * FROM deals ORDER BY 1, 2, 3;

-- More pages than were counted, because the rows have moved.
CREATE TABLE moved (id int PRIMARY KEY, n int) WITH (fillfactor = 100);
INSERT INTO moved SELECT n, n FROM generate_series(1, 5000) AS n;
CALL snowflake_adopt_online('moved', 'id', dry_run => false) \gexec
ALTER TABLE moved DISABLE TRIGGER zz_snowflake_adopt;
ALTER TABLE moved DROP CONSTRAINT id_snowflake;
UPDATE moved SET id_snowflake = NULL WHERE id > 2500;
ALTER TABLE moved ADD CONSTRAINT id_snowflake CHECK (id_snowflake IS NOT NULL AND id_snowflake OPERATOR(pg_catalog.=) id) NOT VALID;
ALTER TABLE moved ENABLE ALWAYS TRIGGER zz_snowflake_adopt;
CLUSTER moved USING moved_pkey;
CALL snowflake_adopt_online('moved', 'id', dry_run => false) \gexec
SELECT count(*), count(DISTINCT id), pg_typeof(max(id)) FROM moved;

-- Constraints that the rows violate, and an index on which another object depends.
CREATE TABLE wrong (id int PRIMARY KEY, n int, code int, UNIQUE (code) INCLUDE (id));
INSERT INTO wrong VALUES (1, 1, 1);
ALTER TABLE wrong ADD CHECK (n > 1) NOT VALID;
CREATE TABLE uses (code int REFERENCES wrong (code));
SELECT unnest(string_to_array(detail, E'\n')) AS detail FROM sqlstate_of($$CALL snowflake_adopt_online('wrong', 'id')$$);
RESET search_path;
DROP SCHEMA shop CASCADE;
DROP FUNCTION looks;
DROP PUBLICATION regress_snowflake_all;
DROP OWNED BY regress_snowflake_owner, regress_snowflake_clerk;
DROP ROLE regress_snowflake_owner, regress_snowflake_clerk;
