-- Guessing the layout of an ID.

COMMENT ON FUNCTION snowflake_guess_layout(bigint) IS
    'the presets that may be the layout of a snowflake ID, most likely first';
