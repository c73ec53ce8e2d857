-- If the script is run by CREATE EXTENSION, mark the tables as configuration tables, so that dumps contain all grants.
IF EXISTS (
    SELECT FROM pg_depend
    WHERE classid = 'pg_class'::regclass AND objid = 'snowflake_registry.lease'::regclass AND deptype = 'e'
) THEN
    PERFORM pg_extension_config_dump('snowflake_registry.settings', '');
    PERFORM pg_extension_config_dump('snowflake_registry.signing_key', '');
    PERFORM pg_extension_config_dump('snowflake_registry.lease', '');
    PERFORM pg_extension_config_dump('snowflake_registry.segment', '');
END IF;

PERFORM set_config('search_path', search_path_before, true);
END
$registry$;
