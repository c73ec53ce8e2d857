-- All materialized views of snowflake_internal have been created. From now on, their queries fail. See horizon.sql.
CREATE OR REPLACE FUNCTION snowflake_internal.refuse_refresh() RETURNS boolean VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'cannot refresh materialized views of schema "snowflake_internal"'
        USING ERRCODE = 'object_not_in_prerequisite_state',
              DETAIL = 'Only the server itself writes these views, and a refresh would empty them.',
              HINT = 'Exclude schema snowflake_internal from the refresh.';
END
$$;
