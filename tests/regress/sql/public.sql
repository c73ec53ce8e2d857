-- Public IDs: texts with a prefix and UUIDs, with and without a key, and invalid inputs.
\set key '\\x0123456712345678234567893456789A'
\set other '\\x00000000000000000000000000000000'
CREATE TABLE ids (id bigint);
INSERT INTO ids VALUES (0), (1), (1541815603606036480), (9223372036854775807);

-- The texts and UUIDs of the first version, which never change.
SELECT id, snowflake_to_public(id, 'cus') AS plain, snowflake_to_public(id, 'cus', :'key') AS sealed,
       snowflake_to_public(id, 'ord', :'key') AS other_prefix FROM ids ORDER BY id;
SELECT id, snowflake_to_uuid(id) AS plain, snowflake_to_uuid(id, :'key') AS sealed,
       snowflake_to_uuid(id, :'key', 'cus') AS with_prefix FROM ids ORDER BY id;

-- They can be decoded, and look unrelated. Those without a key sort as the IDs do.
SELECT bool_and(snowflake_from_public(snowflake_to_public(id, 'cus'), 'cus') = id) AS text,
       bool_and(snowflake_from_public(snowflake_to_public(id, 'cus', key), 'cus', key) = id) AS sealed_text,
       bool_and(snowflake_from_uuid(snowflake_to_uuid(id)) = id) AS uuid,
       bool_and(snowflake_from_uuid(snowflake_to_uuid(id, key), key) = id) AS sealed_uuid,
       bool_and(snowflake_from_uuid(snowflake_to_uuid(id, key, 'cus'), key, 'cus') = id) AS with_prefix,
       count(DISTINCT snowflake_to_public(id, 'cus', key)) AS texts, count(DISTINCT snowflake_to_uuid(id, key)) AS uuids
FROM generate_series(1541815603606036480, 1541815603606046479) AS id, (SELECT :'key'::bytea) AS k (key);
SELECT array_agg(id ORDER BY snowflake_to_public(id, 'cus') COLLATE "C") = array_agg(id ORDER BY id) AS text,
       array_agg(id ORDER BY snowflake_to_uuid(id)) = array_agg(id ORDER BY id) AS uuid
FROM generate_series(0, 62) AS bits, generate_series(0, 1) AS less, LATERAL (SELECT (1::bigint << bits) - less) AS v (id)
WHERE bits > 0 OR less = 0;
-- In SQL alone: the digits of the ID, without those of version and variant.
SELECT bool_and(('x' || substr(u, 1, 12) || substr(u, 14, 3) || substr(u, 18, 1))::bit(64)::bigint = id) AS same
FROM ids, replace(snowflake_to_uuid(id)::text, '-', '') AS u;

-- More keys and prefixes than a backend caches, in turn, each several times.
SELECT count(DISTINCT text) AS texts, count(DISTINCT uuid) AS uuids,
       bool_and(snowflake_from_public(text, prefix, key) = 42 AND snowflake_from_uuid(uuid, key, prefix) = 42) AS back
FROM generate_series(1, 3) AS round, generate_series(1, 6) AS number, unnest(ARRAY['a', 'b', 'c', 'abcdefghijklmnop']) AS prefix,
     decode(lpad(to_hex(number), 32, '0'), 'hex') AS key,
     snowflake_to_public(42, prefix, key) AS text, snowflake_to_uuid(42, key, prefix) AS uuid;

SELECT snowflake_to_public(1, NULL) IS NULL AND snowflake_to_public(NULL, 'cus') IS NULL AND snowflake_to_public(1, 'cus', NULL) IS NULL
   AND snowflake_from_public(NULL, 'cus') IS NULL AND snowflake_from_public('cus_1', 'cus', NULL) IS NULL
   AND snowflake_to_uuid(NULL) IS NULL AND snowflake_to_uuid(1, NULL) IS NULL AND snowflake_to_uuid(1, :'key', NULL) IS NULL
   AND snowflake_from_uuid(NULL) IS NULL AND snowflake_from_uuid(snowflake_to_uuid(1), NULL) IS NULL AS all_null;

-- Invalid public IDs.
\pset format unaligned
SELECT prefix, text, code, message, detail
FROM (VALUES ('cus', ''), ('cus', 'cus'), ('cus', '4aaW4SzAyQK'), ('cus', 'ord_4aaW4SzAyQK'), ('cus', 'cust_4aaW4SzAyQK'),
             ('cus', 'Cus_4aaW4SzAyQK'), ('cus', 'cus_'), ('cus', 'cus_2'), ('cus', 'cus_14aaW4SzAyQK'), ('cus', 'cus_4aaW4SzAyQ0'),
             ('cus', 'cus_4aaW4SzAyQé'), ('cus', ' cus_4aaW4SzAyQK'), ('cus', 'cus_NQm6nKp8qFD'), ('cus', 'cus_1RaoBzHuVr44yahB'),
             ('cus', repeat('x', 61)), ('', '_4aaW4SzAyQK'), ('Cus', 'Cus_4aaW4SzAyQK'), ('cu_s', 'cu_s_4aaW4SzAyQK'),
             ('c-s', 'c-s_4aaW4SzAyQK'), ('é', 'é_4aaW4SzAyQK'), ('abcdefghijklmnopq', 'abcdefghijklmnopq_4aaW4SzAyQK')
     ) AS v (prefix, text),
     LATERAL sqlstate_of(format('SELECT snowflake_from_public(%L, %L)', text, prefix));
SELECT prefix, text, code, message, detail
FROM (VALUES ('cus', 'cus_4aaW4SzAyQK'), ('cus', 'cus_1RaoBzHuVr44yahC'), ('cus', 'cus_1RaoBzHuVr54yahB'),
             ('cus', 'cus_1RaoBzHuVr44yah0'), ('cus', 'cus_zRaoBzHuVr44yahB'), ('ord', 'cus_1RaoBzHuVr44yahB'), ('ord', 'ord_1RaoBzHuVr44yahB')
     ) AS v (prefix, text),
     LATERAL sqlstate_of(format('SELECT snowflake_from_public(%L, %L, %L)', text, prefix, '\x0123456712345678234567893456789A'));
SELECT code, message FROM sqlstate_of($$SELECT snowflake_to_public(1, 'Cus')$$);
SELECT code, message FROM sqlstate_of($$SELECT snowflake_to_public(1, '', '\x0123456712345678234567893456789A')$$);
SELECT code, message FROM sqlstate_of($$SELECT snowflake_to_uuid(1, '\x0123456712345678234567893456789A', 'Cus')$$);
SELECT code, message FROM sqlstate_of($$SELECT snowflake_to_public(-1, 'cus')$$);
SELECT code, message FROM sqlstate_of($$SELECT snowflake_to_public(-1, 'cus', '\x0123456712345678234567893456789A')$$);
SELECT code, message FROM sqlstate_of($$SELECT snowflake_to_uuid(-1)$$);
SELECT code, message FROM sqlstate_of($$SELECT snowflake_to_uuid(-1, '\x0123456712345678234567893456789A')$$);
SELECT code, message FROM sqlstate_of($$SELECT snowflake_to_public(1, 'cus', '\x01')$$);
SELECT code, message FROM sqlstate_of($$SELECT snowflake_to_uuid(1, 'orders')$$);
\x on
SELECT * FROM sqlstate_of($$SELECT snowflake_from_public('cus_2', 'cus')$$);
SELECT * FROM sqlstate_of($$SELECT snowflake_from_public('cus_1RaoBzHuVr44yahB', 'cus', '\x00000000000000000000000000000000')$$);
SELECT * FROM sqlstate_of($$SELECT snowflake_to_public(1, 'cu s')$$);
SELECT * FROM sqlstate_of($$SELECT snowflake_from_uuid('abdefba1-845f-85f4-9e5f-8f0586170cb0')$$);
SELECT * FROM sqlstate_of($$SELECT snowflake_from_uuid('abdefba1-845f-85f4-9e5f-8f0586170cb0', '\x00000000000000000000000000000000')$$);
SELECT * FROM sqlstate_of($$SELECT snowflake_from_uuid('018f2f3c-7c10-7000-8000-000000000000')$$);
\x off

-- Invalid UUIDs: another version or variant, a number past the end, digits where there are none.
SELECT uuid, code, detail
FROM unnest(ARRAY['018f2f3c-7c10-7000-8000-000000000000', '1565a11f-6217-4a00-8000-000000000000', '1565a11f-6217-8a00-c000-000000000000',
                  '00000000-0000-0000-0000-000000000000', 'ffffffff-ffff-ffff-ffff-ffffffffffff', '1565a11f-6217-8a00-8000-000000000001',
                  '1565a11f-6217-8a00-9000-000000000000', '80000000-0000-8000-8000-000000000000']) AS uuid,
     LATERAL sqlstate_of(format('SELECT snowflake_from_uuid(%L)', uuid));
SELECT uuid, prefix, code, detail
FROM (VALUES ('1565a11f-6217-8a00-8000-000000000000', ''), ('abdefba1-845f-85f4-9e5f-8f0586170cb1', ''), ('abdefba1-845f-85f5-9e5f-8f0586170cb0', ''),
             ('abdefba1-845f-85f4-9e5f-8f0586170cb0', 'cus'), ('f9a71419-76e8-823f-b10d-2949ee9b5803', ''), ('f9a71419-76e8-823f-b10d-2949ee9b5803', 'cus'),
             ('abdefba1-845f-45f4-9e5f-8f0586170cb0', '')) AS v (uuid, prefix),
     LATERAL sqlstate_of(format('SELECT snowflake_from_uuid(%L, %L, %L)', uuid, '\x0123456712345678234567893456789A', prefix));
\pset format aligned

-- 10,000 forged IDs of each kind: none is accepted.
CREATE FUNCTION is_refused(query text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE query;
    RETURN false;
EXCEPTION WHEN invalid_text_representation THEN
    RETURN true;
END
$$;
SELECT count(*) FILTER (WHERE NOT is_refused(format('SELECT snowflake_from_uuid(%L, %L)', uuid, :'key'))) AS uuids_taken,
       count(*) FILTER (WHERE NOT is_refused(format('SELECT snowflake_from_public(%L, %L, %L)', text, 'cus', :'key'))) AS texts_taken
FROM generate_series(1, 10000) AS n, snowflake_to_uuid(n, :'other') AS uuid, snowflake_to_public(n, 'cus', :'other') AS text;
DROP FUNCTION is_refused(text);

-- Named keys: the same results, for roles with the privilege.
INSERT INTO snowflake_mask_keys (name, key) VALUES ('customers', :'key');
SELECT snowflake_to_public_named(id, 'cus', 'customers') = snowflake_to_public(id, 'cus', :'key') AS text,
       snowflake_from_public_named(snowflake_to_public(id, 'cus', :'key'), 'cus', 'customers') = id AS text_back,
       snowflake_to_uuid_named(id, 'customers') = snowflake_to_uuid(id, :'key') AS uuid,
       snowflake_to_uuid_named(id, 'customers', 'cus') = snowflake_to_uuid(id, :'key', 'cus') AS with_prefix,
       snowflake_from_uuid_named(snowflake_to_uuid(id, :'key'), 'customers') = id AS uuid_back,
       snowflake_from_uuid_named(snowflake_to_uuid(id, :'key', 'cus'), 'customers', 'cus') = id AS back_with_prefix
FROM ids ORDER BY id;
\pset format unaligned
SELECT code, message FROM sqlstate_of($$SELECT snowflake_to_public_named(1, 'cus', 'nobody')$$);
SELECT code, message FROM sqlstate_of($$SELECT snowflake_to_uuid_named(1, '\x0123456712345678234567893456789A')$$);
SELECT code, message FROM sqlstate_of($$SELECT snowflake_from_public_named('cus_1RaoBzHuVr44yahB', 'ord', 'customers')$$);
SELECT code, message FROM sqlstate_of($$SELECT snowflake_from_uuid_named('abdefba1-845f-85f4-9e5f-8f0586170cb0', 'customers', 'cus')$$);
CREATE ROLE regress_snowflake_clerk;
SET ROLE regress_snowflake_clerk;
SELECT code, message
FROM unnest(ARRAY[$$SELECT snowflake_to_public_named(1, 'cus', 'customers')$$, $$SELECT snowflake_from_public_named('cus_1', 'cus', 'customers')$$,
                  $$SELECT snowflake_to_uuid_named(1, 'customers')$$,
                  $$SELECT snowflake_from_uuid_named('abdefba1-845f-85f4-9e5f-8f0586170cb0', 'customers')$$]) AS commands,
     sqlstate_of(commands);
SELECT snowflake_to_public(1, 'cus') AS text, snowflake_to_public(1, 'cus', :'key') AS sealed, snowflake_to_uuid(1, :'key') AS uuid;
RESET ROLE;
\pset format aligned

-- Generated columns and unique indexes, which the planner uses.
CREATE TABLE customers (
    id bigint PRIMARY KEY,
    name text,
    public_id text GENERATED ALWAYS AS (snowflake_to_public(id, 'cus')) STORED UNIQUE,
    uuid uuid GENERATED ALWAYS AS (snowflake_to_uuid(id)) STORED
);
INSERT INTO customers (id, name) SELECT n, 'customer ' || n FROM generate_series(1541815603606036480, 1541815603606041479) AS n;
CREATE UNIQUE INDEX customers_uuid ON customers (snowflake_to_uuid(id));
ANALYZE customers;
SELECT * FROM customers WHERE public_id = 'cus_4aaW4SzAyQK';
EXPLAIN (COSTS OFF) SELECT name FROM customers WHERE snowflake_to_uuid(id) = '1565a11f-6217-8a00-8000-000000000000';
SELECT name FROM customers WHERE snowflake_to_uuid(id) = '1565a11f-6217-8a00-8000-000000000000';
-- This is better: the primary key is used, because the public ID is decoded only once.
EXPLAIN (COSTS OFF) SELECT name FROM customers WHERE id = snowflake_from_public('cus_4aaW4SzAyQK', 'cus');
EXPLAIN (COSTS OFF) SELECT name FROM customers WHERE id = snowflake_from_public_named('cus_1RaoBzHuVr44yahB', 'cus', 'customers');
SELECT name FROM customers WHERE id = snowflake_from_public_named('cus_1RaoBzHuVr44yahB', 'cus', 'customers');
SELECT code, message FROM sqlstate_of($$CREATE INDEX ON customers (snowflake_to_public_named(id, 'cus', 'customers'))$$);

-- A schema that is exposed as it is, as PostgREST does: a view with public IDs, and a function that finds rows by them.
-- Its users need access to neither the table nor the key.
CREATE INDEX customers_public_id ON customers (snowflake_to_public(id, 'cus'));
CREATE SCHEMA api;
CREATE VIEW api.customers AS SELECT snowflake_to_public(id, 'cus') AS id, name FROM public.customers;
CREATE VIEW api.sealed_customers AS SELECT snowflake_to_public_named(id, 'cus', 'customers') AS id, name FROM public.customers;
CREATE FUNCTION api.sealed_customer(id text) RETURNS SETOF api.sealed_customers
    STABLE STRICT SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    BEGIN ATOMIC
        SELECT sealed_customer.id, c.name FROM public.customers AS c
        WHERE c.id = public.snowflake_from_public_named(sealed_customer.id, 'cus', 'customers');
    END;
GRANT USAGE ON SCHEMA api TO regress_snowflake_clerk;
GRANT SELECT ON ALL TABLES IN SCHEMA api TO regress_snowflake_clerk;
SET ROLE regress_snowflake_clerk;
SELECT * FROM api.customers WHERE id = 'cus_4aaW4SzAyQK';
SELECT * FROM api.sealed_customer('cus_1RaoBzHuVr44yahB');
SELECT code, message FROM sqlstate_of($$SELECT * FROM api.sealed_customers LIMIT 1$$);
SELECT code, message FROM sqlstate_of($$SELECT * FROM api.sealed_customer('cus_1RaoBzHuVr44yahC')$$);
RESET ROLE;
EXPLAIN (COSTS OFF) SELECT * FROM api.customers WHERE id = 'cus_4aaW4SzAyQK';
GRANT EXECUTE ON FUNCTION snowflake_to_public_named(bigint, text, text) TO regress_snowflake_clerk;
SET ROLE regress_snowflake_clerk;
SELECT * FROM api.sealed_customers WHERE name = 'customer 1541815603606036480';
RESET ROLE;
REVOKE EXECUTE ON FUNCTION snowflake_to_public_named(bigint, text, text) FROM regress_snowflake_clerk;
SET client_min_messages = warning;
DROP SCHEMA api CASCADE;
RESET client_min_messages;
DROP TABLE customers, ids;
DELETE FROM snowflake_mask_keys;
DROP ROLE regress_snowflake_clerk;
