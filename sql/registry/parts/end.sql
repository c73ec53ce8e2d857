-- If the script is run by CREATE EXTENSION, mark the tables as configuration tables, so that dumps contain all grants.
IF EXISTS (
    SELECT FROM pg_depend
    WHERE classid = 'pg_class'::regclass AND objid = 'snowflake_registry.lease'::regclass AND deptype = 'e'
) THEN
    PERFORM pg_extension_config_dump('snowflake_registry.settings', '');
    PERFORM pg_extension_config_dump('snowflake_registry.signing_key', '');
    PERFORM pg_extension_config_dump('snowflake_registry.lease', '');
    PERFORM pg_extension_config_dump('snowflake_registry.segment', '');
    -- In a dump, a role that was dropped would be a number, which another role may have where the dump is restored.
    PERFORM pg_extension_config_dump(
        'snowflake_registry.segment_privilege',
        'WHERE EXISTS (SELECT FROM pg_catalog.pg_roles AS known WHERE known.oid OPERATOR(pg_catalog.=) role)');
END IF;

PERFORM set_config('search_path', search_path_before, true);
END
$registry$;
