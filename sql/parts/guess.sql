-- Which layout an ID may be of.

COMMENT ON FUNCTION snowflake_guess_layout(bigint) IS
    'the presets that a snowflake ID may be of, the most likely first';
