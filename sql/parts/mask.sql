-- Functions that mask IDs, and the table of named keys.

COMMENT ON FUNCTION snowflake_mask(bigint, bytea) IS
    'snowflake ID masked with a key of 16 bytes';
COMMENT ON FUNCTION snowflake_unmask(bigint, bytea) IS
    'snowflake ID of a number that was masked with a key of 16 bytes';
COMMENT ON FUNCTION snowflake_mask(bigint, bytea, integer) IS
    'number masked with a key of 16 bytes, as another number with at most as many digits';
COMMENT ON FUNCTION snowflake_unmask(bigint, bytea, integer) IS
    'number that was masked with a key of 16 bytes and a number of digits';
COMMENT ON FUNCTION snowflake_mask(bigint, bytea, text) IS
    'snowflake ID masked with a key of 16 bytes, as a number that fits in the bits of the layout';
COMMENT ON FUNCTION snowflake_unmask(bigint, bytea, text) IS
    'snowflake ID of a number that was masked with a key of 16 bytes and a layout';

-- A name must not look like a key. If a name of 16 bytes were passed as a key, the name itself would silently be used as
-- the key, which would then not be secret. In a key, a backslash introduces other bytes. If an argument looks like a key,
-- the error for a missing name must not show the argument.
CREATE TABLE snowflake_mask_keys (
    name text PRIMARY KEY
        CONSTRAINT snowflake_mask_keys_name_is_not_empty CHECK (name OPERATOR(pg_catalog.<>) '')
        CONSTRAINT snowflake_mask_keys_name_is_no_key CHECK (
            pg_catalog.octet_length(name) OPERATOR(pg_catalog.<>) 16
            AND pg_catalog.strpos(name, E'\\') OPERATOR(pg_catalog.=) 0
        ),
    key bytea NOT NULL
        CONSTRAINT snowflake_mask_keys_has_16_bytes CHECK (pg_catalog.octet_length(key) OPERATOR(pg_catalog.=) 16),
    created_at timestamptz NOT NULL DEFAULT pg_catalog.now(),
    next_key bytea
        CONSTRAINT snowflake_mask_keys_next_has_16_bytes CHECK (pg_catalog.octet_length(next_key) OPERATOR(pg_catalog.=) 16),
    previous_key bytea
        CONSTRAINT snowflake_mask_keys_previous_has_16_bytes CHECK (pg_catalog.octet_length(previous_key) OPERATOR(pg_catalog.=) 16),
    switched_at timestamptz,
    CONSTRAINT snowflake_mask_keys_has_two_keys_at_most CHECK (next_key IS NULL OR previous_key IS NULL)
);
COMMENT ON TABLE snowflake_mask_keys IS
    'secret keys of masked snowflake IDs; included in every dump and backup of the database';
COMMENT ON COLUMN snowflake_mask_keys.name IS 'name of the key, the argument of snowflake_mask_named() and snowflake_unmask_named()';
COMMENT ON COLUMN snowflake_mask_keys.key IS 'key, 16 random bytes; if the key is lost, IDs masked with the key cannot be read';
COMMENT ON COLUMN snowflake_mask_keys.created_at IS 'time at which the name was stored';
COMMENT ON COLUMN snowflake_mask_keys.next_key IS
    'key that will replace the key; public IDs and UUIDs made with it are already read; set by snowflake_prepare_mask_key()';
COMMENT ON COLUMN snowflake_mask_keys.previous_key IS
    'key that was replaced; public IDs and UUIDs made with it are still read; removed by snowflake_drop_previous_mask_key()';
COMMENT ON COLUMN snowflake_mask_keys.switched_at IS 'time at which the key replaced the previous key';
SELECT pg_catalog.pg_extension_config_dump('@extschema@.snowflake_mask_keys', '');

-- A role can mask IDs with a key without the privilege to read the key: snowflake_mask_named() calls this function for
-- all roles, and no role has EXECUTE on this function. The function runs with the privileges of its owner, a superuser.
-- Therefore its body is resolved when the function is created, and reads only a table to which no other role can add
-- a policy, a rule or an index.
CREATE FUNCTION snowflake_internal.snowflake_mask_key_of(key_name text) RETURNS bytea
    STABLE STRICT PARALLEL SAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    LANGUAGE sql
    RETURN coalesce((SELECT k.key OPERATOR(pg_catalog.||) coalesce(k.previous_key, k.next_key, '')
                     FROM @extschema@.snowflake_mask_keys AS k
                     WHERE k.name OPERATOR(pg_catalog.=) snowflake_mask_key_of.key_name), '');
COMMENT ON FUNCTION snowflake_internal.snowflake_mask_key_of(text) IS
    'named key of table snowflake_mask_keys, followed by its previous or next key, or an empty key if there is no such name; internal';

-- These functions do not overload snowflake_mask and snowflake_unmask, because PostgreSQL resolves an untyped literal
-- as text rather than bytea, and would treat a key as a name.
COMMENT ON FUNCTION snowflake_mask_named(bigint, text) IS
    'snowflake ID masked with a key of table snowflake_mask_keys';
COMMENT ON FUNCTION snowflake_unmask_named(bigint, text) IS
    'snowflake ID of a number that was masked with a key of table snowflake_mask_keys';
COMMENT ON FUNCTION snowflake_mask_named(bigint, text, integer) IS
    'number masked with a key of table snowflake_mask_keys, as another number with at most as many digits';
COMMENT ON FUNCTION snowflake_unmask_named(bigint, text, integer) IS
    'number that was masked with a key of table snowflake_mask_keys and a number of digits';
COMMENT ON FUNCTION snowflake_mask_named(bigint, text, text) IS
    'snowflake ID masked with a key of table snowflake_mask_keys, as a number that fits in the bits of the layout';
COMMENT ON FUNCTION snowflake_unmask_named(bigint, text, text) IS
    'snowflake ID of a number that was masked with a key of table snowflake_mask_keys and a layout';
