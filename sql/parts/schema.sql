-- The schema of the internal objects: relations that the server itself writes, and functions that other objects of the
-- extension call. Another role may own the schema of the extension, but as long as the extension exists, only a superuser
-- owns this one.
CREATE SCHEMA snowflake_internal;
COMMENT ON SCHEMA snowflake_internal IS 'internal objects of extension snowflake_id';
