-- IDs as text.

COMMENT ON FUNCTION snowflake_to_text(bigint, text) IS
    'a snowflake ID as text: crockford32, base36, base58, base62, base64url, decimal or hex';
COMMENT ON FUNCTION snowflake_from_text(text, text) IS
    'the snowflake ID that a text represents';
