-- Functions that convert IDs to text and back.

COMMENT ON FUNCTION snowflake_to_text(bigint, text) IS
    'snowflake ID as text, encoded as crockford32, base36, base58, base62, base64url, decimal or hex';
COMMENT ON FUNCTION snowflake_from_text(text, text) IS
    'snowflake ID represented by a text';
