-- The watermark of each layout, and the transactions that hold the watermarks back.

CREATE VIEW snowflake_watermark_status AS
    SELECT w.layout, w.watermark, w.watermark_time, w.problem,
           coalesce(w.pid, s.pid) AS pid, s.usename, s.application_name, p.gid,
           coalesce(p.prepared, s.xact_start) AS held_back_since, w.lowered_at
    FROM snowflake_internal.snowflake_watermarks() AS w
    LEFT JOIN pg_catalog.pg_stat_activity AS s
        ON s.pid OPERATOR(pg_catalog.=) w.pid OR s.backend_xid OPERATOR(pg_catalog.=) w.transaction
    LEFT JOIN pg_catalog.pg_prepared_xacts AS p ON p.transaction OPERATOR(pg_catalog.=) w.transaction;
COMMENT ON VIEW snowflake_watermark_status IS
    'watermarks of the layouts in use, and the transactions that hold them back';
COMMENT ON COLUMN snowflake_watermark_status.layout IS 'layout in use, without a clock sequence: the name of a preset, or the definition of the layout';
COMMENT ON COLUMN snowflake_watermark_status.watermark IS 'ID below which no new row can become visible; NULL if no such ID is known';
COMMENT ON COLUMN snowflake_watermark_status.watermark_time IS 'time in the watermark';
COMMENT ON COLUMN snowflake_watermark_status.problem IS 'reason why the watermark is NULL: many layouts, reset, older transaction; NULL if there is a watermark';
COMMENT ON COLUMN snowflake_watermark_status.pid IS 'process ID of the session whose transaction holds the watermark back; NULL if no session does';
COMMENT ON COLUMN snowflake_watermark_status.usename IS 'role of that session';
COMMENT ON COLUMN snowflake_watermark_status.application_name IS 'name of the application of that session';
COMMENT ON COLUMN snowflake_watermark_status.gid IS 'identifier of the prepared transaction that holds the watermark back; NULL if no prepared transaction does';
COMMENT ON COLUMN snowflake_watermark_status.held_back_since IS 'start of the transaction that holds the watermark back, or the time at which it was prepared; NULL if no transaction does';
COMMENT ON COLUMN snowflake_watermark_status.lowered_at IS 'time at which IDs began again after the last reset of the horizon, so that they can be lower than earlier IDs; NULL if there was no reset since the server was started';

COMMENT ON FUNCTION snowflake_watermark() IS
    'ID below which the current statement sees all rows that will ever be visible; NULL if no such ID is known';
COMMENT ON FUNCTION snowflake_watermark(text) IS
    'ID of the given layout below which the current statement sees all rows that will ever be visible; NULL if no such ID is known';
COMMENT ON FUNCTION snowflake_internal.snowflake_watermarks() IS
    'watermarks of the layouts in use, for view snowflake_watermark_status';
CREATE FUNCTION snowflake_require_own_id() RETURNS trigger
    VOLATILE PARALLEL UNSAFE LANGUAGE c AS 'MODULE_PATHNAME', 'snowflake_require_own_id';
COMMENT ON FUNCTION snowflake_require_own_id() IS
    'trigger function that refuses rows whose snowflake ID was not taken by the current transaction';
