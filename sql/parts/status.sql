-- Views snowflake_status, snowflake_layout_status and snowflake_clock_seq_status, and the functions that send requests of
-- an administrator to the keeper.

CREATE VIEW snowflake_status AS SELECT * FROM snowflake_internal.snowflake_server_status();
COMMENT ON VIEW snowflake_status IS 'state of this server, in one row';

COMMENT ON COLUMN snowflake_status.state IS 'state of this server: ready, starting, recovery, no worker id, worker id refused, worker id too large, datacenter id too large, clock before epoch, layout exhausted, no lease, lease ended, clock behind, clock jumped, horizon stalled, no keeper';
COMMENT ON COLUMN snowflake_status.datacenter_id IS 'datacenter ID in new IDs';
COMMENT ON COLUMN snowflake_status.worker_id IS 'worker ID in new IDs';
COMMENT ON COLUMN snowflake_status.identity_source IS 'source of worker ID and datacenter ID: settings, snowflake_workers or registry';
COMMENT ON COLUMN snowflake_status.node_name IS 'name of this server in its fleet, the key in table snowflake_workers';
COMMENT ON COLUMN snowflake_status.horizon IS 'durable horizon: the times of all IDs are before the horizon';
COMMENT ON COLUMN snowflake_status.floor IS 'floor: the times of all IDs issued since the server was started are at or after the floor';
COMMENT ON COLUMN snowflake_status.resumes_at IS 'time at which the clock allows IDs in every layout in use; the current time if the clock already allows IDs';
COMMENT ON COLUMN snowflake_status.clock_jump IS 'how far the clock has jumped ahead, if the server has not accepted the jump';
COMMENT ON COLUMN snowflake_status.keeper_pid IS 'process ID of the keeper; NULL if the keeper is not running';
COMMENT ON COLUMN snowflake_status.last_error IS 'error that prevents the keeper from working; NULL if there is no error';
COMMENT ON COLUMN snowflake_status.last_error_at IS 'time at which the keeper last detected this error';
COMMENT ON COLUMN snowflake_status.warning IS 'problem that should be corrected although IDs can be issued; NULL if there is no problem';
COMMENT ON COLUMN snowflake_status.calls_waited IS 'number of calls for IDs that had to wait since the server was started';
COMMENT ON COLUMN snowflake_status.time_waited IS 'total time for which calls for IDs have waited since the server was started';
COMMENT ON COLUMN snowflake_status.clock_steps_back IS 'number of times that the keeper has found the clock set back since the server was started';
COMMENT ON COLUMN snowflake_status.largest_clock_step_back IS 'largest backward step of the clock since the server was started';
COMMENT ON COLUMN snowflake_status.registry_state IS 'state of the registry as seen by this server: starting, granted, unreachable, no such database, login refused, no registry, permission denied, not started, all taken, quarantine, clock differs, another registry, registry too old, server too old, misconfigured';
COMMENT ON COLUMN snowflake_status.lease_until IS 'end of the lease of the worker ID: the times of all IDs are before this end';
COMMENT ON COLUMN snowflake_status.lease_renewed_at IS 'time at which the registry last granted or renewed the lease';
COMMENT ON COLUMN snowflake_status.clock_offset IS 'how far the clock of this server is ahead of the clock of the registry';
COMMENT ON COLUMN snowflake_status.segments_in_use IS 'number of segments in use, of at most snowflake_id.max_segments';

CREATE VIEW snowflake_layout_status AS SELECT * FROM snowflake_internal.snowflake_layouts_in_use();
COMMENT ON VIEW snowflake_layout_status IS 'layouts in which this server has issued snowflake IDs since the server was started';

COMMENT ON COLUMN snowflake_layout_status.layout IS 'layout in use: the name of a preset, or the definition of the layout';
COMMENT ON COLUMN snowflake_layout_status.last_id_time IS 'time of the last ID of this layout; the floor if no ID was issued yet';
COMMENT ON COLUMN snowflake_layout_status.ahead IS 'how far last_id_time is ahead of the clock';
COMMENT ON COLUMN snowflake_layout_status.ids_issued IS 'number of IDs of this layout issued since the server was started; the count is delayed by about horizon_margin';
COMMENT ON COLUMN snowflake_layout_status.clock_seq IS 'value of the clock sequence in new IDs of this layout; NULL if the layout has no such field';

CREATE VIEW snowflake_clock_seq_status AS SELECT * FROM snowflake_internal.snowflake_clock_sequence_values();
COMMENT ON VIEW snowflake_clock_seq_status IS
    'values of the clock sequence: the value in use, and values that are temporarily exhausted';
COMMENT ON COLUMN snowflake_clock_seq_status.clock_seq IS 'value of the clock sequence; 0 if the clock was never set back';
COMMENT ON COLUMN snowflake_clock_seq_status.is_in_use IS 'true if new IDs contain this value';
COMMENT ON COLUMN snowflake_clock_seq_status.used_until IS 'time until which the value is exhausted; NULL for the value in use';

COMMENT ON FUNCTION snowflake_internal.snowflake_clock_sequence_values() IS
    'values of the clock sequence, for view snowflake_clock_seq_status';
COMMENT ON FUNCTION snowflake_internal.snowflake_server_status() IS
    'state of this server, for view snowflake_status';
COMMENT ON FUNCTION snowflake_internal.snowflake_layouts_in_use() IS
    'layouts in use on this server, for view snowflake_layout_status';
COMMENT ON FUNCTION snowflake_accept_clock() IS
    'accepts the current time after the clock has jumped ahead';
COMMENT ON FUNCTION snowflake_raise_floor(timestamptz) IS
    'raises the floor: the server issues no more IDs with an earlier time';
COMMENT ON FUNCTION snowflake_reset_horizon(int, int) IS
    'resets the horizon to the current time, under a worker ID that this server has never used';
