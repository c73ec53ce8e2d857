-- The status views, the workers of the fleet, and the requests that only a superuser may make.
SELECT count(snowflake_nextval()) FROM generate_series(1, 10);
SELECT state, datacenter_id, worker_id, identity_source, clock_jump, keeper_pid > 0 AS has_keeper, last_error,
       horizon > now() AS is_ahead, floor < horizon AS floor_is_below, calls_waited >= 0 AND time_waited >= interval '0' AS waits,
       clock_steps_back, largest_clock_step_back
FROM snowflake_status;
-- A second layout adds a row there, but not in snowflake_status.
SET snowflake_id.layout = 'wide';
SELECT count(snowflake_nextval()) FROM generate_series(1, 10);
RESET snowflake_id.layout;
SELECT (SELECT count(*) FROM snowflake_status) AS servers, count(*) > 1 AS has_layouts FROM snowflake_layout_status;
SELECT ahead < interval '1 s' AS ahead, last_id_time <= (SELECT horizon FROM snowflake_status) AS below, ids_issued > 0 AS issued
FROM snowflake_layout_status WHERE layout = 'standard';
SELECT backend_type FROM pg_stat_activity WHERE backend_type LIKE 'snowflake%';

-- Workers: no two may have the same IDs, and a row outside the keeper's database is refused.
INSERT INTO snowflake_workers (node_name, worker_id) VALUES ('a', 1), ('b', 2);
SELECT code, message FROM sqlstate_of($$INSERT INTO snowflake_workers (node_name, worker_id) VALUES ('c', 2)$$);
SELECT code FROM sqlstate_of($$INSERT INTO snowflake_workers (node_name, worker_id) VALUES ('a', 3)$$);
SELECT code FROM sqlstate_of($$INSERT INTO snowflake_workers (node_name, worker_id) VALUES ('c', -1)$$);
SELECT code FROM sqlstate_of($$INSERT INTO snowflake_workers (node_name, worker_id, datacenter_id) VALUES ('c', 1, -1)$$);
SELECT code FROM sqlstate_of($$INSERT INTO snowflake_workers (node_name, worker_id) VALUES ('', 3)$$);
INSERT INTO snowflake_workers (node_name, datacenter_id, worker_id) VALUES ('c', 1, 2);
SELECT node_name, datacenter_id, worker_id FROM snowflake_workers ORDER BY node_name;
DELETE FROM snowflake_workers;
CREATE DATABASE regress_snowflake_other;
\c regress_snowflake_other
CREATE EXTENSION snowflake_id;
INSERT INTO snowflake_workers (node_name, worker_id) VALUES ('a', 1);
SELECT count(snowflake_nextval()) FROM generate_series(1, 10);
\c regression
DROP DATABASE regress_snowflake_other;

-- Privileges.
CREATE ROLE regress_snowflake_user;
CREATE ROLE regress_snowflake_monitor IN ROLE pg_monitor;
SET ROLE regress_snowflake_user;
SELECT code FROM sqlstate_of('SELECT * FROM snowflake_status');
SELECT code FROM sqlstate_of('SELECT * FROM snowflake_layout_status');
SELECT code FROM sqlstate_of('SELECT * FROM snowflake_workers');
SELECT code FROM sqlstate_of('SELECT snowflake_accept_clock()');
SELECT code FROM sqlstate_of('SELECT snowflake_raise_floor(now())');
SELECT code FROM sqlstate_of('SELECT snowflake_reset_horizon(8)');
SELECT code FROM sqlstate_of('SELECT * FROM snowflake_internal.used_identity');
SELECT code FROM sqlstate_of('SELECT * FROM snowflake_internal.horizon');
SELECT code FROM sqlstate_of('REFRESH MATERIALIZED VIEW snowflake_internal.horizon');
SET ROLE regress_snowflake_monitor;
SELECT count(*) AS readable FROM snowflake_status;
SELECT count(*) > 0 AS readable FROM snowflake_layout_status;
SELECT code FROM sqlstate_of('SELECT snowflake_accept_clock()');
RESET ROLE;
DROP ROLE regress_snowflake_user, regress_snowflake_monitor;

-- A superuser may make them. Requests without effect do no harm.
SELECT snowflake_accept_clock();
SELECT snowflake_raise_floor('-infinity');
SELECT snowflake_raise_floor('2020-01-01');
SELECT * FROM sqlstate_of($$SELECT snowflake_raise_floor('infinity')$$);
SELECT * FROM sqlstate_of('SELECT snowflake_reset_horizon(7)');
SELECT * FROM sqlstate_of('SELECT snowflake_reset_horizon(-1)');
SELECT * FROM sqlstate_of('SELECT snowflake_reset_horizon(8, NULL)');
SELECT datacenter_id, worker_id FROM snowflake_internal.used_identity WHERE worker_id >= 0 AND clock_seq = 0;
SELECT count(snowflake_nextval()) FROM generate_series(1, 10);
