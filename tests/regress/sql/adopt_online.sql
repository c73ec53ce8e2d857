-- Columns of big tables are changed to type bigint step by step: new columns beside the old ones, filled in batches, which
-- replace them at the end. Notices with sizes are shown only in topic adopt_dry_run, because they may differ.
-- \gexec would show the OIDs in names, so ECHO is off.
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

-- OIDs are parts of names.
CREATE FUNCTION without_oids(statement text) RETURNS text LANGUAGE sql AS $$
    SELECT regexp_replace(statement, 'snowflake_new_\d{4,}(_\d+)?', 'snowflake_new_OID\1', 'g')
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
SELECT without_oids(title) AS title, kind,
       without_oids(array_to_string(ARRAY(SELECT s FROM unnest(statements) WITH ORDINALITY AS u (s, n)
                                          WHERE s !~ 'NOT NULL|_not_null' ORDER BY n), E'\n')) AS statements
FROM snowflake_internal.snowflake_adopt_steps('customers', 'id', false, (
    SELECT jsonb_agg(to_jsonb(known)) FROM snowflake_internal.snowflake_adopt_definitions('customers', 'id') AS known
)) ORDER BY position, title COLLATE "C";
\pset format aligned

-- Each call goes on until an index is missing, and returns the command that creates it. Meanwhile, the table is used.
\set ECHO none
CALL snowflake_adopt_online('customers', 'id', dry_run => false, pause => '0') \gexec
\set ECHO all
SELECT * FROM snowflake_adopt_progress ORDER BY table_name::text COLLATE "C";
INSERT INTO customers (name, referrer) VALUES ('new', 5) RETURNING id, snowflake_new_1, snowflake_new_3;
UPDATE customers SET referrer = 1 WHERE name = 'new' RETURNING snowflake_new_3;
UPDATE customers SET snowflake_new_1 = 7, snowflake_new_3 = NULL WHERE name = 'new' RETURNING snowflake_new_1, snowflake_new_3;
UPDATE customers SET id = 5000 WHERE id = 10;
SELECT customer_id, snowflake_new_2 FROM orders WHERE customer_id = 5000;
DELETE FROM customers WHERE id = 4;
SELECT customer_id, snowflake_new_2, payer_id, snowflake_new_3 FROM orders WHERE customer_id IN (4, 11);
-- Replication fires only such triggers.
SET session_replication_role = replica;
INSERT INTO customers (name) VALUES ('replica') RETURNING snowflake_new_1 = id AS is_equal;
RESET session_replication_role;
-- A foreign key and an index that come late. An index that could not be created. A column that becomes NOT NULL.
CREATE TABLE late (customer_id int REFERENCES customers);
INSERT INTO late VALUES (1), (NULL);
CREATE INDEX late_index ON customers (id, name);
UPDATE visits SET customer_id = 1 WHERE customer_id IS NULL;
ALTER TABLE visits ALTER customer_id SET NOT NULL;
UPDATE pg_index SET indisvalid = false
WHERE indexrelid = (SELECT max(oid) FROM pg_class WHERE relname ~ '^snowflake_new_\d+$');
\set ECHO none
CALL snowflake_adopt_online('customers', 'id', dry_run => false, pause => '0') \gexec
CALL snowflake_adopt_online('customers', 'id', dry_run => false, pause => '0') \gexec
CALL snowflake_adopt_online('customers', 'id', dry_run => false, pause => '0') \gexec
CALL snowflake_adopt_online('customers', 'id', dry_run => false, pause => '0') \gexec
CALL snowflake_adopt_online('customers', 'id', dry_run => false, pause => '0') \gexec
CALL snowflake_adopt_online('customers', 'id', dry_run => false, pause => '0') \gexec
CALL snowflake_adopt_online('customers', 'id', dry_run => false, pause => '0') \gexec
CALL snowflake_adopt_online('customers', 'id', dry_run => false, pause => '0') \gexec
CALL snowflake_adopt_online('customers', 'id', dry_run => false, pause => '0') \gexec
CALL snowflake_adopt_online('customers', 'id', dry_run => false, pause => '0') \gexec
\set ECHO all
-- The default has not changed. It is switched when no session takes values of the sequence any more.
SET client_min_messages = notice;
CALL snowflake_adopt_online('customers', 'id', dry_run => false);
INSERT INTO customers (name) VALUES ('widened') RETURNING id, pg_typeof(id);
SELECT snowflake_adopt('customers', 'id', dry_run => false);
SET client_min_messages = warning;
-- Only types and the default differ, and the objects that came late.
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

-- Another column of the same table, when a column was dropped. An identity remains until the default is switched.
\set ECHO none
CALL snowflake_adopt_online('orders', 'number', dry_run => false) \gexec
CALL snowflake_adopt_online('orders', 'number', dry_run => false) \gexec
\set ECHO all
CALL snowflake_adopt_online('orders', 'number', dry_run => false);
INSERT INTO orders (customer_id, place) VALUES (1, 'identity') RETURNING number;
SELECT snowflake_adopt('orders', 'number', dry_run => false);
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
\set ECHO none
CALL snowflake_adopt_online('orders', 'id', dry_run => false) \gexec
\set ECHO all
SET client_min_messages = notice;
SELECT title, kind, without_oids(array_to_string(statements, E'\n')) AS statements
FROM snowflake_internal.snowflake_adopt_steps_back('orders', 'id');
SET client_min_messages = warning;
CALL snowflake_adopt_online('orders', 'id', dry_run => false, abandon => true);
SELECT line FROM before EXCEPT SELECT looks('shop');
SELECT looks('shop') EXCEPT SELECT line FROM before;
\set ECHO none
CALL snowflake_adopt_online('orders', 'id', dry_run => false) \gexec
\set ECHO all
-- Again, with the sequence moved to the new column.
ALTER SEQUENCE orders_id_seq OWNED BY orders.snowflake_new_1;
CALL snowflake_adopt_online('orders', 'id', dry_run => false, abandon => true);
SELECT line FROM before EXCEPT SELECT looks('shop');
SELECT looks('shop') EXCEPT SELECT line FROM before;
SELECT pg_get_serial_sequence('orders', 'id');
SELECT count(*) FROM pg_proc WHERE proname ~ '^snowflake_new_\d';

-- If a table no longer references the column, it is abandoned by itself.
\set ECHO none
CALL snowflake_adopt_online('orders', 'id', dry_run => false) \gexec
\set ECHO all
ALTER TABLE lines DROP CONSTRAINT lines_order_id_fkey;
CALL snowflake_adopt_online('orders', 'id', dry_run => false);
SELECT table_name FROM snowflake_adopt_progress;
CALL snowflake_adopt_online('lines', 'order_id', dry_run => false, abandon => true);
SELECT table_name FROM snowflake_adopt_progress;
DROP TABLE orders, lines;

-- A column that is renamed meanwhile: nothing is stored without the new column.
CREATE TABLE orders (id serial PRIMARY KEY, n int);
\set ECHO none
CALL snowflake_adopt_online('orders', 'id', dry_run => false) \gexec
\set ECHO all
ALTER TABLE orders RENAME id TO number;
\pset format unaligned
\pset expanded on
SELECT code, message FROM sqlstate_of('INSERT INTO orders (n) VALUES (1)');
SELECT * FROM sqlstate_of($$CALL snowflake_adopt_online('orders', 'number')$$);
ALTER TABLE orders RENAME number TO id;
ALTER TABLE orders DISABLE TRIGGER zz_snowflake_new_1;
SELECT code, message FROM sqlstate_of('INSERT INTO orders (n) VALUES (1)');
DROP TABLE orders;

-- Rows that were missed, for example because VACUUM FULL has moved them to other pages, are found and filled.
\pset expanded off
CREATE TABLE orders (id serial PRIMARY KEY, n int);
INSERT INTO orders (n) SELECT generate_series(1, 10);
\set ECHO none
SELECT unnest(statements) FROM snowflake_internal.snowflake_adopt_steps('orders', 'id', false, NULL) WHERE position = 1 \gexec
\set ECHO all
COMMENT ON COLUMN orders.snowflake_new_1 IS 'snowflake_adopt_online: 1 of 1 pages';
\set ECHO none
CALL snowflake_adopt_online('orders', 'id', dry_run => false) \gexec
\set ECHO all
SELECT count(*) FROM orders WHERE snowflake_new_1 = id;
SELECT table_name, pages_filled, pages, is_checked FROM snowflake_adopt_progress;
-- A restored dump without comments: all is filled again.
COMMENT ON COLUMN orders.snowflake_new_1 IS NULL;
\set ECHO none
CALL snowflake_adopt_online('orders', 'id', dry_run => false) \gexec
\set ECHO all
CALL snowflake_adopt_online('orders', 'id', dry_run => false);
SELECT pg_typeof(id), count(*) FROM orders GROUP BY 1;
DROP TABLE orders;
\pset expanded on

-- What cannot be recreated, or would not be safe, is refused by name.
CREATE TABLE orders (
    id int PRIMARY KEY CHECK (id > 0), place int, snowflake_new_1 text, UNIQUE (id, place) DEFERRABLE,
    EXCLUDE USING btree (id WITH =)
);
CREATE INDEX low ON orders (place) WHERE id < 10;
CREATE INDEX casts ON orders ((id::text));
CREATE INDEX classes ON orders USING brin (id int4_minmax_multi_ops);
CREATE STATISTICS orders_statistics ON id, place FROM orders;
CREATE TABLE lines (order_id serial REFERENCES orders ON DELETE SET DEFAULT, n int);
CREATE TABLE gifts (order_id int GENERATED ALWAYS AS IDENTITY REFERENCES orders, n int, twice int GENERATED ALWAYS AS (n * 2) STORED REFERENCES orders);
CREATE TABLE parts (order_id int REFERENCES orders, n int) PARTITION BY LIST (n);
CREATE TABLE part PARTITION OF parts DEFAULT;
CREATE VIEW order_numbers AS SELECT id FROM orders;
CREATE MATERIALIZED VIEW kept_numbers AS SELECT id FROM order_numbers;
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
DROP TABLE orders, lines, parts, gifts CASCADE;
DROP TABLE basket;

-- Arguments.
CREATE TABLE orders (id int PRIMARY KEY, big bigint, t text);
SELECT * FROM sqlstate_of($$CALL snowflake_adopt_online('orders', 'id', NULL)$$);
SELECT * FROM sqlstate_of($$CALL snowflake_adopt_online('orders', 'id', pause => '-1 s')$$);
SELECT * FROM sqlstate_of($$CALL snowflake_adopt_online('orders', 'id', batch_pages => 0)$$);
SELECT * FROM sqlstate_of($$CALL snowflake_adopt_online('orders', 'id', lock_wait => '1 min')$$);
SET client_min_messages = notice;
CALL snowflake_adopt_online('orders', 'big');
SET client_min_messages = warning;
SELECT * FROM sqlstate_of($$CALL snowflake_adopt_online('orders', 'no')$$);
SELECT code, message FROM sqlstate_of($$CALL snowflake_adopt_online('orders', 't')$$);
-- In a transaction block, in a function, and with a layout whose IDs are small.
\set SHOW_CONTEXT never
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
\set SHOW_CONTEXT errors
SELECT format('time:31 worker:8 sequence:1 unit=1s epoch=%sT00:00:00Z', to_char(now() AT TIME ZONE 'UTC' - interval '1 day', 'YYYY-MM-DD')) AS layout \gset
-- The layout of the database counts, not that of the session.
SET snowflake_id.layout = :'layout';
SELECT code, message, detail, replace(replace(hint, current_database(), '...'), :'layout', '...') AS hint
FROM sqlstate_of($$CALL snowflake_adopt_online('orders', 'id')$$);
RESET snowflake_id.layout;
SELECT current_database() AS database \gset
ALTER DATABASE :"database" SET snowflake_id.layout = :'layout';
\c -
SET client_min_messages = warning;
SET search_path = shop, public;
SELECT code, message, split_part(hint, ',', 1) AS hint FROM sqlstate_of($$CALL snowflake_adopt_online('orders', 'id')$$);
ALTER DATABASE :"database" RESET snowflake_id.layout;
\c -
SET client_min_messages = warning;
SET search_path = shop, public;
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
FROM sqlstate_of($$CALL snowflake_adopt_online('orders', 'id', abandon => true, views => true)$$);
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
\set ECHO none
CALL snowflake_adopt_online('orders', 'id', dry_run => false, owner => 'regress_snowflake_owner') \gexec
\set ECHO all
DROP TRIGGER changed ON orders;
SET ROLE regress_snowflake_owner;
SELECT pages_filled > 0 AS sees_progress FROM snowflake_adopt_progress;
CALL snowflake_adopt_online('orders', 'id', dry_run => false);
SELECT snowflake_adopt('orders', 'id', dry_run => false);
INSERT INTO orders (n) VALUES (1) RETURNING snowflake_worker(id);
RESET ROLE;

-- The table gets another owner in between. The function can be given to this owner, or abandoned. A function with the name that
-- the procedure needs is refused.
CREATE TABLE moved (id serial PRIMARY KEY);
\set ECHO none
CALL snowflake_adopt_online('moved', 'id', dry_run => false) \gexec
\set ECHO all
ALTER TABLE moved OWNER TO regress_snowflake_owner;
\pset expanded on
SELECT code, detail, regexp_replace(hint, '_\d{3,}', '_...') AS hint
FROM sqlstate_of($$CALL snowflake_adopt_online('moved', 'id', owner => 'regress_snowflake_owner')$$);
CALL snowflake_adopt_online('moved', 'id', dry_run => false, abandon => true, owner => 'regress_snowflake_owner');
SELECT count(*) FROM pg_proc WHERE proname ~ format('^snowflake_new_%s_', 'moved'::regclass::oid);
\set ECHO none
SELECT format('CREATE FUNCTION snowflake_new_%s_1() RETURNS trigger LANGUAGE plpgsql AS %L', 'moved'::regclass::oid,
              'BEGIN RETURN NEW; END') \gexec
\set ECHO all
SELECT code, regexp_replace(detail, '_\d{3,}', '_...') AS detail, regexp_replace(hint, '_\d{3,}', '_...') AS hint
FROM sqlstate_of($$CALL snowflake_adopt_online('moved', 'id', owner => 'regress_snowflake_owner')$$);
\pset expanded off
\set ECHO none
SELECT format('DROP FUNCTION snowflake_new_%s_1()', 'moved'::regclass::oid) \gexec
\set ECHO all
DROP TABLE moved;

-- Two adoptions that need the same table, one after the other. A foreign key that is dropped while its column is adopted.
CREATE TABLE sellers (id int PRIMARY KEY);
CREATE TABLE buyers (id int PRIMARY KEY);
CREATE TABLE deals (seller_id int REFERENCES sellers, buyer_id int REFERENCES buyers, payer_id int REFERENCES buyers);
INSERT INTO sellers VALUES (1);
INSERT INTO buyers VALUES (1), (2);
INSERT INTO deals VALUES (1, 1, 2);
\set ECHO none
CALL snowflake_adopt_online('buyers', 'id', dry_run => false) \gexec
\set ECHO all
\pset expanded on
SELECT code, detail, hint FROM sqlstate_of($$CALL snowflake_adopt_online('sellers', 'id')$$);
INSERT INTO deals VALUES (1, 2, 1);
ALTER TABLE deals DROP CONSTRAINT deals_payer_id_fkey;
SELECT code, detail FROM sqlstate_of($$CALL snowflake_adopt_online('buyers', 'id')$$);
\pset expanded off
INSERT INTO deals VALUES (1, 2, 2);
CALL snowflake_adopt_online('buyers', 'id', dry_run => false, abandon => true);
CALL snowflake_adopt_online('deals', 'payer_id', dry_run => false, abandon => true);
SELECT count(*) FROM pg_attribute WHERE attrelid IN ('deals'::regclass, 'buyers'::regclass) AND attname ~ '^snowflake_new' AND NOT attisdropped;
SELECT count(*) FROM pg_trigger WHERE tgname ~ '^zz_snowflake_new';
INSERT INTO deals VALUES (1, 1, 1);
\set ECHO none
CALL snowflake_adopt_online('buyers', 'id', dry_run => false) \gexec
CALL snowflake_adopt_online('buyers', 'id', dry_run => false) \gexec
CALL snowflake_adopt_online('sellers', 'id', dry_run => false) \gexec
CALL snowflake_adopt_online('sellers', 'id', dry_run => false) \gexec
\set ECHO all
\d deals
SELECT * FROM deals ORDER BY 1, 2, 3;

-- Constraints that the rows violate, and an index on which another object depends.
CREATE TABLE wrong (id int PRIMARY KEY, n int, code int, UNIQUE (code) INCLUDE (id));
INSERT INTO wrong VALUES (1, 1, 1);
ALTER TABLE wrong ADD CHECK (n > 1) NOT VALID;
CREATE TABLE uses (code int REFERENCES wrong (code));
SELECT unnest(string_to_array(detail, E'\n')) AS detail FROM sqlstate_of($$CALL snowflake_adopt_online('wrong', 'id')$$);
DROP TABLE uses, wrong;

-- Views, in the order of their dependencies, with all that they have.
DROP TABLE orders;
CREATE TABLE orders (id serial PRIMARY KEY, n int);
CREATE VIEW numbers (number, n) WITH (security_barrier) AS SELECT id, n FROM orders WHERE n > 0 WITH CASCADED CHECK OPTION;
CREATE VIEW large AS SELECT number FROM numbers WHERE number > 5;
ALTER VIEW numbers ALTER n SET DEFAULT 7;
COMMENT ON VIEW large IS 'large numbers';
COMMENT ON COLUMN numbers.number IS 'the ID';
GRANT SELECT ON large TO regress_snowflake_clerk WITH GRANT OPTION;
GRANT UPDATE (n) ON numbers TO regress_snowflake_clerk;
CREATE RULE none AS ON DELETE TO large DO INSTEAD NOTHING;
\pset expanded on
SELECT code, detail, hint FROM sqlstate_of($$CALL snowflake_adopt_online('orders', 'id')$$);
-- Only the role that granted it can grant this privilege again.
GRANT USAGE ON SCHEMA shop TO regress_snowflake_clerk;
SET ROLE regress_snowflake_clerk;
GRANT SELECT ON large TO regress_snowflake_owner;
RESET ROLE;
SELECT code, detail, hint FROM sqlstate_of($$CALL snowflake_adopt_online('orders', 'id', views => true)$$);
REVOKE SELECT ON large FROM regress_snowflake_clerk CASCADE;
GRANT SELECT ON large TO regress_snowflake_clerk WITH GRANT OPTION;
\pset expanded off
CREATE FUNCTION views() RETURNS SETOF text LANGUAGE sql AS $$
    SELECT format('%s %s %s %s', c.relname, pg_get_viewdef(c.oid), c.reloptions, obj_description(c.oid, 'pg_class'))
    FROM pg_class AS c WHERE relnamespace = 'shop'::regnamespace AND relkind = 'v'
    UNION ALL
    SELECT format('%s.%s %s %s %s', c.relname, attname, attacl, pg_get_expr(adbin, adrelid), col_description(c.oid, attnum))
    FROM pg_class AS c JOIN pg_attribute AS a ON attrelid = c.oid AND attnum > 0 LEFT JOIN pg_attrdef ON adrelid = c.oid AND adnum = attnum
    WHERE relnamespace = 'shop'::regnamespace AND relkind = 'v'
    UNION ALL
    SELECT format('%s %s', c.relname, acl) FROM pg_class AS c CROSS JOIN aclexplode(relacl) AS acl
    WHERE relnamespace = 'shop'::regnamespace AND relkind = 'v'
    UNION ALL
    SELECT pg_get_ruledef(r.oid) FROM pg_rewrite AS r JOIN pg_class AS c ON c.oid = ev_class
    WHERE relnamespace = 'shop'::regnamespace
$$;
CREATE TEMP TABLE old_views AS SELECT views() AS line;
\set ECHO none
CALL snowflake_adopt_online('orders', 'id', dry_run => false, views => true) \gexec
CALL snowflake_adopt_online('orders', 'id', dry_run => false, views => true) \gexec
\set ECHO all
SELECT line FROM old_views EXCEPT SELECT views();
SELECT views() EXCEPT SELECT line FROM old_views;
SELECT atttypid::regtype FROM pg_attribute WHERE attrelid = 'large'::regclass AND attnum = 1;

-- References without a foreign key, by their names.
CREATE TABLE posts (id serial PRIMARY KEY, n int);
CREATE TABLE likes (post_id int, parent_post_id int, "postId" int, post_ids int[], likeable_id int, likeable_type text, boost_id int);
CREATE TABLE tags (content_type_id int, object_id int);
SELECT * FROM snowflake_internal.snowflake_adopt_unlinked('posts', 'id') ORDER BY 1;

-- A key that is itself a foreign key, of type bigint.
CREATE TABLE articles (id bigint PRIMARY KEY);
CREATE TABLE drafts (id bigint PRIMARY KEY REFERENCES articles);
SELECT code, detail, hint FROM sqlstate_of($$CALL snowflake_adopt_online('drafts', 'id')$$);
RESET search_path;
DROP SCHEMA shop CASCADE;
DROP FUNCTION looks, without_oids;
DROP PUBLICATION regress_snowflake_all;
DROP OWNED BY regress_snowflake_owner, regress_snowflake_clerk;
DROP ROLE regress_snowflake_owner, regress_snowflake_clerk;
