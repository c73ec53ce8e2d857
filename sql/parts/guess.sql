-- A function that guesses the layout of an ID.

COMMENT ON FUNCTION snowflake_guess_layout(bigint) IS
    'presets with which a snowflake ID may have been generated, most likely first';
