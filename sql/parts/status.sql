-- Views snowflake_status, snowflake_layout_status and snowflake_clock_sequence, and the functions with which an
-- administrator sends requests to the keeper.

CREATE VIEW snowflake_status AS SELECT * FROM @extschema@.snowflake_server_status();
COMMENT ON VIEW snowflake_status IS 'whether this server can issue snowflake IDs: exactly one row';

COMMENT ON COLUMN snowflake_status.state IS 'whether IDs can be made, in a word: ready, starting, recovery, no worker id, worker id too large, datacenter id too large, clock before epoch, layout exhausted, no lease, lease ended, clock behind, clock jumped, horizon stalled, no keeper';
COMMENT ON COLUMN snowflake_status.datacenter_id IS 'datacenter ID in new IDs';
COMMENT ON COLUMN snowflake_status.worker_id IS 'worker ID in new IDs';
COMMENT ON COLUMN snowflake_status.identity_source IS 'source of worker ID and datacenter ID: settings, snowflake_worker or registry';
COMMENT ON COLUMN snowflake_status.node_name IS 'name of this server in its fleet, the key in table snowflake_worker';
COMMENT ON COLUMN snowflake_status.horizon IS 'durable horizon: no ID contains this time or a later one';
COMMENT ON COLUMN snowflake_status.floor IS 'floor: IDs issued since the server was started contain this time or a later one';
COMMENT ON COLUMN snowflake_status.resumes_at IS 'time at which IDs can be issued in every layout in use';
COMMENT ON COLUMN snowflake_status.clock_jump IS 'how far the clock has jumped ahead, if the jump is not followed';
COMMENT ON COLUMN snowflake_status.keeper_pid IS 'process ID of the keeper; NULL if it is not running';
COMMENT ON COLUMN snowflake_status.last_error IS 'problem that prevents the keeper from working; NULL if there is none';
COMMENT ON COLUMN snowflake_status.last_error_at IS 'time at which last_error was last found';
COMMENT ON COLUMN snowflake_status.warning IS 'problem that should be fixed although IDs can be issued; NULL if there is none';
COMMENT ON COLUMN snowflake_status.calls_waited IS 'number of calls that had to wait since the server was started';
COMMENT ON COLUMN snowflake_status.time_waited IS 'total time that calls have waited since the server was started';
COMMENT ON COLUMN snowflake_status.clock_steps_back IS 'number of times that the clock was set back since the server was started; the keeper checks about once per horizon_margin';
COMMENT ON COLUMN snowflake_status.largest_clock_step_back IS 'largest backward step of the clock since the server was started';
COMMENT ON COLUMN snowflake_status.registry_state IS 'how things are with the registry: starting, granted, unreachable, permission denied, not started, all taken, quarantine, clock differs, another registry, misconfigured';
COMMENT ON COLUMN snowflake_status.lease_until IS 'end of the lease of the worker ID: no ID contains this time or a later one';
COMMENT ON COLUMN snowflake_status.lease_renewed_at IS 'time at which the registry last granted or renewed the lease';
COMMENT ON COLUMN snowflake_status.clock_offset IS 'how far the clock of this server is ahead of the clock of the registry';

CREATE VIEW snowflake_layout_status AS SELECT * FROM @extschema@.snowflake_layouts_in_use();
COMMENT ON VIEW snowflake_layout_status IS 'one row for each layout in which this server has issued snowflake IDs since it was started';

COMMENT ON COLUMN snowflake_layout_status.layout IS 'layout in use';
COMMENT ON COLUMN snowflake_layout_status.last_id_time IS 'time of the last ID in this layout; before the first ID, the floor';
COMMENT ON COLUMN snowflake_layout_status.ahead IS 'how far last_id_time is ahead of the clock';
COMMENT ON COLUMN snowflake_layout_status.ids_issued IS 'number of IDs issued in this layout since the server was started; lags by up to horizon_margin';
COMMENT ON COLUMN snowflake_layout_status.clock_seq IS 'value of the clock sequence in new IDs of this layout; NULL if the layout has none';

CREATE VIEW snowflake_clock_sequence AS SELECT * FROM @extschema@.snowflake_clock_sequence_values();
COMMENT ON VIEW snowflake_clock_sequence IS
    'values of the clock sequence: the value in use, and values that are temporarily exhausted';
COMMENT ON COLUMN snowflake_clock_sequence.clock_seq IS 'value of the clock sequence; 0 if the clock was never set back';
COMMENT ON COLUMN snowflake_clock_sequence.is_in_use IS 'whether layouts that have room for this value issue IDs with it now';
COMMENT ON COLUMN snowflake_clock_sequence.used_until IS 'time until which the value is exhausted; NULL for the value in use';

COMMENT ON FUNCTION snowflake_clock_sequence_values() IS
    'for view snowflake_clock_sequence';
COMMENT ON FUNCTION snowflake_server_status() IS
    'for view snowflake_status';
COMMENT ON FUNCTION snowflake_layouts_in_use() IS
    'for view snowflake_layout_status';
COMMENT ON FUNCTION snowflake_accept_clock() IS
    'accepts a clock that jumped ahead, so that IDs are issued again';
COMMENT ON FUNCTION snowflake_advance(timestamptz) IS
    'raises the floor: no more IDs with an earlier time are issued';
COMMENT ON FUNCTION snowflake_reset_horizon(int, int) IS
    'resets the horizon to the present after the clock was far ahead, under a worker ID that this server has never used';
