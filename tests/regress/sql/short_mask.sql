-- Masks with a number of digits, and masks with a layout.
\set key '\\x0123456712345678234567893456789A'

-- The masks of the first version, which never change.
SELECT number, digits, snowflake_mask(number, :'key', digits) AS masked,
       snowflake_unmask(snowflake_mask(number, :'key', digits), :'key', digits) = number AS back
FROM (VALUES (1042, 6), (999999, 6), (0, 10), (1, 10), (1042, 10), (9999999999, 10), (999999999999999999, 18)) AS v (number, digits);
SELECT id, layout, snowflake_mask(id, :'key', layout) AS masked,
       snowflake_unmask(snowflake_mask(id, :'key', layout), :'key', layout) = id AS back
FROM (VALUES (61572651155456, 'js53'), (4503599627370495, 'js53'), (1541815603606036480, 'twitter')) AS v (id, layout);
SELECT snowflake_mask(1042, :'key', digits => 10), snowflake_mask(1042, :'key', layout => 'js53');

-- Permutations of the domains.
SELECT count(DISTINCT masked), min(masked) >= 0 AND max(masked) < 1000000 AS in_domain,
       bool_and(snowflake_unmask(masked, :'key', 6) = number) AS back
FROM generate_series(0, 999999, 97) AS number, snowflake_mask(number, :'key', 6) AS masked;
SELECT count(DISTINCT masked), bool_and(masked BETWEEN 0 AND 2::numeric ^ 52 - 1) AS in_domain,
       bool_and(snowflake_unmask(masked, :'key', 'js53') = id) AS back
FROM generate_series(0, 4503599627370495, 450359962737) AS id, snowflake_mask(id, :'key', 'js53') AS masked;

-- More keys and numbers of digits than a backend caches, in turn.
SELECT count(*), count(DISTINCT masked) > 100 AS differ, bool_and(snowflake_unmask(masked, key, digits) = 42) AS back
FROM generate_series(1, 2) AS round, generate_series(6, 18) AS digits, generate_series(1, 10) AS number,
     decode(lpad(to_hex(number), 32, '0'), 'hex') AS key, snowflake_mask(42, key, digits) AS masked;

SELECT snowflake_mask(NULL, :'key', 10) IS NULL AS number, snowflake_mask(1, NULL, 10) IS NULL AS key,
       snowflake_mask(1, :'key', digits => NULL) IS NULL AS digits, snowflake_unmask(1, :'key', layout => NULL) IS NULL AS layout;
CREATE TABLE orders (id int, number text GENERATED ALWAYS AS
    (lpad(snowflake_mask(id, '\x0123456712345678234567893456789A', digits => 10)::text, 10, '0')) STORED UNIQUE);
INSERT INTO orders VALUES (1), (2) RETURNING *;
DROP TABLE orders;

-- A number that has too many digits is refused, and so are too few or too many digits.
\pset format unaligned
\x on
SELECT * FROM sqlstate_of($$SELECT snowflake_mask(10000000000, '\x0123456712345678234567893456789A', 10)$$);
SELECT * FROM sqlstate_of($$SELECT snowflake_mask(-1, '\x0123456712345678234567893456789A', 10)$$);
SELECT * FROM sqlstate_of($$SELECT snowflake_unmask(1000000, '\x0123456712345678234567893456789A', 6)$$);
SELECT * FROM sqlstate_of($$SELECT snowflake_mask(4503599627370496, '\x0123456712345678234567893456789A', 'js53')$$);
SELECT * FROM sqlstate_of($$SELECT snowflake_mask(1, '\x0123456712345678234567893456789A', 5)$$);
SELECT * FROM sqlstate_of($$SELECT snowflake_unmask(1, '\x0123456712345678234567893456789A', 19)$$);
SELECT * FROM sqlstate_of($$SELECT snowflake_mask(1, '\x0123456712345678234567893456789A', 'time:14 sequence:5 unit=1s epoch=2020-01-01T00:00:00Z')$$);
SELECT * FROM sqlstate_of($$SELECT snowflake_mask(1, '\x0123456712345678234567893456789A', '10')$$);
SELECT code, message FROM sqlstate_of($$SELECT snowflake_mask(1, '\x0123', 10)$$);
\x off
\pset format aligned

-- Named keys. A role needs the privilege for the form that it calls.
INSERT INTO snowflake_mask_keys (name, key) VALUES ('orders', :'key');
SELECT snowflake_mask_named(1042, 'orders', 10), snowflake_unmask_named(9915749396, 'orders', digits => 10),
       snowflake_mask_named(61572651155456, 'orders', 'js53'), snowflake_unmask_named(678236497352166, 'orders', layout => 'js53');
CREATE ROLE regress_snowflake_clerk;
GRANT EXECUTE ON FUNCTION snowflake_mask_named(bigint, text), snowflake_unmask_named(bigint, text, int) TO regress_snowflake_clerk;
SET ROLE regress_snowflake_clerk;
SELECT snowflake_mask(1042, :'key', 10), snowflake_unmask_named(9915749396, 'orders', 10);
SELECT call, code, message FROM unnest(ARRAY['snowflake_mask_named(1, ''orders'', 10)', 'snowflake_mask_named(1, ''orders'', ''js53'')',
                                             'snowflake_unmask_named(1, ''orders'', ''js53'')']) AS call, sqlstate_of('SELECT ' || call);
RESET ROLE;
REVOKE ALL ON FUNCTION snowflake_mask_named(bigint, text), snowflake_unmask_named(bigint, text, int) FROM regress_snowflake_clerk;
DROP ROLE regress_snowflake_clerk;
DELETE FROM snowflake_mask_keys;
