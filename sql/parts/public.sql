-- Functions that convert IDs to public IDs and UUIDs, and back.

COMMENT ON FUNCTION snowflake_to_public(bigint, text) IS
    'snowflake ID as a public ID: text with a prefix, such as cus_4aaW4SzAyQK';
COMMENT ON FUNCTION snowflake_to_public(bigint, text, bytea) IS
    'snowflake ID as a public ID that can be read only with a key of 16 bytes';
COMMENT ON FUNCTION snowflake_to_public_named(bigint, text, text) IS
    'snowflake ID as a public ID that can be read only with a key of table snowflake_mask_keys';
COMMENT ON FUNCTION snowflake_from_public(text, text) IS
    'snowflake ID of a public ID';
COMMENT ON FUNCTION snowflake_from_public(text, text, bytea) IS
    'snowflake ID of a public ID that was made with a key of 16 bytes';
COMMENT ON FUNCTION snowflake_from_public_named(text, text, text) IS
    'snowflake ID of a public ID that was made with a key of table snowflake_mask_keys';

COMMENT ON FUNCTION snowflake_to_uuid(bigint) IS
    'snowflake ID as a UUID of version 8 that starts with the digits of the ID';
COMMENT ON FUNCTION snowflake_to_uuid(bigint, bytea, text) IS
    'snowflake ID as a UUID of version 8 that can be read only with a key of 16 bytes';
COMMENT ON FUNCTION snowflake_to_uuid_named(bigint, text, text) IS
    'snowflake ID as a UUID of version 8 that can be read only with a key of table snowflake_mask_keys';
COMMENT ON FUNCTION snowflake_from_uuid(uuid) IS
    'snowflake ID of a UUID of version 8';
COMMENT ON FUNCTION snowflake_from_uuid(uuid, bytea, text) IS
    'snowflake ID of a UUID of version 8 that was made with a key of 16 bytes';
COMMENT ON FUNCTION snowflake_from_uuid_named(uuid, text, text) IS
    'snowflake ID of a UUID of version 8 that was made with a key of table snowflake_mask_keys';
