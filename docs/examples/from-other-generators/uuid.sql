-- Gives a table with UUIDs, and a table that references it, new keys of type bigint. Rows are sorted as before.
--
-- Run the steps in psql, one after the other, with the names of your tables. The old keys stay until nothing outside
-- the database uses them.

-- The tables of this example. The first UUID is the example of RFC 9562, which contains the time 2022-02-22 19:22:22
-- UTC. The time of the other two is the same millisecond in 2024.
CREATE TABLE orders (id uuid PRIMARY KEY, item text);
CREATE TABLE lines (order_id uuid REFERENCES orders, product text);
INSERT INTO orders VALUES
    ('017f22e2-79b0-7cc3-98c4-dc0c0c07398f', 'tea'),
    ('018f8543-5cc3-7111-8111-111111111111', 'rice'),
    ('018f8543-5cc3-7222-8222-222222222222', 'salt');
INSERT INTO lines VALUES ('018f8543-5cc3-7222-8222-222222222222', 'sea salt');

-- This function returns the time of a UUID of version 7. On PostgreSQL 18, you can use uuid_extract_timestamp(id). For
-- version 4, replace time_of(id) below with the column that contains the creation time.
CREATE FUNCTION time_of(id uuid) RETURNS timestamptz IMMUTABLE LANGUAGE sql AS $$
    SELECT to_timestamp(('x' || left(replace(id::text, '-', ''), 12))::bit(48)::bigint / 1000.0)
$$;
SELECT time_of('017f22e2-79b0-7cc3-98c4-dc0c0c07398f') AT TIME ZONE 'UTC'; -- 2022-02-22 19:22:22

-- Step 1: the layout, which must begin before the oldest row. This example sets it only in its session. Set it for all
-- sessions, with ALTER DATABASE .. SET snowflake_id.layout, and reconnect the clients.
SET snowflake_id.layout = 'standard epoch=2020-01-01T00:00:00Z';

-- Step 2: the column. It gets no default at first, so that the table is not rewritten.
ALTER TABLE orders ADD COLUMN number bigint;
ALTER TABLE orders ALTER COLUMN number SET DEFAULT snowflake_nextval();

-- From now on, rows that clients insert get an ID.
INSERT INTO orders (id, item) VALUES ('019ad000-0000-7333-8333-333333333333', 'pepper');

-- Step 3: the IDs of the old rows. They consist of the row's millisecond, worker 1023, which no server has or had, and
-- a sequence number. If a millisecond has more than 4096 rows, the rest follow in the next milliseconds. All IDs are
-- different and in the order of the rows.
CREATE TABLE order_numbers AS
    SELECT id, snowflake_encode(to_timestamp(place / 4096 / 1000.0), 1023, place % 4096,
                                'standard epoch=2020-01-01T00:00:00Z') AS number, n / 10000 AS batch
    FROM (
        SELECT id, n, n + max(ms * 4096 - n) OVER (ORDER BY n) AS place
        FROM (
            SELECT id, floor(extract(epoch FROM time_of(id)) * 1000)::bigint AS ms,
                   row_number() OVER (ORDER BY time_of(id), id) AS n
            FROM orders WHERE number IS NULL
        ) AS sorted
    ) AS placed;
CREATE INDEX ON order_numbers (batch);
ANALYZE order_numbers;

-- \gexec updates one batch after the other, each in a transaction of its own. Rows that have an ID are skipped, so you
-- can interrupt the command and repeat it.
SELECT format('UPDATE orders SET number = made.number FROM order_numbers AS made
               WHERE made.batch = %s AND made.id = orders.id AND orders.number IS NULL', batch)
FROM (SELECT DISTINCT batch FROM order_numbers) AS batches ORDER BY batch \gexec
SELECT string_agg(item, ' ' ORDER BY number) FROM orders; -- tea rice salt pepper
DROP TABLE order_numbers;

-- Step 4: the references. Some clients may still store only order_id. A trigger fills order_number in their rows. In a
-- large table, run the UPDATE in batches, as above.
ALTER TABLE lines ADD COLUMN order_number bigint;
CREATE FUNCTION find_order_number() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.order_number := (SELECT number FROM orders WHERE id = NEW.order_id);
    RETURN NEW;
END $$;
CREATE TRIGGER find_order_number BEFORE INSERT OR UPDATE OF order_id ON lines
    FOR EACH ROW WHEN (NEW.order_id IS NOT NULL) EXECUTE FUNCTION find_order_number();
UPDATE lines SET order_number = orders.number FROM orders WHERE orders.id = lines.order_id;
INSERT INTO lines (order_id, product) VALUES ('019ad000-0000-7333-8333-333333333333', 'black pepper');

-- Step 5: the constraints. In a large table, keep this transaction short:
-- - Create both unique indexes first, with CREATE UNIQUE INDEX CONCURRENTLY, and use ADD PRIMARY KEY USING INDEX.
-- - Before that, add and validate CHECK (number IS NOT NULL), so that ADD PRIMARY KEY does not read the table.
-- - Add the foreign key as NOT VALID, and validate it later.
CREATE UNIQUE INDEX ON orders (id);

BEGIN;
ALTER TABLE lines DROP CONSTRAINT lines_order_id_fkey;
ALTER TABLE orders DROP CONSTRAINT orders_pkey;
ALTER TABLE orders ALTER COLUMN id DROP NOT NULL;
ALTER TABLE orders ADD PRIMARY KEY (number);
ALTER TABLE lines ADD FOREIGN KEY (order_number) REFERENCES orders;
COMMIT;

-- Drop the trigger when no client stores only order_id. Keep column id and its index while links with UUIDs are in use.
INSERT INTO orders (item) VALUES ('sugar') RETURNING number > (SELECT max(number) FROM orders); -- t
SELECT string_agg(product, ', ' ORDER BY number)
FROM orders JOIN lines ON order_number = number; -- sea salt, black pepper
SELECT generated_at AT TIME ZONE 'UTC', worker_id, sequence
FROM orders, snowflake_decode(number) WHERE item = 'salt'; -- 2024-05-17 06:35:35.491 | 1023 | 1
