-- Masked IDs: the named keys, and the functions that use the keys without revealing them.

COMMENT ON FUNCTION snowflake_mask(bigint, bytea) IS
    'a snowflake ID masked with a key of 16 bytes';
COMMENT ON FUNCTION snowflake_unmask(bigint, bytea) IS
    'the snowflake ID of a number that was masked with a key of 16 bytes';

-- A name must not look like a key. A name of 16 characters passed as a key would silently be used as the key,
-- which would then not be secret. And if an argument looks like a key, the error for a missing name must not show it.
CREATE TABLE snowflake_mask_key (
    name text PRIMARY KEY
        CONSTRAINT snowflake_mask_key_name_is_not_empty CHECK (name OPERATOR(pg_catalog.<>) '')
        CONSTRAINT snowflake_mask_key_name_is_no_key CHECK (
            pg_catalog.char_length(name) OPERATOR(pg_catalog.<>) 16 AND NOT pg_catalog.starts_with(name, E'\\x')
        ),
    key bytea NOT NULL
        CONSTRAINT snowflake_mask_key_has_16_bytes CHECK (pg_catalog.octet_length(key) OPERATOR(pg_catalog.=) 16),
    created_at timestamptz NOT NULL DEFAULT pg_catalog.now()
);
COMMENT ON TABLE snowflake_mask_key IS
    'secret keys of masked snowflake IDs; included in every dump and backup of the database';
COMMENT ON COLUMN snowflake_mask_key.name IS 'name of the key, the argument of snowflake_mask_named() and snowflake_unmask_named()';
COMMENT ON COLUMN snowflake_mask_key.key IS '16 random bytes; without the key, IDs masked with it cannot be read';
COMMENT ON COLUMN snowflake_mask_key.created_at IS 'time at which the key was stored';
SELECT pg_catalog.pg_extension_config_dump('@extschema@.snowflake_mask_key', '');

-- A role that may mask with a key need not be able to read it: snowflake_mask_named() calls this function for
-- all roles, which have no EXECUTE on it themselves. It runs with the privileges of its owner, a superuser.
-- Therefore its body is resolved when it is created, and it reads only a table to which no other role can add a
-- policy, a rule or an index.
CREATE FUNCTION snowflake_mask_key_of(key_name text) RETURNS bytea
    STABLE STRICT PARALLEL SAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    LANGUAGE sql
    RETURN coalesce((SELECT k.key FROM @extschema@.snowflake_mask_key AS k
                     WHERE k.name OPERATOR(pg_catalog.=) snowflake_mask_key_of.key_name), '');
COMMENT ON FUNCTION snowflake_mask_key_of(text) IS 'a key of table snowflake_mask_key, empty if there is none; internal';

-- They have names of their own, not snowflake_mask and snowflake_unmask: for an untyped literal PostgreSQL prefers
-- text to bytea, and would take a key for a name.
COMMENT ON FUNCTION snowflake_mask_named(bigint, text) IS
    'a snowflake ID masked with a key of table snowflake_mask_key';
COMMENT ON FUNCTION snowflake_unmask_named(bigint, text) IS
    'the snowflake ID of a number that was masked with a key of table snowflake_mask_key';
