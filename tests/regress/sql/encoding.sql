-- IDs as text: all encodings, in both directions, in order, and invalid texts.
CREATE TABLE encodings AS
    SELECT encoding, encoding <> 'base64url' AS is_ordered
    FROM unnest(ARRAY['crockford32', 'base36', 'base58', 'base62', 'base64url', 'decimal', 'hex']) AS encoding;

-- A tweet, and the ends of the range.
SELECT encoding, snowflake_to_text(1541815603606036480, encoding) AS tweet, snowflake_to_text(0, encoding) AS smallest,
       snowflake_to_text(9223372036854775807, encoding) AS largest
FROM encodings ORDER BY encoding COLLATE "C";

-- PostgreSQL's own encodings of the same bytes.
SELECT snowflake_to_text(id, 'hex') = encode(int8send(id), 'hex') AS hex,
       snowflake_to_text(id, 'base64url') = rtrim(translate(encode(int8send(id), 'base64'), '+/', '-_'), '=') AS base64url,
       snowflake_to_text(id, 'decimal') = lpad(id::text, 19, '0') AS decimal
FROM (VALUES (0), (1541815603606036480), (9223372036854775807)) AS v (id);

-- Round trips for IDs of all magnitudes. The texts of one encoding have the same length, and sort as the IDs do.
CREATE TABLE ids AS
    SELECT (1::bigint << bits) - 1 + step AS id FROM generate_series(0, 62) AS bits, generate_series(0, 1) AS step
    WHERE bits < 62 OR step = 0;
SELECT encoding, count(*) AS ids, count(DISTINCT text) AS texts, bool_and(snowflake_from_text(text, encoding) = id) AS back,
       min(length(text)) AS shortest, max(length(text)) AS longest, bool_and(place = place_of_text) = is_ordered AS order_as_said
FROM (SELECT encoding, is_ordered, id, text, rank() OVER (PARTITION BY encoding ORDER BY id) AS place,
             rank() OVER (PARTITION BY encoding ORDER BY text COLLATE "C") AS place_of_text
      FROM encodings, (SELECT DISTINCT id FROM ids) AS ids, snowflake_to_text(id, encoding) AS text) AS texts
GROUP BY encoding, is_ordered ORDER BY encoding COLLATE "C";

-- Both functions can be used in an index, because they are immutable.
CREATE INDEX ids_text ON ids (snowflake_to_text(id, 'base58'));
DROP TABLE ids;

-- Leading zeros can be omitted, except in base64url. Case does not matter if the alphabet has only one.
SELECT snowflake_from_text('1', 'crockford32'), snowflake_from_text('A', 'base36'), snowflake_from_text('21', 'base58'),
       snowflake_from_text('z', 'base62'), snowflake_from_text('007', 'decimal'), snowflake_from_text('FF', 'hex');
-- Crockford's letters that look like digits, and hyphens.
SELECT snowflake_from_text('1ail0o', 'crockford32') = snowflake_from_text('1A-11-00', 'crockford32') AS same;
SELECT snowflake_to_text(NULL, 'hex') IS NULL AS id, snowflake_to_text(1, NULL) IS NULL AS encoding,
       snowflake_from_text(NULL, 'hex') IS NULL AS text, snowflake_from_text('1', NULL) IS NULL AS encoding_of_text;

-- Invalid texts.
\pset format unaligned
SELECT text, encoding, code, message, detail
FROM (VALUES ('', 'crockford32'), ('--', 'crockford32'), ('7-U', 'crockford32'), ('8000000000000', 'crockford32'),
             ('00000000000000', 'crockford32'), ('1*', 'crockford32'),
             ('', 'base36'), ('a b', 'base36'), ('1y2p0ij32e8e8', 'base36'),
             ('2O', 'base58'), ('2l', 'base58'), ('NQm6nKp8qFD', 'base58'), ('zzzzzzzzzzz', 'base58'),
             ('a-b', 'base62'), ('AzL8n0Y58m8', 'base62'), (' 1', 'base62'),
             ('AAAAAAAAAAB', 'base64url'), ('AAAA', 'base64url'), ('gAAAAAAAAAA', 'base64url'), ('AAAAAAAAAA=', 'base64url'),
             ('AAAAAAAAAAAA', 'base64url'), ('', 'base64url'),
             ('-1', 'decimal'), ('+1', 'decimal'), ('1.0', 'decimal'), ('9223372036854775808', 'decimal'),
             ('09223372036854775807', 'decimal'),
             ('0xff', 'hex'), ('8000000000000000', 'hex'), (E'1\n', 'hex'), ('1é', 'hex'), (repeat('0', 61), 'hex')
     ) AS v (text, encoding),
     LATERAL sqlstate_of(format('SELECT snowflake_from_text(%L, %L)', text, encoding));
\x on
SELECT * FROM sqlstate_of($$SELECT snowflake_from_text('7-U', 'crockford32')$$);
SELECT * FROM sqlstate_of($$SELECT snowflake_from_text('A', 'base64url')$$);
SELECT * FROM sqlstate_of($$SELECT snowflake_to_text(1, 'base64')$$);
SELECT * FROM sqlstate_of($$SELECT snowflake_from_text('1', 'Hex')$$);
SELECT * FROM sqlstate_of($$SELECT snowflake_from_text('1', E'h\u00e9x\n')$$);
SELECT * FROM sqlstate_of($$SELECT snowflake_to_text(-1, 'hex')$$);
\x off
\pset format aligned

-- Long texts that are compressed in a table or stored out of line.
CREATE TABLE long (text text);
INSERT INTO long VALUES (repeat('-', 100000) || '1A'), (repeat('-', 100000) || 'U');
ALTER TABLE long ALTER text SET STORAGE external;
INSERT INTO long SELECT text FROM long;
SELECT snowflake_from_text(text, 'crockford32') FROM long WHERE text LIKE '%A';
SELECT detail FROM sqlstate_of($$SELECT snowflake_from_text(text, 'crockford32') FROM long WHERE text LIKE '%U'$$);
DROP TABLE long, encodings;

-- Databases with an encoding other than UTF-8: a text that is invalid there too is refused, whatever its bytes are.
SELECT :'DBNAME' AS database \gset
CREATE DATABASE regression_latin1 TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C';
CREATE DATABASE regression_ascii TEMPLATE template0 ENCODING 'SQL_ASCII' LOCALE 'C';
\c regression_latin1
CREATE EXTENSION snowflake_id;
SELECT snowflake_from_text(snowflake_to_text(1541815603606036480, 'crockford32'), 'crockford32');
SELECT snowflake_from_text('12é', 'hex');
SELECT snowflake_to_text(1, 'é');
\c regression_ascii
CREATE EXTENSION snowflake_id;
SELECT snowflake_from_text(E'12\xff\xfe', 'base62');
SELECT snowflake_to_text(1, E'hex\xff');
\c :database
DROP DATABASE regression_latin1;
DROP DATABASE regression_ascii;
