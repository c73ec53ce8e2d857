-- All materialized views of snowflake_internal are there. From now on their query fails: see horizon.sql.
CREATE OR REPLACE FUNCTION snowflake_internal.refuse_refresh() RETURNS boolean VOLATILE PARALLEL UNSAFE LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'materialized view is written by snowflake_id alone'
        USING ERRCODE = 'object_not_in_prerequisite_state',
              HINT = 'Leave schema snowflake_internal out of the refresh.';
END
$$;
