-- The result of acquire(), renew() and release(). Callers read the columns by name, so later versions can add columns.
CREATE TYPE snowflake_registry.answer AS (
    lowest_protocol int,
    highest_protocol int,
    outcome text,
    datacenter_id int,
    worker_id int,
    granted_from bigint,
    granted_until bigint,
    registry_id uuid,
    registry_clock bigint,
    lease bigint,
    renew_every bigint,
    free_from bigint,
    detail text,
    token text
);
COMMENT ON TYPE snowflake_registry.answer IS
    'result of acquire(), renew() and release(); times are in microseconds of Unix time, and intervals in microseconds';

-- One element of key "requests" of a request of take(). Invalid values are omitted.
CREATE TYPE snowflake_registry.request AS (
    request int,
    name text,
    had_until numeric,
    is_ours boolean,
    lasted numeric,
    count bigint,
    period_key bigint,
    is_next boolean,
    is_report boolean,
    problem text
);
COMMENT ON TYPE snowflake_registry.request IS 'request for numbers of one segment, in a call of take()';

CREATE TYPE snowflake_registry.taken AS (
    lowest_protocol int,
    highest_protocol int,
    request int,
    name text,
    outcome text,
    first bigint,
    increment bigint,
    count bigint,
    period_key bigint,
    period_starts bigint,
    period_ends bigint,
    step bigint,
    max_value bigint,
    registry_id uuid,
    registry_clock bigint,
    detail text,
    token text,
    report_every bigint,
    server_started bigint,
    near text
);
COMMENT ON TYPE snowflake_registry.taken IS
    'row of the result of take(), for one segment; times are in microseconds of Unix time';
