-- Masked IDs: the keys that have names, and the functions that use them without showing them.

COMMENT ON FUNCTION snowflake_mask(bigint, bytea) IS
    'the number that stands for a snowflake ID under a key of 16 bytes';
COMMENT ON FUNCTION snowflake_unmask(bigint, bytea) IS
    'the snowflake ID for which a number stands under a key of 16 bytes';

-- No name may look like a key. In place of a key one of 16 characters would be taken for it, silently, and
-- such a key is no secret; and what looks like a key is not to be shown when there is no such name.
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
    'secret keys of masked snowflake IDs; they are part of every dump and backup of the database';
COMMENT ON COLUMN snowflake_mask_key.name IS 'what snowflake_mask_named() and snowflake_unmask_named() are given';
COMMENT ON COLUMN snowflake_mask_key.key IS '16 random bytes; masked IDs can be read only as long as their key is kept';
COMMENT ON COLUMN snowflake_mask_key.created_at IS 'when the key was stored';
SELECT pg_catalog.pg_extension_config_dump('@extschema@.snowflake_mask_key', '');

-- Who may mask with a key need not be able to read it: snowflake_mask_named() calls this for everybody,
-- nobody else may. It runs with the rights of its owner, a superuser, whoever calls. So its body is bound
-- when it is made, and all that it looks at is a table to which nobody else can add a policy, a rule or an
-- index.
CREATE FUNCTION snowflake_mask_key_of(key_name text) RETURNS bytea
    STABLE STRICT PARALLEL SAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    LANGUAGE sql
    RETURN coalesce((SELECT k.key FROM @extschema@.snowflake_mask_key AS k
                     WHERE k.name OPERATOR(pg_catalog.=) snowflake_mask_key_of.key_name), '');
COMMENT ON FUNCTION snowflake_mask_key_of(text) IS 'a key of table snowflake_mask_key, empty if there is none; not for users';

-- They are not called snowflake_mask and snowflake_unmask: for a literal without a type PostgreSQL prefers
-- text to bytea, and would take a key for a name.
COMMENT ON FUNCTION snowflake_mask_named(bigint, text) IS
    'the number that stands for a snowflake ID under a key of table snowflake_mask_key';
COMMENT ON FUNCTION snowflake_unmask_named(bigint, text) IS
    'the snowflake ID for which a number stands under a key of table snowflake_mask_key';
