-- Views snowflake_status, snowflake_layout_status and snowflake_clock_sequence, and the functions by which an administrator
-- sends requests to the keeper.

CREATE VIEW snowflake_status AS SELECT * FROM @extschema@.snowflake_server_status();
COMMENT ON VIEW snowflake_status IS 'whether this server can issue snowflake IDs: exactly one row';

COMMENT ON COLUMN snowflake_status.state IS 'whether IDs can be made, in a word: ready, starting, recovery, no worker id, worker id too large, datacenter id too large, no lease, lease ended, clock behind, clock jumped, horizon stalled, no keeper';
COMMENT ON COLUMN snowflake_status.datacenter_id IS 'the datacenter ID of new IDs';
COMMENT ON COLUMN snowflake_status.worker_id IS 'the worker ID of new IDs';
COMMENT ON COLUMN snowflake_status.identity_source IS 'where these two come from: settings, snowflake_worker or registry';
COMMENT ON COLUMN snowflake_status.node_name IS 'the name of this server in its fleet; its key in snowflake_worker';
COMMENT ON COLUMN snowflake_status.horizon IS 'the durable horizon: no ID bears this time or a later one';
COMMENT ON COLUMN snowflake_status.floor IS 'where IDs began after the start: none made since bears an earlier time';
COMMENT ON COLUMN snowflake_status.resumes_at IS 'when the clock is far enough for IDs in every layout in use';
COMMENT ON COLUMN snowflake_status.clock_jump IS 'how far the clock has jumped ahead, if that is not followed';
COMMENT ON COLUMN snowflake_status.keeper_pid IS 'the process ID of the keeper; NULL if it is not running';
COMMENT ON COLUMN snowflake_status.last_error IS 'what keeps the keeper from its work; NULL if all is well';
COMMENT ON COLUMN snowflake_status.last_error_at IS 'when last_error was last found';
COMMENT ON COLUMN snowflake_status.warning IS 'what should be mended although IDs can be made; NULL if all is well';
COMMENT ON COLUMN snowflake_status.calls_waited IS 'how many calls had to wait, since the server was started';
COMMENT ON COLUMN snowflake_status.time_waited IS 'how long calls waited, all together, since the server was started';
COMMENT ON COLUMN snowflake_status.clock_steps_back IS 'how often the clock was set back, since the server was started; the keeper looks about once per lease';
COMMENT ON COLUMN snowflake_status.largest_clock_step_back IS 'the largest step back of the clock, since the server was started';
COMMENT ON COLUMN snowflake_status.registry_state IS 'how things are with the registry: starting, granted, unreachable, permission denied, not started, all taken, quarantine, clock differs, another registry, misconfigured';
COMMENT ON COLUMN snowflake_status.lease_until IS 'the end of the lease of the worker ID: no ID bears this time or a later one';
COMMENT ON COLUMN snowflake_status.lease_renewed_at IS 'when the registry last granted or renewed the lease';
COMMENT ON COLUMN snowflake_status.clock_offset IS 'how far the clock of this server is ahead of that of the registry';

CREATE VIEW snowflake_layout_status AS SELECT * FROM @extschema@.snowflake_layouts_in_use();
COMMENT ON VIEW snowflake_layout_status IS 'one row for each layout in which this server has issued snowflake IDs since it was started';

COMMENT ON COLUMN snowflake_layout_status.layout IS 'a layout in use; the columns from here on are about it';
COMMENT ON COLUMN snowflake_layout_status.last_id_time IS 'the time of the last ID in this layout; before the first one, the floor';
COMMENT ON COLUMN snowflake_layout_status.ahead IS 'how far last_id_time is ahead of the clock';
COMMENT ON COLUMN snowflake_layout_status.ids_issued IS 'how many IDs were taken in this layout, since the server was started; lags by up to a lease';
COMMENT ON COLUMN snowflake_layout_status.clock_seq IS 'the value of the clock sequence in new IDs of this layout; NULL if it has none';

CREATE VIEW snowflake_clock_sequence AS SELECT * FROM @extschema@.snowflake_clock_sequence_values();
COMMENT ON VIEW snowflake_clock_sequence IS
    'the value of the clock sequence in use, and those that are used up for a while';
COMMENT ON COLUMN snowflake_clock_sequence.clock_seq IS 'the value; 0 as long as the clock was never set back';
COMMENT ON COLUMN snowflake_clock_sequence.is_in_use IS 'whether layouts that have room for it make IDs with it now';
COMMENT ON COLUMN snowflake_clock_sequence.used_until IS 'until when it is used up; NULL for the one in use';

COMMENT ON FUNCTION snowflake_clock_sequence_values() IS
    'for view snowflake_clock_sequence';
COMMENT ON FUNCTION snowflake_server_status() IS
    'for view snowflake_status';
COMMENT ON FUNCTION snowflake_layouts_in_use() IS
    'for view snowflake_layout_status';
COMMENT ON FUNCTION snowflake_accept_clock() IS
    'follows a clock that jumped ahead, so that IDs go on';
COMMENT ON FUNCTION snowflake_advance(timestamptz) IS
    'makes no more IDs whose time is earlier';
COMMENT ON FUNCTION snowflake_reset_horizon(int, int) IS
    'resets the horizon to the present after the clock was far ahead, under a worker ID that this server has never used';
