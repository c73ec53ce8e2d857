-- Changes the key of masked numbers. A masked number does not show which key made it, and the wrong key returns the ID
-- of another row. Therefore, each key has a name that it keeps, and each row stores which key masks its ID. Here, order
-- numbers have ten digits, and are masked with key "orders". The numbers of the next key begin with the letter B.
INSERT INTO snowflake_mask_keys (name, key) VALUES ('orders', '\x0123456712345678234567893456789a');
CREATE TABLE orders (id bigint PRIMARY KEY, item text);
INSERT INTO orders VALUES (1042, 'desk');
SELECT lpad(snowflake_mask_named(id, 'orders', digits => 10)::text, 10, '0') FROM orders; -- 9915749396

-- 1. Store the letter with each row. The letter of all existing rows is empty.
ALTER TABLE orders ADD COLUMN letter text NOT NULL DEFAULT '';

-- 2. Show and read numbers with their letter. A letter that belongs to no key raises an error (42704).
CREATE VIEW shown_orders AS
    SELECT letter || lpad(snowflake_mask_named(id, 'orders' || letter, digits => 10)::text, 10, '0') AS number, item FROM orders;
CREATE FUNCTION order_of(number text) RETURNS SETOF orders STABLE LANGUAGE sql AS $$
    SELECT * FROM orders
    WHERE id = snowflake_unmask_named(right(number, 10)::bigint, 'orders' || left(number, -10), digits => 10)
        AND letter = left(number, -10)
$$;

-- 3. Create the next key, and use it for new rows.
INSERT INTO snowflake_mask_keys (name, key) VALUES ('ordersB', uuid_send(gen_random_uuid()));
ALTER TABLE orders ALTER COLUMN letter SET DEFAULT 'B';
INSERT INTO orders (id, item) VALUES (1043, 'lamp');
SELECT item FROM order_of('9915749396'); -- desk
SELECT s.number LIKE 'B__________', o.item FROM shown_orders AS s, order_of(s.number) AS o WHERE s.item = 'lamp'; -- t | lamp

-- 4. When the old numbers may stop working, re-issue them, and delete their key.
UPDATE orders SET letter = 'B' WHERE letter = '';
DELETE FROM snowflake_mask_keys WHERE name = 'orders';
SELECT count(*) FROM shown_orders WHERE number LIKE 'B%'; -- 2
