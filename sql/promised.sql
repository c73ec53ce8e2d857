-- What is stored goes with the extension when that is dropped, while the server goes on under the horizon that it has
-- promised, and the worker ID that it has. Created again, the extension stores both with everything else: the keeper would do so
-- at its next look only, and a crash before that would leave a past that nobody knows.
DO $$
BEGIN
    IF pg_catalog.current_setting('snowflake_id.database', true)
        OPERATOR(pg_catalog.=) pg_catalog.current_database()
    THEN
        PERFORM pg_catalog.setval('snowflake_internal.horizon',
                                  (extract(epoch FROM greatest(horizon, floor)) OPERATOR(pg_catalog.*) 1000000)::pg_catalog.int8)
        FROM @extschema@.snowflake_server_status()
        WHERE horizon IS NOT NULL OR floor IS NOT NULL;
        INSERT INTO snowflake_internal.used_identity (datacenter_id, worker_id)
        SELECT datacenter_id, worker_id
        FROM @extschema@.snowflake_server_status()
        WHERE worker_id IS NOT NULL;
    END IF;
EXCEPTION WHEN object_not_in_prerequisite_state THEN
    NULL; -- The library is not preloaded.
END
$$;
