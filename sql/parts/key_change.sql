-- Functions that change the key of a name in three steps:
--
--   step                               key    next_key  previous_key
--                                      old
--   snowflake_prepare_mask_key()       old    new                     public IDs and UUIDs of both keys are read
--   snowflake_switch_mask_key()        new              old           .. and new ones are made with the new key
--   snowflake_drop_previous_mask_key() new                            only those of the new key are read
--
-- The first step is separate, because other servers and transactions must know the new key before anything is made with
-- it. An administrator needs only EXECUTE on these functions, and sees no key.
--
-- The functions run with the privileges of their owner, a superuser, but another role may own the schema of the
-- extension, and may replace what is in it. Therefore their bodies are resolved when the functions are created. No
-- statement contains a key, and no constraint fails, because the error would show the row. A key that the server generates
-- is never an argument, because settings such as debug_print_plan, and auto_explain, show arguments.

CREATE FUNCTION snowflake_internal.snowflake_mask_key_state(key_name text, new_key bytea) RETURNS text
    VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp LANGUAGE sql
BEGIN ATOMIC
    SELECT CASE WHEN k.next_key IS NOT NULL THEN 'prepared'
                WHEN k.previous_key IS NOT NULL THEN 'switched'
                WHEN k.key OPERATOR(pg_catalog.=) snowflake_mask_key_state.new_key THEN 'same'
                ELSE 'single' END
    FROM @extschema@.snowflake_mask_keys AS k
    WHERE k.name OPERATOR(pg_catalog.=) snowflake_mask_key_state.key_name
    FOR UPDATE;
END;
COMMENT ON FUNCTION snowflake_internal.snowflake_mask_key_state(text, bytea) IS
    'locks a named key, and returns the last step of its change; internal';
COMMENT ON FUNCTION snowflake_internal.snowflake_mask_key_step(text, text, bytea, text) IS
    'raises an error unless a named key can take a step; internal';

CREATE FUNCTION snowflake_prepare_mask_key(key_name text) RETURNS void
    VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp LANGUAGE sql
BEGIN ATOMIC
    SELECT snowflake_internal.snowflake_mask_key_step(
        'generate'::pg_catalog.text, snowflake_prepare_mask_key.key_name, NULL::pg_catalog.bytea,
        snowflake_internal.snowflake_mask_key_state(snowflake_prepare_mask_key.key_name, NULL::pg_catalog.bytea));
    UPDATE @extschema@.snowflake_mask_keys AS k
    SET next_key = pg_catalog.uuid_send(pg_catalog.gen_random_uuid())
    WHERE k.name OPERATOR(pg_catalog.=) snowflake_prepare_mask_key.key_name;
END;
COMMENT ON FUNCTION snowflake_prepare_mask_key(text) IS
    'generates the next key of a named key; public IDs and UUIDs that were made with it can be read from now on';

CREATE FUNCTION snowflake_prepare_mask_key(key_name text, new_key bytea) RETURNS void
    VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp LANGUAGE sql
BEGIN ATOMIC
    SELECT snowflake_internal.snowflake_mask_key_step(
        'prepare'::pg_catalog.text, snowflake_prepare_mask_key.key_name, snowflake_prepare_mask_key.new_key,
        snowflake_internal.snowflake_mask_key_state(snowflake_prepare_mask_key.key_name, snowflake_prepare_mask_key.new_key));
    UPDATE @extschema@.snowflake_mask_keys AS k
    SET next_key = snowflake_prepare_mask_key.new_key
    WHERE k.name OPERATOR(pg_catalog.=) snowflake_prepare_mask_key.key_name;
END;
COMMENT ON FUNCTION snowflake_prepare_mask_key(text, bytea) IS
    'stores the next key of a named key; public IDs and UUIDs that were made with it can be read from now on';

CREATE FUNCTION snowflake_switch_mask_key(key_name text) RETURNS void
    VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp LANGUAGE sql
BEGIN ATOMIC
    SELECT snowflake_internal.snowflake_mask_key_step(
        'switch'::pg_catalog.text, snowflake_switch_mask_key.key_name, NULL::pg_catalog.bytea,
        snowflake_internal.snowflake_mask_key_state(snowflake_switch_mask_key.key_name, NULL::pg_catalog.bytea));
    UPDATE @extschema@.snowflake_mask_keys AS k
    SET (key, next_key, previous_key, switched_at) = ROW (k.next_key, NULL, k.key, pg_catalog.now())
    WHERE k.name OPERATOR(pg_catalog.=) snowflake_switch_mask_key.key_name;
END;
COMMENT ON FUNCTION snowflake_switch_mask_key(text) IS
    'replaces the key of a named key by the next key; public IDs and UUIDs that were made with the previous key can still be read';

CREATE FUNCTION snowflake_drop_previous_mask_key(key_name text) RETURNS void
    VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp LANGUAGE sql
BEGIN ATOMIC
    SELECT snowflake_internal.snowflake_mask_key_step(
        'drop'::pg_catalog.text, snowflake_drop_previous_mask_key.key_name, NULL::pg_catalog.bytea,
        snowflake_internal.snowflake_mask_key_state(snowflake_drop_previous_mask_key.key_name, NULL::pg_catalog.bytea));
    UPDATE @extschema@.snowflake_mask_keys AS k
    SET previous_key = NULL
    WHERE k.name OPERATOR(pg_catalog.=) snowflake_drop_previous_mask_key.key_name;
END;
COMMENT ON FUNCTION snowflake_drop_previous_mask_key(text) IS
    'removes the previous key of a named key; public IDs and UUIDs that were made with it can no longer be read';
