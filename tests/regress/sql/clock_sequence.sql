-- The clock sequence on a server whose clock is never set back.
SELECT name, clock_seq_bits FROM snowflake_presets WHERE clock_seq_bits > 0 ORDER BY name;
SET snowflake_id.layout = 'rollback3';
SELECT snowflake_nextval() AS id \gset
SELECT snowflake_clock_seq(:id), (snowflake_decode(:id)).clock_seq;
SELECT snowflake_clock_seq(:id, 'rollback3') AS as_made, snowflake_clock_seq(:id, 'standard') IS NULL AS without_the_field;
SELECT snowflake_clock_seq(snowflake_encode('2024-06-01Z', 5, 0, 'rollback3', clock_seq => 7), 'rollback3') AS three_bits,
       snowflake_clock_seq(snowflake_encode('2024-06-01Z', 5, 0, 'rollback2', clock_seq => 3), 'rollback2') AS two_bits;

-- With value 0, layouts with the field share their slot with layouts without it, so no number is repeated. The slot is
-- shown once, under the name of a layout that keeps value 0 when the clock is set back.
CREATE TEMPORARY TABLE taken (id bigint PRIMARY KEY);
INSERT INTO taken SELECT snowflake_nextval() FROM generate_series(1, 1000);
SET snowflake_id.layout = 'standard';
INSERT INTO taken SELECT snowflake_nextval() FROM generate_series(1, 1000);
SET snowflake_id.layout = 'rollback2';
INSERT INTO taken SELECT snowflake_nextval() FROM generate_series(1, 1000);
SET snowflake_id.layout = 'rollback3';
INSERT INTO taken SELECT snowflake_batch(1000);
SELECT count(*) FROM taken;
SELECT layout, clock_seq FROM snowflake_layout_status
WHERE layout IN ('standard', 'rollback2', 'rollback3') ORDER BY layout COLLATE "C";

-- Only 0 is in use. No other value was used since the first start. Earlier use is not known.
SELECT clock_seq, is_in_use FROM snowflake_clock_seq_status WHERE is_in_use OR used_until > now() + interval '1 min';
SELECT DISTINCT clock_seq FROM snowflake_internal.horizon;
SELECT count(*) FROM snowflake_internal.used_identity WHERE clock_seq > 0;

-- A requested floor holds for all values: they are exhausted until then.
SELECT snowflake_raise_floor(now() + interval '2 s');
SELECT clock_seq, is_in_use, used_until > now() AS is_used_up FROM snowflake_clock_seq_status ORDER BY clock_seq;
SET snowflake_id.layout = 'rollback2';
SELECT clock_seq FROM snowflake_clock_seq_status WHERE NOT is_in_use ORDER BY clock_seq;
RESET snowflake_id.layout;
SELECT DISTINCT identity.worker_id, identity.clock_seq, identity.used_until_us > 0 AS has_end
FROM snowflake_internal.used_identity AS identity WHERE clock_seq <> 0 AND worker_id = -1;

-- Privileges.
CREATE ROLE regress_snowflake_user;
CREATE ROLE regress_snowflake_monitor IN ROLE pg_monitor;
SET ROLE regress_snowflake_user;
SELECT code FROM sqlstate_of('SELECT * FROM snowflake_clock_seq_status');
SELECT code FROM sqlstate_of('SELECT clock_seq FROM snowflake_internal.horizon');
SELECT snowflake_clock_seq(:id, 'rollback3');
SET ROLE regress_snowflake_monitor;
SELECT count(*) > 0 AS readable FROM snowflake_clock_seq_status;
RESET ROLE;
DROP ROLE regress_snowflake_user, regress_snowflake_monitor;
